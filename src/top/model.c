/* SPDX-License-Identifier: MIT */
#include "top/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "base/written.h"

static const struct {
	enum hiw_entity entity;
	const char *name;
} names[FIG_COUNT] = {
	[HOST_MEM_USED] = { HIW_HOST, "mem_used" },
	[HOST_SWAP_USED] = { HIW_HOST, "swap_used" },
	[HOST_CPU_USER] = { HIW_HOST, "cpu_user" },
	[HOST_CPU_SYSTEM] = { HIW_HOST, "cpu_system" },
	[HOST_CPU_STEAL] = { HIW_HOST, "cpu_steal" },
	[HOST_CPU_IDLE] = { HIW_HOST, "cpu_idle" },
	[HOST_CPU_IOWAIT] = { HIW_HOST, "cpu_iowait" },
	[HOST_DISK_READ] = { HIW_HOST, "disk_read" },
	[HOST_DISK_WRITE] = { HIW_HOST, "disk_write" },
	[HOST_NET_RX] = { HIW_HOST, "net_rx" },
	[HOST_NET_TX] = { HIW_HOST, "net_tx" },
	[HOST_ENERGY] = { HIW_HOST, "energy" },
	[JOB_RAM] = { HIW_JOB, "ram" },
	[JOB_SWAP] = { HIW_JOB, "swap" },
	[JOB_CPU_USER] = { HIW_JOB, "cpu_user" },
	[JOB_CPU_SYSTEM] = { HIW_JOB, "cpu_system" },
	[JOB_READ] = { HIW_JOB, "read_bytes" },
	[JOB_WRITE] = { HIW_JOB, "write_bytes" },
	[JOB_CANCELLED] = { HIW_JOB, "write_cancelled" },
	[PROC_RSS] = { HIW_PROCESS, "rss" },
	[PROC_HWM] = { HIW_PROCESS, "hwm" },
	[PROC_SWAP] = { HIW_PROCESS, "swap" },
	[PROC_THREADS] = { HIW_PROCESS, "threads" },
	[PROC_CPU_USER] = { HIW_PROCESS, "cpu_user" },
	[PROC_CPU_SYSTEM] = { HIW_PROCESS, "cpu_system" },
	[PROC_READ] = { HIW_PROCESS, "read_bytes" },
	[PROC_WRITE] = { HIW_PROCESS, "write_bytes" },
	[PROC_CANCELLED] = { HIW_PROCESS, "write_cancelled" },
	[GPU_MEM] = { HIW_GPU, "mem" },
	[GPU_JOB_MEM] = { HIW_GPU, "job_mem" },
	[GPU_BUSY] = { HIW_GPU, "busy" },
	[GPU_SM] = { HIW_GPU, "sm_active" },
	[GPU_POWER] = { HIW_GPU, "power" },
	[GPU_POWER_LIMIT] = { HIW_GPU, "power_limit" },
	[GPU_TEMP] = { HIW_GPU, "temp" },
	[GPU_ENERGY] = { HIW_GPU, "energy" },
	[ON_GPU_MEM] = { HIW_GPU_PROCESS, "mem" },
	[ON_GPU_BUSY] = { HIW_GPU_PROCESS, "sm_busy" },
};

/* ---- construction -------------------------------------------------------------------------------------------------- */

static void find_metrics(struct model *m)
{
	const struct hiw_metric *metric;

	for (int f = 0; f < FIG_COUNT; f++)
		m->metric[f] = hiw_metric_find(names[f].entity, names[f].name);
	for (unsigned i = 0; (metric = hiw_metric(i)); i++) {
		if (i == 0 || hiw_metric(i - 1)->entity != metric->entity)
			m->first[metric->entity] = i;
	}
}

int model_init(struct model *m, bool machine, bool utf8)
{
	*m = (struct model) {
		.machine = machine,
		.utf8 = utf8,
		.host.entity = HIW_HOST,
		.job.entity = HIW_JOB,
		.scratch = BUF_INIT(1 << 20),
	};
	find_metrics(m);
	m->cores = calloc(CORES_MOST, sizeof(*m->cores));
	return m->cores ? 0 : -ENOMEM;
}

static void thing_free(struct thing *t)
{
	free(t->name);
	free(t->command);
	free(t->uuid);
	free(t->instance_of);
	free(t->mem);
	free(t->busy);
	free(t);
}

void model_done(struct model *m)
{
	for (size_t i = 0; i < m->n; i++)
		thing_free(m->things[i]);
	for (size_t i = 0; i < m->n_series; i++)
		free(m->series[i]);
	free(m->things);
	free(m->cores);
	map_done(&m->by_id);
	buf_done(&m->scratch);
}

