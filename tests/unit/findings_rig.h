/* SPDX-License-Identifier: MIT
 *
 * Judges findings of summaries made by hand.
 */
#pragma once

#include "summaries.h"

#include <stdlib.h>

/* Recomputes the findings; returns that of code. */
static inline const struct finding *judged(
	struct made *m, const char *code, const struct earlier_runs *earlier)
{
	for (size_t i = 0; i < m->s.n_findings; i++) {
		free(m->s.findings[i].message);
		free(m->s.findings[i].why_not);
	}
	free(m->s.findings);
	m->s.findings = NULL;
	m->s.n_findings = 0;
	assert_int_equal(findings_make(&m->s, earlier), 0);

	const struct finding *f = finding_of(m, code);

	if (f->fired) {
		assert_non_null(f->message);
		assert_null(f->why_not);
		assert_true(f->n_evidence > 0);
	} else {
		assert_non_null(f->why_not);
		assert_null(f->message);
		assert_true(strlen(f->why_not) > 0);
	}
	assert_true(f->from_ns <= f->to_ns);
	return f;
}

static inline bool fires(struct made *m, const char *code)
{
	return judged(m, code, NULL)->fired;
}

static inline double evidence_of(const struct finding *f, const char *key)
{
	for (unsigned i = 0; i < f->n_evidence; i++) {
		if (strcmp(f->evidence[i].key, key) == 0)
			return f->evidence[i].value;
	}
	fail_msg("%s: no evidence %s", f->code, key);
	return 0;
}

static inline const char *words_of(const struct finding *f, const char *key)
{
	for (unsigned i = 0; i < f->n_evidence; i++) {
		if (strcmp(f->evidence[i].key, key) == 0)
			return f->evidence[i].text;
	}
	fail_msg("%s: no evidence %s", f->code, key);
	return NULL;
}

/* Evidence of the device-th of several devices, from 1 on. */
static inline double evidence_of_device(const struct finding *f, unsigned device, const char *key)
{
	for (unsigned i = 0; i < f->n_evidence; i++) {
		if (f->evidence[i].device == device && strcmp(f->evidence[i].key, key) == 0)
			return f->evidence[i].value;
	}
	fail_msg("%s: no evidence %s of device %u", f->code, key, device);
	return 0;
}

static inline void assert_says(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static inline void set_peak(struct made *m, int64_t bytes)
{
	m->s.combined.peak = m->s.combined.low = m->s.combined.high = known(bytes);
}
