/* SPDX-License-Identifier: MIT
 *
 * Finds the descriptors that are DRM clients, in all processes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/drm/clients_internal.h"
#include "source/process/numbers.h"
#include "source/process/procfs_stat.h"

enum {
	MAX_PROCESSES = 1 << 20,
	MAX_FDS = 1 << 12,          /* of one process that are clients */
	LISTED_PER_SCAN = 2048,     /* descriptors of processes listed again; the rest waits for the
	                             * next scan */
	CANDIDATES_PER_SCAN = 64,   /* of them with a path that no device has, unless a container names
	                             * it so */
	CANDIDATES_FIRST = 1024,    /* at the first scan */
	EVERY_UNKNOWN = 8,          /* most scans between two listings of a process, if the kernel does
	                             * not give its number of descriptors */
	EVERY_KNOWN = 32,           /* if the number is given and has not changed */
	EVERY_CLIENT = 2,           /* if it has clients and the number is not given */
	EVERY_REFUSED = 64,         /* if it may not be listed: another user's */
};

/* ---- descriptors -------------------------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *const *with, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strncmp(text, with[i], strlen(with[i])) == 0)
			return true;
	}
	return false;
}

/* Whether a descriptor's link may name a DRM or accel device. The path is no proof, since a
 * container may name a device freely and shows it without its folder: fdinfo decides, which (unlike
 * stat) never waits for a file system. */
static bool may_be_device(struct drm_clients *c, const char *link)
{
	static const char *const none[] = { "/memfd:", "/SYSV", "/dev/null", "/dev/zero", "/dev/random",
		"/dev/urandom", "/dev/tty", "/dev/pts/", "/dev/ptmx", "/dev/shm/", "/dev/nvidia",
		"/dev/kfd" };
	static const char *const some[] = { "/dev/", "/dri/", "/accel/" };

	if (link[0] != '/' || begins(link, none, sizeof(none) / sizeof(none[0])))
		return false;
	if (begins(link, some, sizeof(some) / sizeof(some[0])))
		return true;
	if (c->candidates_left == 0)
		return false;
	c->candidates_left--;
	return true;
}

/* Reads the fdinfo of a descriptor. Returns 0, -EBADMSG if it is not a client, or -errno. */
static int fdinfo_read(struct drm_clients *c, int32_t pid, int32_t fd, struct drm_fdinfo *ret)
{
	char path[64], text[8192];

	snprintf(path, sizeof(path), "%d/fdinfo/%d", (int) pid, (int) fd);
	ssize_t n = smallfile_read(c->root->proc, path, text, sizeof(text));

	return n < 0 ? (int) n : drm_fdinfo_parse(text, ret);
}

/* The client of a descriptor. card -1: not on a device of ours, or not identifiable. */
static struct client_fd client_fd_of(const struct drm_clients *c, int32_t fd, const struct drm_fdinfo *f)
{
	int card = drm_cards_find(c->cards, f->pdev, f->driver);

	if (!f->client.known || f->client.value >> 54)
		card = -1;
	return (struct client_fd) { fd, card, f->client.value };
}

/* One entry of fd/. Returns 0 or -errno. */
static int descriptor_read(struct drm_clients *c, struct drm_process *h, int dir, const char *name)
{
	char link[64];
	const char *p = name;
	uint64_t fd;
	struct drm_fdinfo f;

	if (parse_u64(&p, &fd) < 0 || *p != '\0' || fd > INT32_MAX)
		return 0;
	ssize_t len = readlinkat(dir, name, link, sizeof(link) - 1);

	link[len > 0 ? len : 0] = '\0';
	c->listed_left -= c->listed_left > 0;
	/* EACCES: its fdinfo may still be readable */
	if (len < 0 ? errno != EACCES : !may_be_device(c, link))
		return 0;
	if (fdinfo_read(c, h->pid, (int32_t) fd, &f) < 0)
		return 0;
	struct client_fd client_fd = client_fd_of(c, (int32_t) fd, &f);

	if (client_fd.card < 0)
		return 0;
	int r = vec_reserve(&h->fds, &h->cap_fds, h->n_fds, sizeof(*h->fds), MAX_FDS);

	if (r == 0)
		h->fds[h->n_fds++] = client_fd;
	return r == -EFBIG ? 0 : r;
}

/* Lists a process's descriptors and stores those that are clients. Returns 0 or -errno. */
static int process_list(struct drm_clients *c, struct drm_process *h)
{
	char path[32];

	snprintf(path, sizeof(path), "%d/fd", (int) h->pid);
	int fd = openat(c->root->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	h->refused = fd < 0 && (errno == EACCES || errno == EPERM);
	h->n_fds = 0;
	if (fd < 0)
		return 0;
	autoclosedir DIR *dir = fdopendir(fd);

	if (!dir) {
		(void) close(fd);
		return -ENOMEM;
	}
	int r = 0;

	for (const struct dirent *entry = readdir(dir); entry && r == 0; entry = readdir(dir))
		r = descriptor_read(c, h, fd, entry->d_name);
	return r;
}

/* ---- processes ---------------------------------------------------------------------------------------------------- */

/* The number of a process's descriptors (Linux 6.2, else 0): needs no permission. */
static int64_t open_count(const struct drm_clients *c, int32_t pid)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "%d/fd", (int) pid);
	return c->root->live && fstatat(c->root->proc, path, &st, 0) == 0 ? st.st_size : 0;
}

