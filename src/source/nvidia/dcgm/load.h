/* SPDX-License-Identifier: MIT
 *
 * DCGM's library, loaded at run time, and the connection to a host engine that already runs.
 * hiwater never starts an engine: the profiling counters exist once per machine.
 */
#pragma once

#include "base/err.h"
#include "base/root.h"
#include "source/nvidia/driver_call.h"
#include "source/nvidia/dcgm/abi.h"
#include "source/source.h"

enum {
	DCGM_ADDRESS = 108 /* bytes, the length of a socket's path */
};

enum dcgm_call {
	DCGM_CALL_NONE,
#define X(member, parameters, name) DCGM_CALL_##member,
	DCGM_CALLS(X)
#undef X
};

struct dcgm {
	void *library;
	const struct source_env *env;
	uintptr_t handle;        /* the connection; 0: none */
	char address[DCGM_ADDRESS]; /* the engine's address, once connected */
#define X(member, parameters, name) int(*member) parameters; /* NULL: the library lacks it */
	DCGM_CALLS(X)
#undef X
};

/* Calls a function of the library; DCGM_FUNCTION_NOT_FOUND if the library lacks it. */
#define DCGM_CALL(dcgm, member, ...) \
	((dcgm)->member ? (driver_call_begin((dcgm)->env, DCGM_CALL_##member), \
				  driver_call_end((dcgm)->env, (dcgm)->member(__VA_ARGS__))) \
			: DCGM_FUNCTION_NOT_FOUND)

/* Looks for an engine on this machine: at HIWATER_DCGM_ENGINE (an address, or the path of a socket)
 * if set, else at its default socket and port. The library (HIWATER_DCGM names another one) is
 * loaded only if an engine listens. Returns 0, -ENODEV (no engine), -ENOENT (no library), -ELIBBAD
 * (different versions) or -EIO, with text. */
int dcgm_load(const struct source_env *env, struct dcgm *ret, struct err *err);

/* NVIDIA's name of the call; NULL: no such call. */
const char *dcgm_call_name(unsigned call);

/* Reconnects after the connection was lost. Returns the same codes as dcgm_load. */
int dcgm_connect_again(struct dcgm *dcgm, struct err *err);

/* Disconnects. The library stays loaded, since it has started threads. */
void dcgm_unload(struct dcgm *dcgm);
