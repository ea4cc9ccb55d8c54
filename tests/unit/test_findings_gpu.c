/* SPDX-License-Identifier: MIT
 *
 * Rules about GPUs, on frames made by hand: what a driver would have said over an hour.
 */
#include "findings_rig.h"

#include <math.h>

#include "sink/sink.h"

enum {
	STEP_S = 10,
	HOUR_S = 3600
};

/* What a GPU says at a time; shares 0 to 1, negative: it does not say. */
struct gpu {
	double busy, sm, dram, power, held_gib, used_gib, heat, braked, pcie, foreign_gib, engine, errors;
};

typedef struct gpu gpu_at(int second);

static void apply(struct made *m, struct framebuf *buf, int second)
{
	const struct frame frame = framebuf_frame(buf, FRAME_NVML, (uint64_t) second * 1000000000, UINT64_C(30000000000));

	assert_int_equal(job_apply(m->job, &frame), 0);
	framebuf_clear(buf);
}

static void put(struct framebuf *buf, enum metric metric, uint32_t id, double value)
{
	if (value >= 0)
		framebuf_value(buf, metric, id, (int64_t) value);
}

static void say(struct framebuf *buf, uint32_t id, const struct gpu *g, int second)
{
	put(buf, M_GPU_BUSY, id, g->busy * 1e6);
	put(buf, M_GPU_SM_ACTIVE, id, g->sm * 1e6);
	put(buf, M_GPU_GRAPHICS_ACTIVE, id, g->engine > 0 ? g->engine * 1e6 : -1);
	put(buf, M_GPU_DRAM_ACTIVE, id, g->dram * 1e6);
	put(buf, M_GPU_POWER, id, g->power * 700e6);
	put(buf, M_GPU_POWER_LIMIT, id, 700e6);
	put(buf, M_GPU_JOB_MEM, id, g->held_gib * 1073741824.0);
	put(buf, M_GPU_MEM, id, g->used_gib * 1073741824.0);
	put(buf, M_GPU_MEM_FREE, id, (80 - g->used_gib) * 1073741824.0);
	put(buf, M_GPU_THROTTLE_THERMAL, id, g->heat * second * 1e9);
	put(buf, M_GPU_FOREIGN_MEM, id, g->foreign_gib * 1073741824.0);
	put(buf, M_GPU_THROTTLE_HW, id, g->braked * second * 1e9);
	put(buf, M_GPU_ECC_UNCORRECTED, id, g->errors);
	put(buf, M_GPU_PCIE_RX, id, g->pcie * second);
	put(buf, M_GPU_PCIE_TX, id, g->pcie < 0 ? -1 : 0);
}

/* An hour with these GPUs; NULL behind the last. */
static void made_gpus(struct made *m, gpu_at *const *gpus)
{
	struct framebuf buf = { 0 };

	made_new(m);
	m->s.wall_ns = m->f->ended_ns = known(SECONDS(HOUR_S));
	for (int t = 0; t <= HOUR_S; t += STEP_S) {
		double held = 0;

		for (uint32_t id = 1; gpus[id - 1]; id++) {
			const struct gpu g = gpus[id - 1](t);

			say(&buf, id, &g, t);
			held += g.held_gib;
		}
		put(&buf, M_JOB_GPU_MEM, 0, held * 1073741824.0);
		apply(m, &buf, t);
	}
	framebuf_done(&buf);
}

static void made_gpu(struct made *m, gpu_at *gpu)
{
	made_gpus(m, (gpu_at *const[]) { gpu, NULL });
}

/* All is well with it. */
static struct gpu good(int second)
{
	(void) second;
	return (struct gpu) { .busy = 0.95, .sm = 0.5, .dram = 0.4, .power = 0.7, .held_gib = 60, .used_gib = 61 };
}

static void silent(gpu_at *gpu, const char *code)
{
	struct made m;

	made_gpu(&m, gpu);
	if (fires(&m, code))
		fail_msg("%s: %s", code, finding_of(&m, code)->message);
	made_done(&m);
}

