/* SPDX-License-Identifier: MIT
 *
 * A view for programs: JSON (docs/trace.schema.json) and CSV. Times are in seconds, to the nanosecond.
 */
#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/textwidth.h"
#include "sink/trace/trace_sink.h"

static struct maybe of_ns(uint64_t ns)
{
	return known(ns > INT64_MAX ? INT64_MAX : (int64_t) ns);
}

static struct maybe known_if(bool is_known, uint64_t ns)
{
	return is_known ? of_ns(ns) : UNKNOWN;
}

static struct maybe unless_negative(int64_t value)
{
	return value >= 0 ? known(value) : UNKNOWN;
}

static void key_ratio(struct json *j, const char *key, uint64_t part, uint64_t whole)
{
	json_key(j, key);
	if (whole > 0)
		json_num(j, (double) part / (double) whole);
	else
		json_null(j);
}

static void put_process(struct json *j, const struct trace_view *view, size_t recording, uint32_t process)
{
	const struct trace_view_recording *r = &view->recordings[recording];
	const struct trace_process *p =
		process >= 1 && process <= r->n_processes ? &r->processes[process - 1] : NULL;

	json_key_maybe(j, "pid", unless_negative(p ? p->pid : -1));
	json_key_str(j, "process", p ? p->name : "");
	json_key_maybe(j, "rank", p && p->rank >= 0 ? known(p->rank) : r->rank);
}

static void put_records(struct json *j, const struct trace_view *view)
{
	json_key_object(j, "records");
	json_key_int(j, "events", (int64_t) view->events);
	json_key_int(j, "invalid", (int64_t) view->invalid);
	json_key_int(j, "rows", (int64_t) view->rows);
	json_key_bool(j, "complete", trace_is_complete(view));
	json_key_int(j, "lost", (int64_t) trace_lost_all(view));
	json_key_object(j, "causes");
	for (int cause = 0; cause < TRACE_LOSS_COUNT; cause++)
		json_key_int(j, trace_loss_name((enum trace_loss) cause), (int64_t) view->lost[cause]);
	json_end(j);
	json_key_seconds(j, "incomplete_since_s",
		known_if(view->incomplete_ns != UINT64_MAX, view->incomplete_ns));
	json_end(j);
}

