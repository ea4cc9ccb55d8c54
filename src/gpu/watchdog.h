/* SPDX-License-Identifier: MIT
 *
 * Detects drivers that do not answer, and words the notes about them: since when, in which call. A
 * silence is a call of more than 5 s. It is reported when it begins and when it ends; of several,
 * only those longer than all before, and their number at the end of the run. Also here: whether a
 * killed process is stuck or still exiting.
 *
 * Instants are nanoseconds of CLOCK_BOOTTIME, passed in, so that tests need not wait. No I/O,
 * except in gpu_is_exiting.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/units.h"
#include "source/source.h"

enum {
	GPU_REPORT = 192,
	GPU_RUN_TIME = UNITS_LEN,
	GPU_CALL = 80,
};

/* State of one source. label and start_ns (of the run) are set by its owner, the rest starts as
 * 0. */
struct gpu_watchdog {
	const char *label;
	uint64_t start_ns;
	uint64_t since_ns;       /* start of the silence in progress; 0: it answers */
	bool reported;           /* the silence in progress was */
	unsigned n;              /* silences so far, including this one */
	uint64_t first_ns, last_ns; /* start of the first, end of the last */
	uint64_t sum_ns, longest_ns; /* of the ended ones */
	uint64_t due_ns, missed_ns;  /* planned wake-up; first check after it */
};

/* Since when a source that sleeps until due_ns (0: it does not sleep) has been overdue, because its
 * helper is frozen, for example; 0: it is not overdue. Counted from the first check after due_ns: a
 * suspended machine, or a recorder stopped together with its helper, is not a silence. */
uint64_t gpu_watchdog_overslept(struct gpu_watchdog *w, uint64_t due_ns, uint64_t now_ns);

/* The source has been waited for since call_ns (0: it is not), in that driver call or for that
 * reason ("": unknown). True: text is to be reported. */
bool gpu_watchdog_check(struct gpu_watchdog *w, const char *call, uint64_t call_ns, uint64_t now_ns,
	char text[GPU_REPORT]);

/* Ends the silence in progress: the helper that was in the call has ended. */
void gpu_watchdog_end(struct gpu_watchdog *w, uint64_t now_ns);

/* Like gpu_watchdog_check, at the end of the run, where 1 s counts as a silence, since the call's
 * return will not be seen. Returns the number of texts to report. */
unsigned gpu_watchdog_finish(struct gpu_watchdog *w, const char *call, uint64_t call_ns, uint64_t now_ns,
	char texts[2][GPU_REPORT]);

/* "62 s" into a run that began at start_ns: whole seconds. */
const char *gpu_run_time(uint64_t start_ns, uint64_t at_ns, char text[GPU_RUN_TIME]);

/* "nvmlDeviceGetUUID of GPU 1"; "" if the call is unknown or none is in progress. */
const char *gpu_call_name(
	const struct source_ops *ops, const struct driver_call_trace *call, char text[GPU_CALL]);

/* Is a killed process gone or exiting, rather than stuck in a driver? Releasing a driver's mappings
 * takes a while. */
bool gpu_is_exiting(const struct root *root, pid_t pid);
