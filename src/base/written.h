/* SPDX-License-Identifier: MIT
 *
 * Bytes written to storage as a counter: written less cancelled, but never decreasing, since bytes
 * that are cancelled later were counted when they were written. For a recording without cancelled
 * bytes it is the written ones.
 */
#pragma once

#include <stdint.h>

static inline int64_t written_to_storage(int64_t before, int64_t written, int64_t cancelled)
{
	return written - cancelled > before ? written - cancelled : before;
}
