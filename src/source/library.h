/* SPDX-License-Identifier: MIT
 *
 * A vendor's library, found at run time and never needed to build, to install or to run.
 */
#pragma once

#include <stddef.h>

/* Opens the library that the environment variable names; where it names none, the first of n names that is there. NULL: none
 * is; dlerror(3) says why not. */
void *library_open(const char *variable, const char *const *names, size_t n);
