/* SPDX-License-Identifier: MIT */
#include "source/process/procfs_status.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "base/parse.h"

/* " 123 kB" in bytes, " 123" unchanged; the first number of a line that has several. */
static struct maybe number_parse(const char *p)
{
	uint64_t value;

	parse_blanks(&p);
	if (parse_u64(&p, &value) < 0)
		return UNKNOWN;
	/* A line at the end of the text may have been cut. */
	if (!strchr(p, '\n'))
		return UNKNOWN;
	if (parse_word(&p, " kB") && __builtin_mul_overflow(value, (uint64_t) 1024, &value))
		return UNKNOWN;
	return known_unsigned(value);
}

static void number_store(const char *p, void *to)
{
	*(struct maybe *) to = number_parse(p);
}

static void name_store(const char *p, void *to)
{
	const size_t most = sizeof(((struct procfs_status *) to)->name) - 1;
	size_t n;

	parse_blanks(&p);
	n = strcspn(p, "\n");
	if (n > most)
		n = most;
	memcpy(to, p, n);
	((char *) to)[n] = '\0';
}

/* "SigIgn:	0000000000010000": bit n - 1 is signal n. */
static void sigchld_store(const char *p, void *to)
{
	uint64_t mask;

	parse_blanks(&p);
	*(bool *) to = parse_hex(&p, &mask) == 0 && (mask & (UINT64_C(1) << (SIGCHLD - 1)));
}

typedef void line_store(const char *p, void *to);

/* The lines that are parsed, of about sixty, and their targets. One file per process and second:
 * other lines are skipped by their first letter. */
static const struct {
	const char *key;
	size_t len, to;
	line_store *take;
} lines[] = {
#define LINE(key, field, take) { key, sizeof(key) - 1, offsetof(struct procfs_status, field), take }
	LINE("Name:", name, name_store),
	LINE("Tgid:", tgid, number_store),
	LINE("PPid:", ppid, number_store),
	LINE("Uid:", uid, number_store),
	LINE("VmPeak:", vm_peak_bytes, number_store),
	LINE("VmHWM:", hwm_bytes, number_store),
	LINE("VmRSS:", rss_bytes, number_store),
	LINE("VmData:", data_bytes, number_store),
	LINE("VmSwap:", swap_bytes, number_store),
	LINE("HugetlbPages:", hugetlb_bytes, number_store),
	LINE("Threads:", threads, number_store),
	LINE("SigIgn:", ignores_sigchld, sigchld_store),
	LINE("voluntary_ctxt_switches:", switches, number_store),
	LINE("nonvoluntary_ctxt_switches:", preemptions, number_store),
#undef LINE
};

static void line_parse(const char *p, struct procfs_status *st)
{
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (*p == lines[i].key[0] && strncmp(p, lines[i].key, lines[i].len) == 0) {
			lines[i].take(p + lines[i].len, (char *) st + lines[i].to);
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
