/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/json.h"
#include "sink/sink.h"

/* SINK_JSON: docs/summary.schema.json. */
int json_sink(const struct summary *s, const struct sink_options *o, struct buf *out);
int json_line_sink(const struct summary *s, const struct sink_options *o, struct buf *out);

/* The notes: those of the summary, and a reason for whatever is null and has none there. An array. */
void json_notes(struct json *j, const struct summary *s);

/* The request for the next run: null if it was not made, else an object. */
void json_request(struct json *j, const struct request *r);

/* json_gpu.c: null, or the object of the GPUs. */
void json_gpu(struct json *j, const struct summary *s);

/* json_job.c: the key "job" of a job of several ranks; nothing for any other. */
void json_job(struct json *j, const struct summary *s);

/* json_work.c: the key "trace" of a traced run; nothing if work is NULL. */
void json_work(struct json *j, const struct work *work);
/* The key "where" of a sampled run; nothing if touched is NULL. */
void json_where(struct json *j, const struct touched *touched);
/* The key "touched_first" of an incident, likewise. */
void json_where_then(struct json *j, const struct touched *touched);

enum {
	JSON_PROCESSES = 100
}; /* processes.list has no more; a note has the number of the others */
