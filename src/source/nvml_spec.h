/* SPDX-License-Identifier: MIT
 *
 * What NVIDIA's GPUs are made of: of each device what its driver says, and what a multiprocessor (SM) of its compute
 * capability has.
 */
#pragma once

#include "base/maybe.h"
#include "source.h"

/* Of a compute capability. */
struct nvml_spec {
	int major, minor;
	const char *architecture;
	unsigned cores;        /* FP32, of an SM */
	unsigned tensor_cores; /* of an SM; 0: none */
	unsigned shared_kib;   /* of an SM */
	unsigned warps;        /* resident on an SM at most, of 32 threads */
	unsigned blocks;       /* likewise */
	unsigned registers;    /* of an SM, of 32 bits */
};

/* NULL for one that is not in the table: newer than this version. */
const struct nvml_spec *nvml_spec_of(int major, int minor);

/* Of a device. Texts are "" where they are not known. */
struct nvml_device_spec {
	const char *uuid, *name, *pci, *driver;
	unsigned index;                 /* the driver's */
	struct maybe major, minor;      /* compute capability */
	const struct nvml_spec *of_sm;  /* NULL: of a capability that is not in the table */
	struct maybe cores, sms;        /* sms: cores divided by those of an SM */
	struct maybe memory_bytes, bus_bits;
	struct maybe max_sm_hz, max_memory_hz;
	struct maybe power_limit_uw, power_default_uw, power_min_uw, power_max_uw;
	struct maybe pcie_generation, pcie_lanes; /* the most that board and slot can do */
	bool divided;                   /* by MIG */
	bool unified;                   /* memory_bytes is the machine's */
};

/* What tell is given is valid until it returns. */
typedef void nvml_spec_teller(void *ctx, const struct nvml_device_spec *spec);

/* Tells of each GPU that may be opened and is not asleep; may block in the driver as the source does. Returns how many
 * there are, or -errno with text. */
int nvml_specs(const struct source_env *env, nvml_spec_teller *tell, void *ctx, struct err *err);
