/* SPDX-License-Identifier: MIT */
#include "where/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "where/lines.h"

enum {
	LINE_MOST = 1 << 19,      /* bytes of a line */
	ROUNDS_MOST = 64,         /* of LINE_MOST bytes and their lines, at once */
	ROWS_MOST = 1000000,
	FILES_MOST = 20000,
	START_MS = 3000,
	DESCRIPTORS = 1024,       /* that may be open */
	FULL_RING = 128,
	HIGH_VALUES = 12,
};
static const uint64_t last_wait_ns = UINT64_C(20000000000), silence_ns = UINT64_C(5000000000);
static const uint64_t cost_most = UINT64_C(1) << 50; /* ns, bytes: more is not believed */

struct where_feed {
	struct where_feed_options options;
	char *program;
	int fd;                   /* -1: the sampler does not run */
	struct buf text;          /* received, not passed on */
	bool has_begun, is_done, was_told, is_silent, has_heard;
	bool is_naming;           /* which may take long for a single function */
	uint64_t heard_ns;        /* clock_awake_ns, of the last drain's */
	uint64_t start_ns;
	/* the high whose rows are coming */
	struct where_high high;
	uint32_t number;
	size_t rows_left, files_left, pythons_left, frames_left;
	struct where_row *rows;
	struct where_file *files; /* the names are owned */
	struct where_python pythons[WHERE_PYTHONS]; /* what is in them, too */
	size_t cap_rows, cap_files;
	pthread_mutex_t lock;     /* of the note and the cost */
	char note[WHERE_NOTE];
	bool has_cost;
	uint64_t cpu_ns, rss_bytes;
};

struct where_feed *where_feed_new(const struct where_feed_options *options)
{
	struct where_feed *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->options = *options;
	f->options.program = f->program = strdup(options->program);
	f->fd = -1;
	f->text = (struct buf) BUF_INIT(2 * LINE_MOST);
	(void) pthread_mutex_init(&f->lock, NULL);
	if (!f->program) {
		where_feed_free(f);
		return NULL;
	}
	return f;
}

static void drop_pythons(struct where_feed *f)
{
	for (size_t i = 0; i < f->high.n_pythons; i++)
		where_python_done(&f->pythons[i]);
	f->high.n_pythons = 0;
}

static void drop_files(struct where_feed *f)
{
	for (size_t i = 0; i < f->high.n_files; i++)
		free((void *) (uintptr_t) f->files[i].name);
	f->high.n_files = 0;
}

void where_feed_free(struct where_feed *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		(void) close(f->fd);
	drop_files(f);
	drop_pythons(f);
	buf_done(&f->text);
	free(f->rows);
	free(f->files);
	free(f->program);
	(void) pthread_mutex_destroy(&f->lock);
	free(f);
}

void where_feed_note(struct where_feed *f, char ret[static WHERE_NOTE])
{
	(void) pthread_mutex_lock(&f->lock);
	memcpy(ret, f->note, WHERE_NOTE);
	f->note[0] = '\0';
	(void) pthread_mutex_unlock(&f->lock);
}

bool where_feed_cost(struct where_feed *f, uint64_t *ret_cpu_ns, uint64_t *ret_rss_bytes)
{
	bool has_cost;

	(void) pthread_mutex_lock(&f->lock);
	has_cost = f->has_cost;
	*ret_cpu_ns = f->cpu_ns;
	*ret_rss_bytes = f->rss_bytes;
	(void) pthread_mutex_unlock(&f->lock);
	return has_cost;
}

static void add_note(struct where_feed *f, const char *text)
{
	(void) pthread_mutex_lock(&f->lock);
	const size_t n = strlen(f->note);

	(void) snprintf(f->note + n, sizeof(f->note) - n, "%s%s", n > 0 ? "; " : "", text);
	(void) pthread_mutex_unlock(&f->lock);
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* Its standard streams are not the job's: what a library prints goes nowhere. Only system calls:
 * hiwater may have threads. */
static _Noreturn void become_sampler(const struct where_feed *f, int fd, char *const *argv)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	for (int i = 0; i <= 2; i++)
		(void) dup2(null, i);
	/* Nor are other descriptors: a pipe that it kept open would have no end. */
	for (int i = 3; i < DESCRIPTORS; i++) {
		if (i != fd)
			(void) close(i);
	}
	(void) fcntl(fd, F_SETFD, 0);
	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
	(void) setpgid(0, 0); /* Ctrl-C is for the job; the sampler ends with the recorder */
	(void) execv(f->program, argv);
	_exit(127);
}

