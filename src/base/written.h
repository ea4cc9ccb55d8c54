/* SPDX-License-Identifier: MIT
 *
 * What went to storage of what was written, as a counter: less what was cancelled, and never falling, since what is deleted
 * later was told when it came. Of a recording that knows of nothing cancelled this is what it has as written.
 */
#pragma once

#include <stdint.h>

static inline int64_t written_to_storage(int64_t before, int64_t written, int64_t cancelled)
{
	return written - cancelled > before ? written - cancelled : before;
}
