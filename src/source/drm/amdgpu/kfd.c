/* SPDX-License-Identifier: MIT */
#include "source/drm/amdgpu/kfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/drm/sysfs_values.h"
#include "source/host/container.h"
#include "source/process/numbers.h"

enum {
	MAX_NODES = 1024,
	MAX_USES = 1 << 16
};

static const char topology[] = "class/kfd/kfd/topology/nodes";
static const char processes[] = "class/kfd/kfd/proc";

/* ---- nodes and their GPUs ----------------------------------------------------------------------------------------- */

/* location_id is bus << 8 | device << 3 | function. */
bool kfd_address_parse(const char *properties, char *ret, size_t size)
{
	uint64_t domain = 0, location;

	if (parse_flat(properties, "location_id", &location) < 0 || location == 0 || location > UINT16_MAX)
		return false;
	if (parse_flat(properties, "domain", &domain) < 0 || domain > UINT32_MAX)
		domain = 0; /* older kernels lack it */
	snprintf(ret, size, "%04x:%02x:%02x.%x", (unsigned) domain, (unsigned) (location >> 8),
		(unsigned) (location >> 3 & 0x1f), (unsigned) (location & 7));
	return true;
}

struct opening {
	struct kfd *kfd;
	const struct drm_cards *cards;
	int dir;                  /* folder of the nodes */
};

static int node_add(void *ctx, int32_t number)
{
	struct opening *o = ctx;
	const int dir = o->dir;
	char path[64], text[4096], address[32];
	int64_t gpu_id;

	snprintf(path, sizeof(path), "%u/gpu_id", (unsigned) number);
	if (drm_number_read(dir, path, &gpu_id) < 0 || gpu_id <= 0 || gpu_id > UINT32_MAX) /* 0: a CPU */
		return 0;
	snprintf(path, sizeof(path), "%u/properties", (unsigned) number);
	if (smallfile_read(dir, path, text, sizeof(text)) < 0 ||
		!kfd_address_parse(text, address, sizeof(address)))
		return 0;
	int card = drm_cards_find(o->cards, address, "");

	if (card < 0)
		return 0;
	int r = vec_reserve(
		&o->kfd->nodes, &o->kfd->cap_nodes, o->kfd->n_nodes, sizeof(*o->kfd->nodes), MAX_NODES);

	if (r == 0)
		o->kfd->nodes[o->kfd->n_nodes++] = (struct kfd_node) { (uint32_t) gpu_id, card };
	return r;
}

int kfd_open(const struct root *root, const struct drm_cards *cards, struct kfd *ret)
{
	autoclose int dir = openat(root->sys, topology, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct opening o = { ret, cards, dir };

	*ret = (struct kfd) { 0 };
	int r = dir < 0 ? -errno : numbers_list(dir, ".", node_add, &o);

	if (r == 0 && ret->n_nodes == 0)
		r = -ENOENT;
	if (r < 0)
		kfd_done(ret);
	else if (!machine_first_pids(root)) /* KFD lists processes by their pids in the initial
	                                     * namespace */
		r = -EXDEV;
	return r;
}

bool kfd_has(const struct kfd *kfd, size_t card)
{
	for (size_t i = 0; i < kfd->n_nodes; i++) {
		if (kfd->nodes[i].card == (int) card)
			return true;
	}
	return false;
}

/* ---- processes and their memory ----------------------------------------------------------------------------------- */

struct listing {
	struct kfd *kfd;
	int dir;                  /* folder of the processes */
};

static int process_add(void *ctx, int32_t number)
{
	struct kfd *kfd = ((struct listing *) ctx)->kfd;
	const int dir = ((struct listing *) ctx)->dir;
	char path[64];
	int r = 0;

	for (size_t i = 0; i < kfd->n_nodes && r == 0; i++) {
		int64_t bytes;

		snprintf(
			path, sizeof(path), "%u/vram_%u", (unsigned) number, (unsigned) kfd->nodes[i].gpu_id);
		/* -ENOENT: gone, or not on this GPU */
		if (drm_number_read(dir, path, &bytes) < 0 || bytes < 0)
			continue;
		struct kfd_use *last = kfd->n_uses ? &kfd->uses[kfd->n_uses - 1] : NULL;

		if (last && last->pid == number &&
			last->card == kfd->nodes[i].card) { /* a partition of the same GPU
		                                                                        */
			last->vram_bytes += bytes < INT64_MAX - last->vram_bytes ? bytes : 0;
			continue;
		}
		r = vec_reserve(&kfd->uses, &kfd->cap_uses, kfd->n_uses, sizeof(*kfd->uses), MAX_USES);
		if (r == 0)
			kfd->uses[kfd->n_uses++] = (struct kfd_use) { number, kfd->nodes[i].card, bytes };
	}
	return r;
}

int kfd_read(const struct root *root, struct kfd *kfd)
{
	autoclose int dir = openat(root->sys, processes, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct listing l = { kfd, dir };

	kfd->n_uses = 0;
	return dir < 0 ? -errno : numbers_list(dir, ".", process_add, &l);
}

void kfd_done(struct kfd *kfd)
{
	free(kfd->nodes);
	free(kfd->uses);
	*kfd = (struct kfd) { 0 };
}
