/* SPDX-License-Identifier: MIT
 *
 * Many streams of fixed-size records, written alternately and read back one stream after the other,
 * through an unnamed temporary file. It turns data sorted by time into data sorted by stream, in
 * memory that does not grow with the number of records: an open stream needs SPOOL_CHUNK bytes, a
 * closed one almost nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	SPOOL_CHUNK = 2048
};

struct spool_stream;

struct spool {
	int fd;
	size_t record;       /* bytes of a record */
	uint64_t end;        /* of the file */
	struct spool_stream *streams;
	size_t n, cap;
	int error;           /* the first one, negative; later calls do nothing */
};

/* Creates it in $TMPDIR, else in /var/tmp. Returns 0, or -errno with text. */
int spool_open(struct spool *s, size_t record_bytes, struct err *err);
void spool_done(struct spool *s);

/* A new stream's number, from 0; negative with the error set. */
int spool_new(struct spool *s);
void spool_put(struct spool *s, int stream, const void *record);
/* Frees the stream's buffer; more records may be put nevertheless. */
void spool_close(struct spool *s, int stream);

/* Calls see for each record of the stream, in order. No records may be put afterwards. */
void spool_each(struct spool *s, int stream, void (*see)(void *ctx, const void *record), void *ctx);
