/* SPDX-License-Identifier: MIT
 *
 * What can be known of a recording's place before there is anything to write.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Checks that a file can be made at path (NULL: in the history): its folder is there and writable, it does not exist,
 * or may be replaced and nobody writes it. *ret_path is its absolute name, the caller's to free (NULL for the history);
 * where becomes a name in the same folder. Returns 0 or -errno with text. */
int record_check(const char *path, bool overwrite, char **ret_path, char *where, size_t size, struct err *err);
