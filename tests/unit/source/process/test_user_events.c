/* SPDX-License-Identifier: MIT
 *
 * Messages from the job to the recorder: valid and invalid ones, and the socket.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "source/process/user_events.h"

enum {
	AT = 1234
};

/* The result of one message. */
struct result {
	struct user_events p;
	struct framebuf out;
	struct err err;
};

static int parse(struct result *t, const char *message)
{
	framebuf_clear(&t->out);
	t->err.text[0] = '\0';
	return user_events_parse(&t->p, message, AT, &t->out, &t->err);
}

static void check_bad(struct result *t, const char *message)
{
	const unsigned depth = t->p.depth;

	assert_int_equal(parse(t, message), -EBADMSG);
	if (strlen(t->err.text) < 10)
		fail_msg("no text for '%.40s'", message);
	assert_true(framebuf_is_empty(&t->out));
	assert_int_equal(t->p.depth, depth);
}

static const struct event *only_event(const struct framebuf *out)
{
	assert_int_equal(out->n_events, 1);
	assert_int_equal(out->n_births + out->n_ends + out->n_readings + out->n_series, 0);
	return &out->events[0];
}

static void check_event(const struct event *e, enum event_kind kind, const char *text)
{
	assert_int_equal(e->kind, kind);
	assert_int_equal(e->time_ns, AT);
	assert_int_equal(e->entity, ENTITY_JOB);
	assert_int_equal(e->id, 0);
	assert_string_equal(e->text, text);
}

/* ---- messages ------------------------------------------------------------------------------------------------------ */

static void a_mark_is_any_text(void **state)
{
	static const char *const texts[] = { "epoch 3", "", " ", "mark again", "phase+ x",
		"\xff\n=", "step=1" };
	struct result t = { 0 };

	(void) state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char message[64];

		(void) snprintf(message, sizeof(message), "mark %s", texts[i]);
		assert_int_equal(parse(&t, message), 0);
		check_event(only_event(&t.out), EVENT_MARK, texts[i]);
		assert_int_equal(t.out.events[0].phase, 0);
	}
	framebuf_done(&t.out);
}

/* It is as old as its sender says, if that can be: not of another clock, not before the run. */
static void a_message_may_say_when_it_was_sent(void **state)
{
	static const uint64_t ms = 1000000;
	const uint64_t now = clock_boot_ns();
	struct result t = { 0 };
	char message[64];

	(void) state;
	(void) snprintf(message, sizeof(message), "at %" PRIu64 " mark sent", now - 5);
	assert_int_equal(user_events_parse(&t.p, message, 5000 * ms, &t.out, &t.err), 0);
	assert_string_equal(only_event(&t.out)->text, "sent");
	assert_true(t.out.events[0].time_ns <= 5000 * ms - 5 && t.out.events[0].time_ns >= 4000 * ms);
	for (int i = 0; i < 2; i++) {
		(void) snprintf(message, sizeof(message), "at %" PRIu64 " mark sent", i ? now - 5000 * ms : now + 5000 * ms);
		assert_int_equal(parse(&t, message), 0);
		check_event(only_event(&t.out), EVENT_MARK, "sent");
	}
	assert_int_equal(parse(&t, "at mark sent"), -EBADMSG);
	assert_int_equal(parse(&t, "at 5"), -EBADMSG);
	framebuf_done(&t.out);
}

static void phases_nest_and_have_numbers(void **state)
{
	static const struct {
		const char *message, *name;
		enum event_kind kind;
		uint32_t number;
	} steps[] = {
		{ "phase+ epoch", "epoch", EVENT_PHASE_BEGIN, 1 },
		{ "phase+ load", "load", EVENT_PHASE_BEGIN, 2 },
		{ "phase+ epoch", "epoch", EVENT_PHASE_BEGIN, 3 }, /* the same name, inside */
		{ "phase- epoch", "epoch", EVENT_PHASE_END, 3 },
		{ "phase- epoch", "epoch", EVENT_PHASE_END, 1 },   /* the inner one may still be
		                                                    * open */
		{ "phase+ next", "next", EVENT_PHASE_BEGIN, 4 },
		{ "phase- load", "load", EVENT_PHASE_END, 2 },
		{ "phase- next", "next", EVENT_PHASE_END, 4 },
	};
	struct result t = { 0 };

	(void) state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		assert_int_equal(parse(&t, steps[i].message), 0);
		check_event(only_event(&t.out), steps[i].kind, steps[i].name);
		assert_int_equal(t.out.events[0].phase, steps[i].number);
	}
	assert_int_equal(t.p.depth, 0);
	check_bad(&t, "phase- epoch");
	free(t.p.open);
	framebuf_done(&t.out);
}

