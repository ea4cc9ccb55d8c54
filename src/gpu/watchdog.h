/* SPDX-License-Identifier: MIT
 *
 * A driver that does not answer: since when, in which call, and what is reported of it. A silence
 * is a call of more than 5 s. It is reported when it begins and when it is over; of many, only
 * those longer than any before, and at the end of the run how many there were. Also here: whether
 * a killed process is stuck or on its way out.
 *
 * Instants are nanoseconds of CLOCK_BOOTTIME, passed in, so that tests need not wait. No I/O, but
 * for gpu_is_exiting.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "source/source.h"

enum {
	GPU_REPORT = 192,
	GPU_RUN_TIME = 32,
	GPU_CALL = 80,
};

/* Of one source. label and start_ns (of the run) are set by its owner, all else is 0 at first. */
struct gpu_watchdog {
	const char *label;
	uint64_t start_ns;
	uint64_t since_ns;       /* the silence in progress; 0: it answers */
	bool reported;           /* that one */
	unsigned n;              /* silences so far, with it */
	uint64_t first_ns, last_ns; /* when the first began, when the last was over */
	uint64_t sum_ns, longest_ns; /* of those that are over */
	uint64_t due_ns, missed_ns;  /* when a sleeper was to wake up; first seen asleep after that */
};

/* Since when a source that sleeps until due_ns (0: it does not sleep) has failed to wake up; 0: it
 * is not due. Its helper is frozen, say. Counted from the first sight of it: a machine that slept,
 * or a recorder that was stopped with its helper, is no silence. */
uint64_t gpu_watchdog_overslept(struct gpu_watchdog *w, uint64_t due_ns, uint64_t now_ns);

/* The source has been waited for since call_ns (0: it is not), in that driver call or for that
 * reason ("": unknown). True: report text. */
bool gpu_watchdog_check(struct gpu_watchdog *w, const char *call, uint64_t call_ns, uint64_t now_ns,
	char text[GPU_REPORT]);

/* A silence in progress is over: the helper that was in the call is gone. */
void gpu_watchdog_end(struct gpu_watchdog *w, uint64_t now_ns);

/* The same as check at the end of the run, where 1 s is a silence: nobody will see the call return.
 * Returns how many texts to report. */
unsigned gpu_watchdog_finish(struct gpu_watchdog *w, const char *call, uint64_t call_ns, uint64_t now_ns,
	char texts[2][GPU_REPORT]);

/* "1:02" into a run that began at start_ns. */
const char *gpu_run_time(uint64_t start_ns, uint64_t at_ns, char text[GPU_RUN_TIME]);

/* "nvmlDeviceGetUUID of GPU 1"; "" if the call is unknown, or none is in progress. */
const char *gpu_call_name(const struct source_ops *ops, const struct source_asked *call, char text[GPU_CALL]);

/* Is a process that was killed gone or exiting, rather than stuck in a driver? To give back what a
 * driver mapped takes a while. */
bool gpu_is_exiting(const struct root *root, pid_t pid);
