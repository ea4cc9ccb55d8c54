/* SPDX-License-Identifier: MIT */
#include "summary/request.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

enum {
	MEMORY_PERCENT = 70,   /* a request is too much if less than this would do, margin included */
	TIME_PERCENT = 60,     /* if the longest run took less than this */
	CPU_PERCENT = 50,      /* if mean + 2 standard deviations are less than this, and */
	STRETCH_PERCENT = 80,  /* no stretch of the timeline used more than this */
	CORE_NOISE_PPM = 50000 /* clock ticks: one busy thread may show as 1.02 cores */
};

static const double time_margin = 0.5;
static const int64_t mib = INT64_C(1) << 20, gib = INT64_C(1) << 30;
static const int64_t second_ns = 1000000000;

/* ---- the need of all runs -------------------------------------------------------------------- */

struct observed {
	struct request_use use;
	const struct request_run *run;
};

static int by_value(const void *a, const void *b)
{
	const struct observed *x = a, *y = b;

	if (x->use.value.value != y->use.value.value)
		return x->use.value.value < y->use.value.value ? -1 : 1;
	if (x->use.is_least != y->use.is_least) /* who needed more than this comes after who needed this */
		return x->use.is_least ? 1 : -1;
	return x->use.at_limit - y->use.at_limit;
}

/* Kaplan and Meier's estimate: at each value that a finished run needed, the share of jobs that need
 * more falls by one of those that are left. Where it never falls far enough, the need is beyond the
 * largest value. */
static const struct observed *quantile(
	const struct observed *sorted, size_t n, double quantile, bool *ret_beyond)
{
	static const double rounding = 1e-9;
	double more = 1;

	*ret_beyond = false;
	for (size_t i = 0; i < n; i++) {
		if (sorted[i].use.is_least)
			continue;
		more *= (double) (n - i - 1) / (double) (n - i);
		if (1 - more >= quantile - rounding)
			return &sorted[i];
	}
	*ret_beyond = true;
	return &sorted[n - 1];
}

static const struct request_use *use_of(const struct request_run *run, bool is_time)
{
	return is_time ? &run->time : &run->memory;
}

/* What was watched of a run is a part of its time; it is the need only where nothing else is known. */
static bool counts_for(const struct request_run *run, bool is_time, bool is_watched)
{
	return !run->unseen && use_of(run, is_time)->value.known &&
	       !(is_time && run->is_watched && !is_watched);
}

static struct maybe low_of(const struct observed *o)
{
	return o->use.low.known ? o->use.low : o->use.value;
}

/* list has room for n. is_watched: all runs are. Returns the run that needed it; NULL: none is known. */
static const struct request_run *need_of(const struct request_run *runs, size_t n, bool is_time,
	bool is_watched, double share, struct observed *list, struct request_amount *ret)
{
	const struct observed *found;
	size_t k = 0;
	bool beyond;

	for (size_t i = 0; i < n; i++) {
		if (counts_for(&runs[i], is_time, is_watched))
			list[k++] = (struct observed) { *use_of(&runs[i], is_time), &runs[i] };
	}
	if (k == 0)
		return NULL;
	qsort(list, k, sizeof(*list), by_value);
	found = quantile(list, k, share, &beyond);
	ret->need = found->use.value;
	ret->is_least = beyond;
	ret->at_limit = beyond && found->use.at_limit;
	ret->ended_well = found->run->is_whole;
	for (const struct observed *o = list; o <= found; o++)
		ret->low = maybe_max(ret->low, low_of(o));
	(void) snprintf(ret->run, sizeof(ret->run), "%s", found->run->run);
	return found->run;
}

static int64_t with_margin(int64_t value, double margin)
{
	/* 1.1 is a little more than 11/10, which must not cost a step. */
	static const double rounding = 1e-12;
	const double more = ceil((double) value * (1 + margin) * (1 - rounding));

	return more < (double) INT64_MAX / 2 ? larger(value, (int64_t) more) : value;
}

static int64_t round_up(int64_t value, int64_t step)
{
	return value > INT64_MAX - step ? value : (value + step - 1) / step * step;
}

/* To a multiple of 64 MiB below 1 GiB, of 256 MiB below 8 GiB, else of 1 GiB. */
static int64_t memory_step(int64_t need)
{
	return need < gib ? 64 * mib : need < 8 * gib ? 256 * mib
						      : gib;
}

