/* SPDX-License-Identifier: MIT */
#include "sink/html/html_data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/textwidth.h"
#include "sink/figures.h"
#include "sink/html/html_encode.h"

enum {
	DATA_MOST = 64 << 20,
	EXACT_MOST = 150000,   /* numbers: none is rounded in smaller reports */
	PROCESSES_SHOWN = 300,
	PHASES_SHOWN = 5000,
	TEXT_MOST = 4096,
};

static const uint64_t fine_ns = 1000, coarse_ns = 1000000, fine_until_ns = UINT64_C(1200000000000);

/* ---- JSON ---------------------------------------------------------------------------------------------------------------- */

static void key_text(struct json *j, const char *key, const char *text)
{
	struct buf clean = BUF_INIT(1 << 20);

	json_key(j, key);
	if (text && text_clean(text, true, &clean) == 0)
		json_str(j, clean.data);
	else
		json_null(j);
	buf_done(&clean);
}

/* ---- the run ------------------------------------------------------------------------------------------------------- */

static void peak(struct json *j, const struct summary *s, const struct sink_options *o)
{
	struct buf how = BUF_INIT(4096);

	figure_method(&s->combined, s->facts, o, &how);
	for (size_t i = 0; i < how.len; i++) {
		if (how.data[i] == NB[0])
			how.data[i] = ' ';
	}
	json_key(j, "peak");
	json_object(j);
	json_key_maybe(j, "bytes", s->combined.peak);
	json_key_maybe(j, "at_ns", s->combined.at_ns);
	key_text(j, "method", how.data);
	json_end(j);
	buf_done(&how);
}

static void facts(struct json *j, const struct html_run *run, const struct sink_options *o)
{
	const struct summary *s = run->summary;
	const struct facts *f = s->facts;
	uint64_t number;

	if (figure_run(f, o, &number))
		json_key_int(j, "number", number);
	key_text(j, "name", f->name);
	key_text(j, "command", f->command);
	key_text(j, "host", f->host);
	json_key_maybe(j, "started_wall_ns", f->started_wall_ns);
	json_key_maybe(j, "wall_ns", s->wall_ns);
	json_key_int(j, "now_ns", run->gather->now_ns);
	json_key_maybe(j, "interval_ns", f->interval_ns);
	json_key_maybe(j, "window_ns", f->window_ns);
	json_key_bool(j, "complete", s->complete);
	json_key_bool(j, "growing", run->is_growing);
	json_key_maybe(j, "cpus", f->cpus);
	json_key_maybe(j, "limit_cpu_ppm", f->limit_cpu_ppm);
	json_key_maybe(j, "capacity_bytes", f->capacity_bytes);
	json_key_maybe(j, "limit_bytes", maybe_min(f->limit_bytes, s->cgroup_limit));
	json_key_maybe(j, "request_bytes", f->request_bytes);
	peak(j, s, o);
}

static void findings(struct json *j, const struct summary *s)
{
	json_key_array(j, "findings");
	for (size_t i = 0; i < s->n_findings; i++) {
		const struct finding *f = &s->findings[i];

		if (!f->fired)
			continue;
		json_object(j);
		key_text(j, "code", f->code);
		json_key_int(j, "from_ns", f->from_ns);
		json_key_int(j, "to_ns", f->to_ns);
		json_end(j);
	}
	json_end(j);
}

static void gpus(struct json *j, const struct summary *s)
{
	const struct job *job = s->job;
	char label[UNITS_LEN];

	json_key_array(j, "gpus");
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct birth *b = &job_gpu(job, i)->birth;

		json_object(j);
		json_key_int(j, "id", b->id);
		key_text(j, "label", job_gpu_name(job, &b->gpu, label));
		key_text(j, "name", b->gpu.name);
		key_text(j, "uuid", b->gpu.uuid);
		json_key_maybe(j, "index", b->gpu.index);
		json_key_maybe(j, "cuda_index", b->gpu.cuda_index);
		json_key_maybe(j, "total_bytes", b->gpu.memory_bytes);
		json_key_bool(j, "unused", figure_gpu_unused(s, b->id));
		json_end(j);
	}
	json_end(j);
}

