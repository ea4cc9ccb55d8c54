/* SPDX-License-Identifier: MIT
 *
 * hiwater-top: the live view. hiwater top runs it with words NAME=VALUE; it is not meant to be called by hand.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/parse.h"
#include "top/top.h"

enum {
	FAILED = 1,
	USAGE = 2,
	AWAY_LOOKS = 2         /* the first may have been committed before */
};

/* ---- what it was started with ------------------------------------------------------------------------------------- */

enum word_kind {
	WORD_TEXT,
	WORD_NUMBER,
	WORD_FLAG,
	WORD_INT
};

static const struct word {
	const char *name;
	enum word_kind kind;
	size_t offset;
} words[] = {
	{ "file", WORD_TEXT, offsetof(struct top_options, file) },
	{ "filter", WORD_TEXT, offsetof(struct top_options, filter) },
	{ "sort", WORD_TEXT, offsetof(struct top_options, sort) },
	{ "hiwater", WORD_TEXT, offsetof(struct top_options, hiwater) },
	{ "pid", WORD_INT, offsetof(struct top_options, pid) },
	{ "units", WORD_INT, offsetof(struct top_options, units) },
	{ "terminal", WORD_INT, offsetof(struct top_options, terminal) },
	{ "interval", WORD_NUMBER, offsetof(struct top_options, interval_ns) },
	{ "at", WORD_NUMBER, offsetof(struct top_options, at_ns) },
	{ "count", WORD_NUMBER, offsetof(struct top_options, count) },
	{ "rows", WORD_NUMBER, offsetof(struct top_options, rows) },
	{ "plain", WORD_FLAG, offsetof(struct top_options, plain) },
	{ "utf8", WORD_FLAG, offsetof(struct top_options, utf8) },
	{ "color", WORD_FLAG, offsetof(struct top_options, color) },
	{ "mouse", WORD_FLAG, offsetof(struct top_options, mouse) },
	{ "gpus", WORD_FLAG, offsetof(struct top_options, gpus) },
	{ "readonly", WORD_FLAG, offsetof(struct top_options, readonly) },
	{ "live", WORD_FLAG, offsetof(struct top_options, live) },
};

static bool take_value(const struct word *word, const char *value, struct top_options *o)
{
	void *field = (char *) o + word->offset;
	const char *p = value;
	uint64_t number = 0;

	if (word->kind == WORD_TEXT) {
		*(const char **) field = value;
		return true;
	}
	if (parse_u64(&p, &number) < 0 || *p)
		return false;
	if (word->kind == WORD_NUMBER)
		*(uint64_t *) field = number;
	else if (word->kind == WORD_FLAG)
		*(bool *) field = number != 0;
	else
		*(int *) field = (int) number;
	return true;
}

static bool take_word(const char *text, struct top_options *o)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const size_t len = strlen(words[i].name);

		if (strncmp(text, words[i].name, len) == 0 && text[len] == '=')
			return take_value(&words[i], text + len + 1, o);
	}
	return false;
}

static bool take_words(int argc, char **argv, struct top_options *o)
{
	*o = (struct top_options) { .at_ns = UINT64_MAX, .rows = 10 };
	for (int i = 1; i < argc; i++) {
		if (!take_word(argv[i], o)) {
			(void) fprintf(stderr, "hiwater-top: it is started by hiwater top; '%.80s' is no word of it\n", argv[i]);
			return false;
		}
	}
	return true;
}

/* ---- signals ------------------------------------------------------------------------------------------------------ */

