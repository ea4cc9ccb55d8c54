/* SPDX-License-Identifier: MIT
 *
 * The static charts: those of a report, which the page's program replaces where it runs, and the
 * figure, which has the most important ones in one picture.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/html/html_svg.h"
#include "summary/framework.h"

/* ---- the charts -------------------------------------------------------------------------------------------------------- */

#define ALONE METRIC_COUNT

/* Further parts of a chart. */
enum picture_about {
	ABOUT_PEAK = 1 << 0,       /* flag at the job's RAM peak, lines at request and limit */
	ABOUT_MACHINE = 1 << 1,    /* line at the machine's RAM */
	ABOUT_CORES = 1 << 2,      /* line at the cores that the job may use */
	ABOUT_GPU = 1 << 3,        /* line at the GPU's memory */
	ABOUT_ALLOCATORS = 1 << 4, /* lines of framework allocators */
	ABOUT_CLOCKS = 1 << 5,     /* stretches of throttled clocks */
};

/* The columns of a chart. */
struct picture {
	const char *title, *entity;
	enum svg_amount amount;
	bool is_loose;
	unsigned about;
	struct {
		const char *label;
		enum metric metric, added; /* the second is added to the first, or ALONE */
		bool is_dropped;           /* omitted if always 0 */
		bool is_limit;             /* dashed */
	} lines[SVG_LINES];
};

/* web/wanted.js and web/gpus.js have the same charts. Labels of throttle reasons come from
 * figure_throttles. */
static const struct picture pictures[] = {
	{ "RAM of the job", "job", AMOUNT_BYTES, false, ABOUT_PEAK | ABOUT_MACHINE,
		{ { "job, shared pages once", M_JOB_RAM, ALONE, false, false },
			{ "swap", M_JOB_SWAP, ALONE, true, false },
			{ "charged to its cgroup", M_JOB_CGROUP_MEM, ALONE, true, false },
			{ "private", M_JOB_PRIVATE, ALONE, true, false },
			{ "shared", M_JOB_SHARED, ALONE, true, false } } },
	{ "RAM of the machine", "host", AMOUNT_BYTES, false, ABOUT_MACHINE,
		{ { "in use, system-wide", M_HOST_MEM_USED, ALONE, false, false },
			{ "swap", M_HOST_SWAP_USED, ALONE, true, false } } },
	{ "memory", "gpu", AMOUNT_BYTES, false, ABOUT_GPU | ABOUT_ALLOCATORS,
		{ { "job", M_GPU_JOB_MEM, ALONE, false, false }, { "device", M_GPU_MEM, ALONE, false, false },
			{ "other processes", M_GPU_OTHER_MEM, ALONE, true, false },
			{ "unattributed", M_GPU_UNATTRIBUTED_MEM, ALONE, true, false } } },
	{ "activity", "gpu", AMOUNT_SHARE, false, ABOUT_CLOCKS,
		{ { "SM active", M_GPU_SM_ACTIVE, ALONE, false, false },
			{ "\"utilisation\": any kernel ran", M_GPU_BUSY, ALONE, false, false },
			{ "SM occupancy", M_GPU_SM_OCCUPANCY, ALONE, false, false },
			{ "memory bandwidth", M_GPU_DRAM_ACTIVE, ALONE, false, false },
			{ "tensor cores", M_GPU_TENSOR_ACTIVE, ALONE, true, false } } },
	{ "power", "gpu", AMOUNT_WATTS, false, ABOUT_CLOCKS,
		{ { "drawn", M_GPU_POWER, ALONE, false, false },
			{ "limit", M_GPU_POWER_LIMIT, ALONE, false, true } } },
	{ "temperature", "gpu", AMOUNT_CELSIUS, true, ABOUT_CLOCKS,
		{ { "GPU", M_GPU_TEMP, ALONE, false, false },
			{ "its memory", M_GPU_TEMP_MEM, ALONE, false, false } } },
	{ "throttled by", "gpu", AMOUNT_SHARE, false, 0,
		{ { NULL, M_GPU_THROTTLE_POWER, ALONE, true, false },
			{ NULL, M_GPU_THROTTLE_THERMAL, ALONE, true, false },
			{ NULL, M_GPU_THROTTLE_HW, ALONE, true, false },
			{ NULL, M_GPU_THROTTLE_OTHER, ALONE, true, false } } },
	{ "traffic", "gpu", AMOUNT_RATE, false, 0,
		{ { "PCIe in", M_GPU_PCIE_RX, ALONE, true, false },
			{ "PCIe out", M_GPU_PCIE_TX, ALONE, true, false },
			{ "NVLink in", M_GPU_NVLINK_RX, ALONE, true, false },
			{ "NVLink out", M_GPU_NVLINK_TX, ALONE, true, false } } },
	{ "CPUs used by the job", "job", AMOUNT_CORES, false, ABOUT_CORES,
		{ { "job", M_JOB_CPU_USER, M_JOB_CPU_SYSTEM, false, false },
			{ "in the kernel", M_JOB_CPU_SYSTEM, ALONE, false, false } } },
	{ "Tasks waiting", "host", AMOUNT_SHARE, false, 0,
		{ { "for a CPU", M_HOST_PSI_CPU, ALONE, true, false },
			{ "for memory", M_HOST_PSI_MEM, ALONE, true, false },
			{ "for a disk", M_HOST_PSI_IO, ALONE, true, false } } },
	{ "Throttled by the cgroup's CPU quota", "job", AMOUNT_SHARE, false, 0,
		{ { "time", M_JOB_CGROUP_THROTTLED, ALONE, true, false } } },
	{ "Storage", "job", AMOUNT_RATE, false, 0,
		{ { "job reads", M_JOB_READ_BYTES, ALONE, false, false },
			{ "job writes", M_JOB_WRITE_BYTES, ALONE, false, false } } },
	{ "Network of the machine", "host", AMOUNT_RATE, false, 0,
		{ { "received", M_HOST_NET_RX, ALONE, true, false },
			{ "sent", M_HOST_NET_TX, ALONE, true, false } } },
};

