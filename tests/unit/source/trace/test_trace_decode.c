/* SPDX-License-Identifier: MIT
 *
 * Events as a process writes them, and what becomes of them, as lines of text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/trace/decode.h"

enum {
	TID = 7,
	OTHER = 8
};

/* What the sink got. */
struct sink {
	char text[1 << 16];
	size_t len;
	char names[64][160];
	enum trace_kind kinds[64];
	uint32_t n_sites;
	size_t events, lost;
};

static void add(struct sink *s, const char *line)
{
	const size_t n = strlen(line);

	if (s->len + n + 1 < sizeof(s->text))
		memcpy(s->text + s->len, line, n + 1);
	s->len += s->len + n + 1 < sizeof(s->text) ? n : 0;
}

static int on_site(void *ctx, const struct trace_site *site, uint32_t *ret)
{
	struct sink *s = ctx;

	if (s->n_sites < 63) {
		s->n_sites++;
		(void) snprintf(s->names[s->n_sites], sizeof(s->names[0]), "%.80s%s%.40s@%d", site->name,
			*site->domain ? "/" : "", site->domain,
			site->tid >= 0 ? (int) site->tid : (int) site->device);
		s->kinds[s->n_sites] = site->kind;
	}
	*ret = s->n_sites;
	return 0;
}

static int on_event(void *ctx, const struct trace_event *e)
{
	struct sink *s = ctx;
	char line[400];

	assert_int_equal(e->kind, s->kinds[e->site]);
	s->events++;
	(void) snprintf(line, sizeof(line), "%s %s %llu-%llu depth %u%s%s%s%s bytes %llu\n", trace_kind_name(e->kind),
		s->names[e->site], (unsigned long long) e->start_ns, (unsigned long long) e->end_ns, e->depth,
		e->flags & TRACE_UNCLOSED ? " unclosed" : "", e->flags & TRACE_CROSSING ? " crossing" : "",
		e->flags & TRACE_INVALID ? " invalid" : "", e->flags & TRACE_FAILED ? " failed" : "",
		(unsigned long long) e->bytes);
	add(s, line);
	return 0;
}

static int on_thread(void *ctx, uint32_t process, int64_t tid, const char *name)
{
	char line[200];

	assert_int_equal(process, 1);
	(void) snprintf(line, sizeof(line), "thread %d %s\n", (int) tid, name);
	add(ctx, line);
	return 0;
}

static int on_lost(void *ctx, uint32_t process, enum trace_loss cause, uint64_t n)
{
	struct sink *s = ctx;
	char line[80];

	assert_int_equal(process, 1);
	s->lost += n;
	(void) snprintf(line, sizeof(line), "lost %s %d\n", trace_loss_name(cause), (int) n);
	if (s->lost < 100)
		add(s, line);
	return 0;
}

/* An arena of texts at fixed offsets. */
static const char *const texts[] = { NULL, "a", "b", "c", "d1", "d2", "\x1b[2J" };

static ptrdiff_t text_of(void *ctx, uint32_t offset, unsigned type, void *ret, size_t size)
{
	struct trace_ring_site site = { .kind = TRACE_KERNEL, .name = 1, .device = 0, .stream = 7 };

	(void) ctx;
	if (type == 1 && offset >= 100 && offset < 103) {
		site.kind = offset == 100 ? TRACE_KERNEL : offset == 101 ? TRACE_COPY
									 : TRACE_RANGE;
		memcpy(ret, &site, sizeof(site));
		return sizeof(site);
	}
	if (type != 0 || offset >= sizeof(texts) / sizeof(*texts) || !texts[offset])
		return -1;
	const size_t n = strlen(texts[offset]) < size ? strlen(texts[offset]) : size;

	memcpy(ret, texts[offset], n);
	return (ptrdiff_t) n;
}

struct rig {
	struct trace_decoder *d;
	struct trace_clock clock;
	struct trace_sink sink;
	struct sink got;
};

static void rig_new(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	r->d = trace_decoder_new(1, text_of, NULL);
	r->clock = (struct trace_clock) { .offset_ns = -1000, .now_ns = 1000000 };
	r->sink = (struct trace_sink) { .site = on_site, .event = on_event, .thread = on_thread, .lost = on_lost, .ctx = &r->got };
	assert_non_null(r->d);
}

