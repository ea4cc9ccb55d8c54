/* SPDX-License-Identifier: MIT
 *
 * One request over libcurl. Redirects are not followed and no proxy is used for loopback: headers
 * may be secrets.
 */
#include <curl/curl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "otlp/sender.h"

enum {
	ANSWER_MOST = 1 << 14,
	POLL_MS = 1000,
	OK = 200,
	MULTIPLE_CHOICES = 300,
	TOO_MANY_REQUESTS = 429,
	BAD_GATEWAY = 502,
	UNAVAILABLE = 503,
	GATEWAY_TIMEOUT = 504,
};

struct poster {
	const struct hwi_otlp *settings;
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;
	char answer[ANSWER_MOST + 1];
	size_t len;
	char error[CURL_ERROR_SIZE];
};

static size_t keep_answer(char *bytes, size_t size, size_t n, void *ctx)
{
	struct poster *p = ctx;
	const size_t len = size * n, room = ANSWER_MOST - p->len;

	memcpy(p->answer + p->len, bytes, len < room ? len : room);
	p->len += len < room ? len : room;
	return len;
}

static bool add_header(struct poster *p, const char *header)
{
	struct curl_slist *more = curl_slist_append(p->headers, header);

	if (more)
		p->headers = more;
	return more != NULL;
}

static bool set_up(struct poster *p)
{
	const struct hwi_otlp *s = p->settings;
	CURL *c = p->easy;
	/* Prometheus compares the whole text: no charset */
	bool is_ok = add_header(p, "Content-Type: application/json") && add_header(p, "Expect:") &&
		     (!s->gzip || add_header(p, "Content-Encoding: gzip"));

	for (size_t i = 0; is_ok && i < s->n_headers; i++)
		is_ok = add_header(p, s->headers[i]);
	is_ok = is_ok && curl_easy_setopt(c, CURLOPT_URL, s->url) == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_HTTPHEADER, p->headers) == CURLE_OK;
	(void) curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	(void) curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	(void) curl_easy_setopt(c, CURLOPT_USERAGENT, "hiwater/" HIW_VERSION);
	(void) curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, keep_answer);
	(void) curl_easy_setopt(c, CURLOPT_WRITEDATA, p);
	(void) curl_easy_setopt(c, CURLOPT_ERRORBUFFER, p->error);
	if (s->loopback)
		(void) curl_easy_setopt(c, CURLOPT_PROXY, "");
	if (*s->certificate)
		is_ok = is_ok && curl_easy_setopt(c, CURLOPT_CAINFO, s->certificate) == CURLE_OK;
	return is_ok;
}

struct poster *poster_new(const struct hwi_otlp *settings)
{
	struct poster *p = calloc(1, sizeof(*p));

	if (!p || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(p);
		return NULL;
	}
	p->settings = settings;
	p->multi = curl_multi_init();
	p->easy = curl_easy_init();
	if (!p->multi || !p->easy || !set_up(p)) {
		poster_free(p);
		return NULL;
	}
	return p;
}

void poster_free(struct poster *p)
{
	if (!p)
		return;
	curl_easy_cleanup(p->easy);
	(void) curl_multi_cleanup(p->multi);
	curl_slist_free_all(p->headers);
	curl_global_cleanup();
	free(p);
}

/* ---- the exchange ------------------------------------------------------------------------------------------------------- */

static void check_end(int end_fd, uint64_t *end_ns)
{
	struct pollfd fd = { .fd = end_fd, .events = POLLIN };
	char byte;

	if (*end_ns == 0 && end_fd >= 0 && poll(&fd, 1, 0) > 0 && read(end_fd, &byte, 1) <= 0)
		*end_ns = clock_boot_ns() + UINT64_C(1000000) * GRACE_MS;
}

/* Milliseconds to wait at most: 0 if the end has come. */
static int patience(uint64_t now_ns, uint64_t until_ns)
{
	const uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / 1000000 + 1 : 0;

	return left_ms < POLL_MS ? (int) left_ms : POLL_MS;
}

