/* SPDX-License-Identifier: MIT
 *
 * Pushed values: events of changes, peaks and rules, statistics, the timeline, dropped events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "rules/pushes.h"
#include "rules/rule.h"

#define MS  UINT64_C(1000000)
#define S   UINT64_C(1000000000)
#define MIB ((double) (1 << 20))

/* ---- allocations are counted ---- */

static size_t allocations;
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);

void *__wrap_malloc(size_t size)
{
	allocations++;
	return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	allocations++;
	return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	allocations++;
	return __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	allocations++;
	return __real_strdup(s);
}

/* ---- a list and pushes ---- */

static const char *const series[] = { "allocated", "reserved", "total" };
static const struct push_ratio ratios[] = { { "usage", 0, 2 }, { "full", 0, 1 } };

struct rig {
	struct pushes *p;
	uint64_t now;      /* boot and wall; the wall began at 1000 s */
	struct push_result made;
};

static struct pushes_options options_of(size_t max_events)
{
	return (struct pushes_options) {
		.max_events = max_events,
		.series = series,
		.n_series = 3,
		.ratios = ratios,
		.n_ratios = 2,
		.changes = true,
	};
}

static struct rig rig_of(const struct pushes_options *options)
{
	struct rig rig = { 0 };
	struct err err = { "" };

	assert_int_equal(pushes_new(options, &rig.p, &err), 0);
	pushes_begin(rig.p, 0, NULL);
	return rig;
}

/* 100 ms later. */
static void push_marked(struct rig *rig, double allocated, double reserved, double mark)
{
	const double values[] = { allocated, reserved, 1000 * MIB };
	const struct push push = {
		.time_ns = 1000 * S + rig->now,
		.now_ns = rig->now,
		.values = values,
		.known = (unsigned) !isnan(allocated) | (unsigned) !isnan(reserved) << 1 | 4,
		.mark = mark,
	};

	pushes_push(rig->p, &push, &rig->made);
	rig->now += 100 * MS;
}

static void push(struct rig *rig, double allocated, double reserved)
{
	push_marked(rig, allocated, reserved, (double) NAN);
}

/* The kinds of events from number on, a letter each: S A D P ! . o */
static const char *kinds(const struct rig *rig, const struct push_filter *filter)
{
	static char text[64];
	static const char letters[PUSH_KINDS] = "SADP!.??oOo";
	struct push_event *events;
	size_t n;

	assert_int_equal(pushes_read(rig->p, filter, &events, &n), 0);
	assert_true(n < sizeof(text));
	for (size_t i = 0; i < n; i++)
		text[i] = letters[events[i].kind];
	text[n] = '\0';
	free(events);
	return text;
}

static const char *made(const struct rig *rig)
{
	return kinds(rig, &(struct push_filter) { .from = rig->made.first });
}

static const struct push_filter all = { 0 };

/* ---- tests ---- */

static void test_changes_and_peaks(void **state)
{
	struct pushes_options o = options_of(100);
	struct rig rig = rig_of(&o);
	struct push_event *events;
	struct push_stats s;
	size_t n;

	(void) state;
	push(&rig, 100, 200); /* memory from before the beginning is no allocation */
	assert_string_equal(made(&rig), "P");
	push(&rig, 100, 300);
	assert_string_equal(made(&rig), "");
	push(&rig, 150, 300);
	assert_string_equal(made(&rig), "PA");
	push(&rig, 30, 300);
	assert_string_equal(made(&rig), "D");
	push(&rig, 40, 300);
	assert_string_equal(made(&rig), "A");
	assert_int_equal(
		pushes_read(rig.p, &(struct push_filter) { .kinds = 1 << PUSH_DEALLOCATION }, &events, &n),
		0);
	assert_int_equal(n, 1);
	assert_true(events[0].change == -120 && events[0].values[0] == 30 && events[0].values[1] == 300);
	assert_true(
		events[0].time_ns == 1000 * S + 300 * MS && events[0].text == NULL && events[0].known == 7);
	free(events);
	pushes_stats(rig.p, 500 * MS, &s);
	assert_true(
		s.risen == 60 && s.fallen == 120 && s.peaks[0] == 150 && s.peaks[1] == 300 && s.known == 7);
	assert_int_equal(s.counts[PUSH_ALLOCATION], 2);
	assert_int_equal(s.counts[PUSH_PEAK], 2);
	assert_int_equal(s.events, 5);
	assert_int_equal(s.active_ns, 500 * MS);
	pushes_free(rig.p);
}

