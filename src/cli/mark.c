/* SPDX-License-Identifier: MIT
 *
 * hiwater mark: writes a mark into the run that this process belongs to (HIWATER_SOCKET).
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "cli/cli.h"

static int mark_main(int argc, char **argv)
{
	struct buf text = BUF_INIT(4 << 20); /* longer than any command line */
	struct hiw_err err = { "" };
	int r;

	for (int i = 0; i < argc; i++)
		(void) buf_printf(&text, "%s%s", i ? " " : "", argv[i]);
	if (text.len == 0) {
		complain("mark needs a TEXT, for example: hiwater mark epoch 3 done");
		buf_done(&text);
		return EXIT_USAGE;
	}
	r = text.error ? text.error : hiw_mark(text.data, &err);
	buf_done(&text);
	if (r == 0)
		return 0;
	complain("%s", err.text[0] ? err.text : strerror(-r));
	return EXIT_FAILED;
}

static const struct opt opts[] = { { 0 } };

static const char *const prose[] = {
	"Writes a mark with the current time and TEXT, its words joined by blanks, into the recording of "
	"the run that this process belongs to. It is for scripts that hiwater run measures, and returns at "
	"once.",
	"The summary (hiwater run, hiwater show) shows the last ten marks, --json the last fifty under "
	"\"marks\", the report and the exports all marks of the recording.",
	"A text has at most 4096 bytes.",
	"The exit status is 0, 1 if this process belongs to no run, or to another user's, or the text is "
	"too long, 2 for an invalid command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater mark epoch 3 done",
	"in a script that is measured",
	"hiwater mark evaluation || true",
	"the same in a script that may also run without hiwater",
	NULL,
};

const struct command command_mark = {
	.name = "mark",
	.usage = "TEXT...",
	.sentence = "write a mark into the enclosing run",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = mark_main,
};
