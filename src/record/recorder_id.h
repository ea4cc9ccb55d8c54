/* SPDX-License-Identifier: MIT
 *
 * The identity of the process that writes a recording, from which a reader decides whether it is
 * still running: pid, start time, and the boot in which both are valid.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct recorder_id {
	int64_t pid;
	uint64_t start_ticks; /* procfs stat field 22 */
	char boot[40];        /* sys/kernel/random/boot_id */
};

/* Fills in the calling process. Returns 0 or -errno. */
int recorder_id_self(struct recorder_id *ret);

/* True if the process is still running: on this machine, in this boot. Zombies do not count. */
bool recorder_id_lives(const struct recorder_id *id);
