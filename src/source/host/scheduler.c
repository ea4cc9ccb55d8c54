/* SPDX-License-Identifier: MIT
 *
 * Reads the environment of batch schedulers and launchers. Names from their manuals: sbatch(1) and
 * srun(1) OUTPUT ENVIRONMENT VARIABLES, torchrun's "Environment Variables", Open MPI's and PMIx'
 * per-process variables, flux-run(1), qsub(1B), bsub(1).
 */
#include "source/host/scheduler.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"

/* The first of these variables that is set identifies the launcher; earlier rows win. */
static const struct {
	const char *sign, *name, *job;
} launchers[] = {
	{ "SLURM_JOB_ID", "slurm", "SLURM_JOB_ID" },
	{ "FLUX_JOB_ID", "flux", "FLUX_JOB_ID" },
	{ "PBS_JOBID", "pbs", "PBS_JOBID" },
	{ "LSB_JOBID", "lsf", "LSB_JOBID" },
	{ "TORCHELASTIC_RUN_ID", "torchrun", "TORCHELASTIC_RUN_ID" },
	{ "OMPI_COMM_WORLD_RANK", "mpi", "OMPI_MCA_ess_base_jobid" },
	{ "PMIX_RANK", "mpi", "PMIX_NAMESPACE" },
	{ "PMI_RANK", "mpi", "PMI_JOBID" },
	{ "SGE_TASK_ID", "sge", "JOB_ID" },
	{ "KUBERNETES_SERVICE_HOST", "kubernetes", NULL }, /* a pod does not know its job */
};

/* The innermost launcher wins: torchrun inside srun numbers its own workers, and so does mpirun
 * inside a batch script, where every rank inherits the script's SLURM_PROCID=0. */
static const char *const rank_names[] = { "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
	"SLURM_PROCID", "FLUX_TASK_RANK", "JOB_COMPLETION_INDEX", NULL };