static void write_event(struct rig *r, int tid, enum trace_ring_kind kind, uint64_t t, const void *body)
{
	struct {
		struct trace_ring_head head;
		char body[32];
	} event = { .head = { .kind = (uint16_t) kind, .time_ns = t + 1000 } };

	memcpy(event.body, body, trace_ring_bytes(kind) - sizeof(event.head));
	assert_int_equal(trace_decode(r->d, &r->clock, tid, &event.head, &r->sink), 0);
}

static void range(
	struct rig *r, int tid, enum trace_ring_kind kind, uint64_t t, uint32_t name, uint32_t domain, uint64_t id)
{
	const struct trace_ring_range body = { name, domain, id };

	write_event(r, tid, kind, t, &body);
}

static void expect(struct rig *r, const char *text)
{
	assert_string_equal(r->got.text, text);
	trace_decoder_free(r->d);
}

#define PUSH TRACE_RING_PUSH
#define POP  TRACE_RING_POP

static void test_nested_ranges(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	range(&r, TID, PUSH, 10, 1, 0, 0);
	range(&r, TID, PUSH, 20, 2, 0, 0);
	range(&r, OTHER, PUSH, 25, 2, 0, 0);
	range(&r, TID, POP, 30, 0, 0, 0);
	range(&r, TID, TRACE_RING_MARK, 31, 3, 4, 0);
	range(&r, TID, POP, 40, 0, 0, 0);
	range(&r, OTHER, POP, 45, 0, 0, 0);
	expect(&r, "range b@7 20-30 depth 1 bytes 0\nmark c/d1@7 31-31 depth 1 bytes 0\nrange a@7 10-40 depth 0 bytes 0\n"
		   "range b@8 25-45 depth 0 bytes 0\n");
}

/* Each domain has a stack of its own. */
static void test_domains_that_cross(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	range(&r, TID, PUSH, 10, 1, 4, 0);
	range(&r, TID, PUSH, 20, 2, 5, 0);
	range(&r, TID, POP, 30, 0, 4, 0);
	range(&r, TID, POP, 40, 0, 5, 0);
	range(&r, TID, PUSH, 50, 1, 4, 0);
	range(&r, TID, POP, 60, 0, 4, 0);
	expect(&r, "range a/d1@7 10-30 depth 0 crossing bytes 0\nrange b/d2@7 20-40 depth 1 crossing bytes 0\n"
		   "range a/d1@7 50-60 depth 0 bytes 0\n");
}

static void test_ranges_with_an_id(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	range(&r, TID, TRACE_RING_START, 10, 1, 0, 71);
	range(&r, TID, TRACE_RING_START, 20, 2, 0, 72);
	range(&r, TID, TRACE_RING_END, 30, 0, 0, 72);
	range(&r, OTHER, TRACE_RING_END, 40, 0, 0, 71);
	range(&r, OTHER, TRACE_RING_END, 50, 0, 0, 71); /* ended before */
	range(&r, OTHER, TRACE_RING_END, 50, 0, 0, 99); /* never began */
	expect(&r, "range b@7 20-30 depth 1 bytes 0\nrange a@7 10-40 depth 0 crossing bytes 0\n");
}

static void test_without_an_end(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	range(&r, TID, PUSH, 10, 1, 0, 0);
	range(&r, TID, PUSH, 20, 2, 0, 0);
	range(&r, OTHER, TRACE_RING_START, 30, 3, 0, 5);
	assert_int_equal(trace_decode_end(r.d, 500, &r.sink), 0);
	range(&r, TID, POP, 600, 0, 0, 0); /* of none */
	expect(&r, "range b@7 20-500 depth 1 unclosed bytes 0\nrange a@7 10-500 depth 0 unclosed bytes 0\n"
		   "range c@8 30-500 depth 0 unclosed bytes 0\n");
}

