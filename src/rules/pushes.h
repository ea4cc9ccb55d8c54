/* SPDX-License-Identifier: MIT
 *
 * Values that a program pushes (allocated, reserved and total memory of a framework's allocator; a
 * loss), as a bounded list of events: changes, new peaks, rules that hold, and events of the
 * program's own. Rules are those of rule.h, evaluated by the engine; their names are the series,
 * the ratios and "change", the increase of the first series since the last push. A push allocates
 * memory only for the text of an alert.
 *
 * Threads: one at a time a list (api/pushes.c has a lock around it).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	PUSH_SERIES = 7,
	PUSH_RATIOS = 4,
	PUSH_RULES = 16,
	PUSH_NAME = 48,
	PUSH_TEXT = 16384,         /* of an event's text, with its NUL; longer texts are truncated */
	PUSH_EVENTS_MOST = 1 << 24,
	PUSH_KINDS = 32,
};

enum push_kind {
	PUSH_SAMPLE,               /* a push */
	PUSH_ALLOCATION,           /* the first series rose */
	PUSH_DEALLOCATION,         /* it fell */
	/* a new maximum; values[0] is the peak, which may have been between two pushes */
	PUSH_PEAK,
	PUSH_ALERT,                /* a rule holds */
	PUSH_CLEARED,              /* a rule ceased to hold */
	PUSH_OWN = 8,              /* from here to PUSH_KINDS - 1: the program's own */
};

/* 88 bytes. */
struct push_event {
	uint64_t time_ns;          /* since 1970 */
	char *text;                /* NULL: none */
	double change;             /* of the first series since the last push; NaN: unknown */
	double values[PUSH_SERIES];
	uint32_t tag;              /* the program's own */
	uint8_t kind;
	uint8_t known;             /* bit n: values[n] is known */
	uint8_t rule, level;       /* of an alert: its number, enum rule_level */
};
_Static_assert(sizeof(struct push_event) < 100, "an event is promised to take under 100 bytes");

struct push_ratio {
	const char *name;
	unsigned of, by;           /* values[of] / values[by] */
};

struct pushes_options {
	size_t max_events;
	const char *const *series;
	size_t n_series;
	const struct push_ratio *ratios;
	size_t n_ratios;
	bool changes;              /* ALLOCATION, DEALLOCATION, PEAK */
	bool samples;              /* SAMPLE */
	/* ALERT at each push while a rule holds; else ALERT once and CLEARED, as elsewhere */
	bool every;
};

/* One set of values. */
struct push {
	uint64_t time_ns;          /* since 1970 */
	uint64_t now_ns;           /* CLOCK_BOOTTIME */
	const double *values;
	unsigned known;            /* bit n: values[n] is known */
	/* high-water mark of the first series, kept by its source; NaN: unknown. Where it rose since
	 * the last push it counts as a peak */
	double mark;
};

/* Events [first, end) of a push. */
struct push_result {
	uint64_t first, end;
	uint32_t rules;            /* bit n: rule n has an ALERT among them */
};

struct push_stats {
	uint64_t events, kept;     /* in all; still in the list */
	uint64_t counts[PUSH_KINDS];
	double risen, fallen;      /* sums of the changes */
	double peaks[PUSH_SERIES];
	uint8_t known;             /* bit n: peaks[n] is known */
	uint64_t active_ns;        /* between begin and end */
};

struct push_filter {
	uint32_t kinds;            /* bit n: kind n; 0: all */
	uint64_t since_ns;         /* not before this time */
	uint64_t from;             /* not before the event of this number */
	size_t last;               /* only the last ones, so many; 0: all */
};

struct pushes;

/* Returns 0, -EINVAL with text, or -ENOMEM. Free *ret with pushes_free(). */
int pushes_new(const struct pushes_options *options, struct pushes **ret, struct err *err);
void pushes_free(struct pushes *p);
size_t pushes_series(const struct pushes *p); /* number of series */

/* Replaces the rules. Returns 0; -EINVAL or -E2BIG with text, or -ENOMEM: the old rules stay. */
int pushes_rules(struct pushes *p, const char *const *rules, size_t n, uint64_t now_ns, struct err *err);

/* Active time counts from begin to end. push: base of the first change, without an event; NULL: the
 * next push is. */
void pushes_begin(struct pushes *p, uint64_t now_ns, const struct push *push);
void pushes_end(struct pushes *p, uint64_t now_ns);

void pushes_push(struct pushes *p, const struct push *push, struct push_result *ret);
/* Appends an event of the program's own (kind PUSH_OWN and up, else -EINVAL) with the time and
 * values of push; if push->values is NULL, with those of the last push. text may be NULL. Returns
 * 0, -EINVAL or -ENOMEM. */
int pushes_note(struct pushes *p, const struct push *push, unsigned kind, uint32_t tag, const char *text);

/* Copies events in order to one block with their texts: free(*ret). Returns 0 or -ENOMEM. */
int pushes_read(
	const struct pushes *p, const struct push_filter *filter, struct push_event **ret, size_t *ret_n);
/* Likewise the last event of each interval that has any, with the time at which the interval began,
 * without text. */
int pushes_timeline(const struct pushes *p, uint64_t interval_ns, struct push_event **ret, size_t *ret_n);
void pushes_stats(const struct pushes *p, uint64_t now_ns, struct push_stats *ret);
/* Removes events and statistics, except the active time. */
void pushes_clear(struct pushes *p);
