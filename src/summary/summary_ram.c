/* SPDX-License-Identifier: MIT
 *
 * The figures of RAM, each with how it was obtained (DESIGN 4 has the rules).
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

/* How many huge pages the machine gave out, to whomever. */
static int64_t huge_given(const struct job *job)
{
	const struct acc *thp = job_acc(job, M_HOST_THP_FAULTS, 0);

	if (job_facts_const(job)->huge_page_bytes.value == 0)
		return 0;
	return thp ? thp->max - thp->min : INT64_MAX;
}

/* How much the machine read back from swap, for whomever. */
static int64_t swapped_in(const struct job *job)
{
	const struct acc *swap = job_acc(job, M_HOST_SWAP_IN, 0);

	return swap ? swap->max - swap->min : INT64_MAX;
}

/* The most that a fault brings of memory that is no file's, huge pages apart. */
static int64_t fault_page(const struct facts *f)
{
	return f->fault_page_bytes.known ? f->fault_page_bytes.value : PAGE;
}

/* What so many faults brought at most: page bytes each, and a huge page each as long as there were any. */
static struct maybe brought(const struct job *job, int64_t faults, int64_t page)
{
	const int64_t huge_bytes = job_facts_const(job)->huge_page_bytes.value;
	int64_t small, large, both;

	if (__builtin_mul_overflow(faults, page, &small) || __builtin_mul_overflow(smaller(huge_given(job), faults), huge_bytes, &large) ||
		__builtin_add_overflow(small, large, &both))
		return UNKNOWN;
	return known(both);
}

/* Those that brought what others were seen to grow by: each page one, but a huge page all of its pages; and what came back from swap major
 * faults brought, which are not among them. */
static int64_t faults_grown(const struct job *job)
{
	const struct facts *f = job_facts_const(job);
	const int64_t given = huge_given(job), grown = f->faults_grown.value - swapped_in(job) / fault_page(f);

	if (given >= grown)
		return 0;
	return larger(grown - given * (f->huge_page_bytes.value / fault_page(f)), 0);
}

/* Faults that were waited for and that no look told of. */
static int64_t faults_untold(const struct job *job)
{
	int64_t faults = faults_waited(job);

	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		faults -= process_is_in_another(p) ? p->faults_minor : 0;
	}
	return faults;
}

/* Those of whom no look found, and those after the last look at whom it did. */
static int64_t faults_unseen(const struct job *job)
{
	return larger(faults_untold(job) + job_facts_const(job)->faults_unread.value - faults_grown(job), 0);
}

/* The same, less what counters' age and an end take for each that was seen. Behind thousands that exit records told of that would
 * hide those whose records were lost. */
static int64_t faults_missed(const struct job *job)
{
	enum {
		LATE = 512
	};
	int64_t faults = faults_unseen(job);

	for (size_t i = 0; i < job_process_count(job) && job_facts_const(job)->taskstats_lost.value != 1; i++) {
		const struct process *p = job_process(job, i);

		faults -= !p->is_main && p->peak_bytes > 0 ? LATE : 0;
	}
	return larger(faults, 0);
}

/* Were there, or may there have been, processes that no look found? Whose faults were last read a while before its end may
 * hide one, so this is said sooner than that they matter; and so may some that nobody waited for, whose faults are fewer than none. */
static bool may_lack_some(const struct job *job)
{
	const struct facts *f = job_facts_const(job);

	return is_blind(f) && (f->main_ignored_sigchld.value == 1 || faults_untold(job) != 0);
}

/* Are all whose faults went unseen in main's ru_maxrss? */
static bool is_maxrss_of_all(const struct job *job)
{
	for (size_t i = 0; i < job_process_count(job); i++) {
		if (!job_process(job, i)->is_main && !process_is_in_another(job_process(job, i)))
			return false;
	}
	return job_facts_const(job)->main_maxrss_bytes.known;
}

/* The most of a file that a fault may map. */
static int64_t fault_piece(const struct facts *f)
{
	return larger(fault_page(f), f->file_fault_bytes.known ? f->file_fault_bytes.value : FAULT_AROUND);
}

/* What all of so many faults brought, page bytes each, and of files in larger pieces as much as the largest of those that main waited
 * for may have mapped. Most map the libraries of the others, one after the other, and a piece for each fault of thousands would bound
 * nothing. */
