/* SPDX-License-Identifier: MIT */
#include "cli/run/child.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

void child_save_inherited(struct inherited *ret)
{
	(void) sigprocmask(SIG_SETMASK, NULL, &ret->mask);
	(void) sigaction(SIGCHLD, NULL, &ret->child);
	(void) getrlimit(RLIMIT_NOFILE, &ret->files);
	ret->limits_processes = getrlimit(RLIMIT_NPROC, &ret->processes) == 0;
}

static void restore_process_limit(const struct inherited *before)
{
	if (before->limits_processes)
		(void) setrlimit(RLIMIT_NPROC, &before->processes);
}

void child_restore_inherited(const struct inherited *before)
{
	(void) setrlimit(RLIMIT_NOFILE, &before->files);
	restore_process_limit(before);
	if (before->child.sa_handler == SIG_IGN)
		(void) sigaction(SIGCHLD, &before->child, NULL);
	(void) sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

/* ---- executing a command --------------------------------------------------------------------- */

/* The next candidate for file in *path, a list as in PATH; false: there is none. */
static bool next_candidate(const char **path, const char *file, char ret[static PATH_MAX])
{
	while (*path) {
		const char *folder = *path;
		const size_t len = strcspn(folder, ":"), n = strlen(file);

		*path = folder[len] ? folder + len + 1 : NULL;
		if (len + n + 2 > PATH_MAX)
			continue;
		memcpy(ret, folder, len);
		ret[len] = '/';
		memcpy(ret + len + (len > 0), file, n + 1); /* an empty folder is the current one */
		return true;
	}
	return false;
}

static const char *search_path(void)
{
	const char *path = getenv("PATH");

	return path ? path : "/bin:/usr/bin"; /* confstr(_CS_PATH) */
}

/* A file that the kernel does not execute is a shell script, unless its first line has a byte that
 * no text has, as in a program of another machine. */
static bool is_binary(const char *file)
{
	autoclose int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char head[128];
	const ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head));

	if (n < 0)
		return true; /* the shell could not read it either */
	for (ssize_t i = 0; i < n && head[i] != '\n'; i++) {
		if (head[i] == '\0')
			return true;
	}
	return n >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0;
}

char **child_script(char *const *argv)
{
	size_t n = 0;
	char **script;

	while (argv[n])
		n++;
	script = calloc(n + 2, sizeof(*script));
	for (size_t i = 1; script && i < n; i++)
		script[i + 1] = argv[i];
	return script;
}

/* Returns an errno. */
static int execute(char *file, char *const *argv, char **script, char *const *environment)
{
	static char shell[] = "/bin/sh";

	(void) execve(file, argv, environment);
	if (errno != ENOEXEC || !script)
		return errno;
	if (is_binary(file))
		return ENOEXEC;
	script[0] = shell;
	script[1] = file;
	(void) execve(shell, script, environment);
	return errno;
}

/* As execvp(3): these errors of one candidate do not end the search. */
static bool is_passed_over(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ESTALE || error == ENODEV ||
	       error == ETIMEDOUT || error == EACCES;
}

int child_exec(char *const *argv, char **script, char *const *environment)
{
	const char *path = search_path();
	int error = ENOENT;
	char file[PATH_MAX];

	if (strchr(argv[0], '/'))
		return -execute(argv[0], argv, script, environment);
	while (argv[0][0] && next_candidate(&path, argv[0], file)) {
		const int tried = execute(file, argv, script, environment);

		if (!is_passed_over(tried))
			return -tried;
		if (tried == EACCES)
			error = EACCES;
	}
	return -error;
}

/* ---- starting -------------------------------------------------------------------------------- */

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

enum {
	BEFORE_EXEC = 1 << 16 /* a message: this step before the exec failed, with the errno below */
};

/* Enters the cgroup, replaces the streams, keeps a descriptor. Returns 0 or an errno. */
static int prepare(const struct launch *launch)
{
	if (launch->cgroup_procs >= 0 && write(launch->cgroup_procs, "0", 1) < 0)
		return errno;
	for (int fd = 0; launch->streams && fd <= 2; fd++) {
		if (launch->streams[fd] >= 0 && dup2(launch->streams[fd], fd) < 0)
			return errno;
	}
	if (launch->kept >= 0)
		(void) fcntl(launch->kept, F_SETFD, 0);
	return 0;
}

/* Runs in the child, which may share hiwater's memory while hiwater waits (vfork): only system
 * calls and child_exec are allowed. On failure it writes errno to the pipe, which a successful exec
 * closes. */
