/* SPDX-License-Identifier: MIT
 *
 * Small files: one read into the caller's buffer (more only where the first gave 2 KiB or more: the kernel hands out
 * lists a page at a time). What is read is always NUL-terminated; a file that does not fit is cut at the last whole
 * line if it has one, else at the buffer's end (the caller's parser decides whether that is enough). Nothing here
 * allocates.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads from offset 0 of an open file. Returns the bytes in buf without the NUL, or -errno. */
ssize_t smallfile_pread(int fd, char *buf, size_t size);

/* Opens below dirfd (O_RDONLY|O_CLOEXEC), reads, closes. Returns likewise. */
ssize_t smallfile_read(int dirfd, const char *path, char *buf, size_t size);

/* Opens below dirfd for keeping, O_RDONLY|O_CLOEXEC. Returns the descriptor or -errno. */
int smallfile_open(int dirfd, const char *path);

/* Writes text into an existing file (a /proc or cgroup knob). Returns 0 or -errno. */
int smallfile_write(int dirfd, const char *path, const char *text);

/* ---- how many files may still be opened (ulimit -n) ---------------------------------------------------------------- */

/* May n more files be open at once? It tries, a microsecond each: what was inherited counts, wherever it lies. */
bool descriptors_are_left(size_t n);

/* Does error (-errno) say that no further file may be opened? */
bool descriptors_were_lacking(int error);
