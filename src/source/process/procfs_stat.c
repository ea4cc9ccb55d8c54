/* SPDX-License-Identifier: MIT */
#include "source/process/procfs_stat.h"

#include <errno.h>
#include <string.h>

#include "base/parse.h"

enum {
	FIRST = 4,
	LAST = 28,
	EXIT_CODE = 52
};

#define BIT(n) (1u << (n))

/* The fields that are read; the others are skipped (field 25, rsslim, does not even fit an
 * int64_t). */
static const uint32_t wanted = BIT(4) | BIT(5) | BIT(6) | BIT(10) | BIT(11) | BIT(12) | BIT(14) | BIT(15) |
			       BIT(16) | BIT(17) | BIT(20) | BIT(22) | BIT(23) | BIT(26) | BIT(27) | BIT(28);

/* Fields that may be negative: ppid is 0 and session -1 outside the pid namespace. */
static const uint32_t is_signed = BIT(4) | BIT(5) | BIT(6);

static int field_parse(const char **p, int i, uint64_t *ret)
{
	int64_t value;

	if (!(wanted & BIT(i)))
		return parse_field(p) > 0 ? 0 : -EBADMSG;
	if (!(is_signed & BIT(i)))
		return parse_u64(p, ret);
	if (parse_i64(p, &value) < 0 || value < INT32_MIN || value > INT32_MAX)
		return -EBADMSG;
	*ret = (uint64_t) value;
	return 0;
}

static void name_copy(char *to, size_t size, const char *from, const char *end)
{
	size_t n = (size_t) (end - from);

	if (n >= size)
		n = size - 1;
	memcpy(to, from, n);
	to[n] = '\0';
}

/* "4711 (python (x)) S 4000 4711 ...": the name may contain blanks, newlines and brackets, so
 * fields count from the last ')'. */
int procfs_stat_parse(const char *line, struct procfs_stat *ret)
{
	const char *p = line, *open = strchr(line, '('), *close = strrchr(line, ')');
	uint64_t field[LAST + 1], pid;

	if (!open || !close || close < open || close[1] != ' ' || close[2] == '\0')
		return -EBADMSG;
	if (parse_u64(&p, &pid) < 0 || pid > INT32_MAX || *p != ' ' || p + 1 != open)
		return -EBADMSG;
	char state = close[2];

	p = close + 3;
	for (int i = FIRST; i <= LAST; i++) {
		if (*p++ != ' ' || field_parse(&p, i, &field[i]) < 0)
			return -EBADMSG;
	}
	/* A number at the end of the text may have been cut. */
	if (*p != ' ' && *p != '\n')
		return -EBADMSG;
	*ret = (struct procfs_stat) {
		.state = state,
		.pid = (int32_t) pid,
		.ppid = (int32_t) field[4],
		.pgrp = (int32_t) field[5],
		.session = (int32_t) field[6],
		.faults_minor = field[10],
		.faults_waited = field[11],
		.faults_major = field[12],
		.user_ticks = field[14],
		.system_ticks = field[15],
		.user_waited_ticks = field[16],
		.system_waited_ticks = field[17],
		.threads = field[20],
		.start_ticks = field[22],
		.vsize_bytes = field[23],
		.startcode = field[26],
		.endcode = field[27],
		.startstack = field[28],
	};
	name_copy(ret->name, sizeof(ret->name), open + 1, close);
	return 0;
}

bool procfs_stat_exit(const char *line, int32_t *ret)
{
	const char *p = strrchr(line, ')');
	uint64_t value;

	if (!p++)
		return false;
	for (int i = FIRST - 1; i < EXIT_CODE; i++) {
		if (*p++ != ' ' || parse_field(&p) == 0)
			return false;
	}
	if (*p++ != ' ' || parse_u64(&p, &value) < 0 || value > UINT16_MAX || *p != '\n')
		return false;
	*ret = (int32_t) value;
	return true;
}
