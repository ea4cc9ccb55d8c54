/* SPDX-License-Identifier: MIT */
#include "source/procfs_status.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "base/parse.h"

/* The lines that are one number, with where it goes. */
static const struct {
	const char *key;
	size_t to;
} lines[] = {
	{ "Tgid:", offsetof(struct procfs_status, tgid) },
	{ "PPid:", offsetof(struct procfs_status, ppid) },
	{ "Uid:", offsetof(struct procfs_status, uid) },
	{ "VmHWM:", offsetof(struct procfs_status, hwm_bytes) },
	{ "VmRSS:", offsetof(struct procfs_status, rss_bytes) },
	{ "VmSwap:", offsetof(struct procfs_status, swap_bytes) },
	{ "HugetlbPages:", offsetof(struct procfs_status, hugetlb_bytes) },
	{ "Threads:", offsetof(struct procfs_status, threads) },
	{ "voluntary_ctxt_switches:", offsetof(struct procfs_status, switches) },
	{ "nonvoluntary_ctxt_switches:", offsetof(struct procfs_status, preemptions) },
};

/* "  123 kB" in bytes, "  123" as it stands; the first number of a line that has several. */
static struct maybe number_parse(const char *p)
{
	uint64_t value;

	parse_blanks(&p);
	if (parse_u64(&p, &value) < 0)
		return UNKNOWN;
	/* A line that runs into the end of the text may have been cut. */
	if (!strchr(p, '\n'))
		return UNKNOWN;
	if (parse_word(&p, " kB") && __builtin_mul_overflow(value, (uint64_t) 1024, &value))
		return UNKNOWN;
	return value <= INT64_MAX ? known((int64_t) value) : UNKNOWN;
}

static void name_parse(const char *p, char *to, size_t size)
{
	size_t n;

	parse_blanks(&p);
	n = strcspn(p, "\n");
	if (n >= size)
		n = size - 1;
	memcpy(to, p, n);
	to[n] = '\0';
}

/* "SigIgn:	0000000000010000": bit n - 1 is signal n. */
static bool sigchld_parse(const char *p)
{
	uint64_t mask;

	parse_blanks(&p);
	return parse_hex(&p, &mask) == 0 && (mask & (UINT64_C(1) << (SIGCHLD - 1)));
}

static void line_parse(const char *p, struct procfs_status *st)
{
	if (parse_word(&p, "Name:")) {
		name_parse(p, st->name, sizeof(st->name));
		return;
	}
	if (parse_word(&p, "SigIgn:")) {
		st->ignores_sigchld = sigchld_parse(p);
		return;
	}
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (*p == lines[i].key[0] && parse_word(&p, lines[i].key)) {
			*(struct maybe *) (void *) ((char *) st + lines[i].to) = number_parse(p);
			return;
		}
	}
}

int procfs_status_parse(const char *text, struct procfs_status *ret)
{
	struct procfs_status st = { 0 };
	const char *p = text;

	do {
		line_parse(p, &st);
	} while (parse_line(&p));
	if (!st.tgid.known || st.tgid.value > INT_MAX)
		return -EBADMSG;
	*ret = st;
	return 0;
}
