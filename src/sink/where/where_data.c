/* SPDX-License-Identifier: MIT
 *
 * A view for programs: JSON (docs/where.schema.json) and CSV. Sizes are in bytes, times in seconds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/textwidth.h"
#include "sink/where/where_sink.h"

static struct maybe of_ns(uint64_t ns)
{
	return known(ns > INT64_MAX ? INT64_MAX : (int64_t) ns);
}

static int64_t of_bytes(uint64_t bytes)
{
	return bytes > INT64_MAX ? INT64_MAX : (int64_t) bytes;
}

static struct maybe unless_negative(int64_t value)
{
	return value >= 0 ? known(value) : UNKNOWN;
}

static void put_head(struct json *j, const struct where_view *v, size_t top)
{
	uint64_t n_others;
	const uint64_t others = where_others(v, top, &n_others);

	json_key_int(j, "peak_bytes", of_bytes(v->peak_bytes));
	json_key_seconds(j, "at_s", v->at_ns);
	json_key_str(j, "method", "bounded");
	json_key_int(j, "recordings", (int64_t) v->n_recordings);
	json_key_bool(j, "running", v->is_growing);
	json_key_int(j, "high", (int64_t) v->high);
	json_key_array(j, "highs");
	for (size_t i = 0; i < v->n_highs; i++) {
		json_object(j);
		json_key_int(j, "number", (int64_t) i + 1);
		json_key_seconds(j, "at_s", of_ns(v->highs[i].time_ns));
		json_key_int(j, "total_bytes", of_bytes(v->highs[i].total_bytes));
		json_end(j);
	}
	json_end(j);
	json_key_seconds(j, "looked_at_s", of_ns(v->looked_ns));
	json_key_int(j, "looked_bytes", of_bytes(v->looked_bytes));
	json_key_int(j, "sample_bytes", of_bytes(v->sample_bytes));
	json_key_int(j, "huge_bytes", of_bytes(v->huge_bytes));
	json_key_int(j, "samples", of_bytes(v->samples));
	json_key_int(j, "lost", of_bytes(v->lost));
	json_key_int(j, "before_bytes", of_bytes(v->before_bytes));
	json_key_int(j, "unsampled_bytes", of_bytes(v->unsampled_bytes));
	json_key_int(j, "others_bytes", of_bytes(others));
	json_key_int(j, "others", of_bytes(n_others));
	json_key_int(j, "files_bytes", of_bytes(v->files_bytes));
	json_key_array(j, "files");
	for (size_t i = 0; i < v->n_files; i++) {
		json_object(j);
		json_key_str(j, "name", where_text_of(v, v->files[i].name));
		json_key_int(j, "bytes", of_bytes(v->files[i].bytes));
		json_end(j);
	}
	json_end(j);
}

static void put_line(struct json *j, const struct where_view *v, const struct where_line *line)
{
	char name[WHERE_NAME_LEN];
	uint64_t sigma;
	uint32_t number;
	const char *text = where_line_name(v, line, name), *file = where_line_file(v, line, &number);
	const bool has_function = v->options.by <= WHERE_BY_STACK;

	json_object(j);
	json_key_str(j, "function", has_function ? text : NULL);
	json_key_text(j, "file", file);
	json_key_maybe(j, "line", number > 0 ? known((int64_t) number) : UNKNOWN);
	json_key_text(j, "library", v->options.by == WHERE_BY_LIBRARY ? text : where_line_library(v, line));
	if (v->options.by == WHERE_BY_PROCESS)
		json_key_str(j, "process", text);
	json_key_int(j, "bytes", of_bytes(line->bytes));
	json_key_maybe(j, "sigma_bytes", where_line_sigma(line, &sigma) ? known(of_bytes(sigma)) : UNKNOWN);
	json_key_int(j, "samples", of_bytes(line->n));
	json_key_int(j, "total_bytes", of_bytes(line->total));
	json_key_int(j, "copied_bytes", of_bytes(line->copied));
	json_end(j);
}

static void put_process(struct json *j, const struct where_view *v, uint32_t process)
{
	const struct where_view_process *p = &v->processes[process];

	json_key_str(j, "process", where_text_of(v, p->name));
	json_key_maybe(j, "pid", unless_negative(p->pid));
	json_key_maybe(j, "rank", unless_negative(p->rank));
}

static int put_sum(
	struct json *j, const struct where_view *v, const struct where_sum *sum, uint32_t *frames)
{
	size_t n = 0;

	for (uint32_t at = sum->tree_node + 1; at > 0; at = v->tree[at - 1].parent)
		frames[n++] = v->tree[at - 1].function;
	json_object(j);
	json_key_array(j, "frames");
	while (n > 0)
		json_str(j, where_function_name(v, frames[--n]));
	json_end(j);
	put_process(j, v, sum->process);
	json_key_int(j, "bytes", of_bytes(sum->bytes));
	json_key_int(j, "samples", of_bytes(sum->n));
	json_end(j);
	return j->out->error;
}

static void put_python(struct json *j, const struct where_view *v, const struct where_view_python *python)
{
	json_object(j);
	json_key_int(j, "high", (int64_t) python->high);
	put_process(j, v, python->process);
	json_key_maybe(j, "thread", unless_negative(python->thread));
	json_key_seconds(j, "at_s", of_ns(python->time_ns));
	json_key_array(j, "frames");
	for (size_t i = 0; i < python->n_frames; i++) {
		const struct where_view_frame *frame = &python->frames[i];

		json_object(j);
		json_key_str(j, "function", where_text_of(v, frame->function));
		json_key_text(j, "file", where_text_of(v, frame->file));
		json_key_maybe(j, "line", frame->line > 0 ? known((int64_t) frame->line) : UNKNOWN);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

int where_json(const struct where_view *view, size_t top, struct buf *out)
{
	uint32_t *frames = calloc(view->n_tree + 1, sizeof(*frames));
	struct json j;

	if (!frames)
		return -ENOMEM;
	json_init(&j, out, false);
	json_object(&j);
	json_key_int(&j, "schema", 1);
	json_key_str(&j, "by", where_by_name(view->options.by));
	put_head(&j, view, top);
	json_key_int(&j, "rows_total", (int64_t) view->n_lines);
	json_key_array(&j, "rows");
	for (size_t i = 0; i < view->n_lines && (top == 0 || i < top); i++)
		put_line(&j, view, &view->lines[i]);
	json_end(&j);
	json_key_array(&j, "stacks");
	for (size_t i = 0; i < view->n_sums && put_sum(&j, view, &view->sums[i], frames) == 0; i++)
		;
	json_end(&j);
	json_key_array(&j, "python");
	for (size_t i = 0; i < view->n_pythons; i++)
		put_python(&j, view, &view->pythons[i]);
	json_end(&j);
	json_end(&j);
	free(frames);
	(void) buf_str(out, "\n");
	return out->error;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* Lines are ended by a line feed alone. */
