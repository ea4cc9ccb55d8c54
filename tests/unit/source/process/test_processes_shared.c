/* SPDX-License-Identifier: MIT
 *
 * Memory shared by processes: PSS passes, files mapped several times. And a captured machine with
 * wrong contents.
 */
#include "children.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

/* Upper bound for the libraries of this program, sanitizers included. */
#define LIBRARIES (48 * MIB)

enum {
	PASSES = 500
}; /* other processes of the machine may fork during one; not during all of them */

static char *mapped(size_t bytes, int flags, int fd)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		_exit(1);
	(void) madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

static void touch(const char *p, size_t bytes)
{
	volatile char sink;

	for (size_t i = 0; i < bytes; i += 4096)
		sink = p[i];
	(void) sink;
}

/* ---- PSS ---------------------------------------------------------------------------------------------------------- */

static void read_and_wait(const struct child *c, void *arg)
{
	touch(arg, 32 * MIB);
	child_done(c, 0);
	child_wait(c);
}

static bool pss_pass(struct bench *b, uint64_t max_bytes)
{
	struct pss_pass pass = { .valid = false };

	for (int i = 0; i < PASSES && !pass.valid; i++) {
		framebuf_clear(&b->out);
		assert_int_equal(processes_pss(b->p, max_bytes, &pass, &b->out), 0);
		assert_true(pass.cost_ns > 0);
		if (max_bytes > 0)
			break;
	}
	return pass.valid;
}

static void a_pss_pass_counts_shared_pages_once(void **state)
{
	char *memory = mapped(32 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct child children[2];
	struct bench b;
	int64_t sum = 0;

	(void) state;
	/* This process is the third that maps these pages. */
	memset(memory, 1, 32 * MIB);
	for (size_t i = 0; i < 2; i++) {
		children[i] = child_start(read_and_wait, memory);
		(void) child_take(&children[i]);
	}
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, children[0].pid, true, &b.out), 0);
	assert_true(pss_pass(&b, 0));
	for (uint32_t id = 1; id <= 2; id++) {
		assert_true(value_in(&b.out, M_PROC_SHARED, id) >= 32 * MIB);
		assert_true(value_in(&b.out, M_PROC_PRIVATE, id) < 16 * MIB);
		sum += value_in(&b.out, M_PROC_PSS, id);
	}
	assert_true(sum >= 2 * 32 * MIB / 3 && sum < 2 * 32 * MIB / 3 + 16 * MIB);
	/* A process that is too large is left out, and the pass is incomplete. */
	assert_false(pss_pass(&b, 16 * MIB));
	assert_null(reading_in(&b.out, M_PROC_PSS, 1));
	/* So does an end in between. */
	(void) kill(children[1].pid, SIGKILL);
	zombie_wait(children[1].pid);
	struct pss_pass pass = { .valid = true };

	assert_int_equal(processes_pss(b.p, 0, &pass, &b.out), 0);
	assert_false(pass.valid);
	assert_int_equal(processes_count(b.p), 1);
	assert_true(pss_pass(&b, 0));
	bench_end(&b);
	(void) munmap(memory, 32 * MIB);
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static void share_and_wait(const struct child *c, void *arg)
{
	touch(arg, 50 * MIB);
	child_done(c, 0);
	child_wait(c);
}

static uint64_t files_of(struct bench *b)
{
	struct files_read files = { 0 };

	/* Twice: state kept between two calls must not matter. */
	assert_int_equal(processes_files(b->p, &files), 0);
	assert_int_equal(processes_files(b->p, &files), 0);
	assert_true(files.cost_ns > 0);
	assert_true(files.estimate_bytes <= files.most_bytes);
	return files.most_bytes;
}

static void one_shared_mapping_counts_once(void **state)
{
	char *memory = mapped(50 * MIB, MAP_SHARED | MAP_ANONYMOUS, -1);
	struct child children[4];
	struct bench b;
	uint64_t bytes;

	(void) state;
	memset(memory, 1, 50 * MIB);
	for (size_t i = 0; i < 4; i++) {
		children[i] = child_start(share_and_wait, memory);
		(void) child_take(&children[i]);
	}
	(void) munmap(memory, 50 * MIB);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, children[0].pid, true, &b.out), 0);
	assert_int_equal(processes_count(b.p), 4);
	bytes = files_of(&b);
	assert_true(bytes >= 50 * MIB && bytes < 50 * MIB + LIBRARIES);
	bench_end(&b);
}

