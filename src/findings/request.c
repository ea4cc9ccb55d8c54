/* SPDX-License-Identifier: MIT
 *
 * What a run says about the next request, and the rules about requests that are too large or too
 * small. One run is weak evidence, so the need of all runs of the same name or command decides
 * (summary/request.h).
 */
#include "summary/request.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/parse.h"
#include "base/units.h"
#include "findings/client.h"
#include "findings/finding.h"
#include "summary/facts.h"
#include "summary/ranks.h"

enum {
	WHOLE_NODE_PERCENT = 90,
	AT_LIMIT_PERCENT = 90, /* of a limit: it ended the run there */
	AT_TIME_PERCENT = 97,
	LEAST_TMPFS = 1 << 20 /* what any job may write to its terminal does not count */
};

/* ---- one run --------------------------------------------------------------------------------- */

/* A recording may have any numbers. */
static struct maybe plausible(struct maybe value)
{
	static const int64_t most = INT64_MAX / 8;

	return value.known && value.value >= 0 && value.value <= most ? value : UNKNOWN;
}

/* The upper bound where there is one (a request that is too small kills the job), plus swap and huge
 * pages. */
static struct maybe processes_need(const struct summary *s)
{
	const struct ram_figure *all = &s->combined;
	const struct maybe need = all->method == METHOD_BOUNDED ? maybe_max(all->peak, all->high) : all->peak;

	return plausible(maybe_sum(plausible(need),
		maybe_sum(plausible(maybe_max(s->swap_peak, known(0))),
			plausible(maybe_max(s->hugetlb_peak, known(0))))));
}

/* What the kernel cannot free in the job's own cgroup, files in tmpfs included. A limit's group above
 * it may have other jobs: then the peaks of its anonymous and its shared memory, which need not have
 * been at the same time. */
static struct maybe cgroup_need(const struct summary *s, bool *ret_is_bound)
{
	const struct acc *anon = s->job ? job_acc(s->job, M_JOB_CGROUP_ANON, 0) : NULL;

	*ret_is_bound = false;
	if (!s->shmem_peak.known || s->shmem_at_most)
		return UNKNOWN;
	if (s->facts->limit_is_own.value == 1 && s->unreclaimable_peak.known)
		return plausible(s->unreclaimable_peak);
	*ret_is_bound = true;
	return anon ? plausible(maybe_sum(plausible(known(anon->max)), plausible(s->shmem_peak))) : UNKNOWN;
}

/* Adds what the job used in tmpfs, of which no process may have mapped anything. */
static void add_memory(const struct summary *s, struct request_run *ret)
{
	const struct maybe processes = processes_need(s), peak = s->combined.peak;
	struct request_use *use = &ret->memory;
	bool is_bound;
	const struct maybe cgroup = cgroup_need(s, &is_bound);

	use->value = processes;
	use->low = plausible(s->combined.method == METHOD_BOUNDED ? s->combined.low : peak);
	if (!processes.known)
		return;
	if (cgroup.known && cgroup.value > processes.value) {
		use->value = cgroup;
		use->low = is_bound ? use->low : cgroup;
		ret->is_bound = is_bound;
		ret->is_sampled = !is_bound;
	} else if (s->shmem_at_most && summary_shows_shmem(s)) {
		const struct acc *written = job_acc(s->job, M_JOB_WRITE_CHARS, 0);
		/* what a process maps is in its peak; the rest was written */
		const struct maybe tmpfs = maybe_min(
			plausible(s->shmem_peak), written ? plausible(known(written->last)) : UNKNOWN);

		if (tmpfs.value < LEAST_TMPFS)
			return;
		use->value = plausible(maybe_sum(processes, tmpfs));
		ret->tmpfs_bytes = tmpfs.value;
		ret->is_bound = true;
	}
}

