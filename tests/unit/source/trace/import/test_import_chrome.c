/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "source/trace/import/counting_sink.h"

/* Opens a text as a file; the file is removed at once after it was read for the facts only if it fails. */
static int open_text(const char *text, char path[64], struct trace_import **ret, struct err *err)
{
	write_temporary(path, text, strlen(text));
	return trace_import_open(path, ret, err);
}

/* Passes all of a text on, its first event at 0. */
static void pass_text(const char *text, struct counting_sink *c, struct trace_import_facts *ret_facts)
{
	struct trace_import_target target = { .sink = &c->sink, .rank = -1 };
	struct trace_import *f = NULL;
	struct err err = { "" };
	char path[64];

	counting_sink_init(c);
	assert_int_equal(open_text(text, path, &f, &err), 0);
	*ret_facts = *trace_import_facts(f);
	target.zero_ns = ret_facts->first_ns;
	assert_int_equal(trace_import_pass(f, &target, &err), 0);
	assert_int_equal(target.before, 0);
	assert_int_equal(c->n_events, ret_facts->events);
	assert_memory_equal(c->kinds, ret_facts->kinds, sizeof(c->kinds));
	/* A second pass gives the same. */
	const uint64_t n = c->n_events;

	assert_int_equal(trace_import_pass(f, &target, &err), 0);
	assert_int_equal(c->n_events, 2 * n);
	trace_import_free(f);
	(void) unlink(path);
}

static const char kineto[] =
	"{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 3, \"world_size\": 8, \"pg_config\": [{}]},"
	"\"deviceProperties\": [{\"id\": 1, \"name\": \"A GPU\"}], \"traceEvents\": ["
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":1,\"tid\":7,\"ts\":110.5,\"dur\":2.25,"
	"\"args\":{\"device\":1,\"context\":2,\"stream\":7,\"correlation\":42,\"grid\":[3,4,5],\"block\":[6,7,8],"
	"\"registers per thread\":9,\"shared memory\":10,\"queued\":0}},"
	"{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy DtoH (Device -> Pinned)\",\"pid\":1,\"tid\":7,\"ts\":115,"
	"\"dur\":1,\"args\":{\"bytes\":4096}},"
	"{\"ph\":\"X\",\"cat\":\"gpu_memset\",\"name\":\"Memset (Managed)\",\"pid\":1,\"tid\":7,\"ts\":116,\"dur\":1,"
	"\"args\":{\"bytes\":64,\"device\":1}},"
	"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":55,\"tid\":56,\"ts\":\"100\",\"dur\":1,"
	"\"args\":{\"correlation\":42}},"
	"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"step\",\"pid\":55,\"tid\":56,\"ts\":99,\"dur\":20},"
	"{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"span\",\"pid\":\"Spans\",\"tid\":\"P\",\"ts\":99,\"dur\":20},"
	"{\"ph\":\"s\",\"id\":1},{\"ph\":\"C\"},"
	"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":55,\"tid\":56,\"args\":{\"name\":\"main\"}},"
	"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":7,\"args\":{\"name\":\"stream 7\"}}"
	"], \"baseTimeNanoseconds\": 1790857026000000000}";

static void test_kineto(void **state)
{
	struct counting_sink c;
	struct trace_import_facts facts;

	(void) state;
	pass_text(kineto, &c, &facts);
	assert_string_equal(facts.format, "torch.profiler");
	assert_true(facts.is_wall);
	assert_int_equal(facts.first_ns, 1790857026000099000);
	assert_int_equal(facts.last_ns, 1790857026000119000);
	assert_int_equal(facts.rank, 3);
	assert_int_equal(facts.ranks, 8);
	assert_int_equal(facts.other, 2);
	assert_int_equal(c.n_processes, 2); /* one in each pass: device and "Spans" are none of their own */
	assert_int_equal(c.pids[0], 55);
	assert_int_equal(c.ranks[0], 3);
	assert_int_equal(c.n_windows, 2);
	assert_int_equal(c.n_threads, 4); /* main, P; no stream */

	assert_int_equal(c.events[0].kind, TRACE_KERNEL);
	assert_int_equal(c.events[0].start_ns, 11500);
	assert_int_equal(c.events[0].end_ns, 13750);
	assert_int_equal(c.events[0].correlation, 42);
	assert_int_equal(c.sites[0].device, 1);
	assert_int_equal(c.sites[0].context, 2);
	assert_int_equal(c.sites[0].stream, 7);
	assert_int_equal(c.sites[0].grid[2], 5);
	assert_int_equal(c.sites[0].block[0], 6);
	assert_int_equal(c.sites[0].registers, 9);
	assert_string_equal(c.devices[0], "A GPU");
	assert_int_equal(c.events[1].kind, TRACE_COPY);
	assert_int_equal(c.events[1].bytes, 4096);
	assert_int_equal(c.sites[1].source, TRACE_DEVICE);
	assert_int_equal(c.sites[1].target, TRACE_PINNED);
	assert_int_equal(c.sites[1].device, 1); /* by its pid */
	assert_int_equal(c.events[2].kind, TRACE_FILL);
	assert_int_equal(c.sites[2].target, TRACE_MANAGED);
	assert_int_equal(c.events[3].kind, TRACE_LAUNCH);
	assert_int_equal(c.events[3].correlation, 42);
	assert_int_equal(c.sites[3].process, c.sites[0].process);
	assert_int_equal(c.sites[3].tid, 56);
	assert_string_equal(c.domains[4], "user_annotation");
}

