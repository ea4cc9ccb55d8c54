/* SPDX-License-Identifier: MIT
 *
 * DCGM's library, loaded at run time, and the way to a host engine that runs already. An engine of one's own is never
 * started: the counters are one's on the machine.
 */
#pragma once

#include "base/err.h"
#include "base/root.h"
#include "source/nvidia/asked.h"
#include "source/nvidia/dcgm/abi.h"
#include "source/source.h"

enum {
	DCGM_ADDRESS = 108 /* bytes, as of a socket's path */
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
	uintptr_t handle;        /* of the connection; 0: none */
	char address[DCGM_ADDRESS]; /* of the engine, once connected */
#define X(member, parameters, name) int(*member) parameters; /* NULL: the library does not have it */
	DCGM_CALLS(X)
#undef X
};

/* What a call answers; DCGM_FUNCTION_NOT_FOUND where the library does not have it. */
#define DCGM_CALL(dcgm, member, ...) \
	((dcgm)->member ? (asked_begin((dcgm)->env, DCGM_CALL_##member), asked_end((dcgm)->env, (dcgm)->member(__VA_ARGS__))) : DCGM_FUNCTION_NOT_FOUND)

/* Looks for an engine of this machine: at HIWATER_DCGM_ENGINE (an address, or the path of a socket) and nowhere else, or at
 * its usual socket and port; only where one listens the library is loaded (HIWATER_DCGM names another one). Returns 0,
 * -ENODEV (no engine), -ENOENT (no library), -ELIBBAD (versions that do not fit) or -EIO, with text. */
int dcgm_load(const struct source_env *env, struct dcgm *ret, struct err *err);

/* What NVIDIA calls it; NULL: there is no such call. */
const char *dcgm_call_name(unsigned call);

/* Connects again, after the connection was lost. Returns likewise. */
int dcgm_connect_again(struct dcgm *dcgm, struct err *err);

/* The library stays loaded: it has threads of its own by now. */
void dcgm_unload(struct dcgm *dcgm);
