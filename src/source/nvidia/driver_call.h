/* SPDX-License-Identifier: MIT
 *
 * Publishes the driver call in progress, so that a process that waits for a helper can name the
 * call that hangs. Each return of a call also renews the helper's heartbeat (source_env.beat).
 */
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "source/source.h"

/* The calls that follow concern the GPU of that number; unknown: no particular GPU. */
static inline void driver_call_device(const struct source_env *env, struct maybe number)
{
	if (env->call_trace)
		atomic_store(&env->call_trace->device, number.known ? (uint32_t) number.value + 1 : 0);
}

static inline void driver_call_begin(const struct source_env *env, uint32_t call)
{
	if (env->call_trace)
		atomic_store(&env->call_trace->call, call);
}

/* Marks the end of the call and renews the heartbeat: a source that needs long for many devices is
 * not stuck. Returns code. */
static inline int driver_call_end(const struct source_env *env, int code)
{
	driver_call_begin(env, 0);
	if (env->beat)
		atomic_store(env->beat, clock_boot_ns());
	return code;
}
