/* SPDX-License-Identifier: MIT */
#include "source/process/user_events.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mask.h"
#include "base/parse.h"
#include "base/root.h"
#include "base/smallfile.h"

/* unix(7): an abstract name begins with a NUL and is not terminated. No file is made. */
static socklen_t address_of(const char *name, struct sockaddr_un *ret)
{
	size_t len = strlen(name);

	*ret = (struct sockaddr_un) { .sun_family = AF_UNIX };
	if (len < 2 || name[0] != '@' || len > sizeof(ret->sun_path))
		return 0;
	memcpy(ret->sun_path + 1, name + 1, len - 1);
	return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + len);
}

int user_events_open(struct user_events *p)
{
	const int on = 1;
	struct sockaddr_un address;
	uint64_t salt = 0;
	int fd;

	*p = (struct user_events) { .fd = -1 };
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	(void) getrandom(&salt, sizeof(salt), GRND_NONBLOCK);
	(void) snprintf(p->name, sizeof(p->name), "@hiwater-%d-%016llx-%u", (int) getpid(),
		(unsigned long long) salt, (unsigned) geteuid());
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
		bind(fd, (struct sockaddr *) &address, address_of(p->name, &address)) < 0) {
		int r = -errno;

		(void) close(fd);
		p->name[0] = '\0';
		return r;
	}
	p->fd = fd;
	return 0;
}

