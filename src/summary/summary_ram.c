/* SPDX-License-Identifier: MIT
 *
 * The figures of RAM and the methods by which they were obtained (docs/memory.md has the rules).
 */
#include <string.h>

#include "summary/summary_internal.h"

/* A sum of 0 with a peak above 0: no sample found that memory. */
static struct maybe mean_of(const struct acc *acc)
{
	if (!acc || acc->n < MEAN_SAMPLES || acc->span_ns == 0 || (acc->sum <= 0 && acc->max > 0))
		return UNKNOWN;
	return known((int64_t) (acc->sum / (double) acc->span_ns));
}

void ram_figure_set(
	struct ram_figure *figure, enum method method, const char *source, int64_t low, int64_t high)
{
	figure->method = method;
	figure->source = source;
	figure->low = figure->peak = known(low);
	figure->high = known(high > low ? high : low);
}

void ram_figure_time(struct ram_figure *figure, const struct acc *acc)
{
	figure->mean = mean_of(acc);
	figure->at_ns = acc ? known((int64_t) acc->max_at_ns) : UNKNOWN;
}

void ram_figure_split(struct ram_figure *figure, int64_t private, int64_t whole)
{
	if (whole <= 0 || !figure->peak.known)
		return;
	const double part = (double) figure->peak.value * (double) private / (double) whole;

	figure->private_bytes = maybe_min(known((int64_t) part), figure->peak);
	figure->shared_bytes = known(figure->peak.value - figure->private_bytes.value);
}

/* ---- all, and all but main ------------------------------------------------------------------------------------------ */

/* Faults of reaped children, theirs included, of processes that are in no other process's counters. */
static int64_t faults_waited(const struct job *job)
{
	const struct maybe of_main = job_facts_const(job)->main_zombie_cminflt;
	int64_t faults = of_main.value;

	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		if (!process_is_in_another(p) && !(p->is_main && of_main.known))
			faults += p->faults_waited;
	}
	return faults;
}

/* Without complete exit records, processes may go unsampled. */
static bool is_blind(const struct facts *f)
{
	return f->taskstats.known && (f->taskstats.value == 0 || f->taskstats_lost.value == 1);
}

/* True if there were, or may have been, children that no sample found. Each had faults, which main
 * counts if it reaped them. */
static bool had_unsampled(const struct job *job)
{
	const struct facts *f = job_facts_const(job);

	return faults_waited(job) > 0 || (is_blind(f) && f->main_ignored_sigchld.value == 1);
}

/* Faults of processes that no sample found, as far as their parents reaped them. */
static int64_t faults_unsampled(const struct job *job)
{
	int64_t faults = faults_waited(job) - job_facts_const(job)->dropped_faults.value;

	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		faults -= process_is_in_another(p) ? p->faults_minor : 0;
	}
	return faults;
}

/* True if processes may have gone unsampled. Without exit records, the last faults of a sampled
 * process may hide an unsampled one, so this is true more often than it matters. */
static bool may_lack_some(const struct job *job)
{
	const struct facts *f = job_facts_const(job);

	return is_blind(f) && (f->main_ignored_sigchld.value == 1 || faults_unsampled(job) != 0);
}

/* The most that unsampled processes without exit records may have used alongside the others: one
 * fault-around block for each of their faults. Unknown where the bound would be useless: then the
 * figure is sampled. */
static struct maybe unsampled_most(const struct job *job, int64_t peak)
{
	enum {
		LATE = 512,  /* faults of a sampled process after its last sample */
		PART = 10    /* the bound may be this part of the peak, at most */
	};
	const struct facts *f = job_facts_const(job);
	int64_t faults = faults_unsampled(job), most;

	if (!is_blind(f))
		return known(0);
	faults -= LATE * f->dropped_sampled.value;
	for (size_t i = 0; i < job_process_count(job); i++)
		faults -= !job_process(job, i)->is_main && job_process(job, i)->peak_bytes > 0 ? LATE : 0;
	if (f->main_ignored_sigchld.value == 1 ||
		__builtin_mul_overflow(larger(faults, 0), FAULT_AROUND, &most) || most > peak / PART)
		return UNKNOWN;
	return known(most);
}

