/* SPDX-License-Identifier: MIT
 *
 * The shared memory from both sides: this test writes into it as processes of a job do, valid events and others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/root.h"
#include "source/trace/read.h"
#include "model/trace_ring.h"

/* As long as a test wants it. */
static uint64_t ahead_ns;
uint64_t __real_clock_boot_ns(void);
uint64_t __wrap_clock_boot_ns(void);
uint64_t __wrap_clock_boot_ns(void)
{
	return __real_clock_boot_ns() + ahead_ns;
}

enum {
	UNITS = TRACE_CHUNK_BYTES / TRACE_UNIT_BYTES,
	SLOTS = 3, /* that are mapped */
};

struct got {
	size_t events, unclosed, sites, processes, threads;
	uint64_t lost[TRACE_LOSS_COUNT];
	struct trace_process process;
	char name[80], process_name[40];
	size_t takes;              /* events, then it fails; 0: it never does */
	struct trace_event last;
};

struct rig {
	struct root root;
	struct trace_reader *reader;
	struct trace_ring *ring;
	struct trace_slot *slot; /* the first */
	struct trace_sink sink;
	struct got got;
};

static int on_process(void *ctx, const struct trace_process *p, uint32_t *ret)
{
	struct got *g = ctx;

	*ret = (uint32_t) ++g->processes;
	g->process = *p;
	(void) snprintf(g->process_name, sizeof(g->process_name), "%s", p->name);
	return 0;
}

static int on_site(void *ctx, const struct trace_site *site, uint32_t *ret)
{
	struct got *g = ctx;

	*ret = (uint32_t) ++g->sites;
	(void) snprintf(g->name, sizeof(g->name), "%.79s", site->name);
	return 0;
}

static int on_event(void *ctx, const struct trace_event *e)
{
	struct got *g = ctx;

	assert_in_range(e->kind, 0, TRACE_KIND_COUNT - 1);
	assert_in_range(e->site, 1, g->sites);
	if (g->takes > 0 && g->events >= g->takes)
		return -ENOSPC;
	g->events++;
	g->unclosed += (e->flags & TRACE_UNCLOSED) != 0;
	g->last = *e;
	return 0;
}

static int on_thread(void *ctx, uint32_t process, int64_t tid, const char *name)
{
	(void) process;
	(void) tid;
	(void) name;
	((struct got *) ctx)->threads++;
	return 0;
}

static int on_lost(void *ctx, uint32_t process, enum trace_loss cause, uint64_t n)
{
	(void) process;
	((struct got *) ctx)->lost[cause] += n;
	return 0;
}

static int on_window(void *ctx, uint64_t begin_ns, uint64_t end_ns, const char *why)
{
	(void) ctx;
	(void) begin_ns;
	(void) end_ns;
	(void) why;
	return 0;
}

