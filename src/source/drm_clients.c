/* SPDX-License-Identifier: MIT
 *
 * Which descriptors of which processes are DRM clients, and who holds which client.
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
#include "base/map.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/drm_clients_internal.h"
#include "source/procfs_stat.h"

enum {
	MAX_HOLDERS = 1 << 20,
	MAX_CLIENTS = 1 << 16,
	MAX_FDS = 1 << 12,     /* of a process that are clients */
	READS_PER_LOOK = 4096, /* of descriptors that may be devices; what is left waits for the next look */
	REST_UNTOLD = 8,       /* most looks between two listings of a process whose number of descriptors is not told */
	REST_TOLD = 16,        /* and of one whose number is told and has not changed */
	REST_CLIENT = 2,       /* and of one that has clients */
	REST_REFUSED = 64,     /* and of one that may not be listed: another user's */
};

/* A descriptor that is a client. */
struct held {
	int32_t fd;
	int card;
	int64_t id; /* of the client */
};

/* A process, and which of its descriptors are clients. */
struct holder {
	int32_t pid;
	bool refused;
	uint64_t look;        /* number of the look that saw it last */
	uint64_t start_ticks; /* known where it has clients */
	int64_t n_open;       /* descriptors at the last listing; 0: not told */
	unsigned rest, wait;  /* looks between listings, and until the next */
	struct held *fds;
	size_t n_fds, cap_fds;
};

struct drm_clients {
	const struct root *root;
	const struct drm_cards *cards;
	uint64_t look, now_ns;
	unsigned reads_left;
	bool refused;
	bool asleep[DRM_CARDS]; /* reading what a client did there could wake the device (xe before Linux 6.13) */
	struct holder *holders;
	struct drm_client *clients;
	struct drm_use *uses;
	size_t n_holders, cap_holders, n_clients, cap_clients, n_uses, cap_uses;
	struct map by_pid;    /* to holders */
	struct map by_client; /* to clients */
};

/* ---- clients ------------------------------------------------------------------------------------------------------ */

static uint64_t client_key(int card, int64_t id)
{
	return (uint64_t) id << 8 | (uint64_t) card; /* DRM_CARDS fit */
}

/* The client by its card and number; NULL without memory. */
static struct drm_client *client_of(struct drm_clients *c, int card, int64_t id)
{
	uint32_t at;

	if (map_get(&c->by_client, client_key(card, id), &at))
		return &c->clients[at];
	if (vec_room(&c->clients, &c->cap_clients, c->n_clients, sizeof(*c->clients), MAX_CLIENTS) < 0 ||
		map_put(&c->by_client, client_key(card, id), (uint32_t) c->n_clients) < 0)
		return NULL;
	struct drm_client *client = &c->clients[c->n_clients++];

	*client = (struct drm_client) { .card = card, .id = id };
	return client;
}

/* A holder of a client was seen; f: what its fdinfo says, NULL if it was not read. It belongs to the one that began
 * first: a program inherits what its parent opened. */
static void client_seen(struct drm_clients *c, const struct held *held, const struct drm_fdinfo *f, const struct holder *h)
{
	struct drm_client *client = client_of(c, held->card, held->id);

	if (!client)
		return;
	if (client->look != c->look) {
		bool is_first = client->look == 0;

		client->look = c->look;
		client->n_rates = 0;
		if (f)
			drm_client_take(client, f, is_first, c->now_ns);
	} else if (h->start_ticks > client->start_ticks ||
		   (h->start_ticks == client->start_ticks && h->pid >= client->pid)) {
		return;
	}
	client->pid = h->pid;
	client->start_ticks = h->start_ticks;
}

/* Clients that nobody was seen to hold are closed. */
static void clients_drop(struct drm_clients *c)
{
	for (size_t i = 0; i < c->n_clients;) {
		struct drm_client *client = &c->clients[i];

		if (client->look == c->look) {
			i++;
			continue;
		}
		map_remove(&c->by_client, client_key(client->card, client->id));
		*client = c->clients[--c->n_clients];
		if (i < c->n_clients)
			(void) map_put(&c->by_client, client_key(client->card, client->id), (uint32_t) i);
	}
}

