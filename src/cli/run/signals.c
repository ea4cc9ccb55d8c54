/* SPDX-License-Identifier: MIT */
#include "cli/run/signals.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/internal.h"
#include "base/clock.h"

/* Long enough for a sender that signals one process after the other to reach the probe, even if
 * every CPU is busy with the job. The check ends earlier if the probe has the signal. */
static const uint64_t check_ns = 10000000;

static uint64_t bit(int signal)
{
	return UINT64_C(1) << (signal - 1);
}

/* The signals whose default action is to stop. SIGCONT cancels pending ones, and each of them
 * cancels a pending SIGCONT. */
static uint64_t stop_bits(void)
{
	return bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
}

/* ---- blocking signals ------------------------------------------------------------------------ */

int signals_block(struct signals *s)
{
	const struct sigaction normal = { .sa_handler = SIG_DFL };
	sigset_t all, child, before;

	s->fd = s->child_fd = -1;
	(void) sigfillset(&all);
	(void) sigemptyset(&child);
	(void) sigaddset(&child, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &all, &before) < 0)
		return -errno;
	/* If SIGCHLD is ignored, the kernel discards exit statuses. */
	(void) sigaction(SIGCHLD, &normal, NULL);
	(void) sigdelset(&all, SIGCHLD);
	s->fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	s->child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->fd >= 0 && s->child_fd >= 0)
		return 0;
	int r = -errno;

	signals_close(s);
	(void) sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}

void signals_allow_faults(void)
{
	const struct timespec none = { 0 };
	sigset_t fault;

	(void) sigemptyset(&fault);
	(void) sigaddset(&fault, SIGBUS);
	while (sigtimedwait(&fault, NULL, &none) > 0) /* one that was sent: too late to be forwarded */
		;
	(void) sigprocmask(SIG_UNBLOCK, &fault, NULL);
}

static void start_probe(struct signals *s, struct group_probe *p)
{
	group_probe_start(p);
	if (p->pid > 0 && s->recorder)
		hiw_recorder_ignore(s->recorder, p->pid);
}

static void end_probes(struct group_probe p[2])
{
	group_probe_end(&p[0]);
	group_probe_end(&p[1]);
}

void signals_begin(struct signals *s, pid_t main, struct hiw_recorder *recorder)
{
	s->main = main;
	s->recorder = recorder;
	start_probe(s, &s->now[0]);
}

void signals_end(struct signals *s)
{
	s->main = 0;
	s->due_ns = s->stop_requested_ns = 0;
	s->n = 0;
	for (size_t i = 0; i < 2; i++) {
		group_probe_kill(&s->now[i]);
		group_probe_kill(&s->checked[i]);
	}
}

void signals_close(struct signals *s)
{
	end_probes(s->now);
	end_probes(s->checked);
	if (s->fd >= 0)
		(void) close(s->fd);
	if (s->child_fd >= 0)
		(void) close(s->child_fd);
	s->fd = s->child_fd = -1;
}

bool signals_lost_probe(struct signals *s, pid_t pid)
{
	struct group_probe *const all[] = { &s->now[0], &s->now[1], &s->checked[0], &s->checked[1] };
	struct group_probe lost[2] = { { 0 } };

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (all[i]->pid != pid)
			continue;
		lost[0] = *all[i];
		*all[i] = (struct group_probe) { 0 };
		end_probes(lost);
		if (i == 0 && s->main > 0)
			start_probe(s, &s->now[0]);
		return true;
	}
	return false;
}

/* ---- forwarding a signal --------------------------------------------------------------------- */

/* Need not be forwarded: the kernel and the terminal send signals to all processes concerned, with
 * three exceptions. A hang-up and the SIGCONT with it go to the session leader only, and a timer
 * set before the exec expires here instead of in the job. */
static bool is_settled(const struct signalfd_siginfo *info)
{
	const int signal = (int) info->ssi_signo;

	if (info->ssi_code <= 0)
		return info->ssi_pid == (uint32_t) getpid(); /* SIGPIPE, SIGXFSZ of our own writing */
	if (signal == SIGALRM)
		return false;
	return !((signal == SIGHUP || signal == SIGCONT) && getsid(0) == getpid());
}

/* Ignored because of nohup, or as a background job of a shell without job control. */
static bool is_ignored(int signal)
{
	struct sigaction action;

	return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void note_end(struct signals *s, int signal)
{
	if (is_ignored(signal))
		return;
	s->end_requested = true;
	s->end_requested_late = s->main <= 0;
}

static void note(struct signals *s, int signal)
{
	if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT)
		note_end(s, signal);
	else if (bit(signal) & stop_bits())
		s->stop_requested_ns = clock_boot_ns();
	else if (signal == SIGCONT) {
		s->stop_requested_ns = 0;
		if (s->recorder)
			hwi_recorder_continued(s->recorder);
	}
}

/* Keeps the value that sigqueue(3) sends. */
static void forward(const struct signals *s, const struct signalfd_siginfo *from)
{
	const int signal = (int) from->ssi_signo;

	if (s->main <= 0)
		return;
	if (from->ssi_code == SI_QUEUE) {
		siginfo_t info;

		memset(&info, 0, sizeof(info));
		info.si_signo = signal;
		info.si_code = SI_QUEUE;
		info.si_pid = (pid_t) from->ssi_pid;
		info.si_uid = from->ssi_uid;
		/* an integer is its first half */
		info.si_value.sival_ptr = (void *) (uintptr_t) from->ssi_ptr;
		if (syscall(SYS_rt_sigqueueinfo, s->main, signal, &info) == 0)
			return;
	}
	(void) kill(s->main, signal);
}

