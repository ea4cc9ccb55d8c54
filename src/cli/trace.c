/* SPDX-License-Identifier: MIT
 *
 * hiwater trace: what a job did from inside, by name, phase, process, stream.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/terminal.h"

#define BY_CHOICES "kernel|range|phase|process|stream|copy|api"

enum {
	TOP = 20
};

static struct {
	bool json, csv, nsys, has_top, has_from, has_to;
	struct hwi_trace what;
	enum hiw_units units;
} arg_trace = { .what = { .top = TOP, .to_ns = UINT64_MAX } };

static int parse_by(const char *value, void *dest, struct err *err)
{
	const int i = opt_choice(value, BY_CHOICES, err);

	if (i < 0)
		return i;
	*(enum hwi_trace_by *) dest = (enum hwi_trace_by)(HWI_TRACE_BY_KERNEL + i);
	return 0;
}

static int parse_number(const char *value, uint64_t least, size_t *ret, struct err *err)
{
	const char *p = value;
	uint64_t n;

	if (parse_u64(&p, &n) < 0 || *p || n < least || n > UINT32_MAX)
		return err_set(err, -EINVAL, "'%.40s' is not a number from %llu on", value, (unsigned long long) least);
	*ret = (size_t) n;
	return 0;
}

static int parse_top(const char *value, void *dest, struct err *err)
{
	arg_trace.has_top = true;
	return parse_number(value, 0, dest, err);
}

static int parse_ncu(const char *value, void *dest, struct err *err)
{
	return parse_number(value, 1, dest, err);
}

/* "10-20", "10" */
static int parse_steps(const char *value, void *dest, struct err *err)
{
	struct hwi_trace *what = dest;
	const char *p = value;

	what->has_steps = true;
	if (parse_u64(&p, &what->first_step) == 0) {
		what->last_step = what->first_step;
		if (*p == '\0')
			return 0;
		if (*p++ == '-' && parse_u64(&p, &what->last_step) == 0 && *p == '\0' &&
			what->last_step >= what->first_step)
			return 0;
	}
	return err_set(err, -EINVAL, "'%.40s' names no steps; write the first and the last one, such as 10-20", value);
}

static int parse_time(const char *value, bool *has, uint64_t *ret, struct err *err)
{
	int64_t ns;
	const int r = units_parse_duration(value, &ns, err);

	if (r < 0)
		return r;
	*has = true;
	*ret = (uint64_t) ns;
	return 0;
}

static int parse_from(const char *value, void *dest, struct err *err)
{
	return parse_time(value, &arg_trace.has_from, dest, err);
}

static int parse_to(const char *value, void *dest, struct err *err)
{
	return parse_time(value, &arg_trace.has_to, dest, err);
}

/* What excludes what. NULL: nothing. */
static const char *conflict(void)
{
	const struct hwi_trace *w = &arg_trace.what;
	const bool has_span = arg_trace.has_from || arg_trace.has_to;

	if (arg_trace.json + arg_trace.csv + arg_trace.nsys + (w->kernel > 0) > 1)
		return "--json, --csv, --ncu and --nsys exclude each other; give one of them";
	if (w->has_steps && has_span)
		return "--steps and --from or --to exclude each other; leave one out";
	if (has_span && w->to_ns <= w->from_ns)
		return "--to is not after --from";
	if (w->kernel > 0 && w->by != HWI_TRACE_BY_DEFAULT && w->by != HWI_TRACE_BY_KERNEL)
		return "--ncu takes the number of a kernel; leave --by out";
	return NULL;
}

static int print_trace(const char *name)
{
	struct hiw_style style = terminal_style(STDOUT_FILENO, arg_trace.units, false);
	struct hwi_trace *what = &arg_trace.what;
	autofree char *path = NULL, *text = NULL;
	struct hiw_err err = { "" };
	size_t len = 0;
	int r = find_run(name, &path, &err);

	style.width = terminal_width(STDOUT_FILENO, 0); /* a file or a pipe has whole names */
	what->style = &style;
	what->path = path;
	what->has_span = arg_trace.has_from || arg_trace.has_to;
	what->format = arg_trace.json     ? HWI_TRACE_JSON
		       : arg_trace.csv    ? HWI_TRACE_CSV
		       : arg_trace.nsys   ? HWI_TRACE_NSYS
		       : what->kernel > 0 ? HWI_TRACE_NCU
					  : HWI_TRACE_TEXT;
	if (!arg_trace.has_top && what->format != HWI_TRACE_TEXT)
		what->top = 0;
	if (r == 0)
		r = hwi_trace(what, &text, &len, &err);
	if (r < 0) {
		complain("%s", err.text[0] ? err.text : strerror(-r));
		return EXIT_FAILED;
	}
	return print_out(text, len);
}

