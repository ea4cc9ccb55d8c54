/* SPDX-License-Identifier: MIT
 *
 * The figures of RAM, each with how it was obtained (docs/memory.md has the rules).
 */
#include "summary/summary_internal.h"

/* A sum of 0 beside a peak means that no look found what was there. */
static struct maybe mean_of(const struct acc *acc)
{
	if (!acc || acc->n < MEAN_LOOKS || acc->span_ns == 0 || (acc->sum <= 0 && acc->max > 0))
		return UNKNOWN;
	return known((int64_t) (acc->sum / (double) acc->span_ns));
}

void ram_figure_set(struct ram_figure *figure, enum method method, const char *source, int64_t low, int64_t high)
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

/* Faults of the children that those waited for who are in nobody's counters themselves, and of theirs. */
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

/* Where exit records tell of everybody, nobody is missed. */
static bool is_blind(const struct facts *f)
{
	return f->taskstats.known && (f->taskstats.value == 0 || f->taskstats_lost.value == 1);
}

/* Were there children that no look found, or may there have been? Each of them had faults, and main, if it waited for
 * them, counts those. */
static bool had_unseen(const struct job *job)
{
	const struct facts *f = job_facts_const(job);

	return faults_waited(job) > 0 || (is_blind(f) && f->main_ignored_sigchld.value == 1);
}

/* Faults of processes that no sample found, as far as their parents waited for them. */
static int64_t faults_unseen(const struct job *job)
{
	int64_t faults = faults_waited(job) - job_facts_const(job)->dropped_faults.value;

	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		faults -= process_is_in_another(p) ? p->faults_minor : 0;
	}
	return faults;
}

/* Were there, or may there have been, processes that no sample found? Without exit records the last faults of one that was found may hide
 * one that was not, so this is said sooner than that they matter. */
static bool may_lack_some(const struct job *job)
{
	const struct facts *f = job_facts_const(job);

	return is_blind(f) && (f->main_ignored_sigchld.value == 1 || faults_unseen(job) != 0);
}

/* What processes that no sample found, and no exit record tells of, may have used beside the others: a piece of a file for each of their
 * faults. Unknown where that would say nothing: then the figure is what samples found, and no more. */
static struct maybe unseen_most(const struct job *job, int64_t peak)
{
	enum {
		LATE = 512,  /* faults of the end of a process that was found */
		PART = 10    /* of the peak, at most */
	};
	const struct facts *f = job_facts_const(job);
	int64_t faults = faults_unseen(job), most;

