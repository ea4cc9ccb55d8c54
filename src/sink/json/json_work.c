/* SPDX-License-Identifier: MIT
 *
 * The keys "trace" of a traced run and "where" of a sampled one.
 */
#include "sink/json/json_summary.h"

enum {
	ROWS_THEN = 3, /* of an incident */
};

static void key_ns(struct json *j, const char *key, uint64_t ns)
{
	json_key_seconds(j, key, known((int64_t) ns));
}

static void device(struct json *j, const struct work_device *d)
{
	json_object(j);
	json_key_int(j, "gpu", d->number);
	json_key_text(j, "name", d->name);
	key_ns(j, "traced_s", d->window_ns);
	key_ns(j, "busy_s", d->busy_ns);
	key_ns(j, "kernel_s", d->kernel_ns);
	key_ns(j, "copy_s", d->copy_ns);
	json_key_int(j, "gaps", (int64_t) d->n_gaps);
	key_ns(j, "longest_gap_s", d->longest_gap_ns);
	if (d->n_gaps > 0)
		key_ns(j, "longest_gap_at_s", d->longest_gap_at_ns);
	json_key_int(j, "kernels", (int64_t) d->n_kernels);
	key_ns(j, "kernels_s", d->kernels_ns);
	json_key_int(j, "launches", (int64_t) d->n_launches);
	key_ns(j, "launches_s", d->launches_ns);
	json_key_int(j, "syncs", (int64_t) d->n_syncs);
	key_ns(j, "syncs_s", d->syncs_ns);
	json_key_int(j, "copied_bytes", (int64_t) d->copied_bytes);
	json_key_int(j, "pageable_bytes", (int64_t) d->pageable_bytes);
	if (d->memory_peak_bytes > 0) {
		json_key_int(j, "memory_peak_bytes", (int64_t) d->memory_peak_bytes);
		key_ns(j, "memory_peak_at_s", d->memory_peak_at_ns);
	}
	json_end(j);
}

static void names(struct json *j, const char *key, const struct work_name *list, size_t n)
{
	json_key_array(j, key);
	for (size_t i = 0; i < n; i++) {
		json_object(j);
		json_key_str(j, "name", list[i].name);
		json_key_int(j, "count", (int64_t) list[i].count);
		key_ns(j, "total_s", list[i].total_ns);
		json_end(j);
	}
	json_end(j);
}

void json_work(struct json *j, const struct work *w)
{
	if (!w)
		return;
	json_key_object(j, "trace");
	json_key_int(j, "processes", (int64_t) w->n_processes);
	json_key_int(j, "events", (int64_t) w->n_events);
	json_key_int(j, "invalid", (int64_t) w->n_invalid);
	json_key_int(j, "lost", (int64_t) w->n_lost);
	json_key_maybe(j, "probe_bytes", w->probe_bytes);
	json_key_array(j, "devices");
	for (size_t i = 0; i < w->n_devices; i++)
		device(j, &w->devices[i]);
	json_end(j);
	names(j, "kernels", w->kernels, w->n_kernels);
	names(j, "ranges", w->ranges, w->n_ranges);
	json_key_array(j, "failures");
	for (size_t i = 0; i < w->n_failures; i++) {
		json_object(j);
		json_key_str(j, "text", w->failures[i].text);
		key_ns(j, "at_s", w->failures[i].at_ns);
		json_key_int(j, "count", (int64_t) w->failures[i].count);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void touchers(struct json *j, const struct touched *w, size_t most)
{
	json_key_array(j, "rows");
	for (size_t i = 0; i < w->n && i < most; i++) {
		json_object(j);
		json_key_str(j, "function", w->list[i].name);
		json_key_text(j, "library", w->list[i].library);
		json_key_int(j, "bytes", (int64_t) w->list[i].bytes);
		json_key_maybe(j, "sigma_bytes",
			w->list[i].samples > 0 ? known((int64_t) w->list[i].sigma_bytes) : UNKNOWN);
		json_key_int(j, "samples", (int64_t) w->list[i].samples);
		json_end(j);
	}
	json_end(j);
}

void json_where_then(struct json *j, const struct touched *w)
{
	if (!w)
		return;
	json_key_object(j, "touched_first");
	key_ns(j, "at_s", w->at_ns);
	json_key_int(j, "total_bytes", (int64_t) w->peak_bytes);
	touchers(j, w, ROWS_THEN);
	json_end(j);
}

void json_where(struct json *j, const struct touched *w)
{
	if (!w)
		return;
	json_key_object(j, "where");
	json_key_int(j, "peak_bytes", (int64_t) w->peak_bytes);
	json_key_int(j, "unsampled_bytes", (int64_t) w->unsampled_bytes);
	json_key_int(j, "files_bytes", (int64_t) w->files_bytes);
	json_key_int(j, "before_bytes", (int64_t) w->before_bytes);
	json_key_int(j, "functions", (int64_t) w->n_functions);
	json_key_int(j, "samples", (int64_t) w->n_samples);
	json_key_int(j, "lost", (int64_t) w->n_lost);
	touchers(j, w, TOUCHERS);
	json_end(j);
}
