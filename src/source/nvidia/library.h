/* SPDX-License-Identifier: MIT
 *
 * A vendor's library, found at run time and never needed to build, to install or to run.
 */
#pragma once

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

/* Opens the library that the environment variable names; where it names none, the first of n names that is there. NULL: none
 * is; dlerror(3) says why not. */
static inline void *library_open(const char *variable, const char *const *names, size_t n)
{
	const char *name = getenv(variable);
	void *library = NULL;

	if (name && *name)
		return dlopen(name, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !library && i < n; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}
