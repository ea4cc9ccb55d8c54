/* SPDX-License-Identifier: MIT
 *
 * The tables of a report: phases, processes, and the timeline in some dozen rows, for readers who
 * cannot see charts.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "sink/html/html_put.h"

enum {
	PHASES_SHOWN = 500,
	PROCESSES_SHOWN = 100,
	ROWS = 60,
};

/* ---- phases ---------------------------------------------------------------------------------------------------------------- */

/* Optional columns of phases, shown if one phase has a value. */
enum extra {
	EXTRA_GPU_MEMORY,
	EXTRA_GPU_WORK,
	EXTRA_ENERGY,
	EXTRAS
};

static const char *const extra_titles[EXTRAS] = { "GPU memory, peak", "GPU activity, mean", "Energy" };

static struct maybe work_of(const struct phase *p)
{
	return p->use.work[GPU_WORK_SM].known ? p->use.work[GPU_WORK_SM] : p->use.work[GPU_WORK_BUSY];
}

static struct maybe energy_of(const struct phase *p)
{
	const struct maybe cpu = p->use.cpu_energy_uj, gpu = p->use.gpu_energy_uj;

	return cpu.known && gpu.known ? maybe_sum(cpu, gpu) : gpu.known ? gpu
									: cpu;
}

static void find_extras(const struct job *job, bool extras[EXTRAS])
{
	for (size_t i = 0; i < job_phase_count(job); i++) {
		const struct phase *p = job_phase(job, i);

		extras[EXTRA_GPU_MEMORY] |= job_phase_gpu_peak(job, p).known;
		extras[EXTRA_GPU_WORK] |= work_of(p).known;
		extras[EXTRA_ENERGY] |= energy_of(p).known;
	}
}

static void extra_cell(struct html *h, const struct job *job, const struct phase *p, enum extra extra)
{
	char text[UNITS_LEN];

	html_raw(h, "<td>");
	if (extra == EXTRA_GPU_MEMORY)
		html_bytes(h, job_phase_gpu_peak(job, p));
	else if (extra == EXTRA_ENERGY && energy_of(p).known)
		html_raw(h, units_energy(energy_of(p).value, text));
	else if (extra == EXTRA_GPU_WORK && work_of(p).known) {
		html_text(h, units_percent(work_of(p).value, 1000000, text));
		html_printf(h, " <small>%s</small>",
			figure_gpu_lead(p->use.work[GPU_WORK_SM].known ? M_GPU_SM_ACTIVE : M_GPU_BUSY));
	}
	html_raw(h, "</td>");
}

static void phase_row(struct html *h, size_t run, const struct job *job, size_t i, const bool extras[EXTRAS])
{
	const struct phase *p = job_phase(job, i);
	const uint64_t end = p->end_ns ? p->end_ns : job_now(job);
	const char *facts = html_phase_facts(p);

	html_printf(h,
		"<tr data-run=\"%zu\" data-from=\"%llu\" data-to=\"%llu\"><th scope=\"row\" class=\"depth-%u\">",
		run, (unsigned long long) p->begin_ns, (unsigned long long) end, job_phase_depth(job, p));
	html_text(h, p->name);
	if (facts && *facts) {
		html_raw(h, " <small>");
		html_text(h, facts);
		html_raw(h, "</small>");
	}
	html_raw(h, "</th><td>");
	html_duration(h, known((int64_t) p->begin_ns));
	html_raw(h, "</td><td>");
	html_duration(h, known((int64_t) (end - p->begin_ns)));
	html_raw(h, p->end_ns ? "</td><td>" : " so far</td><td>");
	html_bytes(h, p->ram_known ? known(p->ram_before) : UNKNOWN);
	html_raw(h, "</td><td>");
	html_bytes(h, p->ram_known ? known(p->ram_peak) : UNKNOWN);
	html_raw(h,
		p->ram_known ? (p->peak_exact ? " <small>exact</small></td><td>"
					      : " <small>sampled</small></td><td>")
			     : "</td><td>");
	html_bytes(h, p->ram_known && p->end_ns ? known(p->ram_after) : UNKNOWN);
	html_raw(h, "</td>");
	for (int extra = 0; extra < EXTRAS; extra++) {
		if (extras[extra])
			extra_cell(h, job, p, (enum extra) extra);
	}
	html_raw(h, "</tr>\n");
}

