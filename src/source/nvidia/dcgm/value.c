/* SPDX-License-Identifier: MIT */
#include "source/nvidia/dcgm/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct dcgm_reason reasons[DCGM_WHYS] = {
	[DCGM_FINE] = { "", "" },
	[DCGM_NOT_YET] = { "the DCGM host engine has no value yet", "" },
	[DCGM_COUNTERS_IN_USE] = { "profiling is paused in the DCGM host engine, or a profiler has the counters",
		"dcgmi profile --resume, or wait until the profiler ends" },
	[DCGM_STALLED] = { "the profiling module of DCGM is stalled: it reports 0 while the GPU is busy",
		"restart the DCGM host engine" },
	[DCGM_STOPPED] = { "the DCGM host engine produces no new values", "restart the DCGM host engine" },
	[DCGM_ENGINE_GONE] = { "the DCGM host engine no longer answers",
		"start it again (nv-hostengine); hiwater keeps trying" },
	[DCGM_GPU_GONE] = { "the DCGM host engine has lost the GPU", "" },
	[DCGM_NOBODY_PROFILES] = { "no client of the DCGM host engine uses profiling counters, and hiwater does not claim them by default",
		"HIWATER_DCGM_PROFILE=1 requests them; a profiler cannot use them meanwhile" },
	[DCGM_NO_COUNTERS] = { "DCGM has no profiling counters for this GPU", "data-center cards have them" },
	[DCGM_FORBIDDEN] = { "the DCGM host engine has no permission to profile", "run it as root" },
	[DCGM_NO_MODULE] = { "the DCGM host engine lacks its profiling module, or cannot load it",
		"install DCGM's proprietary part (datacenter-gpu-manager-4-proprietary)" },
	[DCGM_ERROR] = { "the DCGM host engine reports an unspecified error", "" },
};

const struct dcgm_reason *dcgm_reason(enum dcgm_why why)
{
	return &reasons[why];
}

static const struct {
	int code;
	enum dcgm_why why;
} codes[] = {
	{ DCGM_OK, DCGM_FINE },
	{ DCGM_NOT_SUPPORTED, DCGM_NO_COUNTERS },
	{ DCGM_UNKNOWN_FIELD, DCGM_NO_COUNTERS },
	{ DCGM_GPU_NOT_SUPPORTED, DCGM_NO_COUNTERS },
	{ DCGM_PROFILING_NOT_SUPPORTED, DCGM_NO_COUNTERS },
	{ DCGM_PROFILING_MULTI_PASS, DCGM_NO_COUNTERS },
	{ DCGM_UNINITIALIZED, DCGM_ENGINE_GONE },
	{ DCGM_CONNECTION_NOT_VALID, DCGM_ENGINE_GONE },
	{ DCGM_TIMEOUT, DCGM_NOT_YET },
	{ DCGM_DRIVER_TIMEOUT, DCGM_NOT_YET },
	{ DCGM_NO_DATA, DCGM_NOT_YET },
	{ DCGM_STALE, DCGM_STOPPED },
	{ DCGM_NOT_WATCHED, DCGM_NOBODY_PROFILES },
	{ DCGM_NO_PERMISSION, DCGM_FORBIDDEN },
	{ DCGM_REQUIRES_ROOT, DCGM_FORBIDDEN },
	{ DCGM_GPU_IS_LOST, DCGM_GPU_GONE },
	{ DCGM_RESET_REQUIRED, DCGM_GPU_GONE },
	{ DCGM_LIBRARY_NOT_FOUND, DCGM_NO_MODULE },
	{ DCGM_MODULE_NOT_LOADED, DCGM_NO_MODULE },
	{ DCGM_PROFILING_LIBRARY_ERROR, DCGM_NO_MODULE },
	{ DCGM_IN_USE, DCGM_COUNTERS_IN_USE },
	{ DCGM_PAUSED, DCGM_COUNTERS_IN_USE },
};

enum dcgm_why dcgm_code_why(int code)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if (codes[i].code == code)
			return codes[i].why;
	}
	return DCGM_ERROR;
}

static enum dcgm_why blank_why(int64_t which)
{
	switch (which) {
	case DCGM_BLANK_NOT_SUPPORTED:
		return DCGM_NO_COUNTERS;
	case DCGM_BLANK_NOT_PERMITTED:
		return DCGM_FORBIDDEN;
	default:
		return DCGM_COUNTERS_IN_USE; /* nothing else blanks a watched field */
	}
}

enum dcgm_why dcgm_number(const struct dcgm_value *v, double *ret)
{
	if (v->status != DCGM_OK)
		return dcgm_code_why(v->status);
	if (v->type == 'd' && v->value.d >= DCGM_BLANK_DOUBLE)
		return blank_why(
			v->value.d < DCGM_BLANK_DOUBLE + 16 ? (int64_t) (v->value.d - DCGM_BLANK_DOUBLE) : 0);
	if (v->type == 'i' && v->value.i64 >= DCGM_BLANK_I64)
		return blank_why(v->value.i64 - DCGM_BLANK_I64);
	if ((v->type != 'd' && v->type != 'i') || (v->type == 'd' && isnan(v->value.d)))
		return DCGM_NOT_YET;
	*ret = v->type == 'd' ? v->value.d : (double) v->value.i64;
	return DCGM_FINE;
}

struct maybe dcgm_ppm(double ratio)
{
	if (!(ratio >= 0) || ratio > 1.005) /* half a percent over is rounding */
		return UNKNOWN;
	return known(ratio >= 1 ? 1000000 : (int64_t) llround(ratio * 1e6));
}

void dcgm_text(const struct dcgm_value *v, char *ret, size_t size)
{
	const bool is_text = v->status == DCGM_OK && v->type == 's' && strncmp(v->value.text, "<<<", 3) != 0;

	(void) snprintf(ret, size, "%.*s", is_text ? (int) sizeof(v->value.text) - 1 : 0, v->value.text);
}
