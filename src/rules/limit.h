/* SPDX-License-Identifier: MIT
 *
 * Limits: "ram = 24GiB", "time = 2h", "gpu.mem = 8GiB". At LIMIT_NEAR_PCT of one there is a warning; when it is reached,
 * somebody is to be told to end, and after the grace to be killed: the job, or for what belongs to a process or a GPU
 * the process, or the member that holds most of that GPU's memory. What it takes to do so is the owner's.
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
	LIMIT_SILENT, /* tell nobody: what is reached need not be near, and is told to be over once it is not near either */
};

/* Who was told to end and is killed if it does not. */
struct limit_pending {
	int32_t pid;         /* 0: the whole job */
	uint64_t kill_ns;
	size_t limit;
};

struct limits {
	uint64_t grace_ns;
	bool cut;                     /* nobody is given the rest of the grace */
	size_t n, n_pending;
	struct {
		size_t near, reached; /* their rules in the watch */
		char text[RULE_TEXT];
	} limit[LIMITS_MOST];
	struct limit_pending pending[LIMITS_PENDING];
};

/* Adds a limit to both. Returns 0; -EINVAL, -E2BIG with text; or -ENOMEM. */
int limits_add(struct limits *l, struct watch *w, const char *text, struct err *err);

/* Looks at an alert of the watch: says what is to be done (alert->pid is to whom, 0: the whole job) and puts that into
 * its text. */
enum limit_act limits_take(struct limits *l, const struct watch *w, struct alert *alert);

/* Forgets processes that were told to end and are gone. Before limits_due, behind a look. */
void limits_settle(struct limits *l, const struct job *job);

/* May anybody live who was told to end? Of the whole job the last look does not know: it may be between two generations. */
bool limits_wait(const struct limits *l, const struct job *job);

/* The grace of everybody who was told to end is over now. */
void limits_cut(struct limits *l);

/* What an alert of a limit says while it is done, as it is told afterwards. */
void limit_in_the_past(const char *why, char *ret, size_t size);

/* Whose grace is over: true with an alert to be told like the others, once each. */
bool limits_due(struct limits *l, uint64_t now_ns, struct alert *ret);
