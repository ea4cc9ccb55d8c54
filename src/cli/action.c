/* SPDX-License-Identifier: MIT */
#include "cli/action.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/root.h"
#include "base/smallfile.h"
#include "base/units.h"
#include "cli/cli.h"

extern char **environ;

/* ---- the option ------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	int number;
} signals[] = {
	{ "HUP", SIGHUP },
	{ "INT", SIGINT },
	{ "QUIT", SIGQUIT },
	{ "USR1", SIGUSR1 },
	{ "USR2", SIGUSR2 },
	{ "TERM", SIGTERM },
	{ "CONT", SIGCONT },
	{ "STOP", SIGSTOP },
	{ "TSTP", SIGTSTP },
	{ "ALRM", SIGALRM },
	{ "WINCH", SIGWINCH },
	{ "KILL", SIGKILL },
};

/* The number of the signal in "signal USR1" or "signal SIGUSR1"; 0: action is a command; -1:
 * unknown signal. */
static int signal_of(const char *action)
{
	const char *p = action;

	if (!parse_word(&p, "signal") || (*p && *p != ' ' && *p != '\t'))
		return 0;
	parse_blanks(&p);
	(void) parse_word(&p, "SIG");
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		if (strcmp(signals[i].name, p) == 0)
			return signals[i].number;
	}
	return -1;
}

static const char *const levels[] = { [HIW_INFO] = "info", [HIW_WARN] = "warn", [HIW_ERROR] = "error" };

/* Advances *p past "error:". The default is HIW_INFO, which includes all alerts. */
static enum hiw_level parse_level(const char **p)
{
	enum hiw_level level = HIW_INFO;

	parse_blanks(p);
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		const char *s = *p;

		if (!parse_word(&s, levels[i]) || !parse_word(&s, ":"))
			continue;
		level = (enum hiw_level) i;
		*p = s;
	}
	parse_blanks(p);
	return level;
}

int parse_action(const char *value, void *dest, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct actions *a = dest;
	const char *action = value;
	const enum hiw_level least = parse_level(&action);

	if (isalpha((unsigned char) *action) && action[strspn(action, letters)] == ':')
		return err_set(err, -EINVAL, "unknown level in '%.80s'; give info:, warn: or error:", action);
	if (*action == '\0')
		return err_set(err, -EINVAL, "the action is empty; give a command, signal USR1, or trigger");
	if (signal_of(action) < 0)
		return err_set(err, -EINVAL,
			"unknown signal in '%.80s'; give one of HUP INT QUIT USR1 USR2 TERM CONT STOP TSTP ALRM WINCH KILL",
			action);
	if (a->n == ACTIONS_MOST)
		return err_set(err, -EINVAL, "more than %d actions; combine them in a script", ACTIONS_MOST);
	a->given[a->n].least = least;
	a->given[a->n++].action = action;
	return 0;
}

void actions_begin(struct actions *a)
{
	a->has_files = getrlimit(RLIMIT_NOFILE, &a->files) == 0;
}

/* ---- the environment of a command ------------------------------------------------------------ */

enum {
	VARIABLES = 7,
	VARIABLE_SIZE = 4200
};

/* Everything that a command is started with, allocated before the fork. */
struct environment {
	char text[VARIABLES][VARIABLE_SIZE];
	char shell[3], option[3], *command;
	char **list;
};

/* hiwater's own environment, with the variables of an enclosing run's alerts replaced by those of
 * this alert. */
static int environment_make(
	struct environment *e, const struct hiw_alert *alert, const char *path, pid_t main)
{
	static const char *const names[VARIABLES] = { "HIWATER_ALERT=", "HIWATER_RULE=", "HIWATER_VALUE=",
		"HIWATER_LEVEL=", "HIWATER_TIME_S=", "HIWATER_RUN=", "HIWATER_PID=" };
	const pid_t pid = alert->pid ? alert->pid : main;
	char number[UNITS_LEN];
	size_t n = 0, kept = 0;

