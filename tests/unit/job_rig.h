/* SPDX-License-Identifier: MIT
 *
 * A job driven by hand: each test sets the kernel's values, sample by sample, and therefore knows
 * the result.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "job/job.h"
#include "summary/summary.h"

#define KB        INT64_C(1024)
#define MB        INT64_C(1048576)
#define MS        UINT64_C(1000000)
#define PAGE      INT64_C(4096)
#define FILL      (300 * MB / PAGE) /* faults that map 300 MB in small pages */
#define HUGE_PAGE (2 * MB)
#define BOOT      UINT64_C(5000000000000) /* the run's start, since boot */

struct rig {
	struct job *job;
	struct framebuf buf, totals;
	uint64_t now;
	/* Receives every frame, if set. */
	void (*see)(void *ctx, const struct frame *frame);
	void *ctx;
};

static inline void rig_new(struct rig *r, bool ours, int64_t huge)
{
	const struct job_config config = {
		.page_bytes = PAGE,
		.fault_page_bytes = PAGE,
		.huge_page_bytes = (uint64_t) huge,
		.ours = ours,
	};

	*r = (struct rig) { .job = job_new(&config) };
	assert_non_null(r->job);
	job_facts(r->job)->started_boot_ns = known((int64_t) BOOT);
}

static inline void rig_done(struct rig *r)
{
	framebuf_done(&r->buf);
	framebuf_done(&r->totals);
	job_free(r->job);
}

/* ---- a rig for each test: *state, done with whatever becomes of the test --------------------- */

struct rig_kind {
	bool ours;
	int64_t huge;
};

static inline int rig_setup(void **state)
{
	const struct rig_kind *kind = *state;
	struct rig *r = malloc(sizeof(*r));

	assert_non_null(r);
	rig_new(r, kind->ours, kind->huge);
	*state = r;
	return 0;
}

static inline int rig_teardown(void **state)
{
	rig_done(*state);
	free(*state);
	return 0;
}

#define RIG_TEST_OF(name, ours, huge) \
	cmocka_unit_test_prestate_setup_teardown( \
		name, rig_setup, rig_teardown, (&(struct rig_kind) { ours, huge }))
#define RIG_TEST(name)          RIG_TEST_OF(name, true, 0)
#define ATTACHED_RIG_TEST(name) RIG_TEST_OF(name, false, 0)
#define HUGE_RIG_TEST(name)     RIG_TEST_OF(name, true, HUGE_PAGE)

/* ---- what is said ---------------------------------------------------------------------------- */

/* Applies the values so far as one frame. */
static inline void push_as(struct rig *r, struct framebuf *buf, enum frame_source source)
{
	const struct frame frame = framebuf_frame(buf, source, r->now, 300 * MS);

	assert_int_equal(buf->error, 0);
	if (!framebuf_is_empty(buf)) {
		assert_int_equal(job_apply(r->job, &frame), 0);
		if (r->see)
			r->see(r->ctx, &frame);
	}
	framebuf_clear(buf);
}

static inline void push(struct rig *r)
{
	push_as(r, &r->buf, FRAME_PROCFS);
}

static inline void total(struct rig *r)
{
	push(r);
	job_total(r->job, r->now, &r->totals);
	push_as(r, &r->totals, FRAME_TOTALS);
}

static inline void tick(struct rig *r)
{
	total(r);
	r->now += 100 * MS;
}

static inline void finish(struct rig *r)
{
	push(r);
	if (!job_facts(r->job)->ended_ns.known)
		job_facts(r->job)->ended_ns = known((int64_t) r->now);
	job_end(r->job, r->now, &r->totals);
	push_as(r, &r->totals, FRAME_TOTALS);
}

/* A process with its own stack unless set otherwise; it starts now. */
static inline void born_as(
	struct rig *r, const char *name, uint32_t id, uint32_t parent, uint64_t startstack, uint64_t start_ns)
{
	struct birth b = { .entity = ENTITY_PROCESS, .id = id };

	b.process = (struct process_birth) {
		.pid = (int32_t) (1000 + id),
		.ppid = (int32_t) (1000 + parent),
		.parent = parent,
		.uid = 7,
		.start_ns = start_ns,
		.startstack = startstack,
		.name = name,
		.command = "a b c",
		.is_main = id == 1,
	};
	framebuf_birth(&r->buf, &b);
}

static inline void born_of(
	struct rig *r, uint32_t id, uint32_t parent, uint64_t startstack, uint64_t start_ns)
{
	char name[16];

	(void) snprintf(name, sizeof(name), "p%u", id);
	born_as(r, name, id, parent, startstack, start_ns);
}

