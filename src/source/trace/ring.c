/* SPDX-License-Identifier: MIT */
#include "source/trace/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/smallfile.h"
#include "source/process/procfs_stat.h"

enum {
	PAGE = 4096,              /* unit of what is remembered; the machine's may be larger */
	FD_FROM = 200,            /* scripts name low descriptors themselves */
	ARENA_READY = 32 << 10,
	CHUNKS_AHEAD = 4,
	SLOTS_AHEAD = 2,
	ANSWERS = 16,             /* at a time */
	ANCESTORS = 64,
	CHUNK_PAGES = TRACE_CHUNK_BYTES / PAGE,
};

/* ---- the file -------------------------------------------------------------------------------- */

/* Without seals any process of the job could shrink the file, and end this one by SIGBUS. */
static int make_file(struct err *err)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	autoclose int made = memfd_create("hiwater-trace", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int fd;

	if (made < 0)
		return err_set(err, -errno, "cannot make memory to share with the job: %s", strerror(errno));
	if (ftruncate(made, (off_t) TRACE_FILE_BYTES) < 0 || fcntl(made, F_ADD_SEALS, seals) < 0)
		return err_set(err, -errno, "cannot seal the memory to share with the job: %s", strerror(errno));
	fd = fcntl(made, F_DUPFD_CLOEXEC, FD_FROM);
	return fd >= 0 ? fd : take_fd(made);
}

static void *map_at(int fd, uint64_t at)
{
	void *p = mmap(NULL, TRACE_HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t) at);

	if (p == MAP_FAILED)
		return NULL;
	(void) madvise(p, TRACE_HEAD_BYTES, MADV_DONTFORK); /* hiwater's helpers have no use of it */
	return p;
}

/* No file is made: an abstract name (unix(7)) begins with a NUL. */
static int make_socket(char name[static 64])
{
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	uint64_t salt = 0;
	size_t len;

	if (fd < 0)
		return -errno;
	(void) getrandom(&salt, sizeof(salt), GRND_NONBLOCK);
	(void) snprintf(name, 64, "@hiwater-trace-%d-%016llx", (int) getpid(), (unsigned long long) salt);
	len = strlen(name);
	memcpy(address.sun_path + 1, name + 1, len - 1);
	if (bind(fd, (struct sockaddr *) &address,
		    (socklen_t) (offsetof(struct sockaddr_un, sun_path) + len)) < 0 ||
		listen(fd, SOMAXCONN) < 0)
		return -errno;
	return take_fd(fd);
}

/* Gives pages to a part of the file, filled with zeros. A failure costs the job time and nothing else. */
static void fill(const struct trace_shared *m, uint64_t at, uint64_t bytes)
{
	(void) fallocate(m->fd, 0, (off_t) at, (off_t) bytes);
}

int trace_shared_open(unsigned layers, unsigned wanted, struct trace_shared *ret, struct err *err)
{
	struct trace_shared *m = ret;
	char name[64] = "@";
	struct stat st;
	int r;

	m->fd = m->socket = -1;
	m->page_bytes = sysconf(_SC_PAGESIZE) > PAGE ? (uint64_t) sysconf(_SC_PAGESIZE) : PAGE;
	(void) pthread_mutex_init(&m->lock, NULL);
	r = m->fd = make_file(err);
	if (r >= 0 && fstat(m->fd, &st) < 0)
		r = err_set(err, -errno, "cannot make memory to share with the job: %s", strerror(errno));
	if (r >= 0) {
		fill(m, 0, TRACE_HEAD_BYTES);
		m->ring = map_at(m->fd, 0);
		if (!m->ring)
			r = err_set(err, -errno, "cannot map memory to share with the job: %s", strerror(errno));
	}
	if (r < 0) {
		trace_shared_close(m);
		return r;
	}
	m->socket = make_socket(name);
	m->ring->version = TRACE_RING_VERSION;
	m->ring->bytes_of_slot = TRACE_SLOT_BYTES;
	m->ring->recorder_pid = (int32_t) getpid();
	atomic_store_explicit(&m->ring->layers_wanted, wanted, memory_order_relaxed);
	atomic_store_explicit(&m->ring->layers, layers, memory_order_relaxed);
	m->ring->magic = TRACE_RING_MAGIC;
	(void) snprintf(m->environment, sizeof(m->environment), "%d:%d:%llu:%llu:%s", m->fd, (int) getpid(),
		(unsigned long long) st.st_dev, (unsigned long long) st.st_ino, name);
	return 0;
}

void trace_shared_close(struct trace_shared *m)
{
	for (unsigned i = 0; i < TRACE_SLOTS; i++) {
		struct trace_slot *head = atomic_load_explicit(&m->heads[i], memory_order_relaxed);

		if (head)
			(void) munmap(head, TRACE_HEAD_BYTES);
	}
	if (m->ring) {
		/* Survivors stop writing, and what they start later prepares nothing. */
		atomic_store_explicit(&m->ring->layers, 0, memory_order_relaxed);
		atomic_store_explicit(&m->ring->layers_wanted, 0, memory_order_relaxed);
		(void) munmap(m->ring, TRACE_HEAD_BYTES);
	}
	if (m->fd >= 0)
		(void) close(m->fd);
	if (m->socket >= 0)
		(void) close(m->socket);
	map_done(&m->released);
	(void) pthread_mutex_destroy(&m->lock);
	m->ring = NULL;
	m->fd = m->socket = -1;
}