uint64_t drm_start_ticks(const struct root *root, int32_t pid)
{
	struct procfs_stat st;
	char path[32], line[1024];

	snprintf(path, sizeof(path), "%d/stat", (int) pid);
	if (smallfile_read(root->proc, path, line, sizeof(line)) < 0 || procfs_stat_parse(line, &st) < 0)
		return 0;
	return st.start_ticks;
}

/* Whether the process is to be listed in this scan: if it is new or its number of descriptors has
 * changed, else more and more rarely, and not if enough descriptors were listed. */
static bool is_due(const struct drm_clients *c, struct drm_process *h, int64_t n_open)
{
	bool changed = n_open != h->n_open || h->every == 0;
	unsigned most = h->refused ? EVERY_REFUSED : n_open ? EVERY_KNOWN
					     : h->n_fds     ? EVERY_CLIENT
							    : EVERY_UNKNOWN;

	h->n_open = n_open;
	if (h->wait > 0)
		h->wait--;
	if (!changed && (h->wait > 0 || c->listed_left == 0))
		return false;
	if (changed)
		h->every = n_open ? most : 1;
	/* spreads them over several scans */
	h->wait = changed && n_open ? 1 + (unsigned) h->pid % most : h->every;
	h->every = h->every * 2 < most ? h->every * 2 : most;
	return true;
}

/* Reads the known clients of a process. */
static void process_read(struct drm_clients *c, struct drm_process *h)
{
	struct drm_fdinfo f;

	h->start_ticks = drm_start_ticks(c->root, h->pid); /* the pid may have been reassigned */
	for (size_t i = 0; i < h->n_fds;) {
		struct client_fd *client_fd = &h->fds[i];
		bool asleep = c->asleep[client_fd->card];

		if (!asleep && fdinfo_read(c, h->pid, client_fd->fd, &f) == 0)
			*client_fd = client_fd_of(c, client_fd->fd, &f);
		else if (!asleep)
			client_fd->card = -1;
		if (client_fd->card < 0) {
			h->fds[i] = h->fds[--h->n_fds];
			/* closed, and perhaps opened again as another descriptor */
			h->every = h->wait = 0;
			continue;
		}
		drm_client_seen(c, client_fd, asleep ? NULL : &f, h);
		i++;
	}
}

static int process_scan(void *ctx, int32_t pid)
{
	struct drm_clients *c = ctx;
	uint32_t at;
	int r = 0;

	if (!map_get(&c->by_pid, (uint64_t) pid, &at)) {
		r = vec_reserve(&c->processes, &c->cap_processes, c->n_processes, sizeof(*c->processes),
			MAX_PROCESSES);
		if (r == 0)
			r = map_put(&c->by_pid, (uint64_t) pid, (uint32_t) c->n_processes);
		if (r < 0)
			return r;
		at = (uint32_t) c->n_processes;
		c->processes[c->n_processes++] = (struct drm_process) { .pid = pid };
	}
	struct drm_process *h = &c->processes[at];

	h->scan = c->scan;
	if (is_due(c, h, open_count(c, pid)))
		r = process_list(c, h);
	if (h->n_fds > 0)
		process_read(c, h);
	c->refused |= h->refused;
	return r;
}

/* Removes processes that have ended. */
static void processes_drop(struct drm_clients *c)
{
	for (size_t i = 0; i < c->n_processes;) {
		struct drm_process *h = &c->processes[i];

		if (h->scan == c->scan) {
			i++;
			continue;
		}
		map_remove(&c->by_pid, (uint64_t) h->pid);
		free(h->fds);
		*h = c->processes[--c->n_processes];
		if (i < c->n_processes)
			(void) map_put(&c->by_pid, (uint64_t) h->pid, (uint32_t) i);
	}
}

int drm_processes_scan(struct drm_clients *c)
{
	int r;

	c->listed_left = LISTED_PER_SCAN;
	c->candidates_left = c->n_processes ? CANDIDATES_PER_SCAN : CANDIDATES_FIRST;
	r = numbers_list(c->root->proc, ".", process_scan, c);
	if (r == 0)
		processes_drop(c);
	return r;
}

void drm_processes_free(struct drm_clients *c)
{
	for (size_t i = 0; i < c->n_processes; i++)
		free(c->processes[i].fds);
	free(c->processes);
	map_done(&c->by_pid);
}
