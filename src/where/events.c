/* SPDX-License-Identifier: MIT */
#include "where/events.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#ifndef PERF_FORMAT_LOST
#define PERF_FORMAT_LOST (1U << 4)
#endif

enum {
	RING_PAGES = 512,          /* of a CPU, at most; halved until locked memory has room for all */
	RINGS_PAGES = 4096,        /* of all CPUs */
	RING_LEAST = 8,
	CPUS = 1024,
	IDLE_MS = 100,             /* between two checks at rings that did not fill */
	PENDING_BYTES = 12 << 20, /* of records that were not fetched yet; then the kernel drops them */
};
static const uint64_t settle_ns = 500000; /* a record is in its ring that long after its time */

#if defined(__x86_64__)
/* AX BX CX DX SI DI BP SP IP, R8 to R15; not flags and segments. */
#define REGISTERS 0xff01ffULL
#elif defined(__aarch64__)
#define REGISTERS 0x1ffffffffULL
#else
#define REGISTERS 0ULL
#endif

struct ring {
	int fd, cpu;
	struct perf_event_mmap_page *page;
	size_t bytes;              /* of the data */
	int *more;                 /* events of further threads, which write to this ring */
	size_t n_more;
	size_t ended;              /* events whose threads have all ended: the first, and then of the others */
};

struct events {
	struct events_options options;
	bool has_kernel;
	unsigned pages;
	struct ring *rings;        /* one a CPU; that of further threads goes to the ring of its CPU */
	size_t n_rings;
	int wake;                  /* asks the thread to copy at once, or to end */
	pthread_t thread;
	bool has_thread;
	_Atomic bool is_ending;
	pthread_mutex_t lock;      /* of what follows */
	pthread_cond_t copied;
	struct record **list;      /* copied, not fetched */
	size_t n, cap, bytes;
	uint64_t until_ns;         /* of all rings, everything before was copied */
	unsigned rounds;
	bool has_ended;
	/* the receiver's */
	struct record **pending, **given;
	size_t n_pending, cap_pending;
};

/* ---- opening --------------------------------------------------------------------------------- */

static int open_event(const struct events_options *o, pid_t tid, int cpu, bool with_kernel)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		/* A fixed period, and PERF_SAMPLE_PERIOD not among the values: with it every fault
		 * would come. */
		.sample_period = o->period,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
			       PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.read_format = o->has_no_lost ? 0 : PERF_FORMAT_LOST,
		.sample_regs_user = REGISTERS,
		.sample_stack_user = o->stack_bytes,
		.disabled = 1,
		.inherit = 1,
		.enable_on_exec = o->from_exec,
		.exclude_kernel = !with_kernel,
		.exclude_hv = 1,
		.exclude_callchain_kernel = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_BOOTTIME,
		.watermark = 1,
		.wakeup_watermark = 1 << 17, /* 8 samples */
	};

	return (int) syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int why_not(int error, struct err *err)
{
	if (error == EPERM || error == ENOSYS)
		return err_set(err, -error, "the kernel, or the seccomp profile of the container, "
					    "does not allow perf_event_open (%s); "
					    "allow it there, or give CAP_PERFMON",
			strerror(error));
	if (error == ENOBUFS)
		return err_set(err, -error, "there is no locked memory left for its buffers; "
					    "raise ulimit -l or kernel.perf_event_mlock_kb");
	if (error == EACCES)
		return err_set(err, -error, "kernel.perf_event_paranoid does not allow it (%s); "
					    "use: sysctl kernel.perf_event_paranoid=2, or CAP_PERFMON",
			strerror(error));
	return err_set(err, -error, "cannot open events of page faults: %s", strerror(error));
}

static void unmap_rings(struct events *e)
{
	for (size_t i = 0; i < e->n_rings; i++) {
		if (e->rings[i].page)
			(void) munmap(e->rings[i].page, e->rings[i].bytes + 4096);
		e->rings[i].page = NULL;
	}
}

static int map_ring(const struct events *e, struct ring *ring)
{
	const size_t bytes = (size_t) e->pages * 4096;
	void *const memory = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	ring->page = memory;
	ring->bytes = bytes;
	return 0;
}

/* Where the limit of locked memory has no room for all of them, all are halved. */
static int map_rings(struct events *e)
{
	int r = -EPERM;

	for (; e->pages >= RING_LEAST; e->pages /= 2) {
		r = 0;
		for (size_t i = 0; i < e->n_rings && r == 0; i++)
			r = map_ring(e, &e->rings[i]);
		if (r == 0)
			return 0;
		unmap_rings(e);
		if (r != -EPERM && r != -ENOMEM)
			return r;
	}
	return -ENOBUFS;
}