static void an_end_needs_the_whole_name(void **state)
{
	struct result t = { 0 };

	(void) state;
	assert_int_equal(parse(&t, "phase+ epochs"), 0);
	check_bad(&t, "phase- epoch");
	check_bad(&t, "phase- epochs ");
	check_bad(&t, "phase- ");
	assert_int_equal(parse(&t, "phase- epochs"), 0);
	free(t.p.open);
	framebuf_done(&t.out);
}

static void names_longer_than_are_kept_end_too(void **state)
{
	char begin[700], end[700];
	struct result t = { 0 };

	(void) state;
	(void) snprintf(begin, sizeof(begin), "phase+ %0600d", 7);
	(void) snprintf(end, sizeof(end), "phase- %0600d", 7);
	assert_int_equal(parse(&t, begin), 0);
	assert_string_equal(only_event(&t.out)->text, begin + strlen("phase+ "));
	assert_int_equal(parse(&t, end), 0);
	assert_int_equal(only_event(&t.out)->phase, 1);
	free(t.p.open);
	framebuf_done(&t.out);
}

static void a_phase_may_have_facts(void **state)
{
	struct result t = { 0 };

	(void) state;
	assert_int_equal(parse(&t, "phase+ epoch\nepoch=3\nsplit=a b"), 0);
	assert_string_equal(only_event(&t.out)->text, "epoch\nepoch=3\nsplit=a b");
	assert_int_equal(parse(&t, "phase- epoch"), 0);
	assert_int_equal(only_event(&t.out)->phase, 1);
	free(t.p.open);
	framebuf_done(&t.out);
}

static void secrets_in_phases_and_errors_are_masked(void **state)
{
	struct result t = { 0 };

	(void) state;
	assert_int_equal(parse(&t, "phase+ load token=SECRET\nurl=\"a\npassword=SECRET\nn=3"), 0);
	check_event(only_event(&t.out), EVENT_PHASE_BEGIN,
		"load token=***\nurl=\"a\npassword=***\nn=3");
	check_bad(&t, "phase- load token=OTHER");
	assert_int_equal(parse(&t, "phase- load token=SECRET"), 0);
	check_event(only_event(&t.out), EVENT_PHASE_END, "load token=***");
	assert_int_equal(parse(&t, "oom host: api_key=SECRET"), 0);
	check_event(only_event(&t.out), EVENT_TRIGGER, "out of memory: host: api_key=***");
	free(t.p.open);
	framebuf_done(&t.out);
}

static void only_so_many_phases_are_open_at_once(void **state)
{
	struct result t = { 0 };

	(void) state;
	for (int i = 0; i < USER_PHASES_OPEN; i++)
		assert_int_equal(parse(&t, "phase+ deep"), 0);
	check_bad(&t, "phase+ deeper");
	assert_int_equal(parse(&t, "phase- deep"), 0);
	assert_int_equal(only_event(&t.out)->phase, USER_PHASES_OPEN);
	assert_int_equal(parse(&t, "phase+ again"), 0);
	assert_int_equal(only_event(&t.out)->phase, USER_PHASES_OPEN + 1); /* numbers are never reused */
	free(t.p.open);
	framebuf_done(&t.out);
}

