/* SPDX-License-Identifier: MIT
 *
 * Environments of launchers, and the facts parsed from them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source/host/scheduler.h"

#define MIB (INT64_C(1) << 20)
#define S   INT64_C(1000000000)
#define NO  -1 /* unknown is expected */

struct setting {
	const char *name, *value;
};

/* A launcher's environment, and the expected result. */
struct expected {
	const char *of;
	struct setting env[24];
	const char *name, *job, *node;
	int64_t rank, ranks, local_rank, nodes;
	int64_t bytes, cpus, time_ns, gpus; /* gpus: 0: unknown */
	bool step, leader;
};

#define NOBODY        .rank = NO, .ranks = NO, .local_rank = NO, .nodes = NO
#define NOTHING_ASKED .bytes = NO, .cpus = NO, .time_ns = NO

/* sbatch's variables in a script of one node and one task (slurm 23.11), those that are read here. */
#define BATCH_4711 \
	{ "SLURM_JOB_ID", "4711" }, { "SLURM_PROCID", "0" }, { "SLURM_LOCALID", "0" }, \
		{ "SLURM_NODEID", "0" }, { "SLURM_NNODES", "1" }, { "SLURMD_NODENAME", "n17" }, \
		{ "SLURM_JOB_START_TIME", "1700000000" }, { "SLURM_JOB_END_TIME", "1700003600" }

