/* SPDX-License-Identifier: MIT
 *
 * floor crowd N SECONDS starts N children that sleep, and ends them and itself after SECONDS.
 * floor reads HZ N SECONDS starts N children that sleep, reads /proc/PID/statm of each through an
 * open descriptor HZ times a second, as any sampler of their memory must, and prints the share of a
 * core that this took.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double at_s(clockid_t clock)
{
	struct timespec t;

	(void) clock_gettime(clock, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static pid_t sleeper(void)
{
	const pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(1);
	for (;;)
		(void) pause();
}

int main(int argc, char **argv)
{
	const int is_reads = argc == 5 && strcmp(argv[1], "reads") == 0;
	const double hz = is_reads ? atof(argv[2]) : 0, seconds = argc > 3 ? atof(argv[argc - 1]) : 0;
	const int n = argc > 3 ? atoi(argv[argc - 2]) : 0;
	const struct rlimit most = { (rlim_t) n + 100, (rlim_t) n + 100 };
	char text[256];

	if (seconds <= 0 || n <= 0 || (is_reads && hz <= 0)) {
		(void) fprintf(stderr, "usage: floor crowd N SECONDS | floor reads HZ N SECONDS\n");
		return 2;
	}
	pid_t *pids = calloc((size_t) n, sizeof(*pids));
	int *files = calloc((size_t) n, sizeof(*files));

	if (!pids || !files)
		return 1;
	if (is_reads)
		(void) setrlimit(RLIMIT_NOFILE, &most);
	for (int i = 0; i < n; i++) {
		pids[i] = sleeper();
		if (pids[i] < 0) {
			perror("floor: fork");
			return 1;
		}
		(void) snprintf(text, sizeof(text), "/proc/%d/statm", (int) pids[i]);
		files[i] = is_reads ? open(text, O_RDONLY | O_CLOEXEC) : -1;
	}
	const double began = at_s(CLOCK_MONOTONIC), used = at_s(CLOCK_PROCESS_CPUTIME_ID);

	if (!is_reads)
		(void) usleep((useconds_t) (seconds * 1e6));
	for (long k = 1; is_reads && (double) k <= seconds * hz; k++) {
		const double due = began + (double) k / hz;
		const struct timespec t = { (time_t) due, (long) ((due - (double) (time_t) due) * 1e9) };

		(void) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		for (int i = 0; i < n; i++)
			(void) !pread(files[i], text, sizeof(text), 0);
	}
	if (is_reads)
		(void) printf("%.8f\n",
			(at_s(CLOCK_PROCESS_CPUTIME_ID) - used) / (at_s(CLOCK_MONOTONIC) - began));
	for (int i = 0; i < n; i++)
		(void) kill(pids[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	return 0;
}
