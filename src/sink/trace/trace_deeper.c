/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/parse.h"
#include "sink/argv.h"
#include "sink/trace/trace_names.h"
#include "sink/trace/trace_sink.h"

enum {
	LAUNCHES = 3 /* of a kernel: ncu runs each one many times */
};

static void put_word(void *ctx, const char *text)
{
	struct buf *out = ctx;

	(void) buf_str(out, " ");
	trace_shell_word(text, out);
}

/* The command of a recording, behind "--". */
static void put_command(const struct trace_view *view, size_t recording, struct buf *out)
{
	const char *json = view->recordings[recording].argv_json;
	struct buf words = BUF_INIT(1 << 20);

	(void) buf_str(out, " --");
	if (json && argv_each(json, put_word, &words) == 0 && words.len > 0)
		(void) buf_str(out, words.data);
	else
		(void) buf_str(out, " COMMAND");
	buf_done(&words);
}

static bool has_several_processes(const struct trace_view *view)
{
	size_t n = 0;

	for (size_t i = 0; i < view->n_recordings; i++)
		n += view->recordings[i].n_processes;
	return n > 1;
}

/* The regular expression has no control characters: each of them is any one character. */
static void put_regex(const char *name, struct buf *out)
{
	struct buf regex = BUF_INIT(1 << 18);

	(void) buf_str(&regex, "regex:^");
	trace_regex_escape(name, &regex);
	(void) buf_str(&regex, "$");
	for (size_t i = 0; i < regex.len; i++) {
		if ((unsigned char) regex.data[i] < ' ' || regex.data[i] == 0x7f)
			regex.data[i] = '.';
	}
	trace_shell_word(regex.data, out);
	buf_done(&regex);
}

int trace_ncu(const struct trace_view *view, size_t number, struct buf *out, struct err *err)
{
	const struct trace_line *line;
	struct trace_place place;

	if (view->by != TRACE_BY_KERNEL || view->table.n == 0)
		return err_set(err, -EINVAL, "the trace has no kernels, which are what ncu looks into");
	if (number < 1 || number > view->table.n)
		return err_set(
			err, -EINVAL, "there is no kernel %zu; the table has %zu", number, view->table.n);
	line = &view->table.lines[number - 1];
	if (line->n_places == 0)
		return err_set(err, -EINVAL, "kernel %zu was not launched", number);
	place = line->places[0];
	for (size_t i = 1; i < line->n_places; i++) {
		if (line->places[i].count > place.count)
			place = line->places[i];
	}
	const uint64_t half = place.count / 2, skip = place.before + half, left = place.count - half;

	(void) buf_str(out, "ncu --kernel-name-base demangled --kernel-name ");
	put_regex(line->name, out);
	(void) buf_printf(out, " --launch-skip %llu --launch-count %llu", (unsigned long long) skip,
		(unsigned long long) (left < LAUNCHES ? left : LAUNCHES));
	if (has_several_processes(view))
		(void) buf_str(out, " --target-processes all");
	put_command(view, place.recording, out);
	return out->error;
}

/* nsys begins at the first range of a name. Of "range RE" it can, if the expression stands for one name. */
static bool put_capture(const char *why, struct buf *out)
{
	const char *p = why;
	struct buf option = BUF_INIT(1 << 16);
	size_t len;

	if (!parse_word(&p, "range "))
		return false;
	p += *p == '^';
	len = strlen(p);
	len -= len > 0 && p[len - 1] == '$';
	if (len == 0 || strcspn(p, ".[](){}*+?|\\^$") < len)
		return false;
	(void) buf_printf(&option, "--nvtx-capture=%.*s", (int) len, p);
	(void) buf_str(out, " --capture-range=nvtx ");
	trace_shell_word(option.data, out);
	(void) buf_str(out, " --env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0");
	buf_done(&option);
	return true;
}

/* A window as nsys opens it: by a call of the program, by a range, or by time, in whole seconds. */
static void put_window(uint64_t begin_ns, uint64_t end_ns, uint64_t wall_ns, const char *why, struct buf *out)
{
	static const uint64_t second = 1000000000;

	if (strcmp(why, "api") == 0) {
		(void) buf_str(out, " --capture-range=cudaProfilerApi");
		return;
	}
	if (put_capture(why, out))
		return;
	if (begin_ns >= second)
		(void) buf_printf(out, " --delay=%llu", (unsigned long long) (begin_ns / second));
	if (end_ns < wall_ns)
		(void) buf_printf(out, " --duration=%llu",
			(unsigned long long) ((end_ns + second - 1) / second - begin_ns / second));
}

int trace_nsys(const struct trace_view *view, struct buf *out, struct err *err)
{
	const struct trace_view_recording *r = view->n_recordings > 0 ? &view->recordings[0] : NULL;

	if (!r)
		return err_set(err, -EINVAL, "there is no trace");
	(void) buf_str(out, "nsys profile --trace=cuda,nvtx,osrt");
	if (view->has_span)
		put_window(view->from_ns, view->to_ns, r->wall_ns, "", out);
	else if (r->n_windows > 0)
		put_window(r->windows[0].begin_ns, r->windows[0].end_ns, r->wall_ns, r->windows[0].why, out);
	put_command(view, 0, out);
	return out->error;
}