static const struct expected launches[] = {
	{ .of = "a desktop",
		.env = { { "HOME", "/root" }, { "RANK", "3" }, { "WORLD_SIZE", "4" } },
		.name = "",
		NOBODY,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "a variable without a value",
		.env = { { "SLURM_JOB_ID", "" }, { "PBS_JOBID", "" } },
		.name = "",
		NOBODY,
		NOTHING_ASKED,
		.leader = true },

	{ .of = "sbatch, one task",
		.env = { BATCH_4711, { "SLURM_NTASKS", "1" }, { "SLURM_CPUS_PER_TASK", "3" },
			{ "SLURM_CPUS_ON_NODE", "4" }, { "SLURM_MEM_PER_NODE", "8192" } },
		.name = "slurm",
		.job = "4711",
		.node = "n17",
		.rank = 0,
		.ranks = NO,
		.local_rank = 0,
		.nodes = 1,
		.bytes = 8192 * MIB,
		.cpus = 3,
		.time_ns = 3600 * S,
		.leader = true },
	{ .of = "sbatch, no number of tasks",
		.env = { BATCH_4711, { "SLURM_CPUS_ON_NODE", "2" } },
		.name = "slurm",
		.job = "4711",
		.node = "n17",
		.rank = 0,
		.ranks = NO,
		.local_rank = 0,
		.nodes = 1,
		.bytes = NO,
		.cpus = 2,
		.time_ns = 3600 * S,
		.leader = true },
	{ .of = "sbatch of eight tasks: the script has all their CPUs",
		.env = { BATCH_4711, { "SLURM_NTASKS", "8" }, { "SLURM_CPUS_PER_TASK", "1" },
			{ "SLURM_CPUS_ON_NODE", "8" }, { "SLURM_MEM_PER_CPU", "2000" } },
		.name = "slurm",
		.job = "4711",
		.node = "n17",
		.rank = 0,
		.ranks = NO,
		.local_rank = 0,
		.nodes = 1,
		.bytes = 16000 * MIB,
		.cpus = 8,
		.time_ns = 3600 * S,
		.leader = true },
	{ .of = "sbatch --mem=0: the whole node",
		.env = { BATCH_4711, { "SLURM_MEM_PER_NODE", "0" } },
		.name = "slurm",
		.job = "4711",
		.node = "n17",
		.rank = 0,
		.ranks = NO,
		.local_rank = 0,
		.nodes = 1,
		.bytes = NO,
		.cpus = NO,
		.time_ns = 3600 * S,
		.leader = true },
	{ .of = "sbatch --mem-per-gpu",
		.env = { BATCH_4711, { "SLURM_MEM_PER_GPU", "4096" }, { "SLURM_GPUS_ON_NODE", "2" } },
		.name = "slurm",
		.job = "4711",
		.node = "n17",
		.rank = 0,
		.ranks = NO,
		.local_rank = 0,
		.nodes = 1,
		.bytes = 8192 * MIB,
		.cpus = NO,
		.time_ns = 3600 * S,
		.gpus = 2,
		.leader = true },
	{ .of = "an array's task",
		.env = { { "SLURM_JOB_ID", "4713" }, { "SLURM_ARRAY_JOB_ID", "4711" },
			{ "SLURM_ARRAY_TASK_ID", "2" }, { "SLURM_PROCID", "0" } },
		.name = "slurm",
		.job = "4711_2",
		.rank = 0,
		.ranks = NO,
		.local_rank = NO,
		.nodes = NO,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "salloc's shell",
		.env = { { "SLURM_JOB_ID", "12" }, { "SLURM_NNODES", "2" } },
		.name = "slurm",
		.job = "12",
		.rank = NO,
		.ranks = NO,
		.local_rank = NO,
		.nodes = 2,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "salloc's shell as an interactive step",
		.env = { { "SLURM_JOB_ID", "12" }, { "SLURM_PROCID", "0" }, { "SLURM_STEP_ID", "4294967290" },
			{ "SLURM_NTASKS", "4" } },
		.name = "slurm",
		.job = "12",
		.rank = 0,
		.ranks = NO,
		.local_rank = NO,
		.nodes = NO,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "srun's first task of four on two nodes",
		.env = { BATCH_4711, { "SLURM_STEP_ID", "0" }, { "SLURM_STEP_NUM_TASKS", "4" },
			{ "SLURM_NTASKS", "8" }, { "SLURM_CPUS_PER_TASK", "2" },
			{ "SLURM_CPUS_ON_NODE", "4" } },
		.name = "slurm",
		.job = "4711.0",
		.node = "n17",
		.rank = 0,
		.ranks = 4,
		.local_rank = 0,
		.nodes = 1,
		.bytes = NO,
		.cpus = 2,
		.time_ns = 3600 * S,
		.step = true,
		.leader = true },
	{ .of = "the second node's first task",
		.env = { { "SLURM_JOB_ID", "5" }, { "SLURM_STEP_ID", "1" }, { "SLURM_PROCID", "2" },
			{ "SLURM_LOCALID", "0" }, { "SLURM_NTASKS", "4" }, { "SLURM_CPUS_ON_NODE", "4" } },
		.name = "slurm",
		.job = "5.1",
		.rank = 2,
		.ranks = 4,
		.local_rank = 0,
		.nodes = NO,
		NOTHING_ASKED,
		.step = true,
		.leader = true },
	{ .of = "its second task",
		.env = { { "SLURM_JOB_ID", "5" }, { "SLURM_STEP_ID", "1" }, { "SLURM_PROCID", "3" },
			{ "SLURM_LOCALID", "1" }, { "SLURM_NTASKS", "4" } },
		.name = "slurm",
		.job = "5.1",
		.rank = 3,
		.ranks = 4,
		.local_rank = 1,
		.nodes = NO,
		NOTHING_ASKED,
		.step = true,
		.leader = false },
	{ .of = "a step of an array's task",
		.env = { { "SLURM_JOB_ID", "4713" }, { "SLURM_ARRAY_JOB_ID", "4711" },
			{ "SLURM_ARRAY_TASK_ID", "2" }, { "SLURM_STEP_ID", "0" }, { "SLURM_PROCID", "0" },
			{ "SLURM_NTASKS", "1" } },
		.name = "slurm",
		.job = "4711_2.0",
		.rank = 0,
		.ranks = 1,
		.local_rank = NO,
		.nodes = NO,
		NOTHING_ASKED,
		.step = true,
		.leader = true },
	{ .of = "srun --mpi=pmix: both say the same",
		.env = { { "SLURM_JOB_ID", "5" }, { "SLURM_STEP_ID", "1" }, { "SLURM_PROCID", "3" },
			{ "PMIX_RANK", "3" }, { "SLURM_LOCALID", "1" }, { "SLURM_NTASKS", "4" } },
		.name = "slurm",
		.job = "5.1",
		.rank = 3,
		.ranks = 4,
		.local_rank = 1,
		.nodes = NO,
		NOTHING_ASKED,
		.step = true,
		.leader = false },

	{ .of = "torchrun on a desktop",
		.env = { { "TORCHELASTIC_RUN_ID", "none" }, { "RANK", "1" }, { "WORLD_SIZE", "2" },
			{ "LOCAL_RANK", "1" } },
		.name = "torchrun",
		.job = "none",
		.rank = 1,
		.ranks = 2,
		.local_rank = 1,
		.nodes = NO,
		NOTHING_ASKED,
		.leader = false },
	{ .of = "torchrun inside srun",
		.env = { { "SLURM_JOB_ID", "5" }, { "SLURM_STEP_ID", "0" }, { "SLURM_PROCID", "1" },
			{ "SLURM_LOCALID", "0" }, { "SLURM_NTASKS", "2" }, { "RANK", "13" },
			{ "WORLD_SIZE", "16" }, { "LOCAL_RANK", "5" }, { "TORCHELASTIC_RUN_ID", "5" } },
		.name = "slurm",
		.job = "5.0",
		.rank = 13,
		.ranks = 16,
		.local_rank = 5,
		.nodes = NO,
		NOTHING_ASKED,
		.step = true,
		.leader = false },
	{ .of = "torchrun inside a batch script",
		.env = { BATCH_4711, { "SLURM_NTASKS", "1" }, { "RANK", "1" }, { "WORLD_SIZE", "4" },
			{ "LOCAL_RANK", "1" }, { "TORCHELASTIC_RUN_ID", "x" } },
		.name = "slurm",
		.job = "4711",
		.node = "n17",
		.rank = 1,
		.ranks = 4,
		.local_rank = 1,
		.nodes = 1,
		.bytes = NO,
		.cpus = NO,
		.time_ns = 3600 * S,
		.leader = false },

	{ .of = "Open MPI's mpirun",
		.env = { { "OMPI_COMM_WORLD_RANK", "6" }, { "OMPI_COMM_WORLD_SIZE", "8" },
			{ "OMPI_COMM_WORLD_LOCAL_RANK", "2" }, { "OMPI_MCA_ess_base_jobid", "1842937857" },
			{ "PMIX_RANK", "6" } },
		.name = "mpi",
		.job = "1842937857",
		.rank = 6,
		.ranks = 8,
		.local_rank = 2,
		.nodes = NO,
		NOTHING_ASKED,
		.leader = false },
	{ .of = "mpirun inside a batch script, whose SLURM_PROCID=0 every rank inherits",
		.env = { BATCH_4711, { "SLURM_NTASKS", "8" }, { "OMPI_COMM_WORLD_RANK", "6" },
			{ "OMPI_COMM_WORLD_SIZE", "8" }, { "OMPI_COMM_WORLD_LOCAL_RANK", "6" } },
		.name = "slurm",
		.job = "4711",
		.node = "n17",
		.rank = 6,
		.ranks = 8,
		.local_rank = 6,
		.nodes = 1,
		.bytes = NO,
		.cpus = NO,
		.time_ns = 3600 * S,
		.leader = false },
	{ .of = "Hydra's mpirun inside one",
		.env = { BATCH_4711, { "PMI_RANK", "5" }, { "PMI_SIZE", "8" }, { "MPI_LOCALRANKID", "5" } },
		.name = "slurm",
		.job = "4711",
		.node = "n17",
		.rank = 5,
		.ranks = 8,
		.local_rank = 5,
		.nodes = 1,
		.bytes = NO,
		.cpus = NO,
		.time_ns = 3600 * S,
		.leader = false },
	{ .of = "Hydra's mpirun",
		.env = { { "PMI_RANK", "0" }, { "PMI_SIZE", "2" }, { "MPI_LOCALRANKID", "0" } },
		.name = "mpi",
		.job = "",
		.rank = 0,
		.ranks = 2,
		.local_rank = 0,
		.nodes = NO,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "PMIx alone",
		.env = { { "PMIX_RANK", "1" }, { "PMIX_NAMESPACE", "prterun-n1-9@1" } },
		.name = "mpi",
		.job = "prterun-n1-9@1",
		.rank = 1,
		.ranks = NO,
		.local_rank = NO,
		.nodes = NO,
		NOTHING_ASKED,
		.leader = false },

	{ .of = "flux run",
		.env = { { "FLUX_JOB_ID", "f3XmT" }, { "FLUX_TASK_RANK", "7" }, { "FLUX_TASK_LOCAL_ID", "0" },
			{ "FLUX_JOB_SIZE", "8" }, { "FLUX_JOB_NNODES", "2" }, { "PMI_RANK", "7" },
			{ "PMI_SIZE", "8" } },
		.name = "flux",
		.job = "f3XmT",
		.rank = 7,
		.ranks = 8,
		.local_rank = 0,
		.nodes = 2,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "PBS",
		.env = { { "PBS_JOBID", "12.head" }, { "NCPUS", "4" } },
		.name = "pbs",
		.job = "12.head",
		NOBODY,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "mpirun under PBS",
		.env = { { "PBS_JOBID", "12.head" }, { "OMPI_COMM_WORLD_RANK", "1" },
			{ "OMPI_COMM_WORLD_SIZE", "2" }, { "OMPI_COMM_WORLD_LOCAL_RANK", "0" } },
		.name = "pbs",
		.job = "12.head",
		.rank = 1,
		.ranks = 2,
		.local_rank = 0,
		.nodes = NO,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "LSF",
		.env = { { "LSB_JOBID", "99" }, { "PMIX_RANK", "4" } },
		.name = "lsf",
		.job = "99",
		.rank = 4,
		.ranks = NO,
		.local_rank = NO,
		.nodes = NO,
		NOTHING_ASKED,
		.leader = false },
	{ .of = "SGE",
		.env = { { "SGE_TASK_ID", "undefined" }, { "JOB_ID", "31" } },
		.name = "sge",
		.job = "31",
		NOBODY,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "a pod of Kubernetes",
		.env = { { "KUBERNETES_SERVICE_HOST", "10.0.0.1" }, { "HOSTNAME", "train-worker-1" } },
		.name = "kubernetes",
		.job = "",
		NOBODY,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "a worker of a training operator, which records although it is not the first: its pod is a node",
		.env = { { "KUBERNETES_SERVICE_HOST", "10.0.0.1" }, { "RANK", "1" }, { "WORLD_SIZE", "4" } },
		.name = "kubernetes",
		.job = "",
		.rank = 1,
		.ranks = 4,
		.local_rank = NO,
		.nodes = NO,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "an indexed job of Kubernetes",
		.env = { { "KUBERNETES_SERVICE_HOST", "10.0.0.1" }, { "JOB_COMPLETION_INDEX", "2" } },
		.name = "kubernetes",
		.job = "",
		.rank = 2,
		.ranks = NO,
		.local_rank = NO,
		.nodes = NO,
		NOTHING_ASKED,
		.leader = true },
	{ .of = "torchrun in a pod",
		.env = { { "KUBERNETES_SERVICE_HOST", "10.0.0.1" }, { "TORCHELASTIC_RUN_ID", "x" }, { "RANK", "1" },
			{ "WORLD_SIZE", "4" }, { "LOCAL_RANK", "1" } },
		.name = "torchrun",
		.job = "x",
		.rank = 1,
		.ranks = 4,
		.local_rank = 1,
		.nodes = NO,
		NOTHING_ASKED,
		.leader = false },
};

