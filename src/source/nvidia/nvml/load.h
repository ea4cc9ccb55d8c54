/* SPDX-License-Identifier: MIT
 *
 * NVML's library, loaded at run time: each call by its own name, so that a missing one costs one metric.
 */
#pragma once

#include "base/err.h"
#include "base/root.h"
#include "source/nvidia/asked.h"
#include "source/nvidia/nvml/abi.h"
#include "source/source.h"

enum nvml_call {
	NVML_CALL_NONE,
#define X(member, parameters, ...) NVML_CALL_##member,
	NVML_CALLS(X)
#undef X
};

struct nvml {
	void *library;
	char driver[NVML_VERSION_LEN]; /* "550.54.15"; "" if it is not told */
	const struct source_env *env;
#define X(member, parameters, ...) int(*member) parameters; /* NULL: the library has none of its names */
	NVML_CALLS(X)
#undef X
};

/* What a call answers; NVML_FUNCTION_NOT_FOUND where the library does not have it. */
#define NVML_CALL(nvml, member, ...) \
	((nvml)->member ? (asked_begin((nvml)->env, NVML_CALL_##member), asked_end((nvml)->env, (nvml)->member(__VA_ARGS__))) : NVML_FUNCTION_NOT_FOUND)

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
