/* SPDX-License-Identifier: MIT
 *
 * The helper: a child of the recorder, in a session of its own, that loads what drivers give and reads GPUs. A thread
 * for each source; the first one waits for the recorder's word or its end. It writes nothing but its channel and the
 * shared page, and it never returns into what it was forked from.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "record/wire.h"
#include "gpu/gpu_pace.h"
#include "gpu/gpu_shared.h"

enum {
	/* Of one message, which stays below GPU_MESSAGE: births and events with their texts, readings, ends. A list of
	 * processes should come in one. */
	PART_TEXTS = 32,
	PART_READINGS = 3000,
	STACK_BYTES = 1 << 20,
	PPB = 1000000000,
};
static const uint64_t memory_period_ns = UINT64_C(10000000000);
static const uint64_t sleep_most_ns = 1000000000;
static const uint64_t last_most_ns = 40000000; /* nobody waits longer for the last reading */
static const uint64_t pair_ns = 101000000; /* between two readings that say something together: NVML's GPM needs 100 ms */

struct helper {
	const struct gpu_start *start;
	int last_rd, last_wr;    /* a pipe whose end tells the threads that their last reading is due */
	_Atomic unsigned running, open;
	uint64_t rss_at_fork;
	_Atomic uint64_t memory_read_ns;
};

/* A source and its thread. */
struct teller {
	struct helper *helper;
	const struct source_ops *ops;
	struct gpu_slot *slot;
	struct source *source;
	struct source_env env;   /* the run's, with the credit of this one */
	struct pace pace;
	struct framebuf buf;
	uint64_t at_ns, hold_ns; /* of the reading that goes on */
	uint64_t cpu_ns;         /* of its thread, up to the last reading's end */
	void *message;
	size_t cap;
};

/* ---- what is sent --------------------------------------------------------------------------------------------------- */

