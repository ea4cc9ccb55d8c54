/* SPDX-License-Identifier: MIT
 *
 * The tables of a recording, made from metric.def (docs/recording.md explains them).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "job/job.h"
#include "model/frame.h"
#include "record/rows.h"

/* 'HiWa' in the header's application id; the format's number is in user_version and in meta. */
#define SCHEMA_APPLICATION 0x48695761
#define SCHEMA_VERSION     1

/* All CREATE TABLE statements. */
int schema_tables(struct buf *out);

/* "process_sample", "process_recent". */
int schema_name(struct buf *out, enum entity entity, bool recent);

/* Calls see for each column of entity's rows in the tables' order, which is the order of binding: t, id (where it has
 * one), span, n, part, then a metric's name, or NAME_min, NAME, NAME_max of a gauge in a window. Stops at a negative
 * result. */
int schema_columns(const struct row_layout *l, enum entity entity, bool recent, int (*see)(void *ctx, const char *column),
	void *ctx);

/* INSERT OR REPLACE with a parameter for each column. */
int schema_insert(struct buf *out, const struct row_layout *l, enum entity entity, bool recent);

/* Names of enumerators in the tables; NULL behind the last. */
const char *unit_name(enum unit unit);
const char *kind_name(enum metric_kind kind);
const char *adds_name(enum adds adds);

/* A fact: a row of facts.def. */
struct fact_info {
	const char *name;
	bool is_text;
	size_t offset; /* in struct facts: of a struct maybe or a char pointer */
};
extern const struct fact_info fact_infos[];
extern const size_t fact_count;
