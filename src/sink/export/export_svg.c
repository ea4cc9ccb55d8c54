/* SPDX-License-Identifier: MIT
 *
 * SVG: a picture of the run, drawn as the report draws it without JavaScript
 * (sink/html/html_svg.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sink/export/export_internal.h"
#include "sink/html/html_svg.h"

struct state {
	struct summary summary; /* its job and facts alone are set: figures of the whole run are not drawn */
	struct html_gather gather;
};

static int check_series(const struct export *e, struct err *err)
{
	for (size_t i = 0; i < e->o.n_series; i++) {
		if (!export_series(e, e->o.series[i]).known)
			return err_set(err, -EINVAL, "no series is named '%s'", e->o.series[i]);
	}
	return 0;
}

static int begin(struct export *e, struct err *err)
{
	struct state *s = calloc(1, sizeof(*s));
	int r = check_series(e, err);

	e->state = s;
	if (r < 0)
		return r;
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->summary = (struct summary) { .job = e->job, .facts = e->facts };
	r = html_gather_init(&s->gather, e->job, e->o.redact);
	return r < 0 ? err_set(err, r, "out of memory") : 0;
}

static void see(struct export *e, const struct frame *frame)
{
	struct state *s = e->state;

	html_gather_frame(&s->gather, frame);
	if (e->error == 0)
		e->error = s->gather.error;
}

static void end(struct export *e)
{
	struct state *s = e->state;
	const struct html_run run = { .summary = &s->summary, .gather = &s->gather };
	const struct sink_options options = { .width = 80, .utf8 = true };
	struct html h = { &e->out, &run, 1, &options };
	const struct svg_figure what = {
		.has_job = export_wants(e, ENTITY_JOB),
		.has_gpus = export_wants(e, ENTITY_GPU),
		.has_series = export_wants(e, EXPORT_SERIES),
		.label = e->o.redact ? "a run" : html_name(&s->summary),
		.series = e->o.series,
		.n_series = e->o.n_series,
		.width = e->o.width,
		.height = e->o.height,
	};

	if (e->error == 0)
		e->error = html_gather_end(&s->gather);
	svg_figure(&h, &what);
}

static void done(struct export *e)
{
	struct state *s = e->state;

	if (s)
		html_gather_done(&s->gather);
	free(s);
}

const struct export_format export_svg = {
	.name = "svg",
	.tables = 1U << ENTITY_JOB | 1U << ENTITY_GPU | 1U << EXPORT_SERIES,
	.default_table = EXPORT_ALL,
	.wanted = svg_figure_drawn,
	.begin = begin,
	.see = see,
	.end = end,
	.done = done,
};