static void values_have_names_and_one_step(void **state)
{
	struct result t = { 0 };

	(void) state;
	assert_int_equal(parse(&t, "log loss=0.25 step=7  accuracy=-1e3\nlr=0x1p-3 "), 0);
	assert_int_equal(t.out.n_series, 3);
	assert_int_equal(t.out.n_events, 0);
	assert_string_equal(t.out.series[0].name, "loss");
	assert_string_equal(t.out.series[1].name, "accuracy");
	assert_string_equal(t.out.series[2].name, "lr");
	assert_true(t.out.series[0].value == 0.25 && t.out.series[1].value == -1000 &&
		    t.out.series[2].value == 0.125);
	for (size_t i = 0; i < 3; i++) {
		assert_true(t.out.series[i].has_step);
		assert_int_equal(t.out.series[i].step, 7);
	}
	assert_int_equal(parse(&t, "log loss=1"), 0);
	assert_false(t.out.series[0].has_step); /* not the last message's step */
	assert_int_equal(parse(&t, "log step=9"), 0); /* alone it is a series */
	assert_int_equal(t.out.n_series, 1);
	assert_string_equal(t.out.series[0].name, "step");
	assert_true(t.out.series[0].value == 9 && t.out.series[0].step == 9);
	assert_int_equal(parse(&t, "log steps=2"), 0);
	assert_string_equal(t.out.series[0].name, "steps");
	framebuf_done(&t.out);
}

static void names_in_quotes_may_have_blanks(void **state)
{
	static const char *const names[] = { "train loss", "a=b", "say \"hi\" \\o/", "plain", "step", " " };
	struct result t = { 0 };

	(void) state;
	assert_int_equal(parse(&t, "log \"train loss\"=1 \"a=b\"=2 \"say \\\"hi\\\" \\\\o/\"=3 plain=4 \"step\"=5 \" \"=6 step=7"), 0);
	assert_int_equal(t.out.n_series, 5); /* a step is a step, in quotes as well */
	for (size_t i = 0, n = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], "step") == 0)
			continue;
		assert_string_equal(t.out.series[n].name, names[i]);
		assert_true(t.out.series[n].value == (double) i + 1);
		assert_int_equal(t.out.series[n++].step, 7);
	}
	framebuf_done(&t.out);
}

static void nan_and_inf_are_values(void **state)
{
	struct result t = { 0 };

	(void) state;
	assert_int_equal(parse(&t, "log a=nan b=inf c=-inf d=NaN e=-Infinity"), 0);
	assert_int_equal(t.out.n_series, 5);
	assert_true(isnan(t.out.series[0].value) && isnan(t.out.series[3].value));
	assert_true(isinf(t.out.series[1].value) && t.out.series[1].value > 0);
	assert_true(isinf(t.out.series[2].value) && t.out.series[2].value < 0);
	assert_true(isinf(t.out.series[4].value) && t.out.series[4].value < 0);
	framebuf_done(&t.out);
}

