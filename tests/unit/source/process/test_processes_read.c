/* SPDX-License-Identifier: MIT
 *
 * Values of the members: real children whose use is known by construction.
 */
#include "children.h"
#include "tree_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- what the source allocates ------------------------------------------------------------------------------------ */

/* gcc and clang define different macros. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static volatile unsigned allocations;

#ifdef SANITIZED
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
	void (*on_free)(const volatile void *));

static void count_malloc(const volatile void *p, size_t size)
{
	(void) p;
	(void) size;
	allocations++;
}

static void count_free(const volatile void *p)
{
	(void) p;
}

static void count_start(void)
{
	(void) __sanitizer_install_malloc_and_free_hooks(count_malloc, count_free);
}
#else
/* The test's own replace the C library's, also for its own calls. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	allocations++;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	allocations++;
	return __libc_realloc(p, size);
}

static void count_start(void)
{
}
#endif

/* The number of the next descriptor: larger by one for each that was opened and kept. */
static int next_fd(void)
{
	int fd = dup(STDIN_FILENO);

	(void) close(fd);
	return fd;
}

static void just_wait(const struct child *c, void *arg)
{
	(void) arg;
	child_done(c, 0);
	child_wait(c);
}

/* Opening needs a free number: with none left, an open fails and a value is missing. */
static void a_steady_read_allocates_and_opens_nothing(void **state)
{
	static const unsigned what = PROCESSES_MEMORY | PROCESSES_CPU | PROCESSES_IO | PROCESSES_HWM;
	struct child children[3];
	struct rlimit before, none;
	unsigned allocated;
	size_t readings;
	struct bench b;
	int fd;

	(void) state;
	for (size_t i = 0; i < 3; i++) {
		children[i] = child_start(just_wait, NULL);
		(void) child_take(&children[i]);
	}
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, children[0].pid, true, &b.out), 0);
	assert_int_equal(processes_count(b.p), 3);
	assert_int_equal(processes_read(b.p, what, &b.out), 0);
	readings = b.out.n_readings;
	assert_int_equal(readings, 3 * (2 + 8 + 5 + 5));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	fd = next_fd();
	none = (struct rlimit) { .rlim_cur = (rlim_t) fd, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	allocated = allocations;
	for (int i = 0; i < 100; i++) {
		framebuf_clear(&b.out);
		if (processes_read(b.p, what, &b.out) != 0 || b.out.n_readings != readings)
			break;
	}
	allocated = allocations - allocated;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(b.out.n_readings, readings);
	for (size_t k = 0; k < readings; k++)
		assert_true(b.out.readings[k].known);
	assert_int_equal(allocated, 0);
	assert_int_equal(next_fd(), fd);
	/* Checks that allocations are counted. */
	allocated = allocations;
	void *volatile one = malloc(1);

	free(one);
	assert_int_equal(allocations, allocated + 1);
	bench_end(&b);
}

/* ---- above the limit of descriptors ------------------------------------------------------------------------------- */

static void without_descriptors_it_opens_and_closes(void **state)
{
	struct child main = child_start(just_wait, NULL), second = child_start(just_wait, NULL);
	struct rlimit before, few;
	struct bench b;
	int fd;

	(void) state;
	(void) child_take(&main);
	(void) child_take(&second);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit) { .rlim_cur = 64, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	bench_start(&b, NULL, true);
	fd = next_fd();
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(next_fd(), fd);
	assert_int_equal(processes_count(b.p), 2);
	assert_int_equal(
		processes_read(b.p, PROCESSES_MEMORY | PROCESSES_CPU | PROCESSES_IO | PROCESSES_HWM, &b.out),
		0);
	assert_int_equal(b.out.n_readings, 2 * (2 + 8 + 5 + 5));
	/* None at all: unknown once, then nothing, then values again. */
	few.rlim_cur = (rlim_t) fd;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	framebuf_clear(&b.out);
	(void) processes_read(b.p, PROCESSES_MEMORY | PROCESSES_IO, &b.out);
	size_t unknown = b.out.n_readings, ends = b.out.n_ends;
	bool any_known = false;

	for (size_t i = 0; i < unknown; i++)
		any_known |= b.out.readings[i].known;
	framebuf_clear(&b.out);
	(void) processes_read(b.p, PROCESSES_MEMORY | PROCESSES_IO, &b.out);
	size_t silent = b.out.n_readings;

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(unknown, 2 * (2 + 5));
	assert_int_equal(ends, 0);
	assert_false(any_known);
	assert_int_equal(silent, 0);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY, &b.out), 0);
	assert_true(value_in(&b.out, M_PROC_RSS, 1) > 0);
	/* By path, an ended process is recognized too. */
	child_end(&second);
	framebuf_clear(&b.out);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY, &b.out), 0);
	assert_int_equal(b.out.n_ends, 1);
	assert_int_equal(processes_count(b.p), 1);
	bench_end(&b);
}

