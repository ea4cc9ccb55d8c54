/* SPDX-License-Identifier: MIT
 *
 * The watching engine on frames made by hand: when rules are raised and cleared, and about whom.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framebuf.h"
#include "watch/engine.h"

#define MS  UINT64_C(1000000)
#define S   UINT64_C(1000000000)
#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

/* ---- allocations are counted ---- */

static size_t allocations;
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

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

/* ---- a watch and its frames ---- */

struct rig {
	struct facts facts;
	struct watch *w;
	struct framebuf buf;
	uint64_t now;
};

static void add(struct rig *r, const char *text)
{
	struct err err = { "" };
	struct rule rule;

	if (rule_parse(text, RULE_ALERT, &rule, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(watch_add(r->w, &rule) >= 0);
}

static void begin(struct rig *r, const char *rule)
{
	*r = (struct rig) { .now = 0 };
	r->w = watch_new(&r->facts);
	assert_non_null(r->w);
	if (rule)
		add(r, rule);
}

static void finish(struct rig *r)
{
	watch_free(r->w);
	framebuf_done(&r->buf);
}

static void show(struct rig *r, uint64_t hold_ns)
{
	const struct frame frame = framebuf_frame(&r->buf, FRAME_TOTALS, r->now, hold_ns);

	watch_see(r->w, &frame);
	framebuf_clear(&r->buf);
}

static void put(struct rig *r, enum metric metric, uint32_t id, int64_t value)
{
	framebuf_value(&r->buf, metric, id, value);
}

static void ram(struct rig *r, uint64_t at, int64_t value)
{
	r->now = at;
	put(r, M_JOB_RAM, 0, value);
	show(r, 300 * MS);
}

static void series(struct rig *r, uint64_t at, const char *name, double value)
{
	const struct series_value v = { .name = name, .value = value };

	r->now = at;
	framebuf_series(&r->buf, &v);
	show(r, 0);
}

static void process(struct rig *r, uint32_t id, const char *name)
{
	const struct birth b = {
		.entity = ENTITY_PROCESS,
		.id = id,
		.process = { .pid = (int32_t) (1000 + id), .name = name, .command = "" },
	};

	framebuf_birth(&r->buf, &b);
}

static void process_end(struct rig *r, uint32_t id)
{
	const struct end e = { .entity = ENTITY_PROCESS, .id = id };

	framebuf_end(&r->buf, &e);
}

static void gpu(struct rig *r, uint32_t id, int64_t index, int64_t memory)
{
	const struct birth b = {
		.entity = ENTITY_GPU,
		.id = id,
		.gpu = { .uuid = "GPU-1", .name = "a GPU", .vendor = "nvidia", .pci = "", .parent = "", .driver = "", .index = known(index), .memory_bytes = known(memory) },
	};

	framebuf_birth(&r->buf, &b);
}

static struct alert next(struct rig *r)
{
	struct alert a;

	assert_true(watch_next(r->w, &a));
	return a;
}

static void assert_raised(struct rig *r)
{
	assert_true(next(r).raised);
}

static void assert_cleared(struct rig *r)
{
	assert_false(next(r).raised);
}

static void assert_quiet(struct rig *r)
{
	struct alert a;

	if (watch_next(r->w, &a))
		fail_msg("told at %.3f s: %s", (double) a.time_ns / 1e9, a.text);
}

/* ---- raised and cleared ---- */

static void test_once_each(void **state)
{
	struct rig r;
	struct alert a;

	(void) state;
	begin(&r, "error: ram > 1GiB");
	ram(&r, 0, GIB);
	assert_quiet(&r);
	ram(&r, 100 * MS, GIB + 1);
	a = next(&r);
	assert_true(a.raised);
	assert_int_equal(a.level, RULE_ERROR);
	assert_int_equal(a.entity, ENTITY_JOB);
	assert_int_equal(a.time_ns, 100 * MS);
	assert_true(a.number == (double) (GIB + 1));
	assert_string_equal(a.value, "1.00 GiB");
	assert_string_equal(a.text, "error: ram > 1GiB: 1.00 GiB");
	assert_true(watch_about_memory(r.w));
	for (uint64_t t = 200; t < 1000; t += 100)
		ram(&r, t * MS, 2 * GIB);
	assert_quiet(&r);
	ram(&r, 1000 * MS, 1);
	ram(&r, 1900 * MS, 1);
	assert_quiet(&r); /* not yet a second */
	ram(&r, 2000 * MS, 1);
	a = next(&r);
	assert_false(a.raised);
	assert_string_equal(a.value, "1 B");
	assert_false(watch_about_memory(r.w));
	ram(&r, 2100 * MS, 2 * GIB);
	assert_raised(&r);
	assert_int_equal(watch_story(r.w, 0)->raised, 2);
	assert_int_equal(watch_story(r.w, 0)->first_ns, 100 * MS);
	finish(&r);
}

/* What crosses the line ten times a second is told once. */
static void test_flutter(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "ram > 1GiB");
	for (uint64_t t = 0; t < 100; t++)
		ram(&r, t * 100 * MS, t % 2 ? 2 * GIB : 1);
	assert_raised(&r);
	assert_quiet(&r);
	finish(&r);
}

static void test_for(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "ram > 1GiB for 1s");
	for (uint64_t t = 0; t < 1000; t += 100)
		ram(&r, t * MS, 2 * GIB);
	ram(&r, 950 * MS, 1); /* interrupted: it begins anew */
	for (uint64_t t = 1000; t < 2000; t += 100)
		ram(&r, t * MS, 2 * GIB);
	assert_quiet(&r);
	ram(&r, 2000 * MS, 2 * GIB);
	assert_int_equal(next(&r).time_ns, 2000 * MS);
	finish(&r);
}

