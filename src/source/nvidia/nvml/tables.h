/* SPDX-License-Identifier: MIT
 *
 * Meaning of NVIDIA's numbers: NVML's return codes, Xids, and the properties of an SM by compute
 * capability.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "source/nvidia/nvml/abi.h"

/* hiwater's own code: the call succeeded, and its value is impossible. */
#define NVML_NONSENSE (-2)

enum nvml_meaning {
	NVML_FINE,
	NVML_ABSENT,    /* not supported: try the next way, else never again on this device */
	NVML_FORBIDDEN, /* the same, for lack of permission */
	NVML_NOT_NOW,   /* no data at the moment: read again */
	NVML_GROW,      /* the buffer is too small */
	NVML_LOST,      /* the GPU is gone or needs a reset: retried rarely */
	NVML_STALE,     /* the handle is invalid: MIG was reconfigured, or the driver reloaded */
};

struct nvml_code {
	int code;
	enum nvml_meaning meaning;
	const char *why;    /* a few words, lower case */
	const char *remedy; /* "" if there is none */
};

/* Never NULL: an unlisted code means "no data now", as NVML adds codes over time. Static. */
const struct nvml_code *nvml_code(int code);

/* ---- Xids in words: docs.nvidia.com/deploy/xid-errors ---------------------------------------- */

/* "Xid 79: the GPU has fallen off the bus"; only the number for an unlisted one. */
void xid_text(uint64_t xid, char *ret, size_t size);

/* ---- multiprocessors (SM), by compute capability --------------------------------------------- */

/* Of a compute capability. */
struct nvml_spec {
	int major, minor;
	const char *architecture;
	unsigned cores;        /* FP32, per SM */
	unsigned tensor_cores; /* per SM; 0: none */
	unsigned shared_kib;   /* per SM */
	unsigned warps;        /* resident per SM at most, of 32 threads */
	unsigned blocks;       /* likewise */
	unsigned registers;    /* per SM, of 32 bits */
};

/* NULL: not in the table, so newer than this version. */
const struct nvml_spec *nvml_spec_of(int major, int minor);
