/* SPDX-License-Identifier: MIT
 *
 * One run of the job: starts it, follows it to its end, reports its summary.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/run/child.h"
#include "cli/run/descriptors.h"
#include "cli/run/endpoint.h"
#include "cli/run/live.h"
#include "cli/run/node.h"
#include "cli/run/run.h"
#include "cli/run/signals.h"
#include "cli/run/tree.h"

/* The state of one run. */
struct run {
	const struct run_options *options;
	char *const *argv;
	const char *outer_socket;  /* HIWATER_SOCKET of an enclosing run; NULL: none */
	int was_subreaper;         /* hiwater's PR_GET_CHILD_SUBREAPER before this run */
	struct hiw_recorder *recorder;
	struct node node;          /* in a job of several ranks */
	char lack[600];            /* why hiwater must become the job; "": it need not */
	bool measuring;            /* the recorder was started */
	char cgroup[4096];         /* made for this run; "" if none */
	int cgroup_procs, cgroup_dir;
	struct signals signals;
	struct tree tree;
	int timer;
	struct measure watching;   /* a copy: the alerts printed and the commands running in this run */
	bool limited;              /* a limit ended the job */
	struct live live;
	struct endpoint endpoint;
	struct sender sender;
	struct trace_job trace;
	struct where_job where;
};

/* ---- before the job -------------------------------------------------------------------------- */

/* The job cannot be started as a child; hiwater becomes it, unless the command line is wrong. Returns
 * EXIT_BEFORE_JOB. */
static int not_started(struct run *r, int error, const char *prefix, const char *why)
{
	why = why[0] ? why : strerror(-error);
	if (error == -EINVAL)
		complain("%s%s; the job was not started", prefix, why);
	else
		(void) snprintf(r->lack, sizeof(r->lack), "%s%s", prefix, why);
	return EXIT_BEFORE_JOB;
}

/* Returns 0; with --strict also -errno. */
static int make_cgroup(struct run *r, struct hiw_options *o)
{
	struct hiw_err err = { "" };
	int error;

	if (r->options->cgroup == RUN_CGROUP_NONE)
		o->cgroup = HIW_CGROUP_NONE;
	if (r->options->cgroup != RUN_CGROUP_NEW)
		return 0;
	error = hwi_cgroup_make(r->cgroup, sizeof(r->cgroup), &r->cgroup_procs, &r->cgroup_dir, &err);
	if (error == 0) {
		o->cgroup_made = r->cgroup;
		return 0;
	}
	r->cgroup[0] = '\0';
	if (r->options->strict) {
		complain("%s; the job was not started (--strict)", err.text);
		return error;
	}
	if (!r->options->measure.quiet)
		complain("warning: %s; the job runs in the cgroup of hiwater", err.text);
	return 0;
}

static void close_if_open(int *fd)
{
	if (*fd >= 0)
		(void) close(*fd);
	*fd = -1;
}

/* The view and the endpoint show what this rank's recorder reads, while it runs. */
static bool is_watched(const struct run_options *o)
{
	return o->live || o->endpoint.listen;
}

/* Does everything that can fail before the job is started. Returns 0, or -errno after a
 * complaint. */
static int prepare(struct run *r)
{
	struct hiw_options o = r->options->measure.recorder;
	struct hiw_err err = { "" };
	int error = make_cgroup(r, &o);

	if (error < 0)
		return error;
	o.argv = (const char *const *) r->argv;
	node_prepare(&r->node, &r->options->measure, o.argv);
	const bool is_light = !is_watched(r->options) && node_lighten(&r->node, &o);

	error = trace_prepare(&r->trace, &r->options->trace, r->options->strict, r->options->measure.quiet);
	if (error == 0)
		error = where_prepare(&r->where, &r->options->where, r->options->strict,
			r->options->measure.quiet, &r->trace.what.sampling);
	if (error < 0)
		return error;
	error = hwi_recorder_new_traced(
		&o, node_own_part(&r->node, &r->options->ranks), &r->trace.what, &r->recorder, &err);
	if (error < 0) {
		(void) not_started(r, error, "", err.text);
		return error;
	}
	r->where.recorder = r->recorder;
	if (is_light)
		hwi_recorder_gpus_by_node(r->recorder);
	const char *socket = hiw_recorder_socket(r->recorder);

	if (*socket && setenv("HIWATER_SOCKET", socket, 1) < 0) {
		(void) not_started(r, -ENOMEM, "cannot set HIWATER_SOCKET: ", "");
		return -ENOMEM;
	}
	if (trace_environment(&r->trace, r->recorder, r->options->measure.quiet) < 0) {
		(void) not_started(r, -ENOMEM, "cannot make the environment of the job: ", "");
		return -ENOMEM;
	}
	(void) prctl(PR_SET_CHILD_SUBREAPER, r->options->no_subreaper ? 0UL : 1UL);
	error = endpoint_prepare(&r->endpoint, r->options->strict);
	if (error < 0)
		return error;
	error = sender_prepare(&r->sender, &r->options->otlp, r->options->strict, r->options->measure.quiet);
	if (error < 0)
		return error;
	return r->options->live ? live_prepare(&r->live, r->options->strict, r->options->measure.quiet) : 0;
}