static void the_locale_of_the_process_does_not_count(void **state)
{
	static const char *const commas[] = { "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "C.UTF-8" };
	struct result t = { 0 };

	(void) state;
	for (size_t i = 0; i < sizeof(commas) / sizeof(commas[0]) && !setlocale(LC_ALL, commas[i]); i++)
		;
	assert_int_equal(parse(&t, "log loss=0.5"), 0);
	assert_true(t.out.series[0].value == 0.5);
	check_bad(&t, "log loss=0,5");
	(void) setlocale(LC_ALL, "C");
	framebuf_done(&t.out);
}

static void bad_messages_leave_nothing(void **state)
{
	static const char *const bad[] = {
		"",
		"m",
		"mark",
		"Mark x",
		" mark x",
		"phase",
		"phase+",
		"phase-x",
		"log",
		"log a",
		"log =1",
		"log a=",
		"log a=1 b",
		"log a=1 b=",
		"log a=1x",
		"log a=1=2",
		"log a=1 =",
		"log a=--1",
		"log a=1 step=x",
		"log a=1 step=1.5",
		"log a=1 step=nan",
		"log a=1 step=inf",
		"log a=1 step=1e300",
		"log a=0x",
		"log \"a=1",
		"log \"a\"",
		"log \"a\"1",
		"log \"a\" =1",
		"log \"\"=1",
		"log \"a\\",
		"log \"a\"=x",
		"stop",
		"logloss=1",
		"log\ta=1",
		"\xff\xff",
	};
	struct result t = { 0 };

	(void) state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_bad(&t, bad[i]);
	/* Without a text to fill the result is the same. */
	assert_int_equal(user_events_parse(&t.p, "nonsense", AT, &t.out, NULL), -EBADMSG);
	framebuf_done(&t.out);
}

static void a_message_has_as_many_values_as_it_has_room_for(void **state)
{
	char message[USER_MESSAGE_BYTES + 1] = "log";
	struct result t = { 0 };
	size_t n = 0, len = 3;

	(void) state;
	for (; len + 16 < sizeof(message); n++)
		len += (size_t) snprintf(message + len, sizeof(message) - len, " a%zu=%zu", n, n);
	assert_int_equal(parse(&t, message), 0);
	assert_true(n > 500);
	assert_int_equal(t.out.n_series, n);
	assert_true(t.out.series[n - 1].value == (double) (n - 1));
	(void) snprintf(message + len, sizeof(message) - len, " b=x");
	check_bad(&t, message);
	framebuf_done(&t.out);
}

static void a_step_is_whole_to_its_64th_bit(void **state)
{
	static const struct {
		const char *message;
		int64_t step;
	} good[] = {
		{ "log a=1 step=9007199254740993", INT64_C(9007199254740993) }, /* not exact as a double */
		{ "log step=9223372036854775807 a=1", INT64_MAX },
		{ "log a=1 step=-9223372036854775808", INT64_MIN },
		{ "log a=1 step=1e3", 1000 },
		{ "log a=1 step=7.0", 7 },
		{ "log step=1 a=1 step=2", 2 },
	};
	struct result t = { 0 };

	(void) state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(parse(&t, good[i].message), 0);
		assert_int_equal(t.out.n_series, 1);
		assert_true(t.out.series[0].has_step && t.out.series[0].step == good[i].step);
	}
	check_bad(&t, "log a=1 step=9223372036854775808");
	check_bad(&t, "log a=1 step=1e16");
	framebuf_done(&t.out);
}

static void a_mark_is_kept_whole_or_refused(void **state)
{
	char message[USER_MARK_BYTES + 8];
	struct result t = { 0 };

	(void) state;
	(void) snprintf(message, sizeof(message), "mark %0*d", USER_MARK_BYTES, 7);
	assert_int_equal(parse(&t, message), 0);
	check_event(only_event(&t.out), EVENT_MARK, message + 5);
	(void) snprintf(message, sizeof(message), "mark %0*d", USER_MARK_BYTES + 1, 7);
	check_bad(&t, message);
	assert_non_null(strstr(t.err.text, "longer than the 4096 bytes"));
	framebuf_done(&t.out);
}

/* A number cut off would be another number. */
static void long_messages_are_refused(void **state)
{
	char *message = malloc(USER_MESSAGE_BYTES + 64);
	struct result t = { 0 };

	(void) state;
	assert_non_null(message);
	(void) snprintf(message, USER_MESSAGE_BYTES + 64, "log a=1%0*d", USER_MESSAGE_BYTES, 0);
	check_bad(&t, message);
	free(message);
	framebuf_done(&t.out);
}

/* ---- the socket ------------------------------------------------------------------------------------------------------ */

static void open_socket(struct user_events *p)
{
	assert_int_equal(user_events_open(p), 0);
	assert_true(p->fd >= 0);
	assert_int_equal(strncmp(p->name, "@hiwater-", 9), 0);
}

static bool is_readable(int fd)
{
	struct pollfd waiting = { .fd = fd, .events = POLLIN };

	return poll(&waiting, 1, 0) == 1;
}

static void a_message_goes_there_and_is_read(void **state)
{
	struct framebuf out = { 0 };
	struct user_events p, other;

	(void) state;
	open_socket(&p);
	open_socket(&other);
	assert_string_not_equal(p.name, other.name);
	assert_true(fcntl(p.fd, F_GETFD) & FD_CLOEXEC); /* the job must not inherit it */
	assert_int_equal(user_events_receive(&p, AT, &out), 0);
	assert_int_equal(user_events_send(p.name, "mark one", NULL), 0);
	assert_int_equal(user_events_send(p.name, "log loss=2", NULL), 0);
	assert_true(is_readable(p.fd) && !is_readable(other.fd));
	assert_int_equal(user_events_receive(&p, AT, &out), 1);
	check_event(only_event(&out), EVENT_MARK, "one");
	assert_int_equal(user_events_receive(&p, AT, &out), 1);
	assert_int_equal(out.n_series, 1);
	assert_true(out.series[0].value == 2);
	assert_int_equal(user_events_receive(&p, AT, &out), 0);
	assert_false(is_readable(p.fd));
	framebuf_done(&out);
	user_events_done(&p);
	user_events_done(&other);
	assert_int_equal(p.fd, -1);
	assert_int_equal(user_events_receive(&p, AT, &out), 0); /* no message is left */
}

