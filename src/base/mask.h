/* SPDX-License-Identifier: MIT
 *
 * Masks secrets in command lines: the values of names like token, key or password become "***"
 * before a command is stored or shown. Forms: --token=X, --token X, TOKEN=X, "token": "X",
 * Authorization: X, ?token=X in a URL, scheme://user:X@host, and all of them inside one argument
 * (sh -c "..."). Unnamed secrets (mysql -pX) stay. In doubt a value is masked. Allocates nothing;
 * any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* State between the arguments of one command; all-zero at the first. */
struct mask {
	/* the last argument was an option that names a secret, so the next one is its value */
	bool value_next;
};

/* Writes one argument (len bytes at arg, any bytes) masked; control characters become '?'. At
 * most size - 1 bytes and a NUL. Returns the number of bytes written. */
size_t mask_argument(struct mask *m, const char *arg, size_t len, char *ret, size_t size);

/* Writes a whole command masked, its arguments joined by blanks. block: the arguments, each
 * terminated by a NUL (/proc/PID/cmdline), len bytes in total. Returns the number of bytes
 * written. */
size_t mask_command(const char *block, size_t len, char *ret, size_t size);

/* True if name (len bytes) names a secret. */
bool mask_is_secret(const char *name, size_t len);
