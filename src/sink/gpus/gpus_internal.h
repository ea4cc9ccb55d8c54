/* SPDX-License-Identifier: MIT
 *
 * Private to gpus*.c.
 */
#pragma once

#include "sink/gpus/gpus_sink.h"

/* ---- gpus_figures.c: figures of a device under one name each -------------------------------------------------------- */

struct gpus_figure {
	const char *word;        /* as --line calls it: "mem_total" */
	const char *column;      /* as --csv does, with its unit: "memory_total_bytes" */
	const char *sentence;
	enum unit unit;
	enum metric metric;      /* METRIC_COUNT: get says it */
	struct maybe (*get)(const struct gpus_now *now, const struct gpu_now *gpu);
	const char *(*text)(const struct gpu_now *gpu); /* a text; else NULL */
};

extern const struct gpus_figure gpus_figures[];
extern const size_t gpus_n_figures;

struct maybe gpus_figure_get(const struct gpus_figure *f, const struct gpus_now *now, const struct gpu_now *gpu);

/* "NVIDIA H100 80GB HBM3 MIG 3g.40gb" is "MIG 3g.40gb" below its GPU. */
const char *gpus_own_name(const struct gpus_now *now, const struct gpu_now *g);

/* That, or the next best of a device that has not told its name. Never "". */
const char *gpus_best_name(const struct gpus_now *now, const struct gpu_now *g);

/* A text of a device or a user in letters that the reader's terminal has. */
void gpus_put_text(const char *text, const struct sink_options *o, struct buf *out);

/* The next process on the device behind user (NULL: the first), the largest first; NULL: none (left). hidden: those that
 * nobody can see here instead. */
const struct gpu_user_now *gpus_next_user(const struct gpus_now *now, const struct gpu_now *gpu, const struct gpu_user_now *user,
	bool hidden);

/* What is in use and belongs to nobody who can be seen; unknown: nobody knows. */
struct maybe gpus_unattributed(const struct gpus_now *now, const struct gpu_now *gpu);

/* ---- one file each --------------------------------------------------------------------------------------------------- */

void gpus_text(const struct gpus_options *g, const struct gpus_now *now, const struct sink_options *o, struct buf *out);
void gpus_spec(const struct gpus_now *now, const struct sink_options *o, struct buf *out);
void gpus_json(const struct gpus_options *g, const struct gpus_now *now, struct buf *out);
void gpus_csv(const struct gpus_options *g, const struct gpus_now *now, struct buf *out);
void gpus_line(const struct gpus_options *g, const struct gpus_now *now, const struct sink_options *o, struct buf *out);
void gpus_list(const struct gpus_now *now, const struct sink_options *o, struct buf *out);
void gpus_query(const struct gpus_options *g, const struct gpus_now *now, struct buf *out);

/* Reads the format of --line, the fields of a query. Return 0 or -EINVAL with text. */
int gpus_line_plan(const char *format, struct gpus_needs *ret, struct err *err);
int gpus_query_plan(const struct gpus_options *g, struct gpus_needs *ret, struct err *err);

/* Of what --spec shows. */
void gpus_spec_plan(struct gpus_needs *ret);

void gpus_line_help(struct buf *out);
void gpus_query_help(enum gpus_kind kind, struct buf *out);
