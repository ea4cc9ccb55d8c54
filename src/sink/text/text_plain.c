/* SPDX-License-Identifier: MIT
 *
 * One fact a line, as "label: value", for those who hear it read. Words instead of signs; nothing is aligned.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/text/text.h"
#include "base/textwidth.h"

/* One line; where it must be broken, it goes on two columns to the right. */
static void fact(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fact(struct text *t, const char *format, ...)
{
	struct buf text = BUF_INIT(1 << 20), clean = BUF_INIT(1 << 20);
	va_list ap;

	va_start(ap, format);
	buf_vprintf(&text, format, ap);
	va_end(ap);
	for (char *p = strchr(text.data, NB[0]); p; p = strchr(p, NB[0]))
		*p = ' ';
	text_clean(text.data, t->o->utf8, &clean);
	layout_row(&t->l, TONE_NONE, "", 0);
	t->l.indent = 0;
	layout_words(&t->l, clean.data);
	layout_end(&t->l);
	if (text.error || clean.error)
		t->l.out->error = text.error ? text.error : clean.error;
	buf_done(&text);
	buf_done(&clean);
}

/* "88 %" becomes "88 percent". */
static const char *percent(int64_t part, int64_t whole, char buf[UNITS_LEN])
{
	size_t len = strlen(units_percent(part, whole, buf));

	if (len > 0)
		buf[len - 2] = '\0';
	return buf;
}

static void first_line(struct text *t)
{
	uint64_t number;
	const char *command = t->f->command ? t->f->command : "unknown";

	if (figure_run(t->f, t->o, &number))
		fact(t, "hiwater summary, run %llu, command %s", (unsigned long long) number, command);
	else
		fact(t, "hiwater summary, command %s", command);
}

static void result(struct text *t)
{
	const struct ending end = ending_of(t->s);
	const bool attached = t->f->mode && strcmp(t->f->mode, "attach") == 0;
	char name[UNITS_LEN];

	const char *how = attached ? ", by its exit record" : "";

	switch (end.outcome) {
	case OUTCOME_EXIT:
		fact(t, "result: exit code %d%s", end.code, how);
		break;
	case OUTCOME_SIGNAL:
		fact(t, "result: killed by signal %d, %s, exit code %d%s", end.signal, figure_signal(end.signal, name), end.code, how);
		break;
	case OUTCOME_LIMIT:
		fact(t, "result: ended by --limit, exit code %d", end.code);
		break;
	case OUTCOME_UNSEEN:
		fact(t, "result: exit status not seen%s", attached ? ", hiwater was attached to a running process" : "");
		break;
	case OUTCOME_UNFINISHED:
		if (t->f->recording_stopped)
			fact(t, "result: no end, the recording stopped: %s", t->f->recording_stopped);
		else if (t->s->elsewhere)
			fact(t, "result: no end, it still runs on %s or the recorder was lost", t->f->host);
		else
			fact(t, "result: %s", t->s->lost ? "no end, the recorder was lost" : "still running");
		break;
	}
}

static void times(struct text *t)
{
	const struct maybe cpu = maybe_sum(t->s->user_ns, t->s->system_ns);
	const bool attached = t->f->mode && strcmp(t->f->mode, "attach") == 0;
	char words[UNITS_LEN * 2];

	if (t->s->wall_ns.known)
		fact(t, "%s: %s", attached ? "watched for" : "wall time", units_words(t->s->wall_ns.value, words));
	if (figure_outlived(t->s))
		fact(t, "the main process ended at: %s", units_words(t->s->main_wall_ns.value, words));
	if (cpu.known)
		fact(t, "CPU time: %s%s%s", t->s->cpu_exact || attached ? "" : "at least ",
			units_words(cpu.value, words), attached ? ", sampled from the moment of attaching" : "");
	if (t->f->processes_seen.known)
		fact(t, "processes: %s%lld", t->s->seen_at_least ? "at least " : "", (long long) t->f->processes_seen.value);
}

static void ram_of(struct text *t, const char *name, const struct ram_figure *r)
{
	struct buf how = BUF_INIT(4096);
	char text[UNITS_LEN];

	figure_method(r, t->f, t->o, &how);
	if (r->peak.known)
		fact(t, "%s: %s, %s", name, units_bytes(r->peak.value, t->o->units, text), how.data);
	buf_done(&how);
}

/* What all had to themselves at their peak, and what several of them shared. */
static void private_and_shared(struct text *t)
{
	const struct ram_figure *all = &t->s->combined;
	char private[UNITS_LEN], shared[UNITS_LEN];

	if (all->private_bytes.known && all->shared_bytes.known)
		fact(t, "RAM at its peak: private %s, shared %s", units_bytes(all->private_bytes.value, t->o->units, private),
			units_bytes(all->shared_bytes.value, t->o->units, shared));
}

static void ram(struct text *t)
{
	const struct ram_figure *all = &t->s->combined;
	const struct ceiling top = ceiling_of(t->s);
	char text[UNITS_LEN], of[UNITS_LEN], words[UNITS_LEN * 2], rate[UNITS_LEN * 2];
	struct buf how = BUF_INIT(4096);

	figure_method(all, t->f, t->o, &how);
	if (!all->peak.known)
		fact(t, "RAM peak: not measured");
	else if (!top.bytes.known)
		ram_of(t, "RAM peak", all);
	else
		fact(t, "RAM peak: %s, %s percent of the %s %s, %s", units_bytes(all->peak.value, t->o->units, text),
			percent(all->peak.value, top.bytes.value, words), units_bytes(top.bytes.value, t->o->units, of),
			top.words, how.data);
	buf_done(&how);
	if (all->at_ns.known)
		fact(t, "RAM peak came after: %s", units_words(all->at_ns.value, words));
	if (all->mean.known)
		fact(t, "RAM mean: %s", units_bytes(all->mean.value, t->o->units, text));
	if (t->s->descendants.peak.known && t->s->descendants.peak.value > 0) {
		ram_of(t, "RAM peak of the main process", &t->s->main);
		ram_of(t, "RAM peak of the descendants", &t->s->descendants);
		private_and_shared(t);
	}
	if (t->s->swap_peak.known && t->s->swap_peak.value > 0)
		fact(t, "swap peak: %s", units_bytes(t->s->swap_peak.value, t->o->units, text));
	if (t->s->hugetlb_peak.known && t->s->hugetlb_peak.value > 0)
		fact(t, "huge pages peak: %s%s", t->s->hugetlb_at_most ? "at most " : "", units_bytes(t->s->hugetlb_peak.value, t->o->units, text));
	if (t->s->cgroup_peak.known && t->s->cgroup_peak.value > 0)
		fact(t, "cgroup peak, page cache included: %s%s", units_bytes(t->s->cgroup_peak.value, t->o->units, text),
			figure_sampled(t->s->cgroup_method, t->f, rate));
}

static void largest(struct text *t)
{
	const struct process **list;
	size_t n;

	if (text_largest_of(t, &list, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		struct buf name = BUF_INIT(256);
		char amount[UNITS_LEN];

		text_name(t, list[i], &name);
		fact(t, "RAM peak of %s, process %d: %s%s", name.data, (int) list[i]->pid, list[i]->peak_exact ? "" : "at least ",
			units_bytes(list[i]->peak_bytes, t->o->units, amount));
		buf_done(&name);
	}
	free(list);
}

static void work(struct text *t)
{
	const struct maybe cores = figure_cores(t->f);
	const struct maybe held = figure_risen(t->s, M_JOB_CGROUP_THROTTLED);
	char text[UNITS_LEN], of[UNITS_LEN], part[UNITS_LEN], words[UNITS_LEN * 2];

	if (t->s->cores_mean_ppm.known && cores.known)
		fact(t, "CPU: %s of %s cores, %s percent", figure_number((double) t->s->cores_mean_ppm.value / 1e6, text),
			figure_core_count(cores.value, of),
			percent(t->s->cores_mean_ppm.value, cores.value, part));
	if (held.known && held.value >= 1000000)
		fact(t, "CPU throttled for: %s", units_words(held.value, words));
	if (t->s->read_bytes.known && t->s->read_bytes.value > 0)
		fact(t, "read: %s", units_bytes(t->s->read_bytes.value, t->o->units, text));
	if (t->s->write_bytes.known && t->s->write_bytes.value > 0)
		fact(t, "written: %s", units_bytes(t->s->write_bytes.value, t->o->units, text));
	if (t->s->cpu_energy_uj.known)
		fact(t, "energy: %s joules, whole processor package", figure_number((double) t->s->cpu_energy_uj.value / 1e6, text));
	if (t->s->gpu_energy_uj.known)
		fact(t, "energy of the GPUs: %s joules, whoever used them",
			figure_number((double) t->s->gpu_energy_uj.value / 1e6, text));
}

static void sampling(struct text *t)
{
	const struct facts *f = t->f;
	char text[UNITS_LEN], words[UNITS_LEN * 2];

	if (f->ticks.known)
		fact(t, "sampling: %lld ticks, %s, %lld late", (long long) f->ticks.value, figure_rate(f, text),
			(long long) f->late_ticks.value);
	if (f->longest_gap_ns.known)
		fact(t, "longest gap: %s", units_words(f->longest_gap_ns.value, words));
	if (f->own_cpu_ns.known && f->own_rss_bytes.known)
		fact(t, "hiwater itself used: %s CPU, %s", units_words(f->own_cpu_ns.value, words),
			units_bytes(f->own_rss_bytes.value, t->o->units, text));
}

/* "phase 2 of 3, train in epoch 1". */
static void phase_title(const struct job *job, size_t i, struct buf *out)
{
	const struct phase *p = job_phase(job, i), *parent = job_phase_parent(job, p);

	buf_printf(out, "phase %zu of %zu, ", i + 1, job_phase_count(job));
	figure_phase(p, true, out);
	if (parent) {
		buf_str(out, " in ");
		figure_phase(parent, false, out);
	}
}

static void phase(struct text *t, const struct phase *p, const char *title)
{
	const uint64_t end = p->end_ns ? p->end_ns : job_now(t->s->job);
	char words[UNITS_LEN * 2], text[UNITS_LEN];

	fact(t, "%s: %s", title, units_words((int64_t) (end - p->begin_ns), words));
	if (p->ram_known) {
		fact(t, "%s: RAM of the main process before: %s", title, units_bytes(p->ram_before, t->o->units, text));
		fact(t, "%s: RAM peak of the main process: %s%s", title, p->peak_exact ? "" : "at least ",
			units_bytes(p->ram_peak, t->o->units, text));
	}
	if (p->ram_known && p->end_ns)
		fact(t, "%s: RAM of the main process after: %s", title, units_bytes(p->ram_after, t->o->units, text));
	if (p->use.gpu_peak.known)
		fact(t, "%s: GPU memory peak of the job: %s", title, units_bytes(p->use.gpu_peak.value, t->o->units, text));
	if (p->use.cpu_energy_uj.known)
		fact(t, "%s: about %s joules of the processors", title, figure_number((double) p->use.cpu_energy_uj.value / 1e6, text));
	if (p->use.gpu_energy_uj.known)
		fact(t, "%s: about %s joules of the GPUs", title, figure_number((double) p->use.gpu_energy_uj.value / 1e6, text));
}

static void phases(struct text *t)
{
	for (size_t i = 0; t->s->job && i < job_phase_count(t->s->job) && i < PHASES_SHOWN; i++) {
		struct buf title = BUF_INIT(1 << 16);

		phase_title(t->s->job, i, &title);
		phase(t, job_phase(t->s->job, i), title.data);
		buf_done(&title);
	}
}

static void series(struct text *t)
{
	const struct series *list[SERIES_SHOWN];
	const size_t n = text_series_of(t, list);

	for (size_t i = 0; i < n && i < SERIES_SHOWN; i++) {
		const struct series *v = list[i];
		char first[UNITS_LEN * 2], last[UNITS_LEN * 2], low[UNITS_LEN * 2], high[UNITS_LEN * 2];

		fact(t, "series %s: first %s, last %s, lowest %s, highest %s, %llu value%s", v->name, text_series_value(t, v, v->first, first),
			text_series_value(t, v, v->last, last), text_series_value(t, v, v->min, low), text_series_value(t, v, v->max, high),
			(unsigned long long) v->n, v->n == 1 ? "" : "s");
	}
	if (n > SERIES_SHOWN)
		fact(t, "and %zu more series, show with --json has all", n - SERIES_SHOWN);
}

static void mark(struct text *t, const struct mark *mark)
{
	struct buf text = BUF_INIT(1 << 16);
	char words[UNITS_LEN * 2];

	text_mark(t, mark, &text);
	fact(t, "mark after %s: %s", units_words((int64_t) mark->time_ns, words), text.data);
	if (text.error)
		t->l.out->error = text.error;
	buf_done(&text);
}

static void marks(struct text *t)
{
	size_t before;
	const size_t shown = text_marks_shown(t, &before);

	if (before > 0)
		fact(t, "marks: %zu, the last %zu follow", before + shown, shown);
	for (size_t i = 0; i < shown; i++)
		mark(t, text_mark_of(t, shown, i));
}

static void notes(struct text *t)
{
	for (size_t i = 0; i < t->s->n_notes; i++) {
		if (strcmp(t->s->notes[i].about, "gpu") != 0 || t->s->notes[i].happened || figure_has_gpus(t->s))
			fact(t, "note on %s: %s", t->s->notes[i].about, t->s->notes[i].why);
	}
}

/* A message is one line and the ready line behind it another; signs are words. */
static void message(struct text *t, const char *head, const char *text)
{
	const size_t n = strcspn(text, "\n");
	struct buf words = BUF_INIT(1 << 16);

	for (size_t i = 0; i < n; i++)
		buf_str(&words, text[i] == '%' && i > 0 && text[i - 1] == ' ' ? "percent" : (char[]) { text[i], '\0' });
	fact(t, "%s: %s", head, words.data);
	if (text[n] == '\n')
		fact(t, "ready line: %s", text + n + 1);
	buf_done(&words);
}

static void findings(struct text *t)
{
	static const char *const words[] = {
		[SEVERITY_HINT] = "hint",
		[SEVERITY_WARN] = "warning",
		[SEVERITY_ERROR] = "error",
	};
	const struct finding **list = NULL;
	int n = text_ordered(t, &list), fired = 0, at = 0;

	if (n < 0) {
		t->l.out->error = n;
		return;
	}
	for (int i = 0; i < n; i++)
		fired += list[i]->fired;
	if (fired == 0)
		fact(t, t->s->combined.peak.known ? "findings: OK" : "findings: none, too little is known");
	for (int i = 0; i < n; i++) {
		char head[128];

		if (list[i]->fired)
			(void) snprintf(head, sizeof(head), "%s %d of %d, %s", words[list[i]->severity], ++at, fired, list[i]->code);
		else
			(void) snprintf(head, sizeof(head), "not fired, %s", list[i]->code);
		message(t, head, list[i]->fired ? list[i]->message : list[i]->why_not);
	}
	free(list);
}

static void story(struct text *t)
{
	const struct story *story = &t->s->story;
	const char *memory = story->on_gpu ? "GPU memory" : "RAM";
	char time[UNITS_LEN * 2], number[UNITS_LEN];

	if (!story->what)
		return;
	fact(t, "what happened, after %s: %s", units_words((int64_t) story->at_ns, time), story->what);
	if (story->memory && story->held.known)
		fact(t, "held then: %s", units_bytes(story->held.value, t->o->units, number));
	if (story->since_ns.known)
		fact(t, "%s grew %s a second, since %s after the start", memory,
			units_bytes((int64_t) story->growth_per_s, t->o->units, number), units_words(story->since_ns.value, time));
	for (size_t i = 0; i < story->n_holders; i++)
		fact(t, "%s then, %s, process %d%s: %s", memory, story->holders[i].process->name, story->holders[i].process->pid,
			story->holders[i].killed ? ", killed" : "", units_bytes(story->holders[i].bytes, t->o->units, number));
	if (story->foreign.known && story->foreign.value > 0)
		fact(t, "%s of others at the most: %s", memory, units_bytes(story->foreign.value, t->o->units, number));
	fact(t, "try: %s", story->advice);
}

static void again(struct text *t)
{
	uint64_t number;

	if (t->f->recording && figure_run(t->f, t->o, &number))
		fact(t, "again: hiwater show %llu", (unsigned long long) number);
	if (t->f->recording)
		fact(t, "recording: %s", t->f->recording);
}

static void gpu_fact(struct text *t, const char *text)
{
	fact(t, "%s", text);
}

static void gpus(struct text *t)
{
	text_plain_gpus(t, gpu_fact);
}

static void (*const facts[])(struct text *t) = {
	first_line,
	result,
	times,
	ram,
	largest,
	gpus,
	work,
	phases,
	series,
	marks,
	sampling,
	notes,
	story,
	findings,
	again,
};

void text_plain(struct text *t)
{
	for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++)
		facts[i](t);
}
