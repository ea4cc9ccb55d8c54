/* SPDX-License-Identifier: MIT
 *
 * The table of the outputs of one summary (sink/sink.h).
 */
#include "sink/sink.h"

#include <errno.h>

#include "sink/json/json_summary.h"
#include "sink/text/text.h"

enum {
	WIDTH_LEAST = 40,
	WIDTH_MOST = 100
}; /* longer lines of prose are hard to read */

static int (*const sinks[])(const struct summary *s, const struct sink_options *o, struct buf *out) = {
	[SINK_TEXT] = text_sink,
	[SINK_LINE] = line_sink,
	[SINK_JSON] = json_sink,
	[SINK_JSON_LINE] = json_line_sink,
	[SINK_MARKDOWN] = markdown_sink,
	[SINK_PROGRESS] = progress_sink,
};

int sink_summary(enum sink_kind kind, const struct summary *summary, const struct sink_options *options,
	struct buf *out)
{
	struct sink_options o = *options;

	if ((unsigned) kind >= sizeof(sinks) / sizeof(*sinks))
		return -EINVAL;
	if (o.width < WIDTH_LEAST)
		o.width = WIDTH_LEAST;
	if (o.width > WIDTH_MOST && kind != SINK_PROGRESS)
		o.width = WIDTH_MOST;
	int code = sinks[kind](summary, &o, out);

	return code < 0 ? code : out->error;
}
