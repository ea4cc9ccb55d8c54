/* SPDX-License-Identifier: MIT */
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/root.h"
#include "base/textwidth.h"
#include "cli/cli.h"

enum {
	WIDTH = 80,
	WRITE_PIECE = 4096,     /* PIPE_BUF: the room in a pipe that poll reports as writable */
	MOMENT_MS = 10,
	LINK_LEN = 24
};

void terminal_guard_streams(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		/* open() uses the lowest free number, this one. A write to a stdout that was closed
		 * must fail. */
		if (fcntl(fd, F_GETFD) < 0)
			(void) open("/dev/null", (fd == 1 ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	}
}

bool environment_flag(const char *name)
{
	const char *value = getenv(name);

	return value && *value && strcmp(value, "0") != 0;
}

unsigned terminal_width(int fd, unsigned otherwise)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	uint64_t n;

	if (fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	if (columns && parse_u64(&columns, &n) == 0 && *columns == '\0' && n > 0 && n < 10000)
		return (unsigned) n;
	return otherwise;
}

bool terminal_has_color(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (no && *no)
		return false;
	if (environment_flag("CLICOLOR_FORCE"))
		return true;
	return fd >= 0 && isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool terminal_is_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	return false;
}

struct hiw_style terminal_style(int fd, enum hiw_units units, bool plain)
{
	return (struct hiw_style) {
		.size = sizeof(struct hiw_style),
		.units = units,
		.width = terminal_width(fd, WIDTH),
		.color = fd >= 0 && terminal_has_color(fd),
		.utf8 = terminal_is_utf8(),
		.plain = plain || environment_flag("ACCESSIBLE"),
	};
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A descriptor that is readable once hiwater got a signal to end that is blocked (in run and
 * attach) and not ignored. */
static int open_end_signals(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action;
	sigset_t set;

	(void) sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		if (sigaction(ends[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			(void) sigaddset(&set, ends[i]);
	}
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A sandbox may refuse poll, and ppoll too: then fd counts as writable, and without one this waits. */
static int poll_if_allowed(struct pollfd *fds, nfds_t n, int ms)
{
	const struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	int got = poll(fds, n, ms);

	if (got < 0 && errno != EINTR)
		got = ppoll(fds, n, &time, NULL);
	if (got >= 0 || errno == EINTR)
		return got;
	fds[0].revents = fds[0].fd >= 0 ? POLLOUT : 0;
	if (fds[0].fd < 0)
		(void) nanosleep(&time, NULL);
	return fds[0].fd >= 0;
}

/* Waits until fd (-1: none) is writable. Returns 0, -ETIMEDOUT, -ECANCELED if hiwater got a signal
 * to end, -EINTR, or -errno. */
static int wait_for_room(int fd, int patience_ms)
{
	struct pollfd fds[] = { { .fd = fd, .events = POLLOUT }, { .fd = -1, .events = POLLIN } };
	autoclose int signals = -1;
	int n = poll_if_allowed(fds, 1, 0);

	if (n == 0 && patience_ms > 0) {
		fds[1].fd = signals = open_end_signals();
		n = poll_if_allowed(fds, 2, patience_ms);
	}
	if (n <= 0)
		return n < 0 ? -errno : -ETIMEDOUT;
	return fds[0].revents ? 0 : -ECANCELED;
}

/* Opens the root and writes the name of fd's link below its proc to ret_link. Returns 0 or -errno;
 * the caller calls root_done() in either case. */
static int open_root_of(int fd, struct root *ret_root, char ret_link[static LINK_LEN])
{
	*ret_root = (struct root) { .proc = -1, .sys = -1, .top = -1 };
	(void) snprintf(ret_link, LINK_LEN, "self/fd/%d", fd);
	return root_open("/", ret_root, NULL);
}

static int open_anew(int fd)
{
	char link[LINK_LEN];
	struct root root;
	const int anew = open_root_of(fd, &root, link) == 0
				 ? openat(root.proc, link, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)
				 : -1;

	root_done(&root);
	return anew;
}

/* A terminal is writable as soon as there is room for one byte, and a longer write then blocks.
 * O_NONBLOCK on fd would also affect the shell and the job, which share the open file description,
 * so this opens another one. Returns -1 if fd is no terminal, belongs to another user, or its name
 * leads to a different terminal (/dev/tty, /dev/ptmx). */
static int open_without_wait(int fd)
{
	unsigned before, now;
	int anew;

	if (ioctl(fd, TIOCGDEV, &before) < 0)
		return -1;
	anew = open_anew(fd);
	if (anew >= 0 && (ioctl(anew, TIOCGDEV, &now) < 0 || now != before)) {
		(void) close(anew);
		anew = -1;
	}
	return anew;
}

static int left_ms(uint64_t since_ns, int patience_ms)
{
	const uint64_t ms = (clock_boot_ns() - since_ns) / 1000000;

	return ms < (uint64_t) patience_ms ? patience_ms - (int) ms : 0;
}

/* A write to a writable terminal may still accept nothing: a newline needs room for two bytes. */
static int wait_a_moment(int patience_ms)
{
	if (patience_ms <= 0)
		return -ETIMEDOUT;
	const int r = wait_for_room(-1, MOMENT_MS);

	return r == -ETIMEDOUT ? 0 : r;
}

/* Returns the number of bytes written, which may be 0, or -errno. */
static int write_piece(int fd, const char *text, size_t len, int patience_ms)
{
	const int r = wait_for_room(fd, patience_ms);

	if (r < 0)
		return r;
	const ssize_t n = write(fd, text, len < WRITE_PIECE ? len : WRITE_PIECE);

	if (n < 0 && errno != EAGAIN)
		return -errno;
	return n > 0 ? (int) n : wait_a_moment(patience_ms);
}

/* The descriptor whose reader was waited for in vain. */
enum {
	NO_READER = -1, /* of a FIFO */
	NONE = -2
};
static int gave_up_on = NONE;

void terminal_be_patient(void)
{
	gave_up_on = NONE;
}

int terminal_write_part(int fd, const char *text, size_t len, int patience_ms, size_t *ret_written)
{
	autoclose int anew = open_without_wait(fd);
	uint64_t since_ns = clock_boot_ns();

	*ret_written = 0;
	if (gave_up_on != NONE)
		patience_ms = PATIENCE_NONE_MS;
	while (*ret_written < len) {
		const int n = write_piece(anew >= 0 ? anew : fd, text + *ret_written, len - *ret_written,
			left_ms(since_ns, patience_ms));

		if (n == -ETIMEDOUT && patience_ms > 0)
			gave_up_on = fd;
		if (n < 0 && n != -EINTR)
			return n;
		if (n > 0) {
			*ret_written += (size_t) n;
			since_ns = clock_boot_ns();
		}
	}
	if (gave_up_on == fd) /* it reads again */
		gave_up_on = NONE;
	return 0;
}

int terminal_write(int fd, const char *text, size_t len, int patience_ms)
{
	size_t written;

	return terminal_write_part(fd, text, len, patience_ms, &written);
}

static void (*complaint_handler)(const char *text);
static void (*usage_handler)(void);

void complain_through(void (*handler)(const char *text), void (*usage)(void))
{
	complaint_handler = handler;
	usage_handler = usage;
}

void report_usage_error(void)
{
	if (usage_handler)
		usage_handler();
}

/* Replaces what a terminal would obey: names and arguments can have any bytes. hiwater's own line
 * breaks are followed by an indented line. */
static void mask_controls(const char *text, struct buf *out)
{
	const bool utf8 = terminal_is_utf8();

	while (*text) {
		if (strncmp(text, "\n  ", 3) == 0)
			(void) buf_add(out, text++, 1);
		else
			text = text_clean_next(text, utf8, out);
	}
}

void print_message(const char *text, int patience_ms)
{
	static const char no_memory[] = "hiwater: a message is missing: out of memory\n";
	struct buf line = BUF_INIT(8192);

	(void) buf_str(&line, "hiwater: ");
	mask_controls(text, &line);
	(void) buf_str(&line, "\n");
	if (line.error)
		(void) terminal_write(STDERR_FILENO, no_memory, sizeof(no_memory) - 1, patience_ms);
	else
		(void) terminal_write(STDERR_FILENO, line.data, line.len, patience_ms);
	buf_done(&line);
}

void complain(const char *format, ...)
{
	char text[1200];
	va_list ap;

	va_start(ap, format);
	(void) vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (complaint_handler)
		complaint_handler(text);
	else
		print_message(text, PATIENCE_SHORT_MS);
}

int print_out(const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			if (errno != EPIPE)
				complain("cannot write to stdout: %s", strerror(errno));
			return EXIT_FAILED;
		}
		text += n;
		len -= (size_t) n;
	}
	return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

int file_put(int fd, const void *bytes, size_t len)
{
	const char *text = bytes;

	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t) n;
	}
	return 0;
}

/* The descriptor below most by which the file is open; -1: none. */
static int descriptor_of(const struct stat *file, int most)
{
	struct stat st;

	for (int fd = 0; fd < most; fd++) {
		if (fstat(fd, &st) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino)
			return fd;
	}
	return -1;
}

enum {
	SHELLS = 10, /* descriptors that a shell can redirect */
	PIPES = 256, /* and those of >(COMMAND) */
};

/* Is the file open as one of the descriptors that a shell can redirect? /dev/stdout is such a file
 * if the shell redirected stdout to one: replacing it by rename would lose the output. */
static bool is_open_already(const struct stat *file)
{
	return descriptor_of(file, SHELLS) >= 0;
}

/* The open descriptor that the path names (/dev/fd/10, or by another name of that folder); -1:
 * none. */
static int descriptor_in(const char *path)
{
	autoclose int all = open("/dev/fd", O_PATH | O_CLOEXEC);
	const char *name = strrchr(path, '/');
	struct stat list, st;
	char folder[64];
	uint64_t fd;

	if (all < 0 || fstat(all, &list) < 0 || !name || (size_t) (name - path) >= sizeof(folder))
		return -1;
	(void) snprintf(folder, sizeof(folder), "%.*s/", (int) (name - path), path);
	if (stat(folder, &st) < 0 || st.st_dev != list.st_dev || st.st_ino != list.st_ino)
		return -1;
	name++;
	if (parse_u64(&name, &fd) < 0 || *name || fd > INT32_MAX || fcntl((int) fd, F_GETFD) < 0)
		return -1;
	return (int) fd;
}

int file_open_inherited(const char *path)
{
	struct stat st;
	int fd = descriptor_in(path), anew = -1;

	if (fd < 0 && stat(path, &st) == 0)
		fd = descriptor_of(&st, S_ISREG(st.st_mode) ? SHELLS : PIPES);
	if (fd >= 0)
		anew = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_APPEND | O_NONBLOCK);
	if (fd >= 0 && anew < 0) /* a socket has no name, and the file may have been removed */
		anew = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return anew;
}

/* True if path must be written to directly: a device, a pipe, or another name of an open file, such
 * as /dev/stdout. */
static bool is_special(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 &&
	       (!S_ISREG(st.st_mode) || descriptor_in(path) >= 0 || is_open_already(&st));
}

/* A FIFO without a reader cannot be opened yet (ENXIO, fifo(7)): waits PATIENCE_END_MS for one. */
static int open_special(const char *path)
{
	const uint64_t since_ns = clock_boot_ns();
	int fd, r = 0;

	for (;;) {
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_APPEND | O_NONBLOCK);
		if (fd >= 0 || errno != ENXIO)
			return fd < 0 ? -errno : fd;
		if (left_ms(since_ns, PATIENCE_END_MS) == 0)
			gave_up_on = NO_READER;
		if (gave_up_on != NONE || r == -ECANCELED)
			return -ENXIO;
		r = wait_for_room(-1, MOMENT_MS);
	}
}

