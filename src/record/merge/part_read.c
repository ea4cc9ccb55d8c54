/* SPDX-License-Identifier: MIT
 *
 * One recording as a part of a job: its identity and the figures of its summary.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "record/merge/merge_internal.h"
#include "summary/facts.h"
#include "summary/ranks.h"

/* A recording without a rank is of a node, of a launcher's agent, or of a program. */
static const char *kind_of(const struct facts *f)
{
	if (f->part && strcmp(f->part, "node") == 0)
		return "node";
	if (f->worker_ranks.known)
		return "tree"; /* the launcher's number is not that of a worker */
	return f->rank.known || (f->part && strcmp(f->part, "rank") == 0) ? "rank" : "tree";
}

static int set_texts(struct replay *r, const struct facts *f, const char *name, struct part *p)
{
	const char *slash = strrchr(name, '/');
	autofree char *boot = reader_meta_text(r, "boot_id");
	const struct {
		char **to;
		const char *text;
	} texts[] = {
		{ &p->id, f->id },
		{ &p->kind, kind_of(f) },
		{ &p->file, slash ? slash + 1 : name },
		{ &p->scheduler, f->scheduler },
		{ &p->job, f->scheduler_job },
		{ &p->cluster, f->cluster },
		{ &p->step, f->step },
		{ &p->node, f->node && *f->node ? f->node : f->host },
		{ &p->boot, boot },
		{ &p->name, f->name },
		{ &p->command, f->command },
		{ &p->user, f->user },
		{ &p->version, f->version },
		{ &p->allocated_gpus,
			f->allocated_gpus && !*f->allocated_gpus ? "none" : f->allocated_gpus },
	};
	int code = 0;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && code == 0; i++)
		code = part_set_text(texts[i].to, texts[i].text);
	return code;
}

/* A file that says it is of rank -5 or of 100,000,000 nodes is damaged, or was edited. */
static int check_numbers(struct replay *r, struct err *err)
{
	static const char *const names[] = { "rank", "ranks", "worker_ranks", "nodes", "node_rank" };
	int64_t n;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (reader_meta_int(r, names[i], &n) && (n < 0 || n > PARTS_MOST))
			return err_set(
				err, -EBADMSG, "its fact %s, %lld, is that of no job", names[i], (long long) n);
	}
	return 0;
}

static void set_identity(const struct facts *f, struct part *p)
{
	p->rank = f->worker_ranks.known ? UNKNOWN : f->rank;
	p->local_rank = f->local_rank;
	p->node_rank = f->node_rank;
	p->restart = f->restart;
	p->ranks = f->worker_ranks.known ? f->worker_ranks : f->ranks;
	p->nodes = f->nodes;
	p->srun_seen = f->srun_seen;
	p->started_wall_ns = f->started_wall_ns;
	p->started_boot_ns = f->started_boot_ns;
	p->cpus = f->cpus;
	p->node_cpus = f->node_cpus;
	p->capacity_bytes = f->capacity_bytes;
	p->limit_bytes = f->limit_bytes;
	p->request_bytes = f->request_bytes;
	p->request_cpus = f->request_cpus;
	p->request_time_ns = f->request_time_ns;
	p->request_gpus = f->request_gpus;
	p->interval_ns = f->interval_ns;
	p->window_ns = f->window_ns;
}

/* The mean time of a step, as the program logged it. */
static struct maybe step_time(const struct job *job)
{
	for (size_t i = 0; i < job_series_count(job); i++) {
		const struct series *s = job_series(job, i);
		const char *rest = series_time(s->name, SERIES_STEP);

		if (rest && !*rest && s->n > 0 && s->sum > 0)
			return known((int64_t) (s->sum / (double) s->n * 1e9));
	}
	return UNKNOWN;
}

static int set_figures(const struct summary *s, struct part *p)
{
	const struct ending end = ending_of(s);
	const struct ram_figure *ram = &s->combined;

	p->complete = known(s->complete);
	p->wall_ns = s->wall_ns;
	p->exit_code = end.code_known ? known(end.code) : UNKNOWN;
	p->exit_signal = end.outcome == OUTCOME_SIGNAL ? known(end.signal) : UNKNOWN;
	p->oom_killed = known(s->oom_killed);
	p->ram_low_bytes = ram->low;
	p->ram_peak_bytes = ram->peak;
	p->ram_high_bytes = ram->high;
	p->ram_at_ns = ram->at_ns;
	p->user_ns = s->user_ns;
	p->system_ns = s->system_ns;
	p->cpu_is_exact = known(s->cpu_exact);
	p->read_bytes = s->read_bytes;
	p->write_bytes = s->write_bytes.known ? maybe_max(s->write_bytes, known(0)) : UNKNOWN;
	p->processes = s->facts->processes_seen;
	p->peak_alive = s->peak_alive;
	p->step_ns = step_time(s->job);
	p->net_rx_bytes = summary_risen(s, M_HOST_NET_RX, 0);
	p->net_tx_bytes = summary_risen(s, M_HOST_NET_TX, 0);
	p->energy_uj = s->cpu_energy_uj;
	return part_set_text(&p->ram_method, ram->peak.known ? method_name(ram->method) : NULL);
}

