/* SPDX-License-Identifier: MIT
 *
 * The words are also known to summary/summary_gpu.c, which says the same once (is_told_better).
 */
#include "sample/gpu_silence.h"

#include <inttypes.h>
#include <stdio.h>

#define SECOND UINT64_C(1000000000)

static const uint64_t least_ns = 5 * SECOND; /* a call that takes longer is one */
static const uint64_t last_least_ns = SECOND; /* in the end: nobody will see whether it would have answered yet */
static const uint64_t unanswered_ns = SECOND / 10; /* less is no word worth, in the end */

const char *gpu_instant(uint64_t start_ns, uint64_t at_ns, char text[GPU_INSTANT])
{
	const uint64_t s = at_ns > start_ns ? (at_ns - start_ns) / SECOND : 0;

	(void) snprintf(text, GPU_INSTANT, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
	return text;
}

uint64_t gpu_silence_asleep(struct gpu_silence *s, uint64_t due_ns, uint64_t now_ns)
{
	if (due_ns == 0 || now_ns < due_ns)
		return 0;
	if (s->due_ns != due_ns) {
		s->due_ns = due_ns;
		s->missed_ns = now_ns;
	}
	return s->missed_ns;
}

static void tell_begin(const struct gpu_silence *s, const char *label, const char *asked, uint64_t start_ns, char text[GPU_SILENCE_TEXT])
{
	char at[GPU_INSTANT];

	(void) snprintf(text, GPU_SILENCE_TEXT, "gpu: %s has not answered since %s%s%s%s; its readings are missing from then on", label,
		gpu_instant(start_ns, s->since_ns, at), *asked ? " (" : "", asked, *asked ? ")" : "");
}

void gpu_silence_over(struct gpu_silence *s, uint64_t now_ns)
{
	const uint64_t took = now_ns > s->since_ns ? now_ns - s->since_ns : 0;

	if (!s->since_ns)
		return;
	s->sum_ns += took;
	s->longest_ns = took > s->longest_ns ? took : s->longest_ns;
	s->last_ns = now_ns;
	s->since_ns = 0;
}

static bool tell_end(struct gpu_silence *s, const char *label, uint64_t start_ns, uint64_t now_ns, char text[GPU_SILENCE_TEXT])
{
	const bool told = s->told;
	char from[GPU_INSTANT], to[GPU_INSTANT];

	(void) snprintf(text, GPU_SILENCE_TEXT, "gpu: %s did not answer from %s to %s; its readings of that time are missing", label,
		gpu_instant(start_ns, s->since_ns, from), gpu_instant(start_ns, now_ns, to));
	gpu_silence_over(s, now_ns);
	return told;
}

static void begin(struct gpu_silence *s, uint64_t call_ns)
{
	s->since_ns = call_ns;
	s->told = false;
	s->first_ns = s->n++ ? s->first_ns : call_ns;
}

bool gpu_silence_look(struct gpu_silence *s, const char *label, const char *asked, uint64_t start_ns, uint64_t call_ns,
	uint64_t now_ns, char text[GPU_SILENCE_TEXT])
{
	const uint64_t silent_ns = call_ns && now_ns > call_ns ? now_ns - call_ns : 0;

	if (s->since_ns && call_ns != s->since_ns)
		return tell_end(s, label, start_ns, now_ns, text);
	if (silent_ns <= least_ns)
		return false;
	if (!s->since_ns)
		begin(s, call_ns);
	if (s->told || silent_ns <= 2 * s->longest_ns)
		return false;
	s->told = true;
	tell_begin(s, label, asked, start_ns, text);
	return true;
}

/* It may be slow and no more. */
static void tell_unanswered(const char *label, const char *asked, uint64_t start_ns, uint64_t call_ns, char text[GPU_SILENCE_TEXT])
{
	char at[GPU_INSTANT];

	(void) snprintf(text, GPU_SILENCE_TEXT, "gpu: %s was still being asked when the run ended, since %s%s%s%s; its readings are missing from then on",
		label, gpu_instant(start_ns, call_ns, at), *asked ? " (" : "", asked, *asked ? ")" : "");
}

unsigned gpu_silence_last(struct gpu_silence *s, const char *label, const char *asked, uint64_t start_ns, uint64_t call_ns,
	uint64_t now_ns, char texts[2][GPU_SILENCE_TEXT])
{
	char from[GPU_INSTANT], to[GPU_INSTANT];
	unsigned n = 0;

	if (!s->since_ns && call_ns && now_ns > call_ns + last_least_ns)
		begin(s, call_ns);
	if (s->n > 1) {
		const uint64_t last_ns = s->since_ns ? now_ns : s->last_ns, sum_ns = s->sum_ns + (s->since_ns ? now_ns - s->since_ns : 0);

		(void) snprintf(texts[n++], GPU_SILENCE_TEXT,
			"gpu: %s did not answer %u times between %s and %s, for %" PRIu64 " s in all; its readings of those times are missing",
			label, s->n, gpu_instant(start_ns, s->first_ns, from), gpu_instant(start_ns, last_ns, to),
			(sum_ns + SECOND / 2) / SECOND);
	}
	if (s->since_ns && (s->n > 1 || !s->told))
		tell_begin(s, label, asked, start_ns, texts[n++]);
	else if (!s->since_ns && call_ns && now_ns > call_ns + unanswered_ns)
		tell_unanswered(label, asked, start_ns, call_ns, texts[n++]);
	return n;
}
