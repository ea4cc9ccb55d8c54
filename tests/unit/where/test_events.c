/* SPDX-License-Identifier: MIT
 *
 * Samples of page faults from the kernel: of a child that waits until its events are open and then touches memory; and
 * what is said where the kernel does not allow them. It allows them to few containers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "where/events.h"

enum {
	PERIOD = 64,
	STACK = 4096,
	FAULTS = 16384,
	PAGE_SIZE_BYTES = 4096,
	STEP_MS = 20,
	WAIT_S = 60, /* for what comes in milliseconds */
};

/* ---- perf_event_open ------------------------------------------------------------------------- */

static int fail_all, fail_kernel; /* with this errno: every call; those that count the kernel's faults */
static int off_cpu = -1;          /* a CPU that is off */
static bool has_no_room;          /* for rings beyond 16 pages */

long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);

long __wrap_syscall(long number, ...)
{
	long a[5];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 5; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_perf_event_open) {
		const struct perf_event_attr *const attr = (const struct perf_event_attr *) a[0];
		const int error = fail_all ? fail_all : !attr->exclude_kernel ? fail_kernel
									      : 0;

		if (error || (int) a[2] == off_cpu) {
			errno = error ? error : ENODEV;
			return -1;
		}
	}
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4]);
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (has_no_room && fd >= 0 && bytes > 17 * PAGE_SIZE_BYTES) {
		errno = EPERM;
		return MAP_FAILED;
	}
	return __real_mmap(address, bytes, protection, flags, fd, offset);
}

/* What mmap is called by: with offsets of 64 bits. */
void *__wrap_mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return __wrap_mmap(address, bytes, protection, flags, fd, offset);
}

/* ---- children -------------------------------------------------------------------------------- */

struct child {
	pid_t pid;
	int go, done;      /* pipes: begin; it has touched its memory */
	char *memory;      /* shared addresses, private pages */
};

static struct rig {
	struct events *events;
	struct err err;
	struct child child;
	unsigned kinds[RECORD_LOST + 1];
	uint64_t lost, last_ns;
	unsigned strays; /* samples outside the child's memory */
} rig;

static int set_up(void **state)
{
	(void) state;
	memset(&rig, 0, sizeof(rig));
	fail_all = fail_kernel = 0;
	off_cpu = -1;
	has_no_room = false;
	return 0;
}

static void child_end(struct child *c)
{
	if (c->pid <= 0)
		return;
	(void) close(c->go);
	(void) close(c->done);
	assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
	(void) munmap(c->memory, (size_t) FAULTS * PAGE_SIZE_BYTES);
	c->pid = 0;
}

static int tear_down(void **state)
{
	(void) state;
	events_free(rig.events);
	child_end(&rig.child);
	return 0;
}

/* Without the faults of a sanitizer's own memory. */
__attribute__((no_sanitize("address", "undefined"))) static void touch(volatile char *memory)
{
	for (size_t i = 0; i < FAULTS; i++)
		memory[i * PAGE_SIZE_BYTES] = 1;
}

/* A child on one CPU; each byte that it reads lets it touch all its memory anew. It ends when the pipe does. */
static void child_new(struct child *c)
{
	int go[2], done[2];
	char byte;

	c->memory = mmap(NULL, (size_t) FAULTS * PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(c->memory != MAP_FAILED);
	assert_int_equal(madvise(c->memory, (size_t) FAULTS * PAGE_SIZE_BYTES, MADV_NOHUGEPAGE), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(done, O_CLOEXEC), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0) {
		cpu_set_t one, all;

		(void) close(go[1]);
		(void) close(done[0]);
		if (rig.child.go > 0 && c != &rig.child)
			(void) close(rig.child.go); /* else the first does not see its end */
		/* Faults of one CPU are counted by one event. */
		CPU_ZERO(&one);
		(void) sched_getaffinity(0, sizeof(all), &all);
		for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
			if (CPU_ISSET(i, &all))
				CPU_SET(i, &one);
		}
		(void) sched_setaffinity(0, sizeof(one), &one);
		while (read(go[0], &byte, 1) == 1) {
			(void) madvise(c->memory, (size_t) FAULTS * PAGE_SIZE_BYTES, MADV_DONTNEED);
			touch(c->memory);
			(void) !write(done[1], &byte, 1);
		}
		_exit(0);
	}
	(void) close(go[0]);
	(void) close(done[1]);
	c->go = go[1];
	c->done = done[0];
}

static void child_touch(const struct child *c)
{
	char byte = 0;

	assert_int_equal(write(c->go, &byte, 1), 1);
	assert_int_equal(read(c->done, &byte, 1), 1);
}

static int open_events(pid_t pid)
{
	const struct events_options options = { .period = PERIOD, .stack_bytes = STACK };

	return events_open(pid, &options, &rig.events, &rig.err);
}