/* A span ends by the clock, not by the next reading of what it is about. */
static void test_for_ends_by_the_clock(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "loss > 1 for 10s");
	series(&r, 0, "loss", 2);
	watch_tick(r.w, 9999 * MS);
	assert_quiet(&r);
	watch_tick(r.w, 10 * S);
	assert_raised(&r);
	finish(&r);
}

static void test_held_too_long_is_absent(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "ram > 1GiB for 1s");
	add(&r, "ram is absent");
	add(&r, "not ram > 1GiB");
	ram(&r, 0, 2 * GIB);
	watch_tick(r.w, 250 * MS);
	assert_quiet(&r);
	watch_tick(r.w, 300 * MS);
	assert_int_equal(next(&r).rule, 1);
	watch_tick(r.w, 5000 * MS);
	assert_quiet(&r);
	finish(&r);
}

static void test_unknown_fires_nothing(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "ram < 1GiB");
	framebuf_unknown(&r.buf, M_JOB_RAM, 0);
	show(&r, S);
	assert_quiet(&r);
	assert_false(watch_story(r.w, 0)->had);
	ram(&r, S, 1);
	assert_raised(&r);
	assert_true(watch_story(r.w, 0)->had);
	finish(&r);
}

static void test_burst_between_two_looks(void **state)
{
	struct rig r;
	struct reading reading = reading_of(M_JOB_RAM, 0, 1);

	(void) state;
	begin(&r, "ram > 1GiB");
	reading.max = 2 * GIB;
	framebuf_reading(&r.buf, reading);
	show(&r, S);
	assert_raised(&r);
	finish(&r);
}

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

/* A counter of the machine is older than the run. */
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

/* ---- about whom ---- */

static void test_each_process(void **state)
{
	struct rig r;
	struct alert a;

	(void) state;
	begin(&r, "process.rss > 1GiB and process.name ~ ^py");
	process(&r, 1, "python");
	process(&r, 2, "python");
	process(&r, 3, "bash");
	for (uint32_t id = 1; id <= 3; id++)
		put(&r, M_PROC_RSS, id, id == 1 ? 1 : 2 * GIB);
	show(&r, S);
	a = next(&r);
	assert_int_equal(a.entity, ENTITY_PROCESS);
	assert_int_equal(a.id, 2);
	assert_int_equal(a.pid, 1002);
	assert_string_equal(a.text, "process.rss > 1GiB and process.name ~ ^py: python (1002): process.rss 2.00 GiB");
	assert_quiet(&r);
	r.now = S / 2;
	process_end(&r, 2);
	show(&r, S);
	a = next(&r);
	assert_false(a.raised);
	assert_non_null(strstr(a.text, "it has ended"));
	assert_false(watch_about_memory(r.w));
	/* Its place is used again, and nothing of it is left there. */
	process(&r, 4, "python");
	show(&r, S);
	assert_quiet(&r);
	put(&r, M_PROC_RSS, 4, 2 * GIB);
	show(&r, S);
	assert_int_equal(next(&r).id, 4);
	finish(&r);
}