static void put_part(const char *name, const char *file, uint64_t bytes, struct buf *out)
{
	(void) text_csv(name, out);
	(void) buf_str(out, ",");
	(void) text_csv(file, out);
	(void) buf_printf(
		out, ",,\"\",%llu,,,%llu\n", (unsigned long long) bytes, (unsigned long long) bytes);
}

int where_csv(const struct where_view *view, size_t top, bool has_files, struct buf *out)
{
	struct where_part parts[WHERE_PARTS];
	const size_t n = where_parts(view, parts);
	uint64_t n_others;
	const uint64_t others = where_others(view, top, &n_others);

	(void) buf_printf(out, "%s,file,line,library,bytes,sigma_bytes,samples,total_bytes\n",
		where_by_name(view->options.by));
	for (size_t i = 0; i < view->n_lines && (top == 0 || i < top); i++) {
		const struct where_line *line = &view->lines[i];
		char name[WHERE_NAME_LEN];
		uint64_t sigma;
		uint32_t number;
		const char *file = where_line_file(view, line, &number);

		(void) text_csv(where_line_name(view, line, name), out);
		(void) buf_str(out, ",");
		(void) text_csv(file, out);
		(void) buf_str(out, ",");
		if (number > 0)
			(void) buf_printf(out, "%u", number);
		(void) buf_str(out, ",");
		(void) text_csv(where_line_library(view, line), out);
		(void) buf_printf(out, ",%llu,", (unsigned long long) line->bytes);
		if (where_line_sigma(line, &sigma))
			(void) buf_printf(out, "%llu", (unsigned long long) sigma);
		(void) buf_printf(out, ",%llu,%llu\n", (unsigned long long) line->n,
			(unsigned long long) line->total);
	}
	for (size_t i = 0; i < n; i++) {
		if (strcmp(parts[i].name, WHERE_FILES) == 0 && has_files) {
			for (size_t k = 0; k < view->n_files; k++)
				put_part(WHERE_FILES, where_text_of(view, view->files[k].name),
					view->files[k].bytes, out);
		} else if (strcmp(parts[i].name, WHERE_OTHERS) != 0) {
			put_part(parts[i].name, "", parts[i].bytes, out);
		}
	}
	if (others > 0)
		put_part(WHERE_OTHERS, "", others, out);
	return out->error;
}
