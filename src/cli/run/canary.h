/* SPDX-License-Identifier: MIT
 *
 * A canary: a child that stays in the process group and does nothing, with every signal blocked. What waits for it was
 * sent to the whole group. It dies with hiwater.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct canary {
	pid_t pid;      /* 0: none */
	uint64_t stale; /* signals that waited for it before it was asked for the first time: they tell nothing any more */
};

/* To be called with all signals blocked. On failure there is none: every question is then answered with "no". */
void canary_make(struct canary *c);
/* Tells it to go and does not wait: canary_end() does. */
void canary_dismiss(const struct canary *c);
void canary_end(struct canary *c);

/* Signals that wait for it, bit n - 1 for signal n; 0 without one. */
uint64_t canary_pending(const struct canary *c);