static void map_own_file(const struct child *c, void *arg)
{
	int fd = memfd_create(arg, MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 20 * MIB) < 0)
		_exit(1);
	memset(mapped(20 * MIB, MAP_SHARED, fd), 1, 20 * MIB);
	child_done(c, 0);
	child_wait(c);
}

static void different_files_add_up(void **state)
{
	/* One name: only device and inode distinguish them. */
	static char name[] = "data";
	struct child children[3];
	struct bench b;
	uint64_t bytes;

	(void) state;
	for (size_t i = 0; i < 3; i++) {
		children[i] = child_start(map_own_file, name);
		(void) child_take(&children[i]);
	}
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, children[0].pid, true, &b.out), 0);
	bytes = files_of(&b);
	assert_true(bytes >= 60 * MIB && bytes < 60 * MIB + LIBRARIES);
	bench_end(&b);
}

/* It ended after the sample that its files belong to: without them the result would be too low for
 * that sample. */
static void files_of_a_process_that_just_ended_count(void **state)
{
	static char name[] = "data";
	struct child children[2];
	struct bench b;
	uint64_t bytes = 0;
	struct files_read files = { 0 };

	(void) state;
	for (size_t i = 0; i < 2; i++) {
		children[i] = child_start(map_own_file, name);
		(void) child_take(&children[i]);
	}
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, children[0].pid, true, &b.out), 0);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY, &b.out), 0);
	(void) kill(children[1].pid, SIGKILL);
	zombie_wait(children[1].pid);
	assert_int_equal(processes_files(b.p, &files), 1);
	bytes = files.most_bytes;
	assert_true(bytes >= 40 * MIB && bytes < 40 * MIB + LIBRARIES);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY, &b.out), 0);
	bytes = files_of(&b);
	assert_true(bytes >= 20 * MIB && bytes < 20 * MIB + LIBRARIES);
	bench_end(&b);
}

/* Two halves of one file, and a large file of which little is resident. */
static void map_half(const struct child *c, void *arg)
{
	int fd = *(int *) arg;
	bool second = fd < 0;
	char *p;

	fd = second ? -fd : fd;
	p = mmap(NULL, 20 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, second ? 10 * MIB : 0);
	if (p == MAP_FAILED)
		_exit(1);
	memset(p, 1, 20 * MIB);
	int sparse = memfd_create("sparse", MFD_CLOEXEC);

	if (sparse < 0 || ftruncate(sparse, 1024 * MIB) < 0)
		_exit(1);
	touch(mapped(1024 * MIB, MAP_SHARED, sparse), 1 * MIB);
	child_done(c, 0);
	child_wait(c);
}

static void overlaps_count_once_and_what_is_not_resident_does_not(void **state)
{
	int fd = memfd_create("halves", MFD_CLOEXEC), other = -fd;
	struct child children[2];
	struct bench b;
	uint64_t bytes;

	(void) state;
	assert_int_equal(ftruncate(fd, 30 * MIB), 0);
	children[0] = child_start(map_half, &fd);
	children[1] = child_start(map_half, &other);
	for (size_t i = 0; i < 2; i++)
		(void) child_take(&children[i]);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, children[0].pid, true, &b.out), 0);
	bytes = files_of(&b);
	/* 30 MiB are distinct; each process's rss_file has 20 of them, 1 of its own, and libraries. */
	assert_true(bytes >= 32 * MIB && bytes < 42 * MIB + 2 * LIBRARIES);
	bench_end(&b);
	(void) close(fd);
}

/* Many pieces of one file: the sum including the gaps is at most the size of the mappings. */
static void map_pieces(const struct child *c, void *arg)
{
	int fd = memfd_create("pieces", MFD_CLOEXEC);

	(void) arg;
	if (fd < 0 || ftruncate(fd, 40 * MIB) < 0)
		_exit(1);
	for (off_t at = 0; at < 40 * MIB; at += MIB / 4) {
		char *p = mmap(NULL, MIB / 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (at * 7) % (40 * MIB));

		if (p == MAP_FAILED)
			_exit(1);
		memset(p, 1, MIB / 8);
	}
	child_done(c, 0);
	child_wait(c);
}

static void many_pieces_of_one_file(void **state)
{
	struct child main = child_start(map_pieces, NULL);
	struct bench b;
	uint64_t bytes;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	bytes = files_of(&b);
	assert_true(bytes >= 20 * MIB && bytes < 40 * MIB + LIBRARIES);
	bench_end(&b);
}

/* ---- a captured machine ------------------------------------------------------------------------------------------- */

static bool unknown_in(const struct framebuf *out, enum metric metric, uint32_t id)
{
	const struct reading *r = reading_in(out, metric, id);

	return r && !r->known;
}

