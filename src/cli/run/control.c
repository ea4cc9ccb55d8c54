/* SPDX-License-Identifier: MIT */
#include "cli/run/control.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/run/descriptors.h"
#include "cli/terminal.h"

enum {
	MESSAGE_MOST = 16384,
	PIECE = 16384,          /* a long answer is split into messages of this size */
	PATIENCE_MS = 2000,     /* for an owner that does not read its answer */
	REQUESTS_A_STEP = 64,
};
/* the owner waits twice as long for the answer to an exact phase edge */
static const uint64_t late_ns = 500000000;

/* ---- sending --------------------------------------------------------------------------------- */

static struct control *complaints_to;

/* Waits PATIENCE_MS for a slow owner; drops the message if the owner has ended. */
static void send_message(const struct control *c, const char *text, size_t len)
{
	struct pollfd pollfd = { .fd = c->fd, .events = POLLOUT };

	while (send(c->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno != EINTR && (errno != EAGAIN || poll(&pollfd, 1, PATIENCE_MS) <= 0))
			return;
	}
}

/* word: "ok", "no", "+" (more follows). request 0: the message answers no request. */
static void answer(const struct control *c, uint64_t request, const char *word, const char *text, size_t len)
{
	char message[PIECE + 64];
	const int n = snprintf(message, sizeof(message), "%" PRIu64 " %s ", request, word);

	len = len < PIECE ? len : PIECE;
	memcpy(message + n, text, len);
	send_message(c, message, (size_t) n + len);
}

static void answer_text(const struct control *c, uint64_t request, const char *word, const char *text)
{
	answer(c, request, word, text, strlen(text));
}

static void send_complaint(const char *text)
{
	answer_text(complaints_to, 0, "said", text);
}

static void send_usage_error(void)
{
	answer_text(complaints_to, 0, "usage", "");
}

int parse_control(const char *value, void *dest, struct err *err)
{
	struct control *c = dest;
	const char *p = value;
	uint64_t fd;
	int type;
	socklen_t len = sizeof(type);

	if (parse_u64(&p, &fd) < 0 || *p || fd > INT32_MAX)
		return err_set(err, -EINVAL, "'%.80s' is not a descriptor number", value);
	if (getsockopt((int) fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET)
		return err_set(err, -EINVAL, "descriptor %.80s is not a socket of type SOCK_SEQPACKET",
			value);
	c->fd = (int) fd;
	complaints_to = c;
	complain_through(send_complaint, send_usage_error);
	return 0;
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* unix(7): SO_PEERCRED of a socketpair is the process that made it. 0: unknown. */
static pid_t owner_of(const struct control *c)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.pid < 0 ? 0 : who.pid;
}

static int open_owner(const struct control *c)
{
	const pid_t owner = owner_of(c);

	if (owner == 0)
		return -1;
#ifdef SYS_pidfd_open
	return (int) syscall(SYS_pidfd_open, owner, 0U);
#else
	return -1;
#endif
}

/* Closes the owner's descriptors except stderr: a reader of one of its pipes would never see the
 * end. */
static void close_others(const struct control *c)
{
	const long most = sysconf(_SC_OPEN_MAX);
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd < STDERR_FILENO; fd++)
		(void) dup2(null, fd);
#ifdef SYS_close_range
	if ((c->fd <= 3 || syscall(SYS_close_range, 3U, (unsigned) c->fd - 1, 0U) == 0) &&
		syscall(SYS_close_range, (unsigned) c->fd + 1, ~0U, 0U) == 0)
		return;
#endif
	for (int fd = STDERR_FILENO + 1; fd < (most > 0 && most < 65536 ? most : 65536); fd++) {
		if (fd != c->fd)
			(void) close(fd);
	}
}

/* "REQUEST TIME TEXT" */
struct request {
	uint64_t number, time_ns; /* CLOCK_BOOTTIME of when it was sent */
	char text[MESSAGE_MOST + 1];
};

/* Returns 1; 0 if no request waits; or -EPIPE if the owner has ended. */
static int receive(const struct control *c, int flags, struct request *ret)
{
	char message[MESSAGE_MOST + 1];
	const char *p = message;
	const ssize_t n = recv(c->fd, message, sizeof(message) - 1, flags);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -EPIPE;
	message[n] = '\0';
	if (parse_u64(&p, &ret->number) < 0 || *p++ != ' ' || parse_u64(&p, &ret->time_ns) < 0 || *p++ != ' ')
		return 0;
	(void) snprintf(ret->text, sizeof(ret->text), "%s", p);
	return 1;
}

int control_leave(struct control *c)
{
	const pid_t pid = getppid() == owner_of(c) ? fork() : 0;

	if (pid < 0)
		return -errno;
	if (pid > 0)
		_exit(0);
	(void) setsid();
	close_others(c);
	(void) fcntl(c->fd, F_SETFD, FD_CLOEXEC);
	c->owner = open_owner(c);
	return 0;
}

int control_wait(struct control *c)
{
	struct request request;
	int r;

	while ((r = receive(c, 0, &request)) == 0)
		;
	c->begin = r > 0 ? request.number : 0;
	return r < 0 ? r : 0;
}

