/* SPDX-License-Identifier: MIT
 *
 * Names of places: by this program's own symbols, and by perf maps of this process, good and bad.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "where/module.h"
#include "where/names.h"
#include "where/unwind.h"

static char path[64];
static struct names *names;

static int set_up(void **state)
{
	(void) state;
	(void) snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int) getpid());
	(void) unlink(path);
	names = names_new();
	assert_non_null(names);
	return 0;
}

static int tear_down(void **state)
{
	(void) state;
	names_free(names);
	(void) unlink(path);
	return 0;
}

static void write_map(const char *text)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t) strlen(text));
	assert_int_equal(close(fd), 0);
	names_free(names); /* it has read the last one */
	names = names_new();
}

static void assert_place(uint64_t address, const char *function, const char *file)
{
	struct place_name name;

	assert_int_equal(names_of_map(names, getpid(), address, &name), function != NULL);
	assert_string_equal(name.function, function ? function : "");
	assert_string_equal(name.file, file);
	assert_int_equal(name.line, 0);
}

/* ---- perf maps ------------------------------------------------------------------------------- */

static void a_map_names_addresses(void **state)
{
	(void) state;
	write_map("2000 10 second one\n1000 20 py::load:/home/me/a b.py\n3000 8 py::<lambda>:<string>\n"
		  "4000 8 py::f:x:/y:/z.py\n5000 8 py::no_file\n6000 8 py::\n7000 8 Lcom/x/Y;::z\n");
	assert_place(0x1000, "load", "/home/me/a b.py");
	assert_place(0x101f, "load", "/home/me/a b.py");
	assert_place(0x1020, NULL, "");
	assert_place(0xfff, NULL, "");
	assert_place(0, NULL, "");
	assert_place(0x200f, "second one", "");
	assert_place(0x3000, "<lambda>", "<string>");
	assert_place(0x4000, "f:x", "/y:/z.py");
	assert_place(0x5000, "no_file", "");
	assert_place(0x6000, "", "");
	assert_place(0x7000, "Lcom/x/Y;::z", "");
	assert_place(UINT64_MAX, NULL, "");
}

/* A program that uses an address again writes another line: the last one is right. */
static void the_last_line_of_an_address_wins(void **state)
{
	static char text[1 << 17];
	size_t n = 0;

	(void) state;
	for (int i = 0; i < 2000; i++)
		n += (size_t) snprintf(text + n, sizeof(text) - n, "%x 10 old %d\n", 0x1000 + i % 7 * 0x100, i);
	for (int i = 0; i < 7; i++)
		n += (size_t) snprintf(text + n, sizeof(text) - n, "%x 10 new\n", 0x1000 + i * 0x100);
	write_map(text);
	for (unsigned i = 0; i < 7; i++)
		assert_place(0x1000 + i * 0x100, "new", "");
}

static void broken_lines_are_left_out(void **state)
{
	(void) state;
	write_map("\n\n \nzz\n1000\n1000 \n1000 10\n1000 10 \n1000  x\n1000 x y\nx 10 f\n1000\t10\tf\n"
		  "2000 ffffffffffffffff all\nffffffffffffffffffffffff 10 far\n9000 0 empty\n"
		  "8000 10 last without an end");
	assert_place(0x1000, NULL, "");
	assert_place(0x1fff, NULL, "");
	assert_place(0x2001, "all", "");
	assert_place(0x8005, "last without an end", "");
	assert_place(0x9000, NULL, "");
	write_map("");
	assert_place(0x1000, NULL, "");
	write_map("-1 10 below\n1000 -1 wide\n 2000 10 space\n0x3000 10 prefix\n");
	assert_place(UINT64_MAX, NULL, "");
	assert_place(0x1001, NULL, "");
	assert_place(0x2000, NULL, "");
}

static void a_long_name_is_cut(void **state)
{
	static char text[10000];
	struct place_name name;

	(void) state;
	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "1000 10 ", 8);
	write_map(text);
	assert_true(names_of_map(names, getpid(), 0x1000, &name));
	assert_int_equal(strlen(name.function), NAME_BYTES - 1);
	memcpy(text, "1000 10 py::", 12);
	memcpy(text + 5000, ":/", 2);
	write_map(text);
	assert_true(names_of_map(names, getpid(), 0x1000, &name));
	assert_int_equal(strlen(name.function), NAME_BYTES - 1);
	assert_int_equal(strlen(name.file), NAME_BYTES - 1);
}

