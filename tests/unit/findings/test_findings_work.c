/* SPDX-License-Identifier: MIT */
#include "findings_rig.h"

/* Ten seconds of a device that computes for 9.5 of them, without anything that a rule is about. */
static struct work busy_work(void)
{
	struct work w = { .is_traced = true, .n_devices = 1 };

	w.devices[0] = (struct work_device) {
		.window_ns = SECONDS(10),
		.busy_ns = SECONDS(9.5),
		.kernel_ns = SECONDS(9.4),
		.copy_ns = SECONDS(0.2),
		.n_gaps = 100,
		.longest_gap_ns = SECONDS(0.1),
		.longest_gap_at_ns = SECONDS(3),
		.n_kernels = 20000,
		.kernels_ns = SECONDS(9.4),
		.n_launches = 20000,
		.launches_ns = SECONDS(0.1),
		.n_syncs = 100,
		.syncs_ns = SECONDS(8),
		.copied_bytes = (uint64_t) GIB(4),
	};
	return w;
}

static const char *const codes[] = { "gpu-waits", "gpu-launches", "gpu-syncs", "gpu-pageable" };

static void assert_only(struct made *m, const char *code)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		assert_int_equal(fires(m, codes[i]), code && strcmp(code, codes[i]) == 0);
}

static void test_a_busy_device(void **state)
{
	struct work w = busy_work();
	struct made m;

	(void) state;
	made_new(&m);
	for (size_t i = 0; i < m.s.n_findings; i++)
		assert_string_not_equal(m.s.findings[i].code, "gpu-waits"); /* an untraced run is not judged */
	m.s.work = &w;
	assert_only(&m, NULL);
	w.devices[0].loading_ns = SECONDS(9); /* ahead of its use, in another thread */
	assert_only(&m, NULL);
	made_done(&m);
}

static void test_a_device_that_waits_for_data(void **state)
{
	struct work w = busy_work();
	struct work_device *d = &w.devices[0];
	struct made m;

	(void) state;
	made_new(&m);
	m.s.work = &w;
	d->busy_ns = SECONDS(6);
	assert_only(&m, NULL); /* idle, and no range says why */
	d->loading_ns = SECONDS(1.9);
	assert_only(&m, NULL);
	d->loading_ns = SECONDS(3);
	(void) snprintf(d->loading, sizeof(d->loading), "load_batch");
	assert_only(&m, "gpu-waits");

	const struct finding *f = judged(&m, "gpu-waits", NULL);

	assert_says(f->message, "idle for 40 %");
	assert_says(f->message, "'load_batch'");
	assert_true(evidence_of(f, "loading_s") > 2.99 && evidence_of(f, "gpu_idle_ratio") > 0.399);
	d->window_ns = d->busy_ns = SECONDS(0.5);
	assert_only(&m, NULL);
	made_done(&m);
}

static void test_launches_that_take_longer_than_kernels(void **state)
{
	struct work w = busy_work();
	struct work_device *d = &w.devices[0];
	struct made m;

	(void) state;
	made_new(&m);
	m.s.work = &w;
	d->n_kernels = d->n_launches = 1000000;
	d->kernels_ns = d->kernel_ns = SECONDS(3);
	d->busy_ns = SECONDS(3.2);
	d->launches_ns = SECONDS(6);
	assert_only(&m, "gpu-launches");
	assert_says(judged(&m, "gpu-launches", NULL)->message, "launches filled 60 %");
	d->busy_ns = SECONDS(9); /* it works all the same */
	assert_only(&m, NULL);
	d->busy_ns = SECONDS(3.2);
	d->n_kernels = 10000; /* 300 us each: not the launches' fault */
	assert_only(&m, NULL);
	d->n_launches = 0; /* not followed */
	d->launches_ns = 0;
	assert_only(&m, NULL);
	assert_says(judged(&m, "gpu-launches", NULL)->why_not, "no launch was traced");
	made_done(&m);
}

static void test_a_wait_after_each_launch(void **state)
{
	struct work w = busy_work();
	struct work_device *d = &w.devices[0];
	struct made m;

	(void) state;
	made_new(&m);
	m.s.work = &w;
	d->busy_ns = SECONDS(5);
	d->n_syncs = 20000;
	assert_only(&m, "gpu-syncs");
	d->n_syncs = 200; /* once a step */
	assert_only(&m, NULL);
	d->n_syncs = d->n_launches = 500; /* too few to be a habit */
	assert_only(&m, NULL);
	made_done(&m);
}

static void test_pageable_copies(void **state)
{
	struct work w = busy_work();
	struct work_device *d = &w.devices[0];
	struct made m;

	(void) state;
	made_new(&m);
	m.s.work = &w;
	d->pageable_bytes = d->copied_bytes * 9 / 10;
	d->pageable_ns = SECONDS(0.2); /* 2 %: not worth a word */
	assert_only(&m, NULL);
	d->pageable_ns = SECONDS(1);
	assert_only(&m, "gpu-pageable");
	assert_says(judged(&m, "gpu-pageable", NULL)->message, "90 % of what was copied");
	d->pageable_bytes = d->copied_bytes / 10;
	assert_only(&m, NULL);
	made_done(&m);
}

static void test_the_worst_of_two_devices(void **state)
{
	struct work w = busy_work();
	struct made m;

	(void) state;
	made_new(&m);
	m.s.work = &w;
	w.devices[1] = w.devices[0];
	w.devices[1].number = 1;
	w.devices[1].pageable_bytes = w.devices[1].copied_bytes;
	w.devices[1].pageable_ns = SECONDS(2);
	w.n_devices = 2;
	assert_only(&m, "gpu-pageable");
	assert_true(evidence_of(judged(&m, "gpu-pageable", NULL), "gpu") > 0.5);
	w.n_devices = 0;
	assert_only(&m, NULL);
	assert_says(judged(&m, "gpu-waits", NULL)->why_not, "no kernel");
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_busy_device),
		cmocka_unit_test(test_a_device_that_waits_for_data),
		cmocka_unit_test(test_launches_that_take_longer_than_kernels),
		cmocka_unit_test(test_a_wait_after_each_launch),
		cmocka_unit_test(test_pageable_copies),
		cmocka_unit_test(test_the_worst_of_two_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
