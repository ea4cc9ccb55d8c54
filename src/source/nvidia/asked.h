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
static inline void asked_turn_to(const struct source_env *env, struct maybe number)
{
	if (env->asked)
		atomic_store(&env->asked->device, number.known ? (uint32_t) number.value + 1 : 0);
}

static inline void asked_begin(const struct source_env *env, uint32_t call)
{
	if (env->asked)
		atomic_store(&env->asked->call, call);
}

/* Marks the end of the call and renews the heartbeat: a source that needs long for many devices is
 * not stuck. Returns code. */
static inline int asked_end(const struct source_env *env, int code)
{
	asked_begin(env, 0);
	if (env->beat)
		atomic_store(env->beat, clock_boot_ns());
	return code;
}
