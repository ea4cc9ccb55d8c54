/* SPDX-License-Identifier: MIT
 *
 * The parsers of a process's files and of the kernel's exit records. The first byte selects the
 * parser, the rest is the file. In addition to the sanitizers' checks, each parser is tested
 * against its contract.
 */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mask.h"
#include "source/process/procfs_files.h"
#include "source/process/procfs_stat.h"
#include "source/process/procfs_status.h"
#include "source/process/taskstats_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(what) ((what) ? (void) 0 : abort())

static void require_count(struct maybe value)
{
	REQUIRE(!value.known || value.value >= 0);
}

static void fuzz_stat(const char *text, size_t size)
{
	struct procfs_stat st = { .pid = -7 };
	int32_t status = -7;

	(void) size;
	REQUIRE(procfs_stat_exit(text, &status) ? status >= 0 && status <= UINT16_MAX : status == -7);
	if (procfs_stat_parse(text, &st) < 0) {
		REQUIRE(st.pid == -7);
		return;
	}
	REQUIRE(st.pid >= 0 && strlen(st.name) < sizeof(st.name));
}

static void fuzz_status(const char *text, size_t size)
{
	struct procfs_status st = { .name = "before" };

	(void) size;
	if (procfs_status_parse(text, &st) < 0) {
		REQUIRE(strcmp(st.name, "before") == 0);
		return;
	}
	REQUIRE(st.tgid.known && st.tgid.value <= INT_MAX && strlen(st.name) < sizeof(st.name));
	require_count(st.tgid);
	require_count(st.uid);
	require_count(st.hwm_bytes);
	require_count(st.rss_bytes);
	require_count(st.swap_bytes);
	require_count(st.hugetlb_bytes);
	require_count(st.switches);
}

static void fuzz_statm(const char *text, size_t size)
{
	struct procfs_statm st = { .size = 7 };

	(void) size;
	if (procfs_statm_parse(text, &st) < 0)
		REQUIRE(st.size == 7);
}

static void fuzz_io(const char *text, size_t size)
{
	struct procfs_io io = { .read_chars = 7 };

	(void) size;
	if (procfs_io_parse(text, &io) < 0)
		REQUIRE(io.read_chars == 7);
}

static void fuzz_rollup(const char *text, size_t size)
{
	struct procfs_rollup rollup = { .rss = 7 };

	(void) size;
	if (procfs_rollup_parse(text, &rollup) < 0)
		REQUIRE(rollup.rss == 7);
}

static void fuzz_maps(const char *text, size_t size)
{
	const char *end = text + size;

	for (const char *p = text; p < end;) {
		struct procfs_map m = { .inode = 7 };
		const char *newline = memchr(p, '\n', (size_t) (end - p));

		if (procfs_map_parse(p, &m) == 0) {
			REQUIRE(m.start < m.end && m.offset + (m.end - m.start) >= m.offset);
			REQUIRE(m.name >= p && m.name + m.name_len <= end);
		} else {
			REQUIRE(m.inode == 7);
		}
		p = newline ? newline + 1 : end;
	}
}

static void fuzz_lastpid(const char *text, size_t size)
{
	uint32_t pid = UINT32_MAX;

	(void) size;
	if (procfs_lastpid_parse(text, &pid) < 0)
		REQUIRE(pid == UINT32_MAX);
	else
		REQUIRE(pid <= INT32_MAX);
}

static void fuzz_children(const char *text, size_t size)
{
	const char *p = text, *before = p;
	int32_t pid;

	while (procfs_child_next(&p, &pid)) {
		REQUIRE(pid > 0 && p > before && p <= text + size);
		before = p;
	}
	REQUIRE(p == before);
}

/* A block of arguments with their NULs. The output has no control characters and fits. */
static void fuzz_mask(const char *text, size_t size)
{
	char shown[256];
	size_t n = mask_command(text, size, shown, sizeof(shown));

	REQUIRE(n < sizeof(shown) && shown[n] == '\0' && strlen(shown) == n);
	for (size_t i = 0; i < n; i++)
		REQUIRE((unsigned char) shown[i] >= ' ' && shown[i] != 127);
}

static void fuzz_taskstats(const char *text, size_t size)
{
	static const struct taskstats_layout layouts[] = { { .has_tgid = true },
		{ .shift = 48, .tgid_shift = 96 } };
	struct taskstats_layout found;

	for (size_t i = 0; i < 2; i++) {
		struct taskstats_record r = { .pid = 7 };

		if (taskstats_record_parse(text, size, &layouts[i], &r) < 0)
			REQUIRE(r.pid == 7);
	}
	(void) taskstats_layout_find(text, size, 1, 1, &found);
}

static void (*const parsers[])(const char *text, size_t size) = {
	fuzz_stat,
	fuzz_status,
	fuzz_statm,
	fuzz_io,
	fuzz_rollup,
	fuzz_maps,
	fuzz_lastpid,
	fuzz_children,
	fuzz_mask,
	fuzz_taskstats,
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
	parsers[(uint8_t) (data[0] - 'a') % (sizeof(parsers) / sizeof(parsers[0]))](text, size - 1);
	free(text);
	return 0;
}