static void one_process(struct json *j, const struct process *p)
{
	char name[sizeof(p->name) + 1] = "";

	memcpy(name, p->name, sizeof(p->name));
	json_object(j);
	json_key_int(j, "id", p->id);
	json_key_int(j, "parent", p->parent);
	json_key_maybe(j, "pid", known(p->pid));
	key_text(j, "name", name);
	json_key_int(j, "born_ns", p->born_ns);
	json_key_maybe(j, "ended_ns", p->ended && p->how != END_LEFT ? known((int64_t) p->ended_ns) : UNKNOWN);
	json_key_maybe(j, "peak_bytes", p->peak_bytes > 0 ? known(p->peak_bytes) : UNKNOWN);
	json_key_bool(j, "exact", p->peak_exact);
	json_key_maybe(j, "cpu_ns", p->cpu_known ? known(p->cpu_user_ns + p->cpu_system_ns) : UNKNOWN);
	json_key_maybe(j, "status", p->status_known ? known(p->status) : UNKNOWN);
	json_end(j);
}

static int processes(struct json *j, const struct job *job)
{
	const struct process **list;
	size_t n;
	const int r = figure_processes(job, &list, &n);

	if (r < 0)
		return r;
	json_key_array(j, "processes");
	for (size_t i = 0; i < n && i < PROCESSES_SHOWN; i++)
		one_process(j, list[i]);
	json_end(j);
	json_key_int(j, "processes_more", n > PROCESSES_SHOWN ? n - PROCESSES_SHOWN : 0);
	free(list);
	return 0;
}

static void phases(struct json *j, const struct job *job)
{
	const size_t n = job_phase_count(job);

	json_key_array(j, "phases");
	for (size_t i = 0; i < n && i < PHASES_SHOWN; i++) {
		const struct phase *p = job_phase(job, i);

		json_object(j);
		json_key_int(j, "number", p->number);
		json_key_int(j, "parent", p->parent);
		key_text(j, "name", p->name);
		key_text(j, "facts", p->facts);
		json_key_int(j, "begin_ns", p->begin_ns);
		json_key_maybe(j, "end_ns", p->end_ns ? known((int64_t) p->end_ns) : UNKNOWN);
		json_end(j);
	}
	json_end(j);
	json_key_int(j, "phases_more", n > PHASES_SHOWN ? n - PHASES_SHOWN : 0);
}

