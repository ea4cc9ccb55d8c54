/* SPDX-License-Identifier: MIT
 *
 * Which process writes a recording, so that a reader can tell whether it still does: pid, its start time, and the boot
 * in which both mean something.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct recorder_id {
	int64_t pid;
	uint64_t start_ticks; /* procfs stat field 22 */
	char boot[40];        /* sys/kernel/random/boot_id */
};

/* This process. Returns 0 or -errno. */
int recorder_id_self(struct recorder_id *ret);

/* True if that process lives, on this machine, since this boot. */
bool recorder_id_lives(const struct recorder_id *id);
