/* SPDX-License-Identifier: MIT */
#include "source/drm/query.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"

/* ---- the answer --------------------------------------------------------------------------------------------------- */

/* Both drivers answer with the number of regions, then regions of 88 bytes, each with a class (1:
 * of the device) at 0. */
enum {
	REGION_BYTES = 88,
	REGION_TOTAL = 8, /* its size; behind it xe has its used bytes, i915 its free ones */
	REGION_OTHER = 16,
	REGIONS_MAX = 64
};

static const struct layout {
	const char *driver;
	size_t first;        /* where the regions begin */
	bool other_is_free;
} layouts[] = {
	{ "i915", 16, true },
	{ "xe", 8, false },
};

static const struct layout *layout_of(const char *driver)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (strcmp(layouts[i].driver, driver) == 0)
			return &layouts[i];
	}
	return NULL;
}

/* Adds one region; false for impossible numbers. */
static bool region_add(const uint8_t *at, bool other_is_free, struct drm_memory *sum)
{
	uint64_t total, other;

	memcpy(&total, at + REGION_TOTAL, sizeof(total));
	memcpy(&other, at + REGION_OTHER, sizeof(other));
	if (total == 0 || total > INT64_MAX / REGIONS_MAX || other > total)
		return false;
	sum->total = known(sum->total.value + (int64_t) total);
	sum->used = known(sum->used.value + (int64_t) (other_is_free ? total - other : other));
	return true;
}

void drm_memory_parse(const char *driver, const void *answer, size_t size, struct drm_memory *ret)
{
	const struct layout *layout = layout_of(driver);
	const uint8_t *bytes = answer;
	struct drm_memory sum = { 0 };
	uint32_t n;

	*ret = (struct drm_memory) { 0 };
	if (!layout || size < layout->first)
		return;
	memcpy(&n, bytes, sizeof(n));
	if (n > REGIONS_MAX || size - layout->first < (size_t) n * REGION_BYTES)
		return;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *region = bytes + layout->first + (size_t) i * REGION_BYTES;
		uint16_t class;

		memcpy(&class, region, sizeof(class));
		if (class == 1 && !region_add(region, layout->other_is_free, &sum))
			return;
	}
	if (sum.used.value == 0) /* the driver itself uses some, so 0 means no permission */
		sum.used = UNKNOWN;
	*ret = sum;
}

/* ---- the queries -------------------------------------------------------------------------------------------------- */

struct i915_item {
	uint64_t query;
	int32_t length;
	uint32_t flags;
	uint64_t data;
};

struct i915_query {
	uint32_t n_items, flags;
	uint64_t items;
};

struct xe_query {
	uint64_t extensions;
	uint32_t query, size;
	uint64_t data, reserved[2];
};

#define I915_QUERY _IOWR('d', 0x40 + 0x39, struct i915_query)
#define XE_QUERY   _IOWR('d', 0x40, struct xe_query)

enum {
	I915_MEMORY_REGIONS = 4,
	XE_MEMORY_REGIONS = 1,
	ANSWER_BYTES = 16 + REGIONS_MAX * REGION_BYTES
};

/* Called twice, as both drivers require: for the length, then for the answer. Returns its size; 0:
 * none. */
static size_t i915_fetch(int fd, void *answer)
{
	struct i915_item item = { .query = I915_MEMORY_REGIONS };
	struct i915_query query = { .n_items = 1, .items = (uintptr_t) &item };

	if (ioctl(fd, I915_QUERY, &query) < 0 || item.length <= 0 || item.length > ANSWER_BYTES)
		return 0;
	item.data = (uintptr_t) answer;
	return ioctl(fd, I915_QUERY, &query) == 0 && item.length > 0 ? (size_t) item.length : 0;
}

static size_t xe_fetch(int fd, void *answer)
{
	struct xe_query query = { .query = XE_MEMORY_REGIONS };

	if (ioctl(fd, XE_QUERY, &query) < 0 || query.size == 0 || query.size > ANSWER_BYTES)
		return 0;
	query.data = (uintptr_t) answer;
	return ioctl(fd, XE_QUERY, &query) == 0 ? query.size : 0;
}

void drm_query_memory(const struct root *root, const struct drm_card *card, struct drm_memory *ret)
{
	_Alignas(8) uint8_t answer[ANSWER_BYTES] = { 0 };
	char path[64];

	*ret = (struct drm_memory) { 0 };
	if (!root->live || card->render < 0 || card->accel || !layout_of(card->driver))
		return;
	snprintf(path, sizeof(path), "dev/dri/renderD%d", (int) card->render);
	autoclose int fd = openat(root->top, path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	size_t n = strcmp(card->driver, "xe") == 0 ? xe_fetch(fd, answer) : i915_fetch(fd, answer);

	drm_memory_parse(card->driver, answer, n, ret);
}