/* The note's subject is the text up to the first colon. */
static void an_invalid_message_becomes_a_note(void **state)
{
	static const struct {
		const char *message, *about;
	} bad[] = { { "gibberish: x", "message:" }, { "log loss", "log:" }, { "phase- x", "phase:" } };
	struct framebuf out = { 0 };
	struct user_events p;

	(void) state;
	open_socket(&p);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		framebuf_clear(&out);
		assert_int_equal(user_events_send(p.name, bad[i].message, NULL), 0);
		assert_int_equal(user_events_receive(&p, AT, &out), 1);
		assert_int_equal(only_event(&out)->kind, EVENT_NOTE);
		assert_int_equal(strncmp(out.events[0].text, bad[i].about, strlen(bad[i].about)), 0);
	}
	framebuf_done(&out);
	user_events_done(&p);
}

/* A program that writes something else to the socket does not fill the recording. */
static void further_invalid_messages_are_counted(void **state)
{
	struct framebuf out = { 0 };
	struct user_events p;

	(void) state;
	open_socket(&p);
	user_events_report(&p, AT, &out);
	assert_true(framebuf_is_empty(&out));
	for (int i = 0; i < 100; i++) {
		assert_int_equal(user_events_send(p.name, i % 2 ? "log x" : "GET / HTTP/1.1", NULL), 0);
		assert_int_equal(user_events_receive(&p, AT, &out), 1);
	}
	assert_int_equal(out.n_events, 2); /* the first of each kind */
	framebuf_clear(&out);
	user_events_report(&p, AT, &out);
	check_event(only_event(&out), EVENT_NOTE, "message: 98 more messages were not valid, and ignored");
	framebuf_done(&out);
	user_events_done(&p);
}

static void secrets_in_marks_are_masked(void **state)
{
	struct result t = { 0 };

	(void) state;
	assert_int_equal(parse(&t, "mark login --password SECRET\n2"), 0);
	check_event(only_event(&t.out), EVENT_MARK, "login --password ***\n2");
	framebuf_done(&t.out);
	t = (struct result) { 0 };
	open_socket(&t.p);
	assert_int_equal(user_events_send(t.p.name, "log token=SECRET", NULL), 0);
	assert_int_equal(user_events_receive(&t.p, AT, &t.out), 1);
	check_event(only_event(&t.out), EVENT_NOTE, "log: 'token=***': its value is not a number");
	framebuf_done(&t.out);
	user_events_done(&t.p);
}

/* Like user_events_send, but with any number of bytes. */
static void send_raw(const char *name, const char *bytes, size_t n)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const socklen_t len = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + strlen(name));

	assert_true(fd >= 0);
	memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
	assert_int_equal(sendto(fd, bytes, n, 0, (struct sockaddr *) &address, len), n);
	(void) close(fd);
}

