/* SPDX-License-Identifier: MIT
 *
 * Limits: "ram = 24GiB", "time = 2h", "gpu.mem = 8GiB". Each is two rules of the watch. At
 * LIMIT_NEAR_PCT percent of a limit there is a warning. When the limit is reached, its target is
 * sent SIGTERM and, after the grace, SIGKILL: the whole job; of a limit on processes the process;
 * of a limit on a GPU the process of the job that uses the most of its memory. This module decides;
 * the caller sends the signals.
 *
 * Threads: one at a time.
 */
#pragma once

#include "job/job.h"
#include "rules/engine.h"

enum {
	LIMITS_MOST = 8,
	LIMITS_PENDING = 16,
	LIMIT_NEAR_PCT = 90
};

enum limit_act {
	LIMIT_NOTHING,
	LIMIT_END,    /* send SIGTERM */
	LIMIT_KILL,   /* send SIGKILL */
	/* report nothing: a limit that is reached is not reported as near, nor as cleared while it
	 * is near */
	LIMIT_SILENT,
};

/* A target that was sent SIGTERM and is sent SIGKILL at kill_ns. */
struct limit_pending {
	int32_t pid;         /* 0: the whole job */
	uint64_t kill_ns;
	size_t limit;
};

struct limits {
	uint64_t grace_ns;
	bool cut;                     /* the rest of the grace is cancelled */
	size_t n, n_pending;
	struct {
		size_t near, reached; /* their rules in the watch */
		char text[RULE_TEXT];
	} limit[LIMITS_MOST];
	struct limit_pending pending[LIMITS_PENDING];
};

/* Adds a limit to l and its two rules to w. Returns 0; -EINVAL, -E2BIG with text; or -ENOMEM. */
int limits_add(struct limits *l, struct watch *w, const char *text, struct err *err);

/* Decides on an alert of the watch. Returns the action, which is appended to alert->text, too; its
 * target is alert->pid (0: the whole job). */
enum limit_act limits_apply(struct limits *l, const struct watch *w, struct alert *alert);

/* Removes pending processes that have ended. Call it after a sample, before limits_due(). */
void limits_settle(struct limits *l, const struct job *job);

/* May a target be alive that was sent SIGTERM? For the whole job true: the last sample may lie
 * between two generations. */
bool limits_wait(const struct limits *l, const struct job *job);

/* Ends the grace of all pending targets now. */
void limits_cut(struct limits *l);

/* Writes the text of a limit's alert in the past tense, for the time after its action. */
void limit_in_the_past(const char *why, char *ret, size_t size);

/* True with an alert (action: LIMIT_KILL) if the grace of a target is over; each is returned
 * once. */
bool limits_due(struct limits *l, uint64_t now_ns, struct alert *ret);
