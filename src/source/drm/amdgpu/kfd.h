/* SPDX-License-Identifier: MIT
 *
 * ROCm processes: /sys/class/kfd/kfd/proc/PID, which any user may read. Files that make the driver
 * work (sdma_*, cu_occupancy) are not read. A process that only opened /dev/kfd is listed too.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/root.h"
#include "source/drm/card.h"

/* A GPU and its number in KFD. */
struct kfd_node {
	uint32_t gpu_id;
	int card; /* index in drm_cards */
};

struct kfd_use {
	int32_t pid;
	int card;
	int64_t vram_bytes;
};

struct kfd {
	struct kfd_node *nodes;
	struct kfd_use *uses;
	size_t n_nodes, cap_nodes, n_uses, cap_uses;
};

/* Reads the GPUs (topology). Returns 0, -ENOENT without KFD, -EXDEV if the pids are not those of
 * this pid namespace and mean nothing here, or -errno. */
int kfd_open(const struct root *root, const struct drm_cards *cards, struct kfd *ret);

/* Whether KFD has that card, readable or not. */
bool kfd_has(const struct kfd *kfd, size_t card);

/* Reads the processes and their memory; omits a process that ends meanwhile. Returns 0 or -errno. */
int kfd_read(const struct root *root, struct kfd *kfd);

void kfd_done(struct kfd *kfd);

/* The PCI address of a topology node from its properties ("domain 0", "location_id 768"). False for
 * a node without one. */
bool kfd_address_parse(const char *properties, char *ret, size_t size);
