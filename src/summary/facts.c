/* SPDX-License-Identifier: MIT */
#include "summary/facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/textwidth.h"
#include "base/units.h"
#include "summary/framework.h"
#include "summary/ranks.h"

enum {
	LARGEST_SHOWN = 4,
};

#define FACT(g, k, l, t, u, v, ...) \
	((struct fact) { \
		.group = g, .key = k, .label = l, .title = t, .unit = u, .value = v, ##__VA_ARGS__ })

struct maker {
	const struct summary *s;
	struct fact_list *list;
	struct fact lost;    /* stands in for a fact without memory */
	int error;
};

/* ---- the list ---------------------------------------------------------------------------------------------------------- */

static struct fact *add(struct maker *m, struct fact fact)
{
	struct fact *facts = reallocarray(m->list->facts, m->list->n + 1, sizeof(*facts));

	if (!facts) {
		m->error = -ENOMEM;
		return &m->lost;
	}
	m->list->facts = facts;
	facts[m->list->n] = fact;
	return &facts[m->list->n++];
}

static void add_known(struct maker *m, struct fact fact)
{
	if (fact.value.known)
		(void) add(m, fact);
}

static void add_some(struct maker *m, struct fact fact)
{
	if (fact.value.known && fact.value.value > 0)
		(void) add(m, fact);
}

/* Copies the text of a buf, which it frees. */
static char *text_of(struct maker *m, struct buf *text)
{
	char *copy = text->error ? NULL : strdup(text->len > 0 ? text->data : "");

	if (!copy)
		m->error = -ENOMEM;
	buf_done(text);
	return copy;
}

/* A block or a notebook cell of a program that continued: it has no exit status. */
static bool is_block(const struct summary *s)
{
	const enum outcome outcome = ending_of(s).outcome;

	return (s->facts->by_block.value == 1 || s->facts->by_cell.value == 1) &&
	       (outcome == OUTCOME_UNSEEN || outcome == OUTCOME_RAISED);
}

static struct maybe now_of(const struct summary *s, enum metric metric, uint32_t id)
{
	const struct acc *acc = s->job ? job_acc(s->job, metric, id) : NULL;

	return acc && acc->n > 0 ? known(acc->last) : UNKNOWN;
}

/* ---- how it ended, how long it took ------------------------------------------------------------------------------------ */

static void write_unfinished(const struct summary *s, struct buf *text, struct buf *detail)
{
	const bool has_no_end = s->facts->recording_stopped || s->elsewhere || s->lost;

	buf_str(text, has_no_end ? "end not recorded" : "still running");
	if (s->facts->recording_stopped)
		buf_printf(detail, "the recording stopped, %s", s->facts->recording_stopped);
	else if (s->elsewhere)
		buf_printf(detail, "still running on %s, or the recorder was lost", s->facts->host);
	else if (s->lost)
		buf_str(detail, "the recorder was lost");
}

static void write_ending(const struct summary *s, struct buf *text, struct buf *detail)
{
	const struct ending end = ending_of(s);
	char name[UNITS_LEN];

	if (figure_is_node(s->facts)) {
		figure_node(s->facts, text);
		if (end.outcome == OUTCOME_UNSEEN)
			return;
		buf_str(text, ", ");
	}
	if (is_block(s)) {
		(void) figure_is_block(s->facts, text);
		if (end.outcome == OUTCOME_RAISED)
			buf_printf(text, " raised %s", s->facts->raised);
		if (s->wall_ns.known)
			buf_printf(text, " %s %s", end.outcome == OUTCOME_RAISED ? "after" : "took",
				units_duration(s->wall_ns.value, name));
		return;
	}
	if (mode_is_attach(s->facts->mode) && end.outcome != OUTCOME_UNFINISHED && !figure_is_node(s->facts))
		buf_str(text, "attached, ");
	switch (end.outcome) {
	case OUTCOME_EXIT:
		buf_printf(text, "exit" NB "%d", end.code);
		break;
	case OUTCOME_SIGNAL:
		buf_printf(text, "KILLED by signal %d, %s", end.signal, figure_signal(end.signal, name));
		break;
	case OUTCOME_LIMIT:
		buf_str(text, "ended by --limit");
		break;
	case OUTCOME_RAISED:
		buf_printf(text, "raised %s", s->facts->raised);
		break;
	case OUTCOME_UNSEEN:
		buf_str(text, "exit status unknown");
		break;
	case OUTCOME_UNFINISHED:
		write_unfinished(s, text, detail);
		break;
	}
	if (end.outcome == OUTCOME_SIGNAL || end.outcome == OUTCOME_LIMIT)
		buf_printf(detail, "exit" NB "%d", end.code);
	if (end.code_known && mode_is_attach(s->facts->mode))
		buf_printf(detail, "%sfrom its exit record", detail->len > 0 ? " " : "");
}

static void result(struct maker *m)
{
	const struct summary *s = m->s;
	const struct facts *f = s->facts;
	const bool attached = mode_is_attach(s->facts->mode);
	const struct maybe alive = s->peak_alive, seen = f->processes_seen;
	struct buf text = BUF_INIT(1 << 20), detail = BUF_INIT(1 << 20);

	write_ending(s, &text, &detail);
	struct fact *end = add(m, FACT(FACTS_RESULT, FACT_END, "", "result", FACT_WORDS, UNKNOWN));

	end->text = text_of(m, &text);
	end->detail = text_of(m, &detail);
	end->is_untrusted = is_block(s);
	if (s->oom_killed || (f->stopped_by.known && f->stopped_why))
		(void) add(m,
			FACT(FACTS_RESULT, FACT_CAUSE, NULL, NULL, FACT_WORDS, UNKNOWN,
				.words = s->oom_killed ? "out of memory: the kernel killed a process"
						       : f->stopped_why));
	/* In a row, the result of a block has its time. */
	add_known(m, FACT(FACTS_RESULT, FACT_WALL, is_block(s) ? NULL : attached ? "watched for"
								: s->complete    ? "wall"
										 : "so far",
			     attached && !is_block(s) ? "watched for"
			     : s->complete            ? "wall time"
						      : "wall time so far",
			     FACT_NS, s->wall_ns));
	if (figure_outlived(s))
		add_known(m,
			FACT(FACTS_RESULT, FACT_MAIN_ENDED, "main" NB "ended" NB "at",
				"the main process ended at", FACT_NS, s->main_wall_ns));
	add_known(m,
		FACT(FACTS_RESULT, FACT_CPU_TIME, "CPU" NB "time", "CPU time", FACT_NS,
			maybe_sum(s->user_ns, s->system_ns), .at_least = !s->cpu_exact && !attached,
			.words = attached ? NB "(sampled)" : NULL));
	add_some(m,
		FACT(FACTS_RESULT, FACT_PROCESSES, "", "processes", FACT_COUNT, seen,
			.at_least = s->seen_at_least, .after = seen.value == 1 ? "process" : "processes",
			.more = alive.known && alive.value > 0 && alive.value < seen.value ? alive : UNKNOWN,
			.more_unit = FACT_COUNT, .more_before = " (",
			.more_after = NB "seen" NB "at" NB "once)"));
	if (f->rank.known && f->ranks.known && f->ranks.value > 1 && !f->worker_ranks.known)
		add_known(m,
			FACT(FACTS_RESULT, FACT_RANK, "rank", "rank", FACT_COUNT, f->rank, .more = f->ranks,
				.more_unit = FACT_COUNT, .more_before = NB "of" NB));
	if (f->restart.value > 0)
		add_known(m, FACT(FACTS_RESULT, FACT_RANK, "restart", "restart", FACT_COUNT, f->restart));
	if (summary_is_batch_only(f))
		(void) add(m,
			FACT(FACTS_RESULT, FACT_SCOPE, "", "measured", FACT_WORDS, UNKNOWN, .begins_line = true,
				.words = "batch script only: steps that srun starts are not below it"));
	if (f->note && *f->note) {
		struct buf note = BUF_INIT(1 << 20);
		struct fact *fact = add(m,
			FACT(FACTS_RESULT, FACT_NOTE, "note", "note", FACT_WORDS, UNKNOWN, .begins_line = true,
				.is_untrusted = true));

		(void) buf_str(&note, f->note);
		fact->text = text_of(m, &note);
	}
}

/* ---- RAM ----------------------------------------------------------------------------------------------------------------- */

static void ram_of(struct maker *m, const char *label, const char *title, const struct ram_figure *r)
{
	add_known(m, FACT(FACTS_RAM, FACT_RAM_OTHER, label, title, FACT_BYTES, r->peak, .figure = r));
}

/* True if the samples missed the cgroup's peak: the kernel killed in it, or the job used more than
 * was sampled. */
static bool is_cgroup_peak_missed(const struct summary *s)
{
	const bool killed = s->cgroup_oom_kills.known && s->cgroup_oom_kills.value > 0;

	return s->cgroup_method == METHOD_SAMPLED &&
	       (killed || (s->combined.low.known && s->combined.low.value > s->cgroup_peak.value));
}

static void ram_parts(struct maker *m)
{
	const struct summary *s = m->s;
	const struct ram_figure *all = &s->combined;

	if (s->descendants.peak.known && s->descendants.peak.value > 0 && !figure_is_node(s->facts)) {
		ram_of(m, "main", "RAM peak of the main process", &s->main);
		ram_of(m, "descendants", "RAM peak of the descendants", &s->descendants);
		if (all->shared_bytes.known)
			add_known(m,
				FACT(FACTS_RAM, FACT_RAM_OTHER, "private", "private RAM at the peak",
					FACT_BYTES, all->private_bytes, .more = all->shared_bytes,
					.more_unit = FACT_BYTES, .more_before = ", shared" NB));
	}
	add_some(m, FACT(FACTS_RAM, FACT_RAM_OTHER, "swap", "swap peak", FACT_BYTES, s->swap_peak));
	add_some(m,
		FACT(FACTS_RAM, FACT_RAM_OTHER, "huge" NB "pages", "huge pages peak", FACT_BYTES,
			s->hugetlb_peak, .at_most = s->hugetlb_at_most));
	add_some(m,
		FACT(FACTS_RAM, FACT_RAM_OTHER, "cgroup" NB "peak", "cgroup peak, page cache included",
			FACT_BYTES, s->cgroup_peak, .at_least = is_cgroup_peak_missed(s),
			.method = s->cgroup_method == METHOD_SAMPLED ? METHOD_SAMPLED : METHOD_UNKNOWN,
			.has_rate = true,
			.more = s->cgroup_file_at_peak.value > 0 ? s->cgroup_file_at_peak : UNKNOWN,
			.more_unit = FACT_BYTES, .more_before = ", file cache" NB));
}

static void shmem(struct maker *m)
{
	const struct summary *s = m->s;

	if (!summary_shows_shmem(s))
		return;
	(void) add(m,
		FACT(FACTS_RAM, FACT_RAM_OTHER, "tmpfs" NB "and" NB "shared" NB "memory",
			"tmpfs and shared memory peak", FACT_BYTES, s->shmem_peak, .at_most = s->shmem_at_most,
			.words = s->shmem_at_most ? NB "(system-wide)" : NULL));
}

/* Shown where it says more of the limit than the RAM of the processes does. */
static void unreclaimable(struct maker *m)
{
	const struct summary *s = m->s;
	const int64_t processes = s->combined.peak.value;

	if (s->unreclaimable_peak.known && s->facts->limit_bytes.known &&
		s->unreclaimable_peak.value > processes + processes / 10 + (1 << 20))
		(void) add(m,
			FACT(FACTS_RAM, FACT_RAM_OTHER, "not" NB "reclaimable",
				"memory in the cgroup that cannot be reclaimed, peak", FACT_BYTES,
				s->unreclaimable_peak, .of = s->facts->limit_bytes, .of_words = "limit",
				.words = summary_limit_is_own(s) ? NULL : " (all" NB "processes" NB "of" NB "the" NB "group)"));
}

/* "address space 780 MiB of 781 limit (100 %) (python3[5001])" */
static void rlimit(struct maker *m, const char *label, const char *title, struct maybe peak,
	struct maybe limit, const char *name, struct maybe pid)
{
	struct fact f = FACT(FACTS_RAM, FACT_RAM_OTHER, label, title, FACT_BYTES, peak, .at_least = true,
		.of = limit, .of_words = "limit", .is_untrusted = true);
	struct buf text = BUF_INIT(256);

	if (!limit.known)
		return;
	if (!peak.known) {
		f = FACT(FACTS_RAM, FACT_RAM_OTHER, label, title, FACT_BYTES, limit, .words = " limit");
	} else if (name && *name) {
		buf_printf(&text, "%s[%lld]", name, (long long) pid.value);
		f.detail = text_of(m, &text);
	}
	(void) add(m, f);
}

static void rlimits(struct maker *m)
{
	const struct facts *f = m->s->facts;

	rlimit(m, "address" NB "space", "largest address space of a process", f->vm_peak_bytes,
		f->vm_limit_bytes, f->vm_name, f->vm_pid);
	rlimit(m, "data" NB "segment", "largest data segment of a process", f->data_peak_bytes,
		f->data_limit_bytes, f->data_name, f->data_pid);
	add_known(m,
		FACT(FACTS_RAM, FACT_RAM_OTHER, "limit" NB "on" NB "resident" NB "size",
			"limit on the resident size", FACT_BYTES, f->rss_limit_bytes,
			.words = NB "(RLIMIT_RSS, which Linux ignores)"));
}

static void ram(struct maker *m)
{
	const struct summary *s = m->s;
	const struct ram_figure *all = &s->combined;
	const struct ceiling top = ceiling_of(s);

	if (!all->peak.known) {
		(void) add(m,
			FACT(FACTS_RAM, FACT_RAM_PEAK, "", "RAM peak", FACT_BYTES, UNKNOWN,
				.words = "not measured"));
		if (s->main.high.known)
			(void) add(m,
				FACT(FACTS_RAM, FACT_RAM_OTHER, "main", "RAM peak of the main process",
					FACT_BYTES, s->main.high, .at_most = true));
	} else {
		(void) add(m,
			FACT(FACTS_RAM, FACT_RAM_PEAK, "peak", "RAM peak", FACT_BYTES, all->peak,
				.of = top.bytes, .of_words = top.words, .figure = all));
		add_known(m, FACT(FACTS_RAM, FACT_RAM_AT, "at", "time of the RAM peak", FACT_NS, all->at_ns));
		add_known(m, FACT(FACTS_RAM, FACT_RAM_MEAN, "mean", "RAM mean", FACT_BYTES, all->mean));
		/* In a row it follows the mean, so that the peak and its time stay together. */
		(void) add(m, FACT(FACTS_RAM, FACT_RAM_METHOD, "", NULL, FACT_WORDS, UNKNOWN, .figure = all));
		ram_parts(m);
	}
	shmem(m);
	unreclaimable(m);
	rlimits(m);
}

static void largest(struct maker *m)
{
	const struct process **list = NULL;
	size_t n = 0;

	if (m->s->job && job_process_count(m->s->job) >= 2 && figure_processes(m->s->job, &list, &n) < 0)
		m->error = -ENOMEM;
	for (size_t i = 0; i < n && i < LARGEST_SHOWN && list[i]->peak_bytes > 0; i++)
		(void) add(m,
			FACT(FACTS_LARGEST, FACT_PROCESS, "", "RAM peak", FACT_BYTES,
				known(list[i]->peak_bytes), .at_least = !list[i]->peak_exact,
				.process = list[i]));
	free(list);
}

static void ranks(struct maker *m)
{
	const struct maybe all = m->s->facts->worker_ranks;
	struct rank_use *list;
	size_t n;

	if (ranks_of(m->s->job, &list, &n) < 0)
		m->error = -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const size_t shown = n > RANKS_SHOWN ? n : 1;
		struct buf text = BUF_INIT(1 << 16);

		if (i == 0) {
			ranks_list(list, n, &text);
			if (all.known)
				(void) buf_printf(&text, " of" NB "%lld", (long long) all.value);
			(void) buf_str(&text, "; ");
		}
		ranks_words(&list[i], shown, &text);
		add(m, FACT(FACTS_RANKS, FACT_RANK_USE, "", "ranks", FACT_WORDS, UNKNOWN))->text =
			text_of(m, &text);
		i += shown - 1;
	}
	free(list);
}

/* ---- GPUs ---------------------------------------------------------------------------------------------------------------- */

static struct fact of_gpu(const struct birth *b, enum fact_key key, const char *label, const char *title,
	enum fact_unit unit, struct maybe value)
{
	return FACT(FACTS_GPU, key, label, title, unit, value, .gpu = b);
}

static void gpu_memory(struct maker *m, const struct birth *b)
{
	const struct summary *s = m->s;
	enum method method;
	const struct maybe device = summary_gpu_device_peak(s, b->id),
			   job = summary_gpu_job_peak(s, b->id, &method);
	struct fact f = of_gpu(b, FACT_GPU_JOB, "job" NB "peak", "memory peak of the job", FACT_BYTES, job);

	f.method = job.known ? method : METHOD_UNKNOWN;
	f.words = job.known ? NULL : "unknown";
	(void) add(m, f);
	f = of_gpu(b, FACT_GPU_DEVICE, "device" NB "peak", "memory peak of the device", FACT_BYTES, device);
	f.of = b->gpu.memory_bytes;
	f.words = b->gpu.unified && f.of.known ? ", shared with the host" : NULL;
	add_known(m, f);
	add_some(m,
		of_gpu(b, FACT_GPU_OTHER, "other" NB "processes", "memory peak of other processes",
			FACT_BYTES, summary_most(s, M_GPU_OTHER_MEM, b->id)));
	add_some(m, of_gpu(b, FACT_GPU_OTHER, "unattributed", "memory peak, unattributed", FACT_BYTES,
			    summary_most(s, M_GPU_UNATTRIBUTED_MEM, b->id)));
	if (*b->gpu.name) {
		struct buf name = BUF_INIT(4096);

		f = of_gpu(b, FACT_GPU_OTHER, "", "model", FACT_WORDS, UNKNOWN);
		f.is_untrusted = true;
		buf_str(&name, b->gpu.name);
		add(m, f)->text = text_of(m, &name);
	}
}

static void gpu_work(struct maker *m, const struct birth *b)
{
	static const int64_t tensor_least = 5000; /* ppm */
	static const char some_kernel[] = " of the time (any kernel)";
	const struct summary *s = m->s;
	const struct maybe tensor = summary_mean(s, M_GPU_TENSOR_ACTIVE, b->id),
			   busy = summary_mean(s, M_GPU_BUSY, b->id);
	enum metric lead = M_GPU_BUSY;
	const bool has_lead = summary_gpu_lead(s, b->id, &lead);
	const char *name = has_lead ? figure_gpu_lead(lead) : "utilisation";
	struct fact f = of_gpu(
		b, FACT_GPU_LEAD, name, name, FACT_SHARE, has_lead ? summary_mean(s, lead, b->id) : UNKNOWN);

	f.begins_line = true;
	f.words = !has_lead ? "unknown" : lead == M_GPU_BUSY ? some_kernel
							     : NULL;
	(void) add(m, f);
	add_known(m,
		of_gpu(b, FACT_GPU_OTHER, "occupancy", "occupancy", FACT_SHARE,
			summary_mean(s, M_GPU_SM_OCCUPANCY, b->id)));
	if (tensor.value >= tensor_least)
		add_known(m, of_gpu(b, FACT_GPU_OTHER, "tensor", "tensor cores", FACT_SHARE, tensor));
	add_known(m,
		of_gpu(b, FACT_GPU_OTHER, "memory" NB "bandwidth", "memory bandwidth", FACT_SHARE,
			summary_mean(s, M_GPU_DRAM_ACTIVE, b->id)));
	f = of_gpu(b, FACT_GPU_BUSY, "busy", "busy", FACT_SHARE, busy);
	f.words = some_kernel;
	if (lead != M_GPU_BUSY)
		add_known(m, f);
}

static void gpu_power(struct maker *m, const struct birth *b)
{
	static const int64_t least_ns = 10000000;
	static const char *const by[FIGURE_THROTTLES] = { " by power limit", " by heat", " by hardware",
		" by other reasons" };
	bool counted;
	const struct maybe energy = summary_gpu_energy(m->s, b->id, &counted);
	struct fact f = of_gpu(
		b, FACT_GPU_POWER, "mean", "power, mean", FACT_UW, summary_mean(m->s, M_GPU_POWER, b->id));

	f.more = summary_most(m->s, M_GPU_POWER, b->id);
	f.more_unit = FACT_UW;
	f.more_before = ", max" NB;
	f.words = b->gpu.power_span_ns.value > 0 ? " (means of 1" NB "s)" : NULL;
	add_known(m, f);
	f = of_gpu(b, FACT_GPU_OTHER, "", "energy", FACT_UJ, energy);
	f.words = counted ? NULL : " (power over time)";
	add_known(m, f);
	add_known(m,
		of_gpu(b, FACT_GPU_TEMP, "", "temperature, highest", FACT_MCEL,
			summary_most(m->s, M_GPU_TEMP, b->id)));
	for (size_t i = 0; i < FIGURE_THROTTLES; i++) {
		f = of_gpu(b, FACT_GPU_OTHER, "throttled", "clocks throttled for", FACT_NS,
			summary_risen(m->s, figure_throttles[i].metric, b->id));
		f.words = by[i];
		if (f.value.value >= least_ns)
			add_known(m, f);
	}
}

/* The allocators of the job's frameworks: memory reserved from the driver, and memory allocated of
 * it. */
static void gpu_frameworks(struct maker *m, const struct birth *b)
{
	static const int64_t worth_a_word = 100000; /* ppm */
	static const char *const labels[FRAMEWORKS_MOST][4] = {
		{ "torch", "torch" NB "allocated" NB "peak", "memory peak that torch allocated",
			"memory peak that torch reserved" },
		{ "jax", "jax" NB "allocated" NB "peak", "memory peak that jax allocated",
			"memory peak that jax reserved" },
		{ "tensorflow", "tensorflow" NB "allocated" NB "peak",
			"memory peak that tensorflow allocated", "memory peak that tensorflow reserved" },
	};
	struct framework list[FRAMEWORKS_MOST];
	const size_t n = frameworks_of(m->s->job, b, list);

	for (size_t i = 0; i < n; i++) {
		const struct framework *f = &list[i];
		const size_t first = m->list->n;
		size_t k = 0;

		while (k + 1 < FRAMEWORKS_MOST && strcmp(labels[k][0], f->name) != 0)
			k++;
		add_some(m,
			of_gpu(b, FACT_GPU_OTHER, labels[k][1], labels[k][2], FACT_BYTES, f->allocated_peak));
		add_some(m,
			of_gpu(b, FACT_GPU_OTHER, "reserved" NB "peak", labels[k][3], FACT_BYTES,
				f->reserved_peak));
		if (f->fragmentation_ppm.value >= worth_a_word)
			add_known(m,
				of_gpu(b, FACT_GPU_OTHER, "fragmented", "memory fragmented", FACT_SHARE,
					f->fragmentation_ppm));
		struct fact times = of_gpu(
			b, FACT_GPU_OTHER, "", "allocations", FACT_COUNT, f->alloc_retries);

		times.after = "retries";
		add_some(m, times);
		times = of_gpu(
			b, FACT_GPU_OTHER, "out" NB "of" NB "memory ", "out of memory", FACT_COUNT, f->ooms);
		times.after = "times";
		add_some(m, times);
		if (m->list->n > first)
			m->list->facts[first].begins_line = true;
	}
}

/* Adds the GPU to a list that begins with words. */
static void list_gpu(const struct summary *s, const struct birth *b, const char *words, struct buf *list)
{
	char name[UNITS_LEN];

	buf_str(list, list->len > 0 ? ", " : words);
	for (const char *p = job_gpu_name(s->job, &b->gpu, name); *p; p++)
		buf_add(list, *p == ' ' ? NB : p, 1);
}

static void gpus(struct maker *m)
{
	struct buf unused = BUF_INIT(1 << 16), others = BUF_INIT(1 << 15);

	for (size_t i = 0; m->s->job && i < job_gpu_count(m->s->job); i++) {
		const struct birth *b = &job_gpu(m->s->job, i)->birth;

		if (!job_gpu_counts(m->s->job, b)) {
			list_gpu(m->s, b, "not allocated to the job: ", &others);
			continue;
		}
		if (!figure_gpu_used(m->s, b->id)) {
			list_gpu(m->s, b, "the job used no memory on ", &unused);
			continue;
		}
		gpu_memory(m, b);
		gpu_work(m, b);
		gpu_power(m, b);
		gpu_frameworks(m, b);
	}
	if (others.len > 0)
		buf_printf(&unused, "%s%s", unused.len > 0 ? "; " : "", others.data);
	buf_done(&others);
	if (unused.len > 0)
		add(m, FACT(FACTS_UNUSED_GPUS, FACT_GPU_OTHER, "", "GPUs", FACT_WORDS, UNKNOWN))->text =
			text_of(m, &unused);
	buf_done(&unused);
}

/* ---- work ---------------------------------------------------------------------------------------------------------------- */

static struct fact cores(const struct summary *s)
{
	const struct maybe all = figure_cores(s->facts);
	const bool quota = all.known && s->facts->limit_cpu_ppm.known &&
			   all.value == s->facts->limit_cpu_ppm.value;

	return FACT(FACTS_CPU, FACT_CPU, "", "CPU", FACT_CORES, s->cores_mean_ppm, .of = all,
		.of_words = all.value == 1000000 ? "core" : "cores", .after = all.known ? NULL : "cores",
		.percent_words = quota ? " of its quota" : "");
}

/* No rate over less than a second, or of less than 1 MiB. */
static struct maybe rate_of(const struct summary *s, struct maybe bytes)
{
	static const int64_t second = 1000000000;

	if (!s->wall_ns.known || s->wall_ns.value < second || bytes.value < 1 << 20)
		return UNKNOWN;
	return known((int64_t) ((double) bytes.value / ((double) s->wall_ns.value / (double) second)));
}

static void io(struct maker *m, enum fact_key key, const char *label, struct maybe bytes)
{
	add_some(m,
		FACT(FACTS_IO, key, label, label, FACT_BYTES, bytes, .more = rate_of(m->s, bytes),
			.more_unit = FACT_BYTES_PER_S, .more_before = " (", .more_after = ")"));
}

/* Of the whole node. */
static void fabric(struct maker *m)
{
	const struct summary *s = m->s;

	io(m, FACT_FABRIC, "fabric" NB "received", s->fabric_rx_bytes);
	io(m, FACT_FABRIC, "sent", s->fabric_tx_bytes);
	if (s->fabric_rx_bytes.value > 0 || s->fabric_tx_bytes.value > 0)
		add_known(m, FACT(FACTS_IO, FACT_FABRIC, "busiest" NB "port", "busiest port, at most", FACT_SHARE,
				     summary_most(s, M_HOST_FABRIC_BUSIEST, 0),
				     .words = NB "of" NB "its" NB "link" NB "rate"));
	add_some(m, FACT(FACTS_IO, FACT_FABRIC, "fabric" NB "errors", "fabric errors", FACT_COUNT,
			    s->fabric_errors));
}

static void work(struct maker *m)
{
	static const int64_t iowait_least = 5000, throttled_least = 1000000;
	const struct summary *s = m->s;
	const struct acc *throttled = s->job ? job_acc(s->job, M_JOB_CGROUP_THROTTLED, 0) : NULL;
	const struct maybe throttled_ns = throttled && throttled->n > 0
						  ? known(throttled->max - throttled->min)
						  : UNKNOWN;

	add_known(m, cores(s));
	if (s->cores_mean_ppm.known && s->iowait_ppm.value >= iowait_least)
		add_known(m,
			FACT(FACTS_CPU, FACT_IOWAIT, "io-wait", "waited for storage", FACT_SHARE,
				s->iowait_ppm, .words = " of" NB "the" NB "machine's" NB "CPU" NB "time"));
	if (s->cores_mean_ppm.known && throttled_ns.value >= throttled_least)
		add_known(m,
			FACT(FACTS_CPU, FACT_THROTTLED, "throttled", "CPU throttled for", FACT_NS,
				throttled_ns));
	io(m, FACT_READ, "read", s->read_bytes);
	io(m, FACT_WRITTEN, "written", s->write_bytes);
	fabric(m);
	add_known(m,
		FACT(FACTS_ENERGY, FACT_CPU_ENERGY, "", "energy", FACT_UJ, s->cpu_energy_uj, .is_apart = true,
			.words = "whole CPU package, all its users (RAPL)"));
	add_known(m,
		FACT(FACTS_ENERGY, FACT_GPU_ENERGY, "", "energy of the GPUs", FACT_UJ, s->gpu_energy_uj,
			.is_apart = true, .words = "whole GPUs, all their users",
			.begins_line = s->cpu_energy_uj.known));
}

static void touched(struct maker *m)
{
	if (m->s->touched && facts_where(m->s->touched, m->list) < 0)
		m->error = -ENOMEM;
}

static void traced(struct maker *m)
{
	if (m->s->work && facts_work(m->s->work, m->s->gpu_peak, m->list) < 0)
		m->error = -ENOMEM;
}

static void used(
	struct maker *m, const char *label, const char *title, struct maybe cpu_ns, struct maybe bytes)
{
	if (bytes.known)
		add_known(m,
			FACT(FACTS_SAMPLING, FACT_SAMPLING, label, title, FACT_NS, cpu_ns, .after = "CPU",
				.more = bytes, .more_unit = FACT_BYTES, .more_before = ", "));
}

struct maybe facts_reached_interval(const struct facts *f)
{
	enum {
		FEW = 50
	};
	const struct maybe interval = f->interval_ns, samples = f->samples, skipped = f->skipped_samples;

	if (!interval.known || !skipped.known || samples.value <= 0 || skipped.value <= samples.value / FEW)
		return interval;
	return known((int64_t) ((__int128) interval.value * (samples.value + skipped.value) / samples.value));
}

static void sampling(struct maker *m)
{
	const struct facts *f = m->s->facts;
	const size_t first = m->list->n;

	add_known(m,
		FACT(FACTS_SAMPLING, FACT_SAMPLING, "", "sampling", FACT_COUNT, f->samples,
			.after = f->samples.value == 1 ? "sample" : "samples", .more = facts_reached_interval(f),
			.more_unit = FACT_INTERVAL, .more_before = " "));
	add_known(m,
		FACT(FACTS_SAMPLING, FACT_SAMPLING, "", "late samples", FACT_COUNT, f->late_samples,
			.after = "late"));
	if (f->skipped_samples.value > 0)
		add_known(m,
			FACT(FACTS_SAMPLING, FACT_SAMPLING, "", "skipped samples", FACT_COUNT, f->skipped_samples,
				.after = "skipped"));
	add_known(m,
		FACT(FACTS_SAMPLING, FACT_SAMPLING, "longest" NB "gap", "longest gap", FACT_NS,
			f->longest_gap_ns));
	used(m, "hiwater itself used ", "hiwater itself used", f->own_cpu_ns, f->own_rss_bytes);
	used(m, "of" NB "which the GPU" NB "helper ", "of which the GPU helper used", f->gpu_helper_cpu_ns,
		f->gpu_helper_rss_bytes);
	used(m, "of" NB "which the page fault" NB "sampler ", "of which the page fault sampler used", f->where_cpu_ns,
		f->where_rss_bytes);
	if (m->list->n == first && m->s->job && job_parts(m->s->job)) {
		const struct parts *p = job_parts(m->s->job);
		int64_t n = 0;

		for (size_t i = 0; i < p->n; i++)
			n += p->part[i].has_recording.value == 1 && !part_is(&p->part[i], "worker");
		(void) add(m,
			FACT(FACTS_SAMPLING, FACT_SAMPLING, "", "sampling", FACT_COUNT, known(n),
				.after = n == 1 ? "recording" : "recordings", .words = " merged"));
	} else if (m->list->n == first) /* the row is always there */
		(void) add(m,
			FACT(FACTS_SAMPLING, FACT_SAMPLING, "", NULL, FACT_WORDS, UNKNOWN,
				.words = "unknown"));
}

/* ---- the incident ----------------------------------------------------------------------------------------------------- */

static void add_text(struct maker *m, struct fact fact, const char *before, const char *text)
{
	struct buf copy = BUF_INIT(1 << 20);

	fact.is_untrusted = true;
	buf_printf(&copy, "%s%s", before, text);
	add(m, fact)->text = text_of(m, &copy);
}

static void top_users(struct maker *m, const struct incident *s)
{
	const char *title = s->on_gpu ? "GPU memory used at that time" : "RAM used at that time";
	const bool has_foreign = s->other.known && s->other.value > 0;

	if (s->n_processes > 0 || has_foreign)
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, "", NULL, FACT_WORDS, UNKNOWN,
				.begins_line = true,
				.words = s->on_gpu ? "GPU" NB "memory" NB "at" NB "that" NB "time:"
						   : "RAM" NB "at" NB "that" NB "time:"));
	for (size_t i = 0; i < s->n_processes; i++)
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_PROCESS, "", title, FACT_BYTES,
				known(s->processes[i].bytes), .process = s->processes[i].process,
				.words = s->processes[i].killed ? NB "(killed)" : NULL));
	if (s->others > 0)
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, "", title, FACT_COUNT, known((int64_t) s->others),
				.after = "others", .more = known(s->others_bytes), .more_unit = FACT_BYTES,
				.more_before = NB));
	if (has_foreign)
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, "other" NB "processes",
				s->on_gpu ? "GPU memory of other processes, at most"
					  : "RAM of other processes, at most",
				FACT_BYTES, s->other));
}

