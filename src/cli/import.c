/* SPDX-License-Identifier: MIT
 *
 * hiwater import: traces of other tools as a run, or as a part of one.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/json/json_read.h"
#include "base/parse.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/measure.h"

static struct {
	const char *into, *output, *name;
	const char *at, *offset, *rank;
} arg_import;

/* Ctrl-C leaves no file. */
static void end_by_signal(int signal)
{
	hwi_import_abandon();
	(void) raise(signal); /* its handler is the default again */
}

static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	const struct sigaction action = { .sa_handler = end_by_signal, .sa_flags = (int) SA_RESETHAND };
	struct sigaction before;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		/* nohup and a shell's & stay as they are */
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			(void) sigaction(signals[i], &action, NULL);
	}
}

static void say_line(void *ctx, const char *text)
{
	(void) ctx;
	complain("%s", text);
}

/* "01:00" and nothing after it, as seconds. Returns 0 or -EINVAL. */
static int parse_zone(const char *p, int64_t *ret)
{
	uint64_t hours, minutes;

	if (parse_u64(&p, &hours) < 0 || !parse_word(&p, ":") || parse_u64(&p, &minutes) < 0 || *p)
		return -EINVAL;
	if (hours > 23 || minutes > 59)
		return -EINVAL;
	*ret = (int64_t) (hours * 3600 + minutes * 60);
	return 0;
}

/* A fraction ".25" of a second, and what follows a time: "Z", "+01:00", or nothing: local time. Returns 0 or
 * -EINVAL. */
static int parse_rest(const char *p, struct tm *tm, int64_t *ret_ns)
{
	int64_t fraction = 0, zone = 0;
	time_t seconds;

	if (*p == '.') {
		const size_t len = 1 + strspn(p + 1, "0123456789");

		if (len == 1 || json_scaled(p, len, 9, &fraction) < 0)
			return -EINVAL;
		p += len;
	}
	if (*p == '\0') {
		tm->tm_isdst = -1;
		seconds = mktime(tm);
	} else if (strcmp(p, "Z") == 0 || strcmp(p, "z") == 0) {
		seconds = timegm(tm);
	} else if ((*p == '+' || *p == '-') && parse_zone(p + 1, &zone) == 0) {
		seconds = timegm(tm) - (*p == '+' ? zone : -zone);
	} else {
		return -EINVAL;
	}
	if (__builtin_mul_overflow((int64_t) seconds, INT64_C(1000000000), ret_ns) ||
		__builtin_add_overflow(*ret_ns, fraction, ret_ns))
		return -EINVAL;
	return 0;
}

/* A time of the wall clock: "2026-11-26T18:45:00.123Z", or seconds since 1970. Returns 0 or -EINVAL. */
static int parse_time(const char *text, int64_t *ret_ns)
{
	struct tm tm = { 0 };
	const char *p;

	if (text[0] && text[strspn(text, "0123456789.")] == '\0')
		return json_scaled(text, strlen(text), 9, ret_ns) < 0 ? -EINVAL : 0;
	p = strptime(text, "%Y-%m-%d", &tm);
	if (!p || (*p != 'T' && *p != ' '))
		return -EINVAL;
	p = strptime(p + 1, "%H:%M:%S", &tm);
	return p ? parse_rest(p, &tm, ret_ns) : -EINVAL;
}

static bool parse_rank(const char *text, int64_t *ret)
{
	const size_t len = strlen(text);

	return len > 0 && strspn(text, "0123456789") == len && json_scaled(text, len, 0, ret) == 0;
}

/* Returns false after a complaint. */
static bool fill_options(struct hwi_import_options *o)
{
	struct err err = { "" };

	o->rank = -1;
	if (arg_import.rank && !parse_rank(arg_import.rank, &o->rank)) {
		complain("invalid rank '%s'; --rank is a number from 0 on", arg_import.rank);
		return false;
	}
	o->has_at = arg_import.at != NULL;
	if (o->has_at && parse_time(arg_import.at, &o->at_wall_ns) < 0) {
		complain("invalid time '%s'; --at is a time of the wall clock, 2026-11-26T18:45:00.5 (local; with Z or "
			 "+01:00 of that zone), or seconds since 1970",
			arg_import.at);
		return false;
	}
	o->has_offset = arg_import.offset != NULL;
	if (o->has_offset && units_parse_duration(arg_import.offset, &o->offset_ns, &err) < 0) {
		complain("--offset: %s", err.text);
		return false;
	}
	return true;
}