/* *m is the caller's to end. */
static const struct finding *loud(struct made *m, gpu_at *gpu, const char *code)
{
	made_gpu(m, gpu);
	const struct finding *f = judged(m, code, NULL);

	if (!f->fired)
		fail_msg("%s: %s", code, f->why_not);
	return f;
}

static void test_all_is_well(void **state)
{
	static const char *const codes[] = { "gpu-leak", "gpu-idle", "gpu-low-use", "gpu-memory", "gpu-throttle", "gpu-ecc", "data-starved",
		"gpu-bound-by", "foreign-load" };

	(void) state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		silent(good, codes[i]);
}

static void test_without_a_gpu(void **state)
{
	static const char *const codes[] = { "gpu-leak", "gpu-idle", "gpu-low-use", "gpu-memory", "gpu-throttle", "gpu-ecc", "gpu-bound-by" };
	struct made m;

	(void) state;
	made_new(&m);
	m.s.wall_ns = known(SECONDS(HOUR_S));
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		assert_says(judged(&m, codes[i], NULL)->why_not, "no GPU was used");
	made_done(&m);
}

static struct gpu leaking(int second)
{
	struct gpu g = good(second);

	g.held_gib = 20 + 0.006 * second / 60 * 10;
	return g;
}

static struct gpu caching(int second)
{
	struct gpu g = good(second);

	g.held_gib = 20 + 20 * (1 - exp(-second / 600.0));
	return g;
}

static void test_leak(void **state)
{
	struct made m;
	const struct finding *f = loud(&m, leaking, "gpu-leak");

	(void) state;
	assert_says(f->message, "a leak is suspected");
	assert_true(fabs(evidence_of(f, "growth_bytes_per_s") * 60 / (double) MIB(1) - 61.4) < 2);
	made_done(&m);
	silent(caching, "gpu-leak");
}

static struct gpu idle_for_11_minutes(int second)
{
	struct gpu g = good(second);

	if (second >= 1000 && second < 1720)
		g.busy = 0.01;
	return g;
}

static struct gpu idle_for_long(int second)
{
	struct gpu g = good(second);

	if (second >= 1000)
		g.busy = 0.01;
	return g;
}

static struct gpu idle_for_9_minutes(int second)
{
	struct gpu g = good(second);

	if (second >= 1000 && second < 1540)
		g.busy = 0.01;
	return g;
}

static struct gpu idle_and_free(int second)
{
	struct gpu g = idle_for_11_minutes(second);

	if (g.busy < 0.5)
		g.held_gib = 0;
	return g;
}

static struct gpu unused(int second)
{
	(void) second;
	return (struct gpu) { .used_gib = 0.5 };
}

static void test_idle(void **state)
{
	struct made m;
	const struct finding *f = loud(&m, idle_for_11_minutes, "gpu-idle");

	(void) state;
	assert_in_range((int) evidence_of(f, "idle_s"), 630, 720);
	assert_in_range(f->from_ns / 1000000000, 1000, 1090);
	assert_says(f->message, "held 60.0 GiB");
	made_done(&m);
	silent(idle_for_9_minutes, "gpu-idle");
	silent(idle_and_free, "gpu-idle");
	made_gpus(&m, (gpu_at *const[]) { good, idle_for_11_minutes, good, idle_for_long, idle_for_9_minutes, NULL });
	f = judged(&m, "gpu-idle", NULL);
	assert_says(f->message, "GPU 3 did nothing for");
	assert_says(f->message, "So it is of GPU 1 (2 of 5). Free it");
	assert_true(evidence_of_device(f, 1, "idle_s") > evidence_of_device(f, 2, "idle_s"));
	made_done(&m);
}

