/* SPDX-License-Identifier: MIT
 *
 * Plain lines instead of a screen, for pipes, logs and screen readers: one fact per line, then a
 * table of the first processes. A replay prints the recorded time without waiting, one interval per
 * step.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/textwidth.h"
#include "top/format.h"
#include "top/keys.h"

#define SECOND UINT64_C(1000000000)

enum {
	LEAST_NAME = 16 /* columns */
};

/* ---- one sample ---------------------------------------------------------------------------------------------------- */

/* "18.9G of 64.0G (30 %), peak 22.4G" */
static void print_level(const struct top *t, const char *name, const struct figure *f, struct hiw_maybe total)
{
	char now[SHORT_LEN], peak[SHORT_LEN], all[SHORT_LEN];

	if (!f) {
		printf("%s unknown\n", name);
		return;
	}
	printf("%s %s", name, short_bytes((double) f->value, t->view.units, now));
	if (total.known && total.value > 0)
		printf(" of %s (%.0f %%)", short_bytes((double) total.value, t->view.units, all),
			(double) f->value / (double) total.value * 100);
	printf(", peak %s\n", short_bytes((double) f->peak, t->view.units, peak));
}

static void print_cpu(const struct top *t)
{
	const struct model *m = &t->model;
	const struct thing *subject = m->machine ? &m->host : &m->job;
	char number[SHORT_LEN];
	double rate;

	if (!model_rate(m, subject, m->machine ? HOST_CPU_USER : JOB_CPU_USER,
		    m->machine ? HOST_CPU_SYSTEM : JOB_CPU_SYSTEM, &rate)) {
		puts("CPU unknown");
		return;
	}
	printf("CPU %s", short_number(rate / 1e9, number));
	if (t->feed.about.cpus.known)
		printf(" of %lld", (long long) t->feed.about.cpus.value);
	puts(" cores");
}

static void print_share(const char *name, const struct figure *f)
{
	if (f)
		printf(", %s %.0f %%", name, (double) f->value / 1e4);
}

static void print_gpus(const struct top *t)
{
	const struct model *m = &t->model;

	for (size_t i = 0; i < m->n_gpus; i++) {
		const struct thing *gpu = m->gpus[i];
		const struct figure *power = model_figure(m, gpu, GPU_POWER),
				    *temp = model_figure(m, gpu, GPU_TEMP);
		char name[GPU_NAME], memory[48];

		model_gpu_name(m, i, "GPU", "MIG", name);
		(void) snprintf(memory, sizeof(memory), "%s memory", name);
		print_level(t, memory, model_figure(m, gpu, GPU_MEM), gpu->memory_bytes);
		printf("%s %s", name, gpu->name ? gpu->name : "");
		print_share("SM", model_figure(m, gpu, GPU_SM));
		print_share("busy", model_figure(m, gpu, GPU_BUSY));
		if (power)
			printf(", %.0f W", (double) power->value / 1e6);
		if (temp)
			printf(", %.0f C", (double) temp->value / 1e3);
		puts("");
	}
}

static void print_rates(const struct top *t)
{
	const struct model *m = &t->model;
	const struct thing *subject = m->machine ? &m->host : &m->job;
	const struct {
		const char *name;
		const struct figure *f;
	} rates[] = {
		{ "read", model_figure(m, subject, m->machine ? HOST_DISK_READ : JOB_READ) },
		{ "write", model_figure(m, subject, m->machine ? HOST_DISK_WRITE : JOB_WRITE) },
		{ "net in", model_figure(m, &m->host, HOST_NET_RX) },
		{ "net out", model_figure(m, &m->host, HOST_NET_TX) },
	};
	char text[SHORT_LEN];
	bool any = false;

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		if (!rates[i].f || !rates[i].f->has_rate)
			continue;
		printf("%s %s %s/s", any ? "," : "I/O", rates[i].name,
			short_bytes(rates[i].f->rate, t->view.units, text));
		any = true;
	}
	if (any)
		puts("");
}

static void print_series(const struct model *m)
{
	if (m->n_phases > 0)
		printf("phase %s\n", m->phases[m->n_phases - 1]);
	for (size_t i = 0; i < m->n_series; i++) {
		printf("%s %.6g", m->series[i]->name, m->series[i]->value);
		if (m->series[i]->has_step)
			printf(" at step %lld", (long long) m->series[i]->step);
		puts("");
	}
}

/* Events since the last sample. */
static void print_events(const struct model *m, uint64_t *seen)
{
	char at[SHORT_LEN];

	if (m->n_events > *seen + EVENTS_KEPT)
		*seen = m->n_events - EVENTS_KEPT;
	for (; *seen < m->n_events; ++*seen) {
		const struct event_line *e = &m->events[*seen % EVENTS_KEPT];

		printf("%s %s %s\n", e->kind, short_time(e->time_ns, at), e->text);
	}
}

static bool is_left(enum column c)
{
	return c == COL_USER || c == COL_COMMAND;
}

