/* SPDX-License-Identifier: MIT
 *
 * Values in rules: percentages, rates, series, silence, growth.
 */
#include "watch_rig.h"

/* ---- percentages ---- */

static void test_of_limit_and_capacity(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "ram > 50%");
	add(&r, "ram > 50% of limit");
	add(&r, "ram > 50% of capacity");
	ram(&r, 0, 9 * GIB);
	assert_quiet(&r); /* of nothing known */
	r.facts.capacity_bytes = known(16 * GIB);
	ram(&r, 1, 9 * GIB);
	assert_int_equal(next(&r).rule, 0);
	assert_string_equal(next(&r).text, "ram > 50% of capacity: 9.00 GiB of 16.0 GiB");
	assert_quiet(&r);
	r.facts.request_bytes = known(12 * GIB);
	ram(&r, 2, 9 * GIB);
	assert_int_equal(next(&r).rule, 1);
	finish(&r);
	begin(&r, "ram > 50%");
	r.facts.capacity_bytes = known(16 * GIB);
	r.facts.limit_bytes = known(4 * GIB);
	ram(&r, 0, 3 * GIB);
	assert_string_equal(next(&r).text, "ram > 50%: 3.00 GiB of 4.00 GiB");
	finish(&r);
}

static void cpu(struct rig *r, uint64_t at, int64_t user, int64_t system)
{
	r->now = at;
	put(r, M_JOB_CPU_USER, 0, user);
	put(r, M_JOB_CPU_SYSTEM, 0, system);
	show(r, 3 * S);
}

static void test_rates(void **state)
{
	struct rig r;
	int64_t ns = 0;

	(void) state;
	begin(&r, "cpu > 1.5 cores");
	add(&r, "cpu > 90%");
	r.facts.cpus = known(2);
	for (uint64_t t = 0; t < 4000; t += 100, ns += 100000000)
		cpu(&r, t * MS, ns, ns / 3); /* 1.33 cores */
	assert_quiet(&r);
	for (uint64_t t = 4000; t < 8000; t += 100, ns += 150000000)
		cpu(&r, t * MS, ns, ns / 3); /* 2 cores */
	assert_int_equal(next(&r).rule, 0);
	const struct alert a = next(&r);

	assert_int_equal(a.rule, 1);
	assert_non_null(strstr(a.text, " of 2 cores"));
	finish(&r);
}

/* A counter of the host began before the run. */
static void test_counters_of_the_machine(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "host.oom_kills > 0");
	put(&r, M_HOST_OOM_KILLS, 0, 17);
	show(&r, S);
	assert_quiet(&r);
	r.now = S;
	put(&r, M_HOST_OOM_KILLS, 0, 18);
	show(&r, S);
	assert_string_equal(next(&r).value, "1");
	finish(&r);
}

/* ---- series ---- */

static void test_nan(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "loss is nan");
	add(&r, "loss > 10");
	series(&r, 0, "loss", 1);
	series(&r, S, "accuracy", (double) NAN);
	assert_quiet(&r);
	series(&r, 2 * S, "loss", (double) NAN);
	const struct alert a = next(&r);

	assert_int_equal(a.rule, 0);
	assert_true(isnan(a.number));
	assert_string_equal(a.text, "loss is nan: nan");
	series(&r, 3 * S, "loss", 0.5);
	series(&r, 4 * S, "loss", 0.5);
	assert_cleared(&r);
	assert_quiet(&r);
	finish(&r);
}

static void test_parts(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "loss.peak > 4 and loss.mean == 3 and loss.last == 1");
	series(&r, 0, "loss", 5);
	series(&r, S, "loss", 3);
	assert_quiet(&r);
	series(&r, 2 * S, "loss", 1);
	assert_raised(&r);
	finish(&r);
}

static void step(struct rig *r, uint64_t at, int64_t number)
{
	const struct series_value v = { .name = "loss", .value = 1, .has_step = true, .step = number };

	r->now = at;
	framebuf_series(&r->buf, &v);
	show(r, 0);
}

static void test_silence(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "no step for 10s");
	step(&r, 0, 1);
	step(&r, 9 * S, 2);
	step(&r, 18 * S, 2); /* the same one again is no step */
	assert_quiet(&r);
	watch_advance(r.w, 19 * S - 1);
	assert_quiet(&r);
	watch_advance(r.w, 19 * S);
	assert_non_null(strstr(next(&r).text, "no step for 10s: 10 s"));
	step(&r, 20 * S, 3);
	watch_advance(r.w, 21 * S);
	assert_cleared(&r);
	finish(&r);
}

