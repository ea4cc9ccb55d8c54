/* SPDX-License-Identifier: MIT */
#include "sink/text/text.h"

#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"

#define NS_PER_S 1000000000

static void label(struct text *t, const char *name)
{
	layout_row(&t->l, TONE_LABEL, name, TEXT_INDENT);
}

static const char *plural(int64_t n)
{
	return n == 1 ? "" : "es";
}

/* ---- the rule at the top ------------------------------------------------------------------------------------------- */

static void rule(struct text *t, unsigned columns)
{
	for (unsigned i = 0; i < columns; i++)
		layout_more(&t->l, TONE_NONE, t->l.utf8 ? "\xE2\x94\x80" : "-");
}

/* " 2026-11-21 05:35  run 17 "; without the date where there is little room. */
static void header_right(const struct text *t, struct buf *out)
{
	char date[UNITS_LEN];
	uint64_t number;

	if (t->f->started_wall_ns.known && t->o->width >= 60)
		buf_printf(out, " %.16s ", units_date((uint64_t) t->f->started_wall_ns.value, date));
	if (figure_run(t->f, t->o, &number))
		buf_printf(out, " run %llu ", (unsigned long long) number);
}

static void header(struct text *t)
{
	struct buf clean = BUF_INIT(1 << 20), command = BUF_INIT(1 << 20), right = BUF_INIT(256);
	const unsigned fixed = 3 + 10 + 1 + 3 + 3; /* rule, "hiwater", blank, rule, rule */

	header_right(t, &right);
	text_clean(t->f->command ? t->f->command : "", t->o->utf8, &clean);
	text_shorten(clean.data, t->o->width - fixed - text_width(right.data), t->o->utf8, &command);
	layout_row(&t->l, TONE_NONE, "", 0);
	rule(t, 3);
	layout_more(&t->l, TONE_NONE, " ");
	layout_more(&t->l, TONE_LABEL, "hiwater");
	layout_more(&t->l, TONE_NONE, "  ");
	layout_more(&t->l, TONE_NONE, command.data);
	layout_more(&t->l, TONE_NONE, " ");
	rule(t, t->o->width - t->l.column - text_width(right.data) - 3);
	layout_more(&t->l, TONE_NONE, right.data);
	rule(t, t->o->width - t->l.column);
	layout_end(&t->l);
	if (clean.error || command.error)
		t->l.out->error = clean.error ? clean.error : command.error;
	buf_done(&clean);
	buf_done(&command);
	buf_done(&right);
}

/* ---- the rows ------------------------------------------------------------------------------------------------------- */

static void how_it_ended(struct text *t)
{
	const struct ending end = ending_of(t->s);
	char name[UNITS_LEN];
	const bool attached = t->f->mode && strcmp(t->f->mode, "attach") == 0;
	const char *how = attached ? " by its exit record" : "";

	switch (end.outcome) {
	case OUTCOME_EXIT:
		layout_part(&t->l, "%sexit" NB "%d%s", attached ? "attached, " : "", end.code, how);
		break;
	case OUTCOME_SIGNAL:
		layout_part(&t->l, "KILLED by signal %d, %s (exit" NB "%d%s)", end.signal,
			figure_signal(end.signal, name), end.code, how);
		break;
	case OUTCOME_LIMIT:
		layout_part(&t->l, "ended by --limit (exit" NB "%d)", end.code);
		break;
	case OUTCOME_UNSEEN:
		layout_part(&t->l, attached ? "attached, exit status not seen" : "exit status not seen");
		break;
	case OUTCOME_UNFINISHED:
		if (t->f->recording_stopped)
			layout_part(&t->l, "no end: the recording stopped, %s", t->f->recording_stopped);
		else if (t->s->elsewhere)
			layout_part(&t->l, "no end: it still runs on %s, or the recorder was lost", t->f->host);
		else
			layout_part(&t->l, t->s->lost ? "no end: the recorder was lost" : "still running");
		break;
	}
}

