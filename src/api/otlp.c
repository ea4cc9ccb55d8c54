/* SPDX-License-Identifier: MIT
 *
 * Settings of OTLP (opentelemetry.io, "OpenTelemetry Protocol Exporter"): the variables that every
 * exporter reads. For metrics OTEL_EXPORTER_OTLP_METRICS_X is preferred to OTEL_EXPORTER_OTLP_X.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/handles.h"
#include "base/parse.h"

static const char default_url[] = "http://localhost:4318", metrics_path[] = "/v1/metrics";

enum {
	DEFAULT_TIMEOUT_MS = 10000,
	DEFAULT_INTERVAL_MS = 60000,
	LEAST_INTERVAL_MS = 100,
	MOST_MS = 86400000,
	TEXT_MOST = 1 << 16, /* of a variable */
};

/* The value of the variable for metrics, else for all signals; NULL: neither is set, or empty. */
static const char *variable(const char *name, char ret_name[64])
{
	static const char *const prefixes[] = { "OTEL_EXPORTER_OTLP_METRICS_", "OTEL_EXPORTER_OTLP_" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		const char *value;

		(void) snprintf(ret_name, 64, "%s%s", prefixes[i], name);
		value = getenv(ret_name);
		if (value && *value)
			return value;
	}
	return NULL;
}

/* ---- the address -------------------------------------------------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
	return strncasecmp(text, with, strlen(with)) == 0;
}

static bool is_loopback(const char *host, size_t len)
{
	static const char *const names[] = { "localhost", "[::1]" };
	size_t dots = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (len == strlen(names[i]) && strncasecmp(host, names[i], len) == 0)
			return true;
	}
	if (len < 4 || strncmp(host, "127.", 4) != 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		dots += host[i] == '.';
		if (host[i] != '.' && (host[i] < '0' || host[i] > '9'))
			return false;
	}
	return dots == 3;
}

/* When /v1/metrics is appended to an address. */
enum path_rule {
	PATH_AS_IS,
	PATH_IF_NONE,
	PATH_APPENDED
};

/* Checks the address and sets it. */
static int set_url(struct hwi_otlp *o, const char *url, enum path_rule rule, bool insecure, const char *from,
	int code, struct err *err)
{
	const bool is_plain = starts(url, "http://");
	const char *host = is_plain ? url + 7 : url + 8;
	const size_t authority = strcspn(host, "/?#");
	size_t len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#"), used = strlen(url);

	if (!is_plain && !starts(url, "https://"))
		return err_set(err, code, "%s: the address begins with neither http:// nor https://", from);
	if (len == 0 || len > authority)
		return err_set(err, code, "%s: the address has no host", from);
	for (const char *p = url; *p; p++) {
		if ((unsigned char) *p <= ' ' || *p == 0x7f)
			return err_set(err, code, "%s: the address has a blank or a control character in it", from);
	}
	if (memchr(host, '@', authority))
		return err_set(err, code,
			"%s: no user and password in the address, where other users can read them; use OTEL_EXPORTER_OTLP_HEADERS",
			from);
	o->loopback = is_loopback(host, len);
	if (is_plain && !o->loopback && !insecure)
		return err_set(err, code,
			"%s: http:// to another machine is not encrypted; use https://, a collector on this machine, or "
			"--otlp-insecure",
			from);
	const bool has_path = host[authority] != '\0' && strcmp(host + authority, "/") != 0;
	const bool append_path = rule == PATH_APPENDED || (rule == PATH_IF_NONE && !has_path);

	while (append_path && used > 0 && url[used - 1] == '/')
		used--;
	if (used + sizeof(metrics_path) > sizeof(o->url))
		return err_set(err, code, "%s: the address is too long", from);
	(void) snprintf(o->url, sizeof(o->url), "%.*s%s", (int) used, url, append_path ? metrics_path : "");
	return 0;
}