void user_events_done(struct user_events *p)
{
	if (p->fd >= 0)
		(void) close(p->fd);
	free(p->open);
	*p = (struct user_events) { .fd = -1 };
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static void event(
	struct framebuf *out, uint64_t time_ns, enum event_kind kind, uint32_t phase, const char *text)
{
	const struct event e = {
		.time_ns = time_ns,
		.kind = kind,
		.entity = ENTITY_JOB,
		.phase = phase,
		.text = text,
	};

	framebuf_event(out, &e);
}

int user_events_check_mark(const char *text, struct err *err)
{
	return strlen(text) <= USER_MARK_BYTES
		       ? 0
		       : err_set(err, -EMSGSIZE,
				 "mark: the text is longer than the %d bytes that a recording keeps of one, so it is left out; "
				 "shorten it, or mark the name of a file that has it",
				 USER_MARK_BYTES);
}

static int parse_mark(
	struct user_events *p, const char *text, uint64_t time_ns, struct framebuf *out, struct err *err)
{
	char masked[USER_MARK_BYTES + 1];

	(void) p;
	if (user_events_check_mark(text, err) < 0)
		return -EBADMSG;
	(void) mask_text(text, masked, sizeof(masked));
	event(out, time_ns, EVENT_MARK, 0, masked);
	return 0;
}

enum {
	MASKED_BYTES = 2 * USER_MESSAGE_BYTES /* "***" may be longer than what it replaces */
};

/* Masks each line by itself: the first is a name, further ones are facts. */
static void mask_lines(const char *text, char ret[MASKED_BYTES])
{
	char line[USER_MESSAGE_BYTES + 1];
	size_t n = 0;

	ret[0] = '\0';
	for (size_t len; n + 1 < MASKED_BYTES; text += len + 1) {
		len = strcspn(text, "\n");
		(void) snprintf(line, sizeof(line), "%.*s", (int) len, text);
		n += mask_text(line, ret + n, MASKED_BYTES - n);
		if (text[len] == '\0')
			return;
		if (n + 1 < MASKED_BYTES)
			ret[n++] = '\n';
		ret[n] = '\0';
	}
}

/* A framework ran out of its device's memory. The kernel killed no process, so this is not an
 * EVENT_OOM. */
static int parse_oom(
	struct user_events *p, const char *text, uint64_t time_ns, struct framebuf *out, struct err *err)
{
	char masked[MASKED_BYTES], why[MASKED_BYTES + 32];

	(void) p;
	(void) err;
	(void) mask_text(text, masked, sizeof(masked));
	(void) snprintf(why, sizeof(why), "out of memory: %s", masked);
	event(out, time_ns, EVENT_TRIGGER, 0, why);
	return 0;
}

/* For one more open phase. */
static bool has_room(struct user_events *p)
{
	const unsigned room = p->room ? 2 * p->room : 8;
	struct open_phase *open;

	if (p->depth < p->room)
		return true;
	open = realloc(p->open, room * sizeof(*open));
	if (!open)
		return false;
	p->open = open;
	p->room = room;
	return true;
}

static int parse_begin(
	struct user_events *p, const char *text, uint64_t time_ns, struct framebuf *out, struct err *err)
{
	char masked[MASKED_BYTES];

	if (p->depth == USER_PHASES_OPEN)
		return err_set(err, -EBADMSG, "phase: more than %d phases are open", USER_PHASES_OPEN);
	if (!has_room(p))
		return err_set(err, -EBADMSG, "phase: out of memory");
	p->open[p->depth].number = ++p->last_phase;
	(void) snprintf(
		p->open[p->depth].name, sizeof(p->open[0].name), "%.*s", (int) strcspn(text, "\n"), text);
	p->depth++;
	mask_lines(text, masked);
	event(out, time_ns, EVENT_PHASE_BEGIN, p->last_phase, masked);
	return 0;
}

static int parse_end(
	struct user_events *p, const char *text, uint64_t time_ns, struct framebuf *out, struct err *err)
{
	char masked[MASKED_BYTES];

	for (unsigned i = p->depth; i-- > 0;) {
		if (strncmp(p->open[i].name, text, sizeof(p->open[i].name) - 1) != 0)
			continue;
		(void) mask_text(text, masked, sizeof(masked));
		event(out, time_ns, EVENT_PHASE_END, p->open[i].number, masked);
		memmove(&p->open[i], &p->open[i + 1], (p->depth - i - 1) * sizeof(p->open[0]));
		p->depth--;
		return 0;
	}
	return err_set(err, -EBADMSG, "phase: '%s' is not open", text);
}

struct pair {
	const char *name, *text; /* text: of the value */
	double value;
};

/* Removes the quotes of a name in place. Returns what follows the closing quote, NULL without one. */
static char *unquote(char *name)
{
	char *to = name;

	for (char *from = name + 1; *from; from++) {
		if (*from == '"') {
			*to = '\0';
			return from + 1;
		}
		if (*from == '\\' && from[1] != '\0')
			from++;
		*to++ = *from;
	}
	return NULL;
}

/* Cuts the next NAME=VALUE off *rest in place. Returns 1; 0 at the end; or -EBADMSG. */
static int next_pair(char **rest, struct pair *ret, struct err *err)
{
	char *word = *rest + strspn(*rest, " \n");
	char *equals = *word == '"' ? unquote(word) : word + strcspn(word, "= \n");
	const char *p;
	size_t len;

	if (*word == '\0' && equals == word)
		return 0;
	if (!equals || equals == word || *equals != '=' || *word == '\0')
		return err_set(err, -EBADMSG, "log: '%.60s' is not NAME=NUMBER", word);
	*equals++ = '\0';
	len = strcspn(equals, " \n");
	*rest = equals + len + (equals[len] != '\0');
	equals[len] = '\0';
	p = equals;
	if (parse_double(&p, &ret->value) < 0 || *p)
		return err_set(err, -EBADMSG, "log: '%.60s=%.60s': its value is not a number", word, equals);
	ret->name = word;
	ret->text = equals;
	return 1;
}

static int parse_step(const struct pair *pair, struct series_value *ret, struct err *err)
{
	static const double most = 9e15; /* whole numbers up to here are exact in a double */
	const char *p = pair->text;

	ret->has_step = true;
	if (parse_i64(&p, &ret->step) == 0 && !*p)
		return 0;
	if (!(fabs(pair->value) < most) || pair->value != floor(pair->value))
		return err_set(err, -EBADMSG, "log: step is not a 64-bit integer");
	ret->step = (int64_t) pair->value;
	return 0;
}

/* out NULL: finds the step and stores it in *value; else appends the values to out, each with that
 * step. Returns how many there are, or -EBADMSG. */
static int read_pairs(const char *text, struct series_value *value, struct framebuf *out, struct err *err)
{
	char copy[USER_MESSAGE_BYTES + 1], *rest = copy;
	struct pair pair;
	int n = 0, r;

	(void) snprintf(copy, sizeof(copy), "%s", text);
	while ((r = next_pair(&rest, &pair, err)) != 0) {
		if (r < 0)
			return r;
		if (strcmp(pair.name, "step") == 0) {
			if (!out && parse_step(&pair, value, err) < 0)
				return -EBADMSG;
			continue;
		}
		n++;
		value->name = pair.name;
		value->value = pair.value;
		if (out)
			framebuf_series(out, value);
	}
	return n;
}

static int parse_log(
	struct user_events *p, const char *text, uint64_t time_ns, struct framebuf *out, struct err *err)
{
	struct series_value value = { 0 };
	int n;

	(void) p;
	(void) time_ns;
	if (strlen(text) > USER_MESSAGE_BYTES) /* a number cut off would be another number */
		return err_set(err, -EBADMSG, "log: the message is longer than %d bytes", USER_MESSAGE_BYTES);
	n = read_pairs(text, &value, NULL, err); /* an invalid pair discards the whole message */
	if (n > 0)
		return read_pairs(text, &value, out, err) < 0 ? -EBADMSG : 0;
	if (n == 0 && value.has_step) { /* a step alone is a series of that name */
		value.name = "step";
		value.value = (double) value.step;
		framebuf_series(out, &value);
	}
	return n;
}

static const struct {
	const char *verb;
	int (*parse)(struct user_events *p, const char *text, uint64_t time_ns, struct framebuf *out,
		struct err *err);
} verbs[] = {
	{ "mark ", parse_mark },
	{ "oom ", parse_oom },
	{ "phase+ ", parse_begin },
	{ "phase- ", parse_end },
	{ "log ", parse_log },
};

enum {
	VERBS = sizeof(verbs) / sizeof(verbs[0])
};
_Static_assert((int) USER_KINDS == (int) VERBS + 1, "a kind for each verb, and one for other messages");

static const uint64_t young_ns = 1000000000;

/* Skips "at NS ", the sender's CLOCK_BOOTTIME. Its message is as old as that if it is young: the clock of another
 * time namespace is not this one. */
static const char *skip_time(const char *message, uint64_t *time_ns)
{
	const char *p = message;
	uint64_t sent, now;

	if (!parse_word(&p, "at ") || parse_u64(&p, &sent) < 0 || !parse_word(&p, " "))
		return message;
	now = clock_boot_ns();
	if (now >= sent && now - sent < young_ns && now - sent < *time_ns)
		*time_ns -= now - sent;
	return p;
}

/* The place of the message's verb; VERBS: it has none. */
static unsigned kind_of(const char *message)
{
	uint64_t unused = 0;
	unsigned i = 0;

	message = skip_time(message, &unused);
	while (i < VERBS && strncmp(message, verbs[i].verb, strlen(verbs[i].verb)) != 0)
		i++;
	return i;
}

int user_events_parse(
	struct user_events *p, const char *message, uint64_t time_ns, struct framebuf *out, struct err *err)
{
	message = skip_time(message, &time_ns);
	for (size_t i = 0; i < VERBS; i++) {
		const char *text = message;

		if (parse_word(&text, verbs[i].verb))
			return verbs[i].parse(p, text, time_ns, out, err);
	}
	return err_set(err, -EBADMSG, "message: '%.40s' begins with an unknown word", message);
}

/* ---- the socket --------------------------------------------------------------------------------------------------- */

/* unix(7) SCM_CREDENTIALS: the sender as the kernel knows it. */
static bool is_from_us(struct msghdr *header)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		struct ucred who;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&who, CMSG_DATA(c), sizeof(who));
		return who.uid == geteuid() || who.uid == 0;
	}
	return false;
}

