/* SPDX-License-Identifier: MIT
 *
 * Secrets in command lines: the values of what is named like a token, a key or a password become "***" before a
 * command is kept or shown anywhere. Forms: --token=X, --token X, TOKEN=X, "token": "X", Authorization: X,
 * ?token=X in a URL, scheme://user:X@host, and all of them inside one argument (sh -c "..."). What has no name
 * (mysql -pX) stays. Rather one value too many than one too few. Nothing here allocates; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Between the arguments of one command; all-zero at its first. */
struct mask {
	bool value_next; /* the last argument was an option that names a secret: this one is its value */
};

/* Writes one argument (len bytes at arg, any bytes) as it may be shown; control characters as '?'. At most size - 1
 * bytes and a NUL. Returns the bytes written. */
size_t mask_argument(struct mask *m, const char *arg, size_t len, char *ret, size_t size);

/* Writes a whole command, arguments joined by blanks. block: its arguments, each ended by a NUL (/proc/PID/cmdline),
 * len bytes. Likewise. */
size_t mask_command(const char *block, size_t len, char *ret, size_t size);

/* Whether name (len bytes) is one that stands for a secret. */
bool mask_is_secret(const char *name, size_t len);
