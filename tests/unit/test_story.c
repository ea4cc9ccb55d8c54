/* SPDX-License-Identifier: MIT
 *
 * The story of a moment made by hand.
 */
#include "findings_rig.h"

#include <math.h>

#include "watch/story.h"

static void made_event(struct made *m, enum event_kind kind, double at_s, uint32_t id, const char *text)
{
	const struct event e = {
		.time_ns = (uint64_t) SECONDS(at_s),
		.kind = kind,
		.entity = id ? ENTITY_PROCESS : ENTITY_JOB,
		.id = id,
		.text = text,
	};
	const struct frame frame = { .source = FRAME_RECORDER, .live = true, .time_ns = e.time_ns, .n_events = 1, .events = &e };

	assert_int_equal(job_apply(m->job, &frame), 0);
}

static void made_victim(struct made *m, uint32_t id, const char *name, int64_t peak, double ended_s)
{
	struct process p = {
		.id = id,
		.pid = 5000 + (int32_t) id,
		.start_ns = id,
		.born_ns = 1,
		.ended = true,
		.ended_ns = (uint64_t) SECONDS(ended_s),
		.status_known = true,
		.status = SIGKILL,
		.peak_bytes = peak,
	};

	(void) snprintf(p.name, sizeof(p.name), "%s", name);
	assert_int_equal(job_restore_process(m->job, &p), 0);
}

/* Flat at 20 GiB for 100 s, then 100 MiB/s up to 100 s later, with a ripple of 50 MiB. */
static void rise(struct story_level levels[2000])
{
	for (int i = 0; i < 2000; i++) {
		const double t = i / 10.0;

		levels[i].time_ns = (uint64_t) SECONDS(t);
		levels[i].bytes = GIB(20) + MIB(t < 100 ? 0 : (t - 100) * 100) + MIB(i % 2 ? 50 : 0);
	}
}

static void test_who_was_killed(void **state)
{
	const struct story_held held[] = { { 1, MIB(2) }, { 2, GIB(29) }, { 3, GIB(1) }, { 9, GIB(7) } };
	struct story_level levels[2000];
	struct made m;
	uint64_t at;

	(void) state;
	made_new(&m);
	made_process(&m, 1, "sh", MIB(2), true);
	made_victim(&m, 2, "solver", GIB(31), 200);
	made_process(&m, 3, "loader", GIB(1), true);
	m.f->limit_bytes = known(GIB(32));
	m.f->request_bytes = known(GIB(32));
	assert_false(story_when(&m.s, &at));
	made_event(&m, EVENT_TRIGGER, 150, 0, "SIGUSR2");
	made_event(&m, EVENT_TRIGGER, 201, 0, "out of memory: the kernel killed a process in the job's cgroup");
	made_event(&m, EVENT_OOM, 210, 2, "solver");
	rise(levels);
	assert_true(story_when(&m.s, &at));
	/* The victim's end, not when it was told of. */
	assert_int_equal(at, SECONDS(200));
	assert_int_equal(story_make(&m.s, at, &(struct story_moment) { held, 4, levels, 2000 }), 0);
	const struct story *s = &m.s.story;

	assert_string_equal(s->what, "out of memory: the kernel killed solver[5002]");
	assert_true(s->memory && s->host_memory);
	assert_int_equal(s->n_holders, 3); /* 9 is nobody that is known */
	assert_int_equal(s->holders[0].bytes, GIB(31));
	assert_true(s->holders[0].killed && !s->holders[1].killed);
	assert_string_equal(s->holders[1].process->name, "loader");
	assert_int_equal(s->held.value, GIB(31));
	assert_in_range(s->since_ns.value, SECONDS(99), SECONDS(103));
	assert_true(fabs(s->growth_per_s / (double) MIB(100) - 1) < 0.03);
	assert_non_null(strstr(s->advice, "ask for more than the 32.0 GiB requested"));
	made_done(&m);
}

static void test_flat_is_no_growth(void **state)
{
	struct story_level levels[2000];
	struct made m;

	(void) state;
	made_new(&m);
	made_event(&m, EVENT_TRIGGER, 99, 0, "SIGUSR2");
	rise(levels);
	assert_int_equal(story_make(&m.s, SECONDS(99), &(struct story_moment) { .levels = levels, .n_levels = 1000 }), 0);
	assert_false(m.s.story.since_ns.known);
	assert_false(m.s.story.memory);
	assert_string_equal(m.s.story.what, "SIGUSR2");
	made_done(&m);
}

/* What a device ran out of is not the host's memory, and the kernel killed nobody. */
static void test_a_device(void **state)
{
	struct made m;
	uint64_t at;

	(void) state;
	made_new(&m);
	made_event(&m, EVENT_TRIGGER, 30, 0, "out of memory: CUDA: tried to allocate 2 GiB");
	assert_true(story_when(&m.s, &at));
	assert_int_equal(at, SECONDS(30));
	assert_int_equal(story_make(&m.s, at, &(struct story_moment) { 0 }), 0);
	assert_true(m.s.story.memory && !m.s.story.host_memory);
	assert_non_null(strstr(m.s.story.advice, "smaller batch"));
	made_done(&m);
}

/* One that no look found: the kernel's mark is all there is. */
static void test_a_short_life(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	made_process(&m, 1, "sh", MIB(2), true);
	made_victim(&m, 2, "burst", GIB(3), 20);
	made_event(&m, EVENT_OOM, 20, 2, "burst");
	assert_int_equal(story_make(&m.s, SECONDS(20), &(struct story_moment) { 0 }), 0);
	assert_int_equal(m.s.story.n_holders, 1);
	assert_int_equal(m.s.story.holders[0].bytes, GIB(3));
	made_done(&m);
}

static void test_many_processes(void **state)
{
	struct story_held held[20];
	struct made m;

	(void) state;
	made_new(&m);
	m.f->limit_bytes = known(GIB(20));
	for (uint32_t id = 1; id <= 20; id++) {
		made_process(&m, id, "worker", GIB(1), true);
		held[id - 1] = (struct story_held) { id, MIB(1000 + id) };
	}
	made_event(&m, EVENT_OOM, 20, 0, "");
	const struct story_level level = { SECONDS(19), GIB(19.5) };

	assert_int_equal(story_make(&m.s, SECONDS(20), &(struct story_moment) { held, 20, &level, 1 }), 0);
	assert_int_equal(m.s.story.n_holders, STORY_HOLDERS);
	assert_int_equal(m.s.story.others, 15);
	assert_int_equal(m.s.story.holders[0].bytes, MIB(1020));
	assert_int_equal(m.s.story.others_bytes, MIB(15 * 1000 + 15 * 16 / 2));
	assert_non_null(strstr(m.s.story.advice, "fewer processes"));
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_was_killed),
		cmocka_unit_test(test_flat_is_no_growth),
		cmocka_unit_test(test_a_device),
		cmocka_unit_test(test_a_short_life),
		cmocka_unit_test(test_many_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
