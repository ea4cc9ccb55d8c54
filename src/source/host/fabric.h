/* SPDX-License-Identifier: MIT
 *
 * The ports by which a node exchanges data with others of a cluster: InfiniBand and RoCE
 * (/sys/class/infiniband/DEVICE/ports/N), Slingshot (interfaces hsnN). Only active ports count.
 */
#pragma once

#include "base/maybe.h"
#include "base/root.h"

/* The sum of the link rates of the active ports, in bits per second, and their names with their rates, "mlx5_0/1 100 Gb/s, ...".
 * Unknown and "" where there is none. */
void fabric_links(const struct root *root, struct maybe *ret_bits, char *ret_names, size_t size);