/* Returns the result; CURLE_OPERATION_TIMEDOUT also at *end_ns. */
static CURLcode exchange(struct poster *p, int end_fd, uint64_t *end_ns)
{
	const uint64_t timeout_ns = clock_boot_ns() + p->settings->timeout_ms * 1000000;
	CURLcode result = CURLE_OPERATION_TIMEDOUT;
	int running = 1, left;

	if (curl_multi_add_handle(p->multi, p->easy) != CURLM_OK)
		return CURLE_FAILED_INIT;
	while (curl_multi_perform(p->multi, &running) == CURLM_OK && running) {
		struct curl_waitfd end = { .fd = end_fd, .events = CURL_WAIT_POLLIN };
		uint64_t until_ns = timeout_ns;

		check_end(end_fd, end_ns);
		if (*end_ns && *end_ns < until_ns)
			until_ns = *end_ns;
		const int ms = patience(clock_boot_ns(), until_ns);
		const unsigned watched = end_fd >= 0 && *end_ns == 0 ? 1 : 0;

		if (ms == 0 || curl_multi_poll(p->multi, &end, watched, ms, NULL) != CURLM_OK)
			break;
	}
	for (CURLMsg *m; !running && (m = curl_multi_info_read(p->multi, &left)) != NULL;) {
		if (m->msg == CURLMSG_DONE)
			result = m->data.result;
	}
	(void) curl_multi_remove_handle(p->multi, p->easy);
	return result;
}

/* ---- the answer --------------------------------------------------------------------------------------------------------- */

/* The text after "KEY": in the JSON of an answer; NULL: there is none. */
static const char *find_key(const char *json, const char *key)
{
	char quoted[64];
	const char *at;

	(void) snprintf(quoted, sizeof(quoted), "\"%s\"", key);
	at = strstr(json, quoted);
	if (!at)
		return NULL;
	at += strlen(quoted);
	at += strspn(at, " \t\r\n");
	return *at == ':' ? at + 1 + strspn(at + 1, " \t\r\n") : NULL;
}

/* Copies up to the closing quote; control characters and the backslashes of escapes are left out. */
static void copy_text(const char *from, char *to, size_t size)
{
	size_t n = 0;

	for (; *from && *from != '"' && n + 1 < size; from++) {
		if (*from == '\\' && from[1])
			from++;
		if ((unsigned char) *from >= ' ' && *from != 0x7f)
			to[n++] = *from;
	}
	to[n] = '\0';
}

static void read_partial(const struct poster *p, struct post_answer *ret)
{
	const char *rejected = find_key(p->answer, "rejectedDataPoints"), *message = find_key(p->answer, "errorMessage");

	if (rejected && *rejected == '"')
		rejected++;
	if (!rejected || parse_u64(&rejected, &ret->rejected) < 0)
		ret->rejected = 0;
	if (message && *message == '"')
		copy_text(message + 1, ret->text, sizeof(ret->text));
}

static void judge_status(struct poster *p, struct post_answer *ret)
{
	curl_off_t wait = 0;
	long status = 0;

	(void) curl_easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &status);
	(void) curl_easy_getinfo(p->easy, CURLINFO_RETRY_AFTER, &wait);
	p->answer[p->len] = '\0';
	if (status >= OK && status < MULTIPLE_CHOICES) {
		ret->result = POST_ACCEPTED;
		read_partial(p, ret);
		return;
	}
	(void) snprintf(ret->text, sizeof(ret->text), "the receiver answered %ld", status);
	ret->result = status == TOO_MANY_REQUESTS || status == BAD_GATEWAY || status == UNAVAILABLE ||
				      status == GATEWAY_TIMEOUT
			      ? POST_RETRY
			      : POST_REFUSED;
	ret->wait_ms = wait > 0 ? (uint64_t) wait * 1000 : 0;
}

void poster_send(struct poster *p, const char *body, size_t len, int end_fd, uint64_t *end_ns,
	struct post_answer *ret)
{
	CURLcode result;

	*ret = (struct post_answer) { .result = POST_RETRY };
	p->len = 0;
	p->error[0] = '\0';
	(void) curl_easy_setopt(p->easy, CURLOPT_POSTFIELDS, body);
	(void) curl_easy_setopt(p->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) len);
	result = exchange(p, end_fd, end_ns);
	if (result == CURLE_OK)
		judge_status(p, ret);
	else if (result == CURLE_OPERATION_TIMEDOUT)
		(void) snprintf(ret->text, sizeof(ret->text), "the receiver does not answer");
	else
		copy_text(p->error[0] ? p->error : curl_easy_strerror(result), ret->text, sizeof(ret->text));
}