/* The end of a range may be among what was lost: it ends with the last event before. */
static void test_lost_events(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	range(&r, TID, PUSH, 10, 1, 0, 0);
	range(&r, OTHER, PUSH, 15, 2, 0, 0);
	range(&r, TID, TRACE_RING_MARK, 20, 3, 0, 0);
	assert_int_equal(trace_decode_gap(r.d, TID, &r.sink), 0);
	range(&r, TID, POP, 30, 0, 0, 0);
	range(&r, OTHER, POP, 40, 0, 0, 0);
	expect(&r, "mark c@7 20-20 depth 1 bytes 0\nrange a@7 10-20 depth 0 unclosed invalid bytes 0\nrange b@8 15-40 depth 0 bytes 0\n");
}

/* A push was lost: the pop is its, not that of the range before. */
static void test_an_event_after_a_loss(void **state)
{
	const struct trace_ring_range body = { 0, 0, 0 };
	struct {
		struct trace_ring_head head;
		struct trace_ring_range body;
	} event = { .head = { .kind = POP, .flags = TRACE_RING_AFTER_LOSS, .time_ns = 1040 }, .body = body };
	struct rig r;

	(void) state;
	rig_new(&r);
	range(&r, TID, PUSH, 10, 1, 0, 0);
	range(&r, OTHER, PUSH, 15, 2, 0, 0);
	range(&r, TID, TRACE_RING_MARK, 20, 3, 0, 0);
	assert_int_equal(trace_decode(r.d, &r.clock, TID, &event.head, &r.sink), 0);
	range(&r, OTHER, POP, 45, 0, 0, 0);
	expect(&r, "mark c@7 20-20 depth 1 bytes 0\nrange a@7 10-20 depth 0 unclosed invalid bytes 0\nrange b@8 15-45 depth 0 bytes 0\n");
}

static void test_calls_and_work(void **state)
{
	const struct trace_ring_call call = { .name = 1, .correlation = 5 };
	const struct trace_ring_memory alloc = { .address = 64, .bytes = 4096, .site = 100 };
	const struct trace_ring_memory freed = { .address = 64, .bytes = 4096, .site = 100, .is_free = 1 };
	const struct trace_ring_work kernel = { .end_ns = 1090, .site = 100, .queued_before = UINT32_MAX };
	const struct trace_ring_work copy = { .end_ns = 1095, .site = 101, .bytes = 17 };
	const struct trace_ring_work backwards = { .end_ns = 1050, .site = 100 };
	const struct trace_ring_work bad = { .end_ns = 1050, .site = 102 };
	struct rig r;

	(void) state;
	rig_new(&r);
	write_event(&r, TID, TRACE_RING_ENTER, 10, &call);
	write_event(&r, TID, TRACE_RING_LEAVE, 20, &call);
	write_event(&r, TID, TRACE_RING_LEAVE, 21, &call); /* of none */
	write_event(&r, TID, TRACE_RING_ENTER, 30, &call);
	write_event(&r, TID, TRACE_RING_ENTER, 40, &call); /* the leave before is missing */
	write_event(&r, TID, TRACE_RING_LEAVE, 50, &call);
	write_event(&r, TID, TRACE_RING_MEMORY, 60, &alloc);
	write_event(&r, TID, TRACE_RING_MEMORY, 70, &freed);
	write_event(&r, TID, TRACE_RING_WORK, 80, &kernel);
	write_event(&r, TID, TRACE_RING_WORK, 81, &copy);
	write_event(&r, TID, TRACE_RING_WORK, 82, &backwards);
	write_event(&r, TID, TRACE_RING_WORK, 83, &bad);
	expect(&r, "launch a@7 10-20 depth 0 bytes 0\nlaunch a@7 30-40 depth 0 unclosed invalid bytes 0\n"
		   "launch a@7 40-50 depth 0 bytes 0\nalloc a@0 60-60 depth 0 bytes 4096\nfree a@0 70-70 depth 0 bytes 4096\n"
		   "kernel a@0 80-90 depth 0 bytes 0\ncopy a@0 81-95 depth 0 bytes 17\n"
		   "kernel a@0 82-50 depth 0 invalid bytes 0\nlost damaged 1\n");
}

