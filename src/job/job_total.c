/* SPDX-License-Identifier: MIT
 *
 * The job's totals, the values that they need, and the end of the run.
 */
#include "job/job_internal.h"

#define MIB INT64_C(1048576)

static const enum metric tree_metrics[TREES] = {
	[TREE_USER] = M_JOB_CPU_USER,
	[TREE_SYSTEM] = M_JOB_CPU_SYSTEM,
	[TREE_FAULTS] = M_JOB_FAULTS_MINOR,
};

static const enum metric plain_metrics[PLAINS] = {
	[PLAIN_FAULTS_MAJOR] = M_JOB_FAULTS_MAJOR,
	[PLAIN_READ_BYTES] = M_JOB_READ_BYTES,
	[PLAIN_WRITE_BYTES] = M_JOB_WRITE_BYTES,
	[PLAIN_WRITE_CANCELLED] = M_JOB_WRITE_CANCELLED,
	[PLAIN_READ_CHARS] = M_JOB_READ_CHARS,
	[PLAIN_WRITE_CHARS] = M_JOB_WRITE_CHARS,
	[PLAIN_SWITCHES] = M_JOB_SWITCHES,
	[PLAIN_PREEMPTIONS] = M_JOB_PREEMPTIONS,
};

static const enum metric level_metrics[LEVELS] = {
	[LEVEL_THREADS] = M_JOB_THREADS,
	[LEVEL_SWAP] = M_JOB_SWAP,
	[LEVEL_HUGETLB] = M_JOB_HUGETLB,
};

static const struct {
	enum metric low, value, high;
} ram_metrics[MEMORY_SETS] = {
	[MEMORY_ALL] = { M_JOB_RAM_LOW, M_JOB_RAM, M_JOB_RAM_HIGH },
	[MEMORY_DESCENDANTS] = { M_JOB_RAM_DESCENDANTS_LOW, M_JOB_RAM_DESCENDANTS,
		M_JOB_RAM_DESCENDANTS_HIGH },
};

bool job_has_faults(const struct job *job)
{
	return job->n_faults_read >= job->n_live;
}

void job_files_done(struct job *job, uint64_t most, uint64_t likely)
{
	memory_files(job->memory, (int64_t) most, (int64_t) likely);
}

void job_machine(struct job *job, int64_t bytes)
{
	memory_machine(job->memory, bytes);
}

void job_mapped_twice(struct job *job, uint32_t id, uint64_t bytes)
{
	memory_mapped_twice(job->memory, id, (int64_t) bytes);
}

void job_pss(struct job *job, uint32_t id, int64_t pss, int64_t anon, int64_t private)
{
	memory_pss(job->memory, &(struct memory_pss) { id, pss, anon, private });
}

void job_pss_done(struct job *job, struct pss_drift drift, bool valid)
{
	const int64_t grown[MEMORY_SETS] = { drift.grown, drift.grown - drift.grown_main };
	struct split_pass *pass = &job->pass;
	const bool has_main = job->main && job->main->live != NOT_ALIVE;

	memory_pass(job->memory, valid, drift.moved, grown);
	needs_pass_ended(job, valid);
	if (valid) {
		const int64_t of_main = pass->main_private == INT64_MAX ? 0 : pass->main_private;

		pass->valid = true;
		pass->lone[MEMORY_ALL] = job->n_live == 1;
		pass->lone[MEMORY_DESCENDANTS] = job->n_live == 1 + (size_t) has_main;
		pass->whole[MEMORY_ALL] = pass->adding[MEMORY_ALL];
		pass->whole[MEMORY_DESCENDANTS] = larger(
			pass->adding[MEMORY_DESCENDANTS], pass->adding[MEMORY_ALL] - pass->main_private);
		pass->private_part[MEMORY_ALL] = pass->adding_private;
		pass->private_part[MEMORY_DESCENDANTS] = larger(pass->adding_private - of_main, 0);
		pass->at_ns = job->now_ns;
	}
	pass->adding[MEMORY_ALL] = pass->adding[MEMORY_DESCENDANTS] = pass->adding_private = 0;
	pass->main_private = INT64_MAX;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void append(struct framebuf *out, enum metric metric, int64_t value, int64_t max)
{
	struct reading r = reading_of(metric, 0, value);

	if (max > value)
		r.max = max;
	framebuf_reading(out, r);
}

static void append_ram(const struct memory_total *t, struct framebuf *out)
{
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		append(out, ram_metrics[s].value, t->estimate[s], t->estimate_max[s]);
		append(out, ram_metrics[s].low, t->low[s], t->low_max[s]);
		append(out, ram_metrics[s].high, t->high[s], t->high[s]);
	}
}

