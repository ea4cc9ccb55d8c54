/* SPDX-License-Identifier: MIT
 *
 * What hiwater did not see: it lowers every claim that the summary makes.
 */
#include <string.h>

#include "base/units.h"
#include "findings/finding.h"

enum {
	FEW_TICKS = 20,
	LATE_LEAST = 3,
	GAP_INTERVALS = 10
}; /* one late tick of thirty says nothing */

static const int64_t gap_least_ns = 1000000000;

static bool is_set(struct maybe flag)
{
	return flag.known && flag.value > 0;
}

/* Begins a further sentence. */
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
	buf_str(text, "Tasks that srun or mpirun started on other nodes, or outside this process tree, were not seen: put "
		      "hiwater inside (srun hiwater run -- ...).");
}

/* Bounds are bounds however seldom one looked. */
static bool is_tight(const struct ram_figure *figure)
{
	enum {
		TIGHT = 10,           /* within a tenth: a request is rounded up by as much */
		LITTLE_BYTES = 8 << 20 /* nobody asks for less */
	};

	if (figure->method != METHOD_BOUNDED || !figure->low.known || !figure->high.known)
		return figure->method == METHOD_EXACT;
	const int64_t width = figure->high.value - figure->low.value;

	return width <= LITTLE_BYTES || width <= figure->low.value / TIGHT;
}

static void too_few_looks(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe ticks = s->facts->ticks;

	if (!ticks.known || ticks.value >= FEW_TICKS || is_tight(&s->combined))
		return;
	finding_evidence(f, "ticks", (double) ticks.value);
	next(text);
	buf_printf(text, "Only %lld look%s: short peaks may be missing; a shorter -i sees more.", (long long) ticks.value,
		ticks.value == 1 ? "" : "s");
}

/* One is enough: it may be a fork that hid itself, of a parent that can be read. */
static void hidden(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe n = s->facts->processes_hidden;

	if (n.value < 1 || is_tight(&s->combined))
		return;
	finding_evidence(f, "processes_hidden", (double) n.value);
	next(text);
	buf_printf(text, "%lld process%s another user's rights (setuid) or hid from others (prctl): what %s with others is told by names alone, "
			 "and some memory may be counted more than once; %s.",
		(long long) n.value, n.value == 1 ? " has" : "es have", n.value == 1 ? "it shares" : "they share",
		is_set(s->facts->refused_with_ptrace)
			? "hiwater has CAP_SYS_PTRACE, and the kernel refuses it all the same, as a sandbox or a security module may"
			: "with the right to look (root, or CAP_SYS_PTRACE) hiwater sees it");
}

static void late_looks(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe ticks = s->facts->ticks, late = s->facts->late_ticks;

	if (!ticks.known || !late.known || late.value < LATE_LEAST || late.value * 100 <= ticks.value)
		return;
	finding_evidence(f, "late_ticks", (double) late.value);
	next(text);
	buf_printf(text, "%lld of %lld ticks came late: the machine was busy, short peaks may be missing.",
		(long long) late.value, (long long) ticks.value);
}

static void gaps(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe gap = s->facts->longest_gap_ns, interval = s->facts->interval_ns;
	const int64_t least = maybe_max(known(gap_least_ns), known(interval.known ? interval.value * GAP_INTERVALS : 0)).value;
	char length[UNITS_LEN];

	if (!gap.known || gap.value <= least)
		return;
	finding_evidence(f, "longest_gap_s", (double) gap.value / 1e9);
	f->severity = SEVERITY_WARN;
	next(text);
	buf_printf(text, "Nothing was read for %s (suspended, or hiwater was stopped).", units_duration(gap.value, length));
}

static void lost_ends(const struct summary *s, struct finding *f, struct buf *text)
{
	if (!is_set(s->facts->taskstats_lost))
		return;
	finding_evidence(f, "taskstats_lost", 1);
	if (s->seen_at_least)
		f->severity = SEVERITY_WARN;
	next(text);
	buf_str(text, "Exit records of the kernel were lost, mostly because more ended at once than it keeps: short processes may be missing, "
		      "with their memory, I/O and, where nobody waited for them, CPU time.");
}

/* Who attaches for a while knows that the job goes on. */
static void lived_on(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct facts *facts = s->facts;
	const bool attached = facts->mode && strcmp(facts->mode, "attach") == 0;

	if (attached || !is_set(facts->processes_left))
		return;
	finding_evidence(f, "processes_left", (double) facts->processes_left.value);
	next(text);
	buf_printf(text, "%lld process%s lived on and %s not measured further%s%s; --wait follows them.",
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
	buf_printf(text, "%lld frames are missing in the recording: its disk was too slow.",
		(long long) s->facts->frames_dropped.value);
}

/* What was measured ends before the run does. On another host it may go on. */
static void cut_off(const struct summary *s, struct finding *f, struct buf *text)
{
	const char *why = s->facts->recording_stopped;
	char until[UNITS_LEN];

	if (s->complete || s->elsewhere || !(s->lost || why) || !s->wall_ns.known)
		return;
	finding_evidence(f, "recorded_until_s", (double) s->wall_ns.value / 1e9);
	f->severity = SEVERITY_WARN;
	next(text);
	buf_printf(text, "%s%s after %s: what came then was not seen, all figures are of the time before.",
		s->lost ? "The recorder was lost" : "The recording stopped, ", s->lost ? "" : why, units_duration(s->wall_ns.value, until));
}

bool rule_blind_spots(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	static void (*const looks[])(const struct summary *s, struct finding *f, struct buf *text) = {
		cut_off,
		tasks_elsewhere,
		too_few_looks,
		hidden,
		late_looks,
		gaps,
		lost_ends,
		lived_on,
		lost_frames,
	};

	for (size_t i = 0; i < sizeof(looks) / sizeof(*looks); i++)
		looks[i](k->s, f, text);
	if (text->len > 0)
		return true;
	if (!k->s->facts->ticks.known)
		buf_str(text, "what was missed is unknown: the recorder was lost");
	else
		buf_str(text, "nothing was missed: no srun, no late ticks, no gaps, nothing that lived on, no frames dropped");
	return false;
}