static struct maybe brought_with_files(const struct job *job, int64_t faults, int64_t page)
{
	const struct facts *f = job_facts_const(job);
	const struct maybe most = brought(job, faults, fault_piece(f)), own = brought(job, faults, page);

	if (!f->main_maxrss_bytes.known || !own.known)
		return most;
	return maybe_min(most, known(own.value + f->main_maxrss_bytes.value + f->rss_error_bytes.value));
}

/* What the unseen can have held beside the others. The last faults of who is in no ru_maxrss may have mapped more of files. */
static struct maybe unseen_beside(const struct job *job)
{
	const int64_t faults = faults_unseen(job), page = fault_page(job_facts_const(job));
	const struct maybe with_files = brought_with_files(job, faults, page);

	return is_maxrss_of_all(job) ? with_files : maybe_max(brought(job, faults, larger(page, FAULT_AROUND)), with_files);
}

/* What children can have held, all at once, where no look found any: a piece of a file for each fault. Where a piece is a whole
 * folio, which would bound nothing, one of them had those, and the others the usual ones. Unknown where nobody counted their faults. */
static struct maybe unseen_most(const struct job *job)
{
	const struct facts *f = job_facts_const(job);

	return f->main_ignored_sigchld.value == 1 ? UNKNOWN
						  : brought_with_files(job, faults_waited(job), larger(fault_page(f), FAULT_AROUND));
}

/* May those that no look found have held enough to matter beside the others? */
static bool unseen_matter(const struct job *job, const struct ram_figure *figure)
{
	const struct facts *f = job_facts_const(job);
	const bool none_seen = f->processes_seen.known && f->processes_seen.value <= 1;
	const struct maybe most = none_seen ? unseen_most(job) : brought(job, faults_missed(job), fault_page(f));

	if (f->main_ignored_sigchld.value == 1)
		return true;
	return !most.known || most.value > (none_seen ? 0 : figure->peak.value / 10);
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

/* No instant had more than all of them at their largest. Known where the kernel told of each one at its end. */
static struct maybe all_at_most(const struct job *job, bool with_main)
{
	const struct facts *f = job_facts_const(job);
	int64_t sum = 0;

	if (f->taskstats.value != 1 || is_blind(f) || f->processes_seen.value != (int64_t) job_process_count(job) || faults_missed(job) > 0)
		return UNKNOWN;
	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		if (p->is_main && !with_main)
			continue;
		if (!p->peak_exact || __builtin_add_overflow(sum, p->peak_bytes, &sum))
			return UNKNOWN;
	}
	return known(sum);
}

struct ram_accs {
	const struct acc *low, *value, *high;
	int64_t least;         /* no figure is below it */
	struct maybe most;     /* neither the low bound nor the best estimate is above it */
};

/* Where they matter the figure is what looks found, and no more; else they may have held that beside it. */
static void unseen_take(const struct job *job, struct ram_figure *figure)
{
	const struct facts *f = job_facts_const(job);
	const struct maybe more = unseen_beside(job);

	if (!figure->high.known || !is_blind(f))
		return;
	if (!unseen_matter(job, figure) && more.known && more.value < INT64_MAX - figure->high.value) {
		figure->high.value += more.value;
		return;
	}
	/* One that was found, and gone before its memory was read. */
	if (figure->peak.value == 0) {
		*figure = (struct ram_figure) { .low = known(0) };
		return;
	}
	figure->method = METHOD_SAMPLED;
	figure->source = "statm";
	figure->high = UNKNOWN;
}

/* Main's ru_maxrss is main's, or of one that it waited for. A larger one, for whom it did not wait, has that told by nothing else. */
static bool is_maxrss_apart(const struct job *job)
{
	const int64_t value = job_facts_const(job)->main_maxrss_bytes.value;
	bool apart = false;

	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		if (process_is_in_another(p) && p->peak_bytes >= value - value / 64) /* marks are not that exact */
			return false;
		apart |= !p->is_main && p->peak_bytes >= value;
	}
	return apart;
}

/* What main can have been above what looks saw, it may have been beside the others. */
static void main_take(const struct job *job, const struct ram_figure *main, struct ram_figure *figure)
{
	if (main->method == METHOD_BOUNDED && figure->high.known && is_maxrss_apart(job))
		figure->high.value += main->high.value - main->low.value;
}

