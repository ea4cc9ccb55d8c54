/* SPDX-License-Identifier: MIT
 *
 * The set of clients, and each process's total on each GPU.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "source/drm/clients_internal.h"

enum {
	MAX_CLIENTS = 1 << 16
};

/* ---- clients ------------------------------------------------------------------------------------------------------ */

static uint64_t client_key(int card, int64_t id)
{
	return (uint64_t) id << 8 | (uint64_t) card; /* DRM_CARDS fits */
}

/* The client with this card and number; NULL: out of memory. */
static struct drm_client *client_of(struct drm_clients *c, int card, int64_t id)
{
	uint32_t at;

	if (map_get(&c->by_client, client_key(card, id), &at))
		return &c->clients[at];
	if (vec_reserve(&c->clients, &c->cap_clients, c->n_clients, sizeof(*c->clients), MAX_CLIENTS) < 0 ||
		map_put(&c->by_client, client_key(card, id), (uint32_t) c->n_clients) < 0)
		return NULL;
	struct drm_client *client = &c->clients[c->n_clients++];

	*client = (struct drm_client) { .card = card, .id = id };
	return client;
}

/* A client belongs to the process that started first: a program inherits its parent's open files. */
void drm_client_seen(struct drm_clients *c, const struct client_fd *client_fd, const struct drm_fdinfo *f,
	const struct drm_process *h)
{
	struct drm_client *client = client_of(c, client_fd->card, client_fd->id);

	if (!client)
		return;
	if (client->scan != c->scan) {
		bool is_first = client->scan == 0;

		client->scan = c->scan;
		client->n_rates = 0;
		if (f)
			drm_client_update(client, f, is_first || c->is_still, c->now_ns);
	} else if (h->start_ticks > client->start_ticks ||
		   (h->start_ticks == client->start_ticks && h->pid >= client->pid)) {
		return;
	}
	client->pid = h->pid;
	client->start_ticks = h->start_ticks;
}

/* Removes clients that no process was seen to have open. */
static void clients_drop(struct drm_clients *c)
{
	for (size_t i = 0; i < c->n_clients;) {
		struct drm_client *client = &c->clients[i];

		if (client->scan == c->scan) {
			i++;
			continue;
		}
		map_remove(&c->by_client, client_key(client->card, client->id));
		*client = c->clients[--c->n_clients];
		if (i < c->n_clients)
			(void) map_put(&c->by_client, client_key(client->card, client->id), (uint32_t) i);
	}
}

/* ---- uses --------------------------------------------------------------------------------------------------------- */

static int use_add(struct drm_clients *c, const struct drm_client *client)
{
	struct drm_use *use = c->n_uses ? &c->uses[c->n_uses - 1] : NULL;

	if (!use || use->pid != client->pid || use->card != client->card) {
		int r = vec_reserve(&c->uses, &c->cap_uses, c->n_uses, sizeof(*use), MAX_CLIENTS);

		if (r < 0)
			return r;
		use = &c->uses[c->n_uses++];
		*use = (struct drm_use) {
			.pid = client->pid,
			.start_ticks = client->start_ticks,
			.card = client->card,
		};
	}
	use->device_bytes = maybe_plus(use->device_bytes, client->device_bytes);
	use->host_bytes = maybe_plus(use->host_bytes, client->host_bytes);
	use->compute |= client->compute;
	use->graphics |= client->graphics;
	drm_rates_add(use->rates, &use->n_rates, client->rates, client->n_rates);
	return 0;
}

static int by_process(const void *a, const void *b)
{
	const struct drm_client *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->card - y->card;
}

/* Sorts the clients by process and adds them up. */
static int uses_make(struct drm_clients *c)
{
	int r = 0;

	c->n_uses = 0;
	if (c->n_clients > 0)
		qsort(c->clients, c->n_clients, sizeof(*c->clients), by_process);
	for (size_t i = 0; i < c->n_clients && r == 0; i++) {
		r = map_put(&c->by_client, client_key(c->clients[i].card, c->clients[i].id), (uint32_t) i);
		if (r == 0)
			r = use_add(c, &c->clients[i]);
	}
	return r;
}

/* ---- the interface ------------------------------------------------------------------------------------------------ */

void drm_clients_set_still(struct drm_clients *c)
{
	c->is_still = true;
}

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
	drm_processes_free(c);
	free(c->clients);
	free(c->uses);
	map_done(&c->by_client);
	free(c);
}

int drm_clients_scan(struct drm_clients *c, uint64_t now_ns)
{
	c->scan++;
	c->now_ns = now_ns;
	c->refused = false;
	for (size_t i = 0; i < c->cards->n; i++)
		c->asleep[i] = drm_card_sleeps(&c->cards->list[i]);
	int r = drm_processes_scan(c);

	if (r < 0)
		return r;
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
