/* SPDX-License-Identifier: MIT
 *
 * One client in one interval: busy time of its engines, and its memory.
 */
#include <string.h>

#include "source/drm/clients_internal.h"

/* ---- names -------------------------------------------------------------------------------------------------------- */

/* By the beginning of an engine's name, for all drivers. */
static const struct {
	const char *prefix;
	enum drm_class of;
} classes[] = {
	{ "enc", DRM_ENCODE },           /* amdgpu: enc, enc_1 */
	{ "dec", DRM_DECODE },           /* amdgpu */
	{ "jpeg", DRM_DECODE },          /* amdgpu */
	{ "video-enhance", DRM_ENCODE }, /* i915: processes frames before they are encoded */
	{ "vecs", DRM_ENCODE },          /* xe: likewise */
	{ "video", DRM_DECODE },         /* i915: also encodes */
	{ "vcs", DRM_DECODE },           /* xe: likewise */
	{ "copy", DRM_COPY },            /* i915 */
	{ "bcs", DRM_COPY },             /* xe */
	{ "dma", DRM_COPY },             /* amdgpu */
	{ "sdma", DRM_COPY },
};

enum drm_class drm_class_of(const char *engine)
{
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (strncmp(engine, classes[i].prefix, strlen(classes[i].prefix)) == 0)
			return classes[i].of;
	}
	return DRM_COMPUTE;
}

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Address blocks and on-chip memory that amdgpu lists among its regions; they are not memory that
 * can run out. */
static bool is_no_memory(const char *region)
{
	static const char *const names[] = { "gds", "gws", "oa", "doorbell", "mmioremap" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(region, names[i]) == 0)
			return true;
	}
	return false;
}

/* ---- rates -------------------------------------------------------------------------------------------------------- */

void drm_rates_add(struct drm_rate *sum, unsigned *n_sum, const struct drm_rate *rates, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned at = 0;

		while (at < *n_sum && strcmp(sum[at].name, rates[i].name) != 0)
			at++;
		if (at == DRM_ENGINES)
			continue;
		if (at == *n_sum) {
			sum[at] = (struct drm_rate) { 0 };
			memcpy(sum[at].name, rates[i].name, DRM_NAME);
			(*n_sum)++;
		}
		if (__builtin_add_overflow(sum[at].ppm, rates[i].ppm, &sum[at].ppm))
			sum[at].ppm = INT64_MAX;
	}
}

struct maybe drm_rates_busiest(const struct drm_rate *rates, unsigned n, enum drm_class of)
{
	struct maybe busiest = UNKNOWN;

	for (unsigned i = 0; i < n; i++) {
		if (drm_class_of(rates[i].name) == of)
			busiest = maybe_max(busiest, known(rates[i].ppm));
	}
	return busiest.known ? maybe_min(busiest, known(1000000)) : UNKNOWN;
}

/* part / whole in millionths; 0 if whole is 0. */
static int64_t share(int64_t part, double whole)
{
	double ppm = whole > 0 ? (double) part * 1e6 / whole : 0;

	return ppm < 1e12 ? (int64_t) (ppm + 0.5) : 1000000000000;
}

/* Raises *most to now and returns the difference; a counter that goes back adds nothing. */
static int64_t rise(int64_t *most, struct maybe now)
{
	int64_t before = *most;

	if (!now.known || now.value <= before)
		return 0;
	*most = now.value;
	return now.value - before;
}

static struct drm_meter *meter_of(struct drm_client *client, const char *name)
{
	for (unsigned i = 0; i < client->n_meters; i++) {
		if (strcmp(client->meters[i].name, name) == 0)
			return &client->meters[i];
	}
	if (client->n_meters == DRM_ENGINES)
		return NULL;
	struct drm_meter *meter = &client->meters[client->n_meters++];

	*meter = (struct drm_meter) { 0 };
	memcpy(meter->name, name, DRM_NAME);
	return meter;
}

/* The share of the interval in which the engine worked for this client: of elapsed cycles if the
 * driver counts them, else of time. False if unknown. */
static bool engine_rate(
	struct drm_client *client, const struct drm_engine *engine, uint64_t passed_ns, int64_t *ret_ppm)
{
	struct drm_meter *meter = meter_of(client, engine->name);

	if (!meter)
		return false;
	int64_t busy = rise(&meter->busy_ns, engine->busy_ns);
	int64_t cycles = rise(&meter->cycles, engine->cycles);
	int64_t total = rise(&meter->total_cycles, engine->total_cycles);
	double capacity = (double) engine->capacity;

	if (engine->busy_ns.known)
		*ret_ppm = share(busy, (double) passed_ns * capacity);
	else if (engine->cycles.known && engine->total_cycles.known)
		*ret_ppm = share(cycles, (double) total * capacity);
	else if (engine->cycles.known && engine->max_hz.known)
		*ret_ppm = share(cycles, (double) engine->max_hz.value * (double) passed_ns / 1e9 * capacity);
	else
		return false;
	return true;
}

static void rates_update(
	struct drm_client *client, const struct drm_fdinfo *f, bool is_first, uint64_t now_ns)
{
	uint64_t passed = now_ns - client->time_ns;

	client->n_rates = 0;
	for (unsigned i = 0; i < f->n_engines; i++) {
		struct drm_rate *rate = &client->rates[client->n_rates];
		const struct drm_engine *engine = &f->engines[i];

		if (!engine_rate(client, engine, passed, &rate->ppm) || is_first || passed == 0)
			continue;
		memcpy(rate->name, engine->name, DRM_NAME);
		client->n_rates++;
	}
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static void memory_take(struct drm_client *client, const struct drm_fdinfo *f)
{
	client->device_bytes = client->host_bytes = UNKNOWN;
	if (f->cut)
		return;
	for (unsigned i = 0; i < f->n_regions; i++) {
		const struct drm_region *region = &f->regions[i];
		struct maybe bytes = drm_region_bytes(region), *sum = &client->host_bytes;

		if (starts_with(region->name, "vram") || starts_with(region->name, "local"))
			sum = &client->device_bytes;
		if (!bytes.known || is_no_memory(region->name))
			continue;
		if (!sum->known)
			*sum = known(0);
		if (__builtin_add_overflow(sum->value, bytes.value, &sum->value))
			*sum = known(INT64_MAX);
	}
}

static void kinds_update(struct drm_client *client, const struct drm_fdinfo *f)
{
	for (unsigned i = 0; i < f->n_engines; i++) {
		const struct drm_engine *engine = &f->engines[i];
		bool worked = (engine->busy_ns.known && engine->busy_ns.value > 0) ||
			      (engine->cycles.known && engine->cycles.value > 0);

		if (starts_with(engine->name, "compute") || starts_with(engine->name, "ccs"))
			client->compute |= worked;
		else
			client->graphics |= worked;
	}
}

void drm_client_update(struct drm_client *client, const struct drm_fdinfo *f, bool is_first, uint64_t now_ns)
{
	rates_update(client, f, is_first, now_ns);
	memory_take(client, f);
	kinds_update(client, f);
	client->time_ns = now_ns;
}