/* All come through a descriptor, so that the terminal is given back from one place. */
static int open_signals(const struct top *t)
{
	static const int heard[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT };
	sigset_t set;

	(void) sigemptyset(&set);
	for (size_t i = 0; i < sizeof(heard) / sizeof(heard[0]); i++)
		(void) sigaddset(&set, heard[i]);
	(void) sigprocmask(SIG_BLOCK, &set, NULL);
	(void) signal(SIGPIPE, SIG_IGN);
	if (t->options.live) { /* Ctrl-C and Ctrl-\ are the job's */
		(void) signal(SIGINT, SIG_IGN);
		(void) signal(SIGQUIT, SIG_IGN);
		(void) signal(SIGTTOU, SIG_IGN); /* these would stop the job, too: it is of the same group */
		(void) signal(SIGTTIN, SIG_IGN);
	}
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Ctrl-Z. Beside a job the view does not stop itself: the shell's SIGCONT could come before, and nobody would send another.
 * It comes back with a SIGCONT, or where the recording gets on, in the foreground: then nobody was stopped. */
static void step_back(struct top *t)
{
	if (t->options.live) {
		screen_lend(&t->screen);
		t->away = AWAY_LOOKS;
	} else {
		screen_suspend(&t->screen);
	}
}

static void come_back(struct top *t)
{
	t->away = 0;
	screen_resume(&t->screen);
}

/* Returns the signal that ends the view, 0: none of them does. */
static int take_signals(struct top *t, int signals)
{
	struct signalfd_siginfo info;
	int end = 0;

	while (read(signals, &info, sizeof(info)) == sizeof(info)) {
		t->redraw = true;
		switch (info.ssi_signo) {
		case SIGWINCH:
			screen_resize(&t->screen);
			break;
		case SIGTSTP:
			step_back(t);
			break;
		case SIGCONT:
			come_back(t);
			break;
		default:
			t->quit = true;
			end = (int) info.ssi_signo;
			break;
		}
	}
	return end;
}

/* As a program that never heard of it would have ended. */
static void end_by(int signal_number)
{
	sigset_t set;

	if (signal_number == 0 || signal_number == SIGINT)
		return;
	(void) signal(signal_number, SIG_DFL);
	(void) sigemptyset(&set);
	(void) sigaddset(&set, signal_number);
	(void) raise(signal_number);
	(void) sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- the loop ----------------------------------------------------------------------------------------------------- */

static void redraw(struct top *t)
{
	t->redraw = false;
	if (t->view.setup)
		setup_draw(t);
	else
		draw(&t->picture);
}

static void step(struct top *t)
{
	struct hiw_err err = { "" };
	const int r = feed_step(&t->feed, &err);

	if (r < 0)
		(void) snprintf(t->view.message, sizeof(t->view.message), "%s", *err.text ? err.text : strerror(-r));
	if (r > 0 && t->away > 0 && screen_in_foreground())
		t->away--;
	t->redraw |= r != 0 && !(t->view.paused && t->feed.kind != FEED_REPLAY);
	t->quit |= t->options.live && t->feed.over;
}

static int look_on(struct top *t, int signals)
{
	enum {
		KEYS,
		FEED,
		SIGNALS,
		REPORT,
		N
	};
	struct pollfd fds[N] = {
		[KEYS] = { .fd = t->options.terminal, .events = POLLIN },
		[FEED] = { .fd = feed_fd(&t->feed), .events = POLLIN },
		[SIGNALS] = { .fd = signals, .events = POLLIN },
	};
	struct press press;
	int end = 0;

	t->redraw = true;
	while (!t->quit && !t->to_lines) {
		const bool ours = t->away == 0 && screen_is_ours(&t->screen);

		if (ours && t->redraw)
			redraw(t);
		fds[KEYS].events = ours ? POLLIN : 0;
		fds[REPORT] = (struct pollfd) { .fd = t->report.fd, .events = POLLIN };
		if (poll(fds, N, -1) < 0)
			continue;
		if (fds[SIGNALS].revents)
			end = take_signals(t, signals);
		if (fds[FEED].revents)
			step(t);
		if (fds[REPORT].revents)
			report_step(t);
		if (fds[KEYS].revents & (POLLHUP | POLLERR | POLLNVAL)) { /* nobody is there any more */
			t->quit = true;
			end = SIGHUP;
		}
		while (!t->quit && !t->to_lines && (fds[KEYS].revents & POLLIN) && (press = screen_key(&t->screen)).key != PRESS_NONE)
			top_key(t, press);
	}
	return end;
}

/* p: lines, until somebody wants the screen back. Returns the signal that ends the view, 0: none does. */
static int show_lines(struct top *t, int signals)
{
	int r;

	report_leave(t, true);
	screen_lend(&t->screen);
	r = plain_follow(t, signals);
	t->to_lines = false;
	if (r == 1)
		return look_on(t, signals);
	t->quit = true;
	return -r;
}

static int run_screen(struct top *t)
{
	const struct top_options *o = &t->options;
	char why[MESSAGE_LEN];
	const int signals = open_signals(t);
	int r, end;

	r = screen_open(&t->screen, o->terminal, o->utf8, o->color, o->mouse, why, sizeof(why));
	if (r < 0) {
		(void) fprintf(stderr, "hiwater: %s; hiwater top --plain prints lines instead\n", why);
		return FAILED;
	}
	t->model.utf8 = t->screen.utf8;
	end = look_on(t, signals);
	while (t->to_lines && !t->quit && end == 0)
		end = show_lines(t, signals);
	screen_close(&t->screen);
	report_leave(t, end == 0);
	feed_close(&t->feed);
	end_by(end);
	return 0;
}

/* ---- from the beginning ------------------------------------------------------------------------------------------- */

static int open_feed(struct top *t)
{
	const struct top_options *o = &t->options;
	struct hiw_err err = { "" };
	int r;

	if (o->file)
		r = feed_open_file(&t->feed, &t->model, o->file, o->at_ns == UINT64_MAX ? 0 : o->at_ns, &err);
	else
		r = feed_open_recorder(&t->feed, &t->model, o->pid, o->interval_ns, o->gpus, &err);
	if (r < 0)
		(void) fprintf(stderr, "hiwater: %s\n", *err.text ? err.text : strerror(-r));
	if (r == 0 && o->at_ns != UINT64_MAX)
		feed_pause(&t->feed, true);
	return r;
}

/* Where the job runs, in figures that a filter's percentages are of. */
static void set_wholes(struct top *t)
{
	const struct hiw_about *about = &t->feed.about;

	t->view.cpus_ns = about->cpus.known ? (uint64_t) about->cpus.value * 1000000000 : 0;
	t->view.capacity_bytes = about->capacity_bytes.known ? (uint64_t) about->capacity_bytes.value : 0;
}

static int set_view(struct top *t)
{
	const struct top_options *o = &t->options;

	view_init(&t->view, o->units, o->color);
	for (int c = 0; o->sort && c < COLUMNS; c++) {
		if (column_infos[c].letter == o->sort[0])
			t->view.sort = (enum column) c;
	}
	if (o->filter && view_filter(&t->view, o->filter) < 0) {
		(void) fprintf(stderr, "hiwater: --filter: %s\n", t->view.trouble);
		return -EINVAL;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct top t;
	int r;

	if (!take_words(argc, argv, &t.options))
		return USAGE;
	if (set_view(&t) < 0)
		return USAGE;
	t.picture = (struct picture) { .s = &t.screen, .v = &t.view, .m = &t.model, .f = &t.feed };
	t.drag_x = -1;
	t.report.fd = -1;
	if (model_init(&t.model, !t.options.file && t.options.pid == 0, t.options.utf8) < 0 || open_feed(&t) < 0)
		return FAILED;
	set_wholes(&t);
	r = t.options.plain ? plain_run(&t) : run_screen(&t);
	feed_close(&t.feed);
	view_done(&t.view);
	model_done(&t.model);
	return r;
}
