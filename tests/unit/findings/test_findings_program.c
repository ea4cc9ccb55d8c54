/* SPDX-License-Identifier: MIT
 *
 * Findings from series that programs push: allocators, ranks. Misses and false alarms are counted
 * and printed.
 */
#include "findings_rig.h"

#include <math.h>

#include "job/minima.h"

static void made_series(struct made *m, const char *name, uint64_t n, double mean, double max)
{
	char copy[64];
	struct series s = { .name = copy, .n = n, .sum = mean * (double) n, .max = max, .last = max };

	(void) snprintf(copy, sizeof(copy), "%s", name);
	assert_int_equal(job_restore_series(m->job, &s), 0);
}

static void made_long(struct made *m)
{
	made_new(m);
	m->s.wall_ns = known(SECONDS(3600));
	m->f->ended_ns = known(SECONDS(3600));
}

/* ---- alloc-gap ------------------------------------------------------------------------------------------------------ */

static void test_allocators(void **state)
{
	static const struct {
		const char *what, *device;
		double reserved_gib, allocated_gib, retries;
		bool fires;
	} cases[] = {
		{ "nearly all is allocated", "torch/gpu0", 40, 38, 0, false },
		{ "small, though half of it", "torch/gpu0", 3, 1.5, 0, false },
		{ "large, though a small part", "torch/gpu0", 70, 60, 0, false },
		{ "exactly a fifth", "torch/gpu0", 20, 16, 0, false },
		{ "another framework", "jax/gpu0", 60, 10, 0, false },
		{ "fragments", "torch/gpu0", 20, 15, 0, true },
		{ "fragments, by uuid", "torch/GPU-1234", 60, 30, 0, true },
		{ "a retry", "torch/gpu1", 40, 39.5, 1, true },
		{ "both", "torch/gpu1", 40, 20, 12, true },
	};
	int wrong[2] = { 0, 0 }, n[2] = { 0, 0 };

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[64];
		struct made m;

		made_long(&m);
		(void) snprintf(name, sizeof(name), "%s/reserved_peak_bytes", cases[i].device);
		made_series(&m, name, 100, 1, (double) GIB(cases[i].reserved_gib));
		(void) snprintf(name, sizeof(name), "%s/allocated_peak_bytes", cases[i].device);
		made_series(&m, name, 100, 1, (double) GIB(cases[i].allocated_gib));
		(void) snprintf(name, sizeof(name), "%s/alloc_retries", cases[i].device);
		made_series(&m, name, 100, 0, cases[i].retries);
		n[cases[i].fires]++;
		if (fires(&m, "alloc-gap") != cases[i].fires) {
			wrong[cases[i].fires]++;
			print_message("wrong: %s\n", cases[i].what);
		}
		made_done(&m);
	}
	print_message("# alloc-gap %d misses of %d, %d false alarms of %d\n", wrong[1], n[1], wrong[0], n[0]);
	assert_int_equal(wrong[0] + wrong[1], 0);
}

static void test_allocator_text(void **state)
{
	struct made m;
	const struct finding *f;

	(void) state;
	made_long(&m);
	made_series(&m, "torch/gpu0/reserved_peak_bytes", 100, 1, (double) GIB(20));
	assert_says(judged(&m, "alloc-gap", NULL)->why_not, "reported nothing");
	made_series(&m, "torch/gpu0/allocated_peak_bytes", 100, 1, (double) GIB(12));
	f = judged(&m, "alloc-gap", NULL);
	assert_true(f->fired && f->severity == SEVERITY_HINT);
	assert_says(f->message, "reserved up to 20.0 GiB of gpu0 and allocated up to 12.0 GiB");
	assert_says(f->message, "8.00 GiB may be lost to fragmentation");
	assert_true(evidence_of(f, "reserved_bytes") == (double) GIB(20));
	made_series(&m, "torch/gpu0/alloc_retries", 100, 0, 3);
	f = judged(&m, "alloc-gap", NULL);
	assert_int_equal(f->severity, SEVERITY_WARN);
	assert_says(f->message, "it had to empty its cache 3 times");
	made_done(&m);
}

/* ---- rank-skew ------------------------------------------------------------------------------------------------------ */

