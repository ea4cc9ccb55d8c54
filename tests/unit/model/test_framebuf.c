/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/framebuf.h"

static void test_an_empty_one(void **state)
{
	struct framebuf b = { 0 };
	struct frame f = framebuf_frame(&b, FRAME_HOST, 5, 6);

	(void) state;
	assert_true(framebuf_is_empty(&b));
	assert_int_equal(f.time_ns, 5);
	assert_int_equal(f.hold_ns, 6);
	assert_int_equal(f.source, FRAME_HOST);
	assert_true(f.live);
	assert_int_equal(f.n_births + f.n_ends + f.n_readings + f.n_events + f.n_series, 0);
	framebuf_clear(&b);
	framebuf_done(&b);
	framebuf_done(&b);
}

static void test_readings(void **state)
{
	struct framebuf b = { 0 };
	struct reading folded = { .id = 3,
		.metric = M_PROC_RSS,
		.known = true,
		.n = 10,
		.value = 5,
		.min = 1,
		.max = 9,
		.span_ns = 1000 };

	(void) state;
	framebuf_value(&b, M_HOST_MEM_USED, 0, -7);
	framebuf_unknown(&b, M_HOST_ENERGY, 0);
	framebuf_reading(&b, folded);
	assert_false(framebuf_is_empty(&b));
	struct frame f = framebuf_frame(&b, FRAME_HOST, 0, 0);

	assert_int_equal(f.n_readings, 3);
	assert_int_equal(f.readings[0].metric, M_HOST_MEM_USED);
	assert_true(f.readings[0].known);
	assert_int_equal(f.readings[0].n, 1);
	assert_int_equal(f.readings[0].value, -7);
	assert_int_equal(f.readings[0].min, -7);
	assert_int_equal(f.readings[0].max, -7);
	assert_int_equal(f.readings[1].metric, M_HOST_ENERGY);
	assert_false(f.readings[1].known);
	assert_int_equal(f.readings[1].value, 0);
	assert_int_equal(f.readings[2].id, 3);
	assert_int_equal(f.readings[2].n, 10);
	assert_int_equal(f.readings[2].max, 9);
	assert_int_equal(f.readings[2].span_ns, 1000);
	framebuf_done(&b);
}

/* The arguments may be overwritten at once. */
static void test_texts_are_copied(void **state)
{
	struct framebuf b = { 0 };
	char name[16] = "python", command[16] = "python -c 1", uuid[16] = "GPU-1", gpu[16] = "H200",
	     vendor[16] = "NVIDIA", pci[16] = "0000:18:00.0";
	char text[16] = "epoch 1", series[16] = "loss";

	(void) state;
	framebuf_birth(&b, &(struct birth) { .entity = ENTITY_PROCESS,
				   .id = 1,
				   .process = { .pid = 7, .name = name, .command = command } });
	framebuf_birth(&b, &(struct birth) { .entity = ENTITY_GPU,
				   .id = 1,
				   .gpu = { .uuid = uuid, .name = gpu, .vendor = vendor, .pci = pci } });
	framebuf_birth(
		&b, &(struct birth) {
			    .entity = ENTITY_GPU_PROCESS, .id = 1, .gpu_process = { .gpu = 1 } });
	framebuf_birth(
		&b, &(struct birth) { .entity = ENTITY_PROCESS, .id = 2, .process = { .pid = 8 } });
	framebuf_event(&b, &(struct event) { .kind = EVENT_MARK, .text = text });
	framebuf_series(&b, &(struct series_value) { .name = series, .value = 0.5 });
	memset(name, 'x', sizeof(name));
	memset(command, 'x', sizeof(command));
	memset(uuid, 'x', sizeof(uuid));
	memset(gpu, 'x', sizeof(gpu));
	memset(vendor, 'x', sizeof(vendor));
	memset(pci, 'x', sizeof(pci));
	memset(text, 'x', sizeof(text));
	memset(series, 'x', sizeof(series));
	struct frame f = framebuf_frame(&b, FRAME_PROCFS, 0, 0);

	assert_int_equal(f.n_births, 4);
	assert_string_equal(f.births[0].process.name, "python");
	assert_string_equal(f.births[0].process.command, "python -c 1");
	assert_string_equal(f.births[1].gpu.uuid, "GPU-1");
	assert_string_equal(f.births[1].gpu.name, "H200");
	assert_string_equal(f.births[1].gpu.vendor, "NVIDIA");
	assert_string_equal(f.births[1].gpu.pci, "0000:18:00.0");
	assert_string_equal(f.births[1].gpu.parent, "");
	assert_string_equal(f.births[2].gpu_process.name, "");
	assert_string_equal(f.births[3].process.name, "");
	assert_string_equal(f.births[3].process.command, "");
	assert_string_equal(f.events[0].text, "epoch 1");
	assert_string_equal(f.series[0].name, "loss");
	framebuf_done(&b);
}

