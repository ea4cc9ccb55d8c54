/* SPDX-License-Identifier: MIT
 *
 * blind-spots: parts of the run that were not measured. They weaken every figure of the summary.
 */
#include <string.h>

#include "base/units.h"
#include "findings/client.h"
#include "findings/finding.h"

enum {
	FEW_SAMPLES = 20,
	LATE_LEAST = 3,
	GAP_INTERVALS = 10
}; /* one late sample of thirty proves nothing */

static const int64_t gap_least_ns = 1000000000;

static bool is_set(struct maybe flag)
{
	return flag.known && flag.value > 0;
}

/* Separates sentences. */
static void next(struct buf *text)
{
	if (text->len > 0)
		buf_str(text, " ");
}

static void tasks_elsewhere(const struct summary *s, struct finding *f, struct buf *text)
{
	if (!is_set(s->facts->srun_seen))
		return;
	finding_evidence(f, "srun", 1);
	f->severity = SEVERITY_WARN;
	next(text);
	buf_str(text,
		"Tasks that srun or mpirun started on other nodes, or outside this process tree, were not measured: run "
		"hiwater in each task (srun hiwater run -- ...).");
}

/* The figures are those of the client. */
static void work_elsewhere(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct client_seen client = client_find(s);

	if (!client.name)
		return;
	finding_text(f, "client", client.name);
	finding_evidence(f, "client_ratio", client.share);
	f->severity = SEVERITY_WARN;
	next(text);
	buf_printf(text, "%s ran for %.0f %% of the time; the work was done %s, and was not measured: %s.",
		client.name, 100 * client.share, client.where, client.remedy);
}

/* Bounds hold at any sampling interval; narrow ones need no warning. */
static bool is_tight(const struct ram_figure *figure)
{
	enum {
		TIGHT = 10,           /* a tenth: requests are rounded up by as much */
		LITTLE_BYTES = 8 << 20 /* below the step of any request */
	};

	if (figure->method != METHOD_BOUNDED || !figure->low.known || !figure->high.known)
		return figure->method == METHOD_EXACT;
	const int64_t width = figure->high.value - figure->low.value;

	return width <= LITTLE_BYTES || width <= figure->low.value / TIGHT;
}

static void too_few_samples(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe samples = s->facts->samples;

	if (!samples.known || samples.value >= FEW_SAMPLES || is_tight(&s->combined))
		return;
	finding_evidence(f, "samples", (double) samples.value);
	next(text);
	buf_printf(text, "Only %lld sample%s: short peaks may be missing; use a shorter -i.",
		(long long) samples.value, samples.value == 1 ? "" : "s");
}

/* One process is enough: it may be a fork, hidden by prctl, of a parent whose memory can be
 * read. */
static void hidden(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe n = s->facts->processes_hidden;

	if (n.value < 1 || is_tight(&s->combined))
		return;
	finding_evidence(f, "processes_hidden", (double) n.value);
	next(text);
	buf_printf(text,
		"The memory of %lld process%s cannot be inspected (setuid, or hidden by prctl): pages that %s with others are known by "
		"mapping name only, and some may be counted more than once; %s.",
		(long long) n.value, n.value == 1 ? "" : "es", n.value == 1 ? "it shares" : "they share",
		is_set(s->facts->refused_with_ptrace)
			? "hiwater has CAP_SYS_PTRACE, but the kernel still denies access (a sandbox or a security module)"
			: "run hiwater as root or with CAP_SYS_PTRACE to include them");
}

static void late_samples(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe samples = s->facts->samples, late = s->facts->late_samples;

	if (!samples.known || !late.known || late.value < LATE_LEAST || late.value * 100 <= samples.value)
		return;
	finding_evidence(f, "late_samples", (double) late.value);
	next(text);
	buf_printf(text, "%lld of %lld samples were late", (long long) late.value, (long long) samples.value);
	if (is_set(s->facts->skipped_samples)) {
		finding_evidence(f, "skipped_samples", (double) s->facts->skipped_samples.value);
		buf_printf(text, " and %lld were skipped", (long long) s->facts->skipped_samples.value);
	}
	buf_str(text, ": the machine was busy, short peaks may be missing.");
}