/* The first line: "ready" or "failed". */
static int hear_first(struct where_feed *f, struct err *err)
{
	const uint64_t until = clock_awake_ns() + (uint64_t) START_MS * 1000000;
	char text[600], *at = text, *word, *why;
	size_t n = 0;
	uint64_t pages = 0, kernel;

	while (n < sizeof(text) - 1 && (n == 0 || text[n - 1] != '\n')) {
		const uint64_t now = clock_awake_ns();
		struct pollfd wait = { .fd = f->fd, .events = POLLIN };
		const int ready = now < until ? poll(&wait, 1, (int) ((until - now) / 1000000) + 1) : 0;

		if (ready < 0 && errno == EINTR)
			continue; /* by a signal, such as that of a child */
		if (ready <= 0)
			return err_set(err, -ETIMEDOUT, "hiwater-where does not respond");
		if (recv(f->fd, text + n, 1, 0) != 1)
			return err_set(err, -ECHILD, "hiwater-where ended");
		n++;
	}
	text[n > 0 ? n - 1 : 0] = '\0';
	if (!lines_next_text(&at, &word))
		return err_set(err, -EPROTO, "hiwater-where does not respond");
	if (strcmp(word, "failed") == 0)
		return err_set(err, -EPERM, "%s", lines_next_text(&at, &why) ? why : "unknown error");
	if (strcmp(word, "ready") != 0 || !lines_next_number(&at, &pages) || !lines_next_number(&at, &kernel))
		return err_set(err, -EPROTO, "hiwater-where is of another version");
	return 0;
}

int where_feed_start(struct where_feed *f, pid_t pid, pid_t *ret_pid, struct err *err)
{
	char fd[16], target[16], period[16], stack[16], mode[16], name[] = "hiwater-where";
	char *argv[] = { name, fd, target, period, stack, mode, NULL };
	int ends[2], r;

	*ret_pid = 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_set(err, -errno, "cannot start hiwater-where: %s", strerror(errno));
	(void) snprintf(fd, sizeof(fd), "%d", ends[1]);
	(void) snprintf(target, sizeof(target), "%d", (int) pid);
	(void) snprintf(period, sizeof(period), "%u", f->options.period);
	(void) snprintf(stack, sizeof(stack), "%u", f->options.stack_bytes);
	(void) snprintf(mode, sizeof(mode), "%s%s", f->options.attaches ? "attach" : "run",
		f->options.removes_maps ? ",maps" : "");
	*ret_pid = fork();
	if (*ret_pid == 0)
		become_sampler(f, ends[1], argv);
	(void) close(ends[1]);
	f->fd = ends[0];
	r = *ret_pid < 0 ? err_set(err, -errno, "cannot start hiwater-where: %s", strerror(errno))
			 : hear_first(f, err);
	if (*ret_pid < 0)
		*ret_pid = 0;
	if (r < 0) {
		(void) close(f->fd);
		f->fd = -1;
		f->is_done = true;
	}
	return r;
}

void where_feed_begin(struct where_feed *f, uint64_t start_boot_ns)
{
	f->start_ns = start_boot_ns;
	__atomic_store_n(&f->has_begun, true, __ATOMIC_RELEASE);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool numbers(char **at, uint64_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!lines_next_number(at, &ret[i]) || ret[i] > INT64_MAX)
			return false;
	}
	return true;
}

