/* SPDX-License-Identifier: MIT
 *
 * hiwater run: measures a command and ends as it did.
 */
#include "cli/run/run.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/smallfile.h"
#include "cli/cli.h"
#include "cli/run/signals.h"

#define CGROUP_CHOICES "auto|new|none"

static struct run_options arg_run = { .measure = MEASURE_INIT, .repeat = 1 };

static int take_cgroup(const char *value, void *dest, struct err *err)
{
	int i = opt_choice(value, CGROUP_CHOICES, err);

	if (i < 0)
		return i;
	*(enum run_cgroup *) dest = (enum run_cgroup) i;
	return 0;
}

static int take_repeat(const char *value, void *dest, struct err *err)
{
	const char *p = value;
	uint64_t n;

	if (parse_u64(&p, &n) < 0 || *p || n < 1 || n > 1000000)
		return err_set(err, -EINVAL, "'%.80s' is no number from 1 to 1000000", value);
	*(uint64_t *) dest = n;
	return 0;
}

/* What options forbid each other. Returns 0, or -EINVAL after a complaint. */
static int check_together(const struct run_options *o)
{
	const struct hiw_options *recorder = &o->measure.recorder;

	if (recorder->output && recorder->no_record)
		complain("-o and --no-record contradict each other: give one of them; see hiwater run --help");
	else if (o->repeat > 1 && recorder->output)
		complain("-o holds one run, --repeat makes %llu: leave -o out, name them with -n, and find them in hiwater runs",
			(unsigned long long) o->repeat);
	else
		return 0;
	return -EINVAL;
}

/* A job of many processes needs a descriptor for each; the job itself keeps its own limit. */
static void raise_file_limit(const struct rlimit *before)
{
	const struct rlimit raised = { before->rlim_max, before->rlim_max };

	if (before->rlim_cur < before->rlim_max)
		(void) setrlimit(RLIMIT_NOFILE, &raised);
}

/* Ends as the job did, so that a shell sees 128+n and a scheduler "killed". */
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
		complain("there is no command to run; for example: hiwater run -- make -j4");
		return EXIT_BEFORE_JOB;
	}
	if (check_together(&arg_run) < 0 || measure_prepare(&arg_run.measure) < 0)
		return EXIT_BEFORE_JOB;
	child_remember(&arg_run.inherited);
	actions_begin(&arg_run.measure.actions);
	raise_file_limit(&arg_run.inherited.files);
	if (run_is_crowded(&arg_run))
		return run_alone(&arg_run, argv);
	if (arg_run.repeat > 1)
		run_repeatedly(&arg_run, argv, &outcome);
	else
		run_once(&arg_run, argv, &outcome);
	if (outcome.own || outcome.limited)
		return outcome.own ? outcome.own : EXIT_LIMIT;
	return end_like(outcome.status);
}

/* ---- the table ---- */

static const struct opt opts[] = {
	MEASURE_ROWS(arg_run.measure),
	{ 0, "repeat", OPT_TEXT, "N", "run the command N times, each a run of its own, and compare them at the end; the first "
				      "that fails is the last; --json then writes a line a run",
		take_repeat, &arg_run.repeat },
	{ 0, "cgroup", OPT_CHOICE, CGROUP_CHOICES, "use the job's cgroup if it has one to itself, make one, or use none (auto)",
		take_cgroup, &arg_run.cgroup },
	{ 0, "wait", OPT_NONE, NULL, "follow what the command leaves running to its end, too", opt_flag, &arg_run.wait },
	{ 0, "live", OPT_NONE, NULL, "watch it in this terminal while it runs, as hiwater top shows it; what it prints there is passed "
				     "on when the view is left",
		opt_flag, &arg_run.live },
	{ 0, "no-subreaper", OPT_NONE, NULL, "let init adopt orphans, for the rare program that minds; some may be missed",
		opt_flag, &arg_run.no_subreaper },
	{ 0 },
};