/* A limit of hiwater's on this metric ended the job. */
static bool is_stopped_by(const struct facts *f, const char *metric)
{
	const char *p = f->stopped_why;

	return f->stopped_by.known && p && parse_word(&p, metric) && !isalnum((unsigned char) *p) &&
	       *p != '.';
}

/* The kernel kills at the limit, which the last sample may have missed. */
static struct maybe raised_to(struct maybe limit, struct maybe used)
{
	const bool is_near = used.known && limit.known && used.value < limit.value &&
			     (double) used.value >= (double) limit.value * AT_LIMIT_PERCENT / 100;

	return is_near ? limit : used;
}

static void memory_use(const struct summary *s, struct request_run *ret)
{
	const struct maybe limit = maybe_min(s->facts->limit_bytes, s->cgroup_limit);
	struct request_use *use = &ret->memory;

	add_memory(s, ret);
	use->at_limit = s->oom_killed || is_stopped_by(s->facts, "ram") ||
			(!ret->is_whole && memory_may_have_ended_it(s));
	use->is_least = !ret->is_whole || use->at_limit;
	if (use->at_limit)
		use->value = raised_to(limit, use->value);
}

/* Schedulers end a job at its time limit by a signal. */
static bool ran_out_of_time(const struct summary *s)
{
	const struct maybe limit = s->facts->request_time_ns;
	const struct ending end = ending_of(s);
	const bool by_signal = end.outcome == OUTCOME_SIGNAL || end.code == 128 + SIGTERM ||
			       end.code == 128 + SIGKILL || end.code == 128 + SIGINT ||
			       end.code == 128 + SIGXCPU;

	return is_stopped_by(s->facts, "time") ||
	       (by_signal && limit.known && s->wall_ns.known &&
		       (double) s->wall_ns.value >= (double) limit.value * AT_TIME_PERCENT / 100);
}

static struct request_use time_use(const struct summary *s, bool is_whole)
{
	const bool at_limit = !is_whole && ran_out_of_time(s);

	return (struct request_use) {
		.value = plausible(s->wall_ns),
		.is_least = !is_whole || at_limit,
		.at_limit = at_limit,
	};
}

/* A launcher has started ranks on other nodes. */
static bool lacks_workers(const struct summary *s)
{
	const struct maybe all = s->facts->worker_ranks;
	struct rank_use *list = NULL;
	size_t n = 0;

	if (!all.known || ranks_of(s->job, &list, &n) < 0)
		return false;
	free(list);
	return n > 0 && (int64_t) n < all.value;
}

/* Of a job of several ranks. Nodes are requested alike, so the one that needed most decides. */
static void rank_use(const struct summary *s, struct request_run *ret)
{
	const struct parts *p = s->job ? job_parts(s->job) : NULL;
	struct request_use worst = { .value = UNKNOWN };
	struct maybe limit = UNKNOWN;

	if (!p)
		return;
	ret->ranks = parts_ranks(p);
	ret->nodes = (int64_t) p->n_nodes;
	if (p->n_nodes < 2)
		return;
	for (size_t i = 0; i < p->n_nodes; i++) {
		const struct part_node *node = &p->node[i];

		if (!node->ram_peak_bytes.known) {
			worst = (struct request_use) { .value = UNKNOWN };
			break;
		}
		const struct maybe most = plausible(maybe_max(node->ram_peak_bytes, node->ram_high_bytes));

		if (!worst.value.known || most.value > worst.value.value)
			limit = node->limit_bytes;
		worst.value = maybe_max(worst.value, most);
		worst.low = maybe_max(worst.low, plausible(node->ram_low_bytes));
	}
	ret->memory.value = ret->memory.at_limit ? raised_to(limit, worst.value) : worst.value;
	ret->memory.low = worst.low;
	if (ret->requested_bytes.known)
		ret->requested_bytes.value /= ret->nodes;
}

