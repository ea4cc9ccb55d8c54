/* SPDX-License-Identifier: MIT */
#include "sink/trace/trace_names.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"

typedef char *demangle_fn(const char *name, char *buffer, size_t *size, int *status);

static demangle_fn *find_demangler(void)
{
	static demangle_fn *demangle;
	static bool is_loaded;
	void *library;

	if (is_loaded)
		return demangle;
	is_loaded = true;
	library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
	if (library)
		*(void **) &demangle = dlsym(library, "__cxa_demangle");
	return demangle;
}

void trace_demangle(const char *name, struct buf *out)
{
	enum {
		MOST_BYTES = 8192 /* a longer one may take a long time */
	};
	autofree char *text = NULL;
	int status = -1;

	if (strncmp(name, "_Z", 2) == 0 && strnlen(name, MOST_BYTES) < MOST_BYTES) {
		demangle_fn *demangle = find_demangler();

		text = demangle ? demangle(name, NULL, NULL, &status) : NULL;
	}
	(void) buf_str(out, text && status == 0 ? text : name);
}

void trace_regex_escape(const char *text, struct buf *out)
{
	for (const char *p = text; *p; p++)
		(void) buf_printf(out, "%s%c", strchr("\\^$.|?*+()[]{}", *p) ? "\\" : "", *p);
}

void trace_shell_word(const char *text, struct buf *out)
{
	size_t plain = 0;

	while (isalnum((unsigned char) text[plain]) || (text[plain] && strchr("_@%+=:,./-", text[plain])))
		plain++;
	if (plain > 0 && text[plain] == '\0') {
		(void) buf_str(out, text);
		return;
	}
	(void) buf_str(out, "'");
	for (const char *p = text; *p; p++)
		(void) buf_printf(out, *p == '\'' ? "'\"'\"'" : "%c", *p);
	(void) buf_str(out, "'");
}

char *trace_count_text(uint64_t n, char buf[TRACE_COUNT_LEN])
{
	char digits[24];
	const size_t len = (size_t) snprintf(digits, sizeof(digits), "%llu", (unsigned long long) n);
	size_t at = 0;

	for (size_t i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	buf[at] = '\0';
	return buf;
}

bool trace_step_number(const char *name, uint64_t *ret)
{
	static const char *const words[] = { "ProfilerStep", "step", "iteration", "iter" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const size_t len = strlen(words[i]);
		const char *p = name + len;

		if (strncasecmp(name, words[i], len) != 0)
			continue;
		p += strspn(p, " #_:-=");
		if (parse_u64(&p, ret) == 0 && *p == '\0')
			return true;
	}
	return false;
}

void trace_step_fold(const char *name, struct buf *out)
{
	uint64_t number;
	size_t len = strlen(name);

	if (!trace_step_number(name, &number)) {
		(void) buf_str(out, name);
		return;
	}
	while (len > 0 && name[len - 1] >= '0' && name[len - 1] <= '9')
		len--;
	(void) buf_printf(out, "%.*s*", (int) len, name);
}
