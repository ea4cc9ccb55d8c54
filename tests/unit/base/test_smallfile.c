/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/root.h"
#include "base/smallfile.h"

/* A machine in a folder: process files, no sysfs. */
struct machine {
	char path[64];
	struct root root;
};

static void put_file(const struct machine *m, const char *name, const char *bytes, size_t size)
{
	int fd = openat(m->root.proc, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	assert_int_equal(close(fd), 0);
}

static int setup(void **state)
{
	struct machine *m = calloc(1, sizeof(*m));
	char name[128];

	*state = m;
	snprintf(m->path, sizeof(m->path), "/tmp/test_smallfile_XXXXXX");
	if (!mkdtemp(m->path))
		return -1;
	snprintf(name, sizeof(name), "%s/proc", m->path);
	return mkdir(name, 0700) || root_open(m->path, &m->root, NULL) ? -1 : 0;
}

static int teardown(void **state)
{
	static const char *const names[] = { "file", "knob", "empty" };
	struct machine *m = *state;
	char name[128];

	for (size_t i = 0; i < 3; i++)
		(void) unlinkat(m->root.proc, names[i], 0);
	snprintf(name, sizeof(name), "%s/proc", m->path);
	(void) rmdir(name);
	(void) rmdir(m->path);
	root_done(&m->root);
	free(m);
	return 0;
}

static void test_a_folder_is_a_machine(void **state)
{
	const struct machine *m = *state;

	assert_false(m->root.live);
	assert_true(m->root.top > STDERR_FILENO);
	assert_true(m->root.proc > STDERR_FILENO);
	assert_int_equal(m->root.sys, -1);
	assert_int_equal(fcntl(m->root.proc, F_GETFD), FD_CLOEXEC);
}

static void test_this_machine(void **state)
{
	static const char *const names[] = { "/", NULL };

	(void) state;
	for (int i = 0; i < 2; i++) {
		struct root root;
		char buf[4096];
		uint64_t pid = 0;

		assert_int_equal(root_open(names[i], &root, NULL), 0);
		assert_true(root.live);
		assert_true(smallfile_read(root.proc, "self/status", buf, sizeof(buf)) > 0);
		assert_int_equal(parse_key(buf, "Pid", &pid), 0);
		assert_int_equal(pid, getpid());
		root_done(&root);
		assert_int_equal(root.top, -1);
		root_done(&root);
	}
}

static void test_no_machine(void **state)
{
	struct root root, zero = { 0 };
	struct err err = { "" };

	(void) state;
	memset(&root, 7, sizeof(root));
	assert_int_equal(root_open("/tmp/no/such/folder", &root, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/tmp/no/such/folder"));
	assert_int_equal(root.top, 0x07070707);
	/* An all-zero struct must not close descriptor 0. */
	int flags = fcntl(0, F_GETFD);

	root_done(&zero);
	assert_int_equal(fcntl(0, F_GETFD), flags);
}

/* With stdin, stdout and stderr closed, the descriptors must not become 0, 1 or 2. */
static void test_no_standard_descriptors(void **state)
{
	int kept = fcntl(0, F_DUPFD_CLOEXEC, 10);
	struct root root;

	(void) state;
	assert_true(kept >= 10);
	assert_int_equal(close(0), 0);
	int code = root_open("/", &root, NULL);
	int lowest = root.proc < root.top ? root.proc : root.top;

	assert_int_equal(dup2(kept, 0), 0);
	assert_int_equal(close(kept), 0);
	assert_int_equal(code, 0);
	assert_true(lowest > STDERR_FILENO);
	root_done(&root);
}

static void test_it_fits_or_is_cut_at_a_line(void **state)
{
	static const struct {
		const char *content;
		size_t size;
		const char *read;
	} cases[] = {
		{ "", 10, "" },
		{ "12345", 10, "12345" },
		{ "123456789", 10, "123456789" },  /* fits exactly */
		{ "1234567890", 10, "123456789" }, /* no whole line */
		{ "a 1\nb 2\n", 9, "a 1\nb 2\n" },
		{ "a 1\nb 2\n", 8, "a 1\n" },
		{ "a 1\nb 2\nc", 9, "a 1\nb 2\n" },
		{ "a 1\nb 2", 8, "a 1\nb 2" },     /* the last line has no end, but is whole */
		{ "a", 1, "" },
	};
	const struct machine *m = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char buf[64];
		ssize_t n;

		memset(buf, 'x', sizeof(buf));
		put_file(m, "file", cases[i].content, strlen(cases[i].content));
		n = smallfile_read(m->root.proc, "file", buf, cases[i].size);
		assert_int_equal(n, strlen(cases[i].read));
		assert_string_equal(buf, cases[i].read);
		assert_int_equal(buf[cases[i].size], 'x');
	}
}

static void test_nuls_are_kept(void **state)
{
	const struct machine *m = *state;
	char buf[64];

	put_file(m, "file", "python\0-c\0", 10);
	assert_int_equal(smallfile_read(m->root.proc, "file", buf, sizeof(buf)), 10);
	assert_memory_equal(buf, "python\0-c\0", 11);
}

static void test_a_kept_descriptor_reads_from_the_start(void **state)
{
	const struct machine *m = *state;
	char buf[64];

	put_file(m, "file", "one", 3);
	autoclose int fd = smallfile_open(m->root.proc, "file");

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(smallfile_pread(fd, buf, sizeof(buf)), 3);
	assert_int_equal(smallfile_pread(fd, buf, sizeof(buf)), 3);
	assert_string_equal(buf, "one");
	assert_int_equal(smallfile_pread(fd, buf, 0), -EINVAL);
}

/* The kernel returns a long list page by page: all of it must be read. */
static void test_a_list_of_many_pages(void **state)
{
	enum {
		PAGES = 600
	};
	static char buf[1 << 20];
	size_t page = (size_t) sysconf(_SC_PAGESIZE), lines = 0;
	char *area = mmap(NULL, PAGES * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct root root;

	(void) state;
	assert_ptr_not_equal(area, MAP_FAILED);
	for (size_t i = 0; i < PAGES; i += 2)
		assert_int_equal(mprotect(area + i * page, page, PROT_NONE), 0);
	assert_int_equal(root_open(NULL, &root, NULL), 0);
	ssize_t n = smallfile_read(root.proc, "self/maps", buf, sizeof(buf));

	root_done(&root);
	assert_true(n > 4096 && n < (ssize_t) sizeof(buf) - 1);
	for (const char *p = buf; *p; lines++) {
		uint64_t from, to;
		bool is_ours;

		assert_int_equal(parse_hex(&p, &from), 0);
		assert_true(parse_word(&p, "-"));
		assert_int_equal(parse_hex(&p, &to), 0);
		is_ours = from >= (uintptr_t) area && to <= (uintptr_t) area + PAGES * page;
		assert_true(!is_ours || to - from == page);
		lines -= !is_ours;
		parse_line(&p);
	}
	assert_int_equal(lines, PAGES);
	assert_int_equal(munmap(area, PAGES * page), 0);
}

static void test_what_cannot_be_read(void **state)
{
	const struct machine *m = *state;
	char buf[8];

	assert_int_equal(smallfile_read(m->root.proc, "nothing", buf, sizeof(buf)), -ENOENT);
	assert_int_equal(smallfile_open(m->root.proc, "nothing"), -ENOENT);
	assert_int_equal(smallfile_read(m->root.top, "proc", buf, sizeof(buf)), -EISDIR);
	assert_int_equal(smallfile_pread(-1, buf, sizeof(buf)), -EBADF);
}

static void test_knobs(void **state)
{
	const struct machine *m = *state;
	char buf[32];

	assert_int_equal(
		smallfile_write(m->root.proc, "knob", "5"), -ENOENT); /* nothing is created */
	put_file(m, "knob", "something longer", 16);
	assert_int_equal(smallfile_write(m->root.proc, "knob", "5\n"), 0);
	assert_int_equal(smallfile_read(m->root.proc, "knob", buf, sizeof(buf)), 2);
	assert_string_equal(buf, "5\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_folder_is_a_machine, setup, teardown),
		cmocka_unit_test(test_this_machine),
		cmocka_unit_test(test_no_machine),
		cmocka_unit_test(test_no_standard_descriptors),
		cmocka_unit_test_setup_teardown(test_it_fits_or_is_cut_at_a_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nuls_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_a_kept_descriptor_reads_from_the_start, setup, teardown),
		cmocka_unit_test(test_a_list_of_many_pages),
		cmocka_unit_test_setup_teardown(test_what_cannot_be_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_knobs, setup, teardown),
	};

	return cmocka_run_group_tests_name("smallfile", tests, NULL, NULL);
}
