/* SPDX-License-Identifier: MIT
 *
 * Private to the engine: the current value and the history of every name in a rule. A slot is a
 * name that rules use (rules with the same name share it); it has a cell for each living entity of
 * its kind, at the entity's place. Places of ended entities are reused.
 */
#pragma once

#include "base/map.h"
#include "rules/engine.h"
#include "rules/slope.h"

enum {
	SLOTS = WATCH_RULES * RULE_TERMS,
	NO_SLOT = 0xffff,
	PLACES_MOST = 1 << 16
};
#define RATE_SPAN_NS UINT64_C(1000000000) /* a clock tick of 10 ms is 1% of it */

/* A counter at an instant. */
struct point {
	bool known;
	uint64_t time_ns;
	double value;
};

/* The last few times between two values. */
struct gaps {
	uint64_t ns[15];
	size_t n;                       /* total number; ns is a ring */
};

struct cell {
	bool known, ever, parts[2];     /* parts: which terms of a sum of two are known */
	double low, value, high;
	double part[2];
	uint64_t at_ns, expires_ns, span_ns;
	double peak, sum, weight;       /* mean = sum / weight */
	double first;                   /* first value, of a counter */
	struct point older, newer;      /* points of the rate, at least a second apart */
	struct slope slope;             /* of growth() only */
	struct gaps gaps;               /* of "for Nx median" only */
};

struct slot {
	struct rule_name name;
	uint64_t growth_ns;             /* time span of growth(); 0: not used in growth() */
	bool wants_gaps;
	bool ever;                      /* some entity had a value of it */
	uint64_t rules;                 /* rules that use it: bit n is rule n */
	uint16_t next[2];               /* next slot of the same metric; of the metric that is added to it */
	struct cell *cells;             /* one per place of its entity */
};

/* An entity: a process, a GPU, a process on a GPU. */
struct place {
	uint32_t id;                    /* 0: free */
	int32_t pid;
	uint32_t uid;
	uint32_t gpu;                   /* of a GPU_PROCESS: the GPU's id */
	bool ours;                      /* of a GPU_PROCESS: a member of the job */
	bool has_index;
	uint32_t index;
	struct maybe whole;             /* size of the GPU's memory */
	uint64_t born_ns;
	char name[16];
	char command[256];
};

/* All entities of a kind. */
struct crowd {
	struct place *places;
	size_t n, cap;                  /* places in use or free; allocated */
	struct map by_id;
};

struct cells {
	struct crowd crowds[ENTITY_COUNT];
	struct slot slots[SLOTS];
	size_t n_slots;
	uint16_t by_metric[METRIC_COUNT]; /* first slot; NO_SLOT: no rule uses it */
	uint64_t series_rules;            /* rules that use a series */
	bool has_series;
};

/* JOB and HOST have one place, number 0. Returns 0 or -ENOMEM; then cells_done() is still to be
 * called. */
int cells_init(struct cells *c);
void cells_done(struct cells *c);

/* Finds or adds the slot of a term's name. Returns its number. */
size_t cells_slot(struct cells *c, const struct rule_term *term);

/* An entity appeared or changed. Returns its place, or -1: out of memory, or no places for this
 * kind. *ret_new: the place is new. */
int cells_birth(struct cells *c, const struct birth *birth, uint64_t time_ns, bool *ret_new);
/* The place of id, or -1. */
int cells_place(const struct cells *c, enum entity entity, uint32_t id);
void cells_free_place(struct cells *c, enum entity entity, size_t place);
/* The place of the GPU with this number of the driver's, or -1. */
int cells_gpu(const struct cells *c, uint32_t index);

/* The median of the times between values, in ns; 0: too few values. */
uint64_t cell_gap(const struct cell *cell);

/* Apply a value of a frame; return the rules that use it, as bits. */
uint64_t cells_reading(struct cells *c, const struct reading *r, const struct frame *frame);
uint64_t cells_series(struct cells *c, const struct series_value *v, uint64_t time_ns);