/* Width of the terminal on stdout; 0: no terminal, lines are not cut. */
static unsigned line_columns(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* The last cell of a line, from column x on. Long names are cut in the middle, as on a screen, to
 * at least LEAST_NAME. */
static void print_last(const struct top *t, const char *text, unsigned depth, unsigned x, unsigned columns)
{
	const unsigned taken = x + 2 * depth;
	struct buf cut = BUF_INIT(1 << 16);

	if (columns > 0 &&
		text_shorten(text, columns > taken + LEAST_NAME ? columns - taken : LEAST_NAME,
			t->options.utf8, &cut) == 0)
		text = cut.data;
	printf("%*s%s\n", (int) (2 * depth), "", text);
	buf_done(&cut);
}

/* On a terminal the columns that a screen of its width shows. */
static bool is_shown(const struct top *t, enum column c, unsigned columns)
{
	if (t->view.hidden & 1U << c || (column_infos[c].on_gpu && t->model.n_gpus == 0))
		return false;
	return columns == 0 || column_infos[c].from <= columns;
}

static void print_row(struct top *t, const struct row *row)
{
	const unsigned columns = line_columns();
	char text[2048];
	int x = 0;

	for (int c = 0; c < COLUMNS; c++) {
		const int width = (int) column_infos[c].width;

		if (!is_shown(t, (enum column) c, columns))
			continue;
		if (row)
			column_text(&t->view, &t->model, row->process, (enum column) c, text, sizeof(text));
		else
			(void) snprintf(text, sizeof(text), "%s", column_infos[c].title);
		if (width > 0)
			x += printf(is_left((enum column) c) ? "%-*s " : "%*s ", width, text);
		else
			print_last(t, text, row && t->view.tree ? row->depth : 0, (unsigned) x, columns);
	}
}

static void print_table(struct top *t)
{
	size_t shown;

	view_rows(&t->view, &t->model);
	shown = t->view.n_rows < t->options.rows ? t->view.n_rows : (size_t) t->options.rows;
	for (size_t i = 0; t->options.rows > 0 && i <= shown; i++)
		print_row(t, i > 0 ? &t->view.rows[i - 1] : NULL);
	if (t->view.n_rows > t->options.rows && t->options.rows > 0)
		printf("and %zu more\n", t->view.n_rows - (size_t) t->options.rows);
}

/* Returns false if stdout can no longer be written. */
static bool print_sample(struct top *t, uint64_t *events_seen)
{
	const struct model *m = &t->model;
	const struct hiw_about *about = &t->feed.about;
	const struct thing *subject = m->machine ? &m->host : &m->job;
	char time[SHORT_LEN];

	printf("time %s  %s\n", short_time(t->feed.kind == FEED_REPLAY ? t->feed.cursor_ns : m->now_ns, time),
		m->machine ? about->host : t->feed.title);
	print_level(t, "RAM", model_figure(m, subject, m->machine ? HOST_MEM_USED : JOB_RAM),
		!m->machine && about->limit_bytes.known ? about->limit_bytes : about->capacity_bytes);
	print_cpu(t);
	print_gpus(t);
	print_rates(t);
	print_series(m);
	print_events(m, events_seen);
	printf("processes %zu\n", model_processes(m));
	print_table(t);
	puts("");
	return fflush(stdout) == 0;
}

/* ---- loops --------------------------------------------------------------------------------------------------------- */

static int replay(struct top *t)
{
	const uint64_t by = t->options.interval_ns ? t->options.interval_ns : SECOND;
	uint64_t events = 0, n = 0, at = t->options.at_ns != UINT64_MAX ? t->options.at_ns : by;
	struct hiw_err err = { "" };

	for (;; at += by) {
		if (feed_go(&t->feed, at, 0, &err) < 0) {
			(void) fprintf(stderr, "hiwater: %s\n", err.text);
			return 1;
		}
		if (!print_sample(t, &events) || ++n == t->options.count || at >= t->feed.end_ns)
			return 0;
	}
}

static int open_timer(uint64_t ns)
{
	const struct timespec period = { (time_t) (ns / SECOND), (long) (ns % SECOND) };
	const struct itimerspec timer = { .it_interval = period, .it_value = period };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (fd >= 0)
		(void) timerfd_settime(fd, 0, &timer, NULL);
	return fd;
}

static int open_signals(void)
{
	static const int caught[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	sigset_t set;

	(void) sigemptyset(&set);
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		(void) sigaddset(&set, caught[i]);
	(void) sigprocmask(SIG_BLOCK, &set, NULL);
	(void) signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

enum {
	FEED,
	TIMER,
	SIGNALS,
	KEYS,
	FDS,
	AWAY_MS = 1000 /* interval of checks whether the terminal is back */
};

static bool is_over(const struct feed *f)
{
	return f->kind == FEED_REPLAY ? !f->paused && f->cursor_ns >= f->end_ns : f->over;
}

/* Are GPUs wanted that no driver has reported yet? */
static bool lacks_gpus(struct top *t)
{
	struct hiw_about about = { .size = sizeof(about) };

	if (!t->feed.recorder || !t->options.gpus || is_over(&t->feed) ||
		(t->model.n_gpus > 0 && model_figure(&t->model, t->model.gpus[0], GPU_MEM)))
		return false;
	return hiw_run_about(t->feed.run, &about) == 0 && !*about.gpu_why;
}

/* The first sample may be the only one: waits for GPUs, at most a second. */
static void await_gpus(struct top *t, const struct pollfd *fds)
{
	const uint64_t until = clock_boot_ns() + SECOND;
	struct hiw_err err = { "" };
	struct pollfd two[] = { fds[FEED], fds[SIGNALS] };

	for (uint64_t now = clock_boot_ns(); now < until && lacks_gpus(t); now = clock_boot_ns()) {
		if (poll(two, 2, (int) ((until - now) / 1000000) + 1) > 0 &&
			(two[1].revents || feed_step(&t->feed, &err) < 0))
			return;
	}
}

/* Handles readable descriptors and prints a sample if one is due. Returns 0: continue, 1: over, -1:
 * failed. */
static int step_lines(struct top *t, struct pollfd *fds, uint64_t *events_seen, uint64_t *samples)
{
	struct hiw_err err = { "" };
	uint64_t expirations;

	if (fds[FEED].revents && feed_step(&t->feed, &err) < 0) {
		(void) fprintf(stderr, "hiwater: %s\n", err.text);
		return -1;
	}
	if (!is_over(&t->feed) &&
		!(fds[TIMER].revents && read(fds[TIMER].fd, &expirations, sizeof(expirations)) > 0))
		return 0;
	if (t->feed.kind == FEED_REPLAY && t->feed.paused) /* already printed */
		return 0;
	if (*samples == 0)
		await_gpus(t, fds);
	return !print_sample(t, events_seen) || ++*samples == t->options.count || is_over(&t->feed);
}

static int follow(struct top *t)
{
	autoclose int timer = open_timer(t->options.interval_ns ? t->options.interval_ns : SECOND);
	autoclose int signals = open_signals();
	struct pollfd fds[] = { [FEED] = { .fd = feed_fd(&t->feed), .events = POLLIN },
		[TIMER] = { .fd = timer, .events = POLLIN },
		[SIGNALS] = { .fd = signals, .events = POLLIN } };
	uint64_t events = 0, samples = 0;
	int r = 0;

	while (r == 0) {
		if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
			continue;
		if (fds[SIGNALS].revents)
			return 0;
		r = step_lines(t, fds, &events, &samples);
	}
	return r < 0;
}

int plain_run(struct top *t)
{
	return t->feed.kind == FEED_REPLAY ? replay(t) : follow(t);
}

/* ---- after a screen ------------------------------------------------------------------------------------------------ */

/* Returns the signal that ends the view; 0: none. With run --live it does not stop itself, see
 * leave_screen() in live.c. */
static int read_signals(const struct top *t, int signals)
{
	struct signalfd_siginfo info;

	while (read(signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTSTP && !t->options.live)
			(void) raise(SIGSTOP);
		else if (info.ssi_signo != SIGTSTP && info.ssi_signo != SIGWINCH && info.ssi_signo != SIGCONT)
			return (int) info.ssi_signo;
	}
	return 0;
}

/* The first letter of a typed line; 'q' at the end of input. */
static int read_line(int terminal)
{
	char line[256];
	const ssize_t n = read(terminal, line, sizeof(line));

	return n > 0 ? line[0] : 'q';
}

int plain_follow(struct top *t, int signals)
{
	autoclose int timer = open_timer(t->feed.interval_ns);
	struct pollfd fds[FDS] = { [FEED] = { .fd = feed_fd(&t->feed), .events = POLLIN },
		[TIMER] = { .fd = timer, .events = POLLIN },
		[SIGNALS] = { .fd = signals, .events = POLLIN },
		[KEYS] = { .fd = t->options.terminal } };
	uint64_t events = 0, samples = 0;
	int r = 0, end = 0, typed = 0;

	puts("plain lines: p and Enter return to the screen, q and Enter quit");
	(void) print_sample(t, &events);
	while (r == 0 && end == 0 && typed != 'q' && typed != 'p') {
		const bool in_foreground = screen_in_foreground(), prints = in_foreground || !t->options.live;

		fds[KEYS].events = in_foreground ? POLLIN : 0;
		fds[FEED].fd = prints ? feed_fd(&t->feed) : -1;
		fds[TIMER].fd = prints ? timer : -1;
		if (poll(fds, FDS, prints ? -1 : AWAY_MS) < 0)
			continue;
		if (fds[SIGNALS].revents)
			end = read_signals(t, signals);
		else if (fds[KEYS].revents & (POLLHUP | POLLERR | POLLNVAL))
			end = SIGHUP;
		else if (fds[KEYS].revents)
			typed = read_line(t->options.terminal);
		else if (prints)
			r = step_lines(t, fds, &events, &samples);
	}
	return end ? -end : typed == 'p';
}

void key_plain(struct top *t, int key)
{
	(void) key;
	t->to_lines = true;
}