/* Born, grown and gone within one frame. */
static void test_short_life(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "process.rss > 1GiB");
	process(&r, 1, "a\nb");
	put(&r, M_PROC_RSS, 1, 2 * GIB);
	process_end(&r, 1);
	show(&r, S);
	assert_non_null(strstr(next(&r).text, "a?b (1001): 2.00 GiB"));
	assert_cleared(&r);
	finish(&r);
}

static void test_gpus(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "gpu.mem > 95%");
	add(&r, "gpu1.mem > 1GiB and ram > 1GiB");
	gpu(&r, 7, 0, 8 * GIB);
	gpu(&r, 9, 1, 16 * GIB);
	put(&r, M_GPU_MEM, 7, 8 * GIB);
	put(&r, M_GPU_MEM, 9, 8 * GIB);
	put(&r, M_JOB_RAM, 0, 2 * GIB);
	show(&r, S);
	assert_string_equal(next(&r).text, "gpu.mem > 95%: gpu 0: 8.00 GiB of 8.00 GiB");
	assert_int_equal(next(&r).rule, 1);
	assert_quiet(&r);
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
	watch_tick(r.w, 19 * S - 1);
	assert_quiet(&r);
	watch_tick(r.w, 19 * S);
	assert_non_null(strstr(next(&r).text, "no step for 10s: 10.0 s"));
	step(&r, 20 * S, 3);
	watch_tick(r.w, 21 * S);
	assert_cleared(&r);
	finish(&r);
}

/* Five times as long as it usually takes; what that is must be known first. */
static void test_silence_by_the_median(void **state)
{
	struct rig r;
	uint64_t t = 0;

	(void) state;
	begin(&r, "no step for 5x median");
	step(&r, 0, 0);
	watch_tick(r.w, 1000 * S);
	assert_quiet(&r);
	for (int64_t i = 1; i <= 20; i++) {
		t = 1000 * S + (uint64_t) i * 2 * S;
		step(&r, t, i);
	}
	watch_tick(r.w, t + 10 * S - 1);
	assert_quiet(&r);
	watch_tick(r.w, t + 10 * S);
	assert_non_null(strstr(next(&r).text, "no step for 5x median: 10.0 s, it is 2.00 s between two"));
	step(&r, t + 11 * S, 30);
	watch_tick(r.w, t + 12 * S);
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
	r.facts.stopped_by = known(124); /* it was told to, and has not ended yet */
	watch_tick(r.w, 6 * S);
	assert_quiet(&r);
	r.facts.exit_status = known(15);
	watch_tick(r.w, 7 * S);
	assert_string_equal(next(&r).text, "exit != 0: 124");
	finish(&r);
	begin(&r, "exit != 0");
	ram(&r, 5 * S, 1);
	r.facts.exit_status = known(3 << 8);
	watch_tick(r.w, 7 * S);
	assert_string_equal(next(&r).text, "exit != 0: 3");
	finish(&r);
}

static void test_silence_from_the_beginning(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "no loss for 10s");
	ram(&r, 5 * S, 1);
	watch_tick(r.w, 15 * S - 1);
	assert_quiet(&r);
	watch_tick(r.w, 15 * S);
	assert_raised(&r);
	finish(&r);
}

static void test_time(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "time >= 2h");
	ram(&r, 5 * S, 1);
	watch_tick(r.w, 7200 * S - 1);
	assert_quiet(&r);
	watch_tick(r.w, 7200 * S);
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
		int64_t (*course)(uint64_t t);
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
			put(&r, M_JOB_RAM, 0, courses[i].course(t));
			show(&r, 3 * S);
		}
		print_message("course %zu: raised %llu times\n", i, (unsigned long long) watch_story(r.w, 0)->raised);
		assert_int_equal(watch_story(r.w, 0)->raised, courses[i].grows);
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

/* ---- from a recording ---- */

static void window(struct rig *r, uint64_t at, int64_t low, int64_t high)
{
	struct reading reading = reading_of(M_JOB_RAM, 0, (low + high) / 2);

	reading.min = low;
	reading.max = high;
	reading.n = 10;
	reading.span_ns = S;
	r->now = at;
	framebuf_reading(&r->buf, reading);
	struct frame frame = framebuf_frame(&r->buf, FRAME_TOTALS, at, 3 * S);

	frame.live = false;
	watch_see(r->w, &frame);
	framebuf_clear(&r->buf);
}

