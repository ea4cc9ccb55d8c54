/* SPDX-License-Identifier: MIT
 *
 * Rules about GPUs: idle ones, small kernels, memory to spare, clocks held back, what bounds the work.
 */
#include <stdio.h>

#include "base/units.h"
#include "watch/gpus.h"
#include "watch/rules.h"

enum {
	IDLE_PERCENT = 5,
	BUSY_PERCENT = 80,
	SM_PERCENT = 30,
	POWER_PERCENT = 40,
	MEMORY_PERCENT = 70,
	THROTTLE_PERCENT = 5,
	BOUND_PERCENT = 60
};
static const int64_t idle_least_ns = INT64_C(600000000000);

static bool no_gpu(const struct gpus *gpus, struct buf *text)
{
	if (gpus->n == 0)
		buf_str(text, "no GPU was used, or none could be asked");
	return gpus->n == 0;
}

/* A share from 0 to 1 in per cent, if it is known. */
static void put_share(const char *before, double share, const char *behind, struct buf *text)
{
	if (share >= 0)
		buf_printf(text, "%s%.0f %%%s", before, share * 100, behind);
}

/* ---- gpu-idle --------------------------------------------------------------------------------------------------------- */

struct stretch {
	int64_t from_ns, to_ns;
};

/* The longest time in which the GPU did nothing and the job held memory on it. */
static struct stretch longest_idle(const struct job *job, uint32_t id)
{
	const struct course *some_kernel = job_course(job, M_GPU_BUSY, id), *held = job_course(job, M_GPU_JOB_MEM, id);
	const struct course *busy = some_kernel ? some_kernel : job_course(job, M_GPU_GRAPHICS_ACTIVE, id);
	const int64_t span = (int64_t) job_course_span(job);
	struct stretch most = { 0 }, now = { 0 };

	for (int64_t i = 0; busy && held && i < COURSE_BUCKETS; i++) {
		const struct course_bucket *b = &busy->buckets[i];

		if (b->cover_ns == 0 || course_mean(b) >= IDLE_PERCENT * 1e4 || held->buckets[i].min <= 0) {
			now = (struct stretch) { 0 };
			continue;
		}
		if (now.to_ns == 0)
			now.from_ns = i * span;
		now.to_ns = (i + 1) * span;
		if (now.to_ns - now.from_ns > most.to_ns - most.from_ns)
			most = now;
	}
	return most;
}

/* A GPU that the job has and never touched: it uses others, or a scheduler gave it. */
static bool is_unused(const struct summary *s, const struct gpus *used, uint32_t id)
{
	const double most = gpu_most(s->job, M_GPU_JOB_MEM, id);
	const bool given = s->facts->scheduler && *s->facts->scheduler;

	return most >= 0 && most <= 0 && (used->n > 0 || given);
}

static void put_idle(const struct job *job, uint32_t id, const struct stretch *idle, struct finding *f, struct buf *text)
{
	char time[UNITS_LEN], from[UNITS_LEN], held[UNITS_LEN], name[UNITS_LEN];

	gpu_evidence(job, id, f);
	finding_evidence(f, "idle_s", (double) (idle->to_ns - idle->from_ns) / 1e9);
	finding_interval(f, idle->from_ns, idle->to_ns);
	buf_printf(text, "%s did nothing for %s from %s on while the job held %s of its memory. Free it before what needs no "
			 "GPU, or do that in a job of its own.",
		gpu_name(job, id, name), units_duration(idle->to_ns - idle->from_ns, time), units_duration(idle->from_ns, from),
		units_bytes((int64_t) gpu_most(job, M_GPU_JOB_MEM, id), UNITS_IEC, held));
}

bool rule_gpu_idle(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct job *job = k->s->job;
	const struct gpus all = gpus_all(job), used = gpus_used(job);
	struct stretch most = { 0 };
	uint32_t id = 0;
	unsigned unused = 0;

	if (no_gpu(&all, text))
		return false;
	for (size_t i = 0; i < all.n; i++) {
		const struct stretch idle = longest_idle(job, all.ids[i]);

		unused += is_unused(k->s, &used, all.ids[i]);
		if (idle.to_ns - idle.from_ns > most.to_ns - most.from_ns) {
			most = idle;
			id = all.ids[i];
		}
	}
	if (most.to_ns - most.from_ns > idle_least_ns) {
		put_idle(job, id, &most, f, text);
		return true;
	}
	if (unused > 0) {
		finding_evidence(f, "unused_gpus", unused);
		finding_evidence(f, "gpus", (double) all.n);
		buf_printf(text, "%u of %zu GPUs %s never used by the job: ask for fewer, or give it work for all.", unused, all.n,
			unused == 1 ? "was" : "were");
		return true;
	}
	buf_printf(text, "no GPU was under %d %% for 10 minutes while the job held memory on it, none was left unused", IDLE_PERCENT);
	return false;
}

/* ---- gpu-low-use ------------------------------------------------------------------------------------------------------ */

