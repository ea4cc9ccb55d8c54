/* SPDX-License-Identifier: MIT
 *
 * A run on GPUs, made of frames: one in use, with SM activity and other processes; one that has
 * only busy time and is throttled; one that the job did not use; an instance of it; one that shares
 * the host's memory.
 */
#pragma once

#include "summaries.h"
#include "summary/summary_internal.h"

static inline void apply(struct job *job, struct framebuf *b, uint64_t time_ns)
{
	const struct frame frame = framebuf_frame(b, FRAME_NVML, time_ns, (uint64_t) SECONDS(3));

	assert_int_equal(job_apply(job, &frame), 0);
	framebuf_clear(b);
}

static inline void gpus_are_born(struct framebuf *b)
{
	static const struct gpu_birth gpus[] = {
		{ .uuid = "GPU-0a",
			.name = "NVIDIA H100 80GB HBM3",
			.vendor = "nvidia",
			.pci = "0000:18:00.0",
			.driver = "580.65.06",
			.index = { 0, true },
			.cuda_index = { 1, true },
			.memory_bytes = { 85520809984, true } },
		{ .uuid = "GPU-0b",
			.name = "Tesla T4",
			.vendor = "nvidia",
			.index = { 1, true },
			.memory_bytes = { 16106127360, true } },
		{ .uuid = "GPU-0c",
			.name = "NVIDIA A100-SXM4-40GB",
			.vendor = "nvidia",
			.index = { 2, true },
			.memory_bytes = { 42949672960, true } },
		{ .uuid = "MIG-0d",
			.name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
			.vendor = "nvidia",
			.parent = "GPU-0c",
			.memory_bytes = { 5100273664, true } },
		{ .uuid = "GPU-0e",
			.name = "NVIDIA GB10",
			.vendor = "nvidia",
			.index = { 3, true },
			.unified = true,
			.is_module = true,
			.memory_bytes = { 128523960320, true } },
	};

	for (uint32_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++)
		framebuf_birth(b, &(struct birth) { .entity = ENTITY_GPU, .id = i + 1, .gpu = gpus[i] });
	framebuf_birth(b,
		&(struct birth) { .entity = ENTITY_GPU_PROCESS,
			.id = 1,
			.gpu_process = { .gpu = 1, .process = 1, .pid = known(5001), .compute = true } });
	framebuf_birth(b,
		&(struct birth) { .entity = ENTITY_GPU_PROCESS,
			.id = 2,
			.gpu_process = { .gpu = 1,
				.pid = known(77),
				.uid = known(1001),
				.name = "other\x1b[31m",
				.compute = true } });
	framebuf_birth(b,
		&(struct birth) { .entity = ENTITY_GPU_PROCESS,
			.id = 3,
			.gpu_process = { .gpu = 2, .process = 1, .pid = known(5001), .graphics = true } });
	framebuf_birth(b,
		&(struct birth) { .entity = ENTITY_GPU_PROCESS,
			.id = 4,
			.gpu_process = { .gpu = 5, .process = 1, .pid = known(5001) } });
}