static const char *const prose[] = {
	"Runs COMMAND and prints at its end what it used, with everything that it started: the peak of memory and how it is "
	"known, processor time, I/O, what to request next time. The summary goes to stderr; stdin, stdout and stderr are the "
	"command's own.",
	"hiwater ends as the command did: with its exit status, or killed by the same signal. 124 means that a limit ended it, "
	"125 that hiwater failed before the command began, 126 that the command cannot be executed, 127 that there is none of "
	"that name.",
	"A signal reaches the command exactly once, whether it is sent to hiwater alone, to the process group, or by the "
	"terminal; Ctrl-C and Ctrl-Z work as without hiwater. Nothing that happens to hiwater ends the command. Where so few files "
	"may be open (ulimit -n) that it could not work, it becomes the command after a warning, except with --limit or --repeat.",
	"The run ends with the command itself. What it leaves running is counted and named, neither killed nor waited for, "
	"unless --wait is given: then the wall time, as all figures, is that of all that was followed, and where main ended "
	"well before, that is told beside it.",
	"With --live the terminal shows the job while it runs (see hiwater-top(1); q leaves the view, the job goes on). What the "
	"command writes to the terminal is kept in a file of TMPDIR until the view is over, and its stdin is empty there; "
	"streams that lead elsewhere stay as they are. Ctrl-C and Ctrl-Z are the command's.",
	RULE_PROSE,
	"A run longer than a second is kept in the history: see hiwater-runs(1) and hiwater-show(1). Of a parallel job only "
	"the first rank of each node keeps one, unless -o says so.",
	"Environment: HIWATER_QUIET=1 prints nothing of hiwater's own, ACCESSIBLE=1 is --plain, HIWATER_DIR is the folder of "
	"the history, NO_COLOR and CLICOLOR_FORCE decide about colours, HIWATER_FINDINGS_OFF=CODE,... lists findings that are not "
	"wanted. The command finds its run through HIWATER_SOCKET.",
	NULL,
};

static const char *const examples[] = {
	"hiwater run -- python train.py",
	"what did it use, and what should be requested?",
	"hiwater run -n base --repeat 5 -- ./solver -n 8",
	"five runs called base, and how much they differ",
	"hiwater run --progress=1m -- make -j8",
	"a line each minute about the present",
	"srun hiwater run -o r%r.hiw -- python train.py",
	"a recording for each rank",
	"hiwater run --alert 'ram > 90% for 30s' --on-alert 'signal USR1' -- ./train",
	"a checkpoint before the memory is full",
	"hiwater run --limit 'time = 2h' --limit 'ram = 24GiB' -- ./solve",
	"end it there rather than let the machine suffer",
	"hiwater run --json used.json --summary none -- ./job",
	"for a script",
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

/* ---- where hiwater cannot work the job runs all the same ----------------------------------------------------------- */

enum {
	/* What is open while the job runs with all that can be asked for (21: the recording with its journals, the GPU helper,
	 * commands of alerts, the clock of --progress), and for a moment beside it: files of /proc, what is written at the end.
	 * Fewer, and processes would be overlooked, recordings lost. */
	FILES_NEEDED = 28,
};

bool run_may_be_alone(const struct run_options *options)
{
	return !options->measure.limits.text[0] && options->repeat == 1;
}

bool run_is_crowded(const struct run_options *options)
{
	return run_may_be_alone(options) && !descriptors_are_left(FILES_NEEDED);
}

int run_alone(const struct run_options *options, char *const *argv)
{
	if (!options->measure.quiet)
		complain("warning: the job is not measured, nothing is written: hiwater needs %d files open beside those it inherits "
			 "(ulimit -n)",
			FILES_NEEDED);
	child_give_back(&options->inherited);
	(void) execvp(argv[0], argv);
	return run_cannot(argv[0], -errno);
}

int run_cannot(const char *file, int error)
{
	complain("cannot run '%s': %s%s", file, strerror(-error), child_why_not(file, -error));
	return error == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
