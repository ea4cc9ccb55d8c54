/* SPDX-License-Identifier: MIT
 *
 * hiwater attach: measures running processes until they end, --for has passed, or a signal ends the
 * measurement.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/run/container.h"
#include "cli/run/control.h"
#include "cli/run/descriptors.h"
#include "cli/run/slurm.h"
#include "cli/run/trace.h"
#include "cli/run/where.h"

enum {
	PIDS_MOST = 4096
};

static struct {
	struct measure measure;
	const char *name, *cgroup, *container, *slurm;
	struct slurm_attach slurm_job;
	int64_t wait_ns;  /* for the first process; 0: not at all */
	char container_cgroup[4096];
	int64_t for_ns;  /* 0: until the processes end */
	struct control control;
	struct where_options where;
	struct trace_options trace; /* with control alone: of the owner, in which nothing may be loaded yet */
} arg_attach = { .measure = MEASURE_INIT, .control = CONTROL_INIT };

static int parse_for(const char *value, void *dest, struct err *err)
{
	int64_t ns;
	int r = units_parse_duration(value, &ns, err);

	if (r < 0)
		return r;
	if (ns <= 0)
		return err_set(err, -EINVAL, "'%.80s' is too short; give a time greater than 0", value);
	*(int64_t *) dest = ns;
	return 0;
}

static int parse_cgroup(const char *value, void *dest, struct err *err)
{
	if (strchr(value, '/')) {
		*(const char **) dest = value;
		return 0;
	}
	int i = opt_choice(value, "auto|none", err);

	if (i < 0)
		return i;
	arg_attach.measure.recorder.cgroup = i == 0 ? HIW_CGROUP_AUTO : HIW_CGROUP_NONE;
	return 0;
}

/* ---- the processes --------------------------------------------------------------------------- */

struct pids {
	pid_t pid[PIDS_MOST];
	size_t n;
};

/* Returns 0 or an exit status, after a complaint. */
static int read_pids(int argc, char **argv, struct pids *ret)
{
	for (int i = 0; i < argc; i++) {
		const char *p = argv[i];
		uint64_t pid;

		if (parse_u64(&p, &pid) < 0 || *p || pid < 1 || pid > INT32_MAX) {
			complain("'%s' is not a PID; to attach by name, use hiwater attach --name '%s'",
				argv[i], argv[i]);
			return EXIT_USAGE;
		}
		if (pid == (uint64_t) getpid()) {
			complain("cannot attach to %s: it is hiwater itself", argv[i]);
			return EXIT_USAGE;
		}
		if (ret->n == PIDS_MOST) {
			complain("too many processes: hiwater can attach to at most %d", PIDS_MOST);
			return EXIT_USAGE;
		}
		ret->pid[ret->n++] = (pid_t) pid;
	}
	return 0;
}

static void warn_too_many(struct pids *pids)
{
	if (pids->n <= PIDS_MOST)
		return;
	complain("warning: only the first %d of %zu processes are measured%s", PIDS_MOST, pids->n,
		arg_attach.cgroup ? " from the start, the others of the cgroup a moment later" : "");
	pids->n = PIDS_MOST;
}

static int search(struct pids *ret, struct hiw_err *err)
{
	if (arg_attach.slurm)
		return slurm_find(&arg_attach.slurm_job, ret->pid, PIDS_MOST, &ret->n, err);
	if (arg_attach.name)
		return hwi_pids_by_name(arg_attach.name, ret->pid, PIDS_MOST, &ret->n, err);
	return slurm_find_group(&arg_attach.slurm_job, arg_attach.cgroup, ret->pid, PIDS_MOST, &ret->n, err);
}

/* Searches again until something is found or --wait-start has passed: soon at first, then each
 * second, as a search reads all of /proc. */
