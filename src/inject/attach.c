/* SPDX-License-Identifier: MIT */
#include "attach.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	/* A recorder that is stopped must not stop the job. */
	SOCKET_WAIT_US = 200 * 1000,
};

/* What the environment says. */
struct place {
	uint64_t fd, pid, device, inode;
	char socket[sizeof(((struct sockaddr_un *) 0)->sun_path)]; /* without '@'; "": none */
};

/* Remembered, since a program may clear its environment and fork. */
static struct place known;
static _Atomic int known_state; /* 0, 1: being written, 2 */

/* ---- the environment ---------------------------------------------------------------------------------------------- */

/* A decimal number up to a colon, which is skipped. */
static bool number(const char **at, uint64_t *ret)
{
	const char *p = *at;
	uint64_t value = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(value, 10u, &value) ||
			__builtin_add_overflow(value, (uint64_t) (*p - '0'), &value))
			return false;
	}
	if (*p != ':')
		return false;
	*at = p + 1;
	*ret = value;
	return true;
}

static bool place_parse(const char *text, struct place *ret)
{
	size_t len;

	memset(ret, 0, sizeof(*ret));
	if (!text || !number(&text, &ret->fd) || !number(&text, &ret->pid) || !number(&text, &ret->device) ||
		!number(&text, &ret->inode) || ret->fd > INT32_MAX || ret->pid > INT32_MAX)
		return false;
	len = strnlen(text, sizeof(ret->socket) + 1);
	if (text[0] == '@' && len - 1 < sizeof(ret->socket))
		memcpy(ret->socket, text + 1, len - 1);
	return true;
}

static bool place_find(struct place *ret)
{
	int none = 0;

	if (atomic_load_explicit(&known_state, memory_order_acquire) == 2) {
		*ret = known;
		return true;
	}
	/* A program with more rights than its caller does not follow the caller's environment. */
	if (!place_parse(secure_getenv(TRACE_ENVIRONMENT), ret))
		return false;
	if (atomic_compare_exchange_strong(&known_state, &none, 1)) {
		known = *ret;
		atomic_store_explicit(&known_state, 2, memory_order_release);
	}
	return true;
}

/* ---- three ways to the file --------------------------------------------------------------------------------------- */

static bool is_that(const struct stat *st, const struct place *place)
{
	return (uint64_t) st->st_dev == place->device && (uint64_t) st->st_ino == place->inode;
}

static bool is_the_file(int fd, const struct place *place)
{
	struct stat st;
	int seals;

	if (fstat(fd, &st) < 0 || !is_that(&st, place) ||
		(uint64_t) st.st_size < TRACE_FILE_BYTES)
		return false;
	seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & F_SEAL_SHRINK);
}

static char *append_number(char *at, uint64_t value)
{
	char digits[24], *d = digits + sizeof(digits);

	*--d = '\0';
	do {
		*--d = (char) ('0' + value % 10);
		value /= 10;
	} while (value);
	return stpcpy(at, d);
}

/* A copy: the job's own threads may close the number, and another file get it, at any time. */
static int from_number(const struct place *place)
{
	return fcntl((int) place->fd, F_DUPFD_CLOEXEC, 0);
}

/* Another file than the recorder's is not opened: that could be a device or a pipe, where opening has effects. */
static int from_proc(const struct place *place)
{
	char path[80], *at = path; /* no printf: this may be a signal handler */
	struct stat st;
	int named, fd = -1;

	at = append_number(stpcpy(at, "/proc/"), place->pid);
	(void) append_number(stpcpy(at, "/fd/"), place->fd);
	named = open(path, O_PATH | O_CLOEXEC);
	if (named < 0)
		return -1;
	if (fstat(named, &st) == 0 && is_that(&st, place)) {
		(void) append_number(stpcpy(path, "/proc/self/fd/"), (uint64_t) named);
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	}
	(void) close(named);
	return fd;
}

