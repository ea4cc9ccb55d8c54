/* SPDX-License-Identifier: MIT
 *
 * Outputs of `hiwater gpus`, the GPUs of a machine at one time: text, JSON (docs/gpus.schema.json),
 * CSV, one line in the user's format, and tables with nvidia-smi's fields. gpus_plan() says what an
 * output needs to have read; gpus_sink() writes it.
 */
#pragma once

#include "sink/sink.h"
#include "summary/gpus_now.h"

enum gpus_kind {
	GPUS_TEXT,
	GPUS_JSON,
	GPUS_CSV,           /* a row a device */
	GPUS_CSV_PROCESSES, /* a row a process and device */
	GPUS_LINE,          /* in the format of what */
	GPUS_LIST,          /* a line a device: name and uuid */
	GPUS_QUERY,         /* nvidia-smi's --query-gpu */
	GPUS_QUERY_APPS,    /* its --query-compute-apps */
};

struct gpus_options {
	enum gpus_kind kind;
	bool spec;          /* of text and JSON: properties of the devices */
	bool header;        /* of text, tables and CSV */
	bool units;         /* of the queries: after the numbers */
	/* GPUS_LINE: the format; of the queries: fields, separated by commas; else NULL */
	const char *what;
};

/* Data that an output needs: process lists, pairs of samples, utilisation, facts. */
struct gpus_needs {
	bool lists, pairs, busy;
	struct gpu_fact_set facts;
};

/* Checks the options and sets the data to read. Returns 0, or -EINVAL with text that names an
 * unknown field. */
int gpus_plan(const struct gpus_options *options, struct gpus_needs *ret, struct err *err);

/* Appends the output, of chosen devices only. Returns 0 or -errno. */
int gpus_sink(const struct gpus_options *options, const struct gpus_now *now,
	const struct sink_options *style, struct buf *out);

/* "0", and "0.1" for instance 1 of GPU 0; "?" if unknown. Returns buf. */
char *gpus_number(const struct gpu_now *gpu, char buf[UNITS_LEN]);

/* Appends the help on the fields of a query (GPUS_QUERY, GPUS_QUERY_APPS) or of GPUS_LINE. */
void gpus_fields_help(enum gpus_kind kind, struct buf *out);