static const char *gap_cause(const struct summary *s)
{
	const char *cause = s->facts->longest_gap_cause;

	if (!cause)
		return "the machine was suspended or busy, or hiwater was stopped";
	if (strcmp(cause, "suspended") == 0)
		return "the machine was suspended";
	return strcmp(cause, "stopped") == 0 ? "hiwater was stopped" : "the machine was busy";
}

static void gaps(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe gap = s->facts->longest_gap_ns, interval = s->facts->interval_ns;
	const int64_t least = maybe_max(
		known(gap_least_ns), known(interval.known ? interval.value * GAP_INTERVALS : 0))
				      .value;
	char length[UNITS_LEN];

	if (!gap.known || gap.value <= least)
		return;
	finding_evidence(f, "longest_gap_s", (double) gap.value / 1e9);
	f->severity = SEVERITY_WARN;
	next(text);
	buf_printf(text, "No samples for %s: %s.", units_duration(gap.value, length), gap_cause(s));
}

static void lost_exit_records(const struct summary *s, struct finding *f, struct buf *text)
{
	if (!is_set(s->facts->taskstats_lost))
		return;
	finding_evidence(f, "taskstats_lost", 1);
	if (s->seen_at_least)
		f->severity = SEVERITY_WARN;
	next(text);
	buf_str(text,
		"The kernel dropped exit records, probably because too many processes ended at once: short processes may be missing, "
		"with their memory, I/O and, where they were not waited for, CPU time.");
}

/* With attach, processes that keep running are normal. */
static void still_running(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct facts *facts = s->facts;

	if (mode_is_attach(facts->mode) || !is_set(facts->processes_left))
		return;
	finding_evidence(f, "processes_left", (double) facts->processes_left.value);
	next(text);
	buf_printf(text, "%lld process%s %s left running and not measured further%s%s; --wait follows them.",
		(long long) facts->processes_left.value, facts->processes_left.value == 1 ? "" : "es",
		facts->processes_left.value == 1 ? "was" : "were", facts->left_names ? ": " : "",
		facts->left_names ? facts->left_names : "");
}

static void lost_frames(const struct summary *s, struct finding *f, struct buf *text)
{
	if (!is_set(s->facts->frames_dropped))
		return;
	finding_evidence(f, "frames_dropped", (double) s->facts->frames_dropped.value);
	f->severity = SEVERITY_WARN;
	next(text);
	buf_printf(text, "The recording lacks %lld frames: its disk was too slow.",
		(long long) s->facts->frames_dropped.value);
}

/* Of rows only: the totals at the end cover the gap. */
static void recording_gap(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe gap = s->facts->recording_gap_ns;
	char length[UNITS_LEN];

	if (!is_set(gap))
		return;
	finding_evidence(f, "recording_gap_s", (double) gap.value / 1e9);
	next(text);
	buf_printf(text,
		"The recording has a gap of %s, in which it could not be written; the summary includes that time.",
		units_duration(gap.value, length));
}

/* The measurement ended before the run. A recorder on another host may still be running. */
static void cut_off(const struct summary *s, struct finding *f, struct buf *text)
{
	const char *why = s->facts->recording_stopped;
	char until[UNITS_LEN];

	if (s->complete || s->elsewhere || !(s->lost || why) || !s->wall_ns.known)
		return;
	finding_evidence(f, "recorded_until_s", (double) s->wall_ns.value / 1e9);
	f->severity = SEVERITY_WARN;
	next(text);
	buf_printf(text, "%s%s after %s: all figures cover the time until then, later use was not measured.",
		s->lost ? "The recorder was lost" : "The recording stopped, ", s->lost ? "" : why,
		units_instant(s->wall_ns.value, until));
}

bool rule_blind_spots(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	static void (*const checks[])(const struct summary *s, struct finding *f, struct buf *text) = {
		cut_off,
		tasks_elsewhere,
		work_elsewhere,
		too_few_samples,
		hidden,
		late_samples,
		gaps,
		lost_exit_records,
		still_running,
		lost_frames,
		recording_gap,
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++)
		checks[i](k->s, f, text);
	if (text->len > 0)
		return true;
	if (!k->s->facts->samples.known)
		buf_str(text, "gaps are unknown: the recorder was lost");
	else
		buf_str(text,
			"nothing was missed: no srun, no late samples, no gaps, no process still running, no dropped frames");
	return false;
}
