/* SPDX-License-Identifier: MIT */
#include "record/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "record/wire.h"
#include "record/writer_file.h"

enum {
	THIN_ROUNDS = 4,      /* between two commits, unless the limit itself is near */
	MOST_ROUNDS = 1000,
};
static const uint64_t thin_ns = 6000000; /* of a round: with its commit it stays under 10 ms */

static int write_row(void *ctx, enum entity entity, bool recent, const struct row *row)
{
	struct writer *w = ctx;

	w->row_written = w->row_written || !recent;
	return store_row(w->store, entity, recent, row);
}

int writer_init(struct writer *w, const struct writer_options *options)
{
	const struct fold_options fold = {
		.window_ns = options->window_ns, .others_after = options->others_after, .layout = &w->layout,
		.row = write_row, .ctx = w,
	};
	const struct thin_options thin = {
		.window_ns = options->window_ns, .recent_ns = options->recent_ns, .max_bytes = options->max_bytes,
	};

	*w = (struct writer) { .options = *options };
	row_layout_init(&w->layout);
	w->fold = fold_new(&fold);
	w->thin = thin_new(&thin);
	return w->fold && w->thin ? 0 : -ENOMEM;
}

void writer_done(struct writer *w)
{
	(void) store_close(w->store, false);
	fold_free(w->fold);
	thin_free(w->thin);
	free(w->target);
	free(w->file);
	free(w->folder);
	*w = (struct writer) { .result = w->result };
}

/* ---- messages ------------------------------------------------------------------------------------------------------- */

static int commit(struct writer *w)
{
	int r;

	if (!w->store || !w->store->in_transaction)
		return 0;
	r = fold_flush(w->fold);
	if (r == 0)
		r = thin_prune(w->thin, w->store, w->last_ns);
	if (r == 0)
		r = store_meta_int(w->store, "last_ns", (int64_t) w->last_ns);
	if (r == 0)
		r = store_commit(w->store);
	w->committed_windows = fold_windows(w->fold);
	w->commits += r == 0;
	return r;
}

static int take_frame(struct writer *w, const struct frame *frame)
{
	const uint64_t before = fold_windows(w->fold);
	int r = store_frame(w->store, frame);

	if (r == 0)
		r = fold_frame(w->fold, frame);
	if (fold_windows(w->fold) != before && w->row_written) {
		thin_window(w->thin);
		w->row_written = false;
	}
	if (frame->time_ns > w->last_ns)
		w->last_ns = frame->time_ns;
	return r;
}

static int take_totals(struct writer *w, const struct wire_totals *totals)
{
	int r = store_totals(w->store, totals);

	if (totals->time_ns > w->last_ns)
		w->last_ns = totals->time_ns;
	return r < 0 || w->finishing ? r : commit(w);
}

static int take_message(struct writer *w, struct wire_head *head)
{
	int r = store_begin(w->store);

	if (r < 0)
		return r;
	return head->kind == WIRE_FRAME ? take_frame(w, wire_frame_get(head)) : take_totals(w, wire_totals_get(head));
}

void writer_take(struct writer *w, struct chunk *chunk, bool hurry)
{
	size_t at = 0;
	int r = 0;

	if (w->failed || (!w->store && writer_open(w, w->finishing) < 0))
		return;
	while (at < chunk->len && r == 0) {
		struct wire_head *head = (struct wire_head *) (void *) (chunk->data + at);

		at += head->size;
		r = take_message(w, head);
	}
	/* Where nobody hands over totals, windows are committed all the same. */
	if (r == 0 && !w->finishing && (hurry || fold_windows(w->fold) > w->committed_windows + 1))
		r = commit(w);
	if (r < 0)
		(void) writer_fail(w, r, store_why(w->store));
}

/* ---- care ----------------------------------------------------------------------------------------------------------- */

/* A little thinning, as one transaction. Returns 1 if there may be more to do, 0, or -errno. */
static int thin_round(struct writer *w)
{
	const uint64_t until = clock_boot_ns() + thin_ns;
	int r = store_begin(w->store), done = 0;

	while (r == 0 && clock_boot_ns() < until && thin_is_due(w->thin, w->store)) {
		r = thin_step(w->thin, w->store, fold_begin(w->fold));
		if (r <= 0)
			break;
		done = 1;
		r = 0;
	}
	if (r == 0)
		r = store_commit(w->store);
	return r < 0 ? r : done;
}

static bool is_over(const struct writer *w)
{
	return store_disk_bytes(w->store) > w->options.max_bytes - w->options.max_bytes / 32;
}

void writer_care(struct writer *w, bool (*busy)(void *ctx), void *ctx)
{
	int r = 1;

	if (!w->store || w->failed)
		return;
	/* What came since the last commit waits for its own; a round would commit half a window. */
	for (int i = 0; i < MOST_ROUNDS && r > 0 && !w->store->in_transaction; i++) {
		if (i > 0 && (busy(ctx) || i >= THIN_ROUNDS) && !is_over(w))
			break;
		r = thin_is_due(w->thin, w->store) ? thin_round(w) : 0;
	}
	if (r < 0)
		(void) writer_fail(w, r, store_why(w->store));
	else if (!w->store->in_transaction)
		writer_snapshot(w, false);
}

bool writer_is_blocked(struct writer *w)
{
	if (!w->store || w->failed || w->store->in_transaction || store_disk_bytes(w->store) <= w->options.max_bytes)
		return false;
	(void) store_checkpoint(w->store);
	return store_disk_bytes(w->store) > w->options.max_bytes;
}

/* ---- the end -------------------------------------------------------------------------------------------------------- */

void writer_finishing(struct writer *w, bool keep)
{
	w->finishing = true;
	if (!keep && !w->options.path && !w->store && !w->failed) {
		w->failed = true; /* nothing is to be made, and nothing went wrong */
		w->result = 0;
	}
}

static int finish_store(struct writer *w)
{
	int r = store_begin(w->store);

	if (r == 0)
		r = fold_end(w->fold, w->last_ns);
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
			(void) err_set(&w->trouble, r, "the recording cannot be put at %s: %s%s%s", w->target, strerror(-r),
					w->folder ? "; it is left at " : "", w->folder ? w->file : "");
		w->result = r;
	}
	if (r == 0)
		writer_remove(w, true);
}