static void put_recording(struct json *j, const struct trace_view_recording *r)
{
	json_object(j);
	json_key_maybe(j, "rank", r->rank);
	json_key_seconds(j, "wall_s", of_ns(r->wall_ns));
	json_key_bool(j, "running", r->is_growing);
	json_key_bool(j, "recorder_lost", r->is_cut);
	json_key_array(j, "notes");
	for (size_t i = 0; i < r->n_notes; i++)
		json_str(j, r->notes[i]);
	json_end(j);
	json_key_array(j, "windows");
	for (size_t i = 0; i < r->n_windows; i++) {
		json_object(j);
		json_key_seconds(j, "start_s", of_ns(r->windows[i].begin_ns));
		json_key_seconds(
			j, "end_s", known_if(r->windows[i].end_ns != UINT64_MAX, r->windows[i].end_ns));
		json_key_str(j, "why", r->windows[i].why);
		json_end(j);
	}
	json_end(j);
	json_key_array(j, "processes");
	for (size_t i = 0; i < r->n_processes; i++) {
		json_object(j);
		json_key_maybe(j, "pid", unless_negative(r->processes[i].pid));
		json_key_str(j, "name", r->processes[i].name);
		json_key_str(j, "origin", r->processes[i].origin);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void put_failures(struct json *j, const struct trace_view *view)
{
	json_key_array(j, "failures");
	for (size_t i = 0; i < view->n_recordings; i++) {
		for (size_t k = 0; k < view->recordings[i].n_failures; k++) {
			const struct trace_failure *f = &view->recordings[i].failures[k];

			json_object(j);
			json_key_str(j, "text", f->text);
			json_key_seconds(j, "at_s", of_ns(f->at_ns));
			json_key_int(j, "count", (int64_t) f->count);
			put_process(j, view, i, f->process);
			json_end(j);
		}
	}
	json_end(j);
}

static void put_device(struct json *j, const struct trace_view *view, const struct trace_view_device *d)
{
	const struct trace_busy *b = &d->busy;
	const bool has_gap = b->longest_ns > 0;

	json_object(j);
	json_key_maybe(j, "device", unless_negative(b->device));
	json_key_text(j, "name", b->name);
	put_process(j, view, d->recording, b->process);
	json_key_seconds(j, "traced_s", of_ns(b->traced_ns));
	json_key_seconds(j, "busy_s", of_ns(b->busy_ns));
	json_key_seconds(j, "kernels_s", of_ns(b->kernels_ns));
	json_key_seconds(j, "copies_s", of_ns(b->copies_ns));
	json_key_seconds(j, "both_s", of_ns(b->both_ns));
	key_ratio(j, "busy", b->busy_ns, b->traced_ns);
	json_key_str(j, "method", b->late == 0 ? "exact" : "bounded");
	json_key_int(j, "gaps", (int64_t) b->gaps);
	json_key_seconds(j, "longest_gap_s", known_if(has_gap, b->longest_ns));
	json_key_seconds(j, "longest_gap_at_s", known_if(has_gap, b->longest_at_ns));
	json_key_text(j, "longest_gap_phase", d->phase);
	json_end(j);
}

static void put_memory(struct json *j, const struct trace_view *view, const struct trace_view_memory *m)
{
	json_object(j);
	json_key_maybe(j, "device", unless_negative(m->device));
	put_process(j, view, m->recording, m->process);
	json_key_str(j, "method", m->is_exact ? "exact" : "bounded");
	json_key_object(j, "kinds");
	for (uint32_t kind = TRACE_MEMORY_UNKNOWN + 1; kind <= TRACE_PEAK_GPU; kind++) {
		const struct trace_peak *peak = &m->peaks[kind];

		if (peak->peak_bytes == 0)
			continue;
		json_key_object(j, trace_peak_name(kind));
		json_key_int(j, "peak_bytes", (int64_t) peak->peak_bytes);
		json_key_seconds(j, "peak_at_s", of_ns(peak->peak_at_ns));
		json_key_int(j, "live_bytes", (int64_t) peak->live_bytes);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void put_line(
	struct json *j, const struct trace_view *view, const struct trace_line *line, uint64_t whole_ns)
{
	const bool has_time = !line->is_instant && line->count > 0;

	json_object(j);
	json_key_str(j, "name", line->name);
	json_key_text(j, "raw", strcmp(line->raw, line->name) == 0 ? NULL : line->raw);
	json_key_text(j, "domain", line->domain);
	json_key_int(j, "count", (int64_t) line->count);
	json_key_int(j, "invalid", (int64_t) line->invalid);
	json_key_seconds(j, "total_s", known_if(has_time, line->total_ns));
	if (whole_ns > 0 && has_time)
		key_ratio(j, "share", line->total_ns, whole_ns);
	else
		json_key_maybe(j, "share", UNKNOWN);
	json_key(j, "mean_s");
	if (has_time)
		json_num(j, (double) line->total_ns / (1e9 * (double) line->count));
	else
		json_null(j);
	json_key_seconds(j, "median_s", known_if(has_time, line->median_ns));
	json_key_str(j, "median_method", has_time ? line->is_median_exact ? "exact" : "bounded" : NULL);
	json_key_seconds(j, "min_s", known_if(has_time, line->min_ns));
	json_key_seconds(j, "max_s", known_if(has_time, line->max_ns));
	json_key(j, "stddev_s");
	if (has_time && line->count > 1)
		json_num(j, trace_line_deviation(line) / 1e9);
	else
		json_null(j);
	json_key_int(j, "bytes", (int64_t) line->bytes);
	json_key_int(j, "pageable_bytes", (int64_t) line->pageable);
	json_key_int(j, "threads", (int64_t) line->n_tids);
	json_key_array(j, "processes");
	for (size_t i = 0; i < line->n_places; i++) {
		if (line->places[i].count == 0)
			continue;
		json_object(j);
		put_process(j, view, line->places[i].recording, line->places[i].process);
		json_key_int(j, "count", (int64_t) line->places[i].count);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static bool is_share(const struct trace_view *view)
{
	return view->by != TRACE_BY_RANGE && !view->is_of_ranges;
}

int trace_json(const struct trace_view *view, size_t top, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	json_object(&j);
	json_key_int(&j, "schema", 1);
	json_key_str(&j, "by", trace_by_name(view->by));
	json_key_int(&j, "recordings_given", (int64_t) view->n_given);
	json_key_seconds(&j, "from_s", known_if(view->has_span, view->from_ns));
	json_key_seconds(&j, "to_s", known_if(view->has_span && view->to_ns != UINT64_MAX, view->to_ns));
	json_key_bool(&j, "span_complete", !view->is_span_partial);
	put_records(&j, view);
	json_key_array(&j, "recordings");
	for (size_t i = 0; i < view->n_recordings; i++)
		put_recording(&j, &view->recordings[i]);
	json_end(&j);
	json_key_array(&j, "devices");
	for (size_t i = 0; i < view->n_devices; i++)
		put_device(&j, view, &view->devices[i]);
	json_end(&j);
	json_key_array(&j, "memory");
	for (size_t i = 0; i < view->n_memory; i++)
		put_memory(&j, view, &view->memory[i]);
	json_end(&j);
	put_failures(&j, view);
	json_key_int(&j, "kernels", (int64_t) view->kernels);
	json_key_seconds(&j, "kernels_s", of_ns(view->kernels_ns));
	json_key_array(&j, "copies");
	for (size_t i = 0; i < view->copies.n; i++)
		put_line(&j, view, &view->copies.lines[i], 0);
	json_end(&j);
	json_key_int(&j, "lines_total", (int64_t) view->table.n);
	json_key_array(&j, "lines");
	for (size_t i = 0; i < view->table.n && (top == 0 || i < top); i++)
		put_line(&j, view, &view->table.lines[i], is_share(view) ? view->table.total_ns : 0);
	json_end(&j);
	json_end(&j);
	(void) buf_str(out, "\n");
	return out->error;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* Lines are ended by a line feed alone. */
static void put_seconds(bool is_known, uint64_t ns, struct buf *out)
{
	char text[UNITS_LEN];

	(void) buf_printf(out, ",%s",
		is_known ? units_decimal(ns > INT64_MAX ? INT64_MAX : (int64_t) ns, 9, text) : "");
}

int trace_csv(const struct trace_view *view, size_t top, struct buf *out)
{
	char text[UNITS_LEN];

	(void) buf_printf(out,
		"%s,domain,count,invalid,total_s,share,mean_s,median_s,median_method,min_s,max_s,stddev_s,"
		"bytes,processes,threads\n",
		trace_by_name(view->by));
	for (size_t i = 0; i < view->table.n && (top == 0 || i < top); i++) {
		const struct trace_line *line = &view->table.lines[i];
		const bool has_time = !line->is_instant && line->count > 0;

		(void) text_csv(line->name, out);
		(void) buf_str(out, ",");
		(void) text_csv(line->domain, out);
		(void) buf_printf(out, ",%llu,%llu", (unsigned long long) line->count,
			(unsigned long long) line->invalid);
		put_seconds(has_time, line->total_ns, out);
		(void) buf_printf(out, ",%s",
			has_time && is_share(view) && view->table.total_ns > 0
				? units_double(
					  (double) line->total_ns / (double) view->table.total_ns, text)
				: "");
		(void) buf_printf(out, ",%s",
			has_time
				? units_double((double) line->total_ns / (1e9 * (double) line->count), text)
				: "");
		put_seconds(has_time, line->median_ns, out);
		(void) buf_printf(out, ",%s", !has_time ? "" : line->is_median_exact ? "exact"
										     : "bounded");
		put_seconds(has_time, line->min_ns, out);
		put_seconds(has_time, line->max_ns, out);
		(void) buf_printf(out, ",%s",
			has_time && line->count > 1 ? units_double(trace_line_deviation(line) / 1e9, text)
						    : "");
		(void) buf_printf(out, ",%llu,%zu,%zu\n", (unsigned long long) line->bytes, line->n_places,
			line->n_tids);
	}
	return out->error;
}