static int on_frame(char *at, const struct where_sink *sink)
{
	uint64_t number, line;
	char *module, *build_id, *function, *file;
	struct where_frame frame;

	if (!numbers(&at, &number, 1) || !lines_next_text(&at, &module) || !lines_next_text(&at, &build_id) ||
		!lines_next_number(&at, &frame.offset) || !lines_next_text(&at, &function) ||
		!lines_next_text(&at, &file) ||
		!numbers(&at, &line, 1) || number == 0 || number > WHERE_FRAMES)
		return 0;
	frame.module = module;
	frame.build_id = build_id;
	frame.function = function;
	frame.file = file;
	frame.line = line < UINT32_MAX ? (uint32_t) line : 0;
	return sink->frame(sink->ctx, (uint32_t) number, &frame);
}

static int on_stack(char *at, const struct where_sink *sink)
{
	uint64_t v[3];

	if (!numbers(&at, v, 3) || v[0] == 0 || v[0] > WHERE_STACKS || v[1] >= v[0] || v[2] == 0 ||
		v[2] > WHERE_FRAMES)
		return 0;
	const struct where_stack stack = { (uint32_t) v[1], (uint32_t) v[2] };

	return sink->stack(sink->ctx, (uint32_t) v[0], &stack);
}

static int on_process(char *at, const struct where_sink *sink)
{
	struct where_process process = { .rank = -1 };
	uint64_t v[2];
	char *name;

	if (!numbers(&at, v, 2) || !lines_next_text(&at, &name) || v[0] == 0 || v[0] > WHERE_PROCESSES)
		return 0;
	process.pid = (int64_t) v[1];
	process.name = name;
	return sink->process(sink->ctx, (uint32_t) v[0], &process);
}

static uint64_t since_start(const struct where_feed *f, uint64_t boot_ns)
{
	return boot_ns > f->start_ns ? boot_ns - f->start_ns : 0;
}

static int pass_high(struct where_feed *f, const struct where_sink *sink)
{
	int r = 0;

	if (f->number > 0 && f->rows_left + f->files_left + f->pythons_left + f->frames_left == 0) {
		f->high.rows = f->rows;
		f->high.files = f->files;
		f->high.pythons = f->pythons;
		r = sink->high(sink->ctx, f->number, &f->high);
		f->number = 0;
	}
	return r;
}

static int on_high(struct where_feed *f, char *at, const struct where_sink *sink)
{
	uint64_t v[HIGH_VALUES];

	drop_files(f);
	drop_pythons(f);
	f->number = 0;
	if (!numbers(&at, v, HIGH_VALUES) || v[0] == 0 || v[0] > UINT32_MAX || v[9] > ROWS_MOST ||
		v[10] > FILES_MOST || v[11] > WHERE_PYTHONS)
		return 0;
	f->number = (uint32_t) v[0];
	f->high = (struct where_high) {
		.time_ns = since_start(f, v[1]),
		.total_bytes = v[2],
		.looked_ns = since_start(f, v[3]),
		.looked_bytes = v[4],
		.before_bytes = v[5],
		.sample_bytes = v[6],
		.huge_bytes = v[7],
		.lost = v[8],
	};
	f->rows_left = (size_t) v[9];
	f->files_left = (size_t) v[10];
	f->pythons_left = (size_t) v[11];
	f->frames_left = 0;
	return pass_high(f, sink);
}