static void processes(struct text *t)
{
	const struct maybe seen = t->f->processes_seen, alive = t->s->peak_alive;
	const char *least = t->s->seen_at_least ? "at" NB "least" NB : "";

	if (!seen.known || seen.value <= 0)
		return;
	if (alive.known && alive.value > 0 && alive.value < seen.value)
		layout_part(&t->l, "%s%lld" NB "process%s (%lld" NB "seen" NB "at" NB "once)", least, (long long) seen.value,
			plural(seen.value), (long long) alive.value);
	else
		layout_part(&t->l, "%s%lld" NB "process%s", least, (long long) seen.value, plural(seen.value));
}

static void row_result(struct text *t)
{
	const struct facts *f = t->f;
	const struct maybe cpu = maybe_sum(t->s->user_ns, t->s->system_ns);
	const bool attached = f->mode && strcmp(f->mode, "attach") == 0;
	char text[UNITS_LEN];

	label(t, "Result");
	how_it_ended(t);
	if (t->s->wall_ns.known)
		layout_part(&t->l, "%s" NB "%s", attached ? "watched for" : t->s->complete ? "wall"
											   : "so far",
			keep_together(units_duration(t->s->wall_ns.value, text)));
	if (figure_outlived(t->s))
		layout_part(&t->l, "main" NB "ended" NB "at" NB "%s", keep_together(units_duration(t->s->main_wall_ns.value, text)));
	if (cpu.known)
		layout_part(&t->l, "CPU" NB "time" NB "%s%s%s", t->s->cpu_exact || attached ? "" : "at" NB "least" NB,
			keep_together(units_duration(cpu.value, text)), attached ? NB "(sampled)" : "");
	processes(t);
	if (f->ranks.known && f->ranks.value > 1 && f->rank.known)
		layout_part(&t->l, "rank" NB "%lld" NB "of" NB "%lld", (long long) f->rank.value,
			(long long) f->ranks.value);
	layout_end(&t->l);
}

/* "main 1.70 MiB exact (VmHWM)" */
static void who(struct text *t, const char *name, const struct ram_figure *r)
{
	struct buf how = BUF_INIT(4096);
	char amount[UNITS_LEN];

	if (!r->peak.known)
		return;
	figure_method(r, t->f, t->o, &how);
	layout_part(&t->l, "%s" NB "%s %s", name, keep_together(units_bytes(r->peak.value, t->o->units, amount)), how.data);
	buf_done(&how);
}

/* One figure of memory where there was any. */
static void amount(struct text *t, const char *name, struct maybe bytes)
{
	char text[UNITS_LEN];

	if (bytes.known && bytes.value > 0)
		layout_part(&t->l, "%s" NB "%s", name, keep_together(units_bytes(bytes.value, t->o->units, text)));
}

/* What looks saw is less than what is known otherwise: the kernel killed there, or the job held more. */
static bool is_cgroup_peak_missed(const struct summary *s)
{
	const bool killed = s->cgroup_oom_kills.known && s->cgroup_oom_kills.value > 0;

	return s->cgroup_method == METHOD_SAMPLED && (killed || (s->combined.low.known && s->combined.low.value > s->cgroup_peak.value));
}

static void cgroup(struct text *t)
{
	const struct summary *s = t->s;
	char peak[UNITS_LEN], file[UNITS_LEN], how[2 * UNITS_LEN];

	if (!s->cgroup_peak.known || s->cgroup_peak.value == 0)
		return;
	const char *least = is_cgroup_peak_missed(s) ? "at" NB "least" NB : "";

	(void) keep_together(units_bytes(s->cgroup_peak.value, t->o->units, peak));
	(void) figure_sampled(s->cgroup_method, t->f, how);
	(void) units_bytes_like(s->cgroup_file_at_peak.value, s->cgroup_peak.value, t->o->units, file);
	if (s->cgroup_file_at_peak.known && s->cgroup_file_at_peak.value > 0)
		layout_part(&t->l, "cgroup" NB "peak" NB "%s%s%s, file cache" NB "%s", least, peak, how, keep_together(file));
	else
		layout_part(&t->l, "cgroup" NB "peak" NB "%s%s%s", least, peak, how);
}