void html_phases(struct html *h)
{
	for (size_t run = 0; run < h->n; run++) {
		const struct job *job = h->runs[run].summary->job;
		const size_t n = job_phase_count(job);
		bool extras[EXTRAS] = { false };

		if (n == 0)
			continue;
		find_extras(job, extras);
		html_raw(h, "<section class=\"panel\"><h2>Phases");
		html_which(h, run);
		html_raw(h,
			"</h2><p class=\"note\">RAM is that of the main process.</p>\n"
			"<div class=\"scroll\"><table class=\"phases\"><thead><tr><th>Phase</th><th>Begin</th><th>Duration</th>"
			"<th>RAM before</th><th>RAM peak</th><th>RAM after</th>");
		for (int extra = 0; extra < EXTRAS; extra++) {
			if (extras[extra])
				html_printf(h, "<th>%s</th>", extra_titles[extra]);
		}
		html_raw(h, "</tr></thead><tbody>\n");
		for (size_t i = 0; i < n && i < PHASES_SHOWN; i++)
			phase_row(h, run, job, i, extras);
		html_raw(h, "</tbody></table></div>");
		if (n > PHASES_SHOWN)
			html_printf(h, "<p class=\"note\">and %zu more</p>", n - PHASES_SHOWN);
		html_raw(h, "</section>\n");
	}
}

/* ---- processes ------------------------------------------------------------------------------------------------------------- */

static void end_of_process(struct html *h, const struct process *p)
{
	char name[UNITS_LEN];

	if (!p->ended || p->how == END_LEFT)
		html_raw(h, "running");
	else if (!p->status_known)
		html_raw(h, "ended");
	else if (WIFSIGNALED(p->status))
		html_raw(h, figure_signal(WTERMSIG(p->status), name));
	else
		html_printf(h, "exit %d", WEXITSTATUS(p->status));
}

static void process_row(struct html *h, size_t run, const struct process *p, uint64_t now_ns)
{
	const uint64_t end = p->ended ? p->ended_ns : now_ns;

	html_printf(h, "<tr data-run=\"%zu\" data-from=\"%llu\" data-to=\"%llu\"><th scope=\"row\">", run,
		(unsigned long long) p->born_ns, (unsigned long long) end);
	html_process(h, p);
	html_raw(h, p->is_main ? " <small>main</small></th><td>" : "</th><td>");
	html_bytes(h, p->peak_bytes > 0 ? known(p->peak_bytes) : UNKNOWN);
	html_raw(h,
		p->peak_bytes > 0 ? (p->peak_exact ? " <small>exact</small></td><td>"
						   : " <small>at least</small></td><td>")
				  : "</td><td>");
	html_duration(h, p->cpu_known ? known(p->cpu_user_ns + p->cpu_system_ns) : UNKNOWN);
	html_raw(h, "</td><td>");
	html_duration(h, known((int64_t) p->born_ns));
	html_raw(h, "</td><td>");
	html_duration(h, known((int64_t) (end > p->born_ns ? end - p->born_ns : 0)));
	html_raw(h, "</td><td>");
	end_of_process(h, p);
	html_raw(h, "</td><td class=\"command\"><code>");
	html_text(h, p->command);
	html_raw(h, "</code></td></tr>\n");
}

static void process_table(struct html *h, size_t run, const struct process **list, size_t n)
{
	const struct job *job = h->runs[run].summary->job;

	html_raw(h, "<section class=\"panel\"><h2>Processes");
	html_which(h, run);
	html_printf(h,
		"</h2><div class=\"gantt\" data-run=\"%zu\"></div>\n"
		"<details class=\"list\"><summary>As a table</summary><div class=\"scroll\"><table class=\"processes\"><thead><tr>"
		"<th>Process</th><th>RAM peak</th><th>CPU time</th><th>Begin</th><th>Duration</th><th>End</th><th>Command</th></tr></thead><tbody>\n",
		run);
	for (size_t i = 0; i < n && i < PROCESSES_SHOWN; i++)
		process_row(h, run, list[i], job_now(job));
	html_raw(h, "</tbody></table></div>");
	if (n > PROCESSES_SHOWN)
		html_printf(h, "<p class=\"note\">and %zu smaller processes</p>", n - PROCESSES_SHOWN);
	html_raw(h, "</details></section>\n");
}

