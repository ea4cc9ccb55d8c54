/* SPDX-License-Identifier: MIT
 *
 * Who may see what: the token, the administrators, the peer of a unix socket.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "serve/listen.h"
#include "serve/serve.h"

/* Reads the token, the certificates' presence and --admins, and checks that no address is open to more
 * than it may be. Returns 0, or -errno with text. */
int access_prepare(struct serve *s, const struct listener *listeners, size_t n, char *why, size_t size);

enum access {
	ACCESS_GRANTED,
	ACCESS_DENIED, /* 401 */
};

/* Who asks on fd through l, with this Authorization header (NULL: none). */
enum access access_of(const struct serve *s, const struct listener *l, int fd, const char *authorization,
	struct viewer *ret);

/* May a request with this Host header (NULL: none) be answered on l? */
bool access_host(const struct serve *s, const struct listener *l, const char *host);
