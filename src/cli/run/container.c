/* SPDX-License-Identifier: MIT */
#include "cli/run/container.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "cli/cli.h"

enum {
	ID_LEAST = 12,       /* digits of a short id; a shorter word is more likely a name */
	ID_DIGITS = 64,
	ANSWER_S = 10,       /* for a daemon to answer */
	ANSWER_SIZE = 512,
	PIPES = 2
};

extern char **environ;

static bool is_id(const char *name)
{
	const size_t len = strlen(name);

	return len > 0 && len <= ID_DIGITS && strspn(name, "0123456789abcdef") == len;
}

/* ---- docker inspect -------------------------------------------------------------------------- */

/* Reads stdout and stderr of a program to their ends. False: they were open after ANSWER_S. */
static bool read_answer(const int fds[PIPES], char text[PIPES][ANSWER_SIZE])
{
	const uint64_t until = clock_boot_ns() + ANSWER_S * UINT64_C(1000000000);
	struct pollfd polls[PIPES] = { { .fd = fds[0], .events = POLLIN },
		{ .fd = fds[1], .events = POLLIN } };
	size_t n[PIPES] = { 0, 0 };

	while (polls[0].fd >= 0 || polls[1].fd >= 0) {
		const uint64_t now = clock_boot_ns();

		if (now >= until)
			return false;
		const int ready = poll(polls, PIPES, (int) ((until - now) / 1000000 + 1));

		if (ready < 0 && errno == EINTR)
			continue; /* revents are those of the poll before */
		if (ready <= 0)
			return false;
		for (int i = 0; i < PIPES; i++) {
			char more[ANSWER_SIZE];

			if (polls[i].fd < 0 || !polls[i].revents)
				continue;
			const ssize_t got = read(polls[i].fd, more, sizeof(more));

			if (got == 0 || (got < 0 && errno != EINTR))
				polls[i].fd = -1;
			for (ssize_t k = 0; k < got && n[i] + 1 < ANSWER_SIZE; k++)
				text[i][n[i]++] = more[k];
		}
	}
	return true;
}

static int start(const char *program, const char *name, const int out[2], const int err[2], pid_t *ret)
{
	char *const argv[] = { (char *) (uintptr_t) program, (char *) (uintptr_t) "inspect",
		(char *) (uintptr_t) "--format", (char *) (uintptr_t) "{{.State.Pid}}",
		(char *) (uintptr_t) name, NULL };
	posix_spawn_file_actions_t files;
	int r = posix_spawn_file_actions_init(&files);

	if (r != 0)
		return -r;
	(void) posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	(void) posix_spawn_file_actions_adddup2(&files, out[1], 1);
	(void) posix_spawn_file_actions_adddup2(&files, err[1], 2);
	r = posix_spawnp(ret, program, &files, NULL, argv, environ);
	(void) posix_spawn_file_actions_destroy(&files);
	return -r;
}

/* The pid of a container's main process. Returns 0; or, with the reason in why, -ENOENT if the program
 * is not installed, -ESRCH if it knows no such container or cannot say. */
static int inspect(const char *program, const char *name, pid_t *ret, char why[ANSWER_SIZE])
{
	char text[PIPES][ANSWER_SIZE] = { "", "" };
	int out[2] = { -1, -1 }, err[2] = { -1, -1 }, status = 0;
	const char *p = text[0];
	uint64_t number;
	pid_t child;
	int r = pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 ? -errno : 0;

	if (r == 0)
		r = start(program, name, out, err, &child);
	autoclose int close_out = out[0], close_err = err[0];

	if (out[1] >= 0)
		(void) close(out[1]);
	if (err[1] >= 0)
		(void) close(err[1]);
	(void) snprintf(why, ANSWER_SIZE, "%s", r == -ENOENT ? "not installed" : strerror(-r));
	if (r < 0)
		return r == -ENOENT ? r : -ESRCH;
	const bool answered = read_answer((const int[]) { close_out, close_err }, text);

	if (!answered)
		(void) kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	text[1][strcspn(text[1], "\n")] = '\0';
	if (!answered)
		(void) snprintf(why, ANSWER_SIZE, "no answer within %d s", ANSWER_S);
	else if (status != 0)
		(void) snprintf(why, ANSWER_SIZE, "%s", text[1][0] ? text[1] : "it failed without a message");
	else if (parse_u64(&p, &number) < 0 || (*p != '\n' && *p != '\0') || number > INT32_MAX)
		(void) snprintf(why, ANSWER_SIZE, "its answer is not a PID");
	else if (number == 0)
		(void) snprintf(why, ANSWER_SIZE, "the container is not running");
	else
		return *ret = (pid_t) number, 0;
	return -ESRCH;
}

/* ---- the choice ------------------------------------------------------------------------------ */

struct found {
	char *cgroup;
	size_t size;
	pid_t *pids;
	size_t n, *ret_n;
};

static int by_id(const char *id, const struct found *f, struct hiw_err *err)
{
	return hwi_container_find(id, 0, f->cgroup, f->size, f->pids, f->n, f->ret_n, err);
}

/* The container of the process that program named; else that process alone. */
static int by_pid(const char *program, pid_t pid, const struct found *f)
{
	struct hiw_err err = { "" };
	int r = hwi_container_find(NULL, pid, f->cgroup, f->size, f->pids, f->n, f->ret_n, &err);

	if (r == 0)
		return 0;
	if (r != -ENOENT) {
		complain(
			"%s reports the container's process as %d, but %s: run hiwater on the container's host, outside of other "
			"containers",
			program, (int) pid, err.text);
		return EXIT_FAILED;
	}
	complain("warning: %s: measuring that process and its descendants only", err.text);
	f->cgroup[0] = '\0';
	f->pids[0] = pid;
	*f->ret_n = 1;
	return 0;
}

static int by_name(const char *name, const struct found *f, struct buf *why)
{
	static const char *const programs[] = { "docker", "podman", "nerdctl" };

	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		char text[ANSWER_SIZE];
		pid_t pid;

		if (inspect(programs[i], name, &pid, text) == 0)
			return by_pid(programs[i], pid, f);
		(void) buf_printf(why, "%s%s: %s", why->len > 0 ? "; " : "", programs[i], text);
	}
	return -ENOENT;
}

int container_choose(
	const char *name, char *ret_cgroup, size_t size, pid_t *pids, size_t n, size_t *ret_n)
{
	const struct found f = { ret_cgroup, size, pids, n, ret_n };
	struct buf why = BUF_INIT(4096);
	struct hiw_err err = { "" };
	int r = -ENOENT;

	if (name[0] == '-' || name[0] == '\0') {
		complain("'%s' is not the name or id of a container", name);
		return EXIT_USAGE;
	}
	if (is_id(name) && strlen(name) >= ID_LEAST)
		r = by_id(name, &f, &err);
	if (r == -ENOENT)
		r = by_name(name, &f, &why);
	if (r == -ENOENT && is_id(name) && strlen(name) < ID_LEAST)
		r = by_id(name, &f, &err);
	if (r == -ENOENT)
		complain("no running container '%s' found (%s); check the name (docker ps), start docker, or give the "
			 "container's id (at least %d digits) or --cgroup PATH",
			name, why.error ? "out of memory" : why.data, ID_LEAST);
	else if (r < 0)
		complain("%s", err.text[0] ? err.text : strerror(-r));
	buf_done(&why);
	return r < 0 ? EXIT_FAILED : r;
}
