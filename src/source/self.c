/* SPDX-License-Identifier: MIT
 *
 * What status says of single processes outside the job's hot path: the recorder itself, the canary.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/smallfile.h"
#include "source/source.h"

enum { STATUS_SIZE = 4096 };

int self_memory(const struct root *root, uint64_t *ret_rss, uint64_t *ret_hwm)
{
	char text[STATUS_SIZE];
	ssize_t n = smallfile_read(root->proc, "self/status", text, sizeof(text));
	uint64_t rss, hwm;

	if (n < 0)
		return (int) n;
	if (parse_key(text, "VmRSS", &rss) < 0 || parse_key(text, "VmHWM", &hwm) < 0)
		return -EBADMSG;
	*ret_rss = rss;
	*ret_hwm = hwm;
	return 0;
}

/* "ShdPnd:\t0000000000000200": signals that wait for the whole process; proc_pid_status(5). */
static int mask_of(const char *text, const char *key, uint64_t *ret)
{
	const char *p = strstr(text, key);

	if (!p)
		return -EBADMSG;
	p += strlen(key);
	parse_blanks(&p);
	return parse_hex(&p, ret);
}

int pending_signals(const struct root *root, pid_t pid, uint64_t *ret_mask)
{
	char path[32], text[STATUS_SIZE];
	uint64_t own, shared;
	ssize_t n;

	(void) snprintf(path, sizeof(path), "%d/status", (int) pid);
	n = smallfile_read(root->proc, path, text, sizeof(text));
	if (n < 0)
		return (int) n;
	if (mask_of(text, "\nSigPnd:", &own) < 0 || mask_of(text, "\nShdPnd:", &shared) < 0)
		return -EBADMSG;
	*ret_mask = own | shared;
	return 0;
}
