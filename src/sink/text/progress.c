/* SPDX-License-Identifier: MIT
 *
 * SINK_PROGRESS: one line about the present, "hiwater 0:01:40  RAM 1.20 GiB (peak 1.31)  CPU 1.90 of 2 cores  3
 * processes". Where the line is too narrow for the job's GPUs, the peak and the number of cores give way to them; what it
 * does not hold even then is left out.
 */
#include "sink/text/progress.h"

#include "sink/figures.h"
#include "base/textwidth.h"

/* Adds a part if the line still holds it. */
static bool part(struct buf *out, const struct sink_options *o, const char *text)
{
	if (text_width(out->data) + 2 + text_width(text) > o->width)
		return false;
	buf_str(out, "  ");
	buf_str(out, text);
	return true;
}

static void ram(const struct summary *s, const struct sink_options *o, bool terse, struct buf *out)
{
	const struct acc *now = s->job ? job_acc(s->job, M_JOB_RAM, 0) : NULL;
	char amount[UNITS_LEN], peak[UNITS_LEN];
	struct buf text = BUF_INIT(256);

	if (!now || now->n == 0)
		return;
	buf_printf(&text, "RAM %s", units_bytes(now->last, o->units, amount));
	if (s->combined.peak.known && !terse)
		buf_printf(&text, " (peak %s)", units_bytes_like(s->combined.peak.value, now->last, o->units, peak));
	(void) part(out, o, text.data);
	buf_done(&text);
}

/* Cores in use since the line before; the mean so far where there was none. Unknown without a span of time. */
static struct maybe cores_lately(const struct summary *s, const struct sink_options *o)
{
	const struct maybe cpu = maybe_sum(s->user_ns, s->system_ns);
	struct sink_progress *last = o->progress;
	struct maybe lately = s->cores_mean_ppm;

	if (!last || !cpu.known || !s->wall_ns.known)
		return lately;
	if (last->known && s->wall_ns.value > last->time_ns) {
		const double rise = cpu.value > last->cpu_ns ? (double) (cpu.value - last->cpu_ns) : 0;

		lately = known((int64_t) (rise * 1e6 / (double) (s->wall_ns.value - last->time_ns)));
	}
	*last = (struct sink_progress) { .time_ns = s->wall_ns.value, .cpu_ns = cpu.value, .known = true };
	return lately;
}

static void cpu(const struct summary *s, const struct sink_options *o, struct maybe used, bool terse, struct buf *out)
{
	const struct maybe all = figure_cores(s->facts);
	char number[UNITS_LEN], of[UNITS_LEN];
	struct buf text = BUF_INIT(256);

	if (!used.known)
		return;
	buf_printf(&text, "CPU %s", figure_number((double) used.value / 1e6, number));
	if (all.known && !terse)
		buf_printf(&text, " of %s", figure_core_count(all.value, of));
	if (!terse)
		buf_str(&text, all.known && all.value == 1000000 ? " core" : " cores");
	(void) part(out, o, text.data);
	buf_done(&text);
}

static void processes(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	const struct acc *now = s->job ? job_acc(s->job, M_JOB_PROCESSES, 0) : NULL;
	struct buf text = BUF_INIT(256);

	if (!now || now->n == 0)
		return;
	buf_printf(&text, "%lld process%s", (long long) now->last, now->last == 1 ? "" : "es");
	(void) part(out, o, text.data);
	buf_done(&text);
}

/* Of each that the job is on: what is in use, and how busy it is. False: the line does not hold them all. */
static bool gpus(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	bool whole = true;

	for (size_t i = 0; s->job && i < job_gpu_count(s->job); i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;
		const struct acc *mem = job_acc(s->job, M_GPU_MEM, b->id), *work;
		char name[UNITS_LEN], amount[UNITS_LEN];
		struct buf text = BUF_INIT(256);
		enum metric lead;

		buf_printf(&text, "%s", job_gpu_name(s->job, &b->gpu, name));
		if (mem)
			buf_printf(&text, " %s", units_bytes(mem->last, o->units, amount));
		if (summary_gpu_lead(s, b->id, &lead) && (work = job_acc(s->job, lead, b->id)))
			buf_printf(&text, " %s %lld %%", figure_gpu_lead(lead), (long long) (work->last + 5000) / 10000);
		if (figure_gpu_used(s, b->id))
			whole &= part(out, o, text.data);
		buf_done(&text);
	}
	return whole;
}

/* False: it does not hold the job's GPUs. */
static bool compose(const struct summary *s, const struct sink_options *o, struct maybe cores, bool terse, struct buf *line)
{
	char time[UNITS_LEN];
	bool whole;

	buf_str(line, "hiwater");
	if (s->wall_ns.known)
		buf_printf(line, " %s", units_duration(s->wall_ns.value, time));
	ram(s, o, terse, line);
	cpu(s, o, cores, terse, line);
	whole = gpus(s, o, line);
	processes(s, o, line);
	return whole;
}

int progress_sink(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	const struct maybe cores = cores_lately(s, o);
	struct buf line = BUF_INIT(4096);
	int code;

	if (!compose(s, o, cores, false, &line)) {
		buf_clear(&line);
		(void) compose(s, o, cores, true, &line);
	}
	code = line.error ? line.error : buf_printf(out, "%s\n", line.data);
	buf_done(&line);
	return code;
}
