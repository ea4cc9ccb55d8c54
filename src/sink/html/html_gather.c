/* SPDX-License-Identifier: MIT */
#include "sink/html/html_gather.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/written.h"
#include "sink/figures.h"

enum {
	TABLE_JOB,
	TABLE_HOST,
	TABLE_PROCESSES,
	TABLES_FIRST,
	TABLES_MOST = 8192,    /* more than a recording has series and devices */
	WEIGHT_MOST = 1500000, /* numbers on a page: less than 2 MB */
	EVENTS_MOST = 5000,
	BY_PEAK = 12,          /* of the processes that are drawn; the others are chosen by CPU time */
	ROWS_A_CHECK = 4096,
};

/* Units of gauges and of counters as rates; scale: the rate of one count a nanosecond. */
static const struct {
	const char *level, *rate;
	double scale;
} units[] = {
	[UNIT_BYTES] = { "bytes", "bytes", 1e9 },
	[UNIT_NS] = { "ns", "ppm", 1e6 },
	[UNIT_COUNT] = { "count", "ppm", 1e15 },
	[UNIT_PPM] = { "ppm", "ppm", 1e9 },
	[UNIT_UJ] = { "uj", "uw", 1e9 },
	[UNIT_UW] = { "uw", "uw", 1e9 },
	[UNIT_MCEL] = { "mcel", "mcel", 1e9 },
	[UNIT_HZ] = { "hz", "hz", 1e9 },
};

static const uint64_t rate_least_ns = 80000000, unchanged_least_ns = 900000000;
static const uint64_t hwm_ns = 1000000000; /* high-water marks are read this often */

static void fail(struct html_gather *g, int error)
{
	if (g->error == 0 && error < 0)
		g->error = error;
}

/* ---- metrics that are drawn -------------------------------------------------------------------------------------------------------- */

const bool html_drawn[METRIC_COUNT] = {
	[M_JOB_RAM] = true,
	[M_JOB_RAM_LOW] = true,
	[M_JOB_RAM_HIGH] = true,
	[M_JOB_PRIVATE] = true,
	[M_JOB_SHARED] = true,
	[M_JOB_SWAP] = true,
	[M_JOB_PROCESSES] = true,
	[M_JOB_THREADS] = true,
	[M_JOB_CPU_USER] = true,
	[M_JOB_CPU_SYSTEM] = true,
	[M_JOB_READ_BYTES] = true,
	[M_JOB_WRITE_BYTES] = true,
	[M_JOB_WRITE_CANCELLED] = true, /* subtracted from the former */
	[M_JOB_FAULTS_MAJOR] = true,
	[M_JOB_CGROUP_MEM] = true,
	[M_JOB_CGROUP_FILE] = true,
	[M_JOB_CGROUP_THROTTLED] = true,
	[M_HOST_MEM_USED] = true,
	[M_HOST_SWAP_USED] = true,
	[M_HOST_CPU_USER] = true,
	[M_HOST_CPU_SYSTEM] = true,
	[M_HOST_CPU_IOWAIT] = true,
	[M_HOST_DISK_READ] = true,
	[M_HOST_DISK_WRITE] = true,
	[M_HOST_NET_RX] = true,
	[M_HOST_NET_TX] = true,
	[M_HOST_FABRIC_RX] = true,
	[M_HOST_FABRIC_TX] = true,
	[M_HOST_PSI_CPU] = true,
	[M_HOST_PSI_MEM] = true,
	[M_HOST_PSI_IO] = true,
	[M_HOST_ENERGY] = true,
	[M_GPU_MEM] = true,
	[M_GPU_JOB_MEM] = true,
	[M_GPU_OTHER_MEM] = true,
	[M_GPU_UNATTRIBUTED_MEM] = true,
	[M_GPU_BUSY] = true,
	[M_GPU_GRAPHICS_ACTIVE] = true,
	[M_GPU_SM_ACTIVE] = true,
	[M_GPU_SM_OCCUPANCY] = true,
	[M_GPU_TENSOR_ACTIVE] = true,
	[M_GPU_DRAM_ACTIVE] = true,
	[M_GPU_POWER] = true,
	[M_GPU_POWER_LIMIT] = true,
	[M_GPU_TEMP] = true,
	[M_GPU_TEMP_MEM] = true,
	[M_GPU_CLOCK_SM] = true,
	[M_GPU_THROTTLE_POWER] = true,
	[M_GPU_THROTTLE_THERMAL] = true,
	[M_GPU_THROTTLE_HW] = true,
	[M_GPU_THROTTLE_OTHER] = true,
	[M_GPU_PCIE_RX] = true,
	[M_GPU_PCIE_TX] = true,
	[M_GPU_NVLINK_RX] = true,
	[M_GPU_NVLINK_TX] = true,
	[M_PROC_RSS] = true,
	[M_PROC_CPU_USER] = true,
	[M_PROC_CPU_SYSTEM] = true,
};