static void test_windows(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "ram > 1GiB");
	add(&r, "ram > 1GiB for 3s");
	for (uint64_t t = 1; t <= 10; t++)
		window(&r, t * S, 1, 2 * GIB); /* each was above it at some moment, none always */
	assert_int_equal(next(&r).rule, 0);
	assert_quiet(&r);
	for (uint64_t t = 11; t <= 13; t++)
		window(&r, t * S, 2 * GIB, 3 * GIB); /* from 10 on */
	const struct alert a = next(&r);

	assert_int_equal(a.rule, 1);
	assert_int_equal(a.time_ns, 13 * S);
	finish(&r);
}

/* ---- limits of the engine itself ---- */

static void test_what_nobody_takes_is_counted(void **state)
{
	struct rig r;
	struct alert a;
	size_t n = 0;

	(void) state;
	begin(&r, "process.rss > 1GiB");
	for (uint32_t id = 1; id <= 3000; id++) {
		process(&r, id, "x");
		put(&r, M_PROC_RSS, id, 2 * GIB);
	}
	show(&r, S);
	while (watch_next(r.w, &a))
		n++;
	assert_true(n > 0 && n < 1000);
	assert_int_equal(n + watch_lost(r.w), 3000);
	assert_int_equal(watch_story(r.w, 0)->raised, 3000);
	finish(&r);
}

static void test_too_many_rules(void **state)
{
	struct rig r;
	struct rule rule;

	(void) state;
	begin(&r, NULL);
	for (int i = 0; i < WATCH_RULES; i++)
		add(&r, "ram > 1GiB and process.name ~ x");
	assert_int_equal(rule_parse("process.name ~ x", RULE_ALERT, &rule, NULL), 0);
	assert_int_equal(watch_add(r.w, &rule), -E2BIG);
	process(&r, 1, "x");
	put(&r, M_JOB_RAM, 0, 2 * GIB);
	show(&r, S);
	for (int i = 0; i < WATCH_RULES; i++)
		assert_int_equal(next(&r).rule, i);
	finish(&r);
}

static void turn(struct rig *r, uint64_t t)
{
	struct alert a;

	r->now = t * 100 * MS;
	for (uint32_t id = 1; id <= 50; id++)
		put(r, M_PROC_RSS, id, (int64_t) ((t / 20 + id) % 3) * GIB);
	put(r, M_JOB_RAM, 0, (int64_t) (t % 7) * GIB);
	show(r, 300 * MS);
	while (watch_next(r->w, &a))
		;
}

static void test_a_steady_state_allocates_nothing(void **state)
{
	struct rig r;
	size_t before;

	(void) state;
	begin(&r, "process.rss > 1GiB for 1s");
	add(&r, "growth(process.rss, 3s) > 1MiB/min or ram > 90%");
	add(&r, "no loss for 2s");
	for (uint32_t id = 1; id <= 50; id++)
		process(&r, id, "x");
	turn(&r, 0);
	before = allocations;
	for (uint64_t t = 1; t < 500; t++)
		turn(&r, t);
	assert_int_equal(allocations, before);
	assert_true(watch_story(r.w, 0)->raised > 50);
	finish(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once_each),
		cmocka_unit_test(test_flutter),
		cmocka_unit_test(test_for),
		cmocka_unit_test(test_for_ends_by_the_clock),
		cmocka_unit_test(test_held_too_long_is_absent),
		cmocka_unit_test(test_unknown_fires_nothing),
		cmocka_unit_test(test_burst_between_two_looks),
		cmocka_unit_test(test_of_limit_and_capacity),
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_counters_of_the_machine),
		cmocka_unit_test(test_each_process),
		cmocka_unit_test(test_short_life),
		cmocka_unit_test(test_gpus),
		cmocka_unit_test(test_nan),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_silence_from_the_beginning),
		cmocka_unit_test(test_silence_by_the_median),
		cmocka_unit_test(test_exit),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_growth_in_a_short_span),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_what_nobody_takes_is_counted),
		cmocka_unit_test(test_too_many_rules),
		cmocka_unit_test(test_a_steady_state_allocates_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
