/* SPDX-License-Identifier: MIT */
#include "findings_rig.h"

/* 1,000 MiB, of which a function touched 700 MiB in 2,800 samples. */
static struct touched loaded(void)
{
	struct touched w = { .n = 2, .peak_bytes = (uint64_t) MIB(1000), .n_functions = 9, .n_samples = 3000 };

	w.list[0] = (struct toucher) { .name = "load_table",
		.library = "app",
		.caller = "prepare",
		.bytes = (uint64_t) MIB(700),
		.sigma_bytes = (uint64_t) MIB(13),
		.samples = 2800,
		.is_function = true };
	w.list[1] = (struct toucher) { .name = "other",
		.library = "app",
		.bytes = (uint64_t) MIB(100),
		.sigma_bytes = (uint64_t) MIB(5),
		.samples = 400,
		.is_function = true };
	return w;
}

static bool fires_with(struct made *m, const struct touched *w)
{
	m->s.touched = w;
	return fires(m, "one-call");
}

static void test_half_of_the_peak(void **state)
{
	struct touched w = loaded();
	const struct finding *f;
	struct made m;

	(void) state;
	made_new(&m);
	assert_true(fires_with(&m, &w));
	f = judged(&m, "one-call", NULL);
	assert_int_equal(f->severity, SEVERITY_HINT);
	assert_says(f->message, "700 MiB of 0.977 GiB at the peak (70 %) was first touched by load_table, called by prepare.");
	assert_true(evidence_of(f, "function_bytes") == MIB(700) && evidence_of(f, "peak_bytes") == MIB(1000));
	assert_true(evidence_of(f, "function_ratio") == 0.7 && evidence_of(f, "sigma_bytes") == MIB(13));
	w.list[0].caller[0] = '\0';
	assert_true(fires_with(&m, &w));
	assert_null(strstr(judged(&m, "one-call", NULL)->message, "called by"));
	made_done(&m);
}

static void test_a_run_that_was_not_sampled_is_not_judged(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	for (size_t i = 0; i < m.s.n_findings; i++)
		assert_string_not_equal(m.s.findings[i].code, "one-call");
	made_done(&m);
}

static void test_false_alarms(void **state)
{
	struct touched w = loaded();
	struct made m;

	(void) state;
	made_new(&m);
	w.list[0].is_function = false; /* main, an allocator, or a name that several functions have */
	assert_false(fires_with(&m, &w));
	w = loaded();
	w.list[0].bytes = (uint64_t) MIB(520); /* 20 more than half: within two sigma */
	assert_false(fires_with(&m, &w));
	assert_says(judged(&m, "one-call", NULL)->why_not, "load_table first touched most, 52 % of the peak (520 MiB +- 13");
	w.list[0].bytes = (uint64_t) MIB(527);
	assert_true(fires_with(&m, &w));
	w = loaded();
	w.list[0].samples = 0; /* of which no sigma is known */
	w.list[0].sigma_bytes = 0;
	assert_false(fires_with(&m, &w));
	w = loaded();
	w.peak_bytes = (uint64_t) MIB(300); /* small */
	w.list[0].bytes = (uint64_t) MIB(255);
	assert_false(fires_with(&m, &w));
	w.list[0].bytes = (uint64_t) MIB(256);
	assert_true(fires_with(&m, &w));
	w = loaded();
	w.peak_bytes = (uint64_t) MIB(2000); /* most was read by the kernel */
	w.unsampled_bytes = (uint64_t) MIB(1200);
	assert_false(fires_with(&m, &w));
	w.n = 0;
	assert_false(fires_with(&m, &w));
	assert_says(judged(&m, "one-call", NULL)->why_not, "no memory of the peak");
	w.peak_bytes = 0;
	assert_false(fires_with(&m, &w));
	made_done(&m);
}

/* A main that touches a little more does not hide the function. */
static void test_after_main(void **state)
{
	struct touched w = loaded();
	struct made m;

	(void) state;
	made_new(&m);
	w.list[1] = w.list[0];
	w.list[1].bytes = (uint64_t) MIB(530);
	w.list[0].is_function = false;
	w.list[0].bytes = (uint64_t) MIB(470);
	assert_true(fires_with(&m, &w));
	assert_says(judged(&m, "one-call", NULL)->message, "530 MiB of 0.977 GiB");
	made_done(&m);
}

static bool is_judged_so(struct made *m, const struct touched *w, const char *code)
{
	m->s.touched = w;
	return fires(m, code);
}

static void test_copies(void **state)
{
	struct touched w = loaded();
	const struct finding *f;
	struct made m;

	(void) state;
	made_new(&m);
	assert_false(is_judged_so(&m, &w, "copy-on-write")); /* none */
	w.copied = (struct copied) { "read_items", (uint64_t) MIB(150), (uint64_t) MIB(140), 3 };
	assert_true(is_judged_so(&m, &w, "copy-on-write"));
	f = judged(&m, "copy-on-write", NULL);
	assert_int_equal(f->severity, SEVERITY_HINT);
	assert_says(f->message, "150 MiB was copied in 3 forked processes, 140 MiB of it by read_items");
	assert_true(evidence_of(f, "cow_bytes") == MIB(150) && evidence_of(f, "cow_processes") == 3);
	w.copied.n_processes = 1;
	assert_true(is_judged_so(&m, &w, "copy-on-write"));
	assert_says(judged(&m, "copy-on-write", NULL)->message, "in 1 forked process,");
	w.copied.bytes = (uint64_t) MIB(99); /* of 1,000 */
	assert_false(is_judged_so(&m, &w, "copy-on-write"));
	assert_says(judged(&m, "copy-on-write", NULL)->why_not, "99.0 MiB of the peak, 10 %, are copies");
	w.peak_bytes = (uint64_t) MIB(100);
	w.copied.bytes = (uint64_t) MIB(63); /* small */
	assert_false(is_judged_so(&m, &w, "copy-on-write"));
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_half_of_the_peak),
		cmocka_unit_test(test_a_run_that_was_not_sampled_is_not_judged),
		cmocka_unit_test(test_false_alarms),
		cmocka_unit_test(test_after_main),
		cmocka_unit_test(test_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
