/* SPDX-License-Identifier: MIT
 *
 * The root descriptor: every path of the machine is opened below one, so that a folder of captured
 * files can stand for a machine. No other file of src/ may have a literal that begins with /proc or
 * /sys.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/longfile.h"

/* A file's text with its descriptor, kept so that source/host/mountinfo.c need not read it
 * again. */
struct root_text {
	int fd; /* -1: not read yet */
	struct longfile text;
};

struct root {
	int proc; /* directory descriptors, O_PATH; -1 if the machine has none */
	int sys;
	int top;
	struct root_text *mounts; /* set by source/host/mountinfo.c, one thread at a time */
	bool live; /* this machine, not a captured one: pids may be signalled, system calls apply to it */
};

/* Opens path ("/" or NULL: this machine, which must have /proc). Returns 0 or -errno with text. */
int root_open(const char *path, struct root *ret, struct err *err);

/* Closes it and its cached texts; accepts an all-zero or partly opened struct. */
void root_done(struct root *root);
