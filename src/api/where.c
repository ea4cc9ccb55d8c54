/* SPDX-License-Identifier: MIT
 *
 * The internal interface: which functions first touched the memory of a job.
 */
#include "api/where.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/cleanup.h"
#include "base/textwidth.h"
#include "sink/where/where_sink.h"
#include "where/naming.h"

enum {
	SHOWN_COLUMNS = 60, /* of a name in the summary */
	BELOW_PARTS = 20,   /* of the lower bound: that a count may be below it */
};
static const uint64_t copied_least = 4 << 20; /* of a process */

/* ---- recordings ------------------------------------------------------------------------------ */

struct collecting {
	struct where_view *view;
	const char *program;   /* hiwater-where; NULL: not to be used */
	struct err unsampled;  /* of the first recording that was not sampled */
	struct err *err;
};

/* The RAM peak of the run, as hiwater show prints it. Where that is known between bounds alone, what the
 * sampler counted is nearer, if it is between them: page by page, copies of forked processes once. */
static struct maybe peak_of(const struct ram_figure *ram, const struct where_data *data)
{
	int64_t counted = 0;

	for (size_t i = 0; i < data->n_highs; i++) {
		if (data->highs[i].total_bytes <= INT64_MAX && (int64_t) data->highs[i].total_bytes > counted)
			counted = (int64_t) data->highs[i].total_bytes;
	}
	/* The two do not read at the same moments: a little below the bounds is their lower end. */
	if (ram->method == METHOD_BOUNDED && ram->low.known && ram->high.known &&
		counted >= ram->low.value - ram->low.value / BELOW_PARTS && counted <= ram->high.value)
		return known(counted > ram->low.value ? counted : ram->low.value);
	return ram->peak;
}

/* The run's peak; processes get the recording's rank. */
static int read_run(struct replay *replay, struct where_data *data, struct maybe *ret, struct maybe *ret_at,
	struct err *err)
{
	struct summary summary;
	struct job *job = NULL;
	int r = replay_job(replay, &job, err);

	if (r == 0)
		r = summary_make(job, &summary);
	if (r == 0) {
		*ret = peak_of(&summary.combined, data);
		*ret_at = summary.combined.at_ns;
		for (size_t i = 0; i < data->n_processes; i++) {
			if (data->processes[i].rank < 0 && summary.facts->rank.known &&
				!summary.facts->worker_ranks.known)
				data->processes[i].rank = summary.facts->rank.value;
		}
		summary_done(&summary);
	}
	job_free(job);
	return r;
}

static int add_open(void *ctx, struct replay *replay)
{
	struct collecting *c = ctx;
	struct where_data *data = NULL;
	struct maybe peak = UNKNOWN, at = UNKNOWN;
	struct err err = { "" };
	int r = where_read(replay, &data, &err);

	c->view->n_given++;
	if (r == -ENOENT) {
		if (!c->unsampled.text[0])
			c->unsampled = err;
		return 0;
	}
	if (r == 0 && c->program)
		where_name_frames(c->program, data->frames, data->n_frames);
	if (r == 0)
		r = read_run(replay, data, &peak, &at, &err);
	if (r == 0)
		r = where_view_add(c->view, data, peak, at, replay_growing(replay), &err);
	if (r < 0 && err.text[0])
		(void) err_set(c->err, r, "%s", err.text);
	where_data_free(data);
	return r;
}

int where_collect(const char *path, const struct where_view_options *options, const char *program,
	struct where_view **ret, struct err *err)
{
	struct collecting c = { .program = program, .err = err };
	int r = where_view_new(options, &c.view, err);

