/* SPDX-License-Identifier: MIT */
#include "sink/job_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/stats.h"
#include "sink/figures.h"

enum {
	LINES_MOST = 1000,
	PROBLEMS_SHOWN = 8,
};

/* ---- building -------------------------------------------------------------------------------- */

static struct job_line *add_line(struct job_lines *l, const char *label)
{
	static struct job_line lost;

	if (vec_reserve(&l->line, &l->cap, l->n, sizeof(l->line[0]), LINES_MOST) < 0) {
		l->error = -ENOMEM;
		lost = (struct job_line) { .n = JOB_LINE_PARTS };
		return &lost;
	}
	l->line[l->n] = (struct job_line) { 0 };
	(void) snprintf(l->line[l->n].label, sizeof(l->line[l->n].label), "%s", label);
	return &l->line[l->n++];
}

static void add_part(struct job_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_part(struct job_line *line, const char *format, ...)
{
	va_list ap;

	if (line->n >= JOB_LINE_PARTS)
		return;
	va_start(ap, format);
	if (vasprintf(&line->part[line->n], format, ap) >= 0)
		line->n++;
	va_end(ap);
}

void job_lines_done(struct job_lines *l)
{
	for (size_t i = 0; i < l->n; i++) {
		for (size_t k = 0; k < l->line[i].n; k++)
			free(l->line[i].part[k]);
	}
	free(l->line);
	*l = (struct job_lines) { 0 };
}

static const char *name_of(const char *name)
{
	return name ? name : "?";
}

/* "A of B GiB (35 %)" */
static void write_of(const struct sink_options *o, int64_t bytes, struct maybe of, struct buf *out)
{
	char amount[UNITS_LEN], whole[UNITS_LEN], percent[UNITS_LEN];

	(void) buf_str(out, units_bytes(bytes, o->units, amount));
	if (of.known && of.value > 0)
		(void) buf_printf(out, " of %s (%s)", units_bytes(of.value, o->units, whole),
			units_percent(bytes, of.value, percent));
}

/* ---- what was found -------------------------------------------------------------------------- */

void job_size_words(const struct summary *s, struct buf *out)
{
	const struct parts *p = job_parts(s->job);
	const size_t nodes = p->n_nodes + parts_missing_nodes(p), gpus = job_gpus_counted(s->job);
	const int64_t ranks = parts_ranks(p);

	(void) buf_printf(out, "%zu node%s", nodes, nodes == 1 ? "" : "s");
	if (ranks > 0)
		(void) buf_printf(out, "  %" PRId64 " rank%s", ranks, ranks == 1 ? "" : "s");
	if (gpus > 0)
		(void) buf_printf(out, "  %zu GPU%s", gpus, gpus == 1 ? "" : "s");
}

static void found(const struct summary *s, struct job_lines *l)
{
	const struct parts *p = job_parts(s->job);
	const bool complete = parts_are_complete(p);
	struct job_line *line = add_line(l, complete               ? "Complete"
					    : parts_are_running(p) ? "Running"
								   : "Incomplete");
	const int64_t ranks = parts_ranks(p);
	const int64_t missing = (int64_t) parts_missing(p, NULL, 0);
	char text[UNITS_LEN];

	line->is_problem = !complete && !parts_are_running(p);
	if (summary_is_batch_only(s->facts))
		add_part(line, "the batch script");
	else if (ranks > 0)
		add_part(line, "%" PRId64 " of %" PRId64 " ranks", ranks - missing, ranks);
	if (p->n_nodes + parts_missing_nodes(p) > 1)
		add_part(line, "%zu of %zu nodes", p->n_nodes, p->n_nodes + parts_missing_nodes(p));
	if (parts_stagger_ns(p) > 0)
		add_part(line, "starts within %s", units_duration(parts_stagger_ns(p), text));
	if (p->n_nodes < 2)
		return;
	if (p->clocks_compared && p->clock_rest_ns.known)
		add_part(line, "clocks within %s", units_duration(p->clock_rest_ns.value, text));
	else
		add_part(line, "clocks of the nodes not compared");
}

/* ---- what is missing ------------------------------------------------------------------------- */

static void missing_ranks(const struct parts *p, struct job_line *line)
{
	int64_t ranks[JOB_RANKS_NAMED];
	const size_t n = parts_missing(p, ranks, JOB_RANKS_NAMED);
	struct buf text = BUF_INIT(1 << 12);

	if (n == 0)
		return;
	(void) buf_printf(&text, "rank%s ", n == 1 ? "" : "s");
	for (size_t i = 0; i < n && i < JOB_RANKS_NAMED; i++)
		(void) buf_printf(&text, "%s%" PRId64, i ? ", " : "", ranks[i]);
	if (n > JOB_RANKS_NAMED)
		(void) buf_printf(&text, " and %zu more", n - JOB_RANKS_NAMED);
	add_part(line, "%s: no recording", text.data);
	buf_done(&text);
}

static int64_t last_end(const struct parts *p)
{
	int64_t end = 0;

	for (size_t i = 0; i < p->n; i++) {
		if (p->part[i].counts.value == 1)
			end = larger(end, part_end_ns(&p->part[i]));
	}
	return end;
}

/* Another rank's recorder took over; the time between the two is reported instead. */
static bool was_followed(const struct parts *p, const struct part *node)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct part *next = &p->part[i];

		if (next->counts.value == 1 && part_is(next, "node") && part_end_ns(next) > part_end_ns(node) &&
			strcmp(name_of(next->node), name_of(node->node)) == 0)
			return true;
	}
	return false;
}

