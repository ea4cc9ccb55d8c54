/* SPDX-License-Identifier: MIT
 *
 * Traces of other tools as traced work of a run: which place on its time axis they have, and one
 * transaction for all of them. What fails leaves an existing recording as it was, and no new one.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/handles.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "record/history/history.h"
#include "record/history/history_run.h"
#include "record/network_fs.h"
#include "record/trace/trace_file.h"
#include "record/trace/trace_write.h"
#include "source/trace/import/import.h"

enum {
	HISTORY_RUNS = 200, /* as of runs that are recorded */
};
static const uint64_t history_bytes = UINT64_C(1) << 30;
/* The rows of an import are all kept: its file is larger. */
static const uint64_t limit_bytes = UINT64_C(64) << 30;

struct import {
	const struct hwi_import_options *options;
	const char *const *paths;
	size_t n;
	struct trace_import **files;
	int64_t first_ns, last_ns;   /* of all files, on their clock */
	bool is_wall;                /* all of them have the wall clock */
	/* Of the run that it goes into. */
	char *path;
	bool is_new, in_history;
	uint64_t number;             /* of a new run in the history; 0: none */
	int64_t started_wall_ns;     /* 0: unknown */
	uint64_t run_ns;             /* its length */
	int64_t zero_ns;             /* its start, on the files' clock */
	struct store *store;
	struct trace_write *write;
};