/* A high-water mark proves a peak between two pushes; a peak before the beginning does not
 * count. */
static void test_a_burst_between_two_pushes(void **state)
{
	struct pushes_options o = options_of(100);
	struct rig rig = rig_of(&o);
	struct push_event *events;
	struct push_stats s;
	size_t n;

	(void) state;
	push_marked(&rig, 100, 200, 900);
	push_marked(&rig, 100, 200, 900);
	pushes_stats(rig.p, rig.now, &s);
	assert_true(s.peaks[0] == 100);
	push_marked(&rig, 100, 200, 950);
	assert_string_equal(made(&rig), "P");
	push_marked(&rig, 120, 200, 40); /* reset by other code */
	assert_string_equal(made(&rig), "A");
	push_marked(&rig, 120, 200, 130);
	pushes_stats(rig.p, rig.now, &s);
	assert_true(s.peaks[0] == 950);
	assert_int_equal(
		pushes_read(rig.p, &(struct push_filter) { .kinds = 1 << PUSH_PEAK, .last = 1 }, &events, &n),
		0);
	assert_true(n == 1 && events[0].values[0] == 950);
	free(events);
	pushes_begin(rig.p, rig.now, NULL); /* a new beginning, also for the mark */
	push_marked(&rig, 100, 200, 2000);
	pushes_stats(rig.p, rig.now, &s);
	assert_true(s.peaks[0] == 950);
	pushes_free(rig.p);
}

static void test_rules_once(void **state)
{
	static const char *const rules[] = { "warn: usage >= 0.8 and usage < 0.95",
		"error: usage >= 0.95 for 200ms", "change > 104857600" };
	struct pushes_options o = options_of(100);
	struct rig rig;
	struct push_event *events;
	struct err err = { "" };
	size_t n;

	(void) state;
	o.changes = false;
	rig = rig_of(&o);
	assert_int_equal(pushes_rules(rig.p, rules, 3, 0, &err), 0);
	push(&rig, 700 * MIB, 800 * MIB);
	push(&rig, 850 * MIB, 900 * MIB); /* 150 MiB more, 85% */
	assert_int_equal(rig.made.rules, 5);
	push(&rig, 850 * MIB, 900 * MIB);
	assert_int_equal(rig.made.rules, 0);
	for (int i = 0; i < 4; i++)
		push(&rig, 960 * MIB, 980 * MIB);
	/* 110 MiB more: that rule was not cleared yet; 96% for 200 ms */
	assert_string_equal(kinds(&rig, &all), "!!!");
	for (int i = 0; i < 12; i++)
		push(&rig, 100 * MIB, 980 * MIB);
	assert_string_equal(kinds(&rig, &(struct push_filter) { .kinds = 1 << PUSH_CLEARED }), "...");
	assert_int_equal(pushes_read(rig.p, &(struct push_filter) { .last = 100 }, &events, &n), 0);
	assert_int_equal(events[0].rule, 0);
	assert_string_equal(events[0].text, "warn: usage >= 0.8 and usage < 0.95: usage 0.85");
	assert_int_equal(events[0].level, RULE_WARN);
	assert_int_equal(events[1].rule, 2);
	free(events);
	pushes_free(rig.p);
}

