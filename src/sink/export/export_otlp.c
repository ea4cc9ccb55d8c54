/* SPDX-License-Identifier: MIT
 *
 * OTLP as JSON: each line is the body of one request, an ExportMetricsServiceRequest, of at most a
 * few MiB. The points of a metric are gathered in a buffer of text per name until a request is
 * full. Of a gauge a point is the mean of its window, and a second metric, hiwater.*_max, has the maximum; a counter is cumulative
 * since the run's start. Counters of the machine and of GPUs are older than the run: their first value is subtracted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "sink/export/export_internal.h"
#include "sink/export/otlp_names.h"

static const char schema[] = "https://opentelemetry.io/schemas/1.44.0";

enum {
	BODY_BYTES = 2 << 20,   /* a request is written when its points have more text; receivers accept 4 MiB or more */
	CUMULATIVE = 2,         /* AGGREGATION_TEMPORALITY_CUMULATIVE */
	MOST_STREAMS = 1 << 16,
	MOST_SERIES = 4096,
	SERIES = METRIC_COUNT,  /* the family of user series; gauges' maxima follow */
	FAMILIES = 2 * METRIC_COUNT + 1,
};

/* The points of one metric of OTLP that are not written yet. */
struct family {
	struct otlp_name name;
	unsigned leader;        /* family with this name that has its points: the first one */
	const char *description;
	struct buf points;
};

/* Values of one metric of one entity since the last point. */
struct stream {
	uint32_t id;
	unsigned metric;
	bool fresh, has_base;
	int64_t base;           /* first value of a counter that is older than the run */
	int64_t value, max;     /* value: the last one */
	double sum;             /* value x time */
	uint64_t span_ns, time_ns;
	uint32_t n;
};

/* A user series. */
struct logged {
	char *name;
	bool fresh;
	double value;
	uint64_t time_ns;
};

struct otlp {
	struct family *families;
	struct stream *streams;
	size_t n_streams, cap_streams;
	struct map places;      /* of streams, from metric and id */
	struct logged *series;
	size_t n_series, cap_series, bytes;
};

/* ---- points ------------------------------------------------------------------------------------------------------------- */

static void put_attribute(struct json *j, const char *key, const char *value)
{
	json_object(j);
	json_key(j, "key");
	json_str(j, key);
	json_key(j, "value");
	json_object(j);
	json_key(j, "stringValue");
	json_str(j, value);
	json_end(j);
	json_end(j);
}

/* 64-bit integers are strings in JSON of Protocol Buffers. */
static void put_number(struct json *j, const char *key, uint64_t value)
{
	char text[24];

	(void) snprintf(text, sizeof(text), "%llu", (unsigned long long) value);
	json_key(j, key);
	json_str(j, text);
}

static void put_gpu(struct export *e, struct json *j, const struct otlp_name *name, uint32_t id)
{
	const struct birth *b = names_find(&e->names, ENTITY_GPU, id);
	char number[UNITS_LEN];

	names_gpu_number(&e->names, b, id, number);
	if (!name->is_convention) {
		put_attribute(j, "gpu", number);
		put_attribute(j, "uuid", b ? b->gpu.uuid : "");
		return;
	}
	put_attribute(j, "hw.id", b && *b->gpu.uuid ? b->gpu.uuid : number);
	if (b && *b->gpu.name)
		put_attribute(j, "hw.name", b->gpu.name);
	if (b && *b->gpu.vendor)
		put_attribute(j, "hw.vendor", b->gpu.vendor);
	if (b && *b->gpu.driver)
		put_attribute(j, "hw.driver_version", b->gpu.driver);
	if (b && *b->gpu.parent)
		put_attribute(j, "hw.parent", b->gpu.parent);
}

/* Begins a point of the family, up to its value. */
static void begin_point(struct export *e, struct family *f, struct json *j, uint64_t time_ns)
{
	struct otlp *o = e->state;
	struct family *leader = &o->families[f->leader];

	if (leader->points.len)
		(void) buf_str(&leader->points, ",");
	json_init(j, &leader->points, true);
	json_object(j);
	if (f->name.type != OTLP_GAUGE)
		put_number(j, "startTimeUnixNano", export_wall(e, 0));
	put_number(j, "timeUnixNano", export_wall(e, time_ns));
}

static void end_point(struct export *e, struct family *f, struct json *j, size_t before)
{
	struct otlp *o = e->state;
	struct family *leader = &o->families[f->leader];

	json_end(j);
	o->bytes += leader->points.len - before;
	if (leader->points.error && e->error == 0)
		e->error = leader->points.error;
}