void model_clear(struct model *m)
{
	const bool machine = m->machine, utf8 = m->utf8;

	model_done(m);
	(void) model_init(m, machine, utf8);
}

/* ---- things ------------------------------------------------------------------------------------------------------- */

static uint64_t key_of(enum hiw_entity entity, uint32_t id)
{
	return (uint64_t) entity << 32 | id;
}

struct thing *model_find(const struct model *m, enum hiw_entity entity, uint32_t id)
{
	uint32_t place;

	return map_get(&m->by_id, key_of(entity, id), &place) ? m->things[place] : NULL;
}

/* A cleaned copy of a text; free() it. */
static char *clean_copy(struct model *m, const char *text)
{
	buf_clear(&m->scratch);
	(void) text_clean(text, m->utf8, &m->scratch);
	return strdup(m->scratch.data);
}

static struct thing *thing_new(struct model *m, enum hiw_entity entity, uint32_t id)
{
	struct thing *t = calloc(1, sizeof(*t));

	if (!t || vec_reserve(&m->things, &m->cap, m->n, sizeof(struct thing *), 1 << 20) < 0 ||
		map_put(&m->by_id, key_of(entity, id), (uint32_t) m->n) < 0) {
		free(t);
		return NULL;
	}
	t->entity = entity;
	t->id = id;
	t->born_ns = m->now_ns;
	if (entity == HIW_GPU) {
		t->mem = calloc(1, sizeof(*t->mem));
		t->busy = calloc(1, sizeof(*t->busy));
	}
	m->things[m->n++] = t;
	if (entity == HIW_GPU && m->n_gpus < GPUS_MOST)
		m->gpus[m->n_gpus++] = t;
	return t;
}

static void apply_birth(struct model *m, const struct hiw_birth *b)
{
	struct thing *t = model_find(m, b->entity, b->id);

	if (!t)
		t = thing_new(m, b->entity, b->id);
	if (!t)
		return;
	free(t->name);
	free(t->command);
	free(t->uuid);
	free(t->instance_of);
	t->name = clean_copy(m, b->name);
	t->command = clean_copy(m, b->command);
	t->uuid = clean_copy(m, b->uuid);
	t->instance_of = clean_copy(m, b->instance_of);
	t->pid = b->pid;
	t->uid = b->uid;
	t->index = b->index;
	t->memory_bytes = b->memory_bytes;
	t->parent = b->parent;
	t->gpu = b->gpu;
	t->process = b->process;
	t->is_main = b->is_main;
	t->unified = b->unified;
}

static void remove_gpu(struct model *m, const struct thing *gpu)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->n_gpus; i++) {
		if (m->gpus[i] != gpu)
			m->gpus[kept++] = m->gpus[i];
	}
	m->n_gpus = kept;
}

