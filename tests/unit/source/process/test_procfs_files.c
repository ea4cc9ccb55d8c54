/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "source/process/procfs_files.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void statm(void **state)
{
	static const char *const bad[] = { "", "1", "1 2", "1 2 3", "1  2 3 4", "x 2 3 4", "1 2 -3 4",
		"1 99999999999999999999 3 4" };
	struct procfs_statm st = { 0 };

	(void) state;
	assert_int_equal(procfs_statm_parse("6478 1523 1102 4 0 402 0\n", &st), 0);
	assert_int_equal(st.size, 6478);
	assert_int_equal(st.resident, 1523);
	assert_int_equal(st.shared, 1102);
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_int_equal(procfs_statm_parse(bad[i], &st), -EBADMSG);
		assert_int_equal(st.size, 6478);
	}
}

#define IO \
	"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: "

static void io(void **state)
{
	static const char *const bad[] = { "", "rchar: 1\n", IO, IO "1", IO "x\n", "rchar:1\n" };
	struct procfs_io st = { 0 };

	(void) state;
	assert_int_equal(procfs_io_parse(IO "1024\n", &st), 0);
	assert_int_equal(st.read_chars, 1);
	assert_int_equal(st.write_chars, 2);
	assert_int_equal(st.read_bytes, 4096);
	assert_int_equal(st.write_bytes, 8192);
	assert_int_equal(st.write_cancelled, 1024);
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_int_equal(procfs_io_parse(bad[i], &st), -EBADMSG);
}

static void rollup(void **state)
{
	static const char text[] =
		"55d0c0a00000-7ffd4f7fe000 ---p 00000000 00:00 0                          [rollup]\n"
		"Rss:                 884 kB\nPss:                 385 kB\nPss_Dirty:           84 kB\n"
		"Shared_Clean:        500 kB\nShared_Dirty:          1 kB\nPrivate_Clean:       300 kB\n"
		"Private_Dirty:        83 kB\nReferenced:          884 kB\n";
	struct procfs_rollup r = { 0 };

	(void) state;
	assert_int_equal(procfs_rollup_parse(text, &r), 0);
	assert_int_equal(r.rss, 884 * 1024);
	assert_int_equal(r.pss, 385 * 1024);
	assert_int_equal(r.shared, 501 * 1024);
	assert_int_equal(r.private, 383 * 1024);
	assert_int_equal(procfs_rollup_parse("Rss: 1 kB\nPss: 1 kB\n", &r), -EBADMSG);
	assert_int_equal(procfs_rollup_parse("", &r), -EBADMSG);
}

static void maps(void **state)
{
	static const char *const bad[] = {
		"",
		"7f00-7f01",
		"7f01-7f00 r--p 0 0:0 0",
		"7f00-7f00 r--p 0 0:0 0",
		"7f00-7f01 r-p 0 0:0 0",
		"7f00-7f01 r--p 0 00 0",
		"7f00-7f01 r--p 0 0:0 x",
		"7f00-7f01 r--p ffffffffffffffff 0:0 1",
		"7f00-7f01 r--p 0 100000000:0 1",
		"x-7f01 r--p 0 0:0 1",
		"7f00-7f01 r--p 0 0:0 1x",
	};
	struct procfs_map m = { 0 };

	(void) state;
	assert_int_equal(
		procfs_map_parse(
			"7f0c1a000000-7f0c1a021000 rw-p 0000a000 fd:01 1234      /usr/lib/a b.so\nnext", &m),
		0);
	assert_int_equal(m.end - m.start, 0x21000);
	assert_int_equal(m.offset, 0xa000);
	assert_int_equal(m.major, 0xfd);
	assert_int_equal(m.minor, 1);
	assert_int_equal(m.inode, 1234);
	assert_false(m.barred);
	assert_int_equal(m.name_len, strlen("/usr/lib/a b.so"));
	assert_memory_equal(m.name, "/usr/lib/a b.so", m.name_len);
	assert_int_equal(procfs_map_parse("7f00-7f01 ---p 0 00:00 0 ", &m), 0);
	assert_true(m.barred);
	assert_int_equal(m.name_len, 0);
	assert_int_equal(procfs_map_parse("7f00-7f01 ---s 0 00:00 0", &m), 0);
	assert_false(m.barred);
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_int_equal(procfs_map_parse(bad[i], &m), -EBADMSG);
}

static void lastpid(void **state)
{
	static const char *const bad[] = { "", "0.20 0.18 0.12 1/80", "0.20 0.18 0.12 1/80 ",
		"0.20 0.18 0.12 1/80 x\n", "0.20 0.18 0.12 1/80 112", "0.20  0.18 0.12 1/80 1\n",
		"0.20 0.18 0.12 1/80 99999999999\n" };
	uint32_t pid = 7;

	(void) state;
	assert_int_equal(procfs_lastpid_parse("0.20 0.18 0.12 1/80 11206\n", &pid), 0);
	assert_int_equal(pid, 11206);
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_int_equal(procfs_lastpid_parse(bad[i], &pid), -EBADMSG);
	assert_int_equal(pid, 11206);
}

static void children(void **state)
{
	const char *p = "12 345 ", *cut = "12 34", *none = "";
	int32_t pid = 0;

	(void) state;
	assert_true(procfs_child_next(&p, &pid));
	assert_int_equal(pid, 12);
	assert_true(procfs_child_next(&p, &pid));
	assert_int_equal(pid, 345);
	assert_false(procfs_child_next(&p, &pid));
	assert_true(procfs_child_next(&cut, &pid));
	assert_false(procfs_child_next(&cut, &pid));
	assert_string_equal(cut, " 34");
	assert_false(procfs_child_next(&none, &pid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statm),
		cmocka_unit_test(io),
		cmocka_unit_test(rollup),
		cmocka_unit_test(maps),
		cmocka_unit_test(lastpid),
		cmocka_unit_test(children),
	};

	return cmocka_run_group_tests_name("procfs_files", tests, NULL, NULL);
}