static void test_unused(void **state)
{
	struct made m;

	(void) state;
	made_gpus(&m, (gpu_at *const[]) { good, unused, NULL });
	assert_says(judged(&m, "gpu-idle", NULL)->message, "1 of 2 GPUs was never used");
	made_done(&m);
	/* Whoever needs none and asked for none has done nothing wrong. */
	made_gpu(&m, unused);
	assert_false(fires(&m, "gpu-idle"));
	set_text(&m.f->scheduler, "slurm");
	assert_true(fires(&m, "gpu-idle"));
	made_done(&m);
}

static struct gpu few_sms(int second)
{
	struct gpu g = good(second);

	g.sm = 0.29;
	return g;
}

static struct gpu low_power(int second)
{
	struct gpu g = good(second);

	g.sm = -1;
	g.power = 0.39;
	return g;
}

static struct gpu not_busy(int second)
{
	struct gpu g = few_sms(second);

	g.busy = 0.79;
	return g;
}

static void test_low_use(void **state)
{
	struct made m;

	(void) state;
	assert_says(loud(&m, few_sms, "gpu-low-use")->message, "busy 95 % of the time, which only says that some kernel ran");
	made_done(&m);
	assert_says(loud(&m, low_power, "gpu-low-use")->message, "it drew 39 % of its power limit");
	made_done(&m);
	silent(not_busy, "gpu-low-use");
}

static struct gpu fewer_sms(int second)
{
	struct gpu g = few_sms(second);

	g.sm = 0.1;
	return g;
}

/* A summary of one line a finding, and its blanks those of a terminal. */
static void assert_written(struct made *m, enum sink_kind kind, const char *part)
{
	const struct sink_options options = { .width = 10000, .utf8 = false, .why = kind == SINK_TEXT };
	struct buf out = BUF_INIT(1 << 20);

	assert_int_equal(sink_summary(kind, &m->s, &options, &out), 0);
	assert_says(out.data, part);
	buf_done(&out);
}

/* Seven good ones do not hide the eighth, as a mean over all would. */
static void test_low_use_of_one(void **state)
{
	const struct finding *f;
	struct made m;

	(void) state;
	made_gpus(&m, (gpu_at *const[]) { good, good, good, few_sms, good, good, good, good, NULL });
	f = judged(&m, "gpu-low-use", NULL);
	assert_says(f->message, "GPU 3 was busy 95 % of the time, which only says that some kernel ran: its SMs were active 29 %");
	assert_says(f->message, "Not so the other GPUs");
	assert_int_equal((int) evidence_of(f, "gpu"), 3);
	assert_int_equal((int) evidence_of(f, "gpus_concerned"), 1);
	assert_int_equal((int) evidence_of(f, "gpus"), 8);
	assert_int_equal(f->n_devices, 0);
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { good, few_sms, good, fewer_sms, NULL }); /* the worst first */
	f = judged(&m, "gpu-low-use", NULL);
	assert_says(f->message, "GPU 3 was busy 95 % of the time, which only says that some kernel ran: its SMs were active 10 %");
	assert_says(f->message, "So it is of GPU 1 (2 of 4).");
	assert_int_equal(f->n_devices, 2);
	assert_int_equal((int) evidence_of_device(f, 1, "gpu"), 3);
	assert_int_equal((int) evidence_of_device(f, 2, "gpu"), 1);
	assert_true(fabs(evidence_of_device(f, 2, "sm_active_ratio") - 0.29) < 0.001);
	assert_written(&m, SINK_JSON, "\"gpus\": 4,\n        \"devices\": [\n          {\n            \"gpu\": 3,\n            \"gpu_busy_ratio\": 0.95,");
	assert_written(&m, SINK_TEXT, "gpus 4; gpu 1,");
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { few_sms, few_sms, few_sms, few_sms, few_sms, few_sms, few_sms, NULL });
	f = judged(&m, "gpu-low-use", NULL);
	assert_says(f->message, "So it is of GPU 1, GPU 2, GPU 3, GPU 4 and 2 more (7 of 7).");
	assert_null(strstr(f->message, "Not so"));
	assert_int_equal(f->n_devices, 7);
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { good, not_busy, NULL });
	assert_says(judged(&m, "gpu-low-use", NULL)->why_not, "GPU 1 was busy 79 %, SMs active 29 %, 70 % of the power limit (the least of 2)");
	made_done(&m);
}

