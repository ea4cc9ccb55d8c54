/* SPDX-License-Identifier: MIT */
#include "source/trace/reach.h"

#include <stdio.h>
#include <string.h>

#include "base/longfile.h"
#include "model/trace_ring.h"

#define autolongfile __attribute__((cleanup(longfile_done)))

/* proc_pid_environ(5): texts that each end in a NUL. */
static bool mentions(const char *text, size_t len)
{
	static const char name[] = TRACE_ENVIRONMENT "=";

	for (size_t at = 0; at < len;) {
		const size_t n = strnlen(text + at, len - at);

		if (n >= sizeof(name) - 1 && memcmp(text + at, name, sizeof(name) - 1) == 0)
			return true;
		at += n + 1;
	}
	return false;
}

bool trace_is_out_of_reach(const struct root *root, pid_t pid)
{
	autolongfile struct longfile file = { 0 };
	char path[32];
	ssize_t n;

	(void) snprintf(path, sizeof(path), "%d/environ", (int) pid);
	n = longfile_read(&file, root->proc, path);
	if (n != 0)
		return n > 0 && !mentions(file.data, (size_t) n);
	/* A process that has ended has neither. */
	(void) snprintf(path, sizeof(path), "%d/cmdline", (int) pid);
	return longfile_read(&file, root->proc, path) > 0;
}

void trace_reach_note(unsigned n, pid_t pid, const char *name, char *ret, size_t size)
{
	char shown[16];

	ret[0] = '\0';
	if (n > TRACE_REACH_NAMED)
		return;
	(void) snprintf(shown, sizeof(shown), "%s", name);
	for (char *p = shown; *p; p++) {
		if ((unsigned char) *p < ' ' || *p == 0x7f)
			*p = '?';
	}
	(void) snprintf(ret, size,
		"trace: process %d (%s) is out of reach: its environment has no " TRACE_ENVIRONMENT
		" (env -i, sudo); have it passed on",
		(int) pid, shown);
}

void trace_reach_sum(unsigned n, char *ret, size_t size)
{
	ret[0] = '\0';
	if (n > TRACE_REACH_NAMED)
		(void) snprintf(ret, size, "trace: %u processes in all were out of reach", n);
}
