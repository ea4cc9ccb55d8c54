/* SPDX-License-Identifier: MIT */
#include "record/write/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "record/part_row.h"
#include "record/wire_totals.h"
#include "record/write/writer_file.h"

enum {
	THIN_ROUNDS = 4,      /* between two commits, unless the limit is near */
	MOST_ROUNDS = 1000,
	ROWS_A_SECOND = 20000, /* of traced work; above it one of n */
	KEPT_MOST = 8 << 20,  /* bytes of frames for the end of a pause; later ones are dropped */
};
static const uint64_t clock_every_ns = UINT64_C(60000000000);
static const uint64_t traced_commit_ns = 500000000;
static const uint64_t thin_ns = 6000000; /* time of a round: with its commit it takes less than 10 ms */

static int write_row(void *ctx, enum entity entity, bool recent, const struct row *row)
{
	struct writer *w = ctx;

	if (w->paused)
		return 0;
	w->row_written = w->row_written || !recent;
	return store_row(w->store, entity, recent, row);
}

int writer_init(struct writer *w, const struct writer_options *options)
{
	const struct aggregate_options aggregate = {
		.window_ns = options->window_ns,
		.others_after = options->others_after,
		.layout = &w->layout,
		.row = write_row,
		.ctx = w,
	};
	const struct thin_options thin = {
		.window_ns = options->window_ns,
		.recent_ns = options->recent_ns,
		.max_bytes = options->max_bytes,
	};

	*w = (struct writer) { .options = *options, .spare = -1 };
	w->uncommitted = w->uncommitted_totals = w->gpu_births = BUF_INIT(KEPT_MOST);
	row_layout_init(&w->layout);
	w->aggregate = aggregate_new(&aggregate);
	w->thin = thin_new(&thin);
	return w->aggregate && w->thin ? 0 : -ENOMEM;
}

void writer_done(struct writer *w)
{
	writer_close(w, false);
	aggregate_free(w->aggregate);
	thin_free(w->thin);
	free(w->target);
	free(w->file);
	free(w->folder);
	spare_free(w);
	buf_done(&w->uncommitted);
	buf_done(&w->uncommitted_totals);
	buf_done(&w->gpu_births);
	*w = (struct writer) { .result = w->result, .spare = -1 };
}

void writer_close(struct writer *w, bool finished)
{
	trace_write_free(w->trace);
	w->trace = NULL;
	w->has_lost_where = w->has_lost_where || w->where;
	where_write_free(w->where);
	w->where = NULL;
	(void) store_close(w->store, finished);
	w->store = NULL;
}

/* ---- commits --------------------------------------------------------------------------------- */

static void count_windows(struct writer *w, uint64_t before)
{
	if (aggregate_windows(w->aggregate) == before || !w->row_written)
		return;
	thin_window(w->thin);
	w->row_written = false;
}

/* A disk that is almost full takes one transaction and not the next: the end of a pause is reported after
 * two. */
static void report_resumed(struct writer *w)
{
	char gap[UNITS_LEN];

	if (!w->has_resumed || w->finishing)
		return;
	w->has_resumed = false;
	if (w->has_continued)
		return;
	w->has_continued = true;
	w->said_stopped = false;
	(void) err_set(writer_text(w), 0, "the recording continues; it has a gap of %s",
		units_duration((int64_t) w->gap_ns, gap));
}

/* Before a commit: what another program did to the files. Returns 0, or -ESTALE: the transaction must
 * not be committed (see stumble). */
static int check_files(struct writer *w)
{
	w->harm = store_harm(w->store);
	if (w->harm != HARM_REMOVED && w->harm != HARM_REPLACED)
		return w->harm == HARM_NONE ? 0 : -ESTALE;
	w->was_replaced = w->harm == HARM_REPLACED;
	w->was_removed = w->harm == HARM_REMOVED;
	w->harm = HARM_NONE;
	return 0;
}

