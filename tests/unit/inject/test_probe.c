/* SPDX-License-Identifier: MIT */
#include "ring_rig.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "inject/probe.h"

enum {
	EVENTS_OF_CHUNK = RIG_UNITS / 2, /* of 32 bytes */
	DEADLINE_S = 60,
};

static void push(uint64_t id)
{
	probe_range(TRACE_RING_PUSH, probe_now(), 0, 0, id);
}

static time_t now_s(void)
{
	struct timespec t;

	(void) clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static int open_descriptors(void)
{
	DIR *const dir = opendir("/proc/self/fd");
	int n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	(void) closedir(dir);
	return n;
}

/* ---- what is written ---------------------------------------------------------------------------------------------- */

static void write_one_of_each(struct ring_rig *rig)
{
	const struct trace_ring_site site = { .kind = TRACE_KERNEL, .device = 3, .stream = 7, .grid = { 1, 2, 3 } };
	const struct trace_ring_memory memory = { .address = 0x1000, .bytes = 1 << 20, .site = 5, .is_free = 1 };
	const struct trace_ring_work work = { .end_ns = 99, .site = 6, .correlation = 4, .queued_before = UINT32_MAX };

	(void) rig;
	CHECK(probe_follows(TRACE_RANGES) && probe_wants(TRACE_KERNELS));
	probe_range(TRACE_RING_PUSH, 10, probe_text("a b", 3), probe_text0("domain"), 0);
	probe_range(TRACE_RING_POP, 11, 0, 0, 0);
	probe_range(TRACE_RING_MARK, 12, probe_wide(L"\u00e4\u20ac\U0001F600"), 0, 0);
	probe_call(TRACE_RING_ENTER, 13, probe_text0("launch"), 4, 0);
	probe_call(TRACE_RING_LEAVE, 14, probe_text0("launch"), 4, TRACE_FAILED);
	probe_memory(15, 0, &memory);
	probe_work(16, TRACE_NODE, &work);
	probe_range(TRACE_RING_MARK, 17, probe_site(&site), 0, UINT64_MAX);
	probe_lost(TRACE_LOST_DROPPED, 42);
	probe_not_followed(TRACE_KERNELS | TRACE_LAUNCHES, TRACE_WHY_SUBSCRIBER, "another tool");
}

static void test_each_kind_of_event(void **state)
{
	static const unsigned kinds[] = { TRACE_RING_PUSH, TRACE_RING_POP, TRACE_RING_MARK, TRACE_RING_ENTER,
		TRACE_RING_LEAVE, TRACE_RING_MEMORY, TRACE_RING_WORK, TRACE_RING_MARK };
	struct trace_ring_site site;
	struct rig_events found = { 0 };
	struct trace_slot *slot;
	struct ring_rig rig;
	struct stat st;
	pid_t pid;

	(void) state;
	rig_open(&rig);
	pid = rig_start(&rig, write_one_of_each);
	rig_wait(pid);
	slot = rig_slot(&rig, 0);
	assert_int_equal(rig_slots_taken(&rig), 1);
	assert_int_equal(slot->version, TRACE_RING_VERSION);
	assert_int_equal(slot->pid, pid);
	assert_true(slot->start_ticks > 0);
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	assert_int_equal(slot->pid_namespace, st.st_ino);
	assert_int_equal(slot->layers_used, TRACE_ALL);
	rig_read(slot, &found);
	assert_int_equal(found.n, 8);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(found.all[i].kind, kinds[i]);
		assert_int_equal(found.all[i].time_ns, 10 + i);
		assert_int_equal(found.all[i].tid, pid);
	}
	assert_string_equal(rig_text(slot, found.all[0].range.name), "a b");
	assert_string_equal(rig_text(slot, found.all[0].range.domain), "domain");
	assert_string_equal(rig_text(slot, found.all[2].range.name), "\u00e4\u20ac\U0001F600");
	assert_int_equal(found.all[3].call.name, found.all[4].call.name);
	assert_int_equal(found.all[3].call.correlation, 4);
	assert_int_equal(found.all[3].flags, 0);
	assert_int_equal(found.all[4].flags, TRACE_FAILED);
	assert_int_equal(found.all[5].memory.address, 0x1000);
	assert_int_equal(found.all[5].memory.is_free, 1);
	assert_int_equal(found.all[6].work.end_ns, 99);
	assert_int_equal(found.all[6].work.queued_before, UINT32_MAX);
	assert_int_equal(found.all[6].flags, TRACE_NODE);
	assert_int_equal(found.all[7].range.id, UINT64_MAX);
	memcpy(&site, (char *) slot + TRACE_ARENA_AT + found.all[7].range.name * 8 + 8, sizeof(site));
	assert_int_equal(site.device, 3);
	assert_int_equal(site.grid[2], 3);
	assert_int_equal(slot->lost[TRACE_LOST_DROPPED], 42);
	assert_int_equal(rig_lost(slot), 42);
	assert_int_equal(slot->why[3], TRACE_WHY_SUBSCRIBER);
	assert_int_equal(slot->why[2], TRACE_WHY_SUBSCRIBER);
	assert_int_equal(slot->why[0], TRACE_WHY_NONE);
	assert_string_equal(rig_text(slot, slot->detail), "another tool");
	free(found.all);
	rig_close(&rig);
}

/* Events of 48 and of 32 bytes, so that chunks end with 16 bytes that none fits into. */
static void write_mixed(struct ring_rig *rig)
{
	(void) rig;
	for (uint64_t i = 0; i < 20000; i++) {
		if (i % 3)
			push(i);
		else
			probe_memory(i, 0, &(struct trace_ring_memory) { .address = i });
	}
}

