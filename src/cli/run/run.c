/* SPDX-License-Identifier: MIT
 *
 * hiwater run: measures a command and ends with the command's status.
 */
#include "cli/run/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "cli/cli.h"
#include "cli/run/signals.h"

#define CGROUP_CHOICES "auto|new|none"

enum {
	/* Descriptors that are open while the job runs with all options (21: the recording with its
	 * journals, the GPU helper, commands of alerts, the timer of --progress), and those open
	 * briefly: files of /proc, files written at the end. With fewer, processes would be missed
	 * and recordings lost. */
	FILES_NEEDED = 28,
};

static struct run_options arg_run = { .measure = MEASURE_INIT, .repeat = 1, .is_last = true };

static int parse_cgroup(const char *value, void *dest, struct err *err)
{
	int i = opt_choice(value, CGROUP_CHOICES, err);

	if (i < 0)
		return i;
	*(enum run_cgroup *) dest = (enum run_cgroup) i;
	return 0;
}

static int parse_repeat(const char *value, void *dest, struct err *err)
{
	const char *p = value;
	uint64_t n;

	if (parse_u64(&p, &n) < 0 || *p || n < 1 || n > 1000000)
		return err_set(err, -EINVAL, "'%.80s' is not a whole number from 1 to 1000000", value);
	*(uint64_t *) dest = n;
	return 0;
}

static int parse_otlp(const char *value, void *dest, struct err *err)
{
	struct sender_options *o = dest;

	(void) err;
	o->enabled = true;
	o->url = value && *value ? value : NULL;
	return 0;
}

/* Checks for options that exclude each other. Returns 0, or -EINVAL after a complaint. */
static int check_together(const struct run_options *o)
{
	const struct hiw_options *recorder = &o->measure.recorder;

	if (recorder->output && recorder->no_record)
		complain("-o and --no-record exclude each other; give one of them; see hiwater run --help");
	else if (o->otlp.enabled && recorder->no_record)
		complain("--otlp needs the recording; leave --no-record out");
	else if (o->trace.what.layers && recorder->no_record)
		complain("--trace needs the recording; leave --no-record out");
	else if (o->where.enabled && recorder->no_record)
		complain("--where needs the recording; leave --no-record out");
	else if (trace_option_alone(&o->trace))
		complain("%s is for --trace; give both", trace_option_alone(&o->trace));
	else if (o->live && recorder->no_record)
		complain("--live needs the recording; leave --no-record out");
	else if (o->endpoint.listen && recorder->no_record)
		complain("--listen needs the recording; leave --no-record out");
	else if (o->endpoint.listen && !endpoint_may_listen(o->endpoint.listen))
		complain(
			"--listen: '%.80s' is neither unix:PATH nor a loopback address, such as 127.0.0.1:0; hiwater serve can "
			"answer other machines",
			o->endpoint.listen);
	else if (o->endpoint.token_file && !o->endpoint.listen)
		complain("--token-file is for --listen; give both");
	else if (o->repeat > 1 && recorder->output)
		complain(
			"-o is one file, but --repeat makes %llu runs; leave -o out, name the runs with -n, and list them with hiwater runs",
			(unsigned long long) o->repeat);
	else
		return 0;
	return -EINVAL;
}

/* hiwater needs a descriptor for each process of the job. The job itself keeps its own limit. */
static void raise_file_limit(const struct rlimit *before)
{
	const struct rlimit raised = { before->rlim_max, before->rlim_max };

	if (before->rlim_cur < before->rlim_max)
		(void) setrlimit(RLIMIT_NOFILE, &raised);
}

/* With limits or repetitions it is better to measure with gaps than not at all. */
static bool must_measure(const struct run_options *o)
{
	return o->measure.limits.text[0] || o->repeat > 1;
}

/* Ends with the job's status, by the same signal if one killed it: a shell sees 128+n, a scheduler
 * "killed". */
