/* SPDX-License-Identifier: MIT
 *
 * What DCGM writes of a field, and why a figure may be missing.
 */
#pragma once

#include "base/maybe.h"
#include "source/nvidia/dcgm/abi.h"

/* Why there is no figure of a GPU; the first ones are passing. */
enum dcgm_why {
	DCGM_FINE,
	DCGM_NOT_YET,       /* the first mean is still being made */
	DCGM_TAKEN,         /* paused, or somebody else has the counters */
	DCGM_STALLED,       /* zeros while the GPU is busy */
	DCGM_STOPPED,       /* no new values any more */
	DCGM_ENGINE_GONE,
	DCGM_GPU_GONE,
	DCGM_NOBODY_PROFILES,
	DCGM_NO_COUNTERS,   /* of this GPU, or not this field of it */
	DCGM_FORBIDDEN,
	DCGM_NO_MODULE,
	DCGM_ODD,           /* an error that says nothing */
	DCGM_WHYS,
};

struct dcgm_reason {
	const char *why, *remedy; /* "" if there is none */
};
const struct dcgm_reason *dcgm_reason(enum dcgm_why why);

/* What a call's code means, or that beside a value. */
enum dcgm_why dcgm_code_why(int code);

/* The figure of a numeric value. *ret is left alone unless it is DCGM_FINE; not a number is DCGM_NOT_YET. */
enum dcgm_why dcgm_number(const struct dcgm_value *v, double *ret);

/* A share of time as millionths, or unknown for what is none. */
struct maybe dcgm_ppm(double ratio);

/* The text of a value, "" for a blank one. */
void dcgm_text(const struct dcgm_value *v, char *ret, size_t size);