static void say(const struct import *im, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(const struct import *im, const char *format, ...)
{
	char text[512];
	va_list ap;

	if (!im->options->say)
		return;
	va_start(ap, format);
	(void) vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	im->options->say(im->options->ctx, text);
}

/* ---- the files ------------------------------------------------------------------------------- */

static int open_files(struct import *im, struct err *err)
{
	im->is_wall = true;
	for (size_t i = 0; i < im->n; i++) {
		const struct trace_import_facts *facts;
		const int r = trace_import_open(im->paths[i], &im->files[i], err);

		if (r < 0)
			return r;
		facts = trace_import_facts(im->files[i]);
		for (size_t k = 0; k < facts->n_notes; k++)
			say(im, "%s: %s", im->paths[i], facts->notes[k]);
		im->is_wall &= facts->is_wall;
		im->first_ns = i == 0 || facts->first_ns < im->first_ns ? facts->first_ns : im->first_ns;
		im->last_ns = i == 0 || facts->last_ns > im->last_ns ? facts->last_ns : im->last_ns;
	}
	if (im->n > 1 && !im->is_wall)
		return err_set(err, -EINVAL, "several files, of which not all have the wall clock, cannot be placed "
					     "next to each other; import one at a time, each with --into RUN and --at TIME or --offset SPAN");
	return 0;
}

/* "2026-11-26T18:45:00.123Z to 2026-11-26T18:46:00.000Z". */
static void write_span(int64_t from_ns, int64_t to_ns, char *ret, size_t size)
{
	char from[UNITS_LEN], to[UNITS_LEN];

	(void) snprintf(ret, size, "%s to %s", units_rfc3339(from_ns > 0 ? (uint64_t) from_ns : 0, from),
		units_rfc3339(to_ns > 0 ? (uint64_t) to_ns : 0, to));
}

/* ---- its place ------------------------------------------------------------------------------- */

static int find_run(struct import *im, struct err *err)
{
	struct history_entry entry = { 0 };
	char *found = NULL;
	int r = history_find(im->options->into, &found, err);

	if (r < 0)
		return r;
	/* The file itself, not a link to it, is replaced. */
	im->path = realpath(found, NULL);
	free(found);
	if (!im->path)
		return err_set(err, -errno, "cannot read %s: %s", im->options->into, strerror(errno));
	r = history_entry_read(im->path, &entry);
	if (r < 0)
		return err_set(err, r, "%s is not the recording of one run; import into that of a rank or node: a FILE.hiw",
			im->path);
	im->started_wall_ns = entry.started_wall_ns <= INT64_MAX ? (int64_t) entry.started_wall_ns : 0;
	im->run_ns = entry.wall_ns > 0 ? (uint64_t) entry.wall_ns : 0;
	history_entry_done(&entry);
	return 0;
}

/* The wall clock of both, or what the user said. */
static int place_into_run(struct import *im, struct err *err)
{
	const struct hwi_import_options *o = im->options;
	const struct trace_import_facts *facts = trace_import_facts(im->files[0]);
	char file_span[100], run_span[100];
	int64_t end_ns;

	if (o->has_offset) {
		if (__builtin_sub_overflow(im->first_ns, o->offset_ns, &im->zero_ns))
			return err_set(err, -EINVAL, "--offset is beyond all times");
		return 0;
	}
	if (!o->has_at && !im->is_wall)
		return err_set(err, -EINVAL, "%s (%s) does not say when it was recorded: its clock begins anywhere. Say "
					     "when its first event was, with --at TIME (of the wall clock), or how long after the run's start, with "
					     "--offset SPAN",
			im->paths[0], facts->format);
	if (im->started_wall_ns == 0)
		return err_set(err, -EINVAL, "%s does not say when its run started; say how long after its start the trace "
					     "begins, with --offset SPAN",
			im->path);
	if (o->has_at &&
		__builtin_sub_overflow(im->first_ns, o->at_wall_ns - im->started_wall_ns, &im->zero_ns))
		return err_set(err, -EINVAL, "--at is beyond all times");
	if (!o->has_at)
		im->zero_ns = im->started_wall_ns;
	if (__builtin_add_overflow(im->zero_ns, (int64_t) im->run_ns, &end_ns))
		end_ns = INT64_MAX;
	if (im->last_ns >= im->zero_ns && im->first_ns <= end_ns)
		return 0;
	write_span(im->started_wall_ns + (im->first_ns - im->zero_ns),
		im->started_wall_ns + (im->last_ns - im->zero_ns), file_span, sizeof(file_span));
	write_span(im->started_wall_ns, im->started_wall_ns + (int64_t) im->run_ns, run_span,
		sizeof(run_span));
	return err_set(err, -ERANGE, "the trace and the run have no time in common: the trace is from %s, the run from %s. "
				     "If it belongs there all the same (another clock), say where it begins: --at TIME or --offset SPAN",
		file_span, run_span);
}

static int place_new(struct import *im, struct err *err)
{
	const struct hwi_import_options *o = im->options;

	if (o->has_offset)
		return err_set(err, -EINVAL, "--offset needs --into RUN: a new recording begins at the first event");
	im->zero_ns = im->first_ns;
	im->run_ns = (uint64_t) im->last_ns - (uint64_t) im->first_ns;
	im->started_wall_ns = o->has_at ? o->at_wall_ns : im->is_wall ? im->first_ns
								      : 0;
	return 0;
}

/* Events after the run's end stay: they show that the trace covers more, or that a clock is wrong. */
static void say_what_is_after(const struct import *im)
{
	const uint64_t last = im->last_ns > im->zero_ns ? (uint64_t) im->last_ns - (uint64_t) im->zero_ns : 0;
	char text[UNITS_LEN];

	if (last > im->run_ns && last - im->run_ns <= INT64_MAX)
		say(im, "the trace lasts %s longer than the run", units_duration((int64_t) (last - im->run_ns), text));
}

/* ---- the recording --------------------------------------------------------------------------- */

/* What a signal leaves behind. copied: what becomes unfinished, while a recording is copied. */
static char unfinished[PATH_MAX], copied[PATH_MAX], reserved[PATH_MAX];

void hwi_import_abandon(void)
{
	if (copied[0])
		(void) unlink(copied);
	if (unfinished[0])
		(void) unlink(unfinished);
	if (reserved[0])
		(void) unlink(reserved);
}

/* The file as the recording remembers it: by what it has, not by its name. */
static uint64_t identity_of(const struct trace_import_facts *facts)
{
	struct buf text = BUF_INIT(4096);
	uint64_t hash;

	(void) buf_printf(&text, "%s %lld %lld %lld", facts->origin, (long long) facts->first_ns,
		(long long) facts->last_ns, (long long) facts->rank);
	for (int i = 0; i < TRACE_KIND_COUNT; i++)
		(void) buf_printf(&text, " %llu", (unsigned long long) facts->kinds[i]);
	hash = store_hash(text.data);
	buf_done(&text);
	return hash;
}

/* Notes the file in the table meta; -EEXIST with text: it is there already. */
static int note_file(struct import *im, size_t i, struct err *err)
{
	const struct trace_import_facts *facts = trace_import_facts(im->files[i]);
	const char *slash = strrchr(im->paths[i], '/');
	char key[40], value[400];
	sqlite3_stmt *st = store_cached(im->store, "SELECT 1 FROM meta WHERE key = ?");
	int r = 0;

	(void) snprintf(key, sizeof(key), "import.%016llx", (unsigned long long) identity_of(facts));
	if (st) {
		(void) sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
		r = sqlite3_step(st) == SQLITE_ROW ? -EEXIST : 0;
		(void) sqlite3_reset(st);
	}
	if (r < 0)
		return err_set(err, r, "%s is already in %s; nothing was imported", im->paths[i],
			im->is_new ? "the list: the same trace comes twice" : im->path);
	(void) snprintf(value, sizeof(value), "%s: %s, %llu events", slash ? slash + 1 : im->paths[i], facts->format,
		(unsigned long long) facts->events);
	return store_meta_text(im->store, key, value);
}

struct edge {
	uint64_t time_ns;
	size_t phase;
	bool is_end;
};

static int by_time(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	if (x->is_end != y->is_end)
		return x->is_end ? -1 : 1;
	return x->phase < y->phase ? -1 : x->phase > y->phase;
}

/* Passes on the innermost open phase at each begin and end. */
static void walk_phases(struct import *im, const struct job *job, const struct edge *edges, size_t n,
	size_t *open)
{
	size_t n_open = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		if (edges[i].is_end) {
			while (k < n_open && open[k] != edges[i].phase)
				k++;
			if (k < n_open)
				memmove(&open[k], &open[k + 1], (--n_open - k) * sizeof(*open));
		} else {
			open[n_open++] = edges[i].phase;
		}
		trace_write_phase(im->write, edges[i].time_ns,
			n_open ? job_phase(job, open[n_open - 1])->number : 0);
	}
}

