/* SPDX-License-Identifier: MIT
 *
 * Processes that the kernel killed for lack of memory, from its log.
 */
#include "source/host/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "source/host/container.h"

/* The longest record (CONSOLE_EXT_LOG_MAX); a shorter buffer loses it. */
enum {
	RECORD_MAX = 8192
};

/* ---- one record --------------------------------------------------------------------------------------------------- */

/* "6,339,5140900,-;": priority and facility (0: the kernel; lines written by processes have
 * another), number, time, flags, possibly more; then the text. */
static const char *kernel_text(const char *record)
{
	enum {
		PRIORITIES = 8
	};
	uint64_t priority;

	if (parse_u64(&record, &priority) < 0 || *record != ',' || priority >= PRIORITIES)
		return NULL;
	record += strcspn(record, ";\n");
	return *record == ';' ? record + 1 : NULL;
}

/* The last occurrence of what in the first len bytes. */
static const char *find_last(const char *text, size_t len, const char *word)
{
	const size_t n = strlen(word);

	for (size_t i = len; i-- > 0;) {
		if (n <= len - i && memcmp(text + i, word, n) == 0)
			return text + i;
	}
	return NULL;
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int) (at - digits) : -1;
}

/* Copies a name of len bytes; "\x0a" stands for a byte that is not printable or for a backslash. */
static void unescape(const char *p, size_t len, char ret[OOM_NAME])
{
	size_t n = 0;

	for (size_t i = 0; i < len && n < OOM_NAME - 1; n++) {
		const bool escaped = len - i >= 4 && p[i] == '\\' && p[i + 1] == 'x';
		const int high = escaped ? hex_digit(p[i + 2]) : -1, low = escaped ? hex_digit(p[i + 3]) : -1;

		ret[n] = high >= 0 && low >= 0 ? (char) (high * 16 + low) : p[i];
		i += high >= 0 && low >= 0 ? 4 : 1;
	}
	ret[n] = '\0';
}

/* mm/oom_kill.c, __oom_kill_process: "Memory cgroup out of memory: Killed process 11172 (alloc)
 * total-vm:207144kB, ...". The text before "Killed process" has changed over the years, RHEL 7 has
 * "(alloc), UID 0, total-vm:", and a name may contain brackets. */
bool kmsg_victim_parse(const char *record, struct oom_victim *ret)
{
	static const char killed[] = "Killed process ";
	const char *text = kernel_text(record);

	if (!text)
		return false;
	const size_t len = strcspn(text, "\n");
	const char *p = strstr(text, killed), *end = find_last(text, len, " total-vm:");
	uint64_t pid;

	if (!p || !end || p > end)
		return false;
	p += sizeof(killed) - 1;
	if (parse_u64(&p, &pid) < 0 || pid == 0 || pid > INT32_MAX || !parse_word(&p, " (") || p > end)
		return false;
	end = find_last(p, (size_t) (end - p), ")");
	if (!end)
		return false;
	ret->pid = (int32_t) pid;
	unescape(p, (size_t) (end - p), ret->name);
	return true;
}

/* ---- the log ------------------------------------------------------------------------------------------------------ */

/* The log's pids are those of the initial pid namespace; in another one they would mean other
 * processes. */
int oom_log_open(const struct root *root)
{
	if (!root->live || !machine_first_pids(root))
		return -EOPNOTSUPP;
	autoclose int fd = openat(root->top, "dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || lseek(fd, 0, SEEK_END) < 0)
		return -errno;
	return take_fd(fd);
}

/* EPIPE: the next record was overwritten; the next read returns the oldest that is left. EINVAL: a
 * record longer than any valid one. */
int oom_log_next(int fd, struct oom_victim *ret)
{
	enum {
		MOST = 50000
	}; /* records; about 50 ms */
	char record[RECORD_MAX + 1];

	for (int i = 0; i < MOST; i++) {
		ssize_t n = read(fd, record, RECORD_MAX);

		if (n < 0 && (errno == EINTR || errno == EINVAL))
			continue;
		if (n <= 0)
			return n < 0 && errno != EAGAIN ? -errno : 0;
		record[n] = '\0';
		if (kmsg_victim_parse(record, ret))
			return 1;
	}
	return -E2BIG;
}
