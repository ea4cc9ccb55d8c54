/* SPDX-License-Identifier: MIT
 *
 * Budgeted PSS passes: smaps_rollup walks every page of a process under its memory lock, about 10
 * ms per GiB, so a pass is made only if it can change the result, and only from a credit.
 */
#include "sample/sampler_internal.h"

static const int64_t budget_max_ns = 100000000; /* the largest credit */
static const uint64_t share = 100;               /* one hundredth of a core */
static const uint64_t walk_ns_per_gib = 13000000;/* upper end of the measured cost (docs/memory.md) */
/* a pass is valid if at most 1/32 of the memory changed meanwhile */
static const uint64_t drift_share = 32;
static const uint64_t lock_most_ns = 20000000;   /* longest time that one process may be blocked */

static void earn(struct pss_budget *budget, uint64_t now)
{
	budget->budget_ns += (int64_t) ((now - budget->paid_until_ns) / share);
	budget->paid_until_ns = now;
	if (budget->budget_ns > budget_max_ns)
		budget->budget_ns = budget_max_ns;
}

/* Sizes of the living members, from their last sample. */
struct sizes {
	uint64_t sum_bytes, largest_bytes;
};

static struct sizes sizes_of(const struct job *job)
{
	struct sizes sizes = { 0 };

	for (size_t i = 0; i < job_process_count(job); i++) {
		const int64_t rss = job_process(job, i)->rss_bytes;

		if (rss <= 0)
			continue;
		sizes.sum_bytes += (uint64_t) rss;
		if ((uint64_t) rss > sizes.largest_bytes)
			sizes.largest_bytes = (uint64_t) rss;
	}
	return sizes;
}

/* Expected cost of a pass over the members, in ns. */
static uint64_t expected_cost(const struct sampler *s, const struct sizes *sizes)
{
	return (uint64_t) ((double) sizes->sum_bytes / (1 << 30) * (double) walk_ns_per_gib) +
	       20000 * (uint64_t) processes_count(s->processes);
}

static void count(struct maybe *counter)
{
	*counter = known(counter->value + 1);
}

/* Reads which files are mapped: short texts, without a page walk. It has its own budget: without
 * it, memory shared by several processes counts in each of them. */
static void read_files(struct sampler *s, uint64_t now_ns)
{
	enum {
		FILES_SHARE = 50 /* a fiftieth of a core */
	};
	struct files_read files = { 0 };
	const int r = processes_files(s->processes, &files);

	if (r == 0)
		job_files_done(s->job, files.most_bytes, files.estimate_bytes);
	for (size_t i = job_process_count(s->job); r >= 0 && i-- > 0;) {
		const struct process *p = job_process(s->job, i);

		if (!p->ended)
			job_mapped_twice(s->job, p->id, processes_mapped_twice(s->processes, p->id));
	}
	s->pss.next_files_ns = now_ns + FILES_SHARE * files.cost_ns;
}

static void apply_pass(struct sampler *s)
{
	for (size_t i = 0; i < s->buf.n_readings; i++) {
		const struct reading *r = &s->buf.readings[i];
		const struct maybe anon = processes_pss_anon(s->processes, r->id);

		if (r->metric != M_PROC_PSS || !r->known)
			continue;
		/* private follows pss */
		job_pss(s->job, r->id, r->value, anon.known ? anon.value : -1,
			i + 1 < s->buf.n_readings ? s->buf.readings[i + 1].value : 0);
	}
}

static void pass(struct sampler *s, uint64_t now_ns, uint64_t most, const struct sizes *sizes)
{
	struct facts *facts = job_facts(s->job);
	struct pss_pass made = { .valid = false };

	/* without the largest process a pass is useless, so block none */
	if (most && sizes->largest_bytes > most) {
		count(&facts->pss_skipped);
	} else {
		(void) processes_pss(s->processes, most, &made, &s->buf);
		made.valid = made.valid && made.moved_bytes * drift_share <= sizes->sum_bytes;
		count(made.valid ? &facts->pss_passes : &facts->pss_invalid);
	}
	s->pss.budget_ns -= (int64_t) made.cost_ns;
	apply_pass(s);
	sampler_show(s, &s->buf, FRAME_PROCFS, now_ns, 3 * s->options.window_ns);
	job_pss_done(s->job,
		(struct pss_drift) {
			.moved = (int64_t) made.moved_bytes,
			.grown = made.grown_bytes,
			.grown_main = made.grown_main_bytes,
		},
		made.valid);
}

void sampler_pss(struct sampler *s, uint64_t now_ns)
{
	const uint64_t most = s->options.big_pss ? 0 : lock_most_ns * (1 << 30) / walk_ns_per_gib;
	const unsigned needs = job_needs(s->job);

	earn(&s->pss, now_ns);
	if ((needs & NEED_FILES) && now_ns >= s->pss.next_files_ns)
		read_files(s, now_ns);
	if (!(needs & NEED_PSS) || s->pss.budget_ns <= 0)
		return;
	const struct sizes sizes = sizes_of(s->job);
	const bool affordable = s->options.big_pss || (int64_t) expected_cost(s, &sizes) <= s->pss.budget_ns;

	if (affordable)
		pass(s, now_ns, most, &sizes);
}
