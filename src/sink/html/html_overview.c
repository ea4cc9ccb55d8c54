/* SPDX-License-Identifier: MIT
 *
 * The head of a report: which run it is, how it ended, and its largest figures.
 */
#include <string.h>

#include "sink/html/html_put.h"

enum {
	PHASES_TOLD = 4, /* one in another */
};

void html_title(struct html *h)
{
	for (size_t i = 0; i < h->n; i++) {
		html_raw(h, i > 0 ? ", " : "");
		html_text(h, html_name(h->runs[i].summary));
	}
	html_raw(h, " - hiwater");
}

/* ---- tiles: a label, a figure, a line below it ----------------------------------------------------------------------------- */

static void tile(struct html *h, const char *kind, const char *label)
{
	html_printf(h, "<div class=\"tile %s\"><dt>%s</dt><dd>", kind, label);
}

static void tile_more(struct html *h)
{
	html_raw(h, "</dd><dd class=\"more\">");
}

static void tile_end(struct html *h)
{
	html_raw(h, "</dd></div>\n");
}

/* How much of it that is, as a bar and in words. */
static void share(struct html *h, int64_t part, int64_t whole, const char *words)
{
	char percent[UNITS_LEN];

	if (whole <= 0)
		return;
	html_printf(h, "<meter max=\"%lld\" value=\"%lld\">%s</meter> ", (long long) whole, (long long) part, units_percent(part, whole, percent));
	html_printf(h, "%s of ", percent);
	html_bytes(h, known(whole));
	html_printf(h, " %s<br>", words);
}

static void result_text(struct html *h, const struct html_run *run, struct ending end)
{
	char name[UNITS_LEN];

	switch (end.outcome) {
	case OUTCOME_EXIT:
		html_printf(h, "exit %d", end.code);
		break;
	case OUTCOME_SIGNAL:
		html_printf(h, "killed, %s", figure_signal(end.signal, name));
		break;
	case OUTCOME_LIMIT:
		html_raw(h, "ended by a limit");
		break;
	case OUTCOME_UNSEEN:
		html_raw(h, "over");
		break;
	case OUTCOME_UNFINISHED:
		html_raw(h, run->is_growing ? "still running" : "no end");
		break;
	}
}

static void tile_result(struct html *h, const struct html_run *run)
{
	const struct summary *s = run->summary;
	const struct ending end = ending_of(s);
	const bool is_bad = end.outcome == OUTCOME_SIGNAL || end.outcome == OUTCOME_LIMIT || (end.outcome == OUTCOME_EXIT && end.code != 0) ||
			    (end.outcome == OUTCOME_UNFINISHED && !run->is_growing);

	tile(h, is_bad ? "bad" : "", "Result");
	result_text(h, run, end);
	tile_more(h);
	if (s->oom_killed)
		html_raw(h, "out of memory: the kernel killed a process<br>");
	if (end.outcome == OUTCOME_UNFINISHED && s->facts->recording_stopped) {
		html_raw(h, "the recording stopped: ");
		html_text(h, s->facts->recording_stopped);
	} else if (end.outcome == OUTCOME_UNFINISHED && !run->is_growing)
		html_raw(h, s->elsewhere ? "it still runs on another host, or the recorder was lost; this is what was recorded until then"
					 : "the recorder was lost; this is what was recorded until then");
	if (end.outcome == OUTCOME_LIMIT && s->facts->stopped_why) {
		html_text(h, s->facts->stopped_why);
		html_raw(h, "<br>");
	}
	if (end.code_known && end.outcome != OUTCOME_EXIT)
		html_printf(h, "exit status %d", end.code);
	else if (end.outcome == OUTCOME_UNSEEN)
		html_raw(h, "no exit status: a part of a program was measured, or hiwater did not start it");
	else if (end.outcome == OUTCOME_EXIT)
		html_raw(h, end.code == 0 ? "the job says that it succeeded" : "the job says that it failed");
	tile_end(h);
}