static const char *look_up(void *ctx, const char *name)
{
	const struct setting *env = ctx;

	for (; env->name; env++) {
		if (strcmp(env->name, name) == 0)
			return env->value;
	}
	return NULL;
}

static struct scheduler read_of(const struct setting *env)
{
	struct scheduler s;

	memset(&s, 0x55, sizeof(s)); /* all of it is overwritten */
	scheduler_read(look_up, (void *) (uintptr_t) env, &s);
	return s;
}

static void check_number(const char *of, const char *what, struct maybe value, int64_t expected)
{
	if (value.known != (expected != NO) || (value.known && value.value != expected))
		fail_msg("%s: %s is %s %lld, not %lld", of, what, value.known ? "known," : "unknown,",
			(long long) value.value, (long long) expected);
}

static void check_text(const char *of, const char *value, const char *expected)
{
	if (strcmp(value, expected ? expected : "") != 0)
		fail_msg("%s: '%s', not '%s'", of, value, expected ? expected : "");
}

static void launchers_are_understood(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
		const struct expected *e = &launches[i];
		const struct scheduler s = read_of(e->env);

		check_text(e->of, s.name, e->name);
		check_text(e->of, s.job, e->job);
		check_text(e->of, s.node, e->node);
		check_number(e->of, "rank", s.rank, e->rank);
		check_number(e->of, "ranks", s.ranks, e->ranks);
		check_number(e->of, "local rank", s.local_rank, e->local_rank);
		check_number(e->of, "nodes", s.nodes, e->nodes);
		check_number(e->of, "memory", s.request_bytes, e->bytes);
		check_number(e->of, "processors", s.request_cpus, e->cpus);
		check_number(e->of, "time", s.request_time_ns, e->time_ns);
		check_number(e->of, "GPUs", s.request_gpus, e->gpus > 0 ? e->gpus : NO);
		check_number(e->of, "step", known(s.step), e->step);
		check_number(e->of, "leader", known(scheduler_is_leader(&s)), e->leader);
	}
}