/* How the figure was had, and what it is made of. */
static void ram_details(struct text *t)
{
	const struct ram_figure *all = &t->s->combined;
	struct buf how = BUF_INIT(4096);
	char whole[UNITS_LEN], part[UNITS_LEN];

	figure_method(all, t->f, t->o, &how);
	layout_part(&t->l, "%s", how.data);
	buf_done(&how);
	if (t->s->descendants.peak.known && t->s->descendants.peak.value > 0) {
		who(t, "main", &t->s->main);
		who(t, "descendants", &t->s->descendants);
		if (all->private_bytes.known && all->shared_bytes.known)
			layout_part(&t->l, "private" NB "%s, shared" NB "%s",
				keep_together(units_bytes(all->private_bytes.value, t->o->units, whole)),
				keep_together(units_bytes_like(all->shared_bytes.value, all->private_bytes.value,
					t->o->units, part)));
	}
	amount(t, "swap", t->s->swap_peak);
	amount(t, t->s->hugetlb_at_most ? "huge" NB "pages" NB "at" NB "most" : "huge" NB "pages", t->s->hugetlb_peak);
	cgroup(t);
}

static void row_ram(struct text *t)
{
	const struct ram_figure *all = &t->s->combined;
	const struct ceiling top = ceiling_of(t->s);
	char peak[UNITS_LEN], of[UNITS_LEN], percent[UNITS_LEN];

	label(t, "RAM");
	if (!all->peak.known) {
		layout_part(&t->l, "not measured");
		if (t->s->main.high.known)
			layout_part(&t->l, "main at most %s", keep_together(units_bytes(t->s->main.high.value, t->o->units, peak)));
		layout_end(&t->l);
		return;
	}
	(void) keep_together(units_bytes(all->peak.value, t->o->units, peak));
	if (top.bytes.known)
		layout_part(&t->l, "peak" NB "%s of" NB "%s %s (%s)", peak,
			keep_together(units_bytes_like(top.bytes.value, all->peak.value, t->o->units, of)), top.words,
			keep_together(units_percent(all->peak.value, top.bytes.value, percent)));
	else
		layout_part(&t->l, "peak" NB "%s", peak);
	if (all->at_ns.known)
		layout_part(&t->l, "at" NB "%s", keep_together(units_duration(all->at_ns.value, of)));
	if (all->mean.known)
		layout_part(&t->l, "mean" NB "%s",
			keep_together(units_bytes(all->mean.value, t->o->units, of)));
	ram_details(t);
	layout_end(&t->l);
}

static void cores(struct text *t)
{
	const struct maybe all = figure_cores(t->f);
	const int64_t used = t->s->cores_mean_ppm.value;
	char number[UNITS_LEN], of[UNITS_LEN], percent[UNITS_LEN];
	const bool quota = all.known && t->f->limit_cpu_ppm.known && all.value == t->f->limit_cpu_ppm.value;

	(void) figure_number((double) used / 1e6, number);
	if (!all.known) {
		layout_part(&t->l, "%s" NB "cores", number);
		return;
	}
	(void) figure_core_count(all.value, of);
	(void) keep_together(units_percent(used, all.value, percent));
	layout_part(&t->l, "%s" NB "of" NB "%s core%s (%s%s)", number, of, all.value == 1000000 ? "" : "s", percent,
		quota ? " of its quota" : "");
}

static void row_cpu(struct text *t)
{
	const struct maybe held = figure_risen(t->s, M_JOB_CGROUP_THROTTLED);
	char text[UNITS_LEN];

	if (!t->s->cores_mean_ppm.known)
		return;
	label(t, "CPU");
	cores(t);
	if (t->s->iowait_ppm.known && t->s->iowait_ppm.value >= 5000)
		layout_part(&t->l, "io-wait" NB "%s of" NB "the" NB "machine",
			keep_together(units_percent(t->s->iowait_ppm.value, 1000000, text)));
	if (held.known && held.value >= 1000000)
		layout_part(&t->l, "throttled" NB "%s", keep_together(units_duration(held.value, text)));
	layout_end(&t->l);
}

