/* SPDX-License-Identifier: MIT
 *
 * Use of GPUs and energy by phases, and GPU memory reported by frameworks.
 */
#include "summary/framework.h"
#include "job_rig.h"

#define SECOND (1000 * MS)

static void gpu_is_there(struct rig *r, uint32_t id, int64_t index, struct maybe cuda, const char *uuid)
{
	const struct birth birth = {
		.entity = ENTITY_GPU,
		.id = id,
		.gpu = { .uuid = uuid,
			.name = "GPU",
			.vendor = "nvidia",
			.pci = "",
			.parent = "",
			.driver = "",
			.index = known(index),
			.cuda_index = cuda },
	};

	framebuf_birth(&r->buf, &birth);
}

/* One frame with these values, which are valid for two seconds. */
static void look(struct rig *r, uint64_t now, size_t n, const struct reading *readings)
{
	struct frame frame = framebuf_frame(&r->buf, FRAME_NVML, now, 2 * SECOND);
	struct reading copy[8];

	assert_true(n <= 8);
	memcpy(copy, readings, n * sizeof(*copy));
	frame.n_readings = n;
	frame.readings = copy;
	frame.live = true;
	assert_int_equal(job_apply(r->job, &frame), 0);
	framebuf_clear(&r->buf);
}

static void edge(struct rig *r, uint64_t now, enum event_kind kind, uint32_t number)
{
	struct event event = {
		.time_ns = now, .kind = kind, .entity = ENTITY_JOB, .phase = number, .text = "p"
	};
	const struct frame frame = { .time_ns = now, .source = FRAME_USER, .n_events = 1, .events = &event };

	assert_int_equal(job_apply(r->job, &frame), 0);
}

#define LOOK(r, now, ...) \
	look(r, now, sizeof((const struct reading[]) { __VA_ARGS__ }) / sizeof(struct reading), \
		(const struct reading[]) { __VA_ARGS__ })

static void test_of_a_phase_is_what_rose_while_it_was_open(void **state)
{
	struct rig *r = *state;
	const struct phase_use *outer, *inner;

	gpu_is_there(r, 1, 0, UNKNOWN, "GPU-a");
	LOOK(r, 1 * SECOND, reading_of(M_HOST_ENERGY, 0, 1000), reading_of(M_GPU_ENERGY, 1, 500),
		reading_of(M_GPU_JOB_MEM, 1, 10 * MB), reading_of(M_JOB_GPU_MEM, 0, 10 * MB),
		reading_of(M_GPU_BUSY, 1, 0));
	edge(r, 1 * SECOND, EVENT_PHASE_BEGIN, 1);
	LOOK(r, 2 * SECOND, reading_of(M_HOST_ENERGY, 0, 1100), reading_of(M_GPU_ENERGY, 1, 700),
		reading_of(M_JOB_GPU_MEM, 0, 50 * MB), reading_of(M_GPU_BUSY, 1, 600000));
	edge(r, 2 * SECOND, EVENT_PHASE_BEGIN, 2);
	LOOK(r, 3 * SECOND, reading_of(M_JOB_GPU_MEM, 0, 90 * MB), reading_of(M_GPU_BUSY, 1, 200000),
		reading_of(M_GPU_ENERGY, 1, 750));
	edge(r, 3 * SECOND, EVENT_PHASE_END, 2);
	LOOK(r, 4 * SECOND, reading_of(M_JOB_GPU_MEM, 0, 20 * MB), reading_of(M_GPU_BUSY, 1, 0),
		reading_of(M_HOST_ENERGY, 0, 1300));
	edge(r, 4 * SECOND, EVENT_PHASE_END, 1);
	LOOK(r, 5 * SECOND, reading_of(M_JOB_GPU_MEM, 0, 99 * MB), reading_of(M_GPU_ENERGY, 1, 950));
	outer = &job_phase(r->job, 0)->use;
	inner = &job_phase(r->job, 1)->use;
	assert_int_equal(outer->gpu_before.value, 10 * MB);
	assert_int_equal(outer->gpu_peak.value, 90 * MB);
	assert_int_equal(outer->gpu_after.value, 20 * MB);
	assert_int_equal(outer->cpu_energy_uj.value, 300);
	assert_int_equal(outer->gpu_energy_uj.value, 250 + 100); /* half of the energy from 3 s to 5 s */
	assert_int_equal(outer->work[GPU_WORK_BUSY].value, (0 + 600000 + 200000) / 3 + 1);
	assert_int_equal(inner->gpu_before.value, 50 * MB);
	assert_int_equal(inner->gpu_peak.value, 90 * MB);
	assert_int_equal(inner->gpu_energy_uj.value, 50);
	assert_int_equal(inner->cpu_energy_uj.value, 100); /* not read meanwhile, but before and after it */
	assert_int_equal(inner->work[GPU_WORK_BUSY].value, 600000);
	assert_false(inner->work[GPU_WORK_SM].known);
}