static struct gpu small(int second)
{
	struct gpu g = good(second);

	g.used_gib = 55;
	return g;
}

static struct gpu large(int second)
{
	struct gpu g = good(second);

	g.used_gib = second == 1000 ? 57 : 20;
	return g;
}

static struct gpu tiny(int second)
{
	struct gpu g = good(second);

	g.used_gib = 21.5;
	g.held_gib = 20;
	return g;
}

static struct gpu shared_with_others(int second)
{
	struct gpu g = tiny(second);

	g.used_gib = 51.5;
	g.foreign_gib = 30;
	return g;
}

static struct gpu whose_nobody_knows(int second)
{
	struct gpu g = tiny(second);

	g.held_gib = -1;
	return g;
}

static struct gpu listed_late(int second)
{
	struct gpu g = tiny(second);

	g.used_gib = second == 1000 ? 45 : 20;
	return g;
}

/* The size that would do is for what the job needs: not for what others hold there, nor for what is not known to be its own. */
static void test_what_would_do(void **state)
{
	const struct birth gpu = { .entity = ENTITY_GPU, .id = 1, .gpu = { .uuid = "GPU-1", .name = "x", .vendor = "nvidia", .pci = "", .parent = "", .driver = "", .index = known(0) } };
	const struct birth untold = { .entity = ENTITY_GPU_PROCESS, .id = 1, .gpu_process = { .gpu = 1, .process = 7, .pid = known(7), .name = "x" } };
	struct framebuf buf = { 0 };
	struct made m;

	(void) state;
	made_gpu(&m, shared_with_others);
	assert_says(judged(&m, "gpu-memory", NULL)->message, "As it is, a GPU with 24 GB may do.");
	framebuf_birth(&buf, &gpu);
	framebuf_birth(&buf, &untold);
	apply(&m, &buf, HOUR_S);
	assert_null(strstr(judged(&m, "gpu-memory", NULL)->message, "may do"));
	made_done(&m);
	made_gpu(&m, whose_nobody_knows);
	assert_null(strstr(judged(&m, "gpu-memory", NULL)->message, "may do"));
	made_done(&m);
	/* 45 GiB for a moment, of which no list told: they may have been the job's. */
	made_gpu(&m, listed_late);
	framebuf_birth(&buf, &gpu);
	framebuf_value(&buf, M_GPU_UNATTRIBUTED_MEM, 1, 0);
	apply(&m, &buf, HOUR_S);
	assert_null(strstr(judged(&m, "gpu-memory", NULL)->message, "24 GB may do"));
	made_done(&m);
	framebuf_done(&buf);
}

static void test_memory(void **state)
{
	struct made m;

	(void) state;
	assert_says(loud(&m, small, "gpu-memory")->message, "25.0 GiB of GPU memory were never used (peak 55.0 GiB of 80.0, 69 %)");
	made_done(&m);
	silent(large, "gpu-memory");
	made_gpu(&m, tiny);
	assert_says(judged(&m, "gpu-memory", NULL)->message, "may be faster. As it is, a GPU with 24 GB may do.");
	assert_true(evidence_of(judged(&m, "gpu-memory", NULL), "enough_gpu_bytes") > 25e9);
	made_done(&m);
	made_gpu(&m, small); /* what would do is what it has */
	assert_null(strstr(judged(&m, "gpu-memory", NULL)->message, "may do"));
	made_done(&m);
	/* The GPU that needs most decides. */
	made_gpus(&m, (gpu_at *const[]) { tiny, small, NULL });
	assert_null(strstr(judged(&m, "gpu-memory", NULL)->message, "may do"));
	made_done(&m);
}

