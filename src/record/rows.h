/* SPDX-License-Identifier: MIT
 *
 * A stored row of an entity: one cell per metric of the entity, in the order of metric.def. Windows
 * are aggregated into rows, thinning merges rows, and replay returns them.
 *
 * Merging two adjacent rows is associative except for the rounding of means: extremes, last values,
 * sample counts and times are exact.
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

_Static_assert(ROW_HOST <= ROW_CELLS && ROW_JOB <= ROW_CELLS && ROW_PROCESS <= ROW_CELLS &&
		       ROW_GPU <= ROW_CELLS && ROW_GPU_PROCESS <= ROW_CELLS,
	"ROW_CELLS is too small");

/* The position of each metric in its entity's rows. */
struct row_layout {
	unsigned n[ENTITY_COUNT];
	uint16_t metric[ENTITY_COUNT][ROW_CELLS];
	uint8_t place[METRIC_COUNT];
};

void row_layout_init(struct row_layout *l);
/* The layout of the wanted metrics alone. All other metrics share the last position, which is
 * never known. Returns 0, or -EINVAL if an entity has no position left. */
int row_layout_of(struct row_layout *l, const bool wanted[METRIC_COUNT]);

/* One metric in a row. */
struct cell {
	int64_t min, value, max; /* counter and high-water mark: all three equal */
	uint64_t cover_ns;       /* gauge: the time over which value is the mean */
	bool known;
};

struct row {
	uint64_t t_ns;     /* start of the window, since the run's start */
	uint64_t span_ns;  /* time that the row stands for: the longest of its gauges */
	uint32_t id, n;    /* n: number of samples */
	struct cell cells[ROW_CELLS];
};

/* True if rows of entity have an id. There is only one host and one job. */
static inline bool entity_has_id(enum entity entity)
{
	return entity != ENTITY_HOST && entity != ENTITY_JOB;
}

/* sum / by, rounded to the nearest integer. */
int64_t mean_of(__int128 sum, uint64_t by);

/* Merges next, the row after it, into into. */
void row_merge(struct row *into, const struct row *next, const struct row_layout *l, enum entity entity);

/* True if both have the same values, regardless of the time that they stand for. */
bool cells_same(const struct cell *a, const struct cell *b, unsigned n_cells);

/* True if no cell is known. */
bool row_is_empty(const struct row *row, unsigned n_cells);

/* Writes column "part": the gauges that stand for less than the row's span, as "name ns name
 * ns"; "" if there are none. */
void row_part_write(const struct row *row, const struct row_layout *l, enum entity entity, struct buf *out);

/* The same column at full rate: extremes that a high-water mark proved in addition to the value,
 * as "name_max value name_min value". */
void row_burst_write(const struct row *row, const struct row_layout *l, enum entity entity, struct buf *out);
void row_burst_read(struct row *row, const struct row_layout *l, enum entity entity, const char *part);

/* Sets cover_ns of the gauges from span_ns and part (NULL: none). Malformed entries are ignored. */
void row_part_read(struct row *row, const struct row_layout *l, enum entity entity, const char *part);
