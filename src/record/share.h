/* SPDX-License-Identifier: MIT
 *
 * File systems on which SQLite's locks and shared memory cannot be relied on: those of a network, and those that some
 * program serves. There a recording is written elsewhere and copied.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* "NFS", "Lustre", ...: what path, or the nearest folder above it that exists, lies on; NULL: nothing special. */
const char *share_kind(const char *path);

/* Makes a folder of this machine's own (0700). Returns 0 or -errno with text. */
int share_folder(char *ret, size_t size, struct err *err);

/* The name of a temporary file beside path, on the same file system. Returns 0 or -ENAMETOOLONG. */
int share_temporary(const char *path, char *ret, size_t size);

/* Gives the file from its final name to. Without replace, an existing to is an error (-EEXIST) and from stays. */
int share_rename(const char *from, const char *to, bool replace);

/* Copies the file from as a new file to (0600). Returns 0 or -errno; then to is gone. */
int share_copy(const char *from, const char *to);

/* Waits for a lock of the folder, for those who change together what is in it. Returns the lock, to be closed; -1: without
 * one, where there are none to rely on or where it was not free for a moment (its holder may be stopped, and no run waits
 * for another to end). */
int share_await_turn(const char *folder);