static void apply_end(struct model *m, const struct hiw_end *e)
{
	uint32_t place;

	if (!map_get(&m->by_id, key_of(e->entity, e->id), &place))
		return;
	if (e->entity == HIW_GPU)
		remove_gpu(m, m->things[place]);
	thing_free(m->things[place]);
	map_remove(&m->by_id, key_of(e->entity, e->id));
	m->things[place] = m->things[--m->n];
	if (place < m->n)
		(void) map_put(&m->by_id, key_of(m->things[place]->entity, m->things[place]->id), place);
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

/* A recording merges small processes into one without a birth. */
static struct thing *others(struct model *m)
{
	struct thing *t = model_find(m, HIW_PROCESS, 0);

	if (!t && (t = thing_new(m, HIW_PROCESS, 0)))
		t->name = strdup("(all smaller processes)");
	return t;
}

static struct thing *owner_of(struct model *m, enum hiw_entity entity, uint32_t id)
{
	if (entity == HIW_JOB)
		return &m->job;
	if (entity == HIW_PROCESS && id == 0)
		return others(m);
	if (entity != HIW_HOST)
		return model_find(m, entity, id);
	if (id == 0)
		return &m->host;
	if (id > CORES_MOST)
		return NULL;
	if (id > m->n_cores)
		m->n_cores = id;
	return &m->cores[id - 1];
}

static void apply_counter(struct figure *f, const struct hiw_reading *r, uint64_t time_ns)
{
	f->has_rate = f->known && time_ns > f->at_ns && r->value >= f->value;
	if (f->has_rate)
		f->rate = (double) (r->value - f->value) * 1e9 / (double) (time_ns - f->at_ns);
}

/* Written bytes are shown as in the summary: without cancelled ones, whose counter is read right
 * after. */
static void apply_cancelled(struct model *m, struct thing *t, const struct figure *last,
	const struct hiw_reading *r, uint64_t time_ns)
{
	const enum fig fig = t->entity == HIW_JOB ? JOB_WRITE : PROC_WRITE;
	struct figure *f = &t->figures[(unsigned) m->metric[fig] - m->first[t->entity]];
	const int64_t before = t->to_storage;

	if (!f->known || f->at_ns != time_ns)
		return;
	t->to_storage = written_to_storage(before, f->value, r->value);
	f->has_rate = last->known && time_ns > last->at_ns;
	if (f->has_rate)
		f->rate = (double) (t->to_storage - before) * 1e9 / (double) (time_ns - last->at_ns);
}

static void apply_reading(struct model *m, const struct hiw_reading *r, const struct hiw_frame *frame)
{
	const struct hiw_metric *metric = hiw_metric(r->metric);
	struct thing *t = metric ? owner_of(m, metric->entity, r->id) : NULL;
	const unsigned place = metric ? r->metric - m->first[metric->entity] : FIGURES_MOST;

	if (!t || place >= FIGURES_MOST)
		return;
	struct figure *f = &t->figures[place];

	if (!r->known) {
		f->known = f->has_rate = false;
		return;
	}
	if (metric->kind == HIW_COUNTER && frame->time_ns == f->at_ns && f->known)
		return; /* two values of one instant give no rate */
	if (metric->kind == HIW_COUNTER)
		apply_counter(f, r, frame->time_ns);
	if ((int) r->metric == m->metric[JOB_CANCELLED] || (int) r->metric == m->metric[PROC_CANCELLED])
		apply_cancelled(m, t, f, r, frame->time_ns);
	if (r->max > f->peak)
		f->peak = r->max;
	f->value = r->value;
	f->known = true;
	f->at_ns = frame->time_ns;
	f->until_ns = frame->time_ns + (frame->hold_ns < UINT64_MAX / 4 ? frame->hold_ns : UINT64_MAX / 4);
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

void model_clean(struct model *m, const char *text, char *buf, size_t size)
{
	buf_clear(&m->scratch);
	(void) text_clean(text, m->utf8, &m->scratch);
	(void) snprintf(buf, size, "%s", m->scratch.data);
	if (m->scratch.len >= size) { /* no partial character at the end */
		struct buf valid = BUF_INIT(size);

		(void) text_clean(buf, m->utf8, &valid);
		(void) snprintf(buf, size, "%s", valid.data);
		buf_done(&valid);
	}
}

/* "epoch 3" of the text "epoch\nepoch=3". */
static void begin_phase(struct model *m, const char *text, char *buf, size_t size)
{
	const size_t name = strcspn(text, "\n");
	const char *facts = text[name] ? text + name + 1 : "";
	char words[PHASE_LEN];

	if (strncmp(facts, text, name) == 0 && facts[name] == '=')
		facts += name + 1;
	(void) snprintf(words, sizeof(words), "%.*s%s%s", (int) name, text, *facts ? " " : "", facts);
	model_clean(m, words, buf, size);
}

static void apply_phase(struct model *m, const struct hiw_event *e)
{
	if (strcmp(e->kind, "phase-begin") == 0 && m->n_phases < PHASES_KEPT)
		begin_phase(m, e->text, m->phases[m->n_phases++], sizeof(m->phases[0]));
	else if (strcmp(e->kind, "phase-end") == 0 && m->n_phases > 0)
		m->n_phases--;
}

/* The process runs another program; a recording shows it by this event only. */
static void apply_exec(struct model *m, const struct hiw_event *e)
{
	struct thing *t = model_find(m, e->entity, e->id);
	char *name = t && *e->text ? clean_copy(m, e->text) : NULL;

	if (!name)
		return;
	free(t->name);
	t->name = name;
}

static void apply_event(struct model *m, const struct hiw_event *e)
{
	struct event_line *line;

	apply_phase(m, e);
	if (strcmp(e->kind, "exec") == 0) {
		apply_exec(m, e);
		return;
	}
	if (strncmp(e->kind, "phase-", 6) == 0)
		return;
	line = &m->events[m->n_events++ % EVENTS_KEPT];
	line->time_ns = e->time_ns;
	(void) snprintf(line->kind, sizeof(line->kind), "%s", e->kind);
	if (strcmp(e->kind, "gap") == 0)
		(void) snprintf(line->text, sizeof(line->text), "no samples for %.1f s%s%.20s",
			(double) e->value_ns / 1e9, *e->text ? ": " : "", e->text);
	else
		model_clean(m, e->text, line->text, sizeof(line->text));
}

/* ---- frames ------------------------------------------------------------------------------------------------------- */

static void draw_on(struct history_ring *h, const struct figure *f, const struct hiw_frame *frame, double max)
{
	if (h && f && f->at_ns == frame->time_ns)
		history_add(h, frame->time_ns, frame->hold_ns, (double) f->value,
			max > (double) f->value ? max : (double) f->value);
}

/* The largest value of a metric in the frame's window, for charts. */
static double largest(const struct hiw_frame *frame, int metric, uint32_t id)
{
	for (size_t i = 0; i < frame->n_readings; i++) {
		if ((int) frame->readings[i].metric == metric && frame->readings[i].id == id &&
			frame->readings[i].known)
			return (double) frame->readings[i].max;
	}
	return 0;
}

static void extend_charts(struct model *m, const struct hiw_frame *frame)
{
	const struct thing *t = m->machine ? &m->host : &m->job;
	const enum fig ram = m->machine ? HOST_MEM_USED : JOB_RAM,
		       user = m->machine ? HOST_CPU_USER : JOB_CPU_USER;
	const enum fig system = m->machine ? HOST_CPU_SYSTEM : JOB_CPU_SYSTEM;
	const struct figure *f = model_figure(m, t, user);
	double rate;

	draw_on(&m->ram, model_figure(m, t, ram), frame, largest(frame, m->metric[ram], 0));
	if (f && f->at_ns == frame->time_ns && model_rate(m, t, user, system, &rate))
		history_add(&m->cpu, frame->time_ns, frame->hold_ns, rate / 1e9, rate / 1e9);
	for (size_t i = 0; i < m->n_gpus; i++) {
		struct thing *gpu = m->gpus[i];
		const struct figure *sm = model_figure(m, gpu, GPU_SM);

		draw_on(gpu->mem, model_figure(m, gpu, GPU_MEM), frame,
			largest(frame, m->metric[GPU_MEM], gpu->id));
		if (sm && !gpu->has_sm && gpu->busy)
			gpu->busy->began = false; /* restart: a chart shows one figure only */
		gpu->has_sm |= sm != NULL;
		draw_on(gpu->busy, gpu->has_sm ? sm : model_figure(m, gpu, GPU_BUSY), frame, 0);
	}
}

void model_see(void *ctx, const struct hiw_frame *frame)
{
	struct model *m = ctx;

	m->now_ns = frame->time_ns;
	m->frames++;
	for (size_t i = 0; i < frame->n_births; i++)
		apply_birth(m, &frame->births[i]);
	for (size_t i = 0; i < frame->n_readings; i++)
		apply_reading(m, &frame->readings[i], frame);
	if (frame->n_readings > 0)
		extend_charts(m, frame);
	for (size_t i = 0; i < frame->n_events; i++)
		apply_event(m, &frame->events[i]);
	for (size_t i = 0; i < frame->n_values; i++)
		model_apply_value(m, &frame->values[i], frame->time_ns);
	for (size_t i = 0; i < frame->n_ends; i++)
		apply_end(m, &frame->ends[i]);
}

/* ---- access -------------------------------------------------------------------------------------------------------- */

const struct figure *model_metric(const struct model *m, const struct thing *t, int metric)
{
	const struct figure *f;

	if (metric < 0 || (unsigned) metric < m->first[t->entity] ||
		(unsigned) metric - m->first[t->entity] >= FIGURES_MOST)
		return NULL;
	f = &t->figures[(unsigned) metric - m->first[t->entity]];
	/* A value that was not renewed in time is a gap; for processes the recorder reports itself
	 * when one cannot be read. */
	if (!f->known || ((t->entity != HIW_PROCESS || t->id == 0) && f->until_ns < m->now_ns))
		return NULL;
	return f;
}

const struct figure *model_figure(const struct model *m, const struct thing *t, enum fig fig)
{
	return model_metric(m, t, m->metric[fig]);
}

bool model_rate(const struct model *m, const struct thing *t, enum fig a, enum fig b, double *ret)
{
	const struct figure *f = model_figure(m, t, a), *g = model_figure(m, t, b);

	if (!f || !g || !f->has_rate || !g->has_rate)
		return false;
	*ret = f->rate + g->rate;
	return true;
}

size_t model_processes(const struct model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++)
		n += m->things[i]->entity == HIW_PROCESS && m->things[i]->id > 0;
	return n;
}

void model_raise_ram(struct model *m, int64_t bytes)
{
	struct figure *f = m->metric[JOB_RAM] >= 0
				   ? &m->job.figures[(unsigned) m->metric[JOB_RAM] - m->first[HIW_JOB]]
				   : NULL;

	if (f && f->peak < bytes)
		f->peak = bytes;
}

/* ---- GPUs ---------------------------------------------------------------------------------------------------------- */

bool model_uses(const struct model *m, const struct thing *gpu)
{
	const struct figure *f = model_figure(m, gpu, GPU_JOB_MEM);

	return m->machine || (f && f->peak > 0);
}

static bool is_instance(const struct thing *gpu)
{
	return gpu->instance_of && *gpu->instance_of;
}

void model_gpu_name(
	const struct model *m, size_t place, const char *whole, const char *instance, char buf[GPU_NAME])
{
	const struct thing *gpu = m->gpus[place];
	const long long number = gpu->index.known ? (long long) gpu->index.value : (long long) place;
	size_t of = 0;

	while (of < m->n_gpus &&
		!(is_instance(gpu) && m->gpus[of]->uuid && strcmp(m->gpus[of]->uuid, gpu->instance_of) == 0))
		of++;
	if (of < m->n_gpus && m->gpus[of]->index.known)
		(void) snprintf(
			buf, GPU_NAME, "%s%lld.%lld", instance, (long long) m->gpus[of]->index.value, number);
	else
		(void) snprintf(buf, GPU_NAME, "%s%lld", is_instance(gpu) ? instance : whole, number);
}

static void add(struct hiw_maybe *sum, const struct figure *f)
{
	if (f)
		*sum = (struct hiw_maybe) { sum->value + f->value, true };
}

void model_settle(struct model *m)
{
	for (size_t i = 0; i < m->n; i++)
		m->things[i]->gpu_mem = m->things[i]->gpu_busy_ppm = (struct hiw_maybe) { 0, false };
	for (size_t i = 0; i < m->n; i++) {
		const struct thing *t = m->things[i];
		struct thing *process = t->entity == HIW_GPU_PROCESS ? model_find(m, HIW_PROCESS, t->process)
								     : NULL;

		if (!process)
			continue;
		add(&process->gpu_mem, model_figure(m, t, ON_GPU_MEM));
		add(&process->gpu_busy_ppm, model_figure(m, t, ON_GPU_BUSY));
	}
}

/* ---- user series ---------------------------------------------------------------------------------------------------- */

/* Is it a series of a framework's allocator, "torch/gpu0/allocated_bytes"? */
static bool is_allocator_name(const char *name)
{
	static const char *const devices[] = { "gpu", "GPU-", "MIG-" };
	const char *slash = strchr(name, '/');

	if (!slash || !strchr(slash + 1, '/'))
		return false;
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		if (strncmp(slash + 1, devices[i], strlen(devices[i])) == 0)
			return true;
	}
	return false;
}