static void tile_time(struct html *h, const struct html_run *run)
{
	const struct summary *s = run->summary;

	if (!s->wall_ns.known)
		return;
	tile(h, "", s->complete ? "Time" : "Time so far");
	html_duration(h, s->wall_ns);
	tile_more(h);
	if (s->user_ns.known || s->system_ns.known) {
		html_raw(h, s->cpu_exact ? "processor time " : "processor time at least ");
		html_duration(h, maybe_sum(s->user_ns, s->system_ns));
	}
	if (figure_outlived(s)) {
		html_raw(h, "; main ended at ");
		html_duration(h, s->main_wall_ns);
	}
	tile_end(h);
}

/* "in epoch 2, validate": the phases that it was in, the outermost first. */
static void put_phases(struct html *h, const struct job *job, uint64_t at_ns)
{
	unsigned told = 0;

	for (size_t i = 0; i < job_phase_count(job) && told < PHASES_TOLD; i++) {
		const struct phase *p = job_phase(job, i);
		const char *facts = html_phase_facts(p);

		if (at_ns < p->begin_ns || (p->end_ns && at_ns > p->end_ns))
			continue;
		html_raw(h, told++ == 0 ? "<br>in " : ", ");
		html_text(h, p->name);
		html_raw(h, facts && *facts ? " " : "");
		html_text(h, facts);
	}
}

static void tile_ram(struct html *h, const struct summary *s)
{
	const struct ceiling ceiling = ceiling_of(s);

	tile(h, "key", "Peak RAM");
	html_bytes(h, s->combined.peak);
	tile_more(h);
	if (s->combined.peak.known && ceiling.bytes.known)
		share(h, s->combined.peak.value, ceiling.bytes.value, ceiling.words);
	html_method(h, &s->combined, s->facts);
	if (s->combined.at_ns.known) {
		html_raw(h, ", at ");
		html_duration(h, s->combined.at_ns);
		put_phases(h, s->job, (uint64_t) s->combined.at_ns.value);
	}
	tile_end(h);
}

static void tile_cpu(struct html *h, const struct summary *s)
{
	const struct maybe all = figure_cores(s->facts);
	char used[UNITS_LEN], of[UNITS_LEN], percent[UNITS_LEN];

	if (!s->cores_mean_ppm.known)
		return;
	tile(h, "", "Processors");
	html_printf(h, "%s <small>%s</small>", figure_number((double) s->cores_mean_ppm.value / 1e6, used),
		s->cores_mean_ppm.value == 1000000 ? "core" : "cores");
	tile_more(h);
	if (all.known && all.value > 0) {
		html_printf(h, "<meter max=\"%lld\" value=\"%lld\">%s</meter> ", (long long) all.value, (long long) s->cores_mean_ppm.value,
			units_percent(s->cores_mean_ppm.value, all.value, percent));
		html_printf(h, "%s of %s, on average", percent, figure_core_count(all.value, of));
	}
	if (s->iowait_ppm.known && s->iowait_ppm.value >= 10000)
		html_printf(h, "<br>the machine waited for disks %s", units_percent(s->iowait_ppm.value, 1000000, percent));
	tile_end(h);
}

static void tile_io(struct html *h, const struct summary *s)
{
	if (!s->read_bytes.known && !s->write_bytes.known)
		return;
	tile(h, "", "Storage");
	html_bytes(h, s->read_bytes);
	html_raw(h, " <small>read</small>");
	tile_more(h);
	html_bytes(h, s->write_bytes.known ? maybe_max(s->write_bytes, known(0)) : UNKNOWN);
	html_raw(h, " written");
	tile_end(h);
}

static void tile_processes(struct html *h, const struct summary *s)
{
	const struct maybe seen = s->facts->processes_seen;

	if (!seen.known || seen.value < 1)
		return;
	tile(h, "", "Processes");
	html_printf(h, "%s%lld", s->seen_at_least ? "&ge; " : "", (long long) seen.value);
	tile_more(h);
	if (s->peak_alive.known && s->peak_alive.value > 0)
		html_printf(h, "%lld seen at once", (long long) s->peak_alive.value);
	if (s->facts->processes_left.known && s->facts->processes_left.value > 0)
		html_printf(h, ", %lld lived on", (long long) s->facts->processes_left.value);
	tile_end(h);
}