bool rule_gpu_low_use(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct job *job = k->s->job;
	const struct gpus used = gpus_used(job);
	const double busy = gpus_busy(job), sm = gpus_mean(job, M_GPU_SM_ACTIVE);
	const double power = gpus_mean(job, M_GPU_POWER), limit = gpus_mean(job, M_GPU_POWER_LIMIT);
	const double drawn = power >= 0 && limit > 0 ? power / limit : -1;
	const bool few_sms = sm >= 0 && sm * 100 < SM_PERCENT, little_power = drawn >= 0 && drawn * 100 < POWER_PERCENT;

	if (no_gpu(&used, text))
		return false;
	if (busy < 0 || (sm < 0 && drawn < 0)) {
		buf_str(text, "neither SM activity nor power could be read");
		return false;
	}
	if (busy * 100 <= BUSY_PERCENT || (!few_sms && !little_power)) {
		buf_printf(text, "busy %.0f %%", busy * 100);
		put_share(", SMs active ", sm, "", text);
		put_share(", ", drawn, " of the power limit", text);
		buf_printf(text, "; it takes more than %d %% with SMs under %d %% or power under %d %%", BUSY_PERCENT, SM_PERCENT,
			POWER_PERCENT);
		return false;
	}
	finding_evidence(f, "gpu_busy_ratio", busy);
	buf_printf(text, "The GPU was busy %.0f %% of the time, which only says that some kernel ran:", busy * 100);
	if (sm >= 0) {
		finding_evidence(f, "sm_active_ratio", sm);
		buf_printf(text, " its SMs were active %.0f %%", sm * 100);
	}
	if (drawn >= 0) {
		finding_evidence(f, "power_ratio", drawn);
		buf_printf(text, "%s it drew %.0f %% of its power limit", sm >= 0 ? " and" : "", drawn * 100);
	}
	buf_str(text, ". Kernels may be too small: try a larger batch, fused kernels or CUDA graphs.");
	return true;
}

/* ---- gpu-memory ------------------------------------------------------------------------------------------------------- */

static bool is_starved(const struct known_of_run *k)
{
	struct finding other = { 0 };
	struct buf words = BUF_INIT(1 << 12);
	const bool starved = rule_data_starved(k, &other, &words);

	buf_done(&words);
	return starved;
}

/* The smallest GPU that is sold on which so much has room, with a tenth to spare, in GiB (makers call it GB); 0: none under limit. */
static double would_do(double bytes, double limit)
{
	static const double sizes[] = { 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 80, 96, 141, 180 };
	const double gib = 1073741824.0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] * gib >= bytes * 1.1)
			return sizes[i] * gib * 1.1 < limit ? sizes[i] : 0;
	}
	return 0;
}

bool rule_gpu_memory(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct job *job = k->s->job;
	const struct gpus used = gpus_used(job);
	double least_left = -1, peak = 0, whole = 0, largest = 0;
	char left[UNITS_LEN], most[UNITS_LEN], of[UNITS_LEN], share[UNITS_LEN];

	if (no_gpu(&used, text))
		return false;
	for (size_t i = 0; i < used.n; i++) {
		const double all = gpu_memory(job, used.ids[i]), used_most = gpu_most(job, M_GPU_MEM, used.ids[i]);

		if (all <= 0 || used_most < 0)
			continue;
		largest = used_most > largest ? used_most : largest;
		if (least_left < 0 || all - used_most < least_left) {
			least_left = all - used_most;
			peak = used_most;
			whole = all;
		}
	}
	if (least_left < 0) {
		buf_str(text, "how much memory a GPU has is unknown");
		return false;
	}
	(void) units_percent((int64_t) peak, (int64_t) whole, share);
	(void) units_bytes((int64_t) peak, UNITS_IEC, most);
	(void) units_bytes_like((int64_t) whole, (int64_t) peak, UNITS_IEC, of);
	if (peak * 100 >= whole * MEMORY_PERCENT || is_starved(k)) {
		buf_printf(text, "peak %s of %s (%s); it takes less than %d %%, and no data that it waits for", most, of, share,
			MEMORY_PERCENT);
		return false;
	}
	finding_evidence(f, "gpu_peak_bytes", peak);
	finding_evidence(f, "gpu_memory_bytes", whole);
	buf_printf(text, "%s of GPU memory were never used (peak %s of %s, %s): a larger batch may fit, and may be faster.",
		units_bytes((int64_t) least_left, UNITS_IEC, left), most, of, share);
	const double enough = would_do(largest, whole);

	if (enough > 0) {
		finding_evidence(f, "enough_gpu_bytes", enough * 1073741824.0);
		buf_printf(text, " As it is, a GPU with %.0f GB may do.", enough);
	}
	return true;
}

/* ---- gpu-throttle ----------------------------------------------------------------------------------------------------- */

/* The largest share of the run in which one of the GPUs was held back for a reason, and which it was; negative: unknown. */
static double throttled(const struct summary *s, enum metric reason, uint32_t *ret_id)
{
	const struct gpus used = gpus_boards(s->job);
	double most = -1;

	for (size_t i = 0; i < used.n && s->wall_ns.known && s->wall_ns.value > 0; i++) {
		const double rise = gpu_rise(s->job, reason, used.ids[i]);

		if (rise < 0 || rise / (double) s->wall_ns.value <= most)
			continue;
		most = rise / (double) s->wall_ns.value;
		*ret_id = used.ids[i];
	}
	return most;
}

