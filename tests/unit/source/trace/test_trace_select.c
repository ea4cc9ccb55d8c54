/* SPDX-License-Identifier: MIT
 *
 * Windows, steps and phases, by the ranges that begin and end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "source/trace/select.h"

static const uint64_t s_ns = 1000000000;

struct got {
	char text[2000];
	char phases[2000];
};

static int on_window(void *ctx, uint64_t begin_ns, uint64_t end_ns, const char *why)
{
	struct got *g = ctx;
	const size_t n = strlen(g->text);

	if (end_ns == UINT64_MAX)
		(void) snprintf(g->text + n, sizeof(g->text) - n, "%s from %d; ", why, (int) (begin_ns / 1000000));
	else
		(void) snprintf(g->text + n, sizeof(g->text) - n, "%s %d-%d; ", why, (int) (begin_ns / 1000000),
			(int) (end_ns / 1000000));
	return 0;
}

static void on_phase(void *ctx, uint64_t time_ns, uint32_t number, bool begins)
{
	struct got *g = ctx;
	const size_t n = strlen(g->phases);

	(void) snprintf(g->phases + n, sizeof(g->phases) - n, "%s%d at %d; ", begins ? "+" : "-",
		(int) (number - TRACE_PHASE_FIRST), (int) time_ns);
}

struct rig {
	struct trace_select *s;
	struct trace_sink sink;
	struct got got;
};

static void rig_new(struct rig *r, const char *phase_range, const char *const *windows)
{
	const struct trace_select_options options = { .phase_range = phase_range, .windows = windows };
	struct err err = { "" };

	memset(r, 0, sizeof(*r));
	assert_int_equal(trace_select_new(&options, &r->s, &err), 0);
	r->sink = (struct trace_sink) {
		.window = on_window,
		.ctx = &r->got,
		.phase = on_phase,
		.phase_ctx = &r->got,
	};
	trace_select_pass_to(r->s, &r->sink);
}

static bool update(struct rig *r, uint64_t now_ns, bool last)
{
	bool open;

	assert_int_equal(trace_select_update(r->s, now_ns, last, &r->sink, &open), 0);
	return open;
}

static uint32_t edge(struct rig *r, const char *name, uint64_t t, bool begins, uint32_t number)
{
	trace_select_edge(r->s, trace_select_of(r->s, TRACE_RANGE, name), name, t, begins, &number);
	return number;
}

static void test_the_whole_run(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r, NULL, NULL);
	assert_true(trace_select_begins_open(r.s));
	assert_true(update(&r, s_ns, false));
	assert_true(update(&r, 2 * s_ns, false));
	assert_false(update(&r, 3 * s_ns, true));
	assert_string_equal(r.got.text, "whole run from 0; whole run 0-3000; ");
	trace_select_free(r.s);
	rig_new(&r, NULL, NULL);
	assert_false(update(&r, s_ns / 100, true)); /* a run that ends before its first drain */
	assert_string_equal(r.got.text, "whole run from 0; whole run 0-10; ");
	trace_select_free(r.s);
}

static void test_a_time(void **state)
{
	static const char *const windows[] = { "2s+3s", "last=2s", NULL };
	struct rig r;

	(void) state;
	rig_new(&r, NULL, windows);
	assert_true(trace_select_begins_open(r.s)); /* for the last seconds */
	assert_true(update(&r, s_ns, false));
	assert_string_equal(r.got.text, "");
	assert_true(update(&r, 2 * s_ns, false));
	assert_true(update(&r, 5 * s_ns, false));
	assert_string_equal(r.got.text, "2s+3s from 2000; 2s+3s 2000-5000; ");
	r.got.text[0] = '\0';
	assert_false(update(&r, 9 * s_ns, true));
	assert_string_equal(r.got.text, "last 2s 7000-9000; ");
	trace_select_free(r.s);
}

