/* SPDX-License-Identifier: MIT */
#include "source/drm/fdinfo.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/parse.h"

/* ---- values ------------------------------------------------------------------------------------------------------- */

/* The kernel prints the largest unit that divides a value without remainder, so it changes from
 * line to line and from read to read: "123", "4 KiB", "2 MiB" (drivers/gpu/drm/drm_file.c,
 * print_size). kB is amdgpu's before Linux 5.19. */
static const struct {
	const char *name;
	uint64_t scale;
} units[] = {
	{ "KiB", 1 << 10 },
	{ "MiB", 1 << 20 },
	{ "GiB", 1 << 30 },
	{ "kB", 1 << 10 },
	{ "ns", 1 },
	{ "Hz", 1 },
	{ "KHz", 1000 },
	{ "MHz", 1000000 },
};

static bool at_end(const char *p)
{
	parse_blanks(&p);
	return *p == '\0' || *p == '\n';
}

/* "123 KiB" up to the end of the line; unknown for anything else. */
static struct maybe number_parse(const char *p)
{
	uint64_t value, scale = 1;

	if (parse_u64(&p, &value) < 0)
		return UNKNOWN;
	parse_blanks(&p);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]) && !at_end(p); i++) {
		const char *rest = p;

		if (parse_word(&rest, units[i].name) && at_end(rest)) {
			p = rest;
			scale = units[i].scale;
		}
	}
	int64_t product;

	if (!at_end(p) || __builtin_mul_overflow(value, scale, &product))
		return UNKNOWN;
	return known(product);
}

/* Copies the word at p, up to a blank, a colon or the line's end; false if it is empty or too long. */
static bool word_copy(const char *p, const char *stop, char ret[DRM_NAME])
{
	size_t len = strcspn(p, stop);

	if (len == 0 || len >= DRM_NAME)
		return false;
	memcpy(ret, p, len);
	ret[len] = '\0';
	return true;
}

/* ---- engines and regions by name ---------------------------------------------------------------------------------- */

static struct drm_engine *engine_of(struct drm_fdinfo *f, const char *name)
{
	for (unsigned i = 0; i < f->n_engines; i++) {
		if (strcmp(f->engines[i].name, name) == 0)
			return &f->engines[i];
	}
	if (f->n_engines == DRM_ENGINES)
		return NULL;
	struct drm_engine *engine = &f->engines[f->n_engines++];

	*engine = (struct drm_engine) { .capacity = 1 };
	memcpy(engine->name, name, DRM_NAME);
	return engine;
}

static struct drm_region *region_of(struct drm_fdinfo *f, const char *name)
{
	for (unsigned i = 0; i < f->n_regions; i++) {
		if (strcmp(f->regions[i].name, name) == 0)
			return &f->regions[i];
	}
	if (f->n_regions == DRM_REGIONS)
		return NULL;
	struct drm_region *region = &f->regions[f->n_regions++];

	*region = (struct drm_region) { 0 };
	memcpy(region->name, name, DRM_NAME);
	return region;
}

/* ---- keys --------------------------------------------------------------------------------------------------------- */

enum key_kind {
	OF_CLIENT,
	OF_ENGINE,
	OF_REGION
};

/* Keys by their beginning; a longer one precedes one that it begins with. */
static const struct key {
	const char *prefix;
	enum key_kind kind;
	size_t at; /* of the struct maybe; of capacity 0 */
} keys[] = {
	{ "drm-client-id", OF_CLIENT, offsetof(struct drm_fdinfo, client) },
	{ "drm-engine-capacity-", OF_ENGINE, 0 },
	{ "drm-engine-", OF_ENGINE, offsetof(struct drm_engine, busy_ns) },
	{ "drm-total-cycles-", OF_ENGINE, offsetof(struct drm_engine, total_cycles) },
	{ "drm-cycles-", OF_ENGINE, offsetof(struct drm_engine, cycles) },
	{ "drm-maxfreq-", OF_ENGINE, offsetof(struct drm_engine, max_hz) },
	{ "drm-total-", OF_REGION, offsetof(struct drm_region, total) },
	{ "drm-shared-", OF_REGION, offsetof(struct drm_region, shared) },
	{ "drm-resident-", OF_REGION, offsetof(struct drm_region, resident) },
	{ "drm-memory-", OF_REGION, offsetof(struct drm_region, memory) },
};

