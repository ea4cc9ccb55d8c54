/* SPDX-License-Identifier: MIT
 *
 * A sampler, a receiver of its frames, and real children to measure.
 */
#pragma once

#include "tree_helper.h"

#include <dirent.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>

#include "children.h"
#include "sample/sampler_internal.h"

#define MS UINT64_C(1000000)

struct rig {
	struct root root;
	struct sampler_options options;
	struct sampler *s;
	/* received frames */
	uint64_t last_ns;
	size_t n_frames, n_births, n_left, n_gaps, n_rss, n_mem_used;
	int64_t gap_ns;
	char gap_cause[16];
	pid_t born[64];
	uint32_t left_id;
	bool went_back;
};

static inline void see(void *ctx, const struct frame *frame)
{
	struct rig *r = ctx;

	r->went_back |= frame->time_ns < r->last_ns;
	r->last_ns = frame->time_ns;
	r->n_frames++;
	for (size_t i = 0; i < frame->n_births; i++) {
		if (r->n_births < sizeof(r->born) / sizeof(r->born[0]))
			r->born[r->n_births] = frame->births[i].process.pid;
		r->n_births++;
	}
	for (size_t i = 0; i < frame->n_ends; i++) {
		if (frame->ends[i].how == END_LEFT) {
			r->n_left++;
			r->left_id = frame->ends[i].id;
		}
	}
	for (size_t i = 0; i < frame->n_events; i++) {
		if (frame->events[i].kind == EVENT_GAP) {
			r->n_gaps++;
			r->gap_ns = frame->events[i].value_ns;
			(void) snprintf(r->gap_cause, sizeof(r->gap_cause), "%s", frame->events[i].text);
		}
	}
	for (size_t i = 0; i < frame->n_readings; i++) {
		r->n_rss += frame->readings[i].metric == M_PROC_RSS;
		r->n_mem_used += frame->readings[i].metric == M_HOST_MEM_USED;
	}
}

/* Options that keep to the job's own processes; path NULL: this machine. */
static inline void rig_prepare(struct rig *r, const char *path, uint64_t interval_ns, bool ours)
{
	*r = (struct rig) { 0 };
	assert_int_equal(root_open(path, &r->root, NULL), 0);
	r->options = (struct sampler_options) {
		.root = &r->root,
		.interval_ns = interval_ns,
		.window_ns = 1000 * MS,
		.ours = ours,
		.cgroup = CGROUP_NONE,
		.gpu = GPU_NONE,
		.see = see,
		.see_ctx = r,
	};
	if (r->options.window_ns < interval_ns)
		r->options.window_ns = interval_ns;
}

static inline void rig_make(struct rig *r)
{
	struct err err = { "" };

	assert_int_equal(sampler_new(&r->options, &r->s, &err), 0);
}

static inline void rig_start(struct rig *r, pid_t main)
{
	struct err err = { "" };

	if (sampler_start(r->s, main, &err) < 0)
		fail_msg("%s", err.text);
}

static inline void rig_done(struct rig *r)
{
	assert_false(r->went_back);
	sampler_free(r->s);
	root_done(&r->root);
}

static inline const struct facts *facts_of(const struct rig *r)
{
	return job_facts_const(sampler_job(r->s));
}

/* Takes n samples, each when it is due. */
static inline void steps(struct rig *r, unsigned n)
{
	struct pollfd fd = { .fd = sampler_fd(r->s), .events = POLLIN };

	for (; n > 0; n--) {
		assert_int_equal(poll(&fd, 1, 60000), 1);
		sampler_step(r->s);
	}
}

static inline void wait_for(uint64_t ns)
{
	const struct timespec time = { (time_t) (ns / (1000 * MS)), (long) (ns % (1000 * MS)) };

	assert_int_equal(nanosleep(&time, NULL), 0);
}

static inline bool was_born(const struct rig *r, pid_t pid)
{
	for (size_t i = 0; i < r->n_births && i < sizeof(r->born) / sizeof(r->born[0]); i++) {
		if (r->born[i] == pid)
			return true;
	}
	return false;
}

static inline void just_wait(const struct child *c, void *arg)
{
	(void) arg;
	child_done(c, 0);
	child_wait(c);
}

static inline struct child waiting_child(void)
{
	struct child c = child_start(just_wait, NULL);

	(void) child_take(&c);
	return c;
}

/* As the command does when the main process is a zombie. */
static inline void reap_main(struct rig *r, pid_t pid)
{
	struct end end = { .entity = ENTITY_PROCESS, .how = END_REAPED, .status_known = true };

	zombie_wait(pid);
	sampler_zombie(r->s, pid);
	assert_int_equal(waitpid(pid, &end.status, 0), pid);
	sampler_reaped(r->s, pid, &end);
}

static inline unsigned open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void) closedir(dir);
	return n;
}