enum {
	PICTURES = sizeof(pictures) / sizeof(pictures[0]),
	SERIES_SHOWN = 24,    /* charts of user series */
	PHASES_SHOWN = 200,
	MOMENTS_SHOWN = 200,
};

/* A chart in the making, with the phases and events of its run. */
struct drawing {
	struct html *h;
	const struct html_run *run;
	size_t number;        /* of the run */
	struct svg_chart chart;
	struct svg_stretch stretches[PHASES_SHOWN + MOMENTS_SHOWN];
	struct svg_moment moments[MOMENTS_SHOWN];
	size_t n_stretches, n_moments;
	char *labels[PHASES_SHOWN]; /* of stretches */
	size_t n_labels;
	struct buf flag, note;
	size_t lines_most;
	char allocators[SVG_LINES_MOST][FRAMEWORK_LEN]; /* labels of their lines */
};

/* ---- the numbers ----------------------------------------------------------------------------------------------------------- */

static void add_cell(struct svg_point *p, const struct html_cell *cell, double at_ns)
{
	const double old = (double) p->n / (double) (p->n + 1), new = 1 - old;

	if (cell->kind != CELL_NUMBER) {
		p->special = cell->kind == CELL_NAN ? "NaN" : cell->kind == CELL_PLUS_INF ? "Infinity"
											  : "-Infinity";
		return;
	}
	p->low = p->n ? fmin(p->low, cell->low) : cell->low;
	p->high = p->n ? fmax(p->high, cell->high) : cell->high;
	p->mean = p->mean * old + cell->mean * new;
	p->at_ns = p->at_ns * old + at_ns * new;
	p->n++;
}

static size_t point_at(uint64_t end_ns, uint64_t at_ns)
{
	const size_t point = (size_t) ((double) at_ns / (double) end_ns * SVG_POINTS);

	return point < SVG_POINTS ? point : SVG_POINTS - 1;
}

static void reduce_instants(
	const struct html_table *t, const struct html_column *c, uint64_t end_ns, struct svg_point *points)
{
	for (size_t i = 0; i < t->n; i++) {
		const double middle = (double) t->t[i] + (double) t->span[i] / 2;

		if (c->cells[i].kind != CELL_NONE)
			add_cell(&points[point_at(end_ns, (uint64_t) middle)], &c->cells[i], middle);
	}
}

/* How long a value is valid: three and a half mean intervals, as in web/lines.js. */
static double hold_of(const struct html_table *t, const struct html_column *c)
{
	size_t n = 0, last = 0;

	for (size_t i = 0; i < t->n; i++) {
		if (c->cells[i].kind == CELL_NUMBER) {
			n++;
			last = i;
		}
	}
	return n > 1 ? 3.5 * (double) t->t[last] / (double) (n - 1) : 0;
}

static size_t next_number(const struct html_table *t, const struct html_column *c, size_t i)
{
	while (i < t->n && c->cells[i].kind != CELL_NUMBER)
		i++;
	return i;
}

static void fill(
	const struct html_cell *cell, uint64_t end_ns, uint64_t from, uint64_t to, struct svg_point *points)
{
	const size_t last = point_at(end_ns, to);

	for (size_t point = point_at(end_ns, from); point <= last; point++)
		add_cell(&points[point], cell, (double) from);
}

/* The sum of two columns of one row. Rows are read at one time; highs of different times would not
 * add up. */