static void test_a_thread_keeps_its_order(void **state)
{
	struct rig_events found = { 0 };
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, write_mixed);
	rig_read(rig_slot(&rig, 0), &found);
	assert_int_equal(found.n, 20000);
	for (size_t i = 0; i < found.n; i++)
		assert_int_equal(i % 3 ? found.all[i].range.id : found.all[i].memory.address, i);
	assert_int_equal(rig_lost(rig_slot(&rig, 0)), 0);
	/* Of 13,333 and 6,667, one of 64 is timed. */
	assert_int_equal(rig_slot(&rig, 0)->timed[0], 13333 / 64);
	assert_int_equal(rig_slot(&rig, 0)->timed[1], 6667 / 64);
	assert_int_equal(rig_slot(&rig, 0)->timed[2], 0);
	free(found.all);
	rig_close(&rig);
}

/* ---- attaching ---------------------------------------------------------------------------------------------------- */

static void follow_nothing(struct ring_rig *rig)
{
	const int before = open_descriptors();

	(void) rig;
	errno = ELOOP;
	CHECK(!probe_follows(TRACE_ALL) && !probe_wants(TRACE_ALL));
	push(1);
	CHECK(probe_text0("x") == 0);
	probe_not_followed(TRACE_ALL, TRACE_WHY_INNER, "x");
	probe_lost(TRACE_LOST_DROPPED, 1);
	CHECK(errno == ELOOP);
	CHECK(open_descriptors() == before);
}

static void follow(struct ring_rig *rig)
{
	const int before = open_descriptors();

	(void) rig;
	errno = ELOOP;
	CHECK(probe_follows(TRACE_RANGES));
	push(1);
	CHECK(errno == ELOOP);
	CHECK(open_descriptors() == before);
}

static void follow_without_descriptor(struct ring_rig *rig)
{
	(void) close(rig->fd);
	follow(rig);
}

static void unset(struct ring_rig *rig)
{
	(void) unsetenv(TRACE_ENVIRONMENT);
	follow_nothing(rig);
}

static void test_values_of_the_environment(void **state)
{
	static const char *const wrong[] = { "", "off", "1", "1:2:3:4", "1:2:3", "a:2:3:4:@x", "-1:2:3:4:@x",
		"99999999999999999999999:1:1:1:@x", "4294967297:1:1:1:@", ":::::", "1:2:3:4:", "1:2:3:4:x", "0:0:0:0:@",
		"\xff\xfe:1:2", "5000000000:5000000000:1:1:@x" };
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, unset);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(setenv(TRACE_ENVIRONMENT, wrong[i], 1), 0);
		rig_run(&rig, follow_nothing);
	}
	assert_int_equal(rig_slots_taken(&rig), 0);
	rig_close(&rig);
}

static void test_inherited_descriptor(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_environment(&rig, rig.fd, INT_MAX, ""); /* no such process */
	rig_run(&rig, follow);
	assert_int_equal(rig_slots_taken(&rig), 1);
	rig_close(&rig);
}

static void test_path_of_the_recorder(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, follow_without_descriptor);
	assert_int_equal(rig_slots_taken(&rig), 1);
	rig_close(&rig);
}

/* The number belongs to a file of the job's, of the same kind, size and seals. */
static void test_descriptor_of_another_file(void **state)
{
	struct ring_rig rig, other;
	pid_t pid;

	(void) state;
	rig_open(&rig);
	rig_open(&other);
	rig_environment(&rig, other.fd, INT_MAX, "");
	rig_run(&rig, follow_nothing);
	rig_environment(&rig, other.fd, getpid(), ""); /* as little by the recorder's path */
	rig_run(&rig, follow_nothing);
	rig_environment(&rig, rig.fd, getpid(), "");
	pid = fork();
	if (pid == 0) {
		CHECK(dup2(other.fd, rig.fd) == rig.fd);
		follow(&rig);
		_exit(0);
	}
	rig_wait(pid);
	assert_int_equal(rig_slots_taken(&other), 0);
	assert_int_equal(rig_slots_taken(&rig), 1);
	rig_close(&other);
	rig_close(&rig);
}

/* Opening a named pipe, or a device, has effects: what the recorder's path leads to is looked at first. */
static void test_path_to_a_pipe(void **state)
{
	char path[60];
	struct ring_rig rig;
	pid_t pid;
	int writer;

	(void) state;
	(void) snprintf(path, sizeof(path), "/tmp/hiwater-test-probe-%d", getpid());
	rig_open(&rig);
	assert_int_equal(mkfifo(path, 0600), 0);
	writer = open(path, O_PATH | O_CLOEXEC);
	assert_true(writer >= 0);
	rig_environment(&rig, writer, getpid(), "");
	pid = fork();
	if (pid == 0) {
		const int inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
		char event[400];

		CHECK(inotify_add_watch(inotify, path, IN_OPEN) >= 0);
		(void) close(writer);
		follow_nothing(&rig);
		CHECK(read(inotify, event, sizeof(event)) < 0 && errno == EAGAIN);
		_exit(0);
	}
	rig_wait(pid);
	assert_int_equal(unlink(path), 0);
	(void) close(writer);
	rig_close(&rig);
}