/* Kernels are kept ahead of it, since a step is seen after it began; the window lies between the edges. */
static void test_steps(void **state)
{
	static const char *const windows[] = { "steps=203-204", NULL };
	char name[32];
	struct rig r;

	(void) state;
	rig_new(&r, NULL, windows);
	assert_false(trace_select_begins_open(r.s));
	for (int i = 1; i <= 210; i++) {
		const uint64_t begin = (uint64_t) i * s_ns / 10;
		const int ahead = i < 203 ? 203 - i : 0;

		(void) snprintf(name, sizeof(name), i % 2 ? "ProfilerStep#%d" : "iteration", i);
		(void) edge(&r, name, begin, true, 0);
		assert_int_equal(update(&r, begin + s_ns / 20, false), ahead <= 10 && i <= 204 && i > 1);
		(void) edge(&r, "other 99", begin, true, 0);
		(void) edge(&r, name, begin + s_ns / 11, false, 0);
		assert_int_equal(update(&r, begin + s_ns / 10, false), ahead <= 10 && i < 204 && i > 1);
	}
	assert_string_equal(r.got.text, "steps 203-204 from 20300; steps 203-204 20300-20490; ");
	trace_select_free(r.s);
}

/* Before the time of a step is known, those that may come soon are kept; without them there is no window. */
static void test_steps_that_come_soon_or_never(void **state)
{
	static const char *const windows[] = { "steps=2-3", NULL };
	struct rig r;

	(void) state;
	rig_new(&r, NULL, windows);
	assert_true(trace_select_begins_open(r.s));
	(void) edge(&r, "step 1", s_ns / 1000, true, 0);
	(void) edge(&r, "step 2", s_ns / 500, true, 0);
	assert_true(update(&r, s_ns / 10, false));
	assert_string_equal(r.got.text, "steps 2-3 from 2; ");
	(void) edge(&r, "step 4", s_ns / 4, true, 0);
	assert_false(update(&r, s_ns, true));
	assert_string_equal(r.got.text, "steps 2-3 from 2; steps 2-3 2-250; ");
	trace_select_free(r.s);
	rig_new(&r, NULL, windows);
	assert_false(update(&r, s_ns, true));
	assert_string_equal(r.got.text, "");
	trace_select_free(r.s);
}

static void test_a_range_the_api_an_alert(void **state)
{
	static const char *const windows[] = { "range=^eval", "api", "alert", NULL };
	uint32_t number = 0;
	struct rig r;

	(void) state;
	rig_new(&r, NULL, windows);
	(void) edge(&r, "eval 1", 0, true, 0);
	(void) edge(&r, "eval inner", 0, true, 0);
	(void) edge(&r, "eval inner", 0, false, 0);
	assert_true(update(&r, 1 * s_ns, false));
	(void) edge(&r, "eval 1", 0, false, 0);
	(void) edge(&r, "eval 1", 0, false, 0); /* of none */
	assert_false(update(&r, 2 * s_ns, false));
	trace_select_edge(r.s, trace_select_of(r.s, TRACE_LAUNCH, "cuProfilerStart"), "", 0, true, &number);
	assert_true(update(&r, 3 * s_ns, false));
	trace_select_edge(r.s, trace_select_of(r.s, TRACE_LAUNCH, "cuProfilerStop"), "", 0, true, &number);
	assert_false(update(&r, 4 * s_ns, false));
	trace_select_alert(r.s);
	assert_true(update(&r, 5 * s_ns, false));
	assert_true(update(&r, 14 * s_ns, false));
	assert_false(update(&r, 15 * s_ns, false));
	assert_string_equal(r.got.text, "range ^eval from 1000; range ^eval 1000-2000; api from 3000; api 3000-4000; "
					"alert from 5000; alert 5000-15000; ");
	trace_select_free(r.s);
}

