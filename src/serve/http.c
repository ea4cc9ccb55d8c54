/* SPDX-License-Identifier: MIT */
#include "serve/http.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "serve/access.h"
#include "serve/answers.h"
#include "serve/squeeze.h"

#define SECOND UINT64_C(1000000000)

enum {
	CONNECTIONS_MOST = 128,  /* in all */
	OF_A_USER_MOST = 32,     /* of one peer of a unix socket, root excepted */
	HEADER_BYTES = 16 << 10, /* of a connection: request line, headers, and those of the answer */
	URL_MOST = 2048,
	IDLE_S = 15,
	ANSWER_MOST = 64 << 20,
	PEM_MOST = 1 << 20,
	SQUEEZE_LEAST = 512,     /* shorter answers are not compressed */
};
static const uint64_t request_most_ns = 30 * SECOND;

struct connection {
	int fd;
	size_t listener;
	bool is_user;
	uid_t uid;
	uint64_t since_ns;       /* the current request began, or the connection; 0: between requests */
};

struct http {
	struct serve *serve;
	struct listener *listeners;
	size_t n_listeners;
	struct MHD_Daemon *plain, *tls; /* unix sockets and TCP; with a certificate all of TCP has TLS */
	char *cert, *key;
	pthread_mutex_t lock;    /* of the connections */
	struct connection connections[CONNECTIONS_MOST];
	size_t n;
};

/* ---- requests and answers -------------------------------------------------------------------- */

const char *request_arg(const struct request *q, const char *name)
{
	for (size_t i = 0; i < q->n_args; i++) {
		if (strcmp(q->args[i].name, name) == 0)
			return q->args[i].value;
	}
	return NULL;
}

void answer_error(struct answer *a, unsigned status, const char *format, ...)
{
	char text[512];
	struct json j;
	va_list ap;

	va_start(ap, format);
	(void) vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	a->status = status;
	a->type = "application/json";
	buf_clear(&a->body);
	json_init(&j, &a->body, true);
	json_object(&j);
	json_key(&j, "error");
	json_str(&j, text);
	json_end(&j);
	(void) buf_str(&a->body, "\n");
}

static const struct route {
	const char *path;
	bool is_prefix;
	const char *args;        /* the parameters that it has, each between blanks */
	void (*answer)(struct serve *s, const struct request *q, struct answer *a);
} routes[] = {
	{ "/metrics", false, " ", answer_metrics },
	{ "/-/ready", false, " ", answer_ready },
	{ "/-/healthy", false, " ", answer_healthy },
	{ "/v1/now", false, " window ", answer_now },
	{ "/v1/gpus", false, " window ", answer_gpus },
	{ "/v1/jobs", false, " window ", answer_jobs },
	{ "/v1/jobs/", true, " window ", answer_job },
	{ "/v1/room", false, " gpu_memory sm ram cpus window ", answer_room },
};

static bool knows_args(const struct route *route, const struct request *q, struct answer *a)
{
	for (size_t i = 0; i < q->n_args; i++) {
		char word[80];

		(void) snprintf(word, sizeof(word), " %.64s ", q->args[i].name);
		if (!*q->args[i].name || !strstr(route->args, word)) {
			answer_error(a, MHD_HTTP_BAD_REQUEST, "%s has no parameter '%.64s'; it has:%s", route->path,
				q->args[i].name, strlen(route->args) > 1 ? route->args : " none");
			return false;
		}
	}
	return true;
}

static void answer(struct serve *s, const struct request *q, struct answer *a)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		const struct route *r = &routes[i];

		if (r->is_prefix ? strncmp(q->path, r->path, strlen(r->path)) != 0
				 : strcmp(q->path, r->path) != 0)
			continue;
		if (knows_args(r, q, a))
			r->answer(s, q, a);
		return;
	}
	answer_error(a, MHD_HTTP_NOT_FOUND,
		"no such path; there are /metrics, /-/ready, /-/healthy, /v1/now, /v1/gpus, /v1/jobs, /v1/jobs/ID, /v1/room");
}

