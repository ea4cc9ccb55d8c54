/* SPDX-License-Identifier: MIT */
#include "record/trace/trace_histogram.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "record/trace/trace_read.h"

enum {
	MOST_BUCKETS = 64 * TRACE_BUCKETS_AN_OCTAVE
};

/* 2^63 * 2^(i/32), rounded up: where the buckets of an octave begin. */
static const uint64_t begins[TRACE_BUCKETS_AN_OCTAVE] = {
	0x8000000000000000, 0x82cd8698ac2ba1d8, 0x85aac367cc487b15, 0x88980e8092da8528, 0x8b95c1e3ea8bd6e7,
	0x8ea4398b45cd53c1, 0x91c3d373ab11c337, 0x94f4efa8fef70962, 0x9837f0518db8a970, 0x9b8d39b9d54e5539,
	0x9ef5326091a111ae, 0xa27043030c496819, 0xa5fed6a9b15138eb, 0xa9a15ab4ea7c0ef9, 0xad583eea42a14ac7,
	0xb123f581d2ac2590, 0xb504f333f9de6485, 0xb8fbaf4762fb9eea, 0xbd08a39f580c36bf, 0xc12c4cca66709457,
	0xc5672a115506dade, 0xc9b9bd866e2f27a3, 0xce248c151f8480e4, 0xd2a81d91f12ae45b, 0xd744fccad69d6af5,
	0xdbfbb797daf23756, 0xe0ccdeec2a94e112, 0xe5b906e77c8348a9, 0xeac0c6e7dd24392f, 0xefe4b99bdcdaf5cc,
	0xf5257d152486cc2d, 0xfa83b2db722a033b
};
/* 2^63 * 2^((i+0.5)/32): their middles, from which both ends are 1.09 % away. */
static const uint64_t middles[TRACE_BUCKETS_AN_OCTAVE] = {
	0x8164d1f3bc030774, 0x843a28c3acde4047, 0x871f61969e8d1011, 0x8a14d575496efd9b, 0x8d1adf5b7e5ba9e6,
	0x9031dc431466b1dd, 0x935a2b2f13e6e92c, 0x96942d3720185a01, 0x99e0459320b7fa65, 0x9d3ed9a72cffb751,
	0xa0b0510fb9714fc3, 0xa43515ae09e6809f, 0xa7cd93b4e965356a, 0xab7a39b5a93ed338, 0xaf3b78ad690a4375,
	0xb311c412a911248a, 0xb6fd91e328d17792, 0xbaff5ab2133e45fc, 0xbf1799b67a731083, 0xc346ccda24976408,
	0xc78d74c8abb9b15d, 0xcbec14fef2727c5d, 0xd06333daef2b2595, 0xd4f35aabcfedfa20, 0xd99d15c278afd7b6,
	0xde60f4825e0e9124, 0xe33f8972be8a5a52, 0xe8396a503c4bdc69, 0xed4f301ed9942b85, 0xf281773c59ffb13a,
	0xf7d0df730ad13bb9, 0xfd3e0c0cf486c175
};

unsigned trace_bucket(uint64_t duration_ns)
{
	if (duration_ns < 2)
		return 0;
	const unsigned octave = 63 - (unsigned) __builtin_clzll(duration_ns);
	const uint64_t scaled = duration_ns << (63 - octave);
	unsigned low = 0, high = TRACE_BUCKETS_AN_OCTAVE;

	while (high - low > 1) {
		const unsigned middle = (low + high) / 2;

		if (begins[middle] <= scaled)
			low = middle;
		else
			high = middle;
	}
	return octave * TRACE_BUCKETS_AN_OCTAVE + low;
}

uint64_t trace_bucket_ns(unsigned bucket)
{
	const unsigned octave = bucket / TRACE_BUCKETS_AN_OCTAVE, step = bucket % TRACE_BUCKETS_AN_OCTAVE;
	uint64_t middle;

	if (bucket >= MOST_BUCKETS)
		return UINT64_MAX;
	middle = middles[step] >> (63 - octave);
	/* A bucket of few nanoseconds may not hold its middle, rounded down. */
	return trace_bucket(middle) < bucket ? middle + 1 : middle;
}