/* amount x part / whole, without overflow. */
static int64_t share(int64_t amount, int64_t part, int64_t whole)
{
	const double result = whole > 0 ? (double) amount * (double) part / (double) whole : 0;

	return result >= (double) amount ? amount : (int64_t) result;
}

static size_t alive_in(const struct job *job, enum memory_set s)
{
	return job->n_live - (s == MEMORY_DESCENDANTS && job->main && job->main->live != NOT_ALIVE);
}

/* A single process with few files shares only those; otherwise the split is that of the last
 * pass. */
static void split_set(
	const struct job *job, const struct memory_total *t, enum memory_set s, struct split *ret)
{
	const struct split_pass *pass = &job->pass;
	const struct live *lone = s == MEMORY_ALL && job->n_live == 1 ? &job->live[0] : NULL;

	ret->lone = lone != NULL || pass->lone[s];
	ret->at_ns = pass->at_ns;
	ret->part = lone ? lone->m->p.private_bytes : pass->private_part[s];
	ret->whole = lone && lone->m->p.split_known ? lone->m->p.private_bytes + lone->m->p.shared_bytes : 0;
	if (!lone)
		ret->whole = pass->valid ? pass->whole[s] : 0;
	else if (t->rss_sum - t->anon_sum <= 16 * MIB) {
		ret->part = t->anon_sum;
		ret->whole = t->rss_sum;
		ret->at_ns = job->now_ns;
	}
}

/* After all processes have ended, the split is that of their last sample; later growth is
 * reported with their ends. */
static const struct split *split_of(struct job *job, const struct memory_total *t, enum memory_set s)
{
	const size_t n = alive_in(job, s);
	struct split *split = &job->split[s];

	if (n == 0 && split->seen == job->seen)
		return split;
	*split = (struct split) { .used = t->estimate[s], .alone = n == 1, .seen = job->seen };
	split_set(job, t, s, split);
	return split;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The peak is split by the pass nearest to it, before or after. The split is unknown for a burst
 * between two samples, for memory of which a quarter was allocated since the pass, and for
 * several processes if the pass had one. */
static void split_peak(
	struct job *job, const struct memory_total *t, enum memory_set s, const struct split *split)
{
	const struct acc *top = &job->accs[ram_metrics[s].value];
	const bool is_new = top->n == 0 || t->estimate_max[s] > top->max;
	const int64_t peak = is_new ? t->estimate_max[s] : top->max;
	struct maybe *private = s == MEMORY_ALL ? &job->facts.peak_private_bytes
						: &job->facts.peak_private_descendants_bytes;

	if (is_new) {
		*private = UNKNOWN;
		job->peak_lone[s] = split->alone;
	}
	if (split->lone != job->peak_lone[s])
		return;
	if (split->used < peak / 10 * 9 || split->whole < split->used / 4 * 3 || split->whole <= 0)
		return;
	if (!is_new &&
		(split->at_ns != job->now_ns ||
			(private->known &&
				apart(job->now_ns, top->max_at_ns) >=
					apart(top->max_at_ns, job->split_ns[s]))))
		return;
	*private = known(share(peak, split->part, split->whole));
	job->split_ns[s] = split->at_ns;
}

static void append_private(struct job *job, const struct memory_total *t, struct framebuf *out)
{
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		const struct split *split = split_of(job, t, s);
		const int64_t private = share(t->estimate[s], split->part, split->whole);
		const int64_t most = share(t->estimate_max[s], split->part, split->whole);

		split_peak(job, t, s, split);
		if (s != MEMORY_ALL || split->whole <= 0)
			continue;
		append(out, M_JOB_PRIVATE, private, most);
		append(out, M_JOB_SHARED, t->estimate[s] - private, t->estimate_max[s] - most);
	}
}