/* One whose end could go, and one of another layout. */
static void test_unusable_memory(void **state)
{
	struct ring_rig rig, open_ended = { .fd = memfd_create("x", MFD_ALLOW_SEALING) };

	(void) state;
	rig_open(&rig);
	assert_int_equal(ftruncate(open_ended.fd, RIG_BYTES), 0);
	assert_int_equal(pwrite(open_ended.fd, rig.map, TRACE_HEAD_BYTES, 0), TRACE_HEAD_BYTES);
	rig_environment(&open_ended, open_ended.fd, getpid(), "");
	rig_run(&rig, follow_nothing);
	rig_environment(&rig, rig.fd, getpid(), "");
	rig.ring->version++;
	rig_run(&rig, follow_nothing);
	rig.ring->version--;
	rig.ring->magic ^= 1;
	rig_run(&rig, follow_nothing);
	rig.ring->magic ^= 1;
	rig.ring->bytes_of_slot *= 2;
	rig_run(&rig, follow_nothing);
	rig.ring->bytes_of_slot /= 2;
	rig.ring->layers_wanted = 0; /* the run has ended */
	rig_run(&rig, follow_nothing);
	rig.ring->layers_wanted = TRACE_ALL;
	rig_run(&rig, follow);
	(void) close(open_ended.fd);
	rig_close(&rig);
}

static int listen_at(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path + 1, name, strlen(name));
	assert_int_equal(bind(s, (const struct sockaddr *) &address,
				 (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
		0);
	assert_int_equal(listen(s, 8), 0);
	return s;
}

/* Answers one process, with n descriptors. */
static void pass(int listener, int fd, size_t n)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec io = { (char[]) { "x" }, 1 };
	struct msghdr message = { .msg_iov = &io, .msg_iovlen = 1 };
	const int s = accept(listener, NULL, NULL);

	assert_true(s >= 0);
	if (n > 0) {
		struct cmsghdr *c;

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		for (size_t i = 0; i < n; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
	}
	(void) sendmsg(s, &message, MSG_NOSIGNAL);
	(void) close(s);
}

static void test_socket(void **state)
{
	char name[40];
	struct ring_rig rig;
	int listener;
	pid_t pid;

	(void) state;
	(void) snprintf(name, sizeof(name), "hiwater-test-probe-%d", getpid());
	rig_open(&rig);
	rig_environment(&rig, rig.fd, INT_MAX, name);
	listener = listen_at(name);
	pid = rig_start(&rig, follow_without_descriptor);
	pass(listener, rig.fd, 1); /* page 0 */
	pass(listener, rig.fd, 1); /* the slot */
	rig_wait(pid);
	assert_int_equal(rig_slots_taken(&rig), 1);
	rig_close(&rig);
	(void) close(listener);
}

static void follow_nothing_without_descriptor(struct ring_rig *rig)
{
	(void) close(rig->fd);
	follow_nothing(rig);
}

static void test_sockets_that_do_not_help(void **state)
{
	char name[40];
	struct ring_rig rig;
	int listener, other = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid;

	(void) state;
	(void) snprintf(name, sizeof(name), "hiwater-test-probe-%d", getpid());
	rig_open(&rig);
	rig_environment(&rig, rig.fd, INT_MAX, name);
	rig_run(&rig, follow_nothing_without_descriptor); /* nobody listens */
	listener = listen_at(name);
	rig_run(&rig, follow_nothing_without_descriptor); /* nobody answers: returns all the same */
	(void) close(accept(listener, NULL, NULL));
	pid = rig_start(&rig, follow_nothing_without_descriptor);
	pass(listener, -1, 0);
	rig_wait(pid);
	pid = rig_start(&rig, follow_nothing_without_descriptor);
	pass(listener, other, 1);
	rig_wait(pid);
	pid = rig_start(&rig, follow_nothing_without_descriptor);
	pass(listener, other, 4);
	rig_wait(pid);
	assert_int_equal(rig_slots_taken(&rig), 0);
	(void) close(listener);
	(void) close(other);
	rig_close(&rig);
}

static void refused(struct ring_rig *rig)
{
	(void) rig;
	CHECK(probe_follows(TRACE_RANGES));
	for (int i = 0; i < 3; i++)
		push(1);
	CHECK(!probe_follows(TRACE_RANGES) && !probe_wants(TRACE_RANGES));
}

static void test_no_slot_is_free(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	for (unsigned i = 0; i < TRACE_SLOTS; i++)
		rig.ring->slots[i] = TRACE_SLOT_TAKEN;
	rig_run(&rig, refused);
	assert_int_equal(rig.ring->refused, 1);
	rig.ring->slots[TRACE_SLOTS - 1] = TRACE_SLOT_FREE;
	rig_run(&rig, follow);
	assert_int_equal(rig_slot(&rig, TRACE_SLOTS - 1)->version, TRACE_RING_VERSION);
	rig_close(&rig);
}

static void unmapped(struct ring_rig *rig)
{
	const struct rlimit none = { 0, RLIM_INFINITY };

	(void) rig;
	CHECK(probe_follows(TRACE_RANGES));
	CHECK(setrlimit(RLIMIT_AS, &none) == 0);
	push(1);
	CHECK(!probe_follows(TRACE_RANGES) && !probe_wants(TRACE_RANGES));
}

static void test_a_slot_that_cannot_be_mapped(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, unmapped);
	assert_int_equal(rig.ring->unmapped, 1);
	assert_int_equal(rig.ring->refused, 0);
	assert_int_equal(rig_slots_taken(&rig), 0);
	rig_close(&rig);
}

