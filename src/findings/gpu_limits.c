/* SPDX-License-Identifier: MIT
 *
 * Rules about what GPUs allow: memory to spare, clocks held back, memory that fails.
 */
#include "base/units.h"
#include "findings/finding.h"
#include "findings/gpus.h"

enum {
	MEMORY_PERCENT = 70,
	THROTTLE_PERCENT = 5
};

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

/* Of two that have to be known. */
static double more(double a, double b)
{
	return a < 0 || b < 0 ? -1 : a > b ? a
					   : b;
}

bool rule_gpu_memory(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct job *job = k->s->job;
	const struct gpus used = gpus_used(job);
	double least_left = -1, peak = 0, whole = 0, largest = 0;
	char left[UNITS_LEN], most[UNITS_LEN], of[UNITS_LEN], share[UNITS_LEN];

	if (gpus_none(&used, text))
		return false;
	for (size_t i = 0; i < used.n; i++) {
		const double all = gpu_memory(job, used.ids[i]), used_most = gpu_device_most(k->s, used.ids[i]);

		if (all <= 0 || used_most < 0)
			continue;
		largest = more(largest, gpu_job_most(k->s, used.ids[i]));
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
	const double enough = largest > 0 ? would_do(largest, whole) : 0;

	if (enough > 0) {
		finding_evidence(f, "enough_gpu_bytes", enough * 1073741824.0);
		buf_printf(text, " As it is, a GPU with %.0f GB may do.", enough);
	}
	return true;
}

/* ---- gpu-throttle ----------------------------------------------------------------------------------------------------- */

/* What held clocks back, for the largest share of the run on which GPU; a negative share: unknown. */
struct held_back {
	double share;
	uint32_t gpu;
	const char *by, *advice;
};

static void find_worst(const struct summary *s, enum metric reason, struct held_back *ret)
{
	const struct gpus used = gpus_boards(s->job);

	ret->share = -1;
	for (size_t i = 0; i < used.n && s->wall_ns.known && s->wall_ns.value > 0; i++) {
		const double rise = gpu_rise(s->job, reason, used.ids[i]);

		if (rise < 0 || rise / (double) s->wall_ns.value <= ret->share)
			continue;
		ret->share = rise / (double) s->wall_ns.value;
		ret->gpu = used.ids[i];
	}
}

bool rule_gpu_throttle(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct gpus used = gpus_used(k->s->job);
	struct held_back heat = { .by = "because it was too hot", .advice = "Look after its cooling, or use another node." };
	/* NVML's bit of the slowdown (0x8) is set for either, with or without that of the brake (0x80); AMD's is an outside signal. */
	struct held_back hardware = { .by = "by its hardware, and not for heat (a power brake from outside, or it drew too much at once)",
		.advice = "Tell who looks after the node." };
	struct held_back power = { 0 };
	char name[UNITS_LEN];

	find_worst(k->s, M_GPU_THROTTLE_THERMAL, &heat);
	find_worst(k->s, M_GPU_THROTTLE_HW, &hardware);
	find_worst(k->s, M_GPU_THROTTLE_POWER, &power);
	const struct held_back *worst = heat.share > hardware.share ? &heat : &hardware;

	if (gpus_none(&used, text))
		return false;
	if (worst->share < 0 && power.share < 0) {
		buf_str(text, "whether clocks were held back is unknown");
		return false;
	}
	if (worst->share * 100 <= THROTTLE_PERCENT) {
		buf_printf(text, "clocks held back for heat %.0f %% of the time, by the hardware without heat %.0f %%; it takes more than %d %%",
			heat.share > 0 ? heat.share * 100 : 0, hardware.share > 0 ? hardware.share * 100 : 0, THROTTLE_PERCENT);
		if (power.share * 100 > THROTTLE_PERCENT)
			buf_printf(text, " (the power cap alone, %.0f %%, is how it is meant to work)", power.share * 100);
		return false;
	}
	gpu_evidence(k->s->job, worst->gpu, f);
	if (heat.share >= 0)
		finding_evidence(f, "thermal_ratio", heat.share);
	if (hardware.share >= 0)
		finding_evidence(f, "hardware_ratio", hardware.share);
	buf_printf(text, "%s's clocks were held back %.0f %% of the time %s: the run was slower than the GPU can be. %s",
		used.n > 1 ? gpu_name(k->s->job, worst->gpu, name) : "The GPU", worst->share * 100, worst->by, worst->advice);
	return true;
}

/* ---- gpu-ecc ---------------------------------------------------------------------------------------------------------- */

static void put_errors(const struct summary *s, uint32_t id, struct finding *f)
{
	gpu_evidence(s->job, id, f);
	finding_evidence(f, "ecc_uncorrected", gpu_rise(s->job, M_GPU_ECC_UNCORRECTED, id));
}

/* What stood there before the job is not the job's: a counter's rise is what came since it was first read. Whoever looks after
 * the node is to know which of its GPUs it is. */
bool rule_gpu_ecc(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct job *job = k->s->job;
	const struct gpus boards = gpus_boards(job);
	struct gpus_ranked failed = { 0 };
	size_t n_known = 0;
	char name[UNITS_LEN];

	if (gpus_none(&boards, text))
		return false;
	for (size_t i = 0; i < boards.n; i++) {
		const double errors = gpu_rise(job, M_GPU_ECC_UNCORRECTED, boards.ids[i]);

		n_known += errors >= 0;
		if (errors > 0)
			gpus_rank(&failed, boards.ids[i], errors);
	}
	if (failed.n == 0) {
		buf_str(text, n_known > 0 ? "no GPU that it used counted a memory error that ECC could not correct, as far as its count was read; it takes one"
					  : "whether memory errors were left uncorrected is unknown: no GPU that it used counts them");
		return false;
	}
	const double most = failed.list[0].bad;

	gpus_evidence(k->s, &failed, n_known, put_errors, f);
	buf_printf(text, "The memory of %s had %.0f error%s during the run that ECC could not correct: the job may have ended by %s, or its results may be wrong.",
		gpu_called_within(job, failed.list[0].id, gpus_all(job).n, name), most, most > 1 ? "s" : "", most > 1 ? "them" : "it");
	gpus_put_others(job, &failed, n_known, text);
	buf_str(text, " Run it on another GPU, and tell who looks after the node.");
	return true;
}