/* As child_start. Also a group that hiwater could make may refuse the job. */
static int start_child(struct run *r, struct launch *launch, bool *ret_forked)
{
	const int error = child_start(launch, &r->tree.main, ret_forked);
	int again;

	if (error == 0 || *ret_forked || !r->cgroup[0] || r->options->strict)
		return error;
	launch->cgroup_procs = launch->cgroup_dir = -1;
	again = child_start(launch, &r->tree.main, ret_forked);
	if (again == 0 && !r->options->measure.quiet)
		complain("warning: the job cannot enter the new cgroup: %s; it runs in the cgroup of hiwater",
			strerror(-error));
	return again;
}

/* Returns 0, or hiwater's exit status if the job was not started. */
static int start_job(struct run *r)
{
	enum {
		PROCESSES_NEEDED = 16 /* of which the job is one */
	};
	static const char few[] = "fewer than 16 more are allowed (ulimit -u, or the limit of the container)";
	struct launch launch = {
		.argv = r->argv,
		.inherited = &r->options->inherited,
		.environment = r->trace.environment,
		.kept = r->trace.fd,
		.streams = r->live.streams,
		.hold = r->where.enabled ? where_hold : NULL,
		.hold_ctx = &r->where,
		.cgroup_procs = r->cgroup_procs,
		.cgroup_dir = r->cgroup_dir,
		.spare_processes = r->options->strict ? 0 : PROCESSES_NEEDED - 1,
	};
	bool forked;
	int error = tree_can_reap();

	if (error < 0)
		return not_started(r, error == -EINVAL ? -ENOSYS : error, "cannot wait for processes: ", "");
	error = signals_block(&r->signals);
	if (error < 0)
		return not_started(r, error == -EINVAL ? -ENOSYS : error, "cannot read signals: ", "");
	if (!r->options->strict && hwi_recorder_processes_left(r->recorder) < PROCESSES_NEEDED)
		return not_started(r, -EAGAIN, "cannot start processes: ", few);
	hiw_recorder_forking(r->recorder);
	error = start_child(r, &launch, &forked);
	close_if_open(&r->cgroup_procs);
	if (error == 0)
		return 0;
	if (forked)
		return run_exec_failed(r->argv[0], error);
	return not_started(r, error == -EINVAL ? -EAGAIN : error, "cannot start processes: ",
		error == -EAGAIN ? few : strerror(-error));
}

/* ---- while it runs --------------------------------------------------------------------------- */

/* If the recorder cannot start, the job runs unmeasured. */
static void begin_measuring(struct run *r)
{
	struct hiw_err err = { "" };
	int error;

	live_begin(&r->live);
	signals_begin(&r->signals, r->tree.main, r->recorder);
	error = hiw_recorder_start(r->recorder, r->tree.main, &err);
	r->measuring = error == 0;
	if (error < 0 && !r->options->measure.quiet)
		complain("warning: the job is not measured: %s", err.text[0] ? err.text : strerror(-error));
	r->tree.recorder = r->measuring ? r->recorder : NULL;
	if (r->measuring)
		measure_warnings(&r->options->measure, r->recorder);
	r->timer = r->measuring ? measure_timer(&r->options->measure) : -1;
	if (r->measuring)
		node_begin(&r->node, r->tree.main, r->recorder);
	r->tree.node = &r->node;
}

static void drain(int fd)
{
	char bytes[4096];

	while (read(fd, bytes, sizeof(bytes)) > 0)
		;
}

static void handle_alerts(struct run *r)
{
	r->limited |= measure_alerts(&r->watching, r->recorder, r->tree.main_ended ? 0 : r->tree.main);
}