static void test_rules_each_time(void **state)
{
	static const char *const rules[] = { "error: usage > 0.95", "full < 0.5" };
	struct pushes_options o = options_of(100);
	struct rig rig;
	size_t before;

	(void) state;
	o.every = true;
	o.samples = true;
	rig = rig_of(&o);
	assert_int_equal(pushes_rules(rig.p, rules, 2, 0, NULL), 0);
	push(&rig, 960 * MIB, 970 * MIB);
	assert_string_equal(made(&rig), "P!S");
	before = allocations;
	push(&rig, 960 * MIB, 970 * MIB);
	assert_int_equal(allocations, before);
	assert_string_equal(made(&rig), "!S");
	push(&rig, 100 * MIB, 970 * MIB); /* not raised for a second yet, but it does not hold */
	assert_string_equal(made(&rig), "D!S");
	assert_int_equal(rig.made.rules, 2);
	push(&rig, 960 * MIB, 970 * MIB);
	assert_string_equal(made(&rig), "A!S");
	push(&rig, (double) NAN, 970 * MIB); /* unknown fires nothing */
	assert_string_equal(made(&rig), "S");
	assert_int_equal(rig.made.rules, 0);
	assert_int_equal(pushes_rules(rig.p, NULL, 0, rig.now, NULL), 0);
	push(&rig, 960 * MIB, 970 * MIB);
	assert_string_equal(made(&rig), "S"); /* nothing to measure a change from */
	pushes_free(rig.p);
}

static void test_rules_are_refused(void **state)
{
	static const char *const unknown[] = { "reserved > 0", "used > 5" }, *const broken[] = { "usage >" };
	struct pushes_options o = options_of(10);
	struct rig rig;
	struct err err = { "" };

	(void) state;
	o.every = true;
	rig = rig_of(&o);
	assert_int_equal(pushes_rules(rig.p, unknown, 1, 0, &err), 0);
	assert_int_equal(pushes_rules(rig.p, unknown, 2, 0, &err), -EINVAL);
	assert_string_equal(err.text, "rule 'used > 5': 'used' is not pushed here; 'allocated' is");
	assert_int_equal(pushes_rules(rig.p, broken, 1, 0, &err), -EINVAL);
	assert_non_null(strstr(err.text, "\n"));
	push(&rig, 1, 2);
	assert_int_equal(rig.made.rules, 1); /* those before stay */
	pushes_free(rig.p);
}