static struct maybe requested_of(const struct request_run *run, unsigned which)
{
	const struct maybe requested[] = { run->requested_bytes, run->requested_cpus, run->requested_ns,
		run->requested_gpus };

	return requested[which];
}

/* Runs that ended early say little about CPUs; they count where there are no others. */
static struct maybe cores_of(const struct request_run *runs, size_t n, bool whole, bool typical)
{
	struct maybe most = UNKNOWN;

	for (size_t i = 0; i < n; i++) {
		const struct request_run *r = &runs[i];

		if (r->unseen || (whole && !r->is_whole))
			continue;
		if (typical)
			most = maybe_max(most, r->cores_typical_ppm.known ? r->cores_typical_ppm
									  : r->cores_mean_ppm);
		else
			most = maybe_max(
				most, r->cores_most_ppm.known ? r->cores_most_ppm : r->cores_mean_ppm);
	}
	return most;
}

static void make_cpus(const struct request_run *runs, size_t n, struct request *r)
{
	const bool whole = r->whole > 0;
	const struct maybe most = cores_of(runs, n, whole, false);

	r->cores_typical_ppm = cores_of(runs, n, whole, true);
	r->cpus.need = r->cpus.low = most;
	r->cpus.is_least = !whole;
	if (most.known)
		r->cpus.value = known(larger(1, (most.value - CORE_NOISE_PPM + 999999) / 1000000));
}

static void make_ranks(const struct request_run *runs, size_t n, struct request *r)
{
	size_t newest = 0;

	while (newest < n && runs[newest].unseen)
		newest++;
	if (newest == n)
		return;
	r->ranks = runs[newest].ranks;
	r->nodes = runs[newest].nodes;
}

static void make_gpus(const struct request_run *runs, size_t n, struct request *r)
{
	for (size_t i = 0; i < n; i++) {
		const struct request_run *run = &runs[i];

		if (run->unseen)
			continue;
		if (run->gpu_unseen[0] && !r->gpu_why_not[0])
			(void) snprintf(r->gpu_why_not, sizeof(r->gpu_why_not), "%s", run->gpu_unseen);
		r->gpus.need = maybe_max(r->gpus.need, run->gpus);
		r->has_mig |= run->has_mig;
		r->gpu_bytes = maybe_max(r->gpu_bytes, run->gpu_bytes);
		if (!r->gpu_vendor[0])
			(void) snprintf(r->gpu_vendor, sizeof(r->gpu_vendor), "%s", run->gpu_vendor);
	}
	if (r->gpu_why_not[0])
		r->gpus.need = r->gpu_bytes = UNKNOWN;
	r->gpus.value = r->gpus.need;
}

/* ---- too little, about right, too much ------------------------------------------------------- */

/* needed: at most this; low: at least this. What is requested between the two may be enough or not. */
static enum request_fit judge(const struct request_amount *a, struct maybe needed, struct maybe low,
	bool too_much, bool is_unjudged)
{
	if (!a->requested.known || !needed.known || is_unjudged)
		return REQUEST_UNJUDGED;
	if (a->requested.value < low.value || (a->at_limit && a->requested.value <= needed.value))
		return REQUEST_TOO_LITTLE;
	return a->is_least || a->requested.value < needed.value ? REQUEST_UNJUDGED
	       : too_much                                       ? REQUEST_TOO_MUCH
								: REQUEST_ABOUT_RIGHT;
}

static bool is_below(struct maybe value, struct maybe whole, int percent, int64_t unit)
{
	return value.known && whole.known &&
	       (double) value.value < (double) whole.value * (double) unit * percent / 100;
}

/* Far fewer CPUs would have been enough, also in the busiest stretch. */
static bool has_too_many_cpus(const struct request *r)
{
	const struct request_amount *c = &r->cpus;

	return c->value.known && c->requested.known && c->value.value < c->requested.value &&
	       is_below(r->cores_typical_ppm, c->requested, CPU_PERCENT, 1000000) &&
	       (double) c->need.value <= (double) c->requested.value * 1e6 * STRETCH_PERCENT / 100;
}

