/* SPDX-License-Identifier: MIT */
#include "sink/export/exporter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "sink/export/export_internal.h"

static const struct export_format *const formats[] = { &export_csv, &export_json, &export_openmetrics,
	&export_otlp, &export_perfetto, &export_chrome, &export_nsys_sqlite, &export_svg, &export_js1,
	&export_sacct };

enum {
	FORMATS = sizeof(formats) / sizeof(formats[0]),
	FLUSH_BYTES = 1 << 16,
	MOST_BYTES = 1 << 28, /* of one frame */
};

const bool export_no_metrics[METRIC_COUNT];

/* ---- the output -------------------------------------------------------------------------------------------------------- */

struct export_gzip {
	z_stream stream;
	unsigned char out[1 << 15];
};

static struct export_gzip *gzip_new(void)
{
	enum {
		GZIP_WINDOW = 15 + 16
	};
	struct export_gzip *z = calloc(1, sizeof(*z));

	if (z && deflateInit2(&z->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		free(z);
		return NULL;
	}
	return z;
}

static int gzip_write(struct export *e, void *data, size_t len, int flush)
{
	z_stream *stream = &e->gzip->stream;
	int error = 0;

	stream->next_in = data;
	stream->avail_in = (uInt) len;
	do {
		size_t n;

		stream->next_out = e->gzip->out;
		stream->avail_out = sizeof(e->gzip->out);
		(void) deflate(stream, flush);
		n = sizeof(e->gzip->out) - stream->avail_out;
		if (n > 0)
			error = e->o.write(e->o.ctx, e->gzip->out, n);
	} while (error == 0 && stream->avail_out == 0);
	return error;
}

/* ---- shared by the formats ------------------------------------------------------------------------------------------- */

static void write_out(struct export *e)
{
	if (e->error == 0 && e->out.error)
		e->error = e->out.error;
	if (e->error == 0 && e->out.len > 0)
		e->error = e->gzip ? gzip_write(e, e->out.data, e->out.len, Z_NO_FLUSH)
				   : e->o.write(e->o.ctx, e->out.data, e->out.len);
	buf_clear(&e->out);
}

void export_flush(struct export *e)
{
	if (e->out.len >= FLUSH_BYTES || e->out.error || e->error)
		write_out(e);
}

bool export_wants(const struct export *e, int table)
{
	return e->table == EXPORT_ALL || e->table == table;
}

const char *export_private(const struct export *e, const char *text)
{
	return text && !e->o.redact ? text : "";
}

const char *export_process_name(const struct export *e, const struct birth *birth)
{
	return birth ? export_private(e, birth->process.name) : "others";
}

uint64_t export_born(const struct export *e, const struct birth *birth, uint64_t otherwise)
{
	const struct process *p = birth->entity == ENTITY_PROCESS ? job_process_by_id(e->job, birth->id)
								  : NULL;

	return p ? p->born_ns : otherwise;
}

const char *export_event_text(const struct export *e, const struct event *event)
{
	return event_is_private(event) ? export_private(e, event->text) : event->text;
}

struct maybe export_series(const struct export *e, const char *name)
{
	for (size_t i = 0; i < job_series_count(e->job); i++) {
		if (strcmp(job_series(e->job, i)->name, name) == 0)
			return known((int64_t) i);
	}
	return UNKNOWN;
}

void export_double(struct buf *out, double value, const char *infinity)
{
	char text[UNITS_LEN];

	if (isnan(value))
		(void) buf_str(out, "NaN");
	else if (isinf(value))
		(void) buf_printf(out, "%s%s", value < 0 ? "-" : "", infinity);
	else
		(void) buf_str(out, units_double(value, text));
}

uint64_t export_wall(const struct export *e, uint64_t time_ns)
{
	return (e->facts->started_wall_ns.known ? (uint64_t) e->facts->started_wall_ns.value : 0) + time_ns;
}

/* ---- the table of formats --------------------------------------------------------------------------------------------- */

static const struct export_format *find_format(const char *name)
{
	for (size_t i = 0; i < FORMATS; i++) {
		if (strcmp(formats[i]->name, name) == 0)
			return formats[i];
	}
	return NULL;
}

enum export_trace export_trace_use(const char *to)
{
	const struct export_format *format = find_format(to);

