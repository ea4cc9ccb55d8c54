/* SPDX-License-Identifier: MIT
 *
 * Finds hiwater's helper programs, such as hiwater-top. They are separate so that a run never loads
 * their libraries.
 */
#pragma once

#include <stddef.h>

/* Finds the program called name next to this one (a build, a wheel) or in ../libexec/hiwater.
 * Returns 0, or -ENOENT if it was not built or not installed. */
int program_find(const char *name, char *path, size_t size);
/* Writes to text why program_find failed: "there is no hiwater-top in /usr/bin or ...". */
void program_why_not(const char *name, char *text, size_t size);

enum {
	PROGRAM_WHY_LEN = 2 * 4096 + 128
};