/* Sites for which the process had no room: the events are there. */
static void test_sites_without_room(void **state)
{
	const struct trace_ring_memory alloc = { .bytes = 64, .site = trace_site_unnamed(TRACE_ALLOC, 2) };
	const struct trace_ring_memory freed = { .bytes = 64, .is_free = 1 };
	const struct trace_ring_work kernel = { .end_ns = 1090, .site = trace_site_unnamed(TRACE_KERNEL, 1) };
	const struct trace_ring_work copy = { .end_ns = 1095, .site = trace_site_unnamed(TRACE_COPY, 1), .bytes = 17 };
	const struct trace_ring_work none = { .end_ns = 1096 };
	const struct trace_ring_work bad = { .end_ns = 1096, .site = trace_site_unnamed(TRACE_RANGE, 1) };
	struct rig r;

	(void) state;
	rig_new(&r);
	write_event(&r, TID, TRACE_RING_WORK, 80, &kernel);
	write_event(&r, TID, TRACE_RING_WORK, 81, &copy);
	write_event(&r, TID, TRACE_RING_WORK, 82, &kernel);
	write_event(&r, TID, TRACE_RING_WORK, 83, &none);
	write_event(&r, TID, TRACE_RING_MEMORY, 84, &alloc);
	write_event(&r, TID, TRACE_RING_MEMORY, 85, &freed);
	write_event(&r, TID, TRACE_RING_WORK, 86, &bad);
	expect(&r, "kernel (names full)@1 80-90 depth 0 bytes 0\ncopy (names full)@1 81-95 depth 0 bytes 17\n"
		   "kernel (names full)@1 82-90 depth 0 bytes 0\nkernel (names full)@-1 83-96 depth 0 bytes 0\n"
		   "alloc (names full)@2 84-84 depth 0 bytes 64\nfree (names full)@-1 85-85 depth 0 bytes 64\nlost damaged 1\n");
}

static void test_names(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	range(&r, TID, TRACE_RING_THREAD, 5, 1, 0, 0);
	range(&r, TID, TRACE_RING_THREAD, 5, 2, 0, OTHER);
	range(&r, TID, TRACE_RING_THREAD, 5, 2, 0, UINT64_MAX); /* no thread */
	range(&r, TID, TRACE_RING_MARK, 6, 6, 0, 0);
	range(&r, TID, TRACE_RING_MARK, 7, 0, 0, 0);
	range(&r, TID, TRACE_RING_MARK, 8, 29000, 99, 0); /* no texts there */
	range(&r, TID, TRACE_RING_MARK, 9, UINT32_MAX, UINT32_MAX, 0);
	trace_decode_names_full(r.d);
	range(&r, TID, TRACE_RING_MARK, 10, 0, 0, 0);
	expect(&r, "thread 7 a\nthread 8 b\nmark \x1b[2J@7 6-6 depth 0 bytes 0\nmark @7 7-7 depth 0 bytes 0\n"
		   "mark @7 8-8 depth 0 bytes 0\nmark @7 9-9 depth 0 bytes 0\nmark (names full)@7 10-10 depth 0 bytes 0\n");
}

static void test_times_that_cannot_be(void **state)
{
	const struct trace_ring_work far = { .end_ns = UINT64_C(1003000001), .site = 100 };
	struct rig r;

	(void) state;
	rig_new(&r);
	range(&r, TID, TRACE_RING_MARK, UINT64_MAX - 1000, 1, 0, 0);
	range(&r, TID, TRACE_RING_MARK, 1001000001, 1, 0, 0);
	r.clock.offset_ns = -3000000000; /* more than a second before the run */
	range(&r, TID, TRACE_RING_MARK, 1999998999, 1, 0, 0);
	r.clock.offset_ns = -1000;
	write_event(&r, TID, TRACE_RING_WORK, 80, &far);
	range(&r, TID, PUSH, 500, 1, 0, 0);
	range(&r, TID, POP, 400, 1, 0, 0);
	expect(&r, "mark a@7 1000000-1000000 depth 0 invalid bytes 0\nmark a@7 1000000-1000000 depth 0 invalid bytes 0\n"
		   "mark a@7 0-0 depth 0 invalid bytes 0\nkernel a@0 80-1000000 depth 0 invalid bytes 0\n"
		   "range a@7 500-400 depth 0 invalid bytes 0\n");
}