/* Why the figures are not those of the whole job; NULL: they are. */
static const char *unseen(const struct summary *s)
{
	if (!s->complete && !s->lost && !s->facts->recording_stopped)
		return "the run has not ended";
	if (s->facts->srun_seen.known && s->facts->srun_seen.value)
		return "the tasks that srun started were not measured";
	if (client_find(s).name)
		return "a client of a daemon ran for most of the time, and its work was not measured";
	if (s->job && job_parts(s->job)) {
		const struct parts *p = job_parts(s->job);

		return parts_are_complete(p) ? NULL : "some of the job's ranks were not measured";
	}
	if (figure_is_node(s->facts))
		return s->facts->nodes.known && s->facts->nodes.value == 1 ? NULL : "only one of several nodes was measured";
	if (!s->facts->worker_ranks.known && s->facts->ranks.known && s->facts->ranks.value > 1)
		return "only one of several ranks was measured";
	if (lacks_workers(s))
		return "only some of the ranks were measured";
	return NULL;
}

static void copy(char *to, size_t size, const char *from)
{
	(void) snprintf(to, size, "%s", from ? from : "");
}

/* "17" of a numbered recording, "base.hiw" of another. */
static void name_run(const char *path, struct request_run *ret)
{
	const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path;
	const char *p = name;
	uint64_t number;

	copy(ret->run, sizeof(ret->run), name);
	if (name && parse_u64(&p, &number) == 0 && strcmp(p, ".hiw") == 0)
		ret->run[strcspn(ret->run, ".")] = '\0';
}

/* Why no GPU was read, where there are some. */
static const char *no_gpus(const struct summary *s)
{
	const enum gpu_absence absence = job_gpu_absence(s->job);

	const char *why = s->facts->gpu_why;

	return absence == GPUS_UNWANTED  ? (why && *why ? why : "--gpu=none was given")
	       : absence == GPUS_REFUSED ? s->facts->gpu_why
					 : "none could be read";
}

/* A MIG instance of this GPU is in the list, and has its use. */
static bool has_instances(const struct job *job, const struct gpu_entity *gpu)
{
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const uint32_t id = job_gpu(job, i)->birth.id;

		if (id != gpu->birth.id && job_gpu_is_on(job, id, gpu->birth.id))
			return true;
	}
	return false;
}

static void gpu_use(const struct summary *s, struct request_run *ret)
{
	const size_t n = s->job ? job_gpu_count(s->job) : 0;
	int64_t used = 0;

	if (n == 0 && s->job && figure_has_gpus(s))
		copy(ret->gpu_unseen, sizeof(ret->gpu_unseen), no_gpus(s));
	for (size_t i = 0; i < n; i++) {
		const struct gpu_entity *gpu = job_gpu(s->job, i);
		enum method method;

		if (has_instances(s->job, gpu) || !job_gpu_counts(s->job, &gpu->birth))
			continue;
		const struct maybe peak = summary_gpu_job_peak(s, gpu->birth.id, &method);

		if (!peak.known)
			copy(ret->gpu_unseen, sizeof(ret->gpu_unseen),
				"the driver does not report which memory is the job's");
		if (!peak.known || peak.value <= 0)
			continue;
		used++;
		ret->has_mig |= gpu->birth.gpu.parent && *gpu->birth.gpu.parent;
		ret->gpu_bytes = maybe_max(ret->gpu_bytes, plausible(peak));
		copy(ret->gpu_vendor, sizeof(ret->gpu_vendor), gpu->birth.gpu.vendor);
	}
	if (!ret->gpu_unseen[0] && (n > 0 || s->gpu_none))
		ret->gpus = known(used);
}

static struct maybe millionths(double cores)
{
	static const double most = 1e9;

	return cores >= 0 && cores <= most ? known((int64_t) (cores * 1e6)) : UNKNOWN;
}

