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
	char root[MOUNTINFO_PATH];  /* field 4: the folder of the file system that is mounted, escapes undone */
	char point[MOUNTINFO_PATH]; /* field 5: where, likewise */
	char type[32];              /* first field behind the " - " */
	const char *source;         /* the second; borrowed from the text, as long as source_len says */
	const char *options;        /* the third, of the file system; borrowed likewise */
	size_t source_len, options_len;
};

/* The mountinfo of this process as it is now: read again only where the kernel says that a mount has changed, as there may
 * be thousands. NULL where it cannot be read. Borrowed until the next call for this root. */
const char *mountinfo_text(const struct root *root);

/* Reads the next line that is one, moving *p behind it; lines that are none, or with a path that is too long, are
 * passed over. False at the end of the text; then *ret means nothing. */
bool mountinfo_next(const char **p, struct mount *ret);

/* True if word is one of the mount's comma-separated options. */
bool mount_has_option(const struct mount *mount, const char *word);

/* The type of the file system that path (absolute, without symbolic links) lies on, by the longest mount point above
 * it and, of equal ones, the last. False if the text does not say. */
bool mountinfo_type_at(const char *text, const char *path, struct mount *ret);