static int write_special(const char *path, const char *text, size_t len)
{
	int fd = open_special(path);
	int r = fd < 0 ? fd : terminal_write(fd, text, len, PATIENCE_END_MS);

	if (fd >= 0)
		(void) close(fd);
	return r;
}

/* Opens a nameless file (O_TMPFILE) in the folder of path, so that it is on the same file
 * system. */
static int open_nameless(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[4096];
	const int n = slash ? snprintf(folder, sizeof(folder), "%.*s/", (int) (slash - path), path)
			    : snprintf(folder, sizeof(folder), ".");

	return n < 0 || (size_t) n >= sizeof(folder) ? -1
						     : open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

/* A nameless file gets its name through its link in /proc, which may not be mounted. */
static bool can_be_named(int fd)
{
	char link[LINK_LEN];
	struct root root;
	const bool can = open_root_of(fd, &root, link) == 0 && faccessat(root.proc, link, F_OK, 0) == 0;

	root_done(&root);
	return can;
}

static int begin_special(struct file_aside *file)
{
	file->fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_APPEND);
	return file->fd < 0 ? -errno : 0;
}

int file_begin(struct file_aside *file, const char *path)
{
	const int n = snprintf(file->name, sizeof(file->name), "%s.XXXXXX", path);

	file->path = path;
	file->is_special = is_special(path);
	if (file->is_special)
		return begin_special(file);
	if (n < 0 || (size_t) n >= sizeof(file->name))
		return -ENAMETOOLONG;
	file->fd = open_nameless(path);
	if (file->fd >= 0 && !can_be_named(file->fd)) {
		(void) close(file->fd);
		file->fd = -1;
	}
	file->has_name = file->fd < 0;
	if (file->fd < 0)
		file->fd = mkostemp(file->name, O_CLOEXEC);
	return file->fd < 0 ? -errno : 0;
}

