/* SPDX-License-Identifier: MIT
 *
 * OpenMetrics 1.0 with timestamps, for promtool tsdb create-blocks-from openmetrics. The samples of
 * a family must be one block, and in it those of each metric, while recordings are in the order of
 * time: so samples go through a spool, a stream a metric and entity. The mean of a gauge's window
 * is the family's value, its maximum that of a second family (_max before the unit). Timestamps are
 * those of the window's end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spool.h"
#include "sink/export/export_internal.h"
#include "sink/export/openmetrics.h"

static const int64_t info_every_ms = 60000; /* Prometheus queries look back five minutes */

struct sample {
	int64_t time_ms;
	int64_t value, max; /* of a series: value has the bits of a double */
};

/* The source of samples: an entity, or a series, whose id is its index. */
struct source {
	int table;          /* enum entity or EXPORT_SERIES */
	uint32_t id;
	char *labels;       /* after run="..." */
	char *info;         /* further labels, for the entity's info family; "" if none */
	int64_t first_ms, last_ms;
};

struct om {
	struct spool spool;
	struct source *sources;
	size_t n, cap;
	struct map places;  /* of sources, from table and id */
	/* from the source's place and metric to the stream and the time of its last sample */
	struct map streams;
	int64_t last_ms;    /* of all samples */
};

enum {
	MOST_SOURCES = 1 << 20
};

/* ---- labels ------------------------------------------------------------------------------------------------------------- */

static void put_number(struct buf *out, const char *name, struct maybe value)
{
	char text[UNITS_LEN];

	if (value.known)
		om_put_label(out, name, units_decimal(value.value, 0, text));
}

/* Numbers identify an entity, names are labels of the info family: as labels of samples they would
 * make a series a name. */
static void label_process(
	struct export *e, const struct birth *b, uint32_t id, struct buf *labels, struct buf *info)
{
	put_number(labels, "process", known(id));
	put_number(labels, "pid", b ? known(b->process.pid) : UNKNOWN);
	om_put_label(info, "name", export_process_name(e, b));
	om_put_label(info, "command", b ? export_private(e, b->process.command) : "");
}

static void label_gpu(
	struct export *e, const struct birth *b, uint32_t id, struct buf *labels, struct buf *info)
{
	char number[UNITS_LEN];

	om_put_label(labels, "gpu", names_gpu_number(&e->names, b, id, number));
	om_put_label(labels, "uuid", b ? b->gpu.uuid : "");
	om_put_label(info, "name", b ? b->gpu.name : "");
	om_put_label(info, "vendor", b ? b->gpu.vendor : "");
	om_put_label(info, "driver", b ? b->gpu.driver : "");
	om_put_label(info, "parent", b ? b->gpu.parent : "");
	if (b && gpu_is_allocated(e->facts, &b->gpu).known)
		om_put_label(info, "allocated", gpu_is_allocated(e->facts, &b->gpu).value ? "true" : "false");
}

static void label_gpu_process(
	struct export *e, const struct birth *b, uint32_t id, struct buf *labels, struct buf *info)
{
	const struct birth *gpu = b ? names_find(&e->names, ENTITY_GPU, b->gpu_process.gpu) : NULL;

	put_number(labels, "gpu_process", known(id));
	om_put_label(labels, "uuid", gpu ? gpu->gpu.uuid : "");
	put_number(labels, "pid", b ? b->gpu_process.pid : UNKNOWN);
	om_put_label(info, "name", b ? export_private(e, b->gpu_process.name) : "");
}

static const struct {
	void (*label)(
		struct export *e, const struct birth *b, uint32_t id, struct buf *labels, struct buf *info);
	const char *info, *help; /* the family that describes the entity */
} kinds[ENTITY_COUNT] = {
	[ENTITY_PROCESS] = { label_process, "hiwater_process", "processes of the job" },
	[ENTITY_GPU] = { label_gpu, "hiwater_gpu", "the GPUs" },
	[ENTITY_GPU_PROCESS] = { label_gpu_process, "hiwater_gpu_process", "processes on the GPUs" },
};