/* The charge of a shared cgroup may be so large that the job's line would vanish. */
static bool is_of_shared_cgroup(const struct job *job, enum metric metric)
{
	return (metric == M_JOB_CGROUP_MEM || metric == M_JOB_CGROUP_FILE) &&
	       job_facts_const(job)->cgroup_exclusive.value != 1;
}

bool html_is_drawn(const struct job *job, const struct reading *r)
{
	const enum metric metric = (enum metric) r->metric;
	const enum entity entity = metrics[metric].entity;

	if (!html_drawn[metric] || metric == M_JOB_WRITE_CANCELLED || is_of_shared_cgroup(job, metric))
		return false;
	return entity != ENTITY_PROCESS && (entity != ENTITY_HOST || r->id == 0);
}

/* ---- tables ------------------------------------------------------------------------------------------------------------- */

static struct html_table *add_table(struct html_gather *g, const char *entity, uint32_t id)
{
	const int r = vec_reserve(&g->tables, &g->cap_tables, g->n_tables, sizeof(*g->tables), TABLES_MOST);

	fail(g, r);
	if (r < 0)
		return NULL;
	html_table_init(&g->tables[g->n_tables], entity, id);
	return &g->tables[g->n_tables++];
}

static struct html_table *gpu_table(struct html_gather *g, uint32_t id)
{
	uint32_t place;

	if (map_get(&g->gpus, id, &place))
		return &g->tables[place];
	fail(g, map_put(&g->gpus, id, (uint32_t) g->n_tables));
	return add_table(g, "gpu", id);
}

static struct html_table *series_table(struct html_gather *g, const char *name)
{
	struct html_column *c;
	struct html_table *t;

	for (size_t i = TABLES_FIRST; i < g->n_tables; i++) {
		t = &g->tables[i];
		if (t->is_points && strcmp(t->columns[0].name, name) == 0)
			return t;
	}
	for (size_t i = 0; i < job_series_count(g->job); i++) {
		if (strcmp(job_series(g->job, i)->name, name) != 0)
			continue;
		if (g->n_tables >= TABLES_MOST)
			return NULL; /* the page omits it */
		t = add_table(g, "series", (uint32_t) i + 1);
		c = t ? html_table_column(t) : NULL;
		if (!c)
			return NULL;
		c->name = job_series(g->job, i)->name;
		t->is_points = true;
		return t;
	}
	return NULL; /* the recording grew after the job was read: a new series */
}

/* Shortens the heaviest table until all fit a page. */
static void keep_small(struct html_gather *g)
{
	for (;;) {
		struct html_table *heaviest = NULL;
		size_t sum = 0, most = 0;

		for (size_t i = 0; i < g->n_tables; i++) {
			const size_t weight = html_table_weight(&g->tables[i]);

			sum += weight;
			if (weight > most) {
				most = weight;
				heaviest = &g->tables[i];
			}
		}
		g->rows_since = 0;
		if (sum <= WEIGHT_MOST || !heaviest || !html_table_merge(heaviest))
			return;
	}
}