static void rig_new(struct rig *r)
{
	const struct trace_reader_options options = { .root = &r->root, .layers = TRACE_ALL };
	struct err err = { "" };

	memset(r, 0, sizeof(*r));
	ahead_ns = 0;
	assert_int_equal(root_open("/", &r->root, &err), 0);
	assert_int_equal(trace_reader_new(&options, &r->reader, &err), 0);
	trace_reader_begin(r->reader, clock_boot_ns() - UINT64_C(10000000000), getpid());
	const int fd = trace_reader_fd(r->reader);

	r->ring = mmap(NULL, trace_slot_at(SLOTS), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(r->ring, MAP_FAILED);
	r->slot = (struct trace_slot *) (void *) ((char *) r->ring + trace_slot_at(0));
	r->sink = (struct trace_sink) { on_process, on_site, on_event, on_thread, on_lost, on_window, NULL, &r->got, NULL, NULL };
}

static struct trace_slot *slot_at(struct rig *r, unsigned n)
{
	return (struct trace_slot *) (void *) ((char *) r->ring + trace_slot_at(n));
}

static void rig_free(struct rig *r)
{
	(void) munmap(r->ring, trace_slot_at(SLOTS));
	trace_reader_free(r->reader);
	root_done(&r->root);
}

static uint64_t start_ticks_of(pid_t pid)
{
	char path[40], text[1024] = "", *p;
	uint64_t ticks = 0;

	(void) snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	(void) fclose(f);
	p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	ticks = p ? strtoull(p, NULL, 10) : 0;
	return ticks;
}

static void take_slot(struct rig *r, pid_t pid)
{
	struct stat st;

	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	r->ring->slots[0] = TRACE_SLOT_TAKEN;
	r->slot->pid = pid;
	r->slot->pid_namespace = st.st_ino;
	r->slot->start_ticks = start_ticks_of(pid);
	r->slot->arena_used = 8;
	r->slot->version = TRACE_RING_VERSION;
}

static uint32_t add_text(struct rig *r, const char *text)
{
	const uint32_t at = r->slot->arena_used;
	const struct trace_text head = { .len = (uint16_t) strlen(text) };

	memcpy((char *) r->slot + TRACE_ARENA_AT + at, &head, sizeof(head));
	memcpy((char *) r->slot + TRACE_ARENA_AT + at + sizeof(head), text, head.len);
	r->slot->arena_used = at + (uint32_t) (sizeof(head) + head.len + 7) / 8 * 8;
	return at / 8;
}

static void claim(struct rig *r, unsigned chunk, int tid)
{
	struct trace_chunk *c = &r->slot->chunks[chunk];

	c->state = TRACE_CHUNK_OWNED;
	c->read = TRACE_READ(c->generation + 1, 0);
	c->tid = tid;
	c->order = ++r->slot->claims;
	c->generation++;
}

static void put(struct rig *r, unsigned chunk, unsigned unit, unsigned kind, uint64_t t, uint32_t name)
{
	char *at = (char *) r->slot + TRACE_CHUNKS_AT + chunk * TRACE_CHUNK_BYTES + unit * TRACE_UNIT_BYTES;
	struct trace_ring_head *head = (void *) at;
	const struct trace_ring_range body = { .name = name };

	head->kind = (uint16_t) kind;
	head->flags = 0;
	head->time_ns = t;
	memcpy(head + 1, &body, sizeof(body));
	atomic_store(&head->seq, TRACE_SEQ(r->slot->chunks[chunk].generation, unit));
}

static uint64_t mono(void)
{
	struct timespec t;

	(void) clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static void drain(struct rig *r, bool last)
{
	assert_int_equal(trace_drain(r->reader, last ? TRACE_DRAIN_LAST : TRACE_DRAIN_USUAL, &r->sink), 0);
}

/* ---- what is read ---------------------------------------------------------------------------- */

static void test_a_process(void **state)
{
	const uint64_t t = mono() - 1000000000;
	struct rig r;

	(void) state;
	rig_new(&r);
	drain(&r, false);
	assert_int_equal(r.got.processes, 0);
	take_slot(&r, getpid());
	claim(&r, 0, 5);
	put(&r, 0, 0, TRACE_RING_PUSH, t, add_text(&r, "step"));
	put(&r, 0, 2, TRACE_RING_POP, t + 1, 0);
	drain(&r, false);
	assert_int_equal(r.got.processes, 1);
	assert_int_equal(r.got.process.pid, getpid());
	assert_true(r.got.process.start_ns > 0);
	assert_true(r.got.process_name[0]);
	assert_string_equal(r.got.name, "step");
	assert_int_equal(r.got.events, 1);
	assert_int_equal(r.slot->chunks[0].read, TRACE_READ(1, 4));
	assert_int_equal(r.slot->chunks[0].state, TRACE_CHUNK_OWNED);
	put(&r, 0, 4, TRACE_RING_MARK, t + 2, 0);
	r.slot->chunks[0].state = TRACE_CHUNK_FULL;
	drain(&r, false);
	assert_int_equal(r.got.events, 2);
	assert_int_equal(r.slot->chunks[0].state, TRACE_CHUNK_FREE);
	drain(&r, true);
	assert_int_equal(r.got.events, 2);
	assert_int_equal(r.got.processes, 1);
	rig_free(&r);
}

/* The phases of the last events may not be known yet. */
static void test_the_last_moment_waits(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	claim(&r, 0, 5);
	put(&r, 0, 0, TRACE_RING_MARK, mono() - 500000000, 0);
	put(&r, 0, 2, TRACE_RING_MARK, mono() + 50000000, 0);
	r.slot->chunks[0].state = TRACE_CHUNK_FULL;
	drain(&r, false);
	assert_int_equal(r.got.events, 1);
	assert_int_equal(r.slot->chunks[0].state, TRACE_CHUNK_FULL);
	drain(&r, true);
	assert_int_equal(r.got.events, 2);
	assert_int_equal(r.slot->chunks[0].state, TRACE_CHUNK_FREE);
	rig_free(&r);
}

/* Chunks of a thread are read in the order in which it claimed them, wherever they are. */
static void test_the_order_of_chunks(void **state)
{
	const uint64_t t = mono() - 1000000000;
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	claim(&r, 40, 5);
	put(&r, 40, 0, TRACE_RING_PUSH, t, 0);
	r.slot->chunks[40].state = TRACE_CHUNK_FULL;
	claim(&r, 3, 5);
	put(&r, 3, 0, TRACE_RING_POP, t + 7, 0);
	drain(&r, false);
	assert_int_equal(r.got.events, 1);
	assert_int_equal(r.got.last.end_ns - r.got.last.start_ns, 7);
	rig_free(&r);
}

/* A chunk that was taken again: what was open may have ended in what is lost. */
static void test_overwritten(void **state)
{
	const uint64_t t = mono() - 1000000000;
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	claim(&r, 0, 5);
	put(&r, 0, 0, TRACE_RING_PUSH, t, 0);
	drain(&r, false);
	r.slot->lost[TRACE_LOST_OVERWRITTEN] = 9;
	claim(&r, 0, 5);
	put(&r, 0, 0, TRACE_RING_POP, t + 7, 0);
	put(&r, 0, 2, TRACE_RING_MARK, t + 8, 0);
	drain(&r, false);
	assert_int_equal(r.got.events, 2);
	assert_int_equal(r.got.unclosed, 1);
	assert_int_equal(r.got.lost[TRACE_LOST_OVERWRITTEN], 9);
	r.slot->lost[TRACE_LOST_OVERWRITTEN] = 10;
	drain(&r, false);
	assert_int_equal(r.got.lost[TRACE_LOST_OVERWRITTEN], 10);
	rig_free(&r);
}

/* Of those that have one nothing was lost. */
static void test_threads_without_a_chunk(void **state)
{
	const uint64_t t = mono() - 1000000000;
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	claim(&r, 0, 5);
	put(&r, 0, 0, TRACE_RING_PUSH, t, 0);
	claim(&r, 1, 6);
	put(&r, 1, 0, TRACE_RING_PUSH, t, 0);
	r.slot->chunks[1].state = TRACE_CHUNK_FULL;
	drain(&r, false);
	assert_int_equal(r.got.events, 0);
	r.slot->lost[TRACE_LOST_THREADS] = 3; /* of thread 6, perhaps its pop */
	drain(&r, false);
	assert_int_equal(r.got.events, 1);
	assert_int_equal(r.got.last.flags, TRACE_UNCLOSED | TRACE_INVALID);
	put(&r, 0, 2, TRACE_RING_POP, t + 7, 0);
	drain(&r, true);
	assert_int_equal(r.got.events, 2);
	assert_int_equal(r.got.last.flags, 0);
	rig_free(&r);
}

/* What was read and could not be passed on is counted; what it may have ended has no time. */
static void test_a_sink_that_fails(void **state)
{
	const uint64_t t = mono() - 1000000000;
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	claim(&r, 0, 5);
	put(&r, 0, 0, TRACE_RING_PUSH, t, 0);
	for (unsigned i = 1; i <= 10; i++)
		put(&r, 0, 2 * i, TRACE_RING_MARK, t + i, 0);
	r.got.takes = 4;
	assert_int_equal(trace_drain(r.reader, TRACE_DRAIN_USUAL, &r.sink), -ENOSPC);
	assert_int_equal(r.got.events, 4);
	assert_int_equal(r.got.lost[TRACE_LOST_OVERWRITTEN], 6);
	drain(&r, false);
	assert_int_equal(r.got.lost[TRACE_LOST_OVERWRITTEN], 7); /* the range was to end when it still failed */
	r.got.takes = 0;
	put(&r, 0, 22, TRACE_RING_POP, t + 20, 0);
	put(&r, 0, 24, TRACE_RING_MARK, t + 21, 0);
	drain(&r, false);
	assert_int_equal(r.got.lost[TRACE_LOST_OVERWRITTEN], 7);
	assert_int_equal(r.got.events, 5);
	drain(&r, true);
	assert_int_equal(r.got.events, 5);
	rig_free(&r);
}

static void test_an_ended_process(void **state)
{
	const pid_t pid = fork();
	struct rig r;

	(void) state;
	if (pid == 0) {
		(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void) pause();
		_exit(0);
	}
	rig_new(&r);
	take_slot(&r, pid);
	claim(&r, 0, pid);
	put(&r, 0, 0, TRACE_RING_PUSH, mono() - 500000000, 0);
	drain(&r, false);
	assert_int_equal(trace_reader_bytes_of(r.reader, pid, 0), 4096 + TRACE_HEAD_BYTES + TRACE_INDEX_BYTES + 2 * 4096);
	assert_int_equal(trace_reader_bytes_of(r.reader, pid, start_ticks_of(pid) + 1), 0);
	assert_int_equal(r.got.events, 0);
	(void) kill(pid, SIGKILL);
	(void) waitpid(pid, NULL, 0);
	put(&r, 0, 2, TRACE_RING_MARK, mono(), 0); /* in its last moment */
	r.slot->in_flight = 303;
	ahead_ns += 1000000000;
	drain(&r, false);
	assert_int_equal(r.got.events, 2);
	assert_int_equal(r.got.unclosed, 1);
	assert_int_equal(r.got.lost[TRACE_LOST_INCOMPLETE], 303);
	assert_int_equal(r.ring->slots[0], TRACE_SLOT_FREE);
	assert_int_equal(r.slot->version, 0);
	assert_int_equal(r.slot->chunks[0].generation, 0);
	assert_true(trace_reader_bytes_of(r.reader, pid, 0) > 0); /* it may not have been reaped when that is asked */
	take_slot(&r, getpid());
	claim(&r, 0, 5);
	put(&r, 0, 0, TRACE_RING_MARK, mono() - 500000000, 0);
	r.slot->in_flight = -5; /* more records than launches */
	drain(&r, true);
	assert_int_equal(r.got.lost[TRACE_LOST_INCOMPLETE], 303);
	assert_int_equal(r.got.processes, 2);
	assert_int_equal(r.got.events, 3);
	rig_free(&r);
}

/* Killed between taking a full chunk and counting what was in it. */
static void test_a_claim_that_is_cut_short(void **state)
{
	const pid_t pid = fork();
	struct rig r;

	(void) state;
	if (pid == 0) {
		(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void) pause();
		_exit(0);
	}
	rig_new(&r);
	take_slot(&r, pid);
	claim(&r, 0, pid);
	for (unsigned i = 0; i < 9; i++)
		put(&r, 0, 2 * i, TRACE_RING_MARK, mono() - 500000000, 0);
	r.slot->chunks[0].read = TRACE_READ(2, 0);
	drain(&r, false); /* it may be about to count them */
	assert_int_equal(r.got.events, 0);
	(void) kill(pid, SIGKILL);
	(void) waitpid(pid, NULL, 0);
	ahead_ns += 1000000000;
	drain(&r, false);
	assert_int_equal(r.got.events, 9);
	rig_free(&r);
}

static void test_another_pid_namespace(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	r.slot->pid = 17;
	r.slot->pid_namespace++;
	drain(&r, false);
	const struct trace_process first = r.got.process;

	assert_true(first.pid < -1);
	assert_true(first.start_ns > 0);
	assert_string_equal(r.got.process_name, "pid 17 of another namespace");
	/* The same pid in a third namespace, then another pid there. */
	for (int i = 0; i < 2; i++) {
		const struct trace_process before = r.got.process;

		r.ring->slots[i ? 2 : 1] = TRACE_SLOT_TAKEN;
		memcpy((void *) slot_at(&r, i ? 2 : 1), (void *) r.slot, sizeof(*r.slot));
		slot_at(&r, i ? 2 : 1)->pid_namespace++;
		slot_at(&r, i ? 2 : 1)->pid += i;
		drain(&r, false);
		assert_int_equal(r.got.processes, i + 2);
		assert_true(r.got.process.pid < -1 && r.got.process.pid != before.pid && r.got.process.pid != first.pid);
	}
	rig_free(&r);
}

static void test_a_layer_that_costs_too_much(void **state)
{
	char note[TRACE_NOTE_BYTES];
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	drain(&r, false);
	ahead_ns += UINT64_C(6000000000);
	r.slot->timed_ns[0] = 400000; /* of 1 event in 64: 26 ms in 6 s */
	r.slot->timed_ns[2] = 100000;
	drain(&r, false);
	assert_int_equal(r.slot->layers_off, 0);
	ahead_ns += UINT64_C(6000000000);
	r.slot->timed_ns[0] += 500000;
	r.slot->timed_ns[2] += 1000000;
	drain(&r, false);
	assert_int_equal(r.slot->layers_off, TRACE_LAUNCHES);
	assert_true(trace_reader_note(r.reader, note));
	assert_non_null(strstr(note, "launches are not followed any more"));
	assert_false(trace_reader_note(r.reader, note));
	rig_free(&r);
}

/* Their ends will not come: what is open does not last until the process ends. */
static void test_ranges_that_cost_too_much(void **state)
{
	const uint64_t t = mono() - 1000000000;
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	claim(&r, 0, 5);
	put(&r, 0, 0, TRACE_RING_PUSH, t, 0);
	put(&r, 0, 2, TRACE_RING_ENTER, t + 1, 0);
	put(&r, 0, 4, TRACE_RING_MARK, t + 5, 0);
	drain(&r, false);
	assert_int_equal(r.got.events, 1);
	ahead_ns += UINT64_C(6000000000);
	r.slot->timed_ns[0] = UINT64_C(2000000000);
	drain(&r, false);
	assert_int_equal(r.slot->layers_off, TRACE_RANGES);
	assert_int_equal(r.got.events, 2);
	assert_int_equal(r.got.last.kind, TRACE_RANGE);
	assert_int_equal(r.got.last.end_ns - r.got.last.start_ns, 5);
	assert_int_equal(r.got.last.flags, TRACE_UNCLOSED | TRACE_INVALID);
	put(&r, 0, 6, TRACE_RING_PUSH, t + 6, 0); /* before the thread saw it */
	put(&r, 0, 8, TRACE_RING_LEAVE, t + 9, 0);
	drain(&r, false);
	assert_int_equal(r.got.events, 4);
	assert_int_equal(r.got.last.end_ns - r.got.last.start_ns, 3);
	drain(&r, true);
	assert_int_equal(r.got.events, 4);
	assert_int_equal(r.got.unclosed, 2);
	rig_free(&r);
}

static void test_what_is_not_followed(void **state)
{
	char note[TRACE_NOTE_BYTES];
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	r.slot->detail = add_text(&r, "nsys\n\x1b[2J");
	r.slot->why[3] = TRACE_WHY_SUBSCRIBER;
	drain(&r, false);
	assert_true(trace_reader_note(r.reader, note));
	assert_non_null(strstr(note, "kernels are not followed"));
	assert_non_null(strstr(note, "(nsys??[2J)"));
	r.slot->why[3] = 12345;
	r.slot->detail = UINT32_MAX;
	drain(&r, false);
	assert_true(trace_reader_note(r.reader, note));
	drain(&r, false);
	assert_false(trace_reader_note(r.reader, note));
	rig_free(&r);
	rig_new(&r); /* a number that a job has forged */
	r.ring->refused = UINT32_MAX;
	drain(&r, false);
	assert_true(trace_reader_note(r.reader, note));
	assert_non_null(strstr(note, "has overwritten the memory"));
	rig_free(&r);
}

/* Also the first one without a name, in the drain that finds the names full. */
static void test_names_are_full(void **state)
{
	static const unsigned kinds[] = { TRACE_COPY, TRACE_KERNEL };
	struct trace_text head = { .len = sizeof(struct trace_ring_site), .type = 1 };
	struct trace_ring_work body = { 0 };
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	claim(&r, 0, 5);
	r.slot->lost[TRACE_LOST_NAMES] = 1;
	for (uint32_t i = 0; i < 2; i++) {
		const struct trace_ring_site site = { .kind = kinds[i] };
		char *at = (char *) r.slot + TRACE_ARENA_AT + 800 + 200 * i;
		char *event = (char *) r.slot + TRACE_CHUNKS_AT + 48 * i;

		memcpy(at, &head, sizeof(head));
		memcpy(at + sizeof(head), &site, sizeof(site));
		put(&r, 0, 3 * i, TRACE_RING_WORK, mono() - 500000000, 0);
		body = (struct trace_ring_work) { .end_ns = mono() - 400000000, .site = 100 + 25 * i };
		memcpy(event + sizeof(struct trace_ring_head), &body, sizeof(body));
		drain(&r, false);
		assert_int_equal(r.got.events, i + 1);
		assert_int_equal(r.got.last.flags, 0);
		assert_string_equal(r.got.name, "(names full)");
		(void) memset(r.got.name, 0, sizeof(r.got.name));
	}
	assert_int_equal(r.got.lost[TRACE_LOST_NAMES], 1);
	rig_free(&r);
}

/* ---- hostile writers ------------------------------------------------------------------------- */

static void test_events_that_are_none(void **state)
{
	const uint64_t t = mono() - 1000000000;
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	claim(&r, 0, 5);
	put(&r, 0, 0, TRACE_RING_MARK, t, 0);
	put(&r, 0, 2, TRACE_RING_KIND_COUNT, t, 0);
	put(&r, 0, 4, TRACE_RING_MARK, t, 0);
	claim(&r, 1, -1);
	put(&r, 1, 0, TRACE_RING_NONE, t, 0);
	claim(&r, 2, 6);
	for (unsigned unit = 0; unit + 2 <= UNITS; unit += 2)
		put(&r, 2, unit, unit + 2 < UNITS ? TRACE_RING_MARK : TRACE_RING_WORK, t, 0); /* the last would leave the chunk */
	drain(&r, false);
	assert_int_equal(r.got.events, 1 + UNITS / 2 - 1);
	assert_int_equal(r.got.lost[TRACE_LOST_DAMAGED], 3);
	drain(&r, true);
	assert_int_equal(r.got.lost[TRACE_LOST_DAMAGED], 3);
	rig_free(&r);
}

static void test_a_text_that_leaves_the_arena(void **state)
{
	struct trace_text head = { .len = UINT16_MAX };
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	claim(&r, 0, 5);
	memcpy((char *) r.slot + TRACE_ARENA_AT + TRACE_ARENA_BYTES - 8, &head, sizeof(head));
	put(&r, 0, 0, TRACE_RING_MARK, mono() - 500000000, TRACE_ARENA_BYTES / 8 - 1);
	drain(&r, false);
	assert_int_equal(r.got.events, 1);
	assert_string_equal(r.got.name, "");
	rig_free(&r);
}

static void test_another_version(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	take_slot(&r, getpid());
	r.slot->version = 99;
	drain(&r, false);
	drain(&r, true);
	assert_int_equal(r.got.processes, 0);
	assert_int_equal(r.got.lost[TRACE_LOST_DAMAGED], 1);
	rig_free(&r);
}

static void test_processes_without_a_slot(void **state)
{
	char note[TRACE_NOTE_BYTES];
	struct rig r;

	(void) state;
	rig_new(&r);
	r.ring->unmapped = 2;
	drain(&r, false);
	assert_true(trace_reader_note(r.reader, note));
	assert_non_null(strstr(note, "2 processes are not followed: they could not map"));
	r.ring->refused = 3;
	drain(&r, false);
	assert_true(trace_reader_note(r.reader, note));
	assert_non_null(strstr(note, "3 processes are not followed: 512 are followed at once"));
	drain(&r, false);
	assert_false(trace_reader_note(r.reader, note));
	rig_free(&r);
}

static void test_it_cannot_be_cut(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	assert_int_equal(ftruncate(trace_reader_fd(r.reader), 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(trace_reader_fd(r.reader), (off_t) 1 << 40), -1);
	assert_int_equal(fcntl(trace_reader_fd(r.reader), F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_true(fcntl(trace_reader_fd(r.reader), F_GETFD) & FD_CLOEXEC);
	rig_free(&r);
}

/* The memory lives as long as a process of the job has it, a daemon perhaps. */
static void test_after_the_run(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	assert_int_equal(r.ring->layers, TRACE_ALL);
	assert_int_equal(r.ring->layers_wanted, TRACE_ALL);
	trace_reader_free(r.reader);
	assert_int_equal(r.ring->layers, 0);
	assert_int_equal(r.ring->layers_wanted, 0);
	r.reader = NULL;
	rig_free(&r);
}

static uint32_t next_random(uint32_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 17;
	*random ^= *random << 5;
	return *random;
}

/* Words that are near to valid ones, anywhere in a slot, between drains. */
static void test_scribbles(void **state)
{
	enum {
		ROUNDS = 1500
	};
	uint32_t random = 2463534242;
	struct rig r;

	(void) state;
	rig_new(&r);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t *words = (uint32_t *) r.slot;
		const unsigned chunk = next_random(&random) % 4;

		if (i % 50 == 0)
			take_slot(&r, getpid());
		claim(&r, chunk, (int) (next_random(&random) % 5) - 1);
		for (unsigned unit = 0; unit + 3 <= UNITS; unit += 2 + next_random(&random) % 2)
			put(&r, chunk, unit, next_random(&random) % (TRACE_RING_KIND_COUNT + 1),
				next_random(&random) % 8 ? mono() - next_random(&random) : (uint64_t) next_random(&random) << 33,
				next_random(&random) % 64);
		for (int k = 0; k < 20; k++) {
			const size_t at = k % 2 ? next_random(&random) % (TRACE_HEAD_BYTES / 4)
						: next_random(&random) % (TRACE_ARENA_AT / 4 + 2000);

			words[at] = k % 3 ? next_random(&random) % 6 : next_random(&random);
		}
		r.slot->version = TRACE_RING_VERSION;
		r.ring->slots[0] = next_random(&random) % 64 ? TRACE_SLOT_TAKEN : next_random(&random);
		drain(&r, next_random(&random) % 32 == 0);
	}
	assert_true(r.got.events > 0);
	rig_free(&r);
}

/* ---- how a process gets it ------------------------------------------------------------------- */

static int connect_to(struct rig *r)
{
	const char *name = strchr(trace_reader_environment(r->reader), '@');
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_non_null(name);
	memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
	assert_int_equal(connect(fd, (struct sockaddr *) &address,
				 (socklen_t) (offsetof(struct sockaddr_un, sun_path) + strlen(name))),
		0);
	return fd;
}

static void test_the_descriptor_by_the_socket(void **state)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct stat ours, theirs;
	struct rig r;
	int fd, socket;

	(void) state;
	rig_new(&r);
	trace_reader_answer(r.reader); /* nobody waits */
	(void) close(connect_to(&r)); /* somebody who left */
	socket = connect_to(&r);
	trace_reader_answer(r.reader);
	assert_int_equal(recvmsg(socket, &message, MSG_DONTWAIT), 1);
	assert_non_null(CMSG_FIRSTHDR(&message));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	assert_int_equal(fstat(fd, &theirs), 0);
	assert_int_equal(fstat(trace_reader_fd(r.reader), &ours), 0);
	assert_int_equal(theirs.st_ino, ours.st_ino);
	(void) close(fd);
	(void) close(socket);
	rig_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_process),
		cmocka_unit_test(test_the_last_moment_waits),
		cmocka_unit_test(test_the_order_of_chunks),
		cmocka_unit_test(test_overwritten),
		cmocka_unit_test(test_threads_without_a_chunk),
		cmocka_unit_test(test_a_sink_that_fails),
		cmocka_unit_test(test_an_ended_process),
		cmocka_unit_test(test_a_claim_that_is_cut_short),
		cmocka_unit_test(test_another_pid_namespace),
		cmocka_unit_test(test_a_layer_that_costs_too_much),
		cmocka_unit_test(test_ranges_that_cost_too_much),
		cmocka_unit_test(test_what_is_not_followed),
		cmocka_unit_test(test_names_are_full),
		cmocka_unit_test(test_events_that_are_none),
		cmocka_unit_test(test_a_text_that_leaves_the_arena),
		cmocka_unit_test(test_another_version),
		cmocka_unit_test(test_processes_without_a_slot),
		cmocka_unit_test(test_it_cannot_be_cut),
		cmocka_unit_test(test_after_the_run),
		cmocka_unit_test(test_scribbles),
		cmocka_unit_test(test_the_descriptor_by_the_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
