/* SPDX-License-Identifier: MIT
 *
 * Files of any length that the kernel returns a page at a time (diskstats, mountinfo,
 * cgroup.procs): read to the end into a block that grows and is reused. An all-zero struct is an
 * empty block. Any thread, one at a time.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct longfile {
	char *data; /* NUL-terminated after the first read */
	size_t size;
};

/* Reads an open file from its beginning. Allocates only if it is longer than any before. Returns
 * the length of data without the NUL, -EFBIG beyond 16 MiB, -ENOMEM, or -errno. */
ssize_t longfile_pread(struct longfile *f, int fd);

/* Opens below dirfd, reads, closes. Returns as longfile_read. */
ssize_t longfile_read(struct longfile *f, int dirfd, const char *path);

void longfile_done(struct longfile *f);
