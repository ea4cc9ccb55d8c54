/* SPDX-License-Identifier: MIT */
#include "cli/run/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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
	if (t->endpoint && pid == t->endpoint->pid)
		endpoint_left(t->endpoint);
	if (t->sender && pid == t->sender->pid)
		sender_left(t->sender);
	if (t->where && pid == t->where->pid)
		where_left(t->where);
	if (t->recorder)
		hiw_recorder_reaped(t->recorder, pid, status, usage);
	if (t->node)
		node_reaped(t->node, pid, status);
	if (!is_main)
		return;
	t->main_ended = true;
	t->status = status;
	t->usage = *usage;
	t->stop_signal = 0;
	signals_end(signals);
}

/* As wait4 has it. */
static int status_of(const siginfo_t *info)
{
	enum {
		DUMPED = 0x80
	};

	if (info->si_code == CLD_EXITED)
		return (info->si_status & 0xff) << 8;
	return info->si_status | (info->si_code == CLD_DUMPED ? DUMPED : 0);
}

/* Where a sandbox refuses wait4: the system call waitid has the usage too, its function in the C library has
 * not. */
static bool reap(pid_t pid, int *ret_status, struct rusage *ret_usage)
{
	const int ended = WEXITED | WNOHANG | __WALL;
	siginfo_t info = { 0 };

	if (wait4(pid, ret_status, __WALL | WNOHANG, ret_usage) == pid)
		return true;
	if (syscall(SYS_waitid, P_PID, pid, &info, ended, ret_usage) < 0 || info.si_pid != pid)
		return false;
	*ret_status = status_of(&info);
	return true;
}

/* Returns false if the process stays a zombie: the next waitid would report it again. */
static bool reap_ended(struct tree *t, struct signals *signals, const siginfo_t *info)
{
	struct rusage usage = { 0 };
	const pid_t pid = info->si_pid;
	int status = status_of(info);

	if (signals_lost_probe(signals, pid))
		return true;
	if (t->recorder)
		hiw_recorder_zombie(t->recorder, pid);
	const bool is_reaped = reap(pid, &status, &usage);

	if (is_reaped || (pid == t->main && !t->main_ended))
		note_reaped(t, signals, pid, status, &usage);
	return is_reaped;
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

int tree_can_reap(void)
{
	siginfo_t info;

	/* hiwater is no child of its own, so that ECHILD is the answer where the call is allowed */
	if (wait4(getpid(), NULL, WNOHANG, NULL) >= 0 || errno == ECHILD)
		return 0;
	return waitid(P_PID, (id_t) getpid(), &info, WEXITED | WNOHANG) < 0 && errno != ECHILD ? -errno : 0;
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
		if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) {
			if (!reap_ended(t, signals, &info))
				return;
		} else {
			handle_stop(t, info.si_pid);
		}
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
