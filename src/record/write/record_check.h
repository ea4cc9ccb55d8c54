/* SPDX-License-Identifier: MIT
 *
 * Checks a recording's location before there is anything to write.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* The name that replaces path if it is taken, in ret: x.hiw, x-2.hiw, x-3.hiw for number 1, 2, 3.
 * Returns 0, or -EEXIST if no further number is to be tried, or -ENAMETOOLONG. */
int record_name(const char *path, unsigned number, char *ret, size_t size);

#define RECORD_RENAMED "%.200s exists; this run is recorded in %.200s"

/* Checks that a file can be created at path (NULL: in the history): its folder exists and is
 * writable, and the file does not exist, or may be replaced and is not being written. Sets
 * *ret_path to the absolute path, freed by the caller (NULL for the history), and where to a
 * name in the same folder. ret_number NULL: a file that exists is an error; else *ret_number is the
 * number of the first name that is free, and where is that name. Returns 0 or -errno with text. */
int record_check(const char *path, bool overwrite, unsigned *ret_number, char **ret_path, char *where,
	size_t size, struct err *err);