static int end_like(int status)
{
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	if (getpid() != 1)
		signals_die(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

static int run_main(int argc, char **argv)
{
	struct outcome outcome = { 0 };

	if (argc < 1) {
		complain("run needs a COMMAND, for example: hiwater run -- make -j4");
		return EXIT_BEFORE_JOB;
	}
	if (arg_run.otlp.enabled && !arg_run.otlp.url && strstr(argv[0], "://")) {
		complain("'%.200s' is not a command; write the address of --otlp after an equals sign: --otlp=URL", argv[0]);
		return EXIT_BEFORE_JOB;
	}
	arg_run.measure.recorder.degrade = !arg_run.strict;
	if (check_together(&arg_run) < 0 || measure_prepare(&arg_run.measure) < 0)
		return EXIT_BEFORE_JOB;
	arg_run.endpoint.quiet = arg_run.measure.quiet;
	child_save_inherited(&arg_run.inherited);
	actions_begin(&arg_run.measure.actions);
	raise_file_limit(&arg_run.inherited.files);
	if (!must_measure(&arg_run) && !descriptors_are_left(FILES_NEEDED))
		(void) snprintf(outcome.lack, sizeof(outcome.lack),
			"hiwater needs %d open files in addition to those it inherits; raise the limit with ulimit -n",
			FILES_NEEDED);
	else if (arg_run.repeat > 1)
		run_repeatedly(&arg_run, argv, &outcome);
	else
		run_once(&arg_run, argv, &outcome);
	if (outcome.lack[0])
		return run_unmeasured(&arg_run, argv, outcome.lack);
	if (outcome.own || outcome.limited)
		return outcome.own ? outcome.own : EXIT_LIMIT;
	return end_like(outcome.status);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct opt opts[] = {
	MEASURE_ROWS(arg_run.measure),
	{ 0, "repeat", OPT_TEXT, "N",
		"run the command N times as separate runs, stop at the first that fails, and compare them at the "
		"end; --json then writes a line per run",
		parse_repeat, &arg_run.repeat },
	{ 0, "ranks", OPT_TEXT, "all|leader|LIST",
		"the ranks of a parallel job that keep a recording: all, one per node, or those of a list such as 0,8,16; "
		"of each other rank a line of NODE.ranks is kept (all, above 64 ranks leader)",
		parse_ranks, &arg_run.ranks },
	{ 0, "cgroup", OPT_CHOICE, CGROUP_CHOICES,
		"use the job's cgroup if it has one to itself, make one, or use none (auto)", parse_cgroup,
		&arg_run.cgroup },
	{ 0, "wait", OPT_NONE, NULL, "also follow processes that the command leaves running, until they end",
		opt_flag, &arg_run.wait },
	{ 0, "live", OPT_NONE, NULL,
		"show the job in this terminal while it runs, as hiwater top does; the command's own output follows "
		"when the view is left",
		opt_flag, &arg_run.live },
	{ 0, "listen", OPT_TEXT, "ADDRESS",
		"answer over HTTP what the job uses now, until it ends, as hiwater serve does: unix:PATH, 127.0.0.1:PORT (0: a "
		"free one, which is printed)",
		opt_text, (void *) &arg_run.endpoint.listen },
	{ 0, "token-file", OPT_FILE, "FILE",
		"of --listen on TCP: the token by which the job's figures are seen; without it there are those of the machine "
		"alone",
		opt_text, (void *) &arg_run.endpoint.token_file },
	{ 0, "otlp", OPT_OPTIONAL, "URL",
		"send the run to a receiver of OTLP while it happens: an OpenTelemetry collector, a Prometheus (the variables OTEL_*, "
		"else http://localhost:4318)",
		parse_otlp, &arg_run.otlp },
	{ 0, "otlp-insecure", OPT_NONE, NULL, "allow http:// to another machine, which is not encrypted", opt_flag,
		&arg_run.otlp.insecure },
	{ 0, "trace", OPT_OPTIONAL, "WHAT",
		"follow the job from inside: ranges that it or a library names (NVTX, ITT), and the memory, launches and kernels of GPUs; "
		"WHAT is a list of ranges,memory,launches,kernels (all); see hiwater-trace(1)",
		parse_trace, &arg_run.trace },
	{ 0, "where", OPT_OPTIONAL, "HOW",
		"sample which functions touch memory first; HOW is a list of fine (4 times the samples), python (names of its functions: 3.12 or "
		"later), stack=SIZE (16K); see hiwater-where(1)",
		parse_where, &arg_run.where },
	{ 0, "trace-window", OPT_TEXT, "WINDOW",
		"keep kernels and copies only then (ranges, memory and sums always): 60s+5s (from 60 s on, for 5 s), steps=10-20, "
		"range=RE, api (cuProfilerStart), alert (10 s), last=60s; several may be given",
		parse_trace_window, &arg_run.trace },
	{ 0, "phase-range", OPT_TEXT, "RE",
		"make ranges of the command's own process whose names match this extended regular expression phases of the run",
		opt_text, (void *) &arg_run.trace.what.phase_range },
	{ 0, "step", OPT_TEXT, "RE",
		"ranges whose names match this extended regular expression are steps (^(ProfilerStep#|step|iteration))", opt_text,
		(void *) &arg_run.trace.what.step },
	{ 0, "trace-limit", OPT_TEXT, "SIZE",
		"the most that the recording keeps of traced events, the oldest are left out first, and stay in all sums (256MB)",
		parse_trace_limit, &arg_run.trace },
	{ 0, "strict", OPT_NONE, NULL,
		"exit with 125, before the job is started, where hiwater would measure less than it was asked to, or nothing",
		opt_flag, &arg_run.strict },
	{ 0, "no-subreaper", OPT_NONE, NULL,
		"let init adopt orphans, for the rare program that depends on it; some may be missed",
		opt_flag, &arg_run.no_subreaper },
	{ 0 },
};

static const char *const prose[] = {
	"Runs COMMAND and, when it ends, prints what it and its descendants used: the peak of memory and "
	"how it was obtained, CPU time, I/O, and what to request next time. The summary goes to stderr; "
	"stdin, stdout and stderr are those of the command.",
	"hiwater ends with the command's status: its exit status, or killed by the same signal. 124 means "
	"that a limit ended the job, 125 that the command line is wrong, 126 that the command cannot be "
	"executed, 127 that it was not found.",
	"What hiwater lacks does not keep the command from running. Each step is a line on stderr: without "
	"a place for the recording there is none, without a timer there are no samples, and the summary has "
	"what the kernel reports at the end; where hiwater cannot work at all, or fewer than 16 more "
	"processes may be started (ulimit -u), it becomes the command, which is then not measured, not "
	"limited and not repeated. If FILE.hiw of -o exists, the recording is FILE-2.hiw. With --strict all "
	"this is an error, with exit status 125.",
	"A signal reaches the command exactly once, whether it is sent to hiwater, to the process group, or "
	"by the terminal; Ctrl-C and Ctrl-Z work as without hiwater. If hiwater itself fails or is killed, "
	"the command keeps running.",
	"The run ends with the command itself. Processes that it leaves running are counted and named, but "
	"neither killed nor waited for. With --wait all figures, the wall time included, cover the time "
	"until they end, and the summary also states when the command itself ended, if that was much "
	"earlier.",
	"With --live the terminal shows the job while it runs (see hiwater-top(1); q leaves the view, the "
	"job continues). What the command writes to the terminal is stored in a file in TMPDIR until the "
	"view ends, and its stdin is empty if it is the terminal; redirected streams are not changed. "
	"Ctrl-C and Ctrl-Z go to the command.",
	"With --otlp a process of its own reads the recording and sends it as OTLP (JSON over HTTP) every OTEL_METRIC_EXPORT_INTERVAL "
	"milliseconds (60000). It never delays the job or a sample, and has one second at the end. What could not be sent is counted "
	"in a warning; the recording has it: see hiwater-export(1). Headers with secrets belong into OTEL_EXPORTER_OTLP_HEADERS.",
	RULE_PROSE,
	"A run longer than a second is kept in the history: see hiwater-runs(1) and hiwater-show(1). The "
	"recordings of a parallel job are one run there, a folder, or with -o FOLDER/ a folder of that: one of each rank, and one of "
	"each node, of all ranks there together with shared memory counted once, and of the GPUs. Where a node has several ranks and "
	"there is no rule, the recorder of a rank takes a sample each second unless -i is given, and leaves the GPUs to that of the node unless "
	"--gpu is given. The recorder of the node of rank 0 prints the summary of that node, all others a line.",
	"Environment: HIWATER_QUIET=1 suppresses all output of hiwater's own, ACCESSIBLE=1 is the same as "
	"--plain, HIWATER_DIR is the folder of the history, NO_COLOR and CLICOLOR_FORCE control colours, "
	"HIWATER_FINDINGS_OFF=CODE,... disables findings. The command finds its run through HIWATER_SOCKET.",
	NULL,
};

static const char *const examples[] = {
	"hiwater run -- python train.py",
	"measure a command, and get advice on what to request",
	"hiwater run -n base --repeat 5 -- ./solver -n 8",
	"five runs named base, and how much they differ",
	"hiwater run --progress=1m -- make -j8",
	"a progress line every minute",
	"srun hiwater run -o runs/ -- python train.py",
	"a recording for each rank and each node",
	"hiwater run --alert 'ram > 90% for 30s' --on-alert 'signal USR1' -- ./train",
	"have the job write a checkpoint before the memory is full",
	"hiwater run --limit 'time = 2h' --limit 'ram = 24GiB' -- ./solve",
	"end the job when it reaches a limit",
	"hiwater run --json used.json --summary none -- ./job",
	"the summary as JSON, for a script",
	NULL,
};

const struct command command_run = {
	.name = "run",
	.usage = "[options] [--] COMMAND...",
	.sentence = "measure a command",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.stops_at_operand = true,
	.main = run_main,
};

/* ---- running the job unmeasured -------------------------------------------------------------- */

int run_unmeasured(const struct run_options *options, char *const *argv, const char *lack)
{
	autofree char **script = child_script(argv);

	if (options->strict) {
		complain("%s; the job was not started (--strict)", lack);
		return EXIT_BEFORE_JOB;
	}
	if (!options->measure.quiet)
		complain("warning: the job is not measured%s%s: %s",
			options->measure.limits.text[0] ? ", its limits are not enforced" : "",
			options->repeat > 1 ? ", and it is not repeated" : "", lack);
	child_restore_inherited(&options->inherited);
	return run_exec_failed(argv[0], child_exec(argv, script, environ));
}

int run_exec_failed(const char *file, int error)
{
	char room[CHILD_HINT];

	complain("cannot run '%s': %s%s", file, strerror(-error), child_hint(file, -error, room));
	return error == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