static void close_rings(struct events *e)
{
	unmap_rings(e);
	for (size_t i = 0; i < e->n_rings; i++) {
		(void) close(e->rings[i].fd);
		for (size_t k = 0; k < e->rings[i].n_more; k++)
			(void) close(e->rings[i].more[k]);
		free(e->rings[i].more);
	}
	e->n_rings = 0;
}

/* One event a CPU is the kernel's rule: it refuses to map an inherited event of all CPUs. */
static int open_rings(struct events *e, pid_t tid)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);

	e->has_kernel = true;
	for (int cpu = 0; cpu < cpus && cpu < CPUS; cpu++) {
		struct ring *const ring = &e->rings[e->n_rings];

		*ring = (struct ring) { .fd = open_event(&e->options, tid, cpu, e->has_kernel), .cpu = cpu };
		if (ring->fd < 0 && errno == EINVAL && !e->options.has_no_lost) { /* before Linux 6.0 */
			e->options.has_no_lost = true;
			ring->fd = open_event(&e->options, tid, cpu, e->has_kernel);
		}
		if (ring->fd < 0 && e->n_rings == 0 && (errno == EACCES || errno == EPERM)) {
			e->has_kernel = false;
			ring->fd = open_event(&e->options, tid, cpu, false);
		}
		if (ring->fd < 0 && errno == ENODEV) /* the CPU is off */
			continue;
		if (ring->fd < 0)
			return -errno;
		e->n_rings++;
	}
	return e->n_rings > 0 ? map_rings(e) : -ENODEV;
}

unsigned events_ring_most(void)
{
	unsigned pages = RING_PAGES;

	while (pages > RING_LEAST && pages * sysconf(_SC_NPROCESSORS_CONF) > RINGS_PAGES)
		pages /= 2;
	return pages;
}

bool events_has_registers(void)
{
	return REGISTERS != 0;
}

int events_open(pid_t tid, const struct events_options *options, struct events **ret, struct err *err)
{
	struct events *e = calloc(1, sizeof(*e));
	int error;

	if (!e)
		return err_set(err, -ENOMEM, "out of memory");
	e->options = *options;
	e->pages = events_ring_most();
	e->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->rings = calloc(CPUS, sizeof(*e->rings));
	(void) pthread_mutex_init(&e->lock, NULL);
	(void) pthread_cond_init(&e->copied, NULL);
	error = e->wake < 0 ? -errno : !e->rings ? -ENOMEM
						 : open_rings(e, tid);
	if (error < 0) {
		events_free(e);
		return why_not(-error, err);
	}
	*ret = e;
	return 0;
}

int events_add(struct events *e, pid_t tid, struct err *err)
{
	for (size_t i = 0; i < e->n_rings; i++) {
		struct ring *const ring = &e->rings[i];
		int *const more = realloc(ring->more, (ring->n_more + 1) * sizeof(*more));
		const int fd = more ? open_event(&e->options, tid, ring->cpu, e->has_kernel) : -1;

		if (more)
			ring->more = more;
		if (fd < 0)
			return err_set(err, more ? -errno : -ENOMEM, "cannot open events of thread %d: %s",
				(int) tid, strerror(errno));
		ring->more[ring->n_more++] = fd;
		if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) < 0)
			return err_set(err, -errno, "cannot follow thread %d: %s", (int) tid,
				strerror(errno));
	}
	return 0;
}

bool events_has_kernel(const struct events *e)
{
	return e->has_kernel;
}

unsigned events_ring_pages(const struct events *e)
{
	return e->pages;
}

/* ---- records --------------------------------------------------------------------------------- */

/* A record of the kernel in one piece, read word by word. */
struct reader {
	const unsigned char *at, *end;
};

static uint64_t word(struct reader *r)
{
	uint64_t value = 0;

	if (r->end - r->at >= 8)
		memcpy(&value, r->at, 8);
	r->at = r->end - r->at >= 8 ? r->at + 8 : r->end;
	return value;
}

static struct record *record_new(enum record_kind kind, size_t more, unsigned char **ret_more)
{
	struct record *r = malloc(sizeof(*r) + more + 1);