void control_began(
	struct control *c, struct hiw_recorder *recorder, const char *const *environment, unsigned n)
{
	struct buf text = BUF_INIT(PIECE);

	(void) buf_str(&text, hiw_recorder_socket(recorder));
	for (unsigned i = 0; i < n; i++)
		(void) buf_printf(&text, "%c%s", '\0', environment[i]);
	complain_through(NULL, NULL);
	answer(c, c->begin, "ok", text.data, text.len);
	buf_done(&text);
}

/* ---- requests -------------------------------------------------------------------------------- */

struct handling {
	struct control *control;
	const struct measure *measure;
	struct hiw_recorder *recorder;
	const struct request *request;
};

static void done(const struct handling *a, int r, const struct hiw_err *err)
{
	if (a->request->number > 0)
		answer_text(a->control, a->request->number, r < 0 ? "no" : "ok", r < 0 ? err->text : "");
}

static void push(const struct handling *a)
{
	const bool exact = a->request->number > 0 && a->measure->recorder.reset_hwm &&
			   clock_boot_ns() < a->request->time_ns + late_ns;
	struct hiw_err err = { "" };
	const bool is_mark = strncmp(a->request->text, "mark ", 5) == 0;
	char text[sizeof(a->request->text) + 32];

	/* of the instant at which it was sent */
	(void) snprintf(text, sizeof(text), "at %" PRIu64 " %s", a->request->time_ns, a->request->text);
	done(a, hiw_recorder_push(a->recorder, is_mark ? text : a->request->text, exact, &err), &err);
}

static void read_hwm(const struct handling *a, enum hiw_format unused)
{
	(void) unused;
	done(a, hwi_recorder_read_hwm(a->recorder),
		&(struct hiw_err) { "the high-water mark cannot be read" });
}

static void send_summary(const struct handling *a, enum hiw_format format)
{
	const struct hiw_style style = terminal_style(-1, a->measure->units, a->measure->plain);
	autofree char *text = NULL;
	struct hiw_err err = { "" };
	size_t len = 0;
	int r = hiw_run_text(hiw_recorder_run(a->recorder), format, &style, &text, &len, &err);

	for (size_t at = 0; r == 0 && at < len; at += PIECE)
		answer(a->control, a->request->number, "+", text + at, len - at);
	done(a, r, &err);
}

static void end(const struct handling *a, enum hiw_format unused)
{
	(void) unused;
	a->control->end = a->request->number;
}

static const struct {
	const char *word;
	void (*handle)(const struct handling *a, enum hiw_format format);
	enum hiw_format format;
} words[] = {
	{ "json", send_summary, HIW_JSON },
	{ "text", send_summary, HIW_TEXT },
	{ "line", send_summary, HIW_LINE },
	{ "read", read_hwm, 0 },
	{ "stop", end, 0 },
};

static void handle(const struct handling *a)
{
	const char *text = a->request->text;
	struct hiw_err err = { "" };

	if (parse_word(&text, "spare ")) {
		done(a, hwi_recorder_spare(a->recorder, text, &err), &err);
		a->control->spared = a->control->over;
		return;
	}
	if (parse_word(&text, "raised ")) {
		hwi_recorder_raised(a->recorder, text);
		return;
	}
	if (parse_word(&text, "window ")) {
		done(a, hwi_recorder_trace_window(a->recorder, text, &err), &err);
		return;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(text, words[i].word) == 0) {
			words[i].handle(a, words[i].format);
			return;
		}
	}
	push(a);
}

/* With the path the owner can read the recording even if this process is killed. */
static void send_file(struct control *c, const struct hiw_recorder *recorder)
{
	const char *path = hiw_recorder_path(recorder);

	if (c->sent_file || !*path || access(path, F_OK) < 0)
		return;
	c->sent_file = true;
	answer_text(c, 0, "file", path);
}

static bool is_owner_gone(const struct control *c)
{
	struct pollfd pollfd = { .fd = c->owner, .events = POLLIN };

	return c->owner >= 0 && poll(&pollfd, 1, 0) > 0;
}

enum control_next control_step(
	struct control *c, const struct measure *measure, struct hiw_recorder *recorder)
{
	struct request request;
	const struct handling handling = { c, measure, recorder, &request };
	int r = 0;

	send_file(c, recorder);
	for (int i = 0; i < REQUESTS_A_STEP && c->end == 0 && !c->spared; i++) {
		r = receive(c, MSG_DONTWAIT, &request);
		if (r <= 0)
			break;
		handle(&handling);
	}
	return r < 0 || c->end || c->spared || is_owner_gone(c) ? CONTROL_END : CONTROL_ON;
}

void control_finish(struct control *c, const struct measure *measure, struct hiw_recorder *recorder)
{
	struct pollfd fds[] = { { .fd = c->fd, .events = POLLIN }, { .fd = c->owner, .events = POLLIN } };
	enum control_next next;

	c->over = true;
	send_file(c, recorder);
	answer_text(c, 0, "over", "");
	do {
		if (c->end)
			answer_text(c, c->end, "ok", hiw_recorder_path(recorder));
		c->end = 0;
		(void) await(fds, c->owner >= 0 ? 2 : 1, NULL);
		next = control_step(c, measure, recorder);
	} while (next == CONTROL_ON || c->end);
}