static int on_row(struct where_feed *f, char *at, const struct where_sink *sink)
{
	uint64_t v[5];

	if (f->number == 0 || f->rows_left == 0 || !numbers(&at, v, 5) || v[0] > WHERE_STACKS ||
		v[1] > WHERE_PROCESSES)
		return 0;
	if (f->high.n_rows == f->cap_rows) {
		const size_t cap = f->cap_rows ? 2 * f->cap_rows : 256;
		struct where_row *const rows = realloc(f->rows, cap * sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		f->rows = rows;
		f->cap_rows = cap;
	}
	f->rows[f->high.n_rows++] = (struct where_row) {
		(uint32_t) v[0], (uint32_t) v[1], v[2], v[3], v[4] < v[2] ? v[4] : v[2]
	};
	f->rows_left--;
	return pass_high(f, sink);
}

static int on_file(struct where_feed *f, char *at, const struct where_sink *sink)
{
	uint64_t bytes;
	char *name;

	if (f->number == 0 || f->files_left == 0 || !lines_next_text(&at, &name) || !numbers(&at, &bytes, 1))
		return 0;
	if (f->high.n_files == f->cap_files) {
		const size_t cap = f->cap_files ? 2 * f->cap_files : 64;
		struct where_file *const files = realloc(f->files, cap * sizeof(*files));

		if (!files)
			return -ENOMEM;
		f->files = files;
		f->cap_files = cap;
	}
	f->files[f->high.n_files] = (struct where_file) { strdup(name), bytes };
	if (!f->files[f->high.n_files].name)
		return -ENOMEM;
	f->high.n_files++;
	f->files_left--;
	return pass_high(f, sink);
}

static int on_python(struct where_feed *f, char *at, const struct where_sink *sink)
{
	struct where_python *const new = &f->pythons[f->high.n_pythons];
	uint64_t v[4];

	if (f->number == 0 || f->pythons_left == 0 || f->frames_left > 0 || !numbers(&at, v, 4) ||
		v[0] == 0 || v[0] > WHERE_PROCESSES || v[1] > INT32_MAX || v[3] > WHERE_PYTHON_DEPTH)
		return 0;
	*new = (struct where_python) {
		.process = (uint32_t) v[0],
		.thread = (int64_t) v[1],
		.time_ns = since_start(f, v[2]),
		.frames = calloc(WHERE_PYTHON_DEPTH, sizeof(*new->frames)),
	};
	if (!new->frames)
		return -ENOMEM;
	f->high.n_pythons++;
	f->pythons_left--;
	f->frames_left = (size_t) v[3];
	return pass_high(f, sink);
}

static int on_python_frame(struct where_feed *f, char *at, const struct where_sink *sink)
{
	struct where_python_frame *new;
	struct where_python *to;
	char *function, *file;
	uint64_t line;

	if (f->number == 0 || f->frames_left == 0 || !lines_next_text(&at, &function) ||
		!lines_next_text(&at, &file) || !numbers(&at, &line, 1))
		return 0;
	to = &f->pythons[f->high.n_pythons - 1];
	new = (struct where_python_frame *) (uintptr_t) &to->frames[to->n_frames];
	new->function = strdup(function);
	new->file = strdup(file);
	new->line = line < UINT32_MAX ? (uint32_t) line : 0;
	to->n_frames++; /* from now on both are freed */
	f->frames_left--;
	return new->function && new->file ? pass_high(f, sink) : -ENOMEM;
}

static int on_drop(char *at, const struct where_sink *sink)
{
	uint64_t number;

	return numbers(&at, &number, 1) && number > 0 && number <= UINT32_MAX ? sink->drop(sink->ctx,
											(uint32_t) number)
									      : 0;
}

static int on_cost(struct where_feed *f, char *at, const struct where_sink *sink)
{
	uint64_t v[2];

	if (f->has_cost || !numbers(&at, v, 2) || v[0] > cost_most || v[1] > cost_most)
		return 0;
	(void) pthread_mutex_lock(&f->lock);
	f->has_cost = true;
	f->cpu_ns = v[0];
	f->rss_bytes = v[1];
	(void) pthread_mutex_unlock(&f->lock);
	return sink->cost ? sink->cost(sink->ctx, v[0], v[1]) : 0;
}

static int on_line(struct where_feed *f, char *line, const struct where_sink *sink)
{
	char *at = line, *word, *text;

	if (!lines_next_text(&at, &word))
		return 0;
	if (strcmp(word, "frame") == 0)
		return on_frame(at, sink);
	if (strcmp(word, "stack") == 0)
		return on_stack(at, sink);
	if (strcmp(word, "process") == 0)
		return on_process(at, sink);
	if (strcmp(word, "high") == 0)
		return on_high(f, at, sink);
	if (strcmp(word, "row") == 0)
		return on_row(f, at, sink);
	if (strcmp(word, "file") == 0)
		return on_file(f, at, sink);
	if (strcmp(word, "python") == 0)
		return on_python(f, at, sink);
	if (strcmp(word, "at") == 0)
		return on_python_frame(f, at, sink);
	if (strcmp(word, "drop") == 0)
		return on_drop(at, sink);
	if (strcmp(word, "cost") == 0)
		return on_cost(f, at, sink);
	if (strcmp(word, "note") == 0 && lines_next_text(&at, &text))
		add_note(f, text);
	f->is_naming = f->is_naming || strcmp(word, "naming") == 0;
	f->is_done = f->is_done || strcmp(word, "done") == 0;
	return 0;
}

static int pass_lines(struct where_feed *f, const struct where_sink *sink)
{
	char *at = f->text.data, *end;
	int r = 0;

	/* Not strchr: a NUL does not end the text. */
	while (r == 0 && (end = memchr(at, '\n', f->text.len - (size_t) (at - f->text.data)))) {
		*end = '\0';
		r = on_line(f, at, sink);
		at = end + 1;
	}
	if (at != f->text.data) {
		const size_t left = f->text.len - (size_t) (at - f->text.data);

		memmove(f->text.data, at, left);
		f->text.len = left;
		f->text.data[left] = '\0';
	}
	return r;
}

enum received {
	ALL,    /* that there is */
	SOME,   /* there may be more */
	ENDED,  /* nothing more comes */
};

static enum received receive(struct where_feed *f, int wait_ms)
{
	char bytes[1 << 13];
	ssize_t n = 0;

	if (f->fd < 0 || f->is_done)
		return ENDED;
	if (wait_ms > 0)
		(void) poll(&(struct pollfd) { .fd = f->fd, .events = POLLIN }, 1, wait_ms);
	while (f->text.len < LINE_MOST && (n = recv(f->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
		f->has_heard = true;
		if (buf_add(&f->text, bytes, (size_t) n) < 0)
			return ENDED;
	}
	if (f->text.len >= LINE_MOST)
		return SOME;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? ALL : ENDED;
}

/* What is left has no end of a line. */
static bool has_long_line(const struct where_feed *f)
{
	return f->text.len >= LINE_MOST;
}

void where_feed_end(struct where_feed *f)
{
	if (f->fd >= 0)
		(void) close(f->fd);
	f->fd = -1;
	f->is_silent = true;
}

static void hang_up(struct where_feed *f, const char *why)
{
	if (!f->is_done && !f->is_silent)
		add_note(f, why);
	where_feed_end(f);
}

static bool may_wait(const struct where_feed *f, uint64_t begun_ns)
{
	const uint64_t now = clock_awake_ns();

	return now < begun_ns + last_wait_ns && (f->is_naming || now < f->heard_ns + silence_ns);
}

void where_feed_again(void *feed)
{
	const struct where_feed *const f = feed;

	if (__atomic_load_n(&f->has_begun, __ATOMIC_ACQUIRE) && f->fd >= 0)
		(void) send(f->fd, "again\n", 6, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int where_feed_drain(void *feed, bool last, const struct where_sink *sink)
{
	static const char ended[] = "hiwater-where ended before the run; "
				    "hiwater where has what it had found until then",
			  hung[] = "hiwater-where did not respond at the end of the run; "
				   "hiwater where has what it had found until then";
	const uint64_t begun_ns = clock_awake_ns();
	struct where_feed *f = feed;
	enum received got;
	unsigned rounds = 0;
	int r = 0;

	if (!__atomic_load_n(&f->has_begun, __ATOMIC_ACQUIRE))
		return 0;
	if (last && f->fd >= 0 && !f->was_told) {
		f->was_told = true;
		(void) send(f->fd, "end\n", 4, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	f->heard_ns = begun_ns;
	do {
		got = receive(f, last ? 100 : 0);
		r = pass_lines(f, sink);
		if (f->has_heard)
			f->heard_ns = clock_awake_ns();
		f->has_heard = false;
		if (got == ENDED || (r == 0 && has_long_line(f))) {
			hang_up(f, ended);
			return r;
		}
	} while (r == 0 && !f->is_done &&
		 (last ? may_wait(f, begun_ns) : got == SOME && ++rounds < ROUNDS_MOST));
	if (r == 0 && last && !f->is_done)
		hang_up(f, hung);
	return r;
}
