/* SPDX-License-Identifier: MIT
 *
 * A rank of known memory: rank_job PRIVATE_MB SHARED_MB FILE READY STOP
 *
 * It writes PRIVATE_MB of anonymous memory, maps and reads SHARED_MB of FILE (of another program's making, "-": none),
 * makes the file READY, and ends when there is a file STOP. MB are 10^6 bytes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	exit(99);
}

static void *map(size_t size, int flags, int fd)
{
	void *p = mmap(NULL, size, fd < 0 ? PROT_READ | PROT_WRITE : PROT_READ, flags, fd, 0);

	if (p == MAP_FAILED)
		fail("mmap");
	/* whole pages of the file alone, so that the size is that of the command line */
	(void) madvise(p, size, MADV_NOHUGEPAGE);
	return p;
}

int main(int argc, char **argv)
{
	const struct timespec pause = { 0, 10000000 };
	volatile unsigned char seen = 0;
	size_t private_size, shared_size;

	if (argc != 6)
		return 2;
	private_size = strtoul(argv[1], NULL, 10) * 1000000;
	shared_size = strtoul(argv[2], NULL, 10) * 1000000;
	if (private_size > 0)
		memset(map(private_size, MAP_PRIVATE | MAP_ANONYMOUS, -1), 1, private_size);
	if (shared_size > 0) {
		const int fd = open(argv[3], O_RDONLY | O_CLOEXEC);
		const unsigned char *p;

		if (fd < 0)
			fail(argv[3]);
		p = map(shared_size, MAP_SHARED, fd);
		for (size_t i = 0; i < shared_size; i += 4096)
			seen ^= p[i];
	}
	if (close(open(argv[4], O_WRONLY | O_CREAT, 0600)) < 0)
		fail(argv[4]);
	while (access(argv[5], F_OK) < 0)
		(void) nanosleep(&pause, NULL);
	return 0;
}
