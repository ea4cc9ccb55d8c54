/* SPDX-License-Identifier: MIT
 *
 * Reading a recording, finished, growing, or cut off: as a job (from the stored accumulators) and as frames.
 * Threads: one at a time a struct.
 */
#pragma once

#include "base/err.h"
#include "job/job.h"
#include "model/frame.h"

struct replay;

/* Opens path read-only. Returns 0, -ENOENT, -EBADMSG (no recording of ours, or damaged: text says what), or -errno. */
int replay_open(const char *path, struct replay **ret, struct err *err);
void replay_close(struct replay *r);

/* The job as of the last commit: facts, accumulators, processes, phases, events, series; no frame has to be read. */
int replay_job(struct replay *r, struct job **ret, struct err *err);

/* The whole run as frames in the order of time: births, folded windows, ends, events, series. recent: the last minutes
 * at full rate in place of their windows. see returns false to stop. Bounded memory however long the run.
 * Returns 0 or -errno with text. */
int replay_frames(struct replay *r, bool recent, bool (*see)(void *ctx, const struct frame *frame), void *ctx, struct err *err);

/* The same with the readings of the metrics that are wanted alone, which takes less time. */
int replay_frames_of(struct replay *r, bool recent, const bool wanted[METRIC_COUNT],
	bool (*see)(void *ctx, const struct frame *frame), void *ctx, struct err *err);

/* The same in stretches. Between two calls nothing of the file is held, so it may grow meanwhile; r is borrowed. */
struct player;
int player_new(struct replay *r, bool (*see)(void *ctx, const struct frame *frame), void *ctx, struct player **ret);
void player_free(struct player *p);
/* What was not shown yet, up to until_ns, as of the last commit. Returns 0 or -errno with text. */
int player_to(struct player *p, uint64_t until_ns, struct err *err);
/* Goes on from from_ns, forwards or back: who lives then is born anew, processes with what they held by their last row.
 * Returns likewise. */
int player_seek(struct player *p, uint64_t from_ns, struct err *err);

/* One instant: held is called with what each process that lived then held by its last row, level with what the job held
 * from the run's start until then: RAM, or memory of GPUs (then held comes once a GPU and process). Returns 0 or -ENOMEM. */
struct replay_seer {
	void (*held)(void *ctx, uint32_t id, int64_t bytes);
	void (*level)(void *ctx, uint64_t time_ns, int64_t bytes);
	void *ctx;
};

int replay_moment(struct replay *r, uint64_t at_ns, bool on_gpu, const struct replay_seer *see);

/* True while its recorder lives (its lock or pid and start time). */
bool replay_growing(struct replay *r);

/* One file without a -wal beside it, readable anywhere. */
int replay_copy(struct replay *r, const char *path, struct err *err);