/* A device with constant use, read every 100 ms. */
static void use_power(struct rig *r, unsigned from, unsigned to, int64_t watts)
{
	for (uint64_t t = from; t <= to; t += 100)
		LOOK(r, t * MS, reading_of(M_GPU_ENERGY, 1, (int64_t) t * watts * 1000));
}

/* 0.4 s at 300 W between values are 120 J, whatever the values before or after its ends are. */
static void test_energy_between_readings_is_shared_by_time(void **state)
{
	struct rig *r = *state;
	const struct phase *p;

	gpu_is_there(r, 1, 0, UNKNOWN, "GPU-a");
	use_power(r, 0, 1000, 300);
	edge(r, 1090 * MS, EVENT_PHASE_BEGIN, 1);
	use_power(r, 1100, 1400, 300);
	edge(r, 1490 * MS, EVENT_PHASE_END, 1);
	p = job_phase(r->job, 0);
	/* 93 J until 1.4 s, and the same power since */
	assert_int_equal(p->use.gpu_energy_uj.value, 120000000);
	assert_false(p->settled);
	use_power(r, 1500, 1500, 300);
	assert_int_equal(p->use.gpu_energy_uj.value, 120000000);
	assert_true(p->settled);
	use_power(r, 1600, 2000, 300);
	assert_int_equal(p->use.gpu_energy_uj.value, 120000000);
}

static void test_a_counter_that_was_read_once_has_no_rise(void **state)
{
	struct rig *r = *state;
	bool counted;

	gpu_is_there(r, 1, 0, UNKNOWN, "GPU-1");
	LOOK(r, 1000 * MS, reading_of(M_GPU_ENERGY, 1, 5000000));
	assert_false(job_gpu_energy(r->job, 1, &counted).known || job_gpus_energy(r->job).known);
	LOOK(r, 3000 * MS, reading_of(M_GPU_ENERGY, 1, 5000000));
	assert_true(
		job_gpu_energy(r->job, 1, &counted).known && job_gpu_energy(r->job, 1, &counted).value == 0);
	assert_int_equal(job_acc(r->job, M_GPU_ENERGY, 1)->span_ns, 2000 * MS);
}

static void look_at_mean(struct rig *r, uint64_t now, uint64_t span_ns, int64_t ppm)
{
	struct reading mean = reading_of(M_GPU_SM_ACTIVE, 1, ppm);

	mean.span_ns = span_ns;
	LOOK(r, now, mean, reading_of(M_GPU_ENERGY, 1, (int64_t) (now / MS)));
}

static int64_t sm_of(const struct rig *r, size_t phase)
{
	const struct maybe sm = job_phase(r->job, phase)->use.work[GPU_WORK_SM];

	assert_true(sm.known);
	return sm.value;
}

/* The means between two samples cover the time before them: 0 over nine seconds, then 1 over one. A phase
 * that has ended waits for the mean that covers its end. */
