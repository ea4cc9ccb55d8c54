/* SPDX-License-Identifier: MIT
 *
 * NVML's library, loaded at run time: each call by its own name, so that a missing one costs one metric.
 */
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/root.h"
#include "nvml_abi.h"
#include "source.h"

enum nvml_call {
	NVML_CALL_NONE,
#define X(member, parameters, ...) NVML_CALL_##member,
	NVML_CALLS(X)
#undef X
};

struct nvml {
	void *library;
	char driver[NVML_VERSION_LEN]; /* "550.54.15"; "" if it is not told */
	_Atomic uint64_t *beat;        /* when it answered last; NULL: nobody waits */
	struct source_asked *asked;    /* NULL: likewise */
#define X(member, parameters, ...) int(*member) parameters; /* NULL: the library has none of its names */
	NVML_CALLS(X)
#undef X
};

/* What a call answers; NVML_FUNCTION_NOT_FOUND where the library does not have it. */
#define NVML_CALL(nvml, member, ...) \
	((nvml)->member ? (nvml_asks(nvml, NVML_CALL_##member), nvml_answered(nvml, (nvml)->member(__VA_ARGS__))) : NVML_FUNCTION_NOT_FOUND)

static inline void nvml_asks(const struct nvml *nvml, enum nvml_call call)
{
	if (nvml->asked)
		atomic_store(&nvml->asked->call, (uint32_t) call);
}

/* Says that the driver lives: who takes long over many devices is not stuck. */
static inline int nvml_answered(const struct nvml *nvml, int code)
{
	nvml_asks(nvml, NVML_CALL_NONE);
	if (nvml->beat)
		atomic_store(nvml->beat, clock_boot_ns());
	return code;
}

/* Loads and initialises; HIWATER_NVML in the environment names another library and then the only one. The driver's own
 * files below env's root are looked at for a better text. Returns 0, -ENOENT (no library is here),
 * -EINVAL (the named one cannot be loaded), -ENXIO (no kernel module), -ELIBBAD (it and the library differ), -ELIBACC, -EPERM,
 * -ENOEXEC or -EIO, with text. */
int nvml_load(const struct source_env *env, struct nvml *ret, struct err *err);

/* What NVIDIA calls it; NULL: there is no such call. */
const char *nvml_call_name(unsigned call);

/* Undoes the initialisation. The library stays: it may have threads of its own by now. */
void nvml_unload(struct nvml *nvml);

/* Initialises once more, after the driver was reloaded. Returns NVML's code. */
int nvml_init_again(struct nvml *nvml);
