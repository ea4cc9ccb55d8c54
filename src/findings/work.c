/* SPDX-License-Identifier: MIT
 *
 * Rules about a traced run: what kept a GPU from work. They are judged by sums of kernels, copies and
 * calls (summary/work.h), device by device; the finding is about the one with the most time at stake.
 */
#include "base/units.h"
#include "findings/finding.h"

enum {
	IDLE_PERCENT = 30,     /* of the window: an idle device */
	LOADING_PERCENT = 50,  /* of the idle time */
	LAUNCHING_PERCENT = 40,/* of the window */
	FEW_KERNELS = 1000,
	SYNCS_PERCENT = 50,    /* of the launches */
	PAGEABLE_PERCENT = 50, /* of the bytes */
	COPYING_PERCENT = 5,   /* of the window */
};
static const uint64_t short_window_ns = 1000000000;

static double percent(uint64_t part, uint64_t whole)
{
	return whole > 0 ? (double) part * 100 / (double) whole : 0;
}

static uint64_t idle_of(const struct work_device *d)
{
	return d->window_ns > d->busy_ns ? d->window_ns - d->busy_ns : 0;
}

static bool is_idle(const struct work_device *d)
{
	return percent(idle_of(d), d->window_ns) >= IDLE_PERCENT;
}

/* The device on which the rule applies and most is at stake; NULL: on none. */
static const struct work_device *worst_of(const struct work *w, bool (*applies)(const struct work_device *d),
	uint64_t (*stake)(const struct work_device *d))
{
	const struct work_device *worst = NULL;

	for (size_t i = 0; i < w->n_devices; i++) {
		const struct work_device *d = &w->devices[i];

		if (d->window_ns >= short_window_ns && applies(d) && (!worst || stake(d) > stake(worst)))
			worst = d;
	}
	return worst;
}

/* The reason why a rule did not fire, from the device that has worked longest. */
static const struct work_device *longest_of(const struct work *w, struct buf *text)
{
	const struct work_device *longest = NULL;

	for (size_t i = 0; i < w->n_devices; i++) {
		if (!longest || w->devices[i].window_ns > longest->window_ns)
			longest = &w->devices[i];
	}
	if (!longest)
		buf_str(text, "no kernel and no copy was traced");
	else if (longest->window_ns < short_window_ns)
		buf_str(text, "kernels were traced for less than 1 s");
	else
		return longest;
	return NULL;
}

static void device_evidence(struct finding *f, const struct work_device *d)
{
	finding_evidence(f, "gpu", (double) d->number);
	finding_evidence(f, "traced_s", (double) d->window_ns / 1e9);
	finding_evidence(f, "gpu_idle_ratio", percent(idle_of(d), d->window_ns) / 100);
}

/* ---- gpu-waits: for data ------------------------------------------------------------------------------ */

static bool waits(const struct work_device *d)
{
	return is_idle(d) && percent(d->loading_ns, idle_of(d)) >= LOADING_PERCENT;
}

bool rule_gpu_waits(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct work_device *d = worst_of(k->s->work, waits, idle_of);
	char loading[UNITS_LEN], gap[UNITS_LEN], at[UNITS_LEN];

	if (d) {
		device_evidence(f, d);
		finding_evidence(f, "loading_s", (double) d->loading_ns / 1e9);
		finding_evidence(f, "longest_gap_s", (double) d->longest_gap_ns / 1e9);
		buf_printf(text,
			"GPU %ld was idle for %.0f %% of the traced time, and its process spent %s in ranges that load data ('%s'); "
			"the longest gap is %s, at %s. The GPU may wait for data: load it in more workers, ahead of its use.",
			(long) d->number, percent(idle_of(d), d->window_ns),
			units_duration((int64_t) d->loading_ns, loading), d->loading,
			units_duration((int64_t) d->longest_gap_ns, gap),
			units_instant((int64_t) d->longest_gap_at_ns, at));
		return true;
	}
	d = longest_of(k->s->work, text);
	if (d)
		buf_printf(text,
			"GPU %ld was idle for %.0f %% of the traced time (limit %d %%), and ranges that load data took %s of its "
			"process's time (limit: half of the idle time)",
			(long) d->number, percent(idle_of(d), d->window_ns), IDLE_PERCENT,
			units_duration((int64_t) d->loading_ns, loading));
	return false;
}

/* ---- gpu-launches: kernels shorter than their launches ------------------------------------------------------ */

static uint64_t mean_of(uint64_t sum, uint64_t n)
{
	return n > 0 ? sum / n : 0;
}

static uint64_t launching(const struct work_device *d)
{
	return d->launches_ns;
}

static bool is_bound_by_launches(const struct work_device *d)
{
	return is_idle(d) && d->n_launches >= FEW_KERNELS &&
	       percent(d->launches_ns, d->window_ns) >= LAUNCHING_PERCENT &&
	       mean_of(d->kernels_ns, d->n_kernels) <= 2 * mean_of(d->launches_ns, d->n_launches);
}

