/* SPDX-License-Identifier: MIT */
#include "model/metric.h"

#include <string.h>

#include "model/gpu_fact.h"
#include "model/schema1.h"

const struct metric_info metrics[METRIC_COUNT] = {
#define X(id, ent, nam, uni, kin, add, o, labels, js, orig, sent) \
	[M_##id] = { \
		.entity = ENTITY_##ent, \
		.unit = UNIT_##uni, \
		.kind = KIND_##kin, \
		.adds = ADDS_##add, \
		.name = #nam, \
		.om = o, \
		.om_labels = labels, \
		.json = js, \
		.origin = orig, \
		.sentence = sent, \
	},
#include "model/metric.def"
#undef X
};

static const char *const entity_names[ENTITY_COUNT] = {
	[ENTITY_HOST] = "host",
	[ENTITY_JOB] = "job",
	[ENTITY_PROCESS] = "process",
	[ENTITY_GPU] = "gpu",
	[ENTITY_GPU_PROCESS] = "gpu_process",
};

const char *entity_name(enum entity entity)
{
	return entity_names[entity];
}

int metric_find(enum entity entity, const char *name)
{
	name = schema1_now(name);
	for (int m = 0; m < METRIC_COUNT; m++) {
		if (metrics[m].entity == entity && strcmp(metrics[m].name, name) == 0)
			return m;
	}
	return -1;
}

int entity_find(const char *name)
{
	for (int e = 0; name && e < ENTITY_COUNT; e++) {
		if (strcmp(entity_name((enum entity) e), name) == 0)
			return e;
	}
	return -1;
}

/* ---- facts of GPUs --------------------------------------------------------------------------- */

#define ANY   INT64_MAX
#define POWER GPU_POWER_MOST
#define CLOCK GPU_CLOCK_MOST
#define TEMP  GPU_TEMP_MOST

const struct gpu_fact_row gpu_facts[GPU_FACT_COUNT] = {
#define X(id, kind, most, sentence) [GF_##id] = { #id, FACT_##kind, most, sentence },
#include "model/gpu_fact.def"
#undef X
};