static int commit(struct writer *w)
{
	const uint64_t before = aggregate_windows(w->aggregate);
	int r;

	if (!w->store || !w->store->in_transaction)
		return 0;
	r = aggregate_flush(w->aggregate);
	count_windows(w, before);
	if (r == 0)
		r = thin_prune(w->thin, w->store, w->last_ns);
	if (r == 0)
		r = store_meta_int(w->store, "last_ns", (int64_t) w->last_ns);
	if (r == 0 && w->trace)
		r = trace_write_flush(w->trace);
	if (r == 0)
		r = check_files(w);
	if (r == 0)
		r = store_commit(w->store);
	w->committed_windows = aggregate_windows(w->aggregate);
	if (r < 0)
		return r;
	w->commits++;
	w->committed_ns = w->last_ns;
	buf_clear(&w->uncommitted);
	buf_clear(&w->uncommitted_totals);
	if ((w->was_replaced || w->was_removed) && !w->store->nameless)
		store_detach(w->store);
	report_resumed(w);
	return 0;
}

/* ---- pauses ---------------------------------------------------------------------------------- */

static void keep_frame(struct buf *b, const struct frame *frame)
{
	const size_t size = wire_frame_size(frame);
	autofree void *message = malloc(size);

	if (!message)
		return;
	wire_frame_put(message, frame);
	(void) buf_add(b, message, size);
}

/* Everything but readings, until it is committed. */
static void keep_uncommitted(struct writer *w, const struct frame *frame)
{
	struct frame kept = *frame;
	bool has_gpu = false;

	kept.n_readings = 0;
	if (kept.n_births + kept.n_ends + kept.n_events + kept.n_series == 0)
		return;
	keep_frame(&w->uncommitted, &kept);
	for (size_t i = 0; i < kept.n_births; i++)
		has_gpu = has_gpu || kept.births[i].entity != ENTITY_PROCESS;
	kept.n_ends = kept.n_events = kept.n_series = 0;
	if (has_gpu)
		keep_frame(&w->gpu_births, &kept);
}

/* Call it before wire_totals_get, which relocates pointers. */
static void keep_totals(struct writer *w, const struct wire_head *head)
{
	const struct wire_totals *totals = (const void *) (head + 1);

	if (totals->is_whole)
		buf_clear(&w->uncommitted_totals);
	(void) buf_add(&w->uncommitted_totals, head, head->size);
}

static int write_kept(struct writer *w, const struct buf *kept)
{
	autofree char *copy = malloc(kept->len ? kept->len : 1); /* reading relocates pointers */
	int r = copy ? 0 : -ENOMEM;

	if (copy)
		memcpy(copy, kept->data, kept->len);
	for (size_t at = 0; at < kept->len && r == 0;) {
		struct wire_head *head = (struct wire_head *) (void *) (copy + at);

		at += head->size;
		r = head->kind == WIRE_FRAME ? store_frame(w->store, wire_frame_get(head))
					     : store_totals(w->store, wire_totals_get(head));
	}
	return r;
}

static void roll_back(struct writer *w)
{
	store_rollback(w->store);
	if (w->trace)
		trace_write_rolled_back(w->trace);
	if (w->where)
		where_write_rolled_back(w->where);
	w->has_lost_where = w->has_lost_where || w->where;
}

static void pause_writing(struct writer *w, int r)
{
	static const char *const harms[] = {
		[HARM_INDEX] = "-shm was truncated or removed by another program: hiwater opens the recording again",
		[HARM_JOURNAL] = "-wal was truncated by another program: the recording lacks its last seconds; "
				 "hiwater opens it again",
		[HARM_JOURNAL_NAME] = "-wal was removed or replaced by another program: hiwater opens the "
				      "recording again",
	};
	const char *why = store_why(w->store);
	char end[UNITS_LEN];

	roll_back(w);
	w->needs_totals = true;
	w->paused = w->has_trace_gap = true;
	(void) snprintf(w->why, sizeof(w->why), "%s", w->harm ? "its journal was lost" : *why ? why
											      : strerror(-r));
	w->has_resumed = w->has_resumed && w->finishing;
	if (w->trouble.text[0] || w->finishing)
		return;
	w->said_stopped = !w->harm;
	if (w->harm)
		(void) err_set(&w->trouble, r, "%s%s", w->file, harms[w->harm]);
	else if (w->commits == 0)
		(void) err_set(&w->trouble, r,
			"no recording yet: cannot write %s: %s; hiwater tries again, the run continues", w->file,
			w->why);
	else
		(void) err_set(&w->trouble, r,
			"recording stopped: cannot write %s: %s. It ends %s into the run, unless it can be written "
			"again; the run continues",
			w->file, w->why, units_instant((int64_t) w->committed_ns, end));
}

