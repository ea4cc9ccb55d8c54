/* SPDX-License-Identifier: MIT
 *
 * The helper: a child of hiwater, in a session of its own, that loads drivers' libraries and reads
 * GPUs. One thread per source serves the request; the first thread waits for requests and for the
 * client's end. The helper writes only to its channel and the shared page, and never returns into
 * the code it was forked from.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu/gpu_internal.h"

#define SECOND UINT64_C(1000000000)

enum {
	STACK_BYTES = 1 << 20,
	PPB = 1000000000,
};
static const uint64_t memory_period_ns = 10 * SECOND;
static const uint64_t sleep_most_ns = SECOND;
static const uint64_t last_most_ns = 40000000; /* the client waits no longer for the last read */
static const uint64_t pair_ns = 101000000; /* between the two samples of a pair: GPM needs 100 ms */

struct helper {
	const struct gpu_request *request;
	struct gpu_shared *shared;
	int channel;
	int wake_rd, wake_wr;    /* a pipe: a byte requests another read, its end the last one */
	_Atomic unsigned running, open;
	uint64_t rss_at_fork;
	_Atomic uint64_t memory_read_ns;
};

/* A source and its thread. */
struct reader {
	struct helper *helper;
	const struct source_ops *ops;
	struct gpu_slot *slot;
	struct source *source;
	struct source_env env;   /* the request's, with fields for this reader */
	struct read_budget budget;
	struct framebuf buf;
	struct gpu_sender sender;
	uint64_t at_ns, hold_ns; /* of the read in progress */
	uint64_t cpu_ns;         /* of its thread, up to the end of the last read */
	bool is_any_available;   /* GPU_PROBE: any metric */
};

/* ---- own cost -------------------------------------------------------------------------------- */

/* The memory is read now and then, and before the last read: short runs have loaded the driver's library
 * by then. */
static void publish_own_cost(struct helper *h, bool is_last)
{
	struct gpu_shared *shared = h->shared;
	const uint64_t now = clock_boot_ns();
	uint64_t rss, hwm;

	atomic_store(&shared->cpu_ns, clock_process_cpu_ns());
	if (now < atomic_load(&h->memory_read_ns) && !is_last)
		return;
	atomic_store(&h->memory_read_ns, now + memory_period_ns);
	if (self_memory(h->request->env->root, &rss, &hwm) < 0)
		return;
	if (h->rss_at_fork == 0)
		h->rss_at_fork = rss;
	if (rss > h->rss_at_fork + atomic_load(&shared->rss_bytes))
		atomic_store(&shared->rss_bytes, rss - h->rss_at_fork);
}

/* ---- common to all requests ------------------------------------------------------------------ */

static uint64_t run_ns(const struct reader *t)
{
	return clock_boot_ns() - t->env.start_boot_ns;
}

/* Until leave_driver, the driver may hang or crash. */
static void enter_driver(struct reader *t)
{
	atomic_store(&t->slot->in_call_ns, clock_boot_ns());
}

static void leave_driver(struct reader *t)
{
	atomic_store(&t->slot->in_call_ns, 0);
}

static void send_buf(struct reader *t, uint64_t time_ns, uint64_t hold_ns)
{
	struct frame frame = framebuf_frame(&t->buf, t->ops->frame, time_ns, hold_ns);

	frame.answered_ns = run_ns(t);
	if (!gpu_frame_is_empty(&frame))
		gpu_send(&t->sender, frame);
	framebuf_clear(&t->buf);
	gpu_last_frame_drop(&t->slot->last);
}

/* Sends one device's values before the driver is called for the next, in which it may hang or
 * crash. */
static void send_partial(void *ctx)
{
	send_buf(ctx, run_ns(ctx), 0);
}

/* Notes of an open source are sent only once, with the complete frame. */
static void store_last_frame(void *ctx, const struct framebuf *known)
{
	const struct reader *t = ctx;
	struct frame frame = framebuf_frame(known, t->ops->frame, t->at_ns, t->hold_ns);

	if (atomic_load(&t->slot->state) == GPU_OPEN)
		frame.n_events = 0;
	gpu_last_frame_put(&t->slot->last, &frame);
}

static int open_source(struct reader *t)
{
	struct err err = { "" };
	int r;

	enter_driver(t);
	r = t->ops->open(&t->env, &t->source, &err);
	leave_driver(t);
	if (r < 0) {
		(void) snprintf(t->slot->why, sizeof(t->slot->why), "%.*s", GPU_WHY - 1,
			err.text[0] ? err.text : strerror(-r));
		t->slot->code = r;
		atomic_store(&t->slot->state, GPU_FAILED);
	}
	return r;
}

