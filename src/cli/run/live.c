/* SPDX-License-Identifier: MIT */
#include "cli/run/live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/programs.h"
#include "cli/terminal.h"

enum {
	VIEW_PATIENCE_MS = 3000, /* for the view to restore the terminal */
	VIEW_POLL_MS = 10
};

/* ---- before the job -------------------------------------------------------------------------- */

static int open_spool(struct live *l)
{
	const char *folder = getenv("TMPDIR");
	const int len = snprintf(
		l->name, sizeof(l->name), "%s/hiwater-live-XXXXXX", folder && *folder ? folder : "/tmp");

	if (len < 0 || (size_t) len >= sizeof(l->name))
		return -ENAMETOOLONG;
	l->spool = mkostemp(l->name, O_APPEND | O_CLOEXEC);
	return l->spool < 0 ? -errno : 0;
}

/* Replaces the streams that are the terminal. The view reads the keyboard, so the job's stdin is
 * empty. */
static int choose_streams(struct live *l)
{
	if (isatty(STDIN_FILENO))
		l->streams[STDIN_FILENO] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (!isatty(STDOUT_FILENO) && !isatty(STDERR_FILENO))
		return 0;
	const int r = open_spool(l);

	for (int fd = STDOUT_FILENO; r == 0 && fd <= STDERR_FILENO; fd++)
		l->streams[fd] = isatty(fd) ? l->spool : -1;
	return r;
}

/* Without a view the job runs all the same, except with --strict. Returns 0 or error. */
static int without_view(struct live *l, int error, bool strict, bool quiet, const char *why)
{
	if (strict)
		complain("--live: %s; the job was not started (--strict)", why);
	else if (!quiet)
		complain("warning: --live: %s; no view is shown", why);
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		l->streams[fd] = -1;
	if (l->terminal >= 0)
		(void) close(l->terminal);
	l->terminal = -1;
	return strict ? error : 0;
}

int live_prepare(struct live *l, bool strict, bool quiet)
{
	char path[PATH_MAX], why[PROGRAM_WHY_LEN + 80];
	int r;

	if (program_find("hiwater-top", path, sizeof(path)) < 0) {
		char where[PROGRAM_WHY_LEN];

		program_why_not("hiwater-top", where, sizeof(where));
		(void) snprintf(why, sizeof(why), "%s; see hiwater doctor", where);
		return without_view(l, -ENOENT, strict, quiet, why);
	}
	l->terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (l->terminal < 0 || tcgetattr(l->terminal, &l->before) < 0) {
		complain("warning: --live: no terminal, so no view is shown; to print lines, use --progress");
		return 0;
	}
	r = choose_streams(l);
	if (r == 0)
		return 0;
	(void) snprintf(why, sizeof(why), "cannot create a file for the command's output in TMPDIR: %s",
		strerror(-r));
	return without_view(l, r, strict, quiet, why);
}

void live_begin(struct live *l)
{
	if (l->terminal < 0 || l->spool < 0 || !isatty(STDERR_FILENO))
		return;
	l->own_err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (l->own_err >= 0)
		(void) dup2(l->spool, STDERR_FILENO);
}

/* ---- the view -------------------------------------------------------------------------------- */

static _Noreturn void become_view(
	const struct live *l, const char *recording, const struct inherited *inherited)
{
	char path[PATH_MAX], file[PATH_MAX + 8], hiwater[PATH_MAX + 8], utf8[16], color[16];
	char terminal[] = "terminal=0", live[] = "live=1", mouse[] = "mouse=1", name[] = "hiwater-top",
	     interval[] = "interval=1000000000";
	char *argv[] = { name, file, live, terminal, mouse, interval, utf8, color, hiwater, NULL };

	(void) prctl(PR_SET_PDEATHSIG, SIGTERM); /* the view restores the terminal if hiwater is killed */
	for (int fd = 0; fd <= 2; fd++)
		(void) dup2(l->terminal, fd);
	(void) snprintf(file, sizeof(file), "file=%s", recording);
	(void) snprintf(hiwater, sizeof(hiwater), "hiwater=%s",
		program_find("hiwater", path, sizeof(path)) == 0 ? path : "");
	(void) snprintf(utf8, sizeof(utf8), "utf8=%d", terminal_is_utf8());
	(void) snprintf(color, sizeof(color), "color=%d", terminal_has_color(STDOUT_FILENO));
	(void) setrlimit(RLIMIT_NOFILE, &inherited->files);
	(void) sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
	if (program_find("hiwater-top", path, sizeof(path)) == 0)
		(void) execv(path, argv);
	_exit(127);
}

/* Changing the terminal from the background stops the whole process group (SIGTTOU), which includes
 * the job. */
static bool in_foreground(const struct live *l)
{
	return tcgetpgrp(l->terminal) == getpgrp();
}