bool rule_gpu_throttle(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct gpus used = gpus_used(k->s->job);
	uint32_t hot = 0, braked = 0, capped = 0;
	const double heat = throttled(k->s, M_GPU_THROTTLE_THERMAL, &hot), hardware = throttled(k->s, M_GPU_THROTTLE_HW, &braked);
	const double power = throttled(k->s, M_GPU_THROTTLE_POWER, &capped);
	char name[UNITS_LEN];

	if (no_gpu(&used, text))
		return false;
	if (heat < 0 && hardware < 0 && power < 0) {
		buf_str(text, "whether clocks were held back is unknown");
		return false;
	}
	if (heat * 100 <= THROTTLE_PERCENT && hardware * 100 <= THROTTLE_PERCENT) {
		buf_printf(text, "clocks held back for heat %.0f %% of the time, by the power brake %.0f %%; it takes more than %d %%",
			heat > 0 ? heat * 100 : 0, hardware > 0 ? hardware * 100 : 0, THROTTLE_PERCENT);
		if (power * 100 > THROTTLE_PERCENT)
			buf_printf(text, " (the power cap alone, %.0f %%, is how it is meant to work)", power * 100);
		return false;
	}
	gpu_evidence(k->s->job, heat > hardware ? hot : braked, f);
	if (heat >= 0)
		finding_evidence(f, "thermal_ratio", heat);
	if (hardware >= 0)
		finding_evidence(f, "hardware_ratio", hardware);
	buf_printf(text, "%s's clocks were held back %.0f %% of the time %s: the run was slower than the GPU can be. ",
		used.n > 1 ? gpu_name(k->s->job, heat > hardware ? hot : braked, name) : "The GPU",
		(heat > hardware ? heat : hardware) * 100, heat > hardware ? "because it was too hot" : "by its hardware (power brake)");
	buf_str(text, heat > hardware ? "Look after its cooling, or use another node." : "Tell who looks after the node.");
	return true;
}

/* ---- gpu-bound-by ----------------------------------------------------------------------------------------------------- */

/* Both directions of the busiest GPU, in bytes a second; negative: unknown. */
static double copied(const struct summary *s)
{
	const struct gpus used = gpus_used(s->job);
	double most = -1;

	for (size_t i = 0; i < used.n && s->wall_ns.known && s->wall_ns.value > 0; i++) {
		const double in = gpu_rise(s->job, M_GPU_PCIE_RX, used.ids[i]), out = gpu_rise(s->job, M_GPU_PCIE_TX, used.ids[i]);
		const double rate = (in + out) * 1e9 / (double) s->wall_ns.value;

		if (in >= 0 && out >= 0 && rate > most)
			most = rate;
	}
	return most;
}

bool rule_gpu_bound_by(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	static const double copy_least = 8e9; /* half of what a PCIe 4 link of 16 lanes moves in practice is about 10 GB/s */
	const struct job *job = k->s->job;
	const struct gpus used = gpus_used(job);
	const double busy = gpus_busy(job), sm = gpus_mean(job, M_GPU_SM_ACTIVE), dram = gpus_mean(job, M_GPU_DRAM_ACTIVE);
	const double copy = copied(k->s);
	const struct {
		bool is_so;
		const char *what, *advice;
	} bounds[] = {
		{ dram * 100 >= BOUND_PERCENT, "memory", "lower precision, fused kernels and better locality help; more FLOPs are free" },
		{ sm * 100 >= BOUND_PERCENT, "compute", "that is what a GPU is for; tensor cores and lower precision may still help" },
		{ copy >= copy_least, "copy", "keep data on the GPU, use pinned memory and overlap copies with kernels" },
		{ busy * 100 > BUSY_PERCENT && sm >= 0 && sm * 100 < SM_PERCENT, "launch", "larger batches, fused kernels or CUDA graphs help" },
		{ busy >= 0 && busy * 100 < BOUND_PERCENT, "input", "the GPU waits for the host: see data-starved, or trace the host" },
	};

	if (no_gpu(&used, text))
		return false;
	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		if (!bounds[i].is_so)
			continue;
		finding_text(f, "bound_by", bounds[i].what);
		if (busy >= 0)
			finding_evidence(f, "gpu_busy_ratio", busy);
		if (sm >= 0)
			finding_evidence(f, "sm_active_ratio", sm);
		if (dram >= 0)
			finding_evidence(f, "dram_active_ratio", dram);
		if (copy >= 0)
			finding_evidence(f, "copied_bytes_per_s", copy);
		buf_printf(text, "What the GPU does may be bound by %s", bounds[i].what);
		put_share(", busy ", busy, "", text);
		put_share(", SMs active ", sm, "", text);
		put_share(", memory active ", dram, "", text);
		buf_printf(text, ": %s.", bounds[i].advice);
		return true;
	}
	buf_str(text, busy < 0 && sm < 0 ? "the GPU's activity is unknown" : "no one thing stands out");
	return false;
}
