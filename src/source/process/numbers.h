/* SPDX-License-Identifier: MIT
 *
 * Lists folders whose entries are numbers (processes, their threads, the nodes of ROCm's topology)
 * and the children file of a task.
 */
#pragma once

#include <stdint.h>

/* Calls seen for each name in path (below the folder at) that is a whole number, 0 included.
 * Allocates nothing. Returns 0, -errno, or a negative result of seen. Any thread. */
int numbers_list(int at, const char *path, int (*seen)(void *ctx, int32_t number), void *ctx);

/* Likewise for the pids in a task's children file, which may be longer than any buffer. Closes fd. */
int numbers_children(int fd, int (*seen)(void *ctx, int32_t pid), void *ctx);
