/* SPDX-License-Identifier: MIT
 *
 * The client of helpers: starts one, receives its frames, checks whether it answers, reaps it,
 * restarts it, ends it, and words how it ended. All three requests use this file; the last section
 * is only for runs.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu/gpu_internal.h"

#define SECOND UINT64_C(1000000000)
#define MS     UINT64_C(1000000)

enum {
	CHANNEL_BYTES = 1 << 20,
	RESTARTS = 5,            /* in a row */
};
static const uint64_t restart_ns = SECOND;   /* the first delay */
static const uint64_t sound_ns = 600 * SECOND; /* a helper that ran this long resets the restart count */
static const uint64_t last_wait_ns = 40 * MS, end_wait_ns = 20 * MS, poll_most_ns = 100 * MS;

struct gpu_helper {
	struct gpu_request request;
	struct gpu_shared *shared;
	pid_t pid;               /* 0: reaped */
	int fd;                  /* -1: no more frames */
	unsigned starts;
	uint64_t started_ns;     /* the current helper, or the last one */
	int status;              /* valid once pid is 0 */
	bool status_known, stays; /* stays: killed, but neither gone nor exiting */
	unsigned ends;           /* unrequested ends, in a row */
	uint64_t restart_at_ns;  /* 0: no restart planned */
	uint64_t cpu_before_ns;  /* of earlier helpers */
	uint32_t last_taken[GPU_SOURCES]; /* versions of last frames */
	/* GPU_SAMPLE: */
	struct gpu_watchdog watchdogs[GPU_SOURCES];
	bool end_noted, restart_noted;
	uint64_t last_requested_ns; /* 0: not yet */

	_Alignas(16) unsigned char message[GPU_MESSAGE]; /* the last one received */
};

/* ---- start ----------------------------------------------------------------------------------- */

/* Clears what an earlier helper left on the page. */
static void clear_page(struct gpu_helper *g)
{
	g->cpu_before_ns += atomic_load(&g->shared->cpu_ns);
	atomic_store(&g->shared->cpu_ns, 0);
	atomic_store(&g->shared->facts.n, 0);
	for (unsigned i = 0; i < g->request.n_vendors; i++) {
		struct gpu_slot *slot = &g->shared->slots[i];

		atomic_store(&slot->state, GPU_OPENING);
		atomic_store(&slot->in_call_ns, 0);
		atomic_store(&slot->due_ns, 0);
		atomic_store(&slot->call.call, 0);
		atomic_store(&slot->spent_ppb, 0);
		gpu_last_frame_drop(&slot->last);
		gpu_watchdog_end(&g->watchdogs[i], clock_boot_ns());
	}
}

static int start(struct gpu_helper *g)
{
	const int room = CHANNEL_BYTES;
	const pid_t client = getpid();
	int fds[2], r = 0;

	g->restart_at_ns = 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	(void) setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	clear_page(g);
	g->end_noted = g->restart_noted = g->status_known = g->stays = false;
	g->started_ns = clock_boot_ns();
	g->pid = fork();
	if (g->pid == 0)
		gpu_helper_main(&g->request, g->shared, fds[1], client);
	if (g->pid < 0) {
		r = -errno;
		g->pid = 0;
		(void) close(fds[0]);
	} else {
		g->fd = fds[0];
		g->starts++;
	}
	(void) close(fds[1]);
	return r;
}