/* ---- connections ----------------------------------------------------------------------------- */

static struct connection *find_connection(struct http *h, int fd)
{
	for (size_t i = 0; i < h->n; i++) {
		if (h->connections[i].fd == fd)
			return &h->connections[i];
	}
	return NULL;
}

static bool is_too_many(const struct http *h, const struct connection *new)
{
	size_t same = 0;

	for (size_t i = 0; i < h->n; i++)
		same += new->is_user && h->connections[i].is_user && h->connections[i].uid == new->uid;
	return h->n >= CONNECTIONS_MOST || (new->is_user && new->uid != 0 && same >= OF_A_USER_MOST);
}

static void forget(struct http *h, int fd)
{
	struct connection *c;

	pthread_mutex_lock(&h->lock);
	c = find_connection(h, fd);
	if (c)
		*c = h->connections[--h->n];
	pthread_mutex_unlock(&h->lock);
}

static bool remember(struct http *h, const struct connection *c)
{
	pthread_mutex_lock(&h->lock);
	const bool fits = !is_too_many(h, c);

	if (fits)
		h->connections[h->n++] = *c;
	pthread_mutex_unlock(&h->lock);
	return fits;
}

static void set_since(struct http *h, int fd, uint64_t since_ns)
{
	struct connection *c;

	pthread_mutex_lock(&h->lock);
	c = find_connection(h, fd);
	if (c)
		c->since_ns = since_ns;
	pthread_mutex_unlock(&h->lock);
}

void http_accept(struct http *h, size_t i)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	struct ucred user;
	socklen_t user_len = sizeof(user);
	const struct listener *l = &h->listeners[i];
	const int fd = accept4(l->fd, (struct sockaddr *) &peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct connection c = { .fd = fd, .listener = i, .since_ns = clock_boot_ns() };

	if (fd < 0)
		return;
	if (*l->path && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &user_len) == 0) {
		c.is_user = true;
		c.uid = user.uid;
	}
	if (!remember(h, &c)) {
		(void) close(fd);
		return;
	}
	/* on failure it closes the socket, without on_connection */
	if (MHD_add_connection(h->tls && !*l->path ? h->tls : h->plain, fd, (struct sockaddr *) &peer, len) !=
		MHD_YES)
		forget(h, fd);
}

/* Idle ones are closed by libmicrohttpd; a peer that drips bytes is not idle. */
void http_expire(struct http *h)
{
	const uint64_t now = clock_boot_ns();

	pthread_mutex_lock(&h->lock);
	for (size_t i = 0; i < h->n; i++) {
		const struct connection *c = &h->connections[i];

		if (c->since_ns && now - c->since_ns > request_most_ns)
			(void) shutdown(c->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&h->lock);
}

static int fd_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **socket_context,
	enum MHD_ConnectionNotificationCode code)
{
	(void) socket_context;
	if (code == MHD_CONNECTION_NOTIFY_CLOSED)
		forget(ctx, fd_of(connection));
}

/* ---- one request ----------------------------------------------------------------------------- */

struct exchange {
	struct request request;
	const struct listener *listener;
	bool is_begun;
};

static enum MHD_Result add_arg(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct request *q = ctx;

	(void) kind;
	if (q->n_args == sizeof(q->args) / sizeof(q->args[0]))
		return MHD_NO;
	q->args[q->n_args].name = name ? name : "";
	q->args[q->n_args++].value = value ? value : "";
	return MHD_YES;
}

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Appends the body's headers, compresses it if the peer takes that, and sends it. */
static enum MHD_Result send_answer(struct MHD_Connection *connection, struct answer *a)
{
	const char *encodings = header_of(connection, "Accept-Encoding");
	struct buf squeezed = BUF_INIT(ANSWER_MOST);
	struct buf *body = &a->body;
	bool is_squeezed = false;