static void test_windows_that_come_later(void **state)
{
	struct err err = { "" };
	struct rig r;

	(void) state;
	rig_new(&r, NULL, NULL);
	assert_true(update(&r, s_ns, false));
	assert_int_equal(trace_select_add(r.s, "step=3", &err), -EINVAL);
	assert_non_null(strstr(err.text, "unknown window 'step=3'"));
	assert_int_equal(trace_select_add(r.s, "5s+1s", &err), 0);
	assert_int_equal(trace_select_add(r.s, "range=^data", &err), 0);
	assert_false(update(&r, 2 * s_ns, false));
	(void) edge(&r, "data 1", 3 * s_ns, true, 0);
	assert_true(update(&r, 3 * s_ns, false));
	(void) edge(&r, "data 1", 4 * s_ns, false, 0);
	assert_false(update(&r, 4 * s_ns, false));
	assert_true(update(&r, 5 * s_ns, false));
	for (int i = 2; i < TRACE_WINDOWS_MOST; i++)
		assert_int_equal(trace_select_add(r.s, "range=x", &err), 0);
	assert_int_equal(trace_select_add(r.s, "range=x", &err), -EINVAL);
	assert_false(update(&r, 6 * s_ns, true));
	assert_string_equal(r.got.text, "whole run from 0; whole run 0-2000; range ^data from 3000; range ^data 3000-4000; "
					"5s+1s from 5000; 5s+1s 5000-6000; ");
	trace_select_free(r.s);
}

static void test_phases(void **state)
{
	struct trace_phase_edge e;
	uint32_t outer, inner;
	struct rig r;

	(void) state;
	rig_new(&r, "^(train|eval)", NULL);
	assert_int_equal(edge(&r, "other", 1, true, 0), 0);
	outer = edge(&r, "train", 5, true, 0);
	inner = edge(&r, "eval", 6, true, 0);
	(void) edge(&r, "eval", 7, false, inner);
	(void) edge(&r, "train", 8, false, outer);
	assert_string_equal(r.got.phases, "+0 at 5; +1 at 6; -1 at 7; -0 at 8; ");
	assert_true(trace_select_phase(r.s, &e));
	assert_string_equal(e.name, "train");
	assert_true(e.begins && e.time_ns == 5 && e.number == outer);
	for (int i = 0; i < 3; i++)
		assert_true(trace_select_phase(r.s, &e));
	assert_true(!e.begins && e.number == outer);
	assert_false(trace_select_phase(r.s, &e));
	for (int i = 0; i < TRACE_PHASES_MOST + 5; i++)
		(void) edge(&r, "train", 9, false, edge(&r, "train", 9, true, 0));
	assert_int_equal(trace_select_phases_left_out(r.s), 7);
	trace_select_free(r.s);
}

static void test_wrong_options(void **state)
{
	static const struct {
		const char *phase_range, *step, *window, *said;
	} cases[] = {
		{ "(", NULL, "api", "--phase-range: '(' is not an extended regular expression" },
		{ NULL, "[", "api", "--step: '['" },
		{ NULL, NULL, "", "unknown window ''" },
		{ NULL, NULL, "60s", "unknown window '60s'" },
		{ NULL, NULL, "60s+", "unknown window" },
		{ NULL, NULL, "60s+0s", "unknown window" },
		{ NULL, NULL, "steps=5", "give the first and the last" },
		{ NULL, NULL, "steps=5-4", "give the first and the last" },
		{ NULL, NULL, "steps=1-2x", "give the first and the last" },
		{ NULL, NULL, "last=0s", "give a time" },
		{ NULL, NULL, "last=soon", "give a time" },
		{ NULL, NULL, "range=*(", "--trace-window range: '*('" },
		{ NULL, NULL, "apis", "one of 60s+5s, steps=10-20, range=RE, api, alert, last=60s" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *const windows[] = { "1s+1s", cases[i].window, NULL };
		const struct trace_select_options options = { cases[i].phase_range, cases[i].step, windows };
		struct trace_select *s;
		struct err err = { "" };

		assert_int_equal(trace_select_new(&options, &s, &err), -EINVAL);
		if (!strstr(err.text, cases[i].said))
			fail_msg("'%s' lacks '%s'", err.text, cases[i].said);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_whole_run),
		cmocka_unit_test(test_a_time),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_steps_that_come_soon_or_never),
		cmocka_unit_test(test_a_range_the_api_an_alert),
		cmocka_unit_test(test_windows_that_come_later),
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_wrong_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
