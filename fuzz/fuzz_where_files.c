/* SPDX-License-Identifier: MIT
 *
 * Files of a job that its sampler (run --where) reads. The first byte selects: 'e' the headers of a program, 'p' a perf map.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "where/module.h"
#include "where/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(what) ((what) ? (void) 0 : abort())

static void read_program(const uint8_t *data, size_t size)
{
	const int fd = memfd_create("program", MFD_CLOEXEC);
	struct module m = { 0 };

	if (fd < 0)
		return;
	REQUIRE(write(fd, data, size) == (ssize_t) size);
	REQUIRE(module_read(fd, &m) == m.is_elf);
	REQUIRE(m.n_segments <= MODULE_SEGMENTS && m.is_elf == (m.n_segments > 0));
	REQUIRE(memchr(m.build_id, 0, sizeof(m.build_id)) && strspn(m.build_id, "0123456789abcdef") == strlen(m.build_id));
	(void) close(fd);
}

static void read_map(const uint8_t *data, size_t size)
{
	static const uint64_t addresses[] = { 0, 1, 0x1000, 0x1010, 0x2000, 0x7f52c0de1004, INT64_MAX, UINT64_MAX - 1, UINT64_MAX };
	struct names *const names = names_new();
	char path[64];
	int fd;

	(void) snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int) getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (names && fd >= 0) {
		REQUIRE(write(fd, data, size) == (ssize_t) size);
		for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++) {
			struct place_name name;
			const bool is_known = names_of_map(names, getpid(), addresses[i], &name);

			REQUIRE(strnlen(name.function, NAME_BYTES) < NAME_BYTES && strnlen(name.file, NAME_BYTES) < NAME_BYTES);
			REQUIRE(is_known || (!*name.function && !*name.file));
		}
	}
	if (fd >= 0)
		(void) close(fd);
	(void) unlink(path);
	names_free(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0 && data[0] == 'e')
		read_program(data + 1, size - 1);
	if (size > 0 && data[0] == 'p')
		read_map(data + 1, size - 1);
	return 0;
}
