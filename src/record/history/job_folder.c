/* SPDX-License-Identifier: MIT */
#include "record/history/job_folder.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/parse.h"

enum {
	MOST_PARTS = 1 << 16
};

/* Those of scheduler_read() that have jobs. */
static const char *const launchers[] = { "slurm", "torchrun", "mpi", "flux", "pbs", "lsf", "sge", "kubernetes" };

bool job_folder_is_key(const char *key)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		const char *p = key;

		if (parse_word(&p, launchers[i]) && p[0] == '-' && p[1])
			return true;
	}
	return false;
}

int job_folder_key(const char *key, char *ret, size_t size)
{
	const int n = snprintf(ret, size, "%s", key);

	if (n < 0 || (size_t) n >= size || n >= JOB_KEY_BYTES || !job_folder_is_key(ret))
		return -EINVAL;
	for (char *p = ret; *p; p++)
		*p = *p == '/' || (unsigned char) *p < ' ' ? '_' : *p;
	return 0;
}

const char *job_folder_word(const char *word, const char **ret_launcher)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		const char *p = word;

		*ret_launcher = launchers[i];
		if (parse_word(&p, launchers[i]) && *p == ':')
			return p + 1;
	}
	return NULL;
}

/* ---- names of files -------------------------------------------------------------------------- */

/* Returns what precedes end at the end of name, or 0. */
static size_t without(const char *name, size_t len, const char *end)
{
	const size_t n = strlen(end);

	return len > n && strncmp(name + len - n, end, n) == 0 ? len - n : 0;
}

static bool is_recording(const char *name)
{
	return name[0] != '.' && without(name, strlen(name), ".hiw") > 0;
}

/* What SQLite keeps next to a recording, and ".NAME.hiw.PID.tmp", which becomes one by rename (network_fs_temporary). */
static bool is_of_recording(const char *name)
{
	static const char *const journals[] = { ".hiw-wal", ".hiw-shm", ".hiw-journal" };
	const size_t len = strlen(name);

	for (size_t i = 0; i < sizeof(journals) / sizeof(journals[0]); i++) {
		if (without(name, len, journals[i]) > 0)
			return true;
	}
	return name[0] == '.' && strstr(name, ".hiw.") && without(name, len, ".tmp") > 0;
}

static bool is_ours(const char *name)
{
	return is_recording(name) || is_of_recording(name) ||
	       (name[0] != '.' && without(name, strlen(name), ".ranks") > 0);
}

/* "n1-r12.hiw", "n1-r12-2.hiw": 12; "n1.hiw": -1. */
static int64_t rank_of(const char *name, uint64_t *ret_restart)
{
	const char *at = NULL, *p;
	uint64_t rank;

	*ret_restart = 0;
	for (p = strstr(name, "-r"); p; p = strstr(p + 1, "-r"))
		at = isdigit((unsigned char) p[2]) ? p + 2 : at;
	if (!at || parse_u64(&at, &rank) < 0 || rank > INT32_MAX)
		return -1;
	if (*at == '-') {
		at++;
		(void) parse_u64(&at, ret_restart);
	}
	return strcmp(at, ".hiw") == 0 ? (int64_t) rank : -1;
}

static int in_order(const void *a, const void *b)
{
	const struct job_part *x = a, *y = b;
	const char *x_name = strrchr(x->path, '/') + 1, *y_name = strrchr(y->path, '/') + 1;
	uint64_t x_start, y_start;

	(void) rank_of(x_name, &x_start);
	(void) rank_of(y_name, &y_start);
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x_start != y_start ? (x_start > y_start ? -1 : 1) : strcmp(x_name, y_name);
}

/* ---- reading --------------------------------------------------------------------------------- */

static DIR *open_folder(int at, const char *path)
{
	const int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		(void) close(fd);
	return dir;
}

