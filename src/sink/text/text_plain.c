/* SPDX-License-Identifier: MIT
 *
 * One fact a line, as "label: value", for screen readers. Words instead of signs; nothing is
 * aligned.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/text/text.h"

/* One line, wrapped where it is longer than the terminal. */
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

static void first_line(struct text *t)
{
	uint64_t number;
	const char *command = t->f->command ? t->f->command : "unknown";
	struct buf title = BUF_INIT(1 << 16);

	buf_str(&title, "hiwater summary");
	if (figure_run(t->f, t->o, &number))
		buf_printf(&title, ", run %llu", (unsigned long long) number);
	if (t->f->name && *t->f->name) {
		buf_str(&title, ", ");
		if (!figure_is_block(t->f, &title))
			buf_str(&title, t->f->name);
	}
	fact(t, "%s, command %s", title.data, command);
	buf_done(&title);
}

/* ---- facts ------------------------------------------------------------------------------------------------------------- */

/* "RAM peak of python, process 5001", "GPU 0 memory peak of the job" */
void text_title(const struct text *t, const struct fact *f, struct buf *out)
{
	char name[UNITS_LEN];

	if (f->group == FACTS_GPU)
		buf_printf(out, "%s ", job_gpu_name(t->s->job, &f->gpu->gpu, name));
	buf_str(out, f->title);
	if (!f->process)
		return;
	buf_str(out, f->group == FACTS_INCIDENT ? " by " : " of ");
	text_name(t, f->process, out);
	buf_printf(out, ", process %d", (int) f->process->pid);
}

static void facts_of(struct text *t, enum fact_group first, enum fact_group last)
{
	for (size_t i = 0; i < t->facts.n; i++) {
		const struct fact *f = &t->facts.facts[i];
		struct buf title = BUF_INIT(4096), words = BUF_INIT(1 << 20);

		if (f->group < first || f->group > last || !f->title)
			continue;
		text_title(t, f, &title);
		fact_words(f, t->f, t->o, &words);
		fact(t, "%s: %s", title.data, words.data);
		if (words.error)
			t->l.out->error = words.error;
		buf_done(&title);
		buf_done(&words);
	}
}

static void used(struct text *t)
{
	facts_of(t, FACTS_RESULT, FACTS_WORK);
	for (size_t i = 0; i < t->lines.n; i++) {
		const struct job_line *line = &t->lines.line[i];

		for (size_t k = 0; k < line->n; k++)
			fact(t, "%s%s%s", line->label, *line->label ? ": " : "", line->part[k]);
	}
}

static void sampling(struct text *t)
{
	facts_of(t, FACTS_SAMPLING, FACTS_SAMPLING);
}

/* ---- lists ------------------------------------------------------------------------------------------------------------- */

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
		fact(t, "%s: RAM of the main process before: %s", title,
			units_bytes(p->ram_before, t->o->units, text));
		fact(t, "%s: RAM peak of the main process: %s%s", title, p->peak_exact ? "" : "at least ",
			units_bytes(p->ram_peak, t->o->units, text));
	}
	if (p->ram_known && p->end_ns)
		fact(t, "%s: RAM of the main process after: %s", title,
			units_bytes(p->ram_after, t->o->units, text));
	const struct maybe gpu_peak = job_phase_gpu_peak(t->s->job, p);

	if (gpu_peak.known)
		fact(t, "%s: GPU memory peak of the job: %s", title,
			units_bytes(gpu_peak.value, t->o->units, text));
	if (p->use.cpu_energy_uj.known)
		fact(t, "%s: about %s joules of the CPUs", title,
			units_number((double) p->use.cpu_energy_uj.value / 1e6, text));
	if (p->use.gpu_energy_uj.known)
		fact(t, "%s: about %s joules of the GPUs", title,
			units_number((double) p->use.gpu_energy_uj.value / 1e6, text));
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

		fact(t, "series %s: first %s, last %s, lowest %s, highest %s, %llu value%s", v->name,
			text_series_value(t, v, v->first, first), text_series_value(t, v, v->last, last),
			text_series_value(t, v, v->min, low), text_series_value(t, v, v->max, high),
			(unsigned long long) v->n, v->n == 1 ? "" : "s");
	}
	if (n > SERIES_SHOWN)
		fact(t, "%zu more series: hiwater show --json lists all", n - SERIES_SHOWN);
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
		fact(t, "marks: %zu, of which the last %zu follow", before + shown, shown);
	for (size_t i = 0; i < shown; i++)
		mark(t, text_mark_of(t, shown, i));
}

static void notes(struct text *t)
{
	for (size_t i = 0; i < t->s->n_notes; i++) {
		if (text_shows_note(t, &t->s->notes[i]))
			fact(t, "note on %s: %s", t->s->notes[i].about, t->s->notes[i].why);
	}
}

/* A message is one line, its ready-made line another; "%" becomes "percent". */
static void message(struct text *t, const char *head, const char *text)
{
	const size_t n = strcspn(text, "\n");
	struct buf words = BUF_INIT(1 << 16);

	for (size_t i = 0; i < n; i++)
		buf_str(&words,
			text[i] == '%' && i > 0 && text[i - 1] == ' ' ? "percent"
								      : (char[]) { text[i], '\0' });
	fact(t, "%s: %s", head, words.data);
	if (text[n] == '\n')
		fact(t, "ready line: %s", text + n + 1);
	buf_done(&words);
}

static void request(struct text *t)
{
	const struct request *r = &t->s->request;
	struct buf line = BUF_INIT(4096), basis = BUF_INIT(1 << 16);

	if (!r->made)
		return;
	request_line(r, &line);
	request_basis(r, t->o->units, &basis);
	if (r->why_not[0]) {
		message(t, "request: not known", r->why_not);
	} else {
		fact(t, "request: %s", line.data);
		message(t, "request based on", basis.data);
	}
	buf_done(&line);
	buf_done(&basis);
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
		fact(t, "findings: %s", text_no_findings(t->s));
	for (int i = 0; i < n; i++) {
		char head[128];

		if (list[i]->fired)
			(void) snprintf(head, sizeof(head), "%s %d of %d, %s", words[list[i]->severity], ++at,
				fired, list[i]->code);
		else
			(void) snprintf(head, sizeof(head), "passed or not applicable, %s", list[i]->code);
		message(t, head, list[i]->fired ? list[i]->message : list[i]->why_not);
	}
	free(list);
}

static void incident(struct text *t)
{
	facts_of(t, FACTS_INCIDENT, FACTS_INCIDENT);
}

static void show_again(struct text *t)
{
	uint64_t number;

	if (t->f->recording && figure_run(t->f, t->o, &number))
		fact(t, "show again: hiwater show %llu", (unsigned long long) number);
	if (t->f->recording)
		fact(t, "recording: %s", t->f->recording);
}

static void (*const parts[])(struct text *t) = {
	first_line,
	used,
	phases,
	series,
	marks,
	sampling,
	notes,
	incident,
	request,
	findings,
	show_again,
};

void text_plain(struct text *t)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		parts[i](t);
}