static struct gpu_helper *helper_new(const struct gpu_request *request)
{
	struct gpu_helper *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->request = *request;
	g->fd = -1;
	g->shared = mmap(NULL, sizeof(*g->shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (g->shared != MAP_FAILED)
		return g;
	free(g);
	return NULL;
}

struct gpu_helper *gpu_helper_start(const struct gpu_request *request, struct err *err)
{
	const struct gpu_vendor *vendors = request->vendors;
	struct gpu_helper *g = vendors->ops ? helper_new(request) : NULL;
	unsigned most = GPU_SOURCES;
	int r;

	if (!g) {
		(void) err_set(err, -ENOENT, "%s", vendors->ops ? "out of memory" : "no source of GPUs");
		return NULL;
	}
	if (request->n_vendors && request->n_vendors < most)
		most = request->n_vendors;
	for (g->request.n_vendors = 0; g->request.n_vendors < most && vendors[g->request.n_vendors].ops;) {
		struct gpu_watchdog *w = &g->watchdogs[g->request.n_vendors];

		w->label = vendors[g->request.n_vendors++].label;
		w->start_ns = request->env->start_boot_ns;
	}
	if (!g->request.restart_ns)
		g->request.restart_ns = restart_ns;
	gpu_helper_set_interval(g, request->interval_ns);
	r = start(g);
	if (r == 0)
		return g;
	(void) err_set(err, r, "no helper process could be started to read GPUs: %s", strerror(-r));
	gpu_helper_free(g);
	return NULL;
}

bool gpu_helper_plan_restart(struct gpu_helper *g)
{
	const uint64_t now = clock_boot_ns();

	if (now - g->started_ns > sound_ns)
		g->ends = 0;
	g->restart_at_ns = g->ends < RESTARTS ? now + (g->request.restart_ns << g->ends) : 0;
	g->ends++;
	return g->restart_at_ns != 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void hang_up(struct gpu_helper *g)
{
	if (g->fd >= 0)
		(void) close(g->fd);
	g->fd = -1;
}

void gpu_helper_reaped(struct gpu_helper *g, int status)
{
	g->pid = 0;
	g->status = status;
	g->status_known = true;
}

/* True: the helper is gone. */
static bool reap(struct gpu_helper *g)
{
	int status = 0;
	const pid_t pid = g->pid > 0 ? waitpid(g->pid, &status, WNOHANG) : 0;

	if (pid == g->pid && pid > 0)
		gpu_helper_reaped(g, status);
	else if (pid < 0) /* reaped elsewhere */
		g->pid = 0;
	return g->pid == 0;
}

static bool await_exit(struct gpu_helper *g)
{
	static const struct timespec moment = { .tv_nsec = 500000 };
	const uint64_t until = clock_boot_ns() + end_wait_ns;

	while (!reap(g)) {
		if (clock_boot_ns() >= until)
			return false;
		(void) ppoll(NULL, 0, &moment, NULL);
	}
	return true;
}

bool gpu_helper_will_restart(const struct gpu_helper *g)
{
	return g->restart_at_ns != 0;
}

int gpu_helper_restart(struct gpu_helper *g)
{
	const bool is_due = g->restart_at_ns && clock_boot_ns() >= g->restart_at_ns && reap(g);
	const int r = is_due ? start(g) : 0;

	return r < 0 ? r : is_due;
}

bool gpu_helper_end(struct gpu_helper *g)
{
	hang_up(g);
	if (g->pid > 0)
		(void) kill(g->pid, SIGKILL);
	g->stays = !await_exit(g) && !gpu_is_exiting(g->request.env->root, g->pid);
	return !g->stays;
}

void gpu_helper_free(struct gpu_helper *g)
{
	if (!g)
		return;
	hang_up(g);
	if (g->pid > 0) {
		(void) kill(g->pid, SIGKILL);
		(void) waitpid(g->pid, NULL, WNOHANG);
	}
	(void) munmap(g->shared, sizeof(*g->shared));
	free(g);
}

/* ---- state on the page ----------------------------------------------------------------------- */

struct gpu_status gpu_helper_status(const struct gpu_helper *g)
{
	struct gpu_status status = {
		.starts = g->starts,
		.is_settled = true,
		.saw_gpu = atomic_load(&g->shared->any_seen),
		.why_not = "",
		.cpu_ns = g->cpu_before_ns + atomic_load(&g->shared->cpu_ns),
		.rss_bytes = atomic_load(&g->shared->rss_bytes),
	};

	for (unsigned i = 0; i < g->request.n_vendors; i++) {
		const struct gpu_slot *slot = &g->shared->slots[i];
		const int state = atomic_load(&slot->state);

		status.is_settled &= state != GPU_OPENING;
		status.n_open += state == GPU_OPEN || state == GPU_DONE;
		if (state != GPU_FAILED || status.code_not)
			continue;
		status.code_not = slot->code;
		status.why_not = slot->why;
	}
	return status;
}

uint64_t gpu_helper_call_ns(const struct gpu_helper *g)
{
	const uint64_t since = atomic_load(&g->shared->slots[0].in_call_ns), now = clock_boot_ns();

	return since && now > since ? now - since : 0;
}

struct gpu_shared *gpu_helper_shared(const struct gpu_helper *g)
{
	return g->shared;
}

int gpu_helper_fd(const struct gpu_helper *g)
{
	return g->fd;
}

pid_t gpu_helper_pid(const struct gpu_helper *g)
{
	return g->pid;
}

/* ---- how it ended ---------------------------------------------------------------------------- */

enum gpu_fate gpu_helper_fate(struct gpu_helper *g, uint64_t too_long_ns)
{
	if (g->fd >= 0)
		return gpu_helper_call_ns(g) >= too_long_ns ? GPU_STUCK : GPU_RUNS;
	(void) await_exit(g);
	for (unsigned i = 0; i < g->request.n_vendors; i++) {
		const int state = atomic_load(&g->shared->slots[i].state);

		if (state == GPU_OPENING || state == GPU_OPEN)
			return GPU_CRASHED;
	}
	return g->starts > 1 && gpu_helper_status(g).n_open == 0 ? GPU_REFUSED : GPU_FINISHED;
}

/* Each source has a thread, so several may be in calls: any of them may have ended the process. */
const char *gpu_calls_in_progress(const struct gpu_request *request, const struct gpu_shared *shared,
	char text[GPU_CALLS])
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < request->n_vendors && len < GPU_CALLS; i++) {
		char call[GPU_CALL];

		if (!atomic_load(&shared->slots[i].in_call_ns))
			continue;
		(void) gpu_call_name(request->vendors[i].ops, &shared->slots[i].call, call);
		len += (size_t) snprintf(text + len, GPU_CALLS - len, "%s of %s%s%s%s",
			len > 0 ? " or" : " in a call", request->vendors[i].label,
			*call ? " (" : "", call, *call ? ")" : "");
	}
	if (len == 0 && request->n_vendors == 1)
		(void) snprintf(text, GPU_CALLS, " outside a call of %s", request->vendors[0].label);
	return text;
}

static void format_crash(const struct gpu_helper *g, char text[GPU_ENDED])
{
	char in[GPU_CALLS];
	int n;

	if (!g->status_known)
		n = snprintf(text, GPU_ENDED, "the helper ended");
	else if (WIFSIGNALED(g->status))
		n = snprintf(text, GPU_ENDED, "the helper was killed by signal %d", WTERMSIG(g->status));
	else
		n = snprintf(text, GPU_ENDED, "the helper exited with status %d", WEXITSTATUS(g->status));
	(void) snprintf(text + n, GPU_ENDED - (size_t) n, "%s",
		gpu_calls_in_progress(&g->request, g->shared, in));
}

const char *gpu_helper_explain(const struct gpu_helper *g, enum gpu_fate fate, uint64_t waited_ns,
	char text[GPU_ENDED])
{
	const struct gpu_vendor *vendor = &g->request.vendors[0];
	const double seconds = (double) waited_ns / 1e9;
	char call[GPU_CALL], stays[64] = "";

	if (g->stays)
		(void) snprintf(stays, sizeof(stays),
			"; the helper (process %d) was killed but has not exited", (int) g->pid);
	text[0] = '\0';
	switch (fate) {
	case GPU_RUNS:
		(void) snprintf(text, GPU_ENDED, "%s did not finish in %.3g s: its driver responds slowly%s",
			vendor->label, seconds, stays);
		break;
	case GPU_STUCK:
		(void) gpu_call_name(vendor->ops, &g->shared->slots[0].call, call);
		(void) snprintf(text, GPU_ENDED, "%s has not answered in %.3g s: it is stuck in %s%s",
			vendor->label, seconds, *call ? call : "its driver", stays);
		break;
	case GPU_REFUSED:
		(void) snprintf(text, GPU_ENDED, "helper number %u could not read %s: %.200s", g->starts,
			g->request.task == GPU_SAMPLE ? "GPUs" : vendor->label, gpu_helper_status(g).why_not);
		break;
	case GPU_CRASHED:
		format_crash(g, text);
		break;
	case GPU_FINISHED:
	case GPU_FATES:
		break;
	}
	return text;
}

/* ---- frames and requests --------------------------------------------------------------------- */

const struct frame *gpu_helper_frame(struct gpu_helper *g)
{
	while (g->fd >= 0) {
		const ssize_t n = recv(g->fd, g->message, GPU_MESSAGE, MSG_DONTWAIT);
		const struct frame *frame;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return NULL;
		if (n <= 0) {
			hang_up(g);
			return NULL;
		}
		frame = gpu_frame_check(g->message, (size_t) n);
		if (frame)
			return frame;
	}
	return NULL;
}

/* Will the source fail to answer the current request, as far as is known after silent_ns? */
static bool is_lost(const struct gpu_helper *g, const struct gpu_slot *slot, uint64_t silent_ns)
{
	const uint64_t since_ns = atomic_load(&slot->in_call_ns);
	const bool may_answer = atomic_load(&slot->state) == GPU_OPENING ||
				(g->fd >= 0 && clock_boot_ns() < since_ns + silent_ns);

	return since_ns && !(silent_ns && may_answer);
}

const struct frame *gpu_helper_last_frame(struct gpu_helper *g, uint64_t silent_ns)
{
	const struct frame *frame = NULL;

	for (unsigned i = 0; i < g->request.n_vendors && !frame; i++) {
		struct gpu_slot *slot = &g->shared->slots[i];

		if (is_lost(g, slot, silent_ns))
			frame = gpu_frame_check(g->message,
				gpu_last_frame_take(&slot->last, &g->last_taken[i], g->message));
	}
	return frame;
}

void gpu_helper_poll(struct gpu_helper *const *list, unsigned n, uint64_t until_ns)
{
	struct pollfd fds[GPU_SOURCES];
	const uint64_t now = clock_boot_ns(), left = until_ns > now ? until_ns - now : 0;
	nfds_t n_fds = 0;

	for (unsigned i = 0; i < n && n_fds < GPU_SOURCES; i++)
		fds[n_fds++] = (struct pollfd) { .fd = list[i]->fd, .events = POLLIN };
	(void) poll(fds, n_fds, (int) (((left < poll_most_ns ? left : poll_most_ns) + MS - 1) / MS));
}

static void send_request(const struct gpu_helper *g)
{
	if (g->fd >= 0)
		(void) send(g->fd, "r", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void gpu_helper_request_read(struct gpu_helper *g)
{
	atomic_store(&g->shared->facts.n, 0);
	send_request(g);
}

/* ---- GPU_SAMPLE ------------------------------------------------------------------------------ */

void gpu_helper_set_interval(struct gpu_helper *g, uint64_t interval_ns)
{
	atomic_store(&g->shared->interval_ns, interval_ns);
}

bool gpu_helper_is_cut_short(const struct gpu_helper *g, enum frame_source source)
{
	for (unsigned i = 0; i < g->request.n_vendors; i++) {
		const struct gpu_slot *slot = &g->shared->slots[i];
		const int state = atomic_load(&slot->state);
		const uint64_t due_ns = atomic_load(&slot->due_ns);

		if (g->request.vendors[i].ops->frame == source)
			return atomic_load(&slot->in_call_ns) || (due_ns && due_ns < clock_boot_ns()) ||
			       (state != GPU_DONE && (g->fd < 0 || state != GPU_OPEN));
	}
	return false;
}

bool gpu_helper_has_given_up(const struct gpu_helper *g, const struct source_ops *ops)
{
	if (g->fd < 0)
		return g->end_noted && !g->restart_at_ns;
	for (unsigned i = 0; i < g->request.n_vendors; i++) {
		/* A helper that can open no source ends, and may be restarted. */
		if (g->request.vendors[i].ops == ops)
			return gpu_helper_status(g).n_open > 0 &&
			       atomic_load(&g->shared->slots[i].state) == GPU_FAILED;
	}
	return true;
}

__attribute__((format(printf, 4, 5))) static void note(const struct gpu_helper *g, struct framebuf *out,
	enum note_cause cause, const char *format, ...)
{
	const uint64_t now_ns = clock_boot_ns() - g->request.env->start_boot_ns;
	char text[512];
	va_list ap;

	va_start(ap, format);
	(void) vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	framebuf_event(out,
		&(struct event) { .time_ns = now_ns,
			.kind = EVENT_NOTE,
			.entity = ENTITY_GPU,
			.text = text,
			.cause = cause });
}

static const char *run_time_now(const struct gpu_helper *g, char text[GPU_RUN_TIME])
{
	return gpu_run_time(g->request.env->start_boot_ns, clock_boot_ns(), text);
}

/* Since when a source has been waited for, and in why the call or the reason. */
static uint64_t waited_since(struct gpu_helper *g, unsigned i, char why[GPU_CALL])
{
	const struct gpu_slot *slot = &g->shared->slots[i];
	const uint64_t call_ns = atomic_load(&slot->in_call_ns);

	if (call_ns) {
		(void) gpu_call_name(g->request.vendors[i].ops, &slot->call, why);
		return call_ns;
	}
	(void) snprintf(why, GPU_CALL, "its helper is not running");
	return gpu_watchdog_overslept(&g->watchdogs[i], atomic_load(&slot->due_ns), clock_boot_ns());
}

static void watch_running(struct gpu_helper *g, struct framebuf *out)
{
	char text[GPU_REPORT], why[GPU_CALL], now[GPU_RUN_TIME];

	for (unsigned i = 0; i < g->request.n_vendors; i++) {
		const uint64_t since_ns = waited_since(g, i, why);

		if (gpu_watchdog_check(&g->watchdogs[i], why, since_ns, clock_boot_ns(), text))
			note(g, out, g->request.vendors[i].silent, "%s", text);
	}
	const struct gpu_status status = gpu_helper_status(g);

	if (g->starts < 2 || g->restart_noted || !status.is_settled || status.n_open == 0)
		return;
	g->restart_noted = true;
	note(g, out, CAUSE_NONE, "gpu: reading resumed at %s, by helper number %u", run_time_now(g, now),
		g->starts);
}

static void watch_ended(struct gpu_helper *g, struct framebuf *out)
{
	const enum gpu_fate fate = gpu_helper_fate(g, 0);
	char text[GPU_ENDED], now[GPU_RUN_TIME];
	const char *then;

	g->end_noted = true;
	if (g->last_requested_ns || fate == GPU_FINISHED)
		return;
	then = gpu_helper_plan_restart(g) ? "it is restarted" : "GPUs are no longer read";
	(void) gpu_helper_explain(g, fate, 0, text);
	if (fate == GPU_REFUSED)
		note(g, out, CAUSE_HELPER_ENDED, "gpu: %s; %s", text, then);
	else
		note(g, out, CAUSE_HELPER_ENDED, "gpu: %s at %s%s; %s", text, run_time_now(g, now),
			g->ends > 1 ? ", again" : "", then);
}

void gpu_helper_watch(struct gpu_helper *g, struct framebuf *out)
{
	int r;

	if (g->fd >= 0) {
		watch_running(g, out);
	} else if (!g->end_noted) {
		if (reap(g))
			watch_ended(g, out);
	} else if (!g->last_requested_ns && (r = gpu_helper_restart(g)) < 0) {
		g->end_noted = true;
		note(g, out, CAUSE_HELPER,
			"gpu: no helper process could be restarted to read GPUs: %s; GPUs are no longer read",
			strerror(-r));
	}
}

static void watch_last(struct gpu_helper *g, struct framebuf *out)
{
	char texts[2][GPU_REPORT], why[GPU_CALL];

	gpu_helper_watch(g, out);
	for (unsigned i = 0; i < g->request.n_vendors; i++) {
		const uint64_t since_ns = waited_since(g, i, why);
		const unsigned n = gpu_watchdog_finish(&g->watchdogs[i], why, g->fd >= 0 ? since_ns : 0,
			clock_boot_ns(), texts);

		for (unsigned k = 0; k < n; k++)
			note(g, out, g->request.vendors[i].silent, "%s", texts[k]);
	}
}

/* Have all sources made their last read? Then the helper ends by itself, as soon as the driver lets it. */
static bool is_done(const struct gpu_helper *g)
{
	for (unsigned i = 0; i < g->request.n_vendors; i++) {
		const int state = atomic_load(&g->shared->slots[i].state);

		if (state != GPU_DONE && state != GPU_FAILED)
			return false;
	}
	return true;
}

void gpu_helper_end_run(struct gpu_helper *g, struct framebuf *out)
{
	const bool was_done = is_done(g);

	watch_last(g, out);
	if (!gpu_helper_end(g) && !was_done)
		note(g, out, CAUSE_HELPER,
			"gpu: the helper (process %d) was killed but has not exited: it is stuck in a driver, frozen, or "
			"its driver releases it slowly",
			(int) g->pid);
}

void gpu_helper_request_last(struct gpu_helper *g)
{
	if (!g->last_requested_ns && gpu_helper_status(g).n_open > 0)
		send_request(g);
	g->last_requested_ns = clock_boot_ns();
}

/* Is there a source that may still answer? */
static bool may_answer(const struct gpu_helper *g)
{
	for (unsigned i = 0; i < g->request.n_vendors; i++) {
		if (atomic_load(&g->shared->slots[i].state) == GPU_OPEN && !g->watchdogs[i].since_ns)
			return true;
	}
	return false;
}

bool gpu_helper_await_last(struct gpu_helper *g)
{
	const uint64_t until = g->last_requested_ns + last_wait_ns;
	struct pollfd fd = { .fd = g->fd, .events = POLLIN };

	while (g->fd >= 0 && may_answer(g) && clock_boot_ns() < until) {
		if (poll(&fd, 1, 1) > 0)
			return true;
	}
	return false;
}
