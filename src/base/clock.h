/* SPDX-License-Identifier: MIT
 *
 * Time. Inside, everything is CLOCK_BOOTTIME in nanoseconds: it goes on through a suspension and is the clock of a
 * process's start time. The wall clock is read once a recording.
 */
#pragma once

#include <stdint.h>

uint64_t clock_boot_ns(void);
uint64_t clock_wall_ns(void);        /* since 1970, UTC */
uint64_t clock_process_cpu_ns(void); /* processor time of this process, all threads */
uint64_t clock_thread_cpu_ns(void);  /* of this thread */

/* What a counter rose from before to now; 0 if it went backwards (a reset). */
uint64_t counter_delta(uint64_t before, uint64_t now);