static void events(struct json *j, const struct html_gather *g)
{
	json_key_array(j, "events");
	for (size_t i = 0; i < g->n_events; i++) {
		char text[TEXT_MOST];

		(void) snprintf(text, sizeof(text), "%s", g->events[i].text);
		json_object(j);
		json_key_int(j, "t_ns", g->events[i].time_ns);
		key_text(j, "kind", event_name(g->events[i].kind));
		if (g->events[i].value_ns)
			json_key_int(j, "value_ns", (uint64_t) g->events[i].value_ns);
		key_text(j, "text", text);
		json_end(j);
	}
	json_end(j);
	json_key_int(j, "events_more", g->events_lost);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------- */

struct streams {
	struct json *j;
	struct buf *out;
	bool small;        /* numbers are rounded below what charts show */
	uint64_t unit_ns;
};

static void column(const struct streams *s, const struct html_table *t, const struct html_column *c)
{
	const double step = html_step(t, c, s->small);
	const bool has_band = html_has_band(t, c);

	json_object(s->j);
	key_text(s->j, "name", c->name);
	key_text(s->j, "unit", c->unit);
	json_key(s->j, "step");
	json_num(s->j, step);
	json_key_bool(s->j, "rate", c->is_rate);
	json_key_bool(s->j, "band", has_band);
	if (c->unit[0] && strcmp(t->entity, "processes") == 0)
		json_key_int(s->j, "process", c->process);
	json_end(s->j);
	html_put_means(t, c, step, s->out);
	if (has_band) {
		html_put_minima(t, c, step, s->out);
		html_put_highs(t, c, step, s->out);
	}
}

static void table(const struct streams *s, const struct html_table *t)
{
	json_object(s->j);
	key_text(s->j, "entity", t->entity);
	json_key_int(s->j, "id", t->id);
	json_key_int(s->j, "rows", t->n);
	json_key_int(s->j, "unit_ns", s->unit_ns);
	json_key_int(s->j, "row_ns", t->row_ns);
	html_put_times(t->t, t->n, s->unit_ns, true, s->out);
	html_put_times(t->span, t->n, s->unit_ns, false, s->out);
	json_key_array(s->j, "columns");
	for (size_t i = 0; i < t->n_columns; i++)
		column(s, t, &t->columns[i]);
	json_end(s->j);
	json_end(s->j);
}

static int one_run(struct json *j, const struct html_run *run, bool small, const struct sink_options *o,
	struct buf *numbers)
{
	const struct job *job = run->summary->job;
	const struct streams s = { j, numbers, small,
		run->gather->now_ns < fine_until_ns ? fine_ns : coarse_ns };
	int r;

	json_object(j);
	facts(j, run, o);
	findings(j, run->summary);
	gpus(j, run->summary);
	r = processes(j, job);
	phases(j, job);
	events(j, run->gather);
	json_key_array(j, "tables");
	for (size_t i = 0; r == 0 && i < run->gather->n_tables; i++) {
		if (run->gather->tables[i].n > 0)
			table(&s, &run->gather->tables[i]);
	}
	json_end(j);
	json_end(j);
	return r;
}

/* Meanings and sources of the metrics. */
static void vocabulary(struct json *j)
{
	json_key(j, "metrics");
	json_object(j);
	for (int m = 0; m < METRIC_COUNT; m++) {
		struct buf name = BUF_INIT(256);

		if (metrics[m].entity == ENTITY_GPU_PROCESS)
			continue;
		(void) buf_printf(&name, "%s.%s", entity_name(metrics[m].entity), metrics[m].name);
		json_key(j, name.data);
		json_array(j);
		json_str(j, metrics[m].sentence);
		json_str(j, metrics[m].origin);
		json_end(j);
		buf_done(&name);
	}
	json_end(j);
}

/* Reasons for throttled GPU clocks: columns and words. */
static void throttles(struct json *j)
{
	json_key_array(j, "throttles");
	for (size_t i = 0; i < FIGURE_THROTTLES; i++) {
		json_array(j);
		json_str(j, metrics[figure_throttles[i].metric].name);
		json_str(j, figure_throttles[i].words);
		json_end(j);
	}
	json_end(j);
}

static void put_length(struct buf *out, size_t len)
{
	const unsigned char bytes[4] = { (unsigned char) len, (unsigned char) (len >> 8),
		(unsigned char) (len >> 16), (unsigned char) (len >> 24) };

	(void) buf_add(out, bytes, sizeof(bytes));
}

static void put_part(struct buf *out, const struct buf *part)
{
	put_length(out, part->len);
	(void) buf_add(out, part->data, part->len);
	if (part->error && !out->error)
		out->error = part->error;
}

static bool is_large(const struct html_run *runs, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < runs[i].gather->n_tables; k++)
			sum += html_table_weight(&runs[i].gather->tables[k]);
	}
	return sum > EXACT_MOST;
}

int html_data(const struct html_run *runs, size_t n, const struct sink_options *o, struct buf *out)
{
	struct buf header = BUF_INIT(DATA_MOST), numbers = BUF_INIT(DATA_MOST), all = BUF_INIT(DATA_MOST);
	const bool small = is_large(runs, n);
	struct json j;
	int r = 0;

	json_init(&j, &header, true);
	json_object(&j);
	json_key_int(&j, "schema", 1);
	key_text(&j, "hiwater", HIW_VERSION);
	vocabulary(&j);
	throttles(&j);
	json_key_array(&j, "runs");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = one_run(&j, &runs[i], small, o, &numbers);
	json_end(&j);
	json_end(&j);
	put_part(&all, &header);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct buf summary = BUF_INIT(DATA_MOST);

		r = sink_summary(SINK_JSON, runs[i].summary, o, &summary);
		put_part(&all, &summary);
		buf_done(&summary);
	}
	put_part(&all, &numbers);
	if (r == 0)
		r = html_packed(&all, out);
	buf_done(&header);
	buf_done(&numbers);
	buf_done(&all);
	return r;
}
