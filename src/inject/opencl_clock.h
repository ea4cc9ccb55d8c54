/* SPDX-License-Identifier: MIT
 *
 * From a device's clock to CLOCK_MONOTONIC. OpenCL reports when a command was queued, started and ended in
 * nanoseconds of a clock of the runtime's choice, whose origin it does not state: PoCL 3.1 uses
 * CLOCK_MONOTONIC_RAW, others the wall clock or a counter of the device.
 *
 * The call that queued a command began before, and returned after, the time at which it was queued. So each
 * command bounds the distance of the two clocks from both sides. The first one shows whether the device's
 * clock is one of the kernel's: then the distance is measured (CLOCK_MONOTONIC itself: it is 0, and
 * times are those that the runtime reports, to the nanosecond). Else the distance is kept within the
 * bounds of each command, which follows a clock that drifts. The error is then at most the duration of the
 * shortest call.
 *
 * Any thread may call this at any time; what two threads do at once is as good as what either did.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct opencl_clock {
	_Atomic int which;            /* 0: not known yet; else an index in the list of clocks, from 1 */
	_Atomic int64_t distance;     /* added to the device's time */
	_Atomic uint64_t checked_ns;  /* when that was last checked */
};

/* What one command says of its device's clock. */
struct opencl_clock_sight {
	uint64_t before, after; /* CLOCK_MONOTONIC, around the call that queued it */
	uint64_t queued;        /* the device's; 0: it did not say */
	uint64_t end;           /* the device's, when it ended: before now */
};

void opencl_clock_saw(struct opencl_clock *clock, const struct opencl_clock_sight *sight);

/* A time of the device as CLOCK_MONOTONIC. */
uint64_t opencl_clock_host(struct opencl_clock *clock, uint64_t device_ns);
