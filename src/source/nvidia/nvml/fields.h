/* SPDX-License-Identifier: MIT
 *
 * NVML's numbered fields: one call reads many, each with its own return code.
 */
#pragma once

#include <stdbool.h>

#include "source/nvidia/nvml/load.h"

/* Driver branches renumbered ids above 250, so none of them is used. */
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

/* State of one device. */
struct nvml_fields {
	bool absent[NVML_FIELDS];    /* never read again */
	bool unwanted[NVML_FIELDS];  /* not read: what it counts is known from elsewhere */
	int code[NVML_FIELDS];       /* of the last read */
	uint64_t value[NVML_FIELDS]; /* valid where code is NVML_SUCCESS; counters continue over wraps */
	uint64_t raw[NVML_FIELDS];   /* as the driver returned it */
	bool seen[NVML_FIELDS];
};

/* Reads all fields that the device is not known to lack, in one call. Returns NVML's code of the
 * whole call. */
int nvml_fields_read(const struct nvml *nvml, void *handle, struct nvml_fields *f);

/* Forgets values and absent fields after the driver was reloaded; counters continue. */
void nvml_fields_restart(struct nvml_fields *f);

/* The number in v as unsigned. Returns NVML's code: NVML_NO_DATA if it is negative, not a number,
 * "not available" or of an unknown type. *ret_wraps: the value at which a counter of this type
 * wraps, 0 for 2^64. */
int nvml_field_number(const struct nvml_field_value *v, uint64_t *ret, uint64_t *ret_wraps);
