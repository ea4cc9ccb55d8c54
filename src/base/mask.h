/* SPDX-License-Identifier: MIT
 *
 * Masks secrets in command lines and other text: they become "***" before anything is stored or
 * shown. What is found:
 *  - values of names like token, key or password: --token=X, --token X, TOKEN=X, "token": "X",
 *    Authorization: X, ?token=X or ?sig=X in a URL;
 *  - scheme://user:X@host, and scheme://X@host if X looks random;
 *  - options of some programs: mysql -pX, mongosh -p X, redis-cli -a X, curl -u user:X, sshpass -p X;
 *  - tokens by their shape: ghp_X, glpat-X, hf_X, sk-X, xoxb-X, JSON web tokens;
 *  - all of them inside one argument (sh -c "...").
 * It is best effort: a secret without a name or a shape stays. In doubt a value is masked; ordinary text
 * stays: a name whose last word is another one (key_frames=3), a number of at most 6 characters
 * (auth=3ms) unless the name is one of a password, "token: 12 seen". Allocates nothing; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct mask_tool;

/* State between the arguments of one command; all-zero at the first. */
struct mask {
	/* the last argument was an option that names a secret, so the next one is its value */
	bool value_next;
	unsigned char number_most;    /* characters of a number that is shown nevertheless */
	bool pair_next;               /* likewise, and its value is user:password */
	bool started;                 /* the word that names the program was seen ... */
	bool wraps;                   /* ... and that program starts another one (sudo) */
	bool has_values;              /* the words after its options are their values (docker) */
	bool after_option;
	const struct mask_tool *tool; /* the program whose options are known; NULL: none */
};

/* Writes one argument (len bytes at arg, any bytes) masked; control characters become '?'. At
 * most size - 1 bytes and a NUL. Returns the number of bytes written. */
size_t mask_argument(struct mask *m, const char *arg, size_t len, char *ret, size_t size);

/* Writes a whole command masked, its arguments joined by blanks. block: the arguments, each
 * terminated by a NUL (/proc/PID/cmdline), len bytes in total. Returns the number of bytes
 * written. */
size_t mask_command(const char *block, size_t len, char *ret, size_t size);

/* Writes text masked; other bytes stay as they are. Limits and result as above. */
size_t mask_text(const char *text, char *ret, size_t size);

/* True if name (len bytes) names a secret. */
bool mask_is_secret(const char *name, size_t len);
