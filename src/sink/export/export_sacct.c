/* SPDX-License-Identifier: MIT
 *
 * sacct: a header and a line for the step, with the names and units of Slurm's "sacct -P", to be joined
 * with its output. What is unknown is empty.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sink/export/export_internal.h"
#include "sink/export/export_nodes.h"
#include "summary/facts.h"

static const char header[] =
	"JobID|State|ExitCode|Elapsed|NNodes|NTasks|AllocTRES|ReqMem|MaxRSS|MaxRSSNode|MaxRSSTask|AveRSS|TotalCPU|"
	"MaxDiskRead|MaxDiskWrite|ConsumedEnergy\n";

static void next(struct buf *out)
{
	(void) buf_str(out, "|");
}

/* "12", or nothing */
static void put_count(struct maybe n, struct buf *out)
{
	if (n.known)
		(void) buf_printf(out, "%lld", (long long) n.value);
}

/* The id of a job or the name of a node: without what separates columns and lines. */
static void put_name(const char *name, struct buf *out)
{
	for (; name && *name; name++)
		(void) buf_add(out, *name == '|' || (unsigned char) *name < ' ' ? "_" : name, 1);
}

static void put_state(const struct summary *s, const struct ending *end, struct buf *out)
{
	const char *state = s->lost ? "" : "RUNNING";

	if (end->outcome == OUTCOME_UNSEEN)
		state = "";
	else if (s->oom_killed && s->complete)
		state = "OUT_OF_MEMORY";
	else if (end->outcome != OUTCOME_UNFINISHED)
		state = end->outcome == OUTCOME_EXIT && end->code == 0 ? "COMPLETED" : "FAILED";
	(void) buf_str(out, state);
}

/* "CODE:SIGNAL" */
static void put_exit(const struct ending *end, struct buf *out)
{
	if (end->outcome == OUTCOME_SIGNAL)
		(void) buf_printf(out, "0:%d", end->signal);
	else if (end->code_known && (end->outcome == OUTCOME_EXIT || end->outcome == OUTCOME_LIMIT))
		(void) buf_printf(out, "%d:0", end->code);
}

/* "[D-]HH:MM:SS" */
static void put_elapsed(struct maybe ns, struct buf *out)
{
	const long long s = ns.value / 1000000000;

	if (!ns.known)
		return;
	if (s >= 86400)
		(void) buf_printf(out, "%lld-", s / 86400);
	(void) buf_printf(out, "%02lld:%02lld:%02lld", s / 3600 % 24, s / 60 % 60, s % 60);
}

/* "MM:SS.mmm" up to an hour, "[D-]HH:MM:SS" beyond */
static void put_cpu(struct maybe ns, struct buf *out)
{
	const long long ms = ns.value / 1000000, s = ms / 1000;

	if (s >= 3600)
		put_elapsed(ns, out);
	else if (ns.known)
		(void) buf_printf(out, "%02lld:%02lld.%03lld", s / 60, s % 60, ms % 1000);
}

/* "61440K": rounded up, as a limit must be */
static void put_kib(struct maybe bytes, struct buf *out)
{
	if (bytes.known)
		(void) buf_printf(out, "%lldK", (long long) (bytes.value / 1024 + (bytes.value % 1024 > 0)));
}

/* "300M" */
static void put_mib(struct maybe bytes, struct buf *out)
{
	if (bytes.known)
		(void) buf_printf(out, "%lldM", (long long) (bytes.value >> 20));
}

/* "0.02M" */
static void put_mib_read(struct maybe bytes, struct buf *out)
{
	if (bytes.known)
		(void) buf_printf(out, "%.2fM", (double) bytes.value / (1 << 20));
}

/* "cpu=2,mem=300M,node=1,gres/gpu=1" */
static void put_tres(const struct export_job *job, struct buf *out)
{
	const size_t before = out->len;

	if (job->request_cpus.known)
		(void) buf_printf(out, "cpu=%lld,", (long long) job->request_cpus.value);
	if (job->request_bytes.known)
		(void) buf_printf(out, "mem=%lldM,", (long long) (job->request_bytes.value >> 20));
	if (job->n_nodes.known)
		(void) buf_printf(out, "node=%lld,", (long long) job->n_nodes.value);
	if (job->request_gpus.known && job->request_gpus.value > 0)
		(void) buf_printf(out, "gres/gpu=%lld,", (long long) job->request_gpus.value);
	if (out->len > before)
		out->len--; /* the last comma */
}

