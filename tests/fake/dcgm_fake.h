/* SPDX-License-Identifier: MIT
 *
 * Internals of the fake libdcgm, which acts as client library and host engine in one process.
 */
#pragma once

#include "fake.h"

enum dcgm_code {
	DCGM_OK = 0,
	DCGM_BADPARAM = -1,
	DCGM_NOT_SUPPORTED = -6,
	DCGM_UNINITIALIZED = -10,
	DCGM_VER_MISMATCH = -12,
	DCGM_NO_DATA = -14,
	DCGM_NOT_WATCHED = -16,
	DCGM_GPU_IS_LOST = -18,
	DCGM_CONNECTION_NOT_VALID = -21,
	DCGM_DUPLICATE_KEY = -26,
	DCGM_INSUFFICIENT_SIZE = -31,
};

enum dcgm_entity {
	DCGM_GPU = 1,
	DCGM_INSTANCE = 4,
	DCGM_COMPUTE_INSTANCE = 5
};

union dcgm_value {
	int64_t i64;
	double dbl;
	char str[256];
	char blob[4096];
};
struct dcgm_value_v1 {
	uint32_t version;
	uint16_t field, type; /* 'i', 'd', 's' */
	int32_t status;
	int64_t stamp;
	union dcgm_value value;
};
struct dcgm_value_v2 {
	uint32_t version, entity_group, entity;
	uint16_t field, type;
	int32_t status;
	uint32_t unused;
	int64_t stamp;
	union dcgm_value value;
};
struct dcgm_connect_params {
	uint32_t version, persist, timeout_ms, is_unix;
};
struct dcgm_pair {
	uint32_t entity_group, entity;
};
_Static_assert(sizeof(struct dcgm_value_v1) == 4120, "value v1");
_Static_assert(sizeof(struct dcgm_value_v2) == 4128, "value v2");
_Static_assert(sizeof(struct dcgm_connect_params) == 16, "connect params");

/* Times of the last two updates of a watched field; none for a field that is not watched. */
struct dcgm_update {
	bool is_watched, is_there;
	double before, at;
};

/* ---- dcgm_values.c --------------------------------------------------------------------------- */

/* Fills the value of a field of a device after an update as DCGM writes it, with blanks for missing
 * ones. */
void dcgm_value_fill(const struct fake_scenario *s, const struct fake_gpu *gpu, uint16_t field,
	struct dcgm_update update, bool is_paused, struct dcgm_value_v1 *ret);
