/* SPDX-License-Identifier: MIT
 *
 * hiwater-serve: the main thread. hiwater serve runs it with words NAME=VALUE (src/cli/serve.c), as
 * hiwater run --listen does; it is not meant to be called by hand.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "serve/access.h"
#include "serve/files.h"
#include "serve/http.h"
#include "serve/serve.h"

#define SECOND UINT64_C(1000000000)

enum {
	FAILED = 1,
	USAGE = 2,
	WHY_LEN = 1024
};

/* ---- words ----------------------------------------------------------------------------------- */

enum word_kind {
	WORD_TEXT,
	WORD_LIST,               /* may be repeated */
	WORD_NUMBER,
	WORD_FLAG,
	WORD_INT
};

static const struct word {
	const char *name;
	enum word_kind kind;
	size_t offset, most;
} words[] = {
	{ "listen", WORD_LIST, offsetof(struct serve_options, listen), LISTENERS_MOST },
	{ "host-name", WORD_LIST, offsetof(struct serve_options, host_names), NAMES_MOST },
	{ "admin", WORD_LIST, offsetof(struct serve_options, admins), NAMES_MOST },
	{ "history", WORD_LIST, offsetof(struct serve_options, histories), NAMES_MOST },
	{ "group", WORD_LIST, offsetof(struct serve_options, groups), NAMES_MOST },
	{ "token-file", WORD_TEXT, offsetof(struct serve_options, token_file), 0 },
	{ "tls-cert", WORD_TEXT, offsetof(struct serve_options, tls_cert), 0 },
	{ "tls-key", WORD_TEXT, offsetof(struct serve_options, tls_key), 0 },
	{ "textfile", WORD_TEXT, offsetof(struct serve_options, textfile), 0 },
	{ "sd-file", WORD_TEXT, offsetof(struct serve_options, sd_file), 0 },
	{ "file", WORD_TEXT, offsetof(struct serve_options, file), 0 },
	{ "window", WORD_NUMBER, offsetof(struct serve_options, window_ns), 0 },
	{ "interval", WORD_NUMBER, offsetof(struct serve_options, interval_ns), 0 },
	{ "jobs", WORD_INT, offsetof(struct serve_options, jobs), 0 },
	{ "parent", WORD_INT, offsetof(struct serve_options, parent), 0 },
	{ "quiet", WORD_FLAG, offsetof(struct serve_options, quiet), 0 },
	{ "gpus", WORD_FLAG, offsetof(struct serve_options, gpus), 0 },
	{ "with-users", WORD_FLAG, offsetof(struct serve_options, with_users), 0 },
};

static bool set_word(const struct word *w, const char *value, struct serve_options *o)
{
	void *field = (char *) o + w->offset;
	const char *p = value, **list = field;
	uint64_t number = 0;
	size_t n = 0;

	if (w->kind == WORD_TEXT) {
		*(const char **) field = value;
		return true;
	}
	if (w->kind == WORD_LIST) {
		while (n < w->most - 1 && list[n])
			n++;
		if (n == w->most - 1) /* the last is NULL */
			return false;
		list[n] = value;
		return true;
	}
	if (parse_u64(&p, &number) < 0 || *p)
		return false;
	if (w->kind == WORD_NUMBER)
		*(uint64_t *) field = number;
	else if (w->kind == WORD_FLAG)
		*(bool *) field = number != 0;
	else
		*(int *) field = (int) number;
	return true;
}

static bool parse_words(int argc, char **argv, struct serve_options *o)
{
	for (int i = 1; i < argc; i++) {
		bool good = false;

		for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
			const size_t len = strlen(words[w].name);

			if (strncmp(argv[i], words[w].name, len) == 0 && argv[i][len] == '=')
				good = set_word(&words[w], argv[i] + len + 1, o);
		}
		if (good)
			continue;
		(void) fprintf(stderr, "hiwater-serve: bad argument '%.80s'; start it by hiwater serve\n", argv[i]);
		return false;
	}
	return true;
}

