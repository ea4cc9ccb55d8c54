/* SPDX-License-Identifier: MIT
 *
 * The job's totals as readings, what they need, and the end of the run.
 */
#include "job/job_held.h"

#define MIB INT64_C(1048576)

enum {
	STILL_TOTALS = 5
}; /* without a new high: it has stopped growing */

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
} ram_metrics[SETS] = {
	[ALL] = { M_JOB_RAM_LOW, M_JOB_RAM, M_JOB_RAM_HIGH },
	[REST] = { M_JOB_RAM_REST_LOW, M_JOB_RAM_REST, M_JOB_RAM_REST_HIGH },
};

/* ---- what is needed ------------------------------------------------------------------------------------------------- */

/* A lone process needs no pass to tell what it holds, only how much of its files it shares with strangers. */
static bool needs_pass(const struct job *job, const struct look *look)
{
	enum {
		MUCH_OF_FILES = 16
	};
	const struct growth *growth = &job->growth;
	const int64_t sum = look->rss_sum;

	if (look->n == 0 || (look->n == 1 && look->files_sum[ALL] <= MUCH_OF_FILES * MIB))
		return false;
	if (sum < growth->top / 50 * 49)
		return false;
	if (sum > growth->passed + growth->passed / (look->n == 1 ? 10 : 50) && sum > growth->passed + MIB)
		return true;
	return look->n > 1 && growth->still >= STILL_TOTALS && growth->top > growth->passed + MIB / 16;
}

/* Until the next look at what is mapped, growth counts in each process. By quarters: looks at thousands of processes
 * that come one by one must not use up the credit before all are there. */
static bool needs_files(const struct job *job, const struct look *look)
{
	const int64_t growth = look->files_growth[ALL];

	return look->n > 1 && growth > 4 * MIB && growth > job->files.value / 4 &&
	       bounds_worst(job, ALL) > job->accs[M_JOB_RAM_HIGH].max;
}

/* May it, which nobody has any more, have been a new high beside the rest? */
static bool was_high(const struct job *job, int64_t gone, int64_t rest)
{
	return gone > MIB && rest + gone > job->accs[M_JOB_RAM_HIGH].max;
}

/* Is it copies, beside what there was? Those of who ended may be of any time since marks were read. */
static bool copies_matter(const struct job *job, const struct look *look)
{
	const int64_t late = job->burst[ALL].late_most;
	const struct recent *high = &job->high[ALL];

	return was_high(job, look->shrunk + late, late > 0 ? high->now : high->last);
}

/* Is it what families lost with who ended, beside what is there? */
static bool ends_matter(const struct job *job)
{
	return was_high(job, lately_unsure(job), bounds_worst(job, ALL));
}

/* Is it those that no look found? */
static bool missed_matter(const struct job *job)
{
	return missed_are_open(job) && was_high(job, job->missed.bytes, job->high[ALL].last);
}

unsigned job_needs(struct job *job)
{
	const struct look *look = job_look(job);
	unsigned needs = (needs_pass(job, look) ? NEED_PSS : 0u) | (needs_files(job, look) ? NEED_FILES : 0u);

	if ((bounds_worst(job, ALL) > job->accs[M_JOB_RAM].max ||
		    bounds_worst(job, REST) > job->accs[M_JOB_RAM_REST].max) &&
		families_are_stale(job))
		needs |= NEED_FAULTS;
	if (copies_matter(job, look) && (families_are_stale(job) || copies_most(job) == INT64_MAX))
		needs |= NEED_FAULTS;
	if (ends_matter(job) || missed_matter(job))
		needs |= NEED_FAULTS;
	return needs;
}

static void growth_take(struct growth *growth, int64_t sum)
{
	if (sum > growth->top + growth->top / 200) {
		growth->top = sum;
		growth->still = 0;
	} else {
		growth->still += growth->still < STILL_TOTALS;
		if (sum > growth->top)
			growth->top = sum;
	}
}

