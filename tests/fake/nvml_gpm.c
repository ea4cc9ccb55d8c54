// SPDX-License-Identifier: MIT
/* GPM: two samples, and the mean of each metric between them. */
#include "nvml_fake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	GPM_VERSION = 1,
	SAMPLE_MAGIC = 0x67706d73,
	MOST_METRICS = 477
};

struct nvml_gpm_sample {
	uint32_t magic;
	const struct fake_gpu *gpu; /* NULL: empty */
	double t;
};

static bool has_gpm(const struct fake_gpu *gpu)
{
	for (size_t i = 0; i < gpu->bag.n; i++) {
		if (strncmp(gpu->bag.keys[i].name, "gpm ", 4) == 0)
			return true;
	}
	return false;
}

EXPORT int nvmlGpmQueryDeviceSupport(struct fake_gpu *gpu, struct nvml_versioned *ret)
{
	int code = nvml_enter(__func__, gpu);
	bool is_supported = false;

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	if (ret->version != GPM_VERSION)
		return NVML_ARGUMENT_VERSION_MISMATCH;
	is_supported = has_gpm(gpu);
	for (size_t i = 0; i < nvml_scenario()->n_migs; i++)
		is_supported |= nvml_scenario()->migs[i]->parent == gpu && has_gpm(nvml_scenario()->migs[i]);
	ret->value = is_supported;
	return NVML_SUCCESS;
}

EXPORT int nvmlGpmSampleAlloc(struct nvml_gpm_sample **ret)
{
	int code = nvml_enter(__func__, NULL);

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		fake_die("out of memory");
	(*ret)->magic = SAMPLE_MAGIC;
	return NVML_SUCCESS;
}

static void sample_check(const char *call, const struct nvml_gpm_sample *sample)
{
	if (sample && sample->magic != SAMPLE_MAGIC)
		fake_die("%s: %p is no sample, or was freed", call, (const void *) sample);
}

EXPORT int nvmlGpmSampleFree(struct nvml_gpm_sample *sample)
{
	int code = nvml_enter(__func__, NULL);

	if (code != 0 || !sample)
		return code ?: NVML_INVALID_ARGUMENT;
	sample_check(__func__, sample);
	sample->magic = 0;
	free(sample);
	return NVML_SUCCESS;
}

static int sample_take(const char *call, const struct fake_gpu *gpu, struct nvml_gpm_sample *ret)
{
	sample_check(call, ret);
	if (!ret)
		return NVML_INVALID_ARGUMENT;
	if (!has_gpm(gpu))
		return NVML_NOT_SUPPORTED;
	ret->gpu = gpu;
	ret->t = fake_now();
	return NVML_SUCCESS;
}

EXPORT int nvmlGpmSampleGet(struct fake_gpu *gpu, struct nvml_gpm_sample *ret)
{
	return nvml_enter(__func__, gpu) ?: sample_take(__func__, gpu, ret);
}

/* The first instance in this GPU instance. */
static const struct fake_gpu *by_gi(const struct fake_gpu *parent, unsigned gi)
{
	const struct fake_scenario *s = nvml_scenario();

	for (size_t i = 0; i < s->n_migs; i++) {
		if (s->migs[i]->parent == parent && nvml_number(s->migs[i], "gi", UINT32_MAX) == gi)
			return s->migs[i];
	}
	return NULL;
}

EXPORT int nvmlGpmMigSampleGet(struct fake_gpu *gpu, unsigned gi, struct nvml_gpm_sample *ret)
{
	int code = nvml_enter(__func__, gpu);
	const struct fake_gpu *mig = code == 0 ? by_gi(gpu, gi) : NULL;

	return code ?: mig ? sample_take(__func__, mig, ret)
			   : NVML_INVALID_ARGUMENT;
}

EXPORT int nvmlGpmMetricsGet(struct nvml_gpm_get *get)
{
	int code = nvml_enter(__func__, NULL);
	const struct nvml_gpm_sample *a, *b;
	char key[32];

	if (code != 0 || !get)
		return code ?: NVML_INVALID_ARGUMENT;
	if (get->version != GPM_VERSION)
		return NVML_ARGUMENT_VERSION_MISMATCH;
	a = get->sample1;
	b = get->sample2;
	sample_check(__func__, a);
	sample_check(__func__, b);
	if (!a || !b || !a->gpu || a->gpu != b->gpu || get->n > MOST_METRICS)
		return NVML_INVALID_ARGUMENT;
	for (unsigned i = 0; i < get->n; i++) {
		struct nvml_gpm_metric *m = &get->metrics[i];
		snprintf(key, sizeof(key), "gpm %u", m->id);
		code = fake_figure_mean(a->gpu, key, a->t, b->t, &m->value);
		m->code = code == FAKE_UNKNOWN ? 0 : (uint32_t) code;
		if (code == FAKE_UNKNOWN)
			m->value = NAN;
		m->short_name = m->long_name = "";
		m->unit = "";
	}
	return NVML_SUCCESS;
}
