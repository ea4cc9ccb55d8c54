/* SPDX-License-Identifier: MIT
 *
 * The internal interface: what hiwater trace shows.
 */
#include "api/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "record/trace/trace_read.h"
#include "sink/trace/trace_sink.h"

/* ---- recordings ------------------------------------------------------------------------------ */

struct collecting {
	struct trace_view *view;
	struct err untraced;   /* of the first recording without traced work */
	struct err *err;
};

static int add_open(void *ctx, struct replay *replay)
{
	struct collecting *c = ctx;
	struct trace_read *t = NULL;
	struct job *job = NULL;
	struct err err = { "" };
	int r = trace_read_new(replay, &t, &err);

	c->view->n_given++;
	if (r == -ENOENT) {
		if (!c->untraced.text[0])
			c->untraced = err;
		return 0;
	}
	if (r == 0)
		r = replay_job(replay, &job, &err);
	if (r == 0)
		r = trace_view_add(c->view, t, job, replay_growing(replay), &err);
	if (r < 0)
		(void) err_set(c->err, r, "%s", err.text);
	trace_read_free(t);
	job_free(job);
	return r;
}

int trace_collect(
	const char *path, const struct trace_view_options *options, struct trace_view **ret, struct err *err)
{
	struct collecting c = { .err = err };
	int r = trace_view_new(options, &c.view);

	if (r < 0)
		return r;
	r = each_recording(path, add_open, &c, err);
	if (r == 0 && c.view->n_recordings == 0)
		r = err_set(err, -ENOENT, "%s",
			c.untraced.text[0] ? c.untraced.text : "there are no recordings");
	if (r < 0) {
		trace_view_free(c.view);
		return r;
	}
	trace_view_end(c.view);
	*ret = c.view;
	return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int write_view(
	const struct hwi_trace *what, const struct trace_view *view, struct buf *out, struct err *err)
{
	const struct hiw_style *style = what->style;
	const struct sink_options options = { .units = style ? (enum units) style->units : UNITS_IEC,
		.utf8 = style && style->utf8,
		.color = style && style->color,
		.width = style ? style->width : 0 };
	int r;

	switch (what->format) {
	case HWI_TRACE_JSON:
		return trace_json(view, what->top, out);
	case HWI_TRACE_CSV:
		return trace_csv(view, what->top, out);
	case HWI_TRACE_NCU:
		r = trace_ncu(view, what->kernel, out, err);
		return r == 0 ? buf_str(out, "\n") : r;
	case HWI_TRACE_NSYS:
		r = trace_nsys(view, out, err);
		return r == 0 ? buf_str(out, "\n") : r;
	case HWI_TRACE_TEXT:
		break;
	}
	return trace_text(view, what->top, &options, out);
}

int hwi_trace(const struct hwi_trace *what, char **ret, size_t *ret_len, struct hiw_err *ret_err)
{
	const struct trace_view_options options = {
		.by = what->format == HWI_TRACE_NCU ? TRACE_BY_KERNEL : (enum trace_by) what->by,
		.folds_steps = what->format == HWI_TRACE_TEXT,
		.has_span = what->has_span,
		.has_steps = what->has_steps,
		.from_ns = what->from_ns,
		.to_ns = what->to_ns,
		.first_step = what->first_step,
		.last_step = what->last_step,
	};
	struct buf out = BUF_INIT(256 << 20);
	struct trace_view *view = NULL;
	struct err err = { "" };
	int r = trace_collect(what->path, &options, &view, &err);

	if (r == 0)
		r = write_view(what, view, &out, &err);
	if (r == 0) {
		*ret = strdup(out.data);
		*ret_len = out.len;
		r = *ret ? 0 : -ENOMEM;
	}
	buf_done(&out);
	trace_view_free(view);
	return api_err(ret_err, &err, r);
}