/* Qualifies the last fact: a time before the second sample is no more than "since the start". */
static void add_since(struct maker *m, int64_t since_ns)
{
	const struct maybe interval = m->s->facts->interval_ns;
	struct fact *grew = m->list->n > 0 ? &m->list->facts[m->list->n - 1] : &m->lost;

	if (interval.known && since_ns < interval.value) {
		grew->words = " since" NB "the" NB "start";
		return;
	}
	grew->more = known(since_ns);
	grew->more_unit = FACT_NS;
	grew->more_before = " since" NB;
}

/* ---- out of memory, in a line each: when, who, what filled which limit, which functions, how it grew, what to try ---- */

static void killed(struct maker *m, const struct incident *s)
{
	bool any = false;

	for (size_t i = 0; i < s->n_processes; i++) {
		if (!s->processes[i].killed)
			continue;
		struct buf name = BUF_INIT(256);

		buf_printf(&name, "%.15s[%d]", s->processes[i].process->name, s->processes[i].process->pid);
		struct fact f = FACT(FACTS_INCIDENT, FACT_INCIDENT, "killed: ", "killed", FACT_WORDS, UNKNOWN,
			.more = known(s->processes[i].bytes), .more_unit = FACT_BYTES, .more_before = ", ",
			.begins_line = true, .is_untrusted = true);

		f.text = text_of(m, &name);
		(void) add(m, f);
		any = true;
	}
	if (!any)
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, "killed: ", "killed", FACT_WORDS, UNKNOWN,
				.begins_line = true, .words = "not known, no process was seen to be killed"));
}