	if (r < 0)
		return r;
	r = each_recording(path, add_open, &c, err);
	if (r == 0 && c.view->n_recordings == 0)
		r = err_set(err, -ENOENT, "%s",
			c.unsampled.text[0] ? c.unsampled.text : "there are no recordings");
	if (r == 0)
		r = where_view_end(c.view);
	if (r < 0) {
		where_view_free(c.view);
		return r;
	}
	*ret = c.view;
	return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int write_view(const struct hwi_where *what, const struct where_view *view, struct buf *out)
{
	const struct hiw_style *style = what->style;
	const struct sink_options options = { .units = style ? (enum units) style->units : UNITS_IEC,
		.utf8 = style && style->utf8,
		.color = style && style->color,
		.width = style ? style->width : 0 };

	switch (what->format) {
	case HWI_WHERE_JSON:
		return where_json(view, what->top, out);
	case HWI_WHERE_CSV:
		return where_csv(view, what->top, what->has_files, out);
	case HWI_WHERE_FOLDED:
		return where_folded(view, out);
	case HWI_WHERE_SPEEDSCOPE:
		return where_speedscope(view, out);
	case HWI_WHERE_PPROF:
		return where_pprof(view, out);
	case HWI_WHERE_SVG:
		return where_svg(view, out);
	case HWI_WHERE_TEXT:
		break;
	}
	return where_text(view, what->top, what->has_files, &options, out);
}

int hwi_where(const struct hwi_where *what, char **ret, size_t *ret_len, struct hiw_err *ret_err)
{
	const struct where_view_options options = {
		.by = (enum where_by) what->by,
		.is_self = what->is_self,
		.is_by_total = what->is_by_total,
		.high = what->high,
		.under = what->under,
	};
	struct buf out = BUF_INIT(512 << 20);
	struct where_view *view = NULL;
	struct err err = { "" };
	int r = where_collect(what->path, &options, what->program, &view, &err);

	if (r == 0) {
		r = write_view(what, view, &out);
		where_view_free(view);
	}
	if (r == 0) {
		*ret = malloc(out.len + 1);
		*ret_len = out.len;
		r = *ret ? 0 : -ENOMEM;
	}
	if (r == 0)
		memcpy(*ret, out.data, out.len + 1);
	buf_done(&out);
	return api_err(ret_err, &err, r);
}

/* ---- the summary ----------------------------------------------------------------------------- */

static void put_name(const char *name, char ret[static TOUCHER_NAME_BYTES])
{
	struct buf clean = BUF_INIT(1 << 20), out = BUF_INIT(TOUCHER_NAME_BYTES - 1);

	if (text_clean(name, false, &clean) == 0)
		(void) text_shorten(clean.data, SHOWN_COLUMNS, false, &out);
	(void) snprintf(ret, TOUCHER_NAME_BYTES, "%s", out.data);
	buf_done(&clean);
	buf_done(&out);
}

/* The nearest caller that has a name and another one; plumbing left out, and the interpreter below a script. */
static const char *caller_of(const struct where_view *view, const struct where_line *line)
{
	const uint32_t own = view->places[view->nodes[line->node].place].function;
	const bool is_script = view->functions[own].is_script;

	for (uint32_t at = view->nodes[line->node].parent; at > 0; at = view->nodes[at - 1].parent) {
		const uint32_t function = view->places[view->nodes[at - 1].place].function;
		const struct where_function *f = &view->functions[function];

		if (f->is_cut)
			break;
		if (f->is_named && !f->is_plumbing && function != own && (!is_script || f->is_script))
			return where_function_name(view, function);
	}
	return "";
}

/* Of a program that does all in its main function, its name says nothing. */
static bool is_function(const struct where_view *view, const struct where_line *line)
{
	const uint32_t function = view->places[view->nodes[line->node].place].function;
	const struct where_function *f = &view->functions[function];
	const char *name = where_text_of(view, f->name);

	return f->is_named && !f->is_plumbing && !f->is_cut && strcmp(name, "main") != 0 &&
	       strcmp(name, "<module>") != 0 && strcmp(name, "_start") != 0;
}

/* Small copies lie next to memory of a parent's, and may be new memory (where/copies.h). */
static void fill_copied(const struct where_view *view, struct copied *c)
{
	autofree uint64_t *of = calloc(view->n_processes + 1, sizeof(*of));
	const struct where_line *most = NULL;
	char name[WHERE_NAME_LEN];

	for (size_t i = 0; of && i < view->n_leaves; i++)
		of[view->leaves[i].process] += view->leaves[i].copied;
	for (size_t i = 0; of && i < view->n_processes; i++) {
		if (of[i] >= copied_least) {
			c->bytes += of[i];
			c->n_processes++;
		}
	}
	for (size_t i = 0; i < view->n_lines; i++) {
		if (view->lines[i].copied > (most ? most->copied : 0))
			most = &view->lines[i];
	}
	if (!most || c->bytes == 0)
		return;
	put_name(where_line_name(view, most, name), c->name);
	c->name_bytes = most->copied < c->bytes ? most->copied : c->bytes;
}

static void fill_touched(const struct where_view *view, struct touched *w)
{
	w->at_ns = view->high_ns;
	w->peak_bytes = view->peak_bytes;
	w->unsampled_bytes = view->unsampled_bytes;
	w->files_bytes = view->files_bytes;
	w->before_bytes = view->before_bytes;
	w->n_functions = view->n_lines;
	w->n_samples = view->samples;
	w->n_lost = view->lost;
	fill_copied(view, &w->copied);
	for (; w->n < TOUCHERS && w->n < view->n_lines && view->lines[w->n].bytes > 0; w->n++) {
		const struct where_line *line = &view->lines[w->n];
		struct toucher *to = &w->list[w->n];
		char name[WHERE_NAME_LEN];

		put_name(where_line_name(view, line, name), to->name);
		put_name(where_line_library(view, line), to->library);
		put_name(caller_of(view, line), to->caller);
		to->is_function = is_function(view, line);
		to->bytes = line->bytes;
		to->samples = line->n;
		(void) where_line_sigma(line, &to->sigma_bytes);
	}
}

/* The number of the last high until then; 0: there is none. */
static uint32_t high_until(const struct where_data *data, uint64_t until_ns)
{
	uint32_t n = 0;

	while (n < data->n_highs && data->highs[n].time_ns <= until_ns)
		n++;
	return n;
}

static int open_until(
	struct replay *replay, const struct ram_figure *ram, uint64_t until_ns, struct where_view **ret)
{
	struct where_view_options options = { .by = WHERE_BY_FUNCTION };
	struct where_data *data = NULL;
	struct where_view *view = NULL;
	int r = where_read(replay, &data, NULL);

	*ret = NULL;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	options.high = high_until(data, until_ns);
	if (options.high == 0) {
		where_data_free(data);
		return 0;
	}
	r = where_view_new(&options, &view, NULL);
	if (r == 0)
		r = where_view_add(view, data, peak_of(ram, data), UNKNOWN, false, NULL);
	if (r == 0)
		r = where_view_end(view);
	where_data_free(data);
	if (r < 0)
		where_view_free(view);
	else
		*ret = view;
	return r;
}

int where_open(struct replay *replay, const struct ram_figure *ram, struct where_view **ret)
{
	return open_until(replay, ram, UINT64_MAX, ret);
}

int touched_read(
	struct replay *replay, const struct ram_figure *ram, uint64_t until_ns, struct touched **ret)
{
	struct where_view *view;
	int r = open_until(replay, ram, until_ns, &view);

	*ret = NULL;
	if (r < 0 || !view)
		return r;
	*ret = calloc(1, sizeof(**ret));
	if (*ret)
		fill_touched(view, *ret);
	where_view_free(view);
	return *ret ? 0 : -ENOMEM;
}
