/* SPDX-License-Identifier: MIT
 *
 * hiwater show: the summary of a run of the history or of a file.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/terminal.h"

#define SHOW_CHOICES "full|line"

static struct {
	bool json, why, plain;
	enum summary_kind summary;
	enum hiw_units units;
	const char *copy;
} arg_show;

static int take_kind(const char *value, void *dest, struct err *err)
{
	int i = opt_choice(value, SHOW_CHOICES, err);

	if (i < 0)
		return i;
	*(enum summary_kind *) dest = (enum summary_kind) i;
	return 0;
}

/* Complains and returns the exit status. */
static int fail(int error, const struct hiw_err *err)
{
	complain("%s", err->text[0] ? err->text : strerror(-error));
	return EXIT_FAILED;
}

static int print_run(struct hiw_run *run)
{
	struct hiw_style style = terminal_style(STDOUT_FILENO, arg_show.units, arg_show.plain);
	enum hiw_format format = arg_show.json ? HIW_JSON : arg_show.summary == SUMMARY_LINE ? HIW_LINE
											     : HIW_TEXT;
	autofree char *text = NULL;
	struct hiw_err err = { "" };
	size_t len;
	int r;

	style.why = arg_show.why;
	r = hiw_run_text(run, format, &style, &text, &len, &err);
	return r < 0 ? fail(r, &err) : print_out(text, len);
}

static int show_run(const char *name)
{
	autofree char *path = NULL;
	struct hiw_run *run = NULL;
	struct hiw_err err = { "" };
	int r = hiw_find(name, &path, &err);

	if (r == 0)
		r = hiw_run_open(path, &run, &err);
	if (r == 0 && arg_show.copy)
		r = hwi_run_copy(run, arg_show.copy, &err);
	if (r < 0)
		r = fail(r, &err);
	else if (!arg_show.copy)
		r = print_run(run);
	hiw_run_close(run);
	return r;
}

static int show_main(int argc, char **argv)
{
	if (argc > 1) {
		complain("one RUN at a time; see hiwater show --help");
		return EXIT_USAGE;
	}
	return show_run(argc == 1 ? argv[0] : "last");
}

static const struct opt opts[] = {
	{ 0, "json", OPT_NONE, NULL, "as JSON, in base units", opt_flag, &arg_show.json },
	{ 0, "why", OPT_NONE, NULL, "each finding, whether it applies or not, and why", opt_flag, &arg_show.why },
	{ 0, "summary", OPT_CHOICE, SHOW_CHOICES, "how much to print (full)", take_kind, &arg_show.summary },
	{ 0, "units", OPT_CHOICE, UNITS_CHOICES, "units of amounts: GiB, GB, or bytes (iec)", take_units, &arg_show.units },
	{ 0, "plain", OPT_NONE, NULL, "one fact a line, for screen readers (also: ACCESSIBLE=1)", opt_flag, &arg_show.plain },
	{ 0, "copy", OPT_FILE, "FILE", "print nothing, but make of the recording, which may still grow, one file",
		opt_text, (void *) &arg_show.copy },
	{ 0 },
};

static const char *const prose[] = {
	"Prints the summary of RUN on stdout, also of one that still runs or whose recorder was killed: then up to its last "
	"second.",
	"The exit status is 0, 1 if there is no such run or it cannot be read, 2 for a command line that makes no sense.",
	NULL,
};

static const char *const examples[] = {
	"hiwater show",
	"the last run",
	"hiwater show --why 12",
	"run 12, and why each piece of advice is or is not given",
	"hiwater show --json base",
	"the latest run called base, for a program",
	"hiwater show --copy run.hiw last",
	"the recording as one file, to give away",
	NULL,
};

const struct command command_show = {
	.name = "show",
	.usage = "[options] [RUN]",
	.operands = WHAT_A_RUN_IS " Without one it is the last.",
	.sentence = "show a run's summary",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = show_main,
};