/* Early texts stay where they are while thousands follow, long ones among them. */
static void test_texts_never_move(void **state)
{
	enum {
		N = 5000,
		LONG = 300000
	};
	static const char *where[N];
	static char text[LONG];
	struct framebuf b = { 0 };

	(void) state;
	for (int i = 0; i < N; i++) {
		int width = i == 777 ? LONG - 1 : 1 + i % 90;

		snprintf(text, sizeof(text), "%0*d", width, i);
		framebuf_event(&b, &(struct event) { .kind = EVENT_MARK, .text = text });
		where[i] = b.events[i].text;
	}
	assert_int_equal(b.error, 0);
	assert_int_equal(b.n_events, N);
	for (int i = 0; i < N; i++) {
		int width = i == 777 ? LONG - 1 : 1 + i % 90;

		snprintf(text, sizeof(text), "%0*d", width, i);
		assert_ptr_equal(b.events[i].text, where[i]);
		assert_string_equal(b.events[i].text, text);
	}
	framebuf_done(&b);
}

static void fill(struct framebuf *b, int n)
{
	for (int i = 0; i < n; i++) {
		framebuf_birth(b, &(struct birth) { .entity = ENTITY_PROCESS,
					  .id = (uint32_t) i,
					  .process = { .name = "sh", .command = "sh -c true" } });
		framebuf_value(b, M_PROC_RSS, (uint32_t) i, i);
		framebuf_end(b, &(struct end) { .entity = ENTITY_PROCESS, .id = (uint32_t) i });
		framebuf_event(b, &(struct event) { .kind = EVENT_NOTE, .text = "gpu: no driver" });
		framebuf_series(b, &(struct series_value) { .name = "loss" });
	}
}

/* Steady sampling allocates nothing: after a clear, everything is at the same address. */
static void test_room_is_kept(void **state)
{
	struct framebuf b = { 0 }, before;

	(void) state;
	fill(&b, 1000);
	before = b;
	const char *first = b.births[0].process.name, *last = b.series[999].name;

	for (int i = 0; i < 10; i++) {
		framebuf_clear(&b);
		assert_true(framebuf_is_empty(&b));
		fill(&b, 1000);
		assert_ptr_equal(b.births, before.births);
		assert_ptr_equal(b.readings, before.readings);
		assert_ptr_equal(b.ends, before.ends);
		assert_ptr_equal(b.events, before.events);
		assert_ptr_equal(b.series, before.series);
		assert_ptr_equal(b.births[0].process.name, first);
		assert_ptr_equal(b.series[999].name, last);
	}
	assert_int_equal(b.error, 0);
	framebuf_done(&b);
}

static void test_the_maximum(void **state)
{
	struct framebuf b = { 0 };

	(void) state;
	for (int i = 0; i < (1 << 20) + 1; i++)
		framebuf_value(&b, M_PROC_RSS, 1, i);
	assert_int_equal(b.error, -EFBIG);
	assert_int_equal(b.n_readings, 1 << 20);
	framebuf_end(&b, &(struct end) { .id = 1 });
	assert_int_equal(b.n_ends, 1); /* the other kinds are unaffected */
	assert_int_equal(b.error, -EFBIG);
	framebuf_clear(&b);
	assert_int_equal(b.error, 0);
	framebuf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_empty_one),
		cmocka_unit_test(test_readings),
		cmocka_unit_test(test_texts_are_copied),
		cmocka_unit_test(test_texts_never_move),
		cmocka_unit_test(test_room_is_kept),
		cmocka_unit_test(test_the_maximum),
	};

	return cmocka_run_group_tests_name("framebuf", tests, NULL, NULL);
}