/* Skips where the kernel, or a container's profile, does not allow it. */
static void begin(void)
{
	int r;

	child_new(&rig.child);
	r = open_events(rig.child.pid);
	if (r == -EPERM || r == -EACCES || r == -ENOSYS || r == -ENOENT || r == -EOPNOTSUPP) {
		print_message("page faults cannot be sampled here: %s\n", rig.err.text);
		child_end(&rig.child);
		skip();
	}
	assert_int_equal(r, 0);
}

static void start(void)
{
	assert_int_equal(events_start(rig.events, &rig.err), 0);
}

static void see(const struct record *r)
{
	rig.kinds[r->kind]++;
	assert_true(r->time_ns >= rig.last_ns); /* in the order of time */
	rig.last_ns = r->time_ns;
	if (r->kind == RECORD_LOST)
		rig.lost += r->lost;
	if (r->kind != RECORD_SAMPLE)
		return;
	rig.strays += r->sample.address < (uint64_t) (uintptr_t) rig.child.memory ||
		      r->sample.address >= (uint64_t) (uintptr_t) rig.child.memory + (uint64_t) FAULTS * PAGE_SIZE_BYTES;
	assert_true(r->sample.stack_bytes <= STACK && r->sample.asked_bytes == STACK);
	assert_true(r->sample.stack_bytes > 0 && r->sample.has_registers);
}

/* Until the events say that it is over, or there are so many samples. */
static bool fetch(unsigned samples)
{
	const uint64_t until = clock_awake_ns() + WAIT_S * UINT64_C(1000000000);
	bool goes_on = true;

	while (goes_on && rig.kinds[RECORD_SAMPLE] < samples) {
		struct record **list;
		size_t n;

		assert_true(clock_awake_ns() < until);
		goes_on = events_next(rig.events, STEP_MS, &list, &n);
		for (size_t i = 0; i < n; i++) {
			see(list[i]);
			free(list[i]);
		}
	}
	return goes_on;
}

/* ---- samples --------------------------------------------------------------------------------- */

static void every_64th_fault_is_a_sample(void **state)
{
	(void) state;
	begin();
	start();
	for (int i = 0; i < 4; i++)
		child_touch(&rig.child);
	child_end(&rig.child);
	assert_false(fetch(UINT32_MAX));
	assert_int_equal(rig.lost, 0);
	assert_in_range(rig.kinds[RECORD_SAMPLE], 4 * FAULTS / PERIOD * 98 / 100, 4 * FAULTS / PERIOD * 102 / 100);
	assert_in_range(rig.strays, 0, 4 * FAULTS / PERIOD * 2 / 100);
	assert_int_equal(rig.kinds[RECORD_EXIT], 1);
}

/* Nothing of the recorder's is sampled, nor is the child before. */
static void nothing_comes_before_it(void **state)
{
	struct record **list;
	size_t n;

	(void) state;
	begin();
	child_touch(&rig.child);
	start();
	for (int i = 0; i < 3; i++) {
		assert_true(events_next(rig.events, 0, &list, &n));
		for (size_t k = 0; k < n; k++) {
			assert_int_not_equal(list[k]->kind, RECORD_SAMPLE);
			free(list[k]);
		}
	}
	child_touch(&rig.child);
	events_flush(rig.events);
	(void) fetch(FAULTS / PERIOD * 98 / 100);
	child_end(&rig.child);
	assert_false(fetch(UINT32_MAX));
	assert_in_range(rig.kinds[RECORD_SAMPLE], FAULTS / PERIOD * 98 / 100, FAULTS / PERIOD * 102 / 100);
}

