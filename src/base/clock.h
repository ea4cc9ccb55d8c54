/* SPDX-License-Identifier: MIT
 *
 * Time. All internal times are CLOCK_BOOTTIME in nanoseconds: it continues during suspension and is
 * the clock of process start times. The wall clock is read once per recording.
 */
#pragma once

#include <stdint.h>

uint64_t clock_boot_ns(void);
uint64_t clock_awake_ns(void);       /* as clock_boot_ns, but stands still during suspension */
uint64_t clock_wall_ns(void);        /* since 1970, UTC */
uint64_t clock_process_cpu_ns(void); /* CPU time of this process, all threads */
uint64_t clock_thread_cpu_ns(void);  /* of this thread */

/* The increase of a counter from before to now; 0 if it decreased (a reset). */
uint64_t counter_delta(uint64_t before, uint64_t now);