static int make_labels(struct export *e, struct source *s, const char *series)
{
	struct buf labels = BUF_INIT(1 << 16), info = BUF_INIT(1 << 20);
	int error;

	if (series)
		om_put_label(&labels, "series", series);
	else if (kinds[s->table].label)
		kinds[s->table].label(
			e, names_find(&e->names, (enum entity) s->table, s->id), s->id, &labels, &info);
	error = labels.error ? labels.error : info.error;
	s->labels = strdup(labels.data);
	s->info = strdup(info.data);
	buf_done(&labels);
	buf_done(&info);
	return error ? error : s->labels && s->info ? 0
						    : -ENOMEM;
}

/* ---- gathering ---------------------------------------------------------------------------------------------------------- */

/* The source, made on first use. series: its name if it is one. NULL: error. */
static struct source *find_source(struct export *e, int table, uint32_t id, const char *series)
{
	struct om *om = e->state;
	const uint64_t key = (uint64_t) table << 32 | id;
	struct source s = { .table = table, .id = id, .first_ms = INT64_MAX };
	uint32_t place;
	int error;

	if (map_get(&om->places, key, &place))
		return &om->sources[place];
	error = vec_reserve(&om->sources, &om->cap, om->n, sizeof(s), MOST_SOURCES);
	if (error == 0)
		error = make_labels(e, &s, series);
	if (error == 0)
		error = map_put(&om->places, key, (uint32_t) om->n);
	if (error < 0) {
		free(s.labels);
		free(s.info);
		e->error = error;
		return NULL;
	}
	om->sources[om->n] = s;
	return &om->sources[om->n++];
}

static uint64_t stream_key(const struct om *om, const struct source *s, unsigned metric)
{
	return (uint64_t) (s - om->sources) << 16 | metric;
}

static void put_sample(struct export *e, struct source *s, unsigned metric, const struct sample *sample)
{
	struct om *om = e->state;
	uint32_t stream;

	if (!map_get(&om->streams, stream_key(om, s, metric), &stream)) {
		const int number = spool_new(&om->spool);

		if (number < 0 || map_put(&om->streams, stream_key(om, s, metric), (uint32_t) number) < 0) {
			e->error = number < 0 ? number : -ENOMEM;
			return;
		}
		stream = (uint32_t) number;
	}
	spool_put(&om->spool, (int) stream, sample);
	if (sample->time_ms < s->first_ms)
		s->first_ms = sample->time_ms;
	s->last_ms = sample->time_ms;
	if (sample->time_ms > om->last_ms)
		om->last_ms = sample->time_ms;
}

static void see_row(void *ctx, const struct export_row *row)
{
	struct export *e = ctx;
	struct source *s;

	if (!(e->table == EXPORT_ALL ? row->entity != ENTITY_PROCESS && row->entity != ENTITY_GPU_PROCESS
				     : e->table == (int) row->entity))
		return;
	s = find_source(e, (int) row->entity, row->id, NULL);
	for (unsigned m = 0; s && m < METRIC_COUNT && e->error == 0; m++) {
		const struct reading *r = row->cells[m];
		const uint64_t end_ns = row->time_ns + row->span_ns;

		if (r && r->known)
			put_sample(e, s, m,
				&(struct sample) {
					(int64_t) (export_wall(e, end_ns) / 1000000), r->value, r->max });
	}
}

static void see_series(struct export *e, const struct frame *frame)
{
	struct sample sample = { .time_ms = (int64_t) (export_wall(e, frame->time_ns) / 1000000) };

	for (size_t i = 0; i < frame->n_series && e->error == 0; i++) {
		const struct series_value *value = &frame->series[i];
		const struct maybe place = export_series(e, value->name);
		struct source *s = NULL;

		if (place.known)
			s = find_source(e, EXPORT_SERIES, (uint32_t) place.value, value->name);

		memcpy(&sample.value, &value->value, sizeof(sample.value));
		if (s)
			put_sample(e, s, METRIC_COUNT, &sample);
	}
}

