/* SPDX-License-Identifier: MIT
 *
 * For the wheel that runs on systems with a glibc before 2.28: the distribution's libsqlite3.a calls fcntl64, which
 * came with 2.28 and is, where off_t has 64 bits anyway, fcntl. Linked in only where the C library lacks it.
 */
#include <fcntl.h>
#include <stdarg.h>

int fcntl64(int fd, int command, ...);

__attribute__((visibility("default"))) int fcntl64(int fd, int command, ...)
{
	va_list arguments;
	void *argument;

	/* glibc's own fcntl reads it in the same way, whatever the command takes. */
	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return fcntl(fd, command, argument);
}