/* After an error: ends the recording, or pauses it. Returns 0 if it may continue later. */
static int stumble(struct writer *w, int r)
{
	if (w->failed)
		return r;
	if (r != -ESTALE)
		w->harm = store_harm(w->store);
	if (w->harm == HARM_TRUNCATED || w->harm == HARM_OVERWRITTEN)
		return writer_lose(w, w->harm == HARM_TRUNCATED ? "truncated" : "overwritten");
	if (w->harm == HARM_REMOVED || w->harm == HARM_REPLACED)
		w->harm = HARM_NONE;
	if (w->harm == HARM_NONE && (r == -EBADMSG || !w->store->wal))
		return writer_fail(w, r, store_why(w->store));
	pause_writing(w, r);
	return 0;
}

/* A journal that was lost had the last commits. */
static void find_end(struct writer *w)
{
	sqlite3_stmt *st = store_prepare(w->store, "SELECT value FROM meta WHERE key = 'last_ns'");

	w->committed_ns = 0;
	if (st && sqlite3_step(st) == SQLITE_ROW)
		w->committed_ns = (uint64_t) sqlite3_column_int64(st, 0);
	(void) sqlite3_finalize(st);
}

/* Notes the gap in the file. */
static int write_gap(struct writer *w, uint64_t gap_ns)
{
	char from[UNITS_LEN], to[UNITS_LEN], text[sizeof(w->why) + 3 * UNITS_LEN];
	const struct event event = {
		.time_ns = w->last_ns,
		.kind = EVENT_NOTE,
		.entity = ENTITY_JOB,
		.text = text,
	};
	const struct frame frame = { .source = FRAME_RECORDER, .n_events = 1, .events = &event };

	(void) snprintf(text, sizeof(text), "recording: no rows from %s to %s: %s",
		units_instant((int64_t) w->committed_ns, from), units_instant((int64_t) w->last_ns, to),
		w->why);
	int r = store_frame(w->store, &frame);

	return r == 0 ? store_meta_int(w->store, "recording_gap_ns", (int64_t) (w->gap_ns + gap_ns)) : r;
}

/* Begins a transaction with all that was kept, which apply_totals completes. */
static int begin_again(struct writer *w, uint64_t *ret_gap_ns)
{
	int r = 0;

	roll_back(w);
	if (w->harm) {
		r = store_reopen(w->store, w->harm);
		if (r == -ESTALE)
			return writer_lose(w, "removed or replaced");
		if (r == 0) {
			w->harm = HARM_NONE;
			find_end(w);
		}
	}
	store_forget_written(w->store);
	*ret_gap_ns = w->last_ns > w->committed_ns ? w->last_ns - w->committed_ns : 0;
	if (r == 0)
		r = store_begin(w->store);
	if (r == 0)
		r = writer_sign(w);
	if (r == 0)
		r = store_series_again(w->store);
	if (r == 0)
		r = write_kept(w, &w->gpu_births);
	if (r == 0)
		r = write_kept(w, &w->uncommitted);
	if (r == 0)
		r = write_kept(w, &w->uncommitted_totals);
	return r == 0 ? write_gap(w, *ret_gap_ns) : r;
}

static void note_resumed(struct writer *w, uint64_t gap_ns)
{
	w->gap_ns += gap_ns;
	w->has_resumed = true;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void keep_around(struct writer *w, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_events; i++) {
		if (frame->events[i].kind == EVENT_TRIGGER || frame->events[i].kind == EVENT_OOM)
			thin_keep(w->thin, frame->events[i].time_ns);
	}
}

/* Traced work is summed by the innermost phase in which it began. */
static void follow_phase(void *ctx, uint64_t time_ns, uint32_t number, bool begins)
{
	struct writer *w = ctx;
	unsigned n = 0;

	for (unsigned i = 0; i < w->n_phases; i++) {
		if (w->phases[i] != number)
			w->phases[n++] = w->phases[i];
	}
	if (begins && n < WRITER_PHASES)
		w->phases[n++] = number;
	w->n_phases = n;
	trace_write_phase(w->trace, time_ns, n ? w->phases[n - 1] : 0);
}

/* Those that are ranges were known before. */
static void follow_phases(struct writer *w, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_events; i++) {
		const struct event *e = &frame->events[i];

		if ((e->kind == EVENT_PHASE_BEGIN || e->kind == EVENT_PHASE_END) &&
			e->phase < TRACE_PHASE_FIRST)
			follow_phase(w, e->time_ns, e->phase, e->kind == EVENT_PHASE_BEGIN);
	}
}

