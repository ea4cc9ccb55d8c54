/* SPDX-License-Identifier: MIT
 *
 * The kernel's exit records: of real processes where permitted, and made-up records in the layouts
 * of other kernels.
 */
#include "children.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "source/process/processes_internal.h"
#include "source/process/taskstats_record.h"

/* ---- real ends ---------------------------------------------------------------------------------------------------- */

/* NULL, and the test is skipped, where they are not available: a container, no root, no
 * CONFIG_TASKSTATS. */
static struct taskstats *records_open(void)
{
	struct taskstats *t = NULL;
	struct err err = { "" };
	int r = taskstats_open(&t, &err);

	assert_true(r == 0 || strlen(err.text) > 20);
	return r == 0 ? t : NULL;
}

/* Reads until the end of id arrives; a record exists before its process can be reaped. */
static const struct end *end_wait(struct taskstats *t, struct bench *b, uint32_t id)
{
	struct pollfd fd = { .fd = taskstats_fd(t), .events = POLLIN };

	while (!end_of(&b->out, id) && poll(&fd, 1, 10000) == 1)
		assert_int_equal(taskstats_read(t, b->p, &b->out), 0);
	return end_of(&b->out, id);
}

/* Main, a child that waits for its next step, before it is adopted. The test is skipped where no
 * records are available. */
struct job_run {
	struct taskstats *t;
	struct bench b;
	struct child main;
};

static void job_run_begin(struct job_run *s, void (*body)(const struct child *c, void *arg))
{
	s->t = records_open();
	if (!s->t)
		skip();
	/* Start times have the resolution of a clock tick. */
	for (uint64_t from = clock_boot_ns(); clock_boot_ns() < from + 30000000;)
		;
	bench_start(&s->b, NULL, true);
	s->main = child_start(body, NULL);
	(void) child_take(&s->main);
}

static void job_run_adopt(struct job_run *s, void (*body)(const struct child *c, void *arg))
{
	job_run_begin(s, body);
	assert_int_equal(processes_adopt(s->b.p, s->main.pid, true, &s->b.out), 0);
}

static void job_run_end(struct job_run *s)
{
	taskstats_close(s->t);
	bench_end(&s->b);
}