static void filled(struct maker *m, const struct incident *s)
{
	if (!s->limit.known)
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, "filled: ", "filled", FACT_WORDS, UNKNOWN,
				.begins_line = true, .words = "a limit that hiwater did not read"));
	else
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT,
				s->is_group_limit ? "filled: limit" NB "of" NB "the" NB "cgroup"
						  : "filled: memory" NB "of" NB "this" NB "machine",
				s->is_group_limit ? "filled, limit of the cgroup"
						  : "filled, memory of this machine",
				FACT_BYTES, s->limit, .begins_line = true));
	for (size_t i = 0; i < s->n_parts; i++)
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, fill_words(s->parts[i].fill),
				fill_words(s->parts[i].fill), FACT_BYTES, known(s->parts[i].bytes)));
	if (s->requested.known && !(s->limit.known && s->requested.value == s->limit.value))
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, "requested", "requested", FACT_BYTES,
				s->requested));
	for (size_t i = 0; i < s->n_processes && s->n_processes > 1; i++)
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_PROCESS, "", "RAM used at that time", FACT_BYTES,
				known(s->processes[i].bytes), .process = s->processes[i].process,
				.words = s->processes[i].killed ? NB "(killed)" : NULL));
	if (s->others > 0)
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, "", "RAM used at that time", FACT_COUNT,
				known((int64_t) s->others), .after = "others", .more = known(s->others_bytes),
				.more_unit = FACT_BYTES, .more_before = NB));
}

