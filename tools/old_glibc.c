/* SPDX-License-Identifier: MIT */
#include "old_glibc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

pid_t gettid(void)
{
	return (pid_t) syscall(SYS_gettid);
}

/* If off_t has 64 bits, fcntl64 is fcntl; glibc reads the argument in the same way. */
int fcntl64(int fd, int command, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return fcntl(fd, command, argument);
}

/* Kernel 3.15; ENOSYS before, which callers handle like any failure. */
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	return (int) syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

/* Kernel 3.17; ENOSYS before. */
int memfd_create(const char *name, unsigned flags)
{
	return (int) syscall(SYS_memfd_create, name, flags);
}

void *reallocarray(void *block, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(block, bytes);
}

/* Kernel 3.17; ENOSYS before. */
ssize_t getrandom(void *bytes, size_t n, unsigned flags)
{
	return syscall(SYS_getrandom, bytes, n, flags);
}
