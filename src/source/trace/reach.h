/* SPDX-License-Identifier: MIT
 *
 * Processes of a traced job that the trace cannot reach: their environment says nothing of it (env -i, sudo, a
 * daemon that starts them), so that they load no library that writes events. They are counted, and some are named.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/root.h"

/* Was pid started with an environment in which the trace is not mentioned? False where that cannot be read. */
bool trace_is_out_of_reach(const struct root *root, pid_t pid);

enum {
	TRACE_REACH_NAMED = 3,
};

/* The note about the n-th of them; its text is "" if there is nothing more to say about it. */
void trace_reach_note(unsigned n, pid_t pid, const char *name, char *ret, size_t size);
/* The note at the end, if there were more than were named. */
void trace_reach_sum(unsigned n, char *ret, size_t size);