static int await_pids(struct pids *ret, struct hiw_err *err)
{
	static const int64_t first_ns = 100000000, longest_ns = 1000000000;
	int64_t waited_ns = 0, pause_ns = first_ns;

	for (;;) {
		const int r = search(ret, err);
		const struct timespec pause = { pause_ns / 1000000000, pause_ns % 1000000000 };

		if (r != -ENOENT || waited_ns >= arg_attach.wait_ns)
			return r;
		(void) nanosleep(&pause, NULL);
		waited_ns += pause_ns;
		pause_ns = 2 * pause_ns < longest_ns ? 2 * pause_ns : longest_ns;
	}
}

static int find_pids(struct pids *ret)
{
	struct hiw_err err = { "" };
	const int r = await_pids(ret, &err);

	if (r < 0) {
		complain("%s", err.text[0] ? err.text : strerror(-r));
		return r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	if (arg_attach.slurm_job.is_group)
		arg_attach.cgroup = arg_attach.slurm_job.cgroup;
	warn_too_many(ret);
	return 0;
}

/* A container has a cgroup of its own, unless that is hidden from here. */
static int find_container(struct pids *ret)
{
	const int r = container_choose(arg_attach.container, arg_attach.container_cgroup,
		sizeof(arg_attach.container_cgroup), ret->pid, PIDS_MOST, &ret->n);

	if (r)
		return r;
	if (arg_attach.container_cgroup[0])
		arg_attach.cgroup = arg_attach.container_cgroup;
	warn_too_many(ret);
	return 0;
}

/* Returns 0 or an exit status. */
static int choose(int argc, char **argv, struct pids *ret)
{
	if (argc == 1 && slurm_parse(argv[0], &arg_attach.slurm_job)) {
		arg_attach.slurm = argv[0];
		argc = 0;
	}
	const int ways = (argc > 0) + (arg_attach.slurm != NULL) + (arg_attach.name != NULL) +
			 (arg_attach.cgroup != NULL) + (arg_attach.container != NULL);

	if (ways != 1) {
		complain("%s PIDs, --name RE, --cgroup PATH, --container NAME or slurm:JOB; see hiwater attach --help",
			ways ? "too many ways to select processes; give only one of"
			     : "no process selected; give");
		return EXIT_USAGE;
	}
	if (argc > 0)
		return read_pids(argc, argv, ret);
	if (arg_attach.wait_ns > 0 && arg_attach.container) {
		complain("--wait-start waits for a job of Slurm, a cgroup or a name, not for a container");
		return EXIT_USAGE;
	}
	return arg_attach.container ? find_container(ret) : find_pids(ret);
}

/* ---- measuring ------------------------------------------------------------------------------- */

struct attach {
	struct measure *measure;
	pid_t main;
	bool limited;                  /* a limit ended a process */
	struct hiw_recorder *recorder;
	bool is_due;                   /* --for has passed */
	int signals, deadline, timer;  /* descriptors; -1: none */
	struct trace_job trace;
	struct where_job where;
};

static int open_signals(void)
{
	static const int handled[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR2, SIGCONT };
	sigset_t set, blocked;

	(void) sigemptyset(&set);
	for (size_t i = 0; i < sizeof(handled) / sizeof(*handled); i++)
		(void) sigaddset(&set, handled[i]);
	blocked = set;
	(void) sigaddset(&blocked, SIGPIPE); /* a closed stderr must not end the measurement */
	(void) sigprocmask(SIG_BLOCK, &blocked, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int open_deadline(int64_t ns)
{
	const struct itimerspec timer = { .it_value = { ns / 1000000000, ns % 1000000000 } };
	int fd = ns > 0 ? timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK) : -1;

	if (fd >= 0)
		(void) timerfd_settime(fd, 0, &timer, NULL);
	return fd;
}

static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void) setrlimit(RLIMIT_NOFILE, &limit);
}

/* Starts measuring. Processes that have ended meanwhile are skipped. Returns 0, or an exit status
 * if none is left. */
