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
	MAX_HOLDERS = 1 << 20,
	MAX_FDS = 1 << 12,     /* of one process that are clients */
	LISTED_PER_LOOK = 2048, /* descriptors of processes listed again; the rest waits for the
	                         * next scan */
	DOUBTS_PER_LOOK = 64,   /* of them with a path that no device has, unless a container names
	                         * it so */
	DOUBTS_FIRST = 1024,    /* at the first scan */
	REST_UNTOLD = 8,        /* most scans between two listings of a process, if the kernel does
	                         * not give its number of descriptors */
	REST_TOLD = 32,         /* if the number is given and has not changed */
	REST_CLIENT = 2,        /* if it has clients and the number is not given */
	REST_REFUSED = 64,      /* if it may not be listed: another user's */
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
	static const char *const none[] = { "/memfd:", "/SYSV", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom",
		"/dev/tty", "/dev/pts/", "/dev/ptmx", "/dev/shm/", "/dev/nvidia", "/dev/kfd" };
	static const char *const some[] = { "/dev/", "/dri/", "/accel/" };

	if (link[0] != '/' || begins(link, none, sizeof(none) / sizeof(none[0])))
		return false;
	if (begins(link, some, sizeof(some) / sizeof(some[0])))
		return true;
	if (c->doubts_left == 0)
		return false;
	c->doubts_left--;
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
static struct held held_of(const struct drm_clients *c, int32_t fd, const struct drm_fdinfo *f)
{
	int card = drm_cards_find(c->cards, f->pdev, f->driver);

	if (!f->client.known || f->client.value >> 54)
		card = -1;
	return (struct held) { fd, card, f->client.value };
}

/* One entry of fd/. Returns 0 or -errno. */
static int descriptor_look(struct drm_clients *c, struct holder *h, int dir, const char *name)
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
	if (len < 0 ? errno != EACCES : !may_be_device(c, link)) /* EACCES: its fdinfo may still be
	                                                          * readable */
		return 0;
	if (fdinfo_read(c, h->pid, (int32_t) fd, &f) < 0)
		return 0;
	struct held held = held_of(c, (int32_t) fd, &f);

	if (held.card < 0)
		return 0;
	int r = vec_room(&h->fds, &h->cap_fds, h->n_fds, sizeof(*h->fds), MAX_FDS);

	if (r == 0)
		h->fds[h->n_fds++] = held;
	return r == -EFBIG ? 0 : r;
}

/* Lists a process's descriptors and stores those that are clients. Returns 0 or -errno. */
static int holder_list(struct drm_clients *c, struct holder *h)
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
		r = descriptor_look(c, h, fd, entry->d_name);
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
static bool is_due(const struct drm_clients *c, struct holder *h, int64_t n_open)
{
	bool changed = n_open != h->n_open || h->rest == 0;
	unsigned most = h->refused ? REST_REFUSED : n_open ? REST_TOLD
					    : h->n_fds     ? REST_CLIENT
							   : REST_UNTOLD;

	h->n_open = n_open;
	if (h->wait > 0)
		h->wait--;
	if (!changed && (h->wait > 0 || c->listed_left == 0))
		return false;
	if (changed)
		h->rest = n_open ? most : 1;
	h->wait = changed && n_open ? 1 + (unsigned) h->pid % most : h->rest; /* spreads them over several
	                                                                       * scans */
	h->rest = h->rest * 2 < most ? h->rest * 2 : most;
	return true;
}

/* Reads the known clients of a process. */
static void holder_read(struct drm_clients *c, struct holder *h)
{
	struct drm_fdinfo f;

	h->start_ticks = drm_start_ticks(c->root, h->pid); /* the pid may have been reassigned */
	for (size_t i = 0; i < h->n_fds;) {
		struct held *held = &h->fds[i];
		bool asleep = c->asleep[held->card];

		if (!asleep && fdinfo_read(c, h->pid, held->fd, &f) == 0)
			*held = held_of(c, held->fd, &f);
		else if (!asleep)
			held->card = -1;
		if (held->card < 0) {
			h->fds[i] = h->fds[--h->n_fds];
			h->rest = h->wait = 0; /* closed, and perhaps opened again as another
			                        * descriptor */
			continue;
		}
		drm_client_seen(c, held, asleep ? NULL : &f, h);
		i++;
	}
}

static int process_look(void *ctx, int32_t pid)
{
	struct drm_clients *c = ctx;
	uint32_t at;
	int r = 0;

	if (!map_get(&c->by_pid, (uint64_t) pid, &at)) {
		r = vec_room(&c->holders, &c->cap_holders, c->n_holders, sizeof(*c->holders), MAX_HOLDERS);
		if (r == 0)
			r = map_put(&c->by_pid, (uint64_t) pid, (uint32_t) c->n_holders);
		if (r < 0)
			return r;
		at = (uint32_t) c->n_holders;
		c->holders[c->n_holders++] = (struct holder) { .pid = pid };
	}
	struct holder *h = &c->holders[at];

	h->look = c->look;
	if (is_due(c, h, open_count(c, pid)))
		r = holder_list(c, h);
	if (h->n_fds > 0)
		holder_read(c, h);
	c->refused |= h->refused;
	return r;
}

/* Removes processes that have ended. */
static void holders_drop(struct drm_clients *c)
{
	for (size_t i = 0; i < c->n_holders;) {
		struct holder *h = &c->holders[i];

		if (h->look == c->look) {
			i++;
			continue;
		}
		map_remove(&c->by_pid, (uint64_t) h->pid);
		free(h->fds);
		*h = c->holders[--c->n_holders];
		if (i < c->n_holders)
			(void) map_put(&c->by_pid, (uint64_t) h->pid, (uint32_t) i);
	}
}

int drm_holders_look(struct drm_clients *c)
{
	int r;

	c->listed_left = LISTED_PER_LOOK;
	c->doubts_left = c->n_holders ? DOUBTS_PER_LOOK : DOUBTS_FIRST;
	r = numbers_list(c->root->proc, ".", process_look, c);
	if (r == 0)
		holders_drop(c);
	return r;
}

void drm_holders_free(struct drm_clients *c)
{
	for (size_t i = 0; i < c->n_holders; i++)
		free(c->holders[i].fds);
	free(c->holders);
	map_done(&c->by_pid);
}
