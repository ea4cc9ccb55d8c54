/* SPDX-License-Identifier: MIT
 *
 * hiwater.h over the folders: a recording in other programs' formats.
 */
#include <errno.h>
#include <string.h>

#include "api_internal.h"
#include "sink/export/exporter.h"

static bool see_frame(void *ctx, const struct frame *frame)
{
	return export_see(ctx, frame);
}

int hiw_run_export(struct hiw_run *run, const struct hiw_export *what, struct hiw_err *ret_err)
{
	struct hiw_export given = { .size = sizeof(given) };
	struct err err = { "" }, end_err = { "" };
	struct export *e = NULL;
	int r, end;

	memcpy(&given, what, what->size < sizeof(given) ? what->size : sizeof(given));
	const struct export_options options = {
		.to = given.to ? given.to : "",
		.table = given.entity,
		.recent = given.recent,
		.redact = given.redact,
		.series = given.series,
		.n_series = given.n_series,
		.width = given.width,
		.height = given.height,
		.write = given.write,
		.ctx = given.ctx,
	};

	r = run->replay ? export_new(run->job, &options, &e, &err) : err_set(&err, -EINVAL, "a live run is exported from its file, not from its recorder");
	if (r < 0)
		return api_err(ret_err, &err, r);
	if (export_wanted(e))
		r = replay_frames_of(run->replay, export_wants_recent(e), export_wanted(e), see_frame, e, &err);
	else
		r = replay_frames(run->replay, export_wants_recent(e), see_frame, e, &err);
	end = export_end(e, r == 0, &end_err);
	return end < 0 ? api_err(ret_err, &end_err, end) : api_err(ret_err, &err, r);
}