static void test_a_phase_has_its_part_of_a_live_mean(void **state)
{
	struct rig *r = *state;

	gpu_is_there(r, 1, 0, UNKNOWN, "GPU-a");
	edge(r, 0, EVENT_PHASE_BEGIN, 1);
	edge(r, 0, EVENT_PHASE_BEGIN, 2);
	edge(r, 8500 * MS, EVENT_PHASE_BEGIN, 3);
	look_at_mean(r, 9 * SECOND, 9 * SECOND, 0);
	edge(r, 9 * SECOND, EVENT_PHASE_END, 2);
	edge(r, 9 * SECOND, EVENT_PHASE_BEGIN, 4);
	edge(r, 9500 * MS, EVENT_PHASE_END, 3);
	look_at_mean(r, 10 * SECOND, SECOND, 1000000);
	edge(r, 10 * SECOND, EVENT_PHASE_END, 4);
	edge(r, 10 * SECOND, EVENT_PHASE_END, 1);
	assert_int_equal(sm_of(r, 0), 100000);
	assert_int_equal(sm_of(r, 1), 0);
	assert_int_equal(sm_of(r, 2), 500000);
	assert_int_equal(sm_of(r, 3), 1000000);
}

/* After a gap a mean belongs to the time before its frame, and not to that after the last value. */
static void test_a_live_mean_after_a_gap(void **state)
{
	struct rig *r = *state;

	gpu_is_there(r, 1, 0, UNKNOWN, "GPU-a");
	look_at_mean(r, 10 * SECOND, SECOND, 300000);
	edge(r, 10 * SECOND, EVENT_PHASE_BEGIN, 1);
	LOOK(r, 11 * SECOND, (struct reading) { .metric = M_GPU_SM_ACTIVE, .id = 1, .n = 1 });
	edge(r, 12 * SECOND, EVENT_PHASE_END, 1);
	edge(r, 19 * SECOND, EVENT_PHASE_BEGIN, 2);
	look_at_mean(r, 20 * SECOND, SECOND, 900000);
	edge(r, 20 * SECOND, EVENT_PHASE_END, 2);
	assert_false(job_phase(r->job, 0)->use.work[GPU_WORK_SM].known);
	assert_int_equal(sm_of(r, 1), 900000);
}

static void test_energy_of_power_where_there_is_no_counter(void **state)
{
	struct rig *r = *state;

	gpu_is_there(r, 1, 0, UNKNOWN, "GPU-a");
	LOOK(r, 1000 * MS, reading_of(M_GPU_POWER, 1, 300000000));
	edge(r, 1050 * MS, EVENT_PHASE_BEGIN, 1);
	LOOK(r, 1100 * MS, reading_of(M_GPU_POWER, 1, 100000000));
	edge(r, 1150 * MS, EVENT_PHASE_END, 1);
	LOOK(r, 1200 * MS, reading_of(M_GPU_POWER, 1, 0));
	assert_int_equal(job_phase(r->job, 0)->use.gpu_energy_uj.value, 15000000 + 5000000);
}

/* A driver that hung: only the total rise of its counter is known. */
static void test_energy_over_a_gap_belongs_to_who_was_there_all_the_time(void **state)
{
	struct rig *r = *state;

	edge(r, 0, EVENT_PHASE_BEGIN, 1);
	LOOK(r, 1 * SECOND, reading_of(M_HOST_ENERGY, 0, 1000));
	edge(r, 3 * SECOND, EVENT_PHASE_BEGIN, 2);
	edge(r, 4 * SECOND, EVENT_PHASE_END, 2);
	LOOK(r, 9 * SECOND, reading_of(M_HOST_ENERGY, 0, 5000));
	edge(r, 9 * SECOND, EVENT_PHASE_END, 1);
	assert_int_equal(job_phase(r->job, 0)->use.cpu_energy_uj.value, 4000);
	assert_false(job_phase(r->job, 1)->use.cpu_energy_uj.known);
}

/* The first value comes late: most of this phase is unknown, and a part is not reported as the
 * whole. */
static void test_energy_of_less_than_half_is_unknown(void **state)
{
	struct rig *r = *state;

	edge(r, 0, EVENT_PHASE_BEGIN, 1);
	LOOK(r, 700 * MS, reading_of(M_HOST_ENERGY, 0, 1000));
	LOOK(r, 900 * MS, reading_of(M_HOST_ENERGY, 0, 2000));
	edge(r, 1000 * MS, EVENT_PHASE_END, 1);
	LOOK(r, 1100 * MS, reading_of(M_HOST_ENERGY, 0, 3000));
	assert_false(job_phase(r->job, 0)->use.cpu_energy_uj.known);
	assert_true(job_phase(r->job, 0)->settled);
}