enum {
	MANY = 300
}; /* more than WIDE_MEMBERS, so that some are read by path, and status takes more than one call */

static void start_sleepers(int n)
{
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				(void) pause();
		}
	}
}

static void many_members(void **state)
{
	struct child main = child_start(just_wait, NULL);
	size_t marked = 0;
	bool seen[MANY + 1] = { false };
	struct bench b;

	(void) state;
	(void) child_take(&main);
	start_sleepers(MANY - 1);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(processes_count(b.p), MANY);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY | PROCESSES_CPU, &b.out), 0);
	for (uint32_t id = 1; id <= MANY; id++) {
		assert_true(value_in(&b.out, M_PROC_RSS, id) > 0);
		assert_int_equal(value_in(&b.out, M_PROC_THREADS, id), 1);
	}
	/* At least a batch a call, and main in each. */
	for (int calls = 0; calls < MANY && marked < MANY; calls++) {
		framebuf_clear(&b.out);
		assert_int_equal(processes_read(b.p, PROCESSES_HWM, &b.out), 0);
		assert_non_null(reading_in(&b.out, M_PROC_HWM, 1));
		for (size_t i = 0; i < b.out.n_readings; i++) {
			uint32_t id = b.out.readings[i].id;

			if (b.out.readings[i].metric == M_PROC_HWM && !seen[id]) {
				seen[id] = true;
				marked++;
			}
		}
	}
	assert_int_equal(marked, MANY);
	bench_end(&b);
}

static void map_a_page(const struct child *c, void *arg)
{
	(void) arg;
	child_done(c, 0);
	for (;;) {
		char *page;

		child_wait(c);
		page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			_exit(1);
		page[0] = 1;
		(void) munmap(page, 4096);
		child_done(c, 0);
	}
}

/* Reads in turns until id had one. Returns whether its status was read in it. */
static bool turn_of(struct bench *b, uint32_t id)
{
	static const unsigned what = PROCESSES_MEMORY | PROCESSES_CPU | PROCESSES_IO | PROCESSES_HWM |
				     PROCESSES_ROTATE;

	for (int calls = 0; calls < MANY; calls++) {
		framebuf_clear(&b->out);
		assert_int_equal(processes_read(b->p, what, &b->out), 0);
		if (reading_in(&b->out, M_PROC_CPU_USER, id))
			return reading_in(&b->out, M_PROC_HWM, id) != NULL;
	}
	fail_msg("%u had no turn", id);
	return false;
}

/* Until id had a turn with its status, or without. */
static void whole_turn(struct bench *b, uint32_t id, bool whole)
{
	for (int turns = 0; turns < 32; turns++) {
		if (turn_of(b, id) == whole)
			return;
	}
	fail_msg("each turn of %u is %s", id, whole ? "short" : "whole");
}