/* ---- cells -------------------------------------------------------------------------------------------------------------- */

/* A row at full rate is valid until the next one, if that comes in time. */
static int64_t row_of(struct html_gather *g, struct html_table *t, const struct frame *frame)
{
	const size_t before = t->n;
	const int64_t row = html_table_row(t, frame->time_ns);

	if (row < 0) {
		fail(g, (int) row);
		return row;
	}
	if (t->n > before && before > 0 && t->span[before - 1] == 0 && !t->is_points) {
		const uint64_t since = frame->time_ns - t->t[before - 1];

		t->span[before - 1] = since <= frame->hold_ns ? since : 0;
	}
	g->rows_since += t->n > before;
	return row;
}

static struct html_column *column_of(struct html_gather *g, struct html_table *t, enum metric metric)
{
	const struct metric_info *m = &metrics[metric];
	struct html_column *c;

	if (t->place[metric] >= 0)
		return &t->columns[t->place[metric]];
	c = html_table_column(t);
	if (!c) {
		fail(g, -ENOMEM);
		return NULL;
	}
	c->name = m->name;
	c->is_whole = true;
	c->is_rate = m->kind == KIND_COUNTER;
	c->unit = c->is_rate ? units[m->unit].rate : units[m->unit].level;
	c->weight = c->is_rate ? 1 : 3;
	t->place[metric] = (int16_t) (t->n_columns - 1);
	return c;
}

static struct html_cell number(double low, double mean, double high)
{
	return (struct html_cell) { low, mean, high, CELL_NUMBER };
}

/* A high-water mark proves a burst since it was last read. The burst is drawn at the largest sample
 * since then, not at the time of the value, when the memory may be released. Rows with a length
 * are windows, whose highs are in their time. */
static void put_burst(struct html_table *t, struct html_column *c, int64_t row)
{
	struct html_cell *cell = &c->cells[row], *largest = cell;
	const double high = cell->high;

	if (t->span[row] > 0 || !(high > cell->mean))
		return;
	for (int64_t i = row - 1; i >= 0 && t->t[row] - t->t[i] <= hwm_ns; i--) {
		if (c->cells[i].kind == CELL_NUMBER && c->cells[i].mean > largest->mean)
			largest = &c->cells[i];
	}
	cell->high = cell->mean;
	if (largest->high < high)
		largest->high = high;
}

/* The rate since the last value. A counter that fell was reset. A value soon after the last one
 * is skipped and counts with the next one, since counters move in steps of 10 ms and more. */
static void put_rate(struct html_column *c, int64_t row, double value, uint64_t at_ns, double scale)
{
	const uint64_t since_ns = c->has_last && at_ns > c->last_ns ? at_ns - c->last_ns : 0;

	if (c->has_last && (since_ns < rate_least_ns || since_ns < c->period_ns / 2) && value >= c->last)
		return;
	if (c->has_last && value >= c->last) {
		const double rate = (value - c->last) / (double) since_ns * scale;

		c->cells[row] = number(rate, rate, rate);
		c->period_ns = since_ns;
	}
	c->has_last = true;
	c->last = value;
	c->last_ns = at_ns;
}

/* A counter had its first value at the beginning of its first window. */
static void begin_rate(const struct html_gather *g, struct html_column *c, enum metric metric, uint32_t id,
	uint64_t begin_ns)
{
	const struct acc *acc = job_acc(g->job, metric, id);

	if (c->has_last || !acc || acc->n == 0)
		return;
	c->has_last = true;
	c->last = (double) acc->min;
	c->last_ns = begin_ns;
}