/* Thousands of phases between two values: only the latest wait for values, and all of them
 * settle. */
static void test_many_short_phases_are_not_waited_with_for_ever(void **state)
{
	struct rig *r = *state;
	const uint32_t many = 2500;

	LOOK(r, 1000 * MS, reading_of(M_HOST_ENERGY, 0, 0));
	for (uint32_t i = 0; i < many; i++) {
		edge(r, 1000 * MS + i * 100000, EVENT_PHASE_BEGIN, i + 1);
		edge(r, 1000 * MS + (i + 1) * 100000, EVENT_PHASE_END, i + 1);
	}
	LOOK(r, 1000 * MS + many * 50000, reading_of(M_GPU_BUSY, 1, 0), reading_of(M_HOST_ENERGY, 0, 125000));
	assert_true(job_phase(r->job, many / 2 + 1)->settled);
	assert_false(job_phase(r->job, many - 1)->settled);
	LOOK(r, 1000 * MS + many * 100000, reading_of(M_HOST_ENERGY, 0, 250000));
	assert_true(job_phase(r->job, 0)->settled && job_phase(r->job, many - 1)->settled);
	assert_int_equal(job_phase(r->job, many - 1)->use.cpu_energy_uj.value, 100);
}

static void test_ram_and_processors_of_the_whole_job(void **state)
{
	struct rig *r = *state;
	const struct phase_use *use;

	LOOK(r, 1 * SECOND, reading_of(M_JOB_RAM, 0, 10 * MB), reading_of(M_JOB_CPU_USER, 0, 100),
		reading_of(M_JOB_CPU_SYSTEM, 0, 10));
	edge(r, 1 * SECOND, EVENT_PHASE_BEGIN, 1);
	LOOK(r, 2 * SECOND, reading_of(M_JOB_RAM, 0, 70 * MB), reading_of(M_JOB_CPU_USER, 0, 150),
		reading_of(M_JOB_CPU_SYSTEM, 0, 12));
	LOOK(r, 3 * SECOND, reading_of(M_JOB_RAM, 0, 20 * MB));
	edge(r, 3 * SECOND, EVENT_PHASE_END, 1);
	LOOK(r, 4 * SECOND, reading_of(M_JOB_RAM, 0, 90 * MB), reading_of(M_JOB_CPU_USER, 0, 900));
	use = &job_phase(r->job, 0)->use;
	assert_int_equal(use->job_peak.value, 70 * MB);
	assert_int_equal(use->cpu_ns.value, 52);
	assert_false(use->gpu_peak.known);
}

/* Eight GPUs, one of which the job uses. */
static void test_idle_devices_of_others_do_not_count(void **state)
{
	struct rig *r = *state;

	gpu_is_there(r, 1, 0, UNKNOWN, "GPU-a");
	gpu_is_there(r, 2, 1, UNKNOWN, "GPU-b");
	edge(r, 0, EVENT_PHASE_BEGIN, 1);
	for (uint64_t t = 1; t < 4; t++)
		LOOK(r, t * SECOND, reading_of(M_GPU_JOB_MEM, 1, 10 * MB), reading_of(M_GPU_JOB_MEM, 2, 0),
			reading_of(M_GPU_BUSY, 1, 800000), reading_of(M_GPU_BUSY, 2, 0));
	assert_int_equal(job_phase(r->job, 0)->use.work[GPU_WORK_BUSY].value, 800000);
	assert_false(job_phase(r->job, 0)->use.gpu_energy_uj.known);
	assert_false(job_phase(r->job, 0)->use.cpu_energy_uj.known);
}

