/* SPDX-License-Identifier: MIT
 *
 * The processes of a Slurm job on this node.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/cgroup/path.h"
#include "source/cgroup/slurm.h"
#include "source/process/procfs_stat.h"

/* ---- the environment of a process ------------------------------------------------------------ */

int slurm_environment_read(const struct root *root, pid_t pid, struct slurm_environment *ret)
{
	char path[32];

	(void) snprintf(path, sizeof(path), "%d/environ", (int) pid);
	const ssize_t n = longfile_read(&ret->text, root->proc, path);

	ret->len = n > 0 ? (size_t) n : 0;
	return n < 0 ? (int) n : 0;
}

const char *slurm_environment_get(void *ctx, const char *name)
{
	const struct slurm_environment *environment = ctx;
	const size_t len = strlen(name);
	const char *p = environment->text.data, *end = p ? p + environment->len : NULL;

	for (; p && p < end; p += strlen(p) + 1) {
		if (strncmp(p, name, len) == 0 && p[len] == '=')
			return p + len + 1;
	}
	return NULL;
}

void slurm_environment_done(struct slurm_environment *environment)
{
	longfile_done(&environment->text);
	environment->len = 0;
}

/* ---- one process ----------------------------------------------------------------------------- */

struct search {
	const struct root *root;
	struct slurm_environment environment;
	struct longfile groups;
};

static void search_done(struct search *s)
{
	slurm_environment_done(&s->environment);
	longfile_done(&s->groups);
}

/* The most that its cgroups say: one of several hierarchies names the task, another one only the step. */
static bool place_read(struct search *s, pid_t pid, struct slurm_place *ret)
{
	struct slurm_place place;
	struct cgroup_line line;
	char path[32];
	bool found = false;

	(void) snprintf(path, sizeof(path), "%d/cgroup", (int) pid);
	if (longfile_read(&s->groups, s->root->proc, path) <= 0)
		return false;
	for (const char *p = s->groups.data; cgroup_line_next(&p, &line);) {
		if (!slurm_place_parse(line.path, line.path_len, &place) || (found && !place.step_len))
			continue;
		*ret = place;
		found = true;
	}
	return found;
}

bool slurm_place_of(const struct root *root, pid_t pid, struct slurm_place *ret)
{
	struct search s = { .root = root };
	const bool found = place_read(&s, pid, ret);

	search_done(&s);
	return found;
}

/* slurm.h of Slurm: the ids of steps that srun did not number begin here; the batch script has this one,
 * or no SLURM_STEP_ID. */
static bool is_step(const char *id, const char *wanted)
{
	static const char batch[] = "4294967291";

	if (!id || strcmp(id, batch) == 0)
		id = "batch";
	return strcmp(id, wanted) == 0;
}

static bool is_same(const char *a, const char *b)
{
	return a && strcmp(a, b) == 0;
}

/* The number of the job, or ARRAY_TASK, by which sacct and squeue show tasks of arrays. */
static bool is_job(struct slurm_environment *environment, const char *wanted)
{
	const char *array = slurm_environment_get(environment, "SLURM_ARRAY_JOB_ID");
	const char *task = slurm_environment_get(environment, "SLURM_ARRAY_TASK_ID");
	char text[64];

	if (is_same(slurm_environment_get(environment, "SLURM_JOB_ID"), wanted))
		return true;
	if (!array || !task)
		return false;
	(void) snprintf(text, sizeof(text), "%s_%s", array, task);
	return strcmp(text, wanted) == 0;
}

static bool stat_of(struct search *s, pid_t pid, struct procfs_stat *ret)
{
	char path[32], text[1024];

	(void) snprintf(path, sizeof(path), "%d/stat", (int) pid);
	return smallfile_read(s->root->proc, path, text, sizeof(text)) > 0 &&
	       procfs_stat_parse(text, ret) == 0;
}

/* Prologs and epilogs have the job's environment. A task inherits the context of its prolog, which runs
 * before the task executes its command. */
static bool is_in_script(struct search *s)
{
	const char *context = slurm_environment_get(&s->environment, "SLURM_SCRIPT_CONTEXT");
	const char *p = slurm_environment_get(&s->environment, "SLURM_TASK_PID");
	struct procfs_stat task;
	uint64_t pid;

	if (!context || strcmp(context, "prolog_task") != 0)
		return context != NULL;
	return p && parse_u64(&p, &pid) == 0 && pid <= INT32_MAX && stat_of(s, (pid_t) pid, &task) &&
	       strcmp(task.name, SLURM_STEPD) == 0;
}

/* The shell of salloc on a login node has SLURM_JOB_ID, but no node. */
static bool is_by_environment(
	struct search *s, pid_t pid, const struct slurm_job *job, struct slurm_place *ret)
{
	struct slurm_environment *environment = &s->environment;

	if (slurm_environment_read(s->root, pid, environment) < 0 || !is_job(environment, job->job))
		return false;
	const char *node = slurm_environment_get(environment, "SLURMD_NODENAME");
	const char *step = slurm_environment_get(environment, "SLURM_STEP_ID");

	if (!node || is_in_script(s) || (job->step && !is_step(step, job->step)))
		return false;
	*ret = (struct slurm_place) { .node = "" };
	(void) snprintf(ret->node, sizeof(ret->node), "%s", node);
	(void) snprintf(ret->step, sizeof(ret->step), "%s", step && !is_step(step, "batch") ? step : "batch");
	return true;
}

