/* SPDX-License-Identifier: MIT
 *
 * Which run a RUN of the command line is.
 */
#include "record/history/history.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "record/history/history_job.h"
#include "record/history/history_list.h"
#include "record/history/history_run.h"
#include "record/history/job_folder.h"
#include "record/history/job_pointer.h"

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static int found(const char *path, char **ret_path, struct err *err)
{
	*ret_path = strdup(path);
	return *ret_path ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int find_path(const char *run, char **ret_path, struct err *err)
{
	if (access(run, F_OK) < 0)
		return err_set(err, -errno, "no recording %s: %s%s", run, strerror(errno),
			errno == ENOENT ? ", and no run of that name" : "");
	return found(run, ret_path, err);
}

static int find_number(const struct listing *list, uint64_t number, char **ret_path, struct err *err)
{
	const struct listed *run = &(struct listed) { .number = number };
	char path[PATH_MAX];

	for (size_t i = 0; i < list->n; i++) {
		if (list->runs[i].number == number)
			run = &list->runs[i];
	}
	history_list_path(list, run, path, sizeof(path));
	if (access(path, F_OK) < 0)
		return err_set(err, -ENOENT, "no run %" PRIu64 " in %s; see hiwater runs", number,
			list->folder);
	return found(path, ret_path, err);
}

/* From the newest on: the first counts. */
static void note_skipped(const struct listing *list, size_t i, uint64_t *ret_skipped)
{
	if (*ret_skipped == 0)
		*ret_skipped = list->runs[i].number;
}

static bool is_empty(const struct listed *run, const char *path)
{
	autoparts struct job_parts parts = { 0 };

	if (!run->key)
		return run->bytes == 0;
	if (job_folder_parts(path, &parts) < 0)
		return true;
	for (size_t i = 0; i < parts.n; i++) {
		if (parts.parts[i].bytes > 0 || parts.parts[i].has_journal)
			return false;
	}
	return true;
}

/* The run that is back positions before the last one. */
static int find_last(
	const struct listing *list, uint64_t back, char **ret_path, uint64_t *ret_skipped, struct err *err)
{
	char path[PATH_MAX];

	for (size_t i = list->n; i > 0; i--) {
		const struct listed *run = &list->runs[i - 1];

		history_list_path(list, run, path, sizeof(path));
		if (is_empty(run, path)) { /* its recorder was killed, or has just reserved it */
			note_skipped(list, i - 1, ret_skipped);
			continue;
		}
		if (back-- > 0)
			continue;
		return found(path, ret_path, err);
	}
	return err_set(err, -ENOENT,
		list->n ? "there are fewer runs in %s; see hiwater runs" : "no runs in %s yet", list->folder);
}

/* Of a job, of the first of its recordings that can be read. */
static int read_run(const struct listed *run, const char *path, struct history_run *ret)
{
	autoparts struct job_parts parts = { 0 };
	int r = -ENOENT;

	if (!run->key)
		return run->bytes > 0 ? history_run_read(path, ret) : -ENOENT;
	if (job_folder_parts(path, &parts) < 0)
		return r;
	for (size_t i = 0; r < 0 && i < parts.n && i < HISTORY_PARTS; i++)
		r = history_run_read(parts.parts[i].path, ret);
	return r;
}

/* The latest run for which is returns true. */
static int find_latest(const struct listing *list,
	bool (*is)(const struct history_run *run, const char *what), const char *what, char **ret_path,
	uint64_t *ret_skipped)
{
	char path[PATH_MAX];

	for (size_t i = list->n; i > 0; i--) {
		struct history_run run = { 0 };
		bool yes;

		history_list_path(list, &list->runs[i - 1], path, sizeof(path));
		if (read_run(&list->runs[i - 1], path, &run) < 0) {
			note_skipped(list, i - 1, ret_skipped);
			continue;
		}
		if (run.is_blank)
			note_skipped(list, i - 1, ret_skipped);
		yes = is(&run, what);
		history_run_done(&run);
		if (yes)
			return found(path, ret_path, NULL);
	}
	return -ENOENT;
}

static bool is_name(const struct history_run *run, const char *what)
{
	return run->name && strcmp(run->name, what) == 0;
}

/* ---- by the number of a scheduler's job ------------------------------------------------------ */

/* "slurm:4711". */
struct wanted_job {
	const char *launcher;
	char key[JOB_KEY_BYTES];
	/* the best one found */
	char *path, of_key[JOB_KEY_BYTES];
	bool is_step;
	time_t mtime;
	int error;
};

/* Of Slurm, "4711" also finds its step "4711.0", its array tasks "4711_7" and "4711-..." of an mpirun in its batch script; of PBS, "4711"
 * its "4711.server". torchrun calls every job "none", whose folders are "none-...". */
static bool is_of_job(const struct wanted_job *w, const char *key)
{
	const char *after = strcmp(w->launcher, "slurm") == 0      ? "._-"
			    : strcmp(w->launcher, "pbs") == 0      ? "."
			    : strcmp(w->key, "torchrun-none") == 0 ? "-"
								   : "";
	const size_t n = strlen(w->key);

	if (strncmp(key, w->key, n) != 0)
		return false;
	return !key[n] || strchr(after, key[n]);
}

/* "4711" is a batch script, and no step: what it starts with srun is not below it. */
static bool is_step(const struct wanted_job *w, const char *key)
{
	return strcmp(w->launcher, "slurm") != 0 || strpbrk(key + strlen("slurm-"), ".-");
}

static bool is_recorded_by(const struct history_run *run, const struct wanted_job *w, char key[JOB_KEY_BYTES])
{
	char raw[2 * JOB_KEY_BYTES];

	if (!run->scheduler || !run->scheduler_job)
		return false;
	(void) snprintf(raw, sizeof(raw), "%s-%s", run->scheduler, run->scheduler_job);
	return job_folder_key(raw, key, JOB_KEY_BYTES) == 0 && is_of_job(w, key);
}

/* A later one of the same kind is better: a number is used again, and each cluster has its own. Within a second, the later step. */
static bool is_better(const struct wanted_job *w, const char *key, time_t mtime)
{
	const bool step = is_step(w, key);

	if (!w->path || step != w->is_step)
		return !w->path || step;
	return mtime != w->mtime ? mtime > w->mtime : strverscmp(key, w->of_key) > 0;
}

static void consider(struct wanted_job *w, const char *path, const char *key, time_t mtime)
{
	if (!is_better(w, key, mtime))
		return;
	(void) snprintf(w->of_key, sizeof(w->of_key), "%s", key);
	free(w->path);
	w->path = strdup(path);
	w->error = w->path ? 0 : -ENOMEM;
	w->is_step = is_step(w, key);
	w->mtime = mtime;
}

/* From the newest on. */
static void find_in_history(struct wanted_job *w, const struct listing *list, uint64_t *ret_skipped)
{
	char path[PATH_MAX], key[JOB_KEY_BYTES];

	for (size_t i = list->n; i > 0 && !(w->path && w->is_step); i--) {
		const struct listed *run = &list->runs[i - 1];
		struct history_run facts = { 0 };
		bool is_it = run->key && is_of_job(w, run->key);

		history_list_path(list, run, path, sizeof(path));
		if (run->key) {
			(void) snprintf(key, sizeof(key), "%s", run->key);
			is_it = is_it && !is_empty(run, path);
		} else if (read_run(run, path, &facts) < 0) {
			note_skipped(list, i - 1, ret_skipped);
		} else {
			if (facts.is_blank)
				note_skipped(list, i - 1, ret_skipped);
			is_it = is_recorded_by(&facts, w, key);
			history_run_done(&facts);
		}
		if (is_it && !(w->path && is_step(w, key) == w->is_step))
			consider(w, path, key, run->mtime_s);
	}
}

/* The last folder that a list names; else its recording, or the list itself if there are several. */
static bool see_list(void *ctx, const char *list, const char *key)
{
	struct wanted_job *w = ctx;
	autopaths struct job_paths paths = { 0 };
	const char *found;
	struct stat st;

	if (!is_of_job(w, key) || job_pointer_read(list, &paths) < 0 || paths.n == 0)
		return true;
	found = job_paths_folder(&paths);
	if (stat(found ? found : paths.paths[paths.n - 1], &st) == 0)
		consider(w, found ? found : paths.n > 1 ? list
							: paths.paths[0],
			key, st.st_mtime);
	return w->error == 0;
}

/* Slurm's begin with a number: "4711", "4711.0", "4711_7", "4711+1". */
static int check_job(const char *launcher, const char *id, struct err *err)
{
	const bool is_slurm = strcmp(launcher, "slurm") == 0;
	const size_t digits = strspn(id, "0123456789");

	if (*id && (!is_slurm || (digits > 0 && (!id[digits] || strchr("._-+", id[digits])))))
		return 0;
	return err_set(err, -EINVAL, "%s:%.80s names no job; give %s", launcher, id,
		is_slurm ? "slurm:JOB, slurm:JOB.STEP or slurm:JOB_TASK, with numbers" : "its id after the colon");
}

static int find_job(const struct listing *list, const char *launcher, const char *id, char **ret_path,
	uint64_t *ret_skipped, struct err *err)
{
	struct wanted_job w = { .launcher = launcher };
	char raw[2 * JOB_KEY_BYTES];

	if (check_job(launcher, id, err) < 0)
		return -EINVAL;
	(void) snprintf(raw, sizeof(raw), "%s-%s", launcher, id);
	if (job_folder_key(raw, w.key, sizeof(w.key)) == 0) {
		find_in_history(&w, list, ret_skipped);
		job_pointer_each(see_list, &w);
	}
	if (w.error < 0) {
		free(w.path);
		return err_set(err, w.error, "out of memory");
	}
	if (!w.path)
		return err_set(err, -ENOENT, "no run of %s job %s in %s, nor one noted there that was written with -o",
			strcmp(launcher, "slurm") == 0 ? "Slurm" : launcher, id, list->folder);
	*ret_path = w.path;
	return 0;
}

/* ---- any RUN --------------------------------------------------------------------------------- */

static bool is_last(const char *run, uint64_t *ret_back)
{
	const char *p = run;

	*ret_back = 0;
	if (!parse_word(&p, "last"))
		return false;
	return *p == '\0' || (*p++ == '-' && parse_u64(&p, ret_back) == 0 && *p == '\0');
}

const char *history_name_of(const char *run)
{
	static const char name[] = "name:";
	const char *p = run, *launcher;
	uint64_t number;

	if (strncmp(run, name, strlen(name)) == 0)
		return run + strlen(name);
	if (job_folder_word(run, &launcher) || is_last(run, &number))
		return NULL;
	if (strchr(run, '/'))
		return access(run, F_OK) < 0 ? run : NULL;
	return parse_u64(&p, &number) == 0 && *p == '\0' ? NULL : run;
}

bool history_is_job(const char *run)
{
	const char *launcher;

	return job_folder_word(run, &launcher) != NULL;
}

int history_find(const char *run, char **ret_path, struct err *err)
{
	uint64_t skipped;

	return history_find_latest(run, ret_path, &skipped, err);
}

int history_find_latest(const char *run, char **ret_path, uint64_t *ret_skipped, struct err *err)
{
	static const char name[] = "name:";
	autolist struct listing list = { .n = 0 };
	const char *p = run, *launcher, *job = job_folder_word(run, &launcher);
	uint64_t number;
	int r;

	*ret_skipped = 0;
	if (*run == '\0')
		return err_set(err, -EINVAL,
			"RUN is empty; give a number, \"last\", a name, name:NAME, a path, slurm:JOB, torchrun:ID or mpi:ID");
	if (strncmp(run, name, strlen(name)) == 0) {
		r = history_list(&list, false, err);
		r = r < 0 ? r : find_latest(&list, is_name, run + strlen(name), ret_path, ret_skipped);
		return r == -ENOENT
			       ? err_set(err, r, "no run named %s in %s", run + strlen(name), list.folder)
			       : r;
	}
	if (!job && (strchr(run, '/') || ends_in(run, ".hiw"))) {
		if (access(run, F_OK) < 0 && history_list(&list, false, NULL) == 0 &&
			find_latest(&list, is_name, run, ret_path, ret_skipped) == 0)
			return 0;
		return find_path(run, ret_path, err);
	}
	r = history_list(&list, false, err);
	if (r < 0)
		return r;
	if (is_last(run, &number))
		return find_last(&list, number, ret_path, ret_skipped, err);
	if (parse_u64(&p, &number) == 0 && *p == '\0')
		return find_number(&list, number, ret_path, err);
	if (job)
		return find_job(&list, launcher, job, ret_path, ret_skipped, err);
	r = find_latest(&list, is_name, run, ret_path, ret_skipped);
	if (r == -ENOENT && access(run, F_OK) == 0)
		return found(run, ret_path, err);
	return r < 0 ? err_set(err, r, "no run named %s in %s, and no such file", run, list.folder) : 0;
}