static inline void born(struct rig *r, uint32_t id, uint32_t parent, uint64_t startstack)
{
	born_of(r, id, parent, startstack, BOOT + r->now);
}

static inline void rss(struct rig *r, uint32_t id, int64_t anon, int64_t file)
{
	framebuf_value(&r->buf, M_PROC_RSS, id, anon + file);
	framebuf_value(&r->buf, M_PROC_RSS_FILE, id, file);
}

static inline void say(struct rig *r, enum metric metric, uint32_t id, int64_t value)
{
	framebuf_value(&r->buf, metric, id, value);
}

/* Faults come in a frame after the memory. */
static inline void faults(struct rig *r, uint32_t id, int64_t minor)
{
	say(r, M_PROC_FAULTS_MINOR, id, minor);
	say(r, M_PROC_FAULTS_MAJOR, id, 0);
}

static inline void huge_pages(struct rig *r, int64_t count)
{
	push(r);
	say(r, M_HOST_THP_FAULTS, 0, count);
	push_as(r, &r->buf, FRAME_HOST);
}

static inline void gone(struct rig *r, uint32_t id)
{
	framebuf_end(&r->buf, &(struct end) { .entity = ENTITY_PROCESS, .id = id, .how = END_SEEN });
}

/* The amount that the machine has read back from swap since it booted. */
static inline void swapped_in(struct rig *r, int64_t bytes)
{
	push(r);
	say(r, M_HOST_SWAP_IN, 0, bytes);
	push_as(r, &r->buf, FRAME_HOST);
}

/* An exit record has its high-water mark and its own use. */
static inline void ended_with(struct rig *r, uint32_t id, int64_t hwm)
{
	framebuf_end(&r->buf,
		&(struct end) {
			.entity = ENTITY_PROCESS, .id = id, .how = END_TASKSTATS, .hwm_bytes = known(hwm) });
}

static inline void ended_with_faults(struct rig *r, uint32_t id, int64_t hwm, int64_t minor)
{
	framebuf_end(&r->buf, &(struct end) {
				      .entity = ENTITY_PROCESS,
				      .id = id,
				      .how = END_TASKSTATS,
				      .hwm_bytes = known(hwm),
				      .faults_minor = known(minor),
			      });
}

static inline void left(struct rig *r, uint32_t id)
{
	framebuf_end(&r->buf, &(struct end) { .entity = ENTITY_PROCESS, .id = id, .how = END_LEFT });
}

/* A main process of 11 MB, sampled once. */
static inline void main_starts(struct rig *r)
{
	job_facts(r->job)->fork_rss_bytes = known(4 * MB);
	job_facts(r->job)->rss_error_bytes = known(0);
	born(r, 1, 0, 77);
	rss(r, 1, 10 * MB, MB);
	tick(r);
}

/* The main process is reaped, as reported by the sampler. cminflt < 0: its zombie was not read. */
static inline void main_reaped(
	struct rig *r, int64_t maxrss, int64_t cminflt, int64_t user_ns, int64_t system_ns)
{
	struct facts *f = job_facts(r->job);

	if (cminflt >= 0)
		f->main_zombie_cminflt = known(cminflt);
	f->main_maxrss_bytes = known(maxrss);
	f->exit_status = known(0);
	f->ended_ns = known((int64_t) r->now);
	f->reaped_user_ns = known(f->reaped_user_ns.value + user_ns);
	f->reaped_system_ns = known(f->reaped_system_ns.value + system_ns);
	framebuf_end(&r->buf, &(struct end) {
				      .entity = ENTITY_PROCESS,
				      .id = 1,
				      .how = END_REAPED,
				      .status_known = true,
				      .maxrss_bytes = known(maxrss),
				      .cpu_user_ns = known(user_ns),
				      .cpu_system_ns = known(system_ns),
			      });
	push(r);
}

static inline struct summary summary_of(struct rig *r)
{
	struct summary s;

	assert_int_equal(summary_make(r->job, &s), 0);
	return s;
}

static inline int64_t most(const struct rig *r, enum metric metric)
{
	const struct acc *acc = job_acc(r->job, metric, 0);

	assert_non_null(acc);
	return acc->max;
}

static inline int64_t last(const struct rig *r, enum metric metric)
{
	const struct acc *acc = job_acc(r->job, metric, 0);

	assert_non_null(acc);
	return acc->last;
}

#define assert_within(value, low, high) \
	do { \
		int64_t value_ = (value); \
		if (value_ < (low) || value_ > (high)) \
			print_error("%s is %lld: not within %lld and %lld\n", #value, (long long) value_, \
				(long long) (low), (long long) (high)); \
		assert_true(value_ >= (low) && value_ <= (high)); \
	} while (0)