/* A SLUID, and the number of an array's task, are in the environment alone. */
static bool is_by_cgroup(struct search *s, pid_t pid, const struct slurm_job *job, struct slurm_place *place)
{
	const bool is_number = !strchr(job->job, '_');

	if (place->is_daemons)
		return false;
	if (!(is_number && *place->job ? strcmp(place->job, job->job) == 0
				       : slurm_environment_read(s->root, pid, &s->environment) == 0 &&
						 is_job(&s->environment, job->job)))
		return false;
	return !job->step || strcmp(place->step, job->step) == 0;
}

static bool is_member(struct search *s, pid_t pid, const struct slurm_job *job, struct slurm_place *ret,
	bool *ret_by_cgroup)
{
	const bool found = place_read(s, pid, ret);

	*ret_by_cgroup = found;
	if (!(found ? is_by_cgroup(s, pid, job, ret) : is_by_environment(s, pid, job, ret)))
		return false;
	if (found && slurm_environment_read(s->root, pid, &s->environment) == 0 && is_in_script(s))
		return false;
	if (job->own_step && !job->step && strcmp(ret->step, job->own_step) == 0)
		return false;
	return !job->node || !*ret->node || strcmp(job->node, ret->node) == 0;
}

/* ---- their order ----------------------------------------------------------------------------- */

struct candidate {
	pid_t pid;
	int class; /* those of a lower one first */
	uint64_t start_ticks;
};

static int by_class_and_age(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	if (x->start_ticks != y->start_ticks)
		return x->start_ticks < y->start_ticks ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* False: it has ended, or it is slurmstepd, the sleep by which Slurm keeps an extern step alive, or a helper of
 * this process. */
static bool classify(struct search *s, pid_t pid, const char *step, struct candidate *ret)
{
	struct procfs_stat st;

	if (!stat_of(s, pid, &st) || st.state == 'Z' || st.ppid == getpid() ||
		strcmp(st.name, SLURM_STEPD) == 0)
		return false;
	const bool is_extern = strcmp(step, "extern") == 0;

	*ret = (struct candidate) { .pid = pid, .start_ticks = st.start_ticks };
	ret->class = is_extern ? 2 : strcmp(st.name, "srun") == 0;
	return !is_extern || strcmp(st.name, "sleep") != 0;
}

size_t slurm_sort(const struct root *root, pid_t *pids, size_t n)
{
	autofree struct candidate *list = calloc(n + 1, sizeof(*list));
	struct search s = { .root = root };
	struct slurm_place place;
	size_t left = 0;

	if (!list)
		return n;
	for (size_t i = 0; i < n; i++) {
		const char *step = pids[i] > 0 && place_read(&s, pids[i], &place) ? place.step : "";

		if (pids[i] > 0)
			left += classify(&s, pids[i], step, &list[left]);
	}
	qsort(list, left, sizeof(*list), by_class_and_age);
	for (size_t i = 0; i < left; i++)
		pids[i] = list[i].pid;
	search_done(&s);
	return left;
}

/* ---- all processes --------------------------------------------------------------------------- */

struct found {
	struct search *search;
	const struct slurm_job *job;
	struct err *err;
	struct candidate *list;
	size_t n, cap;
	char node[128];   /* of the first one; "": unknown */
	bool by_cgroup;   /* of any of them */
};

/* -ENOTUNIQ: it is on another node than those before. */
static int add(pid_t pid, void *ctx)
{
	struct found *found = ctx;
	struct search *s = found->search;
	const struct slurm_job *job = found->job;
	struct slurm_place place;
	bool by_cgroup;

	if (pid == getpid() || !is_member(s, pid, job, &place, &by_cgroup))
		return 0;
	if (*found->node && *place.node && strcmp(found->node, place.node) != 0)
		return err_set(found->err, -ENOTUNIQ,
			"job %s has processes on several nodes of this machine (%s, %s); say which one by SLURMD_NODENAME",
			job->job, found->node, place.node);
	if (!*found->node)
		memcpy(found->node, place.node, sizeof(found->node));
	if (vec_reserve(&found->list, &found->cap, found->n + 1, sizeof(*found->list), 1 << 22) < 0)
		return -ENOMEM;
	if (classify(s, pid, place.step, &found->list[found->n])) {
		found->n++;
		found->by_cgroup |= by_cgroup;
	}
	return 0;
}

/* The group of the job, or of the step, that charges memory. */
static void find_group(const struct root *root, pid_t pid, bool is_step, char *ret, size_t size)
{
	struct cgroup_facts facts = { .path = "" };
	struct slurm_place place;

	if (cgroup_of(root, pid, &facts) < 0 || !slurm_place_parse(facts.path, strlen(facts.path), &place) ||
		(is_step && !place.step_len))
		return;
	(void) snprintf(ret, size, "%.*s", (int) (is_step ? place.step_len : place.job_len), facts.path);
}

ssize_t slurm_pids(const struct root *root, const struct slurm_job *job, pid_t *pids, size_t n,
	char *ret_cgroup, size_t size, struct err *err)
{
	struct search s = { .root = root };
	struct found found = { .search = &s, .job = job, .err = err };
	int r = cgroup_each_pid(root, add, &found);

	*ret_cgroup = '\0';
	if (r == 0 && found.n > 0) {
		qsort(found.list, found.n, sizeof(*found.list), by_class_and_age);
		for (size_t i = 0; i < found.n && i < n; i++)
			pids[i] = found.list[i].pid;
		if (found.by_cgroup)
			find_group(root, pids[0], job->step != NULL, ret_cgroup, size);
	}
	free(found.list);
	search_done(&s);
	return r < 0 ? r : (ssize_t) found.n;
}