static struct html_cell sum_at(const struct html_column *c, const struct html_column *added, size_t row)
{
	struct html_cell sum = c->cells[row];

	if (added && added->cells[row].kind == CELL_NUMBER) {
		sum.low += added->cells[row].low;
		sum.mean += added->cells[row].mean;
		sum.high += added->cells[row].high;
	}
	return sum;
}

/* A gauge is valid until the next value, if that comes in time; a rate since the previous one. */
static void reduce(const struct html_table *t, const struct html_column *c, const struct html_column *added,
	uint64_t end_ns, struct svg_point *points)
{
	const double hold = c ? hold_of(t, c) : 0;
	uint64_t ended = 0;
	bool is_first = true;

	for (size_t i = c ? next_number(t, c, 0) : t->n; i < t->n; is_first = false) {
		const size_t next = next_number(t, c, i + 1);
		const uint64_t end = t->t[i] + t->span[i];
		const bool stands = !c->is_rate && next < t->n && t->t[next] > end &&
				    (double) (t->t[next] - end) <= hold;
		const bool stood = c->is_rate && !is_first && t->t[i] > ended &&
				   (double) (t->t[i] - ended) <= hold;

		const struct html_cell cell = sum_at(c, added, i);

		fill(&cell, end_ns, stood ? ended : t->t[i], stands ? t->t[next] : end, points);
		ended = end;
		i = next;
	}
}

static bool is_nothing(const struct svg_point *points)
{
	for (size_t i = 0; i < SVG_POINTS; i++) {
		if (points[i].n > 0 && points[i].high > 0)
			return false;
	}
	return true;
}

static struct svg_line *new_line(struct drawing *d, const char *label)
{
	struct svg_line *l = d->chart.n_lines < d->lines_most ? &d->chart.lines[d->chart.n_lines] : NULL;

	if (l) {
		memset(l, 0, sizeof(*l));
		l->label = label;
		l->color = (unsigned) (d->chart.n_lines % SVG_COLORS);
	}
	return l;
}

static const char *label_of(const struct picture *p, size_t line)
{
	for (size_t i = 0; !p->lines[line].label && i < FIGURE_THROTTLES; i++) {
		if (figure_throttles[i].metric == p->lines[line].metric)
			return figure_throttles[i].words;
	}
	return p->lines[line].label;
}

static void add_line(struct drawing *d, const struct picture *p, size_t line, const struct html_table *t)
{
	const struct html_column *c = html_gather_column(t, p->lines[line].metric);
	struct svg_line *l = c ? new_line(d, label_of(p, line)) : NULL;

	if (!l)
		return;
	l->is_dashed = p->lines[line].is_limit;
	reduce(t, c, p->lines[line].added != ALONE ? html_gather_column(t, p->lines[line].added) : NULL,
		d->chart.end_ns, l->points);
	d->chart.n_lines += !p->lines[line].is_dropped || !is_nothing(l->points);
}

/* ---- parts of some charts ------------------------------------------------------------------------------------------ */

static void reference(struct drawing *d, const char *label, struct maybe value)
{
	if (value.known && value.value > 0 && d->chart.n_references < SVG_REFERENCES)
		d->chart.references[d->chart.n_references++] = (struct svg_reference) { label,
			(double) value.value };
}

static void references(struct drawing *d, unsigned about, const struct birth *gpu)
{
	const struct facts *f = d->run->summary->facts;
	const struct maybe limit = maybe_min(f->limit_bytes, d->run->summary->cgroup_limit);
	const bool limits = limit.known &&
			    (!f->capacity_bytes.known || limit.value < f->capacity_bytes.value);
	const struct {
		enum picture_about about;
		const char *label;
		struct maybe value;
	} all[] = {
		{ ABOUT_PEAK, "requested", summary_is_batch_only(f) ? UNKNOWN : f->request_bytes },
		{ ABOUT_PEAK, "limit", limits ? limit : UNKNOWN },
		{ ABOUT_MACHINE, "total of this machine", f->capacity_bytes },
		{ ABOUT_GPU, "total", gpu ? gpu->gpu.memory_bytes : UNKNOWN },
		{ ABOUT_CORES, "the job may use", figure_cores(f) },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (about & all[i].about)
			reference(d, all[i].label, all[i].value);
	}
}

static void flag_peak(struct drawing *d)
{
	const struct summary *s = d->run->summary;
	const struct ram_figure *peak = &s->combined;
	char text[UNITS_LEN];

	if (!peak->peak.known || !peak->at_ns.known)
		return;
	d->chart.flag_ns = peak->at_ns;
	d->chart.flag = (double) peak->peak.value;
	(void) buf_printf(&d->flag, "peak %s, ", units_bytes(peak->peak.value, d->h->o->units, text));
	figure_method(peak, s->facts, d->h->o, &d->flag);
	for (size_t i = 0; i < d->flag.len; i++) {
		if (d->flag.data[i] == NB[0])
			d->flag.data[i] = ' ';
	}
	d->chart.flag_words = d->flag.data;
}