/* The next regular file of hiwater; NULL: there are no more. */
static const char *next_file(DIR *dir, struct stat *ret)
{
	const struct dirent *entry;

	while ((entry = readdir(dir))) {
		if (is_ours(entry->d_name) &&
			fstatat(dirfd(dir), entry->d_name, ret, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISREG(ret->st_mode))
			return entry->d_name;
	}
	return NULL;
}

int job_folder_bytes(int folder, const char *name, uint64_t *ret)
{
	autoclosedir DIR *dir = open_folder(folder, name);
	struct stat st;

	*ret = 0;
	if (!dir)
		return -errno;
	while (next_file(dir, &st))
		*ret += (uint64_t) st.st_size;
	return 0;
}

static int add(struct job_parts *parts, int folder, const char *path, const char *name, const struct stat *st)
{
	struct job_part part = { .bytes = (uint64_t) st->st_size, .mtime_s = st->st_mtime };
	char journal[NAME_MAX + 8];
	struct stat wal;
	uint64_t restart;

	if (vec_reserve(&parts->parts, &parts->cap, parts->n, sizeof(part), MOST_PARTS) < 0 ||
		asprintf(&part.path, "%s/%s", path, name) < 0)
		return -ENOMEM;
	(void) snprintf(journal, sizeof(journal), "%s-wal", name);
	part.has_journal = fstatat(folder, journal, &wal, AT_SYMLINK_NOFOLLOW) == 0;
	if (part.has_journal && wal.st_mtime > part.mtime_s)
		part.mtime_s = wal.st_mtime;
	part.rank = rank_of(name, &restart);
	parts->parts[parts->n++] = part;
	return 0;
}

int job_folder_parts(const char *path, struct job_parts *ret)
{
	autoclosedir DIR *dir = open_folder(AT_FDCWD, path);
	const char *name;
	struct stat st;
	int r;

	*ret = (struct job_parts) { 0 };
	r = dir && fstat(dirfd(dir), &st) == 0 ? 0 : -errno;
	if (r == 0)
		ret->mtime_s = st.st_mtime;
	while (r == 0 && (name = next_file(dir, &st))) {
		if (st.st_mtime > ret->mtime_s)
			ret->mtime_s = st.st_mtime;
		r = is_recording(name) ? add(ret, dirfd(dir), path, name, &st) : 0;
	}
	if (r < 0)
		job_parts_done(ret);
	else if (ret->n > 0)
		qsort(ret->parts, ret->n, sizeof(ret->parts[0]), in_order);
	return r;
}

void job_parts_done(struct job_parts *parts)
{
	for (size_t i = 0; i < parts->n; i++)
		free(parts->parts[i].path);
	free(parts->parts);
	*parts = (struct job_parts) { 0 };
}

/* ---- removing -------------------------------------------------------------------------------- */

/* Removes what it finds; a file may be made meanwhile. Returns how many, or -errno. */
static int remove_files(DIR *dir)
{
	const char *name;
	struct stat st;
	int n = 0;

	rewinddir(dir);
	while ((name = next_file(dir, &st))) {
		if (unlinkat(dirfd(dir), name, 0) == 0)
			n++;
		else if (errno != ENOENT)
			return -errno;
	}
	return n;
}

static int report_rest(DIR *dir, const char *path, struct err *err)
{
	const struct dirent *entry;

	rewinddir(dir);
	do {
		entry = readdir(dir);
	} while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	return err_set(err, -ENOTEMPTY,
		"the recordings in %s are removed; the folder stays because of what is not hiwater's, for example "
		"%.80s; remove it with rm -r",
		path, entry ? entry->d_name : "?");
}

int job_folder_remove(const char *path, struct err *err)
{
	autoclosedir DIR *dir = open_folder(AT_FDCWD, path);
	int n = dir ? 1 : -errno;

	while (n > 0 && rmdir(path) < 0) {
		if (errno != ENOTEMPTY && errno != EEXIST)
			n = -errno;
		else if ((n = remove_files(dir)) == 0)
			return report_rest(dir, path, err);
	}
	return n < 0 ? err_set(err, n, "cannot remove %s: %s", path, strerror(-n)) : 0;
}
