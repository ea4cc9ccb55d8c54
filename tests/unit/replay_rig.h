/* SPDX-License-Identifier: MIT
 *
 * Runs that are recorded and read back.
 */
#pragma once

#include "record_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "writer_rig.h"

static inline struct replay *open_replay(const char *file)
{
	struct replay *r = NULL;
	struct err err = { "" };

	if (replay_open(file, &r, &err) < 0)
		fail_msg("%s", err.text);
	return r;
}

static inline struct job *read_job(const char *file)
{
	struct replay *r = open_replay(file);
	struct job *job = NULL;
	struct err err = { "" };

	if (replay_job(r, &job, &err) < 0)
		fail_msg("%s", err.text);
	replay_close(r);
	return job;
}

static inline void say(struct sim *s, uint64_t k)
{
	const uint64_t now = sim_time(s, k);

	if (k % 20 == 5)
		framebuf_event(&s->buf,
			&(struct event) { .time_ns = now,
				.kind = EVENT_PHASE_BEGIN,
				.entity = ENTITY_JOB,
				.phase = 1 + (uint32_t) k / 20,
				.text = "epoch" });
	if (k % 20 == 15)
		framebuf_event(&s->buf,
			&(struct event) { .time_ns = now,
				.kind = EVENT_PHASE_END,
				.entity = ENTITY_JOB,
				.phase = 1 + (uint32_t) k / 20,
				.text = "" });
	if (k % 7 == 0)
		framebuf_event(&s->buf,
			&(struct event) {
				.time_ns = now, .kind = EVENT_MARK, .entity = ENTITY_JOB, .text = "m" });
	framebuf_series(&s->buf,
		&(struct series_value) {
			"loss", k == 9 ? (double) NAN : 1.0 / (double) (k + 1), true, (int64_t) k });
	sim_send(s, FRAME_USER, now, 0);
}

static inline void run_with_words(const char *file, struct sim *s, uint64_t ticks)
{
	struct record *r = rig_record(&(struct record_options) { .path = file, .queue_bytes = 1 << 28 });

	sim_into(s, r);
	for (uint64_t k = 0; k < ticks; k++) {
		say(s, k);
		sim_tick(s);
	}
	sim_end(s);
	rig_finish(r, s->job);
}
