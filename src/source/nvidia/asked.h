/* SPDX-License-Identifier: MIT
 *
 * Tells whoever waits for a driver what its library is being asked, and that it answers.
 */
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "source/source.h"

/* The calls from here on are about the GPU of that number; unknown: about none. */
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

/* Who takes long over many devices is not stuck. Returns code. */
static inline int asked_end(const struct source_env *env, int code)
{
	asked_begin(env, 0);
	if (env->beat)
		atomic_store(env->beat, clock_boot_ns());
	return code;
}