	return format ? format->trace : EXPORT_TRACE_NONE;
}

static int find_table(const char *name)
{
	return strcmp(name, "series") == 0   ? (int) EXPORT_SERIES
	       : strcmp(name, "events") == 0 ? (int) EXPORT_EVENTS
					     : entity_find(name);
}

static int choose(struct export *e, struct err *err)
{
	e->format = find_format(e->o.to);
	if (!e->format)
		return err_set(err, -EINVAL, "unknown format '%s'", e->o.to);
	e->table = e->o.table ? find_table(e->o.table) : e->format->default_table;
	if (!e->o.table)
		return 0;
	if (e->table < 0)
		return err_set(err, -EINVAL, "unknown entity '%s'", e->o.table);
	if (!(e->format->tables >> e->table & 1))
		return err_set(err, -EINVAL,
			e->format->tables ? "%s has no table '%s'; csv and json do"
					  : "%s always holds the whole run; omit --entity %s",
			e->o.to, e->o.table);
	return 0;
}

static void free_export(struct export *e)
{
	if (e->format && e->format->done)
		e->format->done(e);
	names_done(&e->names);
	buf_done(&e->out);
	if (e->gzip)
		(void) deflateEnd(&e->gzip->stream);
	free(e->gzip);
	free(e);
}

int export_new(
	const struct job *job, const struct export_options *options, struct export **ret, struct err *err)
{
	struct export *e = calloc(1, sizeof(*e));
	int error;

	if (!e)
		return err_set(err, -ENOMEM, "out of memory");
	*e = (struct export) {
		.o = *options,
		.job = job,
		.facts = job_facts_const(job),
		.out = BUF_INIT(MOST_BYTES),
	};
	error = choose(e, err);
	if (error == 0 && e->o.gzip) {
		e->gzip = gzip_new();
		if (!e->gzip)
			error = err_set(err, -ENOMEM, "out of memory");
	}
	if (error == 0 && e->format->trace == EXPORT_TRACE_MUST && !e->o.trace)
		error = err_set(err, -ENOENT, "%s has traced work alone, and this run was not traced; use: "
					      "hiwater run --trace -- COMMAND",
			e->o.to);
	if (error == 0)
		error = e->format->begin(e, err);
	if (error < 0) {
		free_export(e);
		return error;
	}
	*ret = e;
	return 0;
}

const bool *export_wanted(const struct export *e)
{
	return e->format->wanted;
}

bool export_wants_recent(const struct export *e)
{
	/* of runs this short a picture needs full-rate samples, of longer ones windows do */
	static const uint64_t short_ns = UINT64_C(400000000000);

	return e->o.recent || (e->format->wanted && job_now(e->job) < short_ns);
}

bool export_see(struct export *e, const struct frame *frame)
{
	names_see(&e->names, frame);
	e->now_ns = frame->time_ns;
	e->format->see(e, frame);
	names_forget(&e->names, frame);
	if (e->error == 0)
		e->error = e->names.error;
	export_flush(e);
	return e->error == 0;
}

int export_pause(struct export *e)
{
	if (e->error == 0 && e->format->pause)
		e->format->pause(e);
	write_out(e);
	return e->error;
}

int export_end(struct export *e, bool whole, struct err *err)
{
	int error;

	if (whole && e->error == 0) {
		e->format->end(e);
		write_out(e);
		if (e->gzip && e->error == 0)
			e->error = gzip_write(e, NULL, 0, Z_FINISH);
	}
	error = e->error;
	if (error < 0)
		(void) err_set(err, error, "%s%s", *e->why.text ? "" : "cannot write the export: ",
			*e->why.text ? e->why.text : strerror(-error));
	free_export(e);
	return error;
}
