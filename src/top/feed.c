/* SPDX-License-Identifier: MIT */
#include "top/feed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "api/internal.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/textwidth.h"

#define SECOND UINT64_C(1000000000)

static const uint64_t least_ns = SECOND / 100; /* with an own recorder */
static const uint64_t follow_ns = SECOND;     /* recordings are committed once a second */
static const uint64_t folder_ns = 3 * SECOND; /* each time, its recordings are merged */
static const uint64_t frame_ns = SECOND / 4;  /* between two frames of a replay */

/* The name of the run, cleaned and shortened. */
static void set_title(struct feed *f, const char *name)
{
	struct buf clean = BUF_INIT(1 << 16), cut = BUF_INIT(1 << 16);

	(void) text_clean(name, f->model->utf8, &clean);
	(void) text_shorten(clean.data, sizeof(f->title) / 4 - 1, f->model->utf8, &cut);
	(void) snprintf(f->title, sizeof(f->title), "%s", cut.data);
	buf_done(&clean);
	buf_done(&cut);
}

static void read_about(struct feed *f)
{
	f->about = (struct hiw_about) { .size = sizeof(f->about) };
	(void) hiw_run_about(f->run, &f->about);
	set_title(f, *f->about.name ? f->about.name : f->about.command);
}

/* ---- a recorder --------------------------------------------------------------------------------------------------- */

static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void) setrlimit(RLIMIT_NOFILE, &limit);
}

/* For the machine the first process is init, or our parent if init is not visible. */
static int start(struct feed *f, pid_t pid, struct hiw_err *err)
{
	int r = hiw_recorder_start(f->recorder, pid ? pid : 1, err);

	if (r < 0 && pid == 0)
		r = hiw_recorder_start(f->recorder, getppid(), err);
	return r;
}

int feed_open_recorder(
	struct feed *f, struct model *m, pid_t pid, uint64_t interval_ns, bool gpus, struct hiw_err *err)
{
	struct hiw_options options = HIW_OPTIONS_INIT;
	int r;

	*f = (struct feed) {
		.kind = pid ? FEED_PROCESS : FEED_MACHINE,
		.model = m,
		.timer = -1,
		.interval_ns = interval_ns,
		.least_ns = least_ns,
	};
	options.attached = options.no_record = true;
	options.everyone = pid == 0;
	options.interval_ns = interval_ns;
	options.window_ns = interval_ns > SECOND ? interval_ns : SECOND;
	options.gpu = gpus ? HIW_GPU_AUTO : HIW_GPU_NONE;
	raise_file_limit();
	r = hiw_recorder_new(&options, &f->recorder, err);
	if (r == 0)
		r = hiw_recorder_watch(f->recorder, model_see, m);
	if (r == 0)
		r = start(f, pid, err);
	if (r < 0)
		return r;
	f->run = hiw_recorder_run(f->recorder);
	read_about(f);
	return 0;
}

static int step_recorder(struct feed *f)
{
	const uint64_t frames = f->model->frames;

	hiw_recorder_step(f->recorder);
	if (!f->over && f->kind == FEED_PROCESS && hiw_recorder_finished(f->recorder)) {
		f->over = true;
		return 1;
	}
	return f->model->frames > frames;
}

/* ---- a recording -------------------------------------------------------------------------------------------------- */

static int set_timer(struct feed *f, uint64_t period_ns)
{
	const struct timespec period = { (time_t) (period_ns / SECOND), (long) (period_ns % SECOND) };
	const struct itimerspec timer = { .it_interval = period, .it_value = period };

	if (f->timer < 0)
		f->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return f->timer < 0 || timerfd_settime(f->timer, 0, &timer, NULL) < 0 ? -errno : 0;
}

/* Opens the recording in its present state. */
static int open_run(struct feed *f, const char *path, struct hiw_err *err)
{
	int r = hiw_run_open(path, &f->run, err);

	if (r == 0)
		r = hiw_player_new(f->run, model_see, f->model, &f->player, err);
	if (r < 0)
		return r;
	read_about(f);
	f->end_ns = f->about.ended_ns.known ? (uint64_t) f->about.ended_ns.value : f->about.last_ns;
	if (f->about.window_ns.known && f->about.window_ns.value > 0)
		f->interval_ns = f->least_ns = (uint64_t) f->about.window_ns.value;
	return 0;
}

int feed_open_file(struct feed *f, struct model *m, const char *path, uint64_t from_ns, struct hiw_err *err)
{
	int r;

	*f = (struct feed) {
		.kind = FEED_REPLAY,
		.model = m,
		.timer = -1,
		.speed = 1,
		.interval_ns = SECOND,
		.least_ns = SECOND,
		.path = path,
	};
	r = open_run(f, path, err);
	if (r < 0)
		return r;
	if (f->about.growing) {
		struct stat st;

		f->kind = FEED_FOLLOW;
		f->is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
		r = set_timer(f, f->is_folder ? folder_ns : follow_ns);
		return r < 0 ? r : hiw_player_to(f->player, UINT64_MAX, err);
	}
	f->over = true;
	f->moved_ns = clock_boot_ns();
	r = set_timer(f, frame_ns);
	return r < 0 ? r : feed_go(f, from_ns, 600 * SECOND, err);
}