static void step(struct run *r)
{
	hiw_recorder_step(r->recorder);
	handle_alerts(r);
	measure_warnings(&r->options->measure, r->recorder);
	endpoint_step(&r->endpoint, r->recorder, &r->options->inherited);
	node_try(&r->node, r->recorder);
	sender_step(&r->sender, r->recorder, &r->options->inherited);
	if (!r->tree.main_ended)
		live_step(&r->live, r->recorder, &r->options->inherited);
}

static void print_progress(struct run *r)
{
	drain(r->timer);
	measure_progress(&r->options->measure, r->recorder);
}

/* Have all processes of the job ended? Commands of --on-alert, the endpoint, the sender of --otlp, the helper
 * of the node's recorder, and children that hiwater had before the job, are children as well, and init may
 * have adopted orphans: then the recorder decides by its last sample. */
static bool has_ended(const struct run *r)
{
	const bool has_others = r->watching.actions.n > 0 || r->endpoint.pid || r->sender.pid ||
				r->where.pid || r->node.recorder || r->options->no_subreaper;

	if (!r->options->no_subreaper &&
		(r->tree.childless || (r->measuring && !hwi_recorder_has_children(r->recorder))))
		return true;
	return has_others && (!r->measuring || hiw_recorder_finished(r->recorder));
}

/* A limit ended main, and other processes that got SIGTERM may still be running. */
static bool is_ending(const struct run *r)
{
	return r->tree.main_ended && r->limited && !has_ended(r) &&
	       measure_limit_waits(&r->watching, r->recorder);
}

/* A signal to end after main's end is meant for the remaining processes: the grace of the limit
 * ends now. */
static void cut_grace(struct run *r)
{
	if (r->signals.end_requested_late && is_ending(r) && measure_cut_grace(&r->watching, r->recorder))
		handle_alerts(r);
}

static bool is_over(const struct run *r)
{
	if (!r->tree.main_ended || is_ending(r))
		return false;
	return !r->options->wait || has_ended(r) || r->signals.end_requested;
}

/* Stops hiwater if the job was stopped in a way that the shell must see (tree_wants_stop). */
static void follow_stop(struct run *r)
{
	if (r->signals.due_ns || is_over(r) || !tree_wants_stop(&r->tree, &r->signals))
		return;
	if (r->measuring)
		hiw_recorder_step(r->recorder);
	live_stop(&r->live);
	signals_stop_self(&r->signals);
	live_continue(&r->live);
	r->tree.stop_signal = 0;
}

static void follow(struct run *r)
{
	enum {
		CHILD,
		SIGNAL,
		STEP,
		NODE,
		TIMER,
		N
	};
	struct pollfd fds[N] = {
		[CHILD] = { .fd = r->signals.child_fd, .events = POLLIN },
		[SIGNAL] = { .events = POLLIN },
		[STEP] = { .fd = r->measuring ? hiw_recorder_fd(r->recorder) : -1, .events = POLLIN },
		[NODE] = { .events = POLLIN },
		[TIMER] = { .fd = r->timer, .events = POLLIN },
	};

	r->tree.live = &r->live;
	r->tree.endpoint = &r->endpoint;
	r->tree.sender = &r->sender;
	r->tree.where = &r->where;
	tree_reap(&r->tree, &r->signals);
	while (!is_over(r)) {
		struct timespec timeout;

		fds[SIGNAL].fd = r->signals.due_ns ? -1 : r->signals.fd;
		fds[NODE].fd = node_fd(&r->node);
		if (await(fds, N, signals_timeout(&r->signals, &timeout)) < 0)
			continue;
		if (fds[CHILD].revents) {
			drain(r->signals.child_fd);
			tree_reap(&r->tree, &r->signals);
		}
		if (fds[SIGNAL].revents)
			signals_read(&r->signals);
		cut_grace(r);
		signals_check(&r->signals, clock_boot_ns());
		follow_stop(r);
		if (fds[STEP].revents && !is_over(r)) /* a sample now would be after main's end */
			step(r);
		if (fds[NODE].fd >= 0 && fds[NODE].revents)
			node_step(&r->node, r->recorder);
		if (fds[TIMER].revents)
			print_progress(r);
		if (r->tree.main_ended)
			live_end(&r->live);
	}
}

/* ---- after the job --------------------------------------------------------------------------- */

