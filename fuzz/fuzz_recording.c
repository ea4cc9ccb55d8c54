/* SPDX-License-Identifier: MIT
 *
 * A file that claims to be a recording: reading it always ends, with a result or with an error that
 * has a text.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "record/read/replay.h"
#include "record/trace/trace_read.h"
#include "record/where/where_read.h"
#include "sink/where/where_sink.h"
#include "summary/summary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void forget(void)
{
	(void) unlink(path);
}

/* SQLite opens files by name: use one in memory, without leftovers of an earlier input. */
static int put(const uint8_t *data, size_t size)
{
	int fd;

	if (!path[0]) {
		(void) snprintf(path, sizeof(path), "/dev/shm/hiwater-fuzz-%d.hiw", (int) getpid());
		(void) atexit(forget);
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n <= 0)
			break;
		data += n;
		size -= (size_t) n;
	}
	(void) close(fd);
	return size == 0 ? 0 : -1;
}

static bool see(void *ctx, const struct frame *frame)
{
	uint64_t *readings = ctx;

	for (size_t i = 0; i < frame->n_readings; i++) {
		const struct reading *r = &frame->readings[i];

		if (r->metric >= METRIC_COUNT || (r->known && (r->min > r->value || r->value > r->max)))
			abort();
	}
	*readings += frame->n_readings;
	return true;
}

static bool see_event(void *ctx, const struct trace_event *event)
{
	uint64_t *last = ctx;

	if (event->end_ns < event->start_ns || event->start_ns < *last || event->kind >= TRACE_KIND_COUNT)
		abort();
	*last = event->start_ns;
	return true;
}

static void expect_text(int code, const struct err *err)
{
	if (code < 0 && err->text[0] == '\0')
		abort();
}

static void read_trace(struct replay *replay)
{
	struct trace_read *t = NULL;
	struct err err = { "" };
	const int code = trace_read_new(replay, &t, &err);
	uint64_t last = 0;

	expect_text(code, &err);
	if (code < 0)
		return;
	for (size_t i = 0; i < trace_read_stat_count(t); i++)
		(void) trace_stat_quantile(trace_read_stat(t, i), 0.5);
	expect_text(trace_read_rows(t, ~0U, 0, UINT64_MAX, see_event, &last, &err), &err);
	trace_read_free(t);
}

/* Its parts are the peak, whatever the file has. */
static void check_view(const struct where_view *view)
{
	uint64_t sum = view->out_bytes + view->files_bytes + view->before_bytes + view->unsampled_bytes;

	for (size_t i = 0; i < view->n_lines; i++)
		sum += view->lines[i].bytes;
	if (sum != view->peak_bytes)
		abort();
}

static void show_where(const struct where_view *view)
{
	const struct sink_options options = { .width = 80 };
	int (*const write[])(const struct where_view *view, struct buf *out) = { where_folded, where_speedscope,
		where_pprof, where_svg };

	for (size_t i = 0; i < sizeof(write) / sizeof(write[0]); i++) {
		struct buf out = BUF_INIT(1 << 22);

		(void) write[i](view, &out);
		buf_done(&out);
	}
	struct buf out = BUF_INIT(1 << 22);

	(void) where_text(view, 5, true, &options, &out);
	(void) where_json(view, 0, &out);
	(void) where_csv(view, 0, true, &out);
	buf_done(&out);
}

static void read_where(struct replay *replay)
{
	struct where_data *where = NULL;
	struct err err = { "" };
	const int code = where_read(replay, &where, &err);

	expect_text(code, &err);
	if (code < 0)
		return;
	for (int by = 0; by < WHERE_BY_COUNT; by++) {
		const struct where_view_options options = { .by = (enum where_by) by, .is_self = by % 2, .is_by_total = by % 3 == 0, .under = by == WHERE_BY_LINE ? "a" : NULL };
		struct where_view *view = NULL;

		if (where_view_new(&options, &view, &err) < 0)
			break;
		if (where_view_add(view, where, by == 2 ? known(1000) : UNKNOWN, UNKNOWN, false, &err) == 0 &&
			where_view_end(view) == 0) {
			check_view(view);
			show_where(view);
		}
		where_view_free(view);
	}
	where_data_free(where);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct replay *replay = NULL;
	struct job *job = NULL;
	struct summary summary;
	struct err err = { "" };
	uint64_t readings = 0;
	int code;

	if (put(data, size) < 0)
		return 0;
	code = replay_open(path, &replay, &err);
	expect_text(code, &err);
	if (code < 0)
		return 0;
	code = replay_job(replay, &job, &err);
	expect_text(code, &err);
	if (code == 0 && summary_make(job, &summary) == 0)
		summary_done(&summary);
	job_free(job);
	for (int recent = 0; recent < 2; recent++)
		expect_text(replay_frames(replay, recent, see, &readings, &err), &err);
	(void) replay_growing(replay);
	read_trace(replay);
	read_where(replay);
	replay_close(replay);
	return 0;
}