/* linkat(2) does not replace an existing file, so the file gets a temporary name first, which
 * end_aside renames to path. */
static int give_name(struct file_aside *file)
{
	enum {
		TRIES = 100
	};
	char link[LINK_LEN];
	struct root root;
	int error = open_root_of(file->fd, &root, link);

	for (int i = 0; error == 0 && !file->has_name; i++) {
		(void) snprintf(file->name, sizeof(file->name), "%s.%d-%d", file->path, (int) getpid(), i);
		file->has_name = linkat(root.proc, link, AT_FDCWD, file->name, AT_SYMLINK_FOLLOW) == 0;
		if (!file->has_name && (errno != EEXIST || i == TRIES))
			error = -errno;
	}
	root_done(&root);
	return error;
}

static int end_aside(struct file_aside *file, int error)
{
	const mode_t mask = umask(0);

	(void) umask(mask);
	if (error == 0 && fchmod(file->fd, 0666 & ~mask) < 0)
		error = -errno;
	if (error == 0 && !file->has_name)
		error = give_name(file);
	if (close(file->fd) < 0 && error == 0)
		error = -errno;
	if (error == 0 && rename(file->name, file->path) < 0)
		error = -errno;
	if (error < 0 && file->has_name)
		(void) unlink(file->name);
	return error;
}

