/* SPDX-License-Identifier: MIT
 *
 * For the wheel that runs on systems with glibc 2.17: functions that hiwater or the distribution's libsqlite3.a call and that
 * later versions of glibc added. Included before everything else, and only if the C library lacks them.
 */
#pragma once

#include <linux/memfd.h>
#include <stddef.h>
#include <sys/types.h>

#ifndef F_ADD_SEALS /* fcntl.h of 2.27 */
#define F_ADD_SEALS   1033
#define F_SEAL_SEAL   1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW   4
#endif

pid_t gettid(void);                                       /* 2.30 */
int fcntl64(int fd, int command, ...);                    /* 2.28 */
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags); /* 2.28 */
int memfd_create(const char *name, unsigned flags);       /* 2.27 */
void *reallocarray(void *block, size_t n, size_t size);   /* 2.26 */
ssize_t getrandom(void *bytes, size_t n, unsigned flags); /* 2.25 */