/* ---- readings ------------------------------------------------------------------------------------------------------- */

static void tell(struct framebuf *out, enum metric metric, int64_t value, int64_t max)
{
	struct reading r = reading_of(metric, 0, value);

	if (max > value)
		r.max = max;
	framebuf_reading(out, r);
}

static void tell_ram(const struct bounds *b, struct framebuf *out)
{
	for (enum set s = ALL; s < SETS; s++) {
		tell(out, ram_metrics[s].value, b->value[s], b->max[s]);
		tell(out, ram_metrics[s].low, b->low[s], b->low_max[s]);
		tell(out, ram_metrics[s].high, b->high[s], b->high_max[s]);
	}
}

/* part / whole of amount, without overflow. */
static int64_t share(int64_t amount, int64_t part, int64_t whole)
{
	const double result = whole > 0 ? (double) amount * (double) part / (double) whole : 0;

	return result >= (double) amount ? amount : (int64_t) result;
}

static size_t alive_in(const struct look *look, enum set s)
{
	return look->n - (s == REST && look->main_alive);
}

/* A lone process with few files shares those and nothing else; else it is as in the last pass. */
static void split_set(const struct job *job, enum set s, struct split *ret)
{
	const struct look *look = &job->look;
	const struct pass *pass = &job->pass;
	const struct process *lone = s == ALL && look->n == 1 ? &job->live[0].m->p : NULL;

	ret->lone = lone != NULL || pass->lone[s];
	ret->at_ns = pass->at_ns;
	ret->part = lone ? lone->private_bytes : pass->private_part[s];
	ret->whole = lone && lone->split_known ? lone->private_bytes + lone->shared_bytes : 0;
	if (!lone)
		ret->whole = pass->valid ? pass->whole[s] : 0;
	else if (look->files_sum[ALL] <= 16 * MIB) {
		ret->part = look->anon_sum;
		ret->whole = look->rss_sum;
		ret->at_ns = job->now_ns;
	}
}

