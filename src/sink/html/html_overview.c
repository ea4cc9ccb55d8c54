/* SPDX-License-Identifier: MIT
 *
 * The head of a report: the run, how it ended, and its main figures.
 */
#include <errno.h>
#include <string.h>

#include "sink/html/html_put.h"

enum {
	PHASES_NAMED = 4, /* nested phases at the peak */
};

void html_title(struct html *h)
{
	for (size_t i = 0; i < h->n; i++) {
		html_raw(h, i > 0 ? ", " : "");
		html_text(h, html_name(h->runs[i].summary));
	}
	html_raw(h, " - hiwater");
}

/* ---- tiles: a label, a figure, lines below it ------------------------------------------------------------------------------ */

enum {
	LINES_BELOW = 3,
};

/* The tiles of a run, in this order; a tile without its first fact is omitted. Those of GPUs follow
 * the RAM. */
struct tile {
	const char *kind, *label;
	enum fact_key key, below[LINES_BELOW]; /* FACT_END: none */
};

static const struct tile tiles[] = {
	{ "", "Result", FACT_END, { FACT_CAUSE, FACT_RANK } },
	{ "", "Time", FACT_WALL, { FACT_CPU_TIME, FACT_MAIN_ENDED } },
	{ "key", "Peak RAM", FACT_RAM_PEAK, { FACT_RAM_AT } },
	{ "", "CPU", FACT_CPU, { FACT_IOWAIT, FACT_THROTTLED } },
	{ "", "Storage", FACT_READ, { FACT_WRITTEN } },
	{ "", "Storage", FACT_WRITTEN, { FACT_END } },
	{ "", "Energy", FACT_GPU_ENERGY, { FACT_CPU_ENERGY } },
	{ "", "Energy", FACT_CPU_ENERGY, { FACT_END } },
	{ "", "Processes", FACT_PROCESSES, { FACT_END } },
};

static const struct tile gpu_tiles[] = {
	{ "key", "memory", FACT_GPU_JOB, { FACT_GPU_DEVICE } },
	{ "", "activity", FACT_GPU_LEAD, { FACT_GPU_BUSY, FACT_GPU_POWER, FACT_GPU_TEMP } },
};

/* "in epoch 2, validate": the phases at a time, outermost first. */
static void put_phases(struct html *h, const struct job *job, uint64_t at_ns)
{
	unsigned named = 0;

	for (size_t i = 0; i < job_phase_count(job) && named < PHASES_NAMED; i++) {
		const struct phase *p = job_phase(job, i);
		const char *facts = html_phase_facts(p);

		if (at_ns < p->begin_ns || (p->end_ns && at_ns > p->end_ns))
			continue;
		html_raw(h, named++ == 0 ? "<br>in " : ", ");
		html_text(h, p->name);
		html_raw(h, facts && *facts ? " " : "");
		html_text(h, facts);
	}
}

/* The main fact in large, its qualifiers and further facts below. Writes nothing and returns false
 * without the main fact. */
static bool put_tile(struct html *h, const struct html_run *run, const struct fact_list *facts,
	const struct tile *tile, const struct birth *gpu, const char *kind)
{
	const struct fact *f = facts_find(facts, tile->key, gpu ? gpu->id : 0);
	const struct summary *s = run->summary;
	char name[UNITS_LEN] = "";
	size_t empty;

	if (!f)
		return false;
	if (gpu)
		(void) job_gpu_name(s->job, &gpu->gpu, name);
	html_printf(h, "<div class=\"tile %s\"><dt>%s%s%s</dt><dd>", kind ? kind : tile->kind, name,
		gpu ? " " : "", tile->label);
	html_fact(h, s, f, "", true, !f->value.known && !f->text);
	html_raw(h, "</dd><dd class=\"more\">");
	empty = h->out->len;
	if (f->value.known && f->of.known && f->of.value > 0)
		html_printf(h, "<meter max=\"%lld\" value=\"%lld\"></meter> ", (long long) f->of.value,
			(long long) f->value.value);
	if (f->value.known || f->text)
		html_fact(h, s, f, "", false, true);
	for (size_t i = 0; i < LINES_BELOW && tile->below[i] != FACT_END; i++) {
		const struct fact *below = facts_find(facts, tile->below[i], gpu ? gpu->id : 0);

		if (!below)
			continue;
		html_raw(h, h->out->len > empty ? "<br>" : "");
		html_fact(h, s, below, below->label ? below->label : "", true, true);
		if (below->key == FACT_RAM_AT)
			put_phases(h, s->job, (uint64_t) below->value.value);
	}
	html_raw(h, "</dd></div>\n");
	return true;
}

