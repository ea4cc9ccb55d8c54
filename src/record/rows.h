/* SPDX-License-Identifier: MIT
 *
 * A stored row of an entity: one cell for each of its metrics, in the order of metric.def. What windows fold into, what
 * thinning merges and what replay gives back.
 *
 * Merging two rows that follow each other is associative but for the rounding of means: extremes, last values, looks
 * and times are exact.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/frame.h"
#include "model/metric.h"

enum {
#define X(id, ent, ...) +(ENTITY_##ent == ENTITY_HOST)
	ROW_HOST = 0
#include "model/metric.def"
		,
#undef X
#define X(id, ent, ...) +(ENTITY_##ent == ENTITY_JOB)
	ROW_JOB = 0
#include "model/metric.def"
		,
#undef X
#define X(id, ent, ...) +(ENTITY_##ent == ENTITY_PROCESS)
	ROW_PROCESS = 0
#include "model/metric.def"
		,
#undef X
	/* The GPU entities have fewer or more; the bound must hold for all. */
#define X(id, ent, ...) +(ENTITY_##ent == ENTITY_GPU)
	ROW_GPU = 0
#include "model/metric.def"
		,
#undef X
#define X(id, ent, ...) +(ENTITY_##ent == ENTITY_GPU_PROCESS)
	ROW_GPU_PROCESS = 0
#include "model/metric.def"
		,
#undef X
	ROW_CELLS = 64, /* most metrics of an entity */
};

_Static_assert(ROW_HOST <= ROW_CELLS && ROW_JOB <= ROW_CELLS && ROW_PROCESS <= ROW_CELLS && ROW_GPU <= ROW_CELLS &&
		       ROW_GPU_PROCESS <= ROW_CELLS,
	"ROW_CELLS is too small");

/* Where each metric stands in its entity's rows. */
struct row_layout {
	unsigned n[ENTITY_COUNT];
	uint16_t metric[ENTITY_COUNT][ROW_CELLS];
	uint8_t place[METRIC_COUNT];
};

void row_layout_init(struct row_layout *l);
/* Of the metrics that are wanted alone. The others' place is the last, which has no metric then and is never known. Returns
 * 0, or -EINVAL where an entity has no place left. */
int row_layout_of(struct row_layout *l, const bool wanted[METRIC_COUNT]);

/* One metric in a row. */
struct cell {
	int64_t min, value, max; /* counter and mark: all three equal */
	uint64_t cover_ns;       /* gauge: time that value is the mean of */
	bool known;
};

struct row {
	uint64_t t_ns;     /* beginning of the window, since the run's start */
	uint64_t span_ns;  /* time that the row stands for; the longest of its gauges' */
	uint32_t id, n;    /* n: looks */
	struct cell cells[ROW_CELLS];
};

/* True if rows of entity have an id; host and job are one of a kind. */
static inline bool entity_has_id(enum entity entity)
{
	return entity != ENTITY_HOST && entity != ENTITY_JOB;
}

/* The nearest whole number to sum / by. */
int64_t mean_of(__int128 sum, uint64_t by);

/* Lets into stand for itself and the row after it. */
void row_merge(struct row *into, const struct row *next, const struct row_layout *l, enum entity entity);

/* True if both say the same, whatever the time that they stand for. */
bool cells_same(const struct cell *a, const struct cell *b, unsigned n_cells);

/* True if nothing is known in it. */
bool row_is_empty(const struct row *row, unsigned n_cells);

/* Column "part": the gauges that stand for less than the row's span, as "name ns name ns"; "" if there are none. */
void row_part_write(const struct row *row, const struct row_layout *l, enum entity entity, struct buf *out);

/* The same column at full rate: what a gauge's mark proved beside its value, as "name_max value name_min value". */
void row_burst_write(const struct row *row, const struct row_layout *l, enum entity entity, struct buf *out);
void row_burst_read(struct row *row, const struct row_layout *l, enum entity entity, const char *part);

/* Takes cover_ns of the gauges from span_ns and part (NULL: none); what cannot be understood is left out. */
void row_part_read(struct row *row, const struct row_layout *l, enum entity entity, const char *part);
