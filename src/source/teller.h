/* SPDX-License-Identifier: MIT
 *
 * What the sources of machine and cgroup share: values that may not be had, told once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/maybe.h"
#include "model/framebuf.h"

/* Which metrics were last told to be unknown: said once, then silence until they can be had again. */
struct teller {
	bool unknown[METRIC_COUNT];
};

/* Adds a reading of id 0 to out. */
static inline void teller_tell(struct teller *t, struct framebuf *out, enum metric metric,
	struct maybe value)
{
	if (value.known)
		framebuf_value(out, metric, 0, value.value);
	else if (!t->unknown[metric])
		framebuf_unknown(out, metric, 0);
	t->unknown[metric] = !value.known;
}

/* value * scale where rc, what parsing it returned, is 0; unknown where it is not or the product does not fit. */
static inline struct maybe maybe_count(int rc, uint64_t value, uint64_t scale)
{
	int64_t product;

	if (rc < 0 || __builtin_mul_overflow(value, scale, &product))
		return UNKNOWN;
	return known(product);
}