/* ---- GPU_SAMPLE ------------------------------------------------------------------------------ */

/* The cost since the last read, of sending it and of waking up, is charged to this read. */
static void read_group(struct reader *t, unsigned group)
{
	const uint64_t began = clock_boot_ns(), at = run_ns(t);
	uint64_t cpu;

	t->at_ns = at;
	t->hold_ns = read_budget_hold(&t->budget, group);
	read_budget_begin(&t->budget, group, at);
	enter_driver(t);
	(void) t->ops->read(t->source, 1u << group, &t->buf);
	leave_driver(t);
	cpu = clock_thread_cpu_ns();
	read_budget_spend(&t->budget, group, at, cpu - t->cpu_ns, clock_boot_ns() - began);
	t->cpu_ns = cpu;
	send_buf(t, at, read_budget_hold(&t->budget, group));
}

/* Takes off what the other sources use of a core. */
static void share_core(struct reader *t)
{
	struct helper *h = t->helper;
	uint64_t others = 0;

	atomic_store(&t->slot->spent_ppb, (uint64_t) (t->budget.spent * PPB));
	for (unsigned i = 0; i < h->request->n_vendors; i++) {
		if (&h->shared->slots[i] != t->slot)
			others += atomic_load(&h->shared->slots[i].spent_ppb);
	}
	read_budget_share(&t->budget, atomic_load(&h->open), (double) others / PPB);
}

/* Waits until the next group is due, or for 1 s, since the interval may change. True: the last read
 * is requested. */
static bool wait_until(const struct reader *t, uint64_t due_ns)
{
	struct pollfd last = { .fd = t->helper->wake_rd, .events = POLLIN };
	const uint64_t boot = clock_boot_ns(), now = boot - t->env.start_boot_ns;
	const uint64_t left = due_ns > now ? due_ns - now : 0,
		       ns = left < sleep_most_ns ? left : sleep_most_ns;
	const struct timespec wait = { .tv_sec = (time_t) (ns / SECOND), .tv_nsec = (long) (ns % SECOND) };
	bool is_last;

	atomic_store(&t->slot->due_ns, boot + ns);
	is_last = ppoll(&last, 1, &wait, NULL) > 0;
	atomic_store(&t->slot->due_ns, 0);
	return is_last;
}

static void sample(struct reader *t)
{
	t->cpu_ns = clock_thread_cpu_ns();
	while (!wait_until(t, read_budget_next(&t->budget))) {
		const uint64_t now = run_ns(t);

		read_budget_set_interval(&t->budget, t->ops, atomic_load(&t->helper->shared->interval_ns));
		share_core(t);
		for (unsigned g = 0; g < t->budget.n_groups; g++) {
			if (read_budget_is_due(&t->budget, g, now))
				read_group(t, g);
		}
		publish_own_cost(t->helper, false);
	}
	publish_own_cost(t->helper, true);
	t->budget.lists.last = true;
	for (unsigned g = 0; g < t->budget.n_groups; g++) {
		const bool dear = t->budget.groups[g].wall_ns >= last_most_ns;

		if (dear && !t->ops->groups[g].marks)
			continue;
		if (dear)
			t->budget.lists.ns = INT64_MIN / 2;
		read_group(t, g);
	}
}

/* ---- GPU_READ -------------------------------------------------------------------------------- */

static void publish_fact(void *ctx, const struct gpu_fact_value *fact)
{
	struct gpu_facts *facts = ctx;
	const uint32_t n = atomic_load(&facts->n);

	if (n == GPU_FACTS)
		return;
	facts->list[n] = *fact;
	atomic_store(&facts->n, n + 1);
}

enum part {
	FIGURES,
	PAIRS,
	LISTS
};

/* Is the group in that part, and wanted? */
static bool is_wanted(const struct source_group *g, enum part part, const struct gpu_wish *wish)
{
	if (part != (g->pairs ? PAIRS : g->lists ? LISTS
						 : FIGURES) ||
		g->gathers ||
		(g->lists && !wish->lists))
		return false;
	return !g->pairs || wish->pairs || g->lists || (g->busy && wish->busy);
}

/* Reads all groups in one call, so that each device is complete before the next, in which the
 * driver may hang or crash. No groups: births only. */
