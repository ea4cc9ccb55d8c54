/* SPDX-License-Identifier: MIT
 *
 * A number that may be unknown. Unknown is not zero, and no number stands for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct maybe {
	int64_t value; /* meaningless unless known */
	bool known;
};

#define UNKNOWN ((struct maybe) { 0, false })

static inline struct maybe known(int64_t value)
{
	return (struct maybe) { value, true };
}

/* An unsigned number from a kernel or driver; unknown if it exceeds int64_t. */
static inline struct maybe known_unsigned(uint64_t value)
{
	return value <= INT64_MAX ? known((int64_t) value) : UNKNOWN;
}

/* The larger of two; the known one if only one is. */
static inline struct maybe maybe_max(struct maybe a, struct maybe b)
{
	if (!a.known || (b.known && b.value > a.value))
		return b;
	return a;
}

/* The smaller of two; the known one if only one is. */
static inline struct maybe maybe_min(struct maybe a, struct maybe b)
{
	if (!a.known || (b.known && b.value < a.value))
		return b;
	return a;
}

/* a + b; unknown if either is. */
static inline struct maybe maybe_sum(struct maybe a, struct maybe b)
{
	return a.known && b.known ? known(a.value + b.value) : UNKNOWN;
}

/* a + b, limited to int64_t; the known one if only one is. */
static inline struct maybe maybe_plus(struct maybe a, struct maybe b)
{
	int64_t sum;

	if (!a.known || !b.known)
		return a.known ? a : b;
	if (__builtin_add_overflow(a.value, b.value, &sum))
		sum = b.value < 0 ? INT64_MIN : INT64_MAX;
	return known(sum);
}

/* The larger and the smaller of two plain numbers. */
static inline int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}
