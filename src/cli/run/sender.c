/* SPDX-License-Identifier: MIT */
#include "cli/run/sender.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/programs.h"

enum {
	PATIENCE_MS = 1500, /* the child gives up after a second itself */
	POLL_MS = 5,
};

/* ---- before the job -------------------------------------------------------------------------- */

static int without(int error, bool must_fail, bool quiet, const char *why)
{
	if (must_fail)
		complain("--otlp: %s; the job was not started", why);
	else if (!quiet)
		complain("warning: --otlp: %s; nothing is sent", why);
	return must_fail ? error : 0;
}

int sender_prepare(struct sender *s, const struct sender_options *options, bool strict, bool quiet)
{
	char path[PATH_MAX], why[PROGRAM_WHY_LEN + 80];
	autofree struct hwi_otlp *settings = NULL; /* large: a job's limit of its stack is this process's too */
	struct hiw_err err = { "" };
	int r;

	*s = (struct sender) { .end = -1, .options = options, .quiet = quiet };
	if (!options->enabled)
		return 0;
	settings = calloc(1, sizeof(*settings));
	if (!settings)
		return without(-ENOMEM, strict, quiet, "out of memory");
	r = hwi_otlp_settings(options->url, options->insecure, settings, &err);
	hwi_otlp_done(settings);
	if (r < 0)
		return without(r, strict || r == -EINVAL, quiet, err.text);
	if (settings->disabled)
		return without(-ECANCELED, false, quiet, "OTEL_SDK_DISABLED is true");
	if (program_find("hiwater-otlp", path, sizeof(path)) < 0) {
		char where[PROGRAM_WHY_LEN];

		program_why_not("hiwater-otlp", where, sizeof(where));
		(void) snprintf(why, sizeof(why), "%s; see hiwater doctor", where);
		return without(-ENOENT, strict, quiet, why);
	}
	s->enabled = true;
	return 0;
}

/* ---- while it runs --------------------------------------------------------------------------- */

static _Noreturn void become_sender(
	const struct sender *s, const char *recording, int end, const struct inherited *inherited)
{
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char path[PATH_MAX], file[PATH_MAX + 8], url[PATH_MAX];
	char name[] = "hiwater-otlp", follow[] = "follow=1", insecure[] = "insecure=1", quiet[] = "quiet=1";
	char *argv[7] = { name, file, follow };
	size_t n = 3;

	(void) dup2(end, STDIN_FILENO);
	(void) dup2(null, STDOUT_FILENO);
	(void) snprintf(file, sizeof(file), "file=%s", recording);
	(void) snprintf(url, sizeof(url), "url=%s", s->options->url ? s->options->url : "");
	if (s->options->url)
		argv[n++] = url;
	if (s->options->insecure)
		argv[n++] = insecure;
	if (s->quiet)
		argv[n++] = quiet;
	argv[n] = NULL;
	(void) setrlimit(RLIMIT_NOFILE, &inherited->files);
	(void) sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
	if (program_find("hiwater-otlp", path, sizeof(path)) == 0)
		(void) execv(path, argv);
	_exit(127);
}

static bool start(struct sender *s, struct hiw_recorder *recorder, const struct inherited *inherited)
{
	const char *recording = hiw_recorder_path(recorder);
	int ends[2];
	struct stat st;
	pid_t pid;

	if (!*recording || stat(recording, &st) < 0 || st.st_size == 0 || pipe2(ends, O_CLOEXEC) < 0)
		return false;
	s->started = true;
	pid = fork();
	if (pid == 0)
		become_sender(s, recording, ends[0], inherited);
	(void) close(ends[0]);
	if (pid < 0) {
		(void) close(ends[1]);
		return false;
	}
	hiw_recorder_ignore(recorder, pid);
	s->pid = pid;
	s->end = ends[1];
	return true;
}

void sender_step(struct sender *s, struct hiw_recorder *recorder, const struct inherited *inherited)
{
	if (s->enabled && !s->started)
		(void) start(s, recorder, inherited);
}

void sender_left(struct sender *s)
{
	s->pid = 0;
}

/* ---- after the job --------------------------------------------------------------------------- */

void sender_finish(struct sender *s, struct hiw_recorder *recorder, const struct inherited *inherited)
{
	if (s->enabled && !s->started && !start(s, recorder, inherited) && !s->quiet)
		complain("warning: --otlp: nothing was sent: the run has no recording, or was too short for one");
	if (s->end >= 0)
		(void) close(s->end);
	s->end = -1;
}

void sender_end(struct sender *s)
{
	const struct timespec moment = { .tv_nsec = POLL_MS * 1000000 };

	for (int ms = 0; s->pid && ms < PATIENCE_MS; ms += POLL_MS) {
		if (waitpid(s->pid, NULL, WNOHANG) != 0)
			s->pid = 0;
		else
			(void) nanosleep(&moment, NULL);
	}
	if (!s->pid)
		return;
	if (!s->quiet)
		complain("warning: --otlp: hiwater-otlp does not end; what it had not sent is lost");
	(void) kill(s->pid, SIGKILL);
	(void) waitpid(s->pid, NULL, 0);
	s->pid = 0;
}
