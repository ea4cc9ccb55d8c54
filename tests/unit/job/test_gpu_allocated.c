/* SPDX-License-Identifier: MIT
 *
 * Which GPUs the variables of a scheduler name, on machines whose GPUs are born here, and what counts as the job's.
 */
#include "job_rig.h"

static const struct gpu_birth two[] = {
	{ .uuid = "GPU-aa11", .vendor = "nvidia", .index = { 0, true }, .cuda_index = { 1, true } },
	{ .uuid = "GPU-bb22", .vendor = "nvidia", .index = { 1, true }, .cuda_index = { 0, true } },
};
/* the driver shows the job's alone, under numbers of its own */
static const struct gpu_birth one[] = {
	{ .uuid = "GPU-bb22", .vendor = "nvidia", .index = { 0, true }, .cuda_index = { 0, true } },
};
static const struct gpu_birth divided[] = {
	{ .uuid = "GPU-aa11", .vendor = "nvidia", .index = { 0, true } },
	{ .uuid = "MIG-1",
		.vendor = "nvidia",
		.parent = "GPU-aa11",
		.index = { 0, true },
		.gpu_instance = { 3, true },
		.cuda_index = { 0, true } },
	{ .uuid = "MIG-2",
		.vendor = "nvidia",
		.parent = "GPU-aa11",
		.index = { 1, true },
		.gpu_instance = { 4, true } },
};
static const struct gpu_birth others[] = {
	{ .uuid = "GPU-cc33", .vendor = "amd", .index = { 0, true } },
	{ .uuid = "GPU-dd44", .vendor = "amd", .index = { 1, true } },
	{ .uuid = "0000:03:00.0", .vendor = "intel", .index = { 2, true } },
};

#define ON(machine)  .gpus = machine, .n = sizeof(machine) / sizeof((machine)[0])
#define UNKNOWN_ONES NULL

static const struct {
	const char *selection;
	const struct gpu_birth *gpus;
	size_t n;
	const char *allocated;
} cases[] = {
	{ NULL, ON(two), UNKNOWN_ONES },
	{ "", ON(two), "" },
	{ "SLURM_STEP_GPUS=1", ON(two), "GPU-bb22" },
	{ "SLURM_STEP_GPUS=0,1;CUDA_VISIBLE_DEVICES=0,1", ON(two), "GPU-aa11,GPU-bb22" },
	{ "SLURM_STEP_GPUS=1;CUDA_VISIBLE_DEVICES=0", ON(one), "GPU-bb22" },
	{ "SLURM_STEP_GPUS=7", ON(two), UNKNOWN_ONES },
	{ "SLURM_STEP_GPUS=", ON(two), "" },
	{ "SLURM_STEP_GPUS=NoDevFiles", ON(one), "" },
	{ "SLURM_STEP_GPUS=-1", ON(one), "" },
	{ "CUDA_VISIBLE_DEVICES=0", ON(two), "GPU-bb22" }, /* CUDA's number, not the driver's */
	{ "CUDA_VISIBLE_DEVICES=GPU-a", ON(two), "GPU-aa11" },
	{ "CUDA_VISIBLE_DEVICES= GPU-bb22 , GPU-aa11", ON(two), "GPU-bb22,GPU-aa11" },
	{ "CUDA_VISIBLE_DEVICES=0,-1,1", ON(two), "GPU-bb22" },
	{ "CUDA_VISIBLE_DEVICES=-1", ON(two), "" },
	{ "CUDA_VISIBLE_DEVICES=NoDevFiles", ON(two), "" },
	{ "CUDA_VISIBLE_DEVICES=", ON(two), "" },
	{ "CUDA_VISIBLE_DEVICES=MIG-2", ON(divided), "MIG-2" },
	{ "CUDA_VISIBLE_DEVICES=MIG-GPU-aa11/4/0", ON(divided), "MIG-2" },
	{ "CUDA_VISIBLE_DEVICES=MIG-GPU-aa1/4/0", ON(divided), "" },
	{ "CUDA_VISIBLE_DEVICES=MIG-GPU-", ON(divided), "" },
	{ "CUDA_VISIBLE_DEVICES=0", ON(divided), "MIG-1" },
	{ "CUDA_VISIBLE_DEVICES=GPU-aa11", ON(divided), "GPU-aa11" },
	{ "SLURM_STEP_GPUS=1;CUDA_VISIBLE_DEVICES=MIG-1", ON(divided),
		"MIG-1" }, /* Slurm numbers instances */
	{ "ROCR_VISIBLE_DEVICES=1", ON(others), "GPU-dd44" },
	{ "ROCR_VISIBLE_DEVICES=GPU-cc33", ON(others), "GPU-cc33" },
	{ "SLURM_STEP_GPUS=1;ROCR_VISIBLE_DEVICES=0", ON(others), "GPU-dd44" },
	{ "ZE_AFFINITY_MASK=2.1", ON(others), "0000:03:00.0" },
	{ "CUDA_VISIBLE_DEVICES=0;ROCR_VISIBLE_DEVICES=0;ZE_AFFINITY_MASK=0", ON(two), "GPU-bb22" },
	{ "SLURM_STEP_GPUS=1;CUDA_VISIBLE_DEVICES=0", ON(others), "" }, /* none of NVIDIA's is shown */
};

static void gpus_are_born(struct rig *r, const struct gpu_birth *gpus, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct birth birth = { .entity = ENTITY_GPU, .id = (uint32_t) i + 1, .gpu = gpus[i] };

		birth.gpu.parent = birth.gpu.parent ? birth.gpu.parent : "";
		framebuf_birth(&r->buf, &birth);
	}
	const struct frame frame = framebuf_frame(&r->buf, FRAME_NVML, MS, MS);

	assert_int_equal(job_apply(r->job, &frame), 0);
	framebuf_clear(&r->buf);
}

