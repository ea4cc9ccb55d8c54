/* SPDX-License-Identifier: MIT */
#include "cli/run/canary.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/internal.h"

/* Holds nothing open: the job's pipes must not see it. */
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

/* In the child of a process that may have threads: nothing but system calls. */
static _Noreturn void live(pid_t parent)
{
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	(void) prctl(PR_SET_NAME, "hiwater-canary");
	close_everything();
	for (;;)
		(void) pause();
}

void canary_make(struct canary *c)
{
	const pid_t parent = getpid();
	const pid_t pid = fork();

	if (pid == 0)
		live(parent);
	*c = (struct canary) { .pid = pid > 0 ? pid : 0 };
}

void canary_dismiss(const struct canary *c)
{
	if (c->pid > 0)
		(void) kill(c->pid, SIGKILL);
}

void canary_end(struct canary *c)
{
	canary_dismiss(c);
	if (c->pid > 0) {
		while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	*c = (struct canary) { 0 };
}

uint64_t canary_pending(const struct canary *c)
{
	uint64_t mask;

	return c->pid > 0 && hwi_pending_signals(c->pid, &mask) == 0 ? mask : 0;
}
