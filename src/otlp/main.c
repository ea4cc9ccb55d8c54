/* SPDX-License-Identifier: MIT
 *
 * hiwater-otlp: from a recording to a receiver (sender.h).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/textwidth.h"
#include "otlp/sender.h"

enum {
	ATTEMPTS = 5,             /* of a request of a finished run */
	WAIT_MS = 1000,           /* before the first repetition; doubled each time */
	WAIT_MOST_MS = 30000,
	RETRY_AFTER_MOST_MS = 120000, /* a receiver that asks for more is given up, unless the job still runs */
	BODY_MOST = 1 << 24,
};

static const uint64_t ms_ns = 1000000;

struct sender {
	const char *file, *url;
	bool insecure, redact, follow, quiet;
	struct hwi_otlp settings;
	struct poster *poster;
	struct outbox queue;
	struct buf line;          /* the body that is being written */
	uint64_t end_ns;          /* no request lasts longer; 0: the job still runs, or there is no limit */
	uint64_t next_try_ns;
	unsigned failures;        /* in a row */
	uint64_t sent, lost, rejected;
	char why[400];            /* of the last failure */
	bool warned, given_up;
};

static void complain(const struct sender *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void complain(const struct sender *s, const char *format, ...)
{
	struct buf text = BUF_INIT(4096), line = BUF_INIT(16384);
	va_list ap;

	if (s->quiet)
		return;
	va_start(ap, format);
	(void) buf_vprintf(&text, format, ap);
	va_end(ap);
	(void) buf_str(&line, "hiwater: ");
	(void) text_clean(text.data, true, &line); /* a receiver's words may be in it */
	(void) buf_str(&line, "\n");
	if (write(STDERR_FILENO, line.data, line.len) < 0)
		(void) errno; /* nowhere to report it */
	buf_done(&text);
	buf_done(&line);
}

/* ---- sending ------------------------------------------------------------------------------------------------------------ */

static uint64_t backoff_ms(const struct sender *s)
{
	uint64_t ms = WAIT_MS;

	for (unsigned i = 1; i < s->failures && ms < WAIT_MOST_MS; i++)
		ms *= 2;
	ms = ms < WAIT_MOST_MS ? ms : WAIT_MOST_MS;
	return ms / 2 + (uint64_t) random() % (ms / 2 + 1); /* senders of many ranks do not come at once */
}

static void lose_first(struct sender *s)
{
	s->lost += outbox_first(&s->queue)->points;
	outbox_remove(&s->queue);
	s->failures = 0;
}

static void warn_once(struct sender *s)
{
	if (!s->warned && s->follow && s->end_ns == 0)
		complain(s, "warning: --otlp: %s: %s; hiwater continues to try", s->settings.url, s->why);
	s->warned = true;
}

/* Sends the first request of the queue. */
static void try_first(struct sender *s)
{
	struct queued *first = outbox_first(&s->queue);
	struct post_answer answer;

	poster_send(s->poster, first->bytes, first->len, s->follow ? STDIN_FILENO : -1, &s->end_ns, &answer);
	if (*answer.text)
		(void) snprintf(s->why, sizeof(s->why), "%s", answer.text);
	if (answer.result == POST_ACCEPTED) {
		s->sent += first->points > answer.rejected ? first->points - answer.rejected : 0;
		s->rejected += answer.rejected;
		s->failures = 0;
		s->next_try_ns = 0;
		outbox_remove(&s->queue);
		return;
	}
	warn_once(s);
	s->failures++;
	if (answer.result == POST_REFUSED || (!s->follow && s->failures >= ATTEMPTS) ||
		(!s->follow && answer.wait_ms > RETRY_AFTER_MOST_MS)) {
		s->given_up = !s->follow;
		lose_first(s);
		return;
	}
	s->next_try_ns = clock_boot_ns() + (answer.wait_ms ? answer.wait_ms : backoff_ms(s)) * ms_ns;
}

/* Sends until the queue is empty, or the end has come. Requests of a finished run wait for their
 * repetition here. */
static void send_all(struct sender *s)
{
	while (!s->given_up && outbox_first(&s->queue)) {
		const uint64_t now_ns = clock_boot_ns();
		const uint64_t wait_ms = s->next_try_ns > now_ns ? (s->next_try_ns - now_ns) / ms_ns + 1 : 0;

		if (s->end_ns && now_ns + wait_ms * ms_ns >= s->end_ns)
			return;
		if (wait_ms)
			(void) poll(NULL, 0, (int) wait_ms);
		try_first(s);
	}
}

/* ---- bodies ------------------------------------------------------------------------------------------------------------- */

/* A body ends with a newline. Those of a finished run are sent at once, so that they need no room. */
static int take(void *ctx, const void *data, size_t len)
{
	struct sender *s = ctx;
	const char *bytes = data, *end = bytes + len;

	while (bytes < end) {
		const char *newline = memchr(bytes, '\n', (size_t) (end - bytes));
		const size_t n = (size_t) ((newline ? newline : end) - bytes);

		(void) buf_add(&s->line, bytes, n);
		bytes += n + (newline ? 1 : 0);
		if (!newline)
			continue;
		if (s->line.error || outbox_add(&s->queue, s->line.data, s->line.len, s->settings.gzip) < 0)
			(void) snprintf(s->why, sizeof(s->why), "out of memory");
		buf_clear(&s->line);
		if (!s->follow)
			send_all(s);
	}
	return s->given_up ? -ECANCELED : 0;
}

static struct hiw_export what_of(struct sender *s)
{
	return (struct hiw_export) {
		.size = sizeof(struct hiw_export),
		.to = "otlp",
		.redact = s->redact,
		.write = take,
		.ctx = s,
		.attributes = (const char *const *) s->settings.attributes,
		.n_attributes = s->settings.n_attributes,
	};
}

/* ---- a run that still grows --------------------------------------------------------------------------------------------- */

/* Waits until stdin is closed or until_ns. */
static void rest(struct sender *s, uint64_t until_ns)
{
	struct pollfd end = { .fd = STDIN_FILENO, .events = POLLIN };
	const uint64_t now_ns = clock_boot_ns();
	const uint64_t ms = until_ns > now_ns ? (until_ns - now_ns) / ms_ns + 1 : 0;
	char byte;

	if (poll(&end, 1, ms < INT32_MAX ? (int) ms : INT32_MAX) > 0 && read(STDIN_FILENO, &byte, 1) <= 0)
		s->end_ns = clock_boot_ns() + ms_ns * GRACE_MS;
}

static int follow(struct sender *s, struct hiw_run *run, struct hiw_err *err)
{
	const struct hiw_export what = what_of(s);
	struct hwi_exporting *exporting = NULL;
	uint64_t next_ns = clock_boot_ns() + s->settings.interval_ms * ms_ns;
	int r = hwi_exporting_new(run, &what, &exporting, err);

	while (r == 0 && s->end_ns == 0) {
		uint64_t until_ns = next_ns;

		if (outbox_first(&s->queue) && s->next_try_ns < until_ns)
			until_ns = s->next_try_ns;
		rest(s, until_ns);
		if (s->end_ns == 0 && clock_boot_ns() >= next_ns) {
			r = hwi_exporting_more(exporting, err);
			next_ns = clock_boot_ns() + s->settings.interval_ms * ms_ns;
		}
		while (r == 0 && s->end_ns == 0 && outbox_first(&s->queue) &&
			clock_boot_ns() >= s->next_try_ns)
			try_first(s);
	}
	if (r == 0)
		r = hwi_exporting_more(exporting, err);
	if (r == 0)
		send_all(s);
	hwi_exporting_free(exporting);
	return r;
}

/* ---- the program -------------------------------------------------------------------------------------------------------- */

static int report(struct sender *s)
{
	const uint64_t lost = s->lost + s->queue.dropped + outbox_points(&s->queue);
	const char *warning = s->follow ? "warning: --otlp: " : "";

	if (s->given_up)
		complain(s, "cannot send to %s: %s; it had accepted %llu values before", s->settings.url, s->why,
			(unsigned long long) s->sent);
	else if (lost)
		complain(s, "%s%llu of %llu values were not sent to %s: %s", warning, (unsigned long long) lost,
			(unsigned long long) (lost + s->sent + s->rejected), s->settings.url, s->why);
	if (s->rejected)
		complain(s, "%s%s rejected %llu of %llu values%s%s", warning, s->settings.url,
			(unsigned long long) s->rejected, (unsigned long long) (s->rejected + s->sent),
			*s->why ? ": " : "", s->why);
	else if (!lost && *s->why && !s->warned)
		complain(s, "%s%s accepted all values and reported: %s", warning, s->settings.url, s->why);
	return lost || s->rejected ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void read_words(struct sender *s, char **argv)
{
	for (argv++; *argv; argv++) {
		const char *word = *argv;

		if (strncmp(word, "file=", 5) == 0)
			s->file = word + 5;
		else if (strncmp(word, "url=", 4) == 0)
			s->url = word + 4;
		s->insecure |= strcmp(word, "insecure=1") == 0;
		s->redact |= strcmp(word, "redact=1") == 0;
		s->follow |= strcmp(word, "follow=1") == 0;
		s->quiet |= strcmp(word, "quiet=1") == 0;
	}
}

static int send_run(struct sender *s, struct hiw_err *err)
{
	const struct hiw_export what = what_of(s);
	struct hiw_run *run = NULL;
	int r = hiw_run_open(s->file, &run, err);

	if (r == 0)
		r = s->follow ? follow(s, run, err) : hiw_run_export(run, &what, err);
	hiw_run_close(run);
	return r;
}

/* With the job's group it gets signals that are the job's: it ends with the job, or when hiwater is gone. */
static void ignore_signals(void)
{
	static const int numbers[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		(void) signal(numbers[i], SIG_IGN);
}

int main(int argc, char **argv)
{
	struct sender s = { .line = BUF_INIT(BODY_MOST) };
	struct hiw_err err = { "" };
	int r = EXIT_FAILURE;

	if (argc < 2)
		return EXIT_FAILURE;
	read_words(&s, argv);
	if (!s.file)
		return EXIT_FAILURE;
	if (s.follow)
		ignore_signals();
	srandom((unsigned) (getpid() ^ (int) clock_boot_ns()));
	if (hwi_otlp_settings(s.url, s.insecure, &s.settings, &err) < 0) {
		complain(&s, "%s", err.text);
	} else if ((s.poster = poster_new(&s.settings)) == NULL || outbox_init(&s.queue) < 0) {
		complain(&s, "cannot begin to send: out of memory");
	} else if (send_run(&s, &err) < 0 && !s.given_up) {
		complain(&s, "%s%s", s.follow ? "warning: --otlp: " : "", err.text);
	} else {
		r = report(&s);
	}
	outbox_done(&s.queue);
	poster_free(s.poster);
	hwi_otlp_done(&s.settings);
	buf_done(&s.line);
	return r;
}
