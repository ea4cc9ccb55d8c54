/* SPDX-License-Identifier: MIT
 *
 * HTTP: connections, limits, and the table of paths. libmicrohttpd parses and writes; this accepts the
 * connections itself, so that one too many is closed at once instead of waiting in a queue.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "serve/listen.h"
#include "serve/serve.h"

/* A request that was accepted. */
struct request {
	struct viewer viewer;
	const char *path;
	const char *accept;          /* "" if it has no such header */
	/* The parameters of the query, in their order. */
	struct {
		const char *name, *value;
	} args[16];
	size_t n_args;
};

/* The answer, whose body the handler appends to. */
struct answer {
	unsigned status;
	const char *type;            /* static */
	struct buf body;
};

/* The value of a parameter; NULL: it was not given. */
const char *request_arg(const struct request *q, const char *name);

/* Makes the answer an error: {"error": TEXT}. */
void answer_error(struct answer *a, unsigned status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

struct http;

/* Starts the threads that answer. Returns 0, or -errno with text. */
int http_start(struct serve *s, struct listener *listeners, size_t n, struct http **ret, char *why,
	size_t size);
/* Accepts what waits at listener i. */
void http_accept(struct http *h, size_t i);
/* Closes connections that take too long; call it about once a second. */
void http_expire(struct http *h);
void http_end(struct http *h);
