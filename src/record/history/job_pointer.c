/* SPDX-License-Identifier: MIT */
#include "record/history/job_pointer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/folders.h"
#include "base/parse.h"
#include "record/history/history.h"
#include "record/history/history_run.h"
#include "record/history/job_folder.h"

enum {
	MOST_JOBS = 1000,
	MOST_BYTES = 1 << 20, /* of a list */
	MOST_PATHS = 1 << 14,
	FOLDER_BYTES = PATH_MAX - NAME_MAX - 2
};

static int jobs_folder(char *ret, size_t size)
{
	int r = history_dir(ret, size, NULL);

	if (r < 0)
		return r;
	const size_t n = strlen(ret);

	return snprintf(ret + n, size - n, "/jobs") < (int) (size - n) ? 0 : -ENAMETOOLONG;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The whole list; NULL: it is too large, or not a regular file. */
static char *read_text(int fd)
{
	struct stat st;
	char *text;
	ssize_t n;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size >= MOST_BYTES)
		return NULL;
	text = malloc((size_t) st.st_size + 1);
	n = text ? pread(fd, text, (size_t) st.st_size, 0) : -1;
	if (n >= 0)
		text[n] = '\0';
	else
		free(text);
	return n >= 0 ? text : NULL;
}

static int open_list(const char *path, int flags)
{
	return open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

/* A recording may have been replaced by that of another job; a folder has its job's name. */
static bool is_of(const char *path, const char *key)
{
	char raw[2 * JOB_KEY_BYTES], found[JOB_KEY_BYTES] = "";
	struct history_run run;
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	if (S_ISDIR(st.st_mode))
		return true;
	if (history_run_read(path, &run) < 0)
		return false;
	(void) snprintf(raw, sizeof(raw), "%s-%s", run.scheduler ? run.scheduler : "",
		run.scheduler_job ? run.scheduler_job : "");
	history_run_done(&run);
	return job_folder_key(raw, found, sizeof(found)) == 0 && strcmp(found, key) == 0;
}

static int add_path(struct job_paths *paths, const char *path, const char *key)
{
	if (!is_of(path, key))
		return 0;
	if (vec_reserve(&paths->paths, &paths->cap, paths->n, sizeof(*paths->paths), MOST_PATHS) < 0 ||
		!(paths->paths[paths->n] = strdup(path)))
		return -ENOMEM;
	paths->n++;
	return 0;
}

/* NULL: the path is not that of a list. */
static const char *key_of_list(const char *path)
{
	char folder[FOLDER_BYTES];
	size_t n;

	if (jobs_folder(folder, sizeof(folder)) < 0)
		return NULL;
	n = strlen(folder);
	if (strncmp(path, folder, n) != 0 || path[n] != '/' || strchr(path + n + 1, '/'))
		return NULL;
	return job_folder_is_key(path + n + 1) ? path + n + 1 : NULL;
}

int job_pointer_read(const char *list, struct job_paths *ret)
{
	autoclose int fd = open_list(list, O_RDONLY);
	autofree char *text = fd < 0 ? NULL : read_text(fd);
	const char *key = key_of_list(list);
	char *rest = text, *line;
	int r = !key ? -EBADMSG : fd < 0 ? -errno
			  : !text        ? -EBADMSG
					 : 0;

	*ret = (struct job_paths) { 0 };
	while (r == 0 && (line = strsep(&rest, "\n")))
		r = *line == '/' ? add_path(ret, line, key) : 0;
	if (r < 0)
		job_paths_done(ret);
	return r;
}

void job_paths_done(struct job_paths *paths)
{
	for (size_t i = 0; i < paths->n; i++)
		free(paths->paths[i]);
	free(paths->paths);
	*paths = (struct job_paths) { 0 };
}

const char *job_paths_folder(const struct job_paths *paths)
{
	struct stat st;

	for (size_t i = paths->n; i > 0; i--) {
		if (stat(paths->paths[i - 1], &st) == 0 && S_ISDIR(st.st_mode))
			return paths->paths[i - 1];
	}
	return NULL;
}

void job_pointer_each(bool (*see)(void *ctx, const char *path, const char *key), void *ctx)
{
	char folder[FOLDER_BYTES], path[PATH_MAX];
	autoclosedir DIR *dir = jobs_folder(folder, sizeof(folder)) < 0 ? NULL : opendir(folder);
	const struct dirent *entry;
	bool more = true;

	while (dir && more && (entry = readdir(dir))) {
		if (!job_folder_is_key(entry->d_name))
			continue;
		(void) snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		more = see(ctx, path, entry->d_name);
	}
}

/* ---- writing --------------------------------------------------------------------------------- */

struct oldest {
	size_t n;
	char path[PATH_MAX];
	time_t mtime;
};

static bool see_list(void *ctx, const char *path, const char *key)
{
	struct oldest *o = ctx;
	struct stat st;

	(void) key;
	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return true;
	if (o->n++ == 0 || st.st_mtime < o->mtime) {
		(void) snprintf(o->path, sizeof(o->path), "%s", path);
		o->mtime = st.st_mtime;
	}
	return true;
}

/* Each job that adds a list removes one at most, so that there are never many more. */
static void remove_oldest(void)
{
	struct oldest oldest = { .n = 0 };

	job_pointer_each(see_list, &oldest);
	if (oldest.n > MOST_JOBS)
		(void) unlink(oldest.path);
}

static bool has_line(const char *text, const char *path)
{
	const size_t n = strlen(path);

	for (const char *p = text; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
		if (strncmp(p, path, n) == 0 && p[n] == '\n')
			return true;
	}
	return false;
}

static int append(const char *list, const char *path)
{
	autoclose int fd = open_list(list, O_RDWR | O_CREAT | O_APPEND);
	autofree char *text = fd < 0 ? NULL : read_text(fd), *line = NULL;
	const int len = asprintf(&line, "%s\n", path);

	if (fd < 0)
		return -errno;
	if (!text || len < 0)
		return len < 0 ? -ENOMEM : -EFBIG;
	if (!has_line(text, path) && write(fd, line, (size_t) len) != len)
		return -EIO;
	if (!*text)
		remove_oldest();
	return 0;
}

static bool is_in_history(const char *path)
{
	char folder[PATH_MAX];
	size_t n;

	if (history_dir(folder, sizeof(folder), NULL) < 0)
		return false;
	n = strlen(folder);
	return strncmp(path, folder, n) == 0 && path[n] == '/';
}

int history_point(const char *key, const char *path)
{
	char folder[FOLDER_BYTES], clean[JOB_KEY_BYTES], list[PATH_MAX];
	int r = job_folder_key(key, clean, sizeof(clean));

	if (r == 0 && (*path != '/' || strchr(path, '\n')))
		r = -EINVAL;
	if (r < 0 || is_in_history(path))
		return r;
	r = jobs_folder(folder, sizeof(folder));
	if (r == 0)
		r = folders_make(folder);
	if (r < 0)
		return r;
	(void) snprintf(list, sizeof(list), "%s/%s", folder, clean);
	return append(list, path);
}
