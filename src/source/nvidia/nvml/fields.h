/* SPDX-License-Identifier: MIT
 *
 * NVML's numbered fields: one call gives many, each with a return code of its own.
 */
#pragma once

#include <stdbool.h>

#include "source/nvidia/nvml/load.h"

/* Ids above 250 were renumbered within branches of the driver: none of them is used. */
enum nvml_field {
	FIELD_THROTTLE_POWER,
	FIELD_THROTTLE_THERMAL,
	FIELD_THROTTLE_SYNC_BOOST,
	FIELD_THROTTLE_BOARD,
	FIELD_THROTTLE_RELIABILITY,
	FIELD_TEMP_MEMORY,
	FIELD_PCIE_TX,
	FIELD_PCIE_RX,
	FIELD_NVLINK_TX_KIB,
	FIELD_NVLINK_RX_KIB,
	FIELD_NVLINK_TX,
	FIELD_NVLINK_RX,
	NVML_FIELDS,
};

/* Of one device. */
struct nvml_fields {
	bool absent[NVML_FIELDS];    /* not asked again */
	int code[NVML_FIELDS];       /* of the last look */
	uint64_t value[NVML_FIELDS]; /* where code is NVML_SUCCESS; counters that wrap go on */
	uint64_t raw[NVML_FIELDS];   /* as the driver said it */
	bool seen[NVML_FIELDS];
};

/* Reads what handle is not known to lack, in one call. Returns NVML's code of the whole call. */
int nvml_fields_read(const struct nvml *nvml, void *handle, struct nvml_fields *f);

/* Forgets what was seen and what is absent: another driver answers from here on. */
void nvml_fields_restart(struct nvml_fields *f);

/* The number in v as an unsigned one. Returns NVML's code: NVML_NO_DATA for what is negative, no number, "not
 * available" or of a type that is not known. *ret_wraps: the value at which a counter of this type starts again, 0 for
 * 2^64. */
int nvml_field_number(const struct nvml_field_value *v, uint64_t *ret, uint64_t *ret_wraps);

/* ---- samples that the driver took by itself since the last read ---------------------------------------------------- */

/* In the units of the call: mW, per cent. */
struct nvml_samples {
	uint64_t n, sum, min, max;
};

/* The samples of kind what (NVML_SAMPLES_*) that are newer than *seen_us, the driver's wall clock, which moves on.
 * Returns NVML's code: NVML_NOT_FOUND where there is none, and at the first look (*seen_us 0), which learns where the
 * driver's clock stands: what it kept until then may be hours old. */
int nvml_samples_read(const struct nvml *nvml, void *handle, int what, uint64_t *seen_us, struct nvml_samples *ret);

/* The same of n samples of that type; entries that are older, and values that are none, are left out. */
int nvml_samples_fold(const struct nvml_sample *list, size_t n, int type, uint64_t *seen_us, struct nvml_samples *ret);