static void put_tile_result(struct html *h, const struct html_run *run, const struct fact_list *facts)
{
	const struct summary *s = run->summary;
	const struct ending end = ending_of(s);
	const bool is_bad = ended_badly(s) ||
			    (end.outcome == OUTCOME_UNFINISHED && !run->is_growing);

	(void) put_tile(h, run, facts, &tiles[0], NULL, is_bad ? "bad" : "");
}

/* Up to two used devices have tiles of their own; if the job used several, one tile has their sum. */
static void put_gpu_tiles(struct html *h, const struct html_run *run, const struct fact_list *facts)
{
	const struct summary *s = run->summary;
	const size_t n = job_gpu_count(s->job);
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		used += figure_gpu_used(s, job_gpu(s->job, i)->birth.id);
	if (used > 1 && s->gpu_peak.known) {
		html_raw(h, "<div class=\"tile key\"><dt>GPU memory</dt><dd>");
		html_bytes(h, s->gpu_peak);
		html_printf(h, "</dd><dd class=\"more\">the job's peak over %zu GPUs, %s</dd></div>\n", used,
			method_name(s->gpu_method));
	}
	for (size_t i = 0; i < n && used <= 2; i++) {
		for (size_t k = 0; k < sizeof(gpu_tiles) / sizeof(gpu_tiles[0]); k++)
			(void) put_tile(h, run, facts, &gpu_tiles[k], &job_gpu(s->job, i)->birth, NULL);
	}
}

static void put_tiles(struct html *h, const struct html_run *run, const struct fact_list *facts)
{
	bool is_put = false;

	put_tile_result(h, run, facts);
	for (size_t i = 1; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
		const bool is_another = strcmp(tiles[i].label, tiles[i - 1].label) != 0;

		if (is_another || !is_put)
			is_put = put_tile(h, run, facts, &tiles[i], NULL, NULL);
		if (tiles[i].key == FACT_RAM_PEAK)
			put_gpu_tiles(h, run, facts);
	}
}

/* A row of the table of GPUs. */
static void gpu_row(struct html *h, const struct summary *s, const struct birth *b)
{
	enum metric lead;
	enum method method;
	char text[UNITS_LEN];

	html_printf(h, "<tr><th scope=\"row\">%s <small>", job_gpu_name(s->job, &b->gpu, text));
	html_text(h, b->gpu.name);
	if (!job_gpu_counts(s->job, b))
		html_raw(h, ", not allocated to the job");
	html_raw(h, "</small></th><td>");
	html_bytes(h, summary_gpu_job_peak(s, b->id, &method));
	html_raw(h, "</td><td>");
	html_bytes(h, summary_gpu_device_peak(s, b->id));
	html_raw(h, "</td><td>");
	html_bytes(h, b->gpu.memory_bytes);
	html_raw(h, "</td><td>");
	if (summary_gpu_lead(s, b->id, &lead))
		html_text(h, units_percent(summary_mean(s, lead, b->id).value, 1000000, text));
	html_printf(h, " <small>%s</small>", figure_gpu_lead(lead));
	html_raw(h, "</td><td>");
	if (summary_mean(s, M_GPU_BUSY, b->id).known)
		html_text(h, units_percent(summary_mean(s, M_GPU_BUSY, b->id).value, 1000000, text));
	html_raw(h, "</td><td>");
	if (summary_mean(s, M_GPU_POWER, b->id).known)
		html_raw(h, units_power(summary_mean(s, M_GPU_POWER, b->id).value, text));
	html_raw(h, "</td><td>");
	if (summary_most(s, M_GPU_TEMP, b->id).known)
		html_printf(h, "%lld &deg;C",
			(long long) (summary_most(s, M_GPU_TEMP, b->id).value + 500) / 1000);
	html_raw(h, "</td></tr>\n");
}

/* The GPUs without charts, in one line. */
static void unused_gpus(struct html *h, const struct summary *s)
{
	char label[UNITS_LEN];
	size_t n = 0;

	for (size_t i = 0; i < job_gpu_count(s->job); i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;

		if (figure_gpu_unused(s, b->id) && job_gpu_counts(s->job, b))
			html_printf(h, "%s%s", n++ ? ", " : "<p class=\"note\">The job used no memory on ",
				job_gpu_name(s->job, &b->gpu, label));
	}
	if (n > 0)
		html_raw(h, ".</p>\n");
}