/* ---- GPUs ------------------------------------------------------------------------------------------------------------------ */

static void tile_gpu_memory(struct html *h, const struct summary *s, const struct birth *b)
{
	enum method method;
	const struct maybe job = summary_gpu_job_peak(s, b->id, &method), device = summary_gpu_device_peak(s, b->id);
	const struct maybe shown = job.known ? job : device;
	char label[UNITS_LEN];

	html_printf(h, "<div class=\"tile key\"><dt>%s memory</dt><dd>", job_gpu_name(s->job, &b->gpu, label));
	html_bytes(h, shown);
	tile_more(h);
	if (shown.known && b->gpu.memory_bytes.known)
		share(h, shown.value, b->gpu.memory_bytes.value, b->gpu.unified ? "shared with the host" : "");
	html_raw(h, job.known ? "the job's peak, " : "whoever held it, ");
	html_raw(h, method_name(job.known ? method : METHOD_SAMPLED));
	if (job.known && device.known) {
		html_raw(h, "; device peak ");
		html_bytes(h, device);
	}
	tile_end(h);
}

static void tile_gpu_work(struct html *h, const struct summary *s, const struct birth *b)
{
	const struct maybe busy = summary_mean(s, M_GPU_BUSY, b->id);
	enum metric lead;
	char label[UNITS_LEN], text[UNITS_LEN];

	if (!summary_gpu_lead(s, b->id, &lead))
		return;
	html_printf(h, "<div class=\"tile\"><dt>%s work</dt><dd>", job_gpu_name(s->job, &b->gpu, label));
	html_printf(h, "%s <small>%s</small>", units_percent(summary_mean(s, lead, b->id).value, 1000000, text), figure_gpu_lead(lead));
	tile_more(h);
	if (lead != M_GPU_BUSY && busy.known)
		html_printf(h, "\"utilisation\" %s: some kernel ran", units_percent(busy.value, 1000000, text));
	else
		html_raw(h, "some kernel ran; how much of the GPU it used is not known");
	tile_end(h);
}

static void tile_power(struct html *h, const struct summary *s)
{
	const struct maybe cpu = s->cpu_energy_uj, gpu = s->gpu_energy_uj, all = gpu.known && cpu.known ? maybe_sum(cpu, gpu) : gpu.known ? gpu
																	  : cpu;
	char text[UNITS_LEN];

	if (!all.known)
		return;
	tile(h, "", "Energy");
	if (all.value >= INT64_C(3600000000))
		html_printf(h, "%s <small>Wh</small>", figure_number((double) all.value / 3.6e9, text));
	else
		html_printf(h, "%s <small>J</small>", figure_number((double) all.value / 1e6, text));
	tile_more(h);
	html_raw(h, gpu.known && cpu.known ? "GPUs and processor packages" : gpu.known ? "GPUs alone"
										       : "processor packages alone");
	html_raw(h, ", whoever used it");
	tile_end(h);
}

/* All of them as one, where there are many. */
static void tile_all_gpus(struct html *h, const struct summary *s, size_t n)
{
	tile(h, "key", "GPU memory");
	html_bytes(h, s->gpu_peak);
	tile_more(h);
	html_printf(h, "the job's peak over %zu GPUs, %s", n, method_name(s->gpu_method));
	tile_end(h);
}

static void tiles_gpu(struct html *h, const struct summary *s)
{
	const size_t n = job_gpu_count(s->job);
	size_t used = 0, shown = 0;

	for (size_t i = 0; i < n; i++)
		used += figure_gpu_used(s, job_gpu(s->job, i)->birth.id);
	if (used > 1 && s->gpu_peak.known)
		tile_all_gpus(h, s, n);
	for (size_t i = 0; i < n && shown < 2; i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;

		if (used > 2 || !figure_gpu_used(s, b->id))
			continue;
		tile_gpu_memory(h, s, b);
		tile_gpu_work(h, s, b);
		shown++;
	}
}

