/* SPDX-License-Identifier: MIT
 *
 * Opens a vendor's library at run time; none is needed to build, install or start hiwater.
 */
#pragma once

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

/* Opens the library that the environment variable names; if it is unset, the first of n names that
 * can be loaded. NULL: none can; dlerror(3) has the reason. */
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
