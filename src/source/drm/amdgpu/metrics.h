/* SPDX-License-Identifier: MIT
 *
 * Parses the table that amdgpu's firmware fills (sysfs gpu_metrics): a header with size, format and
 * content, followed by the fields of that revision
 * (drivers/gpu/drm/amd/include/kgd_pp_interface.h). A revision that is unknown here, or of another
 * size, is not read at all. All ones mean absent; impossible values are unknown too. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/maybe.h"

/* The fields that are read, in our units. A field whose unit is not documented in a revision is not
 * read there. */
enum amdgpu_field {
	AMDGPU_TEMP,           /* thousandths of a degree: edge, of an APU the graphics part */
	AMDGPU_TEMP_HOTSPOT,
	AMDGPU_TEMP_MEM,
	AMDGPU_BUSY,           /* millionths */
	AMDGPU_MEM_BUSY,
	AMDGPU_POWER,          /* microwatts, the whole socket */
	AMDGPU_ENERGY,         /* microjoules since the driver was loaded */
	AMDGPU_CLOCK,          /* Hz, shaders */
	AMDGPU_CLOCK_MEM,
	AMDGPU_THROTTLE,       /* AMDGPU_THROTTLED_*, the same bits in all revisions */
	AMDGPU_ACC_ALL,        /* elapsed periods, and the number of them in which clocks were
	                        * throttled by ... */
	AMDGPU_ACC_PROCHOT,    /* ... an external signal */
	AMDGPU_ACC_POWER,      /* ... the power limit */
	AMDGPU_ACC_SOCKET,     /* ... the socket's temperature */
	AMDGPU_ACC_VR,         /* ... the voltage regulators' temperature */
	AMDGPU_ACC_HBM,        /* ... the memory's temperature */
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

/* Parses size bytes. Returns 0; -EBADMSG if it is not such a table or is truncated, -EOPNOTSUPP for
 * an unknown revision (then format and content are set, and every field is unknown). */
int amdgpu_metrics_parse(const void *data, size_t size, struct amdgpu_metrics *ret);