static const struct {
	const char *of;
	struct setting env[8];
	const char *selection; /* NULL: no scheduler says which GPUs it allocated */
} gpu_selections[] = {
	{ "a desktop", { { "CUDA_VISIBLE_DEVICES", "0" } }, NULL },
	{ "torchrun", { { "TORCHELASTIC_RUN_ID", "x" }, { "RANK", "0" }, { "CUDA_VISIBLE_DEVICES", "0" } }, NULL },
	{ "mpirun", { { "OMPI_COMM_WORLD_RANK", "1" }, { "CUDA_VISIBLE_DEVICES", "0" } }, NULL },
	{ "Slurm, no GPU", { { "SLURM_JOB_ID", "1" } }, "" },
	{ "Slurm: of the job's list, which is the batch node's", { { "SLURM_JOB_ID", "1" }, { "SLURM_JOB_GPUS", "0,1" } }, "" },
	{ "a step", { { "SLURM_JOB_ID", "1" }, { "SLURM_STEP_GPUS", "1" }, { "CUDA_VISIBLE_DEVICES", "0" } },
		"SLURM_STEP_GPUS=1;CUDA_VISIBLE_DEVICES=0" },
	{ "a batch script", { { "SLURM_JOB_ID", "1" }, { "CUDA_VISIBLE_DEVICES", "0" }, { "ROCR_VISIBLE_DEVICES", "0" } },
		"CUDA_VISIBLE_DEVICES=0;ROCR_VISIBLE_DEVICES=0" },
	{ "Slurm, an empty list", { { "SLURM_JOB_ID", "1" }, { "CUDA_VISIBLE_DEVICES", "" } }, "CUDA_VISIBLE_DEVICES=" },
	{ "PBS", { { "PBS_JOBID", "7.n" }, { "CUDA_VISIBLE_DEVICES", "GPU-0a" } }, "CUDA_VISIBLE_DEVICES=GPU-0a" },
	{ "PBS without GPUs", { { "PBS_JOBID", "7.n" } }, NULL },
	{ "LSF", { { "LSB_JOBID", "7" }, { "CUDA_VISIBLE_DEVICES", "3" } }, "CUDA_VISIBLE_DEVICES=3" },
	{ "SGE", { { "SGE_TASK_ID", "1" }, { "JOB_ID", "7" }, { "CUDA_VISIBLE_DEVICES", "3" } }, "CUDA_VISIBLE_DEVICES=3" },
	{ "Flux", { { "FLUX_JOB_ID", "f1" }, { "ZE_AFFINITY_MASK", "0.1" } }, "ZE_AFFINITY_MASK=0.1" },
};

