/* SPDX-License-Identifier: MIT
 *
 * Reports about a driver that does not answer, with made-up times.
 */
#include "tree_helper.h"

#include "gpu/gpu_internal.h"
#include "gpu/watchdog.h"

#define SECOND UINT64_C(1000000000)
#define START  (100 * SECOND)
#define NEW    { .label = "X", .start_ns = START }

struct reports {
	struct gpu_watchdog w;
	unsigned n;
	char text[GPU_REPORT]; /* the last */
};

/* A call that begins this many seconds into the run and takes this long, and the check after it. */
static void call(struct reports *t, unsigned at, unsigned takes)
{
	char text[GPU_REPORT];

	for (unsigned s = 0; s <= takes; s++) {
		const uint64_t began = START + at * SECOND, now = began + s * SECOND;

		if (gpu_watchdog_check(&t->w, "", s < takes ? began : 0, now, text)) {
			t->n++;
			memcpy(t->text, text, sizeof(text));
		}
	}
}

static void one_is_reported_when_it_begins_and_when_it_is_over(void **state)
{
	char text[GPU_REPORT], last[2][GPU_REPORT];
	struct reports t = { .w = NEW };

	(void) state;
	call(&t, 1, 5);
	assert_int_equal(t.n, 0); /* no silence yet */
	assert_false(gpu_watchdog_check(&t.w, "", START + 10 * SECOND, START + 15 * SECOND, text));
	assert_true(gpu_watchdog_check(&t.w, "", START + 10 * SECOND, START + 16 * SECOND, text));
	assert_string_equal(
		text, "gpu: X has not answered since 10 s; its values are missing from that time on");
	assert_false(gpu_watchdog_check(&t.w, "", START + 10 * SECOND, START + 70 * SECOND, text));
	/* the next call */
	assert_true(gpu_watchdog_check(&t.w, "", START + 74 * SECOND, START + 75 * SECOND, text));
	assert_string_equal(
		text, "gpu: X did not answer from 10 s to 75 s; its values for that time are missing");
	assert_int_equal(gpu_watchdog_finish(&t.w, "", 0, START + 80 * SECOND, last), 0);
}

static void many_are_reported_once(void **state)
{
	char last[2][GPU_REPORT];
	struct reports t = { .w = NEW };

	(void) state;
	for (unsigned i = 0; i < 500; i++)
		call(&t, 10 + i * 10, 7);
	assert_int_equal(t.n, 2);
	assert_string_equal(
		t.text, "gpu: X did not answer from 10 s to 17 s; its values for that time are missing");
	assert_int_equal(gpu_watchdog_finish(&t.w, "", 0, START + 9000 * SECOND, last), 1);
	assert_string_equal(last[0],
		"gpu: X did not answer 500 times between 10 s and 1 h 23 min 27 s, for 58 min 20 s in total; its values for those times are missing");
	call(&t, 6000, 20);
	assert_int_equal(t.n, 4); /* longer than all before */
	assert_string_equal(t.text,
		"gpu: X did not answer from 1 h 40 min 0 s to 1 h 40 min 20 s; its values for that time are missing");
}

static void one_that_goes_on_in_the_end_is_reported(void **state)
{
	char text[GPU_REPORT], last[2][GPU_REPORT];
	struct reports t = { .w = NEW };

	(void) state;
	call(&t, 10, 7);
	assert_false(gpu_watchdog_check(&t.w, "", START + 30 * SECOND, START + 36 * SECOND, text));
	assert_int_equal(gpu_watchdog_finish(&t.w, "", START + 30 * SECOND, START + 38 * SECOND, last), 2);
	assert_string_equal(last[0],
		"gpu: X did not answer 2 times between 10 s and 38 s, for 15 s in total; its values for those times are missing");
	assert_string_equal(
		last[1], "gpu: X has not answered since 30 s; its values are missing from that time on");
}

/* A run may end before a pending call returns. */
static void a_call_in_progress_at_the_end_is_reported(void **state)
{
	char text[GPU_REPORT], last[2][GPU_REPORT];
	struct gpu_watchdog w = NEW;

	(void) state;
	assert_false(gpu_watchdog_check(&w, "", START + SECOND, START + 3 * SECOND, text));
	assert_int_equal(
		gpu_watchdog_finish(&w, "", START + 2 * SECOND, START + 2 * SECOND + SECOND / 10, last), 0);
	assert_int_equal(gpu_watchdog_finish(&w, "init", START + 2 * SECOND, START + 3 * SECOND, last), 1);
	assert_string_equal(last[0],
		"gpu: X was still being read when the run ended, since 2 s (init); its values are missing from that time on");
	assert_int_equal(
		gpu_watchdog_finish(&w, "init of GPU 1", START + SECOND, START + 4 * SECOND, last), 1);
	assert_string_equal(last[0],
		"gpu: X has not answered since 1 s (init of GPU 1); its values are missing from that time on");
}