/* Used GPUs come first. */
static void gpu_table(struct html *h, const struct summary *s)
{
	const size_t n = job_gpu_count(s->job);

	if (n == 0)
		return;
	html_raw(h,
		"<div class=\"scroll\"><table class=\"gpus\"><thead><tr><th>Device</th><th>Job peak</th><th>Device peak</th><th>Total</th>"
		"<th>Activity, mean</th><th>Busy, mean</th><th>Power, mean</th><th>Temp., max</th></tr></thead><tbody>\n");
	for (int unused = 0; unused < 2; unused++) {
		for (size_t i = 0; i < n; i++) {
			if (figure_gpu_unused(s, job_gpu(s->job, i)->birth.id) == unused)
				gpu_row(h, s, &job_gpu(s->job, i)->birth);
		}
	}
	html_raw(h, "</tbody></table></div>\n");
	unused_gpus(h, s);
}

/* What to request for the next run. */
static void put_request(struct html *h, const struct request *r)
{
	struct buf line = BUF_INIT(4096), basis = BUF_INIT(1 << 16);

	if (!r->made)
		return;
	request_line(r, &line);
	request_basis(r, h->o->units, &basis);
	html_raw(h, "<p class=\"note request\">Request: ");
	if (line.len > 0) {
		html_raw(h, "<code>");
		html_text(h, line.data);
		html_raw(h, "</code><br>");
	}
	html_text(h, r->why_not[0] ? "not known: " : basis.data);
	html_text(h, r->why_not);
	html_raw(h, "</p>\n");
	if (line.error || basis.error)
		h->out->error = -ENOMEM;
	buf_done(&line);
	buf_done(&basis);
}

/* ---- the head -------------------------------------------------------------------------------------------------------------- */

static void subtitle(struct html *h, const struct html_run *run)
{
	const struct facts *f = run->summary->facts;
	char date[UNITS_LEN];
	uint64_t number;

	html_raw(h, "<p class=\"sub\">");
	if (figure_run(f, h->o, &number))
		html_printf(h, "<span>run %llu</span>", (unsigned long long) number);
	if (f->started_wall_ns.known)
		html_printf(h, "<span>%.16s</span>", units_date((uint64_t) f->started_wall_ns.value, date));
	if (f->host && *f->host) {
		html_raw(h, "<span>on ");
		html_text(h, f->host);
		html_raw(h, "</span>");
	}
	if (f->scheduler_job && *f->scheduler_job) {
		html_raw(h, "<span>");
		html_text(h, f->scheduler);
		html_raw(h, " ");
		html_text(h, f->scheduler_job);
		html_raw(h, "</span>");
	}
	if (f->ranks.known && f->ranks.value > 1 && f->rank.known)
		html_printf(h, "<span>rank %lld of %lld</span>", (long long) f->rank.value,
			(long long) f->ranks.value);
	if (f->cpu_model && *f->cpu_model) {
		html_raw(h, "<span>");
		html_text(h, f->cpu_model);
		html_raw(h, "</span>");
	}
	html_raw(h, "</p>\n");
}

static void one(struct html *h, size_t i)
{
	const struct html_run *run = &h->runs[i];
	const struct summary *s = run->summary;
	struct fact_list facts;
	const int r = facts_make(s, &facts);

	if (r < 0) {
		h->out->error = r;
		return;
	}
	html_raw(h,
		s->facts->name && *s->facts->name ? "<section class=\"run\"><h1>"
						  : "<section class=\"run\"><h1 class=\"command\">");
	if (h->n > 1)
		html_printf(h, "%zu. ", i + 1);
	html_text(h, html_name(s));
	html_raw(h, "</h1>\n");
	if (s->facts->name && *s->facts->name && s->facts->command && *s->facts->command) {
		html_raw(h, "<p class=\"command\"><code>");
		html_text(h, s->facts->command);
		html_raw(h, "</code></p>\n");
	}
	if (s->facts->note && *s->facts->note) {
		html_raw(h, "<p class=\"note\">");
		html_text(h, s->facts->note);
		html_raw(h, "</p>\n");
	}
	subtitle(h, run);
	html_raw(h, "<dl class=\"tiles\">\n");
	put_tiles(h, run, &facts);
	html_raw(h, "</dl>\n");
	put_request(h, &s->request);
	gpu_table(h, s);
	html_raw(h, "</section>\n");
	facts_done(&facts);
}

void html_overview(struct html *h)
{
	for (size_t i = 0; i < h->n; i++)
		one(h, i);
}
