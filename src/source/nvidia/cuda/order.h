/* SPDX-License-Identifier: MIT
 *
 * Which devices a CUDA program sees, and under which numbers: from the devices and the two variables of its environment.
 * Pure functions. CUDA C++ Programming Guide, "CUDA Environment Variables".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A GPU or a MIG instance. Texts are never NULL. */
struct cuda_device {
	const char *uuid;   /* "GPU-...", "MIG-..." */
	const char *pci;    /* "0000:3b:00.0"; "" unknown */
	const char *name;
	const char *parent; /* of an instance: uuid of its GPU; else "" */
	bool is_divided;    /* a GPU in MIG mode, which CUDA replaces by its first instance */
	unsigned instance;  /* of an instance: its number in its GPU */
	unsigned gpu_instance, compute_instance; /* of an instance */
};

enum cuda_ordering {
	CUDA_FASTEST_FIRST, /* CUDA's default */
	CUDA_PCI_BUS_ID,
};

/* What CUDA_DEVICE_ORDER says; NULL: it is not set. */
enum cuda_ordering cuda_ordering_of(const char *value);

/* Fills order with places in list: order[k] is CUDA's device k where nothing is selected. Returns how many there are, or
 * -EAGAIN where only the driver knows: the fastest of unlike devices, or a device whose place is unknown. */
ssize_t cuda_order(const struct cuda_device *list, size_t n, enum cuda_ordering by, size_t *order);

/* The same with CUDA_VISIBLE_DEVICES (NULL: not set), which selects from order. What stands behind an entry that is none
 * is lost, and a device that is named twice leaves none. Returns how many there are, 0 for none. ret has room for n. */
ssize_t cuda_visible(const struct cuda_device *list, size_t n, const size_t *order, size_t n_order, const char *value,
	size_t *ret);