static void a_message_is_whole_or_none(void **state)
{
	char *message = malloc(USER_MESSAGE_BYTES + 2);
	struct framebuf out = { 0 };
	struct err err = { "" };
	struct user_events p;

	(void) state;
	assert_non_null(message);
	memset(message, '1', USER_MESSAGE_BYTES + 1);
	memcpy(message, "phase+ ", 7);
	message[USER_MESSAGE_BYTES + 1] = '\0';
	open_socket(&p);
	assert_int_equal(user_events_send(p.name, message, &err), -EMSGSIZE);
	assert_true(strlen(err.text) > 10);
	assert_false(is_readable(p.fd));
	send_raw(p.name, message, USER_MESSAGE_BYTES + 1);
	assert_int_equal(user_events_receive(&p, AT, &out), 1);
	assert_int_equal(only_event(&out)->kind, EVENT_NOTE);
	framebuf_clear(&out);
	message[USER_MESSAGE_BYTES] = '\0';
	assert_int_equal(user_events_send(p.name, message, &err), 0);
	assert_int_equal(user_events_receive(&p, AT, &out), 1);
	check_event(only_event(&out), EVENT_PHASE_BEGIN, message + 7);
	framebuf_clear(&out);
	memcpy(message, "mark ", 5);
	send_raw(p.name, message, USER_MESSAGE_BYTES + 1);
	assert_int_equal(user_events_receive(&p, AT, &out), 1);
	assert_int_equal(only_event(&out)->kind, EVENT_NOTE);
	assert_non_null(strstr(out.events[0].text, "longer than the 4096 bytes"));
	framebuf_clear(&out);
	send_raw(p.name, "mark a\0b", 8); /* up to the NUL */
	assert_int_equal(user_events_receive(&p, AT, &out), 1);
	check_event(only_event(&out), EVENT_MARK, "a");
	framebuf_clear(&out);
	send_raw(p.name, "", 0);
	assert_int_equal(user_events_receive(&p, AT, &out), 1);
	assert_int_equal(only_event(&out)->kind, EVENT_NOTE);
	free(message);
	framebuf_done(&out);
	user_events_done(&p);
}

/* Descriptors sent along are closed. */
static void descriptors_are_closed(void **state)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { .space = { 0 } };
	char text[] = "mark x";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct iovec io = { text, sizeof(text) - 1 };
	struct msghdr header = { .msg_name = &address,
		.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space) };
	struct framebuf out = { 0 };
	struct user_events p;
	int ends[2], fd;

	(void) state;
	open_socket(&p);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	memcpy(address.sun_path + 1, p.name + 1, strlen(p.name) - 1);
	header.msg_namelen = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + strlen(p.name));
	*CMSG_FIRSTHDR(&header) = (struct cmsghdr) { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), &ends[1], sizeof(int));
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(sendmsg(fd, &header, 0), sizeof(text) - 1);
	(void) close(fd);
	(void) close(ends[1]);
	assert_int_equal(user_events_receive(&p, AT, &out), 1);
	check_event(only_event(&out), EVENT_MARK, "x");
	/* No process has the writing end open: the reader is at its end. */
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(read(ends[0], text, 1), 0);
	(void) close(ends[0]);
	framebuf_done(&out);
	user_events_done(&p);
}

/* Without checking permissions. */
static bool send_rudely(const char *name)
{
	send_raw(name, "mark stranger", strlen("mark stranger"));
	return true;
}

static bool send_politely(const char *name)
{
	return user_events_send(name, "mark stranger", NULL) == 0;
}

static bool is_refused(const char *name)
{
	struct err err = { "" };

	return user_events_send(name, "mark stranger", &err) == -EPERM &&
	       strstr(err.text, "belongs to user 0");
}

/* In a child that drops its privileges: runs does. */
static bool does_as(bool (*does)(const char *name), const char *name, uid_t uid)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0)
		_exit(seteuid(0) < 0 || setresuid(uid, uid, uid) < 0 || !does(name));
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* Whether a recorder of user receiver accepts messages of user sender. */
static bool hears(struct user_events *p, uid_t receiver, uid_t sender)
{
	struct framebuf out = { 0 };
	bool heard;

	if (seteuid(0) < 0 || !does_as(send_rudely, p->name, sender) || seteuid(receiver) < 0 ||
		user_events_receive(p, AT, &out) != 1)
		_exit(99);
	heard = out.n_events == 1 && out.events[0].kind == EVENT_MARK &&
		strcmp(out.events[0].text, "stranger") == 0;
	if (!heard && !framebuf_is_empty(&out)) /* ignored, without a note */
		_exit(98);
	framebuf_done(&out);
	return heard;
}