bool rule_gpu_launches(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct work_device *d = worst_of(k->s->work, is_bound_by_launches, launching);
	char kernel[UNITS_LEN], launch[UNITS_LEN];

	if (d) {
		device_evidence(f, d);
		finding_evidence(f, "launches", (double) d->n_launches);
		finding_evidence(f, "launching_ratio", percent(d->launches_ns, d->window_ns) / 100);
		finding_evidence(f, "mean_kernel_s", (double) d->kernels_ns / 1e9 / (double) d->n_kernels);
		buf_printf(text,
			"GPU %ld was idle for %.0f %% of the traced time: a kernel took %s on average, its launch %s, and launches "
			"filled %.0f %% of the time. Launch fewer, larger kernels: a larger batch, fused operations "
			"(torch.compile), CUDA graphs.",
			(long) d->number, percent(idle_of(d), d->window_ns),
			units_duration((int64_t) mean_of(d->kernels_ns, d->n_kernels), kernel),
			units_duration((int64_t) mean_of(d->launches_ns, d->n_launches), launch),
			percent(d->launches_ns, d->window_ns));
		return true;
	}
	d = longest_of(k->s->work, text);
	if (d && d->n_launches == 0)
		buf_str(text, "no launch was traced");
	else if (d)
		buf_printf(text,
			"launches filled %.0f %% of the traced time of GPU %ld (limit %d %%), which was idle for %.0f %% (limit %d %%)",
			percent(d->launches_ns, d->window_ns), (long) d->number, LAUNCHING_PERCENT,
			percent(idle_of(d), d->window_ns), IDLE_PERCENT);
	return false;
}

/* ---- gpu-syncs: the program waits after each launch ---------------------------------------------------------- */

static bool is_synchronised(const struct work_device *d)
{
	return is_idle(d) && d->n_launches >= FEW_KERNELS &&
	       percent(d->n_syncs, d->n_launches) >= SYNCS_PERCENT;
}

bool rule_gpu_syncs(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct work_device *d = worst_of(k->s->work, is_synchronised, idle_of);
	char time[UNITS_LEN];

	if (d) {
		device_evidence(f, d);
		finding_evidence(f, "launches", (double) d->n_launches);
		finding_evidence(f, "syncs", (double) d->n_syncs);
		buf_printf(text,
			"GPU %ld was idle for %.0f %% of the traced time: its process waited for it %lu times after %lu launches (%s in "
			"all), so that nothing was queued. Read results (.item(), .cpu(), print) less often.",
			(long) d->number, percent(idle_of(d), d->window_ns), (unsigned long) d->n_syncs,
			(unsigned long) d->n_launches, units_duration((int64_t) d->syncs_ns, time));
		return true;
	}
	d = longest_of(k->s->work, text);
	if (d)
		buf_printf(text,
			"the process of GPU %ld waited for it %lu times after %lu launches (limit: half as often, %d launches or more), and "
			"it was idle for %.0f %% (limit %d %%)",
			(long) d->number, (unsigned long) d->n_syncs, (unsigned long) d->n_launches,
			FEW_KERNELS,
			percent(idle_of(d), d->window_ns), IDLE_PERCENT);
	return false;
}

/* ---- gpu-pageable: copies that the driver must stage ---------------------------------------------------------- */

static bool copies_pageable(const struct work_device *d)
{
	return percent(d->pageable_bytes, d->copied_bytes) >= PAGEABLE_PERCENT &&
	       percent(d->pageable_ns, d->window_ns) >= COPYING_PERCENT;
}

static uint64_t pageable(const struct work_device *d)
{
	return d->pageable_ns;
}

bool rule_gpu_pageable(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct work_device *d = worst_of(k->s->work, copies_pageable, pageable);
	char bytes[UNITS_LEN], time[UNITS_LEN];

	if (d) {
		device_evidence(f, d);
		finding_evidence(f, "copied_bytes", (double) d->copied_bytes);
		finding_evidence(f, "pageable_bytes", (double) d->pageable_bytes);
		finding_evidence(f, "pageable_s", (double) d->pageable_ns / 1e9);
		buf_printf(text,
			"%.0f %% of what was copied between host and GPU %ld (%s, %s) was pageable memory, which the driver copies twice and "
			"waits for. Pin it (pin_memory=True, non_blocking=True).",
			percent(d->pageable_bytes, d->copied_bytes), (long) d->number,
			units_bytes((int64_t) d->pageable_bytes, UNITS_IEC, bytes),
			units_duration((int64_t) d->pageable_ns, time));
		return true;
	}
	d = longest_of(k->s->work, text);
	if (d)
		buf_printf(text,
			"copies of pageable memory took %.1f %% of the traced time of GPU %ld (limit %d %%)",
			percent(d->pageable_ns, d->window_ns), (long) d->number, COPYING_PERCENT);
	return false;
}
