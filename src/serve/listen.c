/* SPDX-License-Identifier: MIT */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/parse.h"

enum {
	BACKLOG = 128
};

/* ---- names ----------------------------------------------------------------------------------- */

int listen_default(char *ret, size_t size, char *why, size_t why_size)
{
	const char *folder = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");
	int n;

	if (!folder || *folder != '/') {
		(void) snprintf(why, why_size,
			"no place for the socket: XDG_RUNTIME_DIR is not set; give --listen unix:PATH");
		return -ENOENT;
	}
	n = snprintf(ret, size, "unix:%s/hiwater/serve.sock", folder);
	return n > 0 && (size_t) n < size ? 0 : -ENAMETOOLONG;
}

static int parse_unix(const char *path, struct listener *l, char *why, size_t size)
{
	const int n = snprintf(l->path, sizeof(l->path), "%s", path);

	if (n < 1 || (size_t) n >= sizeof(l->path)) {
		(void) snprintf(why, size, "'%.200s': the path of a socket has 1 to %zu bytes", l->text,
			sizeof(l->path) - 1);
		return -EINVAL;
	}
	(void) snprintf(l->address, sizeof(l->address), "unix:%.70s", path);
	return 0;
}

int listen_parse(const char *text, struct listener *l, char *why, size_t size)
{
	const char *colon = strrchr(text, ':'), *p = colon ? colon + 1 : text;
	unsigned char bytes[sizeof(struct in6_addr)];
	uint64_t port;
	size_t len;

	*l = (struct listener) { .fd = -1 };
	(void) snprintf(l->text, sizeof(l->text), "%s", text);
	if (strncmp(text, "unix:", 5) == 0)
		return parse_unix(text + 5, l, why, size);
	len = colon ? (size_t) (colon - text) : 0;
	const bool is_six = len > 2 && text[0] == '[' && text[len - 1] == ']';

	if (!colon || parse_u64(&p, &port) < 0 || *p || port > 65535 || len - 2 * is_six >= sizeof(l->host)) {
		(void) snprintf(why, size, "'%.200s' is not unix:PATH or ADDRESS:PORT, such as 127.0.0.1:9123", text);
		return -EINVAL;
	}
	if (len == 0)
		(void) snprintf(l->host, sizeof(l->host), "0.0.0.0");
	else
		(void) snprintf(l->host, sizeof(l->host), "%.*s", (int) (len - 2 * is_six), text + is_six);
	if (strcmp(l->host, "localhost") == 0)
		(void) snprintf(l->host, sizeof(l->host), "127.0.0.1");
	if (inet_pton(is_six ? AF_INET6 : AF_INET, l->host, bytes) != 1) {
		(void) snprintf(why, size, "'%.60s' is not an address: give numbers, such as 127.0.0.1 or [::1]",
			l->host);
		return -EINVAL;
	}
	l->port = (unsigned) port;
	l->is_loopback = is_six ? strcmp(l->host, "::1") == 0 : bytes[0] == 127;
	return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int failed(const struct listener *l, int error, const char *what, char *why, size_t size)
{
	(void) snprintf(why, size, "cannot listen on %.100s: %s: %s", l->text, what, strerror(error));
	return -error;
}

/* Does a server answer on the socket? */
static bool is_in_use(const struct sockaddr_un *address)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const bool answers = fd >= 0 &&
			     connect(fd, (const struct sockaddr *) address, sizeof(*address)) == 0;

	if (fd >= 0)
		(void) close(fd);
	return answers;
}

/* Makes the folder that the socket is in, but not those above it. */
static void make_folder(const char *path, mode_t mode)
{
	char folder[108];
	char *slash;

	(void) snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return;
	*slash = '\0';
	if (mkdir(folder, mode) == 0)
		(void) chmod(folder, mode); /* whatever the umask is */
}

static int open_unix(struct listener *l, bool for_all, char *why, size_t size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;

	(void) snprintf(address.sun_path, sizeof(address.sun_path), "%s", l->path);
	make_folder(l->path, for_all ? 0755 : 0700);
	if (lstat(l->path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return failed(l, EEXIST, "it is not a socket", why, size);
		if (is_in_use(&address))
			return failed(l, EADDRINUSE, "another server answers there", why, size);
		(void) unlink(l->path);
	}
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return failed(l, errno, "no socket", why, size);
	/* no peer can connect between bind and chmod: it does not listen yet */
	const mode_t mask = umask(0177);
	const int bound = bind(l->fd, (const struct sockaddr *) &address, sizeof(address));
	const int error = errno;

	(void) umask(mask);
	if (bound < 0)
		return failed(l, error, "bind", why, size);
	if (chmod(l->path, for_all ? 0666 : 0600) < 0 || listen(l->fd, BACKLOG) < 0)
		return failed(l, errno, "listen", why, size);
	return 0;
}

static int open_tcp(struct listener *l, char *why, size_t size)
{
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t) l->port) };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t) l->port) };
	const bool is_six = inet_pton(AF_INET6, l->host, &six.sin6_addr) == 1;
	struct sockaddr *address = is_six ? (struct sockaddr *) &six : (struct sockaddr *) &four;
	socklen_t len = is_six ? sizeof(six) : sizeof(four);
	const int one = 1;

	(void) inet_pton(AF_INET, l->host, &four.sin_addr);
	l->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return failed(l, errno, "no socket", why, size);
	(void) setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(l->fd, address, len) < 0)
		return failed(l, errno, "bind", why, size);
	if (listen(l->fd, BACKLOG) < 0 || getsockname(l->fd, address, &len) < 0)
		return failed(l, errno, "listen", why, size);
	l->port = ntohs(is_six ? six.sin6_port : four.sin_port);
	(void) snprintf(l->address, sizeof(l->address), is_six ? "[%.50s]:%u" : "%.50s:%u", l->host, l->port);
	return 0;
}

int listen_open(struct listener *l, bool for_all, char *why, size_t size)
{
	const int r = *l->path ? open_unix(l, for_all, why, size) : open_tcp(l, why, size);

	if (r < 0 && l->fd >= 0) {
		(void) close(l->fd);
		l->fd = -1;
	}
	return r;
}

void listen_close(struct listener *l)
{
	if (l->fd < 0)
		return;
	(void) close(l->fd);
	if (*l->path)
		(void) unlink(l->path);
	l->fd = -1;
}
