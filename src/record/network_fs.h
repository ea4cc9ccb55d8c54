/* SPDX-License-Identifier: MIT
 *
 * Network file systems and those served by a user program: SQLite's locks and shared memory are
 * unreliable there, so a recording is written on a local file system and copied.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* The kind of network file system that path, or its nearest existing parent folder, is on:
 * "NFS", "Lustre", ...; NULL if it is a local one or unknown. */
const char *network_fs_kind(const char *path);

/* Creates a temporary local folder (mode 0700). Returns 0 or -errno with text. */
int network_fs_local_folder(char *ret, size_t size, struct err *err);

/* The name of a temporary file next to path, on the same file system. Returns 0 or
 * -ENAMETOOLONG. */
int network_fs_temporary(const char *path, char *ret, size_t size);

/* Renames from to to. Without replace, an existing to is an error (-EEXIST) and from stays. */
int network_fs_rename(const char *from, const char *to, bool replace);

/* Copies from to the new file to (mode 0600). Returns 0 or -errno; on error to is removed. */
int network_fs_copy(const char *from, const char *to);

/* Waits at most 50 ms for a lock on the folder, which serializes changes to its contents.
 * Returns a file descriptor that the caller closes, or -1 without a lock: on a network file
 * system, or if another process keeps the lock (it may be stopped, and no run waits for another
 * to end). */
int network_fs_lock(const char *folder);