static void selections_of_gpus_are_those_of_schedulers(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(gpu_selections) / sizeof(gpu_selections[0]); i++) {
		const struct scheduler s = read_of(gpu_selections[i].env);

		check_number(gpu_selections[i].of, "is known", known(s.selects_gpus), gpu_selections[i].selection != NULL);
		check_text(gpu_selections[i].of, s.gpu_selection, gpu_selections[i].selection);
	}
}

/* Users can set any value in the environment. */
static void nonsense_is_unknown(void **state)
{
	static const char *const nonsense[] = {
		"x",
		"-1",
		"+1",
		" 1",
		"1 ",
		"1.5",
		"0x1",
		"1e3",
		"99999999999999999999",
		"9223372036854775808",
		"\xff",
	};

	(void) state;
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		const char *n = nonsense[i];
		const struct setting env[] = {
			{ "SLURM_JOB_ID", "1" },
			{ "SLURM_STEP_ID", n },
			{ "SLURM_PROCID", n },
			{ "SLURM_LOCALID", n },
			{ "SLURM_NTASKS", n },
			{ "SLURM_NNODES", n },
			{ "SLURM_MEM_PER_NODE", n },
			{ "SLURM_CPUS_PER_TASK", n },
			{ "SLURM_JOB_START_TIME", n },
			{ "SLURM_JOB_END_TIME", "2" },
			{ NULL, NULL },
		};
		const struct scheduler s = read_of(env);

		check_number(n, "rank", s.rank, NO);
		check_number(n, "local rank", s.local_rank, NO);
		check_number(n, "ranks", s.ranks, NO);
		check_number(n, "nodes", s.nodes, NO);
		check_number(n, "memory", s.request_bytes, NO);
		check_number(n, "processors", s.request_cpus, NO);
		check_number(n, "time", s.request_time_ns, NO);
		assert_false(s.step);
	}
}

