/* SPDX-License-Identifier: MIT
 *
 * Where frames come from: a recorder of our own that writes no file (the machine, a process and what it started), or a
 * recording, growing or finished. Whichever it is, the model is shown them.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stdint.h>

#include "top/model.h"

enum feed_kind {
	FEED_MACHINE,
	FEED_PROCESS,
	FEED_FOLLOW,      /* a recording that grows */
	FEED_REPLAY
};

struct feed {
	enum feed_kind kind;
	struct model *model;
	struct hiw_recorder *recorder;
	struct hiw_run *run;       /* of a file; of a recorder: borrowed */
	struct hiw_player *player;
	struct hiw_about about;
	const char *path;          /* of the recording; NULL: there is none */
	char title[256];           /* the command; harmless */
	int timer;                 /* of a recording; -1: none */
	uint64_t interval_ns;      /* between two looks; of a replay: a step */
	uint64_t least_ns;         /* it cannot be shorter */
	bool over;                 /* the job has ended */
	/* replay */
	uint64_t cursor_ns, end_ns;
	uint64_t moved_ns;         /* when the cursor was moved last, by the clock */
	unsigned speed;            /* so many times as fast as it was */
	bool paused;
};

/* pid: FEED_PROCESS. path: FEED_FOLLOW, which becomes FEED_REPLAY where nobody writes it any more; from_ns: where a replay
 * begins. Returns 0, or -errno with text. */
int feed_open_recorder(struct feed *f, struct model *m, pid_t pid, uint64_t interval_ns, bool gpus, struct hiw_err *err);
int feed_open_file(struct feed *f, struct model *m, const char *path, uint64_t from_ns, struct hiw_err *err);
void feed_close(struct feed *f);

/* A descriptor that is readable when feed_step has something to do. */
int feed_fd(const struct feed *f);
/* Returns 1: something is new, 0: nothing is, or -errno with text. */
int feed_step(struct feed *f, struct hiw_err *err);

/* Another interval. Returns 0 or -errno. */
int feed_pace(struct feed *f, uint64_t interval_ns);

/* Replay: goes to a time (what charts show of the time before it, span_ns, is played too); forwards or back by steps. */
int feed_go(struct feed *f, uint64_t time_ns, uint64_t span_ns, struct hiw_err *err);
void feed_pause(struct feed *f, bool paused);
