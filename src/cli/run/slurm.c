/* SPDX-License-Identifier: MIT */
#include "cli/run/slurm.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/internal.h"
#include "base/cleanup.h"
#include "base/parse.h"

enum {
	PIDS_MOST = 4096
};

static const int64_t search_ns = 5000000000;

bool slurm_parse(const char *what, struct slurm_attach *ret)
{
	if (!parse_word(&what, "slurm:"))
		return false;
	const size_t n = strspn(what, "0123456789_");
	const char *step = what[n] == '.' ? what + n + 1 : "";

	if (n == 0 || n >= sizeof(ret->job) || (what[n] && !*step) || strlen(step) >= sizeof(ret->step))
		return false;
	for (const char *p = step; *p; p++) {
		if (!isalnum((unsigned char) *p) && *p != '+')
			return false;
	}
	(void) snprintf(ret->job, sizeof(ret->job), "%.*s", (int) n, what);
	(void) snprintf(ret->step, sizeof(ret->step), "%s", step);
	return true;
}

int slurm_find(struct slurm_attach *slurm, pid_t *pids, size_t n, size_t *ret_n, struct hiw_err *err)
{
	const int r = hwi_pids_by_slurm(slurm->job, *slurm->step ? slurm->step : NULL, slurm->cgroup,
		sizeof(slurm->cgroup), pids, n, ret_n, err);

	slurm->is_slurm = r == 0;
	slurm->is_step = *slurm->step;
	slurm->is_group = r == 0 && slurm->cgroup[0];
	return r;
}

int slurm_find_group(struct slurm_attach *slurm, const char *path, pid_t *pids, size_t n, size_t *ret_n,
	struct hiw_err *err)
{
	const int r = hwi_pids_by_cgroup(path, pids, n, ret_n, err);

	if (r < 0 || !hwi_slurm_group(path, &slurm->is_step))
		return r;
	*ret_n = hwi_slurm_sort(pids, *ret_n < n ? *ret_n : n);
	if (*ret_n == 0) {
		(void) snprintf(err->text, sizeof(err->text), "no process of the job is in the cgroup '%s' yet", path);
		return -ENOENT;
	}
	(void) snprintf(slurm->cgroup, sizeof(slurm->cgroup), "%s", path);
	slurm->is_slurm = slurm->is_group = true;
	return 0;
}

static int64_t now_ns(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A process that is measured already is no error. */
void slurm_join(struct slurm_attach *slurm, struct hiw_recorder *recorder)
{
	char cgroup[sizeof(slurm->cgroup)];
	size_t n = 0;

	if (!slurm->is_slurm || slurm->is_group || now_ns() < slurm->next_search_ns)
		return;
	slurm->next_search_ns = now_ns() + search_ns;
	autofree pid_t *pids = calloc(PIDS_MOST, sizeof(*pids));

	if (!pids || hwi_pids_by_slurm(slurm->job, *slurm->step ? slurm->step : NULL, cgroup, sizeof(cgroup),
			     pids, PIDS_MOST, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n && i < PIDS_MOST; i++)
		(void) hiw_recorder_start(recorder, pids[i], NULL);
}

bool slurm_may_go_on(const struct slurm_attach *slurm)
{
	return slurm->is_group && hwi_cgroup_exists(slurm->cgroup);
}
