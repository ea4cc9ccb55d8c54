/* SPDX-License-Identifier: MIT
 *
 * The notes that sources reported on GPUs during the run, merged: notes that say the same of
 * several figures become one.
 */
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "summary/note_names.h"
#include "summary/summary_internal.h"

enum {
	NOTE_MOST = 1 << 12, /* letters */
};

const char *summary_gpu_about(const struct event *e)
{
	static const char *const abouts[] = { "gpu", "gpu.xid", "gpu.memory", "gpu.energy", "gpu.sm_active" };

	for (size_t i = 0; i < sizeof(abouts) / sizeof(abouts[0]); i++) {
		if (note_is_about(e, abouts[i]))
			return abouts[i];
	}
	return NULL;
}

/* True if a later event says more of event i: "gpu: NVML did not answer" with times replaces "has
 * not answered since". */
static bool is_superseded(const struct job *job, size_t i)
{
	static const char *const worse[] = { " has not answered since", " did not answer from" },
				 better[] = " did not answer";
	const char *text = job_event(job, i)->text, *words = NULL;

	for (size_t w = 0; w < sizeof(worse) / sizeof(worse[0]) && !words; w++)
		words = strstr(text, worse[w]);
	for (size_t k = words ? i + 1 : job_event_count(job); k < job_event_count(job); k++) {
		const struct event *e = job_event(job, k);
		const size_t n = (size_t) (words - text);

		if (summary_gpu_about(e) && strncmp(e->text, text, n) == 0 &&
			strncmp(e->text + n, better, sizeof(better) - 1) == 0)
			return true;
	}
	return false;
}

/* The number of events with the text of event i; 0 if an earlier event has it. */
static size_t occurrences(const struct job *job, size_t i)
{
	const char *text = job_event(job, i)->text;
	size_t n = 1;

	for (size_t k = 0; k < job_event_count(job); k++) {
		if (k == i || strcmp(job_event(job, k)->text, text) != 0)
			continue;
		if (k < i)
			return 0;
		n++;
	}
	return n;
}

/* The text of a note on GPUs without its subject; NULL: no such note. */
static const char *words_of(const struct event *e)
{
	const char *about = summary_gpu_about(e);

	return about ? e->text + strlen(about) + 2 : NULL;
}

static bool is_alike(const struct event *a, const struct event *b)
{
	return summary_gpu_about(a) && summary_gpu_about(a) == summary_gpu_about(b) &&
	       note_names_alike(words_of(a), words_of(b));
}

/* Appends the text of event i with the figures of all later events that say the same; *ret_last:
 * the last of these. Appends nothing if an earlier event covers it. Returns 0 or -ENOMEM. */
static int join_alike(const struct job *job, size_t i, struct buf *out, const struct event **ret_last)
{
	const struct event *e = job_event(job, i);
	int r;

	*ret_last = e;
	for (size_t k = 0; k < i; k++) {
		if (is_alike(job_event(job, k), e))
			return 0;
	}
	r = buf_str(out, words_of(e));
	for (size_t k = i + 1; k < job_event_count(job) && r == 0; k++) {
		struct buf joined = BUF_INIT(NOTE_MOST);

		if (!is_alike(e, job_event(job, k)))
			continue;
		*ret_last = job_event(job, k);
		r = note_names_join(out->data, words_of(*ret_last), &joined);
		buf_clear(out);
		if (r == 0)
			r = buf_str(out, joined.data);
		buf_done(&joined);
	}
	return r;
}

static int note_event(struct summary *s, size_t i)
{
	static const uint64_t start_ns = 1000000000; /* a condition from the start on needs no time */
	const struct event *e = job_event(s->job, i), *last = e;
	const size_t n = summary_gpu_about(e) && !is_superseded(s->job, i) ? occurrences(s->job, i) : 0;
	struct buf text = BUF_INIT(NOTE_MOST);
	char at[UNITS_LEN];
	int r = n > 0 ? join_alike(s->job, i, &text, &last) : 0;

	(void) units_instant((int64_t) e->time_ns, at);
	if (text.len == 0 || r < 0)
		;
	else if (n > 1)
		r = summary_note(s, summary_gpu_about(e), "%s (%zu times, first at %s)", text.data, n, at);
	else if (e->id && last->time_ns > e->time_ns && last->time_ns >= start_ns)
		r = summary_note(s, summary_gpu_about(e), "%s (first at %s)", text.data, at);
	else if (e->id && e->time_ns >= start_ns)
		r = summary_note(s, summary_gpu_about(e), "%s (at %s)", text.data, at);
	else
		r = summary_note(s, summary_gpu_about(e), "%s", text.data);
	if (text.len > 0 && r == 0)
		s->notes[s->n_notes - 1].is_failure = true;
	buf_done(&text);
	return r;
}

int summary_gpu_note_reported(struct summary *s)
{
	int r = 0;

	for (size_t i = 0; i < job_event_count(s->job) && r == 0; i++)
		r = note_event(s, i);
	return r;
}

bool summary_gpu_reported(const struct job *job, enum note_cause cause)
{
	for (size_t i = 0; job && i < job_event_count(job); i++) {
		const struct event *e = job_event(job, i);

		if (summary_gpu_about(e) && e->cause == cause)
			return true;
	}
	return false;
}
