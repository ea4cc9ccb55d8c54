/* SPDX-License-Identifier: MIT
 *
 * The request for the next run, findings, notes, and how to show the run again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/text/text.h"

enum {
	FINDINGS_SHOWN = 4,
	NOTES_SHOWN = 6,
	NARROW = 60,
	SEVERITY_WIDTH = 6
};

static const struct {
	const char *word;
	enum tone tone;
} severities[] = {
	[SEVERITY_HINT] = { "HINT", TONE_HINT },
	[SEVERITY_WARN] = { "WARN", TONE_WARN },
	[SEVERITY_ERROR] = { "ERROR", TONE_ERROR },
};

/* "22.4 GiB" and "20 %" in a message stay on one line. */
static void keep_units(char *text)
{
	static const char *const units[] = {
		"%",
		"B",
		"KiB",
		"MiB",
		"GiB",
		"TiB",
		"kB",
		"MB",
		"GB",
		"TB",
		"us",
		"ms",
		"s",
		"min",
		"h",
		"d",
		"J",
		"Wh",
	};

	for (char *p = strchr(text, ' '); p; p = strchr(p + 1, ' ')) {
		const size_t n = strcspn(p + 1, " .,;:)/");

		if (p == text || p[-1] < '0' || p[-1] > '9')
			continue;
		for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
			if (strlen(units[i]) == n && strncmp(p + 1, units[i], n) == 0)
				*p = NB[0];
		}
	}
}

/* Writes text, cleaned; its line breaks stay. */
static void lines(struct text *t, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		struct buf line = BUF_INIT(1 << 20), clean = BUF_INIT(1 << 20);

		buf_add(&line, text, n);
		text_clean(line.data, t->o->utf8, &clean);
		if (clean.len > 0)
			keep_units(clean.data);
		layout_words(&t->l, clean.data);
		if (line.error || clean.error)
			t->l.out->error = line.error ? line.error : clean.error;
		buf_done(&line);
		buf_done(&clean);
		text += n;
		if (*text == '\n' && *++text)
			layout_break(&t->l);
	}
}

/* ---- notes: figures that are missing, and why ---------------------------------------------------------------------------------------- */

/* "No GPU" is no news on a machine without GPUs, and neither is it that hiwater did not start the
 * program of a block. */
bool text_shows_note(const struct text *t, const struct note *note)
{
	if (strcmp(note->about, "time") == 0 && t->f->by_block.value == 1)
		return false;
	return strcmp(note->about, "gpu") != 0 || note->is_failure || figure_has_gpus(t->s);
}

void text_notes(struct text *t)
{
	size_t shown = 0, more = 0;

	for (size_t i = 0; i < t->s->n_notes; i++) {
		const struct note *note = &t->s->notes[i];

		if (!text_shows_note(t, note))
			continue;
		if (shown == NOTES_SHOWN) {
			more++;
			continue;
		}
		layout_row(&t->l, TONE_LABEL, shown == 0 ? "Notes" : "", TEXT_INDENT);
		layout_words(&t->l, note->about);
		layout_more(&t->l, TONE_NONE, ":");
		lines(t, note->why);
		layout_end(&t->l);
		shown++;
	}
	if (more > 0) {
		layout_row(&t->l, TONE_NONE, "", TEXT_INDENT);
		layout_part(&t->l, "and %zu more (show --json lists all)", more);
		layout_end(&t->l);
	}
}

/* ---- findings -------------------------------------------------------------------------------------------------------- */

/* Order of display; 0, fired errors, comes first. */
static int rank_of(const struct finding *f)
{
	return f->fired ? SEVERITY_ERROR - (int) f->severity : SEVERITY_ERROR + 1;
}

int text_ordered(const struct text *t, const struct finding ***ret)
{
	const struct finding **list = calloc(t->s->n_findings + 1, sizeof(*list));
	int n = 0;

	if (!list)
		return -ENOMEM;
	for (int rank = 0; rank <= SEVERITY_ERROR + (t->o->why ? 1 : 0); rank++) {
		for (size_t i = 0; i < t->s->n_findings; i++) {
			if (rank_of(&t->s->findings[i]) == rank &&
				(t->o->why || !finding_is_repeated(t->s, &t->s->findings[i])))
				list[n++] = &t->s->findings[i];
		}
	}
	*ret = list;
	return n;
}

/* True if key ends in suffix; *ret_stem is then the length of the rest. */
static bool ends_in(const char *key, const char *suffix, size_t *ret_stem)
{
	size_t len = strlen(key), n = strlen(suffix);

	if (len <= n || strcmp(key + len - n, suffix) != 0)
		return false;
	*ret_stem = len - n;
	return true;
}

