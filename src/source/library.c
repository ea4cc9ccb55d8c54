/* SPDX-License-Identifier: MIT */
#include "source/library.h"

#include <dlfcn.h>
#include <stdlib.h>

void *library_open(const char *variable, const char *const *names, size_t n)
{
	const char *name = getenv(variable);
	void *library = NULL;

	if (name && *name)
		return dlopen(name, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !library && i < n; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}