static void switch_layers(struct ring_rig *rig)
{
	rig->ring->layers = TRACE_RANGES | TRACE_MEMORY;
	CHECK(probe_follows(TRACE_RANGES) && !probe_follows(TRACE_KERNELS) && probe_wants(TRACE_KERNELS));
	rig->ring->layers = TRACE_ALL;
	CHECK(probe_follows(TRACE_KERNELS));
	push(1);
	rig_slot(rig, 0)->layers_off = TRACE_KERNELS;
	CHECK(!probe_follows(TRACE_KERNELS) && !probe_wants(TRACE_KERNELS) && probe_follows(TRACE_RANGES));
	rig->ring->layers = 0;
	CHECK(!probe_follows(TRACE_ALL));
}

static void test_layers(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, switch_layers);
	rig_close(&rig);
}

/* The mapping outlives the descriptor. */
static void close_later(struct ring_rig *rig)
{
	push(0);
	for (int fd = 3; fd < 256; fd++)
		(void) close(fd);
	for (uint64_t i = 1; i < 3 * EVENTS_OF_CHUNK; i++)
		push(i);
	(void) rig;
}

static void test_descriptors_that_the_job_closes(void **state)
{
	struct rig_events found = { 0 };
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, close_later);
	rig_read(rig_slot(&rig, 0), &found);
	assert_int_equal(found.n, 3 * EVENTS_OF_CHUNK);
	free(found.all);
	rig_close(&rig);
}

/* ---- forks -------------------------------------------------------------------------------------------------------- */

static pid_t raw_fork(void)
{
	return (pid_t) syscall(SYS_clone, (long) SIGCHLD, 0L, 0L, 0L, 0L);
}

static pid_t (*fork_by)(void);