static void grew(struct maker *m, const struct incident *s)
{
	if (!s->since_ns.known) {
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, "grew: ", "growth", FACT_WORDS, UNKNOWN,
				.begins_line = true,
				.words = s->has_history ? "no growth was seen before it"
							: "not known, without a recording"));
		return;
	}
	(void) add(m,
		FACT(FACTS_INCIDENT, FACT_INCIDENT, "grew: ", "grew", FACT_BYTES_PER_S,
			known((int64_t) s->growth_per_s), .begins_line = true));
	add_since(m, s->since_ns.value);
	add_known(m, FACT(FACTS_INCIDENT, FACT_INCIDENT, "from", "from", FACT_BYTES, s->from_bytes));
}

static void touched_then(struct maker *m, const struct incident *s)
{
	if (s->touched && facts_where_then(s->touched, m->list) < 0)
		m->error = -ENOMEM;
}

static void out_of_memory(struct maker *m, const struct incident *s)
{
	(void) add(m,
		FACT(FACTS_INCIDENT, FACT_INCIDENT, "at", "event after", FACT_NS, known((int64_t) s->at_ns),
			.words = out_of_memory_words(m->s)));
	killed(m, s);
	filled(m, s);
	touched_then(m, s);
	grew(m, s);
	if (s->advice)
		add_text(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, "try: ", "try", FACT_WORDS, UNKNOWN,
				.begins_line = true),
			"", s->advice);
}