static int read_url(struct hwi_otlp *o, const char *url, bool insecure, struct err *err)
{
	static const char of_metrics[] = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", of_all[] = "OTEL_EXPORTER_OTLP_ENDPOINT";
	const char *value = getenv(of_metrics);

	if (url)
		return set_url(o, url, PATH_IF_NONE, insecure, "the address of OTLP", -EINVAL, err);
	if (value && *value)
		return set_url(o, value, PATH_AS_IS, insecure, of_metrics, -EBADMSG, err);
	value = getenv(of_all);
	if (!value || !*value)
		value = default_url;
	return set_url(o, value, PATH_APPENDED, insecure, of_all, -EBADMSG, err);
}

/* ---- lists of key=value ------------------------------------------------------------------------------------------------- */

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
										   : -1;
}

/* Decodes %XX; "" for a text with control characters, which must not get into a header. */
static void decode(char *text)
{
	char *out = text;

	for (const char *p = text; *p; p++) {
		char c = *p;

		if (c == '%' && hex(p[1]) >= 0 && hex(p[2]) >= 0) {
			c = (char) (hex(p[1]) * 16 + hex(p[2]));
			p += 2;
		}
		if ((unsigned char) c < ' ' || c == 0x7f) {
			*text = '\0';
			return;
		}
		*out++ = c;
	}
	*out = '\0';
}

static char *trim(char *text)
{
	size_t len;

	text += strspn(text, " \t");
	len = strlen(text);
	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		text[--len] = '\0';
	return text;
}

static int add_header(struct hwi_otlp *o, const char *key, const char *value)
{
	if (strpbrk(key, " \t:()<>@,;\\\"/[]?={}"))
		return -EBADMSG;
	if (o->n_headers == HWI_OTLP_HEADERS)
		return -E2BIG;
	if (asprintf(&o->headers[o->n_headers], "%s: %s", key, value) < 0)
		return -ENOMEM;
	o->n_headers++;
	return 0;
}

static int add_attribute(struct hwi_otlp *o, const char *key, const char *value)
{
	for (size_t i = 0; i < o->n_attributes; i += 2) {
		if (strcmp(o->attributes[i], key) == 0)
			return 0; /* the first one counts: OTEL_SERVICE_NAME */
	}
	if (o->n_attributes + 2 > HWI_OTLP_ATTRIBUTES)
		return -E2BIG;
	o->attributes[o->n_attributes] = strdup(key);
	o->attributes[o->n_attributes + 1] = strdup(value);
	if (!o->attributes[o->n_attributes] || !o->attributes[o->n_attributes + 1]) {
		free(o->attributes[o->n_attributes]);
		free(o->attributes[o->n_attributes + 1]);
		return -ENOMEM;
	}
	o->n_attributes += 2;
	return 0;
}

/* Calls add for each key=value of the list. An error names the variable, never what is in it. */
static int read_list(struct hwi_otlp *o, const char *list, const char *name,
	int (*add)(struct hwi_otlp *o, const char *key, const char *value), struct err *err)
{
	char *copy = list ? strndup(list, TEXT_MOST) : NULL, *rest = copy, *item;
	int r = list && !copy ? -ENOMEM : 0;

	while (r == 0 && (item = strsep(&rest, ",")) != NULL) {
		char *value = strchr(item, '='), *key;

		if (!*trim(item))
			continue;
		if (value)
			*value++ = '\0';
		key = trim(item);
		value = value ? trim(value) : NULL;
		if (value)
			decode(value);
		decode(key);
		r = value && *value && *key ? add(o, key, value) : -EBADMSG;
	}
	free(copy);
	if (r == -EBADMSG)
		return err_set(err, r, "%s is not a list of KEY=VALUE, separated by commas", name);
	if (r == -E2BIG)
		return err_set(err, -EBADMSG, "%s has too many entries", name);
	return r;
}

/* ---- the other variables ------------------------------------------------------------------------------------------------ */

