/* SPDX-License-Identifier: MIT
 *
 * Private to export*.c: what the formats share. All texts go out as UTF-8.
 */
#pragma once

#include "base/map.h"
#include "base/units.h"
#include "sink/export/exporter.h"

/* ---- who is who ----------------------------------------------------------------------------------------------------- */

/* Those who live, as their births said. */
struct export_names {
	struct birth *births;
	size_t n, cap;
	struct map places;  /* from entity and id */
	int error;
};

void names_see(struct export_names *names, const struct frame *frame);    /* before its readings are looked at */
void names_forget(struct export_names *names, const struct frame *frame); /* afterwards */
const struct birth *names_find(const struct export_names *names, enum entity entity, uint32_t id); /* NULL: nobody */
/* "0", of a MIG instance "0.2", as hiwater gpus has it; its id where it has no number. Returns buf. */
char *names_gpu_number(const struct export_names *names, const struct birth *gpu, uint32_t id, char buf[UNITS_LEN]);
void names_done(struct export_names *names);

/* ---- rows and columns ------------------------------------------------------------------------------------------------- */

/* What was read of one entity at one time, or folded into one window that begins then. */
struct export_row {
	enum entity entity;
	uint32_t id, n;     /* n: readings folded into it; 0: it was looked for and could not be read */
	uint64_t time_ns, span_ns;
	const struct reading *cells[METRIC_COUNT]; /* NULL: not looked for */
};

/* Calls see for each row of the frame. */
void export_rows(const struct frame *frame, void (*see)(void *ctx, const struct export_row *row), void *ctx);

enum export_part {
	EXPORT_MIN,  /* of gauges, as the three */
	EXPORT_MEAN,
	EXPORT_MAX,
	EXPORT_LAST, /* of counters and marks, which have no other */
};

/* Calls see for each column of the entity, in metric.def's order. */
void export_columns(enum entity entity, void (*see)(void *ctx, enum metric metric, enum export_part part), void *ctx);

enum {
	COLUMN_LEN = 64
};

/* "ram_max_bytes", "cpu_user_seconds", "threads_mean": the unit is the last word. Returns buf. */
char *export_column(enum metric metric, enum export_part part, char buf[COLUMN_LEN]);
int64_t export_value(const struct reading *reading, enum export_part part);

/* What an integer of the unit is multiplied with to be in the base unit, as a negative power of ten: bytes 0, ns 9. */
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
	struct buf out;     /* what has not gone out yet */
	uint64_t now_ns;    /* time of the last frame */
	int error;          /* of writing, or of the format; negative */
	void *state;        /* the format's own */
};

struct export_format {
	const char *name;
	unsigned tables;    /* those that can be asked for: bits of entities and enum export_table */
	int usual;          /* the table unless asked: EXPORT_ALL for several */
	const bool *wanted; /* of METRIC_COUNT: the readings that it looks at; NULL: all */
	int (*begin)(struct export *e, struct err *err); /* sets state */
	void (*see)(struct export *e, const struct frame *frame);
	void (*end)(struct export *e);                   /* all frames were seen */
	void (*done)(struct export *e);                  /* frees state; may be NULL */
};

extern const struct export_format export_csv, export_json, export_openmetrics, export_perfetto, export_svg;

/* Hands on what there is when it is much. Formats that write much at once call it in between. */
void export_flush(struct export *e);

bool export_wants(const struct export *e, int table);

/* A fact that --redact takes out, "" if it is unknown or taken out. */
const char *export_private(const struct export *e, const char *text);

/* The name of a process, "others" for the sum of the small ones. */
const char *export_process_name(const struct export *e, const struct birth *birth);

/* When the process was first seen: replay tells it with the window that it first has a row in. otherwise: of an entity
 * that keeps no such time. */
uint64_t export_born(const struct export *e, const struct birth *birth, uint64_t otherwise);

/* The text of an event; that of an exec, a killed process is a private name. */
const char *export_event_text(const struct export *e, const struct event *event);

/* Which of the job's series has the name. */
struct maybe export_series(const struct export *e, const char *name);

/* A number as a program logged it, with as many digits as it needs; infinity: its word there, "Inf". */
void export_double(struct buf *out, double value, const char *infinity);

/* The wall clock then, in ns since 1970; 0-based where the run's start is not known. */
uint64_t export_wall(const struct export *e, uint64_t time_ns);