/* ---- descriptors -------------------------------------------------------------------------------------------------- */

/* Whether what a descriptor's link says may be a device: it has a path. By that alone, since a container may call a
 * device anything; what it is says its fdinfo, which (unlike stat) never waits for a file system. */
static bool may_be_device(const char *link, ssize_t len)
{
	return len > 0 && link[0] == '/' && strncmp(link, "/memfd:", 7) != 0 && strncmp(link, "/SYSV", 5) != 0;
}

/* Reads the fdinfo of a descriptor. Returns 0, -EBADMSG for what is no client, or -errno. */
static int fdinfo_read(struct drm_clients *c, int32_t pid, int32_t fd, struct drm_fdinfo *ret)
{
	char path[64], text[8192];

	snprintf(path, sizeof(path), "%d/fdinfo/%d", (int) pid, (int) fd);
	ssize_t n = smallfile_read(c->root->proc, path, text, sizeof(text));

	return n < 0 ? (int) n : drm_fdinfo_parse(text, ret);
}

/* Which client it is. card -1: of no device of ours, or it cannot be told from others. */
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
	if (len < 0 ? errno != EACCES : !may_be_device(link, len)) /* EACCES: its fdinfo may be readable all the same */
		return 0;
	c->reads_left -= c->reads_left > 0;
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

/* Lists a process's descriptors and keeps those that are clients. Returns 0 or -errno. */
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

/* How many descriptors a process has (Linux 6.2, else 0): asks no permission. */
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

/* Whether the process is to be listed at this look. */
static bool is_due(struct holder *h, int64_t n_open)
{
	bool changed = n_open != h->n_open;

	h->n_open = n_open;
	if (h->wait > 0)
		h->wait--;
	if (changed || h->rest == 0)
		h->rest = 1;
	else if (h->wait > 0)
		return false;
	unsigned most = h->refused ? REST_REFUSED : h->n_fds ? REST_CLIENT
					    : n_open         ? REST_TOLD
							     : REST_UNTOLD;

	h->wait = h->rest;
	h->rest = h->rest * 2 < most ? h->rest * 2 : most;
	return true;
}

/* Reads the clients of a process that is known to have some. */
static void holder_read(struct drm_clients *c, struct holder *h)
{
	uint64_t start = drm_start_ticks(c->root, h->pid);
	struct drm_fdinfo f;

	if (h->start_ticks && h->start_ticks != start) { /* another process by the same number */
		h->n_fds = 0;
		h->rest = h->wait = 0;
	}
	h->start_ticks = start;
	for (size_t i = 0; i < h->n_fds;) {
		struct held *held = &h->fds[i];
		bool asleep = c->asleep[held->card];

		if (!asleep && fdinfo_read(c, h->pid, held->fd, &f) == 0)
			*held = held_of(c, held->fd, &f);
		else if (!asleep)
			held->card = -1;
		if (held->card < 0) {
			h->fds[i] = h->fds[--h->n_fds];
			h->rest = h->wait = 0; /* closed, and perhaps opened again by another number */
			continue;
		}
		client_seen(c, held, asleep ? NULL : &f, h);
		i++;
	}
	if (h->n_fds == 0)
		h->start_ticks = 0;
}

static int process_look(struct drm_clients *c, int32_t pid)
{
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
	if (c->reads_left > 0 && is_due(h, open_count(c, pid)))
		r = holder_list(c, h);
	if (h->n_fds > 0)
		holder_read(c, h);
	c->refused |= h->refused;
	return r;
}

/* Processes that are gone. */
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

