/* SPDX-License-Identifier: MIT
 *
 * How low a series went over the run, where that tells what its extremes do not: what a framework's allocator has given
 * out goes up and down with each step, and a leak is seen in the valleys. Equal parts of its values, at most LOWS; when
 * they are full, neighbours become one and each is twice as wide.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	LOWS = 64
};

struct lows {
	unsigned n;          /* parts that have begun; 0: they are not kept */
	uint64_t each;       /* values a part */
	double low[LOWS];    /* NaN: no number was in it */
};

/* Are they kept of a series of this name? */
bool lows_wanted(const char *series);

/* Adds the value with this number, from 0. */
void lows_take(struct lows *l, uint64_t number, double value);

/* "EACH LOW LOW ...": as it is recorded. lows_parse returns 0 or -EBADMSG, leaving *ret alone. */
int lows_put(const struct lows *l, struct buf *out);
int lows_parse(const char *text, struct lows *ret);