/* Did the group get the signal? A stop signal and a SIGCONT in quick succession cancel each
 * other. */
static bool group_got(uint64_t group, int signal)
{
	if (group & bit(signal))
		return true;
	if (bit(signal) & stop_bits())
		return group & bit(SIGCONT);
	return signal == SIGCONT && (group & stop_bits());
}

/* ---- checks ---------------------------------------------------------------------------------- */

static uint64_t new_signals(const struct group_probe *p)
{
	return group_probe_pending(p) & ~p->stale;
}

/* The signals that are pending for hiwater itself. */
static uint64_t own_pending(void)
{
	uint64_t mask = 0;
	sigset_t set;

	if (sigpending(&set) < 0)
		return 0;
	for (int i = 1; i <= 64; i++) {
		if (sigismember(&set, i) == 1)
			mask |= bit(i);
	}
	return mask;
}

/* Reads the pending signals. The next probe is started before: a signal that comes a second time is
 * then pending either here, where it is merged with the first, or for the next probe. A signal that
 * came to the next probe in between and is read now is stale there; since it would hide a second
 * one, there is another probe then. */
static unsigned read_batch(struct signals *s)
{
	uint64_t before, after;
	ssize_t n;

	start_probe(s, &s->now[0]);
	before = group_probe_pending(&s->now[0]);
	n = read(s->fd, s->batch, sizeof(s->batch));
	after = group_probe_pending(&s->now[0]);
	s->now[0].stale = before | (after & ~own_pending());
	if (s->now[0].stale)
		start_probe(s, &s->now[1]);
	return n > 0 ? (unsigned) ((size_t) n / sizeof(s->batch[0])) : 0;
}

void signals_read(struct signals *s)
{
	unsigned n_read, open = 0;

	if (s->due_ns || !(own_pending() & ~bit(SIGCHLD)))
		return;
	if (s->main <= 0) { /* nothing is forwarded */
		ssize_t n = read(s->fd, s->batch, sizeof(s->batch));

		for (size_t i = 0; n > 0 && i < (size_t) n / sizeof(s->batch[0]); i++)
			note(s, (int) s->batch[i].ssi_signo);
		return;
	}
	memcpy(s->checked, s->now, sizeof(s->checked));
	memset(s->now, 0, sizeof(s->now));
	n_read = read_batch(s);
	for (unsigned i = 0; i < n_read; i++) {
		note(s, (int) s->batch[i].ssi_signo);
		if (!is_settled(&s->batch[i]))
			s->batch[open++] = s->batch[i];
	}
	s->n = open;
	s->due_ns = clock_boot_ns() + check_ns;
	signals_check(s, 0);
}

void signals_check(struct signals *s, uint64_t now_ns)
{
	const bool is_time = now_ns >= s->due_ns;
	uint64_t group;
	unsigned open = 0;

	if (!s->due_ns)
		return;
	group = s->n ? new_signals(&s->checked[0]) | new_signals(&s->checked[1]) : 0;
	for (unsigned i = 0; i < s->n; i++) {
		if (group_got(group, (int) s->batch[i].ssi_signo))
			continue;
		if (is_time)
			forward(s, &s->batch[i]);
		else
			s->batch[open++] = s->batch[i];
	}
	s->n = open;
	if (open)
		return;
	s->due_ns = 0;
	end_probes(s->checked);
}

const struct timespec *signals_timeout(const struct signals *s, struct timespec *room)
{
	const uint64_t now = clock_boot_ns();

	if (!s->due_ns)
		return NULL;
	*room = (struct timespec) { .tv_nsec = s->due_ns > now ? (long) (s->due_ns - now) : 0 };
	return room;
}

/* ---- stopping and ending with the job -------------------------------------------------------- */

static bool has_changed(pid_t main)
{
	siginfo_t info = { 0 };

	return main > 0 && waitid(P_PID, (id_t) main, &info, WCONTINUED | WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid != 0;
}

/* Makes a SIGTSTP pending, then unblocks it: a SIGCONT that comes at any time in between cancels
 * it, so that hiwater is never left stopped. */
void signals_stop_self(struct signals *s)
{
	const struct sigaction normal = { .sa_handler = SIG_DFL };
	const struct timespec none = { 0 };
	struct sigaction before;
	sigset_t stop;

	s->stop_requested_ns = 0;
	if (own_pending() & bit(SIGCONT))
		return;
	(void) sigemptyset(&stop);
	(void) sigaddset(&stop, SIGTSTP);
	(void) sigaction(SIGTSTP, &normal, &before);
	(void) kill(getpid(), SIGTSTP);
	if (has_changed(s->main)) {
		(void) sigtimedwait(&stop, NULL, &none);
	} else {
		(void) sigprocmask(SIG_UNBLOCK, &stop, NULL);
		(void) sigprocmask(SIG_BLOCK, &stop, NULL);
		if (s->recorder)
			hwi_recorder_continued(s->recorder);
	}
	(void) sigaction(SIGTSTP, &before, NULL);
}

void signals_die(int signal)
{
	const struct rlimit no_core = { 0, 0 };
	const struct sigaction normal = { .sa_handler = SIG_DFL };
	sigset_t set;

	/* A pipe in core_pattern ignores RLIMIT_CORE. */
	(void) setrlimit(RLIMIT_CORE, &no_core);
	(void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void) sigaction(signal, &normal, NULL);
	(void) sigemptyset(&set);
	(void) sigaddset(&set, signal);
	(void) kill(getpid(), signal);
	(void) sigprocmask(SIG_UNBLOCK, &set, NULL);
}