static void burst_80(const struct child *c, void *arg)
{
	char *p;

	(void) arg;
	child_done(c, 0);
	child_wait(c);
	p = mmap(NULL, 80 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		_exit(1);
	(void) madvise(p, 80 * MIB, MADV_NOHUGEPAGE);
	memset(p, 1, 80 * MIB);
	(void) munmap(p, 80 * MIB);
	while (clock_process_cpu_ns() < 200000000)
		;
	_exit(3);
}

static void a_burst_before_the_end_is_in_the_record(void **state)
{
	struct job_run s;
	const struct end *end;
	int status;

	(void) state;
	job_run_adopt(&s, burst_80);
	child_go(&s.main);
	end = end_wait(s.t, &s.b, 1);
	assert_non_null(end);
	assert_int_equal(end->how, END_TASKSTATS);
	assert_int_equal(end->entity, ENTITY_PROCESS);
	assert_true(end->hwm_bytes.known);
	assert_true(end->hwm_bytes.value >= 80 * MIB);
	assert_true(end->vm_bytes.known && end->vm_bytes.value >= end->hwm_bytes.value);
#ifndef __SANITIZE_ADDRESS__
	assert_true(end->hwm_bytes.value < 90 * MIB);
#endif
	/* Known where the kernel has CONFIG_TASK_DELAY_ACCT. */
	if (end->cpu_user_ns.known)
		assert_true(end->cpu_user_ns.value + end->cpu_system_ns.value >= 200000000);
	assert_true(end->faults_minor.known && end->faults_minor.value >= 80 * MIB / sysconf(_SC_PAGESIZE));
	assert_true(end->status_known);
	assert_int_equal(waitpid(s.main.pid, &status, 0), s.main.pid);
	assert_int_equal(end->status, status);
	job_run_end(&s);
}

static void just_wait(const struct child *c, void *arg)
{
	(void) arg;
	child_done(c, 0);
	child_wait(c);
}

/* The record may come after the end was seen or reaped. */
static void a_late_record_adds_to_the_end(void **state)
{
	struct job_run s;
	const struct end *end;

	(void) state;
	job_run_adopt(&s, just_wait);
	child_end(&s.main);
	assert_true(processes_reaped(s.b.p, s.main.pid, &(struct end) { 0 }, &s.b.out));
	framebuf_clear(&s.b.out);
	end = end_wait(s.t, &s.b, 1);
	assert_non_null(end);
	assert_int_equal(end->how, END_TASKSTATS);
	assert_true(end->hwm_bytes.known && end->hwm_bytes.value > 0);
	assert_int_equal(end->status, SIGKILL);
	job_run_end(&s);
}

/* It may come before its process is found. breaks: no further record comes. */
static void record_waits(bool breaks)
{
	struct job_run s;
	const struct end *end;

	job_run_begin(&s, just_wait);
	child_go(&s.main);
	zombie_wait(s.main.pid);
	assert_int_equal(taskstats_read(s.t, s.b.p, &s.b.out), 0);
	assert_int_equal(s.b.out.n_ends, 0);
	assert_int_equal(processes_adopt(s.b.p, s.main.pid, true, &s.b.out), 0);
	if (breaks) {
		const int other = open("/dev/null", O_RDONLY | O_CLOEXEC);

		assert_true(other >= 0 && dup2(other, taskstats_fd(s.t)) >= 0);
		(void) close(other);
	}
	assert_int_equal(taskstats_read(s.t, s.b.p, &s.b.out), breaks ? -ENOTSOCK : 0);
	end = end_of(&s.b.out, 1);
	assert_non_null(end);
	assert_true(end->hwm_bytes.known && end->hwm_bytes.value > 0);
	job_run_end(&s);
}

static void a_record_waits_for_its_process(void **state)
{
	(void) state;
	record_waits(false);
}

static void a_waiting_record_is_reported_without_further_records(void **state)
{
	(void) state;
	record_waits(true);
}

static void *burn(void *arg)
{
	const uint64_t *until_ns = arg;
	struct timespec now;

	do
		(void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec < *until_ns);
	return NULL;
}

static void burn_in_threads(const struct child *c, void *arg)
{
	static uint64_t until_ns = 100000000;
	pthread_t threads[2];

	(void) arg;
	child_done(c, 0);
	child_wait(c);
	for (int i = 0; i < 2; i++) {
		if (pthread_create(&threads[i], NULL, burn, &until_ns) != 0)
			_exit(1);
	}
	for (int i = 0; i < 2; i++)
		(void) pthread_join(threads[i], NULL);
}

/* The first thread's record comes first, the other's last. */
static void *outlive(void *arg)
{
	const pthread_t *first = arg;

	(void) prctl(PR_SET_NAME, "thread");
	(void) pthread_join(*first, NULL);
	return NULL;
}

static void be_renamed_and_outlived(const struct child *c, void *arg)
{
	static pthread_t first;
	pthread_t thread;

	(void) arg;
	child_done(c, 0);
	child_wait(c);
	first = pthread_self();
	(void) prctl(PR_SET_NAME, "renamed");
	if (pthread_create(&thread, NULL, outlive, &first) != 0)
		_exit(1);
	pthread_exit(NULL);
}

static void an_end_has_the_last_name(void **state)
{
	struct job_run s;
	const struct end *end;

	(void) state;
	job_run_adopt(&s, be_renamed_and_outlived);
	child_go(&s.main);
	zombie_wait(s.main.pid);
	end = end_wait(s.t, &s.b, 1);
	assert_non_null(end);
	assert_string_equal(end->name, "renamed");
	job_run_end(&s);
}

static void threads_add_up_to_one_end(void **state)
{
	struct job_run s;
	const struct end *end;

	(void) state;
	job_run_adopt(&s, burn_in_threads);
	child_go(&s.main);
	zombie_wait(s.main.pid);
	end = end_wait(s.t, &s.b, 1);
	assert_non_null(end);
	assert_int_equal(taskstats_read(s.t, s.b.p, &s.b.out), 0);
	assert_int_equal(s.b.out.n_ends, 1);
	/* Kernels before 5.19 do not state their process. */
	if (end->cpu_user_ns.known)
		assert_true(end->cpu_user_ns.value + end->cpu_system_ns.value >= 200000000);
	job_run_end(&s);
}

static void start_another_and_end(const struct child *c, void *arg)
{
	(void) arg;
	child_done(c, 0);
	child_wait(c);
	pid_t pid = fork();

	if (pid == 0)
		_exit(5);
	(void) waitpid(pid, NULL, 0);
	_exit(0);
}

/* As if another process had started them. */
static void strangers_gone(struct bench *b, int n)
{
	const pid_t parent = strangers_end(n);

	processes_ignore(b->p, parent);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
}

/* A child that no scan found, whose parent was seen to end before the records were read. reused:
 * that parent was an earlier process with the same pid. strangers: number of unrelated ends before
 * it. */
static void unsampled_child(bool reused, int strangers)
{
	struct job_run s;
	const struct end *end;

	job_run_adopt(&s, start_another_and_end);
	if (strangers > 0)
		strangers_gone(&s.b, strangers);
	child_go(&s.main);
	zombie_wait(s.main.pid);
	assert_int_equal(processes_read(s.b.p, PROCESSES_MEMORY, &s.b.out), 0);
	assert_int_equal(processes_count(s.b.p), 0);
	if (reused)
		s.b.p->ended[0].seen_ns -= UINT64_C(10000000000);
	assert_int_equal(taskstats_read(s.t, s.b.p, &s.b.out), 0);
	assert_int_equal(processes_scan(s.b.p, SCAN_FULL, &s.b.out), 0);
	assert_int_equal(taskstats_read(s.t, s.b.p, &s.b.out), 0);
	end = end_of(&s.b.out, 2);
	assert_int_equal(end == NULL, reused);
	if (end) {
		assert_int_equal(end->status, 5 << 8);
		assert_int_equal(s.b.out.births[s.b.out.n_births - 1].process.parent, 1);
	}
	job_run_end(&s);
	child_end(&s.main);
}

static void an_unsampled_child_of_an_ended_parent_is_the_jobs(void **state)
{
	(void) state;
	unsampled_child(false, 0);
}

/* On a busy machine thousands end between two scans. */
static void an_unsampled_child_behind_many_strangers_is_the_jobs(void **state)
{
	(void) state;
	unsampled_child(false, 1500);
}

/* At its next step, starts a process that runs does, reaps it, and waits. */
static void start_one(const struct child *c, void (*does)(const struct child *c))
{
	pid_t pid;

	child_done(c, 0);
	child_wait(c);
	pid = fork();
	if (pid == 0)
		does(c);
	(void) waitpid(pid, NULL, 0);
	child_done(c, 0);
	child_wait(c);
}

static void starts_and_waits(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(5);
	(void) waitpid(pid, NULL, 0);
}

static void starts_two(const struct child *c)
{
	(void) c;
	starts_and_waits();
	starts_and_waits();
	_exit(4);
}

static void start_one_that_starts_two(const struct child *c, void *arg)
{
	(void) arg;
	start_one(c, starts_two);
}

/* Their parent is reported after them. */
static void unsampled_children_of_an_unsampled_child_are_the_jobs(void **state)
{
	struct job_run s;

	(void) state;
	job_run_adopt(&s, start_one_that_starts_two);
	child_go(&s.main);
	(void) child_take(&s.main);
	assert_int_equal(taskstats_read(s.t, s.b.p, &s.b.out), 0);
	assert_int_equal(processes_scan(s.b.p, SCAN_FULL, &s.b.out), 0);
	assert_int_equal(taskstats_read(s.t, s.b.p, &s.b.out), 0);
	assert_int_equal(s.b.out.n_ends, 3);
	assert_int_equal(s.b.out.births[1].process.parent, 1);
	for (size_t i = 0; i < 2; i++) { /* in the order of their ends */
		assert_int_equal(s.b.out.births[2 + i].process.parent, s.b.out.births[1].id);
		assert_int_equal(s.b.out.ends[i].status, 5 << 8);
	}
	assert_int_equal(s.b.out.ends[2].id, s.b.out.births[1].id);
	assert_int_equal(s.b.out.ends[2].status, 4 << 8);
	job_run_end(&s);
	child_end(&s.main);
}

static void starts_one_and_waits_on(const struct child *c)
{
	starts_and_waits();
	child_done(c, 0);
	child_wait(c);
	_exit(4);
}

static void start_one_and_wait_for_it(const struct child *c, void *arg)
{
	(void) arg;
	start_one(c, starts_one_and_waits_on);
}

/* The child's record is read while its parent, which no scan finds, still exists. */
static void an_unsampled_child_waits_for_its_parents_record(void **state)
{
	struct job_run s;

	(void) state;
	job_run_adopt(&s, start_one_and_wait_for_it);
	child_go(&s.main);
	(void) child_take(&s.main);
	assert_int_equal(taskstats_read(s.t, s.b.p, &s.b.out), 0);
	assert_true(taskstats_waits(s.t));
	child_go(&s.main);
	(void) child_take(&s.main);
	assert_int_equal(processes_scan(s.b.p, SCAN_FULL, &s.b.out), 0);
	assert_int_equal(taskstats_read(s.t, s.b.p, &s.b.out), 0);
	assert_int_equal(s.b.out.n_ends, 0);
	assert_int_equal(processes_scan(s.b.p, SCAN_FULL, &s.b.out), 0);
	assert_int_equal(taskstats_read(s.t, s.b.p, &s.b.out), 0);
	assert_false(taskstats_waits(s.t));
	assert_int_equal(s.b.out.n_ends, 2);
	assert_int_equal(s.b.out.ends[0].status, 5 << 8);
	assert_int_equal(s.b.out.ends[1].status, 4 << 8);
	assert_int_equal(s.b.out.births[1].process.parent, 1);
	assert_int_equal(s.b.out.births[2].process.parent, s.b.out.births[1].id);
	job_run_end(&s);
	child_end(&s.main);
}

static void becomes_hiwater(const struct child *c)
{
	child_done(c, 0);
	child_wait(c);
	(void) prctl(PR_SET_NAME, HIWATER);
	child_done(c, 0);
	child_wait(c);
	_exit(0);
}

static void start_one_that_becomes_hiwater(const struct child *c, void *arg)
{
	(void) arg;
	start_one(c, becomes_hiwater);
}

/* It is found under its parent's name. Returns the number of ends from its records after the scan
 * that misses it. */
static size_t ends_of_one_that_became_hiwater(bool seen)
{
	struct job_run s;

	job_run_adopt(&s, start_one_that_becomes_hiwater);
	child_go(&s.main);
	(void) child_take(&s.main);
	assert_int_equal(processes_scan(s.b.p, SCAN_FULL, &s.b.out), 1);
	child_go(&s.main);
	(void) child_take(&s.main);
	if (seen)
		(void) processes_read(s.b.p, PROCESSES_MEMORY | PROCESSES_CPU, &s.b.out);
	child_go(&s.main);
	(void) child_take(&s.main);
	(void) processes_scan(s.b.p, SCAN_FULL, &s.b.out);
	(void) processes_read(s.b.p, PROCESSES_MEMORY | PROCESSES_CPU, &s.b.out);
	framebuf_clear(&s.b.out);
	assert_int_equal(taskstats_read(s.t, s.b.p, &s.b.out), 0);
	const size_t n = s.b.out.n_ends;

	job_run_end(&s);
	child_end(&s.main);
	return n;
}

/* A recorder inside the job is never reported, however late its record comes; the job's own hiwater
 * processes are. */
static void a_recorder_that_ended_before_its_record_is_no_member(void **state)
{
	(void) state;
	assert_int_equal(ends_of_one_that_became_hiwater(false), 0);
	assert_int_equal(ends_of_one_that_became_hiwater(true), 1);
}

/* The lost record may have been a thread's or a child's: this holds to the end. */
static void lost_records_are_reported(void **state)
{
	struct taskstats *t = records_open();
	const int bytes = 4096;
	struct bench b;

	(void) state;
	if (!t)
		skip();
	bench_start(&b, NULL, true);
	assert_int_equal(taskstats_read(t, b.p, &b.out), 0);
	assert_int_equal(setsockopt(taskstats_fd(t), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
	strangers_gone(&b, 50);
	assert_int_equal(taskstats_read(t, b.p, &b.out), -ENOBUFS);
	assert_int_equal(taskstats_read(t, b.p, &b.out), -ENOBUFS);
	taskstats_close(t);
	bench_end(&b);
}

static void a_child_of_a_later_owner_of_the_pid_is_not(void **state)
{
	(void) state;
	unsampled_child(true, 0);
}

static void without_permission_it_says_so(void **state)
{
	struct taskstats *t = NULL;
	struct err err = { "" };
	int r;

	(void) state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(seteuid(65534), 0);
	r = taskstats_open(&t, &err);
	assert_int_equal(seteuid(0), 0);
	assert_true(r < 0);
	assert_non_null(strstr(err.text, "taskstats"));
	if (r == -EPERM)
		assert_non_null(strstr(err.text, "CAP_NET_ADMIN"));
	taskstats_close(NULL);
}

/* ---- layouts ------------------------------------------------------------------------------------------------------ */

/* A message under construction. */
struct message {
	char bytes[2048];
	size_t len;
};

static void put_attribute(struct message *m, uint16_t type, const void *value, size_t size)
{
	struct nlattr attr = { .nla_len = (uint16_t) (NLA_HDRLEN + size), .nla_type = type };

	memcpy(m->bytes + m->len, &attr, sizeof(attr));
	memcpy(m->bytes + m->len + NLA_HDRLEN, value, size);
	m->len += NLA_ALIGN(NLA_HDRLEN + size);
}

static void put_record(
	struct message *m, uint16_t aggr, uint16_t kind, uint32_t pid, const void *stats, size_t size)
{
	struct message inner = { .len = 0 };

	put_attribute(&inner, kind, &pid, sizeof(pid));
	put_attribute(&inner, TASKSTATS_TYPE_STATS, stats, size);
	put_attribute(m, aggr, inner.bytes, inner.len);
}

/* The fields of a thread in this machine's header; version 15 moves fields back. */
static const struct taskstats_fields {
	const char *what;
	uint16_t version;
	size_t shift, tgid_shift, size;
	bool has_tgid;
} kernels[] = {
	{ "Linux 4.18", 8, 0, 0, 328, false },
	{ "Linux 5.10", 10, 0, 0, 352, false },
	{ "Linux 6.1", 13, 0, 0, 416, true },
	{ "Linux 6.14", 15, 48, 96, 560, true },
	{ "Linux 6.18", 17, 0, 0, 700, true },
};

static void set_u64(char *stats, size_t at, uint64_t value)
{
	memcpy(stats + at, &value, sizeof(value));
}

enum {
	FLAG_FORK = 0x01 /* AFORK of linux/acct.h */
};

static void set_u32(char *stats, size_t at, uint32_t value)
{
	memcpy(stats + at, &value, sizeof(value));
}

/* The header here has the layout of version 13, whose offsets are those of the first half of all others. */
static void stats_make(
	const struct taskstats_fields *k, char stats[1024], uint32_t pid, uint32_t tgid, uint8_t flag)
{
	memset(stats, 0, 1024);
	memcpy(stats, &k->version, sizeof(k->version));
	set_u32(stats, 4, 9);
	stats[8] = (char) flag;
	set_u64(stats, 72 + k->shift, 10);
	set_u32(stats, 128 + k->shift, pid);
	set_u32(stats, 136 + k->shift, 1700000000);
	set_u64(stats, 152 + k->shift, 11);
	set_u64(stats, 160 + k->shift, 12);
	set_u64(stats, 168 + k->shift, 13);
	set_u64(stats, 200 + k->shift, 14);
	set_u64(stats, 216 + k->shift, 1024);
	set_u64(stats, 248 + k->shift, 4096);
	set_u64(stats, 256 + k->shift, 8192);
	set_u64(stats, 264 + k->shift, 1024);
	if (k->has_tgid)
		set_u32(stats, 368 + k->tgid_shift, tgid);
}

static void every_kernel_has_its_layout(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		const struct taskstats_fields *k = &kernels[i];
		struct taskstats_layout layout;
		struct taskstats_record r;
		struct message m = { .len = 0 };
		char stats[1024];

		stats_make(k, stats, 77, 70, 0);
		put_record(&m, TASKSTATS_TYPE_AGGR_PID, TASKSTATS_TYPE_PID, 77, stats, k->size);
		assert_int_equal(taskstats_layout_find(m.bytes, m.len, 78, 70, &layout), -EPROTO);
		assert_int_equal(taskstats_layout_find(m.bytes, m.len, 77, 70, &layout), 0);
		assert_int_equal(layout.shift, k->shift);
		assert_int_equal(layout.has_tgid, k->has_tgid);
		assert_true(layout.has_io);
		assert_int_equal(taskstats_record_parse(m.bytes, m.len, &layout, &r), 0);
		assert_int_equal(r.pid, 77);
		assert_int_equal(r.tgid, k->has_tgid ? 70 : 77);
		assert_false(r.is_last);
		assert_true(r.has_run);
		assert_int_equal(r.status, 9);
		assert_int_equal(r.start_wall_s, 1700000000);
		assert_int_equal(r.run_ns, 10);
		assert_int_equal(r.user_ns, 11000);
		assert_int_equal(r.system_ns, 12000);
		assert_int_equal(r.faults_minor, 13);
		assert_int_equal(r.hwm_bytes, 14 * 1024);
		assert_int_equal(r.io.read_bytes, 4096);
		assert_int_equal(r.io.write_bytes, 8192);
		assert_int_equal(r.io.write_cancelled, 1024);
		/* The last of several threads: comes with the group's sum, and with the flag if the
		 * version has it. */
		stats_make(k, stats, 77, 70, (uint8_t) (FLAG_FORK | (k->has_tgid ? 0x20 : 0)));
		m.len = 0;
		put_record(&m, TASKSTATS_TYPE_AGGR_PID, TASKSTATS_TYPE_PID, 77, stats, k->size);
		if (!k->has_tgid)
			put_record(&m, TASKSTATS_TYPE_AGGR_TGID, TASKSTATS_TYPE_TGID, 70, stats, k->size);
		assert_int_equal(taskstats_record_parse(m.bytes, m.len, &layout, &r), 0);
		assert_int_equal(r.tgid, 70);
		assert_true(r.is_last);
		assert_false(r.has_run);
	}
}

static void cut_messages_are_refused(void **state)
{
	struct taskstats_layout layout = { .has_tgid = true };
	struct taskstats_record r = { .pid = 5 };
	struct message m = { .len = 0 };
	char stats[1024];

	(void) state;
	stats_make(&kernels[2], stats, 77, 70, 0);
	put_record(&m, TASKSTATS_TYPE_AGGR_PID, TASKSTATS_TYPE_PID, 77, stats, kernels[2].size);
	for (size_t n = 0; n < m.len; n++) {
		/* A copy, so that a read behind its end is detected. */
		char *copy = malloc(n + 1);

		assert_non_null(copy);
		memcpy(copy, m.bytes, n);
		assert_int_equal(taskstats_record_parse(copy, n, &layout, &r), -EBADMSG);
		assert_int_equal(taskstats_layout_find(copy, n, 77, 70, &layout), -EPROTO);
		free(copy);
	}
	assert_int_equal(r.pid, 5);
	m.len = 0;
	put_record(&m, TASKSTATS_TYPE_AGGR_PID, TASKSTATS_TYPE_PID, 77, stats, 271);
	assert_int_equal(taskstats_record_parse(m.bytes, m.len, &layout, &r), -EBADMSG);
}

static int setup(void **state)
{
	(void) state;
	return prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHILDREN_TEST(a_burst_before_the_end_is_in_the_record),
		CHILDREN_TEST(a_late_record_adds_to_the_end),
		CHILDREN_TEST(a_record_waits_for_its_process),
		CHILDREN_TEST(a_waiting_record_is_reported_without_further_records),
		CHILDREN_TEST(threads_add_up_to_one_end),
		CHILDREN_TEST(an_end_has_the_last_name),
		CHILDREN_TEST(an_unsampled_child_of_an_ended_parent_is_the_jobs),
		CHILDREN_TEST(an_unsampled_child_behind_many_strangers_is_the_jobs),
		CHILDREN_TEST(unsampled_children_of_an_unsampled_child_are_the_jobs),
		CHILDREN_TEST(an_unsampled_child_waits_for_its_parents_record),
		CHILDREN_TEST(a_recorder_that_ended_before_its_record_is_no_member),
		CHILDREN_TEST(lost_records_are_reported),
		CHILDREN_TEST(a_child_of_a_later_owner_of_the_pid_is_not),
		CHILDREN_TEST(without_permission_it_says_so),
		CHILDREN_TEST(every_kernel_has_its_layout),
		CHILDREN_TEST(cut_messages_are_refused),
	};

	return cmocka_run_group_tests_name("taskstats", tests, setup, NULL);
}
