/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/spool.h"

struct record {
	int64_t stream, number, more;
};

struct seen {
	int64_t stream, next;
};

static void see(void *ctx, const void *record)
{
	const struct record *r = record;
	struct seen *seen = ctx;

	assert_int_equal(r->stream, seen->stream);
	assert_int_equal(r->number, seen->next++);
	assert_int_equal(r->more, -r->number);
}

static void put(struct spool *s, int stream, int64_t number)
{
	spool_put(s, stream, &(struct record) { stream, number, -number });
}

/* Two streams written alternately, one of them a hundredth as often; read one after the other. */
static void test_each_comes_back_in_its_order(void **state)
{
	struct spool s;
	struct err err = { "" };

	(void) state;
	assert_int_equal(spool_open(&s, sizeof(struct record), &err), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(spool_new(&s), i);
	for (int64_t k = 0; k < 10000; k++) {
		put(&s, 0, k);
		put(&s, 1, k);
		if (k % 100 == 0)
			put(&s, 2, k / 100);
		if (k % 1234 == 0)
			spool_close(&s, 1); /* it continues nevertheless */
	}
	static const int64_t counts[] = { 10000, 10000, 100, 0 };

	for (int i = 3; i >= 0; i--) {
		struct seen seen = { .stream = i };

		spool_each(&s, i, see, &seen);
		assert_int_equal(seen.next, counts[i]);
	}
	assert_int_equal(s.error, 0);
	spool_done(&s);
	spool_done(&s);
}

static void test_no_folder(void **state)
{
	struct spool s;
	struct err err = { "" };

	(void) state;
	(void) setenv("TMPDIR", "/nowhere/at/all", 1);
	assert_int_equal(spool_open(&s, 8, &err), -ENOENT);
	assert_non_null(strstr(err.text, "TMPDIR"));
	spool_done(&s);
	(void) unsetenv("TMPDIR");
}

/* A limit of file sizes simulates a full disk. */
static void test_a_full_disk(void **state)
{
	struct rlimit before, limit;
	struct spool s;
	struct err err = { "" };

	(void) state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 64 << 10;
	(void) signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(spool_open(&s, sizeof(struct record), &err), 0);
	assert_int_equal(spool_new(&s), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (int64_t k = 0; k < 10000; k++)
		put(&s, 0, k);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(s.error, -EFBIG);
	assert_int_equal(spool_new(&s), -EFBIG);
	spool_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_comes_back_in_its_order),
		cmocka_unit_test(test_no_folder),
		cmocka_unit_test(test_a_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
