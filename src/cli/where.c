/* SPDX-License-Identifier: MIT
 *
 * hiwater where: which functions first touched the memory that a job used at its peak.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/programs.h"
#include "cli/terminal.h"

#define BY_CHOICES "function|line|stack|library|process"
#define TO_CHOICES "folded|speedscope|pprof|svg"

enum {
	TOP = 20
};

static struct {
	bool json, csv, has_top, has_to;
	struct hwi_where what;
	enum hiw_units units;
	const char *output;
} arg_where = { .what = { .top = TOP } };

static int parse_by(const char *value, void *dest, struct err *err)
{
	const int i = opt_choice(value, BY_CHOICES, err);

	if (i < 0)
		return i;
	*(enum hwi_where_by *) dest = (enum hwi_where_by)(HWI_WHERE_BY_FUNCTION + i);
	return 0;
}

static int parse_to(const char *value, void *dest, struct err *err)
{
	const int i = opt_choice(value, TO_CHOICES, err);

	if (i < 0)
		return i;
	arg_where.has_to = true;
	*(enum hwi_where_format *) dest = (enum hwi_where_format)(HWI_WHERE_FOLDED + i);
	return 0;
}

static int parse_number(const char *value, uint64_t least, uint64_t *ret, struct err *err)
{
	const char *p = value;

	if (parse_u64(&p, ret) < 0 || *p || *ret < least || *ret > UINT32_MAX)
		return err_set(err, -EINVAL, "'%.40s' is not a number from %llu on", value,
			(unsigned long long) least);
	return 0;
}

static int parse_top(const char *value, void *dest, struct err *err)
{
	uint64_t n;
	const int r = parse_number(value, 0, &n, err);

	if (r == 0)
		*(size_t *) dest = (size_t) n;
	arg_where.has_top = true;
	return r;
}

static int parse_high(const char *value, void *dest, struct err *err)
{
	uint64_t n;
	const int r = parse_number(value, 1, &n, err);

	if (r == 0)
		*(uint32_t *) dest = (uint32_t) n;
	return r;
}

/* What excludes what, or is missing. NULL: nothing. */
static const char *conflict(void)
{
	if (arg_where.json + arg_where.csv + arg_where.has_to > 1)
		return "--json, --csv and --to exclude each other; give one of them";
	if (arg_where.has_to &&
		(arg_where.has_top || arg_where.what.has_files || arg_where.what.is_by_total ||
			arg_where.what.is_self || arg_where.what.by != HWI_WHERE_BY_FUNCTION))
		return "--to writes whole stacks; leave out --top, --by, --self, --total and --files";
	if (arg_where.output && !arg_where.has_to)
		return "-o needs a format, for example: hiwater where --to svg -o where.svg";
	if (arg_where.has_to && !arg_where.output && isatty(STDOUT_FILENO))
		return "--to writes a file: add -o FILE, for example: -o where.svg";
	return NULL;
}

static int write_file(const char *text, size_t len)
{
	const int r = file_write(arg_where.output, text, len);

	if (r < 0)
		complain("cannot write %s: %s", arg_where.output, strerror(-r));
	return r < 0 ? EXIT_FAILED : 0;
}

