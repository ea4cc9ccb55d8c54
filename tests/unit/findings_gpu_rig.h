/* SPDX-License-Identifier: MIT
 *
 * Judges GPUs by frames made by hand: an hour of a driver's values.
 */
#pragma once

#include "findings_rig.h"

enum {
	STEP_S = 10,
	HOUR_S = 3600
};

/* Values of a GPU at a time; shares 0 to 1, negative: not reported. */
struct gpu {
	double busy, sm, dram, power, job_gib, used_gib, heat, braked, pcie, foreign_gib, engine, errors;
};

typedef struct gpu gpu_at(int second);

static inline void apply(struct made *m, struct framebuf *buf, int second)
{
	const struct frame frame = framebuf_frame(
		buf, FRAME_NVML, (uint64_t) second * 1000000000, UINT64_C(30000000000));

	assert_int_equal(job_apply(m->job, &frame), 0);
	framebuf_clear(buf);
}

static inline void put_value(struct framebuf *buf, enum metric metric, uint32_t id, double value)
{
	if (value >= 0)
		framebuf_value(buf, metric, id, (int64_t) value);
}

static inline void put_gpu(struct framebuf *buf, uint32_t id, const struct gpu *g, int second)
{
	put_value(buf, M_GPU_BUSY, id, g->busy * 1e6);
	put_value(buf, M_GPU_SM_ACTIVE, id, g->sm * 1e6);
	put_value(buf, M_GPU_GRAPHICS_ACTIVE, id, g->engine > 0 ? g->engine * 1e6 : -1);
	put_value(buf, M_GPU_DRAM_ACTIVE, id, g->dram * 1e6);
	put_value(buf, M_GPU_POWER, id, g->power * 700e6);
	put_value(buf, M_GPU_POWER_LIMIT, id, 700e6);
	put_value(buf, M_GPU_JOB_MEM, id, g->job_gib * 1073741824.0);
	put_value(buf, M_GPU_MEM, id, g->used_gib * 1073741824.0);
	put_value(buf, M_GPU_MEM_FREE, id, (80 - g->used_gib) * 1073741824.0);
	put_value(buf, M_GPU_THROTTLE_THERMAL, id, g->heat * second * 1e9);
	put_value(buf, M_GPU_OTHER_MEM, id, g->foreign_gib * 1073741824.0);
	put_value(buf, M_GPU_THROTTLE_HW, id, g->braked * second * 1e9);
	put_value(buf, M_GPU_ECC_UNCORRECTED, id, g->errors);
	put_value(buf, M_GPU_PCIE_RX, id, g->pcie * second);
	put_value(buf, M_GPU_PCIE_TX, id, g->pcie < 0 ? -1 : 0);
}

/* An hour with these GPUs; NULL-terminated. */
static inline void made_gpus(struct made *m, gpu_at *const *gpus)
{
	struct framebuf buf = { 0 };

	made_new(m);
	m->s.wall_ns = m->f->ended_ns = known(SECONDS(HOUR_S));
	for (int t = 0; t <= HOUR_S; t += STEP_S) {
		double held = 0;

		for (uint32_t id = 1; gpus[id - 1]; id++) {
			const struct gpu g = gpus[id - 1](t);

			put_gpu(&buf, id, &g, t);
			held += g.job_gib;
		}
		put_value(&buf, M_JOB_GPU_MEM, 0, held * 1073741824.0);
		apply(m, &buf, t);
	}
	framebuf_done(&buf);
}

static inline void made_gpu(struct made *m, gpu_at *gpu)
{
	made_gpus(m, (gpu_at *const[]) { gpu, NULL });
}

/* No rule fires. */
static inline struct gpu good(int second)
{
	(void) second;
	return (struct gpu) {
		.busy = 0.95, .sm = 0.5, .dram = 0.4, .power = 0.7, .job_gib = 60, .used_gib = 61
	};
}

static inline void assert_silent(gpu_at *gpu, const char *code)
{
	struct made m;

	made_gpu(&m, gpu);
	if (fires(&m, code))
		fail_msg("%s: %s", code, finding_of(&m, code)->message);
	made_done(&m);
}

/* The caller frees *m with made_done(). */
static inline const struct finding *assert_fires(struct made *m, gpu_at *gpu, const char *code)
{
	made_gpu(m, gpu);
	const struct finding *f = judged(m, code, NULL);

	if (!f->fired)
		fail_msg("%s: %s", code, f->why_not);
	return f;
}

static inline struct gpu idle_for_11_minutes(int second)
{
	struct gpu g = good(second);

	if (second >= 1000 && second < 1720)
		g.busy = 0.01;
	return g;
}

static inline struct gpu unused(int second)
{
	(void) second;
	return (struct gpu) { .used_gib = 0.5 };
}

static inline struct gpu few_sms(int second)
{
	struct gpu g = good(second);

	g.sm = 0.29;
	return g;
}
