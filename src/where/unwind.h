/* SPDX-License-Identifier: MIT
 *
 * From copied stacks to stacks of places in modules, by the unwind tables of the job's programs
 * (libdw). Registers and a copy of the stack are all that is read of the job; what lies outside the
 * copy is not known, so the outermost frames of a deep stack may be missing: such a stack begins
 * with a frame called "…".
 *
 * Stacks are nodes, a frame and its caller, so that equal outer frames are kept once. One thread at
 * a time.
 */
#pragma once

#include "model/where.h"
#include "where/events.h"
#include "where/module.h"

enum {
	UNWIND_DEPTH = 400, /* frames of a stack; further outer ones are cut */
};

/* A frame: a place in a module, or one without. */
struct unwind_frame {
	const struct module *module; /* NULL: code of no file */
	uint64_t offset;             /* in the module, of the call; of code without one, the address */
	pid_t pid;                   /* of code without a module: whose */
	bool is_cut;                 /* no place: outer frames are missing */
};

struct unwind;

/* NULL: out of memory. */
struct unwind *unwind_new(void);
void unwind_free(struct unwind *u);
/* Is there a library for it? Else a stack is its innermost frame alone. */
bool unwind_has_library(void);

/* The number of the sample's stack, its innermost node; 0: out of memory, or too many. */
uint32_t unwind_stack(struct unwind *u, struct image *image, const struct record *sample);

size_t unwind_frame_count(const struct unwind *u);
const struct unwind_frame *unwind_frame(const struct unwind *u, size_t i); /* number i + 1 */
size_t unwind_stack_count(const struct unwind *u);
const struct where_stack *unwind_node(const struct unwind *u, size_t i);   /* number i + 1 */
