/* SPDX-License-Identifier: MIT */
#include "rules/whole.h"

static struct maybe cores_of(const struct facts *f, enum entity entity)
{
	const struct maybe cpus = f->cpus.known ? known(f->cpus.value * INT64_C(1000000000)) : UNKNOWN;
	const struct maybe quota = f->limit_cpu_ppm.known ? known(f->limit_cpu_ppm.value * 1000) : UNKNOWN;

	return entity == ENTITY_HOST ? cpus : maybe_min(quota, cpus);
}

struct maybe whole_of(const struct facts *f, const struct rule_term *t, struct maybe gpu_bytes)
{
	const struct maybe limit = f->limit_bytes.known ? f->limit_bytes : f->request_bytes;

	switch (t->whole) {
	case WHOLE_RAM:
		return limit.known ? limit : f->capacity_bytes;
	case WHOLE_LIMIT:
		return limit;
	case WHOLE_CAPACITY:
		return f->capacity_bytes;
	case WHOLE_GPU:
		return gpu_bytes;
	case WHOLE_CORES:
		return cores_of(f, t->name.entity);
	case WHOLE_NONE:
	case WHOLE_BASE:
	case WHOLE_MEDIAN:
		break;
	}
	return UNKNOWN;
}