static void judge_all(struct request *r)
{
	struct request_amount *m = &r->memory, *t = &r->time, *c = &r->cpus, *g = &r->gpus;
	const bool sooner = t->value.known && t->requested.known && t->value.value < t->requested.value;
	const bool unused = g->value.known && g->value.value < g->requested.value;
	const struct maybe cpus = c->need.known ? known((c->need.value - CORE_NOISE_PPM + 999999) / 1000000)
						: UNKNOWN;

	m->fit = judge(
		m, m->need, m->low, is_below(m->value, m->requested, MEMORY_PERCENT, 1), r->is_whole_machine);
	c->fit = judge(c, cpus, cpus, has_too_many_cpus(r), false);
	t->fit = judge(t, t->need, t->low, sooner && is_below(t->need, t->requested, TIME_PERCENT, 1),
		!t->value.known);
	g->fit = judge(g, g->need, g->need, unused, !g->value.known);
}

/* ---- a request ------------------------------------------------------------------------------- */

/* What does not count, though it is of the same job. */
static void put_left_out(const struct request *r, struct buf *out)
{
	const struct request_left_out *l = &r->left_out;

	if (l->unreadable > 0)
		buf_printf(out, "; %zu recording%s could not be read", l->unreadable,
			l->unreadable == 1 ? "" : "s");
	if (l->other_mode > 0)
		buf_printf(out, "; %zu %s%s of that name do%s not count", l->other_mode,
			r->is_watched ? "whole program" : "watched part",
			l->other_mode == 1 ? "" : "s", l->other_mode == 1 ? "es" : "");
	if (l->unread > 0 && r->name[0] && !strpbrk(r->name, " '\"\\$"))
		buf_printf(out, "; hiwater request %s reads all", r->name);
}

static void explain_early_ends(struct request *r)
{
	char bytes[UNITS_LEN], time[UNITS_LEN];
	struct buf text = BUF_INIT(sizeof(r->why_not));
	const int64_t least = r->is_bound ? r->memory.low.value : r->memory.need.value;

	if (r->runs == 1)
		buf_printf(&text, "the %srun did not end with status 0, so its needs are unknown",
			r->left_out.unread > 0 ? "newest " : "");
	else
		buf_printf(&text, "none of %s%zu runs ended with status 0, so the needs are unknown",
			r->left_out.unread > 0 ? "the newest " : "", r->runs);
	if (r->memory.need.known || r->time.need.known)
		buf_str(&text, "; at least");
	if (r->memory.need.known)
		buf_printf(&text, " %s", units_bytes(least, UNITS_IEC, bytes));
	if (r->time.need.known)
		buf_printf(&text, "%s %s", r->memory.need.known ? " and" : "",
			units_duration(r->time.need.value, time));
	put_left_out(r, &text);
	(void) snprintf(r->why_not, sizeof(r->why_not), "%s", text.data);
	buf_done(&text);
}

/* Runs that did not finish do not say how much is enough, unless a limit that can be raised ended
 * one of them. */
static void explain(const struct request_run *runs, size_t n, struct request *r)
{
	if (r->runs == 0)
		(void) snprintf(r->why_not, sizeof(r->why_not), "%s", runs[n - 1].unseen);
	else if (!r->memory.need.known && !r->time.need.known && !r->cpus.need.known)
		(void) snprintf(r->why_not, sizeof(r->why_not), "neither memory nor CPU time was measured");
	else if (r->whole == 0 && !r->memory.at_limit && !r->time.at_limit)
		explain_early_ends(r);
	else if (r->nodes > 1 && r->format != REQUEST_SLURM && r->format != REQUEST_PBS)
		(void) snprintf(r->why_not, sizeof(r->why_not),
			"the job ran on %lld nodes; how several are requested is known for Slurm and PBS alone",
			(long long) r->nodes);
	if (!r->why_not[0])
		return;
	r->memory.value = r->time.value = r->cpus.value = r->gpus.value = UNKNOWN;
}

static void count(const struct request_run *runs, size_t n, struct request *r)
{
	for (size_t i = 0; i < n; i++) {
		const struct request_use *uses[] = { &runs[i].memory, &runs[i].time };
		const struct maybe enough[] = { r->memory.value,
			runs[i].is_watched ? UNKNOWN : r->time.value };
		bool fails = false, may_fail = false;

		if (runs[i].unseen)
			continue;
		for (int k = 0; k < 2; k++) {
			const bool both = uses[k]->value.known && enough[k].known;

			fails |= both && uses[k]->value.value > enough[k].value;
			may_fail |= both && uses[k]->is_least;
		}
		r->would_fail += fails;
		r->may_fail += may_fail && !fails;
	}
}

