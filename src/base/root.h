/* SPDX-License-Identifier: MIT
 *
 * The root descriptor: every path of the machine opens below one, so a folder of captured files is a machine.
 * No other file of src/ may hold a literal that begins with /proc or /sys.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/longfile.h"

/* A text that is kept together with its file, so that whoever reads it (source/host/mountinfo.c) need not read it anew. */
struct root_text {
	int fd; /* -1: not read yet */
	struct longfile text;
};

struct root {
	int proc; /* directory descriptors, O_PATH; -1 if the machine has none */
	int sys;
	int top;
	struct root_text *mounts; /* by source/host/mountinfo.c, one thread at a time */
	bool live; /* this machine, not a captured one: pids may be signalled, system calls tell of it */
};

/* Opens path ("/" or NULL: this machine, which must have its process files). Returns 0 or -errno with text. */
int root_open(const char *path, struct root *ret, struct err *err);

/* Closes it, and what is kept with it; copes with an all-zero or half-opened struct. */
void root_done(struct root *root);