/* How far the wall clock moved against CLOCK_BOOTTIME. */
static struct maybe clock_step(struct replay *r)
{
	int64_t ahead, behind;

	if (!reader_meta_int(r, "clock_ahead_ns", &ahead) ||
		!reader_meta_int(r, "clock_behind_ns", &behind) || ahead < 0 || behind < 0 ||
		ahead > INT64_MAX - behind)
		return UNKNOWN;
	return known(ahead + behind);
}

static int set_lists(const struct job *job, struct candidate *c)
{
	int code = 0;

	for (size_t i = 0; i < job_mark_count(job) && code == 0; i++)
		code = candidate_mark(c, job_mark(job, i)->time_ns, job_mark(job, i)->text);
	for (size_t i = 0; i < job_phase_count(job) && code == 0; i++)
		code = candidate_mark(c, job_phase(job, i)->begin_ns, job_phase(job, i)->name);
	for (size_t i = 0; i < job_gpu_count(job) && code == 0; i++) {
		const struct birth *b = &job_gpu(job, i)->birth;
		const struct acc *used = job_acc(job, M_GPU_JOB_MEM, b->id);

		code = candidate_gpu(c, b->id, b->gpu.uuid, used ? used->max : 0);
	}
	return code;
}

static int add_worker(struct merge *m, const struct candidate *of, const struct rank_use *rank)
{
	const struct part *p = &of->part;
	struct candidate *c = merge_add_candidate(m);
	char id[80];
	int code = 0;

	if (!c)
		return -ENOMEM;
	c->input = of->input;
	(void) snprintf(id, sizeof(id), "%.40s/%lld", p->id ? p->id : "", (long long) rank->rank);
	const struct {
		char **to;
		const char *text;
	} texts[] = {
		{ &c->part.id, id },
		{ &c->part.kind, "worker" },
		{ &c->part.file, p->file },
		{ &c->part.scheduler, p->scheduler },
		{ &c->part.job, p->job },
		{ &c->part.cluster, p->cluster },
		{ &c->part.node, p->node },
		{ &c->part.boot, p->boot },
		{ &c->part.version, p->version },
		{ &c->part.ram_method, rank->peak_bytes.known ? "sampled" : NULL },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && code == 0; i++)
		code = part_set_text(texts[i].to, texts[i].text);
	c->part.rank = known(rank->rank);
	c->part.ranks = p->ranks;
	c->part.restart = p->restart;
	c->part.node_rank = p->node_rank;
	c->part.started_wall_ns = p->started_wall_ns;
	c->part.started_boot_ns = p->started_boot_ns;
	c->part.wall_ns = p->wall_ns;
	c->part.complete = p->complete;
	c->part.running = p->running;
	c->part.has_recording = known(1);
	c->part.ram_low_bytes = c->part.ram_peak_bytes = rank->peak_bytes;
	if (rank->cpu_ns.known && !rank->is_cpu_partial) {
		c->part.user_ns = known(rank->user_ns);
		c->part.system_ns = known(rank->cpu_ns.value - rank->user_ns);
	}
	return code;
}

/* The ranks that a launcher started in it; where ranks have recordings of their own these count instead (merge_align.c). */
static int add_workers(struct merge *m, struct candidate *of, const struct job *job)
{
	struct rank_use *ranks = NULL;
	size_t n = 0;
	int code = ranks_of(job, &ranks, &n);

	of->has_workers = n > 0;
	for (size_t i = 0; i < n && code == 0; i++)
		code = add_worker(m, of, &ranks[i]);
	free(ranks);
	return code;
}

int part_read(struct merge *m, struct replay *r, const char *name, struct candidate *ret, struct err *err)
{
	struct job *job = NULL;
	struct summary summary = { 0 };
	int code = check_numbers(r, err);

	if (code == 0)
		code = replay_job(r, &job, err);
	if (code == 0)
		code = summary_make(job, &summary);
	if (code == 0) {
		code = set_texts(r, summary.facts, name, &ret->part);
		set_identity(summary.facts, &ret->part);
		ret->part.has_recording = known(1);
		ret->part.running = known(replay_growing(r));
		ret->part.clock_step_ns = clock_step(r);
		if (code == 0)
			code = set_figures(&summary, &ret->part);
		if (code == 0)
			code = set_lists(job, ret);
		part_limit(&ret->part);
		if (code == 0)
			code = add_workers(m, ret, job);
		summary_done(&summary);
	}
	job_free(job);
	return code;
}
