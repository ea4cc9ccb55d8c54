/* SPDX-License-Identifier: MIT
 *
 * hiwater mark: a mark in the run that encloses this process.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "cli/cli.h"

static int mark_main(int argc, char **argv)
{
	struct buf text = BUF_INIT(4 << 20); /* more than a command line can be */
	struct hiw_err err = { "" };
	int r;

	for (int i = 0; i < argc; i++)
		(void) buf_printf(&text, "%s%s", i ? " " : "", argv[i]);
	if (text.len == 0) {
		complain("a mark needs a text; for example: hiwater mark epoch 3 done");
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
	"Writes TEXT, its words joined by blanks, into the recording of the run that this process belongs to, at this instant. "
	"It is for scripts that hiwater run measures; it returns at once.",
	"The summary (hiwater run, hiwater show) has the last ten marks, --json the last fifty under \"marks\", the report and exports all that the recording has.",
	"A text has 4096 bytes at most, which is what a recording keeps of one.",
	"The exit status is 0, 1 if no run encloses this process, or another user's, or the text is too long, 2 for a command line that makes no sense.",
	NULL,
};

static const char *const examples[] = {
	"hiwater mark epoch 3 done",
	"in a script that is measured",
	"hiwater mark evaluation || true",
	"likewise, and the script goes on if nobody measures it",
	NULL,
};

const struct command command_mark = {
	.name = "mark",
	.usage = "TEXT...",
	.sentence = "put a mark into the enclosing run",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = mark_main,
};
