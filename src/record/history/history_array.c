/* SPDX-License-Identifier: MIT */
#include "record/history/history_array.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "record/history/job_folder.h"
#include "record/store.h"

#define ARRAYS "arrays"

enum {
	LINE_BYTES = JOB_KEY_BYTES + 32,
	UNUSED_LEAST = 4096, /* lines of runs that are gone, from which on the file is written anew */
};

/* "slurm-5000_7.0": the length of "slurm-5000"; 0: it is no task of an array. */
static size_t array_length(const char *key)
{
	static const char slurm[] = "slurm-";
	const size_t n = strlen(slurm), digits = strncmp(key, slurm, n) == 0 ? strspn(key + n, "0123456789") : 0;

	return digits > 0 && key[n + digits] == '_' ? n + digits : 0;
}

void history_array_note(const char *path, const char *key)
{
	const char *slash = strrchr(path, '/'), *folder_key;
	const size_t len = key ? array_length(key) : 0;
	char file[PATH_MAX], line[LINE_BYTES];
	uint64_t number;

	if (!slash || len == 0 || !history_name(slash + 1, &number, &folder_key) || folder_key)
		return;
	const int n = snprintf(line, sizeof(line), "%" PRIu64 " %.*s\n", number, (int) len, key);

	if (n >= (int) sizeof(line) ||
		snprintf(file, sizeof(file), "%.*s/" ARRAYS, (int) (slash - path), path) >= (int) sizeof(file))
		return;
	autoclose int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0 && write(fd, line, (size_t) n) < 0) /* the task counts for itself */
		return;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A task and its array, as a hash; 0: none. */
struct task {
	uint64_t array;
	size_t run;
};

static int by_number(const void *number, const void *run)
{
	const uint64_t a = *(const uint64_t *) number, b = ((const struct listed *) run)->number;

	return (a > b) - (a < b);
}

static int by_array(const void *a, const void *b)
{
	const struct task *x = a, *y = b;

	if (x->array != y->array)
		return x->array < y->array ? -1 : 1;
	return (x->run > y->run) - (x->run < y->run);
}

static uint64_t hash_of(const char *key)
{
	char name[JOB_KEY_BYTES];
	const size_t len = array_length(key);

	if (len == 0 || len >= sizeof(name))
		return 0;
	(void) snprintf(name, sizeof(name), "%.*s", (int) len, key);
	return store_hash(name);
}

/* The run that a line names, and *ret_array borrowed from the line; NULL: it is gone. */
static const struct listed *run_of(const struct listing *list, char *line, const char **ret_array)
{
	const char *p = line;
	const struct listed *run;
	uint64_t number;

	line[strcspn(line, "\n")] = '\0';
	if (parse_u64(&p, &number) < 0 || *p++ != ' ' || list->n == 0)
		return NULL;
	*ret_array = p;
	run = bsearch(&number, list->runs, list->n, sizeof(list->runs[0]), by_number);
	return run && !run->key ? run : NULL;
}

/* Keeps the lines of runs that are there. One that another recorder adds meanwhile is lost. */
static void shorten(const struct listing *list, FILE *lines, const char *path)
{
	char line[LINE_BYTES], to[PATH_MAX];
	const char *array;
	bool ok;

	if (snprintf(to, sizeof(to), "%s.%d", path, (int) getpid()) >= (int) sizeof(to))
		return;
	FILE *out = fopen(to, "wxe");

	rewind(lines);
	while (out && fgets(line, sizeof(line), lines)) {
		const struct listed *run = run_of(list, line, &array);

		if (run)
			(void) fprintf(out, "%" PRIu64 " %s\n", run->number, array);
	}
	ok = out && !ferror(out);
	ok = (!out || fclose(out) == 0) && ok;
	if (!ok || rename(to, path) < 0)
		(void) unlink(to);
}

static void read_lines(const struct listing *list, struct task *tasks)
{
	char line[LINE_BYTES], path[PATH_MAX];
	size_t used = 0, unused = 0;
	autofclose FILE *f = NULL;
	const char *array;

	(void) snprintf(path, sizeof(path), "%s/" ARRAYS, list->folder);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const struct listed *run = run_of(list, line, &array);

		if (run)
			tasks[run - list->runs].array = store_hash(array);
		*(run ? &used : &unused) += 1;
	}
	if (unused > used + UNUSED_LEAST)
		shorten(list, f, path);
}

int history_array_find(const struct listing *list, size_t *of)
{
	autofree struct task *tasks = calloc(list->n ? list->n : 1, sizeof(*tasks));

	if (!tasks)
		return -ENOMEM;
	for (size_t i = 0; i < list->n; i++) {
		of[i] = tasks[i].run = i;
		tasks[i].array = list->runs[i].key ? hash_of(list->runs[i].key) : 0;
	}
	read_lines(list, tasks);
	if (list->n > 0)
		qsort(tasks, list->n, sizeof(*tasks), by_array);
	for (size_t i = list->n; i-- > 1;) {
		if (tasks[i - 1].array != 0 && tasks[i - 1].array == tasks[i].array)
			of[tasks[i - 1].run] = of[tasks[i].run];
	}
	return 0;
}