/* The driver's number and size go before what can be told from readings; memory shared with the host is not the GPU's. */
static void test_what_a_gpu_is_born_with(void **state)
{
	struct birth birth = { .entity = ENTITY_GPU, .id = 1, .gpu = { .uuid = "GPU-1", .name = "x", .vendor = "nvidia", .pci = "", .parent = "", .driver = "", .index = known(5), .memory_bytes = known(GIB(100)) } };
	struct framebuf buf = { 0 };
	struct made m;

	(void) state;
	made_gpu(&m, idle_for_11_minutes);
	framebuf_birth(&buf, &birth);
	apply(&m, &buf, HOUR_S);
	assert_says(judged(&m, "gpu-idle", NULL)->message, "GPU 5 did nothing");
	assert_says(judged(&m, "gpu-memory", NULL)->message, "peak 61.0 GiB of 100");
	made_done(&m);
	birth.gpu.unified = true;
	made_gpu(&m, good);
	framebuf_birth(&buf, &birth);
	apply(&m, &buf, HOUR_S);
	assert_says(judged(&m, "gpu-memory", NULL)->why_not, "unknown");
	made_done(&m);
	framebuf_done(&buf);
}

static struct gpu board(int second)
{
	struct gpu g = good(second);

	g.heat = 0.06;
	g.power = 0.1;
	g.sm = -1;
	g.busy = -1;
	return g;
}

static struct gpu instance(int second)
{
	struct gpu g = few_sms(second);

	g.busy = -1;
	g.engine = 0.9;
	g.power = -1;
	g.held_gib = 20;
	g.foreign_gib = 9;
	g.heat = -1;
	return g;
}

static struct gpu idle_instance(int second)
{
	struct gpu g = instance(second);

	if (second >= 1000 && second < 1720)
		g.engine = 0.01;
	return g;
}

static void bear_divided(struct made *m)
{
	static const struct gpu_birth gpus[] = {
		{ .uuid = "GPU-1", .name = "x", .vendor = "nvidia", .pci = "", .parent = "", .driver = "", .index = { 4, true } },
		{ .uuid = "MIG-1", .name = "x", .vendor = "nvidia", .pci = "", .parent = "GPU-1", .driver = "", .index = { 2, true } },
		{ .uuid = "MIG-2", .name = "x", .vendor = "nvidia", .pci = "", .parent = "GPU-1", .driver = "", .index = { 3, true } },
	};
	struct framebuf buf = { 0 };

	for (uint32_t i = 0; i < 3; i++)
		framebuf_birth(&buf, &(struct birth) { .entity = ENTITY_GPU, .id = i + 1, .gpu = gpus[i] });
	apply(m, &buf, HOUR_S);
	framebuf_done(&buf);
}

/* What a job does on an instance it does there; clocks are the whole GPU's. What others of the GPU's instances are for is
 * nothing that it left unused. */
static void test_divided(void **state)
{
	const struct finding *f;
	struct made m;

	(void) state;
	made_gpus(&m, (gpu_at *const[]) { board, instance, unused, NULL });
	bear_divided(&m);
	f = judged(&m, "foreign-load", NULL);
	assert_says(f->message, "held 9.00 GiB of MIG 4.2, which the job used");
	assert_string_equal(f->evidence[0].text, "MIG-1");
	assert_says(judged(&m, "gpu-idle", NULL)->message, "1 of 2 GPUs was never used");
	assert_says(judged(&m, "gpu-throttle", NULL)->message, "held back 6 % of the time because it was too hot");
	/* How busy it was is that of its engine, and the power is that of all instances. */
	f = judged(&m, "gpu-low-use", NULL);
	assert_says(f->message, "MIG 4.2 was busy 90 % of the time, which only says that some kernel ran: its SMs were active 29 %. ");
	assert_string_equal(words_of(f, "gpu_uuid"), "MIG-1");
	assert_says(judged(&m, "gpu-bound-by", NULL)->message, "What MIG 4.2 does may be bound by launch");
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { board, idle_instance, unused, NULL });
	bear_divided(&m);
	assert_says(judged(&m, "gpu-idle", NULL)->message, "MIG 4.2 did nothing for");
	made_done(&m);
}

