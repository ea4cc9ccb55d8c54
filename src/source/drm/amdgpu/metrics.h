/* SPDX-License-Identifier: MIT
 *
 * The table that amdgpu's firmware fills (sysfs gpu_metrics): a header that says size, format and content, and behind it
 * what that revision holds (drivers/gpu/drm/amd/include/kgd_pp_interface.h). A revision that is not known here, or of
 * another size, is not read at all. All ones mean absent; what no device can be is unknown too. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/maybe.h"

/* What is taken from it, in our units. Where a revision's unit is not written down, the field is not taken. */
enum amdgpu_field {
	AMDGPU_TEMP,           /* thousandths of a degree: edge, or of an APU the graphics part */
	AMDGPU_TEMP_HOTSPOT,
	AMDGPU_TEMP_MEM,
	AMDGPU_BUSY,           /* millionths */
	AMDGPU_MEM_BUSY,
	AMDGPU_POWER,          /* microwatts, the whole socket */
	AMDGPU_ENERGY,         /* microjoules since the driver began */
	AMDGPU_CLOCK,          /* Hz, shaders */
	AMDGPU_CLOCK_MEM,
	AMDGPU_THROTTLE,       /* bits that mean the same everywhere, AMDGPU_THROTTLED_* */
	AMDGPU_ACC_ALL,        /* periods that passed, and in how many of them the clocks were held back by ... */
	AMDGPU_ACC_PROCHOT,    /* ... a signal from outside */
	AMDGPU_ACC_POWER,      /* ... the power limit */
	AMDGPU_ACC_SOCKET,     /* ... the socket's heat */
	AMDGPU_ACC_VR,         /* ... the voltage regulators' heat */
	AMDGPU_ACC_HBM,        /* ... the memory's heat */
	AMDGPU_FIELDS,
};

/* Groups of the bits of AMDGPU_THROTTLE (drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h, "Power Throttlers"). */
#define AMDGPU_THROTTLED_POWER   UINT64_C(0x00000000000000ff)
#define AMDGPU_THROTTLED_CURRENT UINT64_C(0x0000000000ff0000)
#define AMDGPU_THROTTLED_THERMAL UINT64_C(0x00003fff00000000) /* VRHOT included */
#define AMDGPU_THROTTLED_HW      UINT64_C(0x0000c00000000000) /* PROCHOT */

struct amdgpu_metrics {
	uint8_t format, content; /* revision, "1.3" */
	struct maybe field[AMDGPU_FIELDS];
};

/* Reads size bytes. Returns 0; -EBADMSG for what is no such table or is cut short, -EOPNOTSUPP for a revision that is
 * not known (then format and content are set, and every field is unknown). */
int amdgpu_metrics_parse(const void *data, size_t size, struct amdgpu_metrics *ret);
