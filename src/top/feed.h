/* SPDX-License-Identifier: MIT
 *
 * The source of frames: an own recorder that writes no file (for the machine, or for a process and
 * its descendants), or a recording, growing or finished. All frames go to the model.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stdint.h>

#include "top/model.h"

enum feed_kind {
	FEED_MACHINE,
	FEED_PROCESS,
	FEED_FOLLOW,      /* a growing recording */
	FEED_REPLAY
};

struct feed {
	enum feed_kind kind;
	struct model *model;
	struct hiw_recorder *recorder;
	struct hiw_run *run;       /* owned if of a file; borrowed from the recorder */
	struct hiw_player *player;
	struct hiw_about about;
	const char *path;          /* of the recording; NULL: none */
	char title[256];           /* name or command, cleaned */
	int timer;                 /* timerfd of a recording; -1: none */
	uint64_t interval_ns;      /* between two samples; of a replay: one step */
	uint64_t least_ns;         /* the shortest interval */
	bool is_folder;            /* path is a folder of a job's recordings: it is merged again to follow it */
	bool over;                 /* the job has ended */
	/* replay */
	uint64_t cursor_ns, end_ns;
	uint64_t moved_ns;         /* last move of the cursor, CLOCK_BOOTTIME */
	unsigned speed;            /* times real time */
	bool paused;
};

/* Open a feed on a process (pid 0: the machine), or on a recording: FEED_FOLLOW if it is growing,
 * else FEED_REPLAY, which begins at from_ns. Return 0, or -errno with text. */
int feed_open_recorder(
	struct feed *f, struct model *m, pid_t pid, uint64_t interval_ns, bool gpus, struct hiw_err *err);
int feed_open_file(struct feed *f, struct model *m, const char *path, uint64_t from_ns, struct hiw_err *err);
void feed_close(struct feed *f); /* of a feed that was opened */

/* A descriptor that is readable when feed_step() has work. */
int feed_fd(const struct feed *f);
/* Returns 1: new data, 0: none, or -errno with text. */
int feed_step(struct feed *f, struct hiw_err *err);

/* Changes the interval. Returns 0 or -errno. */
int feed_set_interval(struct feed *f, uint64_t interval_ns);

/* Replay: moves to a time; plays the span_ns before it, too, for the charts. Returns 0, or -errno
 * with text. */
int feed_go(struct feed *f, uint64_t time_ns, uint64_t span_ns, struct hiw_err *err);
void feed_pause(struct feed *f, bool paused);