/* "train=GPU-1,GPU-2" */
static int parse_groups(struct serve *s, char *why, size_t size)
{
	for (size_t i = 0; i < NAMES_MOST && s->o.groups[i]; i++) {
		const char *equals = strchr(s->o.groups[i], '=');
		struct group *g = &s->groups[s->n_groups];

		if (!equals || equals == s->o.groups[i] || !equals[1]) {
			(void) snprintf(why, size, "--group: '%.80s' is not NAME=UUID,...", s->o.groups[i]);
			return -EINVAL;
		}
		g->name = strndup(s->o.groups[i], (size_t) (equals - s->o.groups[i]));
		g->uuids = strdup(equals + 1);
		if (!g->name || !g->uuids)
			return -ENOMEM;
		s->n_groups++;
	}
	return 0;
}

const char *group_of(const struct serve *s, const char *uuid)
{
	for (size_t i = 0; i < s->n_groups; i++) {
		if (parse_list_has(s->groups[i].uuids, uuid, strlen(uuid)))
			return s->groups[i].name;
	}
	return "";
}

/* ---- the machine's recorder ------------------------------------------------------------------ */

/* Frames come from within hiw_recorder_step: the lock is held for the copy alone. */
static void see(void *ctx, const struct hiw_frame *frame)
{
	struct serve *s = ctx;

	pthread_mutex_lock(&s->lock);
	stream_see(&s->machine, frame);
	pthread_mutex_unlock(&s->lock);
}

static void read_machine(struct serve *s)
{
	const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	s->capacity_bytes = pages > 0 && size > 0 ? (int64_t) pages * size : 0;
	s->cpus = (double) sysconf(_SC_NPROCESSORS_ONLN);
}

/* Its job is this process alone: the machine and its GPUs are what it is for, and all processes of the
 * machine would cost more than all else. */
static int start_recorder(struct serve *s, struct hiw_recorder **ret, struct hiw_err *err)
{
	struct hiw_options options = HIW_OPTIONS_INIT;
	int r;

	options.attached = options.no_record = true;
	options.interval_ns = options.window_ns = s->o.interval_ns;
	options.cgroup = HIW_CGROUP_NONE;
	options.gpu = s->o.gpus ? HIW_GPU_AUTO : HIW_GPU_NONE;
	r = hiw_recorder_new(&options, ret, err);
	if (r == 0)
		r = hiw_recorder_watch(*ret, see, s);
	stream_init(&s->machine, clock_boot_ns(), s->o.window_ns);
	s->has_machine = true;
	return r == 0 ? hiw_recorder_start(*ret, getpid(), err) : r;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static int open_signals(void)
{
	sigset_t set;

	(void) sigemptyset(&set);
	(void) sigaddset(&set, SIGINT);
	(void) sigaddset(&set, SIGTERM);
	(void) sigaddset(&set, SIGHUP);
	(void) sigaddset(&set, SIGQUIT);
	(void) sigprocmask(SIG_BLOCK, &set, NULL);
	(void) signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int open_timer(void)
{
	const struct itimerspec each_second = { .it_interval.tv_sec = 1, .it_value.tv_sec = 1 };
	const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd >= 0)
		(void) timerfd_settime(fd, 0, &each_second, NULL);
	return fd;
}

struct loop {
	struct serve *serve;
	struct http *http;
	struct hiw_recorder *recorder; /* NULL: one job's endpoint */
	struct listener *listeners;
	size_t n;
	int signals, timer;
	bool had_job;
};

/* One job's endpoint ends with its recorder. */
static bool is_over(struct loop *l)
{
	if (!l->serve->o.parent)
		return false;
	if (getppid() != (pid_t) l->serve->o.parent)
		return true;
	pthread_mutex_lock(&l->serve->lock);
	const bool has_job = l->serve->jobs.n > 0;

	pthread_mutex_unlock(&l->serve->lock);
	const bool over = l->had_job && !has_job;

	l->had_job |= has_job;
	return over;
}

static bool on_timer(struct loop *l)
{
	uint64_t expirations;

	if (read(l->timer, &expirations, sizeof(expirations)) != sizeof(expirations))
		return true;
	http_expire(l->http);
	files_write_metrics(l->serve);
	return !is_over(l);
}

static void run(struct loop *l)
{
	enum {
		SIGNALS,
		TIMER,
		STEP,
		FIXED
	};
	struct pollfd fds[FIXED + LISTENERS_MOST] = {
		[SIGNALS] = { .fd = l->signals, .events = POLLIN },
		[TIMER] = { .fd = l->timer, .events = POLLIN },
		[STEP] = { .fd = l->recorder ? hiw_recorder_fd(l->recorder) : -1, .events = POLLIN },
	};

	for (size_t i = 0; i < l->n; i++)
		fds[FIXED + i] = (struct pollfd) { .fd = l->listeners[i].fd, .events = POLLIN };
	for (;;) {
		if (poll(fds, FIXED + l->n, -1) < 0)
			continue;
		if (fds[STEP].revents)
			hiw_recorder_step(l->recorder);
		for (size_t i = 0; i < l->n; i++) {
			if (fds[FIXED + i].revents)
				http_accept(l->http, i);
		}
		if (fds[SIGNALS].revents || (fds[TIMER].revents && !on_timer(l)))
			return;
	}
}

/* ---- start ----------------------------------------------------------------------------------- */

static int open_listeners(struct serve *s, struct listener *list, size_t *ret_n, char *why)
{
	static char text[256];
	int r = 0;

	if (!s->o.listen[0]) {
		r = listen_default(text, sizeof(text), why, WHY_LEN);
		s->o.listen[0] = text;
	}
	for (*ret_n = 0; r == 0 && *ret_n < LISTENERS_MOST && s->o.listen[*ret_n]; (*ret_n)++)
		r = listen_parse(s->o.listen[*ret_n], &list[*ret_n], why, WHY_LEN);
	if (r == 0)
		r = access_prepare(s, list, *ret_n, why, WHY_LEN);
	for (size_t i = 0; r == 0 && i < *ret_n; i++)
		r = listen_open(&list[i], geteuid() == 0 && !s->o.file, why, WHY_LEN);
	return r;
}

static void say_addresses(const struct serve *s, const struct listener *list, size_t n)
{
	for (size_t i = 0; i < n && !s->o.quiet; i++) {
		if (*list[i].path)
			(void) fprintf(stderr, "hiwater: serving on unix:%s\n", list[i].path);
		else
			(void) fprintf(stderr, "hiwater: serving on %s://%s\n", s->o.tls_cert ? "https" : "http",
				list[i].address);
	}
}

static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void) setrlimit(RLIMIT_NOFILE, &limit);
}

