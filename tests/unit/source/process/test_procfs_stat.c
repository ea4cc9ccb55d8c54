/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "source/process/procfs_stat.h"

/* Fields 3 to 52 as a kernel wrote them, apart from the numbers that name their own field. */
#define REST \
	" S 4 5 6 0 -1 4194304 10 11 12 13 14 15 16 17 20 0 20 0 22 23 24 18446744073709551615 26 27 28 0 0 0 0 " \
	"4096 0 0 0 0 17 1 0 0 0 0 0 45 46 47 48 49 50 51 52\n"

static void each_field_has_its_place(void **state)
{
	struct procfs_stat st = { 0 };

	(void) state;
	assert_int_equal(procfs_stat_parse("4711 (python3)" REST, &st), 0);
	assert_string_equal(st.name, "python3");
	assert_int_equal(st.pid, 4711);
	assert_int_equal(st.state, 'S');
	assert_int_equal(st.ppid, 4);
	assert_int_equal(st.pgrp, 5);
	assert_int_equal(st.session, 6);
	assert_int_equal(st.faults_minor, 10);
	assert_int_equal(st.faults_waited, 11);
	assert_int_equal(st.faults_major, 12);
	assert_int_equal(st.user_ticks, 14);
	assert_int_equal(st.system_ticks, 15);
	assert_int_equal(st.user_waited_ticks, 16);
	assert_int_equal(st.system_waited_ticks, 17);
	assert_int_equal(st.threads, 20);
	assert_int_equal(st.start_ticks, 22);
	assert_int_equal(st.vsize_bytes, 23);
	assert_int_equal(st.startcode, 26);
	assert_int_equal(st.endcode, 27);
	assert_int_equal(st.startstack, 28);
}

static void the_last_field_is_the_exit_status(void **state)
{
	int32_t status = -1;

	(void) state;
	assert_true(procfs_stat_exit("4711 (a) b)" REST, &status));
	assert_int_equal(status, 52);
	assert_false(procfs_stat_exit("4711 (a) Z 4 5\n", &status));
	assert_false(procfs_stat_exit("4711 (a", &status));
	assert_false(procfs_stat_exit("", &status));
	assert_int_equal(status, 52);
}

static void the_name_may_hold_anything(void **state)
{
	static const char *const names[] = { "a) b", "((", ")", "", "x) R 1 1 1", "new\nline", "\xff\xfe\x01",
		" " };
	struct procfs_stat st;
	char line[512];

	(void) state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void) snprintf(line, sizeof(line), "7 (%s)" REST, names[i]);
		memset(&st, 0, sizeof(st));
		assert_int_equal(procfs_stat_parse(line, &st), 0);
		assert_string_equal(st.name, names[i]);
		assert_int_equal(st.startstack, 28);
	}
}

static void a_long_name_is_cut(void **state)
{
	struct procfs_stat st;
	char line[1024], name[200];

	(void) state;
	memset(name, 'k', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	(void) snprintf(line, sizeof(line), "7 (%s)" REST, name);
	assert_int_equal(procfs_stat_parse(line, &st), 0);
	assert_int_equal(strlen(st.name), sizeof(st.name) - 1);
}

static void invalid_lines_are_refused(void **state)
{
	static const char *const lines[] = {
		"",
		"7",
		"7 (",
		"7 (x",
		"7 (x)",
		"7 (x) ",
		"7 (x) S",
		"x (x)" REST,
		"7 x)" REST,
		"7 )x(" REST,
		"7(x)" REST,
		"7 (x) S 1 2 3 4",
		"99999999999 (x)" REST,
		"-7 (x)" REST,
		"7 (x) S 4  5 6 0 -1 0 10 11 12 13 14 15 16 17 20 0 20 0 22 23 24 0 26 27 28 0",
		"7 (x) S 4 5 6 0 -1 0 10 11 12 13 -14 15 16 17 20 0 20 0 22 23 24 0 26 27 28 0",
		"7 (x) S 4 5 6 0 -1 0 10 11 12 13 14 15 16 17 20 0 20 0 99999999999999999999 23 24 0 26 27 28 0",
		"7 (x) S 4294967296 5 6 0 -1 0 10 11 12 13 14 15 16 17 20 0 20 0 22 23 24 0 26 27 28 0",
	};
	struct procfs_stat st = { .pid = 42 };

	(void) state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(procfs_stat_parse(lines[i], &st), -EBADMSG);
		assert_int_equal(st.pid, 42);
	}
}

/* A number cut off is another number. */
static void truncated_lines_are_refused(void **state)
{
	static const char whole[] = "7 (x)" REST;
	const char *behind = strstr(whole, " 28 ") + 4;
	char line[sizeof(whole)];
	struct procfs_stat st;

	(void) state;
	for (size_t n = 0; n < sizeof(whole) - 1; n++) {
		memcpy(line, whole, n);
		line[n] = '\0';
		assert_int_equal(procfs_stat_parse(line, &st), whole + n < behind ? -EBADMSG : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_has_its_place),
		cmocka_unit_test(the_last_field_is_the_exit_status),
		cmocka_unit_test(the_name_may_hold_anything),
		cmocka_unit_test(a_long_name_is_cut),
		cmocka_unit_test(invalid_lines_are_refused),
		cmocka_unit_test(truncated_lines_are_refused),
	};

	return cmocka_run_group_tests_name("procfs_stat", tests, NULL, NULL);
}
