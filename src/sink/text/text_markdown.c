/* SPDX-License-Identifier: MIT
 *
 * The summary as Markdown, for pull requests and notes: a heading, a table with a row for each fact, the
 * findings as a list. All texts of the job are escaped.
 */
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/text/text.h"

/* Text in a table or a list: one line, nothing in it is markup. */
static void put_text(struct text *t, const char *text, struct buf *out)
{
	struct buf plain = BUF_INIT(1 << 20), clean = BUF_INIT(1 << 20);

	(void) buf_str(&plain, text);
	for (char *p = plain.error ? NULL : strchr(plain.data, NB[0]); p; p = strchr(p, NB[0]))
		*p = ' ';
	(void) text_clean(plain.error ? "" : plain.data, t->o->utf8, &clean);
	buf_done(&plain);
	for (const char *p = clean.error ? "" : clean.data; *p; p++) {
		if (*p == '<')
			(void) buf_str(out, "&lt;");
		else if (*p == '&')
			(void) buf_str(out, "&amp;");
		else
			(void) buf_printf(out, "%s%c", strchr("\\`*_[]|", *p) ? "\\" : "", *p);
	}
	if (clean.error)
		out->error = clean.error;
	buf_done(&clean);
}

/* Text as code, between more backticks than it has in a row. */
static void put_code(struct text *t, const char *text, struct buf *out)
{
	struct buf clean = BUF_INIT(1 << 20);
	size_t most = 0, n = 0;

	(void) text_clean(text, t->o->utf8, &clean);
	for (const char *p = clean.error ? "" : clean.data; *p; p++) {
		n = *p == '`' ? n + 1 : 0;
		most = n > most ? n : most;
	}
	for (size_t i = 0; i < most + 1; i++)
		(void) buf_str(out, "`");
	(void) buf_printf(out, most ? " %s " : "%s", clean.error || clean.len == 0 ? " " : clean.data);
	for (size_t i = 0; i < most + 1; i++)
		(void) buf_str(out, "`");
	if (clean.error)
		out->error = clean.error;
	buf_done(&clean);
}

static void heading(struct text *t, struct buf *out)
{
	char date[UNITS_LEN];
	uint64_t number;

	(void) buf_str(out, "### ");
	if (t->f->name && *t->f->name) {
		put_text(t, t->f->name, out);
		(void) buf_str(out, ": ");
	}
	put_code(t, t->f->command && *t->f->command ? t->f->command : "unknown command", out);
	(void) buf_str(out, "\n\n");
	if (t->f->started_wall_ns.known)
		(void) buf_printf(out, "%.16s", units_date((uint64_t) t->f->started_wall_ns.value, date));
	if (t->f->host && *t->f->host) {
		(void) buf_str(out, t->f->started_wall_ns.known ? " on " : "on ");
		put_text(t, t->f->host, out);
	}
	if (figure_run(t->f, t->o, &number))
		(void) buf_printf(out, ", run %llu", (unsigned long long) number);
	(void) buf_printf(out, "%shiwater %s\n\n", t->f->started_wall_ns.known || t->f->host ? ", " : "",
		t->f->version ? t->f->version : "");
}

static void put_row(struct text *t, struct buf *title, struct buf *words, struct buf *out)
{
	(void) buf_str(out, "| ");
	put_text(t, title->error ? "" : title->data, out);
	(void) buf_str(out, " | ");
	put_text(t, words->error ? "" : words->data, out);
	(void) buf_str(out, " |\n");
	buf_done(title);
	buf_done(words);
}

static void row(struct text *t, struct buf *title, struct buf *words, struct buf *out)
{
	if (title->len > 0 && title->data[0] >= 'a' && title->data[0] <= 'z')
		title->data[0] = (char) (title->data[0] - 'a' + 'A');
	put_row(t, title, words, out);
}