/* What they may have been that their marks would have told. */
static void unmarked_take(struct maybe more, struct ram_figure *figure)
{
	if (figure->high.known)
		figure->high = maybe_max(figure->high, more);
}

static int64_t at_most(struct maybe most, int64_t value)
{
	return most.known && most.value < value ? most.value : value;
}

static const char *source_of_all(const struct job *job)
{
	const struct facts *f = job_facts_const(job);

	if (f->pss_passes.value > 0)
		return "PSS";
	return f->processes_hidden.value > 0 ? "fork families by name" : "fork families";
}

static void bounded_figure(const struct job *job, const struct ram_accs *a, struct ram_figure *figure)
{
	int64_t low, high, peak;

	if (!a->low || !a->value || !a->high)
		return;
	low = a->low->max > a->least ? a->low->max : a->least;
	peak = a->value->max > low ? a->value->max : low;
	high = a->high->max > peak ? a->high->max : peak;
	/* Looks are not of one instant: what one held early and another late adds up to more than there was. The high bound
	 * stays: what a program held before its exec is in nobody's mark. */
	low = at_most(a->most, low);
	peak = at_most(a->most, peak);
	ram_figure_set(figure, METHOD_BOUNDED, source_of_all(job), low, high);
	figure->peak = known(peak);
	ram_figure_time(figure, a->value);
}

/* Looks at all and at all but main are estimates of their own: together they never had more than each at its largest. */
static void parts_bound(const struct ram_figure *main, const struct ram_figure *rest, struct ram_figure *figure)
{
	if (figure->peak.known && main->high.known && rest->peak.known)
		figure->peak = maybe_max(figure->low, maybe_min(figure->peak, known(main->high.value + rest->peak.value)));
}

static void combined_figure(const struct job *job, bool one, const struct ram_figure *main, const struct ram_figure *rest, struct ram_figure *figure)
{
	const struct maybe private = job_facts_const(job)->peak_private_bytes;
	int64_t whole; /* which that is of */
	const struct ram_accs accs = {
		.low = job_acc(job, M_JOB_RAM_LOW, 0),
		.value = job_acc(job, M_JOB_RAM, 0),
		.high = job_acc(job, M_JOB_RAM_HIGH, 0),
		.least = largest_process(job, true),
		.most = all_at_most(job, true),
	};

	if (one && main->method != METHOD_UNKNOWN) {
		*figure = *main;
		ram_figure_time(figure, accs.value);
		whole = figure->peak.value;
	} else {
		bounded_figure(job, &accs, figure);
		if (main->method == METHOD_EXACT && figure->peak.known) {
			figure->low = maybe_max(figure->low, main->low);
			figure->peak = maybe_max(figure->peak, main->peak);
			figure->high = maybe_max(figure->high, main->high);
		}
		main_take(job, main, figure);
		unmarked_take(job_facts_const(job)->unmarked_bytes, figure);
		unseen_take(job, figure);
		whole = larger(figure->peak.value, accs.value ? accs.value->max : 0);
		parts_bound(main, rest, figure);
	}
	if (private.known && figure->peak.known && (!one || !figure->private_bytes.known))
		ram_figure_split(figure, private.value, whole);
}

static void descendants_figure(const struct job *job, bool none, struct ram_figure *figure)
{
	const struct facts *f = job_facts_const(job);
	const struct ram_accs accs = {
		.low = job_acc(job, M_JOB_RAM_REST_LOW, 0),
		.value = job_acc(job, M_JOB_RAM_REST, 0),
		.high = job_acc(job, M_JOB_RAM_REST_HIGH, 0),
		.least = largest_process(job, false),
		.most = all_at_most(job, false),
	};

	if (none) {
		ram_figure_set(figure, METHOD_EXACT, "procfs", 0, 0);
		figure->mean = figure->at_ns = figure->private_bytes = figure->shared_bytes = known(0);
	} else if (f->processes_seen.known && f->processes_seen.value <= 1) {
		/* All were too short for a look. */
		figure->low = known(accs.low ? accs.low->max : 0);
		figure->high = is_blind(f) ? unseen_most(job) : f->main_maxrss_bytes;
		/* Their faults brought more than is known of: huge pages that nobody counted. */
		if (figure->high.known && figure->high.value < figure->low.value)
			figure->high = UNKNOWN;
	} else {
		bounded_figure(job, &accs, figure);
		unmarked_take(f->unmarked_rest_bytes, figure);
		unseen_take(job, figure);
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