static void a_hostile_proc(void **state)
{
	struct files_read files = { 0 };
	const char *why;
	struct pss_pass pass = { .valid = true };
	struct bench b;

	(void) state;
	bench_start(&b, TESTS_DIR "/trees/hostile-proc", false);
	assert_false(processes_gate_works(b.p, &why));
	assert_int_equal(processes_adopt(b.p, 4, true, &b.out), -ESRCH);
	assert_int_equal(processes_adopt(b.p, 101, true, &b.out), -EBADMSG);
	assert_int_equal(processes_adopt(b.p, 104, true, &b.out), -ESRCH);
	assert_int_equal(processes_adopt(b.p, 100, true, &b.out), 0);
	/* 101's stat is cut, 104 is a thread, 107 has no stat; 108 is 103's, which only a scan of
	 * /proc shows. */
	assert_int_equal(processes_count(b.p), 6);
	assert_string_equal(birth_of(&b.out, 100)->process.name, "x) R 1 (\n)");
	assert_string_equal(birth_of(&b.out, 100)->process.command, "/bin/x --password *** ?[31m");
	assert_int_equal(birth_of(&b.out, 100)->process.uid, 1000);
	assert_string_equal(birth_of(&b.out, 106)->process.name, "\xff\xfe");
	assert_int_equal(birth_of(&b.out, 108)->process.parent, processes_id(b.p, 103));
	uint32_t cut_statm = processes_id(b.p, 102), cut_status = processes_id(b.p, 103),
		 huge = processes_id(b.p, 106), zombie = processes_id(b.p, 105);

	framebuf_clear(&b.out);
	assert_int_equal(
		processes_read(b.p, PROCESSES_MEMORY | PROCESSES_CPU | PROCESSES_IO | PROCESSES_HWM, &b.out),
		0);
	assert_int_equal(value_in(&b.out, M_PROC_RSS, 1), 512 * sysconf(_SC_PAGESIZE));
	assert_int_equal(value_in(&b.out, M_PROC_WRITE_BYTES, 1), 8192);
	assert_int_equal(value_in(&b.out, M_PROC_WRITE_CANCELLED, 1), 9000);
	assert_int_equal(value_in(&b.out, M_PROC_HWM, 1), 4096 * 1024);
	assert_int_equal(value_in(&b.out, M_PROC_FAULTS_MINOR, 1), 10);
	assert_true(unknown_in(&b.out, M_PROC_RSS, cut_statm));
	assert_true(unknown_in(&b.out, M_PROC_READ_BYTES, cut_statm));
	assert_true(unknown_in(&b.out, M_PROC_HWM, cut_status));
	assert_true(unknown_in(&b.out, M_PROC_READ_CHARS, cut_status));
	assert_int_equal(value_in(&b.out, M_PROC_RSS, cut_status), 512 * sysconf(_SC_PAGESIZE));
	assert_true(unknown_in(&b.out, M_PROC_RSS, huge));
	assert_true(unknown_in(&b.out, M_PROC_THREADS, huge));
	assert_true(unknown_in(&b.out, M_PROC_HWM, huge));
	assert_non_null(end_of(&b.out, zombie));
	assert_int_equal(b.out.n_ends, 1);
	assert_int_equal(b.out.n_events, 0);
	/* Unknown was reported. */
	framebuf_clear(&b.out);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY | PROCESSES_IO | PROCESSES_HWM, &b.out), 0);
	for (size_t i = 0; i < b.out.n_readings; i++)
		assert_true(b.out.readings[i].known);
	assert_int_equal(processes_pss(b.p, 0, &pass, &b.out), 0);
	assert_false(pass.valid);
	assert_int_equal(value_in(&b.out, M_PROC_PSS, 1), 1024 * 1024);
	assert_int_equal(processes_files(b.p, &files), 0);
	assert_true(files.most_bytes >= 2 * 4096);
	assert_int_equal(processes_reset_hwm(b.p, 1), -EROFS);
	bench_end(&b);
}

static int setup(void **state)
{
	(void) state;
	return prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHILDREN_TEST(a_pss_pass_counts_shared_pages_once),
		CHILDREN_TEST(one_shared_mapping_counts_once),
		CHILDREN_TEST(different_files_add_up),
		CHILDREN_TEST(files_of_a_process_that_just_ended_count),
		CHILDREN_TEST(overlaps_count_once_and_what_is_not_resident_does_not),
		CHILDREN_TEST(many_pieces_of_one_file),
		CHILDREN_TEST(a_hostile_proc),
	};

	return cmocka_run_group_tests_name("processes_shared", tests, setup, NULL);
}