	(void) snprintf(e->text[0], VARIABLE_SIZE, "%s%s", names[0], alert->text);
	(void) snprintf(e->text[1], VARIABLE_SIZE, "%s%s", names[1], alert->rule);
	if (isfinite(alert->value))
		(void) snprintf(e->text[2], VARIABLE_SIZE, "%s%s",
			names[2], units_double(alert->value, number));
	else
		(void) snprintf(e->text[2], VARIABLE_SIZE, isnan(alert->value) ? "%snan" : "%s%f",
			names[2], alert->value);
	(void) snprintf(e->text[3], VARIABLE_SIZE, "%s%s", names[3], levels[alert->level]);
	(void) snprintf(e->text[4], VARIABLE_SIZE, "%s%llu.%03llu", names[4],
		(unsigned long long) (alert->time_ns / 1000000000),
		(unsigned long long) (alert->time_ns / 1000000 % 1000));
	(void) snprintf(e->text[5], VARIABLE_SIZE, "%s%s", names[5], path);
	(void) snprintf(e->text[6], VARIABLE_SIZE, "%s%d", names[6], (int) pid);
	while (environ[n])
		n++;
	e->list = calloc(n + VARIABLES + 1, sizeof(*e->list));
	if (!e->list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		bool replaced = false;

		for (size_t k = 0; k < VARIABLES; k++)
			replaced |= strncmp(environ[i], names[k], strlen(names[k])) == 0;
		if (!replaced)
			e->list[kept++] = environ[i];
	}
	for (size_t k = 0; k < VARIABLES; k++)
		e->list[kept++] = e->text[k];
	return 0;
}

/* ---- the keeper: a fork of a process with threads, so it may only make system calls ---------- */

enum {
	PIPE = 3 /* the keeper's only descriptor besides the first three */
};

static void close_from(unsigned first)
{
	enum {
		LAST = 4096
	};

#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, ~0U, 0U) == 0)
		return;
#endif
	for (int fd = (int) first; fd <= LAST; fd++)
		(void) close(fd);
}

/* The command writes to hiwater's stderr, not to the job's stdout; but not into a pipe, whose
 * reader would wait for the slowest command to end. */