	if (!is_blind(f))
		return known(0);
	faults -= LATE * f->dropped_sampled.value;
	for (size_t i = 0; i < job_process_count(job); i++)
		faults -= !job_process(job, i)->is_main && job_process(job, i)->peak_bytes > 0 ? LATE : 0;
	if (f->main_ignored_sigchld.value == 1 || __builtin_mul_overflow(larger(faults, 0), FAULT_AROUND, &most) || most > peak / PART)
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

/* The peak as the estimator has it; recordings of schema 1 have its largest totals. */
static struct ram_peak {
	struct maybe low, estimate, high;
} peak_of(const struct job *job, bool all)
{
	const struct facts *f = job_facts_const(job);
	const struct acc *low = job_acc(job, all ? M_JOB_RAM_LOW : M_JOB_RAM_REST_LOW, 0);
	const struct acc *value = job_acc(job, all ? M_JOB_RAM : M_JOB_RAM_REST, 0);
	const struct acc *high = job_acc(job, all ? M_JOB_RAM_HIGH : M_JOB_RAM_REST_HIGH, 0);

	if (!value)
		return (struct ram_peak) { UNKNOWN, UNKNOWN, UNKNOWN };
	if (all && f->ram_peak_bytes.known)
		return (struct ram_peak) { f->ram_low_bytes, f->ram_peak_bytes, f->ram_high_bytes };
	if (!all && f->ram_descendants_peak_bytes.known)
		return (struct ram_peak) { f->ram_descendants_low_bytes, f->ram_descendants_peak_bytes, f->ram_descendants_high_bytes };
	return (struct ram_peak) { low ? known(low->max) : UNKNOWN, known(value->max), high ? known(high->max) : UNKNOWN };
}

static void bounded_figure(const struct job *job, bool all, struct ram_figure *figure)
{
	const struct ram_peak p = peak_of(job, all);
	/* Pages that a process maps twice make its RSS no measure of its memory. */
	const bool is_rss_memory = job_facts_const(job)->mapped_twice.value != 1;
	const int64_t least = is_rss_memory ? largest_process(job, all) : 0;
	const struct maybe unseen = unseen_most(job, larger(p.estimate.value, least));
	int64_t low, peak;

	if (!p.estimate.known)
		return;
	low = larger(p.low.value, least);
	peak = larger(p.estimate.value, low);
	if (p.high.known && unseen.known) {
		ram_figure_set(figure, METHOD_BOUNDED, source_of_all(job), low, larger(p.high.value, peak) + unseen.value);
	} else {
		ram_figure_set(figure, METHOD_SAMPLED, "statm", low, low);
		figure->high = UNKNOWN;
	}
	figure->peak = known(peak);
	ram_figure_time(figure, job_acc(job, all ? M_JOB_RAM : M_JOB_RAM_REST, 0));
	/* One that was found, and gone before its memory was read. */
	if (peak == 0)
		*figure = (struct ram_figure) { .low = known(0) };
}

/* Samples of all and of all but main are estimates of their own: together they never had more than each at its largest. */
static void parts_bound(const struct ram_figure *main, const struct ram_figure *rest, struct ram_figure *figure)
{
	if (figure->peak.known && main->high.known && rest->peak.known)
		figure->peak = maybe_max(figure->low, maybe_min(figure->peak, known(main->high.value + rest->peak.value)));
}

static void combined_figure(const struct job *job, bool one, const struct ram_figure *main, const struct ram_figure *rest, struct ram_figure *figure)
{
	const struct facts *f = job_facts_const(job);
	const struct maybe private = f->peak_private_bytes;
	const struct acc *acc = job_acc(job, M_JOB_RAM, 0);
	int64_t whole; /* which that is of */

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
	const struct acc *low = job_acc(job, M_JOB_RAM_REST_LOW, 0);

	if (none) {
		ram_figure_set(figure, METHOD_EXACT, "procfs", 0, 0);
		figure->mean = figure->at_ns = figure->private_bytes = figure->shared_bytes = known(0);
	} else if (f->processes_seen.known && f->processes_seen.value <= 1) {
		/* All were too short for a sample. */
		figure->low = known(low ? low->max : 0);
	} else {
		bounded_figure(job, false, figure);
		if (f->peak_private_rest_bytes.known && figure->peak.known)
			ram_figure_split(figure, f->peak_private_rest_bytes.value, figure->peak.value);
	}
}

/* A total is made at ends and passes too, so ticks tell how often was looked. */
static void forget_mean(const struct facts *f, struct ram_figure *figure)
{
	if (f->ticks.known && f->ticks.value < MEAN_LOOKS && figure->peak.value > 0)
		figure->mean = UNKNOWN;
}

void summary_ram(const struct job *job, struct summary *summary)
{
	const struct facts *f = job_facts_const(job);
	const bool one = f->processes_seen.known && f->processes_seen.value == 1 && !had_unseen(job);

	summary_main(job, &summary->main);
	descendants_figure(job, one, &summary->descendants);
	combined_figure(job, one, &summary->main, &summary->descendants, &summary->combined);
	if (one && !summary->main.private_bytes.known) {
		summary->main.private_bytes = summary->combined.private_bytes;
		summary->main.shared_bytes = summary->combined.shared_bytes;
	}
	/* The job never held more than main alone did: the split at its peak is main's, whoever shared with it before. */
	if (f->peak_private_bytes.known && summary->main.peak.known && summary->combined.peak.known &&
		summary->combined.peak.value <= summary->main.peak.value)
		ram_figure_split(&summary->main, f->peak_private_bytes.value, summary->main.peak.value);
	summary->seen_at_least = may_lack_some(job);
	forget_mean(f, &summary->main);
	forget_mean(f, &summary->descendants);
	forget_mean(f, &summary->combined);
}
