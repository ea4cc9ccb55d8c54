/* SPDX-License-Identifier: MIT
 *
 * hiwater-otlp: sends a recording to a receiver of OTLP, a program of its own so that a job and its recorder never load
 * libcurl and never wait for a network. main.c reads the recording, outbox.c keeps the requests that were not
 * accepted yet, post.c sends one.
 *
 *     hiwater-otlp file=RECORDING [url=URL] [insecure=1] [redact=1] [follow=1] [quiet=1]
 *
 * With follow=1 it sends while the recording grows, until its stdin is closed; then it has GRACE_MS
 * for the rest. Its exit status is 0, or 1 if something was not accepted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/internal.h"

enum {
	GRACE_MS = 1000, /* after the end of the job */
};

/* ---- one request ------------------------------------------------------------------------------------------------------ */

enum post_result {
	POST_ACCEPTED, /* wholly, or in part: see rejected */
	POST_RETRY,    /* later, after wait_ms */
	POST_REFUSED,  /* the same request would be refused again */
};

struct post_answer {
	enum post_result result;
	uint64_t wait_ms;      /* Retry-After; 0: the receiver names no time */
	uint64_t rejected;     /* points that the receiver did not take */
	char text[400];        /* why, without the receiver's control characters; "" if all went well */
};

struct poster;

/* The settings are borrowed. NULL: out of memory. */
struct poster *poster_new(const struct hwi_otlp *settings);
void poster_free(struct poster *p);

/* Sends a body. end_fd (-1: none) is watched meanwhile: once it is at its end, *end_ns (CLOCK_BOOTTIME, 0 before) is set to
 * GRACE_MS from then. No request lasts beyond *end_ns. */
void poster_send(struct poster *p, const char *body, size_t len, int end_fd, uint64_t *end_ns,
	struct post_answer *ret);

/* ---- requests that wait ------------------------------------------------------------------------------------------------- */

struct queued {
	char *bytes;           /* compressed, if the settings say so */
	size_t len;
	uint64_t points;
};

/* A bounded queue: of too many the oldest are dropped and counted. */
struct outbox {
	struct queued *items;
	size_t first, n, bytes;
	uint64_t dropped;      /* points */
};

int outbox_init(struct outbox *q);
/* Copies the text, compressed if gzip. Returns 0 or -ENOMEM. */
int outbox_add(struct outbox *q, const char *text, size_t len, bool gzip);
struct queued *outbox_first(struct outbox *q); /* NULL: empty */
void outbox_remove(struct outbox *q);
uint64_t outbox_points(const struct outbox *q);
void outbox_done(struct outbox *q);