static void fork_and_write(struct ring_rig *rig)
{
	const unsigned generation = probe_generation();
	int status;
	pid_t pid;

	(void) rig;
	probe_range(TRACE_RING_PUSH, 1, probe_text0("parent"), 0, 1);
	pid = fork_by();
	if (pid == 0) {
		CHECK(probe_generation() == generation + 1);
		CHECK(clearenv() == 0);
		CHECK(probe_follows(TRACE_RANGES));
		for (uint64_t i = 0; i < 2 * EVENTS_OF_CHUNK; i++)
			probe_range(TRACE_RING_PUSH, 2, probe_text0("child"), 0, i);
		pid = fork_by();
		if (pid == 0) {
			CHECK(probe_generation() == generation + 2);
			probe_range(TRACE_RING_PUSH, 3, probe_text0("grandchild"), 0, 3);
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(probe_generation() == generation);
	probe_range(TRACE_RING_POP, 4, 0, 0, 4);
}

static void forks(pid_t (*by)(void))
{
	static const char *const names[] = { "parent", "child", "grandchild" };
	static const size_t counts[] = { 2, 2 * EVENTS_OF_CHUNK, 1 };
	struct rig_events found = { 0 };
	struct ring_rig rig;

	rig_open(&rig);
	fork_by = by;
	rig_run(&rig, fork_and_write);
	assert_int_equal(rig_slots_taken(&rig), 3);
	for (unsigned i = 0; i < 3; i++) {
		struct trace_slot *const slot = rig_slot(&rig, i);

		rig_read(slot, &found);
		assert_int_equal(found.n, counts[i]);
		assert_string_equal(rig_text(slot, found.all[0].range.name), names[i]);
		for (size_t j = 0; j < found.n; j++)
			assert_int_equal(found.all[j].tid, slot->pid);
		assert_int_equal(rig_lost(slot), 0);
		assert_int_equal(slot->layers_used, TRACE_RANGES);
	}
	assert_int_not_equal(rig_slot(&rig, 0)->pid, rig_slot(&rig, 1)->pid);
	free(found.all);
	rig_close(&rig);
}

static void test_forks(void **state)
{
	(void) state;
	forks(fork);
}

/* pthread_atfork does not see these. */
static void test_forks_past_the_library(void **state)
{
	(void) state;
	forks(raw_fork);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

enum {
	WRITERS = 8,
	EACH = 3000,
};

static void *write_in_thread(void *number)
{
	for (uint64_t i = 0; i < EACH; i++)
		push((uint64_t) (uintptr_t) number << 32 | i);
	return NULL;
}

static void write_in_threads(struct ring_rig *rig)
{
	pthread_t threads[WRITERS];

	(void) rig;
	for (uintptr_t i = 0; i < WRITERS; i++)
		CHECK(pthread_create(&threads[i], NULL, write_in_thread, (void *) i) == 0);
	for (unsigned i = 0; i < WRITERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

static void test_threads_at_once(void **state)
{
	uint64_t next[WRITERS] = { 0 };
	int32_t tids[WRITERS] = { 0 };
	struct rig_events found = { 0 };
	struct trace_slot *slot;
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, write_in_threads);
	assert_int_equal(rig_slots_taken(&rig), 1);
	slot = rig_only_slot(&rig);
	assert_non_null(slot);
	rig_read(slot, &found);
	assert_int_equal(found.n, WRITERS * EACH);
	for (size_t i = 0; i < found.n; i++) {
		const uint64_t writer = found.all[i].range.id >> 32;

		assert_true(writer < WRITERS);
		assert_int_equal(found.all[i].range.id & 0xffffffff, next[writer]++);
		if (!tids[writer])
			tids[writer] = found.all[i].tid;
		assert_int_equal(found.all[i].tid, tids[writer]);
	}
	for (unsigned i = 0; i < TRACE_CHUNKS; i++)
		assert_int_not_equal(slot->chunks[i].state, TRACE_CHUNK_OWNED);
	assert_int_equal(rig_lost(slot), 0);
	free(found.all);
	rig_close(&rig);
}

static void *write_two(void *unused)
{
	push(1);
	probe_memory(1, 0, &(struct trace_ring_memory) { .address = 1 });
	return unused;
}

static void write_two_each(struct ring_rig *rig)
{
	(void) rig;
	for (unsigned i = 0; i < TRACE_CHUNKS + 50; i++) {
		pthread_t thread;

		CHECK(pthread_create(&thread, NULL, write_two, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
}

static void test_threads_one_after_another(void **state)
{
	struct rig_events found = { 0 };
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, write_two_each);
	rig_read(rig_slot(&rig, 0), &found);
	assert_int_equal(found.n, 2 * TRACE_CHUNKS);
	assert_int_equal(rig_slot(&rig, 0)->lost[TRACE_LOST_OVERWRITTEN], 2 * 50);
	free(found.all);
	rig_close(&rig);
}

static pthread_barrier_t all_wrote, may_end;

static void *write_and_stay(void *unused)
{
	push(1);
	(void) pthread_barrier_wait(&all_wrote);
	(void) pthread_barrier_wait(&may_end);
	return unused;
}

static void more_threads_than_chunks(struct ring_rig *rig)
{
	pthread_t threads[TRACE_CHUNKS];

	(void) rig;
	CHECK(pthread_barrier_init(&all_wrote, NULL, TRACE_CHUNKS + 1) == 0);
	CHECK(pthread_barrier_init(&may_end, NULL, TRACE_CHUNKS + 1) == 0);
	for (unsigned i = 0; i < TRACE_CHUNKS; i++)
		CHECK(pthread_create(&threads[i], NULL, write_and_stay, NULL) == 0);
	(void) pthread_barrier_wait(&all_wrote);
	for (uint64_t i = 0; i < 50000; i++) /* more than fit into 16 bits of units */
		push(2);
	(void) pthread_barrier_wait(&may_end);
	for (unsigned i = 0; i < TRACE_CHUNKS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	push(3);
}

static void test_more_threads_than_chunks(void **state)
{
	struct rig_events found = { 0 };
	struct trace_slot *slot;
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, more_threads_than_chunks);
	slot = rig_only_slot(&rig);
	assert_non_null(slot);
	rig_read(slot, &found);
	assert_int_equal(slot->lost[TRACE_LOST_THREADS], 50000);
	/* The last one took the oldest chunk. */
	assert_int_equal(found.n, TRACE_CHUNKS);
	assert_int_equal(found.all[found.n - 1].range.id, 3);
	assert_int_equal(found.all[found.n - 1].flags, TRACE_RING_AFTER_LOSS);
	assert_int_equal(found.all[found.n - 2].flags, 0);
	assert_int_equal(slot->lost[TRACE_LOST_OVERWRITTEN], 1);
	free(found.all);
	rig_close(&rig);
}

/* ---- overwriting -------------------------------------------------------------------------------------------------- */

enum {
	FIRST = 40, /* chunks of which is read something */
	PART = 100, /* units */
};

static void overwrite(struct ring_rig *rig)
{
	struct trace_slot *const slot = rig_slot(rig, 0);

	for (uint64_t i = 0; i < (uint64_t) TRACE_CHUNKS * EVENTS_OF_CHUNK; i++)
		push(i);
	for (unsigned i = 0; i < FIRST; i++)
		slot->chunks[i].read = TRACE_READ(1, PART);
	slot->chunks[0].read = TRACE_READ(2, PART); /* of another generation: nothing */
	for (uint64_t i = 0; i < (uint64_t) (FIRST + 10) * EVENTS_OF_CHUNK - 5; i++)
		push(i);
}

static void test_overwriting_is_counted(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, overwrite);
	assert_int_equal(rig_slot(&rig, 0)->lost[TRACE_LOST_OVERWRITTEN],
		(FIRST + 10) * EVENTS_OF_CHUNK - (FIRST - 1) * PART / 2);
	assert_int_equal(rig_lost(rig_slot(&rig, 0)), rig_slot(&rig, 0)->lost[TRACE_LOST_OVERWRITTEN]);
	rig_close(&rig);
}

/* Reads what there is, as a recorder does, and gives full chunks back. Adds the events that are its own. */
static void drain(struct trace_slot *slot, struct rig_events *scratch, uint64_t *n)
{
	for (unsigned i = 0; i < TRACE_CHUNKS; i++) {
		struct trace_chunk *const c = &slot->chunks[i];
		uint32_t full = TRACE_CHUNK_FULL;
		const uint32_t state = atomic_load(&c->state), generation = atomic_load(&c->generation);
		uint32_t read = atomic_load(&c->read);
		unsigned to;

		if (generation == 0 || read >> 11 != TRACE_READ(generation, 0) >> 11)
			continue;
		scratch->n = 0;
		to = rig_read_chunk(slot, i, generation, read & 2047, scratch);
		if (!atomic_compare_exchange_strong(&c->read, &read, TRACE_READ(generation, to)))
			continue;
		*n += scratch->n;
		if (state == TRACE_CHUNK_FULL)
			(void) atomic_compare_exchange_strong(&c->state, &full, TRACE_CHUNK_FREE);
	}
}

static void *write_much(void *unused)
{
	for (uint64_t i = 0; i < 300000; i++)
		push(i);
	return unused;
}

static void write_much_in_threads(struct ring_rig *rig)
{
	pthread_t threads[2];

	(void) rig;
	for (unsigned i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, write_much, NULL) == 0);
	for (unsigned i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Every event is read once or counted as lost, however the reader keeps up. */
static void test_reading_while_it_is_overwritten(void **state)
{
	struct rig_events scratch = { 0 };
	struct trace_slot *slot = NULL;
	uint64_t n = 0;
	struct ring_rig rig;
	siginfo_t info;
	pid_t pid;

	(void) state;
	rig_open(&rig);
	pid = rig_start(&rig, write_much_in_threads);
	do {
		slot = slot ? slot : rig_only_slot(&rig);
		if (slot)
			drain(slot, &scratch, &n);
		info.si_pid = 0;
		assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT | WNOHANG), 0);
	} while (info.si_pid == 0);
	rig_wait(pid);
	assert_non_null(slot);
	drain(slot, &scratch, &n);
	assert_int_equal(n + slot->lost[TRACE_LOST_OVERWRITTEN], 2 * 300000);
	assert_int_equal(slot->lost[TRACE_LOST_THREADS], 0);
	free(scratch.all);
	rig_close(&rig);
}

static void write_until_killed(struct ring_rig *rig)
{
	_Atomic uint64_t *const count = (_Atomic uint64_t *) (void *) (rig->map + RIG_BYTES - 8); /* in the last slot */

	for (uint64_t i = 0;; i++) {
		push(i);
		atomic_store(count, i + 1);
	}
}

static void test_kill(void **state)
{
	struct rig_events found = { 0 };
	struct ring_rig rig;

	(void) state;
	for (unsigned round = 0; round < 10; round++) {
		_Atomic uint64_t *count;
		struct trace_slot *slot;
		uint64_t written;
		time_t end = now_s() + DEADLINE_S;
		pid_t pid;

		rig_open(&rig);
		count = (_Atomic uint64_t *) (void *) (rig.map + RIG_BYTES - 8);
		pid = rig_start(&rig, write_until_killed);
		while (atomic_load(count) < 1 + round * 20000 && now_s() < end)
			;
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		slot = rig_slot(&rig, 0);
		rig_read(slot, &found);
		written = found.n + slot->lost[TRACE_LOST_OVERWRITTEN];
		/* One may be written and not yet counted. */
		assert_in_range(written, *count, *count + 1);
		assert_true(written > 0);
		assert_int_equal(found.all[found.n - 1].range.id, written - 1);
		rig_close(&rig);
	}
	free(found.all);
}

/* ---- signal handlers ---------------------------------------------------------------------------------------------- */

static _Atomic uint64_t handled;
static _Atomic int stop_sending;

static void handler(int number)
{
	(void) number;
	probe_range(TRACE_RING_MARK, 1, probe_text0("handler"), 0, handled);
	handled++;
	probe_range(TRACE_RING_MARK, 1, probe_text0("handler"), 0, handled);
	handled++;
}

static void *send_signals(void *to)
{
	while (!atomic_load(&stop_sending))
		(void) pthread_kill(*(pthread_t *) to, SIGUSR1);
	return NULL;
}

/* TSan delivers a signal only at the next call of the library. */
#ifdef __SANITIZE_THREAD__
enum {
	ROUNDS = 20
};
#else
enum {
	ROUNDS = 3000
};
#endif

static void write_and_be_interrupted(struct ring_rig *rig)
{
	const struct sigaction action = { .sa_handler = handler };
	const time_t end = now_s() + DEADLINE_S;
	struct trace_slot *slot;
	uint64_t i = 0, n = 0, pushes = 0, marks = 0;
	struct rig_events found = { 0 };
	pthread_t self = pthread_self(), sender;

	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	CHECK(pthread_create(&sender, NULL, send_signals, &self) == 0);
	for (; (handled < ROUNDS || i < 20000) && now_s() < end; i++)
		push(i);
	atomic_store(&stop_sending, 1);
	CHECK(pthread_join(sender, NULL) == 0);
	CHECK(handled >= ROUNDS);
	slot = rig_only_slot(rig);
	CHECK(slot);
	rig_read(slot, &found);
	for (size_t k = 0; k < found.n; k++) {
		const struct rig_event *const e = &found.all[k];
		uint64_t *const next = e->kind == TRACE_RING_PUSH ? &pushes : &marks;

		if (n++ == 0 || *next == 0)
			*next = e->range.id; /* the first that is not overwritten */
		CHECK(e->range.id == *next);
		++*next;
	}
	CHECK(pushes == i && marks == handled);
	CHECK(found.n + slot->lost[TRACE_LOST_OVERWRITTEN] == i + handled);
	CHECK(slot->lost[TRACE_LOST_THREADS] == 0 && slot->lost[TRACE_LOST_NAMES] == 0);
}

static void test_signal_handlers(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, write_and_be_interrupted);
	rig_close(&rig);
}

static uint64_t *interrupted_count; /* in memory shared with the parent */

static void filling_handler(int number)
{
	(void) number;
	for (int i = 0; i < EVENTS_OF_CHUNK + 100; i++)
		push(2);
	handled++;
}

static void write_and_be_interrupted_for_long(struct ring_rig *rig)
{
	const struct sigaction action = { .sa_handler = filling_handler };
	const time_t end = now_s() + DEADLINE_S;
	pthread_t self = pthread_self(), sender;
	uint64_t i;

	(void) rig;
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	CHECK(pthread_create(&sender, NULL, send_signals, &self) == 0);
	for (i = 0; (handled < ROUNDS / 5 || i < 20000) && now_s() < end; i++)
		push(1);
	atomic_store(&stop_sending, 1);
	CHECK(pthread_join(sender, NULL) == 0);
	*interrupted_count = i + handled * (EVENTS_OF_CHUNK + 100);
}

/* A handler moves the thread on to other chunks while an event is half written: its chunk waits for it. */
static void test_signal_handlers_that_fill_a_chunk(void **state)
{
	struct rig_events scratch = { 0 };
	struct trace_slot *slot = NULL;
	struct ring_rig rig;
	siginfo_t info;
	uint64_t n = 0;
	pid_t pid;

	(void) state;
	rig_open(&rig);
	interrupted_count = (uint64_t *) (void *) (rig.map + RIG_BYTES - 8);
	pid = rig_start(&rig, write_and_be_interrupted_for_long);
	do {
		slot = slot ? slot : rig_only_slot(&rig);
		if (slot)
			drain(slot, &scratch, &n);
		info.si_pid = 0;
		assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT | WNOHANG), 0);
	} while (info.si_pid == 0);
	rig_wait(pid);
	assert_non_null(slot);
	drain(slot, &scratch, &n);
	assert_int_equal(n + slot->lost[TRACE_LOST_OVERWRITTEN], *interrupted_count);
	assert_int_equal(slot->lost[TRACE_LOST_THREADS], 0);
	free(scratch.all);
	rig_close(&rig);
}

/* ---- texts -------------------------------------------------------------------------------------------------------- */

enum {
	NAMES = 500
};

static uint32_t offsets[WRITERS][NAMES];

static void *name_all(void *number)
{
	for (unsigned i = 0; i < NAMES; i++) {
		char text[32];

		(void) snprintf(text, sizeof(text), "name %u", i);
		offsets[(uintptr_t) number][i] = probe_text0(text);
	}
	return NULL;
}

static void name_in_threads(struct ring_rig *rig)
{
	pthread_t threads[WRITERS];
	struct trace_slot *slot;
	const uint32_t *cells;
	unsigned n = 0;

	for (uintptr_t i = 0; i < WRITERS; i++)
		CHECK(pthread_create(&threads[i], NULL, name_all, (void *) i) == 0);
	for (unsigned i = 0; i < WRITERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	slot = rig_only_slot(rig);
	CHECK(slot);
	cells = (const uint32_t *) (const void *) ((char *) slot + TRACE_INDEX_AT);
	for (unsigned i = 0; i < NAMES; i++) {
		CHECK(offsets[0][i] != 0);
		for (unsigned k = 1; k < WRITERS; k++)
			CHECK(offsets[k][i] == offsets[0][i]);
		CHECK(strlen(rig_text(slot, offsets[0][i])) >= 6);
	}
	for (unsigned i = 0; i < TRACE_INDEX_CELLS; i++)
		n += cells[i] != 0;
	CHECK(n == NAMES);
}

static void test_equal_texts_are_stored_once(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, name_in_threads);
	rig_close(&rig);
}

static void odd_texts(struct ring_rig *rig)
{
	struct trace_slot *const slot = rig_slot(rig, 0);
	const struct trace_ring_site site = { .stream = 1 };
	static char long_text[9000];
	static wchar_t long_wide[9000];
	uint32_t used, a, b;

	CHECK(probe_text0(NULL) == 0 && probe_wide(NULL) == 0);
	CHECK(probe_text0("") != 0 && strcmp(rig_text(slot, probe_text0("")), "") == 0);
	memset(long_text, 'x', sizeof(long_text) - 1);
	a = probe_text0(long_text);
	CHECK(strlen(rig_text(slot, a)) == 4000);
	CHECK(probe_text(long_text, 8000) == a && probe_text(long_text, 3999) != a);
	for (unsigned i = 0; i < 8999; i++)
		long_wide[i] = L'\u20ac';
	CHECK(strlen(rig_text(slot, probe_wide(long_wide))) == 3999);
	CHECK(strcmp(rig_text(slot, probe_wide((const wchar_t[]) { 0xd800, 0x7fffffff, -1, 'a', 0 })),
		      "\uFFFD\uFFFD\uFFFDa") == 0);
	CHECK(strcmp(rig_text(slot, probe_text0("\x1b[2J\xff")), "\x1b[2J\xff") == 0);
	/* Bytes of a site are no text. */
	a = probe_site(&site);
	b = probe_text((const char *) &site, sizeof(site));
	CHECK(a && b && a != b && a == probe_site(&site));
	used = slot->arena_used;
	(void) probe_text0("");
	(void) probe_site(&site);
	(void) probe_text0(long_text);
	CHECK(slot->arena_used == used);
	/* Lengths of 0 to 40, all different, found again. */
	for (size_t len = 0; len <= 40; len++) {
		const uint32_t first = probe_text("0123456789012345678901234567890123456789", len);

		CHECK(first && first == probe_text("0123456789012345678901234567890123456789", len));
		CHECK(strlen(rig_text(slot, first)) == len);
	}
}

static void test_odd_texts(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, odd_texts);
	rig_close(&rig);
}

