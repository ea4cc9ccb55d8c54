/* SPDX-License-Identifier: MIT */
#include "serve/access.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"

enum {
	TOKEN_LEAST = 8
};

/* ---- preparing ------------------------------------------------------------------------------- */

static int read_token(struct serve *s, char *why, size_t size)
{
	autoclose int fd = open(s->o.token_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0) {
		(void) snprintf(
			why, size, "--token-file: cannot read %.200s: %s", s->o.token_file, strerror(errno));
		return -EACCES;
	}
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077) != 0) {
		(void) snprintf(why, size,
			"--token-file: others may read %.200s; the token would be no secret: chmod 600 it",
			s->o.token_file);
		return -EPERM;
	}
	n = read(fd, s->token, sizeof(s->token) - 1);
	for (; n > 0 && isspace((unsigned char) s->token[n - 1]); n--)
		;
	s->token[n > 0 ? n : 0] = '\0';
	if (n < TOKEN_LEAST || strlen(s->token) != (size_t) n || strpbrk(s->token, " \t\r\n")) {
		(void) snprintf(why, size,
			"--token-file: %.200s holds no token: one line of %d bytes or more, such as that of openssl rand -hex 32",
			s->o.token_file, TOKEN_LEAST);
		return -EINVAL;
	}
	return 0;
}

static int add_admin(struct serve *s, const char *name, char *why, size_t size)
{
	const struct passwd *entry = getpwnam(name);
	const char *p = name;
	uint64_t uid;

	if (!entry && (parse_u64(&p, &uid) < 0 || *p || uid > UINT32_MAX)) {
		(void) snprintf(why, size, "--admins: no user %.80s", name);
		return -ENOENT;
	}
	s->admins[s->n_admins++] = entry ? entry->pw_uid : (uid_t) uid;
	return 0;
}

/* What an address beyond loopback needs. */
static int check_address(const struct serve *s, const struct listener *l, char *why, size_t size)
{
	const bool has_tls = s->o.tls_cert && s->o.tls_key;

	if (*l->path || l->is_loopback || (*s->token && has_tls))
		return 0;
	(void) snprintf(why, size,
		"%.100s can be reached from other machines: it needs --token-file FILE%s%s", l->text,
		*s->token ? " (given)" : "", has_tls ? " (and has TLS)" : ", --tls-cert FILE and --tls-key FILE");
	return -EPERM;
}

int access_prepare(struct serve *s, const struct listener *listeners, size_t n, char *why, size_t size)
{
	int r = s->o.token_file ? read_token(s, why, size) : 0;

	if (r == 0 && !s->o.tls_cert != !s->o.tls_key) {
		(void) snprintf(why, size, "--tls-cert and --tls-key are needed together");
		r = -EINVAL;
	}
	for (size_t i = 0; r == 0 && i < NAMES_MOST && s->o.admins[i]; i++)
		r = add_admin(s, s->o.admins[i], why, size);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = check_address(s, &listeners[i], why, size);
	return r;
}

/* ---- a request ------------------------------------------------------------------------------- */

/* Takes the same time wherever the two differ. */
static bool is_token(const struct serve *s, const char *given)
{
	const size_t n = strlen(s->token), m = strlen(given);
	unsigned different = (unsigned) (n != m);

	for (size_t i = 0; i < n; i++)
		different |= (unsigned) ((unsigned char) s->token[i] ^ (unsigned char) given[i < m ? i : m]);
	return different == 0 && n > 0;
}

static void see_peer(const struct serve *s, int fd, struct viewer *ret)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return;
	ret->is_user = true;
	ret->uid = peer.uid;
	ret->sees_all = peer.uid == 0;
	for (size_t i = 0; i < s->n_admins; i++)
		ret->sees_all |= s->admins[i] == peer.uid;
}

enum access access_of(const struct serve *s, const struct listener *l, int fd, const char *authorization,
	struct viewer *ret)
{
	*ret = (struct viewer) { .sees_all = false };
	if (*l->path)
		see_peer(s, fd, ret);
	if (authorization) {
		if (strncasecmp(authorization, "Bearer ", 7) != 0 || !is_token(s, authorization + 7))
			return ACCESS_DENIED;
		ret->sees_all = true;
	}
	return *l->path || l->is_loopback || ret->sees_all ? ACCESS_GRANTED : ACCESS_DENIED;
}

/* A number is no name, so no other site can have led here by it. */
static bool is_number(const struct listener *l, const char *host, size_t len)
{
	unsigned char bytes[sizeof(struct in6_addr)];
	char text[64];

	if (strcmp(l->host, "0.0.0.0") != 0 && strcmp(l->host, "::") != 0)
		return false;
	(void) snprintf(text, sizeof(text), "%.*s", (int) (len < sizeof(text) ? len : 0), host);
	return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

/* A browser that was sent here by a name of another site (DNS rebinding) has that name in Host. */
bool access_host(const struct serve *s, const struct listener *l, const char *host)
{
	size_t len;

	if (!host)
		return false;
	if (host[0] == '[') { /* [::1]:9123 */
		len = strcspn(host, "]");
		return is_number(l, host + 1, len - 1) ||
		       (strlen(l->host) == len - 1 && strncmp(host + 1, l->host, len - 1) == 0);
	}
	len = strcspn(host, ":");
	const char *p = host + len + 1;
	uint64_t port = 0;

	if (host[len] == ':' && !*l->path && (parse_u64(&p, &port) < 0 || *p || port != l->port))
		return false;
	if (len == 9 && strncasecmp(host, "localhost", len) == 0)
		return true;
	if (is_number(l, host, len))
		return true;
	if (*l->host && strlen(l->host) == len && strncmp(host, l->host, len) == 0)
		return true;
	for (size_t i = 0; i < NAMES_MOST && s->o.host_names[i]; i++) {
		if (strlen(s->o.host_names[i]) == len && strncasecmp(host, s->o.host_names[i], len) == 0)
			return true;
	}
	return false;
}