/* A program that is executed, its mappings and its name. */
static void an_exec_is_seen(void **state)
{
	const struct events_options options = { .period = 8, .stack_bytes = STACK, .from_exec = true };
	unsigned execs = 0, maps = 0;
	int go[2];
	pid_t pid;
	bool goes_on = true;
	const uint64_t until = clock_awake_ns() + WAIT_S * UINT64_C(1000000000);

	(void) state;
	begin();
	events_free(rig.events);
	rig.events = NULL;
	child_end(&rig.child);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		char byte;

		(void) close(go[1]);
		(void) !read(go[0], &byte, 1);
		(void) execl("/bin/sh", "sh", "-c", "/bin/true; exit 0", (char *) NULL);
		_exit(1);
	}
	(void) close(go[0]);
	assert_int_equal(events_open(pid, &options, &rig.events, &rig.err), 0);
	start();
	(void) close(go[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	while (goes_on) {
		struct record **list;
		size_t n;

		assert_true(clock_awake_ns() < until);
		goes_on = events_next(rig.events, STEP_MS, &list, &n);
		for (size_t i = 0; i < n; i++) {
			execs += list[i]->kind == RECORD_NAME && list[i]->name.is_exec;
			maps += list[i]->kind == RECORD_MAP && list[i]->map.path[0] == '/' && list[i]->map.inode > 0;
			assert_true(list[i]->kind == RECORD_LOST || list[i]->pid >= pid);
			rig.kinds[list[i]->kind]++;
			free(list[i]);
		}
	}
	assert_in_range(execs, 1, 2);
	assert_true(maps > 0 && rig.kinds[RECORD_SAMPLE] > 0 && rig.kinds[RECORD_EXIT] > 0);
}

/* A ring that is not copied out is full; the kernel says how many it dropped. */
static void what_is_lost_is_counted(void **state)
{
	(void) state;
	begin();
	has_no_room = true;
	events_free(rig.events);
	rig.events = NULL;
	assert_int_equal(open_events(rig.child.pid), 0);
	assert_int_equal(events_ring_pages(rig.events), 16);
	/* Nobody copies: they are enabled as events_start does. */
	for (int fd = 3; fd < 64; fd++)
		(void) ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	child_touch(&rig.child);
	start();
	child_touch(&rig.child);
	child_end(&rig.child);
	assert_false(fetch(UINT32_MAX));
	assert_true(rig.lost > 0);
	assert_in_range(rig.kinds[RECORD_SAMPLE] + rig.lost, 2 * FAULTS / PERIOD * 97 / 100,
		2 * FAULTS / PERIOD * 103 / 100);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* When all has ended rings are readable without end: no CPU is used for it. */
static void an_ended_job_is_not_polled(void **state)
{
	const uint64_t until = clock_awake_ns() + 300000000;
	struct rusage before, after;
	struct record **list;
	size_t n;
	int64_t used_us;

	(void) state;
	begin();
	start();
	child_touch(&rig.child);
	child_end(&rig.child);
	assert_false(fetch(UINT32_MAX));
	assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
	while (clock_awake_ns() < until) {
		const struct timespec pause = { .tv_nsec = 10000000 };

		(void) nanosleep(&pause, NULL);
	}
	assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
	used_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
		  after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec;
	assert_true(used_us < 100000);
	assert_false(events_next(rig.events, 0, &list, &n));
	assert_int_equal(n, 0);
}

/* attach: the first process may end before the others. */
static void the_others_go_on_when_the_first_ends(void **state)
{
	struct child other = { .pid = 0 };

	(void) state;
	begin();
	child_new(&other);
	assert_int_equal(events_add(rig.events, other.pid, &rig.err), 0);
	start();
	child_touch(&rig.child);
	assert_true(fetch(FAULTS / PERIOD * 98 / 100));
	child_end(&rig.child);
	rig.child.memory = other.memory;
	(void) fetch(FAULTS / PERIOD * 98 / 100);
	child_touch(&other);
	child_touch(&other);
	child_end(&other);
	(void) fetch(UINT32_MAX);
	assert_int_equal(rig.lost, 0);
	assert_in_range(rig.kinds[RECORD_SAMPLE], 3 * FAULTS / PERIOD * 98 / 100, 3 * FAULTS / PERIOD * 102 / 100);
}

/* ---- where it is not allowed ----------------------------------------------------------------- */

static void it_says_why_it_is_not_allowed(void **state)
{
	static const struct {
		int error;
		const char *text;
	} cases[] = { { EPERM, "CAP_PERFMON" }, { ENOSYS, "seccomp" }, { EACCES, "kernel.perf_event_paranoid" },
		{ EINVAL, "cannot open events of page faults" } };

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		fail_all = cases[i].error;
		assert_int_equal(open_events(getpid()), -cases[i].error);
		assert_null(rig.events);
		assert_non_null(strstr(rig.err.text, cases[i].text));
	}
}

/* perf_event_paranoid 2: without the kernel's faults. */
static void without_the_kernels_faults(void **state)
{
	(void) state;
	begin();
	events_free(rig.events);
	rig.events = NULL;
	fail_kernel = EACCES;
	assert_int_equal(open_events(rig.child.pid), 0);
	assert_false(events_has_kernel(rig.events));
	start();
	child_touch(&rig.child);
	child_end(&rig.child);
	assert_false(fetch(UINT32_MAX));
	assert_in_range(rig.kinds[RECORD_SAMPLE], FAULTS / PERIOD * 98 / 100, FAULTS / PERIOD * 102 / 100);
}

/* A CPU that is off has no ring; those of the others are for the others, also of further threads. */
static void a_cpu_that_is_off(void **state)
{
	struct child other = { .pid = 0 };

	(void) state;
	begin();
	if (sysconf(_SC_NPROCESSORS_CONF) < 2) {
		print_message("a machine with one CPU\n");
		skip();
	}
	events_free(rig.events);
	rig.events = NULL;
	off_cpu = 0;
	assert_int_equal(open_events(rig.child.pid), 0);
	child_new(&other);
	assert_int_equal(events_add(rig.events, other.pid, &rig.err), 0);
	child_end(&other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_64th_fault_is_a_sample),
		TEST(nothing_comes_before_it),
		TEST(an_exec_is_seen),
		TEST(what_is_lost_is_counted),
		TEST(an_ended_job_is_not_polled),
		TEST(the_others_go_on_when_the_first_ends),
		TEST(it_says_why_it_is_not_allowed),
		TEST(without_the_kernels_faults),
		TEST(a_cpu_that_is_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