static struct gpu shared(int second)
{
	struct gpu g = good(second);

	g.foreign_gib = second == 500 ? 8.1 : 0;
	return g;
}

static struct gpu hardly_shared(int second)
{
	struct gpu g = good(second);

	g.foreign_gib = 8;
	return g;
}

static void test_foreign(void **state)
{
	struct made m;

	(void) state;
	assert_says(loud(&m, shared, "foreign-load")->message, "Other processes held 8.10 GiB of GPU 0, which the job used");
	made_done(&m);
	silent(hardly_shared, "foreign-load");
}

/* Processes on GPU 1, the job's and somebody else's, with what they had of its engine; negative: not told, -2: nobody; own until then. */
static void made_users(struct made *m, double own, int own_until, double foreign, double busy)
{
	static const struct gpu_birth gpu = { .uuid = "GPU-1", .name = "x", .vendor = "nvidia", .pci = "", .parent = "", .driver = "", .index = { 4, true } };
	struct framebuf buf = { 0 };

	made_new(m);
	m->s.wall_ns = m->f->ended_ns = known(SECONDS(HOUR_S));
	framebuf_birth(&buf, &(struct birth) { .entity = ENTITY_GPU, .id = 1, .gpu = gpu });
	for (uint32_t id = own < -1 ? 2 : 1; id <= 2; id++)
		framebuf_birth(&buf, &(struct birth) { .entity = ENTITY_GPU_PROCESS, .id = id, .gpu_process = { .gpu = 1, .process = id == 1 ? 7 : 0, .pid = known(id), .name = "x" } });
	for (int t = 0; t <= HOUR_S; t += STEP_S) {
		struct gpu g = good(t);

		g.busy = busy;
		say(&buf, 1, &g, t);
		put(&buf, M_GPROC_SM_BUSY, 1, t <= own_until ? own * 1e6 : -1);
		put(&buf, M_GPROC_SM_BUSY, 2, foreign * 1e6);
		apply(m, &buf, t);
	}
	framebuf_done(&buf);
}

/* What others work is told where the driver says it of them, and suspected where a GPU is busy and the job is not. */
static void test_foreign_work(void **state)
{
	static const struct {
		double own;
		int own_until;
		double foreign, busy;
		const char *says;
	} cases[] = {
		{ 0.7, HOUR_S, 0.11, 0.8, "Other processes worked 11 % of the time (the driver's samples) on GPU 4, which the job used" },
		{ 0.7, HOUR_S, 0.09, 0.8, NULL },
		{ 0.7, HOUR_S, -1, 0.95, NULL },
		{ 0.01, HOUR_S, -1, 0.4, "GPU 4 was busy 40 % of the time, the job's processes there 1 % (the driver's samples): others may have used it." },
		{ 0.01, 1200, -1, 0.4, NULL }, /* for most of the time it is not known what the job did */
		{ -1, HOUR_S, -1, 0.4, NULL },
		{ -2, HOUR_S, 0.9, 0.9, NULL }, /* pids may be those of another namespace */
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made m;

		made_users(&m, cases[i].own, cases[i].own_until, cases[i].foreign, cases[i].busy);
		assert_int_equal(fires(&m, "foreign-load"), cases[i].says != NULL);
		if (cases[i].says)
			assert_says(judged(&m, "foreign-load", NULL)->message, cases[i].says);
		made_done(&m);
	}
}

static struct gpu hot(int second)
{
	struct gpu g = good(second);

	g.heat = 0.06;
	return g;
}

static struct gpu warm(int second)
{
	struct gpu g = good(second);

	g.heat = 0.05;
	return g;
}

static struct gpu hot_and_unused(int second)
{
	struct gpu g = unused(second);

