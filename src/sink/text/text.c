/* SPDX-License-Identifier: MIT */
#include "sink/text/text.h"

#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"

/* ---- the rule at the top ------------------------------------------------------------------------------------------- */

static void rule(struct text *t, unsigned columns)
{
	for (unsigned i = 0; i < columns; i++)
		layout_more(&t->l, TONE_NONE, t->l.utf8 ? "\xE2\x94\x80" : "-");
}

/* " 2026-11-21 05:35  run 17 "; without the date where there is little room. */
static void header_right(const struct text *t, struct buf *out)
{
	char date[UNITS_LEN];
	uint64_t number;

	if (t->f->started_wall_ns.known && t->o->width >= (t->lines.n > 0 ? 110 : 60))
		buf_printf(out, " %.16s ", units_date((uint64_t) t->f->started_wall_ns.value, date));
	if (figure_run(t->f, t->o, &number))
		buf_printf(out, " run %llu ", (unsigned long long) number);
	if (t->lines.n > 0 && t->o->width >= 60) {
		buf_str(out, " ");
		job_size_words(t->s, out);
		buf_str(out, " ");
	}
}

static void header(struct text *t)
{
	struct buf clean = BUF_INIT(1 << 20), command = BUF_INIT(1 << 20), right = BUF_INIT(256),
		   headline = BUF_INIT(1 << 20);
	const unsigned fixed = 3 + 10 + 1 + 3 + 3; /* rule, "hiwater", blank, rule, rule */

	header_right(t, &right);
	figure_headline(t->f, &headline);
	text_clean(headline.data, t->o->utf8, &clean);
	text_shorten(clean.data, t->o->width - fixed - text_width(right.data), t->o->utf8, &command);
	layout_row(&t->l, TONE_NONE, "", 0);
	rule(t, 3);
	layout_more(&t->l, TONE_NONE, " ");
	layout_more(&t->l, TONE_LABEL, "hiwater");
	layout_more(&t->l, TONE_NONE, "  ");
	layout_more(&t->l, TONE_NONE, command.data);
	layout_more(&t->l, TONE_NONE, " ");
	rule(t, t->o->width - t->l.column - text_width(right.data) - 3);
	layout_more(&t->l, TONE_NONE, right.data);
	rule(t, t->o->width - t->l.column);
	layout_end(&t->l);
	if (clean.error || command.error)
		t->l.out->error = clean.error ? clean.error : command.error;
	buf_done(&headline);
	buf_done(&clean);
	buf_done(&command);
	buf_done(&right);
}

/* ---- rows of facts --------------------------------------------------------------------------------------------------- */

static const char *const row_labels[] = {
	[FACTS_RESULT] = "Result",
	[FACTS_RAM] = "RAM",
	[FACTS_WHERE] = "Touched",
	[FACTS_LARGEST] = "Largest",
	[FACTS_RANKS] = "Ranks",
	[FACTS_UNUSED_GPUS] = "GPUs",
	[FACTS_CPU] = "CPU",
	[FACTS_IO] = "I/O",
	[FACTS_ENERGY] = "Energy",
	[FACTS_WORK] = "Trace",
	[FACTS_SAMPLING] = "Sampling",
	[FACTS_INCIDENT] = "Events",
};

static void begin_row(struct text *t, const struct fact *fact)
{
	char name[UNITS_LEN];

	layout_row(&t->l, TONE_LABEL,
		fact->group == FACTS_GPU ? job_gpu_name(t->s->job, &fact->gpu->gpu, name)
					 : row_labels[fact->group],
		TEXT_INDENT);
}

/* "python[5001] ≥12.1 GiB" */
static void process(struct text *t, const struct fact *fact)
{
	struct fact bare = *fact;
	struct buf name = BUF_INIT(256), amount = BUF_INIT(256);

	bare.at_least = false; /* the sign says so */
	text_process(t, fact->process, &name);
	fact_value(&bare, t->o, &amount);
	layout_part(&t->l, "%s %s%s%s", keep_together(name.data), fact->at_least ? text_at_least(t) : "",
		amount.data, fact->words ? fact->words : "");
	buf_done(&name);
	buf_done(&amount);
}