static const struct birth *gpu_of(const struct drawing *d, uint32_t id)
{
	for (size_t i = 0; i < job_gpu_count(d->run->summary->job); i++) {
		const struct birth *b = &job_gpu(d->run->summary->job, i)->birth;

		if (b->id == id)
			return b;
	}
	return NULL;
}

/* ---- phases and events --------------------------------------------------------------------------------------------------------- */

static void stretch(struct drawing *d, uint64_t from_ns, uint64_t to_ns, const char *kind, const char *words)
{
	if (d->n_stretches < sizeof(d->stretches) / sizeof(d->stretches[0]))
		d->stretches[d->n_stretches++] = (struct svg_stretch) { from_ns, to_ns, kind, words };
}

/* "epoch 3". It is freed with the drawing. */
static const char *label_of_phase(struct drawing *d, const struct phase *p)
{
	struct buf text = BUF_INIT(1 << 16);
	char *label;

	figure_phase(p, false, &text);
	label = d->n_labels < PHASES_SHOWN ? strdup(text.data) : NULL;
	if (label)
		d->labels[d->n_labels++] = label;
	buf_done(&text);
	return label ? label : p->name;
}

/* Shades every other top-level phase. */
static void find_phases(struct drawing *d)
{
	const struct job *job = d->run->summary->job;
	size_t outer = 0;

	for (size_t i = 0; i < job_phase_count(job) && outer < PHASES_SHOWN; i++) {
		const struct phase *p = job_phase(job, i);

		if (p->parent == 0 && outer++ % 2 == 0)
			stretch(d, p->begin_ns, p->end_ns ? p->end_ns : d->chart.end_ns, "phase",
				label_of_phase(d, p));
	}
}

static void find_events(struct drawing *d)
{
	const struct html_gather *g = d->run->gather;

	for (size_t i = 0; i < g->n_events; i++) {
		const struct html_event *e = &g->events[i];
		const bool is_alert = e->kind == EVENT_ALERT || e->kind == EVENT_OOM ||
				      e->kind == EVENT_TRIGGER;

		if (e->kind == EVENT_GAP && e->value_ns > 0)
			stretch(d, e->time_ns - (uint64_t) e->value_ns, e->time_ns, "gap", "no samples");
		else if ((is_alert || e->kind == EVENT_MARK) && d->n_moments < MOMENTS_SHOWN)
			d->moments[d->n_moments++] = (struct svg_moment) { e->time_ns, is_alert,
				e->kind == EVENT_OOM ? "out of memory" : e->text };
	}
}

static const double throttled_least = 50000; /* millionths of the time: less is not shaded */

/* Shades stretches in which the clocks were throttled for a reason. Returns the throttled time, ns. */
static double shade_throttled(
	struct drawing *d, const struct html_table *t, const struct html_column *c, const char *words)
{
	const double hold = c ? hold_of(t, c) : 0;
	uint64_t ended = 0;
	double sum = 0;
	struct svg_stretch *last = NULL;

	for (size_t i = c ? next_number(t, c, 0) : t->n; i < t->n; i = next_number(t, c, i + 1)) {
		const uint64_t from = ended > 0 && t->t[i] > ended && (double) (t->t[i] - ended) <= hold
					      ? ended
					      : t->t[i];

		ended = t->t[i] + t->span[i];
		if (c->cells[i].mean < throttled_least)
			continue;
		sum += (double) (ended - from) * c->cells[i].mean / 1e6;
		if (last && last->to_ns >= from) {
			last->to_ns = ended;
			continue;
		}
		stretch(d, from, ended, "held", words);
		last = &d->stretches[d->n_stretches - 1];
	}
	return sum;
}

static void about_clocks(struct drawing *d, const struct html_table *t)
{
	char text[UNITS_LEN];

	buf_clear(&d->note);
	for (size_t i = 0; i < FIGURE_THROTTLES; i++) {
		const struct figure_throttle *why = &figure_throttles[i];
		const double sum = shade_throttled(d, t, html_gather_column(t, why->metric), why->words);

		if (sum > 0) {
			(void) buf_printf(&d->note, "%s%s, %s",
				d->note.len > 0 ? "; " : "Shaded with an edge: the clocks were throttled by ",
				why->words, units_duration(llround(sum), text));
		}
	}
	d->chart.n_stretches = d->n_stretches;
	d->chart.note = d->note.len > 0 ? d->note.data : NULL;
}