static void cut_off(const struct parts *p, struct job_line *line)
{
	const int64_t end = last_end(p);
	char text[UNITS_LEN];

	for (size_t i = 0; i < p->n && line->n < JOB_LINE_PARTS; i++) {
		const struct part *part = &p->part[i];

		if (!part_is_cut_off(part))
			continue;
		if (part_is(part, "node") && was_followed(p, part))
			continue;
		if (part_is(part, "node"))
			add_part(line, "the recording of node %s: cut off %s before the end",
				name_of(part->node), units_duration(end - part_end_ns(part), text));
		else if (part->rank.known)
			add_part(line, "rank %" PRId64 ": cut off %s before the end (killed?)",
				part->rank.value, units_duration(end - part_end_ns(part), text));
		else
			add_part(line, "%s: cut off %s before the end (killed?)", name_of(part->file),
				units_duration(end - part_end_ns(part), text));
	}
}

static void clocks(const struct parts *p, struct job_line *line)
{
	static const int64_t step_least = 10000000, ahead_least = 100000000;
	char text[UNITS_LEN];

	for (size_t i = 0; i < p->n_nodes && line->n < JOB_LINE_PARTS; i++) {
		const struct part_node *n = &p->node[i];
		const int64_t ahead = n->clock_ahead_ns.value;

		if (ahead >= ahead_least || -ahead >= ahead_least)
			add_part(line, "%s: clock %s %s", name_of(n->name),
				units_duration(ahead < 0 ? -ahead : ahead, text),
				ahead < 0 ? "behind" : "ahead");
		if (n->clock_step_ns.value >= step_least)
			add_part(line, "%s: clock changed by %s during the job", name_of(n->name),
				units_duration(n->clock_step_ns.value, text));
	}
}