static void idle_members_are_read_rarely(void **state)
{
	enum {
		TURNS = 64, /* of which one in sixteen is whole */
	};
	struct child main = child_start(just_wait, NULL), other = child_start(map_a_page, NULL);
	struct bench b;
	int marks = 0;

	(void) state;
	(void) child_take(&main);
	(void) child_take(&other);
	start_sleepers(MANY - 2);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(processes_count(b.p), MANY);
	const uint32_t id = birth_of(&b.out, other.pid)->id;

	whole_turn(&b, id, true);
	whole_turn(&b, id, false); /* its own activity so far was read */
	for (int turns = 0; turns < TURNS; turns++)
		marks += turn_of(&b, id);
	assert_int_equal(marks, TURNS / 16);
	assert_true(turn_of(&b, 1));
	/* It is no larger than before and used almost no CPU time, but it did something. */
	whole_turn(&b, id, true);
	child_go(&other);
	(void) child_take(&other);
	assert_true(turn_of(&b, id));
	bench_end(&b);
}

/* ---- a few that sleep --------------------------------------------------------------------------------------------- */

static const unsigned often = PROCESSES_MEMORY | PROCESSES_CPU | PROCESSES_ROTATE;

static int64_t read_of(struct bench *b, unsigned group_mask, enum metric metric, uint32_t id)
{
	framebuf_clear(&b->out);
	assert_int_equal(processes_read(b->p, group_mask, &b->out), 0);
	return value_in(&b->out, metric, id);
}

static int64_t read_again(struct bench *b, enum metric metric, uint32_t id)
{
	return read_of(b, often, metric, id);
}

/* A page that it maps and releases changes its faults alone: neither its size nor, most probably, its CPU time in hundredths. */
static void what_slept_is_read_as_soon_as_it_runs(void **state)
{
	struct child main = child_start(map_a_page, NULL);
	struct bench b;
	int64_t before;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	for (int i = 0; i < 12; i++)
		before = read_again(&b, M_PROC_FAULTS_MINOR, 1);
	assert_int_equal(read_again(&b, M_PROC_FAULTS_MINOR, 1), before);
	child_go(&main);
	(void) child_take(&main);
	assert_true(read_again(&b, M_PROC_FAULTS_MINOR, 1) > before);
	bench_end(&b);
}

