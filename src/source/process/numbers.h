/* SPDX-License-Identifier: MIT
 *
 * Folders whose entries are numbers: processes, their threads, the nodes of ROCm's topology; and the list of a task's
 * children.
 */
#pragma once

#include <stdint.h>

/* Calls seen with each name below path (below the folder at) that is a whole number, 0 too. Allocates nothing. Returns 0,
 * -errno, or what seen returned below 0. Any thread. */
int numbers_list(int at, const char *path, int (*seen)(void *ctx, int32_t number), void *ctx);

/* The same of the pids in a task's children file, which may be longer than any buffer. Takes fd over. */
int numbers_children(int fd, int (*seen)(void *ctx, int32_t pid), void *ctx);