static uint64_t run_ns(const struct teller *t)
{
	return clock_boot_ns() - t->helper->start->env->start_boot_ns;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Takes the first entries out of rest: births before the readings that speak of them, ends and events last. */
static struct frame first_part(struct frame *rest)
{
	struct frame part = *rest;

	part.n_births = least(rest->n_births, PART_TEXTS);
	part.n_readings = rest->n_births > PART_TEXTS ? 0 : least(rest->n_readings, PART_READINGS);
	part.n_ends = part.n_readings < rest->n_readings ? 0 : least(rest->n_ends, PART_READINGS / 10);
	part.n_events = part.n_ends < rest->n_ends || part.n_births ? 0 : least(rest->n_events, PART_TEXTS);
	part.n_series = 0;
	rest->births += part.n_births;
	rest->n_births -= part.n_births;
	rest->readings += part.n_readings;
	rest->n_readings -= part.n_readings;
	rest->ends += part.n_ends;
	rest->n_ends -= part.n_ends;
	rest->events += part.n_events;
	rest->n_events -= part.n_events;
	return part;
}

/* What says who is who has to arrive; a look that does not is lost. */
static void send_part(struct teller *t, const struct frame *part)
{
	const bool must = part->n_births + part->n_ends + part->n_events > 0 || t->helper->start->wish;
	const size_t size = wire_frame_size(part);
	const int channel = t->helper->start->channel;

	if (size > t->cap) {
		void *more = realloc(t->message, size);

		if (!more)
			return;
		t->message = more;
		t->cap = size;
	}
	memset(t->message, 0, size);
	wire_frame_put(t->message, part);
	while (send(channel, t->message, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		struct pollfd room = { .fd = channel, .events = POLLOUT };

		if (errno != EINTR && (errno != EAGAIN || !must))
			return;
		(void) poll(&room, 1, -1);
	}
}

static void send_all(struct teller *t, uint64_t time_ns, uint64_t hold_ns)
{
	struct frame rest = framebuf_frame(&t->buf, t->ops->frame, time_ns, hold_ns);

	rest.told_ns = run_ns(t);
	while (rest.n_births + rest.n_readings + rest.n_ends + rest.n_events > 0) {
		const struct frame part = first_part(&rest);

		send_part(t, &part);
	}
	framebuf_clear(&t->buf);
	gpu_so_far_drop(&t->slot->so_far);
}

/* ---- reading -------------------------------------------------------------------------------------------------------- */

/* What is known of one device does not wait for the next, whose driver may hang or crash. */
static void send_so_far(void *ctx)
{
	send_all(ctx, run_ns(ctx), 0);
}

/* Notes of a source that is open are told once, in the frame that is whole. */
static void keep_so_far(void *ctx, const struct framebuf *known)
{
	const struct teller *t = ctx;
	struct frame frame = framebuf_frame(known, t->ops->frame, t->at_ns, t->hold_ns);

	if (atomic_load(&t->slot->state) == GPU_OPEN)
		frame.n_events = 0;
	gpu_so_far_put(&t->slot->so_far, &frame);
}

/* What was spent since the last reading, on sending it and on waking up, is this one's. */
static void read_group(struct teller *t, unsigned group)
{
	const uint64_t began = clock_boot_ns(), at = run_ns(t);
	uint64_t cpu;

	t->at_ns = at;
	t->hold_ns = pace_hold(&t->pace, group);
	pace_begin(&t->pace, group, at);
	atomic_store(&t->slot->in_call_ns, began);
	(void) t->ops->read(t->source, 1u << group, &t->buf);
	atomic_store(&t->slot->in_call_ns, 0);
	cpu = clock_thread_cpu_ns();
	pace_done(&t->pace, group, at, cpu - t->cpu_ns, clock_boot_ns() - began);
	t->cpu_ns = cpu;
	send_all(t, at, pace_hold(&t->pace, group));
}

/* What the sources before and after this one take of a core is not for it. */
static void share(struct teller *t)
{
	struct helper *h = t->helper;
	uint64_t others = 0;

	atomic_store(&t->slot->spent_ppb, (uint64_t) (t->pace.spent * PPB));
	for (unsigned i = 0; i < h->start->n_vendors; i++) {
		if (&h->start->shared->slots[i] != t->slot)
			others += atomic_load(&h->start->shared->slots[i].spent_ppb);
	}
	pace_allow(&t->pace, atomic_load(&h->open), (double) others / PPB);
}

static void note_own_cost(struct helper *h)
{
	struct gpu_shared *shared = h->start->shared;
	const uint64_t now = clock_boot_ns();
	uint64_t pages, rss;
	char text[128];
	const char *at = text;

	atomic_store(&shared->cpu_ns, clock_process_cpu_ns());
	if (now < atomic_load(&h->memory_read_ns))
		return;
	atomic_store(&h->memory_read_ns, now + memory_period_ns);
	if (smallfile_read(h->start->env->root->proc, "self/statm", text, sizeof(text)) < 0 || parse_u64(&at, &pages) < 0 ||
		(parse_blanks(&at), parse_u64(&at, &pages)) < 0)
		return;
	rss = pages * (uint64_t) sysconf(_SC_PAGESIZE);
	if (h->rss_at_fork == 0)
		h->rss_at_fork = rss;
	if (rss - h->rss_at_fork > atomic_load(&shared->rss_bytes) && rss > h->rss_at_fork)
		atomic_store(&shared->rss_bytes, rss - h->rss_at_fork);
}

/* Until the next group is due, or for a second: the interval may have changed. True if the last reading is asked for. */
static bool wait_until(const struct teller *t, uint64_t due_ns)
{
	struct pollfd last = { .fd = t->helper->last_rd, .events = POLLIN };
	const uint64_t boot = clock_boot_ns(), now = boot - t->helper->start->env->start_boot_ns;
	const uint64_t left = due_ns > now ? due_ns - now : 0, ns = left < sleep_most_ns ? left : sleep_most_ns;
	const struct timespec wait = { .tv_sec = (time_t) (ns / 1000000000), .tv_nsec = (long) (ns % 1000000000) };
	bool is_last;

	atomic_store(&t->slot->due_ns, boot + ns);
	is_last = ppoll(&last, 1, &wait, NULL) > 0;
	atomic_store(&t->slot->due_ns, 0);
	return is_last;
}

static void read_on(struct teller *t)
{
	t->cpu_ns = clock_thread_cpu_ns();
	while (!wait_until(t, pace_next(&t->pace))) {
		const uint64_t now = run_ns(t);

		pace_change(&t->pace, t->ops, atomic_load(&t->helper->start->shared->interval_ns));
		share(t);
		for (unsigned g = 0; g < t->pace.n_groups; g++) {
			if (pace_is_due(&t->pace, g, now))
				read_group(t, g);
		}
		note_own_cost(t->helper);
	}
	t->pace.credit.last = true;
	for (unsigned g = 0; g < t->pace.n_groups; g++) {
		const bool dear = t->pace.groups[g].wall_ns >= last_most_ns;

		if (dear && !t->ops->groups[g].marks)
			continue;
		if (dear)
			t->pace.credit.ns = INT64_MIN / 2;
		read_group(t, g);
	}
}

/* ---- looks that are asked for --------------------------------------------------------------------------------------- */

static void take_fact(void *ctx, const struct gpu_fact_told *told)
{
	struct gpu_facts_page *page = ctx;
	const uint32_t n = atomic_load(&page->n);

	if (n == GPU_FACTS_MOST)
		return;
	page->list[n] = *told;
	atomic_store(&page->n, n + 1);
}

static bool is_wanted(const struct source_group *g, const struct gpu_wish *wish)
{
	if (g->gathers || (g->lists && !wish->lists))
		return false;
	return !g->pairs || wish->pairs || g->lists || (g->busy && wish->busy);
}

/* All in one call, so that one device tells all of them before the next, over which the driver may hang or crash. Groups that are no
 * bits tell births, and nothing else. */
static void read_now(struct teller *t, unsigned groups)
{
	t->at_ns = run_ns(t);
	t->hold_ns = 0;
	atomic_store(&t->slot->in_call_ns, clock_boot_ns());
	(void) t->ops->read(t->source, groups, &t->buf);
	atomic_store(&t->slot->in_call_ns, 0);
	send_all(t, t->at_ns, 0);
}

enum part {
	FIGURES,
	PAIRS,
	LISTS
};

static enum part part_of(const struct source_group *g)
{
	return g->pairs ? PAIRS : g->lists ? LISTS
					   : FIGURES;
}

/* Reads the groups of a part that are wanted. True: there was one. */
static bool read_wanted(struct teller *t, enum part part)
{
	unsigned wanted = 0;

	for (unsigned g = 0; g < t->ops->n_groups; g++) {
		if (part_of(&t->ops->groups[g]) == part && is_wanted(&t->ops->groups[g], t->helper->start->wish))
			wanted |= 1u << g;
	}
	if (wanted)
		read_now(t, wanted);
	return wanted != 0;
}

/* Figures come first, which a driver that hangs or crashes over the rest leaves as they are. The two readings of a pair enclose the
 * lists, which are as long as the time between them where there are many devices. */
static void look(struct teller *t, bool is_first)
{
	const struct gpu_start *start = t->helper->start;

	read_now(t, 0);

	const struct frame end = framebuf_frame(&t->buf, t->ops->frame, clock_boot_ns() - start->env->start_boot_ns, 0);

	(void) read_wanted(t, FIGURES);
	const bool again = read_wanted(t, PAIRS) && is_first;
	const uint64_t second_ns = clock_boot_ns() + pair_ns;

	(void) read_wanted(t, LISTS);
	if (t->ops->facts) {
		atomic_store(&t->slot->in_call_ns, clock_boot_ns());
		t->ops->facts(t->source, &start->wish->facts, take_fact, start->facts);
		atomic_store(&t->slot->in_call_ns, 0);
	}
	if (again) {
		const uint64_t now = clock_boot_ns();
		const struct timespec rest = { .tv_nsec = (long) (second_ns > now ? second_ns - now : 0) };

		(void) nanosleep(&rest, NULL);
		(void) read_wanted(t, PAIRS);
	}
	send_part(t, &end);
}

static void look_on(struct teller *t)
{
	char word;

	look(t, true);
	while (read(t->helper->last_rd, &word, 1) == 1)
		look(t, false);
}

static int open_source(struct teller *t)
{
	struct err err = { "" };
	int r;

	atomic_store(&t->slot->in_call_ns, clock_boot_ns());
	r = t->ops->open(&t->env, &t->source, &err);
	atomic_store(&t->slot->in_call_ns, 0);
	if (r < 0) {
		(void) snprintf(t->slot->why, sizeof(t->slot->why), "%.*s", GPU_WHY - 1, err.text[0] ? err.text : strerror(-r));
		t->slot->code = r;
		atomic_store(&t->slot->state, GPU_FAILED);
		return r;
	}
	atomic_fetch_add(&t->helper->open, 1);
	atomic_store(&t->slot->state, GPU_OPEN);
	return 0;
}

/* The last one ends the process: nothing of a driver is closed, that may take long or hang. */
static void *tell(void *arg)
{
	struct teller *t = arg;
	struct helper *h = t->helper;

	pace_init(&t->pace, t->ops, atomic_load(&h->start->shared->interval_ns));
	t->env = *h->start->env;
	t->env.beat = &t->slot->in_call_ns;
	t->env.asked = &t->slot->asked;
	t->env.credit = h->start->wish ? NULL : &t->pace.credit; /* who is asked has all that it takes */
	t->env.told = h->start->wish ? send_so_far : NULL;
	t->env.so_far = keep_so_far;
	t->env.is_still = h->start->wish && !t->env.root->live;
	t->env.told_ctx = t;
	t->at_ns = run_ns(t);
	if (open_source(t) == 0) {
		if (h->start->wish)
			look_on(t);
		else
			read_on(t);
		atomic_store(&t->slot->state, GPU_OVER);
	}
	note_own_cost(h);
	if (atomic_fetch_sub(&h->running, 1) == 1) {
		(void) shutdown(h->start->channel, SHUT_RDWR);
		_exit(0);
	}
	return NULL;
}

/* ---- becoming the helper -------------------------------------------------------------------------------------------- */

static void start_thread(struct helper *h, unsigned i)
{
	struct teller *t = calloc(1, sizeof(*t));
	pthread_attr_t attr;
	pthread_t thread;

	if (!t)
		_exit(1);
	*t = (struct teller) { .helper = h, .ops = h->start->vendors[i].ops, .slot = &h->start->shared->slots[i] };
	(void) pthread_attr_init(&attr);
	(void) pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (pthread_create(&thread, &attr, tell, t) != 0)
		_exit(1);
	(void) pthread_attr_destroy(&attr);
}

/* Any word is the one that asks for the last reading, or for another look; the end of the channel is the recorder's. */
static _Noreturn void obey(struct helper *h)
{
	for (;;) {
		struct pollfd fd = { .fd = h->start->channel, .events = POLLIN };
		char word;

		if (poll(&fd, 1, -1) < 0)
			continue;
		if (recv(fd.fd, &word, 1, MSG_DONTWAIT) != 1)
			break;
		if (h->start->wish && write(h->last_wr, &word, 1) == 1)
			continue;
		if (h->last_wr >= 0)
			(void) close(h->last_wr);
		h->last_wr = -1;
	}
	/* The last thread closes the channel and ends the process; the recorder's end is the end of all. */
	if (atomic_load(&h->running) > 0)
		_exit(0);
	for (;;)
		(void) pause();
}

_Noreturn void gpu_helper(const struct gpu_start *start)
{
	static struct helper h;
	int fds[2];

	gpu_stand_alone(start->recorder, start->env->root, start->channel);
	h = (struct helper) { .start = start, .running = start->n_vendors };
	if (pipe2(fds, O_CLOEXEC) < 0)
		_exit(1);
	h.last_rd = fds[0];
	h.last_wr = fds[1];
	note_own_cost(&h);
	atomic_store(&h.memory_read_ns, 0);
	atomic_store(&start->shared->any_seen, gpu_is_present(start->env->root));
	for (unsigned i = 0; i < start->n_vendors; i++)
		start_thread(&h, i);
	obey(&h);
}