static void incident(struct maker *m)
{
	const struct incident *s = &m->s->incident;

	if (!s->what)
		return;
	if (s->is_kill && s->memory && !s->on_gpu) {
		out_of_memory(m, s);
		return;
	}
	add_text(m,
		FACT(FACTS_INCIDENT, FACT_INCIDENT, "at", "event after", FACT_NS, known((int64_t) s->at_ns)),
		": ", s->what);
	if (s->memory && s->used.known) {
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, "used", "used at that time", FACT_BYTES, s->used,
				.begins_line = true));
		add_known(m, FACT(FACTS_INCIDENT, FACT_INCIDENT, "limit", "limit", FACT_BYTES, s->limit));
		if (!s->on_gpu)
			add_known(m,
				FACT(FACTS_INCIDENT, FACT_INCIDENT, "requested", "requested", FACT_BYTES,
					s->requested));
	}
	if (s->since_ns.known) {
		(void) add(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, s->on_gpu ? "GPU" NB "memory grew " : "RAM grew ",
				s->on_gpu ? "GPU memory grew" : "RAM grew", FACT_BYTES_PER_S,
				known((int64_t) s->growth_per_s), .begins_line = true));
		add_since(m, s->since_ns.value);
		add_known(m, FACT(FACTS_INCIDENT, FACT_INCIDENT, "from", "from", FACT_BYTES, s->from_bytes));
	}
	top_users(m, s);
	touched_then(m, s);
	if (s->advice)
		add_text(m,
			FACT(FACTS_INCIDENT, FACT_INCIDENT, "try: ", "try", FACT_WORDS, UNKNOWN,
				.begins_line = true),
			"", s->advice);
}