static int apply_frame(struct writer *w, const struct frame *frame)
{
	const uint64_t before = aggregate_windows(w->aggregate);
	int r = w->paused ? 0 : store_frame(w->store, frame);

	if (w->store->wal)
		keep_uncommitted(w, frame);
	keep_around(w, frame);
	if (w->trace)
		follow_phases(w, frame);
	if (r == 0)
		r = aggregate_frame(w->aggregate, frame);
	count_windows(w, before);
	if (frame->time_ns > w->last_ns)
		w->last_ns = frame->time_ns;
	return r;
}

/* How far the wall clock has moved against CLOCK_BOOTTIME since the start, compared each minute and at the end: the clocks of a job's nodes
 * are aligned by it. */
static int write_clocks(struct writer *w, const struct facts *f)
{
	const uint64_t boot_ns = clock_boot_ns();
	struct timespec wall;
	int r;

	if (!f->started_boot_ns.known || !f->started_wall_ns.known ||
		(w->last_ns < w->next_clock_ns && !w->finishing) || clock_gettime(CLOCK_REALTIME, &wall) < 0)
		return 0;
	const int64_t ahead = (int64_t) wall.tv_sec * 1000000000 + wall.tv_nsec - f->started_wall_ns.value -
			      ((int64_t) boot_ns - f->started_boot_ns.value);

	w->next_clock_ns = w->last_ns + clock_every_ns;
	w->clock_ahead_ns = larger(w->clock_ahead_ns, ahead);
	w->clock_behind_ns = larger(w->clock_behind_ns, -ahead);
	r = store_meta_int(w->store, "clock_ahead_ns", w->clock_ahead_ns);
	return r == 0 ? store_meta_int(w->store, "clock_behind_ns", w->clock_behind_ns) : r;
}

static int write_totals(struct writer *w, const struct wire_totals *totals)
{
	const uint64_t before = aggregate_windows(w->aggregate);
	const bool was_paused = w->paused;
	uint64_t gap_ns = 0;
	int r = 0;

	if (totals->time_ns > w->last_ns)
		w->last_ns = totals->time_ns;
	w->ended_ns = totals->facts.ended_ns;
	w->started_boot_ns = totals->facts.started_boot_ns;
	if (was_paused)
		r = begin_again(w, &gap_ns);
	if (r == 0)
		r = store_totals(w->store, totals);
	if (r == 0 && !was_paused) /* else there may be no room for more than what is waiting */
		r = write_clocks(w, &totals->facts);
	w->paused = was_paused && r < 0;
	aggregate_settle(w->aggregate);
	count_windows(w, before);
	if (r == 0 && w->store->wal) /* else all is one transaction */
		r = commit(w);
	if (r == 0 && was_paused)
		note_resumed(w, gap_ns);
	return r;
}

static int apply_totals(struct writer *w, const struct wire_totals *totals)
{
	int r = 0;

	if (!w->paused || totals->is_whole || w->finishing) {
		if (w->paused && w->finishing)
			spare_use(w);
		r = write_totals(w, totals);
	} else {
		aggregate_settle(w->aggregate); /* its rows are dropped */
		w->needs_totals = true;
	}
	if (r < 0 && w->finishing && stumble(w, r) == 0) { /* the last ones */
		spare_use(w);
		r = write_totals(w, totals);
		if (r < 0)
			(void) writer_fail(w, r, w->why);
	}
	return r;
}

static int apply_message(struct writer *w, struct wire_head *head)
{
	int r = w->paused ? 0 : store_begin(w->store);

	if (r < 0)
		return r;
	if (head->kind == WIRE_FRAME)
		return apply_frame(w, wire_frame_get(head));
	if (w->store->wal)
		keep_totals(w, head);
	return apply_totals(w, wire_totals_get(head));
}

/* ---- maintenance ----------------------------------------------------------------------------- */

/* Thins for a short time, as one transaction. Returns 1 if there may be more to do, 0, or
 * -errno. */
static int thin_round(struct writer *w)
{
	const uint64_t until = clock_boot_ns() + thin_ns;
	int r = store_begin(w->store), done = 0;

	/* At least one step: on a machine so busy that the time is over at once, the file would
	 * grow without bound. */
	for (unsigned i = thin_steps(w->thin); i > 0 && r == 0 && (!done || clock_boot_ns() < until); i--) {
		if (!thin_is_due(w->thin, w->store))
			break;
		r = thin_step(w->thin, w->store, aggregate_begin(w->aggregate));
		if (r <= 0)
			break;
		done = 1;
		r = 0;
	}
	if (r == 0)
		r = store_commit(w->store);
	return r < 0 ? r : done;
}