	g.heat = 0.5;
	return g;
}

/* Heat held it back, too, and for less of the time. */
static struct gpu braked(int second)
{
	struct gpu g = hot(second);

	g.braked = 0.2;
	return g;
}

static void test_throttle(void **state)
{
	struct made m;

	(void) state;
	assert_says(loud(&m, hot, "gpu-throttle")->message, "held back 6 % of the time because it was too hot");
	made_done(&m);
	silent(warm, "gpu-throttle");
	assert_says(loud(&m, braked, "gpu-throttle")->message,
		"held back 20 % of the time by its hardware, and not for heat (a power brake from outside, or it drew too much at once)");
	assert_int_equal((int) (evidence_of(finding_of(&m, "gpu-throttle"), "hardware_ratio") * 100 + 0.5), 20);
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { warm, hot, NULL });
	assert_says(judged(&m, "gpu-throttle", NULL)->message, "GPU 1's clocks were held back 6 % of the time because it was too hot");
	assert_int_equal((int) evidence_of(judged(&m, "gpu-throttle", NULL), "gpu"), 1);
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { good, hot_and_unused, NULL }); /* a neighbour's heat is not the job's */
	assert_false(fires(&m, "gpu-throttle"));
	made_done(&m);
}

static struct gpu failing(int second)
{
	struct gpu g = good(second);

	g.errors = second < 1000 ? 3 : 5;
	return g;
}

static struct gpu failed_once(int second)
{
	struct gpu g = good(second);

	g.errors = second == HOUR_S;
	return g;
}

static struct gpu failed_before(int second)
{
	struct gpu g = good(second);

	g.errors = 3;
	return g;
}

static struct gpu failing_and_unused(int second)
{
	struct gpu g = unused(second);

	g.errors = second < 1000 ? 0 : 7;
	return g;
}

static struct gpu without_ecc(int second)
{
	struct gpu g = good(second);

	g.errors = -1;
	return g;
}

static void test_ecc(void **state)
{
	struct made m;

	(void) state;
	assert_says(loud(&m, failing, "gpu-ecc")->message, "The memory of the GPU had 2 errors during the run that ECC could not correct: "
							   "the job may have ended by them");
	assert_int_equal((int) evidence_of(finding_of(&m, "gpu-ecc"), "ecc_uncorrected"), 2);
	made_done(&m);
	assert_says(loud(&m, failed_once, "gpu-ecc")->message, "1 error during the run that ECC could not correct: the job may have ended by it,");
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { failed_once, good, failing, NULL });
	assert_says(judged(&m, "gpu-ecc", NULL)->message, "The memory of GPU 2 had 2 errors");
	assert_says(finding_of(&m, "gpu-ecc")->message, "So it is of GPU 0 (2 of 3). Run it on another GPU");
	assert_int_equal((int) evidence_of_device(finding_of(&m, "gpu-ecc"), 2, "gpu"), 0);
	made_done(&m);
	silent(failed_before, "gpu-ecc");
	made_gpus(&m, (gpu_at *const[]) { good, failing_and_unused, NULL }); /* a neighbour's */
	assert_says(judged(&m, "gpu-ecc", NULL)->why_not, "it takes one");
	made_done(&m);
	made_gpu(&m, without_ecc);
	assert_says(judged(&m, "gpu-ecc", NULL)->why_not, "is unknown");
	made_done(&m);
}

static struct gpu waiting(int second)
{
	struct gpu g = good(second);

	g.busy = 0.4;
	g.sm = 0.3;
	return g;
}

