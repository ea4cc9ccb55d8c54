/* SPDX-License-Identifier: MIT
 *
 * truth-replay MASK[,MASK ...] JOURNAL ...: replays journals (journal.c) into the estimator of
 * combined memory, each with the rules of each mask disabled (enum memory_rule; 0: none). It prints
 * a line for each journal and mask:
 *
 *     JOURNAL MASK LOW ESTIMATE HIGH LOW ESTIMATE HIGH
 *
 * of all members, and of all except the main process, at the end of the run: bytes, or - without an
 * upper bound. The calls are those of a run with all rules: requests that the estimator would have
 * made without one of them are not in the journal.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/memory/memory.h"

enum {
	ARGS_MOST = 12,
	CALLS_MOST = 1 << 26
};

struct call {
	const char *name;
	size_t n_args;
	void (*replay)(struct memory *m, const int64_t *a);
};

static void replay_birth(struct memory *m, const int64_t *a)
{
	const struct memory_birth birth = {
		.id = (uint32_t) a[0],
		.parent = (uint32_t) a[1],
		.program = (uint64_t) a[2],
		.forked_ns = (uint64_t) a[3],
		.is_main = a[4],
		.is_new = a[5],
	};

	(void) memory_birth(m, &birth);
}

static void replay_exec(struct memory *m, const int64_t *a)
{
	(void) memory_exec(m, (uint32_t) a[0], (uint64_t) a[1]);
}

static void replay_time(struct memory *m, const int64_t *a)
{
	memory_time(m, (uint64_t) a[0]);
}

static void replay_size(struct memory *m, const int64_t *a)
{
	memory_size(m, (uint32_t) a[0], a[1], a[2]);
}

static void replay_hwm(struct memory *m, const int64_t *a)
{
	memory_hwm(m, (uint32_t) a[0], a[1], a[2]);
}

static void replay_faults(struct memory *m, const int64_t *a)
{
	memory_faults(m, (uint32_t) a[0], a[1]);
}

static void replay_mapped_twice(struct memory *m, const int64_t *a)
{
	memory_mapped_twice(m, (uint32_t) a[0], a[1]);
}

static void replay_end(struct memory *m, const int64_t *a)
{
	const struct memory_end end = {
		.id = (uint32_t) a[0],
		.hwm = { .known = a[1], .value = a[2] },
		.until_ns = (uint64_t) a[3],
		.faults = { .known = a[4], .value = a[5] },
		.is_own = a[6],
		.is_renamed = a[7],
		.is_copy = a[8],
		.is_awaited = a[9],
	};

	memory_end(m, &end);
}

static void replay_records_lost(struct memory *m, const int64_t *a)
{
	(void) a;
	memory_records_lost(m);
}

static void replay_some_process(struct memory *m, const int64_t *a)
{
	memory_some_process(m, a[0], a[1]);
}

static void replay_huge(struct memory *m, const int64_t *a)
{
	memory_huge(m, a[0]);
}

static void replay_machine(struct memory *m, const int64_t *a)
{
	memory_machine(m, a[0]);
}

static void replay_cgroup(struct memory *m, const int64_t *a)
{
	memory_cgroup(m, a[0]);
}

static void replay_files(struct memory *m, const int64_t *a)
{
	memory_files(m, a[0], a[1]);
}

static void replay_pss(struct memory *m, const int64_t *a)
{
	memory_pss(m,
		&(struct memory_pss) { .id = (uint32_t) a[0], .pss = a[1], .anon = a[2], .private = a[3] });
}

static void replay_pass(struct memory *m, const int64_t *a)
{
	const int64_t grown[MEMORY_SETS] = { [MEMORY_ALL] = a[2], [MEMORY_DESCENDANTS] = a[3] };

	memory_pass(m, a[0], a[1], grown);
}

static void replay_total(struct memory *m, const int64_t *a)
{
	struct memory_total total;

	memory_total(m, (uint64_t) a[0], (struct maybe) { .known = a[1], .value = a[2] }, &total);
}

static void replay_finish(struct memory *m, const int64_t *a)
{
	(void) a;
	memory_finish(m);
}

static const struct call calls[] = {
	{ "birth", 6, replay_birth },
	{ "exec", 2, replay_exec },
	{ "time", 1, replay_time },
	{ "size", 3, replay_size },
	{ "hwm", 3, replay_hwm },
	{ "faults", 2, replay_faults },
	{ "mapped_twice", 2, replay_mapped_twice },
	{ "end", 10, replay_end },
	{ "records_lost", 0, replay_records_lost },
	{ "some_process", 2, replay_some_process },
	{ "huge", 1, replay_huge },
	{ "machine", 1, replay_machine },
	{ "cgroup", 1, replay_cgroup },
	{ "files", 2, replay_files },
	{ "pss", 4, replay_pss },
	{ "pass", 4, replay_pass },
	{ "total", 3, replay_total },
	{ "finish", 0, replay_finish },
};

/* ---- reading ------------------------------------------------------------------------------------------------------------ */

