/* SPDX-License-Identifier: MIT
 *
 * A child of the recorder that calls drivers stands alone: it holds none of the job's pipes, hears no signal that is meant for
 * others, and ends with the recorder.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu/gpu_shared.h"

static void close_between(int first, int last)
{
	if (first > last)
		return;
#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned) first, (unsigned) last, 0U) == 0)
		return;
#endif
	for (int fd = first; fd <= last && fd < 65536; fd++)
		(void) close(fd);
}

static int compare(const void *a, const void *b)
{
	return *(const int *) a - *(const int *) b;
}

/* The job's pipes must not see this process; a library that writes to stderr must not hit what it opened itself. */
static void keep_only(const struct root *root, int channel)
{
	int keep[] = { channel, root->proc, root->sys, root->top };
	int next = 0, null;

	qsort(keep, sizeof(keep) / sizeof(keep[0]), sizeof(keep[0]), compare);
	for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++) {
		close_between(next, keep[i] - 1);
		if (keep[i] >= next)
			next = keep[i] + 1;
	}
	close_between(next, INT32_MAX);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= 2 && null >= 0; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			(void) dup2(null, fd);
	}
	if (null > 2)
		(void) close(null);
}

/* No signal that is meant for others reaches it; what it does wrong itself ends it without a core in the job's folder. */
static void leave_others(pid_t recorder)
{
	static const struct rlimit no_core = { 0, 0 };
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
	const struct sigaction by_default = { .sa_handler = SIG_DFL };
	sigset_t set;

	(void) sigfillset(&set);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		(void) sigaction(own[i], &by_default, NULL);
		(void) sigdelset(&set, own[i]);
	}
	(void) sigprocmask(SIG_SETMASK, &set, NULL);
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != recorder)
		_exit(0);
	(void) prctl(PR_SET_NAME, "hiwater-gpu");
	(void) setrlimit(RLIMIT_CORE, &no_core);
	(void) setsid();
}

void gpu_stand_alone(pid_t recorder, const struct root *root, int channel)
{
	leave_others(recorder);
	keep_only(root, channel);
}
