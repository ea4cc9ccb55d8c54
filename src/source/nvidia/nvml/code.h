/* SPDX-License-Identifier: MIT
 *
 * What NVML's return codes mean to hiwater, as a table.
 */
#pragma once

#include "source/nvidia/nvml/abi.h"

/* A code of hiwater's own: the call was answered, and what it says cannot be so. */
#define NVML_NONSENSE (-2)

enum nvml_meaning {
	NVML_FINE,
	NVML_ABSENT,    /* not here: the next way, else not asked again in this run (of this device) */
	NVML_FORBIDDEN, /* likewise, for lack of permission */
	NVML_NOT_NOW,   /* no data at this moment: asked again */
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