/* Adds lines of framework allocators to the memory of a GPU. */
static void add_allocators(struct drawing *d, const struct birth *gpu)
{
	const struct html_gather *g = d->run->gather;

	for (size_t i = 0; i < g->n_tables && d->chart.n_lines < d->lines_most; i++) {
		const struct html_table *t = &g->tables[i];
		char *label = d->allocators[d->chart.n_lines];

		if (!t->is_points || t->n == 0 ||
			!framework_memory(d->run->summary->job, gpu, t->columns[0].name, label))
			continue;
		struct svg_line *l = new_line(d, label);

		l->is_instants = true;
		reduce_instants(t, &t->columns[0], d->chart.end_ns, l->points);
		d->chart.n_lines++;
	}
}

/* ---- pictures -------------------------------------------------------------------------------------------------------------- */

static void begin(struct drawing *d, const char *title, const char *of, enum svg_amount amount, bool is_loose)
{
	struct svg_chart *c = &d->chart;

	c->box = svg_report_box;
	c->title = title;
	c->of = of;
	c->run = d->number;
	c->amount = amount;
	c->is_loose = is_loose;
	c->end_ns = d->run->gather->now_ns ? d->run->gather->now_ns : 1;
	c->n_lines = c->n_references = 0;
	c->flag_ns = UNKNOWN;
	c->stretches = d->stretches;
	c->n_stretches = d->n_stretches;
	c->moments = d->moments;
	c->n_moments = d->n_moments;
	c->note = NULL;
}

static void picture(struct drawing *d, const struct picture *p, const struct html_table *t)
{
	const struct birth *gpu = strcmp(t->entity, "gpu") == 0 ? gpu_of(d, t->id) : NULL;
	const size_t shared = d->n_stretches;
	char name[UNITS_LEN] = "";

	if (gpu)
		(void) job_gpu_name(d->run->summary->job, &gpu->gpu, name);
	begin(d, p->title, name, p->amount, p->is_loose);
	for (size_t line = 0; line < SVG_LINES && label_of(p, line); line++)
		add_line(d, p, line, t);
	if (p->about & ABOUT_ALLOCATORS && gpu)
		add_allocators(d, gpu);
	references(d, p->about, gpu);
	if (p->about & ABOUT_PEAK)
		flag_peak(d);
	if (p->about & ABOUT_CLOCKS && gpu)
		about_clocks(d, t);
	if (d->chart.n_lines > 0)
		svg_chart(d->h, &d->chart);
	d->n_stretches = shared;
}

/* Charts of one device come before those of the next. */
static void pictures_of(struct drawing *d)
{
	for (size_t first = 0, end; first < PICTURES; first = end) {
		const char *entity = pictures[first].entity;

		end = first + 1;
		while (end < PICTURES && strcmp(pictures[end].entity, entity) == 0)
			end++;
		for (size_t k = 0; k < d->run->gather->n_tables; k++) {
			const struct html_table *t = &d->run->gather->tables[k];
			const bool is_unused = strcmp(t->entity, "gpu") == 0 &&
					       figure_gpu_unused(d->run->summary, t->id);

			for (size_t i = first;
				i < end && t->n > 0 && !is_unused && strcmp(t->entity, entity) == 0; i++)
				picture(d, &pictures[i], t);
		}
	}
}

/* ---- user series --------------------------------------------------------------------------------------------------- */

/* train/loss and val_loss are two lines of one chart, "loss"; web/logged.js has the same rule. */
static const char *family(const char *name)
{
	static const char *const sets[] = { "train", "valid", "validation", "val", "test", "eval" };
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		const size_t len = strlen(sets[i]);

		if (strncmp(last, sets[i], len) == 0 && last[len] && strchr("_.-", last[len]) &&
			last[len + 1])
			return last + len + 1;
	}
	return last;
}

static bool is_series(const struct html_table *t)
{
	return t->is_points && t->n > 0 && !framework_has(t->columns[0].name);
}

/* step_time/rank0 and loss/rank0 cannot share an axis. */
static bool is_in_family(const struct html_table *t, const char *name)
{
	const char *other = is_series(t) ? t->columns[0].name : NULL; /* another table may have no column */

	return other && strcmp(family(other), family(name)) == 0 &&
	       series_is_seconds(other) == series_is_seconds(name);
}

static void family_picture(struct drawing *d, size_t first)
{
	const struct html_gather *g = d->run->gather;
	const char *name = g->tables[first].columns[0].name;
	const bool is_bytes = series_is_bytes(name);

	begin(d, family(name), "", is_bytes ? AMOUNT_BYTES : AMOUNT_PLAIN, !is_bytes);
	d->chart.note = series_is_seconds(name) ? "In seconds." : NULL;
	for (size_t i = first; i < g->n_tables; i++) {
		const struct html_table *t = &g->tables[i];
		struct svg_line *l;

		if (!is_in_family(t, name))
			continue;
		l = new_line(d, t->columns[0].name);
		if (!l) {
			d->chart.note = "Further series of this name are in the data of this page.";
			break;
		}
		l->is_instants = true;
		reduce_instants(t, &t->columns[0], d->chart.end_ns, l->points);
		d->chart.n_lines++;
	}
	svg_chart(d->h, &d->chart);
}

