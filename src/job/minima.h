/* SPDX-License-Identifier: MIT
 *
 * The minima of a series over the run, for memory allocated by a framework: it rises and falls with
 * each step, so a leak shows in the minima only. The values are divided into equal parts, at most
 * LOWS; when all are used, pairs are merged and each part becomes twice as long.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	MINIMA = 64
};

struct minima {
	unsigned n;          /* number of parts so far; 0: not kept */
	uint64_t each;       /* values per part */
	double low[MINIMA];  /* NaN: the part has no number */
};

/* True if minima are kept for a series of this name. */
bool minima_wanted(const char *series);

/* Adds the value with this index, from 0. */
void minima_add(struct minima *l, uint64_t number, double value);

/* "EACH LOW LOW ...", as stored. minima_parse returns 0, or -EBADMSG without changing *ret. */
int minima_write(const struct minima *l, struct buf *out);
int minima_parse(const char *text, struct minima *ret);