/* ---- over tasks ------------------------------------------------------------------------------ */

/* Of a job of which tasks have no recording neither the largest nor a mean is known. */
static bool lacks_tasks(const struct export *e, const struct export_job *job)
{
	const struct job *of = e->o.summary->job;

	return of && job_parts(of) && job->n_tasks.known && (int64_t) job->n_measured < job->n_tasks.value;
}

static const struct export_task *largest(const struct export_job *job)
{
	const struct export_task *most = NULL;

	for (size_t i = 0; i < job->n_measured; i++) {
		const struct export_task *task = &job->tasks[i];

		if (task->peak_bytes.known && (!most || task->peak_bytes.value > most->peak_bytes.value))
			most = task;
	}
	return most;
}

/* sacct's AveRSS is the mean of the tasks' peaks. */
static struct maybe mean_peak(const struct export_job *job)
{
	int64_t sum = 0;
	int64_t n = 0;

	for (size_t i = 0; i < job->n_measured; i++) {
		const struct maybe peak = job->tasks[i].peak_bytes;

		if (peak.known && !__builtin_add_overflow(sum, peak.value, &sum))
			n++;
	}
	return n > 0 ? known(sum / n) : UNKNOWN;
}

static struct maybe most_of(const struct export_job *job, bool is_read)
{
	struct maybe most = UNKNOWN;

	for (size_t i = 0; i < job->n_measured; i++)
		most = maybe_max(most, is_read ? job->tasks[i].read_bytes : job->tasks[i].write_bytes);
	return most;
}

static void put_memory(const struct export *e, const struct export_job *job, struct buf *out)
{
	const bool lacks = lacks_tasks(e, job);
	const struct export_task *most = lacks ? NULL : largest(job);

	put_mib(job->request_bytes, out);
	next(out);
	put_kib(most ? most->peak_bytes : UNKNOWN, out);
	next(out);
	put_name(most ? export_private(e, job->nodes[most->node].name) : "", out);
	next(out);
	put_count(most ? most->rank : UNKNOWN, out);
	next(out);
	put_kib(lacks ? UNKNOWN : mean_peak(job), out);
	next(out);
}

/* Recordings have the job's number alone, sacct has a step of its own for it. */
static bool is_batch_script(const struct facts *f)
{
	return f->step && strcmp(f->step, "batch") == 0 && f->scheduler_job && !strchr(f->scheduler_job, '.');
}

static void put_line(struct export *e, const struct export_job *job)
{
	const struct summary *s = e->o.summary;
	const struct ending end = ending_of(s);
	struct buf *out = &e->out;

	put_name(s->facts->scheduler_job, out);
	if (is_batch_script(s->facts))
		(void) buf_str(out, ".batch");
	next(out);
	put_state(s, &end, out);
	next(out);
	put_exit(&end, out);
	next(out);
	put_elapsed(job->wall_ns, out);
	next(out);
	put_count(job->n_nodes, out);
	next(out);
	put_count(job->n_tasks, out);
	next(out);
	put_tres(job, out);
	next(out);
	put_memory(e, job, out);
	put_cpu(job->cpu_ns, out);
	next(out);
	put_mib_read(most_of(job, true), out);
	next(out);
	put_mib_read(most_of(job, false), out);
	next(out);
	if (job->energy_uj.known)
		(void) buf_printf(out, "%lld", (long long) (job->energy_uj.value / 1000000));
	(void) buf_str(out, "\n");
}

/* ---- the format ------------------------------------------------------------------------------ */

static int begin(struct export *e, struct err *err)
{
	return e->o.summary ? 0 : err_set(err, -EINVAL, "sacct needs a whole run");
}

static void see(struct export *e, const struct frame *frame)
{
	(void) e;
	(void) frame;
}

static void end(struct export *e)
{
	struct export_job job;
	const int r = export_job_read(e->o.summary, &job);

	(void) buf_str(&e->out, header);
	if (r == 0)
		put_line(e, &job);
	export_job_done(&job);
	if (e->error == 0)
		e->error = r;
}

const struct export_format export_sacct = {
	.name = "sacct",
	.default_table = EXPORT_ALL,
	.wanted = export_no_metrics,
	.begin = begin,
	.see = see,
	.end = end,
};
