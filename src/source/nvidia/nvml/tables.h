/* SPDX-License-Identifier: MIT
 *
 * Tables of what NVIDIA's numbers mean: NVML's return codes, Xids, and what a multiprocessor of a compute capability has.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "source/nvidia/nvml/abi.h"

/* A code of hiwater's own: the call was answered, and what it says cannot be so. */
#define NVML_NONSENSE (-2)

enum nvml_meaning {
	NVML_FINE,
	NVML_ABSENT,    /* not here: the next way, else not asked again in this run (of this device) */
	NVML_FORBIDDEN, /* likewise, for lack of permission */
	NVML_NOT_NOW,   /* no data at the moment: asked again */
	NVML_GROW,      /* the buffer is too small */
	NVML_LOST,      /* the GPU is gone or needs a reset: asked again rarely */
	NVML_STALE,     /* the handle is no more: a MIG reconfiguration, a driver that was reloaded */
};

struct nvml_code {
	int code;
	enum nvml_meaning meaning;
	const char *why;    /* a few words, lower case */
	const char *remedy; /* "" if there is none */
};

/* Never NULL: a code that is not in the table means "no data now", as codes are added over time. Static. */
const struct nvml_code *nvml_code(int code);

/* ---- Xids in words: docs.nvidia.com/deploy/xid-errors -------------------------------------------------------------- */

/* "Xid 79: the GPU has fallen off the bus"; the number alone for one that is not known. */
void xid_text(uint64_t xid, char *ret, size_t size);

/* ---- multiprocessors (SM), by compute capability ------------------------------------------------------------------- */

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