static void rows_of(struct text *t, enum fact_group first, enum fact_group last, struct buf *out)
{
	for (size_t i = 0; i < t->facts.n; i++) {
		const struct fact *f = &t->facts.facts[i];
		struct buf title = BUF_INIT(4096), words = BUF_INIT(1 << 20);

		if (f->group < first || f->group > last || !f->title)
			continue;
		text_title(t, f, &title);
		fact_words(f, t->f, t->o, &words);
		row(t, &title, &words, out);
	}
}

/* "Request | --mem=2G; memory: 1.2 GiB + 20 %" */
static void request(struct text *t, struct buf *out)
{
	const struct request *r = &t->s->request;
	struct buf title = BUF_INIT(64), words = BUF_INIT(1 << 16);

	if (!r->made)
		return;
	(void) buf_str(&title, "request");
	if (r->why_not[0]) {
		(void) buf_printf(&words, "not known: %s", r->why_not);
	} else {
		request_line(r, &words);
		(void) buf_str(&words, words.len > 0 ? "; " : "");
		request_basis(r, t->o->units, &words);
	}
	row(t, &title, &words, out);
}

/* "Missing | rank 2: no recording": what was found of a job of several ranks, its nodes and its ranks. */
static void job_rows(struct text *t, struct buf *out)
{
	for (size_t i = 0; i < t->lines.n; i++) {
		const struct job_line *line = &t->lines.line[i];
		struct buf title = BUF_INIT(256), words = BUF_INIT(1 << 16);

		(void) buf_str(&title, line->label);
		for (size_t k = 0; k < line->n; k++)
			(void) buf_printf(&words, "%s%s", k ? "; " : "", line->part[k]);
		put_row(t, &title, &words, out);
	}
}

/* "RAM peak | 22.4 GiB of 64.0 requested (35 %) exact (VmHWM)", then what led to the end, and what to
 * request. */
static void table(struct text *t, struct buf *out)
{
	(void) buf_str(out, "| | |\n| --- | --- |\n");
	rows_of(t, FACTS_RESULT, FACTS_WORK, out);
	job_rows(t, out);
	rows_of(t, FACTS_INCIDENT, FACTS_INCIDENT, out);
	request(t, out);
}

/* The ready-made lines behind a message are code. */
static void finding(struct text *t, const struct finding *f, struct buf *out)
{
	static const char *const words[] = {
		[SEVERITY_HINT] = "hint",
		[SEVERITY_WARN] = "warning",
		[SEVERITY_ERROR] = "error",
	};
	size_t n = strcspn(f->message, "\n");
	struct buf line = BUF_INIT(1 << 16);

	(void) buf_add(&line, f->message, n);
	(void) buf_printf(out, "- **%s** `%s`: ", words[f->severity], f->code);
	put_text(t, line.error ? "" : line.data, out);
	(void) buf_str(out, "\n");
	buf_done(&line);
	if (f->message[n] == '\0')
		return;
	(void) buf_str(out, "  ```\n");
	for (const char *p = f->message + n; *p == '\n'; p += n) {
		p++;
		n = strcspn(p, "\n");
		(void) buf_printf(out, "  %.*s\n", (int) n, p);
	}
	(void) buf_str(out, "  ```\n");
}

static void findings(struct text *t, struct buf *out)
{
	const struct finding **list = NULL;
	const int n = text_ordered(t, &list);
	bool any = false;

	if (n < 0)
		out->error = n;
	for (int i = 0; i < n; i++) {
		if (!list[i]->fired)
			continue;
		(void) buf_str(out, any ? "" : "\n");
		finding(t, list[i], out);
		any = true;
	}
	free(list);
}

int markdown_sink(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	struct text t = { .s = s, .f = s->facts, .o = o };
	int r = facts_make(s, &t.facts);

	if (r == 0)
		r = job_lines_make(s, o, &t.lines);
	if (r == 0) {
		heading(&t, out);
		table(&t, out);
		findings(&t, out);
	}
	facts_done(&t.facts);
	job_lines_done(&t.lines);
	return r < 0 ? r : out->error;
}
