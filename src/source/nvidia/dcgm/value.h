/* SPDX-License-Identifier: MIT
 *
 * Values that DCGM returns for a field, and the reasons for missing ones.
 */
#pragma once

#include "base/maybe.h"
#include "source/nvidia/dcgm/abi.h"

/* Why a GPU has no values; the first ones are transient. */
enum dcgm_why {
	DCGM_FINE,
	DCGM_NOT_YET,       /* the first mean is not complete */
	DCGM_COUNTERS_IN_USE,         /* paused, or another client uses the counters */
	DCGM_STALLED,       /* zeros while the GPU is busy */
	DCGM_STOPPED,       /* no new values */
	DCGM_ENGINE_GONE,
	DCGM_GPU_GONE,
	DCGM_NOBODY_PROFILES,
	DCGM_NO_COUNTERS,   /* for this GPU, or not this field */
	DCGM_FORBIDDEN,
	DCGM_NO_MODULE,
	DCGM_ERROR,           /* an unspecified error */
	DCGM_WHYS,
};

struct dcgm_reason {
	const char *why, *remedy; /* remedy: "" if there is none */
};
const struct dcgm_reason *dcgm_reason(enum dcgm_why why);

/* The meaning of a call's return code, or of a value's status. */
enum dcgm_why dcgm_code_why(int code);

/* The number in v. *ret is unchanged unless DCGM_FINE is returned; NaN is DCGM_NOT_YET. */
enum dcgm_why dcgm_number(const struct dcgm_value *v, double *ret);

/* A ratio as millionths; unknown if it is invalid. */
struct maybe dcgm_ppm(double ratio);

/* The text in v, "" for a blank one. */
void dcgm_text(const struct dcgm_value *v, char *ret, size_t size);