static void test_bounded(void **state)
{
	struct pushes_options o = options_of(5);
	struct rig rig = rig_of(&o);
	struct push_stats s;
	struct push_event *events;
	char *long_text = calloc(1, 20000);
	size_t n;

	(void) state;
	memset(long_text, 'x', 19999);
	for (int i = 0; i < 20; i++)
		assert_int_equal(pushes_note(rig.p, &(struct push) { .time_ns = 1000 * S + (unsigned) i },
					 PUSH_OWN + 1, (uint32_t) i, i == 19 ? long_text : "hello"),
			0);
	assert_int_equal(pushes_note(rig.p, &(struct push) { 0 }, PUSH_ALERT, 0, NULL), -EINVAL);
	assert_int_equal(pushes_note(rig.p, &(struct push) { 0 }, PUSH_KINDS, 0, NULL), -EINVAL);
	pushes_stats(rig.p, 0, &s);
	assert_int_equal(s.events, 20);
	assert_int_equal(s.kept, 5);
	assert_int_equal(pushes_read(rig.p, &(struct push_filter) { .from = 17 }, &events, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(events[0].tag, 17);
	assert_string_equal(events[1].text, "hello");
	assert_int_equal(strlen(events[2].text), PUSH_TEXT - 1);
	free(events);
	assert_string_equal(kinds(&rig, &(struct push_filter) { .since_ns = 1000 * S + 18 }), "OO");
	assert_string_equal(kinds(&rig, &(struct push_filter) { .last = 1 }), "O");
	assert_string_equal(kinds(&rig, &(struct push_filter) { .kinds = 1 }), "");
	pushes_clear(rig.p);
	assert_string_equal(kinds(&rig, &all), "");
	pushes_stats(rig.p, 0, &s);
	assert_true(s.events == 0 && s.counts[PUSH_OWN + 1] == 0);
	free(long_text);
	pushes_free(rig.p);
}

static void test_timeline(void **state)
{
	struct pushes_options o = options_of(100);
	struct rig rig;
	struct push_event *points;
	size_t n;

	(void) state;
	o.changes = false;
	o.samples = true;
	rig = rig_of(&o);
	assert_int_equal(pushes_timeline(rig.p, S, &points, &n), 0);
	assert_int_equal(n, 0);
	free(points);
	for (int i = 0; i < 12; i++) { /* 0 to 1.1 s */
		push(&rig, i, 100);
	}
	rig.now += 2 * S;              /* nothing in the third second */
	push(&rig, 50, 100);
	rig.now -= 3 * S;              /* the wall clock was set back: this is still the last interval */
	push(&rig, 60, 100);
	assert_int_equal(pushes_timeline(rig.p, S, &points, &n), 0);
	assert_int_equal(n, 3);
	assert_true(points[0].time_ns == 1000 * S && points[0].values[0] == 9);
	assert_true(points[1].time_ns == 1001 * S && points[1].values[0] == 11);
	assert_true(points[2].time_ns == 1003 * S && points[2].values[0] == 60);
	free(points);
	assert_int_equal(pushes_timeline(rig.p, 0, &points, &n), -EINVAL);
	pushes_free(rig.p);
}

/* Stopped and resumed: the pause counts neither as a change nor as time. */
static void test_begun_anew(void **state)
{
	struct pushes_options o = options_of(100);
	struct rig rig = rig_of(&o);
	struct push_stats s;

	(void) state;
	push(&rig, 100, 200);
	push(&rig, 110, 200);
	pushes_end(rig.p, rig.now);
	pushes_end(rig.p, rig.now + S);
	rig.now += 5 * S;
	pushes_begin(rig.p, rig.now, NULL);
	push(&rig, 500, 600);
	push(&rig, 450, 600);
	pushes_stats(rig.p, rig.now, &s);
	assert_int_equal(s.active_ns, 400 * MS);
	assert_true(s.risen == 10 && s.fallen == 50 && s.peaks[0] == 500);
	pushes_free(rig.p);
}

/* Begun with a push: changes and the mark count from there, and a note has its own values. */
static void test_begun_with_a_reading(void **state)
{
	struct pushes_options o = options_of(100);
	struct rig rig = rig_of(&o);
	const double values[] = { 100, 200, 1000 };
	const struct push reading = { .values = values, .known = 7, .mark = 700, .time_ns = 1000 * S };
	struct push_event *events;
	size_t n;

	(void) state;
	pushes_begin(rig.p, 0, &reading);
	assert_int_equal(pushes_note(rig.p, &reading, PUSH_OWN, 0, NULL), 0);
	push_marked(&rig, 160, 200, 750);
	assert_string_equal(kinds(&rig, &all), "oPA");
	assert_int_equal(pushes_read(rig.p, &all, &events, &n), 0);
	assert_true(events[0].values[1] == 200 && events[0].change == 0 && events[1].values[0] == 750 &&
		    events[2].change == 60);
	free(events);
	pushes_free(rig.p);
}

static void test_what_is_no_list(void **state)
{
	static const char *const same[] = { "a", "b", "a" }, *const empty[] = { "" };
	struct pushes *p;
	struct err err = { "" };
	struct pushes_options o = options_of(0);

	(void) state;
	assert_int_equal(pushes_new(&o, &p, &err), -EINVAL);
	o = options_of(10);
	o.series = same;
	assert_int_equal(pushes_new(&o, &p, &err), -EINVAL);
	assert_string_equal(err.text, "duplicate series 'a'");
	o.series = empty;
	o.n_series = 1;
	assert_int_equal(pushes_new(&o, &p, &err), -EINVAL);
	o = options_of(10);
	o.n_series = 2; /* a ratio is by the third */
	assert_int_equal(pushes_new(&o, &p, &err), -EINVAL);
	o.n_series = PUSH_SERIES + 1;
	assert_int_equal(pushes_new(&o, &p, &err), -EINVAL);
	pushes_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes_and_peaks),
		cmocka_unit_test(test_a_burst_between_two_pushes),
		cmocka_unit_test(test_rules_once),
		cmocka_unit_test(test_rules_each_time),
		cmocka_unit_test(test_rules_are_refused),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_timeline),
		cmocka_unit_test(test_begun_anew),
		cmocka_unit_test(test_begun_with_a_reading),
		cmocka_unit_test(test_what_is_no_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