/* Runs whose figures are not those of the job. */
static void count_unseen(const struct request_run *runs, size_t n, struct request *r)
{
	for (size_t i = 0; i < n; i++) {
		if (!runs[i].unseen)
			continue;
		if (r->unseen++ == 0)
			r->unseen_why = runs[i].unseen;
		else if (strcmp(r->unseen_why, runs[i].unseen) != 0)
			r->unseen_why = "parts of them were not measured";
	}
}

static enum request_format format_of(const char *scheduler)
{
	static const struct {
		const char *scheduler;
		enum request_format format;
	} rows[] = {
		{ "pbs", REQUEST_PBS },
		{ "lsf", REQUEST_LSF },
		{ "sge", REQUEST_SGE },
		{ "kubernetes", REQUEST_K8S },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(rows[i].scheduler, scheduler) == 0)
			return rows[i].format;
	}
	return REQUEST_SLURM;
}

static bool is_same_job(const struct request_run *a, const struct request_run *b)
{
	return strcmp(a->name, b->name) == 0 && (a->name[0] || strcmp(a->command, b->command) == 0);
}

static void identify(const struct request_run *runs, size_t n, const struct request_options *options,
	struct request *r)
{
	struct request_amount *const amounts[] = { &r->memory, &r->cpus, &r->time, &r->gpus };

	(void) snprintf(r->name, sizeof(r->name), "%s", runs[0].name);
	r->left_out = options->left_out;
	r->is_block = runs[0].is_block;
	r->is_watched = true;
	for (size_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < 4; k++) {
			const struct maybe requested = requested_of(&runs[i], k);

			if (amounts[k]->requested.known || !requested.known)
				continue;
			amounts[k]->requested = requested;
			if (k == 0)
				r->is_whole_machine = runs[i].is_whole_machine;
		}
		r->is_mixed |= !runs[i].unseen && !is_same_job(&runs[i], &runs[0]);
		r->runs += !runs[i].unseen;
		r->whole += !runs[i].unseen && runs[i].is_whole;
		r->is_watched &= runs[i].unseen || runs[i].is_watched;
	}
}

/* A run ended well whose whole time is known. */
static bool has_whole_time(const struct request_run *runs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!runs[i].unseen && runs[i].is_whole && !runs[i].is_watched)
			return true;
	}
	return false;
}

/* A request is for one number of ranks and nodes, that of the newest run that counts. */
static void leave_out_other_sizes(struct request_run *runs, size_t n)
{
	size_t newest = 0;

	while (newest < n && runs[newest].unseen)
		newest++;
	for (size_t i = newest + 1; i < n; i++) {
		if (!runs[i].unseen &&
			(runs[i].ranks != runs[newest].ranks || runs[i].nodes != runs[newest].nodes))
			runs[i].unseen = "their numbers of ranks or nodes are others";
	}
}

static int make(const struct request_run *runs, size_t n, const struct request_options *options,
	struct request *ret)
{
	struct request r = {
		.made = true,
		.margin = options->margin,
		.quantile = options->quantile,
		.format = options->format == REQUEST_AUTO ? format_of(runs[0].scheduler) : options->format,
	};
	struct observed *list = calloc(n, sizeof(*list));
	const struct request_run *largest;

	if (!list)
		return -ENOMEM;
	identify(runs, n, options, &r);
	largest = need_of(runs, n, false, false, options->quantile, list, &r.memory);
	if (largest) {
		r.is_bound = largest->is_bound;
		r.is_sampled = largest->is_sampled;
		r.has_swap = largest->has_swap;
		r.tmpfs_bytes = largest->tmpfs_bytes;
		const int64_t more = with_margin(r.memory.need.value, options->margin);

		r.memory.value = known(round_up(more, memory_step(more)));
	}
	/* The time of a run that failed early says nothing, unless other runs ended well. */
	if (need_of(runs, n, true, r.is_watched, options->quantile, list, &r.time) && !r.is_watched &&
		(has_whole_time(runs, n) || r.time.at_limit))
		r.time.value = known(round_up(with_margin(r.time.need.value, time_margin), 300 * second_ns));
	free(list);
	make_cpus(runs, n, &r);
	make_gpus(runs, n, &r);
	make_ranks(runs, n, &r);
	count_unseen(runs, n, &r);
	explain(runs, n, &r);
	judge_all(&r);
	count(runs, n, &r);
	*ret = r;
	return 0;
}

