/* SPDX-License-Identifier: MIT
 *
 * Private to the engine: what is known of everything that a rule names. A slot is a name that rules look at (two rules
 * about the same share it); it has a cell for each living entity of its kind. Places of the ended are used again.
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
#define RATE_SPAN_NS UINT64_C(1000000000) /* clock ticks of 10 ms are 1% of it */

/* A counter at an instant. */
struct point {
	bool had;
	uint64_t time_ns;
	double value;
};

/* Times between values, the last few. */
struct gaps {
	uint64_t ns[15];
	size_t n;                       /* all that there ever were */
};

struct cell {
	bool known, ever, parts[2];     /* parts: which of a sum of two was had */
	double low, value, high;
	double part[2];
	uint64_t at_ns, expires_ns, span_ns;
	double peak, sum, weight;       /* mean = sum / weight */
	double first;                   /* of a counter */
	struct point older, newer;      /* between which a rate is taken, at least a second */
	struct slope slope;             /* with growth only */
	struct gaps gaps;               /* with a silence that is measured by them only */
};

struct slot {
	struct rule_name name;
	uint64_t growth_ns;             /* 0: none is asked for */
	bool wants_gaps;
	bool ever;                      /* somebody had a value of it */
	uint64_t rules;                 /* who looks at it: bit n is rule n */
	uint16_t next[2];               /* the next slot of the same metric, of the one that is added to it */
	struct cell *cells;             /* one a place of its entity */
};

/* Somebody: a process, a GPU. */
struct place {
	uint32_t id;                    /* 0: free */
	int32_t pid;
	uint32_t uid;
	uint32_t gpu;                   /* of a GPU_PROCESS: the GPU's id */
	bool ours;                      /* of a GPU_PROCESS: a member of the job */
	bool has_index;
	uint32_t index;
	struct maybe whole;             /* a GPU's memory */
	uint64_t born_ns;
	char name[16];
	char command[256];
};

struct crowd {
	struct place *places;
	size_t n, cap;                  /* places in use or free; allocated */
	struct map by_id;
};

struct cells {
	struct crowd crowds[ENTITY_COUNT];
	struct slot slots[SLOTS];
	size_t n_slots;
	uint16_t by_metric[METRIC_COUNT]; /* first slot; NO_SLOT: nobody looks */
	uint64_t series_rules;            /* who looks at a series */
	bool has_series;
};

/* JOB and HOST have one place, number 0. Returns 0 or -ENOMEM. */
int cells_init(struct cells *c);
void cells_done(struct cells *c);

/* The slot of a term's name, made if need be. Returns its number. */
size_t cells_slot(struct cells *c, const struct rule_term *term);

/* Somebody came, or changed. Returns the place, or -1: no memory, or nobody looks at such. *ret_new: it is a new one. */
int cells_birth(struct cells *c, const struct birth *birth, uint64_t time_ns, bool *ret_new);
/* The place of id; -1: none. */
int cells_place(const struct cells *c, enum entity entity, uint32_t id);
void cells_free_place(struct cells *c, enum entity entity, size_t place);
/* The GPU that the driver gives this number; -1: none. */
int cells_gpu(const struct cells *c, uint32_t index);

/* The median of the times between values; 0: too few are known. */
uint64_t cell_gap(const struct cell *cell);

/* Take what a frame says; return the rules that look at it. */
uint64_t cells_reading(struct cells *c, const struct reading *r, const struct frame *frame);
uint64_t cells_series(struct cells *c, const struct series_value *v, uint64_t time_ns);
