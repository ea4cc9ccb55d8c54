/* SPDX-License-Identifier: MIT
 *
 * hiwater show: prints the summary of a run from the history or from a file.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/terminal.h"

#define SHOW_CHOICES "full|line"

enum {
	EXIT_LACKS = 3 /* --strict */
};

static struct {
	bool json, why, plain, markdown, strict;
	enum summary_kind summary;
	enum hiw_units units;
	const char *copy;
} arg_show;

static int parse_kind(const char *value, void *dest, struct err *err)
{
	int i = opt_choice(value, SHOW_CHOICES, err);

	if (i < 0)
		return i;
	*(enum summary_kind *) dest = (enum summary_kind) i;
	return 0;
}

/* Prints the error and returns the exit status. */
static int fail(int error, const struct hiw_err *err)
{
	complain("%s", err->text[0] ? err->text : strerror(-error));
	return EXIT_FAILED;
}

static int print_run(struct hiw_run *run)
{
	struct hiw_style style = terminal_style(STDOUT_FILENO, arg_show.units, arg_show.plain);
	enum hiw_format format = arg_show.json                      ? HIW_JSON
				 : arg_show.markdown                ? HIW_MARKDOWN
				 : arg_show.summary == SUMMARY_LINE ? HIW_LINE
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
	int r = find_run(name, &path, &err);

	if (r == 0)
		r = hiw_run_open(path, &run, &err);
	if (r == 0 && arg_show.copy)
		r = hwi_run_copy(run, arg_show.copy, &err);
	if (r < 0)
		r = fail(r, &err);
	else if (!arg_show.copy)
		r = print_run(run);
	if (r == 0 && arg_show.strict && hwi_run_lacks_parts(run))
		r = EXIT_LACKS;
	hiw_run_close(run);
	return r;
}

static int show_main(int argc, char **argv)
{
	if (arg_show.json && arg_show.markdown) {
		complain("--json and --md exclude each other; give one of them");
		return EXIT_USAGE;
	}
	if (argc > 1) {
		complain("show takes one RUN; see hiwater show --help");
		return EXIT_USAGE;
	}
	return show_run(argc == 1 ? argv[0] : "last");
}

static const struct opt opts[] = {
	{ 0, "json", OPT_NONE, NULL, "print JSON, in base units", opt_flag, &arg_show.json },
	{ 0, "md", OPT_NONE, NULL, "print Markdown, for a pull request or notes", opt_flag, &arg_show.markdown },
	{ 0, "why", OPT_NONE, NULL, "every check: whether its finding applies, and why", opt_flag,
		&arg_show.why },
	{ 0, "summary", OPT_CHOICE, SHOW_CHOICES, "how much to print (full)", parse_kind, &arg_show.summary },
	{ 0, "units", OPT_CHOICE, UNITS_CHOICES, "units of sizes: GiB, GB, or bytes (iec)", parse_units,
		&arg_show.units },
	{ 0, "plain", OPT_NONE, NULL, "one fact per line, for screen readers (also: ACCESSIBLE=1)", opt_flag,
		&arg_show.plain },
	{ 0, "strict", OPT_NONE, NULL, "exit with 3 if something of a job of several ranks is missing", opt_flag,
		&arg_show.strict },
	{ 0, "copy", OPT_FILE, "FILE",
		"print nothing; copy the recording, which may still grow, into one file", opt_text,
		(void *) &arg_show.copy },
	{ 0 },
};

static const char *const prose[] = {
	"Prints the summary of RUN on stdout. The summary of a run that is still running, or whose recorder "
	"was killed, covers it up to its last recorded second.",
	"RUN may be a job of several ranks: a folder with their recordings, slurm:JOB, or a merged recording. What is missing "
	"of it is listed.",
	"The exit status is 0, 1 if there is no such run or it cannot be read, 2 for an invalid command "
	"line, 3 with --strict if a rank, the end of one, or a recording of the job is missing.",
	NULL,
};

static const char *const examples[] = {
	"hiwater show",
	"the last run",
	"hiwater show --why 12",
	"run 12, and why each finding applies or not",
	"hiwater show --json base",
	"the latest run named base as JSON, for a program",
	"hiwater show --md base >> notes.md",
	"the same as a table in Markdown",
	"hiwater show --copy run.hiw last",
	"the recording as one file, to pass on",
	NULL,
};

const struct command command_show = {
	.name = "show",
	.usage = "[options] [RUN]",
	.operands = WHAT_A_RUN_IS " The default is last.",
	.sentence = "print the summary of a run",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = show_main,
};