/* Two samples, 1 s apart; in the second a level is half of the first. */
static inline void gpus_work(struct made *m, struct framebuf *b)
{
	static const struct {
		enum metric metric;
		uint32_t id;
		int64_t first, second;
	} rows[] = {
		{ M_GPU_MEM, 1, GIB(60), GIB(30) },
		{ M_GPU_JOB_MEM, 1, GIB(50), GIB(20) },
		{ M_GPU_OTHER_MEM, 1, GIB(8), GIB(8) },
		{ M_GPU_UNATTRIBUTED_MEM, 1, GIB(2), GIB(2) },
		{ M_GPU_MEM_RESERVED, 1, MIB(600), MIB(600) },
		{ M_GPU_SM_ACTIVE, 1, 400000, 200000 },
		{ M_GPU_SM_OCCUPANCY, 1, 300000, 100000 },
		{ M_GPU_BUSY, 1, 1000000, 800000 },
		{ M_GPU_DRAM_ACTIVE, 1, 210000, 210000 },
		{ M_GPU_POWER, 1, 500000000, 300000000 },
		{ M_GPU_ENERGY, 1, 7000000000, 7400000000 },
		{ M_GPU_TEMP, 1, 71000, 60000 },
		{ M_GPU_PCIE_TX, 1, 0, GIB(3) },
		{ M_GPU_MEM, 2, GIB(4), GIB(4) },
		{ M_GPU_JOB_MEM, 2, GIB(3), GIB(3) },
		{ M_GPU_BUSY, 2, 900000, 900000 },
		{ M_GPU_POWER, 2, 70000000, 70000000 },
		{ M_GPU_THROTTLE_POWER, 2, 0, SECONDS(0.6) },
		{ M_GPU_XID, 2, 0, 1 },
		{ M_GPU_MEM, 3, GIB(1), GIB(1) },
		{ M_GPU_JOB_MEM, 3, 0, 0 },
		{ M_GPU_POWER, 3, 50000000, 50000000 },
		{ M_GPU_MEM, 4, GIB(0.5), GIB(0.5) },
		{ M_GPU_JOB_MEM, 4, 0, 0 },
		{ M_GPU_MEM, 5, GIB(2), GIB(2) },
		{ M_GPU_POWER, 5, 30000000, 30000000 },
		{ M_GPROC_MEM, 1, GIB(50), GIB(20) },
		{ M_GPROC_SM_BUSY, 1, 900000, 900000 },
		{ M_GPROC_MEM, 2, GIB(8), GIB(8) },
		{ M_GPROC_MEM, 3, GIB(3), GIB(3) },
		{ M_GPROC_MEM_PEAK, 3, GIB(3.5), GIB(3.5) },
		{ M_GPROC_MEM, 4, GIB(2), GIB(2) },
		{ M_JOB_GPU_MEM, 0, GIB(55), GIB(25) },
		{ M_JOB_GPU_MEM_MAIN, 0, GIB(55), GIB(25) },
		{ M_JOB_GPU_MEM_DESCENDANTS, 0, 0, 0 },
	};

	static const struct series_value said[] = {
		{ "torch/gpu1/allocated_bytes", 0x1p34, false, 0 },
		{ "torch/gpu1/allocated_peak_bytes", 0x1p35, false, 0 },
		{ "torch/gpu1/reserved_peak_bytes", 0x1.8p35, false, 0 },
		{ "torch/gpu1/fragmentation", 0.22, false, 0 },
		{ "torch/gpu1/alloc_retries", 3, false, 0 },
		{ "torch/gpu1/ooms", 0, false, 0 },
	};

	framebuf_event(b,
		&(struct event) { .time_ns = (uint64_t) SECONDS(0.5),
			.kind = EVENT_PHASE_BEGIN,
			.entity = ENTITY_JOB,
			.phase = 1,
			.text = "epoch" });
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
		framebuf_series(b, &said[i]);
	apply(m->job, b, (uint64_t) SECONDS(0.5));
	for (int look = 0; look < 2; look++) {
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			framebuf_value(b, rows[i].metric, rows[i].id, look ? rows[i].second : rows[i].first);
		apply(m->job, b, (uint64_t) SECONDS(1 + look));
	}
	framebuf_event(b,
		&(struct event) { .time_ns = (uint64_t) SECONDS(2.2),
			.kind = EVENT_PHASE_END,
			.entity = ENTITY_JOB,
			.phase = 1,
			.text = "epoch" });
	apply(m->job, b, (uint64_t) SECONDS(2.2));
	for (uint32_t id = 1; id <= 5; id++) /* the end: no sample after it */
		framebuf_end(b, &(struct end) { .entity = ENTITY_GPU, .id = id });
	framebuf_event(b,
		&(struct event) { .time_ns = (uint64_t) SECONDS(2.5),
			.kind = EVENT_NOTE,
			.entity = ENTITY_GPU,
			.text = "gpu: NVML has not answered since 2 s; its values are missing from that time on",
			.cause = CAUSE_NVML });
	apply(m->job, b, (uint64_t) SECONDS(3));
}

static inline void made_gpus(struct made *m)
{
	const struct birth main = {
		.entity = ENTITY_PROCESS,
		.id = 1,
		.process = { .pid = 5001, .start_ns = 1, .name = "python", .command = "", .is_main = true },
	};
	struct framebuf b = { 0 };

	made_new(m);
	framebuf_birth(&b, &main);
	gpus_are_born(&b);
	apply(m->job, &b, 0);
	gpus_work(m, &b);
	framebuf_done(&b);
	m->f->gpu_queried = m->f->gpu_seen = known(1);
	m->f->gpu_helper_cpu_ns = known(SECONDS(0.012));
	m->f->gpu_helper_rss_bytes = known(MIB(31));
	assert_int_equal(summary_gpu(&m->s), 0);
	assert_int_equal(findings_make(&m->s, NULL), 0);
}

/* A GPU without its driver. */
static inline void made_no_driver(struct made *m)
{
	made_new(m);
	m->f->gpu_queried = m->f->gpu_seen = known(1);
	set_text(&m->f->gpu_why, "no driver: libnvidia-ml.so.1 not found");
	assert_int_equal(summary_gpu(&m->s), 0);
	assert_int_equal(findings_make(&m->s, NULL), 0);
}

/* No GPU. */
static inline void made_no_gpu(struct made *m)
{
	made_new(m);
	m->f->gpu_queried = known(1);
	m->f->gpu_seen = known(0);
	set_text(&m->f->gpu_why, "no driver: libnvidia-ml.so.1 not found");
	assert_int_equal(summary_gpu(&m->s), 0);
	assert_int_equal(findings_make(&m->s, NULL), 0);
}
