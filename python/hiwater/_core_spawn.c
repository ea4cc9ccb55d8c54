/* SPDX-License-Identifier: MIT */
#define PY_SSIZE_T_CLEAN
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "_core_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	GUARD = 65536,           /* at least a page */
	STACK = 65536,
	MAPPED = 2 * (GUARD + STACK), /* a stack for the intermediate, one for the command before its exec */
	FDS = 4,                 /* descriptors of the command, from 0 */
	EXEC_WAIT_S = 10,        /* after an exec of the program, for the end of the command */
	ONE_MS = 1000000,
};

static const char reaper_name[] = "hiwater-reaper"; /* process_recorder() in src/ knows it */

/* What the intermediate works on, in the memory that it shares. */
struct task {
	char **argv, **env;
	int fds[FDS];            /* of this process; -1: /dev/null, for 2 as inherited */
	bool stays;
	int report;              /* if it stays: its end of a socket, for the result */
	int program_end;         /* the other one, which an exec of the program closes; -1: none */
	int error;               /* an errno of the exec; 0: it succeeded */
	pid_t owner;
	char *stack;             /* of the command */
};

/* ---- the command, before its exec ------------------------------------------------------------------------ */

static int move_descriptors(const struct task *t)
{
	int moved[FDS];

	for (int i = 0; i < FDS; i++) {
		moved[i] = t->fds[i] < 0 ? -1 : fcntl(t->fds[i], F_DUPFD_CLOEXEC, FDS);
		if (t->fds[i] >= 0 && moved[i] < 0)
			return -1;
	}
	for (int i = 0; i < FDS; i++) {
		if (moved[i] < 0 && i < STDERR_FILENO)
			moved[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (moved[i] == i) /* /dev/null, where the number was free: it must not have FD_CLOEXEC */
			(void) fcntl(i, F_SETFD, 0);
		else if (moved[i] >= 0 && dup2(moved[i], i) < 0)
			return -1;
	}
	return 0;
}

/* All signals are blocked until here, so that no handler of the program ran. */
static void reset_signals(void)
{
	static const int defaults[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD };
	sigset_t none;

	for (size_t i = 0; i < sizeof(defaults) / sizeof(*defaults); i++)
		(void) signal(defaults[i], SIG_DFL);
	for (int n = 1; n < NSIG; n++) {
		struct sigaction action;

		if (sigaction(n, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
			action.sa_handler != SIG_IGN)
			(void) signal(n, SIG_DFL);
	}
	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
}

static int begin_command(void *data)
{
	struct task *t = data;

	(void) setsid();
	if (move_descriptors(t) == 0) {
		reset_signals();
		(void) execve(t->argv[0], t->argv, t->env);
	}
	t->error = errno;
	_exit(127);
}

/* ---- the intermediate -------------------------------------------------------------------------------------- */

#if CORE_CAN_STAY
/* A system call without errno, which lies in the memory of a thread that may have ended. */
static inline long raw(long number, long a, long b, long c, long d, long e)
{
#ifdef __x86_64__
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long result;

	__asm__ volatile("syscall"
		: "=a"(result)
		: "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
		: "rcx", "r11", "memory");
	return result;
#else
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
#endif
}

#if defined(__has_attribute)
#if __has_attribute(no_stack_protector)
#define NO_CANARY __attribute__((no_stack_protector)) /* it lies in that memory, too */
#endif
#endif
#ifndef NO_CANARY
#define NO_CANARY
#endif

struct waiting {
	struct pollfd fds[3];    /* signals; the end of the program; the socket */
	pid_t command, owner;
	struct timespec limit;   /* without a pidfd: how often to look for the program */
	struct signalfd_siginfo info;
};

/* Uses nothing of the C library and no memory but its own stack. */
__attribute__((noinline, noreturn)) NO_CANARY static void reap_all(struct waiting *w)
{
	long limit = w->fds[1].fd < 0 ? (long) &w->limit : 0;
	int status = 0, code = 0, is_released = 0, left = EXEC_WAIT_S;
	long pid;

	(void) raw(SYS_write, w->fds[2].fd, (long) &status, sizeof(status), 0, 0); /* the program continues */
	for (;;) {
		while ((pid = raw(SYS_wait4, -1, (long) &status, WNOHANG | __WALL, 0, 0)) > 0) {
			if (pid == w->command)
				code = status;
		}
		if (w->fds[2].revents) { /* the exec has also closed the socket of the command, which ends */
			w->fds[2].fd = -1;
			limit = (long) &w->limit;
			is_released = 1;
		}
		if ((pid < 0 && is_released) || (w->fds[2].fd < 0 && left-- == 0) || w->fds[1].revents ||
			raw(SYS_getppid, 0, 0, 0, 0, 0) != w->owner)
			break;
		w->limit.tv_sec = 1;
		(void) raw(SYS_ppoll, (long) w->fds, 3, limit, 0, 8);
		if (w->fds[0].revents &&
			raw(SYS_read, w->fds[0].fd, (long) &w->info, sizeof(w->info), 0, 0) > 0)
			is_released |= w->info.ssi_signo == SIGTERM;
	}
	for (;;)
		(void) raw(SYS_exit_group, (code & 0x7f) ? 128 + (code & 0x7f) : code >> 8 & 0xff, 0, 0, 0, 0);
}

/* Closes what it inherited: a reader of the program's pipes would otherwise not see their end. */
static void close_all_but(int fd)
{
	const long most = sysconf(_SC_OPEN_MAX);

#ifdef SYS_close_range
	if ((fd == 0 || syscall(SYS_close_range, 0U, (unsigned) fd - 1, 0U) == 0) &&
		syscall(SYS_close_range, (unsigned) fd + 1, ~0U, 0U) == 0)
		return;
#endif
	for (int i = 0; i < (most > 0 && most < 65536 ? most : 65536); i++) {
		if (i != fd)
			(void) close(i);
	}
}

static void stay(const struct task *t, pid_t command)
{
	struct waiting w = { .command = command, .owner = t->owner };
	sigset_t ends;

	close_all_but(t->report);
	(void) sigemptyset(&ends);
	(void) sigaddset(&ends, SIGCHLD);
	(void) sigaddset(&ends, SIGTERM);
	w.fds[0] = (struct pollfd) { .fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN };
#ifdef SYS_pidfd_open
	w.fds[1] = (struct pollfd) { .fd = (int) syscall(SYS_pidfd_open, t->owner, 0U), .events = POLLIN };
#else
	w.fds[1].fd = -1;
#endif
	w.fds[2].fd = t->report; /* an end without the other is always reported */
	if (w.fds[0].fd >= 0) /* else the command is adopted by init */
		reap_all(&w);
}
#endif

static int intermediate(void *data)
{
	struct task *t = data;
	pid_t pid;

	(void) prctl(PR_SET_NAME, reaper_name);
	(void) signal(SIGCHLD, SIG_DFL); /* an ignored one would lose the exit status */
	if (t->stays) {
		(void) setsid();
		(void) prctl(PR_SET_CHILD_SUBREAPER, 1);
	}
	pid = clone(begin_command, t->stack, CLONE_VM | CLONE_VFORK | SIGCHLD, t);
	if (pid < 0)
		t->error = errno;
	else if (t->error)
		(void) waitpid(pid, NULL, __WALL);
#if CORE_CAN_STAY
	else if (t->stays)
		stay(t, pid);
#endif
	return 0;
}

/* ---- the program's side ------------------------------------------------------------------------------------ */

/* Two stacks with a guard below each. NULL: errno. */
static char *map_stacks(void)
{
	char *mapped = mmap(NULL, MAPPED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (mapped == MAP_FAILED)
		return NULL;
	for (size_t i = 0; i < 2; i++) {
		if (mprotect(mapped + GUARD + i * (GUARD + STACK), STACK, PROT_READ | PROT_WRITE) < 0) {
			(void) munmap(mapped, MAPPED);
			return NULL;
		}
	}
	return mapped;
}

/* Not as a standard stream, which would get the program's output. Returns -errno if there is none. */
static int keep_end(int fd)
{
	const int moved = fd > STDERR_FILENO ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (moved < 0)
		return -errno;
	if (moved != fd)
		(void) close(fd);
	return moved;
}

/* Starts the intermediate, and waits until the command runs. Returns its pid, 0 if it has ended, or
 * -errno. */
static pid_t start(struct task *t, char *stacks)
{
	int ends[2] = { -1, -1 }, result = 0, status;
	sigset_t all, before;
	pid_t pid;
	int r = 0;

	if (t->stays && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	if (t->stays && (r = keep_end(ends[0])) < 0) {
		(void) close(ends[0]);
		(void) close(ends[1]);
		return r;
	}
	ends[0] = t->stays ? r : -1;
	t->report = ends[1];
	t->stack = stacks + MAPPED;
	(void) sigfillset(&all);
	(void) sigprocmask(SIG_SETMASK, &all, &before);
	pid = clone(intermediate, stacks + GUARD + STACK, CLONE_VM | (t->stays ? 0 : CLONE_VFORK), t);
	r = pid < 0 ? -errno : 0;
	if (t->stays) {
		(void) close(ends[1]);
		if (pid > 0 && read(ends[0], &result, sizeof(result)) == sizeof(result))
			r = pid;
		if (r > 0)
			t->program_end = ends[0];
		else
			(void) close(ends[0]);
	}
	if (r == 0) {
		while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
			;
		r = -t->error;
	}
	(void) sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}

/* A list of bytes as an array that ends with NULL, and borrows from the list. NULL: an error is set. */
static char **texts_of(PyObject *list)
{
	const Py_ssize_t n = PyList_Size(list);
	char **texts = n < 0 ? NULL : PyMem_Calloc((size_t) n + 1, sizeof(*texts));

	for (Py_ssize_t i = 0; texts && i < n; i++) {
		texts[i] = PyBytes_AsString(PyList_GetItem(list, i));
		if (!texts[i]) {
			PyMem_Free(texts);
			return NULL;
		}
	}
	return texts;
}

static PyObject *spawn(struct task *t)
{
	char *stacks = map_stacks();
	pid_t pid = -errno;

	if (stacks) {
		Py_BEGIN_ALLOW_THREADS
			pid = start(t, stacks);
		Py_END_ALLOW_THREADS if (pid <= 0)(void) munmap(stacks, MAPPED);
	}
	if (pid < 0) {
		errno = -pid;
		return PyErr_SetFromErrno(PyExc_OSError);
	}
	return Py_BuildValue("iKi", (int) pid, pid ? (unsigned long long) (uintptr_t) stacks : 0ULL, t->program_end);
}

PyObject *core_spawn(PyObject *module, PyObject *arguments)
{
	struct task t = { .owner = getpid(), .report = -1, .program_end = -1 };
	PyObject *argv, *env, *made = NULL;
	int stays;

	(void) module;
	if (!PyArg_ParseTuple(arguments, "O!O!(iiii)p", &PyList_Type, &argv, &PyList_Type, &env, &t.fds[0], &t.fds[1],
		    &t.fds[2], &t.fds[3], &stays))
		return NULL;
	t.stays = stays && CORE_CAN_STAY;
	t.argv = texts_of(argv);
	t.env = t.argv ? texts_of(env) : NULL;
	if (t.env && t.argv[0])
		made = spawn(&t);
	else if (t.env)
		PyErr_SetString(PyExc_ValueError, "no command");
	PyMem_Free(t.argv);
	PyMem_Free(t.env);
	return made;
}

/* Releases an intermediate, and waits for it, at most limit_ms. Returns an exit status, -1 if it still runs, -2 if it
 * is no child of this process any more. */
static int reap(pid_t pid, int limit_ms)
{
	const struct timespec moment = { .tv_nsec = ONE_MS };
	siginfo_t info;
	int status = 0;
	pid_t r;

	/* As long as it is this process's child, no other process has its pid. */
	if (waitid(P_PID, (id_t) pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
		return -2;
	(void) kill(pid, SIGTERM);
	while ((r = waitpid(pid, &status, WNOHANG | __WALL)) == 0 && limit_ms-- > 0)
		(void) nanosleep(&moment, NULL);
	if (r == 0)
		return -1;
	return r < 0 ? -2 : WIFEXITED(status) ? WEXITSTATUS(status)
					      : 128 + WTERMSIG(status);
}

PyObject *core_reap(PyObject *module, PyObject *arguments)
{
	unsigned long long stacks;
	int pid, limit_ms, status;

	(void) module;
	if (!PyArg_ParseTuple(arguments, "iKi", &pid, &stacks, &limit_ms))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		status = reap(pid, limit_ms);
	if (status != -1)
		(void) munmap((void *) (uintptr_t) stacks, MAPPED);
	Py_END_ALLOW_THREADS return PyLong_FromLong(status);
}