static void read_groups(struct reader *t, unsigned groups)
{
	t->at_ns = run_ns(t);
	enter_driver(t);
	(void) t->ops->read(t->source, groups, &t->buf);
	leave_driver(t);
	send_buf(t, t->at_ns, 0);
}

/* Reads the wanted groups of a part. True: there was one. */
static bool read_part(struct reader *t, enum part part)
{
	unsigned wanted = 0;

	for (unsigned g = 0; g < t->ops->n_groups; g++) {
		if (is_wanted(&t->ops->groups[g], part, t->helper->request->wish))
			wanted |= 1u << g;
	}
	if (wanted)
		read_groups(t, wanted);
	return wanted != 0;
}

/* Figures first, so that a hang or crash in later calls does not lose them. The lists are read
 * between the two samples of a pair, since with many devices they take as long as the pair's
 * distance. An empty frame marks the end. */
static void read_all(struct reader *t, bool is_first)
{
	read_groups(t, 0);

	const struct frame end = framebuf_frame(&t->buf, t->ops->frame, run_ns(t), 0);

	(void) read_part(t, FIGURES);
	const bool again = read_part(t, PAIRS) && is_first;
	const uint64_t second_ns = clock_boot_ns() + pair_ns;

	(void) read_part(t, LISTS);
	if (t->ops->facts) {
		enter_driver(t);
		t->ops->facts(t->source, &t->helper->request->wish->facts, publish_fact,
			&t->helper->shared->facts);
		leave_driver(t);
	}
	if (again) {
		const uint64_t now = clock_boot_ns();
		const struct timespec rest = { .tv_nsec = (long) (second_ns > now ? second_ns - now : 0) };

		(void) nanosleep(&rest, NULL);
		(void) read_part(t, PAIRS);
	}
	gpu_send(&t->sender, end);
}

static void read_on_request(struct reader *t)
{
	char word;

	read_all(t, true);
	while (read(t->helper->wake_rd, &word, 1) == 1)
		read_all(t, false);
}

/* ---- GPU_PROBE ------------------------------------------------------------------------------- */

static void publish_answer(void *ctx, const struct source_probe *probe)
{
	struct reader *t = ctx;
	struct gpu_answer *a = &t->helper->shared->answers[probe->metric];

	a->given = true;
	a->available = probe->available;
	t->is_any_available |= probe->available;
	(void) snprintf(a->how, sizeof(a->how), "%s", probe->how);
	(void) snprintf(a->why_not, sizeof(a->why_not), "%s", probe->why_not);
	(void) snprintf(a->remedy, sizeof(a->remedy), "%s", probe->remedy);
}

/* If no metric is available, the source is opened to learn the reason. */
static void probe(struct reader *t)
{
	enter_driver(t);
	t->ops->probe(&t->env, publish_answer, t);
	leave_driver(t);
	if (t->is_any_available || open_source(t) == 0)
		atomic_store(&t->slot->state, GPU_DONE);
}

/* ---- a thread -------------------------------------------------------------------------------- */

/* Prepares the environment that the source is opened with. */
static void prepare_env(struct reader *t)
{
	const struct helper *h = t->helper;
	struct source_env *env = &t->env;

	*env = *h->request->env;
	env->beat = &t->slot->in_call_ns;
	env->call_trace = &t->slot->call;
	env->progress_ctx = t;
	switch (h->request->task) {
	case GPU_SAMPLE:
		env->budget = &t->budget.lists; /* the other requests have no read budget */
		env->on_partial = store_last_frame;
		break;
	case GPU_READ:
		env->on_progress = send_partial;
		env->on_partial = store_last_frame;
		env->is_still = !env->root->live;
		break;
	case GPU_PROBE:
		env->costs = h->shared->costs;
		break;
	}
}

/* The last thread ends the process without closing drivers, which may take long or hang. */
static void *run_source(void *arg)
{
	struct reader *t = arg;
	struct helper *h = t->helper;

	read_budget_init(&t->budget, t->ops, atomic_load(&h->shared->interval_ns));
	prepare_env(t);
	t->at_ns = run_ns(t);
	if (h->request->task == GPU_PROBE) {
		probe(t);
	} else if (open_source(t) == 0) {
		atomic_fetch_add(&h->open, 1);
		atomic_store(&t->slot->state, GPU_OPEN);
		if (h->request->task == GPU_READ)
			read_on_request(t);
		else
			sample(t);
		atomic_store(&t->slot->state, GPU_DONE);
	}
	publish_own_cost(h, false);
	if (atomic_fetch_sub(&h->running, 1) == 1) {
		(void) shutdown(h->channel, SHUT_RDWR);
		_exit(0);
	}
	return NULL;
}

