/* SPDX-License-Identifier: MIT
 *
 * The addresses that are listened on: unix sockets, which know their peer, and TCP, which does not.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct listener {
	char text[256];          /* as given */
	char path[108];          /* of a unix socket; "": TCP */
	char host[64];           /* of TCP: the address, without brackets */
	char address[80];        /* "127.0.0.1:9123", "unix:/run/..." */
	unsigned port;
	bool is_loopback;        /* of TCP */
	int fd;                  /* -1: not open */
};

/* The default: /run/hiwater/serve.sock for root, else hiwater/serve.sock in XDG_RUNTIME_DIR. Returns
 * 0, or -errno with text. */
int listen_default(char *ret, size_t size, char *why, size_t why_size);

/* Parses "unix:PATH", "127.0.0.1:9123", "[::1]:0", ":9123". Returns 0, or -EINVAL with text. */
int listen_parse(const char *text, struct listener *ret, char *why, size_t size);

/* Opens it. A unix socket is 0600; for_all: 0666 (root's, which answers by the peer's uid). A socket file
 * without a listener is replaced. Returns 0, or -errno with text. */
int listen_open(struct listener *l, bool for_all, char *why, size_t size);
void listen_close(struct listener *l);