static int64_t largest_process(const struct job *job, bool with_main)
{
	int64_t largest = 0;

	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		if (p->peak_bytes > largest && (with_main || !p->is_main))
			largest = p->peak_bytes;
	}
	return largest;
}

static const char *source_of_all(const struct job *job)
{
	const struct facts *f = job_facts_const(job);

	if (f->pss_passes.value > 0)
		return "PSS";
	return f->processes_hidden.value > 0 ? "fork families by name" : "fork families";
}

/* The peak from the estimator; recordings of schema 1 have its largest totals. */
static struct ram_peak {
	struct maybe low, estimate, high;
} peak_of(const struct job *job, bool all)
{
	const struct facts *f = job_facts_const(job);
	const struct acc *low = job_acc(job, all ? M_JOB_RAM_LOW : M_JOB_RAM_DESCENDANTS_LOW, 0);
	const struct acc *value = job_acc(job, all ? M_JOB_RAM : M_JOB_RAM_DESCENDANTS, 0);
	const struct acc *high = job_acc(job, all ? M_JOB_RAM_HIGH : M_JOB_RAM_DESCENDANTS_HIGH, 0);

	if (!value)
		return (struct ram_peak) { UNKNOWN, UNKNOWN, UNKNOWN };
	if (all && f->ram_peak_bytes.known)
		return (struct ram_peak) { f->ram_low_bytes, f->ram_peak_bytes, f->ram_high_bytes };
	if (!all && f->ram_descendants_peak_bytes.known)
		return (struct ram_peak) { f->ram_descendants_low_bytes, f->ram_descendants_peak_bytes,
			f->ram_descendants_high_bytes };
	return (struct ram_peak) { low ? known(low->max) : UNKNOWN, known(value->max),
		high ? known(high->max) : UNKNOWN };
}

static void bounded_figure(const struct job *job, bool all, struct ram_figure *figure)
{
	const struct ram_peak p = peak_of(job, all);
	/* The RSS of a process that maps pages twice exceeds its memory. */
	const bool is_rss_memory = job_facts_const(job)->mapped_twice.value != 1;
	const int64_t least = is_rss_memory ? largest_process(job, all) : 0;
	const struct maybe unseen = unsampled_most(job, larger(p.estimate.value, least));
	int64_t low, peak;

	if (!p.estimate.known)
		return;
	low = larger(p.low.value, least);
	peak = larger(p.estimate.value, low);
	if (p.high.known && unseen.known) {
		ram_figure_set(figure, METHOD_BOUNDED, source_of_all(job), low,
			larger(p.high.value, peak) + unseen.value);
	} else {
		ram_figure_set(figure, METHOD_SAMPLED, "statm", low, low);
		figure->high = UNKNOWN;
	}
	figure->peak = known(peak);
	ram_figure_time(figure, job_acc(job, all ? M_JOB_RAM : M_JOB_RAM_DESCENDANTS, 0));
	/* A process was found, but ended before its memory was read. */
	if (peak == 0)
		*figure = (struct ram_figure) { .low = known(0) };
}

/* Samples of all and of the descendants are separate estimates: the combined peak cannot exceed the
 * sum of the two. */
static void parts_bound(
	const struct ram_figure *main, const struct ram_figure *rest, struct ram_figure *figure)
{
	if (figure->peak.known && main->high.known && rest->peak.known)
		figure->peak = maybe_max(
			figure->low, maybe_min(figure->peak, known(main->high.value + rest->peak.value)));
}

static void combined_figure(const struct job *job, bool one, const struct ram_figure *main,
	const struct ram_figure *rest, struct ram_figure *figure)
{
	const struct facts *f = job_facts_const(job);
	const struct maybe private = f->peak_private_bytes;
	const struct acc *acc = job_acc(job, M_JOB_RAM, 0);
	int64_t whole; /* that private is a part of */

	if (one && main->method != METHOD_UNKNOWN && f->mapped_twice.value != 1) {
		*figure = *main;
		ram_figure_time(figure, acc);
		whole = figure->peak.value;
	} else {
		bounded_figure(job, true, figure);
		if (main->method == METHOD_EXACT && figure->peak.known && f->mapped_twice.value != 1) {
			figure->low = maybe_max(figure->low, main->low);
			figure->peak = maybe_max(figure->peak, main->peak);
			figure->high = figure->high.known ? maybe_max(figure->high, main->high) : UNKNOWN;
		}
		whole = larger(figure->peak.value, acc ? acc->max : 0);
		if (!one)
			parts_bound(main, rest, figure);
	}
	if (private.known && figure->peak.known && (!one || !figure->private_bytes.known))
		ram_figure_split(figure, private.value, whole);
}