/* The index of the first cell whose bucket is at least bucket. */
static size_t place_of(const struct trace_histogram *h, uint32_t bucket)
{
	size_t low = 0, high = h->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (h->cells[middle].bucket < bucket)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int add_to(struct trace_histogram *h, uint32_t bucket, uint64_t count)
{
	const size_t at = place_of(h, bucket);

	if (at == h->n || h->cells[at].bucket != bucket) {
		if (vec_reserve(&h->cells, &h->cap, h->n, sizeof(*h->cells), MOST_BUCKETS) < 0)
			return -ENOMEM;
		memmove(h->cells + at + 1, h->cells + at, (h->n - at) * sizeof(*h->cells));
		h->cells[at] = (struct trace_histogram_cell) { .bucket = bucket };
		h->n++;
	}
	if (__builtin_add_overflow(h->cells[at].count, count, &h->cells[at].count))
		h->cells[at].count = UINT64_MAX;
	return 0;
}

int trace_histogram_add(struct trace_histogram *h, uint64_t duration_ns, uint64_t count)
{
	return add_to(h, trace_bucket(duration_ns), count);
}

void trace_histogram_done(struct trace_histogram *h)
{
	free(h->cells);
	*h = (struct trace_histogram) { 0 };
}

int trace_histogram_merge(struct trace_histogram *h, const struct trace_histogram *from)
{
	for (size_t i = 0; i < from->n; i++) {
		if (add_to(h, from->cells[i].bucket, from->cells[i].count) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* ---- the blob -------------------------------------------------------------------------------- */

static void put_varint(struct buf *out, uint64_t value)
{
	unsigned char bytes[10];
	size_t at = sizeof(bytes);

	bytes[--at] = value & 0x7f;
	while (value >>= 7)
		bytes[--at] = (unsigned char) (0x80 | (value & 0x7f));
	(void) buf_add(out, bytes + at, sizeof(bytes) - at);
}

static bool get_varint(const unsigned char **p, const unsigned char *end, uint64_t *ret)
{
	uint64_t value = 0;

	for (int i = 0; i < 10 && *p < end; i++) {
		const unsigned char byte = *(*p)++;

		if (value > UINT64_MAX >> 7)
			return false;
		value = value << 7 | (byte & 0x7f);
		if (!(byte & 0x80)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

int trace_histogram_write(const struct trace_histogram *h, struct buf *out)
{
	uint32_t before = 0;

	for (size_t i = 0; i < h->n; i++) {
		put_varint(out, h->cells[i].bucket - before);
		put_varint(out, h->cells[i].count);
		before = h->cells[i].bucket;
	}
	return out->error;
}

int trace_histogram_read(struct trace_histogram *h, const void *blob, size_t bytes)
{
	const unsigned char *p = blob, *const end = p ? p + bytes : NULL;
	uint64_t bucket = 0, step, count;

	while (p < end && get_varint(&p, end, &step) && get_varint(&p, end, &count)) {
		if (step >= MOST_BUCKETS || bucket + step >= MOST_BUCKETS)
			break;
		bucket += step;
		if (count > 0 && add_to(h, (uint32_t) bucket, count) < 0)
			return -ENOMEM;
	}
	return 0;
}

uint64_t trace_histogram_quantile(const struct trace_histogram *h, double q)
{
	double total = 0, rank;
	double below = 0;

	for (size_t i = 0; i < h->n; i++)
		total += (double) h->cells[i].count;
	rank = q * total;
	for (size_t i = 0; i < h->n; i++) {
		below += (double) h->cells[i].count;
		if (below >= rank)
			return trace_bucket_ns(h->cells[i].bucket);
	}
	return h->n > 0 ? trace_bucket_ns(h->cells[h->n - 1].bucket) : 0;
}