/* The phases of the run, by which the sums are divided. */
static int read_phases(struct import *im, struct err *err)
{
	struct replay *replay = NULL;
	struct job *job = NULL;
	size_t n, k = 0;
	int r = replay_open(im->path, &replay, err);

	if (r == 0)
		r = replay_job(replay, &job, err);
	n = r == 0 ? job_phase_count(job) : 0;
	autofree struct edge *edges = calloc(2 * n + 1, sizeof(*edges));
	autofree size_t *open = calloc(n + 1, sizeof(*open));

	if (r == 0 && (!edges || !open))
		r = err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n && r == 0; i++) {
		const struct phase *phase = job_phase(job, i);

		edges[k++] = (struct edge) { phase->begin_ns, i, false };
		if (phase->end_ns)
			edges[k++] = (struct edge) { phase->end_ns, i, true };
	}
	if (r == 0 && k > 0) {
		qsort(edges, k, sizeof(*edges), by_time);
		walk_phases(im, job, edges, k, open);
	}
	job_free(job);
	replay_close(replay);
	return r;
}

/* Opens or creates the recording, with a transaction begun. */
static int open_recording(struct import *im, struct err *err)
{
	const struct trace_write_options options = { .limit_bytes = limit_bytes };
	int r = 0;

	im->is_new = !im->options->into;
	if (im->is_new && im->options->output)
		im->path = strdup(im->options->output);
	else if (im->is_new)
		r = history_reserve(&im->path, &im->number, err);
	im->in_history = im->is_new && !im->options->output;
	if (r == 0 && !im->path)
		return err_set(err, -ENOMEM, "out of memory");
	if (r == 0 && im->in_history)
		(void) snprintf(reserved, sizeof(reserved), "%s", im->path);
	if (r == 0 && network_fs_temporary(im->path, unfinished, sizeof(unfinished)) < 0)
		unfinished[0] = '\0';
	if (unfinished[0] && network_fs_temporary(unfinished, copied, sizeof(copied)) < 0)
		copied[0] = '\0';
	if (r == 0)
		r = im->is_new ? trace_file_create(im->path, im->in_history, &im->store, err)
			       : trace_file_open(im->path, &im->store, err);
	if (r < 0)
		return r;
	im->write = trace_write_new(im->store, &options);
	return im->write ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int write_facts(struct import *im)
{
	const struct trace_import_facts *facts = trace_import_facts(im->files[0]);
	struct buf command = BUF_INIT(1 << 16);
	struct trace_file_facts about = {
		.name = im->options->name,
		.started_wall_ns = im->started_wall_ns,
		.ended_ns = im->run_ns,
		.rank = -1,
		.ranks = -1,
	};
	int r;

	(void) buf_printf(&command, "hiwater import");
	for (size_t i = 0; i < im->n; i++)
		(void) buf_printf(&command, " %s", im->paths[i]);
	about.command = command.data;
	if (im->n == 1) {
		about.rank = im->options->rank >= 0 ? im->options->rank : facts->rank;
		about.ranks = facts->ranks;
	}
	r = trace_file_facts_write(im->store, &about);
	buf_done(&command);
	return r;
}

/* Passes the events of a file on. */
static int pass_file(struct import *im, size_t i, struct err *err)
{
	struct trace_import_target target = {
		.sink = trace_write_sink(im->write),
		.zero_ns = im->zero_ns,
		.rank = im->options->rank,
	};
	int r = note_file(im, i, err);

	if (r == 0)
		r = trace_import_pass(im->files[i], &target, err);
	if (r == 0)
		r = trace_write_flush(im->write);
	if (r < 0 && err->text[0] == '\0') {
		const char *why = store_why(im->store);

		(void) err_set(err, r, "cannot write %s: %s", im->path, why[0] ? why : strerror(-r));
	}
	if (r < 0)
		return r;
	if (target.before)
		say(im, "%s: %llu events began before the run did and are left out", im->paths[i],
			(unsigned long long) target.before);
	return 0;
}

static int fill_recording(struct import *im, struct err *err)
{
	int r = im->is_new ? 0 : read_phases(im, err);

	for (size_t i = 0; i < im->n && r == 0; i++)
		r = pass_file(im, i, err);
	if (r == 0 && im->is_new) {
		r = write_facts(im);
		if (r < 0)
			(void) err_set(err, r, "cannot write %s: %s", im->path, store_why(im->store));
	}
	return r;
}

/* "130 kernels, 15 copies, 703 ranges". */
static void write_counts(const struct import *im, struct buf *ret)
{
	static const char *const words[TRACE_KIND_COUNT] = {
		[TRACE_RANGE] = "ranges",
		[TRACE_MARK] = "marks",
		[TRACE_LAUNCH] = "calls",
		[TRACE_KERNEL] = "kernels",
		[TRACE_COPY] = "copies",
		[TRACE_FILL] = "fills",
		[TRACE_ALLOC] = "allocations",
		[TRACE_FREE] = "releases",
	};

	for (int kind = 0; kind < TRACE_KIND_COUNT; kind++) {
		uint64_t n = 0;

		for (size_t i = 0; i < im->n; i++)
			n += trace_import_facts(im->files[i])->kinds[kind];
		if (n)
			(void) buf_printf(ret, "%s%llu %s", ret->len ? ", " : "", (unsigned long long) n, words[kind]);
	}
}

static int finish(struct import *im, bool keep, struct err *err)
{
	struct err removed = { "" };
	struct buf counts = BUF_INIT(1000);
	const bool replaces = !im->is_new || im->in_history;
	int r = 0;

	trace_write_free(im->write);
	im->write = NULL;
	if (im->store)
		r = trace_file_end(im->store, im->path, keep, replaces, keep ? err : NULL);
	im->store = NULL;
	unfinished[0] = copied[0] = reserved[0] = '\0';
	if ((r < 0 || !keep) && im->in_history && im->path)
		store_unlink(im->path);
	if (r < 0 || !keep)
		return r;
	write_counts(im, &counts);
	if (im->number)
		say(im, "imported as run %llu: %s", (unsigned long long) im->number, counts.data);
	else
		say(im, "imported into %s: %s", im->path, counts.data);
	if (im->in_history && history_trim(HISTORY_RUNS, history_bytes, &removed) == 0 && removed.text[0])
		say(im, "%s", removed.text);
	buf_done(&counts);
	return 0;
}

int hwi_import(const char *const *paths, size_t n, const struct hwi_import_options *options,
	struct hiw_err *ret_err)
{
	struct import im = { .options = options, .paths = paths, .n = n };
	struct err err = { "" };
	int r = 0;

	im.files = calloc(n + 1, sizeof(*im.files));
	r = im.files ? open_files(&im, &err) : -ENOMEM;
	if (r == 0 && options->into)
		r = find_run(&im, &err);
	if (r == 0)
		r = options->into ? place_into_run(&im, &err) : place_new(&im, &err);
	if (r == 0 && options->into)
		say_what_is_after(&im);
	if (r == 0) {
		bool keep;

		r = open_recording(&im, &err);
		if (r == 0)
			r = fill_recording(&im, &err);
		keep = r == 0;
		r = finish(&im, keep, &err) < 0 && keep ? -EIO : r;
	}
	for (size_t i = 0; im.files && i < n; i++)
		trace_import_free(im.files[i]);
	free(im.files);
	free(im.path);
	return api_err(ret_err, &err, r);
}