int request_make(const struct request_run *runs, size_t n, const struct request_options *options,
	struct request *ret)
{
	struct request_run *of_one_size = calloc(n, sizeof(*runs));
	int r = of_one_size ? 0 : -ENOMEM;

	if (of_one_size) {
		memcpy(of_one_size, runs, n * sizeof(*runs));
		leave_out_other_sizes(of_one_size, n);
		r = make(of_one_size, n, options, ret);
	}
	free(of_one_size);
	return r;
}

/* ---- lines for schedulers -------------------------------------------------------------------- */

void request_put_bytes(int64_t bytes, struct buf *out)
{
	char text[UNITS_LEN];

	if (bytes % gib == 0)
		buf_printf(out, "%lld GiB", (long long) (bytes / gib));
	else if (bytes % mib == 0 && bytes < 10 * gib)
		buf_printf(out, "%lld MiB", (long long) (bytes / mib));
	else
		buf_str(out, units_bytes(bytes, UNITS_IEC, text));
}

/* "27G", "1280M", with the units' names of the scheduler; all of these are binary. */
static void put_size(const char *before, int64_t bytes, const char *m, const char *g, struct buf *out)
{
	if (bytes % gib == 0)
		buf_printf(out, "%s%lld%s", before, (long long) (bytes / gib), g);
	else
		buf_printf(out, "%s%lld%s", before, (long long) (bytes / mib), m);
}

/* "1:30:00"; with days "1-10:45:00" where the scheduler knows them. */
static void put_clock(const char *before, int64_t ns, bool days, struct buf *out)
{
	const int64_t s = ns / second_ns, d = days ? s / 86400 : 0;

	buf_str(out, before);
	if (d > 0)
		buf_printf(out, "%lld-%02d", (long long) d, (int) (s % 86400 / 3600));
	else
		buf_printf(out, "%lld", (long long) (s / 3600));
	buf_printf(out, ":%02d:%02d", (int) (s % 3600 / 60), (int) (s % 60));
}

static void put_count(const char *before, struct maybe n, const char *after, struct buf *out)
{
	if (n.known && n.value > 0)
		buf_printf(out, "%s%lld%s", before, (long long) n.value, after);
}

/* How a MIG instance is requested depends on the site's profiles. */
static struct maybe gpus_of(const struct request *r)
{
	return r->has_mig ? UNKNOWN : r->gpus.value;
}

/* The part of each of n, rounded up. */
static struct maybe each_of(struct maybe all, int64_t n)
{
	return all.known && all.value > 0 && n > 1 ? known((all.value - 1) / n + 1) : all;
}

/* sbatch(1): sizes in powers of 1024; memory and GPUs are those of each node. */
static void slurm(const struct request *r, struct buf *out)
{
	const int64_t nodes = larger(1, r->nodes);

	buf_str(out, "#SBATCH");
	if (nodes > 1)
		put_count(" --nodes=", known(nodes), "", out);
	if (r->ranks > 1 && r->ranks % nodes == 0)
		put_count(" --ntasks-per-node=", known(r->ranks / nodes), "", out);
	else if (r->ranks > 1)
		put_count(" --ntasks=", known(r->ranks), "", out);
	if (r->memory.value.known)
		put_size(" --mem=", r->memory.value.value, "M", "G", out);
	put_count(" --cpus-per-task=", each_of(r->cpus.value, r->ranks), "", out);
	if (r->time.value.known)
		put_clock(" --time=", r->time.value.value, true, out);
	put_count(" --gres=gpu:", each_of(gpus_of(r), nodes), "", out);
}