static bool was_before(const struct html_gather *g, size_t table)
{
	for (size_t i = 0; i < table; i++) {
		if (is_in_family(&g->tables[i], g->tables[table].columns[0].name))
			return true;
	}
	return false;
}

static void series_of(struct drawing *d)
{
	const struct html_gather *g = d->run->gather;
	size_t shown = 0;

	for (size_t i = 0; i < g->n_tables; i++) {
		if (!is_series(&g->tables[i]) || was_before(g, i))
			continue;
		if (shown++ == SERIES_SHOWN) {
			html_raw(
				d->h, "<p class=\"note\">Further series are in the data of this page.</p>\n");
			return;
		}
		family_picture(d, i);
	}
}

static struct drawing *new_drawing(struct html *h, size_t run, size_t lines_most)
{
	struct drawing *d = malloc(sizeof(*d));

	if (!d) {
		h->out->error = -ENOMEM;
		return NULL;
	}
	*d = (struct drawing) {
		.h = h,
		.run = &h->runs[run],
		.number = run,
		.lines_most = lines_most,
		.flag = BUF_INIT(4096),
		.note = BUF_INIT(4096),
	};
	d->chart.end_ns = d->run->gather->now_ns ? d->run->gather->now_ns : 1;
	find_phases(d);
	find_events(d);
	return d;
}

static void free_drawing(struct drawing *d)
{
	for (size_t i = 0; i < d->n_labels; i++)
		free(d->labels[i]);
	buf_done(&d->flag);
	buf_done(&d->note);
	free(d);
}

void html_pictures(struct html *h)
{
	for (size_t i = 0; i < h->n; i++) {
		struct drawing *d = new_drawing(h, i, SVG_LINES);

		if (!d)
			return;
		svg_timeline(h, i);
		pictures_of(d);
		series_of(d);
		free_drawing(d);
	}
}

/* ---- a figure: all charts in one picture ----------------------------------------------------------------------------------- */

enum {
	FIGURE_WIDTH = 820,
	FIGURE_WIDTH_LEAST = 400,
	FIGURE_HEIGHT = 74,     /* of a chart */
	FIGURE_HEIGHT_LEAST = 40,
	FIGURE_LABELS = 150,    /* at the right: names and last values of lines */
	FIGURE_ABOVE = 30,      /* of a chart: its title */
	FIGURE_TOP = 14,        /* names of phases */
	FIGURE_BELOW = 28,      /* the time axis */
	FIGURE_SERIES = 4,      /* unless selected by name */
	FIGURE_LABEL = 12,      /* a line of letters */
};

const bool svg_figure_drawn[METRIC_COUNT] = {
	[M_JOB_RAM] = true,
	[M_JOB_CPU_USER] = true,
	[M_JOB_CPU_SYSTEM] = true,
	[M_GPU_BUSY] = true,
	[M_GPU_SM_ACTIVE] = true,
	[M_GPU_JOB_MEM] = true,
	[M_GPU_MEM] = true,
};

static const struct picture figure_job[] = {
	{ "CPU", "job", AMOUNT_CORES, false, 0,
		{ { "job", M_JOB_CPU_USER, M_JOB_CPU_SYSTEM, false, false } } },
	{ "RAM", "job", AMOUNT_BYTES, false, 0, { { "job", M_JOB_RAM, ALONE, false, false } } },
};

struct figure {
	struct drawing *d;
	const struct svg_figure *what;
	double y;               /* bottom of the last chart */
	char names[SVG_LINES_MOST][2 * UNITS_LEN];
};

static double last_of(const struct svg_line *l)
{
	for (size_t i = SVG_POINTS; i-- > 0;) {
		if (l->points[i].n > 0)
			return l->points[i].mean;
	}
	return NAN;
}