static size_t length_of_texts;

static void fill_the_arena(struct ring_rig *rig)
{
	struct trace_slot *const slot = rig_slot(rig, 0);
	char text[200] = "";
	const uint32_t early = probe_text0("early");
	unsigned none = 0, some = 0;

	memset(text, '.', length_of_texts);
	for (unsigned i = 0; i < 20000; i++) {
		(void) snprintf(text, sizeof(text), "%06u", i);
		text[6] = '.';
		if (probe_text(text, length_of_texts))
			some++;
		else
			none++;
	}
	CHECK(none > 0 && some > 1000);
	CHECK(slot->lost[TRACE_LOST_NAMES] == none);
	CHECK(slot->arena_used <= TRACE_ARENA_BYTES);
	CHECK(probe_text0("early") == early);
}

static void test_a_full_arena(void **state)
{
	struct ring_rig rig;

	(void) state;
	for (size_t i = 0; i < 2; i++) {
		length_of_texts = i ? 150 : 8; /* the texts are full first, or their index */
		rig_open(&rig);
		rig_run(&rig, fill_the_arena);
		rig_close(&rig);
	}
}

/* Any number of shapes of a few kernels, then any number of kernels: each has a site. */
static void fill_with_sites(struct ring_rig *rig)
{
	struct trace_slot *const slot = rig_slot(rig, 0);
	struct trace_ring_site site = { .kind = TRACE_KERNEL, .device = 1, .name = probe_text0("kernel") }, found;
	uint32_t offset = 0, next;
	unsigned shapes = 0;

	for (uint32_t i = 1; i <= 20000; i++) {
		site.grid[0] = i;
		offset = probe_site(&site);
		CHECK(offset > 0 && offset < TRACE_ARENA_BYTES / 8);
		memcpy(&found, (char *) slot + TRACE_ARENA_AT + (size_t) offset * 8 + 8, sizeof(found));
		CHECK(found.kind == TRACE_KERNEL && found.name == site.name);
		shapes += found.grid[0] == i;
	}
	CHECK(shapes > 1000 && shapes < 20000 && slot->lost[TRACE_LOST_NAMES] == 20000 - shapes);
	site.grid[0] = 0;
	CHECK(probe_site(&site) == offset); /* all that have no shape are one */
	CHECK((site.name = probe_text0("another")));
	next = probe_site(&site);
	CHECK(next != offset && next < TRACE_ARENA_BYTES / 8);
	for (uint32_t i = 1; i <= 20000; i++) {
		site.stream = i;
		offset = probe_site(&site);
		CHECK(offset);
	}
	CHECK(offset == trace_site_unnamed(TRACE_KERNEL, 1));
}

