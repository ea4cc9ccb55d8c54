/* SPDX-License-Identifier: MIT */
#include "cli/run/group_probe.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/internal.h"

/* The probe keeps nothing open: a reader of one of the job's pipes must not wait for it. */
static void close_everything(void)
{
	enum {
		LAST = 1023
	};

#ifdef SYS_close_range
	if (syscall(SYS_close_range, 0U, ~0U, 0U) == 0)
		return;
#endif
	for (int fd = 0; fd <= LAST; fd++)
		(void) close(fd);
}

/* Runs in the child of a process that may have threads, so it may only make system calls. */
static _Noreturn void sleep_forever(pid_t parent)
{
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	(void) prctl(PR_SET_NAME, "hiwater-probe");
	close_everything();
	for (;;)
		(void) pause();
}

void group_probe_start(struct group_probe *p)
{
	const pid_t parent = getpid();
	const pid_t pid = fork();

	if (pid == 0)
		sleep_forever(parent);
	*p = (struct group_probe) { .pid = pid > 0 ? pid : 0 };
}

void group_probe_kill(const struct group_probe *p)
{
	if (p->pid > 0)
		(void) kill(p->pid, SIGKILL);
}

void group_probe_end(struct group_probe *p)
{
	group_probe_kill(p);
	if (p->pid > 0) {
		while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	*p = (struct group_probe) { 0 };
}

uint64_t group_probe_pending(const struct group_probe *p)
{
	uint64_t mask;

	return p->pid > 0 && hwi_pending_signals(p->pid, &mask) == 0 ? mask : 0;
}