/* Labels at the lines' ends, without overlaps. is_named: with names even for a single line. */
static void put_labels(struct html *h, const struct svg_scale *s, bool is_named)
{
	const struct svg_chart *c = s->c;
	bool is_put[SVG_LINES_MOST] = { false };
	double at = c->box.top + 4 - FIGURE_LABEL;

	for (size_t k = 0; k < c->n_lines; k++) {
		size_t next = c->n_lines;
		double y = INFINITY;

		for (size_t i = 0; i < c->n_lines; i++) {
			const double last = last_of(&c->lines[i]);

			if (!is_put[i] && (next == c->n_lines || svg_y(s, last) < y)) {
				next = i;
				y = isnan(last) ? INFINITY : svg_y(s, last);
			}
		}
		is_put[next] = true;
		if (!isfinite(y))
			continue;
		at = fmax(at + FIGURE_LABEL,
			fmin(y + 4, c->box.bottom - (double) (c->n_lines - k - 1) * FIGURE_LABEL));
		html_printf(h, "<text class=\"name c%u\" fill=\"%s\" x=\"", c->lines[next].color,
			svg_colors[c->lines[next].color]);
		svg_pixels(h, c->box.right + 6);
		html_raw(h, "\" y=\"");
		svg_pixels(h, at);
		html_raw(h, "\">");
		if (c->n_lines > 1 || is_named) {
			html_short(h, c->lines[next].label, "", 16);
			html_raw(h, " ");
		}
		svg_amount(h, last_of(&c->lines[next]), c->amount);
		html_raw(h, "</text>");
	}
}

static void begin_chart(struct figure *f, const char *title, enum svg_amount amount, bool is_loose)
{
	const double width = f->what->width ? f->what->width : FIGURE_WIDTH,
		     height = f->what->height ? f->what->height : FIGURE_HEIGHT;
	struct svg_chart *c = &f->d->chart;

	begin(f->d, title, "", amount, is_loose);
	c->box = (struct svg_box) { SVG_LEFT, fmax(width, FIGURE_WIDTH_LEAST) - FIGURE_LABELS,
		f->y + FIGURE_ABOVE, f->y + FIGURE_ABOVE + fmax(height, FIGURE_HEIGHT_LEAST) };
}

static bool has_points(const struct svg_chart *c)
{
	for (size_t i = 0; i < c->n_lines; i++) {
		if (!isnan(last_of(&c->lines[i])))
			return true;
	}
	return false;
}

static void end_chart(struct figure *f, bool is_named)
{
	struct html *h = f->d->h;
	const struct svg_scale s = svg_scale(&f->d->chart);

	if (!has_points(s.c))
		return;
	html_raw(h, "<text fill=\"#111827\" font-weight=\"600\" x=\"");
	svg_pixels(h, s.c->box.left);
	html_raw(h, "\" y=\"");
	svg_pixels(h, s.c->box.top - 6);
	html_raw(h, "\">");
	html_text(h, s.c->title);
	html_raw(h, "</text>");
	svg_plot(h, &s);
	put_labels(h, &s, is_named);
	f->y = s.c->box.bottom;
}

/* Adds a line of a GPU. */
static void gpu_line(struct figure *f, const struct html_table *t, enum metric metric, const char *word,
	unsigned color, bool is_dashed)
{
	struct drawing *d = f->d;
	const struct html_column *c = html_gather_column(t, metric);
	const struct birth *gpu = gpu_of(d, t->id);
	char *name = f->names[d->chart.n_lines < SVG_LINES_MOST ? d->chart.n_lines : 0], number[UNITS_LEN];
	struct svg_line *l = c && gpu ? new_line(d, name) : NULL;

	if (!l)
		return;
	(void) snprintf(name, sizeof(f->names[0]), "%s%s",
		job_gpu_name(d->run->summary->job, &gpu->gpu, number), word);
	l->color = color % SVG_COLORS;
	l->is_dashed = is_dashed;
	reduce(t, c, NULL, d->chart.end_ns, l->points);
	d->chart.n_lines++;
}

static void figure_gpus(struct figure *f, bool is_memory)
{
	const struct html_gather *g = f->d->run->gather;
	unsigned color = 0;

	begin_chart(f, is_memory ? "GPU memory" : "GPU", is_memory ? AMOUNT_BYTES : AMOUNT_SHARE, false);
	for (size_t i = 0; i < g->n_tables; i++) {
		const struct html_table *t = &g->tables[i];

		if (strcmp(t->entity, "gpu") != 0 || t->n == 0 ||
			figure_gpu_unused(f->d->run->summary, t->id))
			continue;
		if (is_memory) {
			const size_t before = f->d->chart.n_lines;

			gpu_line(f, t, html_gather_column(t, M_GPU_JOB_MEM) ? M_GPU_JOB_MEM : M_GPU_MEM, "",
				color, false);
			if (gpu_of(f->d, t->id))
				add_allocators(f->d, gpu_of(f->d, t->id));
			for (size_t k = before + 1; k < f->d->chart.n_lines; k++) {
				f->d->chart.lines[k].color = color % SVG_COLORS;
				f->d->chart.lines[k].is_dashed = true;
			}
		} else {
			gpu_line(f, t, M_GPU_BUSY, " busy", color, false);
			gpu_line(f, t, M_GPU_SM_ACTIVE, " SM", color, true);
		}
		color++;
	}
	end_chart(f, true);
}