static void test_an_arena_full_of_sites(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, fill_with_sites);
	rig_close(&rig);
}

/* What the job writes into its own slot by accident: nothing is read or written outside. */
static void scribble(struct ring_rig *rig)
{
	uint64_t random = 88172645463325252u;

	for (unsigned round = 0; round < 200; round++) {
		unsigned char *const slot = (unsigned char *) rig_slot(rig, 0);

		for (unsigned i = 0; i < TRACE_CHUNKS_AT; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			if (round % 2 == 0 || random >> 60 == 0)
				slot[i] = (unsigned char) (random >> 56);
		}
		for (uint64_t i = 0; i < 2000; i++) {
			char text[16];

			(void) snprintf(text, sizeof(text), "%u", (unsigned) i % 50);
			probe_range(TRACE_RING_PUSH, 1, probe_text0(text), 0, i);
		}
	}
	CHECK(rig_slots_taken(rig) == 1);
}

static void test_memory_full_of_noise(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, scribble);
	for (uint64_t i = trace_slot_at(1); i < trace_slot_at(2); i++)
		assert_int_equal(rig.map[i], 0);
	rig_close(&rig);
}

static void compare_clocks(struct ring_rig *rig)
{
	struct timespec real;
	int64_t difference;

	(void) rig;
	(void) clock_gettime(CLOCK_REALTIME, &real);
	difference = (int64_t) real.tv_sec * 1000000000 + real.tv_nsec + probe_mono_minus_real() -
		     (int64_t) probe_now();
	CHECK(difference < 1000000 && difference > -INT64_C(10000000000));
}