static void one_that_ended_with_the_helper_counts(void **state)
{
	char text[GPU_REPORT], last[2][GPU_REPORT];
	struct reports t = { .w = NEW };

	(void) state;
	for (unsigned i = 0; i < 2; i++) {
		(void) gpu_watchdog_check(
			&t.w, "", START + (10 + i * 100) * SECOND, START + (20 + i * 100) * SECOND, text);
		gpu_watchdog_end(&t.w, START + (30 + i * 100) * SECOND);
	}
	gpu_watchdog_end(&t.w, START + 500 * SECOND); /* no silence in progress */
	assert_int_equal(gpu_watchdog_finish(&t.w, "", 0, START + 900 * SECOND, last), 1);
	assert_string_equal(last[0],
		"gpu: X did not answer 2 times between 10 s and 2 min 10 s, for 40 s in total; its values for those times are missing");
}

/* A sleeping helper and a frozen one differ only by the planned wake-up. */
static void an_overslept_source_is_waited_for(void **state)
{
	struct gpu_watchdog w = NEW;

	(void) state;
	assert_int_equal(gpu_watchdog_overslept(&w, 0, START), 0);
	assert_int_equal(gpu_watchdog_overslept(&w, START + SECOND, START), 0);
	assert_int_equal(gpu_watchdog_overslept(&w, START + SECOND, START + 2 * SECOND), START + 2 * SECOND);
	assert_int_equal(gpu_watchdog_overslept(&w, START + SECOND, START + 9 * SECOND), START + 2 * SECOND);
	/* it was awake */
	assert_int_equal(gpu_watchdog_overslept(&w, START + 10 * SECOND, START + 9 * SECOND), 0);
	/* the machine was suspended */
	assert_int_equal(
		gpu_watchdog_overslept(&w, START + 10 * SECOND, START + 900 * SECOND), START + 900 * SECOND);
}

/* ---- killed processes that still exist ------------------------------------------------------- */

static bool ends_with(const char *of_main, const char *of_thread)
{
	struct temp_tree t;
	struct root root;

	temp_tree_new(&t);
	temp_tree_put(&t, "proc/7/task/7/stat", of_main);
	temp_tree_put(&t, "proc/7/task/8/stat", of_thread);
	root = temp_tree_root(&t);

	const bool is_exiting = gpu_is_exiting(&root, 7);

	assert_true(gpu_is_exiting(&root, 9)); /* it is gone */
	root_done(&root);
	temp_tree_done(&t);
	return is_exiting;
}

#define ZOMBIE  "7 (hiwater-gpu) Z 1 7 7 0 -1 4227084 0 0\n"
#define FREEING "8 (hiwater-gpu) R 1 7 7 0 -1 4194628 0 0\n"

static void who_is_on_its_way_out_is_not_stuck(void **state)
{
	(void) state;
	assert_true(ends_with(ZOMBIE, FREEING));
	assert_false(ends_with(ZOMBIE, "8 (a) b) D 1 7 7 0 -1 4194624 0 0\n")); /* in a call */
	/* in the driver's release */
	assert_false(ends_with(ZOMBIE, "8 (hiwater-gpu) D 1 7 7 0 -1 4194628 0 0\n"));
	assert_false(ends_with(ZOMBIE, "8 (hiwater-gpu) S 1 7 7 0 -1 4194624 0 0\n"));
	assert_false(ends_with(ZOMBIE, "8 (hiwater-gpu)"));
}

static const char *a_call(unsigned call)
{
	return call == 7 ? "nvmlInit" : NULL;
}

/* Each source has a thread: if two were in calls when the helper ended, either may be the cause. */
static void all_that_were_in_calls_are_named(void **state)
{
	static const struct source_ops named = { .name = "a", .call_name = a_call },
				       nameless = { .name = "b" };
	static const struct gpu_vendor vendors[] = { { &named, "NVML", NULL, CAUSE_NVML },
		{ &nameless, "DRM", NULL, CAUSE_DRM } };
	static struct gpu_shared shared;
	const struct gpu_request request = { .vendors = vendors, .n_vendors = 2 },
				 single = { .vendors = vendors, .n_vendors = 1 };
	char text[GPU_CALLS];

	(void) state;
	assert_string_equal(gpu_calls_in_progress(&request, &shared, text), "");
	assert_string_equal(gpu_calls_in_progress(&single, &shared, text), " outside a call of NVML");
	atomic_store(&shared.slots[1].in_call_ns, 1);
	assert_string_equal(gpu_calls_in_progress(&request, &shared, text), " in a call of DRM");
	atomic_store(&shared.slots[0].in_call_ns, 1);
	atomic_store(&shared.slots[0].call.call, 7);
	atomic_store(&shared.slots[0].call.device, 2);
	assert_string_equal(gpu_calls_in_progress(&request, &shared, text),
		" in a call of NVML (nvmlInit of GPU 1) or of DRM");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_is_reported_when_it_begins_and_when_it_is_over),
		cmocka_unit_test(many_are_reported_once),
		cmocka_unit_test(one_that_goes_on_in_the_end_is_reported),
		cmocka_unit_test(a_call_in_progress_at_the_end_is_reported),
		cmocka_unit_test(one_that_ended_with_the_helper_counts),
		cmocka_unit_test(an_overslept_source_is_waited_for),
		cmocka_unit_test(who_is_on_its_way_out_is_not_stuck),
		cmocka_unit_test(all_that_were_in_calls_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