/* Bytes written as in the summary: without cancelled writes, which are in the same frame. */
static int64_t counted(struct html_gather *g, const struct frame *frame, const struct reading *r)
{
	int64_t cancelled = 0;

	if (r->metric != M_JOB_WRITE_BYTES)
		return r->value;
	for (size_t i = 0; i < frame->n_readings; i++)
		cancelled = frame->readings[i].metric == M_JOB_WRITE_CANCELLED && frame->readings[i].known
				    ? frame->readings[i].value
				    : cancelled;
	return g->to_storage = written_to_storage(g->to_storage, r->value, cancelled);
}

/* Shares of time, which cannot exceed 1: an excess comes from the duration of the reads. */
static bool is_share_of_time(enum metric metric)
{
	return (metric >= M_GPU_THROTTLE_POWER && metric <= M_GPU_THROTTLE_OTHER) ||
	       metric == M_HOST_PSI_CPU || metric == M_HOST_PSI_MEM || metric == M_HOST_PSI_IO;
}

static void put_reading(struct html_gather *g, struct html_table *t, int64_t row, const struct frame *frame,
	const struct reading *r)
{
	const struct metric_info *m = &metrics[r->metric];
	struct html_column *c = r->known ? column_of(g, t, (enum metric) r->metric) : NULL;

	if (r->span_ns > t->span[row])
		t->span[row] = r->span_ns;
	if (!c)
		return;
	if (m->kind == KIND_COUNTER) {
		begin_rate(g, c, (enum metric) r->metric, r->id, frame->time_ns);
		put_rate(c, row, (double) counted(g, frame, r), frame->time_ns + r->span_ns,
			units[m->unit].scale);
		if (is_share_of_time((enum metric) r->metric) && c->cells[row].kind == CELL_NUMBER &&
			c->cells[row].mean > 1e6)
			c->cells[row] = number(1e6, 1e6, 1e6);
	} else {
		c->cells[row] = number((double) r->min, (double) r->value, (double) r->max);
		if (t == &g->tables[TABLE_JOB])
			put_burst(t, c, row);
	}
}

static void see_entity(struct html_gather *g, const struct frame *frame, const struct reading *r)
{
	const enum entity entity = metrics[r->metric].entity;
	struct html_table *t = entity == ENTITY_JOB    ? &g->tables[TABLE_JOB]
			       : entity == ENTITY_HOST ? &g->tables[TABLE_HOST]
						       : gpu_table(g, r->id);
	const int64_t row = t ? row_of(g, t, frame) : -1;

	if (row >= 0)
		put_reading(g, t, row, frame, r);
}

/* ---- processes ------------------------------------------------------------------------------------------------------------ */

