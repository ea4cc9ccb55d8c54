/* SPDX-License-Identifier: MIT
 *
 * Recognizes the scheduler or container engine that created a cgroup by its names. A pattern is
 * matched against the components of the path one by one, starting at any of them.
 */
#include <string.h>

#include "source/cgroup/path.h"

/* In a component: '*' is any text, '#' digits, '%' the thirteen characters of a Slurm SLUID, '@' at
 * least twelve hexadecimal digits; other characters stand for themselves. The first matching row
 * wins. */
static const struct {
	const char *scheduler, *pattern;
} rows[] = {
	{ "slurm", "slurm/uid_#/job_#" },            /* v1 */
	{ "slurm", "slurm_*/uid_#/job_#" },          /* v1, several nodes on one machine */
	{ "slurm", "slurmstepd.scope/job_#" },       /* v2 */
	{ "slurm", "*_slurmstepd.scope/job_#" },
	{ "slurm", "slurmstepd.scope/s%" },          /* v2, Slurm 26.05 and newer */
	{ "slurm", "*_slurmstepd.scope/s%" },
	{ "kubernetes", "kubepods.slice" },          /* kubelet with the systemd driver */
	{ "kubernetes", "kubepods-*.slice" },
	{ "kubernetes", "kubepods" },                /* with the cgroupfs driver */
	{ "kubernetes", "cri-containerd-@.scope" },
	{ "kubernetes", "crio-@.scope" },
	{ "docker", "docker/@" },
	{ "docker", "docker-@.scope" },
	{ "podman", "libpod-@" },
	{ "podman", "libpod-@.scope" },
	{ "lxc", "lxc.payload.*" },
	{ "lxc", "lxc/*" },
	{ "qemu", "machine-qemu*" },
	{ "systemd", "*.service" },
	{ "systemd", "*.scope" },
	{ "systemd", "*.slice" },
};

static size_t span(const char *p, size_t len, const char *set)
{
	size_t n = 0;

	while (n < len && p[n] != '\0' && strchr(set, p[n]))
		n++;
	return n;
}

/* The number of bytes of name that the wildcard matches; 0: no match. */
static size_t wildcard(char c, const char *name, size_t len)
{
	size_t n;

	switch (c) {
	case '#':
		return span(name, len, "0123456789");
	case '%':
		n = span(name, len, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		return n == 13 ? n : 0;
	case '@':
		n = span(name, len, "0123456789abcdef");
		return n >= 12 ? n : 0;
	default:
		return len > 0 && *name == c;
	}
}

static bool name_fits(const char *pattern, size_t pattern_len, const char *name, size_t len)
{
	while (pattern_len > 0 && *pattern != '*') {
		size_t n = wildcard(*pattern, name, len);

		if (n == 0)
			return false;
		name += n;
		len -= n;
		pattern++;
		pattern_len--;
	}
	if (pattern_len == 0)
		return len == 0;
	for (size_t skipped = 0; skipped <= len; skipped++) {
		if (name_fits(pattern + 1, pattern_len - 1, name + skipped, len - skipped))
			return true;
	}
	return false;
}

/* The length of the component at p. */
static size_t name_len(const char *p, const char *end)
{
	const char *slash = memchr(p, '/', (size_t) (end - p));

	return (size_t) ((slash ? slash : end) - p);
}

/* Whether the components from p on match pattern. */
static bool names_fit(const char *pattern, const char *p, const char *end)
{
	const char *pattern_end = pattern + strlen(pattern);

	for (;;) {
		size_t want = name_len(pattern, pattern_end), len = name_len(p, end);

		if (!name_fits(pattern, want, p, len))
			return false;
		pattern += want;
		p += len;
		if (pattern == pattern_end)
			return true;
		if (p == end)
			return false;
		pattern++;
		p++;
	}
}

static bool path_fits(const char *pattern, const char *path, const char *end)
{
	for (const char *p = path; p < end; p += name_len(p, end)) {
		if (*p == '/' && ++p == end)
			return false;
		if (names_fit(pattern, p, end))
			return true;
	}
	return false;
}

const char *cgroup_scheduler(const char *path, size_t len)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (path_fits(rows[i].pattern, path, path + len))
			return rows[i].scheduler;
	}
	return "";
}
