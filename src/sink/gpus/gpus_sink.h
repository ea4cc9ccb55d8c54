/* SPDX-License-Identifier: MIT
 *
 * Sinks of the GPUs of a machine at one time: text for people, JSON (docs/gpus.schema.json), CSV, one line of the
 * reader's own, and tables with nvidia-smi's fields.
 */
#pragma once

#include "sink/sink.h"
#include "summary/gpus_now.h"

enum gpus_kind {
	GPUS_TEXT,
	GPUS_JSON,
	GPUS_CSV,           /* a row a device */
	GPUS_CSV_PROCESSES, /* a row a process and device */
	GPUS_LINE,          /* what asks for */
	GPUS_LIST,          /* a line a device: name and uuid */
	GPUS_QUERY,         /* nvidia-smi's --query-gpu */
	GPUS_QUERY_APPS,    /* its --query-compute-apps */
};

struct gpus_options {
	enum gpus_kind kind;
	bool spec;          /* of text and JSON: what the devices are made of */
	bool header;        /* of text, tables and CSV */
	bool units;         /* of the queries: behind the numbers */
	const char *what;   /* GPUS_LINE: the format; of the queries: fields with commas between; else NULL */
};

/* What has to be read for that. */
struct gpus_needs {
	bool lists, pairs, busy;
	struct gpu_fact_set facts;
};

/* Can it be done, and what has to be read for it? Returns 0, or -EINVAL with text: what is no such field. */
int gpus_plan(const struct gpus_options *options, struct gpus_needs *ret, struct err *err);

/* Writes it into out. Devices that are not chosen are left out. Returns 0 or -errno. */
int gpus_sink(const struct gpus_options *options, const struct gpus_now *now, const struct sink_options *style,
	struct buf *out);

/* "0", and "0.1" for instance 1 of GPU 0; "?" stands for what is not known. Returns buf. */
char *gpus_number(const struct gpu_now *gpu, char buf[UNITS_LEN]);

/* The fields of a query (GPUS_QUERY, GPUS_QUERY_APPS) or of GPUS_LINE, for people. */
void gpus_fields_help(enum gpus_kind kind, struct buf *out);