/* ---- now ----------------------------------------------------------------------------------------------------------------- */

static void gpu_now(struct maker *m, const struct birth *b)
{
	struct fact f = FACT(
		FACTS_NOW, FACT_GPU_NOW, NULL, NULL, FACT_BYTES, now_of(m->s, M_GPU_MEM, b->id), .gpu = b);
	enum metric lead;

	if (summary_gpu_lead(m->s, b->id, &lead)) {
		f.more = now_of(m->s, lead, b->id);
		f.more_unit = FACT_SHARE;
		f.more_before = lead == M_GPU_SM_ACTIVE ? " SM active "
				: lead == M_GPU_BUSY    ? " busy "
							: " engine active ";
	}
	(void) add(m, f);
}

static void now(struct maker *m)
{
	const struct maybe processes = now_of(m->s, M_JOB_PROCESSES, 0);
	struct fact cpu = cores(m->s);

	add_known(m,
		FACT(FACTS_NOW, FACT_RAM_NOW, "RAM", NULL, FACT_BYTES, now_of(m->s, M_JOB_RAM, 0),
			.more = m->s->combined.peak, .more_unit = FACT_BYTES, .more_before = " (peak ",
			.more_after = ")"));
	cpu.group = FACTS_NOW;
	cpu.key = FACT_CPU_NOW;
	cpu.label = "CPU";
	cpu.is_percent_hidden = true;
	add_known(m, cpu);
	for (size_t i = 0; m->s->job && i < job_gpu_count(m->s->job); i++) {
		if (figure_gpu_used(m->s, job_gpu(m->s->job, i)->birth.id))
			gpu_now(m, &job_gpu(m->s->job, i)->birth);
	}
	add_known(m, FACT(FACTS_NOW, FACT_PROCESSES_NOW, "", NULL, FACT_COUNT, processes,
			     .after = processes.value == 1 ? "process" : "processes"));
}

/* In the order of enum fact_group. */
static void (*const makers[])(
	struct maker *m) = { result, ram, touched, largest, ranks, gpus, work, traced, sampling, incident,
	now };

int facts_make(const struct summary *s, struct fact_list *ret)
{
	struct maker m = { .s = s, .list = ret };

	*ret = (struct fact_list) { 0 };
	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
		makers[i](&m);
	free(m.lost.text);
	free(m.lost.detail);
	if (m.error < 0)
		facts_done(ret);
	return m.error;
}

void facts_done(struct fact_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		free(list->facts[i].text);
		free(list->facts[i].detail);
	}
	free(list->facts);
	*list = (struct fact_list) { 0 };
}

const struct fact *facts_find(const struct fact_list *list, enum fact_key key, uint32_t gpu)
{
	for (size_t i = 0; i < list->n; i++) {
		if (list->facts[i].key == key &&
			(!gpu || (list->facts[i].gpu && list->facts[i].gpu->id == gpu)))
			return &list->facts[i];
	}
	return NULL;
}