static void test_ranks_of_one_recording(void **state)
{
	static const struct {
		double seconds[5]; /* of ranks, 0 where there are no more */
		int slowest;       /* -1: none stands out */
	} cases[] = {
		{ { 1 }, -1 },
		{ { 1, 1.05 }, -1 },
		{ { 1, 1, 1, 1.09 }, -1 },
		{ { 0.5, 1, 1, 1 }, -1 }, /* a fast rank keeps no other waiting */
		{ { 1, 1.5, 1 }, 1 },
		{ { 1, 1, 1, 1.12 }, 3 },
		{ { 2, 1, 1, 1, 1 }, 0 },
	};
	int wrong = 0;

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct finding *f;
		struct made m;

		made_long(&m);
		for (int rank = 0; rank < 5 && cases[i].seconds[rank] > 0; rank++) {
			char name[64];

			(void) snprintf(name, sizeof(name), "step_time/rank%d", rank);
			made_series(&m, name, 100, cases[i].seconds[rank], 9);
		}
		f = judged(&m, "rank-skew", NULL);
		if (f->fired != (cases[i].slowest >= 0) ||
			(f->fired && evidence_of(f, "rank") != cases[i].slowest))
			wrong++;
		made_done(&m);
	}
	print_message("# rank-skew %d wrong of %zu\n", wrong, sizeof(cases) / sizeof(cases[0]));
	assert_int_equal(wrong, 0);
}

static void test_ranks_of_several_recordings(void **state)
{
	const struct other_rank others[] = { { 0, 1.0 }, { 1, 1.08 }, { 3, 1.0 } };
	const struct earlier_runs earlier = { .ranks = others, .n_ranks = 3 };
	const struct finding *f;
	struct made m;

	(void) state;
	made_long(&m);
	m.f->rank = known(2);
	assert_false(judged(&m, "rank-skew", &earlier)->fired); /* the others are known, and have no skew */
	made_series(&m, "step_time", 9, 1.5, 2);
	assert_false(judged(&m, "rank-skew", &earlier)->fired); /* too few steps */
	made_series(&m, "step_time", 1000, 1.5, 2);
	f = judged(&m, "rank-skew", &earlier);
	assert_true(f->fired);
	assert_says(f->message, "A step took 1.5 s on rank 2, the median of 4 ranks is 1.04 s");
	made_done(&m);
}

/* ---- minima --------------------------------------------------------------------------------------------------------- */

static void test_minima(void **state)
{
	struct minima l = { 0 }, again;
	struct buf text = BUF_INIT(8192);

	(void) state;
	assert_true(minima_wanted("torch/gpu0/allocated_bytes"));
	assert_false(minima_wanted("torch/gpu0/reserved_bytes"));
	assert_false(minima_wanted("/allocated_bytes"));
	assert_false(minima_wanted("loss"));
	/* 1000 rising values: parts of 16, of each the first. */
	for (uint64_t i = 0; i < 1000; i++)
		minima_add(&l, i, i == 500 ? (double) NAN : i == 700 ? -1.5
								     : (double) i);
	assert_int_equal(l.each, 16);
	assert_int_equal(l.n, 63);
	for (unsigned i = 0; i < l.n; i++)
		assert_true(l.low[i] == (i == 700 / 16 ? -1.5 : (double) (i * 16)));
	assert_int_equal(minima_write(&l, &text), 0);
	assert_int_equal(minima_parse(text.data, &again), 0);
	assert_memory_equal(&l, &again, offsetof(struct minima, low) + l.n * sizeof(double));
	assert_true(minima_parse("", &again) < 0 && minima_parse("0 1", &again) < 0 &&
		    minima_parse("1 x", &again) < 0 && minima_parse("2 1 ", &again) < 0 &&
		    minima_parse("99999999999999999999 1", &again) < 0);
	assert_int_equal(minima_parse("3", &again), 0);
	assert_int_equal(again.n, 0);
	buf_done(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allocators),
		cmocka_unit_test(test_allocator_text),
		cmocka_unit_test(test_ranks_of_one_recording),
		cmocka_unit_test(test_ranks_of_several_recordings),
		cmocka_unit_test(test_minima),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