/* Five times the median, which must be known first. */
static void test_silence_by_the_median(void **state)
{
	struct rig r;
	uint64_t t = 0;

	(void) state;
	begin(&r, "no step for 5x median");
	step(&r, 0, 0);
	watch_advance(r.w, 1000 * S);
	assert_quiet(&r);
	for (int64_t i = 1; i <= 20; i++) {
		t = 1000 * S + (uint64_t) i * 2 * S;
		step(&r, t, i);
	}
	watch_advance(r.w, t + 10 * S - 1);
	assert_quiet(&r);
	watch_advance(r.w, t + 10 * S);
	assert_non_null(strstr(next(&r).text, "no step for 5x median: 10 s, the median is 2 s"));
	step(&r, t + 11 * S, 30);
	watch_advance(r.w, t + 12 * S);
	assert_cleared(&r);
	finish(&r);
}

static void test_exit(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "exit != 0");
	ram(&r, 5 * S, 1);
	assert_quiet(&r);
	r.facts.stopped_by = known(124); /* SIGTERM was sent, the job has not ended yet */
	watch_advance(r.w, 6 * S);
	assert_quiet(&r);
	r.facts.exit_status = known(15);
	watch_advance(r.w, 7 * S);
	assert_string_equal(next(&r).text, "exit != 0: 124");
	finish(&r);
	begin(&r, "exit != 0");
	ram(&r, 5 * S, 1);
	r.facts.exit_status = known(3 << 8);
	watch_advance(r.w, 7 * S);
	assert_string_equal(next(&r).text, "exit != 0: 3");
	finish(&r);
}

static void test_silence_from_the_beginning(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "no loss for 10s");
	ram(&r, 5 * S, 1);
	watch_advance(r.w, 15 * S - 1);
	assert_quiet(&r);
	watch_advance(r.w, 15 * S);
	assert_raised(&r);
	finish(&r);
}

static void test_time(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "time >= 2h");
	ram(&r, 5 * S, 1);
	watch_advance(r.w, 7200 * S - 1);
	assert_quiet(&r);
	watch_advance(r.w, 7200 * S);
	assert_raised(&r);
	finish(&r);
}

/* ---- growth ---- */

static int64_t leak(uint64_t t)
{
	return (int64_t) t * MIB / 4; /* 15 MiB a minute */
}

static int64_t flat(uint64_t t)
{
	(void) t;
	return GIB;
}

static int64_t warm_up(uint64_t t)
{
	return t < 60 ? (int64_t) t * 32 * MIB : 60 * 32 * MIB;
}

static int64_t sawtooth(uint64_t t)
{
	return (int64_t) (t % 10) * 90 * MIB;
}

static int64_t leak_under_sawtooth(uint64_t t)
{
	return leak(t) + sawtooth(t);
}

static int64_t one_step(uint64_t t)
{
	return t < 200 ? GIB : 4 * GIB;
}

static void test_growth(void **state)
{
	static const struct {
		int64_t (*timeline)(uint64_t t);
		bool grows;
	} courses[] = {
		{ flat, false },
		{ leak, true },
		{ warm_up, false },
		{ sawtooth, false },
		{ leak_under_sawtooth, true },
		{ one_step, false },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(courses) / sizeof(*courses); i++) {
		struct rig r;

		begin(&r, "growth(ram) > 10MiB/min");
		for (uint64_t t = 0; t < 900; t++) {
			r.now = t * S;
			put(&r, M_JOB_RAM, 0, courses[i].timeline(t));
			show(&r, 3 * S);
		}
		print_message("timeline %zu: raised %llu times\n", i,
			(unsigned long long) watch_history(r.w, 0)->raised);
		assert_int_equal(watch_history(r.w, 0)->raised, courses[i].grows);
		if (courses[i].grows)
			assert_non_null(strstr(next(&r).value, "MiB/min"));
		finish(&r);
	}
}

static void test_growth_in_a_short_span(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "growth(ram, 2s) > 100MiB/s");
	for (uint64_t t = 0; t < 2000; t += 10)
		ram(&r, t * MS, (int64_t) t * MIB / 5);
	const struct alert a = next(&r);

	assert_true(fabs(a.number - 200 * 0x1p20) < 0.05 * 200 * 0x1p20);
	finish(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_limit_and_capacity),
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_counters_of_the_machine),
		cmocka_unit_test(test_nan),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_silence_from_the_beginning),
		cmocka_unit_test(test_silence_by_the_median),
		cmocka_unit_test(test_exit),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_growth_in_a_short_span),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