static void test_selections(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig r;

		rig_new(&r, true, 0);
		(void) job_set_text(&job_facts(r.job)->gpu_selection, cases[i].selection);
		gpus_are_born(&r, cases[i].gpus, cases[i].n);
		const char *got = job_facts(r.job)->allocated_gpus, *want = cases[i].allocated;

		if ((got == NULL) != (want == NULL) || (got && strcmp(got, want) != 0))
			fail_msg("%s: '%s', not '%s'", cases[i].selection, got ? got : "unknown",
				want ? want : "unknown");
		rig_done(&r);
	}
}

static size_t counted(struct rig *r, const char *selection, const struct gpu_birth *gpus, size_t n)
{
	rig_new(r, true, 0);
	(void) job_set_text(&job_facts(r->job)->gpu_selection, selection);
	gpus_are_born(r, gpus, n);
	return job_gpus_counted(r->job);
}

static void a_process_is_on(struct rig *r, uint32_t gpu, uint32_t process)
{
	framebuf_birth(&r->buf, &(struct birth) { .entity = ENTITY_GPU_PROCESS,
					.id = 1 + process,
					.gpu_process = { .gpu = gpu, .process = process, .name = "" } });
	const struct frame frame = framebuf_frame(&r->buf, FRAME_NVML, 2 * MS, MS);

	assert_int_equal(job_apply(r->job, &frame), 0);
	framebuf_clear(&r->buf);
}

static void test_what_counts(void **state)
{
	struct rig r;

	(void) state;
	assert_int_equal(counted(&r, NULL, two, 2), 2);
	rig_done(&r);
	assert_int_equal(counted(&r, "SLURM_STEP_GPUS=1", two, 2), 1);
	assert_false(job_gpu_counts(r.job, &job_gpu(r.job, 0)->birth));
	rig_done(&r);
	/* None was allocated: one on which the job is seen counts, others' processes make no GPU the job's. */
	assert_int_equal(counted(&r, "", two, 2), 0);
	a_process_is_on(&r, 1, 0);
	assert_int_equal(job_gpus_counted(r.job), 0);
	a_process_is_on(&r, 2, 1);
	assert_int_equal(job_gpus_counted(r.job), 1);
	assert_true(job_gpu_counts(r.job, &job_gpu(r.job, 1)->birth));
	rig_done(&r);
	/* The GPU of an instance that was allocated, and the instances of a GPU. */
	assert_int_equal(counted(&r, "CUDA_VISIBLE_DEVICES=MIG-2", divided, 3), 2);
	rig_done(&r);
	assert_int_equal(counted(&r, "CUDA_VISIBLE_DEVICES=GPU-aa11", divided, 3), 3);
	rig_done(&r);
}

/* srun --gpus-per-task=1: each rank on the node has its own variables. */
static void test_ranks_with_gpus_of_their_own(void **state)
{
	struct rig r;

	(void) state;
	assert_int_equal(counted(&r, "SLURM_STEP_GPUS=1;CUDA_VISIBLE_DEVICES=0", two, 2), 1);
	assert_int_equal(job_select_gpus(r.job, "SLURM_STEP_GPUS=1;CUDA_VISIBLE_DEVICES=0"), 0);
	assert_int_equal(job_gpus_counted(r.job), 1);
	assert_int_equal(job_select_gpus(r.job, "SLURM_STEP_GPUS=0;CUDA_VISIBLE_DEVICES=0"), 0);
	assert_int_equal(job_gpus_counted(r.job), 2);
	assert_string_equal(
		job_facts(r.job)->gpu_selection, "SLURM_STEP_GPUS=1,0;CUDA_VISIBLE_DEVICES=0");
	rig_done(&r);
	assert_int_equal(counted(&r, "", two, 2), 0);
	assert_int_equal(job_select_gpus(r.job, ""), 0);
	assert_int_equal(job_gpus_counted(r.job), 0);
	assert_int_equal(job_select_gpus(r.job, "SLURM_STEP_GPUS=1"), 0);
	assert_int_equal(job_gpus_counted(r.job), 1);
	rig_done(&r);
}

static void add_energy(struct rig *r, uint64_t now, int64_t first, int64_t second)
{
	const struct reading readings[] = { reading_of(M_GPU_ENERGY, 1, first),
		reading_of(M_GPU_ENERGY, 2, second) };
	const struct frame frame = { .time_ns = now,
		.hold_ns = 2 * MS,
		.source = FRAME_NVML,
		.live = true,
		.n_readings = 2,
		.readings = readings };

	assert_int_equal(job_apply(r->job, &frame), 0);
}

static void test_energy_of_others_is_not_the_jobs(void **state)
{
	struct rig r;

	(void) state;
	(void) counted(&r, "SLURM_STEP_GPUS=1", two, 2);
	add_energy(&r, 2 * MS, 1000, 5);
	add_energy(&r, 3 * MS, 9000, 12);
	assert_int_equal(job_gpus_energy(r.job).value, 7);
	rig_done(&r);
	(void) counted(&r, "", two, 2);
	add_energy(&r, 2 * MS, 1000, 5);
	add_energy(&r, 3 * MS, 9000, 12);
	assert_false(job_gpus_energy(r.job).known);
	rig_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_selections),
		cmocka_unit_test(test_what_counts),
		cmocka_unit_test(test_ranks_with_gpus_of_their_own),
		cmocka_unit_test(test_energy_of_others_is_not_the_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
