/* SPDX-License-Identifier: MIT */
#include "source/host/mountinfo.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"

/* proc_pid_mounts(5): a change raises POLLPRI, once. A captured file never does. */
static bool is_current(const struct root *root, int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLPRI };

	return root->live && fd >= 0 && poll(&poll_fd, 1, 0) == 0;
}

const char *mountinfo_text(const struct root *root)
{
	struct root_text *kept = root->mounts;

	if (!kept)
		return NULL;
	if (is_current(root, kept->fd))
		return kept->text.data;
	cleanup_close(&kept->fd);
	kept->fd = smallfile_open(root->proc, "self/mountinfo");
	if (kept->fd >= 0 && longfile_pread(&kept->text, kept->fd) > 0)
		return kept->text.data;
	cleanup_close(&kept->fd);
	kept->fd = -1;
	return NULL;
}

/* The length of the field up to the next blank or the line's end. */
static size_t field_len(const char *p)
{
	return strcspn(p, " \n");
}

/* True if there was a field; *p is then at the next one. */
static bool skip_field(const char **p)
{
	size_t len = field_len(*p);

	if (len == 0 || (*p)[len] != ' ')
		return false;
	*p += len + 1;
	return true;
}

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* "a\040b" is "a b": blank, tab, newline and backslash are written as three octal digits. */
static bool parse_path(const char **p, char *path, size_t size)
{
	const char *at = *p, *end = at + field_len(at);
	size_t n = 0;

	if (at == end || *end != ' ')
		return false;
	while (at < end) {
		char c = *at++;

		if (c == '\\' && end - at >= 3 && is_octal(at[0]) && is_octal(at[1]) && is_octal(at[2])) {
			c = (char) ((at[0] - '0') * 64 + (at[1] - '0') * 8 + (at[2] - '0'));
			at += 3;
		}
		if (n + 1 >= size || c == '\0')
			return false;
		path[n++] = c;
	}
	path[n] = '\0';
	*p = end + 1;
	return true;
}

/* Skips the optional fields ("shared:1 master:2") and the single "-" behind them. */
static bool skip_optional(const char **p)
{
	while (strncmp(*p, "- ", 2) != 0) {
		if (!skip_field(p))
			return false;
	}
	*p += 2;
	return true;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue" */
static bool line_parse(const char *p, struct mount *ret)
{
	if (!skip_field(&p) || !skip_field(&p) || !skip_field(&p))
		return false;
	if (!parse_path(&p, ret->root, sizeof(ret->root)) ||
		!parse_path(&p, ret->point, sizeof(ret->point)))
		return false;
	if (!skip_optional(&p) || !parse_path(&p, ret->type, sizeof(ret->type)))
		return false;
	ret->source = p;
	ret->source_len = field_len(p); /* may be empty */
	if (p[ret->source_len] != ' ')
		return false;
	ret->options = p + ret->source_len + 1;
	ret->options_len = field_len(ret->options);
	return true;
}

bool mountinfo_next(const char **p, struct mount *ret)
{
	for (const char *line; (line = parse_next_line(p));) {
		if (line_parse(line, ret))
			return true;
	}
	return false;
}

bool mount_has_option(const struct mount *mount, const char *word)
{
	const char *p = mount->options, *end = p + mount->options_len;
	size_t want = strlen(word);

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t) (end - p));
		size_t len = (size_t) ((comma ? comma : end) - p);

		if (len == want && memcmp(p, word, len) == 0)
			return true;
		p += len + 1;
	}
	return false;
}

/* "/a" is above "/a" and "/a/b", not above "/ab"; "/" is above everything. */
static bool is_above(const char *point, size_t len, const char *path)
{
	return strncmp(point, path, len) == 0 &&
	       (path[len] == '\0' || path[len] == '/' || (len > 0 && point[len - 1] == '/'));
}

bool mountinfo_type_at(const char *text, const char *path, struct mount *ret)
{
	struct mount mount;
	size_t best = 0;
	bool found = false;

	while (mountinfo_next(&text, &mount)) {
		size_t len = strlen(mount.point);

		if (len < best || !is_above(mount.point, len, path))
			continue;
		*ret = mount;
		best = len;
		found = true;
	}
	return found;
}