void request_run_of(const struct summary *s, struct request_run *ret)
{
	const struct facts *f = s->facts;
	const struct ending end = ending_of(s);
	const struct cpu_use cpus = s->job ? cpu_use_of(s->job) : (struct cpu_use) { 0 };
	const bool is_watched = mode_is_attach(f->mode);
	struct request_run r = {
		.is_whole = run_succeeded(s) || (is_watched && end.outcome == OUTCOME_UNSEEN),
		.is_watched = is_watched,
		.is_block = f->by_block.value == 1,
		.has_swap = s->swap_peak.value > 0 || s->hugetlb_peak.value > 0,
		.is_bound = s->combined.method == METHOD_BOUNDED,
		.is_sampled = s->combined.method == METHOD_SAMPLED,
		.cores_mean_ppm = plausible(s->cores_mean_ppm),
		.requested_bytes = plausible(f->request_bytes),
		.requested_cpus = plausible(f->request_cpus),
		.requested_ns = plausible(f->request_time_ns),
		.requested_gpus = plausible(f->request_gpus),
		.is_whole_machine = f->request_bytes.known && f->capacity_bytes.known &&
				    (double) f->request_bytes.value >=
					    (double) f->capacity_bytes.value * WHOLE_NODE_PERCENT / 100,
		.unseen = unseen(s),
	};

	memory_use(s, &r);
	rank_use(s, &r);
	r.time = time_use(s, r.is_whole);
	if (cpus.n >= CPU_USE_FEW) {
		r.cores_typical_ppm = millionths(cpus.mean + 2 * cpus.sigma);
		r.cores_most_ppm = millionths(cpus.most);
	}
	name_run(f->recording, &r);
	copy(r.name, sizeof(r.name), f->name);
	copy(r.command, sizeof(r.command), f->command);
	copy(r.scheduler, sizeof(r.scheduler), f->scheduler);
	gpu_use(s, &r);
	*ret = r;
}

/* ---- the rules ------------------------------------------------------------------------------- */

static void of_runs(const struct request *r, const struct request_amount *a, bool is_own, struct buf *text)
{
	if (r->runs <= 1) {
		buf_str(text, r->left_out.unread > 0 ? ", the newest run" : ", one run");
		return;
	}
	buf_printf(text, ", max of %s%zu runs", r->left_out.unread > 0 ? "the newest " : "", r->runs);
	if (!is_own && a->run[0])
		buf_printf(text, ": run %s", a->run);
}

/* The run that decided is this one. */
static bool is_own(const struct known_of_run *k, const struct request_amount *a)
{
	struct request_run own = { .run = "" };

	name_run(k->s->facts->recording, &own);
	return strcmp(own.run, a->run) == 0;
}

/* False, with the reason, if nothing was requested or the request fits. */
static bool fits(const struct request *r, const struct request_amount *a, const char *none, unsigned which,
	struct buf *text)
{
	if (r->why_not[0])
		buf_str(text, r->why_not);
	else if (!a->value.known)
		buf_str(text, "its use is unknown");
	else if (!a->requested.known)
		buf_str(text, none);
	else if (which == 0 && r->is_whole_machine)
		buf_str(text, "the request is for the whole machine");
	else if (a->fit == REQUEST_TOO_LITTLE || a->fit == REQUEST_TOO_MUCH)
		return false;
	else if (a->requested.value >= a->low.value && a->requested.value < a->need.value)
		buf_str(text, "the request lies between the bounds of the use");
	else if (!request_judgement(r, which, text))
		buf_str(text, "runs that did not finish do not say how much is enough");
	return true;
}

/* Of a job of several nodes the node that went furthest beyond what was requested for it; false: none did. */
static bool is_exceeded_on_a_node(
	const struct parts *parts, struct maybe *ret_used, struct maybe *ret_requested)
{
	double most = 1;

	for (size_t i = 0; i < parts->n; i++) {
		const size_t node = parts_node_of(parts, parts->part[i].node);
		const struct maybe used =
			plausible(node < parts->n_nodes ? parts->node[node].ram_low_bytes : UNKNOWN);
		const struct maybe requested = plausible(parts->part[i].request_bytes);

		if (!used.known || requested.value <= 0 ||
			(double) used.value <= most * (double) requested.value)
			continue;
		most = (double) used.value / (double) requested.value;
		*ret_used = used;
		*ret_requested = requested;
	}
	return most > 1;
}