static void report(struct run *r, struct outcome *ret)
{
	struct measure of_rank = r->options->measure;
	const struct measure *m = &of_rank;
	struct hiw_err err = { "" };
	int error = hiw_recorder_end(r->recorder, &err);

	if (error < 0 && !m->quiet)
		complain("warning: %s", err.text[0] ? err.text : strerror(-error));
	sender_finish(&r->sender, r->recorder, &r->options->inherited);
	handle_alerts(r);
	measure_warnings(m, r->recorder);
	node_end(&r->node);
	if (of_rank.summary == SUMMARY_DEFAULT)
		of_rank.summary = node_summary_kind(&r->node);
	signals_allow_faults();
	measure_report(m, r->recorder);
	node_report(&r->node, r->recorder);
	sender_end(&r->sender);
	where_end(&r->where);
	if (r->options->repeat == 1)
		return;
	ret->figures.size = sizeof(ret->figures);
	ret->measured = hiw_run_figures(hiw_recorder_run(r->recorder), &ret->figures) == 0;
}

/* The job was not measured, though hiwater waited for it. */
static void report_usage(const struct run *r)
{
	const struct measure *m = &r->options->measure;
	const struct rusage *u = &r->tree.usage;
	char cpu[UNITS_LEN], ram[UNITS_LEN];

	if (m->summary == SUMMARY_NONE)
		return;
	(void) units_duration((int64_t) (u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000000 +
				      (int64_t) (u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1000,
		cpu);
	(void) units_bytes((int64_t) u->ru_maxrss * 1024, (enum units) m->units, ram);
	complain("the kernel reports %s of CPU time, and %s of RAM for the largest process", cpu, ram);
}

/* The kernel removes a process from its cgroup shortly after its end, hence the retries. A process
 * that is still running keeps the cgroup. */
static void remove_cgroup(const struct run *r)
{
	enum {
		TRIES = 50
	};
	static const struct timespec moment = { .tv_nsec = 1000000 };
	int error = hwi_cgroup_remove(r->cgroup);
	size_t left = 0;
	pid_t pid;

	for (int i = 0; i < TRIES && error == -EBUSY; i++) {
		if (hwi_pids_by_cgroup(r->cgroup, &pid, 1, &left, NULL) == 0)
			break;
		(void) ppoll(NULL, 0, &moment, NULL);
		error = hwi_cgroup_remove(r->cgroup);
	}
	if (left)
		complain(
			"warning: cannot remove the cgroup %s: %zu of the job's processes are still running in it",
			r->cgroup, left);
	else if (error < 0 && error != -ENOENT)
		complain("warning: cannot remove the cgroup %s: %s", r->cgroup, strerror(-error));
}

static void clean_up(struct run *r)
{
	signals_end(&r->signals);
	signals_close(&r->signals);
	node_leave(&r->node);
	live_end(&r->live); /* if the job was not started */
	trace_done(&r->trace);
	hiw_recorder_free(r->recorder);
	where_end(&r->where);
	close_if_open(&r->cgroup_procs);
	close_if_open(&r->cgroup_dir);
	if (r->timer >= 0)
		(void) close(r->timer);
	if (r->cgroup[0])
		remove_cgroup(r);
}

/* As the job would find it without hiwater. */
static void restore_environment(const struct run *r)
{
	(void) prctl(PR_SET_CHILD_SUBREAPER, (unsigned long) r->was_subreaper);
	(void) (r->outer_socket ? setenv("HIWATER_SOCKET", r->outer_socket, 1) : unsetenv("HIWATER_SOCKET"));
}

void run_once(const struct run_options *options, char *const *argv, struct outcome *ret)
{
	struct run r = {
		.options = options,
		.argv = argv,
		.outer_socket = getenv("HIWATER_SOCKET"),
		.cgroup_procs = -1,
		.cgroup_dir = -1,
		.timer = -1,
		.watching = options->measure,
		.signals = { .fd = -1, .child_fd = -1 },
		.live = LIVE_NONE,
		.endpoint = options->endpoint,
		.node = NODE_NONE,
		.sender = SENDER_NONE,
		.trace = { .fd = -1 },
	};

	*ret = (struct outcome) { 0 };
	(void) prctl(PR_GET_CHILD_SUBREAPER, &r.was_subreaper);
	ret->own = prepare(&r) < 0 ? EXIT_BEFORE_JOB : start_job(&r);
	if (ret->own == 0) {
		if (options->is_last)
			descriptors_release();
		begin_measuring(&r);
		follow(&r);
		ret->status = r.tree.status;
		ret->end_requested = r.signals.end_requested;
		signals_end(&r.signals);
		live_end(&r.live);
		endpoint_end(&r.endpoint);
		if (r.measuring)
			report(&r, ret);
		else
			report_usage(&r);
	}
	ret->limited = r.limited;
	clean_up(&r);
	if (r.lack[0]) {
		restore_environment(&r);
		memcpy(ret->lack, r.lack, sizeof(ret->lack));
	}
}