static int fail(const char *why, int error)
{
	(void) fprintf(stderr, "hiwater: %s\n", *why ? why : strerror(-error));
	return error == -EINVAL ? USAGE : FAILED;
}

static int serve(struct serve *s, struct loop *l, char *why)
{
	struct hiw_err err = { "" };
	int r = open_listeners(s, l->listeners, &l->n, why);

	if (r == 0)
		r = parse_groups(s, why, WHY_LEN);
	if (r == 0)
		r = files_prepare(s, why, WHY_LEN);
	l->signals = open_signals();
	l->timer = open_timer();
	if (r == 0 && !s->o.file && (r = start_recorder(s, &l->recorder, &err)) < 0)
		(void) snprintf(why, WHY_LEN, "%s", err.text);
	if (r == 0)
		r = jobs_start(s);
	if (r == 0)
		r = http_start(s, l->listeners, l->n, &l->http, why, WHY_LEN);
	if (r == 0)
		r = files_write_targets(s, l->listeners, l->n, why, WHY_LEN);
	if (r < 0)
		return r;
	say_addresses(s, l->listeners, l->n);
	run(l);
	files_remove(s);
	return 0;
}

int main(int argc, char **argv)
{
	static struct serve s = { .o = { .window_ns = 600 * SECOND, .interval_ns = SECOND, .gpus = true } };
	static struct listener listeners[LISTENERS_MOST];
	struct loop l = { .serve = &s, .listeners = listeners };
	char why[WHY_LEN] = "";
	int r;

	hwi_guard_recordings();
	for (size_t i = 0; i < LISTENERS_MOST; i++)
		listeners[i].fd = -1;
	if (!parse_words(argc, argv, &s.o))
		return USAGE;
	raise_file_limit();
	read_machine(&s);
	stream_prepare();
	(void) pthread_mutex_init(&s.lock, NULL);
	if (s.o.parent)
		(void) prctl(PR_SET_PDEATHSIG, SIGTERM);
	r = serve(&s, &l, why);
	http_end(l.http);
	jobs_end(&s);
	for (size_t i = 0; i < LISTENERS_MOST; i++)
		listen_close(&listeners[i]);
	if (l.recorder) {
		(void) hiw_recorder_end(l.recorder, NULL);
		hiw_recorder_free(l.recorder);
	}
	stream_done(&s.machine);
	return r < 0 ? fail(why, r) : 0;
}