static void descendants_figure(const struct job *job, bool none, struct ram_figure *figure)
{
	const struct facts *f = job_facts_const(job);
	const struct acc *low = job_acc(job, M_JOB_RAM_DESCENDANTS_LOW, 0);

	if (none) {
		ram_figure_set(figure, METHOD_EXACT, "procfs", 0, 0);
		figure->mean = figure->at_ns = figure->private_bytes = figure->shared_bytes = known(0);
	} else if (f->processes_seen.known && f->processes_seen.value <= 1) {
		/* All ended before a sample. */
		figure->low = known(low ? low->max : 0);
	} else {
		bounded_figure(job, false, figure);
		if (f->peak_private_descendants_bytes.known && figure->peak.known)
			ram_figure_split(figure, f->peak_private_descendants_bytes.value, figure->peak.value);
	}
}

/* Totals are also made at ends and PSS passes, so the number of samples decides, not that of
 * totals. */
static void forget_mean(const struct facts *f, struct ram_figure *figure)
{
	if (f->samples.known && f->samples.value < MEAN_SAMPLES && figure->peak.value > 0)
		figure->mean = UNKNOWN;
}

/* A merged job: its figures were added up from those of its parts, which have their methods. */
static void merged_figure(const struct job *job, struct ram_figure *figure)
{
	const struct facts *f = job_facts_const(job);
	const struct parts *p = job_parts(job);
	bool has_union = true, exact = true;

	for (size_t i = 0; i < p->n_nodes; i++) {
		has_union = has_union && p->node[i].has_union.value == 1;
		exact = exact && p->node[i].ram_method && strcmp(p->node[i].ram_method, "exact") == 0;
	}
	if (!f->ram_peak_bytes.known)
		return;
	figure->low = f->ram_low_bytes;
	figure->peak = f->ram_peak_bytes;
	figure->high = f->ram_high_bytes;
	figure->method = !f->ram_high_bytes.known                                     ? METHOD_SAMPLED
			 : exact && f->ram_low_bytes.value == f->ram_high_bytes.value ? METHOD_EXACT
										      : METHOD_BOUNDED;
	figure->source = has_union ? "ranks of each node together" : "sums over ranks";
	ram_figure_time(figure, job_acc(job, M_JOB_RAM, 0));
}

void summary_ram(const struct job *job, struct summary *summary)
{
	const struct facts *f = job_facts_const(job);

	if (job_parts(job)) {
		merged_figure(job, &summary->combined);
		return;
	}
	const bool one = f->processes_seen.known && f->processes_seen.value == 1 && !had_unsampled(job);

	summary_main(job, &summary->main);
	descendants_figure(job, one, &summary->descendants);
	combined_figure(job, one, &summary->main, &summary->descendants, &summary->combined);
	if (one && !summary->main.private_bytes.known) {
		summary->main.private_bytes = summary->combined.private_bytes;
		summary->main.shared_bytes = summary->combined.shared_bytes;
	}
	/* The job never used more than main alone: the split at its peak is main's. */
	if (f->peak_private_bytes.known && summary->main.peak.known && summary->combined.peak.known &&
		summary->combined.peak.value <= summary->main.peak.value)
		ram_figure_split(&summary->main, f->peak_private_bytes.value, summary->main.peak.value);
	summary->seen_at_least = may_lack_some(job);
	forget_mean(f, &summary->main);
	forget_mean(f, &summary->descendants);
	forget_mean(f, &summary->combined);
}

struct maybe summary_ram_most(const struct job *job)
{
	struct summary s = { .job = job, .facts = job_facts_const(job) };

	summary_ram(job, &s);
	return s.combined.high;
}