/* About as large as no machine is. */
static void overflows_are_unknown(void **state)
{
	static const struct setting large[] = {
		{ "SLURM_JOB_ID", "1" },
		{ "SLURM_MEM_PER_NODE", "9223372036854775807" },
		{ "SLURM_MEM_PER_CPU", "4611686018427387904" },
		{ "SLURM_CPUS_ON_NODE", "4" },
		{ "SLURM_JOB_START_TIME", "0" },
		{ "SLURM_JOB_END_TIME", "9223372036854775807" },
		{ NULL, NULL },
	};
	static const struct setting backwards[] = {
		{ "SLURM_JOB_ID", "1" },
		{ "SLURM_JOB_START_TIME", "1700003600" },
		{ "SLURM_JOB_END_TIME", "1700000000" },
		{ NULL, NULL },
	};
	struct scheduler s = read_of(large);

	(void) state;
	check_number("large", "memory", s.request_bytes, NO);
	check_number("large", "time", s.request_time_ns, NO);
	s = read_of(backwards);
	check_number("an end before the start", "time", s.request_time_ns, NO);
}

static void long_names_are_cut(void **state)
{
	char name[1024];
	const struct setting env[] = {
		{ "SLURM_JOB_ID", name },
		{ "SLURMD_NODENAME", name },
		{ NULL, NULL },
	};

	(void) state;
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	const struct scheduler s = read_of(env);

	assert_int_equal(strlen(s.job), sizeof(s.job) - 1);
	assert_int_equal(strlen(s.node), sizeof(s.node) - 1);
}

static void assert_name(const char *pattern, const struct scheduler *s, const char *expected)
{
	char *name = NULL;
	struct err err = { "" };

	assert_int_equal(scheduler_expand(pattern, s, &name, &err), 0);
	assert_string_equal(name, expected);
	free(name);
}

