/* SPDX-License-Identifier: MIT
 *
 * What should be read next to narrow the bounds of combined memory: faults of all members, PSS passes, /proc/PID/maps, high-water marks
 * (hwm) of all members. Each read costs CPU time, and a PSS pass also delays the job, so each is asked for only where it can change an
 * answer.
 */
#include "job/job_internal.h"

#define MIB INT64_C(1048576)

enum {
	STILL_TOTALS = 5,  /* without a new maximum: the job has stopped growing */
	TRIES = 3,         /* of invalid passes at one size */
	PASS_TOTALS = 10,  /* between passes while the job grows */
	CLOSE = 64,        /* bounds within 1/CLOSE are close */
	HWM_MEMBERS = 64,
	HWM_TOTALS = 3
};

static bool is_still(const struct job *job)
{
	return job->growth.still >= STILL_TOTALS;
}

void needs_total(struct job *job, int64_t rss_sum)
{
	struct growth *growth = &job->growth;

	growth->waited++;
	if (rss_sum > growth->top + growth->top / 200)
		growth->still = 0;
	else if (growth->still < STILL_TOTALS)
		growth->still++;
	growth->top = larger(growth->top, rss_sum);
	growth->hwm_sum = growth->asked_hwm ? rss_sum : growth->hwm_sum;
	growth->asked_hwm = false;
}

void needs_pass_ended(struct job *job, bool is_valid)
{
	struct growth *growth = &job->growth;
	struct memory_state now;

	memory_state(job->memory, &now);
	growth->waited = 0;
	if (!is_valid && ++growth->tries < TRIES)
		return;
	growth->passed = larger(
		growth->passed, growth->still > 0 ? larger(now.rss_sum, growth->top) : now.rss_sum);
	growth->tries = 0;
}

/* In steps of a quarter, and once growth has stopped: reading the maps of thousands of processes that start one after the other must not cost
 * more than they do. */
static bool needs_files(const struct job *job, const struct memory_state *now)
{
	return now->files_since > 4 * MIB && now->files_since > now->files_read / (is_still(job) ? 64 : 4);
}

/* The RSS of one process that maps nothing twice is its memory; only a pass finds which of its files others map. A pass over processes
 * that grow is mostly invalid, so it waits for a second of growth; where both bounds are close already, until the job rests. */
static bool needs_pass(const struct job *job, const struct memory_state *now)
{
	const struct growth *growth = &job->growth;
	const int64_t sum = now->rss_sum, passed = growth->passed;
	const bool is_lone = now->n == 1, has_files = now->files > larger(16 * MIB, sum / 4);
	const bool is_close = now->high - now->largest < now->high / CLOSE;

	if (now->n == 0 || (is_lone && !has_files && !memory_is_mapped_twice(job->memory)) ||
		sum < growth->top / 50 * 49)
		return false;
	if (!is_still(job) &&
		(is_close || (sum > growth->top + growth->top / 200 && growth->waited < PASS_TOTALS)))
		return false;
	if (sum > passed + passed / (is_lone ? 4 : 50) && sum > passed + MIB)
		return true;
	return !is_lone && is_still(job) && growth->top > passed + MIB / 16;
}

/* Memory that only grew was never more than it is now, if every hwm agrees. Once for each size: what did not help will not. */
static bool needs_hwm(const struct job *job, const struct memory_state *now)
{
	return now->n > 1 && now->n <= HWM_MEMBERS && job->growth.still > 0 && now->since_hwm >= HWM_TOTALS &&
	       now->only_grew && now->rss_sum != job->growth.hwm_sum &&
	       memory_high_so_far(job->memory) > now->estimate + now->estimate / 16;
}

unsigned job_needs(struct job *job)
{
	struct memory_state now;
	unsigned needs = 0;

	memory_state(job->memory, &now);
	if (needs_files(job, &now))
		needs |= NEED_FILES;
	if (needs_pass(job, &now))
		needs |= NEED_PSS;
	if (needs_hwm(job, &now)) {
		needs |= NEED_HWM;
		job->growth.asked_hwm = true;
	}
	if (now.lacks_faults)
		needs |= NEED_FAULTS;
	if ((!now.lacks_faults || job_has_faults(job)) && now.n > 1 && now.high > now.peak &&
		now.high > now.estimate + now.estimate / 4)
		needs |= NEED_MACHINE;
	return needs;
}
