/* SPDX-License-Identifier: MIT
 *
 * The processes that --name selects: like pgrep -f, without hiwater itself and the shells that
 * started it.
 */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/source.h"

enum {
	TEXT_SIZE = 4096,
	ANCESTORS_MAX = 64
};

/* Arguments are joined by blanks, and trailing separators are stripped, so that "x$" matches as
 * expected. */
static int text_of(const struct root *root, pid_t pid, const char *file, char *buf, size_t size)
{
	char path[48];
	ssize_t n;

	(void) snprintf(path, sizeof(path), "%d/%s", (int) pid, file);
	n = smallfile_read(root->proc, path, buf, size);
	while (n > 0 && (buf[n - 1] == '\0' || buf[n - 1] == '\n'))
		buf[--n] = '\0';
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] == '\0')
			buf[i] = ' ';
	}
	return (int) n;
}

static pid_t parent_of(const struct root *root, pid_t pid)
{
	char text[TEXT_SIZE];
	uint64_t ppid;

	if (text_of(root, pid, "status", text, sizeof(text)) < 0 || parse_key(text, "PPid", &ppid) < 0)
		return 0;
	return (pid_t) ppid;
}

/* This process, its parent, and so on up to init. */
static size_t ancestors_read(const struct root *root, pid_t line[ANCESTORS_MAX])
{
	size_t n = 0;

	for (pid_t pid = getpid(); pid > 1 && n < ANCESTORS_MAX; pid = parent_of(root, pid))
		line[n++] = pid;
	return n;
}

static bool is_in(const pid_t *pids, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++) {
		if (pids[i] == pid)
			return true;
	}
	return false;
}

static bool matches(const struct root *root, pid_t pid, const regex_t *re)
{
	char text[TEXT_SIZE];

	if (text_of(root, pid, "cmdline", text, sizeof(text)) > 0 && regexec(re, text, 0, NULL, 0) == 0)
		return true;
	return text_of(root, pid, "comm", text, sizeof(text)) > 0 && regexec(re, text, 0, NULL, 0) == 0;
}

static ssize_t find_all(const struct root *root, const regex_t *re, pid_t *pids, size_t n)
{
	pid_t line[ANCESTORS_MAX];
	const size_t n_line = ancestors_read(root, line);
	autoclosedir DIR *dir = NULL;
	const struct dirent *entry;
	ssize_t found = 0;
	autoclose int fd = openat(root->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return -errno;
	(void) take_fd(fd); /* dir owns it now */
	while ((entry = readdir(dir))) {
		const char *p = entry->d_name;
		uint64_t pid;

		if (parse_u64(&p, &pid) < 0 || *p != '\0' || pid > INT32_MAX ||
			is_in(line, n_line, (pid_t) pid) || !matches(root, (pid_t) pid, re))
			continue;
		if ((size_t) found < n)
			pids[found] = (pid_t) pid;
		found++;
	}
	return found;
}

ssize_t find_by_name(const struct root *root, const char *regex, pid_t *pids, size_t n, struct err *err)
{
	regex_t re;
	ssize_t found;
	int r = regcomp(&re, regex, REG_EXTENDED | REG_NOSUB);

	if (r != 0) {
		char why[128];

		(void) regerror(r, &re, why, sizeof(why));
		return err_set(
			err, -EINVAL, "'%s' is not a valid extended regular expression: %s", regex, why);
	}
	found = find_all(root, &re, pids, n);
	regfree(&re);
	return found;
}
