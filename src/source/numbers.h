/* SPDX-License-Identifier: MIT
 *
 * Folders whose entries are numbers: processes, their threads.
 */
#pragma once

#include <stdint.h>

/* Calls seen with each name below path (below the folder at) that is a whole number above 0. Allocates nothing. Returns 0,
 * -errno, or what seen returned below 0. Any thread. */
int numbers_list(int at, const char *path, int (*seen)(void *ctx, int32_t number), void *ctx);