static int start(struct attach *a, const struct pids *pids)
{
	size_t started = 0;
	pid_t reader;

	for (size_t i = 0; i < pids->n; i++) {
		struct hiw_err err = { "" };
		int r = hiw_recorder_start(a->recorder, pids->pid[i], &err);

		if (r < 0)
			complain("cannot attach to %d: %s",
				(int) pids->pid[i], err.text[0] ? err.text : strerror(-r));
		else
			a->main = started++ ? a->main : pids->pid[i];
	}
	if (started && a->where.enabled)
		(void) where_hold(&a->where, a->main, &reader);
	return started ? 0 : EXIT_FAILED;
}

static void handle_alerts(struct attach *a)
{
	a->limited |= measure_alerts(a->measure, a->recorder, a->main);
}

/* Processes that got SIGTERM from a limit are waited for, even when --for has passed. */
static bool is_over(const struct attach *a)
{
	if (hiw_recorder_finished(a->recorder) && !slurm_may_go_on(&arg_attach.slurm_job))
		return true;
	return a->is_due && !(a->limited && measure_limit_waits(a->measure, a->recorder));
}

/* Does a signal end the measurement? While a limit waits for processes, it ends their grace
 * instead. */
static bool ends_by_signal(struct attach *a)
{
	if (!a->limited || !measure_cut_grace(a->measure, a->recorder))
		return true;
	handle_alerts(a);
	return false;
}

/* SIGUSR2 triggers: it keeps the full-rate data. SIGCONT explains a gap. Every other signal ends the
 * measurement. */
static bool is_end(struct attach *a)
{
	struct signalfd_siginfo info;

	while (read(a->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR2)
			hiw_recorder_trigger(a->recorder, "SIGUSR2");
		else if (info.ssi_signo == SIGCONT)
			hwi_recorder_continued(a->recorder);
		else
			return ends_by_signal(a);
	}
	return false;
}

static void follow(struct attach *a)
{
	enum {
		STEP,
		SIGNAL,
		DEADLINE,
		TIMER,
		CONTROL,
		OWNER,
		N
	};
	struct control *control = &arg_attach.control;
	struct pollfd fds[N] = {
		[STEP] = { .fd = hiw_recorder_fd(a->recorder), .events = POLLIN },
		[SIGNAL] = { .fd = a->signals, .events = POLLIN },
		[DEADLINE] = { .fd = a->deadline, .events = POLLIN },
		[TIMER] = { .fd = a->timer, .events = POLLIN },
		[CONTROL] = { .fd = control->fd, .events = POLLIN },
		[OWNER] = { .fd = control->owner, .events = POLLIN },
	};

	while (!is_over(a)) {
		uint64_t expirations;

		if (await(fds, N, NULL) < 0)
			continue;
		if (fds[DEADLINE].revents && read(a->deadline, &expirations, sizeof(expirations)) > 0) {
			a->is_due = true;
			fds[DEADLINE].fd = -1;
		}
		if (fds[SIGNAL].revents && is_end(a))
			return;
		if (fds[STEP].revents) {
			hiw_recorder_step(a->recorder);
			handle_alerts(a);
			measure_warnings(a->measure, a->recorder);
			slurm_join(&arg_attach.slurm_job, a->recorder);
		}
		if (control->fd >= 0 && control_step(control, a->measure, a->recorder) == CONTROL_END)
			return;
		if (fds[TIMER].revents && read(a->timer, &expirations, sizeof(expirations)) > 0)
			measure_progress(a->measure, a->recorder);
	}
}

static void finish(struct attach *a)
{
	struct hiw_err err = { "" };
	int r = hiw_recorder_end(a->recorder, &err);

	if (r < 0 && !a->measure->quiet)
		complain("warning: %s", err.text[0] ? err.text : strerror(-r));
	handle_alerts(a);
	measure_warnings(a->measure, a->recorder);
	measure_report(a->measure, a->recorder);
	if (arg_attach.control.fd >= 0)
		control_finish(&arg_attach.control, a->measure, a->recorder);
}