static const char *const ranks_names[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
	"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "FLUX_JOB_SIZE", NULL };
static const char *const local_rank_names[] = { "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
	"SLURM_LOCALID", "FLUX_TASK_LOCAL_ID", NULL };
static const char *const local_ranks_names[] = { "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL };
/* Ids of one start of ranks, of launchers that run within the job of a scheduler. */
static const char *const launch_names[] = { "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMI_JOBID", NULL };
/* The variables before SLURM_*: a launcher that sets one of them numbers its own tasks. */
static const char *const own_ranks_names[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL };

/* Of Slurm, PBS, LSF, SGE; of Slurm, torchrun. */
static const char *const array_task_names[] = { "SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "LSB_JOBINDEX", "SGE_TASK_ID", NULL };
static const char *const restart_names[] = { "SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", NULL };

struct environment {
	const char *(*get)(void *ctx, const char *name);
	void *ctx;
};

static const char *text_of(const struct environment *env, const char *name)
{
	const char *value = env->get(env->ctx, name);

	return value && *value ? value : NULL;
}

static struct maybe number_of(const struct environment *env, const char *name)
{
	const char *p = text_of(env, name);
	uint64_t value;

	if (!p || parse_u64(&p, &value) < 0 || *p != '\0' || value > INT64_MAX)
		return UNKNOWN;
	return known((int64_t) value);
}

static struct maybe first_number(const struct environment *env, const char *const *names)
{
	struct maybe value = UNKNOWN;

	for (; *names && !value.known; names++)
		value = number_of(env, *names);
	return value;
}

/* mib MiB for each of n. */
static bool times(struct maybe mib, struct maybe n, int64_t *ret)
{
	return mib.known && n.known && mib.value > 0 && n.value > 0 &&
	       !__builtin_mul_overflow(mib.value, n.value, ret) &&
	       !__builtin_mul_overflow(*ret, 1 << 20, ret);
}

/* The GPUs of this node that were allocated. SLURM_JOB_GPUS is not read: on every node of a job it has the indexes of the batch
 * node. Launchers alone allocate nothing, and a container is shown its own GPUs alone. */
static void read_gpus(const struct environment *env, struct scheduler *s)
{
	static const char *const names[] = { "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
		"ZE_AFFINITY_MASK" };
	static const char *const schedulers[] = { "slurm", "flux", "pbs", "lsf", "sge" };
	const size_t size = sizeof(s->gpu_selection);
	size_t len = 0;
	bool is_one = false;

	for (size_t i = 0; i < sizeof(schedulers) / sizeof(schedulers[0]); i++)
		is_one = is_one || strcmp(s->name, schedulers[i]) == 0;
	for (size_t i = 0; is_one && i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = env->get(env->ctx, names[i]); /* set, but empty: no GPU */

		if (!value || strchr(value, ';'))
			continue;
		const int n = snprintf(
			s->gpu_selection + len, size - len, "%s%s=%s", len ? ";" : "", names[i], value);

		if (n < 0 || (size_t) n >= size - len) { /* too long to be true */
			s->gpu_selection[0] = '\0';
			return;
		}
		len += (size_t) n;
	}
	s->selects_gpus = len > 0 || strcmp(s->name, "slurm") == 0;
}

/* sbatch(1): SLURM_MEM_PER_NODE, SLURM_MEM_PER_CPU and SLURM_MEM_PER_GPU are in MiB; 0 requests the
 * whole node. */
static struct maybe slurm_memory(const struct environment *env)
{
	struct maybe node = number_of(env, "SLURM_MEM_PER_NODE");
	struct maybe cpu = number_of(env, "SLURM_MEM_PER_CPU");
	struct maybe cpus = number_of(env, "SLURM_CPUS_ON_NODE");
	struct maybe gpu = number_of(env, "SLURM_MEM_PER_GPU"), gpus = number_of(env, "SLURM_GPUS_ON_NODE");
	int64_t bytes;

	if (node.known && node.value > 0 && !__builtin_mul_overflow(node.value, 1 << 20, &bytes))
		return known(bytes);
	if (times(cpu, cpus, &bytes) || times(gpu, gpus, &bytes))
		return known(bytes);
	return UNKNOWN;
}

/* SLURM_JOB_START_TIME and SLURM_JOB_END_TIME (since 23.02) are seconds since 1970. */
static struct maybe slurm_time(const struct environment *env)
{
	struct maybe start = number_of(env, "SLURM_JOB_START_TIME");
	struct maybe end = number_of(env, "SLURM_JOB_END_TIME");

	if (!start.known || !end.known || end.value <= start.value ||
		end.value - start.value > 100000000)
		return UNKNOWN;
	return known((end.value - start.value) * 1000000000);
}

/* slurm.h: the batch script, an interactive shell and similar steps have ids from 0xfffffff0 on;
 * steps that srun starts from there are not below them. */
static const char *step_of(const struct environment *env)
{
	const struct maybe number = number_of(env, "SLURM_STEP_ID");

	return number.known && number.value < INT64_C(0xfffffff0) ? text_of(env, "SLURM_STEP_ID") : NULL;
}

/* A step's only task has all CPUs of the step there. In a batch script of several tasks the CPUs are those of all tasks, which are started below it or
 * by srun. */
static struct maybe slurm_cpus(const struct environment *env, bool step)
{
	const struct maybe task = number_of(env, "SLURM_CPUS_PER_TASK"),
			   tasks = number_of(env, "SLURM_NTASKS");
	const struct maybe node = number_of(env, "SLURM_CPUS_ON_NODE");

	const struct maybe step_tasks = number_of(env, "SLURM_STEP_NUM_TASKS");

	if (step && !task.known && step_tasks.known && step_tasks.value == 1)
		return node;
	if (step || !node.known || (task.known && (!tasks.known || tasks.value <= 1)))
		return task;
	return node;
}

/* srun(1), SLURM_STEP_TASKS_PER_NODE: "2(x3),1" is two tasks on each of three nodes and one on the fourth. */
static struct maybe slurm_local_ranks(const struct environment *env, struct maybe node_rank)
{
	const char *p = text_of(env, "SLURM_STEP_TASKS_PER_NODE");
	int64_t before = 0;

	while (p && node_rank.known) {
		uint64_t tasks, nodes = 1;

		if (parse_u64(&p, &tasks) < 0 || tasks > INT32_MAX)
			break;
		if (parse_word(&p, "(x") && (parse_u64(&p, &nodes) < 0 || nodes > INT32_MAX || *p++ != ')'))
			break;
		before += (int64_t) nodes;
		if (node_rank.value < before)
			return known((int64_t) tasks);
		if (*p++ != ',')
			break;
	}
	return UNKNOWN;
}

/* Ranks on this node: where there is one node, all of them. */
static struct maybe local_ranks_of(const struct environment *env, const struct scheduler *s)
{
	const bool is_own = first_number(env, own_ranks_names).known;
	struct maybe n = first_number(env, local_ranks_names);

	if (!n.known && !is_own)
		n = slurm_local_ranks(env, s->node_rank);
	return n.known || !s->nodes.known || s->nodes.value != 1 ? n : s->ranks;
}

static void read_slurm(const struct environment *env, struct scheduler *s)
{
	const char *job = text_of(env, "SLURM_JOB_ID"), *step = step_of(env);
	const char *array = text_of(env, "SLURM_ARRAY_JOB_ID");
	const char *task = text_of(env, "SLURM_ARRAY_TASK_ID"), *node = text_of(env, "SLURMD_NODENAME"),
		   *cluster = text_of(env, "SLURM_CLUSTER_NAME");

	(void) snprintf(s->job, sizeof(s->job), "%s%s%s%s%s", array && task ? array : job,
		array && task ? "_" : "", array && task ? task : "", step ? "." : "", step ? step : "");
	(void) snprintf(s->step_id, sizeof(s->step_id), "%s", step ? step : "batch");
	(void) snprintf(s->node, sizeof(s->node), "%s", node ? node : "");
	(void) snprintf(s->cluster, sizeof(s->cluster), "%s", cluster ? cluster : "");
	s->step = step != NULL;
	s->nodes = number_of(env, "SLURM_NNODES");
	s->node_rank = number_of(env, "SLURM_NODEID");
	s->request_bytes = slurm_memory(env);
	s->request_cpus = slurm_cpus(env, s->step);
	s->node_cpus = number_of(env, "SLURM_CPUS_ON_NODE");
	s->request_time_ns = slurm_time(env);
	s->request_gpus = number_of(env, "SLURM_GPUS_ON_NODE");
	if (!s->step) /* a batch script has SLURM_PROCID=0 and a world size that is not its own */
		s->ranks = first_number(env, own_ranks_names);
}

void scheduler_read(const char *(*get)(void *ctx, const char *name), void *ctx, struct scheduler *ret)
{
	const struct environment env = { get, ctx };
	struct scheduler s = { .name = "" };

	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (!text_of(&env, launchers[i].sign))
			continue;
		const char *job = launchers[i].job ? text_of(&env, launchers[i].job) : NULL;

		s.name = launchers[i].name;
		(void) snprintf(s.job, sizeof(s.job), "%s", job ? job : "");
		(void) snprintf(s.id, sizeof(s.id), "%s", job ? job : "");
		break;
	}
	if (*s.name) {
		s.rank = first_number(&env, rank_names);
		s.ranks = first_number(&env, ranks_names);
		s.local_rank = first_number(&env, local_rank_names);
		s.array_task = first_number(&env, array_task_names);
		s.restart = first_number(&env, restart_names);
	}
	if (strcmp(s.name, "slurm") == 0)
		read_slurm(&env, &s);
	else if (strcmp(s.name, "flux") == 0)
		s.nodes = number_of(&env, "FLUX_JOB_NNODES");
	if (*s.name) {
		s.local_ranks = local_ranks_of(&env, &s);
		for (size_t i = 0; launch_names[i] && !*s.launch; i++) {
			const char *launch = text_of(&env, launch_names[i]);

			(void) snprintf(s.launch, sizeof(s.launch), "%s", launch ? launch : "");
		}
	}
	read_gpus(&env, &s);
	*ret = s;
}

/* The name of a file without its folder. */
static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcmp(name, *names) != 0)
		names++;
	return *names != NULL;
}

bool scheduler_is_launcher(const char *const *argv)
{
	static const char *const programs[] = { "torchrun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", NULL };
	static const char *const modules[] = { "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", NULL };
	static const char *const last[] = { "-m", "-c", NULL };
	const char *program = argv && argv[0] ? base_of(argv[0]) : "";

	if (strncmp(program, "python", 6) == 0) { /* options of the interpreter come before its program */
		for (argv++; *argv && **argv == '-' && !is_one_of(*argv, last); argv++)
			;
		if (!*argv || strcmp(*argv, "-c") == 0)
			return false;
		if (strcmp(*argv, "-m") == 0)
			return argv[1] && is_one_of(argv[1], modules);
		program = base_of(*argv);
	}
	if (strcmp(program, "accelerate") == 0)
		return argv[1] && strcmp(argv[1], "launch") == 0;
	return is_one_of(program, programs);
}

bool scheduler_is_leader(const struct scheduler *s)
{
	if (!s->rank.known || s->rank.value == 0 || strcmp(s->name, "kubernetes") == 0) /* a pod is a node */
		return true;
	return s->local_rank.known && s->local_rank.value == 0;
}
