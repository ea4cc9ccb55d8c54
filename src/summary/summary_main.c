/* SPDX-License-Identifier: MIT
 *
 * The RAM figure of the main process and the method by which it was obtained (docs/memory.md has
 * the rules).
 */
#include "summary/summary_internal.h"

/* What each source says of main's peak. */
struct main_facts {
	struct maybe seen;     /* the largest sampled rss or valid high-water mark */
	struct maybe exit_hwm; /* the kernel's exit record */
	struct maybe maxrss;
	bool has_hwm;          /* its VmHWM was read, and is of this run */
	bool exit_counts;      /* so is that of the exit record */
	bool maxrss_is_main;   /* maxrss can only be main's own */
	bool still_running;    /* it was sampled when the run ended */
	bool complete;
};

static bool has_risen(const struct facts *f, struct maybe mark)
{
	return mark.known &&
	       (f->main_hwm_reset.value == 1 ||
		       (f->main_hwm_at_start_bytes.known && mark.value > f->main_hwm_at_start_bytes.value));
}

/* ru_maxrss includes hiwater's own image between fork and exec. */
static bool is_maxrss_of_job(const struct facts *f)
{
	return f->main_maxrss_bytes.known && f->fork_rss_bytes.known &&
	       f->main_maxrss_bytes.value > image_before_exec(f);
}

static bool is_maxrss_main(const struct facts *f)
{
	return is_maxrss_of_job(f) && f->main_zombie_cminflt.known && f->main_zombie_cminflt.value == 0;
}

static struct main_facts main_facts(const struct job *job)
{
	const struct facts *f = job_facts_const(job);
	const struct process *main = job_main(job);
	const struct acc *acc = job_acc(job, M_JOB_RAM_MAIN, 0);
	struct main_facts m = {
		.exit_hwm = f->main_exit_hwm_bytes,
		.maxrss = f->main_maxrss_bytes,
		.has_hwm = has_risen(f, f->main_hwm_bytes),
		.exit_counts = has_risen(f, f->main_exit_hwm_bytes),
		.maxrss_is_main = is_maxrss_main(f),
		.complete = f->ended_ns.known,
		.still_running = main && main->ended && main->how == END_LEFT,
	};

	if (acc)
		m.seen = known(acc->max);
	if (main && main->peak_bytes > 0)
		m.seen = maybe_max(m.seen, known(main->peak_bytes));
	if (m.has_hwm)
		m.seen = maybe_max(m.seen, f->main_hwm_bytes);
	return m;
}

static bool main_is_exact(const struct main_facts *m, struct ram_figure *figure)
{
	struct maybe peak = m->seen;
	const char *source = NULL;

	if (m->exit_counts) {
		peak = maybe_max(peak, m->exit_hwm);
		source = "taskstats";
	}
	if (m->maxrss_is_main && (!source || !peak.known || m->maxrss.value > peak.value)) {
		peak = maybe_max(peak, m->maxrss);
		source = "ru_maxrss";
	}
	/* ru_maxrss allows nothing above the samples. */
	if (!source && m->maxrss.known && m->seen.known && m->maxrss.value <= m->seen.value)
		source = m->has_hwm ? "VmHWM" : "ru_maxrss";
	/* Its high-water mark was read when the run ended. */
	if (!source && m->complete && m->still_running && m->has_hwm)
		source = "VmHWM";
	if (!source || !peak.known)
		return false;
	ram_figure_set(figure, METHOD_EXACT, source, peak.value, peak.value);
	return true;
}

/* The estimate for a run too short for samples, the only one of which may have been before the
 * exec. The larger ru_maxrss probably belongs to main or to its reaped children, whichever had more
 * faults; each of main's own mapped at least a page. */
static void estimate_main(const struct facts *f, const struct main_facts *m, struct ram_figure *figure)
{
	const bool was_sampled = m->has_hwm || !f->samples.known || f->samples.value >= MEAN_SAMPLES;
	const bool is_larger = is_maxrss_of_job(f) && f->main_faults.value >= f->main_zombie_cminflt.value;
	int64_t most = figure->high.value, brought;

	if (was_sampled || !f->main_faults.known || !f->main_zombie_cminflt.known)
		return;
	if (!is_larger && !__builtin_mul_overflow(f->main_faults.value, PAGE, &brought))
		most = smaller(most, brought);
	if (most <= figure->peak.value)
		return;
	figure->peak = known(most);
	figure->source = is_larger ? "ru_maxrss" : "faults";
}

void summary_main(const struct job *job, struct ram_figure *figure)
{
	const struct facts *f = job_facts_const(job);
	const struct main_facts m = main_facts(job);
	const struct process *main = job_main(job);
	const char *source = m.has_hwm ? "VmHWM" : "statm";
	/* A high-water mark from before the run that did not rise: the run never exceeded it. */
	const struct maybe mark = maybe_max(f->main_hwm_bytes, m.exit_hwm);
	const bool is_under_mark = !m.has_hwm && mark.known && (m.still_running || m.exit_hwm.known);

	if (main_is_exact(&m, figure)) {
	} else if (m.maxrss.known) {
		ram_figure_set(figure, METHOD_BOUNDED, m.seen.known ? source : "ru_maxrss",
			m.seen.known ? m.seen.value : 0, maybe_min(m.maxrss, f->main_high_bytes).value);
		if (!m.seen.known) /* without readable processes, ru_maxrss may be a child's */
			figure->peak = f->processes_why && *f->processes_why ? UNKNOWN : m.maxrss;
		estimate_main(f, &m, figure);
	} else if (is_under_mark && m.seen.known) {
		ram_figure_set(figure, METHOD_BOUNDED, source, m.seen.value, mark.value);
	} else if (m.seen.known) {
		ram_figure_set(figure, METHOD_SAMPLED, source, m.seen.value, m.seen.value);
		figure->high = UNKNOWN;
	}
	ram_figure_time(figure, job_acc(job, M_JOB_RAM_MAIN, 0));
	if (m.seen.known && figure->method == METHOD_BOUNDED && figure->peak.value > m.seen.value)
		figure->at_ns = UNKNOWN;

	/* A lone main process is the job, which is split at its peak. */
	if (f->processes_seen.known && f->processes_seen.value == 1 && f->peak_private_bytes.known)
		ram_figure_split(figure, f->peak_private_bytes.value, figure->peak.value);
	else if (main && main->split_known &&
		 main->private_bytes + main->shared_bytes >= figure->peak.value / 4 * 3)
		ram_figure_split(figure, main->private_bytes, main->private_bytes + main->shared_bytes);
}