static void test_kineto_without_a_base(void **state)
{
	/* Before 2024: microseconds since 1970. Anything else says nothing. */
	static const char old[] = "{\"schemaVersion\":1,\"traceEvents\":[{\"ph\":\"X\",\"ts\":1700000000000000.5,\"dur\":1}]}";
	static const char other[] = "{\"traceEvents\":[{\"ph\":\"X\",\"ts\":1700000000000000.5,\"dur\":1}]}";
	struct counting_sink c;
	struct trace_import_facts facts;

	(void) state;
	pass_text(old, &c, &facts);
	assert_true(facts.is_wall);
	assert_int_equal(facts.first_ns, 1700000000000000500);
	pass_text(other, &c, &facts);
	assert_false(facts.is_wall);
	assert_string_equal(facts.origin, "chrome");
}

static void test_begins_and_ends(void **state)
{
	static const char text[] = "[{\"ph\":\"B\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1},"
				   "{\"ph\":\"B\",\"name\":\"b\",\"pid\":1,\"tid\":1,\"ts\":2},{\"ph\":\"B\",\"name\":\"c\",\"pid\":1,\"tid\":\"x\",\"ts\":3},"
				   "{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":4},{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":9},"
				   "{\"ph\":\"i\",\"name\":\"m\",\"ts\":10}]";
	struct counting_sink c;
	struct trace_import_facts facts;

	(void) state;
	pass_text(text, &c, &facts);
	assert_int_equal(facts.kinds[TRACE_RANGE], 3);
	assert_int_equal(facts.kinds[TRACE_MARK], 1);
	for (int i = 0; i < 4; i++) {
		const char *name = name_of_event(&c, i);

		if (strcmp(name, "b") == 0) {
			assert_int_equal(c.events[i].depth, 1);
			assert_int_equal(c.events[i].end_ns - c.events[i].start_ns, 2000);
		} else if (strcmp(name, "c") == 0) {
			assert_int_equal(c.events[i].flags, TRACE_UNCLOSED);
			assert_int_equal(c.events[i].end_ns, 9000);
		} else {
			assert_int_equal(c.events[i].depth, 0);
		}
	}
}

/* Beyond a bound the oldest range of all threads is given up, and its end has no begin then. */
static void test_many_that_are_open(void **state)
{
	enum {
		MOST = 1 << 16,
		MORE = 30000
	};
	struct buf text = BUF_INIT(1 << 24);
	struct counting_sink c;
	struct trace_import_facts facts;
	bool has_note = false;

	(void) state;
	(void) buf_str(&text, "[");
	for (int i = 0; i < MOST + MORE; i++)
		(void) buf_printf(&text, "{\"ph\":\"B\",\"name\":\"a\",\"pid\":1,\"tid\":%d,\"ts\":%d},",
			i < 1000 ? 7 : i % 3, i);
	for (int i = 0; i < MOST + MORE; i++)
		(void) buf_printf(&text, "{\"ph\":\"E\",\"pid\":1,\"tid\":%d,\"ts\":%d}%s", i < 1000 ? 7 : i % 3,
			200000 + i, i + 1 < MOST + MORE ? "," : "]");
	assert_int_equal(text.error, 0);
	pass_text(text.data, &c, &facts);
	buf_done(&text);
	assert_int_equal(facts.kinds[TRACE_RANGE], MOST);
	assert_int_equal(facts.broken, MORE);
	assert_int_equal(facts.invalid, 0);
	for (unsigned i = 0; i < facts.n_notes; i++)
		has_note = has_note || strstr(facts.notes[i], "30000 ranges were given up");
	assert_true(has_note);
}