static void start_thread(struct helper *h, unsigned i)
{
	struct reader *t = calloc(1, sizeof(*t));
	pthread_attr_t attr;
	pthread_t thread;

	if (!t)
		_exit(1);
	*t = (struct reader) {
		.helper = h,
		.ops = h->request->vendors[i].ops,
		.slot = &h->shared->slots[i],
		.sender = { .channel = h->channel, .must_arrive = h->request->task == GPU_READ },
	};
	(void) pthread_attr_init(&attr);
	(void) pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (pthread_create(&thread, &attr, run_source, t) != 0)
		_exit(1);
	(void) pthread_attr_destroy(&attr);
}

/* ---- isolation from the job and from the parent ---------------------------------------------- */

static void close_between(int first, int last)
{
	if (first > last)
		return;
#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned) first, (unsigned) last, 0U) == 0)
		return;
#endif
	for (int fd = first; fd <= last && fd < 65536; fd++)
		(void) close(fd);
}

static int compare(const void *a, const void *b)
{
	return *(const int *) a - *(const int *) b;
}

/* Closes the job's pipes, so that they can reach their end; and reserves 0 to 2, so that a
 * library's messages on stderr do not go into one of its own files. */
static void keep_only(const struct root *root, int channel)
{
	int keep[] = { channel, root->proc, root->sys, root->top };
	int next = 0, null;

	qsort(keep, sizeof(keep) / sizeof(keep[0]), sizeof(keep[0]), compare);
	for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++) {
		close_between(next, keep[i] - 1);
		if (keep[i] >= next)
			next = keep[i] + 1;
	}
	close_between(next, INT32_MAX);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= 2 && null >= 0; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			(void) dup2(null, fd);
	}
	if (null > 2)
		(void) close(null);
}

/* Blocks signals meant for other processes; a fault of its own ends it without a core file in the
 * job's folder. */
static void isolate(pid_t client)
{
	static const struct rlimit no_core = { 0, 0 };
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
	const struct sigaction by_default = { .sa_handler = SIG_DFL };
	sigset_t set;

	(void) sigfillset(&set);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		(void) sigaction(own[i], &by_default, NULL);
		(void) sigdelset(&set, own[i]);
	}
	(void) sigprocmask(SIG_SETMASK, &set, NULL);
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != client)
		_exit(0);
	(void) prctl(PR_SET_NAME, "hiwater-gpu");
	(void) setrlimit(RLIMIT_CORE, &no_core);
	(void) setsid();
}

/* ---- the first thread ------------------------------------------------------------------------ */

/* A byte requests the last read (GPU_READ: another read); the end of the channel means that the
 * client has ended. */
static _Noreturn void serve_requests(struct helper *h)
{
	for (;;) {
		struct pollfd fd = { .fd = h->channel, .events = POLLIN };
		char word;

		if (poll(&fd, 1, -1) < 0)
			continue;
		if (recv(fd.fd, &word, 1, MSG_DONTWAIT) != 1)
			break;
		if (h->request->task == GPU_READ && write(h->wake_wr, &word, 1) == 1)
			continue;
		if (h->wake_wr >= 0)
			(void) close(h->wake_wr);
		h->wake_wr = -1;
	}
	/* The last thread closes the channel and ends the process; the client's end ends all
	 * threads. */
	if (atomic_load(&h->running) > 0)
		_exit(0);
	for (;;)
		(void) pause();
}

_Noreturn void gpu_helper_main(const struct gpu_request *request, struct gpu_shared *shared, int channel,
	pid_t client)
{
	static struct helper h;
	int fds[2];

	isolate(client);
	keep_only(request->env->root, channel);
	h = (struct helper) {
		.request = request, .shared = shared, .channel = channel, .running = request->n_vendors
	};
	if (pipe2(fds, O_CLOEXEC) < 0)
		_exit(1);
	h.wake_rd = fds[0];
	h.wake_wr = fds[1];
	publish_own_cost(&h, false);
	atomic_store(&h.memory_read_ns, 0);
	atomic_store(&shared->any_seen, gpu_is_present(request->env->root));
	for (unsigned i = 0; i < request->n_vendors; i++)
		start_thread(&h, i);
	serve_requests(&h);
}
