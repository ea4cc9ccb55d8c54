/* SPDX-License-Identifier: MIT
 *
 * Names that a program has a handle of: NVTX's domains and registered strings, ITT's domains and string
 * handles. A program makes a handle once and gives it back with each event, also in a child of fork,
 * whose slot has another arena; so the name itself is kept, with its offset in the arena of the process
 * that last used it.
 *
 * They live as long as the process, in a table of the library's own memory that any thread may add to
 * without a lock: equal names of a kind have one handle.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum handle_kind {
	HANDLE_DOMAIN,      /* NVTX's */
	HANDLE_STRING,
	HANDLE_ITT_DOMAIN,
	HANDLE_ITT_STRING,
};

struct handle {
	uint64_t abi[6];         /* what the interface says that a handle points to; zero where it says nothing */
	_Atomic uint64_t offset; /* probe_generation << 32 | the name's offset in the arena */
	uint32_t hash;
	uint16_t kind, len;
	char name[]; /* and a NUL */
};

/* The handle of a name; NULL: there is no room for another one, or no name. fill, if not NULL, fills abi of a
 * new one. Longer names than 4,000 bytes are cut. */
struct handle *handle_of(enum handle_kind kind, const char *name, void (*fill)(struct handle *h));

/* A handle that the program passed, which may be anything; NULL: it was not made here. */
struct handle *handle_ours(const void *given);

/* Another tool's handle of the same thing, which the program has in its place: found again by it. */
void handle_alias(const void *theirs, struct handle *h);
struct handle *handle_by_alias(const void *theirs);

/* The name's offset in the arena of this process; 0: none. NULL is allowed. */
uint32_t handle_offset(struct handle *h);

/* From 1, different for each handle; 0 for NULL. */
uint32_t handle_number(const struct handle *h);
