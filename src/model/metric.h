/* SPDX-License-Identifier: MIT
 *
 * metric.def as C: one enumerator and one table row per metric.
 */
#pragma once

#include <stdint.h>

/* The entities of metrics. */
enum entity {
	ENTITY_HOST,
	ENTITY_JOB,
	ENTITY_PROCESS,
	ENTITY_GPU,
	ENTITY_GPU_PROCESS,
	ENTITY_COUNT,
};

enum unit {
	UNIT_BYTES,
	UNIT_NS,
	UNIT_COUNT,
	UNIT_PPM,
	UNIT_UJ,
	UNIT_UW,
	UNIT_MCEL,
	UNIT_HZ,
};

enum metric_kind {
	KIND_GAUGE,
	KIND_COUNTER,
	KIND_HWM
};

enum adds {
	ADDS_SUM,
	ADDS_MAX,
	ADDS_NONE
};

enum metric {
#define X(id, ...) M_##id,
#include "model/metric.def"
#undef X
	METRIC_COUNT,
};

/* One row of metric.def, which explains the columns. All strings are static. */
struct metric_info {
	enum entity entity;
	enum unit unit;
	enum metric_kind kind;
	enum adds adds;
	const char *name;
	const char *om;
	const char *om_labels;
	const char *json;
	const char *origin;
	const char *sentence;
};

/* Indexed by enum metric; defined in metric.c. */
extern const struct metric_info metrics[METRIC_COUNT];

/* "host", "job", "process", "gpu", "gpu_process". */
const char *entity_name(enum entity entity);
/* The entity of that name; -1 if there is none. */
int entity_find(const char *name);

/* The metric of entity with that name, also if it is its name in schema 1 (model/schema1.h); -1 if there is none. */
int metric_find(enum entity entity, const char *name);
