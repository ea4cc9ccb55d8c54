/* SPDX-License-Identifier: MIT
 *
 * Xids in words. docs.nvidia.com/deploy/xid-errors.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* "Xid 79: the GPU has fallen off the bus"; the number alone for one that is not known. */
void xid_text(uint64_t xid, char *ret, size_t size);
