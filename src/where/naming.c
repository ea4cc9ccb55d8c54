/* SPDX-License-Identifier: MIT */
#include "where/naming.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "where/lines.h"

enum {
	ANSWER_MOST = 64 << 20,
	POLL_MS = 100,
};
static const uint64_t patience_ns = UINT64_C(10000000000);

static bool is_nameless(const struct where_frame *f)
{
	return !*f->function && *f->module == '/';
}

struct question {
	const struct where_frame *frame;
	size_t number;
};

static int by_module(const void *a, const void *b)
{
	const struct where_frame *const x = ((const struct question *) a)->frame;
	const struct where_frame *const y = ((const struct question *) b)->frame;
	const int r = strcmp(x->module, y->module);

	return r ? r : strcmp(x->build_id, y->build_id);
}

/* A file without a name, at its beginning. Those of a module follow each other: it is opened once. */
static int questions(const struct where_frame *frames, size_t n)
{
	struct buf lines = BUF_INIT(ANSWER_MOST);
	autofree struct question *list = calloc(n + 1, sizeof(*list));
	size_t n_list = 0;
	int fd = memfd_create("frames", MFD_CLOEXEC);

	for (size_t i = 0; list && i < n; i++) {
		if (is_nameless(&frames[i]))
			list[n_list++] = (struct question) { &frames[i], i };
	}
	if (n_list > 1)
		qsort(list, n_list, sizeof(*list), by_module);
	for (size_t i = 0; i < n_list; i++) {
		(void) buf_str(&lines, "place");
		lines_number(&lines, list[i].number);
		lines_text(&lines, list[i].frame->module);
		lines_text(&lines, list[i].frame->build_id);
		lines_number(&lines, list[i].frame->offset);
		(void) buf_str(&lines, "\n");
	}
	const bool is_written = fd >= 0 && lines.len > 0 && !lines.error &&
				write(fd, lines.data, lines.len) == (ssize_t) lines.len;

	if (fd >= 0 && (!is_written || lseek(fd, 0, SEEK_SET) < 0)) {
		(void) close(fd);
		fd = -1;
	}
	buf_done(&lines);
	return fd;
}

static _Noreturn void become(const char *program, int in, int out)
{
	char name[] = "hiwater-where", mode[] = "names", *const argv[] = { name, mode, NULL };
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void) dup2(in, STDIN_FILENO);
	(void) dup2(out, STDOUT_FILENO);
	(void) dup2(null, STDERR_FILENO);
	(void) execv(program, argv);
	_exit(127);
}

/* "named", number, function, file, line */
static void read_answer(char *line, struct where_frame *frames, size_t n)
{
	char *at = line, *word, *function, *file;
	uint64_t number, source_line;
	struct where_frame *f;

	if (!lines_next_text(&at, &word) || !lines_next_number(&at, &number) ||
		!lines_next_text(&at, &function) || !lines_next_text(&at, &file) ||
		!lines_next_number(&at, &source_line) || number >= n || !*function)
		return;
	f = &frames[number];
	if (!is_nameless(f) || !(function = strdup(function)))
		return;
	f->function = function;
	if (*file && !*f->file && (file = strdup(file))) {
		f->file = file;
		f->line = source_line < UINT32_MAX ? (uint32_t) source_line : 0;
	}
}

static void read_answers(int fd, struct where_frame *frames, size_t n)
{
	const uint64_t until = clock_awake_ns() + patience_ns;
	struct buf text = BUF_INIT(ANSWER_MOST);
	char bytes[8192];
	ssize_t got = 1;

	while (got > 0 && clock_awake_ns() < until) {
		if (poll(&(struct pollfd) { .fd = fd, .events = POLLIN }, 1, POLL_MS) <= 0)
			continue;
		got = read(fd, bytes, sizeof(bytes));
		if (got > 0 && buf_add(&text, bytes, (size_t) got) < 0)
			break;
	}
	for (char *line = text.data, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		read_answer(line, frames, n);
	}
	buf_done(&text);
}

void where_name_frames(const char *program, struct where_frame *frames, size_t n)
{
	autoclose int in = questions(frames, n);
	int ends[2];
	pid_t pid;

	if (in < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0)
		become(program, in, ends[1]);
	(void) close(ends[1]);
	if (pid > 0)
		read_answers(ends[0], frames, n);
	(void) close(ends[0]);
	if (pid > 0) {
		(void) kill(pid, SIGKILL); /* nothing is heard of it any more */
		(void) waitpid(pid, NULL, 0);
	}
}
