/* SPDX-License-Identifier: MIT
 *
 * A simulated run (record_rig.h) into the writer without its thread, so that a test can check the
 * file after every commit.
 */
#pragma once

#include "record_rig.h"

#include "base/buf.h"
#include "record/wire_totals.h"
#include "record/write/queue.h"
#include "record/write/writer.h"

struct writer_rig {
	struct writer writer;
	struct queue queue;
	struct wire_memory memory;
	struct buf totals;
};

static inline void writer_rig_frame(void *ctx, const struct frame *frame)
{
	struct writer_rig *w = ctx;
	void *room = queue_room(&w->queue, wire_frame_size(frame), true);

	assert_non_null(room);
	wire_frame_put(room, frame);
}

static inline void writer_rig_totals(void *ctx, const struct job *job)
{
	struct writer_rig *w = ctx;
	void *room;

	if (w->writer.needs_totals)
		wire_memory_clear(&w->memory);
	w->writer.needs_totals = false;
	assert_int_equal(wire_totals_put(&w->totals, &w->memory, job), 0);
	room = queue_room(&w->queue, w->totals.len, true);
	assert_non_null(room);
	memcpy(room, w->totals.data, w->totals.len);
}

static inline void writer_rig_new(struct writer_rig *w, struct sim *s, const char *file, uint64_t max_bytes,
	uint64_t recent_ns, unsigned others_after)
{
	const struct writer_options options = {
		.path = file,
		.window_ns = s->window_ns,
		.recent_ns = recent_ns,
		.max_bytes = max_bytes,
		.others_after = others_after,
	};

	memset(w, 0, sizeof(*w));
	w->totals = BUF_INIT(1 << 26);
	assert_int_equal(queue_init(&w->queue, 1 << 30), 0);
	assert_int_equal(writer_init(&w->writer, &options), 0);
	s->frame = writer_rig_frame;
	s->totals = writer_rig_totals;
	s->ctx = w;
}

/* Passes the queued data to the writer. */
static inline void writer_rig_give(struct writer_rig *w, bool hurry)
{
	struct queue_state state;
	struct chunk *chunk;

	queue_push(&w->queue, true);
	chunk = queue_pop(&w->queue, 0, &state);
	while (chunk) {
		struct chunk *next = chunk->next;

		assert_true(writer_apply(&w->writer, chunk, hurry && !next));
		queue_return(&w->queue, chunk);
		chunk = next;
	}
}

static inline void writer_rig_finish(struct writer_rig *w)
{
	writer_finishing(&w->writer, true);
	writer_rig_give(w, false);
	writer_finish(&w->writer, true);
}

static inline void writer_rig_done(struct writer_rig *w)
{
	writer_done(&w->writer);
	queue_push(&w->queue, false);
	queue_done(&w->queue);
	wire_memory_done(&w->memory);
	buf_done(&w->totals);
}

/* Its bytes on disk. */
static inline uint64_t disk_bytes(const char *file)
{
	static const char *const ends[] = { "", "-wal", "-shm", "-journal" };
	uint64_t bytes = 0;
	struct stat st;
	char path[200];

	for (int i = 0; i < 4; i++) {
		(void) snprintf(path, sizeof(path), "%s%s", file, ends[i]);
		if (stat(path, &st) == 0)
			bytes += (uint64_t) st.st_size;
	}
	return bytes;
}