static int print_where(const char *name)
{
	struct hiw_style style = terminal_style(STDOUT_FILENO, arg_where.units, false);
	struct hwi_where *what = &arg_where.what;
	autofree char *path = NULL, *text = NULL;
	char program[PATH_MAX];
	struct hiw_err err = { "" };
	size_t len = 0;
	int r = find_run(name, &path, &err);

	if (program_find("hiwater-where", program, sizeof(program)) == 0)
		what->program = program;

	style.width = terminal_width(STDOUT_FILENO, 0); /* a file or a pipe has whole names */
	what->style = &style;
	what->path = path;
	if (!arg_where.has_to)
		what->format = arg_where.json  ? HWI_WHERE_JSON
			       : arg_where.csv ? HWI_WHERE_CSV
					       : HWI_WHERE_TEXT;
	if (!arg_where.has_top && what->format != HWI_WHERE_TEXT)
		what->top = 0;
	if (r < 0) {
		complain("%s", err.text[0] ? err.text : strerror(-r));
		return EXIT_FAILED;
	}
	r = hwi_where(what, &text, &len, &err);
	if (r < 0) {
		complain("%s", err.text[0] ? err.text : strerror(-r));
		return r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	return arg_where.output ? write_file(text, len) : print_out(text, len);
}

static int where_main(int argc, char **argv)
{
	const char *wrong = conflict();

	if (wrong || argc > 1) {
		complain("%s", wrong ? wrong : "where takes one RUN; see hiwater where --help");
		return EXIT_USAGE;
	}
	return print_where(argc == 1 ? argv[0] : "last");
}

static const struct opt opts[] = {
	{ 0, "top", OPT_TEXT, "N", "lines of the table; 0: all (20; all of --json and --csv)", parse_top,
		&arg_where.what.top },
	{ 0, "by", OPT_CHOICE, BY_CHOICES, "what a line of the table is (function)", parse_by,
		&arg_where.what.by },
	{ 0, "self", OPT_NONE, NULL, "the innermost functions, also allocators, memset and the like",
		opt_flag, &arg_where.what.is_self },
	{ 0, "total", OPT_NONE, NULL, "the largest total first, also of functions that only called others",
		opt_flag, &arg_where.what.is_by_total },
	{ 0, "under", OPT_TEXT, "RE",
		"only stacks with a function whose name matches RE; the rest is in others", opt_text,
		(void *) &arg_where.what.under },
	{ 0, "high", OPT_TEXT, "N", "an earlier high of the memory: 1 is the first (the last)", parse_high,
		&arg_where.what.high },
	{ 0, "files", OPT_NONE, NULL, "a line for each mapped file", opt_flag, &arg_where.what.has_files },
	{ 0, "to", OPT_CHOICE, TO_CHOICES, "write the stacks for another program", parse_to,
		&arg_where.what.format },
	{ 'o', "output", OPT_FILE, "FILE", "of --to: write to FILE, which appears only when it is complete",
		opt_text, (void *) &arg_where.output },
	{ 0, "json", OPT_NONE, NULL, "print JSON, in base units", opt_flag, &arg_where.json },
	{ 0, "csv", OPT_NONE, NULL, "print the table as CSV, in base units", opt_flag, &arg_where.csv },
	{ 0, "units", OPT_CHOICE, UNITS_CHOICES, "units of sizes: GiB, GB, or bytes (iec)", parse_units,
		&arg_where.units },
	{ 0 },
};

static const char *const prose[] = {
	"Prints which functions first touched the memory that was resident at the peak of a job, if it was run with "
	"hiwater run --where: over all of its processes, in any language. The lines add up to the RAM peak that hiwater "
	"show prints.",
	"A line has the innermost function outside the plumbing: the C library, allocators, operator new and namespace std, "
	"memset and memcpy, the allocators of interpreters; --self shows these too. Its callers follow it; < … is a stack "
	"that was cut. total is the memory of all stacks with that function. +- is one sigma of the sampling, n the number of "
	"samples. A function without a name is its library and an offset.",
	"[touched by the kernel...] is what no sample stands for: mostly memory that a system call filled, or that mremap or a "
	"large realloc moved. [mapped files] are pages of files, such as libraries. [before hiwater came] was resident before "
	"hiwater attach.",
	"First touched is not owned: memory that was freed and used again counts for the function that touched it first. What "
	"was given back before the peak does not count. This is no list of allocations and no leak detector.",
	"hiwater run --where samples 1 of 64 page faults, with 16 KiB of the stack: a sample stands for 256 KiB, or for 128 MiB "
	"of huge pages. --where=fine samples 1 of 16, --where=stack=SIZE copies more or less of the stack, 1K to 64K. "
	"--where=python sets PYTHONPERFSUPPORT=1 for the job: Python 3.12 or later names its functions then, and calls them more "
	"slowly. The words are combined with commas. hiwater attach --where begins with a process that runs, and in Python "
	"track(where=True).",
	"No root is needed up to kernel.perf_event_paranoid=2, but at 2 faults in system calls are seen only with CAP_PERFMON. "
	"Containers forbid the sampling unless their seccomp profile allows perf_event_open. Setuid programs and those that the "
	"user cannot read are not sampled. hiwater doctor says what holds here, and the remedy.",
	"--to folded writes a line for each stack, for flamegraph.pl; speedscope and pprof are for these programs; svg is a flame "
	"graph in one file, in which a click zooms. Sizes are in bytes, and add up to the peak as well. hiwater compare --where "
	"compares two runs by function.",
	"RUN may be a job of several ranks: a folder with their recordings, or slurm:JOB; their peaks are added.",
	"The exit status is 0, 1 if there is no such run, it was not sampled or cannot be read or written, 2 for an invalid "
	"command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater run --where -- ./train",
	"sample the page faults of a job",
	"hiwater where",
	"the last run: the functions that touched most of its memory",
	"hiwater where --by library 12",
	"run 12, by library",
	"hiwater where --total --under 'load_.*'",
	"only what functions with load_ in their names, and those that they called, touched",
	"hiwater where --by line --top 5",
	"by line of the source, also of functions that the compiler inlined",
	"hiwater where --to svg -o where.svg",
	"a flame graph",
	"hiwater where --json last | jq '.rows[0]'",
	"the largest line, for a program",
	NULL,
};

const struct command command_where = {
	.name = "where",
	.usage = "[options] [RUN]",
	.operands = WHAT_A_RUN_IS " The default is last.",
	.sentence = "print which functions touched the memory of a run",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = where_main,
};