struct trace_slot *trace_shared_head(struct trace_shared *m, unsigned slot)
{
	struct trace_slot *head = atomic_load_explicit(&m->heads[slot], memory_order_acquire);

	if (head)
		return head;
	(void) pthread_mutex_lock(&m->lock);
	head = atomic_load_explicit(&m->heads[slot], memory_order_relaxed);
	if (!head) {
		head = map_at(m->fd, trace_slot_at(slot));
		atomic_store_explicit(&m->heads[slot], head, memory_order_release);
	}
	(void) pthread_mutex_unlock(&m->lock);
	return head;
}

/* ---- pages beforehand ------------------------------------------------------------------------ */

static void prepare_chunks(struct trace_shared *m, unsigned slot, unsigned until)
{
	const unsigned from = m->chunks_ready[slot];

	if (until > TRACE_CHUNKS)
		until = TRACE_CHUNKS;
	if (until <= from)
		return;
	fill(m, trace_slot_at(slot) + TRACE_CHUNKS_AT + (uint64_t) from * TRACE_CHUNK_BYTES,
		(uint64_t) (until - from) * TRACE_CHUNK_BYTES);
	m->chunks_ready[slot] = until;
}

static void prepare_slot(struct trace_shared *m, unsigned slot)
{
	if (m->is_ready[slot])
		return;
	fill(m, trace_slot_at(slot), TRACE_ARENA_AT + ARENA_READY);
	m->is_ready[slot] = true;
	prepare_chunks(m, slot, CHUNKS_AHEAD);
}

void trace_shared_prepare(struct trace_shared *m, unsigned slot, uint64_t claims)
{
	prepare_slot(m, slot);
	prepare_chunks(m, slot, (unsigned) (claims < TRACE_CHUNKS ? claims : TRACE_CHUNKS) + CHUNKS_AHEAD);
}