static void names_have_the_rank_and_more(void **state)
{
	static const struct setting env[] = { { "SLURM_JOB_ID", "4712" }, { "SLURM_ARRAY_JOB_ID", "4711" },
		{ "SLURM_ARRAY_TASK_ID", "2" }, { "SLURM_STEP_ID", "1" }, { "SLURM_PROCID", "5" },
		{ "SLURM_LOCALID", "1" }, { "SLURM_NTASKS", "8" }, { "SLURMD_NODENAME", "n3" },
		{ "SLURM_RESTART_COUNT", "4" }, { NULL, NULL } };
	static const struct setting batch[] = { { "SLURM_JOB_ID", "9" }, { "SLURMD_NODENAME", "../n" }, { NULL, NULL } };
	const struct scheduler s = read_of(env), b = read_of(batch), none = { .name = "" };
	char host[256] = "", expected[300], *file;
	struct err err = { "" };

	(void) state;
	assert_name("%j.%s/%N-r%r-t%t-a%a-R%R%%r", &s, "4712.1/n3-r5-t1-a2-R4%r");
	assert_name("%j-%s-%N", &b, "9-batch-.._n");
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	(void) snprintf(expected, sizeof(expected), "0-0-0-%s", host);
	assert_name("%j-%s-%r-%N", &none, expected);
	assert_int_equal(scheduler_expand("r%x.hiw", &s, &file, &err), -EINVAL);
	assert_non_null(strstr(err.text, "'%x' means nothing; give %r rank"));
	assert_int_equal(scheduler_expand("50%", &s, &file, &err), -EINVAL);
	assert_int_equal(scheduler_expand("50%, %x %j %r", &s, &file, NULL), 0);
	assert_string_equal(file, "50%, %x %j 5");
	free(file);
	assert_int_equal(scheduler_file("there/", &s, &file), 0);
	assert_string_equal(file, "there/4711_2.1/n3-r5-4.hiw");
	free(file);
	assert_int_equal(scheduler_file("there/", &none, &file), 0);
	(void) snprintf(expected, sizeof(expected), "there/%s-r0.hiw", host);
	assert_string_equal(file, expected);
	free(file);
}

/* ---- several ranks --------------------------------------------------------------------------- */

static void assert_key(const struct setting *env, const char *expected)
{
	const struct scheduler s = read_of(env);
	char *key;

	assert_int_equal(scheduler_key(&s, &key), 0);
	assert_string_equal(key, expected);
	free(key);
}

static void a_start_of_ranks_has_a_key(void **state)
{
	char expected[400], host[256] = "";

	(void) state;
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	assert_key((struct setting[]) { { "SLURM_JOB_ID", "4711" }, { "SLURM_STEP_ID", "0" }, { 0 } }, "slurm-4711.0");
	assert_key((struct setting[]) { { "SLURM_JOB_ID", "13" }, { "SLURM_STEP_ID", "2" }, { "SLURM_ARRAY_JOB_ID", "12" },
			   { "SLURM_ARRAY_TASK_ID", "1" }, { 0 } },
		"slurm-12_1.2");
	/* mpirun in a batch script, which may start several */
	assert_key((struct setting[]) { { "SLURM_JOB_ID", "4711" }, { "OMPI_COMM_WORLD_SIZE", "4" },
			   { "OMPI_MCA_ess_base_jobid", "812580865" }, { 0 } },
		"slurm-4711-812580865");
	assert_key((struct setting[]) { { "PMIX_RANK", "1" }, { "PMIX_NAMESPACE", "prterun-a/b@1" }, { 0 } },
		"mpi-prterun-a_b@1");
	/* torchrun without an id of the user's: all that its ranks on this node have in common is their parent */
	(void) snprintf(expected, sizeof(expected), "torchrun-none-%s-%d", host, (int) getppid());
	assert_key((struct setting[]) { { "TORCHELASTIC_RUN_ID", "none" }, { 0 } }, expected);
	assert_key((struct setting[]) { { "TORCHELASTIC_RUN_ID", "exp7" }, { 0 } }, "torchrun-exp7");
}