static int measure_pids(struct attach *a, const struct pids *pids)
{
	autoclose int signals = open_signals();
	autoclose int deadline = open_deadline(arg_attach.for_ns);
	autoclose int timer = measure_timer(&arg_attach.measure);
	int r;

	a->signals = signals;
	a->deadline = deadline;
	a->timer = timer;
	actions_begin(&a->measure->actions);
	a->measure->actions.reaps = true;
	raise_file_limit();
	r = start(a, pids);
	if (r == 0) {
		if (arg_attach.control.fd >= 0)
			control_began(&arg_attach.control, a->recorder, (const char *const *) a->trace.owned,
				a->trace.n_owned);
		follow(a);
		finish(a);
	}
	return r == 0 && a->limited ? EXIT_LIMIT : r;
}

/* Makes the recorder. With --control this overlaps with the owner's preparations before its request
 * to begin. Returns 0 or an exit status. */
static int prepare(struct attach *a)
{
	struct hiw_err err = { "" };
	int r;

	if (measure_prepare(a->measure) < 0)
		return EXIT_USAGE;
	if (trace_prepare(&a->trace, &arg_attach.trace, false, false) < 0)
		return EXIT_FAILED;
	if (where_prepare(&a->where, &arg_attach.where, false, false, &a->trace.what.sampling) < 0)
		return EXIT_FAILED;
	a->trace.what.sampling.attaches = true;
	r = hwi_recorder_new_traced(&a->measure->recorder, HWI_PART_NONE, &a->trace.what, &a->recorder, &err);
	a->where.recorder = a->recorder;
	if (r < 0)
		complain("%s", err.text[0] ? err.text : strerror(-r));
	else
		r = trace_environment(&a->trace, a->recorder, false);
	return r < 0 ? EXIT_FAILED : 0;
}