/* Up to a second ahead of now, or before the run, is kept: clocks differ, and step. */
static void test_times_that_are_a_little_off(void **state)
{
	const struct trace_ring_work kernel = { .end_ns = 1501000, .site = 100 };
	struct rig r;

	(void) state;
	rig_new(&r);
	write_event(&r, TID, TRACE_RING_WORK, 900000, &kernel);
	range(&r, TID, TRACE_RING_MARK, 1001000000, 1, 0, 0);
	range(&r, TID, TRACE_RING_MARK, (uint64_t) -500, 1, 0, 0);
	r.clock.offset_ns = -3000000000;
	range(&r, TID, TRACE_RING_MARK, 1999999000, 1, 0, 0);
	expect(&r, "kernel a@0 900000-1500000 depth 0 bytes 0\nmark a@7 1001000000-1001000000 depth 0 bytes 0\n"
		   "mark a@7 0-0 depth 0 bytes 0\nmark a@7 0-0 depth 0 bytes 0\n");
}

/* A process that pushes for ever, and one with any number of threads, cost bounded memory. */
static void test_bounds(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r);
	for (int i = 0; i < TRACE_OPEN_MOST + 50; i++)
		range(&r, TID, PUSH, 10, 1, 0, 0);
	assert_int_equal(r.got.lost, 50);
	for (int i = 0; i < 50; i++)
		range(&r, TID, POP, 20, 1, 0, 0); /* those that were left out */
	assert_int_equal(r.got.events, 0);
	for (int i = 0; i < TRACE_OPEN_MOST; i++)
		range(&r, TID, POP, 20, 1, 0, 0);
	assert_int_equal(r.got.events, TRACE_OPEN_MOST);
	for (int i = 0; i < 3 * TRACE_THREADS_MOST; i++) {
		range(&r, 100 + i, PUSH, 10, 1, 0, 0);
		range(&r, 100 + i, POP, 20, 1, 0, 0);
	}
	assert_int_equal(r.got.events, TRACE_OPEN_MOST + 3 * TRACE_THREADS_MOST);
	for (int i = 0; i < TRACE_THREADS_MOST + 10; i++) /* all with an open range */
		range(&r, 100 + i, PUSH, 10, 1, 0, 0);
	assert_int_equal(r.got.lost, 60);
	trace_decoder_free(r.d);
}

/* Ranges with ids in any order, against a model: each that began ends once. */
static void test_random_ids(void **state)
{
	enum {
		IDS = 64,
		STEPS = 20000
	};
	bool open[IDS] = { false };
	unsigned random = 12345;
	size_t ended = 0;
	struct rig r;

	(void) state;
	rig_new(&r);
	for (int i = 0; i < STEPS; i++) {
		random = random * 1103515245 + 12345;
		const unsigned id = random >> 16 & (IDS - 1), tid = random >> 24 & 3;

		if (open[id]) {
			range(&r, (int) tid, TRACE_RING_END, (uint64_t) i, 0, 0, id);
			ended++;
		} else {
			range(&r, (int) tid, TRACE_RING_START, (uint64_t) i, 1, 0, id);
		}
		open[id] = !open[id];
		assert_int_equal(r.got.events, ended);
	}
	trace_decoder_free(r.d);
}

static int refuse(void *ctx, const struct trace_event *e)
{
	(void) ctx;
	(void) e;
	return -ENOSPC;
}

static void test_an_error_of_the_sink(void **state)
{
	const struct trace_ring_range body = { 1, 0, 0 };
	struct {
		struct trace_ring_head head;
		struct trace_ring_range body;
	} event = { .head = { .kind = TRACE_RING_MARK, .time_ns = 2000 }, .body = body };
	struct rig r;

	(void) state;
	rig_new(&r);
	r.sink.event = refuse;
	assert_int_equal(trace_decode(r.d, &r.clock, TID, &event.head, &r.sink), -ENOSPC);
	trace_decoder_free(r.d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nested_ranges),
		cmocka_unit_test(test_domains_that_cross),
		cmocka_unit_test(test_ranges_with_an_id),
		cmocka_unit_test(test_without_an_end),
		cmocka_unit_test(test_lost_events),
		cmocka_unit_test(test_an_event_after_a_loss),
		cmocka_unit_test(test_calls_and_work),
		cmocka_unit_test(test_sites_without_room),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_times_that_cannot_be),
		cmocka_unit_test(test_times_that_are_a_little_off),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_random_ids),
		cmocka_unit_test(test_an_error_of_the_sink),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