/* qsub(1B) and pbs_resources(7B) of PBS Professional: mb and gb are powers of 1024. */
static void pbs(const struct request *r, struct buf *out)
{
	const int64_t nodes = larger(1, r->nodes);

	put_count("#PBS -l select=", known(nodes), "", out);
	put_count(":ncpus=", each_of(r->cpus.value, nodes), "", out);
	if (r->ranks > 1)
		put_count(":mpiprocs=", each_of(known(r->ranks), nodes), "", out);
	if (r->memory.value.known)
		put_size(":mem=", r->memory.value.value, "mb", "gb", out);
	put_count(":ngpus=", each_of(gpus_of(r), nodes), "", out);
	if (r->time.value.known)
		put_clock(" -l walltime=", r->time.value.value, false, out);
}

/* bsub(1): -W is [hours:]minutes. */
static void lsf(const struct request *r, struct buf *out)
{
	buf_str(out, "#BSUB");
	put_count(" -n ", r->cpus.value, "", out);
	buf_str(out, " -R \"span[hosts=1]");
	if (r->memory.value.known) {
		put_size(" rusage[mem=", r->memory.value.value, "MB]\" -M ", "GB]\" -M ", out);
		put_size("", r->memory.value.value, "MB", "GB", out);
	} else {
		buf_str(out, "\"");
	}
	if (r->time.value.known)
		buf_printf(out, " -W %lld:%02d", (long long) (r->time.value.value / second_ns / 3600),
			(int) (r->time.value.value / second_ns % 3600 / 60));
	put_count(" -gpu num=", gpus_of(r), "", out);
}

/* qsub(1) and complex(5) of Grid Engine. h_vmem limits address space, of which hiwater measures
 * something else, so mem_free is requested. */
static void sge(const struct request *r, struct buf *out)
{
	buf_str(out, "#$");
	if (r->cpus.value.known && r->cpus.value.value > 1)
		put_count(" -pe smp ", r->cpus.value, "", out);
	if (r->memory.value.known)
		put_size(" -l mem_free=", r->memory.value.value, "M", "G", out);
	if (r->time.value.known)
		put_clock(" -l h_rt=", r->time.value.value, false, out);
	put_count(" -l gpu=", gpus_of(r), "", out);
}

static void k8s(const struct request *r, struct buf *out)
{
	const struct maybe memory = r->memory.value;
	const bool has_gpus = gpus_of(r).known && r->gpus.value.value > 0;

	buf_str(out, "resources: {requests: {");
	put_count("cpu: ", r->cpus.value, memory.known ? ", " : "", out);
	if (memory.known)
		put_size("memory: ", memory.value, "Mi", "Gi", out);
	buf_str(out, "}");
	if (memory.known || has_gpus)
		buf_str(out, ", limits: {");
	if (memory.known)
		put_size("memory: ", memory.value, "Mi", "Gi", out);
	if (has_gpus)
		buf_printf(out, "%s%s.com/gpu: %lld", memory.known ? ", " : "",
			strcmp(r->gpu_vendor, "amd") == 0 ? "amd" : "nvidia", (long long) r->gpus.value.value);
	buf_str(out, memory.known || has_gpus ? "}}" : "}");
	if (r->time.value.known)
		buf_printf(out, "  # of the Job: activeDeadlineSeconds: %lld",
			(long long) (r->time.value.value / second_ns));
}

/* mem_mb is decimal for some executors and binary for others: the larger number is enough for both. */
static void snakemake(const struct request *r, struct buf *out)
{
	static const int64_t mb = 1000000;
	const char *before = "resources: ";

	put_count("threads: ", r->cpus.value, "\n", out);
	if (r->memory.value.known) {
		buf_printf(out, "%smem_mb=%lld", before, (long long) ((r->memory.value.value + mb - 1) / mb));
		before = ", ";
	}
	if (r->time.value.known) {
		buf_printf(out, "%sruntime=%lld", before, (long long) (r->time.value.value / second_ns / 60));
		before = ", ";
	}
	if (gpus_of(r).known && r->gpus.value.value > 0)
		buf_printf(out, "%sgpu=%lld", before, (long long) r->gpus.value.value);
}

/* Nextflow's MB and GB are powers of 1024. */
static void nextflow(const struct request *r, struct buf *out)
{
	put_count("cpus ", r->cpus.value, "\n", out);
	if (r->memory.value.known)
		put_size("memory '", r->memory.value.value, " MB'\n", " GB'\n", out);
	if (r->time.value.known)
		buf_printf(out, "time '%lldm'\n", (long long) (r->time.value.value / second_ns / 60));
	put_count("accelerator ", gpus_of(r), "\n", out);
}