/* Children before parents, ranges that cross, an instant inside. */
static void test_depth(void **state)
{
	static const char text[] = "[{\"ph\":\"X\",\"name\":\"in\",\"tid\":1,\"ts\":2,\"dur\":2},"
				   "{\"ph\":\"X\",\"name\":\"mid\",\"tid\":1,\"ts\":1,\"dur\":5},{\"ph\":\"i\",\"name\":\"mark\",\"tid\":1,\"ts\":3},"
				   "{\"ph\":\"X\",\"name\":\"out\",\"tid\":1,\"ts\":0,\"dur\":10},{\"ph\":\"X\",\"name\":\"cross\",\"tid\":1,\"ts\":5,\"dur\":3},"
				   "{\"ph\":\"X\",\"name\":\"next\",\"tid\":1,\"ts\":10,\"dur\":1},{\"ph\":\"X\",\"name\":\"other\",\"tid\":2,\"ts\":3,\"dur\":1}]";
	static const struct {
		const char *name;
		uint32_t depth, flags;
	} want[] = {
		{ "in", 2, 0 },
		{ "mid", 1, 0 },
		{ "mark", 3, 0 },
		{ "out", 0, 0 },
		{ "cross", 1, TRACE_CROSSING },
		{ "next", 0, 0 },
		{ "other", 0, 0 },
	};
	struct counting_sink c;
	struct trace_import_facts facts;

	(void) state;
	pass_text(text, &c, &facts);
	for (int i = 0; i < 7; i++) {
		for (int k = 0; k < 7; k++) {
			if (strcmp(name_of_event(&c, i), want[k].name) != 0)
				continue;
			assert_int_equal(c.events[i].depth, want[k].depth);
			assert_int_equal(c.events[i].flags, want[k].flags);
		}
	}
}

static void test_invalid_times(void **state)
{
	static const char text[] = "[{\"ph\":\"X\",\"ts\":5},{\"ph\":\"X\",\"dur\":5},{\"ph\":\"X\",\"ts\":5,\"dur\":-1},"
				   "{\"ph\":\"X\",\"ts\":1e300,\"dur\":1},{\"ph\":\"X\",\"ts\":9223372036854775.0,\"dur\":9223372036854775},"
				   "{\"ph\":\"X\",\"ts\":NaN,\"dur\":1},{\"ph\":\"X\",\"ts\":7,\"dur\":1},{\"ph\":\"X\",\"ts\":-9,\"dur\":1}]";
	struct counting_sink c;
	struct trace_import_facts facts;

	(void) state;
	pass_text(text, &c, &facts);
	assert_int_equal(facts.events, 8);
	assert_int_equal(facts.invalid, 6);
	assert_int_equal(facts.first_ns, -9000);
	assert_int_equal(facts.last_ns, 8000);
	assert_int_equal(c.total_ns[TRACE_RANGE], 2 * 2000);
}

static void test_before_the_run(void **state)
{
	struct trace_import *f = NULL;
	struct counting_sink c;
	struct trace_import_target target = { .sink = &c.sink, .zero_ns = 1790857026000100500, .rank = 6 };
	struct err err = { "" };
	char path[64];

	(void) state;
	counting_sink_init(&c);
	assert_int_equal(open_text(kineto, path, &f, &err), 0);
	assert_int_equal(trace_import_pass(f, &target, &err), 0);
	assert_int_equal(target.before, 3);
	assert_int_equal(c.n_events, 3);
	assert_int_equal(c.ranks[0], 6);
	/* The sink's error ends it. */
	c.fails_after = 5;
	assert_int_equal(trace_import_pass(f, &target, &err), -ENOSPC);
	trace_import_free(f);
	(void) unlink(path);
}

/* Damage in a place: in the shape of each kind of file. */
static void test_damage(void **state)
{
	static const char text[] = "{\"traceEvents\": [{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1},"
				   "{\"ph\":\"X\",\"name\":\"b \"c\" d\",\"ts\":1,\"dur\":1},{\"ph\":\"X\",\"name\":\"e\",\"ts\":1,\"dur\":1}],"
				   "\"baseTimeNanoseconds\": 1000}";
	struct counting_sink c;
	struct trace_import_facts facts;
	char where[40];

	(void) state;
	pass_text(text, &c, &facts);
	assert_int_equal(facts.events, 2);
	assert_int_equal(facts.broken, 1);
	assert_int_equal(c.lost, 2);
	assert_true(facts.is_wall);
	(void) snprintf(where, sizeof(where), "at byte %d:", (int) (strstr(text, "c\" d") - text));
	assert_non_null(strstr(facts.notes[0], where));
}

/* Cut anywhere: the events that are whole, or no event and an error; never a crash. */
static void test_cut(void **state)
{
	uint64_t most = 0;

	(void) state;
	for (size_t len = 0; len < sizeof(kineto) - 1; len++) {
		struct trace_import *f = NULL;
		struct err err = { "" };
		char path[64];
		int r;

		write_temporary(path, kineto, len);
		r = trace_import_open(path, &f, &err);
		assert_true(r == 0 || (r == -ENODATA && strstr(err.text, "before its first event")));
		if (r == 0) {
			assert_true(trace_import_facts(f)->is_cut);
			assert_true(trace_import_facts(f)->events >= most);
			most = trace_import_facts(f)->events;
			trace_import_free(f);
		}
		(void) unlink(path);
	}
	assert_int_equal(most, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kineto),
		cmocka_unit_test(test_kineto_without_a_base),
		cmocka_unit_test(test_begins_and_ends),
		cmocka_unit_test(test_many_that_are_open),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_invalid_times),
		cmocka_unit_test(test_before_the_run),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
