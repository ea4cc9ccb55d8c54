/* SPDX-License-Identifier: MIT
 *
 * Attributes that release a variable at the end of its scope, and two macros that transfer its
 * ownership instead.
 */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p)
{
	free(*(void **) p);
}

static inline void cleanup_close(const int *fd)
{
	if (*fd >= 0)
		(void) close(*fd);
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		(void) fclose(*f);
}

static inline void cleanup_closedir(DIR **d)
{
	if (*d)
		(void) closedir(*d);
}

#define autofree     __attribute__((cleanup(cleanup_free)))
#define autoclose    __attribute__((cleanup(cleanup_close)))
#define autofclose   __attribute__((cleanup(cleanup_fclose)))
#define autoclosedir __attribute__((cleanup(cleanup_closedir)))

/* Returns the variable's value and sets it to NULL (or -1). */
#define take_ptr(p) \
	({ \
		__typeof__(p) taken_ = (p); \
		(p) = NULL; \
		taken_; \
	})
#define take_fd(fd) \
	({ \
		int taken_ = (fd); \
		(fd) = -1; \
		taken_; \
	})
