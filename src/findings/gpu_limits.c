/* SPDX-License-Identifier: MIT
 *
 * Rules about limits of GPUs: unused memory, throttled clocks, memory errors.
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

/* Memory of the smallest GPU on the market that fits bytes and a tenth more, in GiB (vendors write
 * GB); 0 if none is below limit. */
static double smallest_fit(double bytes, double limit)
{
	static const double sizes[] = { 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 80, 96, 141, 180 };
	const double gib = 1073741824.0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] * gib >= bytes * 1.1)
			return sizes[i] * gib * 1.1 < limit ? sizes[i] : 0;
	}
	return 0;
}

/* The larger; unknown (negative) if either is. */
static double more(double a, double b)
{
	return a < 0 || b < 0 ? -1 : a > b ? a
					   : b;
}

bool rule_gpu_memory(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct job *job = k->s->job;
	const struct gpus used = gpus_used(job);
	double least_left = -1, peak = 0, size = 0, largest = 0;
	char left[UNITS_LEN], most[UNITS_LEN], of[UNITS_LEN], share[UNITS_LEN];

	if (gpus_none(&used, text))
		return false;
	for (size_t i = 0; i < used.n; i++) {
		const double all = gpu_memory(job, used.ids[i]),
			     used_most = gpu_device_most(k->s, used.ids[i]);

		if (all <= 0 || used_most < 0)
			continue;
		largest = more(largest, gpu_job_most(k->s, used.ids[i]));
		if (least_left < 0 || all - used_most < least_left) {
			least_left = all - used_most;
			peak = used_most;
			size = all;
		}
	}
	if (least_left < 0) {
		buf_str(text, "the size of the GPU's memory is unknown");
		return false;
	}
	(void) units_percent((int64_t) peak, (int64_t) size, share);
	(void) units_bytes((int64_t) peak, UNITS_IEC, most);
	(void) units_bytes_like((int64_t) size, (int64_t) peak, UNITS_IEC, of);
	if (peak * 100 >= size * MEMORY_PERCENT || is_starved(k)) {
		buf_printf(text, "peak %s of %s (%s); fires below %d %% unless data-starved fires", most, of,
			share, MEMORY_PERCENT);
		return false;
	}
	finding_evidence(f, "gpu_peak_bytes", peak);
	finding_evidence(f, "gpu_memory_bytes", size);
	buf_printf(text,
		"%s of GPU memory was never used (peak %s of %s, %s): a larger batch may fit, and may be faster.",
		units_bytes((int64_t) least_left, UNITS_IEC, left), most, of, share);
	const double enough = largest > 0 ? smallest_fit(largest, size) : 0;

	if (enough > 0) {
		finding_evidence(f, "enough_gpu_bytes", enough * 1073741824.0);
		buf_printf(text, " As it is, a GPU with %.0f GB may be enough.", enough);
	}
	return true;
}

/* ---- gpu-throttle ----------------------------------------------------------------------------------------------------- */

/* A reason for throttling, and the GPU on which it was in force for the largest share of the run;
 * negative share: unknown. */
struct throttling {
	double share;
	uint32_t gpu;
	const char *by, *advice;
};

static void find_worst(const struct summary *s, enum metric reason, struct throttling *ret)
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
	struct throttling heat = { .by = "because it was too hot",
		.advice = "Check its cooling, or use another node." };
	/* NVML sets the slowdown bit (0x8) for either cause, with or without the power brake's
	 * (0x80); AMD's bit is an external signal. */
	struct throttling hardware = {
		.by = "by its hardware, not for heat (an external power brake, or a surge of its own power)",
		.advice = "Report it to the node's administrator."
	};
	struct throttling power = { 0 };
	char name[UNITS_LEN];

	find_worst(k->s, M_GPU_THROTTLE_THERMAL, &heat);
	find_worst(k->s, M_GPU_THROTTLE_HW, &hardware);
	find_worst(k->s, M_GPU_THROTTLE_POWER, &power);
	const struct throttling *worst = heat.share > hardware.share ? &heat : &hardware;

	if (gpus_none(&used, text))
		return false;
	if (worst->share < 0 && power.share < 0) {
		buf_str(text, "throttling of the clocks is unknown");
		return false;
	}
	if (worst->share * 100 <= THROTTLE_PERCENT) {
		buf_printf(text,
			"clocks throttled for heat %.0f %% of the time, by the hardware without heat %.0f %%; fires above %d %%",
			heat.share > 0 ? heat.share * 100 : 0, hardware.share > 0 ? hardware.share * 100 : 0,
			THROTTLE_PERCENT);
		if (power.share * 100 > THROTTLE_PERCENT)
			buf_printf(text, " (throttling at the power cap, %.0f %% of the time, is normal)",
				power.share * 100);
		return false;
	}
	gpu_evidence(k->s->job, worst->gpu, f);
	if (heat.share >= 0)
		finding_evidence(f, "thermal_ratio", heat.share);
	if (hardware.share >= 0)
		finding_evidence(f, "hardware_ratio", hardware.share);
	buf_printf(text,
		"%s's clocks were throttled %.0f %% of the time %s: the run was slower than the GPU allows. %s",
		used.n > 1 ? gpu_name(k->s->job, worst->gpu, name) : "The GPU", worst->share * 100, worst->by,
		worst->advice);
	return true;
}

/* ---- gpu-ecc ---------------------------------------------------------------------------------------------------------- */

static void put_errors(const struct summary *s, uint32_t id, struct finding *f)
{
	gpu_evidence(s->job, id, f);
	finding_evidence(f, "ecc_uncorrected", gpu_rise(s->job, M_GPU_ECC_UNCORRECTED, id));
}

/* Errors from before the job do not count: the rise of a counter starts at its first read. The
 * message names the GPU for the node's administrator. */
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
		buf_str(text,
			n_known > 0
				? "no GPU that it used counted a memory error that ECC could not correct, as far as its counter was read; fires at one"
				: "uncorrected memory errors are unknown: no GPU that it used counts them");
		return false;
	}
	const double most = failed.list[0].bad;

	gpus_evidence(k->s, &failed, n_known, put_errors, f);
	buf_printf(text,
		"The memory of %s had %.0f error%s during the run that ECC could not correct: the job may have ended because of %s, or its results may be wrong.",
		gpu_called_within(job, failed.list[0].id, gpus_all(job).n, name), most, most > 1 ? "s" : "",
		most > 1 ? "them" : "it");
	gpus_put_others(job, &failed, n_known, text);
	buf_str(text, " Run it on another GPU, and report this one to the node's administrator.");
	return true;
}