/* The descriptor that comes with a byte; -1: none. More than one are closed. */
static int receive(int socket_fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))]; /* may have room for two */
	} control = { .bytes = { 0 } };
	char byte;
	struct iovec io = { &byte, 1 };
	struct msghdr message = { .msg_iov = &io, .msg_iovlen = 1 };
	const struct cmsghdr *c;
	int found = -1;

	message.msg_control = control.bytes;
	message.msg_controllen = sizeof(control.bytes);
	if (recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC) < 0)
		return -1;
	c = CMSG_FIRSTHDR(&message);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -1;
	for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= c->cmsg_len; at += sizeof(int)) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
		if (found < 0)
			found = fd;
		else
			(void) close(fd);
	}
	return found;
}

static int from_socket(const struct place *place)
{
	const struct timeval wait = { .tv_usec = SOCKET_WAIT_US };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const size_t len = strnlen(place->socket, sizeof(place->socket));
	int s, fd = -1;

	if (len == 0 || len > sizeof(address.sun_path) - 1)
		return -1;
	memcpy(address.sun_path + 1, place->socket, len);
	s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -1;
	(void) setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	(void) setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)); /* of connect too */
	if (connect(s, (const struct sockaddr *) &address,
		    (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + len)) == 0)
		fd = receive(s);
	(void) close(s);
	return fd;
}

static void *map_at(int fd, off_t offset, size_t bytes)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	return map == MAP_FAILED ? NULL : map;
}

/* Maps a part of the file, by the first way that leads to it. */
static void *map_part(off_t offset, size_t bytes)
{
	static int (*const ways[])(const struct place *) = { from_number, from_proc, from_socket };
	struct place place;
	void *map = NULL;

	if (!place_find(&place))
		return NULL;
	for (size_t i = 0; !map && i < sizeof(ways) / sizeof(ways[0]); i++) {
		const int fd = ways[i](&place);

		if (fd < 0)
			continue;
		if (is_the_file(fd, &place))
			map = map_at(fd, offset, bytes);
		(void) close(fd);
	}
	return map;
}

/* The job's errno stays as it is, and a cancelled thread ends elsewhere. */
static void *map_quietly(off_t offset, size_t bytes)
{
	const int error = errno;
	int cancel;
	void *map;

	(void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	map = map_part(offset, bytes);
	(void) pthread_setcancelstate(cancel, NULL);
	errno = error;
	return map;
}

struct trace_ring *attach_ring(void)
{
	struct trace_ring *ring = map_quietly(0, TRACE_HEAD_BYTES);

	if (ring && (ring->magic != TRACE_RING_MAGIC || ring->version != TRACE_RING_VERSION ||
			    ring->bytes_of_slot != TRACE_SLOT_BYTES ||
			    atomic_load_explicit(&ring->layers_wanted, memory_order_relaxed) == 0)) {
		attach_unmap_ring(ring);
		return NULL;
	}
	return ring;
}

void attach_unmap_ring(struct trace_ring *ring)
{
	const int error = errno;

	(void) munmap(ring, TRACE_HEAD_BYTES);
	errno = error;
}

struct trace_slot *attach_slot(unsigned n)
{
	return map_quietly((off_t) trace_slot_at(n), TRACE_SLOT_BYTES);
}

void attach_unmap_slot(struct trace_slot *slot)
{
	const int error = errno;

	(void) munmap(slot, TRACE_SLOT_BYTES);
	errno = error;
}

/* ---- the process -------------------------------------------------------------------------------------------------- */

/* Field 22 of /proc/self/stat; 0: unknown. Field 2 is in parentheses and may hold anything. */
static uint64_t start_ticks(void)
{
	char text[1024];
	const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *p;
	uint64_t value = 0;

	if (fd >= 0)
		(void) close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	for (p = p ? p + 1 : ""; *p >= '0' && *p <= '9'; p++)
		value = value * 10 + (uint64_t) (*p - '0');
	return value;
}

void attach_identify(struct trace_slot *slot)
{
	const int error = errno;
	struct stat st;
	int cancel;

	(void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	atomic_store_explicit(&slot->pid, getpid(), memory_order_relaxed);
	atomic_store_explicit(&slot->pid_namespace, stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t) st.st_ino : 0,
		memory_order_relaxed);
	atomic_store_explicit(&slot->start_ticks, start_ticks(), memory_order_relaxed);
	(void) pthread_setcancelstate(cancel, NULL);
	errno = error;
}
