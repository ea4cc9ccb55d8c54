/* SPDX-License-Identifier: MIT
 *
 * The public interface: reports.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "api/where.h"
#include "record/history/history.h"
#include "sink/html/html.h"

enum {
	RANK_SPANS = 64 /* of the pictures of ranks */
};

/* One run of a page. Its job is read again, because redacting changes it, and the caller's handle
 * must stay as it is. */
struct reported {
	struct hiw_run run;
	struct html_gather gather;
	bool is_gathering;
	struct where_view *where; /* NULL: its memory was not sampled */
};

static bool see_frame(void *ctx, const struct frame *frame)
{
	struct html_gather *g = ctx;

	html_gather_frame(g, frame);
	return g->error == 0;
}

static int gather(struct reported *r, bool redact, struct err *err)
{
	int code = html_gather_init(&r->gather, r->run.job, redact);
	int end;

	r->is_gathering = true;
	if (code == 0)
		code = replay_frames_of(r->run.replay, true, html_drawn, see_frame, &r->gather, err);
	end = html_gather_end(&r->gather);
	return code < 0 ? code : end;
}

static int read_run(struct reported *r, const struct hiw_run *from, bool redact, struct err *err)
{
	const char *recording = job_facts_const(from->job)->recording;
	int code = replay_job(from->replay, &r->run.job, err);

	if (code < 0)
		return code;
	r->run.owns_job = true;
	r->run.replay = from->replay;
	code = job_set_text(&job_facts(r->run.job)->recording, recording ? recording : "");
	if (code == 0)
		code = replay_rank_ram(r->run.replay, r->run.job, RANK_SPANS);
	r->run.is_redacted = redact;
	if (redact)
		job_redact(r->run.job);
	if (code == 0)
		code = run_summarise(&r->run, true);
	if (code == 0 && !redact)
		(void) where_open(r->run.replay, &r->run.summary.combined, &r->where);
	return code < 0 ? code : gather(r, redact, err);
}

static void reported_done(struct reported *r)
{
	if (r->is_gathering)
		html_gather_done(&r->gather);
	where_view_free(r->where);
	run_clear(&r->run);
	if (r->run.owns_job)
		job_free(r->run.job);
}

static int check(struct hiw_run *const *runs, size_t n, struct err *err)
{
	if (!html_is_built())
		return err_set(err, -ENOTSUP,
			"this hiwater was built without uPlot, which draws the report's charts: build it again with the "
			"Python package youplot 1.0.0 (see tools/find-uplot)");
	if (n == 0 || n > HIW_REPORT_RUNS)
		return err_set(err, -EINVAL, "a report needs 1 to %d runs", HIW_REPORT_RUNS);
	for (size_t i = 0; i < n; i++) {
		if (!runs[i]->replay)
			return err_set(err, -EINVAL,
				"cannot make a report from a recorder; open its recording instead");
	}
	return 0;
}

static int write_page(const struct reported *reported, size_t n, const struct hiw_report *what)
{
	struct html_run pages[HIW_REPORT_RUNS];
	char history[4096];
	const struct sink_options options = {
		.width = 80,
		.utf8 = true,
		.history = !what->redact && history_dir(history, sizeof(history), NULL) == 0 ? history : NULL,
	};

	for (size_t i = 0; i < n; i++)
		pages[i] = (struct html_run) { &reported[i].run.summary, &reported[i].gather,
			replay_growing(reported[i].run.replay), reported[i].where };
	return html_page(pages, n, &options, what->write, what->ctx);
}

int hiw_report(struct hiw_run *const *runs, size_t n, const struct hiw_report *what, struct hiw_err *ret_err)
{
	struct reported *reported = NULL;
	struct hiw_report given = { .size = sizeof(given) };
	struct err err = { "" };
	int r = check(runs, n, &err);

	memcpy(&given, what, what->size < sizeof(given) ? what->size : sizeof(given));
	if (r == 0) {
		reported = calloc(n, sizeof(*reported));
		r = reported ? 0 : -ENOMEM;
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		r = read_run(&reported[i], runs[i], given.redact, &err);
	if (r == 0)
		r = write_page(reported, n, &given);
	for (size_t i = 0; reported && i < n; i++)
		reported_done(&reported[i]);
	free(reported);
	return api_err(ret_err, &err, r);
}
