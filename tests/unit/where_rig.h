/* SPDX-License-Identifier: MIT
 *
 * A folder of processes that a test writes: PID/maps (or smaps), PID/pagemap and PID/statm. The pagemap is a sparse
 * file of 8 bytes a page, so addresses are low. It has no ioctl: huge pages are those of smaps.
 */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB        (UINT64_C(1) << 20)
#define KIB        (UINT64_C(1) << 10)
#define PAGE_BYTES UINT64_C(4096)

/* What pagemap says of a page. */
#define PAGE_ANONYMOUS (UINT64_C(1) << 63)
#define PAGE_FILE      (UINT64_C(1) << 63 | UINT64_C(1) << 61)
#define PAGE_SWAPPED   (UINT64_C(1) << 62)
#define PAGE_GONE      UINT64_C(0)

struct folder {
	char path[64];
	int fd;
};

static inline void folder_new(struct folder *f)
{
	(void) strcpy(f->path, "/tmp/hiwater-proc-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->fd >= 0);
}

static inline void folder_done(struct folder *f)
{
	char command[128];

	(void) close(f->fd);
	(void) snprintf(command, sizeof(command), "rm -r %s", f->path);
	assert_int_equal(system(command), 0);
}

static inline int folder_open(const struct folder *f, int pid, const char *name, int flags)
{
	char path[64];
	int fd;

	(void) snprintf(path, sizeof(path), "%d", pid);
	(void) mkdirat(f->fd, path, 0700);
	(void) snprintf(path, sizeof(path), "%d/%s", pid, name);
	fd = openat(f->fd, path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
	assert_true(fd >= 0);
	return fd;
}

static inline void folder_write(const struct folder *f, int pid, const char *name, const char *text)
{
	const int fd = folder_open(f, pid, name, O_TRUNC);

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t) strlen(text));
	assert_int_equal(close(fd), 0);
}

static inline void folder_remove(const struct folder *f, int pid, const char *name)
{
	char path[64];

	(void) snprintf(path, sizeof(path), "%d/%s", pid, name);
	assert_int_equal(unlinkat(f->fd, path, 0), 0);
}

/* Makes all pages of [start, end) such ones. */
static inline void folder_pages(const struct folder *f, int pid, uint64_t start, uint64_t end, uint64_t page)
{
	const size_t n = (size_t) ((end - start) / PAGE_BYTES);
	uint64_t *const pages = malloc(n * sizeof(*pages));
	const int fd = folder_open(f, pid, "pagemap", 0);

	assert_non_null(pages);
	for (size_t i = 0; i < n; i++)
		pages[i] = page;
	assert_int_equal(pwrite(fd, pages, n * sizeof(*pages), (off_t) (start / PAGE_BYTES * sizeof(*pages))),
		(ssize_t) (n * sizeof(*pages)));
	free(pages);
	assert_int_equal(close(fd), 0);
}
