/* SPDX-License-Identifier: MIT
 *
 * What fold.c (looks) and fold_close.c (windows) share. Nobody else includes it.
 */
#pragma once

#include "base/map.h"
#include "record/write/fold.h"

/* One metric of one entity while it is folded. */
struct column {
	__int128 sum;            /* gauge: value x ns in this window */
	uint64_t cover_ns;       /* time in sum */
	uint64_t at_ns;          /* until when it is in sum */
	uint64_t until_ns;       /* how long last may stand */
	int64_t last, min, max;
	int64_t out_min, out_value, out_max; /* as last written to the window's table */
	int64_t seen_min, seen_value, seen_max; /* as last written to the table at full rate */
	uint32_t looks;
	bool out_known, seen_known;
	bool waits_known;
	bool ahead_known;
	int64_t wait_min, wait_value, wait_max;
	uint32_t ahead_n;
	int64_t ahead_min, ahead_value, ahead_max;
	uint64_t ahead_ns, ahead_hold_ns;
};

/* A set of a slot's columns. Of a crowd that sleeps two columns in twenty are looked at: whatever goes over a slot goes
 * over those of a set, and leaves the rest of its 4 KiB where it is. */
typedef uint64_t columns;

_Static_assert(ROW_CELLS <= 64, "a set of columns is too small");

static inline bool columns_has(columns set, unsigned c)
{
	return set >> c & 1;
}

static inline void columns_put(columns *set, unsigned c, bool in)
{
	*set = (*set & ~(UINT64_C(1) << c)) | (columns) in << c;
}

/* Takes the first one out, in the order of the row. Returns whether there was one. */
static inline bool columns_take(columns *set, unsigned *ret)
{
	if (*set == 0)
		return false;
	*ret = (unsigned) __builtin_ctzll(*set);
	*set &= *set - 1;
	return true;
}

/* One entity while it is folded. */
struct slot {
	enum entity entity;
	uint32_t id;
	uint64_t begin_ns;       /* of the row that is being made: a window's beginning, or earlier */
	uint64_t wait_ns;        /* time of the look that waits */
	uint64_t flushed_ns;     /* time of the last one that was written */
	columns gauge, mark;     /* of that kind */
	columns have;            /* a value for this window is there */
	columns held;            /* last still stands */
	columns looked;          /* looked at in this window, with or without success */
	columns waits;           /* a look at full rate that is not written yet */
	columns ahead;           /* a look past the window's end waits for the next one */
	bool ended, is_main;
	bool is_other;           /* part of the others' row since the last window closed */
	bool is_written;         /* its last row had something known in it */
	int64_t rank;            /* scratch: size, by which the named are chosen */
	unsigned n;
	struct column columns[];
};

struct fold {
	struct fold_options options;
	uint64_t begin_ns, end_ns; /* of the open window */
	uint64_t edge_ns;        /* the first look past its end, while others of that look may come; 0: none */
	uint64_t windows;
	struct slot **slots;     /* in the order of birth */
	size_t n_slots, cap_slots;
	struct map places;       /* entity and id to the index in slots */
	struct slot **ranked;    /* scratch: the living processes */
	size_t cap_ranked;
	struct row row;          /* scratch */
	struct row others;       /* counters run on */
	bool others_written;
	int error;
};

static inline uint64_t slot_key(enum entity entity, uint32_t id)
{
	return (uint64_t) entity << 32 | id;
}

/* Brings what the gauges of slot stood for up to time_ns. */
void slot_advance(struct slot *slot, uint64_t time_ns);

/* Writes the look at full rate that waits, unless it is an unchanged process's. */
void slot_flush(struct fold *f, struct slot *slot);

/* Hands a row to the sink; the first error stays. */
void fold_emit(struct fold *f, enum entity entity, bool recent, const struct row *row);

/* Closes the window at end_ns. */
void fold_close(struct fold *f, uint64_t end_ns);