static void test_nothing_is_known_where_nothing_was_read(void **state)
{
	struct rig *r = *state;
	const struct phase_use *use;

	edge(r, 0, EVENT_PHASE_BEGIN, 1);
	edge(r, SECOND, EVENT_PHASE_END, 1);
	use = &job_phase(r->job, 0)->use;
	assert_false(use->gpu_before.known || use->gpu_peak.known || use->gpu_after.known);
	assert_false(use->cpu_energy_uj.known || use->gpu_energy_uj.known || use->work[GPU_WORK_BUSY].known);
}

static void log_value(struct rig *r, const char *name, double value)
{
	struct series_value v = { .name = name, .value = value };
	const struct frame frame = { .time_ns = SECOND, .source = FRAME_USER, .n_series = 1, .series = &v };

	assert_int_equal(job_apply(r->job, &frame), 0);
}

static void test_frameworks_belong_to_their_devices(void **state)
{
	struct rig *r = *state;
	struct framework list[FRAMEWORKS_MOST];
	const struct birth *second, *first;

	gpu_is_there(r, 1, 0, known(1), "GPU-aaaa");
	gpu_is_there(r, 2, 1, known(0), "GPU-bbbb");
	LOOK(r, SECOND, reading_of(M_GPU_BUSY, 1, 0));
	log_value(r, "torch/gpu1/allocated_bytes", 70);
	log_value(r, "torch/gpu1/allocated_peak_bytes", 100);
	log_value(r, "torch/gpu1/allocated_peak_bytes", 90);
	log_value(r, "torch/gpu1/reserved_bytes", 120);
	log_value(r, "torch/gpu1/fragmentation", 0.25);
	log_value(r, "torch/gpu1/ooms", 2);
	log_value(r, "jax/GPU-bb/allocated_bytes", 7);
	log_value(r, "torch/gpu12/allocated_bytes", 9999);
	log_value(r, "torch/gpu1x/allocated_bytes", 9999);
	log_value(r, "other/gpu1/allocated_bytes", 9999);
	first = &job_gpu(r->job, 0)->birth;
	second = &job_gpu(r->job, 1)->birth;
	assert_int_equal(frameworks_of(r->job, first, list), 1);
	assert_string_equal(list[0].name, "torch");
	assert_int_equal(list[0].allocated_peak.value, 100);
	assert_int_equal(list[0].reserved_peak.value, 120);
	assert_int_equal(list[0].fragmentation_ppm.value, 250000);
	assert_int_equal(list[0].ooms.value, 2);
	assert_false(list[0].alloc_retries.known);
	assert_int_equal(frameworks_of(r->job, second, list), 1);
	assert_string_equal(list[0].name, "jax");
	assert_int_equal(list[0].allocated_peak.value, 7);
}

static void test_which_series_are_a_frameworks(void **state)
{
	(void) state;
	assert_true(framework_has("torch/gpu0/reserved_peak_bytes"));
	assert_true(framework_has("tensorflow/GPU-1/allocated_bytes"));
	assert_false(framework_has("torch/allocated_bytes"));
	assert_false(framework_has("val/gpu0/ooms"));
	assert_false(framework_has("torch/gpu0/loss"));
	assert_false(framework_has("loss"));
	assert_false(framework_has(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_of_a_phase_is_what_rose_while_it_was_open),
		RIG_TEST(test_energy_between_readings_is_shared_by_time),
		RIG_TEST(test_a_counter_that_was_read_once_has_no_rise),
		RIG_TEST(test_a_phase_has_its_part_of_a_live_mean),
		RIG_TEST(test_a_live_mean_after_a_gap),
		RIG_TEST(test_energy_of_power_where_there_is_no_counter),
		RIG_TEST(test_energy_over_a_gap_belongs_to_who_was_there_all_the_time),
		RIG_TEST(test_energy_of_less_than_half_is_unknown),
		RIG_TEST(test_many_short_phases_are_not_waited_with_for_ever),
		RIG_TEST(test_ram_and_processors_of_the_whole_job),
		RIG_TEST(test_idle_devices_of_others_do_not_count),
		RIG_TEST(test_nothing_is_known_where_nothing_was_read),
		RIG_TEST(test_frameworks_belong_to_their_devices),
		cmocka_unit_test(test_which_series_are_a_frameworks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
