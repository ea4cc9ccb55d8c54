/* SPDX-License-Identifier: MIT
 *
 * Tracks and lanes of exported traced work. tests/cli/test_export_trace.py has the formats.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sink/export/export_trace.h"

struct ended {
	uint64_t last_ns;
	size_t n;
	unsigned lanes[8];
};

static void see_end(void *ctx, struct trace_track *track, unsigned lane, uint64_t end_ns)
{
	struct ended *ended = ctx;

	(void) track;
	assert_true(end_ns >= ended->last_ns);
	ended->last_ns = end_ns;
	if (ended->n < 8)
		ended->lanes[ended->n] = lane;
	ended->n++;
}

static struct trace_track *new_track(struct trace_tracks *t)
{
	const struct trace_track like = { .class = CLASS_THREAD, .process = 1, .tid = 1, .device = -1 };

	assert_int_equal(trace_track_find(t, &like), 0);
	return t->tracks;
}

static void test_a_lane_is_nested(void **state)
{
	struct trace_tracks t = { .n = 0 };
	struct trace_track *track = new_track(&t);
	struct ended ended = { .n = 0 };

	(void) state;
	assert_int_equal(trace_lanes_open(track, 100), 0);
	assert_int_equal(trace_lanes_open(track, 100), 0); /* as long: inside */
	assert_int_equal(trace_lanes_open(track, 50), 0);
	assert_int_equal(trace_lanes_open(track, 60), 1);  /* crosses the one that ends at 50 */
	assert_int_equal(trace_lanes_open(track, 55), 1);
	assert_int_equal(trace_lanes_open(track, 50), 0);
	trace_lanes_close(track, 49, see_end, &ended);
	assert_int_equal(ended.n, 0);
	trace_lanes_close(track, 55, see_end, &ended);     /* at their end they are closed */
	assert_int_equal(ended.n, 3);
	assert_int_equal(trace_lanes_open(track, 90), 0);
	trace_lanes_close(track, UINT64_MAX, see_end, &ended);
	assert_int_equal(ended.n, 7);
	assert_int_equal(ended.lanes[3], 1);
	trace_tracks_done(&t);
}

/* Slices anywhere: all end once, in the order of time, and each lane is nested. */
static void test_of_anything(void **state)
{
	struct trace_tracks t = { .n = 0 };
	struct trace_track *track = new_track(&t);
	struct ended ended = { .n = 0 };
	uint64_t random = 1, now = 0;
	size_t opened = 0;

	(void) state;
	for (unsigned i = 0; i < 20000; i++) {
		random = random * 6364136223846793005U + 1442695040888963407U;
		now += random >> 60;
		trace_lanes_close(track, now, see_end, &ended);
		opened += trace_lanes_open(track, now + (random >> 40) % 97) >= 0;
		for (unsigned l = 0; l < track->n_lanes; l++) {
			for (size_t d = 1; d < track->lanes[l].depth; d++)
				assert_true(track->lanes[l].ends[d] <= track->lanes[l].ends[d - 1]);
		}
	}
	trace_lanes_close(track, UINT64_MAX, see_end, &ended);
	assert_int_equal(opened, 20000);
	assert_int_equal(ended.n, opened);
	trace_tracks_done(&t);
}

static void test_too_many_lanes(void **state)
{
	struct trace_tracks t = { .n = 0 };
	struct trace_track *track = new_track(&t);

	(void) state;
	for (unsigned i = 0; i < LANES_MOST; i++)
		assert_int_equal(trace_lanes_open(track, 1000 + i), i);
	assert_int_equal(trace_lanes_open(track, 5000), -1);
	assert_int_equal(trace_lanes_open(track, 1000), 0);
	for (unsigned i = 1; i < LANE_DEPTH_MOST; i++)
		(void) trace_lanes_open(track, 1000);
	assert_int_equal(trace_lanes_open(track, 1000), 1);
	trace_tracks_done(&t);
}

static void test_a_site_has_a_track(void **state)
{
	struct trace_tracks t = { .n = 0 };
	struct trace_site site = { .kind = TRACE_KERNEL, .process = 1, .name = "a", .domain = "", .stream = 7 };
	uint32_t first;

	(void) state;
	first = trace_place_of(&t, 1, &site)->track;
	site.name = "b";
	assert_int_equal(trace_place_of(&t, 2, &site)->track, first);
	site.kind = TRACE_COPY;
	assert_int_equal(trace_place_of(&t, 3, &site)->track, first);
	site.context = 1;
	assert_int_not_equal(trace_place_of(&t, 4, &site)->track, first);
	site = (struct trace_site) { .kind = TRACE_RANGE, .process = 1, .tid = 7, .device = 5, .stream = 9 };
	first = trace_place_of(&t, 5, &site)->track;
	site.kind = TRACE_LAUNCH;
	site.device = 6; /* of a call it has no meaning */
	assert_int_equal(trace_place_of(&t, 6, &site)->track, first);
	trace_place_of(&t, 5, &site)->number = 12;
	assert_int_equal(trace_place_of(&t, 5, &site)->number, 12);
	assert_int_equal(t.n, 3);
	trace_tracks_done(&t);
}

static void test_texts(void **state)
{
	struct trace_site site = { .kind = TRACE_COPY, .name = "", .source = TRACE_PINNED, .target = TRACE_ARRAY };
	struct trace_place place = { .number = 0 };
	struct buf text = BUF_INIT(1000);

	(void) state;
	assert_string_equal(export_trace_name(&place, &site, &text), "Memcpy HtoD (Pinned -> Array)");
	site.source = TRACE_MEMORY_UNKNOWN;
	assert_string_equal(export_trace_name(&place, &site, &text), "Memcpy");
	site.name = "clEnqueueCopyBuffer";
	assert_string_equal(export_trace_name(&place, &site, &text), "Memcpy clEnqueueCopyBuffer");
	site.name = "Memcpy PtoP (Device -> Device)";
	assert_string_equal(export_trace_name(&place, &site, &text), site.name);
	site = (struct trace_site) { .kind = TRACE_FILL, .name = "", .target = TRACE_MANAGED };
	assert_string_equal(export_trace_name(&place, &site, &text), "Memset (Managed)");
	buf_clear(&text);
	export_trace_flags(&text, TRACE_UNCLOSED | TRACE_CROSSING | TRACE_INVALID);
	assert_string_equal(text.data, "unclosed, crossing");
	assert_true(export_trace_is_driver("cuLaunchKernel"));
	assert_false(export_trace_is_driver("cudaLaunchKernel"));
	assert_false(export_trace_is_driver("cu"));
	buf_done(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_lane_is_nested),
		cmocka_unit_test(test_of_anything),
		cmocka_unit_test(test_too_many_lanes),
		cmocka_unit_test(test_a_site_has_a_track),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
