/* SPDX-License-Identifier: MIT
 *
 * Checks a recording's location before there is anything to write.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Checks that a file can be created at path (NULL: in the history): its folder exists and is
 * writable, and the file does not exist, or may be replaced and is not being written. Sets
 * *ret_path to the absolute path, freed by the caller (NULL for the history), and where to a
 * name in the same folder. Returns 0 or -errno with text. */
int record_check(
	const char *path, bool overwrite, char **ret_path, char *where, size_t size, struct err *err);
