/* SPDX-License-Identifier: MIT
 *
 * hiwater-top: the live view. hiwater top runs it with arguments NAME=VALUE; it is not meant to be
 * called by hand.
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
	AWAY_UPDATES = 2         /* the first may have been recorded before */
};

/* ---- arguments ----------------------------------------------------------------------------------------------------- */

enum arg_kind {
	ARG_TEXT,
	ARG_NUMBER,
	ARG_FLAG,
	ARG_INT
};

static const struct arg {
	const char *name;
	enum arg_kind kind;
	size_t offset;
} args[] = {
	{ "file", ARG_TEXT, offsetof(struct top_options, file) },
	{ "filter", ARG_TEXT, offsetof(struct top_options, filter) },
	{ "sort", ARG_TEXT, offsetof(struct top_options, sort) },
	{ "hiwater", ARG_TEXT, offsetof(struct top_options, hiwater) },
	{ "pid", ARG_INT, offsetof(struct top_options, pid) },
	{ "units", ARG_INT, offsetof(struct top_options, units) },
	{ "terminal", ARG_INT, offsetof(struct top_options, terminal) },
	{ "interval", ARG_NUMBER, offsetof(struct top_options, interval_ns) },
	{ "at", ARG_NUMBER, offsetof(struct top_options, at_ns) },
	{ "count", ARG_NUMBER, offsetof(struct top_options, count) },
	{ "rows", ARG_NUMBER, offsetof(struct top_options, rows) },
	{ "plain", ARG_FLAG, offsetof(struct top_options, plain) },
	{ "utf8", ARG_FLAG, offsetof(struct top_options, utf8) },
	{ "color", ARG_FLAG, offsetof(struct top_options, color) },
	{ "mouse", ARG_FLAG, offsetof(struct top_options, mouse) },
	{ "gpus", ARG_FLAG, offsetof(struct top_options, gpus) },
	{ "readonly", ARG_FLAG, offsetof(struct top_options, readonly) },
	{ "live", ARG_FLAG, offsetof(struct top_options, live) },
};

static bool set_option(const struct arg *arg, const char *value, struct top_options *o)
{
	void *field = (char *) o + arg->offset;
	const char *p = value;
	uint64_t number = 0;

	if (arg->kind == ARG_TEXT) {
		*(const char **) field = value;
		return true;
	}
	if (parse_u64(&p, &number) < 0 || *p)
		return false;
	if (arg->kind == ARG_NUMBER)
		*(uint64_t *) field = number;
	else if (arg->kind == ARG_FLAG)
		*(bool *) field = number != 0;
	else
		*(int *) field = (int) number;
	return true;
}

static bool parse_arg(const char *text, struct top_options *o)
{
	for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
		const size_t len = strlen(args[i].name);

		if (strncmp(text, args[i].name, len) == 0 && text[len] == '=')
			return set_option(&args[i], text + len + 1, o);
	}
	return false;
}

static bool parse_args(int argc, char **argv, struct top_options *o)
{
	*o = (struct top_options) { .at_ns = UINT64_MAX, .rows = 10 };
	for (int i = 1; i < argc; i++) {
		if (!parse_arg(argv[i], o)) {
			(void) fprintf(stderr,
				"hiwater-top: unknown argument '%.80s'; start it by hiwater top\n", argv[i]);
			return false;
		}
	}
	return true;
}

/* ---- signals ------------------------------------------------------------------------------------------------------ */

/* All signals come through a descriptor, so that the terminal is restored in one place. */
static int open_signals(const struct top *t)
{
	static const int caught[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT };
	sigset_t set;

	(void) sigemptyset(&set);
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		(void) sigaddset(&set, caught[i]);
	(void) sigprocmask(SIG_BLOCK, &set, NULL);
	(void) signal(SIGPIPE, SIG_IGN);
	if (t->options.live) { /* Ctrl-C and Ctrl-\ are for the job */
		(void) signal(SIGINT, SIG_IGN);
		(void) signal(SIGQUIT, SIG_IGN);
		/* these would stop the job, too, which is in the same process group */
		(void) signal(SIGTTOU, SIG_IGN);
		(void) signal(SIGTTIN, SIG_IGN);
	}
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Ctrl-Z. With run --live the view does not stop itself: the shell's SIGCONT could come before, and
 * no other would follow. The view returns on SIGCONT or, in the foreground, when the recording
 * grows: then the job was not stopped. */
static void leave_screen(struct top *t)
{
	if (t->options.live) {
		screen_lend(&t->screen);
		t->away = AWAY_UPDATES;
	} else {
		screen_suspend(&t->screen);
	}
}

static void return_to_screen(struct top *t)
{
	t->away = 0;
	screen_resume(&t->screen);
}

/* Returns the signal that ends the view; 0: none. */
static int read_signals(struct top *t, int signals)
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
			leave_screen(t);
			break;
		case SIGCONT:
			return_to_screen(t);
			break;
		default:
			t->quit = true;
			end = (int) info.ssi_signo;
			break;
		}
	}
	return end;
}

/* Ends the process by the signal, as if it had not been caught. */
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
		(void) snprintf(
			t->view.message, sizeof(t->view.message), "%s", *err.text ? err.text : strerror(-r));
	if (r > 0 && t->away > 0 && screen_in_foreground())
		t->away--;
	t->redraw |= r != 0 && !(t->view.paused && t->feed.kind != FEED_REPLAY);
	t->quit |= t->options.live && t->feed.over;
}

static int run_loop(struct top *t, int signals)
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
			end = read_signals(t, signals);
		if (fds[FEED].revents)
			step(t);
		if (fds[REPORT].revents)
			report_step(t);
		if (fds[KEYS].revents & (POLLHUP | POLLERR | POLLNVAL)) { /* the terminal is gone */
			t->quit = true;
			end = SIGHUP;
		}
		while (!t->quit && !t->to_lines && (fds[KEYS].revents & POLLIN) &&
			(press = screen_key(&t->screen)).key != PRESS_NONE)
			top_key(t, press);
	}
	return end;
}

/* p: plain lines until the screen is wanted back. Returns the signal that ends the view; 0:
 * none. */
static int show_lines(struct top *t, int signals)
{
	int r;

	report_leave(t, true);
	screen_lend(&t->screen);
	r = plain_follow(t, signals);
	t->to_lines = false;
	if (r == 1)
		return run_loop(t, signals);
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
	end = run_loop(t, signals);
	while (t->to_lines && !t->quit && end == 0)
		end = show_lines(t, signals);
	screen_close(&t->screen);
	report_leave(t, end == 0);
	feed_close(&t->feed);
	end_by(end);
	return 0;
}

/* ---- start --------------------------------------------------------------------------------------------------------- */

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

/* Sets the base amounts of percentages in filters. */
static void set_percent_bases(struct top *t)
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

	hwi_guard_recordings();
	if (!parse_args(argc, argv, &t.options))
		return USAGE;
	if (set_view(&t) < 0)
		return USAGE;
	t.picture = (struct picture) { .s = &t.screen, .v = &t.view, .m = &t.model, .f = &t.feed };
	t.drag_x = -1;
	t.report.fd = -1;
	if (model_init(&t.model, !t.options.file && t.options.pid == 0, t.options.utf8) < 0 ||
		open_feed(&t) < 0)
		return FAILED;
	set_percent_bases(&t);
	r = t.options.plain ? plain_run(&t) : run_screen(&t);
	feed_close(&t.feed);
	view_done(&t.view);
	model_done(&t.model);
	return r;
}