/* "read 412 GiB (97.6 MiB/s)"; a rate over less than a second says little. */
static void moved(struct text *t, const char *verb, struct maybe bytes)
{
	const int64_t wall = t->s->wall_ns.value;
	char text[UNITS_LEN], rate[UNITS_LEN];

	if (!bytes.known || bytes.value <= 0)
		return;
	(void) keep_together(units_bytes(bytes.value, t->o->units, text));
	if (t->s->wall_ns.known && wall > 0)
		(void) units_bytes((int64_t) ((double) bytes.value / ((double) wall / NS_PER_S)), t->o->units, rate);
	if (t->s->wall_ns.known && wall >= NS_PER_S && bytes.value >= 1 << 20)
		layout_part(&t->l, "%s" NB "%s (%s/s)", verb, text, keep_together(rate));
	else
		layout_part(&t->l, "%s" NB "%s", verb, text);
}

static void row_io(struct text *t)
{
	if (t->s->read_bytes.value <= 0 && t->s->write_bytes.value <= 0)
		return;
	label(t, "I/O");
	moved(t, "read", t->s->read_bytes);
	moved(t, "written", t->s->write_bytes);
	layout_end(&t->l);
}

static void joules(struct text *t, struct maybe uj, const char *whose)
{
	const double j = (double) uj.value / 1e6;
	char number[UNITS_LEN];

	if (!uj.known)
		return;
	if (j < 3600)
		layout_part(&t->l, "%s" NB "J", figure_number(j, number));
	else
		layout_part(&t->l, "%s" NB "Wh", figure_number(j / 3600, number));
	layout_part(&t->l, "%s", whose);
}

static void row_energy(struct text *t)
{
	if (!t->s->cpu_energy_uj.known && !t->s->gpu_energy_uj.known)
		return;
	label(t, "Energy");
	joules(t, t->s->cpu_energy_uj, "whole processor package, whoever used it (RAPL)");
	if (t->s->cpu_energy_uj.known && t->s->gpu_energy_uj.known)
		layout_break(&t->l);
	joules(t, t->s->gpu_energy_uj, "whole GPUs, whoever used them");
	layout_end(&t->l);
}

/* Always there: what hiwater saw, and what it cost. */
static void row_sampling(struct text *t)
{
	const struct facts *f = t->f;
	char text[UNITS_LEN], cpu[UNITS_LEN];

	label(t, "Sampling");
	if (f->ticks.known)
		layout_part(&t->l, "%lld" NB "tick%s %s%s", (long long) f->ticks.value, f->ticks.value == 1 ? "" : "s",
			f->interval_ns.known && f->interval_ns.value <= NS_PER_S ? "at" NB : "",
			keep_together(figure_rate(f, text)));
	if (f->late_ticks.known)
		layout_part(&t->l, "%lld" NB "late", (long long) f->late_ticks.value);
	if (f->longest_gap_ns.known)
		layout_part(&t->l, "longest" NB "gap" NB "%s", keep_together(units_duration(f->longest_gap_ns.value, text)));
	if (f->own_cpu_ns.known && f->own_rss_bytes.known)
		layout_part(&t->l, "hiwater itself used %s" NB "CPU, %s",
			keep_together(units_duration(f->own_cpu_ns.value, cpu)),
			keep_together(units_bytes(f->own_rss_bytes.value, t->o->units, text)));
	if (f->gpu_helper_rss_bytes.known)
		layout_part(&t->l, "of" NB "which the GPU" NB "helper %s" NB "CPU, %s",
			keep_together(units_duration(f->gpu_helper_cpu_ns.value, cpu)),
			keep_together(units_bytes(f->gpu_helper_rss_bytes.value, t->o->units, text)));
	if (t->l.fresh)
		layout_part(&t->l, "unknown");
	layout_end(&t->l);
}

/* In the order in which they are shown. */
static void (*const rows[])(struct text *t) = {
	header,
	row_result,
	row_ram,
	text_largest,
	text_gpus,
	row_cpu,
	row_io,
	row_energy,
	text_phases,
	text_series,
	text_marks,
	row_sampling,
	text_notes,
	text_story,
	text_findings,
	text_again,
};

int text_sink(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	struct text t = { .s = s, .f = s->facts, .o = o };

	layout_init(&t.l, out, o);
	if (o->plain) {
		text_plain(&t);
		return out->error;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		rows[i](&t);
	return out->error;
}
