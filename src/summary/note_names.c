/* SPDX-License-Identifier: MIT */
#include "summary/note_names.h"

#include <string.h>

/* A note, split around its figures: "before", "gpu.temp, gpu.fan", the verb, "after". */
struct parts {
	const char *names;
	size_t before_len, names_len;
	const char *verb; /* " are " if " is " or " are " follows the figures; else "" */
	const char *after;
};

/* Length of a figure's name at the start of text, "gpu.temp"; 0: none. */
static size_t name_len(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_", first[] = "gpu.";
	const size_t n = sizeof(first) - 1;

	return strncmp(text, first, n) == 0 && strspn(text + n, letters) ? n + strspn(text + n, letters) : 0;
}

static const char *find_name(const char *text)
{
	const char *p = name_len(text) ? text : strstr(text, " gpu.");

	while (p && !name_len(p + (*p == ' ')))
		p = strstr(p + 1, " gpu.");
	return p ? p + (*p == ' ') : NULL;
}

/* Length of the next name of a list behind its first n letters; 0: the list ends. */
static size_t next_name(const char *names, size_t n)
{
	return strncmp(names + n, ", ", 2) == 0 ? name_len(names + n + 2) : 0;
}

static bool split_note(const char *text, struct parts *ret)
{
	static const char *const verbs[] = { " is ", " are " };
	const char *names = find_name(text);
	size_t next;

	if (!names)
		return false;
	*ret = (struct parts) {
		.names = names,
		.before_len = (size_t) (names - text),
		.names_len = name_len(names),
		.verb = "",
	};
	while ((next = next_name(names, ret->names_len)))
		ret->names_len += 2 + next;
	ret->after = names + ret->names_len;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strncmp(ret->after, verbs[i], strlen(verbs[i])) == 0) {
			ret->verb = " are ";
			ret->after += strlen(verbs[i]);
			break;
		}
	}
	return true;
}

bool note_names_alike(const char *a, const char *b)
{
	struct parts x, y;

	return split_note(a, &x) && split_note(b, &y) && x.before_len == y.before_len &&
	       strncmp(a, b, x.before_len) == 0 && strcmp(x.verb, y.verb) == 0 &&
	       strcmp(x.after, y.after) == 0;
}

static bool has_name(const struct parts *p, const char *name, size_t len)
{
	for (const char *at = p->names; at < p->names + p->names_len; at += name_len(at) + 2) {
		if (name_len(at) == len && strncmp(at, name, len) == 0)
			return true;
	}
	return false;
}

int note_names_join(const char *a, const char *b, struct buf *out)
{
	struct parts x, y;
	bool more = false;

	if (!split_note(a, &x) || !split_note(b, &y))
		return buf_str(out, a);
	(void) buf_add(out, a, x.before_len + x.names_len);
	for (const char *at = y.names; at < y.names + y.names_len; at += name_len(at) + 2) {
		if (has_name(&x, at, name_len(at)))
			continue;
		more = true;
		(void) buf_str(out, ", ");
		(void) buf_add(out, at, name_len(at));
	}
	return more ? buf_printf(out, "%s%s", x.verb, x.after) : buf_str(out, x.names + x.names_len);
}
