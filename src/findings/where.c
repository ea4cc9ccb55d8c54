/* SPDX-License-Identifier: MIT
 *
 * Rules about a sampled run: which functions first touched the memory of its peak (summary/where.h).
 */
#include "base/units.h"
#include "findings/finding.h"

enum {
	ONE_CALL_PERCENT = 50, /* of the peak */
	COPIED_PERCENT = 10,   /* likewise */
	SIGMAS = 2,
};
static const uint64_t one_call_bytes = 256 << 20, copied_bytes = 64 << 20;

static double share(uint64_t part, uint64_t whole)
{
	return whole > 0 ? (double) part / (double) whole : 0;
}

/* What is sampled is known within its sigma; of no samples nothing is claimed. */
static bool is_half(const struct toucher *t, uint64_t peak_bytes)
{
	return t->samples > 0 && t->bytes >= one_call_bytes &&
	       (double) t->bytes - SIGMAS * (double) t->sigma_bytes >=
		       (double) peak_bytes * ONE_CALL_PERCENT / 100;
}

static bool is_of_ranks(const struct known_of_run *k)
{
	return k->s->job && job_parts(k->s->job);
}

static void put_why_not(const struct touched *w, struct buf *text)
{
	const struct toucher *most = &w->list[0];
	char bytes[UNITS_LEN], sigma[UNITS_LEN];

	if (w->n == 0) {
		(void) buf_str(text, "no memory of the peak is known to be touched by a function");
		return;
	}
	(void) buf_printf(text,
		"%s first touched most, %.0f %% of the peak (%s +- %s; limit: half by one function other than main, more than %d "
		"sigma above it, and 256 MiB)",
		most->name, 100 * share(most->bytes, w->peak_bytes),
		units_bytes((int64_t) most->bytes, UNITS_IEC, bytes),
		units_bytes((int64_t) most->sigma_bytes, UNITS_IEC, sigma), SIGMAS);
}

bool rule_one_call(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct touched *w = k->s->touched;
	const struct toucher *most = NULL;
	char bytes[UNITS_LEN], peak[UNITS_LEN];

	for (size_t i = 0; i < w->n && !most; i++) {
		if (w->list[i].is_function && is_half(&w->list[i], w->peak_bytes))
			most = &w->list[i];
	}
	if (!most) {
		put_why_not(w, text);
		return false;
	}
	finding_text(f, "function", most->name);
	if (*most->caller)
		finding_text(f, "caller", most->caller);
	finding_evidence(f, "function_bytes", (double) most->bytes);
	finding_evidence(f, "sigma_bytes", (double) most->sigma_bytes);
	finding_evidence(f, "peak_bytes", (double) w->peak_bytes);
	finding_evidence(f, "function_ratio", share(most->bytes, w->peak_bytes));
	(void) buf_printf(text,
		"%s of %s%s (%.0f %%) was first touched by %s%s%s. To use less memory, begin there: smaller parts, a smaller "
		"type, or freeing it earlier; hiwater where shows its lines and stacks.",
		units_bytes((int64_t) most->bytes, UNITS_IEC, bytes),
		units_bytes((int64_t) w->peak_bytes, UNITS_IEC, peak),
		is_of_ranks(k) ? ", the sum of the peaks of all ranks," : " at the peak",
		100 * share(most->bytes, w->peak_bytes), most->name, *most->caller ? ", called by " : "",
		most->caller);
	return true;
}

bool rule_copy_on_write(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct touched *w = k->s->touched;
	const struct copied *c = &w->copied;
	char bytes[UNITS_LEN], most[UNITS_LEN];

	(void) units_bytes((int64_t) c->bytes, UNITS_IEC, bytes);
	if (c->bytes < copied_bytes || 100 * c->bytes < w->peak_bytes * COPIED_PERCENT) {
		(void) buf_printf(text,
			"%s of the peak, %.0f %%, are copies of pages that forked processes shared with their parents "
			"(limit: %d %%, and 64 MiB)",
			bytes, 100 * share(c->bytes, w->peak_bytes), COPIED_PERCENT);
		return false;
	}
	finding_text(f, "function", c->name);
	finding_evidence(f, "cow_bytes", (double) c->bytes);
	finding_evidence(f, "cow_ratio", share(c->bytes, w->peak_bytes));
	finding_evidence(f, "cow_processes", (double) c->n_processes);
	(void) buf_printf(text,
		"%s was copied in %llu forked process%s, %s of it by %s: they wrote to pages that they shared with their "
		"parent since the fork. Python's reference counts do that to objects that are only read. Have less in "
		"memory at the fork, or keep it in arrays or shared memory.",
		bytes, (unsigned long long) c->n_processes, c->n_processes == 1 ? "" : "es",
		units_bytes((int64_t) c->name_bytes, UNITS_IEC, most), c->name);
	return true;
}