static void append_memory(struct job *job, const struct memory_total *t, struct framebuf *out)
{
	const struct live *main = job->main && job->main->live != NOT_ALIVE ? &job->live[job->main->live]
									    : NULL;

	append_ram(t, out);
	if (main && main->rss_known) {
		append(out, M_JOB_RAM_MAIN, main->rss, job->main_burst);
		job->main_burst = 0;
	}
	framebuf_value(out, M_JOB_RSS_SUM, 0, t->rss_sum);
	framebuf_value(out, M_JOB_ANON, 0, t->anon_sum);
	append_private(job, t, out);
}

static void append_counter(struct framebuf *out, enum metric metric, int64_t value, int64_t *reported)
{
	/* A correction of earlier values must not decrease a counter. */
	if (value > *reported)
		*reported = value;
	framebuf_value(out, metric, 0, *reported);
}

static void append_counters(struct job *job, struct framebuf *out)
{
	int64_t tree[TREES], plain[PLAINS];

	if (!job->counters_read)
		return;
	job->counters_read = false;
	for (enum tree k = 0; k < TREES; k++)
		tree[k] = job->ended_total[k];
	for (enum plain k = 0; k < PLAINS; k++)
		plain[k] = job->ended_plain[k];
	for (size_t i = 0; i < job->n_live; i++) {
		struct member *m = job->live[i].m;

		io_settle(m);
		for (enum tree k = 0; k < TREES; k++)
			tree[k] += tree_value(&m->tree[k]);
		for (enum plain k = 0; k < PLAINS; k++) {
			plain[k] += plain_value(m, k);
			job->plain_known[k] |= m->plain[k].known;
		}
		job->tree_known |= m->tree[TREE_USER].own.known;
	}
	for (enum tree k = 0; k < TREES && job->tree_known; k++)
		append_counter(out, tree_metrics[k], tree[k], &job->reported[k]);
	for (enum plain k = 0; k < PLAINS; k++) {
		if (job->plain_known[k])
			append_counter(out, plain_metrics[k], plain[k], &job->reported_plain[k]);
	}
}

/* Faults of all members, living and ended, each counted once: some are in the counters of a
 * waiting parent, others are lost in the kernel. Unknown if those of a living member were not
 * read in this sample. */
static struct maybe faults_of_all(const struct job *job)
{
	int64_t faults = job->ended_total[TREE_FAULTS] + job->ended_plain[PLAIN_FAULTS_MAJOR];

	if (job->n_faults_read < job->n_live)
		return UNKNOWN;
	for (size_t i = 0; i < job->n_live; i++) {
		const struct member *m = job->live[i].m;

		faults += tree_value(&m->tree[TREE_FAULTS]) + plain_value(m, PLAIN_FAULTS_MAJOR);
	}
	return known(faults);
}

/* Sets the peaks so far as facts: a later PSS pass may lower an earlier total. */
static void set_peak_facts(struct job *job)
{
	struct facts *f = &job->facts;
	struct memory_peak all, rest;

	memory_peak(job->memory, MEMORY_ALL, &all);
	memory_peak(job->memory, MEMORY_DESCENDANTS, &rest);
	f->ram_low_bytes = known(all.low);
	f->ram_peak_bytes = known(all.estimate);
	f->ram_high_bytes = all.high;
	f->ram_descendants_low_bytes = known(rest.low);
	f->ram_descendants_peak_bytes = known(rest.estimate);
	f->ram_descendants_high_bytes = rest.high;
	f->mapped_twice = known(memory_is_mapped_twice(job->memory));
}