/* In a child: sanitizers cannot inspect a process that changed its user. */
static void messages_of_strangers_are_dropped(void **state)
{
	enum {
		US = 65533,
		OTHERS = 65532
	};
	struct user_events p;
	int status;

	(void) state;
	if (geteuid() != 0)
		skip(); /* changing the user needs root */
	open_socket(&p);
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit((hears(&p, 0, OTHERS) ? 1 : 0) | (hears(&p, US, OTHERS) ? 2 : 0) |
			(hears(&p, US, US) ? 0 : 4) | (hears(&p, US, 0) ? 0 : 8) |
			(hears(&p, 0, 0) ? 0 : 16));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	user_events_done(&p);
}

static void strangers_get_an_error(void **state)
{
	struct framebuf out = { 0 };
	struct user_events p;

	(void) state;
	if (geteuid() != 0)
		skip();
	open_socket(&p);
	assert_true(does_as(is_refused, p.name, 65532));
	assert_int_equal(user_events_receive(&p, AT, &out), 0);
	assert_true(does_as(send_politely, p.name, 0));
	assert_int_equal(user_events_receive(&p, AT, &out), 1);
	framebuf_done(&out);
	user_events_done(&p);
}

static void no_recorder_is_an_error(void **state)
{
	static const char *const names[] = { "", "@", "x", "hiwater-1-2", "/tmp/socket" };
	char longest[256];
	struct err err = { "" };
	struct user_events p;

	(void) state;
	open_socket(&p);
	char *name = strdup(p.name);

	user_events_done(&p);
	assert_int_equal(user_events_send(name, "mark x", &err), -ENOENT);
	assert_true(strlen(err.text) > 10);
	free(name);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(user_events_send(names[i], "mark x", &err), -EINVAL);
	memset(longest, 'x', sizeof(longest));
	longest[0] = '@';
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(user_events_send(longest, "mark x", &err), -EINVAL);
}

/* A stopped recorder reads nothing: the job continues nevertheless. */
static void a_sender_is_not_blocked(void **state)
{
	enum {
		MORE_THAN_ANY_QUEUE = 100000
	};
	struct err err = { "" };
	struct user_events p;
	int r = 0, n = 0;

	(void) state;
	open_socket(&p);
	(void) alarm(60); /* if it waits forever, the test is killed */
	while (r == 0 && n++ < MORE_THAN_ANY_QUEUE)
		r = user_events_send(p.name, "mark x", &err);
	(void) alarm(0);
	assert_int_equal(r, -EAGAIN);
	assert_non_null(strstr(err.text, "lost"));
	user_events_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mark_is_any_text),
		cmocka_unit_test(a_message_may_say_when_it_was_sent),
		cmocka_unit_test(phases_nest_and_have_numbers),
		cmocka_unit_test(an_end_needs_the_whole_name),
		cmocka_unit_test(names_longer_than_are_kept_end_too),
		cmocka_unit_test(a_phase_may_have_facts),
		cmocka_unit_test(secrets_in_phases_and_errors_are_masked),
		cmocka_unit_test(only_so_many_phases_are_open_at_once),
		cmocka_unit_test(values_have_names_and_one_step),
		cmocka_unit_test(names_in_quotes_may_have_blanks),
		cmocka_unit_test(nan_and_inf_are_values),
		cmocka_unit_test(the_locale_of_the_process_does_not_count),
		cmocka_unit_test(bad_messages_leave_nothing),
		cmocka_unit_test(a_message_has_as_many_values_as_it_has_room_for),
		cmocka_unit_test(a_step_is_whole_to_its_64th_bit),
		cmocka_unit_test(a_mark_is_kept_whole_or_refused),
		cmocka_unit_test(long_messages_are_refused),
		cmocka_unit_test(a_message_goes_there_and_is_read),
		cmocka_unit_test(an_invalid_message_becomes_a_note),
		cmocka_unit_test(further_invalid_messages_are_counted),
		cmocka_unit_test(secrets_in_marks_are_masked),
		cmocka_unit_test(a_message_is_whole_or_none),
		cmocka_unit_test(descriptors_are_closed),
		cmocka_unit_test(messages_of_strangers_are_dropped),
		cmocka_unit_test(strangers_get_an_error),
		cmocka_unit_test(no_recorder_is_an_error),
		cmocka_unit_test(a_sender_is_not_blocked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