static void put_point(struct export *e, unsigned family, uint32_t id, int64_t value, uint64_t time_ns)
{
	struct otlp *o = e->state;
	struct family *f = &o->families[family];
	const unsigned metric = family < SERIES ? family : family - SERIES - 1;
	const unsigned digits = export_digits(metrics[metric].unit);
	const size_t before = o->families[f->leader].points.len;
	struct json j;

	begin_point(e, f, &j, time_ns);
	if (digits == 0) {
		char text[UNITS_LEN];

		json_key(&j, "asInt");
		json_str(&j, units_decimal(value, 0, text));
	} else {
		json_key(&j, "asDouble");
		json_decimal(&j, value, digits);
	}
	json_key(&j, "attributes");
	json_array(&j);
	for (size_t i = 0; i < OTLP_ATTRIBUTES && f->name.attributes[i].key; i++)
		put_attribute(&j, f->name.attributes[i].key, f->name.attributes[i].value);
	if (metrics[metric].entity == ENTITY_GPU)
		put_gpu(e, &j, &f->name, id);
	json_end(&j);
	end_point(e, f, &j, before);
}

static void put_series(struct export *e, const struct logged *s)
{
	struct otlp *o = e->state;
	struct family *f = &o->families[SERIES];
	const size_t before = f->points.len;
	struct json j;

	begin_point(e, f, &j, s->time_ns);
	json_key(&j, "asDouble");
	json_num(&j, s->value);
	json_key(&j, "attributes");
	json_array(&j);
	put_attribute(&j, "series", s->name);
	json_end(&j);
	end_point(e, f, &j, before);
}

/* ---- requests ----------------------------------------------------------------------------------------------------------- */

static bool is_given(const struct export *e, const char *key)
{
	for (size_t i = 0; i + 1 < e->o.n_attributes; i += 2) {
		if (strcmp(e->o.attributes[i], key) == 0)
			return true;
	}
	return false;
}

static void put_fact(struct export *e, struct json *j, const char *key, const char *value)
{
	if (value && *value && !is_given(e, key))
		put_attribute(j, key, value);
}

static void put_int_fact(struct export *e, struct json *j, const char *key, struct maybe value)
{
	if (!value.known || is_given(e, key))
		return;
	json_object(j);
	json_key(j, "key");
	json_str(j, key);
	json_key(j, "value");
	json_object(j);
	put_number(j, "intValue", (uint64_t) value.value);
	json_end(j);
	json_end(j);
}

static void put_slurm(struct export *e, struct json *j)
{
	const struct facts *f = e->facts;
	char job[128];

	if (!f->scheduler || strcmp(f->scheduler, "slurm") != 0 || !f->scheduler_job)
		return;
	(void) snprintf(job, sizeof(job), "%s", f->scheduler_job);
	job[strcspn(job, ".")] = '\0';
	put_fact(e, j, "slurm.job.id", job);
	put_fact(e, j, "slurm.step.id", f->step);
	put_fact(e, j, "slurm.node.name", f->node);
	put_fact(e, j, "slurm.cluster.name", f->cluster);
	put_int_fact(e, j, "slurm.array.task.id", f->array_task);
}

static void put_resource(struct export *e, struct json *j)
{
	const struct facts *f = e->facts;

	json_object(j);
	json_key(j, "attributes");
	json_array(j);
	put_fact(e, j, "service.name", "hiwater");
	put_fact(e, j, "service.instance.id", f->id);
	put_fact(e, j, "host.name", export_private(e, f->host));
	put_int_fact(e, j, "process.pid", f->main_pid);
	put_fact(e, j, "process.command_line", export_private(e, f->command));
	put_fact(e, j, "process.owner", export_private(e, f->user));
	put_fact(e, j, "hiwater.run.id", f->id);
	put_fact(e, j, "hiwater.run.name", f->name);
	put_fact(e, j, "hiwater.part", f->part);
	put_int_fact(e, j, "hiwater.rank", f->rank);
	put_int_fact(e, j, "hiwater.ranks", f->ranks);
	put_fact(e, j, "hiwater.scheduler", f->scheduler);
	put_fact(e, j, "hiwater.scheduler.job", f->scheduler_job);
	put_slurm(e, j);
	for (size_t i = 0; i + 1 < e->o.n_attributes; i += 2)
		put_attribute(j, e->o.attributes[i], e->o.attributes[i + 1]);
	json_end(j);
	json_end(j);
}

