/* SPDX-License-Identifier: MIT
 *
 * Private to gpus*.c: figures of devices, processes on them, and the entry point of each output.
 */
#pragma once

#include "sink/gpus/gpus_sink.h"

/* ---- gpus_figures.c: figures of a device under one name each -------------------------------------------------------- */

struct gpus_figure {
	const char *word;        /* in --line: "mem_total" */
	const char *column;      /* in --csv, with its unit: "memory_total_bytes" */
	const char *sentence;
	enum unit unit;
	enum metric metric;      /* METRIC_COUNT: get returns it */
	struct maybe (*get)(const struct gpus_now *now, const struct gpu_now *gpu);
	const char *(*text)(const struct gpu_now *gpu); /* of text figures; else NULL */
};

extern const struct gpus_figure gpus_figures[];
extern const size_t gpus_n_figures;

struct maybe gpus_figure_get(
	const struct gpus_figure *f, const struct gpus_now *now, const struct gpu_now *gpu);

/* A name without that of the parent GPU: "NVIDIA H100 80GB HBM3 MIG 3g.40gb" is "MIG 3g.40gb". */
const char *gpus_own_name(const struct gpus_now *now, const struct gpu_now *g);

/* That, or another identification of a device without a name. Never "". */
const char *gpus_best_name(const struct gpus_now *now, const struct gpu_now *g);

/* Appends a text of a device or a user, in ASCII if the terminal needs it. */
void gpus_put_text(const char *text, const struct sink_options *o, struct buf *out);

/* The next process on the device after user (NULL: the first), largest first; NULL: no more.
 * hidden: iterates over processes that are not visible here (another PID namespace) instead. */
const struct gpu_user_now *gpus_next_user(
	const struct gpus_now *now, const struct gpu_now *gpu, const struct gpu_user_now *user, bool hidden);

/* Memory in use that belongs to no visible process, bytes. */
struct maybe gpus_unattributed(const struct gpus_now *now, const struct gpu_now *gpu);

/* ---- the outputs, a file each --------------------------------------------------------------------------------------------------- */

void gpus_text(const struct gpus_options *g, const struct gpus_now *now, const struct sink_options *o,
	struct buf *out);
void gpus_spec(const struct gpus_now *now, const struct sink_options *o, struct buf *out);
void gpus_json(const struct gpus_options *g, const struct gpus_now *now, struct buf *out);
void gpus_csv(const struct gpus_options *g, const struct gpus_now *now, struct buf *out);
void gpus_line(const struct gpus_options *g, const struct gpus_now *now, const struct sink_options *o,
	struct buf *out);
void gpus_list(const struct gpus_now *now, const struct sink_options *o, struct buf *out);
void gpus_query(const struct gpus_options *g, const struct gpus_now *now, struct buf *out);

/* Parse the format of --line, the fields of a query. Return 0 or -EINVAL with text. */
int gpus_line_plan(const char *format, struct gpus_needs *ret, struct err *err);
int gpus_query_plan(const struct gpus_options *g, struct gpus_needs *ret, struct err *err);

/* Sets the facts that --spec needs. */
void gpus_spec_plan(struct gpus_needs *ret);

void gpus_line_help(struct buf *out);
void gpus_query_help(enum gpus_kind kind, struct buf *out);
