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

void child_remember(struct inherited *ret)
{
	(void) sigprocmask(SIG_SETMASK, NULL, &ret->mask);
	(void) sigaction(SIGCHLD, NULL, &ret->child);
	(void) getrlimit(RLIMIT_NOFILE, &ret->files);
}

void child_give_back(const struct inherited *before)
{
	(void) setrlimit(RLIMIT_NOFILE, &before->files);
	if (before->child.sa_handler == SIG_IGN)
		(void) sigaction(SIGCHLD, &before->child, NULL);
	(void) sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

/* Ctrl-Z while a command is looked for would stop the child before its exec, which hiwater waits for, so that nobody could
 * tell the shell: the terminal would hang. The child tells instead, and is stopped once it is the command. */
static volatile sig_atomic_t teller = -1;

static void tell_signal(int signal)
{
	const int before = errno, told = -signal;

	while (write(teller, &told, sizeof(told)) < 0 && errno == EINTR)
		;
	errno = before;
}

/* What is ignored stays so; handlers end with the exec. */
static void hold_stops(int tell)
{
	static const int held[] = { SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT };
	const struct sigaction telling = { .sa_handler = tell_signal, .sa_flags = SA_RESTART };
	struct sigaction now;

	teller = tell;
	for (size_t i = 0; i < sizeof(held) / sizeof(*held); i++) {
		if (sigaction(held[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			(void) sigaction(held[i], &telling, NULL);
	}
}

/* In the child, which may run in hiwater's own memory, hiwater waiting meanwhile: nothing but system calls, and what execvp
 * does. Tells errno through the pipe, which a successful exec closes. */
static _Noreturn void become(const struct launch *launch, int tell)
{
	hold_stops(tell);
	if (launch->cgroup_procs >= 0 && write(launch->cgroup_procs, "0", 1) < 0)
		goto out;
	for (int fd = 0; launch->streams && fd <= 2; fd++) {
		if (launch->streams[fd] >= 0 && dup2(launch->streams[fd], fd) < 0)
			goto out;
	}
	child_give_back(launch->inherited);
	(void) execvp(launch->argv[0], launch->argv);
out:;
	int error = errno;

	while (write(tell, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* A fork would copy the tables of hiwater's memory, which the exec throws away. The child never comes back from here: it
 * stands on this frame's stack. */
static pid_t start_in_place(const struct launch *launch, int tell)
{
	pid_t pid = vfork();

	if (pid < 0 && (errno == EPERM || errno == ENOSYS)) /* a sandbox that knows fork alone */
		pid = fork();
	if (pid == 0)
		become(launch, tell);
	return pid;
}

static pid_t start_in_cgroup(const struct launch *launch, int tell)
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
		become(launch, tell);
	return pid;
#else
	(void) launch;
	(void) tell;
	errno = ENOSYS;
	return -1;
#endif
}

/* The errno that the child told, 0 once it is the command; and which stop came to it before, 0: none, or it is over. */
static int read_error(int fd, int *ret_stop)
{
	*ret_stop = 0;
	for (;;) {
		int told;
		const ssize_t n = read(fd, &told, sizeof(told));

		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(told))
			return 0;
		if (told > 0)
			return told;
		*ret_stop = told == -SIGCONT ? 0 : -told;
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

const char *child_why_not(const char *file, int error)
{
	static const struct {
		int error;
		bool (*is)(const char *file);
		const char *text;
	} rows[] = {
		/* the first that fits */
		{ EACCES, is_folder, "; it is a folder" },
		{ ENOENT, is_there, "; the file is there: what its first line asks for, or its loader, is not" },
		{ ENOENT, is_line, "; a line for the shell is run by sh -c 'LINE'" },
		{ ENOENT, is_assignment, "; variables are set by env NAME=VALUE COMMAND" },
		{ ENOENT, is_name, "; builtins, functions and aliases of a shell are no programs" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rows[i].error == error && rows[i].is(file))
			return rows[i].text;
	}
	return "";
}
