/* SPDX-License-Identifier: MIT
 *
 * Launchers by name and command, and the rank in the environments of what they start.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "source/process/rank.h"

#define NO -1

/* The outer job of a batch script, which every process below it inherits. */
#define BATCH "SLURM_JOB_ID=7\0SLURM_PROCID=0\0SLURM_NTASKS=8\0"

static const struct {
	const char *of;
	const char *name, *command; /* of the launcher */
	const char *environment;    /* of its child */
	size_t len;
	int64_t rank, ranks;
} cases[] = {
#define ENV(text) text, sizeof(text) - 1
	{ "torchrun", "torchrun", "/usr/bin/python3 /usr/bin/torchrun t.py",
		ENV("LOCAL_RANK=1\0RANK=3\0WORLD_SIZE=4\0"), 3, 4 },
	{ "torchrun inside a batch script", "torchrun", "", ENV(BATCH "RANK=3\0WORLD_SIZE=4\0"), 3, 4 },
	{ "its module", "python3.11", "python3.11 -m torch.distributed.run t.py",
		ENV("RANK=0\0WORLD_SIZE=2\0"), 0, 2 },
	{ "deepspeed", "python3", "python3 -u -m deepspeed.launcher.launch t.py",
		ENV("RANK=1\0WORLD_SIZE=2\0"), 1, 2 },
	{ "accelerate", "accelerate", "accelerate launch t.py", ENV("RANK=1\0WORLD_SIZE=2\0"), 1, 2 },
	{ "Open MPI", "mpirun", "mpirun -n 4 t",
		ENV("OMPI_COMM_WORLD_SIZE=4\0OMPI_COMM_WORLD_RANK=2\0PMIX_RANK=2\0OMPI_COMM_WORLD_LOCAL_RANK="
		    "2\0"),
		2, 4 },
	{ "Open MPI's daemon on another node", "orted", "orted",
		ENV("OMPI_COMM_WORLD_SIZE=4\0OMPI_COMM_WORLD_RANK=3\0"), 3, 4 },
	{ "Open MPI 5", "prterun", "prterun -n 2 t",
		ENV("PMIX_RANK=1\0OMPI_COMM_WORLD_RANK=1\0OMPI_COMM_WORLD_SIZE=2\0"), 1, 2 },
	{ "MPICH", "hydra_pmi_proxy", "/usr/bin/hydra_pmi_proxy", ENV("PMI_RANK=1\0PMI_SIZE=2\0"), 1, 2 },
	{ "mpirun's helper in a batch script", "mpirun", "mpirun -n 2 t", ENV(BATCH), NO, NO },
	{ "mpirun below torchrun's variables", "mpirun", "mpirun -n 2 t", ENV("RANK=5\0WORLD_SIZE=8\0"), NO,
		NO },
	{ "Flux", "flux-shell", "flux-shell 1", ENV("FLUX_TASK_RANK=1\0FLUX_JOB_SIZE=2\0"), 1, 2 },
	{ "a Slurm step", "slurmstepd", "slurmstepd: [7.0]",
		ENV(BATCH "SLURM_STEP_ID=0\0SLURM_STEP_NUM_TASKS=2\0"), 0, 2 },
	{ "a batch script, which is no rank", "slurmstepd", "slurmstepd: [7.batch]", ENV(BATCH), NO, NO },
	{ "nonsense", "torchrun", "", ENV("RANK=-1\0WORLD_SIZE=4\0"), NO, NO },
	{ "more nonsense", "torchrun", "", ENV("RANK=1x\0"), NO, NO },
	{ "too large", "torchrun", "", ENV("RANK=99999999999\0"), NO, NO },
	{ "another variable's end", "torchrun", "", ENV("NODE_RANK=1\0RANKS=2\0"), NO, NO },
	{ "no environment", "torchrun", "", ENV(""), NO, NO },
	{ "cut within a variable", "torchrun", "", "RANK=1", 6, 1, NO },
#undef ENV
};

static void check(const char *of, const char *what, struct maybe value, int64_t expected)
{
	if (value.known != (expected != NO) || (value.known && value.value != expected))
		fail_msg("%s: %s is %s, %lld", of, what, value.known ? "known" : "unknown",
			(long long) value.value);
}

static void test_environments(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const enum launches launches = launches_of(cases[i].name, cases[i].command);
		struct maybe rank, ranks;

		if (!launches)
			fail_msg("%s is a launcher", cases[i].of);
		rank_in(launches, cases[i].environment, cases[i].len, &rank, &ranks);
		check(cases[i].of, "rank", rank, cases[i].rank);
		check(cases[i].of, "ranks", ranks, cases[i].ranks);
	}
}

static void test_others_are_no_launchers(void **state)
{
	static const char *const others[][2] = {
		{ "make", "make -j8" },
		{ "python3", "python3 train.py" },
		{ "python3", "python3 -m torch.distributed.runner" },
		{ "sh", "sh -c torchrun" },
		{ "vim", "vim /usr/bin/torchrun" },
		{ "", "" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_int_equal(launches_of(others[i][0], others[i][1]), LAUNCHES_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environments),
		cmocka_unit_test(test_others_are_no_launchers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
