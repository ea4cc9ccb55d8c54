/* SPDX-License-Identifier: MIT
 *
 * Reads a recording, finished, growing or cut off: as a job (from the stored accumulators) and as
 * frames. Each struct may be used by one thread at a time.
 */
#pragma once

#include "base/err.h"
#include "job/job.h"
#include "model/frame.h"

struct replay;

/* Opens path read-only. Returns 0, -ENOENT, -EBADMSG (not a hiwater recording, or damaged), or
 * -errno; err has a text. */
int replay_open(const char *path, struct replay **ret, struct err *err);
void replay_close(struct replay *r);

/* The job as of the last commit: facts, accumulators, processes, phases, events, series. Does
 * not read frames. */
int replay_job(struct replay *r, struct job **ret, struct err *err);

/* Of a merged job: reads the memory of each part in so many equal spans (parts.h, rank_ram). Returns 0 or -ENOMEM. */
int replay_rank_ram(struct replay *r, struct job *job, size_t spans);

/* The whole run as frames in the order of time: births, windows, ends, events, series. recent:
 * the last minutes at full rate instead of their windows. see returns false to stop. Memory use
 * does not depend on the run's length. Returns 0 or -errno with text. */
int replay_frames(struct replay *r, bool recent, bool (*see)(void *ctx, const struct frame *frame), void *ctx,
	struct err *err);

/* The same with only the values of the wanted metrics, which takes less time. */
int replay_frames_of(struct replay *r, bool recent, const bool wanted[METRIC_COUNT],
	bool (*see)(void *ctx, const struct frame *frame), void *ctx, struct err *err);

/* The same in stretches. The file is not locked between two calls, so it may grow meanwhile; r
 * is borrowed. */
struct player;
int player_new(
	struct replay *r, bool (*see)(void *ctx, const struct frame *frame), void *ctx, struct player **ret);
void player_free(struct player *p);
/* Emits all frames that were not shown yet, up to until_ns, as of the last commit. Returns 0 or
 * -errno with text. */
int player_to(struct player *p, uint64_t until_ns, struct err *err);
/* Continues from from_ns, forwards or backwards: entities alive then get births again, processes
 * with the values of their last row. Returns 0 or -errno with text. */
int player_seek(struct player *p, uint64_t from_ns, struct err *err);

/* One instant: held is called with the bytes that each process alive then used according to its
 * last row, level with the job's bytes from the run's start until then: RAM, or GPU memory (then
 * held is called once per GPU and process); of_limit: with what cannot be freed in the cgroup whose
 * limit applies. Returns 0 or -ENOMEM. */
struct replay_frame_fn {
	void (*held)(void *ctx, uint32_t id, int64_t bytes);
	void (*level)(void *ctx, uint64_t time_ns, int64_t bytes);
	void *ctx;
};

int replay_moment(struct replay *r, uint64_t at_ns, bool on_gpu, bool of_limit,
	const struct replay_frame_fn *see);

/* True while its recorder is running (pid and start time). */
bool replay_growing(struct replay *r);

/* Copies the recording to one file without a -wal, readable anywhere. */
int replay_copy(struct replay *r, const char *path, struct err *err);
