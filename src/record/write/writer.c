/* SPDX-License-Identifier: MIT */
#include "record/write/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "record/wire_totals.h"
#include "record/write/writer_file.h"

enum {
	THIN_ROUNDS = 4,      /* between two commits, unless the limit is near */
	MOST_ROUNDS = 1000,
};
static const uint64_t thin_ns = 6000000; /* time of a round: with its commit it takes less than 10 ms */

static int write_row(void *ctx, enum entity entity, bool recent, const struct row *row)
{
	struct writer *w = ctx;

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
	row_layout_init(&w->layout);
	w->aggregate = aggregate_new(&aggregate);
	w->thin = thin_new(&thin);
	return w->aggregate && w->thin ? 0 : -ENOMEM;
}

void writer_done(struct writer *w)
{
	(void) store_close(w->store, false);
	aggregate_free(w->aggregate);
	thin_free(w->thin);
	free(w->target);
	free(w->file);
	free(w->folder);
	spare_free(w);
	*w = (struct writer) { .result = w->result, .spare = -1 };
}

/* ---- messages -------------------------------------------------------------------------------- */

static void count_windows(struct writer *w, uint64_t before)
{
	if (aggregate_windows(w->aggregate) == before || !w->row_written)
		return;
	thin_window(w->thin);
	w->row_written = false;
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
	if (r == 0)
		r = store_commit(w->store);
	w->committed_windows = aggregate_windows(w->aggregate);
	w->commits += r == 0;
	w->committed_ns = r == 0 ? w->last_ns : w->committed_ns;
	return r;
}

static void keep_around(struct writer *w, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_events; i++) {
		if (frame->events[i].kind == EVENT_TRIGGER || frame->events[i].kind == EVENT_OOM)
			thin_keep(w->thin, frame->events[i].time_ns);
	}
}

static int apply_frame(struct writer *w, const struct frame *frame)
{
	const uint64_t before = aggregate_windows(w->aggregate);
	int r = store_frame(w->store, frame);

	keep_around(w, frame);
	if (r == 0)
		r = aggregate_frame(w->aggregate, frame);
	count_windows(w, before);
	if (frame->time_ns > w->last_ns)
		w->last_ns = frame->time_ns;
	return r;
}

static int apply_totals(struct writer *w, const struct wire_totals *totals)
{
	const uint64_t before = aggregate_windows(w->aggregate);
	int r = store_totals(w->store, totals);

	aggregate_settle(w->aggregate);
	count_windows(w, before);
	if (totals->time_ns > w->last_ns)
		w->last_ns = totals->time_ns;
	return r < 0 || !w->store->wal ? r : commit(w); /* else all is one transaction */
}

static int apply_message(struct writer *w, struct wire_head *head)
{
	int r = store_begin(w->store);

	if (r < 0)
		return r;
	return head->kind == WIRE_FRAME ? apply_frame(w, wire_frame_get(head))
					: apply_totals(w, wire_totals_get(head));
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
	if (w->store->in_transaction || w->store->wal_pages < 2 * w->store->checkpoint_pages ||
		store_disk_bytes(w->store) <= w->options.max_bytes)
		return false;
	(void) store_checkpoint(w->store);
	return store_disk_bytes(w->store) > w->options.max_bytes;
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
	return r;
}

bool writer_apply(struct writer *w, struct chunk *chunk, bool hurry)
{
	int r = 0;

	if (w->failed || (!w->store && writer_open(w, w->finishing) < 0))
		return true;
	while (chunk->done < chunk->len && r == 0) {
		if (!w->finishing && is_blocked(w))
			return false;
		r = apply_next(w, chunk);
	}
	/* If there are no totals, windows are committed here. */
	if (r == 0 && w->store->wal &&
		(hurry || aggregate_windows(w->aggregate) > w->committed_windows + 1)) {
		r = commit(w);
		if (r == 0)
			r = maintain(w);
	}
	if (r < 0)
		(void) writer_fail(w, r, store_why(w->store));
	return true;
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

static int finish_store(struct writer *w)
{
	int r = store_begin(w->store);

	if (r == 0)
		r = aggregate_end(w->aggregate, w->last_ns);
	if (r == 0)
		r = commit(w);
	if (r < 0)
		return writer_fail(w, r, store_why(w->store));
	r = store_close(w->store, true);
	w->store = NULL;
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
		(void) store_close(w->store, false);
		w->store = NULL;
		writer_remove(w, false);
		return;
	}
	r = finish_store(w);
	if (r < 0) {
		writer_abandon(w, true);
	} else {
		r = writer_place(w);
		if (r < 0)
			(void) err_set(&w->trouble, r, "cannot move the recording to %s: %s%s%s", w->target,
				strerror(-r), w->folder ? "; it remains at " : "", w->folder ? w->file : "");
		w->result = r;
	}
	if (r == 0)
		writer_remove(w, true);
}