static void put_sleeper(const struct temp_tree *t, int ticks, int slices, int threads)
{
	char text[512];

	(void) snprintf(text, sizeof(text),
		"70 (a) S 1 70 70 0 -1 4194304 100 0 0 0 %d 0 0 0 20 0 %d 0 500 4096000 100 18446744073709551615 1 2 3 0 0 0 0 0 0 0 0 0 "
		"17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		ticks, threads);
	temp_tree_put(t, "proc/70/stat", text);
	(void) snprintf(text, sizeof(text), "%d 10 %d\n", slices * 1000, slices);
	temp_tree_put(t, "proc/70/schedstat", text);
	temp_tree_put(t, "proc/70/statm", "1000 100 50 1 0 90 0\n");
}

/* Its stat says more than its schedstat allows: only a read of stat would find it. */
static bool is_stat_read(int slices_before, int slices, int threads)
{
	struct temp_tree t;
	struct bench b;
	int64_t before, after;

	temp_tree_new(&t);
	temp_tree_put(&t, "proc/loadavg", "0.00 0.00 0.00 1/1 99\n");
	put_sleeper(&t, 5, slices_before, threads);
	bench_start(&b, t.path, false);
	assert_int_equal(processes_adopt(b.p, 70, true, &b.out), 0);
	for (int i = 0; i < 12; i++)
		before = read_again(&b, M_PROC_CPU_USER, 1);
	put_sleeper(&t, 9, slices, threads);
	after = read_again(&b, M_PROC_CPU_USER, 1);
	bench_end(&b);
	temp_tree_done(&t);
	return after > before;
}

static void stat_of_what_slept_is_not_read(void **state)
{
	(void) state;
	assert_false(is_stat_read(3, 3, 1));
	assert_true(is_stat_read(3, 4, 1));
	assert_true(is_stat_read(3, 3, 2)); /* schedstat is of the first thread alone */
	assert_true(is_stat_read(0, 0, 1)); /* this kernel does not count */
}

/* Other processes and the kernel may change its size. */
static void memory_of_what_slept_is_read_without_the_flag_alone(void **state)
{
	struct temp_tree t;
	struct bench b;

	(void) state;
	temp_tree_new(&t);
	temp_tree_put(&t, "proc/loadavg", "0.00 0.00 0.00 1/1 99\n");
	put_sleeper(&t, 5, 3, 1);
	bench_start(&b, t.path, false);
	assert_int_equal(processes_adopt(b.p, 70, true, &b.out), 0);
	for (int i = 0; i < 12; i++)
		(void) read_again(&b, M_PROC_RSS, 1);
	temp_tree_put(&t, "proc/70/statm", "1000 200 50 1 0 90 0\n");
	assert_int_equal(read_of(&b, often | PROCESSES_REST, M_PROC_RSS, 1), 100 * (int64_t) sysconf(_SC_PAGESIZE));
	assert_int_equal(read_again(&b, M_PROC_RSS, 1), 200 * (int64_t) sysconf(_SC_PAGESIZE));
	bench_end(&b);
	temp_tree_done(&t);
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static void *touched(size_t bytes, int flags)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(1);
	(void) madvise(p, bytes, MADV_NOHUGEPAGE);
	memset(p, 1, bytes);
	return p;
}

static void touch_32_then_burst_64(const struct child *c, void *arg)
{
	(void) arg;
	(void) touched(32 * MIB, MAP_PRIVATE);
	child_done(c, 0);
	child_wait(c);
	(void) munmap(touched(64 * MIB, MAP_PRIVATE), 64 * MIB);
	child_done(c, 0);
	child_wait(c);
	child_done(c, 0);
	child_wait(c);
}

static void a_burst_between_two_reads_is_not_lost(void **state)
{
	static const unsigned what = PROCESSES_MEMORY | PROCESSES_HWM;
	struct child main;
	const struct reading *rss;
	struct bench b;
	int64_t before;

	(void) state;
	bench_start(&b, NULL, true);
	main = child_start(touch_32_then_burst_64, NULL);
	(void) child_take(&main);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(processes_read(b.p, what, &b.out), 0);
	before = value_in(&b.out, M_PROC_RSS, 1);
	assert_true(before >= 32 * MIB);
	child_go(&main);
	(void) child_take(&main);
	framebuf_clear(&b.out);
	assert_int_equal(processes_read(b.p, what, &b.out), 0);
	rss = reading_in(&b.out, M_PROC_RSS, 1);
	assert_true(rss->value < before + 8 * MIB);
	assert_true(rss->max >= 96 * MIB && rss->max < before + 72 * MIB);
	assert_int_equal(rss->min, rss->value);
	assert_true(value_in(&b.out, M_PROC_HWM, 1) >= 96 * MIB);
	/* Reported once. */
	framebuf_clear(&b.out);
	assert_int_equal(processes_read(b.p, what, &b.out), 0);
	rss = reading_in(&b.out, M_PROC_RSS, 1);
	assert_int_equal(rss->max, rss->value);
	/* After a reset the mark is the current size, and the end has the largest. */
	assert_int_equal(processes_reset_hwm(b.p, 1), 0);
	assert_int_equal(processes_reset_hwm(b.p, 99), -ESRCH);
	framebuf_clear(&b.out);
	assert_int_equal(processes_read(b.p, what, &b.out), 0);
	assert_true(value_in(&b.out, M_PROC_HWM, 1) < before + 8 * MIB);
	child_end(&main);
	assert_int_equal(processes_read(b.p, what, &b.out), 0);
	assert_true(end_of(&b.out, 1)->hwm_bytes.value >= 96 * MIB);
	bench_end(&b);
}

static void burst_64_then_16(const struct child *c, void *arg)
{
	(void) arg;
	(void) munmap(touched(64 * MIB, MAP_PRIVATE), 64 * MIB);
	child_done(c, 0);
	child_wait(c);
	(void) munmap(touched(16 * MIB, MAP_PRIVATE), 16 * MIB);
	child_done(c, 0);
	child_wait(c);
}

/* Reset by itself, or by another recorder: the mark then covers the time since the last read,
 * although it is lower than before. */
static void a_mark_that_was_reset_proves_a_burst(void **state)
{
	static const unsigned what = PROCESSES_MEMORY | PROCESSES_HWM;
	struct child main = child_start(burst_64_then_16, NULL);
	const struct reading *rss;
	struct bench b;
	char path[64];
	int fd;

	(void) state;
	bench_start(&b, NULL, true);
	(void) child_take(&main);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(processes_read(b.p, what, &b.out), 0);
	(void) snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int) main.pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, "5", 1), 1);
	(void) close(fd);
	child_go(&main);
	(void) child_take(&main);
	framebuf_clear(&b.out);
	assert_int_equal(processes_read(b.p, what, &b.out), 0);
	rss = reading_in(&b.out, M_PROC_RSS, 1);
	assert_true(rss->max >= rss->value + 15 * MIB && rss->max < rss->value + 40 * MIB);
	child_end(&main);
	bench_end(&b);
}