/* The program's series come first, as allocators may have many. */
static struct series_line *series_of(struct model *m, const char *name)
{
	const bool is_allocator = is_allocator_name(name);
	struct series_line *line;
	char clean[sizeof(m->series[0]->name)];

	model_clean(m, name, clean, sizeof(clean));
	for (size_t i = 0; i < m->n_series; i++) {
		if (strcmp(m->series[i]->name, clean) == 0)
			return m->series[i];
	}
	size_t place = m->n_series;

	if (!is_allocator) {
		while (place > 0 && m->series[place - 1]->is_allocator)
			place--;
	}
	if (place == SERIES_KEPT || !(line = calloc(1, sizeof(*line))))
		return NULL;
	if (m->n_series == SERIES_KEPT)
		free(m->series[--m->n_series]);
	memmove(&m->series[place + 1], &m->series[place], (m->n_series++ - place) * sizeof(line));
	line->is_allocator = is_allocator;
	line->is_bytes = text_ends(name, "bytes");
	memcpy(line->name, clean, sizeof(clean));
	return m->series[place] = line;
}

void model_apply_value(struct model *m, const struct hiw_value *v, uint64_t time_ns)
{
	struct series_line *line = series_of(m, v->name);

	if (!line)
		return;
	line->value = v->value;
	line->has_step = v->has_step;
	line->step = v->step;
	if (v->value - v->value == 0) /* neither NaN nor infinite */
		history_add(&line->history, time_ns, UINT64_MAX, v->value, v->value); /* until the next one */
}
