/* SPDX-License-Identifier: MIT
 *
 * Space in folders that matter to a job.
 */
#pragma once

#include "base/maybe.h"
#include "source/source.h"

/* Opens the folder. Returns the descriptor, -EREMOTE where asking it could hang, or -errno; on a
 * captured machine -ENOENT. */
int folder_open_work(const struct source_env *env);
int folder_open_shm(const struct source_env *env);

/* Bytes that are left to whoever is not root; the share in use, in millionths. Unknown where fd is negative. */
struct maybe folder_free(int fd);
struct maybe folder_used(int fd);
