/* SPDX-License-Identifier: MIT
 *
 * The alert engine on frames made by hand: when rules are raised and cleared, and for which
 * subject.
 */
#include "watch_rig.h"

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
	assert_int_equal(watch_history(r.w, 0)->raised, 2);
	assert_int_equal(watch_history(r.w, 0)->first_ns, 100 * MS);
	finish(&r);
}

/* A value that crosses the threshold ten times a second raises once. */
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
	ram(&r, 950 * MS, 1); /* interrupted: it starts over */
	for (uint64_t t = 1000; t < 2000; t += 100)
		ram(&r, t * MS, 2 * GIB);
	assert_quiet(&r);
	ram(&r, 2000 * MS, 2 * GIB);
	assert_int_equal(next(&r).time_ns, 2000 * MS);
	finish(&r);
}

/* A time span ends by the clock, not with the next value. */
static void test_for_ends_by_the_clock(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "loss > 1 for 10s");
	series(&r, 0, "loss", 2);
	watch_advance(r.w, 9999 * MS);
	assert_quiet(&r);
	watch_advance(r.w, 10 * S);
	assert_raised(&r);
	finish(&r);
}

static void test_expired_is_absent(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "ram > 1GiB for 1s");
	add(&r, "ram is absent");
	add(&r, "not ram > 1GiB");
	ram(&r, 0, 2 * GIB);
	watch_advance(r.w, 250 * MS);
	assert_quiet(&r);
	watch_advance(r.w, 300 * MS);
	assert_int_equal(next(&r).rule, 1);
	watch_advance(r.w, 5000 * MS);
	assert_quiet(&r);
	finish(&r);
}

static void test_unknown_raises_nothing(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "ram < 1GiB");
	framebuf_unknown(&r.buf, M_JOB_RAM, 0);
	show(&r, S);
	assert_quiet(&r);
	assert_false(watch_history(r.w, 0)->had);
	ram(&r, S, 1);
	assert_raised(&r);
	assert_true(watch_history(r.w, 0)->had);
	finish(&r);
}

static void test_burst_between_two_samples(void **state)
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

/* ---- subjects ---- */

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
	assert_string_equal(
		a.text, "process.rss > 1GiB and process.name ~ ^py: python (1002): process.rss 2.00 GiB");
	assert_quiet(&r);
	r.now = S / 2;
	process_end(&r, 2);
	show(&r, S);
	a = next(&r);
	assert_false(a.raised);
	assert_non_null(strstr(a.text, "it has ended"));
	assert_false(watch_about_memory(r.w));
	/* Its place is reused, without its values. */
	process(&r, 4, "python");
	show(&r, S);
	assert_quiet(&r);
	put(&r, M_PROC_RSS, 4, 2 * GIB);
	show(&r, S);
	assert_int_equal(next(&r).id, 4);
	finish(&r);
}

/* Birth, growth and end within one frame. */
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

/* A memory size that the driver reports late counts from then on, also for processes on the GPU. */
static void test_a_gpu_with_late_memory_size(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "gpu.mem > 95%");
	add(&r, "gpu_process.mem > 95%");
	framebuf_birth(
		&r.buf, &(struct birth) { .entity = ENTITY_GPU, .id = 7, .gpu = { .index = known(0) } });
	framebuf_birth(&r.buf,
		&(struct birth) { .entity = ENTITY_GPU_PROCESS,
			.id = 3,
			.gpu_process = { .gpu = 7, .process = 1, .pid = known(9), .name = "a" } });
	put(&r, M_GPU_MEM, 7, 8 * GIB);
	put(&r, M_GPROC_MEM, 3, 8 * GIB);
	show(&r, S);
	assert_quiet(&r);
	gpu(&r, 7, 0, 8 * GIB);
	put(&r, M_GPU_MEM, 7, 8 * GIB);
	put(&r, M_GPROC_MEM, 3, 8 * GIB);
	show(&r, S);
	assert_int_equal(next(&r).rule, 0);
	assert_int_equal(next(&r).rule, 1);
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
	watch_frame(r->w, &frame);
	framebuf_clear(&r->buf);
}

static void test_windows(void **state)
{
	struct rig r;

	(void) state;
	begin(&r, "ram > 1GiB");
	add(&r, "ram > 1GiB for 3s");
	for (uint64_t t = 1; t <= 10; t++)
		window(&r, t * S, 1, 2 * GIB); /* above it at some moment of each window, throughout none */
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

static void test_lost_alerts_are_counted(void **state)
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
	assert_int_equal(watch_history(r.w, 0)->raised, 3000);
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
	assert_true(watch_history(r.w, 0)->raised > 50);
	finish(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once_each),
		cmocka_unit_test(test_flutter),
		cmocka_unit_test(test_for),
		cmocka_unit_test(test_for_ends_by_the_clock),
		cmocka_unit_test(test_expired_is_absent),
		cmocka_unit_test(test_unknown_raises_nothing),
		cmocka_unit_test(test_burst_between_two_samples),
		cmocka_unit_test(test_each_process),
		cmocka_unit_test(test_short_life),
		cmocka_unit_test(test_gpus),
		cmocka_unit_test(test_a_gpu_with_late_memory_size),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_lost_alerts_are_counted),
		cmocka_unit_test(test_too_many_rules),
		cmocka_unit_test(test_a_steady_state_allocates_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
