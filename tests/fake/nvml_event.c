// SPDX-License-Identifier: MIT
/* Events of the scenario, for callers that registered before their time. */
#include "nvml_fake.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	SET_MAGIC = 0x65767473
};

struct nvml_event_set {
	uint32_t magic;
	double since; /* of registration; earlier events are skipped */
	struct {
		const struct fake_gpu *gpu;
		uint64_t types;
	} *watches;
	size_t n_watches;
	size_t *reported; /* for each event of the scenario */
};

EXPORT int nvmlEventSetCreate(struct nvml_event_set **ret)
{
	int code = nvml_enter(__func__, NULL);

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	*ret = calloc(1, sizeof(**ret));
	if (*ret)
		(*ret)->reported = calloc(nvml_scenario()->events.n + 1, sizeof(*(*ret)->reported));
	if (!*ret || !(*ret)->reported)
		fake_die("out of memory");
	(*ret)->magic = SET_MAGIC;
	return NVML_SUCCESS;
}

static void set_check(const char *call, const struct nvml_event_set *set)
{
	if (set && set->magic != SET_MAGIC)
		fake_die("%s: %p is no event set, or was freed", call, (const void *) set);
}

EXPORT int nvmlEventSetFree(struct nvml_event_set *set)
{
	int code = nvml_enter(__func__, NULL);

	if (code != 0 || !set)
		return code ?: NVML_INVALID_ARGUMENT;
	set_check(__func__, set);
	set->magic = 0;
	free(set->watches);
	free(set->reported);
	free(set);
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceRegisterEvents(struct fake_gpu *gpu, uint64_t types, struct nvml_event_set *set)
{
	int code = nvml_enter(__func__, gpu);

	if (code != 0 || !set)
		return code ?: NVML_INVALID_ARGUMENT;
	set_check(__func__, set);
	if (gpu->parent || (types & ~nvml_number(gpu, "event_types", 0)) != 0)
		return NVML_NOT_SUPPORTED;
	set->watches = realloc(set->watches, (set->n_watches + 1) * sizeof(*set->watches));
	if (!set->watches)
		fake_die("out of memory");
	if (set->n_watches == 0)
		set->since = fake_now();
	set->watches[set->n_watches].gpu = gpu;
	set->watches[set->n_watches++].types = types;
	return NVML_SUCCESS;
}

static bool is_watched(const struct nvml_event_set *set, const struct fake_gpu *gpu, uint64_t type)
{
	for (size_t i = 0; i < set->n_watches; i++) {
		if (set->watches[i].gpu == gpu && (set->watches[i].types & type) != 0)
			return true;
	}
	return false;
}

/* Returns the next event that has happened and was not returned yet. */
static bool event_take(struct nvml_event_set *set, struct nvml_event_v2 *ret)
{
	const struct fake_list *events = &nvml_scenario()->events;
	double t = fake_now();

	for (size_t i = 0; i < events->n; i++) {
		const struct fake_item *event = events->items[i];
		uint64_t type = strtoull(fake_bag_text(&event->bag, "type", "0"), NULL, 0);
		double at = fake_bag_number(&event->bag, "at", t, 0);
		if (set->reported[i] || at > t || at < set->since || !is_watched(set, event->gpu, type))
			continue;
		set->reported[i] = 1;
		*ret = (struct nvml_event_v2) { event->gpu, type, (uint64_t) fake_bag_number(&event->bag, "data", t, 999),
			UINT32_MAX, UINT32_MAX };
		return true;
	}
	return false;
}

static int event_wait(const char *call, struct nvml_event_set *set, void *ret, size_t size, unsigned wait_ms)
{
	const struct timespec look = { .tv_nsec = 1000000 };
	int code = nvml_enter(call, NULL);
	struct nvml_event_v2 event;
	struct timespec now;
	double end = 0, s;

	if (code != 0 || !set || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	set_check(call, set);
	while (!event_take(set, &event)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		s = (double) now.tv_sec + (double) now.tv_nsec / 1e9;
		end = end > 0 ? end : s + wait_ms / 1e3;
		if (s >= end)
			return NVML_TIMEOUT;
		nanosleep(&look, NULL);
	}
	memcpy(ret, &event, size);
	return NVML_SUCCESS;
}

EXPORT int nvmlEventSetWait(struct nvml_event_set *set, struct nvml_event_v1 *ret, unsigned wait_ms)
{
	return event_wait(__func__, set, ret, sizeof(*ret), wait_ms);
}

EXPORT int nvmlEventSetWait_v2(struct nvml_event_set *set, struct nvml_event_v2 *ret, unsigned wait_ms)
{
	return event_wait(__func__, set, ret, sizeof(*ret), wait_ms);
}