void job_total(struct job *job, uint64_t time_ns, struct framebuf *out)
{
	struct memory_total t;

	if (job->facts.taskstats_lost.value == 1)
		memory_records_lost(job->memory);
	memory_total(job->memory, time_ns, faults_of_all(job), &t);
	needs_total(job, t.rss_sum);
	job->n_faults_read = 0;
	job->proven_since_ns = job->burst_since_ns;
	job->burst_since_ns = UINT64_MAX;
	set_peak_facts(job);
	if (job->memory_known || t.estimate_max[MEMORY_ALL] > 0)
		append_memory(job, &t, out);
	framebuf_value(out, M_JOB_PROCESSES, 0, (int64_t) job->n_live);
	for (enum level k = 0; k < LEVELS; k++) {
		if (job->level_known[k] > 0 || (job->accs[level_metrics[k]].n > 0 && job->n_live == 0))
			framebuf_value(out, level_metrics[k], 0, job->level_sum[k]);
	}
	append_counters(job, out);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* If every process was waited for, the rusage of the reaped ones is complete. */
static void raise_cpu(struct job *job, struct framebuf *out)
{
	const struct maybe reaped[] = {
		[TREE_USER] = job->facts.reaped_user_ns,
		[TREE_SYSTEM] = job->facts.reaped_system_ns,
	};

	for (enum tree k = TREE_USER; k <= TREE_SYSTEM; k++) {
		if (reaped[k].known && reaped[k].value > job->accs[tree_metrics[k]].last)
			append_counter(out, tree_metrics[k], reaped[k].value, &job->reported[k]);
	}
}

/* Keeps the time since which no list was read (gpu_unlisted.c), which exceeds the validity of
 * the last value. */
static void gpu_acc_end(struct gpu_acc *g, uint64_t time_ns)
{
	const struct acc before = g->acc;

	if (metrics[g->metric].kind != KIND_GAUGE)
		return;
	acc_advance(&g->acc, time_ns);
	if (g->metric == M_GPU_JOB_MEM) {
		g->acc.last_at_ns = before.last_at_ns;
		g->acc.hold_ns = before.hold_ns;
	}
}

/* Increases due to marks and exit records that came last. */
static void append_raised(const struct job *job, const struct memory_total *t, struct framebuf *out)
{
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		const struct acc *value = &job->accs[ram_metrics[s].value],
				 *low = &job->accs[ram_metrics[s].low];

		if (t->estimate_max[s] > value->max)
			append(out, ram_metrics[s].value, value->last, t->estimate_max[s]);
		if (t->low_max[s] > low->max)
			append(out, ram_metrics[s].low, low->last, t->low_max[s]);
	}
}

void job_end(struct job *job, uint64_t time_ns, struct framebuf *out)
{
	struct memory_total t;

	phases_close(job, time_ns);
	if (!job->ended)
		timelines_end(job, time_ns);
	for (int m = 0; m < METRIC_COUNT && !job->ended; m++) {
		if (metrics[m].kind == KIND_GAUGE)
			acc_advance(&job->accs[m], time_ns);
	}
	for (size_t i = 0; i < job->gpus.n && !job->ended; i++)
		gpu_unlisted_advance(job, job->gpus.list[i].birth.id, time_ns);
	for (size_t i = 0; i < job->n_gpu_accs && !job->ended; i++)
		gpu_acc_end(&job->gpu_accs[i], time_ns);
	job->ended = true;
	phases_update_parts(job);
	job->proven_since_ns = job->burst_since_ns;
	job->burst_since_ns = UINT64_MAX;
	job->n_faults_read = job->n_live;
	memory_total(job->memory, time_ns, faults_of_all(job), &t);
	memory_finish(job->memory);
	set_peak_facts(job);
	append_raised(job, &t, out);
	if (job->main_burst > job->accs[M_JOB_RAM_MAIN].max)
		append(out, M_JOB_RAM_MAIN, job->accs[M_JOB_RAM_MAIN].last, job->main_burst);
	job->main_burst = 0;
	append_counters(job, out);
	raise_cpu(job, out);
}
