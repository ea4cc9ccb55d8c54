/* SPDX-License-Identifier: MIT
 *
 * A complete program that uses the library: runs a command and prints the peak memory of it and its
 * children.
 *
 *     cc peak.c -o peak $(pkg-config --cflags --libs hiwater)
 *     ./peak make -j8
 */
#include <hiwater.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t start(char **argv)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void) execvp(argv[0], argv);
		perror(argv[0]);
		_exit(127);
	}
	return pid;
}

/* Runs the recorder until main is a zombie, whose last values it reads before main is reaped. */
static int measure(struct hiw_recorder *recorder, pid_t pid)
{
	struct pollfd work = { .fd = hiw_recorder_fd(recorder), .events = POLLIN };
	siginfo_t info = { 0 };
	struct rusage usage;
	int status = 0;

	while (waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == 0) {
		(void) poll(&work, 1, 20);
		hiw_recorder_step(recorder);
	}
	hiw_recorder_zombie(recorder, pid);
	if (wait4(pid, &status, 0, &usage) == pid)
		hiw_recorder_reaped(recorder, pid, status, &usage);
	(void) hiw_recorder_end(recorder, NULL);
	return status;
}

int main(int argc, char **argv)
{
	struct hiw_options options = HIW_OPTIONS_INIT;
	struct hiw_figures figures = { .size = sizeof(figures) };
	struct hiw_recorder *recorder = NULL;
	struct hiw_err err = { "" };
	pid_t pid;

	if (argc < 2)
		return fprintf(stderr, "usage: peak COMMAND...\n"), 2;
	options.no_record = true;
	options.argv = (const char *const *) argv + 1;
	/* orphans of the job become children of this process, so none is lost */
	(void) prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid = start(argv + 1);
	if (hiw_recorder_new(&options, &recorder, &err) < 0 || hiw_recorder_start(recorder, pid, &err) < 0)
		return fprintf(stderr, "peak: %s\n", err.text), 125;
	int status = measure(recorder, pid);

	if (hiw_run_figures(hiw_recorder_run(recorder), &figures) == 0 && figures.combined.peak.known)
		printf("%.1f MB (%s)\n", (double) figures.combined.peak.value / 1e6, figures.combined.source);
	hiw_recorder_free(recorder);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
