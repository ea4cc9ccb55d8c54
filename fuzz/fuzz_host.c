/* SPDX-License-Identifier: MIT
 *
 * The parsers of machine-wide and cgroup files. The first byte selects the parser, the rest is the
 * file. In addition to the sanitizers' checks, each parser is tested against its contract.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "source/cgroup/path.h"
#include "source/host/mountinfo.h"
#include "source/host/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(what) ((what) ? (void) 0 : abort())

/* A count is never negative. */
static void require_count(struct maybe value)
{
	REQUIRE(!value.known || value.value >= 0);
}

static void fuzz_meminfo(const char *text)
{
	struct meminfo m;

	meminfo_parse(text, &m);
	require_count(m.total);
	require_count(m.available);
	require_count(m.swap_total);
	require_count(m.swap_free);
}

static void fuzz_stat(const char *text)
{
	struct cpu_line line;
	const char *end = text + strlen(text);

	for (const char *p = text, *before = p; cpu_line_next(&p, &line); before = p) {
		REQUIRE(p > before && p <= end);
		REQUIRE(line.core >= -1 && line.core < 1 << 16);
	}
}

static void fuzz_vmstat(const char *text)
{
	struct vmstat v;

	vmstat_parse(text, &v);
	require_count(v.thp_faults);
	require_count(v.swap_in_pages);
	require_count(v.swap_out_pages);
	require_count(v.oom_kills);
}

static void require_traffic(struct traffic t)
{
	require_count(t.in);
	require_count(t.out);
}

static void fuzz_diskstats(const char *text)
{
	struct traffic t;

	diskstats_parse(text, &t);
	require_traffic(t);
}

static void fuzz_net_dev(const char *text)
{
	struct traffic t;

	net_dev_parse(text, &t);
	require_traffic(t);
}

static void fuzz_pressure(const char *text)
{
	struct pressure p;

	pressure_parse(text, &p);
	require_count(p.some_ns);
	require_count(p.full_ns);
}

/* A mount root and, after the first newline, the text of procfs cgroup. */
static void fuzz_cgroup_lines(const char *text)
{
	struct cgroup_mount mount = { .found = true };
	struct cgroup_line line;
	char below[CGROUP_PATH];
	size_t len = strcspn(text, "\n");

	memcpy(mount.root, text, len < CGROUP_PATH - 1 ? len : CGROUP_PATH - 1);
	text += len;
	for (const char *p = text; cgroup_line_next(&p, &line);) {
		const char *name = cgroup_scheduler(line.path, line.path_len);

		REQUIRE(name && strlen(name) < 16);
		REQUIRE(line.path_len > 0 && line.path[0] == '/');
		if (cgroup_below(&mount, line.path, line.path_len, below) == 0)
			REQUIRE(below[0] == '/' && strlen(below) <= line.path_len);
	}
	for (int i = 0; i < CGROUP_HIERARCHIES; i++)
		(void) cgroup_line_of(text, (enum cgroup_hierarchy) i, &line);
}

static void fuzz_mountinfo(const char *text)
{
	struct cgroup_mounts mounts;
	struct mount mount;
	const char *end = text + strlen(text);

	for (const char *p = text; mountinfo_next(&p, &mount);) {
		REQUIRE(strlen(mount.root) < sizeof(mount.root) && strlen(mount.point) < sizeof(mount.point));
		REQUIRE(mount.source + mount.source_len <= end && mount.options + mount.options_len <= end);
		(void) mount_has_option(&mount, "memory");
	}
	cgroup_mounts_parse(text, &mounts);
	REQUIRE((unsigned) cgroup_charging(&mounts) <= CGROUP_HIERARCHIES);
	(void) mountinfo_type_at(text, "/a/b", &mount);
}

/* memory.stat, memory.events, cpu.stat: the same format with other keys. */
static void fuzz_flat(const char *text)
{
	static const char *const keys[] = { "anon", "total_rss", "hierarchical_memory_limit", "oom_kill",
		"usage_usec", "throttled_time" };
	uint64_t value = 7;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (parse_flat(text, keys[i], &value) < 0)
			REQUIRE(value == 7);
		value = 7;
	}
}

static void fuzz_limits(const char *text)
{
	require_count(cgroup_limit_parse(text, false));
	require_count(cgroup_limit_parse(text, true));
	require_count(cgroup_cpu_max_parse(text));
}

static void (*const parsers[])(const char *text) = {
	fuzz_meminfo,
	fuzz_stat,
	fuzz_vmstat,
	fuzz_diskstats,
	fuzz_net_dev,
	fuzz_pressure,
	fuzz_cgroup_lines,
	fuzz_mountinfo,
	fuzz_flat,
	fuzz_limits,
};

/* Letters, to keep the corpus readable: 'a' is the first parser. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	char *text = malloc(size);

	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	parsers[(uint8_t) (data[0] - 'a') % (sizeof(parsers) / sizeof(parsers[0]))](text);
	free(text);
	return 0;
}