void html_processes(struct html *h)
{
	for (size_t run = 0; run < h->n; run++) {
		const struct process **list;
		size_t n;
		const int r = figure_processes(h->runs[run].summary->job, &list, &n);

		if (r < 0 && !h->out->error)
			h->out->error = r;
		if (r == 0 && n > 0)
			process_table(h, run, list, n);
		if (r == 0)
			free(list);
	}
}

/* ---- the timeline in rows ---------------------------------------------------------------------------------------------------- */

/* One column between two times. */
struct stretch {
	double mean, high;
	size_t n;
};

static struct stretch stretch_of(
	const struct html_table *t, const struct html_column *c, uint64_t from_ns, uint64_t to_ns)
{
	struct stretch s = { 0 };

	for (size_t i = 0; c && i < t->n; i++) {
		const struct html_cell *cell = &c->cells[i];

		if (t->t[i] < from_ns || t->t[i] >= to_ns || cell->kind != CELL_NUMBER)
			continue;
		s.high = s.n == 0 || cell->high > s.high ? cell->high : s.high;
		s.mean += cell->mean;
		s.n++;
	}
	if (s.n > 0)
		s.mean /= (double) s.n;
	return s;
}

static void cell_bytes(struct html *h, struct stretch s)
{
	html_raw(h, "<td>");
	if (s.n > 0)
		html_bytes(h, known((int64_t) s.high));
	html_raw(h, "</td>");
}

static void cell_share(struct html *h, struct stretch s, const char *unit)
{
	char text[UNITS_LEN];

	html_raw(h, "<td>");
	if (s.n > 0 && *unit)
		html_text(h, units_cores(llround(s.mean), text));
	else if (s.n > 0)
		html_text(h, units_percent((int64_t) s.mean, 1000000, text));
	html_raw(h, s.n > 0 ? unit : "");
	html_raw(h, "</td>");
}

static void minute_rows(struct html *h, const struct html_gather *g)
{
	const struct html_table *job = html_gather_find(g, "job", 0), *gpu = html_gather_find(g, "gpu", 0);
	const struct html_column *ram = html_gather_column(job, M_JOB_RAM),
				 *user = html_gather_column(job, M_JOB_CPU_USER);
	const struct html_column *system = html_gather_column(job, M_JOB_CPU_SYSTEM),
				 *mem = html_gather_column(gpu, M_GPU_MEM);
	const struct html_column *busy = html_gather_column(gpu, M_GPU_BUSY);
	const uint64_t width = g->now_ns / ROWS + 1;

	for (uint64_t from = 0; from <= g->now_ns; from += width) {
		struct stretch cpu = stretch_of(job, user, from, from + width);

		cpu.mean += stretch_of(job, system, from, from + width).mean;
		html_raw(h, "<tr><th scope=\"row\">");
		html_duration(h, known((int64_t) from));
		html_raw(h, "</th>");
		cell_bytes(h, stretch_of(job, ram, from, from + width));
		cell_share(h, cpu, " cores");
		if (gpu)
			cell_bytes(h, stretch_of(gpu, mem, from, from + width));
		if (gpu)
			cell_share(h, stretch_of(gpu, busy, from, from + width), "");
		html_raw(h, "</tr>\n");
	}
}

void html_minutes(struct html *h)
{
	for (size_t run = 0; run < h->n; run++) {
		const struct html_gather *g = h->runs[run].gather;
		const bool has_gpu = html_gather_find(g, "gpu", 0);

		html_raw(h, "<details class=\"panel\"><summary><h2>The timeline as a table");
		html_which(h, run);
		html_raw(h, "</h2></summary><div class=\"scroll\"><table><thead><tr><th>From</th>"
			    "<th>RAM, highest</th><th>CPUs used, mean</th>");
		if (has_gpu)
			html_raw(h, "<th>First GPU: memory, highest</th><th>First GPU: busy, mean</th>");
		html_raw(h, "</tr></thead><tbody>\n");
		minute_rows(h, g);
		html_raw(h, "</tbody></table></div></details>\n");
	}
}