/* 64 MiB of it are read, no more; a sparse file has NULs, which are no lines. */
static void a_large_map_is_read_in_part(void **state)
{
	int fd;

	(void) state;
	write_map("1000 10 first\n");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "\n2000 10 second\n", 16, (32 << 20)), 16);
	assert_int_equal(pwrite(fd, "\n3000 10 third\n", 15, (65 << 20)), 15);
	assert_int_equal(close(fd), 0);
	assert_place(0x1000, "first", "");
	assert_place(0x3000, NULL, "");
}

static void only_a_regular_file_is_read(void **state)
{
	static const char other[] = "/tmp/hiwater-perf-map-elsewhere";
	FILE *file = fopen(other, "we");

	(void) state;
	assert_non_null(file);
	assert_true(fputs("1000 10 linked\n", file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_place(0x1000, NULL, "");
	names_remove_map(getpid(), 0);
	assert_int_equal(access(path, F_OK), 0); /* nor removed */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(other), 0);
	names_free(names);
	names = names_new();
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_place(0x1000, NULL, "");
	assert_int_equal(unlink(path), 0);
	names_free(names);
	names = names_new();
	assert_int_equal(mkdir(path, 0700), 0);
	assert_place(0x1000, NULL, "");
	assert_int_equal(rmdir(path), 0);
}

static void another_users_map_is_not_read(void **state)
{
	(void) state;
	if (geteuid() != 0) {
		print_message("not root: cannot give a file to another user\n");
		skip();
	}
	write_map("1000 10 forged\n");
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_place(0x1000, NULL, "");
	names_remove_map(getpid(), 0);
	assert_int_equal(access(path, F_OK), 0);
}

static void ones_own_map_is_removed(void **state)
{
	static const char *const others[] = { "1000 10 f\n", "1000 10 f py::\n", "py::" };
	struct stat st;

	(void) state;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		write_map(others[i]);
		assert_int_equal(stat(path, &st), 0);
		names_remove_map(getpid(), st.st_mtime); /* not written by Python */
		assert_int_equal(access(path, F_OK), 0);
	}
	write_map("1000 10 py::f:/x.py\n");
	assert_int_equal(stat(path, &st), 0);
	names_remove_map(getpid(), st.st_mtime + 1); /* an older one, of another program with this pid */
	assert_int_equal(access(path, F_OK), 0);
	names_remove_map(getpid(), st.st_mtime);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* The maps of so many processes are kept; further ones have no names. */
static void maps_of_many_processes(void **state)
{
	struct place_name name;

	(void) state;
	write_map("1000 10 f\n");
	for (pid_t pid = 1 << 23; pid < (1 << 23) + 200; pid++)
		assert_false(names_of_map(names, pid, 0x1000, &name));
	assert_false(names_of_map(names, getpid(), 0x1000, &name));
}

/* ---- modules --------------------------------------------------------------------------------- */

int names_of_this_function(void);

__attribute__((noinline)) int names_of_this_function(void)
{
	return __LINE__;
}

static void this_programs_functions_have_names(void **state)
{
	struct module m = { .number = 1 };
	struct place_name name;
	char self[4096] = "";
	uint64_t load = 0;
	char line[5000];
	int fd;
	FILE *maps;

	(void) state;
	if (!unwind_has_library()) {
		print_message("no libdw here\n");
		skip();
	}
	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	m.path = self;
	fd = open(self, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && module_read(fd, &m));
	assert_int_equal(close(fd), 0);
	maps = fopen("/proc/self/maps", "re");
	assert_non_null(maps);
	while (load == 0 && fgets(line, sizeof(line), maps)) {
		if (strstr(line, self))
			load = strtoull(line, NULL, 16);
	}
	assert_int_equal(fclose(maps), 0);
	assert_true(load > 0);
	load -= m.first_address;
	names_of(names, &m, (uint64_t) (uintptr_t) names_of_this_function - load, &name);
	assert_string_equal(name.function, "names_of_this_function");
	if (name.line > 0) { /* with debug information */
		assert_non_null(strstr(name.file, "test_names.c"));
		assert_in_range(name.line, names_of_this_function() - 3, names_of_this_function() + 1);
	}
	names_of(names, &m, UINT64_MAX, &name);
	assert_string_equal(name.function, "");
	/* One that was replaced since has none. */
	struct module other = m;

	(void) strcpy(other.build_id, "00");
	names_of(names, &other, (uint64_t) (uintptr_t) names_of_this_function - load, &name);
	assert_string_equal(name.function, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_map_names_addresses),
		TEST(the_last_line_of_an_address_wins),
		TEST(broken_lines_are_left_out),
		TEST(a_long_name_is_cut),
		TEST(a_large_map_is_read_in_part),
		TEST(only_a_regular_file_is_read),
		TEST(another_users_map_is_not_read),
		TEST(ones_own_map_is_removed),
		TEST(maps_of_many_processes),
		TEST(this_programs_functions_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