/* Frames after a seek lack an earlier peak: takes the peak of the whole run from the summary, if it
 * lies before until_ns. */
static void restore_peak(struct feed *f, uint64_t until_ns)
{
	struct hiw_figures figures = { .size = sizeof(figures) };

	if (hiw_run_figures(f->run, &figures) == 0 && figures.combined.peak.known &&
		figures.combined.at_ns.known && (uint64_t) figures.combined.at_ns.value <= until_ns)
		model_raise_ram(f->model, figures.combined.peak.value);
}

int feed_go(struct feed *f, uint64_t time_ns, uint64_t span_ns, struct hiw_err *err)
{
	int r;

	if (time_ns > f->end_ns)
		time_ns = f->end_ns;
	if (time_ns >= f->cursor_ns && f->model->frames > 0 && time_ns - f->cursor_ns < 60 * SECOND) {
		r = hiw_player_to(f->player, time_ns, err);
	} else {
		const uint64_t from = span_ns && time_ns > span_ns ? time_ns - span_ns : 0;

		model_clear(f->model);
		r = hiw_player_seek(f->player, from, err);
		if (r == 0)
			r = hiw_player_to(f->player, time_ns, err);
		if (from > 0)
			restore_peak(f, time_ns);
	}
	f->cursor_ns = time_ns;
	f->moved_ns = clock_boot_ns();
	return r;
}

void feed_pause(struct feed *f, bool paused)
{
	f->paused = paused;
	f->moved_ns = clock_boot_ns();
}

static int step_replay(struct feed *f, struct hiw_err *err)
{
	const uint64_t now = clock_boot_ns(), by = (now - f->moved_ns) * f->speed;
	int r;

	if (f->paused || f->cursor_ns >= f->end_ns) {
		f->moved_ns = now;
		return 0;
	}
	r = feed_go(f, f->cursor_ns + by, 0, err);
	return r < 0 ? r : 1;
}

/* Merges the folder again and plays the whole: nothing of the former state stays. */
static int step_folder(struct feed *f, struct hiw_err *err)
{
	int r;

	hiw_player_free(f->player);
	hiw_run_close(f->run);
	f->player = NULL;
	f->run = NULL;
	model_clear(f->model);
	r = open_run(f, f->path, err);
	if (r == 0)
		r = hiw_player_to(f->player, UINT64_MAX, err);
	f->over = r == 0 && !f->about.growing;
	return r < 0 ? r : 1;
}

/* When the recorder has ended or was killed, the feed is over. */
static int step_follow(struct feed *f, struct hiw_err *err)
{
	struct hiw_about about = { .size = sizeof(about) };
	const uint64_t frames = f->model->frames;
	int r = 0;

	if (f->over)
		return 0;
	if (f->is_folder)
		return step_folder(f, err);
	(void) hiw_run_about(f->run, &about);
	r = hiw_player_to(f->player, UINT64_MAX, err);
	if (r < 0)
		return r == -EBUSY ? 0 : r;
	if (!about.growing)
		f->over = true;
	return f->over || f->model->frames > frames;
}

int feed_set_interval(struct feed *f, uint64_t interval_ns)
{
	int r = 0;

	if (f->recorder)
		r = hwi_recorder_set_interval(f->recorder, interval_ns);
	else if (f->kind == FEED_FOLLOW)
		r = set_timer(f, interval_ns);
	if (r == 0)
		f->interval_ns = interval_ns;
	return r;
}

/* ---- both --------------------------------------------------------------------------------------------------------- */

int feed_fd(const struct feed *f)
{
	return f->recorder ? hiw_recorder_fd(f->recorder) : f->timer;
}

int feed_step(struct feed *f, struct hiw_err *err)
{
	uint64_t expirations;

	if (f->recorder)
		return step_recorder(f);
	if (read(f->timer, &expirations, sizeof(expirations)) != sizeof(expirations))
		return 0;
	return f->kind == FEED_FOLLOW ? step_follow(f, err) : step_replay(f, err);
}

void feed_close(struct feed *f)
{
	hiw_player_free(f->player);
	if (f->recorder)
		(void) hiw_recorder_end(f->recorder, NULL);
	if (f->recorder)
		hiw_recorder_free(f->recorder);
	else
		hiw_run_close(f->run);
	if (f->timer >= 0)
		(void) close(f->timer);
	*f = (struct feed) { .timer = -1 };
}
