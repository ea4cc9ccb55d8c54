/* SPDX-License-Identifier: MIT
 *
 * The story of what happened, in a screen; and the marks that the job set.
 */
#include <string.h>

#include "sink/text/text.h"
#include "base/textwidth.h"

static void row(struct text *t, const char *label)
{
	layout_row(&t->l, TONE_LABEL, label, TEXT_INDENT);
}

static const char *memory_name(const struct story *story)
{
	return story->on_gpu ? "GPU" NB "memory" : "RAM";
}

static void held(struct text *t, const struct story *story)
{
	char number[UNITS_LEN], of[UNITS_LEN];

	if (!story->memory || !story->held.known)
		return;
	(void) keep_together(units_bytes(story->held.value, t->o->units, number));
	row(t, "");
	layout_part(&t->l, "held" NB "%s", number);
	if (story->limit.known)
		layout_part(&t->l, "limit" NB "%s", keep_together(units_bytes(story->limit.value, t->o->units, of)));
	if (story->asked.known && !story->on_gpu)
		layout_part(&t->l, "requested" NB "%s", keep_together(units_bytes(story->asked.value, t->o->units, of)));
	layout_end(&t->l);
}

static void growth(struct text *t, const struct story *story)
{
	char rate[UNITS_LEN], since[UNITS_LEN], from[UNITS_LEN];

	if (!story->since_ns.known)
		return;
	row(t, "");
	layout_part(&t->l, "%s grew %s/s since" NB "%s, from" NB "%s", memory_name(story),
		keep_together(units_bytes((int64_t) story->growth_per_s, t->o->units, rate)),
		keep_together(units_duration(story->since_ns.value, since)),
		keep_together(units_bytes(story->from_bytes.value, t->o->units, from)));
	layout_end(&t->l);
}

static void holders(struct text *t, const struct story *story)
{
	char number[UNITS_LEN];

	if (story->n_holders == 0 && !(story->foreign.known && story->foreign.value > 0))
		return;
	row(t, "");
	layout_part(&t->l, "%s" NB "then:", memory_name(story));
	for (size_t i = 0; i < story->n_holders; i++) {
		struct buf name = BUF_INIT(4096);

		text_process(t, story->holders[i].process, &name);
		layout_part(&t->l, "%s" NB "%s%s", name.data,
			keep_together(units_bytes(story->holders[i].bytes, t->o->units, number)),
			story->holders[i].killed ? NB "(killed)" : "");
		buf_done(&name);
	}
	if (story->others > 0)
		layout_part(&t->l, "%zu" NB "others" NB "%s", story->others,
			keep_together(units_bytes(story->others_bytes, t->o->units, number)));
	if (story->foreign.known && story->foreign.value > 0)
		layout_part(&t->l, "not" NB "the" NB "job's" NB "%s", keep_together(units_bytes(story->foreign.value, t->o->units, number)));
	layout_end(&t->l);
}

void text_mark(const struct text *t, const struct mark *mark, struct buf *out)
{
	struct buf clean = BUF_INIT(1 << 16);

	text_clean(mark->text, t->o->utf8, &clean);
	text_shorten(clean.data, MARK_WIDTH, t->o->utf8, out);
	if (clean.error)
		out->error = clean.error;
	buf_done(&clean);
}

size_t text_marks_shown(const struct text *t, size_t *ret_before)
{
	const size_t kept = t->s->job ? job_mark_count(t->s->job) : 0, shown = kept < MARKS_SHOWN ? kept : MARKS_SHOWN;

	*ret_before = (size_t) maybe_max(t->f->marks_seen, known((int64_t) kept)).value - shown;
	return shown;
}

const struct mark *text_mark_of(const struct text *t, size_t shown, size_t i)
{
	return job_mark(t->s->job, job_mark_count(t->s->job) - shown + i);
}

static void mark(struct text *t, const char *title, const struct mark *mark)
{
	struct buf text = BUF_INIT(1 << 16);
	char at[UNITS_LEN];

	row(t, title);
	layout_part(&t->l, "at" NB "%s:", keep_together(units_duration((int64_t) mark->time_ns, at)));
	text_mark(t, mark, &text);
	layout_words(&t->l, text.data);
	layout_end(&t->l);
	if (text.error)
		t->l.out->error = text.error;
	buf_done(&text);
}

/* The last ones: what was being done when it ended. */
void text_marks(struct text *t)
{
	size_t before;
	const size_t shown = text_marks_shown(t, &before);

	for (size_t i = 0; i < shown; i++)
		mark(t, i == 0 ? "Marks" : "", text_mark_of(t, shown, i));
	if (shown == 0 || before == 0)
		return;
	row(t, "");
	layout_part(&t->l, "and" NB "%zu" NB "more before them", before);
	layout_end(&t->l);
}

void text_story(struct text *t)
{
	const struct story *story = &t->s->story;
	struct buf clean = BUF_INIT(1 << 16);
	char at[UNITS_LEN];

	if (!story->what)
		return;
	text_clean(story->what, t->o->utf8, &clean);
	row(t, "Happened");
	layout_part(&t->l, "at" NB "%s:", keep_together(units_duration((int64_t) story->at_ns, at)));
	layout_words(&t->l, clean.data);
	layout_end(&t->l);
	held(t, story);
	growth(t, story);
	holders(t, story);
	row(t, "");
	layout_part(&t->l, "try:");
	layout_words(&t->l, story->advice);
	layout_end(&t->l);
	if (clean.error)
		t->l.out->error = clean.error;
	buf_done(&clean);
}