static int more_cpu_first(const void *a, const void *b)
{
	const struct process *x = *(const struct process *const *) a, *y = *(const struct process *const *) b;
	const int64_t x_ns = x->cpu_user_ns + x->cpu_system_ns, y_ns = y->cpu_user_ns + y->cpu_system_ns;

	return x_ns != y_ns ? (x_ns < y_ns ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static void choose(struct html_gather *g, uint32_t id)
{
	struct html_table *t = &g->tables[TABLE_PROCESSES];
	uint32_t place;

	if (map_get(&g->chosen, id, &place))
		return;
	fail(g, map_put(&g->chosen, id, (uint32_t) t->n_columns));
	for (int is_cpu = 0; is_cpu < 2; is_cpu++) {
		struct html_column *c = html_table_column(t);

		if (!c) {
			fail(g, -ENOMEM);
			return;
		}
		c->name = is_cpu ? "cpu" : "rss";
		c->unit = is_cpu ? "ppm" : "bytes";
		c->is_whole = true;
		c->is_rate = is_cpu;
		c->weight = is_cpu ? 1 : 3;
		c->process = id;
	}
}

static int choose_processes(struct html_gather *g)
{
	const struct process **list;
	size_t n;
	const int r = figure_processes(g->job, &list, &n);

	if (r < 0 || n == 0)
		return r;
	for (size_t i = 0; i < n && i < BY_PEAK; i++)
		choose(g, list[i]->id);
	qsort(list, n, sizeof(*list), more_cpu_first);
	for (size_t i = 0; i < n && g->chosen.used < HTML_PROCESSES; i++)
		choose(g, list[i]->id);
	free(list);
	choose(g, 0); /* all others together */
	return g->error;
}

static void put_memory(struct html_table *t, int64_t row, uint32_t place, const struct reading *r)
{
	struct html_cell *cell = &t->columns[place].cells[row];

	if (cell->kind == CELL_NONE)
		*cell = number((double) r->min, (double) r->value, (double) r->max);
	else
		*cell = number(cell->low + (double) r->min, cell->mean + (double) r->value,
			cell->high + (double) r->max);
}

/* A process without a row is unchanged, or was not read in that sample: only after a second is it
 * known to have been idle. */
static void put_time(struct html_column *c, int64_t row, double ns, uint64_t at_ns)
{
	if (!c->has_last || ns > c->last || at_ns >= c->last_ns + unchanged_least_ns)
		put_rate(c, row, ns, at_ns, 1e6);
}

/* Readings of one process are adjacent; user time comes before system time. */
static void see_processes(struct html_gather *g, const struct frame *frame)
{
	struct html_table *t = &g->tables[TABLE_PROCESSES];
	const int64_t row = row_of(g, t, frame);
	uint32_t others = 0, place, chosen_id = 0;
	bool is_chosen = false;
	double user = 0;

	(void) map_get(&g->chosen, 0, &others);
	for (size_t i = 0; row >= 0 && i < frame->n_readings; i++) {
		const struct reading *r = &frame->readings[i];

		if (r->metric == M_PROC_RSS && r->known) {
			is_chosen = r->id > 0 && map_get(&g->chosen, r->id, &place);
			chosen_id = r->id;
			put_memory(t, row, is_chosen ? place : others, r);
			if (r->span_ns > t->span[row])
				t->span[row] = r->span_ns;
			if (is_chosen)
				put_burst(t, &t->columns[place], row);
		} else if (is_chosen && r->id == chosen_id && r->known && r->metric == M_PROC_CPU_USER) {
			user = (double) r->value;
		} else if (is_chosen && r->id == chosen_id && r->known && r->metric == M_PROC_CPU_SYSTEM) {
			put_time(&t->columns[place + 1], row, user + (double) r->value,
				frame->time_ns + r->span_ns);
		}
	}
}

/* ---- user series and events ----------------------------------------------------------------------------------- */

static struct html_cell cell_of(double value)
{
	if (isnan(value))
		return (struct html_cell) { .kind = CELL_NAN };
	if (isinf(value))
		return (struct html_cell) { .kind = value > 0 ? CELL_PLUS_INF : CELL_MINUS_INF };
	return number(value, value, value);
}

/* Steps mostly count up: they compress to almost nothing and have no weight. */
static void put_step(struct html_gather *g, struct html_table *t, int64_t row, int64_t step)
{
	const double most = 1LL << 53;
	struct html_column *c = t->n_columns > 1 ? &t->columns[1] : html_table_column(t);

	if (!c) {
		fail(g, -ENOMEM);
		return;
	}
	c->name = "step";
	c->unit = "count";
	c->is_step = c->is_whole = true;
	c->weight = 0;
	if (fabs((double) step) < most) /* a double has it exactly */
		c->cells[row] = number((double) step, (double) step, (double) step);
}

static void see_value(struct html_gather *g, const struct frame *frame, const struct series_value *value)
{
	struct html_table *t = series_table(g, value->name);
	uint64_t at_ns = frame->time_ns;
	int64_t row;

	if (!t)
		return;
	if (t->n > 0 && t->t[t->n - 1] + t->span[t->n - 1] >= at_ns) /* two values at one instant stay two */
		at_ns = t->t[t->n - 1] + t->span[t->n - 1] + 1;
	row = html_table_row(t, at_ns);
	fail(g, row < 0 ? (int) row : 0);
	if (row >= 0)
		t->columns[0].cells[row] = cell_of(value->value);
	if (row >= 0 && value->has_step)
		put_step(g, t, row, value->step);
	g->rows_since++;
}

static bool is_kept(enum event_kind kind)
{
	return kind != EVENT_PHASE_BEGIN && kind != EVENT_PHASE_END; /* phases have a list of their own */
}

static void see_event(struct html_gather *g, const struct event *event)
{
	struct html_event copy = { event->time_ns, event->kind, event->value_ns, NULL };
	int r;

	if (!is_kept(event->kind))
		return;
	r = vec_reserve(&g->events, &g->cap_events, g->n_events, sizeof(copy), EVENTS_MOST);
	if (r == -EFBIG) {
		g->events_lost++;
		return;
	}
	copy.text = r == 0 ? strdup(g->is_redacted && event_is_private(event) ? "" : event->text) : NULL;
	if (!copy.text) {
		fail(g, -ENOMEM);
		return;
	}
	g->events[g->n_events++] = copy;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------ */

int html_gather_init(struct html_gather *g, const struct job *job, bool is_redacted)
{
	*g = (struct html_gather) { .job = job, .is_redacted = is_redacted };
	(void) add_table(g, "job", 0);
	(void) add_table(g, "host", 0);
	(void) add_table(g, "processes", 0);
	return g->error ? g->error : choose_processes(g);
}

void html_gather_frame(struct html_gather *g, const struct frame *frame)
{
	g->now_ns = frame->time_ns;
	if (frame->n_readings > 0 && metrics[frame->readings[0].metric].entity == ENTITY_PROCESS &&
		g->chosen.used > 0)
		see_processes(g, frame);
	for (size_t i = 0; i < frame->n_readings; i++) {
		const struct reading *r = &frame->readings[i];

		if (html_is_drawn(g->job, r))
			see_entity(g, frame, r);
	}
	for (size_t i = 0; i < frame->n_series; i++)
		see_value(g, frame, &frame->series[i]);
	for (size_t i = 0; i < frame->n_events; i++)
		see_event(g, &frame->events[i]);
	if (g->rows_since >= ROWS_A_CHECK)
		keep_small(g);
}

/* A later PSS pass may prove that samples estimated too much. */
static void cap_ram(struct html_gather *g)
{
	static const enum metric capped[] = { M_JOB_RAM, M_JOB_RAM_HIGH };
	const struct maybe most = summary_ram_most(g->job);
	const struct html_table *t = &g->tables[TABLE_JOB];

	for (size_t i = 0; most.known && i < sizeof(capped) / sizeof(capped[0]); i++) {
		const int16_t place = t->place[capped[i]];

		for (size_t row = 0; place >= 0 && row < t->n; row++) {
			struct html_cell *cell = &t->columns[place].cells[row];

			cell->low = fmin(cell->low, (double) most.value);
			cell->mean = fmin(cell->mean, (double) most.value);
			cell->high = fmin(cell->high, (double) most.value);
		}
	}
}

int html_gather_end(struct html_gather *g)
{
	if (g->error == 0)
		cap_ram(g);
	keep_small(g);
	return g->error;
}

void html_gather_done(struct html_gather *g)
{
	for (size_t i = 0; i < g->n_tables; i++)
		html_table_done(&g->tables[i]);
	for (size_t i = 0; i < g->n_events; i++)
		free(g->events[i].text);
	free(g->tables);
	free(g->events);
	map_done(&g->gpus);
	map_done(&g->chosen);
}

const struct html_table *html_gather_find(const struct html_gather *g, const char *entity, uint32_t id)
{
	for (size_t i = 0; i < g->n_tables; i++) {
		if (strcmp(g->tables[i].entity, entity) == 0 && (id == 0 || g->tables[i].id == id))
			return &g->tables[i];
	}
	return NULL;
}

const struct html_column *html_gather_column(const struct html_table *t, enum metric metric)
{
	return t && t->place[metric] >= 0 ? &t->columns[t->place[metric]] : NULL;
}
