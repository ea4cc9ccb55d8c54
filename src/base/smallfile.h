/* SPDX-License-Identifier: MIT
 *
 * Small files: one read into the caller's buffer (more only if the first returns 2 KiB or more: the
 * kernel returns lists a page at a time). The result is always NUL-terminated; a file that does not
 * fit is truncated after the last whole line if there is one, else at the buffer's end (the
 * caller's parser decides whether that is enough). Allocates nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads an open file from offset 0. Returns the number of bytes without the NUL, or -errno. */
ssize_t smallfile_pread(int fd, char *buf, size_t size);

/* Opens below dirfd (O_RDONLY|O_CLOEXEC), reads, closes. Returns the same. */
ssize_t smallfile_read(int dirfd, const char *path, char *buf, size_t size);

/* Opens below dirfd, O_RDONLY|O_CLOEXEC. Returns the descriptor or -errno. */
int smallfile_open(int dirfd, const char *path);

/* Writes text into an existing file (a /proc or cgroup knob). Returns 0 or -errno. */
int smallfile_write(int dirfd, const char *path, const char *text);

/* ---- limit of open files (ulimit -n) --------------------------------------------------------- */

/* True if n more files can be opened now. Tests it with descriptors, a microsecond each, since
 * inherited ones count too. */
bool descriptors_are_left(size_t n);

/* True if error (-errno) means that no further file can be opened. */
bool descriptors_were_lacking(int error);