static _Noreturn void become(const struct launch *launch, char **script, int pipe)
{
	int error;

	defer_stops(pipe);
	error = prepare(launch);
	if (error) {
		error |= BEFORE_EXEC;
	} else {
		child_restore_inherited(launch->inherited);
		error = -child_exec(
			launch->argv, script, launch->environment ? launch->environment : environ);
	}
	while (write(pipe, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* vfork does not copy hiwater's page tables, which the exec would discard. The child must not
 * return from this function: it uses this frame's stack. */
static pid_t start_in_place(const struct launch *launch, char **script, int pipe)
{
	pid_t pid = vfork();

	if (pid < 0 && (errno == EPERM || errno == ENOSYS)) /* a sandbox that allows fork only */
		pid = fork();
	if (pid == 0)
		become(launch, script, pipe);
	return pid;
}

/* In a copy of hiwater that is held: waits at the gate. What is opened of it by then is the job's from its exec on. Where
 * Yama forbids reading other processes' memory, the reader may read this one's. */
static void wait_at(const int gate[2])
{
	pid_t reader = 0;

	(void) close(gate[1]);
	while (read(gate[0], &reader, sizeof(reader)) < 0 && errno == EINTR)
		;
	if (reader > 0)
		(void) prctl(PR_SET_PTRACER, (unsigned long) reader, 0L, 0L, 0L);
}

static pid_t start_held(const struct launch *launch, char **script, int pipe, const int gate[2])
{
	const pid_t pid = fork();

	if (pid != 0)
		return pid;
	wait_at(gate);
	become(launch, script, pipe);
}

/* Opens the gate for a job that may start, and kills the process of one that may not. If hiwater dies before, the
 * job starts: its end of the pipe closes. */
static int open_gate(const struct launch *launch, pid_t pid, int gate)
{
	pid_t reader = 0;
	const int r = launch->hold(launch->hold_ctx, pid, &reader);

	if (r < 0)
		(void) kill(pid, SIGKILL);
	else
		(void) !write(gate, &reader, sizeof(reader));
	return r;
}

static pid_t start_in_cgroup(const struct launch *launch, char **script, int pipe, const int gate[2])
{
#ifdef SYS_clone3
	struct clone_args args;
	pid_t pid;

	memset(&args, 0, sizeof(args));
	args.flags = CLONE_INTO_CGROUP;
	args.exit_signal = SIGCHLD;
	args.cgroup = (uint64_t) launch->cgroup_dir;
	pid = (pid_t) syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		if (launch->hold)
			wait_at(gate);
		become(launch, script, pipe);
	}
	return pid;
#else
	(void) launch;
	(void) script;
	(void) pipe;
	(void) gate;
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

/* The kernel compares the processes of a user with the limit of the process that forks: with a
 * lower one a fork fails unless so many more can be started. */
static void lower_process_limit(const struct launch *launch)
{
	struct rlimit limit = launch->inherited->processes;

	if (!launch->spare_processes || !launch->inherited->limits_processes ||
		limit.rlim_cur == RLIM_INFINITY)
		return;
	limit.rlim_cur = limit.rlim_cur > launch->spare_processes
				 ? limit.rlim_cur - launch->spare_processes
				 : 0;
	(void) setrlimit(RLIMIT_NPROC, &limit);
}

int child_start(const struct launch *launch, pid_t *ret_pid, bool *ret_forked)
{
	autoclose int reader = -1;
	autoclose int writer = -1;
	autofree char **script = child_script(launch->argv);
	const bool into = launch->cgroup_procs < 0 && launch->cgroup_dir >= 0;
	int fds[2], gate[2] = { -1, -1 }, error, stop, held = 0;
	pid_t pid;

	*ret_forked = false;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	reader = fds[0];
	writer = fds[1];
	if (launch->hold && pipe2(gate, O_CLOEXEC) < 0)
		return -errno;
	autoclose int gate_in = gate[0];
	autoclose int gate_out = gate[1];

	(void) gate_in; /* the child's */

	lower_process_limit(launch);
	pid = into           ? start_in_cgroup(launch, script, writer, gate)
	      : launch->hold ? start_held(launch, script, writer, gate)
			     : start_in_place(launch, script, writer);
	error = errno;
	restore_process_limit(launch->inherited);
	if (pid < 0)
		return -error;
	*ret_forked = true;
	(void) close(take_fd(writer));
	if (launch->hold)
		held = open_gate(launch, pid, gate_out);
	error = read_error(reader, &stop);
	if (held < 0) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		*ret_forked = false;
		return held;
	}
	if (error) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		*ret_forked = !(error & BEFORE_EXEC);
		return -(error & ~BEFORE_EXEC);
	}
	if (stop)
		(void) kill(pid, stop);
	*ret_pid = pid;
	return 0;
}

/* ---- why a file is no program ---------------------------------------------------------------- */

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

static bool is_any(const char *file)
{
	(void) file;
	return true;
}

static const struct {
	unsigned number; /* e_machine of an ELF file */
	const char *name; /* as uname(2) has it */
} machines[] = {
	{ EM_386, "i686" },
	{ EM_X86_64, "x86_64" },
	{ EM_ARM, "armv7l" },
	{ EM_AARCH64, "aarch64" },
	{ EM_PPC64, "ppc64le" },
	{ EM_S390, "s390x" },
	{ EM_RISCV, "riscv64" },
};

static void find_file(const char *name, char ret[static PATH_MAX])
{
	const char *path = search_path();

	(void) snprintf(ret, PATH_MAX, "%s", name);
	while (!is_path(name) && next_candidate(&path, name, ret)) {
		if (access(ret, X_OK) == 0)
			return;
	}
}

/* Of a file with ENOEXEC. */
static void explain_binary(const char *name, char ret[static CHILD_HINT])
{
	char path[PATH_MAX];
	Elf64_Ehdr head; /* e_machine is at the same place in 32-bit files */
	struct utsname here;

	find_file(name, path);
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const ssize_t n = fd < 0 ? -1 : read(fd, &head, sizeof(head));
	const bool is_elf = n >= SELFMAG && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0;

	(void) snprintf(ret, CHILD_HINT, "%s",
		is_elf ? "; the program is damaged, or for another operating system"
		       : "; it is neither a program for this machine nor a script");
	if (!is_elf || n < (ssize_t) sizeof(head) || uname(&here) < 0)
		return;
	for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++) {
		if (machines[i].number == head.e_machine && strcmp(machines[i].name, here.machine) != 0)
			(void) snprintf(ret, CHILD_HINT, "; the program is for %s, this machine is %.64s",
				machines[i].name, here.machine);
	}
}

const char *child_hint(const char *file, int error, char room[static CHILD_HINT])
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
		{ ELIBBAD, is_any, "; its loader is damaged, or for another machine" },
	};

	if (error == ENOEXEC) {
		explain_binary(file, room);
		return room;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rows[i].error == error && rows[i].is(file))
			return rows[i].text;
	}
	return "";
}
