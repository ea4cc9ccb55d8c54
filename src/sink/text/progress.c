/* SPDX-License-Identifier: MIT
 *
 * SINK_PROGRESS: one line about the present, "hiwater 76 s  RAM 1.20 GiB (peak 1.31)  CPU 1.90 of 2
 * cores  3 processes". Where the line has no room for the job's GPUs, the peak and the number of
 * cores make room for them; further parts that do not fit are left out.
 */
#include "sink/text/text.h"

#include <string.h>

#include "base/textwidth.h"

/* Appends a part if it fits the line. */
static bool part(struct buf *out, const struct sink_options *o, const char *text)
{
	if (text_width(out->data) + 2 + text_width(text) > o->width)
		return false;
	buf_str(out, "  ");
	buf_str(out, text);
	return true;
}

/* Cores in use since the previous line, or the mean so far for the first line. Unknown without a
 * time span. */
static struct maybe current_cores(const struct summary *s, const struct sink_options *o)
{
	const struct maybe cpu = maybe_sum(s->user_ns, s->system_ns);
	struct sink_progress *last = o->progress;
	struct maybe current = s->cores_mean_ppm;

	if (!last || !cpu.known || !s->wall_ns.known)
		return current;
	if (last->known && s->wall_ns.value > last->time_ns) {
		const double rise = cpu.value > last->cpu_ns ? (double) (cpu.value - last->cpu_ns) : 0;

		current = known((int64_t) (rise * 1e6 / (double) (s->wall_ns.value - last->time_ns)));
	}
	*last = (struct sink_progress) { .time_ns = s->wall_ns.value, .cpu_ns = cpu.value, .known = true };
	return current;
}

/* False: the line has no room for it. */
static bool fact_part(
	const struct summary *s, const struct sink_options *o, struct fact fact, bool terse, struct buf *out)
{
	char name[UNITS_LEN] = "";
	struct buf words = BUF_INIT(4096), text = BUF_INIT(4096);
	bool fits;

	if (terse && fact.key != FACT_GPU_NOW)
		fact.of = fact.more = UNKNOWN;
	fact_words(&fact, s->facts, o, &words);
	buf_str(&text, fact.gpu ? job_gpu_name(s->job, &fact.gpu->gpu, name) : fact.label);
	buf_printf(
		&text, "%s%s", text.len > 0 && words.len > 0 && words.data[0] != ' ' ? " " : "", words.data);
	for (char *p = strchr(text.data, NB[0]); p; p = strchr(p, NB[0]))
		*p = ' ';
	fits = part(out, o, text.data);
	buf_done(&words);
	buf_done(&text);
	return fits;
}

/* False: the line has no room for the job's GPUs. */
static bool compose(const struct summary *s, const struct fact_list *facts, const struct sink_options *o,
	struct maybe cores, bool terse, struct buf *line)
{
	char time[UNITS_LEN];
	bool whole = true;

	buf_str(line, "hiwater");
	if (s->wall_ns.known)
		buf_printf(line, " %s", units_duration(s->wall_ns.value, time));
	for (size_t i = 0; i < facts->n; i++) {
		struct fact fact = facts->facts[i];

		if (fact.group != FACTS_NOW)
			continue;
		if (fact.key == FACT_CPU_NOW)
			fact.value = cores;
		whole &= fact_part(s, o, fact, terse, line) || fact.key != FACT_GPU_NOW;
	}
	return whole;
}

int progress_sink(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	const struct maybe cores = current_cores(s, o);
	struct buf line = BUF_INIT(4096);
	struct fact_list facts;
	int code = facts_make(s, &facts);

	if (code < 0)
		return code;
	if (!compose(s, &facts, o, cores, false, &line)) {
		buf_clear(&line);
		(void) compose(s, &facts, o, cores, true, &line);
	}
	code = line.error ? line.error : buf_printf(out, "%s\n", line.data);
	buf_done(&line);
	facts_done(&facts);
	return code;
}