static bool is_busy(const struct writer *w)
{
	return w->busy && w->busy(w->busy_ctx);
}

/* Between two transactions. */
static int maintain(struct writer *w)
{
	int r = 1;

	w->maintained = w->commits;
	for (int i = 0; i < MOST_ROUNDS && r > 0; i++) {
		if (i > 0 && (is_busy(w) || i >= THIN_ROUNDS) && !thin_is_urgent(w->thin, w->store))
			break;
		r = thin_is_due(w->thin, w->store) ? thin_round(w) : 0;
	}
	if (r == 0)
		writer_snapshot(w, false);
	return r < 0 ? r : 0;
}

/* A short journal shows that no reader keeps it, without checking the disk. */
static bool is_blocked(struct writer *w)
{
	const uint64_t most = w->options.max_bytes + w->store->trace_pages * STORE_PAGE;

	if (w->store->in_transaction || w->store->wal_pages < 2 * w->store->checkpoint_pages ||
		store_disk_bytes(w->store) <= most)
		return false;
	(void) store_checkpoint(w->store);
	return store_disk_bytes(w->store) > most;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static int apply_next(struct writer *w, struct chunk *chunk)
{
	struct wire_head *head = (struct wire_head *) (void *) (chunk->data + chunk->done);
	int r;

	chunk->done += head->size;
	r = apply_message(w, head);
	if (r == 0 && w->maintained != w->commits)
		r = maintain(w);
	return r < 0 ? stumble(w, r) : 0;
}

bool writer_apply(struct writer *w, struct chunk *chunk, bool hurry)
{
	int r = 0;

	if (w->failed || (!w->store && writer_open(w, w->finishing) < 0))
		return true;
	if (!w->trace && w->options.trace.drain) {
		const struct trace_write_options options = {
			.limit_bytes = w->options.trace_bytes,
			.rows_a_second = ROWS_A_SECOND,
		};

		w->trace = trace_write_new(w->store, &options);
	}
	while (chunk->done < chunk->len && r == 0) {
		if (!w->finishing && !w->paused && is_blocked(w))
			return false;
		r = apply_next(w, chunk);
	}
	/* If there are no totals, windows are committed here. */
	if (r == 0 && !w->paused && w->store->wal &&
		(hurry || aggregate_windows(w->aggregate) > w->committed_windows + 1)) {
		r = commit(w);
		if (r == 0)
			r = maintain(w);
		if (r < 0)
			(void) stumble(w, r);
	}
	return true;
}

/* ---- traced work ------------------------------------------------------------------------------ */

static uint64_t run_time(const struct writer *w)
{
	const uint64_t now = clock_boot_ns();

	if (!w->started_boot_ns.known || now < (uint64_t) w->started_boot_ns.value)
		return w->last_ns;
	return now - (uint64_t) w->started_boot_ns.value;
}

/* While the writer pauses nothing is drained: the job overwrites it and counts that as lost. Records of a GPU
 * come up to a second late, so those of the last second before may be among them. */
static void end_trace_gap(struct writer *w, uint64_t now_ns)
{
	static const uint64_t late_ns = 1000000000;
	const uint64_t begin_ns = w->drained_ns > late_ns ? w->drained_ns - late_ns : 0;

	if (w->has_trace_gap)
		(void) trace_write_gap(w->trace, begin_ns, now_ns);
	w->has_trace_gap = false;
}

/* All of it is more than the next part: a disk that is nearly full may not take it. */
static void ask_where_again(struct writer *w)
{
	static const uint64_t first_wait_ns = 2000000000;

	w->options.where.again(w->options.where.ctx);
	w->has_lost_where = false;
	w->again_wait_ns = w->again_wait_ns ? 2 * w->again_wait_ns : first_wait_ns;
	w->next_again_ns = clock_boot_ns() + w->again_wait_ns;
}

static void drain_where(struct writer *w, bool last)
{
	int r;

	if (!w->options.where.drain || w->failed || w->paused || !w->store)
		return;
	if (!w->where)
		w->where = where_write_new(w->store);
	r = w->where ? store_begin(w->store) : -ENOMEM;
	if (r == 0 && w->has_lost_where && (last || clock_boot_ns() >= w->next_again_ns))
		ask_where_again(w);
	if (r == 0)
		r = w->options.where.drain(w->options.where.ctx, last, where_write_sink(w->where));
	if (r < 0)
		(void) stumble(w, r);
}

static void drain_trace(struct writer *w, enum trace_drain how)
{
	struct trace_sink sink;
	uint64_t now_ns;
	int r;

	if (!w->trace || w->failed || w->paused || !w->store)
		return;
	sink = *trace_write_sink(w->trace);
	sink.phase = follow_phase;
	sink.phase_ctx = w;
	now_ns = run_time(w);
	r = store_begin(w->store);
	if (r == 0) {
		end_trace_gap(w, now_ns);
		r = w->options.trace.drain(w->options.trace.ctx, how, &sink);
		if (r < 0 && !trace_write_has_failed(w->trace)) /* what is traced is lost, nothing else */
			r = 0;
	}
	if (r == 0)
		w->drained_ns = now_ns;
	/* The last drain comes a little after the end. */
	if (r == 0 && how == TRACE_DRAIN_LAST && w->ended_ns.known)
		r = trace_write_end(w->trace, (uint64_t) w->ended_ns.value);
	/* Between the commits of windows, so that little is lost with a killed recorder; the first at once. */
	if (r == 0 && how == TRACE_DRAIN_USUAL && w->store->wal && trace_write_has_events(w->trace) &&
		(!w->traced_commit_ns || now_ns >= w->traced_commit_ns + traced_commit_ns)) {
		w->traced_commit_ns = now_ns;
		r = commit(w);
	}
	if (r < 0)
		(void) stumble(w, r);
}

void writer_drain(struct writer *w, enum trace_drain how)
{
	drain_trace(w, how);
	drain_where(w, how == TRACE_DRAIN_LAST);
}

/* ---- the end --------------------------------------------------------------------------------- */

void writer_finishing(struct writer *w, bool keep)
{
	w->finishing = true;
	if (!keep && !w->options.path && !w->store && !w->failed) {
		w->failed = true; /* no file is to be made, which is not an error */
		w->result = 0;
	}
}

static int write_end(struct writer *w)
{
	uint64_t gap_ns = 0;
	const bool was_paused = w->paused;
	int r = was_paused ? begin_again(w, &gap_ns) : store_begin(w->store);

	w->paused = was_paused && r < 0;
	if (r == 0)
		r = aggregate_end(w->aggregate, w->last_ns);
	if (r == 0)
		r = commit(w);
	if (r == 0 && was_paused)
		note_resumed(w, gap_ns);
	return r;
}

static int finish_store(struct writer *w)
{
	int r;

	if (w->paused)
		spare_use(w);
	r = write_end(w);
	if (r < 0 && stumble(w, r) == 0) {
		spare_use(w);
		r = write_end(w);
	}
	if (w->failed)
		return r;
	if (r < 0)
		return writer_fail(w, r, w->paused ? w->why : store_why(w->store));
	if (!store_is_sound(w->store))
		return writer_lose(w, "overwritten");
	part_rows_store(w->store, w->last_ns, w->options.max_bytes);
	writer_report_gap(w);
	if (w->was_replaced)
		r = writer_move(w);
	else if (w->was_removed)
		r = err_set(writer_text(w), -ENOENT, "no recording: %s was removed or renamed during the run", w->target);
	writer_close(w, true);
	return r;
}

void writer_finish(struct writer *w, bool keep)
{
	int r;

	if (!w->failed && !w->store)
		(void) writer_open(w, true);
	if (w->failed) {
		writer_abandon(w, keep);
		return;
	}
	keep = keep || w->options.path;
	if (!keep) {
		writer_close(w, false);
		writer_remove(w, false);
		return;
	}
	r = finish_store(w);
	if (r < 0) {
		w->result = r;
		writer_abandon(w, true);
	} else if (!w->moved) {
		r = writer_place(w);
		if (r < 0)
			(void) err_set(writer_text(w), r, "cannot move the recording to %s: %s%s%s", w->target,
				strerror(-r), w->folder ? "; it remains at " : "", w->folder ? w->file : "");
		w->result = r;
	}
	if (r == 0)
		writer_remove(w, true);
}
