/* SPDX-License-Identifier: MIT
 *
 * Parsers of the small files below /proc. Each is total on any bytes that end in a NUL, returns 0
 * or -EBADMSG, and leaves *ret alone on failure. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/maybe.h"

/* proc_pid_statm(5); in pages. All zero: the process has no memory (any more). */
struct procfs_statm {
	uint64_t size, resident, shared; /* fields 1, 2, 3; shared is mapped files and shared memory */
};
int procfs_statm_parse(const char *text, struct procfs_statm *ret);

/* proc_pid_io(5). */
struct procfs_io {
	uint64_t read_chars, write_chars; /* rchar, wchar */
	uint64_t read_bytes, write_bytes, write_cancelled;
};
int procfs_io_parse(const char *text, struct procfs_io *ret);

/* smaps_rollup: Documentation/filesystems/proc.rst. In bytes. */
struct procfs_rollup {
	uint64_t rss, pss;
	uint64_t private, shared; /* Clean + Dirty */
	struct maybe pss_anon;    /* anonymous part of pss: Linux 5.4 or newer */
};
int procfs_rollup_parse(const char *text, struct procfs_rollup *ret);

/* One line of maps: proc_pid_maps(5). */
struct procfs_map {
	uint64_t start, end;    /* addresses; start < end */
	uint64_t offset;        /* in the file; offset + (end - start) does not overflow */
	uint64_t inode;         /* 0: no file (but also SysV segment number 0) */
	uint32_t major, minor;
	bool barred;            /* ---p: private and not accessible; a hole between a library's segments */
	const char *name;       /* in line; "" if none */
	size_t name_len;        /* to the end of the line */
};
int procfs_map_parse(const char *line, struct procfs_map *ret);

/* Field 5 of loadavg: the last pid assigned in the reader's pid namespace. */
int procfs_lastpid_parse(const char *text, uint32_t *ret);

/* The next pid of a task's children file; moves *p on. False at the end, or at text that is not a
 * pid (a number cut by the end of the text is left unread). */
bool procfs_child_next(const char **p, int32_t *ret);
