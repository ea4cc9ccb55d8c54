/* SPDX-License-Identifier: MIT
 *
 * stint FILE COMMAND... runs the command and writes to FILE, when it and everything that it started
 * have ended, one line:
 *
 *     PID STATUS WALL_S CPU_S OWN_CPU_S END_S INSTRUCTIONS
 *
 * PID is the command's process, STATUS its exit status (128 and the signal's number if one ended
 * it), WALL_S the time from start to end, CPU_S the user and system time of the command and all its
 * waited-for descendants, OWN_CPU_S that of this program, END_S the end on CLOCK_MONOTONIC, INSTRUCTIONS those of the command
 * and its descendants in user mode, as `perf stat -e instructions:u` counts them; -1 where the machine
 * does not. It is the subreaper, so orphans are waited for, too. SIGINT and SIGTERM are passed on.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t child;

static void pass_on(int number)
{
	if (child > 0)
		(void) kill((pid_t) child, number);
}

static double now_s(void)
{
	struct timespec t;

	(void) clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static double used_s(int who)
{
	struct rusage u;

	(void) getrusage(who, &u);
	return (double) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double) (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* A counter of this process and of all that it starts from now on; -1: there is none. */
static int counter_open(void)
{
	struct perf_event_attr what = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(what),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.inherit = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return (int) syscall(SYS_perf_event_open, &what, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static long long counter_read(int fd)
{
	long long n;

	return fd >= 0 && read(fd, &n, sizeof(n)) == sizeof(n) ? n : -1;
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = pass_on, .sa_flags = SA_RESTART };
	sigset_t both, before;
	int status = 0, result = 0;

	if (argc < 3) {
		(void) fprintf(stderr, "usage: stint FILE COMMAND...\n");
		return 2;
	}
	(void) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	/* They wait until there is a command to pass them on to. */
	(void) sigemptyset(&both);
	(void) sigaddset(&both, SIGINT);
	(void) sigaddset(&both, SIGTERM);
	(void) sigprocmask(SIG_BLOCK, &both, &before);
	const int counter = counter_open();
	const double began = now_s();
	const pid_t pid = fork();

	if (pid < 0) {
		perror("stint: fork");
		return 2;
	}
	if (pid == 0) {
		(void) sigprocmask(SIG_SETMASK, &before, NULL);
		(void) execvp(argv[2], argv + 2);
		perror("stint: exec");
		_exit(127);
	}
	child = pid;
	(void) sigaction(SIGINT, &action, NULL);
	(void) sigaction(SIGTERM, &action, NULL);
	(void) sigprocmask(SIG_SETMASK, &before, NULL);
	for (pid_t gone; (gone = wait(&status)) > 0;) {
		if (gone == pid) {
			result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			child = 0;
		}
	}
	const double end = now_s();
	FILE *file = fopen(argv[1], "we");

	if (!file) {
		perror("stint: open");
		return 2;
	}
	(void) fprintf(file, "%d %d %.6f %.6f %.6f %.6f %lld\n", (int) pid, result, end - began,
		used_s(RUSAGE_CHILDREN), used_s(RUSAGE_SELF), end, counter_read(counter));
	return fclose(file) ? 2 : result;
}
