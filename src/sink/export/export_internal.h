/* SPDX-License-Identifier: MIT
 *
 * Private to export*.c: helpers shared by the formats. All texts are written as UTF-8.
 */
#pragma once

#include <string.h>

#include "base/map.h"
#include "base/units.h"
#include "sink/export/exporter.h"

/* ---- entities by id ----------------------------------------------------------------------------------------------------- */

/* The births of entities that have not ended. */
struct export_names {
	struct birth *births;
	size_t n, cap;
	struct map places;  /* from entity and id */
	int error;
};

void names_see(struct export_names *names, const struct frame *frame);    /* before its values are used */
void names_forget(struct export_names *names, const struct frame *frame); /* afterwards */
/* NULL: none */
const struct birth *names_find(const struct export_names *names, enum entity entity, uint32_t id);
/* "0", for a MIG instance "0.2", as in hiwater gpus; the id if it has no number. Returns buf. */
char *names_gpu_number(
	const struct export_names *names, const struct birth *gpu, uint32_t id, char buf[UNITS_LEN]);
void names_done(struct export_names *names);

/* ---- rows and columns ------------------------------------------------------------------------------------------------- */

/* The values of one entity at one time, or of one window that begins then. */
struct export_row {
	enum entity entity;
	uint32_t id, n;     /* n: values in it; 0: reading failed */
	uint64_t time_ns, span_ns;
	const struct reading *cells[METRIC_COUNT]; /* NULL: not read */
};

/* Calls see for each row of the frame. */
void export_rows(const struct frame *frame, void (*see)(void *ctx, const struct export_row *row), void *ctx);

enum export_part {
	EXPORT_MIN,  /* the first three are of gauges */
	EXPORT_MEAN,
	EXPORT_MAX,
	EXPORT_LAST, /* of counters and high-water marks, their only part */
};

/* Calls see for each column of the entity, in metric.def's order. */
void export_columns(
	enum entity entity, void (*see)(void *ctx, enum metric metric, enum export_part part), void *ctx);

enum {
	COLUMN_LEN = 64
};

/* "ram_max_bytes", "cpu_user_seconds", "threads_mean": the unit is the last word. Returns buf. */
char *export_column(enum metric metric, enum export_part part, char buf[COLUMN_LEN]);
int64_t export_value(const struct reading *reading, enum export_part part);

/* Decimals between an integer of the unit and the base unit: bytes 0, ns 9. */
unsigned export_digits(enum unit unit);
/* "_bytes", "_seconds", "" */
const char *export_suffix(enum unit unit);

/* ---- formats ---------------------------------------------------------------------------------------------------------- */

struct export
{
	const struct export_format *format;
	struct export_options o;
	int table;          /* enum entity, enum export_table */
	const struct job *job;
	const struct facts *facts;
	struct export_names names;
	struct buf out;     /* bytes that are not written yet */
	uint64_t now_ns;    /* time of the last frame */
	int error;          /* of writing, or of the format; negative */
	struct err why;     /* its text; "": error alone */
	struct export_gzip *gzip; /* NULL: not compressed */
	void *state;        /* the format's own */
};

struct export_format {
	const char *name;
	unsigned tables;    /* selectable tables: bits of entities and enum export_table */
	int default_table;  /* default table; EXPORT_ALL for several */
	enum export_trace trace;
	const bool *wanted; /* METRIC_COUNT flags: the metrics that it uses; NULL: all */
	int (*begin)(struct export *e, struct err *err); /* sets state */
	void (*see)(struct export *e, const struct frame *frame);
	void (*end)(struct export *e);                   /* after the last frame */
	/* Writes all that it has, although more frames follow; NULL: the format waits for the end. */
	void (*pause)(struct export *e);
	void (*done)(struct export *e);                  /* frees state; may be NULL */
};

extern const struct export_format export_csv, export_json, export_openmetrics, export_otlp, export_perfetto,
	export_chrome, export_nsys_sqlite, export_svg, export_js1, export_sacct;
extern const bool export_no_metrics[METRIC_COUNT]; /* for wanted */

/* Writes the bytes in out if they are many. Formats with large frames call it in between. */
void export_flush(struct export *e);

bool export_wants(const struct export *e, int table);

/* A text that --redact leaves out; "" then, or if it is unknown. */
const char *export_private(const struct export *e, const char *text);

/* The name of a process; "others" for the sum of small processes. */
const char *export_process_name(const struct export *e, const struct birth *birth);

/* Birth time of a process, which replay reports only with its first window; otherwise for entities
 * without one. */
uint64_t export_born(const struct export *e, const struct birth *birth, uint64_t otherwise);

/* The text of an event; "" for private texts (names of programs and processes) with --redact. */
const char *export_event_text(const struct export *e, const struct event *event);

/* Index of the job's series of that name; unknown: none. */
struct maybe export_series(const struct export *e, const char *name);

/* Appends a user's number with as many digits as it needs; infinity: the format's word, "Inf". */
void export_double(struct buf *out, double value, const char *infinity);

/* Would a spreadsheet read the text as a formula? CSV has an apostrophe before it, which marks a text. */
static inline bool export_is_formula(const char *text)
{
	return *text && strchr("=+-@", *text);
}

/* Appends a field of CSV, quoted where needed. Tables are also printed in terminals: of control characters
 * only the line feed stays. */
void export_csv_text(struct buf *out, const char *text);

/* Wall clock time, ns since 1970; time_ns itself if the run's start is unknown. */
uint64_t export_wall(const struct export *e, uint64_t time_ns);