/* A mark from before the run proves nothing about the run. */
static void an_older_mark_proves_nothing(void **state)
{
	struct child main = child_start(touch_32_then_burst_64, NULL);
	const struct reading *rss;
	struct bench b;

	(void) state;
	(void) child_take(&main);
	child_go(&main);
	(void) child_take(&main);
	/* Start times have the resolution of a clock tick. */
	for (uint64_t from = clock_boot_ns(); clock_boot_ns() < from + 30000000;)
		;
	bench_start(&b, NULL, false);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY | PROCESSES_HWM, &b.out), 0);
	rss = reading_in(&b.out, M_PROC_RSS, 1);
	assert_int_equal(rss->max, rss->value);
	bench_end(&b);
}

static int borrow(void *arg)
{
	(void) arg;
	for (;;)
		(void) pause();
	return 0;
}

static void lend_memory(const struct child *c, void *arg)
{
	char *stack = touched(1 * MIB, MAP_PRIVATE);

	(void) arg;
	child_done(c, clone(borrow, stack + MIB, CLONE_VM | SIGCHLD, NULL));
	child_wait(c);
}

/* A vfork child that is kept waiting: its memory is its parent's and counts there. */
static void shared_vm_counts_once(void **state)
{
	struct child main = child_start(lend_memory, NULL);
	uint32_t id;
	struct bench b;

	(void) state;
	pid_t pid = child_take(&main);

	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	id = processes_id(b.p, pid);
	assert_true(id != 0);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY | PROCESSES_HWM | PROCESSES_CPU, &b.out), 0);
	assert_non_null(reading_in(&b.out, M_PROC_RSS, 1));
	assert_non_null(reading_in(&b.out, M_PROC_CPU_USER, id));
	assert_null(reading_in(&b.out, M_PROC_RSS, id));
	assert_null(reading_in(&b.out, M_PROC_HWM, id));
	bench_end(&b);
	(void) kill(pid, SIGKILL);
}

static void ignore_sigchld(const struct child *c, void *arg)
{
	(void) signal(SIGCHLD, SIG_IGN);
	just_wait(c, arg);
}

static void members_that_ignore_sigchld_are_counted(void **state)
{
	struct child main = child_start(just_wait, NULL), deaf;
	struct bench b;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(processes_unwaited(b.p), 0);
	deaf = child_start(ignore_sigchld, NULL);
	(void) child_take(&deaf);
	assert_int_equal(processes_scan(b.p, SCAN_FULL, &b.out), 1);
	assert_int_equal(processes_read(b.p, PROCESSES_HWM, &b.out), 0);
	assert_int_equal(processes_unwaited(b.p), 1);
	bench_end(&b);
}

static void ignore_and_end(const struct child *c, void *arg)
{
	just_wait(c, arg);
	(void) signal(SIGCHLD, SIG_IGN);
}