static void engine_parse(struct drm_fdinfo *f, const struct key *key, const char *name, struct maybe value)
{
	struct drm_engine *engine = engine_of(f, name);

	f->cut |= !engine;
	if (engine && key->at)
		*(struct maybe *) (void *) ((char *) engine + key->at) = value;
	else if (engine && value.known && value.value > 0 && value.value <= INT32_MAX) /* 0 is not allowed */
		engine->capacity = value.value;
}

static void region_parse(struct drm_fdinfo *f, const struct key *key, const char *name, struct maybe value)
{
	struct drm_region *region = region_of(f, name);

	f->cut |= !region;
	if (region)
		*(struct maybe *) (void *) ((char *) region + key->at) = value;
}

/* One line that begins with a key of the table; name is the text between the key and the colon. */
static void key_parse(struct drm_fdinfo *f, const struct key *key, const char *p)
{
	char name[DRM_NAME] = "";
	const char *colon = p + strcspn(p, ":\n");

	if (*colon != ':' || (key->kind == OF_CLIENT ? colon != p : !word_copy(p, ":\n \t", name)))
		return;
	const char *value = colon + 1;

	if (strlen(name) != (size_t) (colon - p))
		return; /* a name with a blank in it */
	parse_blanks(&value);
	if (key->kind == OF_CLIENT)
		f->client = number_parse(value);
	else if (key->kind == OF_ENGINE)
		engine_parse(f, key, name, number_parse(value));
	else
		region_parse(f, key, name, number_parse(value));
}

/* "drm-driver:\tamdgpu": a text. */
static bool text_copy(const char *p, const char *key, char ret[DRM_NAME])
{
	if (!parse_word(&p, key))
		return false;
	parse_blanks(&p);
	(void) word_copy(p, " \t\n", ret);
	return true;
}

/* amdgpu from Linux 5.14 to 5.18: "pdev:", "pasid:", "vram mem:\t8192 kB", and shares of time,
 * which are ignored. */
static void old_parse(struct drm_fdinfo *f, const char *p)
{
	char name[DRM_NAME];
	const char *value = strchr(p, ':');

	if (!value || text_copy(p, "pdev:", f->pdev))
		return;
	value++;
	parse_blanks(&value);
	if (strncmp(p, "pasid:", 6) == 0) {
		f->client = number_parse(value);
		return;
	}
	const char *rest = p + strcspn(p, " \n");

	if (!word_copy(p, " \n:", name) || !parse_word(&rest, " mem:"))
		return;
	struct drm_region *region = region_of(f, name);

	if (region)
		region->memory = number_parse(value);
}

static void line_take(struct drm_fdinfo *f, const char *p)
{
	if (text_copy(p, "drm-driver:", f->driver) || text_copy(p, "drm-pdev:", f->pdev))
		return;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *rest = p;

		if (parse_word(&rest, keys[i].prefix)) {
			key_parse(f, &keys[i], rest);
			return;
		}
	}
}

int drm_fdinfo_parse(const char *text, struct drm_fdinfo *ret)
{
	struct drm_fdinfo f = { 0 };
	const char *p = text;

	do
		line_take(&f, p);
	while (parse_line(&p));
	if (f.driver[0] == '\0') {
		f = (struct drm_fdinfo) { 0 };
		p = text;
		do
			old_parse(&f, p);
		while (parse_line(&p));
		if (f.pdev[0] == '\0' || !f.client.known || f.n_regions == 0)
			return -EBADMSG;
	}
	*ret = f;
	return 0;
}

struct maybe drm_region_bytes(const struct drm_region *region)
{
	return region->resident.known ? region->resident : region->memory;
}