void request_line(const struct request *r, struct buf *out)
{
	static void (*const writers[])(const struct request *r, struct buf *out) = {
		[REQUEST_SLURM] = slurm,
		[REQUEST_PBS] = pbs,
		[REQUEST_LSF] = lsf,
		[REQUEST_SGE] = sge,
		[REQUEST_K8S] = k8s,
		[REQUEST_SNAKEMAKE] = snakemake,
		[REQUEST_NEXTFLOW] = nextflow,
	};
	struct buf text = BUF_INIT(4096);

	if (r->why_not[0])
		return;
	writers[r->format](r, &text);
	while (text.len > 0 && text.data[text.len - 1] == '\n')
		text.data[--text.len] = '\0';
	buf_str(out, text.data);
	buf_done(&text);
}

const char *request_comment(const struct request *r)
{
	return r->format == REQUEST_NEXTFLOW ? "// " : "# ";
}

/* ---- in words -------------------------------------------------------------------------------- */

/* " (a limit ended run 12 there)" */
static void put_early_end(const struct request_amount *a, struct buf *out)
{
	if (!a->is_least)
		return;
	buf_str(out, !a->at_limit    ? " ("
		     : a->ended_well ? " (a limit killed a process of "
				     : " (a limit ended ");
	buf_printf(out, "%s %s", a->run[0] ? "run" : "the", a->run[0] ? a->run : "run");
	buf_str(out, a->at_limit ? " there)" : " did not finish)");
}

static void put_memory(const struct request *r, const char *before, enum units units, struct buf *out)
{
	const struct request_amount *m = &r->memory;
	char number[UNITS_LEN];

	if (!m->need.known) {
		buf_printf(out, "%smemory not measured", before);
		return;
	}
	buf_printf(out, "%speak %s%s%s", before, r->nodes > 1 ? "of a node " : "",
		m->at_limit   ? "more than "
		: r->is_bound ? "at most "
		: m->is_least ? "at least "
			      : "",
		units_bytes(m->need.value, units, number));
	if (r->is_bound && m->is_least && !m->at_limit)
		buf_str(out, " so far");
	if (r->is_sampled && !m->is_least)
		buf_str(out, " (sampled)");
	buf_str(out, r->has_swap ? " with swap and huge pages" : "");
	if (r->tmpfs_bytes > 0)
		buf_printf(out, "%s %s of tmpfs and shared memory, system-wide", r->has_swap ? "," : " with",
			units_bytes(r->tmpfs_bytes, units, number));
	put_early_end(m, out);
	buf_printf(out, " + %g %%", r->margin * 100);
}

static void put_time(const struct request *r, const char *before, struct buf *out)
{
	char number[UNITS_LEN];

	buf_printf(out, "%s%s%s", before,
		!r->time.value.known ? ""
		: r->time.at_limit   ? "more than "
		: r->time.is_least   ? "at least "
				     : "",
		units_duration(r->time.need.value, number));
	if (!r->time.value.known)
		return;
	put_early_end(&r->time, out);
	buf_printf(out, " + %g %%", time_margin * 100);
}

static void put_cores(const struct request *r, struct buf *out)
{
	char number[UNITS_LEN];

	if (r->cpus.need.known)
		buf_printf(out, ", cores %s%s", units_cores(r->cpus.need.value, number),
			r->ranks > 1 ? " of all ranks" : "");
}

static void put_unseen(const struct request *r, struct buf *out)
{
	if (r->unseen > 0)
		buf_printf(out, "; %zu more run%s not count: %s", r->unseen, r->unseen == 1 ? " does" : "s do",
			r->unseen_why);
}

static void put_gpus(const struct request *r, enum units units, struct buf *out)
{
	char number[UNITS_LEN];

	if (r->gpu_why_not[0]) {
		buf_printf(out, ", GPUs not known: %s", r->gpu_why_not);
	} else if (r->gpus.value.known && r->gpus.value.value > 0) {
		buf_printf(out, ", %lld %s%s", (long long) r->gpus.value.value,
			r->has_mig ? "MIG instance" : "GPU", r->gpus.value.value == 1 ? "" : "s");
		if (r->gpu_bytes.known)
			buf_printf(out, " with up to %s used",
				units_bytes(r->gpu_bytes.value, units, number));
	}
}