/* A starved loader against a GPU that is merely half idle, and against a full one. */
static void test_starved(void **state)
{
	struct made m;

	(void) state;
	silent(waiting, "data-starved");
	made_gpu(&m, waiting);
	m.s.iowait_ppm = known(210000);
	assert_says(judged(&m, "data-starved", NULL)->message, "busy 40 % of the time: it may be waiting for data; processors wait for the disk");
	/* Then more of its memory would not help. */
	assert_false(fires(&m, "gpu-memory"));
	made_done(&m);
	made_gpu(&m, good);
	m.s.iowait_ppm = known(210000);
	assert_false(fires(&m, "data-starved"));
	made_done(&m);
	/* One of eight waits, and two of three. */
	made_gpus(&m, (gpu_at *const[]) { good, good, good, waiting, good, good, good, good, NULL });
	m.s.iowait_ppm = known(210000);
	assert_says(judged(&m, "data-starved", NULL)->message, "GPU 3 was busy 40 % of the time: it may be waiting for data; processors wait for the disk");
	assert_int_equal((int) evidence_of(judged(&m, "data-starved", NULL), "gpu"), 3);
	assert_int_equal((int) evidence_of(judged(&m, "data-starved", NULL), "gpus"), 8);
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { waiting, good, waiting, NULL });
	m.s.iowait_ppm = known(210000);
	assert_says(judged(&m, "data-starved", NULL)->message, "So it is of GPU 2 (2 of 3).");
	made_done(&m);
}

static struct gpu by_memory(int second)
{
	struct gpu g = good(second);

	g.dram = 0.61;
	return g;
}

static struct gpu by_compute(int second)
{
	struct gpu g = good(second);

	g.sm = 0.61;
	return g;
}

static struct gpu by_copies(int second)
{
	struct gpu g = good(second);

	g.pcie = 9e9;
	return g;
}

static void test_bound_by(void **state)
{
	static const struct {
		gpu_at *gpu;
		const char *by;
	} cases[] = {
		{ by_memory, "memory" },
		{ by_compute, "compute" },
		{ by_copies, "copy" },
		{ few_sms, "launch" },
		{ waiting, "input" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made m;
		const struct finding *f = loud(&m, cases[i].gpu, "gpu-bound-by");

		assert_string_equal(words_of(f, "bound_by"), cases[i].by);
		made_done(&m);
	}
}

/* The worst that can be said of one is said of it, not of their mean. */
static void test_one_is_bound(void **state)
{
	const struct finding *f;
	struct made m;

	(void) state;
	made_gpus(&m, (gpu_at *const[]) { by_compute, by_compute, waiting, by_compute, NULL });
	f = judged(&m, "gpu-bound-by", NULL);
	assert_says(f->message, "What GPU 2 does may be bound by input, busy 40 %");
	assert_says(f->message, "Not so the others.");
	assert_string_equal(words_of(f, "bound_by"), "input");
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { by_compute, by_compute, NULL });
	assert_says(judged(&m, "gpu-bound-by", NULL)->message, "So it is of GPU 1 (2 of 2).");
	made_done(&m);
}

/* Its mean says that it waits for input; that it did nothing for most of the run is said already. */
static void test_an_idle_one_is_not_bound(void **state)
{
	struct made m;

	(void) state;
	made_gpu(&m, idle_for_long);
	assert_true(fires(&m, "gpu-idle"));
	assert_says(judged(&m, "gpu-bound-by", NULL)->why_not, "see gpu-idle");
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { idle_for_long, few_sms, NULL });
	assert_says(judged(&m, "gpu-bound-by", NULL)->message, "What GPU 1 does may be bound by launch");
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_is_well),
		cmocka_unit_test(test_without_a_gpu),
		cmocka_unit_test(test_leak),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_unused),
		cmocka_unit_test(test_low_use),
		cmocka_unit_test(test_low_use_of_one),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_what_would_do),
		cmocka_unit_test(test_what_a_gpu_is_born_with),
		cmocka_unit_test(test_divided),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_foreign_work),
		cmocka_unit_test(test_throttle),
		cmocka_unit_test(test_ecc),
		cmocka_unit_test(test_starved),
		cmocka_unit_test(test_bound_by),
		cmocka_unit_test(test_one_is_bound),
		cmocka_unit_test(test_an_idle_one_is_not_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
