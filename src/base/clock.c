/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <time.h>

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts = { 0 };

	(void) clock_gettime(
		clock, &ts); /* cannot fail: the clocks below exist since Linux 2.6.39 */
	return (uint64_t) ts.tv_sec * 1000000000U + (uint64_t) ts.tv_nsec;
}

uint64_t clock_boot_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

uint64_t clock_awake_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t clock_wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

uint64_t clock_process_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t clock_thread_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t counter_delta(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}