static int processes_look_all(struct drm_clients *c)
{
	int fd = openat(c->root->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	autoclosedir DIR *dir = fdopendir(fd);

	if (!dir) {
		(void) close(fd);
		return -ENOMEM;
	}
	int r = 0;

	for (const struct dirent *entry = readdir(dir); entry && r == 0; entry = readdir(dir)) {
		const char *p = entry->d_name;
		uint64_t pid;

		if (parse_u64(&p, &pid) == 0 && *p == '\0' && pid > 0 && pid <= INT32_MAX)
			r = process_look(c, (int32_t) pid);
	}
	return r;
}

/* ---- uses --------------------------------------------------------------------------------------------------------- */

static struct maybe plus(struct maybe a, struct maybe b)
{
	int64_t sum;

	if (!a.known || !b.known)
		return a.known ? a : b;
	return __builtin_add_overflow(a.value, b.value, &sum) ? known(INT64_MAX) : known(sum);
}

static int use_add(struct drm_clients *c, const struct drm_client *client)
{
	struct drm_use *use = c->n_uses ? &c->uses[c->n_uses - 1] : NULL;

	if (!use || use->pid != client->pid || use->card != client->card) {
		int r = vec_room(&c->uses, &c->cap_uses, c->n_uses, sizeof(*use), MAX_CLIENTS);

		if (r < 0)
			return r;
		use = &c->uses[c->n_uses++];
		*use = (struct drm_use) { .pid = client->pid, .start_ticks = client->start_ticks, .card = client->card };
	}
	use->device_bytes = plus(use->device_bytes, client->device_bytes);
	use->host_bytes = plus(use->host_bytes, client->host_bytes);
	use->compute |= client->compute;
	use->graphics |= client->graphics;
	drm_rates_add(use->rates, &use->n_rates, client->rates, client->n_rates);
	return 0;
}

static int by_holder(const void *a, const void *b)
{
	const struct drm_client *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->card - y->card;
}

/* Brings the clients into the order of their holders and adds them up. */
static int uses_make(struct drm_clients *c)
{
	int r = 0;

	c->n_uses = 0;
	if (c->n_clients > 0)
		qsort(c->clients, c->n_clients, sizeof(*c->clients), by_holder);
	for (size_t i = 0; i < c->n_clients && r == 0; i++) {
		r = map_put(&c->by_client, client_key(c->clients[i].card, c->clients[i].id), (uint32_t) i);
		if (r == 0)
			r = use_add(c, &c->clients[i]);
	}
	return r;
}

/* ---- the interface ------------------------------------------------------------------------------------------------ */

struct drm_clients *drm_clients_new(const struct root *root, const struct drm_cards *cards)
{
	struct drm_clients *c = calloc(1, sizeof(*c));

	if (c) {
		c->root = root;
		c->cards = cards;
	}
	return c;
}

void drm_clients_free(struct drm_clients *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n_holders; i++)
		free(c->holders[i].fds);
	free(c->holders);
	free(c->clients);
	free(c->uses);
	map_done(&c->by_pid);
	map_done(&c->by_client);
	free(c);
}

int drm_clients_look(struct drm_clients *c, uint64_t now_ns)
{
	c->look++;
	c->now_ns = now_ns;
	c->reads_left = READS_PER_LOOK;
	c->refused = false;
	for (size_t i = 0; i < c->cards->n; i++)
		c->asleep[i] = drm_card_sleeps(&c->cards->list[i]);
	int r = processes_look_all(c);

	if (r < 0)
		return r;
	holders_drop(c);
	clients_drop(c);
	return uses_make(c);
}

const struct drm_use *drm_clients_uses(const struct drm_clients *c, size_t *ret_n)
{
	*ret_n = c->n_uses;
	return c->uses;
}

bool drm_clients_was_refused(const struct drm_clients *c)
{
	return c->refused;
}

bool drm_clients_has(const struct drm_clients *c, int card)
{
	for (size_t i = 0; i < c->n_uses; i++) {
		if (c->uses[i].card == card)
			return true;
	}
	return false;
}