int file_end(struct file_aside *file, int error)
{
	if (!file->is_special)
		return end_aside(file, error);
	(void) close(file->fd);
	return error;
}

int file_write(const char *path, const char *text, size_t len)
{
	struct file_aside file;
	int r;

	if (is_special(path))
		return write_special(path, text, len);
	r = file_begin(&file, path);
	return r < 0 ? r : file_end(&file, file_put(file.fd, text, len));
}

int file_add(const char *path, const char *text, size_t len)
{
	if (is_special(path))
		return write_special(path, text, len);
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	int r = fd < 0 ? -errno : file_put(fd, text, len);

	if (fd >= 0 && close(fd) < 0 && r == 0)
		r = -errno;
	return r;
}

int file_check(const char *path)
{
	char folder[4096];
	const char *slash = strrchr(path, '/');
	struct stat st;
	int n;

	if (*path == '\0' || (slash && slash[1] == '\0'))
		return -EISDIR;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return -EISDIR;
	if (is_special(path))
		return access(path, W_OK) < 0 ? -errno : 0;
	n = snprintf(
		folder, sizeof(folder), "%.*s", slash ? (int) (slash - path + 1) : 1, slash ? path : ".");
	if (n < 0 || (size_t) n >= sizeof(folder))
		return -ENAMETOOLONG;
	if (stat(folder, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return access(folder, W_OK | X_OK) < 0 ? -errno : 0;
}
