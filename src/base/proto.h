/* SPDX-License-Identifier: MIT
 *
 * Writes Protocol Buffers (protobuf.dev/programming-guides/encoding) into a buf, field by field. A
 * nested message is begun and ended around its fields; its length is filled into four reserved
 * bytes at the end, so that long messages are not copied; one below 128 bytes is moved to a length
 * of one byte. Excessive depth, an unmatched end or a message of 256 MiB
 * sets the buffer's error (-EINVAL, -EFBIG).
 *
 *     proto_begin(&p, 1); proto_uint(&p, 8, 42); proto_text(&p, 2, "ram"); proto_end(&p);
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

enum {
	PROTO_DEPTH = 8
};

struct proto {
	struct buf *out;
	unsigned depth;
	size_t begun[PROTO_DEPTH]; /* start of the fields of each open message */
};

void proto_init(struct proto *p, struct buf *out);
void proto_begin(struct proto *p, unsigned field);
void proto_end(struct proto *p);
void proto_uint(struct proto *p, unsigned field, uint64_t value);  /* uint32, uint64, bool, enum */
void proto_int(struct proto *p, unsigned field, int64_t value);    /* int32, int64 */
void proto_double(struct proto *p, unsigned field, double value);
void proto_fixed(struct proto *p, unsigned field, uint64_t value);  /* fixed64 */
void proto_text(struct proto *p, unsigned field, const char *text); /* invalid UTF-8 becomes U+FFFD */