/* Of those that have all ended it is as at the last look at them: what they grew by since comes with their ends. */
static const struct split *split_of(struct job *job, const struct bounds *b, enum set s)
{
	const size_t n = alive_in(&job->look, s);
	struct split *split = &job->split[s];

	if (n == 0 && split->seen == job->seen)
		return split;
	*split = (struct split) { .held = b->value[s], .alone = n == 1, .seen = job->seen };
	split_set(job, s, split);
	return split;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The peak is split by the pass nearest to it, be it before or after. Nobody knows what a burst between two looks was made
 * of, what has come to a quarter of it since the pass, or how several share what one had alone. */
static void split_peak(struct job *job, const struct bounds *b, enum set s, const struct split *split)
{
	const struct acc *top = &job->accs[ram_metrics[s].value];
	const bool is_new = top->n == 0 || b->max[s] > top->max;
	const int64_t peak = is_new ? b->max[s] : top->max;
	struct maybe *private = s == ALL ? &job->facts.peak_private_bytes : &job->facts.peak_private_rest_bytes;

	if (is_new) {
		*private = UNKNOWN;
		job->peak_lone[s] = split->alone;
	}
	if (split->lone != job->peak_lone[s])
		return;
	if (split->held < peak / 10 * 9 || split->whole < split->held / 4 * 3 || split->whole <= 0)
		return;
	if (!is_new && (split->at_ns != job->now_ns ||
			       (private->known && apart(job->now_ns, top->max_at_ns) >= apart(top->max_at_ns, job->split_ns[s]))))
		return;
	*private = known(share(peak, split->part, split->whole));
	job->split_ns[s] = split->at_ns;
}

static void tell_private(struct job *job, const struct bounds *b, struct framebuf *out)
{
	for (enum set s = ALL; s < SETS; s++) {
		const struct split *split = split_of(job, b, s);
		const int64_t private = share(b->value[s], split->part, split->whole);
		const int64_t most = share(b->max[s], split->part, split->whole);

		split_peak(job, b, s, split);
		if (s != ALL || split->whole <= 0)
			continue;
		tell(out, M_JOB_PRIVATE, private, most);
		tell(out, M_JOB_SHARED, b->value[ALL] - private, b->max[ALL] - most);
	}
}

static void tell_memory(struct job *job, const struct look *look, const struct bounds *b, struct framebuf *out)
{
	tell_ram(b, out);
	if (look->main_known) {
		tell(out, M_JOB_RAM_MAIN, look->main_rss, job->main_burst);
		job->main_burst = 0;
	}
	framebuf_value(out, M_JOB_RSS_SUM, 0, look->rss_sum);
	framebuf_value(out, M_JOB_ANON, 0, look->anon_sum);
	tell_private(job, b, out);
}

static void tell_counter(struct framebuf *out, enum metric metric, int64_t value, int64_t *told)
{
	/* What is only known better later must not make a counter go back. */
	if (value > *told)
		*told = value;
	framebuf_value(out, metric, 0, *told);
}

static void tell_counters(struct job *job, struct framebuf *out)
{
	int64_t tree[TREES], plain[PLAINS];

	if (!job->counters_read)
		return;
	job->counters_read = false;
	for (enum tree k = 0; k < TREES; k++)
		tree[k] = job->gone[k];
	for (enum plain k = 0; k < PLAINS; k++)
		plain[k] = job->gone_plain[k];
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
		tell_counter(out, tree_metrics[k], tree[k], &job->told[k]);
	for (enum plain k = 0; k < PLAINS; k++) {
		if (job->plain_known[k])
			tell_counter(out, plain_metrics[k], plain[k], &job->told_plain[k]);
	}
}

void job_total(struct job *job, uint64_t time_ns, struct framebuf *out)
{
	const struct look *look = job_look(job);
	struct bounds b;

	growth_take(&job->growth, look->rss_sum);
	bounds_make(job, time_ns, &b);
	if (job->memory_known || b.max[ALL] > 0)
		tell_memory(job, look, &b, out);
	framebuf_value(out, M_JOB_PROCESSES, 0, (int64_t) look->n);
	for (enum level k = 0; k < LEVELS; k++) {
		if (job->level_known[k] > 0 || (job->accs[level_metrics[k]].n > 0 && look->n == 0))
			framebuf_value(out, level_metrics[k], 0, job->level_sum[k]);
	}
	tell_counters(job, out);
}

/* ---- the end -------------------------------------------------------------------------------------------------------- */

/* Where everything was waited for, what hiwater was told is all there is. */
static void raise_cpu(struct job *job, struct framebuf *out)
{
	const struct maybe reaped[] = {
		[TREE_USER] = job->facts.reaped_user_ns,
		[TREE_SYSTEM] = job->facts.reaped_system_ns,
	};

	for (enum tree k = TREE_USER; k <= TREE_SYSTEM; k++) {
		if (reaped[k].known && reaped[k].value > job->accs[tree_metrics[k]].last)
			tell_counter(out, tree_metrics[k], reaped[k].value, &job->told[k]);
	}
}

/* Since when there was no list stays known (gpu_unlisted.c): what was read last stands for longer than that says something. */
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

void job_end(struct job *job, uint64_t time_ns, struct framebuf *out)
{
	struct bounds b;

	phases_close(job, time_ns);
	if (!job->ended)
		courses_end(job, time_ns);
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
	unmarked_tell(job);
	if (bounds_raise(job, &b))
		tell_ram(&b, out);
	if (job->main_burst > job->accs[M_JOB_RAM_MAIN].max)
		tell(out, M_JOB_RAM_MAIN, job->accs[M_JOB_RAM_MAIN].last, job->main_burst);
	job->main_burst = 0;
	tell_counters(job, out);
	raise_cpu(job, out);
}
