/* SPDX-License-Identifier: MIT */
#include "cli/run/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/programs.h"

enum {
	PATIENCE_MS = 500, /* for the endpoint to end */
	POLL_MS = 5
};

bool endpoint_may_listen(const char *address)
{
	static const char *const begins[] = { "unix:", "127.", "localhost:", "[::1]:" };

	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		if (strncmp(address, begins[i], strlen(begins[i])) == 0)
			return true;
	}
	return false;
}

int endpoint_prepare(struct endpoint *e, bool strict)
{
	char path[PATH_MAX], where[PROGRAM_WHY_LEN];

	if (!e->listen || program_find("hiwater-serve", path, sizeof(path)) == 0)
		return 0;
	program_why_not("hiwater-serve", where, sizeof(where));
	if (strict)
		complain("--listen: %s; see hiwater doctor; the job was not started (--strict)", where);
	else if (!e->quiet)
		complain("warning: --listen: %s; see hiwater doctor; there is no endpoint", where);
	e->listen = NULL;
	return strict ? -ENOENT : 0;
}

static _Noreturn void become(
	const struct endpoint *e, const char *recording, pid_t parent, const struct inherited *inherited)
{
	char path[PATH_MAX], file[PATH_MAX + 8], listen[PATH_MAX + 8], token[PATH_MAX + 16];
	char of[32], quiet[16], name[] = "hiwater-serve";
	char *argv[] = { name, file, listen, of, quiet, e->token_file ? token : NULL, NULL };

	(void) prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(0);
	(void) setsid(); /* keys of the terminal are for the job */
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void) dup2(null, STDIN_FILENO); /* those who read the job's output wait for its end alone */
	(void) dup2(null, STDOUT_FILENO);
	(void) snprintf(file, sizeof(file), "file=%s", recording);
	(void) snprintf(listen, sizeof(listen), "listen=%s", e->listen);
	(void) snprintf(of, sizeof(of), "parent=%d", (int) parent);
	(void) snprintf(quiet, sizeof(quiet), "quiet=%d", e->quiet);
	(void) snprintf(token, sizeof(token), "token-file=%s", e->token_file ? e->token_file : "");
	(void) setrlimit(RLIMIT_NOFILE, &inherited->files);
	(void) sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
	if (program_find("hiwater-serve", path, sizeof(path)) == 0)
		(void) execv(path, argv);
	_exit(127);
}

void endpoint_step(struct endpoint *e, struct hiw_recorder *recorder, const struct inherited *inherited)
{
	const char *recording = hiw_recorder_path(recorder);
	const pid_t self = getpid();
	struct stat st;
	pid_t pid;

	if (!e->listen || e->started || !*recording || stat(recording, &st) < 0 || st.st_size == 0)
		return;
	e->started = true;
	pid = fork();
	if (pid == 0)
		become(e, recording, self, inherited);
	if (pid < 0)
		return;
	hiw_recorder_ignore(recorder, pid);
	e->pid = pid;
}

void endpoint_left(struct endpoint *e)
{
	e->pid = 0;
}

void endpoint_end(struct endpoint *e)
{
	const struct timespec moment = { .tv_nsec = POLL_MS * 1000000 };
	int status;

	if (!e->pid)
		return;
	(void) kill(e->pid, SIGTERM);
	for (int ms = 0; ms < PATIENCE_MS; ms += POLL_MS) {
		if (waitpid(e->pid, &status, WNOHANG) != 0) {
			e->pid = 0;
			return;
		}
		(void) nanosleep(&moment, NULL);
	}
	(void) kill(e->pid, SIGKILL);
	(void) waitpid(e->pid, &status, 0);
	e->pid = 0;
}
