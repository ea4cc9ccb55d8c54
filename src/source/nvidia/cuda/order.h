/* SPDX-License-Identifier: MIT
 *
 * The devices that a CUDA program sees, and their numbers, computed from the devices and the two
 * environment variables CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES. Pure functions. CUDA C++
 * Programming Guide, "CUDA Environment Variables".
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

/* Parses CUDA_DEVICE_ORDER; NULL: not set. */
enum cuda_ordering cuda_ordering_of(const char *value);

/* Fills order with indices into list: order[k] is CUDA's device k if nothing is selected. Returns
 * their number, or -EAGAIN if only the driver knows the order: the fastest of unlike devices, or a
 * device without a known PCI address. */
ssize_t cuda_order(const struct cuda_device *list, size_t n, enum cuda_ordering by, size_t *order);

/* The same with CUDA_VISIBLE_DEVICES (NULL: not set) applied, which selects from order. An invalid
 * entry ends the list; a device named twice leaves no device at all. Returns the number of devices,
 * possibly 0. ret must have room for n. */
ssize_t cuda_visible(const struct cuda_device *list, size_t n, const size_t *order, size_t n_order,
	const char *value, size_t *ret);