/* The points are text already: the writer of JSON ends before them. */
static void put_metric(struct export *e, struct family *f, bool is_first)
{
	static const char *const kinds[] = { [OTLP_GAUGE] = "gauge", [OTLP_UP_DOWN] = "sum", [OTLP_COUNTER] = "sum" };
	struct buf *out = &e->out;
	struct json j;

	if (!is_first)
		(void) buf_str(out, ",");
	(void) buf_str(out, "{\"name\":");
	json_init(&j, out, true);
	json_str(&j, f->name.name);
	(void) buf_str(out, ",\"unit\":");
	json_init(&j, out, true);
	json_str(&j, f->name.unit);
	(void) buf_str(out, ",\"description\":");
	json_init(&j, out, true);
	json_str(&j, f->description);
	(void) buf_printf(out, ",\"%s\":{", kinds[f->name.type]);
	if (f->name.type != OTLP_GAUGE)
		(void) buf_printf(out, "\"aggregationTemporality\":%d,\"isMonotonic\":%s,", CUMULATIVE,
			f->name.type == OTLP_COUNTER ? "true" : "false");
	(void) buf_str(out, "\"dataPoints\":[");
	(void) buf_add(out, f->points.data, f->points.len);
	(void) buf_str(out, "]}}");
	buf_clear(&f->points);
}

/* Writes the points so far as one request, if there are any. */
static void put_request(struct export *e)
{
	struct otlp *o = e->state;
	bool is_first = true;
	struct json j;

	if (o->bytes == 0 || e->error)
		return;
	(void) buf_str(&e->out, "{\"resourceMetrics\":[{\"resource\":");
	json_init(&j, &e->out, true);
	put_resource(e, &j);
	(void) buf_printf(&e->out,
		",\"schemaUrl\":\"%s\",\"scopeMetrics\":[{\"scope\":{\"name\":\"hiwater\",\"version\":\"%s\"},\"metrics\":[",
		schema, HIW_VERSION);
	for (unsigned i = 0; i < FAMILIES; i++) {
		if (o->families[i].points.len == 0)
			continue;
		put_metric(e, &o->families[i], is_first);
		is_first = false;
	}
	(void) buf_str(&e->out, "]}]}]}\n");
	o->bytes = 0;
	export_flush(e);
}

/* ---- frames ------------------------------------------------------------------------------------------------------------- */

static struct stream *find_stream(struct export *e, uint32_t id, unsigned metric)
{
	struct otlp *o = e->state;
	const uint64_t key = (uint64_t) metric << 32 | id;
	uint32_t place;

	if (map_get(&o->places, key, &place))
		return &o->streams[place];
	e->error = vec_reserve(&o->streams, &o->cap_streams, o->n_streams, sizeof(*o->streams), MOST_STREAMS);
	if (e->error == 0)
		e->error = map_put(&o->places, key, (uint32_t) o->n_streams);
	if (e->error < 0)
		return NULL;
	o->streams[o->n_streams] = (struct stream) { .id = id, .metric = metric };
	return &o->streams[o->n_streams++];
}

static void see_value(
	struct export *e, const struct export_row *row, unsigned metric, const struct reading *r)
{
	struct stream *s = find_stream(e, row->id, metric);

	if (!s)
		return;
	if (!s->fresh) {
		s->sum = 0;
		s->span_ns = s->n = 0;
		s->max = r->max;
	}
	if (!s->has_base && metrics[metric].kind == KIND_COUNTER && row->entity != ENTITY_JOB)
		s->base = r->value;
	s->fresh = s->has_base = true;
	s->value = r->value;
	s->max = r->max > s->max ? r->max : s->max;
	s->sum += (double) r->value * (double) row->span_ns;
	s->span_ns += row->span_ns;
	s->n++;
	s->time_ns = row->time_ns + row->span_ns;
}

static void see_row(void *ctx, const struct export_row *row)
{
	struct export *e = ctx;

	if (row->entity == ENTITY_PROCESS || row->entity == ENTITY_GPU_PROCESS)
		return;
	for (unsigned m = 0; m < METRIC_COUNT && e->error == 0; m++) {
		if (row->cells[m] && row->cells[m]->known)
			see_value(e, row, m, row->cells[m]);
	}
}