static int trace_main(int argc, char **argv)
{
	const char *wrong = conflict();

	if (wrong || argc > 1) {
		complain("%s", wrong ? wrong : "trace takes one RUN; see hiwater trace --help");
		return EXIT_USAGE;
	}
	return print_trace(argc == 1 ? argv[0] : "last");
}

static const struct opt opts[] = {
	{ 0, "by", OPT_CHOICE, BY_CHOICES, "what a line of the table is (kernel; range, if there are no kernels)",
		parse_by, &arg_trace.what.by },
	{ 0, "top", OPT_TEXT, "N", "lines of the table; 0: all (20; all of --json and --csv)", parse_top,
		&arg_trace.what.top },
	{ 0, "steps", OPT_TEXT, "A-B", "only what began in these steps", parse_steps, &arg_trace.what },
	{ 0, "from", OPT_TEXT, "TIME", "only what began from TIME on, since the start of the run: 90, 1.5s, 2m",
		parse_from, &arg_trace.what.from_ns },
	{ 0, "to", OPT_TEXT, "TIME", "only what began before TIME", parse_to, &arg_trace.what.to_ns },
	{ 0, "ncu", OPT_TEXT, "N", "print the command line of ncu for kernel N of the table", parse_ncu,
		&arg_trace.what.kernel },
	{ 0, "nsys", OPT_NONE, NULL, "print the command line of nsys for the windows of the trace", opt_flag,
		&arg_trace.nsys },
	{ 0, "json", OPT_NONE, NULL, "print JSON, in base units", opt_flag, &arg_trace.json },
	{ 0, "csv", OPT_NONE, NULL, "print the table as CSV, in base units", opt_flag, &arg_trace.csv },
	{ 0, "units", OPT_CHOICE, UNITS_CHOICES, "units of sizes: GiB, GB, or bytes (iec)", parse_units,
		&arg_trace.units },
	{ 0 },
};

static const char *const prose[] = {
	"Prints what a job did from inside, if it was run with hiwater run --trace or a trace was imported into it: "
	"for each kernel, or for each range of a job without a GPU, how often it ran and how long. Sums are of all events, "
	"also of those whose rows were left out to stay within --trace-limit.",
	"Time % is of the summed time of all kernels. busy is the union of a GPU's kernels and copies over all streams, never "
	"their sum, within the windows of the trace; idle is the rest of them, and a gap a stretch of it. Records without times, or with "
	"an end before their start, are counted as invalid and are in no sum.",
	"Med is the median: exact while the rows of all events are there, and there are at most 300,000 of them, else within 1.1 % "
	"(bounded). Times of ranges include those of the ranges in them.",
	"--from, --to and --steps select by the start of an event; they read the rows. A step is a range called step N, "
	"iteration N or ProfilerStep#N.",
	"--ncu prints a line that a shell can run: a few launches of kernel N, from the middle of those of its process. RUN may be a job of "
	"several ranks: a folder with their recordings, or slurm:JOB; their events are combined by name.",
	"The exit status is 0, 1 if there is no such run, it was not traced or cannot be read, 2 for an invalid command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater trace",
	"the last run: the kernels, or the ranges, that took longest",
	"hiwater trace --by phase 12",
	"run 12, GPU time of each phase",
	"hiwater trace --steps 10-20 base",
	"the steps 10 to 20 of the latest run named base",
	"hiwater trace --ncu 1",
	"the command line that profiles the kernel at the top",
	"hiwater trace --json last | jq .devices",
	"how busy each GPU was, for a program",
	NULL,
};

const struct command command_trace = {
	.name = "trace",
	.usage = "[options] [RUN]",
	.operands = WHAT_A_RUN_IS " The default is last.",
	.sentence = "print kernels, copies and ranges of a traced run",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = trace_main,
};
