/* SPDX-License-Identifier: MIT
 *
 * NVML's library, loaded at run time: each call by its own name, so that a missing one only costs
 * its metrics.
 */
#pragma once

#include "base/err.h"
#include "base/root.h"
#include "source/nvidia/driver_call.h"
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
	char driver[NVML_VERSION_LEN]; /* "550.54.15"; "" unknown */
	const struct source_env *env;
#define X(member, parameters, ...) int(*member) parameters; /* NULL: the library has none of its names */
	NVML_CALLS(X)
#undef X
};

/* Calls a function of the library; NVML_FUNCTION_NOT_FOUND if the library lacks it. */
#define NVML_CALL(nvml, member, ...) \
	((nvml)->member ? (driver_call_begin((nvml)->env, NVML_CALL_##member), \
				  driver_call_end((nvml)->env, (nvml)->member(__VA_ARGS__))) \
			: NVML_FUNCTION_NOT_FOUND)

/* Loads and initialises the library; if HIWATER_NVML is set, only the library that it names. The
 * driver's files below env's root help to word the error. Returns 0, -ENOENT (no library), -EINVAL
 * (the named one cannot be loaded), -ENXIO (no kernel module), -ELIBBAD (versions of library and
 * module differ), -ELIBACC, -EPERM, -ENOEXEC or -EIO, with text. */
int nvml_load(const struct source_env *env, struct nvml *ret, struct err *err);

/* NVIDIA's name of the call; NULL: no such call. */
const char *nvml_call_name(unsigned call);

/* Shuts NVML down. The library stays loaded, since it may have started threads. */
void nvml_unload(struct nvml *nvml);

/* Initialises again after the driver was reloaded. Returns NVML's code. */
int nvml_init_again(struct nvml *nvml);