	if (!r)
		return NULL;
	memset(r, 0, sizeof(*r));
	r->kind = kind;
	*ret_more = (unsigned char *) (r + 1);
	(*ret_more)[more] = '\0';
	return r;
}

static void set_thread(struct record *r, uint64_t pid_tid)
{
	r->pid = (pid_t) (uint32_t) pid_tid;
	r->tid = (pid_t) (uint32_t) (pid_tid >> 32);
}

static struct record *read_sample(struct reader r)
{
	const uint64_t ip = word(&r), pid_tid = word(&r), time = word(&r), address = word(&r);
	const bool has_registers = word(&r) == PERF_SAMPLE_REGS_ABI_64;
	uint64_t registers[EVENTS_REGISTERS] = { 0 }, asked, valid = 0;
	const unsigned char *stack;
	unsigned char *copy;
	struct record *sample;

	for (int i = 0; has_registers && i < EVENTS_REGISTERS; i++) {
		if (REGISTERS >> i & 1)
			registers[i] = word(&r);
	}
	asked = word(&r);
	stack = r.at;
	if (asked > 0 && asked <= (uint64_t) (r.end - r.at)) {
		r.at += asked;
		valid = word(&r);
	}
	if (valid > asked)
		valid = asked;
	sample = record_new(RECORD_SAMPLE, valid, &copy);
	if (!sample)
		return NULL;
	set_thread(sample, pid_tid);
	sample->time_ns = time;
	sample->sample.ip = ip;
	sample->sample.address = address;
	sample->sample.has_registers = has_registers;
	memcpy(sample->sample.registers, registers, sizeof(registers));
	memcpy(copy, stack, valid);
	sample->sample.stack = copy;
	sample->sample.stack_bytes = (uint32_t) valid;
	sample->sample.asked_bytes = (uint32_t) asked;
	return sample;
}

/* The id of other records: pid and tid, time. */
enum {
	ID_BYTES = 16,
};

static struct record *read_map(struct reader r)
{
	const uint64_t pid_tid = word(&r), start = word(&r), length = word(&r), offset = word(&r);
	const uint64_t device = word(&r), inode = word(&r);
	unsigned char *path;
	struct record *map;

	(void) word(&r); /* generation */
	(void) word(&r); /* protection and flags */
	map = record_new(RECORD_MAP, (size_t) (r.end - r.at), &path);
	if (!map)
		return NULL;
	memcpy(path, r.at, (size_t) (r.end - r.at));
	set_thread(map, pid_tid);
	map->map.start = start;
	map->map.length = length;
	map->map.offset = offset;
	map->map.inode = inode;
	map->map.major = (uint32_t) device;
	map->map.minor = (uint32_t) (device >> 32);
	map->map.path = (const char *) path;
	return map;
}

static struct record *read_name(struct reader r, bool is_exec)
{
	const uint64_t pid_tid = word(&r);
	unsigned char *text;
	struct record *name = record_new(RECORD_NAME, (size_t) (r.end - r.at), &text);

	if (!name)
		return NULL;
	memcpy(text, r.at, (size_t) (r.end - r.at));
	set_thread(name, pid_tid);
	name->name.name = (const char *) text;
	name->name.is_exec = is_exec;
	return name;
}

/* pid and parent's pid, tid and parent's tid, time */
static struct record *read_task(struct reader r, enum record_kind kind)
{
	const uint64_t pids = word(&r), tids = word(&r);
	unsigned char *none;
	struct record *task = record_new(kind, 0, &none);

	if (!task)
		return NULL;
	task->pid = (pid_t) (uint32_t) pids;
	task->tid = (pid_t) (uint32_t) tids;
	task->fork.parent = (pid_t) (uint32_t) (pids >> 32);
	return task;
}

static struct record *read_record(const struct perf_event_header *head, const unsigned char *body,
	size_t bytes)
{
	struct reader r = { body, body + bytes }, id;
	struct record *record = NULL;
	unsigned char *none;

	if (head->type == PERF_RECORD_SAMPLE)
		return read_sample(r);
	if (bytes < ID_BYTES)
		return NULL;
	id = (struct reader) { r.end - ID_BYTES, r.end };
	r.end -= ID_BYTES;
	switch (head->type) {
	case PERF_RECORD_MMAP2:
		record = read_map(r);
		break;
	case PERF_RECORD_COMM:
		record = read_name(r, head->misc & PERF_RECORD_MISC_COMM_EXEC);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		record = read_task(r, head->type == PERF_RECORD_FORK ? RECORD_FORK : RECORD_EXIT);
		break;
	case PERF_RECORD_LOST:
		record = record_new(RECORD_LOST, 0, &none);
		(void) word(&r); /* the event */
		if (record)
			record->lost = word(&r);
		break;
	default:
		break;
	}
	if (record) {
		(void) word(&id);
		record->time_ns = word(&id);
	}
	return record;
}