/* Frees the streams of an entity that ended. */
static void see_end(struct export *e, const struct end *end)
{
	struct om *om = e->state;
	uint32_t place, stream;

	if (!map_get(&om->places, (uint64_t) end->entity << 32 | end->id, &place))
		return;
	for (unsigned m = 0; m < METRIC_COUNT; m++) {
		if (metrics[m].entity == end->entity &&
			map_get(&om->streams, stream_key(om, &om->sources[place], m), &stream))
			spool_close(&om->spool, (int) stream);
	}
}

static void see(struct export *e, const struct frame *frame)
{
	struct om *om = e->state;

	export_rows(frame, see_row, e);
	if (export_wants(e, EXPORT_SERIES))
		see_series(e, frame);
	for (size_t i = 0; i < frame->n_ends; i++)
		see_end(e, &frame->ends[i]);
	if (e->error == 0)
		e->error = om->spool.error;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------ */

struct writing {
	struct export *e;
	const struct om_family *family;
	const struct source *source;
	const char *labels;  /* fixed ones of the metric */
	int metric;          /* METRIC_COUNT: a series */
	int64_t before_ms;
};

static void put_name(const struct writing *w)
{
	struct buf *out = &w->e->out;

	om_put_sample_name(out, w->family);
	(void) buf_printf(out, "{run=\"%s\"", w->e->facts->id ? w->e->facts->id : "");
	if (*w->labels)
		(void) buf_printf(out, ",%s", w->labels);
	if (*w->source->labels)
		(void) buf_printf(out, ",%s", w->source->labels);
	(void) buf_str(out, "} ");
}

static void put_time(struct export *e, int64_t time_ms)
{
	char text[UNITS_LEN];

	(void) buf_printf(&e->out, " %s\n", units_decimal(time_ms, 3, text));
}

/* Prometheus has a resolution of milliseconds: of several samples in one, the first is kept. */
static void put_stored(void *ctx, const void *record)
{
	struct writing *w = ctx;
	struct sample s;
	double number;

	memcpy(&s, record, sizeof(s));
	if (s.time_ms <= w->before_ms)
		return;
	w->before_ms = s.time_ms;
	put_name(w);
	memcpy(&number, &s.value, sizeof(number));
	if (w->metric == METRIC_COUNT)
		export_double(&w->e->out, number, "Inf");
	else
		om_put_value(&w->e->out, (enum metric) w->metric, w->family->is_max ? s.max : s.value);
	put_time(w->e, s.time_ms);
	export_flush(w->e);
}

/* Writes all samples of one metric of the family. False: none. */
static bool put_metric(
	struct export *e, const struct om_family *f, int metric, const char *labels, bool has_head)
{
	struct om *om = e->state;
	uint32_t stream;

	for (size_t i = 0; i < om->n && e->error == 0; i++) {
		struct writing w = {
			.e = e,
			.family = f,
			.source = &om->sources[i],
			.labels = labels,
			.metric = metric,
			.before_ms = INT64_MIN,
		};

		if (!map_get(&om->streams, stream_key(om, &om->sources[i], (unsigned) metric), &stream))
			continue;
		if (!has_head)
			om_put_head(&e->out, OM_1_0, f);
		has_head = true;
		spool_each(&om->spool, (int) stream, put_stored, &w);
	}
	return has_head;
}

/* The family that the metric begins: its metrics need not be adjacent in metric.def. */
static void put_family(struct export *e, int first, bool is_max)
{
	const struct om_family f = om_family_of(&metrics[first], is_max);
	bool has_head = false;

	for (int m = 0; m < first; m++) {
		if (strcmp(metrics[m].om, f.om) == 0)
			return;
	}
	for (int m = first; m < METRIC_COUNT; m++) {
		if (strcmp(metrics[m].om, f.om) == 0 && (!is_max || metrics[m].kind == KIND_GAUGE))
			has_head = put_metric(e, &f, m, metrics[m].om_labels, has_head);
	}
}

static void put_info(struct export *e, const char *name, const char *labels, const char *more,
	int64_t from_ms, int64_t to_ms)
{
	enum {
		MOST_LINES = 200000 /* of 138 days; more only in a damaged recording */
	};
	const int64_t least_ms = (to_ms - from_ms) / MOST_LINES,
		      step_ms = least_ms > info_every_ms ? least_ms : info_every_ms;

	for (int64_t t = from_ms;; t = to_ms - t > step_ms ? t + step_ms : to_ms) {
		(void) buf_printf(&e->out, "%s_info{run=\"%s\"%s%s%s%s} 1", name,
			e->facts->id ? e->facts->id : "", *labels ? "," : "", labels, *more ? "," : "", more);
		put_time(e, t);
		export_flush(e);
		if (t >= to_ms)
			break;
	}
}

static void put_run(struct export *e)
{
	const struct om *om = e->state;
	const int64_t from = (int64_t) (export_wall(e, 0) / 1000000);
	struct buf labels = BUF_INIT(1 << 20);

	om_put_run_labels(&labels, e->facts, !e->o.redact, !e->o.redact);
	(void) buf_str(&e->out,
		"# TYPE hiwater_run info\n# HELP hiwater_run facts of the run; join by the label run\n");
	put_info(e, "hiwater_run", labels.data, "", from, om->last_ms > from ? om->last_ms : from);
	if (labels.error && e->error == 0)
		e->error = labels.error;
	buf_done(&labels);
}

static void put_entities(struct export *e, int entity)
{
	const struct om *om = e->state;
	bool has_head = false;

	for (size_t i = 0; kinds[entity].info && i < om->n; i++) {
		const struct source *s = &om->sources[i];

		if (s->table != entity || !*s->info || s->first_ms > s->last_ms)
			continue;
		if (!has_head)
			(void) buf_printf(&e->out, "# TYPE %s info\n# HELP %s %s\n", kinds[entity].info,
				kinds[entity].info, kinds[entity].help);
		has_head = true;
		put_info(e, kinds[entity].info, s->labels, s->info, s->first_ms, s->last_ms);
	}
}

static void end(struct export *e)
{
	static const struct om_family series = { .om = "",
		.name = "hiwater_series",
		.unit = "",
		.type = "gauge",
		.help = "series that the job logged" };
	struct om *om = e->state;

	put_run(e);
	for (int entity = 0; entity < ENTITY_COUNT; entity++)
		put_entities(e, entity);
	for (int m = 0; m < METRIC_COUNT; m++) {
		put_family(e, m, false);
		if (metrics[m].kind == KIND_GAUGE)
			put_family(e, m, true);
	}
	(void) put_metric(e, &series, METRIC_COUNT, "", false);
	(void) buf_str(&e->out, "# EOF\n");
	if (e->error == 0)
		e->error = om->spool.error;
}

/* ---- the format --------------------------------------------------------------------------------------------------------- */

static int begin(struct export *e, struct err *err)
{
	struct om *om = calloc(1, sizeof(*om));

	if (!om)
		return err_set(err, -ENOMEM, "out of memory");
	e->state = om;
	return spool_open(&om->spool, sizeof(struct sample), err);
}

static void done(struct export *e)
{
	struct om *om = e->state;

	for (size_t i = 0; om && i < om->n; i++) {
		free(om->sources[i].labels);
		free(om->sources[i].info);
	}
	if (om) {
		free(om->sources);
		map_done(&om->places);
		map_done(&om->streams);
		spool_done(&om->spool);
	}
	free(om);
}

const struct export_format export_openmetrics = {
	.name = "openmetrics",
	.tables = 1U << ENTITY_HOST | 1U << ENTITY_JOB | 1U << ENTITY_PROCESS | 1U << ENTITY_GPU |
		  1U << ENTITY_GPU_PROCESS | 1U << EXPORT_SERIES,
	.default_table = EXPORT_ALL,
	.begin = begin,
	.see = see,
	.end = end,
	.done = done,
};