static void test_clocks(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, compare_clocks);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_kind_of_event),
		cmocka_unit_test(test_a_thread_keeps_its_order),
		cmocka_unit_test(test_values_of_the_environment),
		cmocka_unit_test(test_inherited_descriptor),
		cmocka_unit_test(test_path_of_the_recorder),
		cmocka_unit_test(test_descriptor_of_another_file),
		cmocka_unit_test(test_path_to_a_pipe),
		cmocka_unit_test(test_unusable_memory),
		cmocka_unit_test(test_socket),
		cmocka_unit_test(test_sockets_that_do_not_help),
		cmocka_unit_test(test_no_slot_is_free),
		cmocka_unit_test(test_a_slot_that_cannot_be_mapped),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_descriptors_that_the_job_closes),
		cmocka_unit_test(test_forks),
		cmocka_unit_test(test_forks_past_the_library),
		cmocka_unit_test(test_threads_at_once),
		cmocka_unit_test(test_threads_one_after_another),
		cmocka_unit_test(test_more_threads_than_chunks),
		cmocka_unit_test(test_overwriting_is_counted),
		cmocka_unit_test(test_reading_while_it_is_overwritten),
		cmocka_unit_test(test_kill),
		cmocka_unit_test(test_signal_handlers),
		cmocka_unit_test(test_signal_handlers_that_fill_a_chunk),
		cmocka_unit_test(test_equal_texts_are_stored_once),
		cmocka_unit_test(test_odd_texts),
		cmocka_unit_test(test_a_full_arena),
		cmocka_unit_test(test_an_arena_full_of_sites),
		cmocka_unit_test(test_memory_full_of_noise),
		cmocka_unit_test(test_clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