/* ---- copying --------------------------------------------------------------------------------- */

static void keep(struct events *e, struct record *record, size_t bytes)
{
	if (e->n == e->cap) {
		const size_t cap = e->cap ? 2 * e->cap : 256;
		struct record **const list = realloc(e->list, cap * sizeof(struct record *));

		if (!list) {
			free(record);
			return;
		}
		e->list = list;
		e->cap = cap;
	}
	e->list[e->n++] = record;
	e->bytes += bytes;
}

/* A record may lie across the ring's end. */
static void copy_out(const struct ring *ring, uint64_t at, void *to, size_t bytes)
{
	const unsigned char *const data = (const unsigned char *) ring->page + ring->page->data_offset;
	const size_t from = (size_t) (at % ring->bytes);
	const size_t first = bytes < ring->bytes - from ? bytes : ring->bytes - from;

	memcpy(to, data + from, first);
	memcpy((unsigned char *) to + first, data, bytes - first);
}

static void copy_ring(struct events *e, struct ring *ring, unsigned char *room)
{
	const uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;

	while (tail < head) {
		struct perf_event_header h;

		copy_out(ring, tail, &h, sizeof(h));
		if (h.size < sizeof(h) || h.size > head - tail)
			tail = head; /* not the kernel's: give it up */
		else {
			struct record *record;

			copy_out(ring, tail + sizeof(h), room, h.size - sizeof(h));
			record = read_record(&h, room, h.size - sizeof(h));
			(void) pthread_mutex_lock(&e->lock);
			if (record)
				keep(e, record, h.size);
			(void) pthread_mutex_unlock(&e->lock);
			tail += h.size;
		}
		__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
	}
}

static bool is_full(struct events *e)
{
	bool full;

	(void) pthread_mutex_lock(&e->lock);
	full = e->bytes > PENDING_BYTES;
	(void) pthread_mutex_unlock(&e->lock);
	return full;
}

/* An event whose threads have all ended is readable without end: the next one of its ring is waited for, if there is one. */
static bool wait_for_records(struct events *e, struct pollfd *fds)
{
	bool lives = false;
	uint64_t n;

	for (size_t i = 0; i < e->n_rings; i++) {
		const struct ring *const ring = &e->rings[i];
		const bool has_ended = ring->ended > ring->n_more;

		fds[i] = (struct pollfd) { .fd = has_ended     ? -1
						 : ring->ended ? ring->more[ring->ended - 1]
							       : ring->fd,
			.events = POLLIN };
		lives = lives || !has_ended;
	}
	fds[e->n_rings] = (struct pollfd) { .fd = e->wake, .events = POLLIN };
	if (lives && poll(fds, e->n_rings + 1, IDLE_MS) > 0) {
		for (size_t i = 0; i < e->n_rings; i++)
			e->rings[i].ended += (fds[i].revents & (POLLHUP | POLLERR)) != 0;
		(void) !read(e->wake, &n, sizeof(n));
	}
	return lives;
}

static void *copy_records(void *ctx)
{
	struct events *e = ctx;
	struct pollfd *fds = calloc(e->n_rings + 1, sizeof(*fds));
	unsigned char *room = malloc(UINT16_MAX + 1);
	bool lives = fds && room;

	/* Where that is allowed: a ring that fills up loses samples. */
	(void) setpriority(PRIO_PROCESS, (id_t) syscall(SYS_gettid), -10);

	while (lives && !atomic_load(&e->is_ending)) {
		lives = wait_for_records(e, fds);

		const uint64_t now = clock_boot_ns();

		for (size_t i = 0; i < e->n_rings && !is_full(e); i++)
			copy_ring(e, &e->rings[i], room);
		(void) pthread_mutex_lock(&e->lock);
		e->until_ns = lives ? now - settle_ns : UINT64_MAX;
		e->has_ended = !lives;
		e->rounds++;
		(void) pthread_cond_broadcast(&e->copied);
		(void) pthread_mutex_unlock(&e->lock);
	}
	(void) pthread_mutex_lock(&e->lock);
	e->has_ended = true;
	e->until_ns = UINT64_MAX;
	(void) pthread_cond_broadcast(&e->copied);
	(void) pthread_mutex_unlock(&e->lock);
	free(fds);
	free(room);
	return NULL;
}