/* Several lines if there is much. */
static void lacks(const struct summary *s, struct job_lines *l)
{
	static const int64_t gap_least = 500000000; /* a leader that ends first leaves some milliseconds */
	const struct parts *p = job_parts(s->job);
	const size_t nodes = parts_missing_nodes(p);
	struct job_line line = { .label = "Missing", .is_problem = true };
	char text[UNITS_LEN];

	missing_ranks(p, &line);
	if (nodes > 0)
		add_part(&line, "%zu node%s: no recording", nodes, nodes == 1 ? "" : "s");
	cut_off(p, &line);
	clocks(p, &line);
	for (size_t i = 0; i < p->n_nodes && line.n < JOB_LINE_PARTS; i++) {
		if (p->node[i].union_gap_ns.value >= gap_least)
			add_part(&line, "%s: its ranks were not measured together for %s",
				name_of(p->node[i].name),
				units_duration(p->node[i].union_gap_ns.value, text));
	}
	if (line.n > 0)
		*add_line(l, "") = line;
	for (size_t i = 0; i < p->n_problems; i++) {
		struct job_line *problem = add_line(l, i == 0 ? "Unreadable" : "");

		problem->is_problem = true;
		if (i == PROBLEMS_SHOWN) {
			add_part(problem, "and %zu more", p->n_problems - i);
			break;
		}
		add_part(problem, "%s: %s", p->problem[i].file, p->problem[i].why);
	}
	if (s->facts->other_jobs && *s->facts->other_jobs)
		add_part(add_line(l, "Others"), "the folder also has recordings of %s",
			s->facts->other_jobs);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

struct spread {
	int64_t least, most, sum;
	size_t n;
};

static void spread_add(struct spread *s, struct maybe value)
{
	if (!value.known)
		return;
	s->least = s->n ? smaller(s->least, value.value) : value.value;
	s->most = s->n ? larger(s->most, value.value) : value.value;
	s->sum += value.value;
	s->n++;
}

/* "SM active 41 % (12 % to 44 %)" */
static void add_share(struct job_line *line, const char *name, const struct spread *s)
{
	char mean[UNITS_LEN], least[UNITS_LEN], most[UNITS_LEN];

	if (s->n == 0)
		return;
	(void) units_percent(s->sum / (int64_t) s->n, 1000000, mean);
	if (s->n == 1 || s->most - s->least < 20000)
		add_part(line, "%s %s", name, mean);
	else
		add_part(line, "%s %s (%s to %s)", name, mean, units_percent(s->least, 1000000, least),
			units_percent(s->most, 1000000, most));
}

static void gpus(const struct summary *s, const struct sink_options *o, struct job_lines *l)
{
	const struct parts *p = job_parts(s->job);
	struct spread active = { 0 }, busy = { 0 };
	struct maybe peak = UNKNOWN, of = UNKNOWN;
	const char *node = "";
	char name[UNITS_LEN] = "";

	if (job_gpus_counted(s->job) == 0)
		return;
	for (size_t i = 0; i < job_gpu_count(s->job); i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;
		const struct maybe used = summary_gpu_device_peak(s, b->id);

		if (!job_gpu_counts(s->job, b))
			continue;
		spread_add(&active, summary_mean(s, M_GPU_SM_ACTIVE, b->id));
		spread_add(&busy, summary_mean(s, M_GPU_BUSY, b->id));
		if (!used.known || (peak.known && used.value <= peak.value))
			continue;
		peak = used;
		of = b->gpu.memory_bytes;
		(void) job_gpu_name(s->job, &b->gpu, name);
		for (size_t k = 0; k < p->n_gpus; k++) {
			if (p->gpu[k].gpu == b->id && p->gpu[k].node < p->n_nodes)
				node = name_of(p->node[p->gpu[k].node].name);
		}
	}
	struct job_line *line = add_line(l, "GPUs");

	add_share(line, "SM active", &active);
	add_share(line, "busy", &busy);
	if (peak.known) {
		struct buf text = BUF_INIT(256);

		write_of(o, peak.value, of, &text);
		add_part(line, "memory %s, most on %s %s", text.data, node, name);
		buf_done(&text);
	}
	if (s->gpu_energy_uj.known) {
		char energy[UNITS_LEN];

		add_part(line, "%s", units_energy(s->gpu_energy_uj.value, energy));
	}
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_gpu_of(const struct job *job, const struct part_gpu *gpu, size_t node)
{
	return gpu->node == node && job_gpu_id_counts(job, gpu->gpu);
}

/* The shares of its GPUs, side by side: "GPUs SM active 44 43 45 12 %". */
static void node_gpus(const struct summary *s, size_t node, struct job_line *line)
{
	const struct parts *p = job_parts(s->job);
	struct buf text = BUF_INIT(1 << 10);
	enum metric lead = M_GPU_SM_ACTIVE;
	size_t n = 0;

	for (size_t k = 0; k < p->n_gpus; k++) {
		if (is_gpu_of(s->job, &p->gpu[k], node) &&
			!summary_mean(s, M_GPU_SM_ACTIVE, p->gpu[k].gpu).known)
			lead = M_GPU_BUSY;
	}
	for (size_t k = 0; k < p->n_gpus; k++) {
		if (!is_gpu_of(s->job, &p->gpu[k], node))
			continue;
		const struct maybe share = summary_mean(s, lead, p->gpu[k].gpu);

		if (share.known)
			(void) buf_printf(&text, " %" PRId64, (share.value + 5000) / 10000);
		else
			(void) buf_str(&text, " ?");
		n++;
	}
	if (n > 0)
		add_part(line, "GPU%s %s%s %%", n == 1 ? "" : "s",
			lead == M_GPU_BUSY ? "busy" : "SM active", text.data);
	buf_done(&text);
}

static void node_ram(const struct summary *s, const struct part_node *n, const struct sink_options *o,
	struct job_line *line)
{
	struct buf text = BUF_INIT(512);
	char low[UNITS_LEN], high[UNITS_LEN];
	const struct maybe of = summary_is_batch_only(s->facts) ? UNKNOWN
				: n->limit_bytes.known          ? n->limit_bytes
								: n->capacity_bytes;

	if (!n->ram_peak_bytes.known) {
		add_part(line, "RAM not measured");
		return;
	}
	write_of(o, n->ram_peak_bytes.value, of, &text);
	if (!n->ram_high_bytes.known)
		(void) buf_str(&text, ", at least");
	else if (n->ram_low_bytes.value < n->ram_high_bytes.value)
		(void) buf_printf(&text, ", %s to %s",
			units_bytes_like(n->ram_low_bytes.value, n->ram_high_bytes.value, o->units, low),
			units_bytes(n->ram_high_bytes.value, o->units, high));
	add_part(line, "RAM %s", text.data);
	buf_done(&text);
}

static void nodes(const struct summary *s, const struct sink_options *o, struct job_lines *l)
{
	const struct parts *p = job_parts(s->job);
	char text[UNITS_LEN], whole[UNITS_LEN];

	for (size_t i = 0; i < p->n_nodes; i++) {
		const struct part_node *n = &p->node[i];
		const int64_t span = n->end_ns.value - n->start_ns.value;
		struct job_line *line;

		if (i == JOB_NODES_SHOWN) {
			add_part(add_line(l, ""), "and %zu more nodes", p->n_nodes - i);
			return;
		}
		line = add_line(l, name_of(n->name));
		if (n->ranks.value > 0)
			add_part(
				line, "%" PRId64 " rank%s", n->ranks.value, n->ranks.value == 1 ? "" : "s");
		if (n->cpu_ns.known && span > 0) {
			(void) units_cores(
				(int64_t) ((double) n->cpu_ns.value / (double) span * 1e6), text);
			if (n->cpus.known)
				add_part(line, "%s of %s core%s", text,
					units_cores(n->cpus.value * 1000000, whole),
					n->cpus.value == 1 ? "" : "s");
			else
				add_part(line, "%s cores", text);
		}
		node_ram(s, n, o, line);
		node_gpus(s, i, line);
	}
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void slowest(const struct parts *p, struct job_line *line)
{
	int64_t *steps = calloc(p->n ? p->n : 1, sizeof(*steps));
	const struct part *worst = NULL;
	char text[UNITS_LEN], middle[UNITS_LEN];
	size_t n = 0;

	for (size_t i = 0; steps && i < p->n; i++) {
		const struct part *part = &p->part[i];

		if (!part_is_rank(part) || !part->step_ns.known)
			continue;
		steps[n++] = part->step_ns.value;
		if (!worst || part->step_ns.value > worst->step_ns.value)
			worst = part;
	}
	if (n > 1) {
		add_part(line, "slowest %" PRId64 " (%s): %s a step, median %s", worst->rank.value,
			name_of(worst->node), units_duration(worst->step_ns.value, text),
			units_duration(stats_median(steps, n), middle));
	}
	free(steps);
}

static void ranks(const struct summary *s, const struct sink_options *o, struct job_lines *l)
{
	const struct parts *p = job_parts(s->job);
	struct job_line *line;
	struct spread ram = { 0 }, cpu = { 0 };
	char least[UNITS_LEN], most[UNITS_LEN];
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct part *part = &p->part[i];
		const struct maybe used = maybe_sum(part->user_ns, part->system_ns);

		if (!part_is_rank(part))
			continue;
		n++;
		spread_add(&ram, part->ram_peak_bytes);
		if (used.known && part->wall_ns.value > 0)
			spread_add(&cpu, known((int64_t) ((double) used.value /
							  (double) part->wall_ns.value * 1e6)));
	}
	if (n < 2)
		return;
	line = add_line(l, "Ranks");
	slowest(p, line);
	if (ram.n > 0)
		add_part(line, "RAM %s to %s", units_bytes_like(ram.least, ram.most, o->units, least),
			units_bytes(ram.most, o->units, most));
	if (cpu.n > 0)
		add_part(line, "CPU %s to %s cores", units_cores(cpu.least, least),
			units_cores(cpu.most, most));
}

int job_lines_make(const struct summary *s, const struct sink_options *o, struct job_lines *ret)
{
	*ret = (struct job_lines) { 0 };
	if (!s->job || !job_parts(s->job))
		return 0;
	found(s, ret);
	lacks(s, ret);
	gpus(s, o, ret);
	nodes(s, o, ret);
	ranks(s, o, ret);
	return ret->error;
}
