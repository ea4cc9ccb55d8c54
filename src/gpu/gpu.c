/* SPDX-License-Identifier: MIT */
#include "gpu/gpu.h"

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
#include "gpu/gpu_again.h"
#include "gpu/gpu_shared.h"
#include "gpu/gpu_silence.h"

#define SECOND UINT64_C(1000000000)

enum {
	CHANNEL_BYTES = 1 << 20,
	LAST_WAIT_MS = 40,
	END_WAIT_MS = 20,
};

struct gpu {
	struct gpu_start start;
	struct gpu_shared *shared;
	pid_t pid;               /* 0: waited for */
	int fd;                  /* -1: nothing comes any more */
	unsigned starts;         /* so many helpers there were */
	uint64_t started_ns;     /* the one that runs, or ran last */
	struct gpu_again again;
	bool told_end, told_again, status_known;
	uint64_t cpu_before_ns;  /* of those before it */
	uint64_t asked_last_ns;  /* 0: not yet */
	int status;              /* once pid is 0 */
	struct gpu_silence silences[GPU_VENDORS];
	uint32_t so_far_taken[GPU_VENDORS];
	void *message;           /* the last that was taken; gpu_frame leaves it changed */
};

/* ---- life ----------------------------------------------------------------------------------------------------------- */

static struct gpu *made(void)
{
	struct gpu *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->fd = -1;
	g->message = malloc(GPU_MESSAGE);
	g->shared = mmap(NULL, sizeof(*g->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (g->shared == MAP_FAILED)
		g->shared = NULL;
	if (g->message && g->shared)
		return g;
	gpu_free(g);
	return NULL;
}

/* What a helper before this one left there is nobody's. */
static void clear_page(struct gpu *g)
{
	g->cpu_before_ns += atomic_load(&g->shared->cpu_ns);
	atomic_store(&g->shared->cpu_ns, 0);
	for (unsigned i = 0; i < GPU_VENDORS; i++) {
		struct gpu_slot *slot = &g->shared->slots[i];

		atomic_store(&slot->state, GPU_OPENING);
		atomic_store(&slot->in_call_ns, 0);
		atomic_store(&slot->due_ns, 0);
		atomic_store(&slot->asked.call, 0);
		atomic_store(&slot->spent_ppb, 0);
		gpu_so_far_drop(&slot->so_far);
		gpu_silence_over(&g->silences[i], clock_boot_ns());
	}
}

static int start_helper(struct gpu *g)
{
	const int room = CHANNEL_BYTES;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	(void) setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	clear_page(g);
	g->fd = fds[0];
	g->start.channel = fds[1];
	g->start.recorder = getpid();
	g->told_end = g->status_known = false;
	g->started_ns = clock_boot_ns();
	g->pid = fork();
	if (g->pid == 0)
		gpu_helper(&g->start);
	const int code = g->pid < 0 ? -errno : 0;

	(void) close(fds[1]);
	if (code < 0)
		g->pid = 0;
	else
		g->starts++;
	return code;
}

struct gpu *gpu_start(const struct gpu_vendor *vendors, const struct source_env *env, uint64_t interval_ns,
	uint64_t restart_ns, struct err *err)
{
	struct gpu *g =
		gpu_start_asked(&(struct gpu_start) { .vendors = vendors, .env = env, .interval_ns = interval_ns }, err);

	if (g && restart_ns)
		g->again.first_ns = restart_ns;
	return g;
}

void gpu_pace(struct gpu *g, uint64_t interval_ns)
{
	atomic_store(&g->shared->interval_ns, interval_ns);
}

struct gpu *gpu_start_asked(const struct gpu_start *start, struct err *err)
{
	const struct gpu_vendor *vendors = start->vendors;
	struct gpu *g = vendors->ops ? made() : NULL;
	int r;

	if (!g) {
		(void) err_set(err, -ENOENT, "%s", vendors->ops ? "out of memory" : "nothing here can read one");
		return NULL;
	}
	g->start = *start;
	g->start.shared = g->shared;
	gpu_pace(g, start->interval_ns);
	g->again.first_ns = GPU_AGAIN_NS;
	while (vendors[g->start.n_vendors].ops && g->start.n_vendors < GPU_VENDORS)
		g->start.n_vendors++;
	r = start_helper(g);
	if (r == 0)
		return g;
	(void) err_set(err, r, "no process for them: %s", strerror(-r));
	gpu_free(g);
	return NULL;
}

static void hang_up(struct gpu *g)
{
	if (g->fd >= 0)
		(void) close(g->fd);
	g->fd = -1;
}

void gpu_free(struct gpu *g)
{
	if (!g)
		return;
	hang_up(g);
	if (g->pid > 0) {
		(void) kill(g->pid, SIGKILL);
		(void) waitpid(g->pid, NULL, WNOHANG);
	}
	if (g->shared)
		(void) munmap(g->shared, sizeof(*g->shared));
	free(g->message);
	free(g);
}

int gpu_fd(const struct gpu *g)
{
	return g->fd;
}

void gpu_ask(struct gpu *g)
{
	if (g->fd >= 0)
		(void) send(g->fd, "n", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

pid_t gpu_pid(const struct gpu *g)
{
	return g->pid;
}

void gpu_reaped(struct gpu *g, int status)
{
	g->pid = 0;
	g->status = status;
	g->status_known = true;
}

bool gpu_reap(struct gpu *g)
{
	int status = 0;
	pid_t pid = g->pid > 0 ? waitpid(g->pid, &status, WNOHANG) : 0;

	if (pid == g->pid && pid > 0)
		gpu_reaped(g, status);
	else if (pid < 0) /* somebody else has waited for it */
		g->pid = 0;
	return g->pid == 0;
}

/* ---- frames --------------------------------------------------------------------------------------------------------- */

const struct frame *gpu_take(struct gpu *g)
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
		frame = gpu_frame(g->message, (size_t) n);
		if (frame)
			return frame;
	}
	return NULL;
}

static bool is_given_up(const struct gpu *g, struct gpu_slot *slot, uint64_t silent_ns)
{
	const uint64_t since_ns = atomic_load(&slot->in_call_ns);
	const bool may_answer = atomic_load(&slot->state) == GPU_OPENING || (g->fd >= 0 && clock_boot_ns() < since_ns + silent_ns);

	return since_ns && !(silent_ns && may_answer);
}

static bool is_overdue(const struct gpu_slot *slot)
{
	const uint64_t due_ns = atomic_load(&slot->due_ns);

	return due_ns && due_ns < clock_boot_ns();
}

bool gpu_is_cut_short(const struct gpu *g, enum frame_source source)
{
	for (unsigned i = 0; i < g->start.n_vendors; i++) {
		const struct gpu_slot *slot = &g->shared->slots[i];
		const int state = atomic_load(&slot->state);

		if (g->start.vendors[i].ops->frame == source)
			return atomic_load(&slot->in_call_ns) || is_overdue(slot) || (state != GPU_OVER && (g->fd < 0 || state != GPU_OPEN));
	}
	return false;
}

const struct frame *gpu_take_so_far(struct gpu *g, uint64_t silent_ns)
{
	const struct frame *frame = NULL;

	for (unsigned i = 0; i < g->start.n_vendors && !frame; i++) {
		struct gpu_slot *slot = &g->shared->slots[i];

		if (is_given_up(g, slot, silent_ns))
			frame = gpu_frame(g->message, gpu_so_far_take(&slot->so_far, &g->so_far_taken[i], g->message));
	}
	return frame;
}

/* ---- is it there? ---------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static void note(const struct gpu *g, struct framebuf *out, enum note_cause cause,
	const char *format, ...)
{
	const uint64_t now_ns = clock_boot_ns() - g->start.env->start_boot_ns;
	char text[512];
	va_list ap;

	va_start(ap, format);
	(void) vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	framebuf_event(out, &(struct event) { .time_ns = now_ns, .kind = EVENT_NOTE, .entity = ENTITY_GPU, .text = text, .cause = cause });
}

static const char *instant(const struct gpu *g, uint64_t boot_ns, char text[GPU_INSTANT])
{
	return gpu_instant(g->start.env->start_boot_ns, boot_ns, text);
}

static void watch_slot(struct gpu *g, unsigned i, struct framebuf *out)
{
	char text[GPU_SILENCE_TEXT], what[GPU_ASKED];
	const uint64_t since_ns = gpu_waited(&g->start, i, &g->silences[i], what);

	if (gpu_silence_look(&g->silences[i], g->start.vendors[i].label, what, g->start.env->start_boot_ns, since_ns, clock_boot_ns(), text))
		note(g, out, g->start.vendors[i].silent, "%s", text);
}

void gpu_watch_last(struct gpu *g, struct framebuf *out)
{
	char texts[2][GPU_SILENCE_TEXT], what[GPU_ASKED];

	gpu_watch(g, out);
	for (unsigned i = 0; i < g->start.n_vendors; i++) {
		const uint64_t since_ns = gpu_waited(&g->start, i, &g->silences[i], what);
		unsigned n = gpu_silence_last(&g->silences[i], g->start.vendors[i].label, what, g->start.env->start_boot_ns,
			g->fd >= 0 ? since_ns : 0, clock_boot_ns(), texts);

		for (const char *text = texts[0]; n > 0; n--, text = texts[1])
			note(g, out, g->start.vendors[i].silent, "%s", text);
	}
}

uint64_t gpu_silent_ns(const struct gpu *g)
{
	const uint64_t since = atomic_load(&g->shared->slots[0].in_call_ns);

	return since ? clock_boot_ns() - since : 0;
}

const char *gpu_asked_first(const struct gpu *g, char text[GPU_ASKED])
{
	return gpu_asked(&g->start, 0, text);
}

static void watch_end(struct gpu *g, struct framebuf *out)
{
	const bool is_none = gpu_is_settled(g) && gpu_n_open(g) == 0; /* nobody could be opened */
	const char *then;
	char text[GPU_INSTANT], in[GPU_CULPRIT], how[48] = "ended";

	g->told_end = true;
	if (g->asked_last_ns || (is_none && g->starts == 1))
		return;
	gpu_again_plan(&g->again, g->started_ns);
	g->told_again = false;
	then = g->again.at_ns ? "it is started again" : "nothing is read from then on";
	if (is_none) {
		note(g, out, CAUSE_HELPER_ENDED, "gpu: helper number %u could not read GPUs: %s; %s", g->starts, gpu_why_not(g), then);
		return;
	}
	if (g->status_known && WIFSIGNALED(g->status))
		(void) snprintf(how, sizeof(how), "was ended by signal %d", WTERMSIG(g->status));
	note(g, out, CAUSE_HELPER_ENDED, "gpu: the helper %s%s at %s%s; %s", how, gpu_culprit(&g->start, in),
		instant(g, clock_boot_ns(), text), g->again.ends > 1 ? ", once more" : "", then);
}

static void start_again(struct gpu *g, struct framebuf *out)
{
	g->again.at_ns = 0;
	const int r = start_helper(g);

	if (r == 0)
		return;
	hang_up(g);
	g->told_end = true;
	note(g, out, CAUSE_HELPER, "gpu: no process could be started to read GPUs again: %s; nothing is read from then on", strerror(-r));
}

static void watch_start(struct gpu *g, struct framebuf *out)
{
	char text[GPU_INSTANT];

	if (g->starts < 2 || g->told_again || !gpu_is_settled(g) || gpu_n_open(g) == 0)
		return;
	g->told_again = true;
	note(g, out, CAUSE_NONE, "gpu: read again since %s, by helper number %u", instant(g, clock_boot_ns(), text), g->starts);
}

void gpu_watch(struct gpu *g, struct framebuf *out)
{
	if (g->fd >= 0) {
		for (unsigned i = 0; i < g->start.n_vendors; i++)
			watch_slot(g, i, out);
		watch_start(g, out);
	} else if (!g->told_end) {
		if (gpu_reap(g))
			watch_end(g, out);
	} else if (!g->asked_last_ns && gpu_again_is_due(&g->again)) {
		start_again(g, out);
	}
}

unsigned gpu_starts(const struct gpu *g)
{
	return g->starts;
}

/* ---- the end -------------------------------------------------------------------------------------------------------- */

void gpu_ask_last(struct gpu *g)
{
	if (g->fd >= 0 && !g->asked_last_ns && gpu_n_open(g) > 0)
		(void) send(g->fd, "l", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	g->asked_last_ns = clock_boot_ns();
}

/* Is there somebody left who may still say something? Who is silent may not. */
static bool is_awaited(const struct gpu *g)
{
	for (unsigned i = 0; i < g->start.n_vendors; i++) {
		if (atomic_load(&g->shared->slots[i].state) == GPU_OPEN && !g->silences[i].since_ns)
			return true;
	}
	return false;
}

bool gpu_await_last(struct gpu *g)
{
	const uint64_t until = g->asked_last_ns + LAST_WAIT_MS * SECOND / 1000;
	struct pollfd fd = { .fd = g->fd, .events = POLLIN };

	while (g->fd >= 0 && is_awaited(g) && clock_boot_ns() < until) {
		if (poll(&fd, 1, 1) > 0)
			return true;
	}
	return false;
}

bool gpu_end(struct gpu *g)
{
	static const struct timespec moment = { .tv_nsec = 500000 };
	const uint64_t until = clock_boot_ns() + END_WAIT_MS * SECOND / 1000;

	hang_up(g);
	if (g->pid > 0)
		(void) kill(g->pid, SIGKILL);
	while (!gpu_reap(g)) {
		if (clock_boot_ns() >= until)
			return false;
		(void) ppoll(NULL, 0, &moment, NULL);
	}
	return true;
}

/* ---- what came of it ------------------------------------------------------------------------------------------------- */

static const struct gpu_slot *in_state(const struct gpu *g, int state)
{
	for (unsigned i = 0; i < g->start.n_vendors; i++) {
		if (atomic_load(&g->shared->slots[i].state) == state)
			return &g->shared->slots[i];
	}
	return NULL;
}

bool gpu_is_settled(const struct gpu *g)
{
	return !in_state(g, GPU_OPENING);
}

size_t gpu_n_open(const struct gpu *g)
{
	size_t n = 0;

	for (unsigned i = 0; i < g->start.n_vendors; i++) {
		const int state = atomic_load(&g->shared->slots[i].state);

		n += state == GPU_OPEN || state == GPU_OVER;
	}
	return n;
}

bool gpu_is_given_up(const struct gpu *g, const struct source_ops *ops)
{
	if (g->fd < 0)
		return g->told_end && !g->again.at_ns;
	for (unsigned i = 0; i < g->start.n_vendors; i++) {
		if (g->start.vendors[i].ops == ops) /* a helper that can open none ends, and another one may follow */
			return gpu_n_open(g) > 0 && atomic_load(&g->shared->slots[i].state) == GPU_FAILED;
	}
	return true;
}

bool gpu_any_seen(const struct gpu *g)
{
	return atomic_load(&g->shared->any_seen);
}

const char *gpu_why_not(const struct gpu *g)
{
	return in_state(g, GPU_FAILED) ? in_state(g, GPU_FAILED)->why : "";
}

int gpu_code_not(const struct gpu *g)
{
	return in_state(g, GPU_FAILED) ? in_state(g, GPU_FAILED)->code : 0;
}

uint64_t gpu_cpu_ns(const struct gpu *g)
{
	return g->cpu_before_ns + atomic_load(&g->shared->cpu_ns);
}

uint64_t gpu_rss_bytes(const struct gpu *g)
{
	return atomic_load(&g->shared->rss_bytes);
}
