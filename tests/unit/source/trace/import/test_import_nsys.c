/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "source/trace/import/counting_sink.h"

#define GLOBAL "(1 << 56 | 7 << 24 | 8)"

static void make(char path[64], const char *sql)
{
	sqlite3 *db = NULL;

	write_temporary(path, "", 0);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void pass(const char *sql, struct counting_sink *c, struct trace_import_facts *ret_facts)
{
	struct trace_import_target target = { .sink = &c->sink, .rank = -1 };
	struct trace_import *f = NULL;
	struct err err = { "" };
	char path[64];

	counting_sink_init(c);
	make(path, sql);
	if (trace_import_open(path, &f, &err) != 0)
		fail_msg("%s", err.text);
	*ret_facts = *trace_import_facts(f);
	target.zero_ns = ret_facts->first_ns;
	assert_int_equal(trace_import_pass(f, &target, &err), 0);
	assert_int_equal(c->n_events, ret_facts->events);
	trace_import_free(f);
	(void) unlink(path);
}

static bool has_note(const struct trace_import_facts *facts, const char *part)
{
	for (size_t i = 0; i < facts->n_notes; i++) {
		if (strstr(facts->notes[i], part))
			return true;
	}
	return false;
}

static void test_tables(void **state)
{
	static const char sql[] =
		"CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
		"INSERT INTO StringIds VALUES (1, 'gemm<64>(float*)'), (2, 'cudaLaunchKernel'), (3, 'stored'), (4, 'pool');"
		"CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs); INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1000000);"
		"CREATE TABLE TARGET_INFO_GPU (id, name); INSERT INTO TARGET_INFO_GPU VALUES (0, 'A GPU');"
		"CREATE TABLE PROCESSES (globalPid, pid, name); INSERT INTO PROCESSES VALUES (" GLOBAL " - 8, 7, 'train');"
		"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (demangledName, end, start, globalPid, deviceId, contextId, streamId,"
		" correlationId, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread, staticSharedMemory,"
		" dynamicSharedMemory, graphNodeId);"
		"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 250, 200, " GLOBAL " - 8, 0, 1, 7, 9, 2, 3, 4, 5, 6, 7, 32, 100, 200, 77);"
		"CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId, returnValue);"
		"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 110, " GLOBAL ", 9, 2, 0), (120, 130, " GLOBAL ", 10, 2, 2);"
		"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY2 (start, end, srcDeviceId, bytes, copyKind, srcKind, dstKind);"
		"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY2 VALUES (300, 310, 0, 4096, 10, 2, 2);"
		"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, bytes, address, memoryOperationType, memKind);"
		"INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (50, " GLOBAL " - 8, 0, 1024, 77, 0, 2), (400, " GLOBAL " - 8, 0, 1024, 77, 1, 2);"
		"CREATE TABLE NVTX_EVENTS (start, end, eventType, globalTid, text);"
		"INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, " GLOBAL ", 'old');"
		"CREATE TABLE NVTX_EVENTS_V2 (start, end, eventType, globalTid, text, textId, domainId, endGlobalTid);"
		"INSERT INTO NVTX_EVENTS_V2 VALUES (20, 30, 59, " GLOBAL ", 'inner', NULL, 5, NULL), (10, 90, 59, " GLOBAL ", NULL, 3, 0, NULL),"
		" (0, NULL, 75, " GLOBAL ", 'domain', NULL, 5, NULL), (40, NULL, 60, " GLOBAL ", 'open', NULL, 0, NULL),"
		" (45, NULL, 34, " GLOBAL ", 'mark', NULL, 0, NULL), (95, 99, 60, " GLOBAL ", 'far', NULL, 0, " GLOBAL " + 1);";
	struct counting_sink c;
	struct trace_import_facts facts;
	bool seen_kernel = false, seen_open = false, seen_far = false, seen_inner = false;

	(void) state;
	pass(sql, &c, &facts);
	assert_true(facts.is_wall);
	assert_int_equal(facts.first_ns, 1000010);
	assert_int_equal(facts.last_ns, 1000400);
	assert_int_equal(c.n_processes, 1);
	assert_int_equal(c.pids[0], 7);
	assert_string_equal(c.origin, "nsys");
	assert_int_equal(facts.kinds[TRACE_ALLOC], 1);
	assert_int_equal(facts.kinds[TRACE_FREE], 1);
	assert_int_equal(facts.kinds[TRACE_RANGE], 4);
	assert_int_equal(facts.kinds[TRACE_COPY], 1);
	for (int i = 0; i < (int) c.n_events; i++) {
		const struct trace_event *e = &c.events[i];
		const struct trace_site *site = &c.sites[e->site - 1];

		if (e->kind == TRACE_KERNEL) {
			seen_kernel = strcmp(name_of_event(&c, i), "gemm<64>(float*)") == 0;
			assert_int_equal(e->start_ns, 190);
			assert_int_equal(e->flags, TRACE_NODE);
			assert_int_equal(site->grid[1], 3);
			assert_int_equal(site->shared_dynamic, 200);
			assert_string_equal(c.devices[e->site - 1], "A GPU");
		} else if (e->kind == TRACE_LAUNCH) {
			assert_int_equal(site->tid, 8);
			assert_int_equal(e->flags, e->correlation == 10 ? TRACE_FAILED : 0);
		} else if (e->kind == TRACE_COPY) {
			assert_string_equal(name_of_event(&c, i), "Memcpy PtoP (Device -> Device)");
			assert_int_equal(site->process, 1);
		} else if (strcmp(name_of_event(&c, i), "open") == 0) {
			seen_open = e->flags & TRACE_UNCLOSED && e->end_ns == 390;
		} else if (strcmp(name_of_event(&c, i), "far") == 0) {
			seen_far = e->flags & TRACE_CROSSING;
		} else if (strcmp(name_of_event(&c, i), "inner") == 0) {
			seen_inner = e->depth == 1 && strcmp(c.domains[e->site - 1], "domain") == 0;
		}
	}
	assert_true(seen_kernel && seen_open && seen_far && seen_inner);
}

/* A call of the runtime and the driver's call in it are one launch; of another process, or without a number, they
 * are two. */
static void test_calls_of_the_driver(void **state)
{
	static const char runtime[] =
		"CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId);"
		"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 110, " GLOBAL ", 9), (120, 130, " GLOBAL ", NULL),"
		" (140, 150, NULL, 11), (150, 151, " GLOBAL ", 0);";
	static const char driver[] =
		"CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
		"CREATE TABLE CUPTI_ACTIVITY_KIND_DRIVER (start, end, globalTid, correlationId);"
		"INSERT INTO CUPTI_ACTIVITY_KIND_DRIVER VALUES (101, 109, " GLOBAL " + 1, 9), (201, 209, " GLOBAL ", 10),"
		" (301, 309, " GLOBAL " + (1 << 24), 9), (401, 409, " GLOBAL ", NULL), (501, 509, NULL, 11),"
		" (601, 609, " GLOBAL ", 0);";
	struct counting_sink c;
	struct trace_import_facts facts;
	char both[sizeof(runtime) + sizeof(driver)];

	(void) state;
	(void) snprintf(both, sizeof(both), "%s%s", runtime, driver);
	pass(both, &c, &facts);
	assert_int_equal(facts.kinds[TRACE_LAUNCH], 4 + 5);
	for (int i = 0; i < (int) c.n_events; i++)
		assert_true(c.events[i].end_ns - c.events[i].start_ns != 8 || c.events[i].start_ns != 1);
	pass(driver, &c, &facts);
	assert_int_equal(facts.kinds[TRACE_LAUNCH], 6);
}

static void test_an_empty_capture(void **state)
{
	struct counting_sink c;
	struct trace_import_facts facts;
	struct trace_import *f = NULL;
	struct err err = { "" };
	char path[64];

	(void) state;
	pass("CREATE TABLE StringIds (id, value); CREATE TABLE NVTX_EVENTS (start, end, eventType, globalTid, text);"
	     "INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, 5, 'x')",
		&c, &facts);
	assert_true(has_note(&facts, "empty capture") && has_note(&facts, "not traced: copies, calls of CUDA"));
	assert_false(facts.is_wall);
	make(path, "CREATE TABLE StringIds (id, value)");
	assert_int_equal(trace_import_open(path, &f, &err), -ENODATA);
	assert_non_null(strstr(err.text, "empty capture"));
	(void) unlink(path);
	make(path, "CREATE TABLE other (id, value)");
	assert_int_equal(trace_import_open(path, &f, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "no export of Nsight Systems"));
	(void) unlink(path);
}

/* Names that are taken by other things, columns that compute, trees that do not end. */
static void test_hostile(void **state)
{
	struct counting_sink c;
	struct trace_import_facts facts;

	(void) state;
	pass("CREATE TABLE StringIds (id, value); CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end);"
	     "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2), (NULL, 3), ('a', 'b'), (x'00', 4), (5, 4),"
	     " (9223372036854775807, 9223372036854775807), (-9223372036854775807, 7), (1e300, 2e300);"
	     "CREATE VIEW CUPTI_ACTIVITY_KIND_MEMCPY AS WITH RECURSIVE r(start) AS (SELECT 1 UNION ALL SELECT 1 FROM r)"
	     " SELECT start FROM r;"
	     "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, \"end\" AS (length(zeroblob(1000000000))));"
	     "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET(start) VALUES (1);"
	     "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs); INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (-5), ('x');",
		&c, &facts);
	assert_int_equal(facts.kinds[TRACE_COPY], 0);
	assert_int_equal(facts.kinds[TRACE_FILL], 1);
	assert_int_equal(facts.kinds[TRACE_KERNEL], 8);
	assert_false(facts.is_wall);
	assert_true(facts.invalid >= 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_calls_of_the_driver),
		cmocka_unit_test(test_an_empty_capture),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
