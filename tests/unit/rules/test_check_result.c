/* SPDX-License-Identifier: MIT
 *
 * A rule gives the same result on a finished run as live.
 */
#include "findings_rig.h"

#include "model/framebuf.h"
#include "rules/engine.h"
#include "rules/check_result.h"

static struct rule read_rule(const char *text, enum rule_kind kind)
{
	struct err err = { "" };
	struct rule rule;

	if (rule_parse(text, kind, &rule, &err) < 0)
		fail_msg("%s", err.text);
	return rule;
}

/* ---- base of percentages -------------------------------------------------------------------------------------------- */

static double whole(const char *text, const struct facts *f)
{
	struct rule rule = read_rule(text, RULE_ALERT);
	const struct maybe m = whole_of(f, &rule.terms[0], known(GIB(40)));

	rule_done(&rule);
	return m.known ? (double) m.value : -1;
}

static void test_whole(void **state)
{
	struct facts f = { .cpus = known(8), .capacity_bytes = known(GIB(64)) };

	(void) state;
	assert_true(whole("cpu > 50%", &f) == 8e9);
	assert_true(whole("host.cpu > 50%", &f) == 8e9);
	f.limit_cpu_ppm = known(2500000);
	assert_true(whole("cpu > 50%", &f) == 2.5e9);
	assert_true(whole("process.cpu > 50%", &f) == 2.5e9);
	assert_true(whole("host.cpu > 50%", &f) == 8e9); /* the job's quota does not limit the host */
	f.cpus = known(2);
	assert_true(whole("cpu > 50%", &f) == 2e9);
	f.cpus = UNKNOWN;
	assert_true(whole("cpu > 50%", &f) == 2.5e9);
	f.limit_cpu_ppm = UNKNOWN;
	assert_true(whole("cpu > 50%", &f) == -1);

	assert_true(whole("ram > 50%", &f) == (double) GIB(64));
	assert_true(whole("ram > 50% of limit", &f) == -1);
	f.request_bytes = known(GIB(16));
	assert_true(whole("ram > 50%", &f) == (double) GIB(16));
	f.limit_bytes = known(GIB(32));
	assert_true(whole("ram > 50% of limit", &f) == (double) GIB(32));
	assert_true(whole("ram > 50% of capacity", &f) == (double) GIB(64));
	assert_true(whole("gpu.mem > 50%", &f) == (double) GIB(40));
}

/* ---- live and afterwards -------------------------------------------------------------------------------------------- */

/* 1.5 cores for 10 s, as frames for the engine and as totals of a run. */
static bool held_live(const char *text, const struct facts *f)
{
	struct watch *w = watch_new(f);
	struct rule rule = read_rule(text, RULE_ALERT);
	struct framebuf b = { 0 };
	struct counts counts;
	bool held;

	assert_non_null(w);
	assert_int_equal(watch_add(w, &rule), 0);
	for (int t = 0; t <= 10; t++) {
		framebuf_value(&b, M_JOB_CPU_USER, 0, SECONDS(t));
		framebuf_value(&b, M_JOB_CPU_SYSTEM, 0, SECONDS(t / 2.0));
		const struct frame frame = framebuf_frame(
			&b, FRAME_TOTALS, (uint64_t) SECONDS(t), (uint64_t) SECONDS(3));

		watch_frame(w, &frame);
		framebuf_clear(&b);
	}
	watch_count(w, 0, &counts);
	held = counts.of[COUNT_HOLDS].n == 1;
	framebuf_done(&b);
	watch_free(w);
	return held;
}

static bool held_afterwards(const char *text, struct made *m)
{
	struct rule rule = read_rule(text, RULE_CHECK);
	struct check_result v;

	check_final(&rule, &m->s, &v);
	rule_done(&rule);
	return v.kind == RESULT_PASS;
}

static void test_cores_live_and_afterwards(void **state)
{
	static const struct {
		struct maybe cpus, quota;
		bool over;
	} cases[] = {
		{ { 2, true }, { 0, false }, true },
		{ { 4, true }, { 0, false }, false },
		{ { 4, true }, { 2000000, true }, true }, /* 3/4 of the quota, 3/8 of the CPUs */
		{ { 2, true }, { 4000000, true }, true },
		{ { 0, false }, { 2000000, true }, true },
		{ { 0, false }, { 0, false }, false },
	};
	struct framebuf b = { 0 };
	struct made m;

	(void) state;
	made_new(&m);
	m.s.wall_ns = known(SECONDS(10));
	for (int t = 0; t <= 10; t += 10) {
		framebuf_value(&b, M_JOB_CPU_USER, 0, SECONDS(t));
		framebuf_value(&b, M_JOB_CPU_SYSTEM, 0, SECONDS(t / 2.0));
		const struct frame frame = framebuf_frame(
			&b, FRAME_TOTALS, (uint64_t) SECONDS(t) + 1, (uint64_t) SECONDS(30));

		assert_int_equal(job_apply(m.job, &frame), 0);
		framebuf_clear(&b);
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		m.f->cpus = cases[i].cpus;
		m.f->limit_cpu_ppm = cases[i].quota;
		assert_int_equal(held_live("cpu > 50%", m.f), cases[i].over);
		assert_int_equal(held_afterwards("cpu.mean > 50%", &m), cases[i].over);
	}
	framebuf_done(&b);
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_cores_live_and_afterwards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