	if (body->error) {
		buf_done(body);
		*body = BUF_INIT(ANSWER_MOST);
		answer_error(a, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
	}
	if (body->len >= SQUEEZE_LEAST && accepts_gzip(encodings) && squeeze(body, &squeezed) == 0) {
		is_squeezed = true;
		body = &squeezed;
	}
	struct MHD_Response *response =
		MHD_create_response_from_buffer(body->len, body->data, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result r = MHD_NO;

	if (response) {
		(void) MHD_add_response_header(response, "Content-Type", a->type);
		(void) MHD_add_response_header(response, "Cache-Control", "no-store");
		(void) MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
		(void) MHD_add_response_header(response, "Vary", "Accept, Accept-Encoding, Authorization");
		if (is_squeezed)
			(void) MHD_add_response_header(response, "Content-Encoding", "gzip");
		if (a->status == MHD_HTTP_METHOD_NOT_ALLOWED)
			(void) MHD_add_response_header(response, "Allow", "GET, HEAD");
		if (a->status == MHD_HTTP_UNAUTHORIZED)
			(void) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
		if (a->status >= MHD_HTTP_BAD_REQUEST && a->status != MHD_HTTP_SERVICE_UNAVAILABLE)
			(void) MHD_add_response_header(response, "Connection", "close");
		r = MHD_queue_response(connection, a->status, response);
		MHD_destroy_response(response);
	}
	buf_done(&squeezed);
	buf_done(&a->body);
	return r;
}

/* Host headers of a request; all must be ours, since which of several counts is up to its reader. */
struct hosts {
	struct http *h;
	const struct listener *listener;
	unsigned n;
	bool are_ours;
};

static enum MHD_Result check_header(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct hosts *hosts = ctx;

	(void) kind;
	if (strcasecmp(name, "Host") == 0) {
		hosts->n++;
		hosts->are_ours = hosts->are_ours && access_host(hosts->h->serve, hosts->listener, value);
	}
	return MHD_YES;
}

static bool is_host_ours(struct http *h, const struct exchange *x, struct MHD_Connection *connection)
{
	struct hosts hosts = { h, x->listener, 0, true };

	(void) MHD_get_connection_values(connection, MHD_HEADER_KIND, check_header, &hosts);
	return hosts.n > 0 ? hosts.are_ours : access_host(h->serve, x->listener, NULL);
}

/* Why the request is not answered; false: it is. */
static bool refuse(struct http *h, struct MHD_Connection *connection, const char *url, const char *method,
	struct exchange *x, struct answer *a)
{
	const char *length = header_of(connection, "Content-Length");

	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		answer_error(a, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD; nothing can be changed here");
	else if ((length && strcmp(length, "0") != 0) || header_of(connection, "Transfer-Encoding"))
		answer_error(a, MHD_HTTP_CONTENT_TOO_LARGE, "a request here has no body");
	else if (strlen(url) > URL_MOST)
		answer_error(a, MHD_HTTP_URI_TOO_LONG, "the path is longer than %d bytes", URL_MOST);
	else if (!is_host_ours(h, x, connection))
		answer_error(a, MHD_HTTP_MISDIRECTED_REQUEST,
			"the Host header names neither this address nor localhost; if this server has that name, start it with --host-name");
	else if (access_of(h->serve, x->listener, fd_of(connection), header_of(connection, "Authorization"),
			 &x->request.viewer) != ACCESS_GRANTED)
		answer_error(a, MHD_HTTP_UNAUTHORIZED, "the token is missing or wrong (Authorization: Bearer TOKEN)");
	else
		return false;
	return true;
}

static const struct listener *listener_of(struct http *h, int fd)
{
	const struct listener *l = NULL;

	pthread_mutex_lock(&h->lock);
	struct connection *c = find_connection(h, fd);

	if (c)
		l = &h->listeners[c->listener];
	if (c && c->since_ns == 0)
		c->since_ns = clock_boot_ns();
	pthread_mutex_unlock(&h->lock);
	return l;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size, void **state)
{
	struct http *h = ctx;
	struct exchange *x = *state;
	struct answer a = { .status = MHD_HTTP_OK, .type = "application/json", .body = BUF_INIT(ANSWER_MOST) };

	(void) version;
	(void) upload;
	if (!x) { /* the headers were read */
		x = *state = calloc(1, sizeof(*x));
		if (!x || !(x->listener = listener_of(h, fd_of(connection))))
			return MHD_NO;
		return refuse(h, connection, url, method, x, &a) ? send_answer(connection, &a) : MHD_YES;
	}
	if (*upload_size)
		return MHD_NO;
	x->request.path = url;
	x->request.accept = header_of(connection, "Accept");
	x->request.accept = x->request.accept ? x->request.accept : "";
	(void) MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_arg, &x->request);
	answer(h->serve, &x->request, &a);
	return send_answer(connection, &a);
}

static void on_completed(
	void *ctx, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
	(void) code;
	free(*state);
	*state = NULL;
	set_since(ctx, fd_of(connection), 0);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static char *read_pem(const char *path)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = fd >= 0 ? malloc(PEM_MOST) : NULL;
	const ssize_t n = text ? read(fd, text, PEM_MOST - 1) : -1;

	if (n <= 0) {
		free(text);
		return NULL;
	}
	text[n] = '\0';
	return text;
}

static void silent(void *ctx, const char *format, va_list ap)
{
	(void) ctx;
	(void) format;
	(void) ap;
}

static struct MHD_Daemon *start_daemon(struct http *h, bool has_tls)
{
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, h->cert },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, h->key },
		{ MHD_OPTION_END, 0, NULL },
	};
	const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC |
			       MHD_USE_ERROR_LOG | (has_tls ? MHD_USE_TLS : 0);

	const struct MHD_OptionItem limits[] = {
		{ MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MOST + 8, NULL },
		{ MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADER_BYTES, NULL },
		{ MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, NULL },
		{ MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL },
		{ MHD_OPTION_END, 0, NULL },
	};

	return MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, silent, NULL,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
		MHD_OPTION_ARRAY, limits, MHD_OPTION_ARRAY, has_tls ? tls : &tls[2], MHD_OPTION_END);
}

