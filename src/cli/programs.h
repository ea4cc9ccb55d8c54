/* SPDX-License-Identifier: MIT
 *
 * Programs of hiwater that are none of the command itself, so that a run never loads their libraries.
 */
#pragma once

#include <stddef.h>

/* Where the program called name is: beside this one (a build, a wheel) or in ../libexec/hiwater. Returns 0 or -ENOENT:
 * it was not built, or not installed. */
int program_find(const char *name, char *path, size_t size);
/* Where it was looked for, for complaints: "there is no hiwater-top in /usr/bin or ...". */
void program_looked_for(const char *name, char *text, size_t size);

enum {
	LOOKED_FOR_LEN = 2 * 4096 + 128
};