struct entry {
	const struct call *call;
	int64_t args[ARGS_MOST];
};

struct journal {
	struct memory_config config;
	struct entry *entries;
	size_t n, max;
	size_t n_finished; /* number of calls until the end of the run; later ones affect no figure */
};

static const struct call *call_find(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (!strcmp(name, calls[i].name))
			return &calls[i];
	}
	return NULL;
}

/* Parses the numbers after the name, up to the end of the string; SIZE_MAX: not numbers, or too
 * many. */
static size_t line_split(char *line, int64_t args[ARGS_MOST])
{
	char *at = line + strcspn(line, " \n"), *end;
	size_t n = 0;

	while (*at == ' ') {
		*at++ = '\0';
		errno = 0;
		if (n == ARGS_MOST)
			return SIZE_MAX;
		args[n++] = strtoll(at, &end, 10);
		if (end == at || errno)
			return SIZE_MAX;
		at = end;
	}
	if (*at != '\n') /* cut off */
		return SIZE_MAX;
	*at = '\0';
	return n;
}

static int entry_add(struct journal *j, const struct entry *entry)
{
	if (j->n == j->max) {
		const size_t max = j->max ? 2 * j->max : 1024;
		struct entry *entries = max <= CALLS_MOST ? realloc(j->entries, max * sizeof(*entries))
							  : NULL;

		if (!entries)
			return -ENOMEM;
		j->entries = entries;
		j->max = max;
	}
	j->entries[j->n++] = *entry;
	if (entry->call->replay == replay_finish)
		j->n_finished = j->n;
	return 0;
}

static int line_take(struct journal *j, char *line, bool is_first)
{
	struct entry entry = { 0 };
	const size_t n = line_split(line, entry.args);
	const int64_t *a = entry.args;

	if (is_first && n == 5 && !strcmp(line, "new")) {
		j->config = (struct memory_config) { .page_bytes = a[0],
			.huge_bytes = a[1],
			.machine_bytes = a[2],
			.rss_error_bytes = a[3],
			.ours = a[4] };
		return 0;
	}
	entry.call = is_first ? NULL : call_find(line);
	return entry.call && n == entry.call->n_args ? entry_add(j, &entry) : -EINVAL;
}

static int journal_read(struct journal *j, const char *path)
{
	FILE *file = fopen(path, "r");
	char line[512];
	int r = 0;

	if (!file)
		return -errno;
	for (size_t number = 0; r == 0 && fgets(line, sizeof(line), file); number++)
		r = line_take(j, line, number == 0);
	fclose(file);
	return r == 0 && j->n_finished == 0 ? -EINVAL : r; /* the journal ends before the run did */
}

/* ---- replaying ---------------------------------------------------------------------------------------------------------- */

static int journal_replay(const struct journal *j, const char *path, unsigned without)
{
	struct memory_config config = j->config;
	struct memory_peak peak;
	struct memory *m;

	config.without = without;
	m = memory_new(&config);
	if (!m)
		return -ENOMEM;
	for (size_t i = 0; i < j->n_finished; i++)
		j->entries[i].call->replay(m, j->entries[i].args);
	printf("%s %u", path, without);
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		memory_peak(m, s, &peak);
		printf(" %" PRId64 " %" PRId64, peak.low, peak.estimate);
		if (peak.high.known)
			printf(" %" PRId64, peak.high.value);
		else
			printf(" -");
	}
	printf("\n");
	memory_free(m);
	return 0;
}

static int file_replay(const char *path, const char *masks)
{
	struct journal j = { 0 };
	int r = journal_read(&j, path);
	char *end;

	for (const char *mask = masks; r == 0; mask = end + 1) {
		const unsigned long without = strtoul(mask, &end, 0);

		if (end == mask || (*end && *end != ','))
			r = -EINVAL;
		else
			r = journal_replay(&j, path, (unsigned) without);
		if (!*end)
			break;
	}
	free(j.entries);
	return r;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: truth-replay MASK[,MASK ...] JOURNAL ...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		const int r = file_replay(argv[i], argv[1]);

		if (r < 0) {
			fprintf(stderr, "truth-replay: %s: %s\n", argv[i],
				r == -EINVAL ? "not a complete journal" : strerror(-r));
			return 1;
		}
	}
	return 0;
}
