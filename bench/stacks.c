/* SPDX-License-Identifier: MIT
 *
 * The job of bench/where.py with many stacks: N leaves of a binary tree of calls touch 64 KiB each, so that a
 * sample of each 16th page fault has about N distinct stacks. Then it sleeps for a second.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEPT   __attribute__((noinline, noclone))
#define STAY() __asm__ volatile("" ::: "memory") /* no tail call: the caller stays on the stack */

enum {
	DEPTH = 14,
	LEAF = 16 * 4096,
};

static volatile char *at;

static void left(unsigned number, int depth);
static void right(unsigned number, int depth);

static void below(unsigned number, int depth)
{
	if (depth == DEPTH) {
		for (int i = 0; i < LEAF; i += 4096)
			at[(size_t) number * LEAF + (size_t) i] = 1;
	} else if (number >> depth & 1) {
		right(number, depth + 1);
	} else {
		left(number, depth + 1);
	}
}

static KEPT void left(unsigned number, int depth)
{
	below(number, depth);
	STAY();
}

static KEPT void right(unsigned number, int depth)
{
	below(number, depth);
	STAY();
}

int main(int argc, char **argv)
{
	const unsigned n = argc > 1 ? (unsigned) atoi(argv[1]) : 1;
	void *const memory = mmap(NULL, (size_t) n * LEAF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (n > 1U << DEPTH || memory == MAP_FAILED || madvise(memory, (size_t) n * LEAF, MADV_NOHUGEPAGE) < 0)
		return 1;
	at = memory;
	for (unsigned i = 0; i < n; i++)
		left(i, 0);
	(void) sleep(1);
	return 0;
}