static void part(struct text *t, const struct fact *fact)
{
	struct fact shown = *fact;
	struct buf words = BUF_INIT(1 << 20);
	const size_t len = strlen(fact->label);

	if (fact->key == FACT_RAM_PEAK)
		shown.figure = NULL; /* FACT_RAM_METHOD shows it */
	fact_words(&shown, t->f, t->o, &words);
	layout_part(
		&t->l, "%s%s%s", fact->label, len > 0 && fact->label[len - 1] != ' ' ? NB : "", words.data);
	if (fact->is_apart)
		layout_part(&t->l, "%s", fact->words);
	if (words.error)
		t->l.out->error = words.error;
	buf_done(&words);
}

/* The rows of the groups from first to last. */
static void rows_of(struct text *t, enum fact_group first, enum fact_group last)
{
	const struct fact *before = NULL;

	for (size_t i = 0; i < t->facts.n; i++) {
		const struct fact *fact = &t->facts.facts[i];

		if (fact->group < first || fact->group > last || !fact->label)
			continue;
		if (before &&
			(before->group != fact->group ||
				(fact->group == FACTS_GPU && before->gpu != fact->gpu))) {
			layout_end(&t->l);
			before = NULL;
		}
		if (!before)
			begin_row(t, fact);
		else if (fact->begins_line)
			layout_break(&t->l);
		if (fact->key == FACT_PROCESS)
			process(t, fact);
		else
			part(t, fact);
		before = fact;
	}
	if (before)
		layout_end(&t->l);
}

/* What was found of the job, its GPUs together, its nodes, its ranks. */
static void job_lines(struct text *t)
{
	for (size_t i = 0; i < t->lines.n; i++) {
		const struct job_line *line = &t->lines.line[i];
		struct buf label = BUF_INIT(256);

		text_clean(line->label, t->o->utf8, &label);
		layout_row(&t->l, line->is_problem ? TONE_WARN : TONE_LABEL, label.data, TEXT_INDENT);
		for (size_t k = 0; k < line->n; k++) {
			struct buf clean = BUF_INIT(1 << 16);

			text_clean(line->part[k], t->o->utf8, &clean);
			layout_part(&t->l, "%s", clean.data);
			buf_done(&clean);
		}
		layout_end(&t->l);
		buf_done(&label);
	}
}

/* Of a job of several ranks the GPUs are one line, and one for each node. */
static void used(struct text *t)
{
	if (t->lines.n > 0) {
		rows_of(t, FACTS_RESULT, FACTS_LARGEST);
		rows_of(t, FACTS_CPU, FACTS_WORK);
		job_lines(t);
	} else {
		rows_of(t, FACTS_RESULT, FACTS_WORK);
	}
}

static void sampling(struct text *t)
{
	rows_of(t, FACTS_SAMPLING, FACTS_SAMPLING);
}

static void incident(struct text *t)
{
	rows_of(t, FACTS_INCIDENT, FACTS_INCIDENT);
}

/* In the order of display. */
static void (*const rows[])(struct text *t) = {
	header,
	used,
	text_phases,
	text_series,
	text_marks,
	sampling,
	text_notes,
	incident,
	text_request,
	text_findings,
	text_again,
};

int text_sink(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	struct text t = { .s = s, .f = s->facts, .o = o };
	int r = facts_make(s, &t.facts);

	if (r == 0)
		r = job_lines_make(s, o, &t.lines);
	if (r < 0) {
		facts_done(&t.facts);
		job_lines_done(&t.lines);
		return r;
	}
	layout_init(&t.l, out, o);
	if (o->plain)
		text_plain(&t);
	for (size_t i = 0; !o->plain && i < sizeof(rows) / sizeof(*rows); i++)
		rows[i](&t);
	facts_done(&t.facts);
	job_lines_done(&t.lines);
	return out->error;
}
