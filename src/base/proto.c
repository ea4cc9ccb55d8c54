/* SPDX-License-Identifier: MIT */
#include "base/proto.h"

#include <errno.h>
#include <string.h>

#include "base/textwidth.h"

enum {
	WIRE_VARINT = 0,
	WIRE_I64 = 1,
	WIRE_LEN = 2,
	LENGTH_BYTES = 4,  /* a varint may be longer than necessary */
	SHORT_BYTES = 128, /* shorter messages have a length of one byte */
	MOST_BYTES = 1 << 28,
};

static void fail(struct proto *p, int error)
{
	if (p->out->error == 0)
		p->out->error = error;
}

static void put_varint(struct proto *p, uint64_t value)
{
	unsigned char bytes[10];
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[n++] = (unsigned char) (value | 0x80);
	bytes[n++] = (unsigned char) value;
	(void) buf_add(p->out, bytes, n);
}

static void put_tag(struct proto *p, unsigned field, unsigned wire)
{
	put_varint(p, (uint64_t) field << 3 | wire);
}

/* Reserves space for a length that is not known yet. */
static size_t begin_length(struct proto *p)
{
	static const char room[LENGTH_BYTES];

	(void) buf_add(p->out, room, sizeof(room));
	return p->out->len;
}

static void end_length(struct proto *p, size_t begun)
{
	size_t len;

	if (p->out->error)
		return;
	len = p->out->len - begun;
	if (len >= MOST_BYTES) {
		fail(p, -EFBIG);
		return;
	}
	if (len < SHORT_BYTES) {
		memmove(&p->out->data[begun - LENGTH_BYTES + 1], &p->out->data[begun], len + 1);
		p->out->data[begun - LENGTH_BYTES] = (char) len;
		p->out->len -= LENGTH_BYTES - 1;
		return;
	}
	for (size_t i = 0; i < LENGTH_BYTES; i++)
		p->out->data[begun - LENGTH_BYTES + i] = (char) ((len >> (7 * i) & 0x7f) |
								 (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

void proto_init(struct proto *p, struct buf *out)
{
	*p = (struct proto) { .out = out };
}

void proto_begin(struct proto *p, unsigned field)
{
	if (p->depth == PROTO_DEPTH) {
		fail(p, -EINVAL);
		return;
	}
	put_tag(p, field, WIRE_LEN);
	p->begun[p->depth++] = begin_length(p);
}

void proto_end(struct proto *p)
{
	if (p->depth == 0)
		fail(p, -EINVAL);
	else
		end_length(p, p->begun[--p->depth]);
}

void proto_uint(struct proto *p, unsigned field, uint64_t value)
{
	put_tag(p, field, WIRE_VARINT);
	put_varint(p, value);
}

void proto_int(struct proto *p, unsigned field, int64_t value)
{
	proto_uint(p, field, (uint64_t) value);
}

void proto_fixed(struct proto *p, unsigned field, uint64_t value)
{
	unsigned char bytes[sizeof(value)];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char) (value >> (8 * i));
	put_tag(p, field, WIRE_I64);
	(void) buf_add(p->out, bytes, sizeof(bytes));
}

void proto_double(struct proto *p, unsigned field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	proto_fixed(p, field, bits);
}

void proto_text(struct proto *p, unsigned field, const char *text)
{
	size_t begun;

	put_tag(p, field, WIRE_LEN);
	begun = begin_length(p);
	(void) utf8_add(p->out, text);
	end_length(p, begun);
}