/* Between two scans, and ended since. */
static void a_zombie_that_ignored_sigchld_is_counted(void **state)
{
	struct child main = child_start(ignore_and_end, NULL);
	struct end zombie;
	struct bench b;
	bool ignored = false;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(processes_unwaited(b.p), 0);
	child_go(&main);
	zombie_wait(main.pid);
	assert_int_equal(processes_zombie(b.p, main.pid, &zombie, &ignored), 0);
	assert_true(ignored);
	assert_int_equal(processes_unwaited(b.p), 1);
	bench_end(&b);
	child_end(&main);
}

/* Another user's io cannot be read: unknown once, then nothing. */
static void files_without_permission_are_unknown(void **state)
{
	struct child main = child_start(just_wait, NULL);
	struct bench b;
	size_t n[2];

	(void) state;
	(void) child_take(&main);
	if (geteuid() != 0)
		skip();
	assert_int_equal(seteuid(65534), 0);
	bench_start(&b, NULL, true);
	int r = processes_adopt(b.p, main.pid, true, &b.out);

	for (int i = 0; i < 2; i++) {
		framebuf_clear(&b.out);
		r |= processes_read(b.p, PROCESSES_MEMORY | PROCESSES_IO, &b.out);
		n[i] = b.out.n_readings;
		if (i == 0) {
			r |= reading_in(&b.out, M_PROC_READ_BYTES, 1)->known;
			r |= !reading_in(&b.out, M_PROC_RSS, 1)->known;
		}
	}
	r |= (int) b.out.n_ends;
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(r, 0);
	assert_int_equal(n[0], 2 + 5);
	assert_int_equal(n[1], 2);
	bench_end(&b);
}

/* ---- probe -------------------------------------------------------------------------------------------------------- */

static void count_available(void *ctx, const struct source_probe *probe)
{
	unsigned *n = ctx;

	assert_int_equal(metrics[probe->metric].entity, ENTITY_PROCESS);
	assert_true(probe->available == (probe->why_not[0] == '\0'));
	assert_non_null(probe->how);
	n[0]++;
	n[1] += probe->available;
}

static void every_metric_is_probed(void **state)
{
	unsigned n[2] = { 0, 0 }, rows = 0;
	struct bench b;

	(void) state;
	for (size_t i = 0; i < METRIC_COUNT; i++)
		rows += metrics[i].entity == ENTITY_PROCESS;
	bench_start(&b, NULL, true);
	processes_probe(&b.env, count_available, n);
	assert_int_equal(n[0], rows);
	/* Missing in old kernels: hugetlb, io (5), smaps_rollup (3), swap. */
	assert_true(n[1] >= rows - 10);
	bench_end(&b);
}

static int setup(void **state)
{
	(void) state;
	count_start();
	return prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHILDREN_TEST(a_steady_read_allocates_and_opens_nothing),
		CHILDREN_TEST(without_descriptors_it_opens_and_closes),
		CHILDREN_TEST(many_members),
		CHILDREN_TEST(idle_members_are_read_rarely),
		CHILDREN_TEST(what_slept_is_read_as_soon_as_it_runs),
		CHILDREN_TEST(stat_of_what_slept_is_not_read),
		CHILDREN_TEST(memory_of_what_slept_is_read_without_the_flag_alone),
		CHILDREN_TEST(a_burst_between_two_reads_is_not_lost),
		CHILDREN_TEST(a_mark_that_was_reset_proves_a_burst),
		CHILDREN_TEST(an_older_mark_proves_nothing),
		CHILDREN_TEST(shared_vm_counts_once),
		CHILDREN_TEST(members_that_ignore_sigchld_are_counted),
		CHILDREN_TEST(a_zombie_that_ignored_sigchld_is_counted),
		CHILDREN_TEST(files_without_permission_are_unknown),
		CHILDREN_TEST(every_metric_is_probed),
	};

	return cmocka_run_group_tests_name("processes_read", tests, setup, NULL);
}
