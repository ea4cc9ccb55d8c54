/* SPDX-License-Identifier: MIT
 *
 * DCGM's library, loaded at run time, and the way to a host engine that runs already. An engine of one's own is never
 * started: the counters are one's on the machine.
 */
#pragma once

#include "base/err.h"
#include "base/root.h"
#include "dcgm_abi.h"

enum {
	DCGM_ADDRESS = 108 /* bytes, as of a socket's path */
};

struct dcgm {
	void *library;
	uintptr_t handle;        /* of the connection; 0: none */
	char address[DCGM_ADDRESS]; /* of the engine, once connected */
#define X(member, parameters, name) int(*member) parameters; /* NULL: the library does not have it */
	DCGM_CALLS(X)
#undef X
};

/* What a call answers; DCGM_FUNCTION_NOT_FOUND where the library does not have it. */
#define DCGM_CALL(dcgm, member, ...) ((dcgm)->member ? (dcgm)->member(__VA_ARGS__) : DCGM_FUNCTION_NOT_FOUND)

/* Looks for an engine of this machine: at HIWATER_DCGM_ENGINE (an address, or the path of a socket) and nowhere else, or at
 * its usual socket and port; only where one listens the library is loaded (HIWATER_DCGM names another one). Returns 0,
 * -ENODEV (no engine), -ENOENT (no library), -ELIBBAD (versions that do not fit) or -EIO, with text. */
int dcgm_load(struct dcgm *ret, struct err *err);

/* Connects again, after the connection was lost. Returns likewise. */
int dcgm_connect_again(struct dcgm *dcgm, struct err *err);

/* The library stays loaded: it has threads of its own by now. */
void dcgm_unload(struct dcgm *dcgm);