/* Milliseconds of a variable, if it is set. */
static int read_ms(const char *value, const char *name, uint64_t least, uint64_t *ret, struct err *err)
{
	const char *p = value;
	uint64_t ms;

	if (!value || !*value)
		return 0;
	if (parse_u64(&p, &ms) < 0 || *p || ms < least || ms > MOST_MS)
		return err_set(err, -EBADMSG, "%s=%.40s is not a number of milliseconds from %llu to %d", name, value,
			(unsigned long long) least, MOST_MS);
	*ret = ms;
	return 0;
}

static int read_protocol(struct err *err)
{
	char name[64];
	const char *value = variable("PROTOCOL", name);

	if (!value || strcmp(value, "http/json") == 0)
		return 0;
	return err_set(err, -EBADMSG,
		"%s is '%.40s', but hiwater sends only http/json; set OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/json for it, with "
		"the endpoint of a receiver of HTTP",
		name, value);
}

static int read_compression(struct hwi_otlp *o, struct err *err)
{
	char name[64];
	const char *value = variable("COMPRESSION", name);

	o->gzip = !value || strcmp(value, "gzip") == 0;
	if (!value || o->gzip || strcmp(value, "none") == 0)
		return 0;
	return err_set(err, -EBADMSG, "%s is '%.40s'; choose gzip or none", name, value);
}

static bool is_true(const char *value)
{
	return value && strcasecmp(value, "true") == 0;
}

static int read_resource(struct hwi_otlp *o, struct err *err)
{
	static const char resource[] = "OTEL_RESOURCE_ATTRIBUTES";
	const char *service = getenv("OTEL_SERVICE_NAME");
	int r = service && *service ? add_attribute(o, "service.name", service) : 0;

	return r == 0 ? read_list(o, getenv(resource), resource, add_attribute, err) : r;
}

static int read_variables(struct hwi_otlp *o, struct err *err)
{
	static const char interval[] = "OTEL_METRIC_EXPORT_INTERVAL";
	const char *value;
	char name[64];
	int r = read_protocol(err);

	if (r == 0)
		r = read_compression(o, err);
	if (r == 0)
		r = read_ms(getenv(interval), interval, LEAST_INTERVAL_MS, &o->interval_ms, err);
	if (r == 0)
		r = read_resource(o, err);
	value = variable("TIMEOUT", name);
	if (r == 0)
		r = read_ms(value, name, 1, &o->timeout_ms, err);
	value = variable("CERTIFICATE", name);
	if (r == 0 && value)
		(void) snprintf(o->certificate, sizeof(o->certificate), "%s", value);
	value = variable("HEADERS", name);
	return r == 0 ? read_list(o, value, name, add_header, err) : r;
}

int hwi_otlp_settings(const char *url, bool insecure, struct hwi_otlp *ret, struct hiw_err *ret_err)
{
	struct err err = { "" };
	int r;

	*ret = (struct hwi_otlp) {
		.disabled = is_true(getenv("OTEL_SDK_DISABLED")),
		.timeout_ms = DEFAULT_TIMEOUT_MS,
		.interval_ms = DEFAULT_INTERVAL_MS,
	};
	r = read_url(ret, url, insecure, &err);
	if (r == 0)
		r = read_variables(ret, &err);
	return api_err(ret_err, &err, r);
}

int hwi_otlp_resource(struct hwi_otlp *ret, struct hiw_err *ret_err)
{
	struct err err = { "" };

	*ret = (struct hwi_otlp) { .disabled = false };
	return api_err(ret_err, &err, read_resource(ret, &err));
}

void hwi_otlp_done(struct hwi_otlp *o)
{
	for (size_t i = 0; i < o->n_headers; i++)
		free(o->headers[i]);
	for (size_t i = 0; i < o->n_attributes; i++)
		free(o->attributes[i]);
	o->n_headers = o->n_attributes = 0;
}