static void start_view(struct live *l, struct hiw_recorder *recorder, const struct inherited *inherited)
{
	const char *recording = hiw_recorder_path(recorder);
	struct stat st;
	pid_t pid;

	if (!*recording || stat(recording, &st) < 0 || st.st_size == 0)
		return;
	if (!in_foreground(l) || tcgetattr(l->terminal, &l->before) < 0)
		return;
	l->started = true;
	pid = fork();
	if (pid == 0)
		become_view(l, recording, inherited);
	if (pid < 0)
		return;
	hiw_recorder_ignore(recorder, pid);
	l->view = pid;
}

/* ---- the spooled output ---------------------------------------------------------------------- */

static void restore_stderr(struct live *l)
{
	if (l->own_err < 0)
		return;
	(void) dup2(l->own_err, STDERR_FILENO);
	(void) close(l->own_err);
	l->own_err = -1;
}

static void copy_spool(struct live *l, int patience_ms)
{
	char bytes[1 << 15];
	ssize_t n;

	while (l->spool >= 0 && (n = pread(l->spool, bytes, sizeof(bytes), l->copied)) > 0) {
		size_t written;
		const int r = terminal_write_part(l->terminal, bytes, (size_t) n, patience_ms, &written);

		l->copied += (off_t) written;
		if (r < 0)
			return;
	}
}

/* The view restores the terminal's modes last, so they show whether it has finished. */
static bool is_as_before(const struct live *l)
{
	struct termios now;

	return tcgetattr(l->terminal, &now) < 0 || now.c_lflag == l->before.c_lflag;
}

/* A view that was killed has not restored the terminal. */
static void restore_terminal(struct live *l)
{
	static const char leave[] = "\033[?1006l\033[?1002l\033[?1000l\033[0m\033[?25h\033[?1049l";

	if (!in_foreground(l) || is_as_before(l))
		return;
	(void) terminal_write(l->terminal, leave, sizeof(leave) - 1, PATIENCE_SHORT_MS);
	(void) tcsetattr(l->terminal, TCSANOW, &l->before);
}

void live_left(struct live *l, int status)
{
	l->view = 0;
	if (WIFSIGNALED(status))
		restore_terminal(l);
	restore_stderr(l);
	copy_spool(l, PATIENCE_SHORT_MS);
}

void live_step(struct live *l, struct hiw_recorder *recorder, const struct inherited *inherited)
{
	if (l->terminal < 0)
		return;
	if (!l->started)
		start_view(l, recorder, inherited);
	else if (!l->view)
		copy_spool(l, PATIENCE_NONE_MS);
}

/* ---- stopping -------------------------------------------------------------------------------- */

/* A Ctrl-Z reached the view too; a stop signal that was sent to the job only did not. */
void live_stop(struct live *l)
{
	const struct timespec moment = { .tv_nsec = VIEW_POLL_MS * 1000000 };

	for (int ms = 0; l->view && in_foreground(l) && !is_as_before(l) && ms < VIEW_PATIENCE_MS;
		ms += VIEW_POLL_MS) {
		(void) kill(l->view, SIGTSTP);
		(void) nanosleep(&moment, NULL);
	}
}

void live_continue(struct live *l)
{
	if (l->view)
		(void) kill(l->view, SIGCONT);
}

/* ---- after the job --------------------------------------------------------------------------- */

static bool has_ended(const struct live *l, int *ret_status)
{
	const struct timespec moment = { .tv_nsec = VIEW_POLL_MS * 1000000 };

	for (int ms = 0; ms < VIEW_PATIENCE_MS; ms += VIEW_POLL_MS) {
		if (waitpid(l->view, ret_status, WNOHANG) != 0)
			return true;
		(void) nanosleep(&moment, NULL);
	}
	return false;
}

/* Sends SIGTERM, and SIGKILL if the view has not ended after VIEW_PATIENCE_MS. */
static void end_view(struct live *l)
{
	int status = 0;

	(void) kill(l->view, SIGCONT);
	(void) kill(l->view, SIGTERM);
	if (!has_ended(l, &status)) {
		(void) kill(l->view, SIGKILL);
		(void) waitpid(l->view, &status, 0);
	}
	live_left(l, status);
}

/* The spool file is kept if the terminal did not accept all of it: no other copy of that output
 * exists. */
static void end_spool(struct live *l)
{
	struct stat st;

	if (fstat(l->spool, &st) == 0 && st.st_size > l->copied)
		complain("warning: --live: the terminal did not accept all output; the output is in %s",
			l->name);
	else
		(void) unlink(l->name);
	(void) close(l->spool);
}

void live_end(struct live *l)
{
	if (l->terminal < 0)
		return;
	if (l->view)
		end_view(l);
	restore_stderr(l);
	copy_spool(l, PATIENCE_END_MS);
	if (l->spool >= 0)
		end_spool(l);
	if (l->streams[STDIN_FILENO] >= 0)
		(void) close(l->streams[STDIN_FILENO]);
	(void) close(l->terminal);
	*l = (struct live) LIVE_NONE;
}