int user_events_receive(struct user_events *p, uint64_t time_ns, struct framebuf *out)
{
	char message[USER_MESSAGE_BYTES + 1];
	union {
		char space[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec io = { message, sizeof(message) - 1 };
	struct msghdr header = {
		.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space),
	};
	struct err err = { "" };
	ssize_t n = p->fd < 0 ? -1 : recvmsg(p->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return 0;
	message[n] = '\0';
	if (!is_from_us(&header))
		return 1;
	/* a truncated mark is too long anyway */
	if ((header.msg_flags & MSG_TRUNC) && kind_of(message) != 0)
		(void) err_set(&err, -EMSGSIZE, "message: longer than %d bytes", USER_MESSAGE_BYTES);
	else
		(void) user_events_parse(p, message, time_ns, out, &err);
	if (err.text[0] && p->invalid[kind_of(message)]++ == 0) {
		char masked[sizeof(err.text)];

		(void) mask_text(err.text, masked, sizeof(masked)); /* it quotes the message */
		event(out, time_ns, EVENT_NOTE, 0, masked);
	}
	return 1;
}

void user_events_report(const struct user_events *p, uint64_t time_ns, struct framebuf *out)
{
	uint64_t more = 0;
	char text[96];

	for (unsigned i = 0; i < USER_KINDS; i++)
		more += p->invalid[i] > 1 ? p->invalid[i] - 1 : 0;
	if (more == 0)
		return;
	(void) snprintf(text, sizeof(text), "message: %" PRIu64 " more message%s not valid, and ignored", more,
		more == 1 ? " was" : "s were");
	event(out, time_ns, EVENT_NOTE, 0, text);
}

/* unix(7): a full queue would block the sender for as long as the recorder does not read. socket(7)
 * SO_SNDTIMEO. */
static void set_send_timeout(int fd)
{
	const struct timeval most = { .tv_usec = 100000 };

	(void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
}

static int send_one(const char *message, const struct sockaddr_un *address, socklen_t len)
{
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r = 0;

	if (fd < 0)
		return -errno;
	set_send_timeout(fd);
	if (sendto(fd, message, strlen(message), MSG_NOSIGNAL, (const struct sockaddr *) address, len) < 0)
		r = -errno;
	(void) close(fd);
	return r;
}

/* False in a user namespace that maps uids (user_namespaces(7)): the recorder's view of them is
 * unknown. */
static bool uids_are_initial(void)
{
	uint64_t map[3]; /* inside, outside, count */
	char text[64];
	const char *p = text;
	struct root root;
	ssize_t n;

	if (root_open("/", &root, NULL) < 0)
		return false;
	n = smallfile_read(root.proc, "self/uid_map", text, sizeof(text));
	root_done(&root);
	if (n <= 0)
		return false;
	for (size_t i = 0; i < 3; i++) {
		parse_blanks(&p);
		if (parse_u64(&p, &map[i]) < 0)
			return false;
	}
	return map[0] == 0 && map[1] == 0 && map[2] == UINT32_MAX;
}

/* "@hiwater-PID-RANDOM-UID" */
static bool owner_of(const char *name, uint64_t *ret_uid)
{
	const char *p = name;

	for (int i = 0; i < 3; i++) {
		p = strchr(p, '-');
		if (!p++)
			return false;
	}
	return parse_u64(&p, ret_uid) == 0 && *p == '\0';
}

/* The recorder drops messages of other users without an answer (is_from_us): the sender has to
 * check by itself. */
static bool is_of_other_user(const char *name, uint64_t *ret_uid)
{
	return geteuid() != 0 && owner_of(name, ret_uid) && *ret_uid != geteuid() && uids_are_initial();
}

int user_events_send(const char *name, const char *message, struct err *err)
{
	struct sockaddr_un address;
	const socklen_t len = address_of(name, &address);
	uint64_t uid;
	int r;

	if (len == 0)
		return err_set(
			err, -EINVAL, "HIWATER_SOCKET is '%.60s', which is not a recorder's socket", name);
	if (is_of_other_user(name, &uid))
		return err_set(err, -EPERM,
			"the run belongs to user %" PRIu64
			", whose recorder accepts no messages from other users",
			uid);
	if (strlen(message) > USER_MESSAGE_BYTES)
		return err_set(err, -EMSGSIZE, "the message is longer than %d bytes", USER_MESSAGE_BYTES);
	r = send_one(message, &address, len);
	if (r == -ECONNREFUSED || r == -ENOENT)
		return err_set(err, -ENOENT, "the run of this process has ended, or its recorder is gone");
	if (r == -EAGAIN)
		return err_set(err, r, "the recorder is too busy: the message is lost");
	return r < 0 ? err_set(err, r, "the recorder cannot be reached: %s", strerror(-r)) : 0;
}