static int start_tls(struct http *h, char *why, size_t size)
{
	if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
		(void) snprintf(why, size, "--tls-cert: this libmicrohttpd was built without TLS");
		return -ENOTSUP;
	}
	h->cert = read_pem(h->serve->o.tls_cert);
	h->key = read_pem(h->serve->o.tls_key);
	h->tls = h->cert && h->key ? start_daemon(h, true) : NULL;
	if (h->tls)
		return 0;
	(void) snprintf(why, size, "cannot use %.200s and %.200s as certificate and key (PEM)",
		h->serve->o.tls_cert, h->serve->o.tls_key);
	return -EINVAL;
}

int http_start(struct serve *s, struct listener *listeners, size_t n, struct http **ret, char *why,
	size_t size)
{
	struct http *h = calloc(1, sizeof(*h));
	int r = 0;

	if (!h)
		return -ENOMEM;
	h->serve = s;
	h->listeners = listeners;
	h->n_listeners = n;
	(void) pthread_mutex_init(&h->lock, NULL);
	if (s->o.tls_cert)
		r = start_tls(h, why, size);
	if (r == 0 && !(h->plain = start_daemon(h, false))) {
		(void) snprintf(why, size, "cannot start libmicrohttpd: %s", strerror(errno));
		r = -EIO;
	}
	if (r < 0)
		http_end(h);
	else
		*ret = h;
	return r;
}

void http_end(struct http *h)
{
	if (!h)
		return;
	if (h->plain)
		MHD_stop_daemon(h->plain);
	if (h->tls)
		MHD_stop_daemon(h->tls);
	(void) pthread_mutex_destroy(&h->lock);
	free(h->cert);
	free(h->key);
	free(h);
}
