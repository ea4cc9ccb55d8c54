/* SPDX-License-Identifier: MIT
 *
 * Free space in the folders that matter to a job.
 */
#pragma once

#include "base/maybe.h"
#include "source/source.h"

/* Opens the folder. Returns the descriptor, -EREMOTE if statvfs could hang there, or -errno; on a
 * captured machine -ENOENT. */
int folder_open_work(const struct source_env *env);
int folder_open_shm(const struct source_env *env);

/* Bytes available to users other than root; the share in use, in millionths. Unknown if fd is
 * negative. */
struct maybe folder_free(int fd);
struct maybe folder_used(int fd);
