/* SPDX-License-Identifier: MIT
 *
 * GPUs, looked at when somebody asks: each source by a helper of its own, so that one that hangs or crashes takes nothing
 * of the others with it. One thread.
 */
#pragma once

#include "summary/gpus_now.h"
#include "sample/gpu.h"

struct gpu_look;

/* Starts the helpers, which begin to look at once; env and wish must stay as they are. NULL with text: out of memory, or no
 * process can be started. */
struct gpu_look *gpu_look_new(const struct gpu_vendor *vendors, const struct source_env *env, const struct gpu_wish *wish,
	struct err *err);
/* Ends the helpers, 40 ms at most; who is stuck stays. NULL is fine. */
void gpu_look_free(struct gpu_look *l);

/* Waits until all that were asked have answered, patience_ns at most, and puts what they said into now; from the second
 * call on it asks them first. Who does not answer is a note of now, and is waited for in no later look, but who
 * crashed is asked again later, a few times; what one said in its helper's first look stands until the next one.
 * Returns 0; -ENODEV: the machine shows no GPU; -ENXIO: it shows one, and none can be asked (both with text); -ETIMEDOUT,
 * or -EIO: one did not answer in time, or ended while it was asked (with text; what others said is in now). */
int gpu_look(struct gpu_look *l, uint64_t patience_ns, struct gpus_now *now, struct err *err);
