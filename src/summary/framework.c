/* SPDX-License-Identifier: MIT */
#include "summary/framework.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

static const char *const names[FRAMEWORKS_MOST] = { "torch", "jax", "tensorflow" };

/* A figure is the largest value of its series. Where a framework reports no peak, the largest
 * current value stands in. word: label of a series that is drawn. */
static const struct {
	const char *name;
	size_t offset; /* in struct framework */
	double scale;
	const char *word;
} figures[] = {
	{ "allocated_bytes", offsetof(struct framework, allocated_peak), 1, "allocated" },
	{ "allocated_peak_bytes", offsetof(struct framework, allocated_peak), 1, NULL },
	{ "reserved_bytes", offsetof(struct framework, reserved_peak), 1, "reserved" },
	{ "reserved_peak_bytes", offsetof(struct framework, reserved_peak), 1, NULL },
	{ "fragmentation", offsetof(struct framework, fragmentation_ppm), 1e6, NULL },
	{ "alloc_retries", offsetof(struct framework, alloc_retries), 1, NULL },
	{ "ooms", offsetof(struct framework, ooms), 1, NULL },
};

enum {
	FIGURES = sizeof(figures) / sizeof(figures[0])
};

/* The parts of a series' name. */
struct framework_parts {
	size_t framework, figure, device_len;
	const char *device;
};

static bool split(const char *series, struct framework_parts *ret)
{
	const char *slash = strchr(series, '/'), *last = strrchr(series, '/');

	if (!slash || last == slash)
		return false;
	*ret = (struct framework_parts) {
		.device = slash + 1,
		.device_len = (size_t) (last - slash - 1),
		.figure = FIGURES,
	};
	for (size_t i = 0; i < FIGURES; i++) {
		if (strcmp(last + 1, figures[i].name) == 0)
			ret->figure = i;
	}
	for (; ret->framework < FRAMEWORKS_MOST; ret->framework++) {
		const char *name = names[ret->framework];

		if (strlen(name) == (size_t) (slash - series) && strncmp(name, series, strlen(name)) == 0)
			break;
	}
	return ret->framework < FRAMEWORKS_MOST && ret->figure < FIGURES;
}

bool framework_has(const char *series)
{
	struct framework_parts parts;

	return split(series, &parts);
}

static bool is_number(const char *text, size_t len, struct maybe number)
{
	const char *p = text + 3;
	uint64_t value;

	return number.known && len > 3 && strncmp(text, "gpu", 3) == 0 && parse_u64(&p, &value) == 0 &&
	       p == text + len && value == (uint64_t) number.value;
}

/* The driver's indices stand in where CUDA's are unknown, as on other vendors' GPUs. */
static bool is_device(const struct job *job, const struct birth *gpu, const char *text, size_t len)
{
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		if (job_gpu(job, i)->birth.gpu.cuda_index.known)
			return is_number(text, len, gpu->gpu.cuda_index) ||
			       (len > 4 && strncmp(gpu->gpu.uuid, text, len) == 0);
	}
	return is_number(text, len, gpu->gpu.index) || (len > 4 && strncmp(gpu->gpu.uuid, text, len) == 0);
}

const char *framework_memory(
	const struct job *job, const struct birth *gpu, const char *series, char buf[FRAMEWORK_LEN])
{
	struct framework_parts parts;

	if (!split(series, &parts) || !figures[parts.figure].word ||
		!is_device(job, gpu, parts.device, parts.device_len))
		return NULL;
	(void) snprintf(buf, FRAMEWORK_LEN, "%s %s", names[parts.framework], figures[parts.figure].word);
	return buf;
}

static void add(struct framework *framework, size_t figure, const struct series *series)
{
	struct maybe *at = (struct maybe *) ((char *) framework + figures[figure].offset);
	const double value = series->max * figures[figure].scale;

	if (value >= 0 && value < 9e18)
		*at = maybe_max(*at, known((int64_t) llround(value)));
}

static bool is_empty(const struct framework *f)
{
	return !f->allocated_peak.known && !f->reserved_peak.known && !f->ooms.known;
}

size_t frameworks_of(const struct job *job, const struct birth *gpu, struct framework *ret)
{
	struct framework all[FRAMEWORKS_MOST] = { 0 };
	struct framework_parts parts;
	size_t n = 0;

	for (size_t i = 0; i < job_series_count(job); i++) {
		const struct series *series = job_series(job, i);

		if (split(series->name, &parts) && is_device(job, gpu, parts.device, parts.device_len))
			add(&all[parts.framework], parts.figure, series);
	}
	for (size_t i = 0; i < FRAMEWORKS_MOST; i++) {
		all[i].name = names[i];
		if (!is_empty(&all[i]))
			ret[n++] = all[i];
	}
	return n;
}
