/* SPDX-License-Identifier: MIT
 *
 * When a helper that was ended is started again: after a while, then each time after twice as long, a few times in a row
 * at most; one that has lived for long may begin anew with all of that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define GPU_AGAIN_NS UINT64_C(1000000000) /* the first while, where nobody wants another */

struct gpu_again {
	uint64_t first_ns;       /* the first while */
	unsigned ends;           /* of helpers that were ended, in a row */
	uint64_t at_ns;          /* CLOCK_BOOTTIME when the next one is started; 0: never */
};

/* One that was started at started_ns has ended. */
void gpu_again_plan(struct gpu_again *a, uint64_t started_ns);
bool gpu_again_is_due(const struct gpu_again *a);