/* Timings of training loops are drawn only if selected. */
static bool is_of_loop(const char *name)
{
	return series_time(name, SERIES_WAIT) || series_time(name, SERIES_STEP) || strcmp(name, "steps") == 0;
}

static bool is_in_figure(const struct svg_figure *what, const char *name)
{
	for (size_t i = 0; i < what->n_series; i++) {
		if (strcmp(what->series[i], name) == 0)
			return true;
	}
	return what->n_series == 0 && !is_of_loop(name) && !framework_has(name);
}

static void figure_series(struct figure *f)
{
	const struct html_gather *g = f->d->run->gather;
	size_t shown = 0;

	for (size_t i = 0; i < g->n_tables && (f->what->n_series > 0 || shown < FIGURE_SERIES); i++) {
		const struct html_table *t = &g->tables[i];
		struct svg_line *l;

		if (!t->is_points || t->n == 0 || !is_in_figure(f->what, t->columns[0].name))
			continue;
		begin_chart(f, t->columns[0].name,
			series_is_bytes(t->columns[0].name) ? AMOUNT_BYTES : AMOUNT_PLAIN, true);
		l = new_line(f->d, t->columns[0].name);
		l->is_instants = true;
		reduce_instants(t, &t->columns[0], f->d->chart.end_ns, l->points);
		f->d->chart.n_lines++;
		end_chart(f, false);
		shown++;
	}
}

/* Names of phases above the charts, where they fit. */
static void figure_phases(struct figure *f)
{
	static const int letter = 7; /* pixels, about */
	const struct job *job = f->d->run->summary->job;
	double free_from = 0;

	begin_chart(f, "", AMOUNT_PLAIN, false);
	for (size_t i = 0, shown = 0; i < job_phase_count(job) && shown < PHASES_SHOWN; i++) {
		const struct phase *p = job_phase(job, i);
		const double from = svg_x(&f->d->chart.box, f->d->chart.end_ns, (double) p->begin_ns);
		const double to = svg_x(&f->d->chart.box, f->d->chart.end_ns,
			(double) (p->end_ns ? p->end_ns : f->d->chart.end_ns));
		struct buf label = BUF_INIT(1 << 16);

		figure_phase(p, false, &label);
		const double width = (double) text_width(label.data) * letter;

		if (p->parent == 0 && from >= free_from && to - from >= width) {
			svg_text(f->d->h, from + 2, FIGURE_TOP - 2, "start");
			html_text(f->d->h, label.data);
			html_raw(f->d->h, "</text>");
			free_from = from + width;
			shown++;
		}
		buf_done(&label);
	}
}

static void figure_charts(struct figure *f)
{
	const struct html_gather *g = f->d->run->gather;

	figure_phases(f);
	for (size_t i = 0; f->what->has_job && i < sizeof(figure_job) / sizeof(figure_job[0]); i++) {
		begin_chart(f, figure_job[i].title, figure_job[i].amount, false);
		add_line(f->d, &figure_job[i], 0, html_gather_find(g, "job", 0));
		end_chart(f, false);
	}
	for (int is_memory = 0; f->what->has_gpus && is_memory < 2; is_memory++)
		figure_gpus(f, is_memory);
	if (f->what->has_series)
		figure_series(f);
}

void svg_figure(struct html *h, const struct svg_figure *what)
{
	const double width = fmax(what->width ? what->width : FIGURE_WIDTH, FIGURE_WIDTH_LEAST);
	struct buf charts = BUF_INIT(64 << 20), *out = h->out;
	struct html inner = *h;
	struct figure f = {
		.d = new_drawing(h, 0, SVG_LINES_MOST), .what = what, .y = FIGURE_TOP - FIGURE_ABOVE / 2
	};

	if (!f.d)
		return;
	inner.out = &charts;
	f.d->h = &inner;
	figure_charts(&f);
	if (charts.len == 0 || f.y <= FIGURE_TOP) {
		f.y += FIGURE_ABOVE + FIGURE_HEIGHT;
		svg_text(&inner, SVG_LEFT, f.y / 2, "start");
		html_raw(&inner, "nothing recorded yet</text>");
	}
	svg_times(&inner, &f.d->chart.box, f.d->chart.end_ns, (int) f.y + FIGURE_BELOW - 10);
	html_printf(h,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" font-size=\"11\" "
		"font-family=\"system-ui,sans-serif\" role=\"img\" aria-label=\"",
		width, f.y + FIGURE_BELOW, width, f.y + FIGURE_BELOW);
	html_text(h, what->label);
	html_raw(h, "\"><rect class=\"ground\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>");
	(void) buf_add(out, charts.data, charts.len);
	html_raw(h, "</svg>\n");
	if (charts.error && !out->error)
		out->error = charts.error;
	buf_done(&charts);
	free_drawing(f.d);
}
