/* SPDX-License-Identifier: MIT
 *
 * The tables of a recording, generated from metric.def (described in docs/recording.md).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "job/job.h"
#include "model/frame.h"
#include "record/rows.h"

/* 'HiWa', the application id in the file's header. The format version is in user_version and in
 * meta. */
#define SCHEMA_APPLICATION 0x48695761
#define SCHEMA_VERSION     2

/* Writes all CREATE TABLE statements. */
int schema_tables(struct buf *out);

/* Writes the table's name: "process_sample", "process_recent". */
int schema_name(struct buf *out, enum entity entity, bool recent);

/* Calls see for each column of entity's rows in table order, which is the order of binding: t,
 * id (if the entity has one), span, n, part, then the metric's name, or NAME_min, NAME, NAME_max
 * for a gauge of a window. Stops at a negative result and returns it. */
int schema_columns(const struct row_layout *l, enum entity entity, bool recent,
	int (*see)(void *ctx, const char *column), void *ctx);

/* Writes INSERT OR REPLACE with one parameter per column. */
int schema_insert(struct buf *out, const struct row_layout *l, enum entity entity, bool recent);

/* Names of the enumerators in the tables. */
const char *unit_name(enum unit unit);
const char *kind_name(enum metric_kind kind);
const char *adds_name(enum adds adds);

/* A row of facts.def. */
struct fact_info {
	const char *name;
	bool is_text;
	size_t offset; /* in struct facts: offset of a struct maybe or a char pointer */
};
extern const struct fact_info fact_infos[];
extern const size_t fact_count;