int events_start(struct events *e, struct err *err)
{
	const int error = pthread_create(&e->thread, NULL, copy_records, e);

	if (error)
		return err_set(err, -error, "cannot start a thread: %s", strerror(error));
	e->has_thread = true;
	for (size_t i = 0; !e->options.from_exec && i < e->n_rings; i++) {
		(void) ioctl(e->rings[i].fd, PERF_EVENT_IOC_ENABLE, 0);
		for (size_t k = 0; k < e->rings[i].n_more; k++)
			(void) ioctl(e->rings[i].more[k], PERF_EVENT_IOC_ENABLE, 0);
	}
	return 0;
}

uint64_t events_lost(const struct events *e)
{
	uint64_t lost = 0;

	for (size_t i = 0; !e->options.has_no_lost && i < e->n_rings; i++) {
		uint64_t values[2]; /* faults, lost records */

		if (read(e->rings[i].fd, values, sizeof(values)) == sizeof(values))
			lost += values[1];
	}
	return lost;
}

void events_flush(struct events *e)
{
	const uint64_t one = 1;
	unsigned rounds;

	(void) pthread_mutex_lock(&e->lock);
	rounds = e->rounds;
	(void) !write(e->wake, &one, sizeof(one));
	while (!e->has_ended && e->rounds < rounds + 2)
		(void) pthread_cond_wait(&e->copied, &e->lock);
	(void) pthread_mutex_unlock(&e->lock);
}

/* ---- fetching -------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
	const struct record *x = *(struct record *const *) a, *y = *(struct record *const *) b;

	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static void take_copied(struct events *e)
{
	const size_t n = e->n_pending + e->n;

	if (n > e->cap_pending) {
		struct record **const list = realloc(e->pending, 2 * n * sizeof(struct record *));
		struct record **const given = list ? realloc(e->given, 2 * n * sizeof(struct record *))
						   : NULL;

		if (list)
			e->pending = list;
		if (given)
			e->given = given;
		if (!list || !given)
			return;
		e->cap_pending = 2 * n;
	}
	if (e->n > 0)
		memcpy(e->pending + e->n_pending, e->list, e->n * sizeof(*e->list));
	e->n_pending = n;
	e->n = e->bytes = 0;
}

bool events_next(struct events *e, int timeout_ms, struct record ***ret, size_t *ret_n)
{
	struct timespec until;
	uint64_t until_ns;
	size_t n = 0;
	bool has_ended;
	unsigned rounds;

	(void) clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long) (timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	(void) pthread_mutex_lock(&e->lock);
	rounds = e->rounds;
	while (e->n == 0 && !e->has_ended && e->rounds == rounds) {
		if (pthread_cond_timedwait(&e->copied, &e->lock, &until) == ETIMEDOUT)
			break;
	}
	take_copied(e);
	until_ns = e->until_ns;
	has_ended = e->has_ended;
	(void) pthread_mutex_unlock(&e->lock);

	if (e->n_pending > 1)
		qsort(e->pending, e->n_pending, sizeof(struct record *), by_time);
	while (n < e->n_pending && e->pending[n]->time_ns <= until_ns)
		n++;
	if (n > 0)
		memcpy(e->given, e->pending, n * sizeof(struct record *));
	e->n_pending -= n;
	if (e->n_pending > 0)
		memmove(e->pending, e->pending + n, e->n_pending * sizeof(struct record *));
	*ret = e->given;
	*ret_n = n;
	return !has_ended || n > 0 || e->n_pending > 0;
}

void events_free(struct events *e)
{
	const uint64_t one = 1;

	if (!e)
		return;
	atomic_store(&e->is_ending, true);
	if (e->has_thread) {
		(void) !write(e->wake, &one, sizeof(one));
		(void) pthread_join(e->thread, NULL);
	}
	close_rings(e);
	for (size_t i = 0; i < e->n; i++)
		free(e->list[i]);
	for (size_t i = 0; i < e->n_pending; i++)
		free(e->pending[i]);
	free(e->list);
	free(e->pending);
	free(e->given);
	free(e->rings);
	if (e->wake >= 0)
		(void) close(e->wake);
	(void) pthread_mutex_destroy(&e->lock);
	(void) pthread_cond_destroy(&e->copied);
	free(e);
}