/* A line for each, where there are too many for tiles. */
static void gpu_row(struct html *h, const struct summary *s, const struct birth *b)
{
	enum metric lead;
	enum method method;
	char text[UNITS_LEN];

	html_printf(h, "<tr><th scope=\"row\">%s <small>", job_gpu_name(s->job, &b->gpu, text));
	html_text(h, b->gpu.name);
	html_raw(h, "</small></th><td>");
	html_bytes(h, summary_gpu_job_peak(s, b->id, &method));
	html_raw(h, "</td><td>");
	html_bytes(h, summary_gpu_device_peak(s, b->id));
	html_raw(h, "</td><td>");
	html_bytes(h, b->gpu.memory_bytes);
	html_raw(h, "</td><td>");
	if (summary_gpu_lead(s, b->id, &lead))
		html_printf(h, "%s <small>%s</small>", units_percent(summary_mean(s, lead, b->id).value, 1000000, text), figure_gpu_lead(lead));
	html_raw(h, "</td><td>");
	if (summary_mean(s, M_GPU_BUSY, b->id).known)
		html_raw(h, units_percent(summary_mean(s, M_GPU_BUSY, b->id).value, 1000000, text));
	html_raw(h, "</td><td>");
	if (summary_mean(s, M_GPU_POWER, b->id).known)
		html_printf(h, "%s W", figure_number((double) summary_mean(s, M_GPU_POWER, b->id).value / 1e6, text));
	html_raw(h, "</td><td>");
	if (summary_most(s, M_GPU_TEMP, b->id).known)
		html_printf(h, "%lld &deg;C", (long long) (summary_most(s, M_GPU_TEMP, b->id).value + 500) / 1000);
	html_raw(h, "</td></tr>\n");
}

/* Those without charts, in one line. */
static void gpus_beside(struct html *h, const struct summary *s)
{
	char label[UNITS_LEN];
	size_t n = 0;

	for (size_t i = 0; i < job_gpu_count(s->job); i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;

		if (figure_gpu_beside(s, b->id))
			html_printf(h, "%s%s", n++ ? ", " : "<p class=\"note\">The job held nothing on ", job_gpu_name(s->job, &b->gpu, label));
	}
	if (n > 0)
		html_raw(h, ".</p>\n");
}

/* Those that it used come first. */
static void gpu_table(struct html *h, const struct summary *s)
{
	const size_t n = job_gpu_count(s->job);

	if (n == 0)
		return;
	html_raw(h, "<div class=\"scroll\"><table class=\"gpus\"><thead><tr><th>Device</th><th>Job, peak</th><th>Device, peak</th><th>Has</th>"
		    "<th>Work, mean</th><th>Busy, mean</th><th>Power, mean</th><th>Hottest</th></tr></thead><tbody>\n");
	for (int beside = 0; beside < 2; beside++) {
		for (size_t i = 0; i < n; i++) {
			if (figure_gpu_beside(s, job_gpu(s->job, i)->birth.id) == beside)
				gpu_row(h, s, &job_gpu(s->job, i)->birth);
		}
	}
	html_raw(h, "</tbody></table></div>\n");
	gpus_beside(h, s);
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
		html_printf(h, "<span>rank %lld of %lld</span>", (long long) f->rank.value, (long long) f->ranks.value);
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

	html_raw(h, s->facts->name && *s->facts->name ? "<section class=\"run\"><h1>" : "<section class=\"run\"><h1 class=\"command\">");
	if (h->n > 1)
		html_printf(h, "%zu. ", i + 1);
	html_text(h, html_name(s));
	html_raw(h, "</h1>\n");
	if (s->facts->name && *s->facts->name && s->facts->command && *s->facts->command) {
		html_raw(h, "<p class=\"command\"><code>");
		html_text(h, s->facts->command);
		html_raw(h, "</code></p>\n");
	}
	subtitle(h, run);
	html_raw(h, "<dl class=\"tiles\">\n");
	tile_result(h, run);
	tile_time(h, run);
	tile_ram(h, s);
	tiles_gpu(h, s);
	tile_cpu(h, s);
	tile_io(h, s);
	tile_power(h, s);
	tile_processes(h, s);
	html_raw(h, "</dl>\n");
	gpu_table(h, s);
	html_raw(h, "</section>\n");
}

void html_overview(struct html *h)
{
	for (size_t i = 0; i < h->n; i++)
		one(h, i);
}
