/* SPDX-License-Identifier: MIT */
#include "record/history/history_list.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "record/history/history_dir.h"
#include "record/history/job_folder.h"
#include "record/schema.h"
#include "record/store.h"

enum {
	MOST_RUNS = 1 << 20
};

bool history_name(const char *name, uint64_t *ret_number, const char **ret_key)
{
	const char *p = name;

	*ret_key = NULL;
	if (*p == '0' || parse_u64(&p, ret_number) < 0)
		return false;
	if (strcmp(p, ".hiw") == 0)
		return true;
	if (*p++ != '-' || !job_folder_is_key(p))
		return false;
	*ret_key = p;
	return true;
}

static int by_number(const void *a, const void *b)
{
	const struct listed *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

void history_list_done(struct listing *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->runs[i].key);
	free(list->runs);
}

/* An empty file is a number that a run has reserved. Any other file without the header of a recording
 * belongs to another program. A file that this process writes or reads is not
 * opened here, since closing it would drop its locks (fcntl(2)). */
static bool is_recording(int folder, const char *name, const struct stat *st)
{
	enum {
		APPLICATION = 68, /* sqlite.org/fileformat2.html */
		HEADER = 100
	};
	static const char magic[16] = "SQLite format 3";
	unsigned char header[HEADER];

	if (st->st_size == 0 || store_is_open(st))
		return true;
	autoclose int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0 || pread(fd, header, HEADER, 0) != HEADER || memcmp(header, magic, sizeof(magic)) != 0)
		return false;
	const unsigned char *at = header + APPLICATION;

	return ((uint32_t) at[0] << 24 | (uint32_t) at[1] << 16 | (uint32_t) at[2] << 8 | at[3]) ==
	       SCHEMA_APPLICATION;
}

static uint64_t journal_bytes(int folder, const char *name)
{
	char journal[NAME_MAX + 8];
	struct stat st;

	(void) snprintf(journal, sizeof(journal), "%s-wal", name);
	return fstatat(folder, journal, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t) st.st_size : 0;
}

/* False: it belongs to another program, or is not there any more. */
static bool read_one(int folder, const char *name, bool with_bytes, struct listed *ret, const char **ret_key)
{
	struct stat st;

	if (!history_name(name, &ret->number, ret_key) ||
		fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	ret->mtime_s = st.st_mtime;
	ret->key = NULL;
	ret->bytes = 1;
	if (*ret_key && !S_ISDIR(st.st_mode))
		return false;
	if (*ret_key)
		return !with_bytes || job_folder_bytes(folder, name, &ret->bytes) == 0;
	ret->bytes = (uint64_t) st.st_size + journal_bytes(folder, name);
	return S_ISREG(st.st_mode) && is_recording(folder, name, &st);
}

static int add(struct listing *list, int folder, const char *name, bool with_bytes)
{
	struct listed run;
	const char *key;

	if (!read_one(folder, name, with_bytes, &run, &key))
		return 0;
	if (vec_reserve(&list->runs, &list->cap, list->n, sizeof(run), MOST_RUNS) < 0)
		return -ENOMEM;
	run.key = key ? strdup(key) : NULL;
	if (key && !run.key)
		return -ENOMEM;
	list->runs[list->n++] = run;
	return 0;
}

int history_list(struct listing *ret, bool with_bytes, struct err *err)
{
	autoclosedir DIR *dir = NULL;
	struct dirent *entry;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = history_dir(ret->folder, sizeof(ret->folder), err);
	if (r < 0)
		return r;
	dir = opendir(ret->folder);
	if (!dir && errno == ENOENT)
		return 0;
	if (!dir)
		return err_set(err, -errno, "cannot read the history %s: %s", ret->folder, strerror(errno));
	while (r == 0 && (entry = readdir(dir)))
		r = add(ret, dirfd(dir), entry->d_name, with_bytes);
	if (ret->n > 0)
		qsort(ret->runs, ret->n, sizeof(ret->runs[0]), by_number);
	return r < 0 ? err_set(err, r, "cannot read the history %s: out of memory", ret->folder) : 0;
}

void history_list_path(const struct listing *list, const struct listed *run, char *ret, size_t size)
{
	(void) snprintf(ret, size, "%s/%" PRIu64 "%s%s", list->folder, run->number, run->key ? "-" : ".hiw",
		run->key ? run->key : "");
}

bool history_is_ours(const char *folder, const char *name)
{
	autoclosedir DIR *dir = opendir(folder);
	const char *key;
	struct listed run;

	return dir && read_one(dirfd(dir), name, false, &run, &key);
}

/* ---- numbers --------------------------------------------------------------------------------- */

#define NEWEST "newest-removed"

static uint64_t newest_removed(const char *folder)
{
	char path[PATH_MAX], text[32];
	const char *p = text;
	uint64_t number;
	ssize_t n;

	if ((size_t) snprintf(path, sizeof(path), "%s/" NEWEST, folder) >= sizeof(path))
		return 0;
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);

	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return parse_u64(&p, &number) == 0 && number <= INT64_MAX ? number : 0; /* larger: damaged */
}

uint64_t history_next(const struct listing *list)
{
	const uint64_t newest = list->n > 0 ? list->runs[list->n - 1].number : 0,
		       removed = newest_removed(list->folder);

	return (newest > removed ? newest : removed) + 1;
}

/* Numbers never get shorter: writing over the old one cannot fail half-way on a full disk. */
bool history_note_removed(const char *folder, uint64_t number)
{
	char path[PATH_MAX], text[32];
	const int len = snprintf(text, sizeof(text), "%" PRIu64 "\n", number);

	if (number <= newest_removed(folder))
		return true;
	if ((size_t) snprintf(path, sizeof(path), "%s/" NEWEST, folder) >= sizeof(path))
		return false;
	autoclose int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd >= 0 && write(fd, text, (size_t) len) == len;
}
