/* SPDX-License-Identifier: MIT
 *
 * The Python stacks of a high: what Python was doing while the memory rose most towards it, in the processes
 * that grew most then. A moment in time, not what touched the memory: samples are not joined with it.
 *
 * One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/where.h"
#include "where/module.h"
#include "where/python.h"

/* Python in a process; all-zero: there is none. */
struct python_home {
	struct {
		unsigned minor;
		uint64_t base;
	} files[2];            /* the program, and the library that was mapped last; minor 0: none */
	pid_t thread;          /* that touched memory last; 0: unknown */
	struct python *python; /* NULL: not opened */
	bool has_failed;       /* it cannot be read */
};

/* A mapping of code at an address: is it Python's? */
void python_home_map(struct python_home *h, struct image *image, uint64_t address);
bool python_home_may(const struct python_home *h); /* be read */
/* A fork has the same mappings. */
struct python_home python_home_fork(const struct python_home *h);
/* The process ended, or executes another program. */
void python_home_leave(struct python_home *h);

/* CPU time for reading: 0.1 s, and 0.3 % of the time since the first call. */
struct python_budget {
	uint64_t begun_ns, spent_ns; /* spent: counted by the caller */
};
bool python_budget_left(struct python_budget *b, uint64_t now_ns);

struct pythons {
	struct where_python list[WHERE_PYTHONS]; /* their frames and texts are its own */
	size_t n;
	uint64_t risen_bytes; /* how much the memory rose before them, in some 10 ms */
};

/* Adds the stack of the process's last thread, or of its main thread where that one runs no Python code.
 * Returns 0, or -errno: -EPERM (the kernel does not allow it), -ESRCH (there is none now), -ENOMEM. */
int pythons_read(
	struct pythons *to, struct python_home *h, pid_t pid, uint32_t process, uint64_t now_boot_ns);
void pythons_done(struct pythons *p);
/* Those of the larger rise remain in *to; *from is empty then. */
void pythons_join(struct pythons *to, struct pythons *from);
