/* SPDX-License-Identifier: MIT
 *
 * What is answered, by path. Each takes the lock while it formats, and reads nothing but the last
 * frames.
 */
#pragma once

#include "serve/http.h"

void answer_metrics(struct serve *s, const struct request *q, struct answer *a);
void answer_ready(struct serve *s, const struct request *q, struct answer *a);
void answer_healthy(struct serve *s, const struct request *q, struct answer *a);
void answer_now(struct serve *s, const struct request *q, struct answer *a);
void answer_gpus(struct serve *s, const struct request *q, struct answer *a);
void answer_jobs(struct serve *s, const struct request *q, struct answer *a);
void answer_job(struct serve *s, const struct request *q, struct answer *a);
void answer_room(struct serve *s, const struct request *q, struct answer *a);

/* The series that the viewer may see; is_text: in the format 0.0.4. The caller locks. */
void metrics_write(const struct serve *s, const struct viewer *viewer, bool is_text, struct buf *out);

/* The span of ?window=, at most --window; 0: not given. False: the answer is an error. */
bool window_of(const struct serve *s, const struct request *q, struct answer *a, uint64_t *ret_ns);

/* Has the first sample arrived? The caller locks. */
bool is_ready(const struct serve *s);

/* The stream whose time and generation an answer has: the machine's, or that of the one job. NULL:
 * there is none yet. */
const struct stream *stream_of(const struct serve *s);

struct json;
/* "schema", "generation", "at": seconds since 1970, of the last frame; null before the first. */
void json_stamp(const struct serve *s, struct json *j);
/* A time of CLOCK_BOOTTIME as seconds since 1970; null if it is 0. */
void json_time(struct json *j, const char *key, uint64_t at_ns, uint64_t now_ns);
/* A value in its base unit, or null. */
void json_metric(
	struct json *j, const char *key, const struct thing *t, const char *metric, uint64_t now_ns);
/* {"min", "mean", "p95", "max", "covered_s"}, each in the base unit (value / scale), or null. */
void json_spread(struct json *j, const char *key, const struct spread *s, double scale);
