/* SPDX-License-Identifier: MIT */
#include "cli/run/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/internal.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* How long after a Ctrl-Z a stop of main is still attributed to it. */
static const uint64_t stop_patience_ns = UINT64_C(30000000000);

static void note_reaped(
	struct tree *t, struct signals *signals, pid_t pid, int status, const struct rusage *usage)
{
	const bool is_main = pid == t->main && !t->main_ended;

	if (t->live && pid == t->live->view)
		live_left(t->live, status); /* the PID may be reused from here on */
	if (t->recorder)
		hiw_recorder_reaped(t->recorder, pid, status, usage);
	if (!is_main)
		return;
	t->main_ended = true;
	t->status = status;
	t->usage = *usage;
	t->stop_signal = 0;
	signals_end(signals);
}

static void reap_ended(struct tree *t, struct signals *signals, pid_t pid)
{
	struct rusage usage;
	int status;

	if (signals_lost_probe(signals, pid))
		return;
	if (t->recorder)
		hiw_recorder_zombie(t->recorder, pid);
	if (wait4(pid, &status, __WALL | WNOHANG, &usage) == pid)
		note_reaped(t, signals, pid, status, &usage);
}

/* Consumes a stop or continuation; those of orphans are ignored. */
static void handle_stop(struct tree *t, pid_t pid)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t) pid, &info, WSTOPPED | WCONTINUED | WNOHANG | __WALL) < 0 ||
		info.si_pid != t->main)
		return;
	t->stop_signal = info.si_code == CLD_STOPPED ? info.si_status : 0;
}

/* Where a sandbox refuses waitid: without the last values of zombies. */
static void reap_unseen(struct tree *t, struct signals *signals)
{
	struct rusage usage;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WUNTRACED | WCONTINUED | WNOHANG | __WALL, &usage)) > 0) {
		const bool has_ended = WIFEXITED(status) || WIFSIGNALED(status);

		if (has_ended && !signals_lost_probe(signals, pid))
			note_reaped(t, signals, pid, status, &usage);
		else if (!has_ended && pid == t->main)
			t->stop_signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
	}
	t->childless = pid < 0 && errno == ECHILD;
}

void tree_reap(struct tree *t, struct signals *signals)
{
	const int all = WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT | __WALL;

	for (;;) {
		siginfo_t info = { 0 };

		if (waitid(P_ALL, 0, &info, all) < 0) {
			t->childless = errno == ECHILD;
			if (!t->childless)
				reap_unseen(t, signals);
			return;
		}
		if (info.si_pid == 0) {
			if (t->main_ended && t->recorder && hiw_recorder_helper(t->recorder) > 0)
				t->childless = !hwi_recorder_has_children(t->recorder);
			return;
		}
		if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
			reap_ended(t, signals, info.si_pid);
		else
			handle_stop(t, info.si_pid);
	}
}

/* A shell with job control gives each command a process group, and the terminal to the one in the
 * foreground. */
static bool is_foreground_job(void)
{
	autoclose int terminal = -1;

	if (getpgrp() != getpid())
		return false;
	terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	return terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
}

bool tree_wants_stop(const struct tree *t, const struct signals *signals)
{
	const bool requested = signals->stop_requested_ns &&
			       clock_boot_ns() - signals->stop_requested_ns < stop_patience_ns;

	if (t->main_ended)
		return requested;
	if (!t->stop_signal)
		return false;
	return requested || (t->stop_signal != SIGSTOP && is_foreground_job());
}
