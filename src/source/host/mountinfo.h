/* SPDX-License-Identifier: MIT
 *
 * Lines of procfs mountinfo; proc_pid_mountinfo(5).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/root.h"

#define MOUNTINFO_PATH 512

struct mount {
	char root[MOUNTINFO_PATH];  /* field 4: the folder of the file system that is mounted,
	                             * escapes decoded */
	char point[MOUNTINFO_PATH]; /* field 5: the mount point, likewise */
	char type[32];              /* first field behind the " - " */
	const char *source;         /* the second; borrowed from the text, source_len bytes */
	const char *options;        /* the third, of the file system; borrowed likewise */
	size_t source_len, options_len;
};

/* The current mountinfo of this process: read again only if the kernel signals a changed mount, as
 * there may be thousands. NULL if it cannot be read. Borrowed until the next call for this root. */
const char *mountinfo_text(const struct root *root);

/* Parses the next valid line and moves *p behind it; skips invalid lines and those with a path that
 * is too long. False at the end of the text; *ret is then undefined. */
bool mountinfo_next(const char **p, struct mount *ret);

/* True if word is one of the mount's comma-separated options. */
bool mount_has_option(const struct mount *mount, const char *word);

/* The type of the file system that contains path (absolute, without symbolic links): the longest
 * mount point above it and, of equal ones, the last. False if the text has none. */
bool mountinfo_type_at(const char *text, const char *path, struct mount *ret);