void trace_shared_prepare_free(struct trace_shared *m)
{
	unsigned n = 0;

	for (unsigned i = 0; i < TRACE_SLOTS && n < SLOTS_AHEAD; i++) {
		if (atomic_load_explicit(&m->ring->slots[i], memory_order_relaxed) != TRACE_SLOT_FREE)
			continue;
		prepare_slot(m, i);
		n++;
	}
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* Is this process among its ancestors? */
static bool descends(const struct root *root, pid_t pid)
{
	const pid_t self = getpid();

	for (int i = 0; i < ANCESTORS && pid > 1; i++) {
		char path[32], text[1024];
		struct procfs_stat st;

		if (pid == self)
			return true;
		(void) snprintf(path, sizeof(path), "%d/stat", (int) pid);
		if (smallfile_read(root->proc, path, text, sizeof(text)) < 0 ||
			procfs_stat_parse(text, &st) < 0)
			return false;
		pid = st.ppid;
	}
	return false;
}

static void pass_descriptor(int connection, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof(control.room),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	(void) sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void trace_shared_answer(struct trace_shared *m, const struct root *root)
{
	for (int i = 0; m->socket >= 0 && i < ANSWERS; i++) {
		autoclose int connection = accept4(m->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct ucred peer = { 0 };
		socklen_t size = sizeof(peer);

		if (connection < 0)
			return;
		if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
			continue;
		if (peer.uid == geteuid() || peer.uid == 0 || descends(root, peer.pid))
			pass_descriptor(connection, m->fd);
	}
}

/* ---- what a process has touched -------------------------------------------------------------- */

/* The bytes of whole pages in which this part of a slot lies, less those of the part before. *end: where its pages
 * end. */
static uint64_t page_bytes(const struct trace_shared *m, uint64_t from, uint64_t bytes, uint64_t *end)
{
	const uint64_t page = m->page_bytes;
	const uint64_t first = from / page * page, begin = first > *end ? first : *end;
	const uint64_t to = (from + bytes + page - 1) / page * page;

	if (bytes == 0 || to <= begin)
		return 0;
	*end = to;
	return to - begin;
}

void trace_shared_note_chunk(struct trace_shared *m, unsigned slot, unsigned chunk, unsigned bytes)
{
	_Atomic uint8_t *known = &m->chunk_pages[slot][chunk];
	const uint8_t n = (uint8_t) ((bytes + PAGE - 1) / PAGE);

	if (n > atomic_load_explicit(known, memory_order_relaxed))
		atomic_store_explicit(known, n, memory_order_relaxed);
}

/* What was written into a full chunk and not read yet is taken for all of it. */
static unsigned chunk_pages(
	const struct trace_shared *m, unsigned slot, unsigned chunk, struct trace_chunk *c)
{
	const unsigned known = atomic_load_explicit(&m->chunk_pages[slot][chunk], memory_order_relaxed);
	const uint32_t state = atomic_load_explicit(&c->state, memory_order_relaxed);

	if (atomic_load_explicit(&c->generation, memory_order_relaxed) == 0)
		return 0;
	return state == TRACE_CHUNK_FULL ? CHUNK_PAGES : known > 0 ? known
								   : 1;
}

static uint64_t slot_bytes(const struct trace_shared *m, unsigned slot, struct trace_slot *head)
{
	uint64_t texts = atomic_load_explicit(&head->arena_used, memory_order_relaxed);
	uint64_t sum = m->page_bytes /* page 0 of the file */, end = 0;

	if (texts > TRACE_ARENA_BYTES)
		texts = TRACE_ARENA_BYTES;
	sum += page_bytes(m, 0, TRACE_ARENA_AT + texts, &end);
	for (unsigned i = 0; i < TRACE_CHUNKS; i++)
		sum += page_bytes(m, TRACE_CHUNKS_AT + (uint64_t) i * TRACE_CHUNK_BYTES,
			(uint64_t) chunk_pages(m, slot, i, &head->chunks[i]) * PAGE, &end);
	return sum;
}

/* By pid, or by pid and start. */
static uint64_t released_key(pid_t pid, uint64_t start_ticks)
{
	const uint64_t key = (uint32_t) pid | start_ticks << 32;

	return start_ticks ? (key ^ (start_ticks >> 32 << 40)) | UINT64_C(1) << 63 : key;
}

static void remember(struct trace_shared *m, pid_t pid, uint64_t start_ticks, uint64_t bytes)
{
	enum {
		MOST = 1 << 17
	};

	(void) pthread_mutex_lock(&m->lock);
	if (m->released.used < MOST) {
		(void) map_put(&m->released, released_key(pid, 0), (uint32_t) (bytes / PAGE));
		(void) map_put(&m->released, released_key(pid, start_ticks), (uint32_t) (bytes / PAGE));
	}
	(void) pthread_mutex_unlock(&m->lock);
}

void trace_shared_release(struct trace_shared *m, unsigned slot, pid_t pid, uint64_t start_ticks)
{
	struct trace_slot *head = trace_shared_head(m, slot);

	if (head) {
		const uint64_t bytes = slot_bytes(m, slot, head);

		m->released_bytes += bytes;
		if (pid > 0)
			remember(m, pid, start_ticks, bytes);
	}
	(void) fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) trace_slot_at(slot),
		TRACE_SLOT_BYTES);
	for (unsigned i = 0; i < TRACE_CHUNKS; i++)
		atomic_store_explicit(&m->chunk_pages[slot][i], 0, memory_order_relaxed);
	m->is_ready[slot] = false;
	m->chunks_ready[slot] = 0;
	atomic_store_explicit(&m->ring->slots[slot], TRACE_SLOT_FREE, memory_order_release);
}

static bool is_of(struct trace_slot *head, pid_t pid, uint64_t start_ticks, uint64_t pid_namespace)
{
	return atomic_load_explicit(&head->version, memory_order_acquire) != 0 &&
	       atomic_load_explicit(&head->pid, memory_order_relaxed) == pid &&
	       atomic_load_explicit(&head->pid_namespace, memory_order_relaxed) == pid_namespace &&
	       (start_ticks == 0 ||
		       atomic_load_explicit(&head->start_ticks, memory_order_relaxed) == start_ticks);
}

uint64_t trace_shared_bytes_of(
	struct trace_shared *m, pid_t pid, uint64_t start_ticks, uint64_t pid_namespace)
{
	uint64_t most = 0;
	uint32_t n = 0;

	for (unsigned i = 0; m->ring && i < TRACE_SLOTS; i++) {
		struct trace_slot *head;

		if (atomic_load_explicit(&m->ring->slots[i], memory_order_acquire) == TRACE_SLOT_FREE)
			continue;
		head = trace_shared_head(m, i);
		if (!head || !is_of(head, pid, start_ticks, pid_namespace))
			continue;
		const uint64_t bytes = slot_bytes(m, i, head);

		most = bytes > most ? bytes : most;
	}
	if (most > 0)
		return most;
	(void) pthread_mutex_lock(&m->lock);
	(void) map_get(&m->released, released_key(pid, start_ticks), &n);
	(void) pthread_mutex_unlock(&m->lock);
	return (uint64_t) n * PAGE;
}

uint64_t trace_shared_bytes(struct trace_shared *m)
{
	uint64_t sum = m->released_bytes;

	for (unsigned i = 0; m->ring && i < TRACE_SLOTS; i++) {
		struct trace_slot *head = NULL;

		if (atomic_load_explicit(&m->ring->slots[i], memory_order_acquire) != TRACE_SLOT_FREE)
			head = trace_shared_head(m, i);
		if (head && atomic_load_explicit(&head->version, memory_order_acquire) != 0)
			sum += slot_bytes(m, i, head);
	}
	return sum;
}
