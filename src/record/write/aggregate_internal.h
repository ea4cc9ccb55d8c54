/* SPDX-License-Identifier: MIT
 *
 * Shared by aggregate.c (samples) and aggregate_close.c (windows). Included by no other file.
 */
#pragma once

#include "base/map.h"
#include "record/write/aggregate.h"

/* The state of one metric of one entity. */
struct column {
	__int128 sum;            /* gauge: value x ns in this window */
	uint64_t cover_ns;       /* time that sum covers */
	uint64_t at_ns;          /* sum is complete up to this time */
	uint64_t until_ns;       /* last is valid until this time */
	int64_t last, min, max;
	int64_t out_min, out_value, out_max; /* as last written to the table of windows */
	int64_t recent_min, recent_value, recent_max; /* as last written to the table at full rate */
	uint32_t samples;
	bool out_known, recent_known;
	bool pending_known;
	bool ahead_known;
	int64_t pending_min, pending_value, pending_max;
	uint32_t ahead_n;
	int64_t ahead_min, ahead_value, ahead_max;
	uint64_t ahead_ns, ahead_hold_ns;
};

/* A set of a slot's columns. In a crowd of sleeping processes, two columns in twenty are read:
 * loops over a slot visit the columns of a set and do not touch the rest of its 4 KiB. */
typedef uint64_t columns;

_Static_assert(ROW_CELLS <= 64, "a set of columns is too small");

static inline bool columns_has(columns set, unsigned c)
{
	return set >> c & 1;
}

static inline void columns_set(columns *set, unsigned c, bool in)
{
	*set = (*set & ~(UINT64_C(1) << c)) | (columns) in << c;
}

/* Removes the first column of the set, in the order of the row, and returns it in *ret. False if
 * the set is empty. */
static inline bool columns_pop(columns *set, unsigned *ret)
{
	if (*set == 0)
		return false;
	*ret = (unsigned) __builtin_ctzll(*set);
	*set &= *set - 1;
	return true;
}

/* The state of one entity. */
struct slot {
	enum entity entity;
	uint32_t id;
	uint64_t begin_ns;       /* start of its next row: the window's start, or earlier */
	uint64_t pending_ns;     /* time of the pending sample */
	uint64_t flushed_ns;     /* time of the last one written */
	columns gauge, mark;     /* by kind */
	columns have;            /* there is a value for this window */
	columns valid;           /* last is still valid */
	columns was_read;        /* read in this window, with or without success */
	columns pending;         /* a value at full rate is pending */
	columns ahead;           /* a value from past the window's end is pending */
	bool ended, is_main;
	bool in_shared;          /* part of the shared row since the last window closed */
	bool is_written;         /* its last row had a known cell */
	int64_t rank;            /* scratch: size, which decides about an own row */
	unsigned n;
	struct column columns[];
};

struct aggregate {
	struct aggregate_options options;
	uint64_t begin_ns, end_ns; /* of the open window */
	uint64_t edge_ns;        /* first sample past its end, of which more frames may come; 0: none */
	uint64_t windows;
	struct slot **slots;     /* in the order of birth */
	size_t n_slots, cap_slots;
	struct map places;       /* entity and id to the index in slots */
	struct slot **ranked;    /* scratch: the living processes */
	size_t cap_ranked;
	struct row row;          /* scratch */
	struct row shared;       /* the shared row; its counters accumulate */
	bool shared_written;
	int error;
};

static inline uint64_t slot_key(enum entity entity, uint32_t id)
{
	return (uint64_t) entity << 32 | id;
}

/* Adds the time up to time_ns to the sums of slot's gauges. */
void slot_advance(struct slot *slot, uint64_t time_ns);

/* Writes the pending sample at full rate, unless it is that of an unchanged process. */
void slot_flush(struct aggregate *f, struct slot *slot);

/* Passes a row to the callback; keeps the first error. */
void aggregate_emit(struct aggregate *f, enum entity entity, bool recent, const struct row *row);

/* Closes the window at end_ns. */
void aggregate_close(struct aggregate *f, uint64_t end_ns);
