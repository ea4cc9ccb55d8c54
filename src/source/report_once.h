/* SPDX-License-Identifier: MIT
 *
 * Reports a metric that may be unavailable: "unknown" once, then nothing until it has a value
 * again. Shared by the sources of host and cgroup.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/maybe.h"
#include "model/framebuf.h"

/* The metrics last reported as unknown. */
struct report_once {
	bool unknown[METRIC_COUNT];
};

/* Adds a value of id 0 to out. */
static inline void report_once(struct report_once *t, struct framebuf *out, enum metric metric,
	struct maybe value)
{
	if (value.known)
		framebuf_value(out, metric, 0, value.value);
	else if (!t->unknown[metric])
		framebuf_unknown(out, metric, 0);
	t->unknown[metric] = !value.known;
}

/* value * scale if rc, the result of parsing, is 0; unknown if it is negative or the product
 * overflows. */
static inline struct maybe maybe_count(int rc, uint64_t value, uint64_t scale)
{
	int64_t product;

	if (rc < 0 || __builtin_mul_overflow(value, scale, &product))
		return UNKNOWN;
	return known(product);
}
