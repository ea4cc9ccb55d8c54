/* SPDX-License-Identifier: MIT
 *
 * The ranks of processes that a launcher below hiwater started (hiwater run -- mpirun -n 4 prog), from their environment.
 *
 * Only a child of a launcher has its environment read, once after its birth and once after each exec: between fork and exec it
 * still has the launcher's. Other processes have the rank of their parent. A launcher's child that is no rank (a proxy, ssh) may
 * have inherited the variables of an outer launcher, so only the variables of the launcher's own kind are looked at.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/process/processes_internal.h"
#include "source/process/rank.h"

enum {
	ENVIRONMENT_MOST = 256 << 10 /* launchers add their variables behind the inherited ones */
};

/* Where a launcher has both, the first is that of the innermost. */
static const struct {
	const char *rank[4], *ranks[4];
	const char *sign; /* without this variable the others are not of a rank; NULL: none is needed */
} variables[] = {
	[LAUNCHES_TORCH] = { { "RANK" }, { "WORLD_SIZE" }, NULL },
	[LAUNCHES_MPI] = { { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK" },
		{ "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" }, NULL },
	[LAUNCHES_FLUX] = { { "FLUX_TASK_RANK" }, { "FLUX_JOB_SIZE" }, NULL },
	[LAUNCHES_SLURM] = { { "SLURM_PROCID" }, { "SLURM_STEP_NUM_TASKS" }, "SLURM_STEP_ID" },
};

/* By the name of the process, at most 15 characters. */
static const struct {
	const char *name;
	enum launches launches;
} launchers[] = {
	{ "torchrun", LAUNCHES_TORCH },
	{ "accelerate", LAUNCHES_TORCH },
	{ "deepspeed", LAUNCHES_TORCH },
	{ "mpirun", LAUNCHES_MPI },
	{ "mpiexec", LAUNCHES_MPI },
	{ "mpiexec.hydra", LAUNCHES_MPI },
	{ "mpirun.openmpi", LAUNCHES_MPI },
	{ "mpiexec.openmpi", LAUNCHES_MPI },
	{ "orterun", LAUNCHES_MPI },
	{ "orted", LAUNCHES_MPI },
	{ "prterun", LAUNCHES_MPI },
	{ "prte", LAUNCHES_MPI },
	{ "prted", LAUNCHES_MPI },
	{ "hydra_pmi_proxy", LAUNCHES_MPI },
	{ "hydra_bstrap_pr", LAUNCHES_MPI },
	{ "flux-shell", LAUNCHES_FLUX },
	{ "slurmstepd", LAUNCHES_SLURM },
};

/* By the command of an interpreter. */
static const char *const modules[] = { "torch.distributed.run", "torch.distributed.launch",
	"deepspeed.launcher.launch", "accelerate.commands.launch", "/torchrun", "/accelerate", "/deepspeed" };

enum launches launches_of(const char *name, const char *command)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (strcmp(name, launchers[i].name) == 0)
			return launchers[i].launches;
	}
	if (strncmp(name, "python", 6) != 0 && strncmp(name, "pt_", 3) != 0)
		return LAUNCHES_NONE;
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		const char *at = strstr(command, modules[i]);

		if (at && (at[strlen(modules[i])] == ' ' || at[strlen(modules[i])] == '\0'))
			return LAUNCHES_TORCH;
	}
	return LAUNCHES_NONE;
}

static const char *value_in(const char *environment, size_t len, const char *name)
{
	const size_t n = strlen(name);

	for (const char *p = environment; p < environment + len; p += strlen(p) + 1) {
		if (strncmp(p, name, n) == 0 && p[n] == '=')
			return p + n + 1;
	}
	return NULL;
}

static struct maybe number_of(const char *environment, size_t len, const char *const names[4])
{
	for (size_t i = 0; i < 4 && names[i]; i++) {
		const char *p = value_in(environment, len, names[i]);
		uint64_t number;

		if (p && parse_u64(&p, &number) == 0 && *p == '\0' && number <= INT32_MAX)
			return known((int64_t) number);
	}
	return UNKNOWN;
}

void rank_in(enum launches launches, const char *environment, size_t len, struct maybe *ret_rank,
	struct maybe *ret_ranks)
{
	*ret_rank = *ret_ranks = UNKNOWN;
	if (variables[launches].sign && !value_in(environment, len, variables[launches].sign))
		return;
	*ret_rank = number_of(environment, len, variables[launches].rank);
	if (ret_rank->known)
		*ret_ranks = number_of(environment, len, variables[launches].ranks);
}

/* Leaves the rank unknown where the environment may not be read (another user's, setuid). */
static void read_environment(const struct processes *p, struct member *m, enum launches launches)
{
	autofree char *environment = malloc(ENVIRONMENT_MOST);
	char path[PATH_LEN];
	const ssize_t n =
		environment ? smallfile_read(p->env.root->proc, process_path(path, m->pid, m->pid, "environ"),
				      environment, ENVIRONMENT_MOST)
			    : 0;

	rank_in(launches, environment ? environment : "", n > 0 ? (size_t) n : 0, &m->rank, &m->ranks);
}

void rank_update(struct processes *p, struct member *m, const struct member *parent, const char *command)
{
	m->launches = (unsigned char) launches_of(m->name, command);
	if (m->launches) /* its number, if it has one, is of a node */
		m->rank = m->ranks = UNKNOWN;
	else if (parent && parent->launches)
		read_environment(p, m, (enum launches) parent->launches);
	else if (parent && !m->rank.known)
		m->rank = parent->rank;
}