static void ranks_on_a_node_are_counted(void **state)
{
	static const struct {
		const char *tasks, *node;
		int64_t expected;
	} lists[] = {
		{ "2(x2)", "0", 2 },
		{ "2(x2)", "1", 2 },
		{ "2(x2)", "2", NO },
		{ "2(x3),1", "2", 2 },
		{ "2(x3),1", "3", 1 },
		{ "4", "0", 4 },
		{ "4,3,2", "2", 2 },
		{ "4", NULL, NO },
		{ "", "0", NO },
		{ "x", "0", NO },
		{ "2(x", "0", NO },
		{ "2(x2", "0", NO },
		{ "2(x2)3", "2", NO },
		{ "-1", "0", NO },
		{ "99999999999", "0", NO },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const struct setting env[] = { { "SLURM_JOB_ID", "1" }, { "SLURM_STEP_ID", "0" }, { "SLURM_NTASKS", "9" },
			{ "SLURM_STEP_TASKS_PER_NODE", lists[i].tasks }, { lists[i].node ? "SLURM_NODEID" : "x", lists[i].node }, { 0 } };

		check_number(lists[i].tasks, "local ranks", read_of(env).local_ranks, lists[i].expected);
	}
	/* a launcher inside the step numbers its own */
	check_number("torchrun", "local ranks",
		read_of((struct setting[]) { { "SLURM_JOB_ID", "1" }, { "SLURM_STEP_ID", "0" }, { "SLURM_NODEID", "0" },
				{ "SLURM_STEP_TASKS_PER_NODE", "1(x2)" }, { "WORLD_SIZE", "8" }, { "LOCAL_WORLD_SIZE", "4" }, { 0 } })
			.local_ranks,
		4);
	check_number("a launcher that does not say", "local ranks",
		read_of((struct setting[]) { { "SLURM_JOB_ID", "1" }, { "SLURM_STEP_ID", "0" }, { "SLURM_NODEID", "0" },
				{ "SLURM_STEP_TASKS_PER_NODE", "1(x2)" }, { "PMI_SIZE", "8" }, { "SLURM_NNODES", "2" }, { 0 } })
			.local_ranks,
		NO);
}

static void commands_that_start_ranks(void **state)
{
	static const char *const yes[][6] = {
		{ "torchrun", "x.py" },
		{ "/opt/venv/bin/torchrun", "--nproc-per-node=2", "x.py" },
		{ "python", "-m", "torch.distributed.run", "x.py" },
		{ "/usr/bin/python3.12", "-u", "-O", "-m", "torch.distributed.launch" },
		{ "python3", "/opt/venv/bin/torchrun", "x.py" },
		{ "accelerate", "launch", "x.py" },
		{ "mpirun", "-n", "4", "./x" },
		{ "mpiexec", "./x" },
	};
	static const char *const no[][6] = {
		{ NULL },
		{ "python" },
		{ "python", "-m" },
		{ "python", "torch.distributed.run" },
		{ "python", "train.py", "-m", "torch.distributed.run" },
		{ "python", "-c", "torchrun" },
		{ "accelerate", "config" },
		{ "accelerate" },
		{ "sh", "-c", "torchrun x.py" }, /* a script may do other things */
		{ "./torchrun.sh" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(scheduler_is_launcher(yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(scheduler_is_launcher(no[i]));
	assert_false(scheduler_is_launcher(NULL));
}

static void a_node_has_files(void **state)
{
	const struct scheduler s = { .name = "slurm", .job = "4711.0", .node = "n/1", .restart = known(2) };
	char *text;

	(void) state;
	assert_int_equal(scheduler_node_file("d/", &s, ".hiw", &text), 0);
	assert_string_equal(text, "d/4711.0/n_1-2.hiw");
	free(text);
	assert_int_equal(scheduler_node(&s, &text), 0);
	assert_string_equal(text, "n_1");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(launchers_are_understood),
		cmocka_unit_test(selections_of_gpus_are_those_of_schedulers),
		cmocka_unit_test(nonsense_is_unknown),
		cmocka_unit_test(overflows_are_unknown),
		cmocka_unit_test(long_names_are_cut),
		cmocka_unit_test(names_have_the_rank_and_more),
		cmocka_unit_test(a_start_of_ranks_has_a_key),
		cmocka_unit_test(ranks_on_a_node_are_counted),
		cmocka_unit_test(commands_that_start_ranks),
		cmocka_unit_test(a_node_has_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