static const char *misused(int argc)
{
	if (argc < 1)
		return "import needs a FILE: a trace of torch.profiler or another Chrome trace, or an SQLite export of "
		       "Nsight Systems";
	if (arg_import.into && (arg_import.output || arg_import.name))
		return "--into adds to a run that is there; -o and -n are for a new one";
	if (arg_import.at && arg_import.offset)
		return "--at and --offset exclude each other";
	if (arg_import.offset && !arg_import.into)
		return "--offset needs --into RUN: a new recording begins at the first event";
	if (arg_import.rank && argc > 1)
		return "--rank is for one FILE";
	return NULL;
}

static int import_main(int argc, char **argv)
{
	struct hwi_import_options options = {
		.into = arg_import.into,
		.output = arg_import.output,
		.name = arg_import.name,
		.say = say_line,
	};
	struct hiw_err err = { "" };
	const char *why = misused(argc);
	int r;

	if (why)
		complain("%s; see hiwater import --help", why);
	if (why || !fill_options(&options))
		return EXIT_USAGE;
	catch_signals();
	r = hwi_import((const char *const *) argv, (size_t) argc, &options, &err);
	if (r == 0)
		return 0;
	complain("%s", err.text[0] ? err.text : strerror(-r));
	return EXIT_FAILED;
}

static const struct opt opts[] = {
	{ 'i', "into", OPT_TEXT, "RUN", "make the trace a part of RUN, at its time on that run's axis", opt_text,
		(void *) &arg_import.into },
	{ 'o', "output", OPT_FILE, "FILE.hiw", "write a new recording, FILE.hiw, which must not exist", opt_text,
		(void *) &arg_import.output },
	{ 'n', "name", OPT_TEXT, "NAME", "the name of the new run", opt_text, (void *) &arg_import.name },
	{ 0, "rank", OPT_TEXT, "N", "the rank of the traced process, if the file does not say it", opt_text,
		(void *) &arg_import.rank },
	{ 0, "at", OPT_TEXT, "TIME", "the first event was at TIME of the wall clock (ISO 8601, or seconds since 1970)",
		opt_text, (void *) &arg_import.at },
	{ 0, "offset", OPT_TEXT, "SPAN", "the first event was SPAN after the run's start", opt_text,
		(void *) &arg_import.offset },
	{ 0 },
};

static const char *const prose[] = {
	"Reads traces of other tools into a recording, where hiwater trace, compare and export treat them as what "
	"run --trace records: Chrome traces of torch.profiler (Kineto), VizTracer, ONNX Runtime, JAX and others, "
	"plain or .gz, and SQLite exports of Nsight Systems (nsys export --type sqlite). Kernels, copies, fills and "
	"calls of a GPU's interface become such; every other event that has a duration becomes a range.",
	"Without --into they become a new run, in the history or with -o in a file, which begins at the first event. "
	"Several files are the ranks of one job; each must say its rank itself, or be imported alone with --rank.",
	"With --into they become a part of a run that has ended, placed by the wall clock; if they have no time in "
	"common, nothing is imported. A file of a tool without the wall clock needs --at or --offset. What began before "
	"the run is left out.",
	"A file that was cut off, or is damaged in places, gives the events that are whole, and a line says what is lost. "
	"A trace that is in the run already is refused. All files are imported or none.",
	WHAT_A_RUN_IS,
	"The exit status is 0, 1 if nothing could be imported, 2 for an invalid command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater import trace.json.gz -n train",
	"a trace of torch.profiler as a new run",
	"hiwater import trace.json --into last",
	"the same on the time axis of the last run",
	"hiwater import rank0.json rank1.json -o job.hiw",
	"two ranks of one job as one recording",
	"hiwater import report.sqlite",
	"what nsys export --type sqlite wrote",
	NULL,
};

const struct command command_import = {
	.name = "import",
	.usage = "[options] FILE...",
	.sentence = "traces of torch.profiler, Nsight Systems and others as a run",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = import_main,
};
