/* SPDX-License-Identifier: MIT
 *
 * Private to pushes*.c: a list. Its ring has events whose numbers only grow.
 */
#pragma once

#include "rules/engine.h"
#include "rules/pushes.h"

enum {
	CHANGE = PUSH_SERIES + PUSH_RATIOS,  /* what rules may name: series, ratios, "change" */
	NAMES,
};

struct pushes {
	struct pushes_options options;
	char names[NAMES][PUSH_NAME];
	struct push_ratio ratios[PUSH_RATIOS];
	struct push_event *ring;
	uint64_t first, end;               /* numbers of the events that are there */
	struct push_event last;            /* values of the last push */
	bool has_last;                     /* since begin */
	double mark;                       /* of the last push; NaN: not known */
	struct push_stats stats;
	bool is_active;
	uint64_t active_since_ns;
	struct watch *watch;               /* NULL: no rules */
	uint64_t watch_began_ns;
	size_t n_rules;
	uint32_t needs[PUSH_RULES];        /* bit n: the rule names names[n] */
	uint32_t needed;                   /* by any of them */
};

static inline bool is_known(const struct push_event *e, unsigned i)
{
	return e->known >> i & 1;
}

static inline const struct push_event *event_at(const struct pushes *p, uint64_t number)
{
	return &p->ring[number % p->options.max_events];
}
