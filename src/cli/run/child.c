/* SPDX-License-Identifier: MIT */
#include "cli/run/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

void child_save_inherited(struct inherited *ret)
{
	(void) sigprocmask(SIG_SETMASK, NULL, &ret->mask);
	(void) sigaction(SIGCHLD, NULL, &ret->child);
	(void) getrlimit(RLIMIT_NOFILE, &ret->files);
}

void child_restore_inherited(const struct inherited *before)
{
	(void) setrlimit(RLIMIT_NOFILE, &before->files);
	if (before->child.sa_handler == SIG_IGN)
		(void) sigaction(SIGCHLD, &before->child, NULL);
	(void) sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

/* Ctrl-Z during the search for the command would stop the child before its exec. hiwater waits for
 * that exec, so neither could notify the shell, and the terminal would hang. Until the exec the child
 * therefore writes stop signals to the pipe, and hiwater stops it once the exec has succeeded. */
static volatile sig_atomic_t stop_pipe = -1;

static void write_signal(int signal)
{
	const int before = errno, message = -signal;

	while (write(stop_pipe, &message, sizeof(message)) < 0 && errno == EINTR)
		;
	errno = before;
}

/* Ignored signals stay ignored; the exec resets handlers. */
static void defer_stops(int pipe)
{
	static const int deferred[] = { SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT };
	const struct sigaction writing = { .sa_handler = write_signal, .sa_flags = SA_RESTART };
	struct sigaction now;

	stop_pipe = pipe;
	for (size_t i = 0; i < sizeof(deferred) / sizeof(*deferred); i++) {
		if (sigaction(deferred[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			(void) sigaction(deferred[i], &writing, NULL);
	}
}

/* Runs in the child, which may share hiwater's memory while hiwater waits (vfork): only system
 * calls and execvp are allowed. On failure it writes errno to the pipe, which a successful exec
 * closes. */
static _Noreturn void become(const struct launch *launch, int pipe)
{
	defer_stops(pipe);
	if (launch->cgroup_procs >= 0 && write(launch->cgroup_procs, "0", 1) < 0)
		goto out;
	for (int fd = 0; launch->streams && fd <= 2; fd++) {
		if (launch->streams[fd] >= 0 && dup2(launch->streams[fd], fd) < 0)
			goto out;
	}
	child_restore_inherited(launch->inherited);
	(void) execvp(launch->argv[0], launch->argv);
out:;
	int error = errno;

	while (write(pipe, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* vfork does not copy hiwater's page tables, which the exec would discard. The child must not
 * return from this function: it uses this frame's stack. */
static pid_t start_in_place(const struct launch *launch, int pipe)
{
	pid_t pid = vfork();

	if (pid < 0 && (errno == EPERM || errno == ENOSYS)) /* a sandbox that allows fork only */
		pid = fork();
	if (pid == 0)
		become(launch, pipe);
	return pid;
}

static pid_t start_in_cgroup(const struct launch *launch, int pipe)
{
#ifdef SYS_clone3
	struct clone_args args;
	pid_t pid;

	memset(&args, 0, sizeof(args));
	args.flags = CLONE_INTO_CGROUP;
	args.exit_signal = SIGCHLD;
	args.cgroup = (uint64_t) launch->cgroup_dir;
	pid = (pid_t) syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		become(launch, pipe);
	return pid;
#else
	(void) launch;
	(void) pipe;
	errno = ENOSYS;
	return -1;
#endif
}

/* Returns the errno that the child wrote, or 0 once its exec succeeded. *ret_stop: the stop signal
 * that it got before, unless SIGCONT followed; 0: none. */
static int read_error(int fd, int *ret_stop)
{
	*ret_stop = 0;
	for (;;) {
		int message;
		const ssize_t n = read(fd, &message, sizeof(message));

		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(message))
			return 0;
		if (message > 0)
			return message;
		*ret_stop = message == -SIGCONT ? 0 : -message;
	}
}

int child_start(const struct launch *launch, pid_t *ret_pid, bool *ret_forked)
{
	autoclose int reader = -1;
	autoclose int writer = -1;
	const bool into = launch->cgroup_procs < 0 && launch->cgroup_dir >= 0;
	int fds[2], error, stop;
	pid_t pid;

	*ret_forked = false;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	reader = fds[0];
	writer = fds[1];
	pid = into ? start_in_cgroup(launch, writer) : start_in_place(launch, writer);
	if (pid < 0)
		return -errno;
	*ret_forked = true;
	(void) close(take_fd(writer));
	error = read_error(reader, &stop);
	if (error) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return -error;
	}
	if (stop)
		(void) kill(pid, stop);
	*ret_pid = pid;
	return 0;
}

static bool is_path(const char *file)
{
	return strchr(file, '/') != NULL;
}

static bool is_there(const char *file)
{
	struct stat st;

	return is_path(file) && stat(file, &st) == 0;
}

static bool is_folder(const char *file)
{
	struct stat st;

	return stat(file, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_line(const char *file)
{
	return strpbrk(file, " \t\n") != NULL;
}

static bool is_assignment(const char *file)
{
	return !is_path(file) && strchr(file, '=') != NULL;
}

static bool is_name(const char *file)
{
	return *file && !is_path(file);
}

const char *child_hint(const char *file, int error)
{
	static const struct {
		int error;
		bool (*is)(const char *file);
		const char *text;
	} rows[] = {
		/* the first match is used */
		{ EACCES, is_folder, "; it is a folder" },
		{ ENOENT, is_there,
			"; the file exists, but the interpreter in its first line, or its loader, does not" },
		{ ENOENT, is_line, "; to run a shell command line, use sh -c 'LINE'" },
		{ ENOENT, is_assignment, "; to set variables, use env NAME=VALUE COMMAND" },
		{ ENOENT, is_name, "; shell builtins, functions and aliases are not programs" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rows[i].error == error && rows[i].is(file))
			return rows[i].text;
	}
	return "";
}