void text_evidence(const struct text *t, const struct evidence *e, struct buf *out)
{
	char number[UNITS_LEN];
	size_t stem = strlen(e->key);
	const char *value = e->text, *per = "";

	if (value)
		;
	else if (ends_in(e->key, "_bytes", &stem))
		value = units_bytes((int64_t) e->value, t->o->units, number);
	else if (ends_in(e->key, "_bytes_per_s", &stem))
		value = units_bytes((int64_t) e->value, t->o->units, number), per = "/s";
	else if (ends_in(e->key, "_s", &stem))
		value = units_duration((int64_t) (e->value * 1e9), number);
	else if (ends_in(e->key, "_ratio", &stem))
		value = units_percent((int64_t) (e->value * 1e6), 1000000, number);
	else
		value = units_any(e->value, number);
	for (size_t i = 0; i < stem; i++)
		buf_add(out, e->key[i] == '_' ? " " : e->key + i, 1);
	buf_str(out, " ");
	text_clean(value, t->o->utf8, out);
	buf_str(out, per);
}

static void evidence(struct text *t, const struct finding *f)
{
	struct buf all = BUF_INIT(1 << 16);

	buf_str(&all, "evidence: ");
	for (unsigned i = 0; i < f->n_evidence; i++) {
		struct buf one = BUF_INIT(1 << 16);

		if (f->evidence[i].device == 1) /* the first device repeats the finding as a whole */
			continue;
		text_evidence(t, &f->evidence[i], &one);
		buf_printf(&all, "%s%s",
			i == 0                                               ? ""
			: f->evidence[i].device != f->evidence[i - 1].device ? "; "
									     : ", ",
			keep_together(one.data));
		buf_done(&one);
	}
	if (f->n_evidence > 0) {
		layout_break(&t->l);
		layout_words(&t->l, all.data);
	}
	buf_done(&all);
}

static void finding(struct text *t, const struct finding *f, unsigned indent)
{
	layout_row(&t->l, f->fired ? severities[f->severity].tone : TONE_NONE,
		f->fired ? severities[f->severity].word : "-", indent);
	while (t->l.column < SEVERITY_WIDTH)
		layout_more(&t->l, TONE_NONE, " ");
	layout_more(&t->l, TONE_NONE, f->code);
	lines(t, f->fired ? f->message : f->why_not ? f->why_not
						    : "");
	if (f->fired && t->o->why)
		evidence(t, f);
	layout_end(&t->l);
}

/* The column of the messages: behind the longest code, or below the code in narrow terminals. */
static unsigned message_column(const struct text *t, const struct finding *const *list, int n)
{
	unsigned column = 0;

	for (int i = 0; i < n; i++) {
		unsigned width = SEVERITY_WIDTH + text_width(list[i]->code) + 1;

		column = width > column ? width : column;
	}
	return t->o->width < NARROW ? 2 : column;
}

const char *text_no_findings(const struct summary *s)
{
	if (s->incident.what && s->incident.is_kill)
		return "see the event above";
	if (ended_badly(s))
		return "none explains why the job failed";
	return s->combined.peak.known ? "OK" : "none: too little was measured";
}

void text_findings(struct text *t)
{
	const struct finding **list = NULL;
	int n = text_ordered(t, &list), shown = t->o->why || n <= FINDINGS_SHOWN ? n : FINDINGS_SHOWN;

	if (n < 0) {
		t->l.out->error = n;
		return;
	}
	if (n == 0) {
		layout_row(&t->l, TONE_LABEL, "Findings", TEXT_INDENT);
		layout_part(&t->l, "%s", text_no_findings(t->s));
		layout_end(&t->l);
	} else {
		layout_end(&t->l);
	}
	for (int i = 0; i < shown; i++)
		finding(t, list[i], message_column(t, list, shown));
	if (shown < n) {
		layout_row(&t->l, TONE_NONE, "", 0);
		layout_part(&t->l, "and %d more; show --why lists all", n - shown);
		layout_end(&t->l);
	}
	if (n > 0)
		layout_end(&t->l);
	free(list);
}

void text_request(struct text *t)
{
	const struct request *r = &t->s->request;
	struct buf line = BUF_INIT(4096), basis = BUF_INIT(1 << 16);

	if (!r->made)
		return;
	request_line(r, &line);
	request_basis(r, t->o->units, &basis);
	layout_row(&t->l, TONE_LABEL, "Request", TEXT_INDENT);
	if (r->why_not[0]) {
		layout_words(&t->l, "not known:");
		lines(t, r->why_not);
	} else {
		layout_words(&t->l, line.data);
		layout_break(&t->l);
		lines(t, basis.data);
	}
	layout_end(&t->l);
	buf_done(&line);
	buf_done(&basis);
}

void text_again(struct text *t)
{
	struct buf path = BUF_INIT(1 << 16);
	uint64_t number;

	if (!t->f->recording)
		return;
	text_clean(t->f->recording, t->o->utf8, &path);
	keep_together(path.data);
	layout_row(&t->l, TONE_LABEL, "Recording", TEXT_INDENT);
	if (figure_run(t->f, t->o, &number)) {
		layout_part(&t->l, "hiwater" NB "show" NB "%llu", (unsigned long long) number);
		layout_part(&t->l, "%s%s", path.data, t->f->recording_stopped ? " (incomplete)" : "");
	} else {
		layout_part(&t->l, "hiwater" NB "show %s", path.data);
	}
	layout_end(&t->l);
	buf_done(&path);
}