static void see_logged(struct export *e, const struct frame *frame, const struct series_value *value)
{
	struct otlp *o = e->state;
	size_t i = 0;

	while (i < o->n_series && strcmp(o->series[i].name, value->name) != 0)
		i++;
	if (i == o->n_series) {
		char *name;

		e->error = vec_reserve(
			&o->series, &o->cap_series, o->n_series, sizeof(*o->series), MOST_SERIES);
		name = e->error == 0 ? strdup(value->name) : NULL;
		if (!name) {
			e->error = e->error ? e->error : -ENOMEM;
			return;
		}
		o->series[o->n_series++] = (struct logged) { .name = name };
	}
	o->series[i].fresh = true;
	o->series[i].value = value->value;
	o->series[i].time_ns = frame->time_ns;
	if (!e->o.aggregate) {
		put_series(e, &o->series[i]);
		o->series[i].fresh = false;
	}
}

/* The mean over time; of one window its value, which is that. */
static int64_t mean_of(const struct stream *s)
{
	return s->n > 1 && s->span_ns ? (int64_t) (s->sum / (double) s->span_ns) : s->value;
}

/* One point of each stream that has new values. */
static void put_points(struct export *e)
{
	struct otlp *o = e->state;

	for (size_t i = 0; i < o->n_streams && e->error == 0; i++) {
		struct stream *s = &o->streams[i];
		const bool is_gauge = metrics[s->metric].kind == KIND_GAUGE;

		if (!s->fresh)
			continue;
		s->fresh = false;
		put_point(e, s->metric, s->id, is_gauge ? mean_of(s) : s->value - s->base, s->time_ns);
		if (is_gauge)
			put_point(e, SERIES + 1 + s->metric, s->id, s->max, s->time_ns);
	}
	for (size_t i = 0; i < o->n_series && e->error == 0; i++) {
		if (o->series[i].fresh)
			put_series(e, &o->series[i]);
		o->series[i].fresh = false;
	}
	if (o->bytes > BODY_BYTES)
		put_request(e);
}

static bool ends_a_gpu(const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_ends; i++) {
		if (frame->ends[i].entity == ENTITY_GPU)
			return true;
	}
	return false;
}

/* After its end a GPU's name is unknown: its points are written before. */
static void see(struct export *e, const struct frame *frame)
{
	export_rows(frame, see_row, e);
	for (size_t i = 0; i < frame->n_series && e->error == 0; i++)
		see_logged(e, frame, &frame->series[i]);
	if (e->error == 0 && (!e->o.aggregate || ends_a_gpu(frame)))
		put_points(e);
}

static void write_all(struct export *e)
{
	put_points(e);
	put_request(e);
}

/* ---- the format --------------------------------------------------------------------------------------------------------- */

static void name_family(struct otlp *o, unsigned i)
{
	struct family *f = &o->families[i];
	const unsigned metric = i < SERIES ? i : i - SERIES - 1;

	otlp_name_of((enum metric) metric, i > SERIES, &f->name);
	f->description = metrics[metric].sentence;
	f->leader = i;
	for (unsigned k = 0; k < i; k++) {
		if (strcmp(o->families[k].name.name, f->name.name) == 0) {
			f->leader = o->families[k].leader;
			return;
		}
	}
}

static int begin(struct export *e, struct err *err)
{
	struct otlp *o = calloc(1, sizeof(*o));

	e->state = o;
	if (o)
		o->families = calloc(FAMILIES, sizeof(*o->families));
	if (!o || !o->families)
		return err_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < FAMILIES; i++) {
		o->families[i].points = BUF_INIT(1 << 28);
		if (i != SERIES)
			name_family(o, i);
	}
	o->families[SERIES].leader = SERIES;
	o->families[SERIES].description = "series that the job logged";
	o->families[SERIES].name = (struct otlp_name) { .name = "hiwater.series", .unit = "", .type = OTLP_GAUGE };
	return 0;
}

static void done(struct export *e)
{
	struct otlp *o = e->state;

	if (!o)
		return;
	for (unsigned i = 0; o->families && i < FAMILIES; i++)
		buf_done(&o->families[i].points);
	for (size_t i = 0; i < o->n_series; i++)
		free(o->series[i].name);
	free(o->families);
	free(o->series);
	free(o->streams);
	map_done(&o->places);
	free(o);
}

const struct export_format export_otlp = {
	.name = "otlp",
	.default_table = EXPORT_ALL,
	.begin = begin,
	.see = see,
	.end = write_all,
	.pause = write_all,
	.done = done,
};
