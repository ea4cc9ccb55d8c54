/* SPDX-License-Identifier: MIT
 *
 * make-trace FILE.hiw [limit=BYTES] [rows=N] < LINES: a recording with traced work, for tests. A line is fields
 * between tabs:
 *
 *   meta KEY TEXT | metaint KEY NUMBER | phase NUMBER PARENT NAME BEGAN ENDED
 *   process PID NAME RANK                        numbered from 1, as are sites
 *   site KIND PROCESS NAME DOMAIN TID DEVICE STREAM SOURCE TARGET DEVICE_NAME
 *   event SITE START END CORRELATION BYTES FLAGS DEPTH
 *   many SITE START STEP DURATION N              N events, each STEP after the one before
 *   window BEGIN END WHY | lost PROCESS CAUSE N | thread PROCESS TID NAME
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/trace/trace_file.h"
#include "record/trace/trace_write.h"

enum {
	FIELDS = 12
};

static struct store *store;
static struct trace_write *writer;

static char *fields[FIELDS + 1];

static uint64_t number(int i)
{
	return fields[i] ? strtoull(fields[i], NULL, 10) : 0;
}

static int64_t signed_number(int i)
{
	return fields[i] ? strtoll(fields[i], NULL, 10) : 0;
}

static const char *text(int i)
{
	return fields[i] ? fields[i] : "";
}

static int put_phase(void)
{
	sqlite3_stmt *st =
		store_cached(store, "INSERT INTO phase(number,parent,name,began,ended) VALUES(?,?,?,?,?)");

	for (int i = 1; i <= 5; i++) {
		if (i == 3)
			store_bind_text(st, i, text(i));
		else
			(void) sqlite3_bind_int64(st, i, signed_number(i));
	}
	return store_step(store, st);
}

static int put_site(const struct trace_sink *sink)
{
	const struct trace_site site = {
		.kind = (enum trace_kind) trace_kind_find(text(1)),
		.process = (uint32_t) number(2),
		.name = text(3),
		.domain = text(4),
		.tid = signed_number(5),
		.device = signed_number(6),
		.stream = number(7),
		.source = (enum trace_memory) trace_memory_find(text(8)),
		.target = (enum trace_memory) trace_memory_find(text(9)),
		.device_name = text(10),
	};
	uint32_t ret;

	return sink->site(sink->ctx, &site, &ret);
}

static int put_many(const struct trace_sink *sink)
{
	int r = 0;

	for (uint64_t i = 0; i < number(5) && r == 0; i++) {
		const uint64_t start = number(2) + i * number(3);
		const struct trace_event event = { .site = (uint32_t) number(1),
			.start_ns = start,
			.end_ns = start + number(4),
			.correlation = i + 1 };

		r = sink->event(sink->ctx, &event);
		if (r == 0 && i % 100000 == 99999)
			r = trace_write_flush(writer);
	}
	return r;
}

static int put_line(const struct trace_sink *sink)
{
	const struct trace_event event = { .site = (uint32_t) number(1),
		.start_ns = number(2),
		.end_ns = number(3),
		.correlation = number(4),
		.bytes = number(5),
		.flags = (uint32_t) number(6),
		.depth = (uint32_t) number(7) };
	const struct trace_process process = { .pid = signed_number(1),
		.name = text(2),
		.origin = "probe",
		.rank = fields[3] ? signed_number(3) : -1 };
	uint32_t ret;

	if (strcmp(fields[0], "meta") == 0)
		return store_meta_text(store, text(1), text(2));
	if (strcmp(fields[0], "metaint") == 0)
		return store_meta_int(store, text(1), signed_number(2));
	if (strcmp(fields[0], "process") == 0)
		return sink->process(sink->ctx, &process, &ret);
	if (strcmp(fields[0], "site") == 0)
		return put_site(sink);
	if (strcmp(fields[0], "event") == 0)
		return sink->event(sink->ctx, &event);
	if (strcmp(fields[0], "many") == 0)
		return put_many(sink);
	if (strcmp(fields[0], "window") == 0)
		return sink->window(sink->ctx, number(1), number(2), text(3));
	if (strcmp(fields[0], "lost") == 0)
		return sink->lost(sink->ctx, (uint32_t) number(1),
			(enum trace_loss) trace_loss_find(text(2)), number(3));
	if (strcmp(fields[0], "thread") == 0)
		return sink->thread(sink->ctx, (uint32_t) number(1), signed_number(2), text(3));
	return -EINVAL;
}

static void split(char *line)
{
	line[strcspn(line, "\n")] = '\0';
	for (int i = 0; i <= FIELDS; i++)
		fields[i] = line ? strsep(&line, "\t") : NULL;
}

int main(int argc, char **argv)
{
	struct trace_write_options options = { .limit_bytes = 0 };
	struct err err = { "" };
	char *line = NULL;
	size_t size = 0;
	int r;

	for (int i = 2; i < argc; i++) {
		if (sscanf(argv[i], "limit=%lu", &options.limit_bytes) != 1)
			(void) sscanf(argv[i], "rows=%u", &options.rows_a_second);
	}
	r = argc > 1 ? trace_file_create(argv[1], false, &store, &err) : -EINVAL;
	while (r == 0 && getline(&line, &size, stdin) > 0) {
		split(line);
		if (strcmp(fields[0], "phase") == 0) {
			r = put_phase();
			continue;
		}
		if (!writer && strncmp(fields[0], "meta", 4) != 0)
			writer = trace_write_new(store, &options);
		r = put_line(writer ? trace_write_sink(writer) : NULL);
	}
	if (r == 0 && writer)
		r = trace_write_flush(writer);
	trace_write_free(writer);
	if (store)
		r = r < 0 ? r : trace_file_end(store, argv[1], true, false, &err);
	free(line);
	if (r < 0)
		(void) fprintf(stderr, "make-trace: %s: %s\n", strerror(-r), err.text);
	return r < 0;
}
