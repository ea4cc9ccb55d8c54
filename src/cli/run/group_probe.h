/* SPDX-License-Identifier: MIT
 *
 * A group probe: a child that stays in hiwater's process group and does nothing, with every signal
 * blocked. A signal that is pending for it was sent to the whole group. It is killed when hiwater
 * ends (PR_SET_PDEATHSIG).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct group_probe {
	pid_t pid;      /* 0: none */
	uint64_t stale; /* signals already pending before the first check, which prove nothing about later
	                 * ones */
};

/* Starts a probe. Call it with all signals blocked. On failure pid is 0, and group_probe_pending
 * reports no signals. */
void group_probe_start(struct group_probe *p);
/* Kills the probe without waiting for its end: group_probe_end() does. */
void group_probe_kill(const struct group_probe *p);
/* Kills and reaps the probe. */
void group_probe_end(struct group_probe *p);

/* The signals that are pending for the probe, bit n - 1 for signal n; 0 if there is no probe. */
uint64_t group_probe_pending(const struct group_probe *p);
