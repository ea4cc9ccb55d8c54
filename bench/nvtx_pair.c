/* SPDX-License-Identifier: MIT
 *
 * bench-nvtx-pair LIBRARY: the cost of an NVTX push and pop with the probe, LIBRARY (libhiwater-trace.so),
 * in a memory file as a recorder makes it. Prints lines "PAIR_NS BARE_NS", the fastest of many
 * turns in each of several rounds: a push and pop through the functions that the probe stores in a
 * client's table, and, in the same mapping, two bare stores of 32 bytes, each with the time. Nobody reads, so the probe also pays for what it overwrites.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "model/trace.h"
#include "model/trace_ring.h"

enum {
	ROUNDS = 25,
	TURNS = 200, /* of both in a round, by turns; the fastest of each counts, since other load only slows */
	PAIRS = 2000,
	BYTES = TRACE_CHUNKS * TRACE_CHUNK_BYTES, /* that the events of a process go round in */
	ENTRIES = 16,
	PUSH_A = 9,
	POP = 11,
	BARE_SLOT = TRACE_SLOTS - 1,
};

typedef void (*function)(void);

struct callbacks {
	size_t size;
	int (*module_table)(int module, function ***table, unsigned *n);
};

static function functions[ENTRIES], *table_of_functions[ENTRIES];

static int module_table(int module, function ***table, unsigned *n)
{
	*table = table_of_functions;
	*n = ENTRIES;
	return module == 1;
}

static const void *get_export_table(uint32_t id)
{
	static const struct callbacks callbacks = { sizeof(callbacks), module_table };

	return id == 1 ? &callbacks : NULL;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	(void) clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* As a recorder makes it, with its pages filled. */
static char *make_memory(void)
{
	const size_t bytes = TRACE_HEAD_BYTES + (size_t) TRACE_SLOTS * TRACE_SLOT_BYTES;
	const int fd = memfd_create("hiwater-trace", MFD_ALLOW_SEALING);
	struct trace_ring *ring;
	struct stat st;
	char text[200], *map;

	if (fd < 0 || ftruncate(fd, (off_t) bytes) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0 || fstat(fd, &st) < 0)
		return NULL;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return NULL;
	memset(map, 0, TRACE_HEAD_BYTES + TRACE_SLOT_BYTES);
	memset(map + TRACE_HEAD_BYTES + (size_t) BARE_SLOT * TRACE_SLOT_BYTES, 0, TRACE_SLOT_BYTES);
	ring = (struct trace_ring *) (void *) map;
	ring->magic = TRACE_RING_MAGIC;
	ring->version = TRACE_RING_VERSION;
	ring->bytes_of_slot = TRACE_SLOT_BYTES;
	ring->layers = ring->layers_wanted = TRACE_ALL;
	(void) snprintf(text, sizeof(text), "%d:%d:%llu:%llu:@", fd, (int) getpid(), (unsigned long long) st.st_dev,
		(unsigned long long) st.st_ino);
	return setenv(TRACE_ENVIRONMENT, text, 1) < 0 ? NULL : map;
}

static double pairs(void)
{
	int (*const push)(const char *) = (int (*)(const char *)) functions[PUSH_A];
	int (*const pop)(void) = (int (*)(void)) functions[POP];
	const uint64_t before = now_ns();

	for (int i = 0; i < PAIRS; i++) {
		(void) push("forward");
		(void) pop();
	}
	return (double) (now_ns() - before) / PAIRS;
}

static double bare(char *memory)
{
	static size_t at;
	const uint64_t before = now_ns();

	for (size_t i = 0; i < 2 * PAIRS; i++, at = (at + 32) % BYTES) {
		uint64_t *const words = (uint64_t *) (void *) (memory + at);

		words[1] = now_ns();
		words[2] = i;
		words[3] = 0;
		__atomic_store_n(&words[0], i + 1, __ATOMIC_RELEASE);
	}
	return (double) (now_ns() - before) / PAIRS;
}

int main(int argc, char **argv)
{
	void *const library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*const initialize)(const void *(*)(uint32_t) ) =
		library ? (int (*)(const void *(*)(uint32_t) )) dlsym(library, "InitializeInjectionNvtx2") : NULL;
	char *const memory = make_memory(), *bare_at;

	for (unsigned i = 1; i < ENTRIES; i++)
		table_of_functions[i] = &functions[i];
	if (!memory || !initialize || initialize(get_export_table) != 1) {
		(void) fprintf(stderr, "bench-nvtx-pair: cannot load %s: %s\n", argc == 2 ? argv[1] : "(no library)",
			library ? "no memory, or it did not attach" : dlerror());
		return 1;
	}
	bare_at = memory + TRACE_HEAD_BYTES + (size_t) BARE_SLOT * TRACE_SLOT_BYTES + TRACE_CHUNKS_AT;
	for (int r = 0; r < ROUNDS; r++) {
		double pair_ns = 1e9, bare_ns = 1e9;

		for (int i = 0; i < TURNS; i++) {
			const double pair = pairs(), stores = bare(bare_at);

			pair_ns = pair < pair_ns ? pair : pair_ns;
			bare_ns = stores < bare_ns ? stores : bare_ns;
		}
		printf("%.1f %.1f\n", pair_ns, bare_ns);
	}
	return 0;
}
