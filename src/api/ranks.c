/* SPDX-License-Identifier: MIT
 *
 * The other ranks of a run's job, by their recordings in the same folder.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/clock.h"
#include "findings/findings.h"

/* The end of a job does not wait for many files; who looks at it later may. */
static const uint64_t live_patience_ns = 50000000, later_patience_ns = UINT64_C(2000000000);

static bool is_same(const char *a, const char *b)
{
	return a && *a && b && strcmp(a, b) == 0;
}

/* Adds the recording's rank, if it is another one of the same job. */
static void take_rank(const struct facts *own, const char *path, struct other_rank *ranks, size_t *n)
{
	struct replay *replay = NULL;
	struct job *job = NULL;

	if (replay_open(path, &replay, NULL) == 0 && replay_job(replay, &job, NULL) == 0) {
		const struct facts *f = job_facts_const(job);
		const double step_s = findings_step_s(job);

		if (is_same(own->scheduler_job, f->scheduler_job) && f->rank.known && f->rank.value != own->rank.value && step_s >= 0)
			ranks[(*n)++] = (struct other_rank) { f->rank.value, step_s };
	}
	job_free(job);
	replay_close(replay);
}

static void read_folder(const struct facts *own, const char *folder, uint64_t until_ns, struct other_rank *ranks, size_t *n)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	char path[4096];

	while (dir && *n < RANKS_MOST && clock_boot_ns() < until_ns && (entry = readdir(dir))) {
		const size_t len = strlen(entry->d_name);
		const int size = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);

		if (len > 4 && strcmp(entry->d_name + len - 4, ".hiw") == 0 && size > 0 && (size_t) size < sizeof(path))
			take_rank(own, path, ranks, n);
	}
	if (dir)
		(void) closedir(dir);
}

struct other_rank *read_ranks(const struct hiw_run *run, size_t *ret_n)
{
	const struct facts *f = job_facts_const(run->job);
	const char *slash = f->recording ? strrchr(f->recording, '/') : NULL;
	const uint64_t until = clock_boot_ns() + (run->replay ? later_patience_ns : live_patience_ns);
	struct other_rank *ranks;
	char folder[4096];

	*ret_n = 0;
	if (!f->recording || !f->rank.known || !f->ranks.known || f->ranks.value < 2 || findings_step_s(run->job) < 0)
		return NULL;
	ranks = calloc(RANKS_MOST, sizeof(*ranks));
	(void) snprintf(folder, sizeof(folder), "%.*s", slash ? (int) (slash - f->recording) : 1, slash ? f->recording : ".");
	if (ranks)
		read_folder(f, *folder ? folder : "/", until, ranks, ret_n);
	return ranks;
}
