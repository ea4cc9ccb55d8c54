/* SPDX-License-Identifier: MIT */
#include "sink/html/html_encode.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
	FIRST_NUMBER = 4, /* lower codes are enum html_kind */
	RANGE_BITS = 30,  /* resolution of rounded columns that are not integers */
	NUMBER_BITS = 52, /* exact in a double */
	NOISE_PARTS = 16,
	VARINT_BYTES = 10,
};

/* ---- steps ---------------------------------------------------------------------------------------------------------------- */

struct spread {
	double low, high;   /* of all numbers */
	double moved, above, below; /* sums: changes from row to row, distances of the band */
	size_t n, n_moves;
};

static struct spread spread_of(const struct html_table *t, const struct html_column *c)
{
	struct spread s = { .low = INFINITY, .high = -INFINITY };
	double last = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct html_cell *cell = &c->cells[i];

		if (cell->kind != CELL_NUMBER)
			continue;
		if (s.n++ > 0) {
			s.moved += fabs(cell->mean - last);
			s.n_moves++;
		}
		last = cell->mean;
		s.above += cell->high - cell->mean;
		s.below += cell->mean - cell->low;
		s.low = fmin(s.low, cell->low);
		s.high = fmax(s.high, cell->high);
	}
	return s;
}

static double power_of_two_below(double value)
{
	int exponent;

	(void) frexp(value, &exponent);
	return ldexp(1, exponent - 1);
}

double html_step(const struct html_table *t, const struct html_column *c, bool small)
{
	const struct spread s = spread_of(t, c);
	double step = c->is_whole ? 1 : 0;

	if (c->is_step)
		return 1;
	if (!small && !c->is_whole && !html_has_band(t, c))
		return 0;
	if (s.n == 0)
		return 1;
	const double largest = fmax(fabs(s.low), fabs(s.high));

	if (!c->is_whole)
		step = ldexp(s.high > s.low ? s.high - s.low : largest, -RANGE_BITS);
	if (small && s.n_moves > 0)
		step = fmax(step,
			fmax(s.moved / (double) s.n_moves, fmax(s.above, s.below) / (double) s.n) /
				NOISE_PARTS);
	step = fmax(step, ldexp(largest, -NUMBER_BITS));
	return step > 0 && isfinite(step) ? power_of_two_below(step) : 1;
}

bool html_has_band(const struct html_table *t, const struct html_column *c)
{
	for (size_t i = 0; i < t->n && !c->is_step; i++) {
		const struct html_cell *cell = &c->cells[i];

		if (cell->kind == CELL_NUMBER && (cell->low < cell->mean || cell->high > cell->mean))
			return true;
	}
	return false;
}

/* ---- streams ---------------------------------------------------------------------------------------------------------------- */

static void put_varint(struct buf *out, uint64_t value)
{
	unsigned char bytes[VARINT_BYTES];
	size_t n = 0;

	while (value > 0x7f) {
		bytes[n++] = (unsigned char) (value | 0x80);
		value >>= 7;
	}
	bytes[n++] = (unsigned char) value;
	(void) buf_add(out, bytes, n);
}

static uint64_t zigzag(int64_t value)
{
	return ((uint64_t) value << 1) ^ (uint64_t) (value >> 63);
}

static int64_t in_steps(double value, double step)
{
	return llround(value / step);
}

void html_put_times(const uint64_t *times, size_t n, uint64_t unit_ns, bool as_differences, struct buf *out)
{
	uint64_t last = 0;

	for (size_t i = 0; i < n; i++) {
		const uint64_t now = (times[i] + unit_ns / 2) / unit_ns;

		put_varint(out, now - last);
		last = as_differences ? now : 0;
	}
}

static void put_double(struct buf *out, double value)
{
	unsigned char bytes[sizeof(uint64_t)];
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char) (bits >> 8 * i);
	(void) buf_add(out, bytes, sizeof(bytes));
}

void html_put_means(const struct html_table *t, const struct html_column *c, double step, struct buf *out)
{
	int64_t last = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct html_cell *cell = &c->cells[i];

		if (cell->kind == CELL_NUMBER && step == 0) {
			put_varint(out, FIRST_NUMBER);
			put_double(out, cell->mean);
		} else if (cell->kind == CELL_NUMBER) {
			const int64_t now = in_steps(cell->mean, step);

			put_varint(out, FIRST_NUMBER + zigzag(now - last));
			last = now;
		} else {
			put_varint(out, (uint64_t) cell->kind);
		}
	}
}

void html_put_highs(const struct html_table *t, const struct html_column *c, double step, struct buf *out)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct html_cell *cell = &c->cells[i];

		if (cell->kind == CELL_NUMBER)
			put_varint(out, (uint64_t) (in_steps(cell->high, step) - in_steps(cell->mean, step)));
	}
}

void html_put_minima(const struct html_table *t, const struct html_column *c, double step, struct buf *out)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct html_cell *cell = &c->cells[i];

		if (cell->kind == CELL_NUMBER)
			put_varint(out, (uint64_t) (in_steps(cell->mean, step) - in_steps(cell->low, step)));
	}
}

/* ---- packing ---------------------------------------------------------------------------------------------------------------- */

static void put_base64(const unsigned char *bytes, size_t n, struct buf *out)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char four[4];

	for (size_t i = 0; i < n; i += 3) {
		const unsigned b = i + 1 < n ? bytes[i + 1] : 0, c = i + 2 < n ? bytes[i + 2] : 0;
		const unsigned all = (unsigned) bytes[i] << 16 | b << 8 | c;

		four[0] = letters[all >> 18];
		four[1] = letters[all >> 12 & 63];
		four[2] = '=';
		four[3] = '=';
		if (i + 1 < n)
			four[2] = letters[all >> 6 & 63];
		if (i + 2 < n)
			four[3] = letters[all & 63];
		(void) buf_add(out, four, sizeof(four));
	}
}

int html_packed(const struct buf *data, struct buf *out)
{
	uLongf len = compressBound(data->len);
	unsigned char *packed;

	if (data->error)
		return data->error;
	packed = malloc(len);
	if (!packed ||
		compress2(packed, &len, (const unsigned char *) data->data, data->len,
			Z_DEFAULT_COMPRESSION) != Z_OK) {
		free(packed);
		return -ENOMEM;
	}
	put_base64(packed, len, out);
	free(packed);
	return out->error;
}
