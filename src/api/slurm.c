/* SPDX-License-Identifier: MIT
 *
 * The public interface: jobs of Slurm to attach to, and what their processes say about them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/handles.h"
#include "base/cleanup.h"
#include "source/cgroup/slurm.h"
#include "source/source.h"

static const char *own(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* The step that hiwater itself is, if it is one of that job ("srun --overlap --jobid=JOB hiwater attach"). */
static const char *own_step(const char *job)
{
	const char *id = own("SLURM_JOB_ID"), *step = own("SLURM_STEP_ID");

	return id && step && strcmp(id, job) == 0 && strlen(step) < sizeof("4294967") ? step : NULL;
}

int hwi_pids_by_slurm(const char *job, const char *step, char *ret_cgroup, size_t size, pid_t *pids, size_t n,
	size_t *ret_n, struct hiw_err *ret_err)
{
	const struct slurm_job wanted = { job, step, own("SLURMD_NODENAME"), own_step(job) };
	struct err err = { "" };
	struct root root = { 0 };
	int r = root_open("/", &root, &err);
	const ssize_t found = r < 0 ? r : slurm_pids(&root, &wanted, pids, n, ret_cgroup, size, &err);

	root_done(&root);
	if (found == 0)
		r = err_set(&err, -ENOENT, "job %s%s%s of Slurm has no processes on this node%s%s%s", job,
			step ? "." : "", step ? step : "", wanted.node ? " (" : "",
			wanted.node ? wanted.node : "", wanted.node ? ")" : "");
	else if (found < 0)
		r = err.text[0] ? (int) found
				: err_set(&err, (int) found, "cannot read /proc: %s", strerror((int) -found));
	*ret_n = found > 0 ? (size_t) found : 0;
	return api_err(ret_err, &err, r);
}

bool hwi_slurm_group(const char *path, bool *ret_is_step)
{
	struct slurm_place place;
	const bool found = slurm_place_parse(path, strlen(path), &place);

	*ret_is_step = found && place.step_len > 0;
	return found;
}

size_t hwi_slurm_sort(pid_t *pids, size_t n)
{
	struct root root = { 0 };

	if (root_open("/", &root, NULL) == 0)
		n = slurm_sort(&root, pids, n);
	root_done(&root);
	return n;
}

bool hwi_cgroup_exists(const char *path)
{
	struct root root = { 0 };
	struct cgroup_facts facts;
	const bool exists = root_open("/", &root, NULL) == 0 && cgroup_at(&root, path, &facts) == 0;

	root_done(&root);
	return exists;
}

/* ---- what a process says about its job ------------------------------------------------------- */

static void copy(char *to, size_t size, const char *from)
{
	(void) snprintf(to, size, "%s", from);
}

/* A process whose environment cannot be read: another user's, or one that has cleared it. */
static void complete_by_place(const struct slurm_place *place, struct scheduler *s)
{
	if (*s->name || (!*place->job && !*place->sluid))
		return;
	s->name = "slurm";
	copy(s->id, sizeof(s->id), *place->job ? place->job : place->sluid);
	copy(s->step_id, sizeof(s->step_id), place->step);
	copy(s->node, sizeof(s->node), place->node);
	copy(s->job, sizeof(s->job), s->id);
	if (*place->step)
		(void) snprintf(s->job, sizeof(s->job), "%.40s.%s", s->id, place->step);
}

/* On a node, of all tasks: no rank, and not the CPUs of one task. */
static void widen(struct slurm_environment *environment, bool whole_job, struct scheduler *s)
{
	const char *cpus = slurm_environment_get(environment, "SLURM_CPUS_ON_NODE");
	char *end;

	s->all_tasks = true;
	s->rank = s->ranks = s->local_rank = UNKNOWN;
	s->request_cpus = UNKNOWN;
	if (cpus && strtoll(cpus, &end, 10) > 0 && *end == '\0')
		s->request_cpus = known(strtoll(cpus, &end, 10));
	if (!whole_job)
		return;
	s->job[strcspn(s->job, ".")] = '\0';
	s->step_id[0] = '\0';
	s->step = false;
	s->node_cpus = UNKNOWN;
}

static void find_user(const struct root *root, pid_t pid, struct slurm_environment *environment,
	const struct slurm_place *place, char *ret, size_t size)
{
	const char *user = slurm_environment_get(environment, "SLURM_JOB_USER");
	struct stat st;
	char path[32];

	(void) snprintf(path, sizeof(path), "%d", (int) pid);
	*ret = '\0';
	if (user && *user)
		copy(ret, size, user);
	else if (place->uid.known)
		(void) snprintf(ret, size, "%lld", (long long) place->uid.value);
	else if (fstatat(root->proc, path, &st, 0) == 0)
		(void) snprintf(ret, size, "%u", (unsigned) st.st_uid);
}

bool read_slurm_job(pid_t pid, bool whole_job, struct scheduler *ret, char *ret_user, size_t size)
{
	struct root root = { 0 };
	struct slurm_environment environment = { 0 };
	struct slurm_place place = { .node = "" };
	struct scheduler s = { .name = "" };

	if (root_open("/", &root, NULL) == 0) {
		(void) slurm_place_of(&root, pid, &place);
		if (slurm_environment_read(&root, pid, &environment) == 0 &&
			slurm_environment_get(&environment, "SLURM_JOB_ID"))
			scheduler_read(slurm_environment_get, &environment, &s);
		complete_by_place(&place, &s);
		if (*s.name) {
			widen(&environment, whole_job, &s);
			find_user(&root, pid, &environment, &place, ret_user, size);
			*ret = s;
		}
	}
	slurm_environment_done(&environment);
	root_done(&root);
	return *s.name != '\0';
}