/* What was used at least is proof at any length of run, whatever else was not seen. */
bool rule_memory_exceeded(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct ram_figure *all = &k->s->combined;
	const struct parts *parts = k->s->job ? job_parts(k->s->job) : NULL;
	struct maybe used = plausible(all->low.known ? all->low : all->peak);
	struct maybe requested = plausible(k->s->facts->request_bytes);
	char of[UNITS_LEN], by[UNITS_LEN];

	if (parts && !is_exceeded_on_a_node(parts, &used, &requested)) {
		buf_str(text, "no node used more than what was requested for it, as far as that is known");
		return false;
	}

	if (!requested.known || requested.value == 0 || !used.known) {
		buf_str(text, used.known ? "no memory was requested" : "the use of memory is unknown");
		return false;
	}
	if (used.value <= requested.value) {
		buf_printf(text, "at least %s of %s requested were used", units_bytes(used.value, UNITS_IEC, by),
			units_bytes(requested.value, UNITS_IEC, of));
		return false;
	}
	finding_evidence(f, "peak_bytes", (double) used.value);
	finding_evidence(f, "request_bytes", (double) requested.value);
	buf_printf(text,
		"The job used at least %s%s, %.0f %% of the %s requested: where the limit is enforced it would be "
		"killed, elsewhere it takes the memory of others. Request more.",
		units_bytes(used.value, UNITS_IEC, by), parts ? " on a node" : "",
		100 * (double) used.value / (double) requested.value,
		units_bytes(requested.value, UNITS_IEC, of));
	return true;
}

bool rule_memory_request(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct request *r = &k->s->request;
	const struct request_amount *m = &r->memory;
	char peak[UNITS_LEN];

	if (fits(r, m, "no memory was requested (--request ram=.. or a scheduler)", 0, text))
		return false;
	finding_evidence(f, "peak_bytes", (double) m->need.value);
	finding_evidence(f, "advice_bytes", (double) m->value.value);
	finding_evidence(f, "runs", (double) r->runs);
	finding_evidence(f, "request_bytes", (double) m->requested.value);
	buf_str(text, "Request ");
	request_put_bytes(m->value.value, text);
	buf_str(text, ", not ");
	request_put_bytes(m->requested.value, text);
	buf_printf(text, " (peak %s%s + %g %%",
		m->at_limit   ? "more than "
		: m->is_least ? "at least "
		: r->is_bound ? "at most "
			      : "",
		units_bytes(m->need.value, UNITS_IEC, peak), r->margin * 100);
	of_runs(r, m, is_own(k, m), text);
	buf_str(text, ").");
	return true;
}

bool rule_time_request(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct request *r = &k->s->request;
	const struct request_amount *t = &r->time;
	char enough[UNITS_LEN], of[UNITS_LEN], took[UNITS_LEN];

	if (fits(r, t, "no time was requested", 2, text))
		return false;
	finding_evidence(f, "wall_s", (double) t->need.value / 1e9);
	finding_evidence(f, "advice_s", (double) t->value.value / 1e9);
	finding_evidence(f, "request_s", (double) t->requested.value / 1e9);
	finding_evidence(f, "runs", (double) r->runs);
	buf_printf(text, "Request %s, not %s%s (took %s%s + 50 %%, rounded up to 5 minutes",
		units_duration(t->value.value, enough), units_duration(t->requested.value, of),
		t->fit == REQUEST_TOO_MUCH ? ": it may start sooner" : "",
		t->at_limit   ? "more than "
		: t->is_least ? "at least "
			      : "",
		units_duration(t->need.value, took));
	of_runs(r, t, is_own(k, t), text);
	buf_str(text, ").");
	return true;
}
