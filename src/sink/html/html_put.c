/* SPDX-License-Identifier: MIT */
#include "sink/html/html_put.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"

static const char *const entities[128] = {
	['&'] = "&amp;",
	['<'] = "&lt;",
	['>'] = "&gt;",
	['"'] = "&quot;",
	['\''] = "&#39;",
};

static void escape(struct buf *out, const char *text)
{
	for (const char *p = text; *p; p++) {
		const unsigned char c = (unsigned char) *p;
		const char *entity = c < 128 ? entities[c] : NULL;

		if (entity)
			(void) buf_str(out, entity);
		else
			(void) buf_add(out, *p == NB[0] ? " " : p, 1);
	}
}

void html_text(struct html *h, const char *text)
{
	struct buf clean = BUF_INIT(1 << 22);

	if (text_clean(text ? text : "", true, &clean) == 0)
		escape(h->out, clean.data);
	else if (!h->out->error)
		h->out->error = clean.error;
	buf_done(&clean);
}

void html_fact(struct html *h, const struct summary *s, const struct fact *f, const char *label, bool value,
	bool rest)
{
	struct buf words = BUF_INIT(1 << 20);

	(void) buf_printf(&words, *label && label[strlen(label) - 1] != ' ' ? "%s " : "%s", label);
	if (value)
		fact_value(f, h->o, &words);
	if (rest)
		fact_rest(f, s->facts, h->o, &words);
	if (rest && f->is_apart)
		(void) buf_printf(&words, value ? ", %s" : "%s", f->words);
	for (size_t i = 0; i < words.len; i++)
		words.data[i] = words.data[i] == NB[0] ? ' ' : words.data[i];
	html_text(h, words.data + (words.data[0] == ' '));
	if (words.error && !h->out->error)
		h->out->error = words.error;
	buf_done(&words);
}

void html_short(struct html *h, const char *text, const char *more, unsigned columns)
{
	struct buf clean = BUF_INIT(1 << 22), cut = BUF_INIT(1 << 22);

	(void) text_clean(text ? text : "", true, &clean);
	if (more && *more) {
		(void) buf_str(&clean, " ");
		(void) text_clean(more, true, &clean);
	}
	if (!clean.error && text_shorten(clean.data ? clean.data : "", columns, true, &cut) == 0)
		escape(h->out, cut.data ? cut.data : "");
	else if (!h->out->error)
		h->out->error = clean.error ? clean.error : cut.error;
	buf_done(&clean);
	buf_done(&cut);
}

void html_raw(struct html *h, const char *markup)
{
	(void) buf_str(h->out, markup);
}

void html_printf(struct html *h, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void) buf_vprintf(h->out, format, ap);
	va_end(ap);
}

void html_bytes(struct html *h, struct maybe bytes)
{
	char text[UNITS_LEN];

	html_raw(h, bytes.known ? units_bytes(bytes.value, h->o->units, text) : "unknown");
}

void html_duration(struct html *h, struct maybe ns)
{
	char text[UNITS_LEN];

	html_raw(h, ns.known ? units_duration(ns.value, text) : "unknown");
}

const char *html_name(const struct summary *s)
{
	const struct facts *f = s->facts;

	return f->name && *f->name ? f->name : f->command && *f->command ? f->command
									 : "a run";
}

void html_which(struct html *h, size_t run)
{
	if (h->n < 2)
		return;
	html_printf(h, ", %zu. ", run + 1);
	html_text(h, html_name(h->runs[run].summary));
}

void html_process(struct html *h, const struct process *p)
{
	char name[sizeof(p->name) + 1] = "";

	memcpy(name, p->name, sizeof(p->name));
	html_text(h, name[0] ? name : "?");
	html_printf(h, "[%d]", (int) p->pid);
}

const char *html_phase_facts(const struct phase *p)
{
	const size_t len = strlen(p->name);

	return p->facts && strncmp(p->facts, p->name, len) == 0 && p->facts[len] == '=' ? p->facts + len + 1
											: p->facts;
}