static void set_streams(int pipe)
{
	const int null = open("/dev/null", O_RDWR);
	struct stat st;

	if (null >= 0)
		(void) dup2(null, STDIN_FILENO);
	if (null >= 0 && (fstat(STDERR_FILENO, &st) < 0 || S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		(void) dup2(null, STDERR_FILENO);
	(void) dup2(STDERR_FILENO, STDOUT_FILENO);
	if (pipe != PIPE)
		(void) dup2(pipe, PIPE);
	(void) fcntl(PIPE, F_SETFD, FD_CLOEXEC);
	close_from(PIPE + 1);
}

/* The command stays in the keeper's session, which identifies it and its children if the keeper is
 * killed (source/process/scan.c), but has a process group of its own. */
static _Noreturn void become_command(struct environment *e)
{
	char *const argv[] = { e->shell, e->option, e->command, NULL };
	sigset_t none;

	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
	(void) signal(SIGCHLD, SIG_DFL);
	(void) signal(SIGPIPE, SIG_DFL);
	(void) setpgid(0, 0);
	(void) execve("/bin/sh", argv, e->list);
	_exit(127);
}

/* Kills what the command left running, which the keeper adopted; as many as fit into one read. */
static void end_children(void)
{
	char text[512];
	struct root root;
	const char *p = text;
	uint64_t pid;
	ssize_t n;

	if (root_open("/", &root, NULL) < 0)
		return;
	n = smallfile_read(root.proc, "thread-self/children", text, sizeof(text));
	text[n > 0 ? n : 0] = '\0';
	/* A PID that was cut off at the end is skipped: the next call reads it whole. */
	while (parse_u64(&p, &pid) == 0 && *p == ' ' && pid > 1 && pid < INT32_MAX) {
		(void) kill((pid_t) pid, SIGKILL);
		p++;
	}
	root_done(&root);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	(void) clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

/* Waits until no child is left, and kills those that remain after the limit. Writes the command's
 * wait status to the pipe as soon as it is known. */
static _Noreturn void keep(pid_t command)
{
	const uint64_t end_ms = now_ms() + ACTION_LIMIT_S * UINT64_C(1000);
	const struct timespec moment = { .tv_nsec = 50000000 };
	sigset_t child;

	(void) sigemptyset(&child);
	(void) sigaddset(&child, SIGCHLD);
	for (;;) {
		int status;
		const uint64_t now = now_ms();
		const struct timespec rest = { .tv_sec = now < end_ms ? (time_t) ((end_ms - now) / 1000 + 1)
								      : 0 };
		const pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid < 0)
			_exit(0);
		if (pid == command)
			(void) !write(PIPE, &status, sizeof(status));
		if (pid > 0)
			continue;
		if (now >= end_ms) {
			(void) kill(-command, SIGKILL);
			end_children();
		}
		(void) sigtimedwait(&child, NULL, now >= end_ms ? &moment : &rest);
	}
}

static _Noreturn void become_keeper(const struct actions *a, struct environment *e, int pipe)
{
	sigset_t all;
	pid_t pid;

	(void) sigfillset(&all);
	(void) sigprocmask(SIG_SETMASK, &all, NULL);
	(void) signal(SIGCHLD, SIG_DFL);
	(void) prctl(PR_SET_NAME, "hiwater-alert");
	(void) prctl(PR_SET_CHILD_SUBREAPER, 1UL);
	(void) setsid();
	if (a->has_files)
		(void) setrlimit(RLIMIT_NOFILE, &a->files);
	set_streams(pipe);
	pid = fork();
	if (pid == 0)
		become_command(e);
	if (pid < 0)
		_exit(1);
	keep(pid);
}

/* ---- starting commands and reading their statuses -------------------------------------------- */

static void complain_once(bool *reported, bool quiet, const char *problem, const char *command)
{
	if (!*reported && !quiet)
		complain("warning: --on-alert: %s '%.200s'; further cases are not reported",
			problem, command);
	*reported = true;
}

/* ACTIONS_AT_ONCE: no slot is free. */
static size_t free_slot(const struct actions *a)
{
	size_t i = 0;

	while (i < ACTIONS_AT_ONCE && a->running[i].pipe)
		i++;
	return i;
}

static void start(struct actions *a, struct environment *e, const char *command,
	struct hiw_recorder *recorder, bool quiet)
{
	const size_t slot = free_slot(a);
	int fds[2];
	pid_t pid;

	if (slot == ACTIONS_AT_ONCE) {
		complain_once(&a->reported_busy, quiet,
			"earlier commands are still running, so this one was not started:", command);
		return;
	}
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return;
	pid = fork();
	if (pid == 0)
		become_keeper(a, e, fds[1]);
	(void) close(fds[1]);
	if (pid < 0) {
		(void) close(fds[0]);
		complain_once(&a->reported_failure, quiet, "cannot start a process for", command);
		return;
	}
	hiw_recorder_ignore(recorder, pid);
	a->running[slot].pipe = fds[0] + 1;
	a->running[slot].command = command;
	a->running[slot].keeper = pid;
}

static void run_command(struct actions *a, struct environment *e, const char *command,
	struct hiw_recorder *recorder, bool quiet)
{
	e->command = strdup(command);
	if (e->command)
		start(a, e, command, recorder, quiet);
	free(e->command);
}

/* Keeps the full-rate data for an analysis afterwards. The prefix decides which memory the incident
 * is about (hiwater.h). */
static void trigger(const struct hiw_alert *alert, struct hiw_recorder *recorder)
{
	static const char *const about[] = {
		[HIW_ABOUT_OTHER] = "alert",
		[HIW_ABOUT_RAM] = "RAM alert",
		[HIW_ABOUT_GPU_MEMORY] = "GPU memory alert",
	};
	char why[800];

	(void) snprintf(why, sizeof(why), "%s: %s", about[alert->about], alert->text);
	hiw_recorder_trigger(recorder, why);
}

void actions_run(struct actions *a, const struct hiw_alert *alert, struct hiw_recorder *recorder, pid_t main,
	bool quiet)
{
	struct environment *e;

	if (a->n == 0 || !alert->raised)
		return;
	(void) actions_check(a, quiet);
	e = calloc(1, sizeof(*e));
	if (e)
		*e = (struct environment) { .shell = "sh", .option = "-c" };
	if (!e || environment_make(e, alert, hiw_recorder_path(recorder), main) < 0) {
		free(e);
		return;
	}
	for (size_t i = 0; i < a->n; i++) {
		const char *action = a->given[i].action;
		const int signal = signal_of(action);

		if (alert->level < a->given[i].least)
			continue;
		if (strcmp(action, "trigger") == 0)
			trigger(alert, recorder);
		else if (signal == 0)
			run_command(a, e, action, recorder, quiet);
		else if (main > 0)
			(void) hiw_recorder_signal(recorder, main, signal);
	}
	free(e->list);
	free(e);
}

size_t actions_check(struct actions *a, bool quiet)
{
	size_t n = 0;

	for (size_t i = 0; i < ACTIONS_AT_ONCE; i++) {
		const int fd = a->running[i].pipe - 1;
		int status = 0;
		ssize_t got;

		if (fd < 0)
			continue;
		while ((got = read(fd, &status, sizeof(status))) == sizeof(status)) {
			if (status != 0)
				complain_once(&a->reported_failure, quiet,
					WIFEXITED(status) ? "a command failed:" : "a command was killed:",
					a->running[i].command);
		}
		if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
			n++;
			continue;
		}
		(void) close(fd);
		if (a->reaps) /* the keeper is about to end: it has closed the pipe */
			(void) waitpid(a->running[i].keeper, NULL, 0);
		a->running[i].pipe = 0;
	}
	return n;
}