static int attach_main(int argc, char **argv)
{
	struct attach a = { .measure = &arg_attach.measure };
	struct pids pids = { .n = 0 };
	int r = choose(argc, argv, &pids);

	if (r)
		return r;
	if (arg_attach.measure.recorder.output && arg_attach.measure.recorder.no_record) {
		complain(
			"-o and --no-record exclude each other; give one of them; see hiwater attach --help");
		return EXIT_USAGE;
	}
	if (arg_attach.where.python) {
		complain("--where: Python names its functions only if it was started so; use: hiwater run --where=python");
		return EXIT_USAGE;
	}
	if (arg_attach.where.enabled && arg_attach.measure.recorder.no_record) {
		complain("--where needs the recording; leave --no-record out");
		return EXIT_USAGE;
	}
	if (arg_attach.control.fd < 0 && (arg_attach.trace.what.layers || arg_attach.trace.n_windows)) {
		trace_refuse();
		return EXIT_USAGE;
	}
	if (trace_option_alone(&arg_attach.trace)) {
		complain("%s is for --trace; give both", trace_option_alone(&arg_attach.trace));
		return EXIT_USAGE;
	}
	if (arg_attach.control.fd >= 0 && control_leave(&arg_attach.control) < 0)
		return EXIT_FAILED;
	arg_attach.measure.recorder.attached = true;
	arg_attach.measure.recorder.degrade = arg_attach.control.fd < 0; /* an owner handles errors itself */
	arg_attach.measure.recorder.by_block = arg_attach.control.fd >= 0;
	arg_attach.measure.recorder.cgroup_path = arg_attach.cgroup;
	if (arg_attach.slurm_job.is_slurm) {
		arg_attach.measure.recorder.slurm_pid = pids.pid[0];
		arg_attach.measure.recorder.slurm_whole_job = !arg_attach.slurm_job.is_step;
	}
	r = prepare(&a);
	/* The owner reads errors only after its request to begin, so wait for it also on
	 * failure. */
	if (arg_attach.control.fd >= 0 && control_wait(&arg_attach.control) < 0)
		r = EXIT_FAILED;
	if (r == 0)
		r = measure_pids(&a, &pids);
	where_end(&a.where);
	trace_done(&a.trace);
	hiw_recorder_free(a.recorder);
	return r;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct opt opts[] = {
	{ 0, "control", OPT_TEXT, "FD", NULL, parse_control, &arg_attach.control },
	{ 0, "trace", OPT_OPTIONAL, "WHAT", NULL, parse_trace, &arg_attach.trace },
	{ 0, "trace-window", OPT_TEXT, "WINDOW", NULL, parse_trace_window, &arg_attach.trace },
	{ 0, "where", OPT_OPTIONAL, "HOW",
		"sample which functions touch memory first, from now on; HOW is a list of fine, stack=SIZE; see hiwater-where(1)",
		parse_where, &arg_attach.where },
	{ 0, "by-cell", OPT_NONE, NULL, NULL, opt_flag, &arg_attach.measure.recorder.by_cell },
	{ 0, "name", OPT_TEXT, "RE",
		"measure the processes whose name or command line matches the extended regular expression RE",
		opt_text, (void *) &arg_attach.name },
	{ 0, "cgroup", OPT_TEXT, "PATH|auto|none",
		"measure the processes of a cgroup (a value with a /); or: use the cgroup of the "
		"processes if they have it to themselves, or use none (auto)",
		parse_cgroup, (void *) &arg_attach.cgroup },
	{ 0, "container", OPT_TEXT, "NAME|ID",
		"measure the processes of a container: by id (12 digits are enough), or by name, for which docker, "
		"podman or nerdctl is asked",
		opt_text, (void *) &arg_attach.container },
	{ 0, "for", OPT_TEXT, "SPAN", "stop after this time, for example 10m", parse_for,
		&arg_attach.for_ns },
	{ 0, "wait-start", OPT_TEXT, "SPAN",
		"wait so long for the first process of the Slurm job, the cgroup or the name, for example 5m", parse_for,
		&arg_attach.wait_ns },
	{ 0, "exact", OPT_NONE, NULL,
		"reset the kernel's high-water mark (VmHWM) of the first process now, which makes its peak "
		"exact; this also lowers the maximum that getrusage reports for that process",
		opt_flag, &arg_attach.measure.recorder.reset_hwm },
	MEASURE_ROWS(arg_attach.measure),
	{ 0 },
};

static const char *const prose[] = {
	"Measures running processes, and the processes that they start from now on, without interfering "
	"with them; with --cgroup and --container also processes that enter the cgroup later. It stops when the last of "
	"them has ended, after --for, or with Ctrl-C, and then prints the summary. The processes keep "
	"running.",
	"slurm:JOB measures all processes of a Slurm job on this node, slurm:JOB.STEP those of a step (a number, or batch): by their "
	"cgroup, else by the environment. The job's number, node and user are those of the recording, also with --cgroup if that is "
	"the group of a Slurm job. A job's group is measured until it is removed, also while no step runs.",
	"SIGUSR2 keeps the last five minutes at full rate, and the run in the history; hiwater show then "
	"lists which processes used the memory.",
	"The kernel's high-water mark of a process covers its whole life: a peak before the attach is not "
	"counted as a peak of this run. --exact resets the high-water mark first.",
	RULE_PROSE,
	"The exit status is 0, 1 if nothing could be measured, 124 if a limit ended the processes, 2 for an "
	"invalid command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater attach 4711",
	"measure process 4711 from now on",
	"hiwater attach --name 'python .*train' --for 10m",
	"all processes of that command, for ten minutes",
	"hiwater attach 4711 --alert 'growth(ram) > 10MiB/min' --on-alert ./notify-me",
	"run a script when memory keeps growing",
	"hiwater attach --cgroup /user.slice/job.scope --progress",
	"a whole cgroup, with a progress line every ten seconds",
	"hiwater attach --container web --for 10m",
	"everything in the container called web, for ten minutes",
	"srun --overlap --jobid=47 --ntasks-per-node=1 hiwater attach -o d/ slurm:47",
	"a running Slurm job, on each of its nodes",
	NULL,
};

const struct command command_attach = {
	.name = "attach",
	.usage = "[options] PID... | --name RE | --cgroup PATH | --container NAME | slurm:JOB[.STEP]",
	.sentence = "measure running processes",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = attach_main,
};