/* With the default quantile this is 0 unless a run ended early. */
static void put_failures(const struct request *r, struct buf *out)
{
	if (r->quantile >= 1)
		return;
	buf_printf(out, "; %zu of %zu runs would have failed", r->would_fail, r->runs);
	if (r->may_fail > 0)
		buf_printf(out, ", %zu more may have: %s ended early", r->may_fail,
			r->may_fail == 1 ? "it" : "they");
}

/* "from 3 runs of xgb", "from the newest 40 of 53 runs of xgb" */
static void put_runs(const struct request *r, struct buf *out)
{
	const size_t unread = r->left_out.unread;

	buf_str(out, unread > 0 ? "from the newest " : "from ");
	if (r->runs > 1 || unread == 0)
		buf_printf(out, "%zu ", r->runs);
	if (unread > 0)
		buf_printf(out, "of %s%zu ", r->left_out.is_uncounted ? "more than " : "", r->runs + unread);
	buf_str(out, "runs");
	if (!r->is_mixed)
		buf_printf(out, " of %s", r->name[0] ? r->name : "this command");
}

void request_basis(const struct request *r, enum units units, struct buf *out)
{
	if (r->why_not[0])
		return;
	if (r->runs == 1 && r->left_out.unread == 0) {
		buf_str(out,
			r->is_block     ? "rough: one block"
			: r->is_watched ? "rough: watched"
					: "rough: one run");
		if (r->time.need.known)
			put_time(r, r->is_watched && !r->is_block ? " for " : " of ", out);
		put_memory(r, ", ", units, out);
	} else {
		put_runs(r, out);
		put_memory(r, ": ", units, out);
	}
	put_cores(r, out);
	if ((r->runs > 1 || r->left_out.unread > 0) && r->time.value.known)
		put_time(r, ", ", out);
	put_gpus(r, units, out);
	put_unseen(r, out);
	put_failures(r, out);
	put_left_out(r, out);
}

void request_rounding(const struct request *r, struct buf *out)
{
	const char *before = "rounded up: ";

	if (r->memory.value.known) {
		buf_printf(out, "%smemory to ", before);
		request_put_bytes(memory_step(with_margin(r->memory.need.value, r->margin)), out);
		before = ", ";
	}
	if (r->cpus.value.known) {
		buf_printf(out, "%sCPUs to whole ones", before);
		before = ", ";
	}
	if (r->time.value.known)
		buf_printf(out, "%stime to 5 min", before);
}

const char *request_fit_words(enum request_fit fit)
{
	static const char *const words[] = {
		[REQUEST_TOO_LITTLE] = "too little",
		[REQUEST_ABOUT_RIGHT] = "about right",
		[REQUEST_TOO_MUCH] = "too much",
	};

	return words[fit];
}

bool request_judgement(const struct request *r, unsigned which, struct buf *out)
{
	const struct request_amount *const amounts[] = { &r->memory, &r->cpus, &r->time, &r->gpus };
	const struct request_amount *a = amounts[which];
	const bool is_bound = which == 0 && r->is_bound && !a->is_least;
	const bool is_low = is_bound && a->fit == REQUEST_TOO_LITTLE;
	const char *beyond = a->at_limit             ? "more than "
			     : a->is_least || is_low ? "at least "
			     : is_bound              ? "at most "
						     : "";
	char need[UNITS_LEN], requested[UNITS_LEN];

	if (a->fit == REQUEST_UNJUDGED)
		return false;
	if (which == 0)
		buf_printf(out, "memory: %s requested, %s%s used", units_bytes(a->requested.value, UNITS_IEC, requested),
			beyond, units_bytes(is_low ? a->low.value : a->need.value, UNITS_IEC, need));
	else if (which == 1)
		buf_printf(out, "CPUs: %lld requested, %s%s cores used", (long long) a->requested.value, beyond,
			units_cores(a->need.value, need));
	else if (which == 3)
		buf_printf(out, "GPUs: %lld requested, %lld used", (long long) a->requested.value,
			(long long) a->need.value);
	else
		buf_printf(out, "time: %s requested, %s%s used", units_duration(a->requested.value, requested),
			beyond, units_duration(a->need.value, need));
	buf_printf(out, ": %s", request_fit_words(a->fit));
	return true;
}
