/* SPDX-License-Identifier: MIT
 *
 * A check of a process: how much memory its samples stand for, by mappings and pages that a test writes. Samples are one
 * of 64 faults, so one stands for 256 KiB, and a block of addresses has 4 MiB.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "where/check.h"
#include "where_rig.h"

enum {
	PID = 100,
	PERIOD = 64,
	MOST = 4096,
};
#define WEIGHT (PERIOD * PAGE_BYTES)
#define BLOCK  (16 * WEIGHT)

static struct rig {
	struct folder folder;
	struct check *check;
	struct sample all[MOST];
	struct sample *list[MOST];
	struct samples samples;
	struct check_files files;
	struct map shared;
	struct check_result result;
} rig;

static int set_up(void **state)
{
	(void) state;
	memset(&rig, 0, sizeof(rig));
	folder_new(&rig.folder);
	rig.check = check_new();
	assert_non_null(rig.check);
	rig.samples.list = rig.list;
	return 0;
}

static int tear_down(void **state)
{
	(void) state;
	check_free(rig.check);
	check_files_done(&rig.files);
	map_done(&rig.shared);
	folder_done(&rig.folder);
	return 0;
}

/* The newest so far. */
static struct sample *add(uint64_t address)
{
	struct sample *const s = &rig.all[rig.samples.n];

	assert_true(rig.samples.n < MOST);
	*s = (struct sample) { .address = address, .number = rig.samples.n + 1, .time_ns = rig.samples.n + 1 };
	rig.list[rig.samples.n++] = s;
	return s;
}

/* As a program that fills [start, end) from its beginning has them. */
static void add_fill(uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end; at += WEIGHT)
		(void) add(at + 17);
}

/* A mapping's line, and its pages. */
static void map(int pid, uint64_t start, uint64_t end, uint64_t offset, unsigned inode, const char *name)
{
	static const char *const files[] = { "maps", "smaps" };
	char line[200];

	(void) snprintf(line, sizeof(line), "%08llx-%08llx rw-p %08llx 00:%02x %u   %s\n", (unsigned long long) start,
		(unsigned long long) end, (unsigned long long) offset, inode ? 1 : 0, inode, name);
	for (int i = 0; i < 2; i++) {
		const int fd = folder_open(&rig.folder, pid, files[i], O_APPEND);

		assert_int_equal(write(fd, line, strlen(line)), (ssize_t) strlen(line));
		assert_int_equal(close(fd), 0);
	}
}

static void pages(int pid, uint64_t start, uint64_t end, uint64_t page)
{
	folder_pages(&rig.folder, pid, start, end, page);
}

static int check_of(int pid, struct samples *samples)
{
	const struct check_options options = {
		.proc = rig.folder.fd,
		.pid = pid,
		.period = PERIOD,
		.files = &rig.files,
		.shared = &rig.shared,
	};

	return check_process(rig.check, &options, samples, &rig.result);
}

static void check(void)
{
	assert_int_equal(check_of(PID, &rig.samples), 0);
}

static uint64_t bytes_between(uint64_t start, uint64_t end)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < rig.samples.n; i++) {
		const struct sample *const s = &rig.all[i];

		assert_true(s->is_checked);
		assert_true(!s->is_dead || s->bytes == 0);
		if (s->address >= start && s->address < end)
			bytes += s->bytes;
	}
	return bytes;
}

static size_t alive(void)
{
	size_t n = 0;

	for (size_t i = 0; i < rig.samples.n; i++)
		n += !rig.all[i].is_dead;
	return n;
}

/* Up to rounding, of a byte a sample. */
static void assert_near(uint64_t got, uint64_t expected)
{
	if (got + MOST < expected || got > expected + MOST)
		fail_msg("%llu instead of %llu", (unsigned long long) got, (unsigned long long) expected);
}

/* ---- strata ---------------------------------------------------------------------------------- */

static void samples_share_what_is_resident(void **state)
{
	const uint64_t start = 64 * MIB, end = start + 300 * MIB;

	(void) state;
	map(PID, start, end, 0, 0, "");
	pages(PID, start, end, PAGE_ANONYMOUS);
	add_fill(start, end);
	check();
	assert_int_equal(rig.result.anonymous, 300 * MIB);
	assert_near(bytes_between(start, end), 300 * MIB);
	assert_near(rig.result.sampled, 300 * MIB);
	assert_int_equal(rig.result.shared + rig.result.huge, 0);
	assert_int_equal(alive(), 1200);
	for (uint64_t at = start; at < end; at += BLOCK)
		assert_near(bytes_between(at, at + BLOCK), BLOCK);
}

/* Of each block what is resident there: a dense one takes nothing from a sparse one. */
static void each_block_has_its_own(void **state)
{
	const uint64_t start = 64 * MIB;

	(void) state;
	map(PID, start, start + 2 * BLOCK, 0, 0, "");
	pages(PID, start, start + 2 * BLOCK, PAGE_ANONYMOUS);
	for (int i = 0; i < 12; i++)
		(void) add(start + (uint64_t) i * 300 * KIB);
	for (int i = 0; i < 16; i++)
		(void) add(start + BLOCK + (uint64_t) i * WEIGHT);
	check();
	assert_near(bytes_between(start, start + BLOCK), BLOCK);
	assert_near(bytes_between(start + BLOCK, start + 2 * BLOCK), BLOCK);
	assert_near(rig.all[0].bytes, BLOCK / 12);
	assert_near(rig.all[12].bytes, BLOCK / 16);
}

/* One page of 64 is looked at: half a block is half of it. */
static void what_is_not_resident_is_not_shared(void **state)
{
	const uint64_t start = 64 * MIB;

	(void) state;
	map(PID, start, start + 16 * MIB, 0, 0, "[heap]");
	for (uint64_t at = start; at < start + 16 * MIB; at += 512 * KIB)
		pages(PID, at, at + 256 * KIB, PAGE_ANONYMOUS);
	for (uint64_t at = start; at < start + 16 * MIB; at += 512 * KIB)
		(void) add(at);
	check();
	assert_int_equal(rig.result.anonymous, 8 * MIB);
	assert_near(rig.result.sampled, 8 * MIB);
	assert_int_equal(alive(), 32);
}

/* What was freed and touched again has samples of both times. */
static void the_newest_samples_win(void **state)
{
	const uint64_t start = 64 * MIB, end = start + 32 * MIB;

	(void) state;
	map(PID, start, end, 0, 0, "");
	pages(PID, start, end, PAGE_ANONYMOUS);
	add_fill(start, end);
	add_fill(start, end);
	check();
	assert_near(rig.result.sampled, 32 * MIB);
	for (size_t i = 0; i < 128; i++) {
		assert_true(rig.all[i].is_dead);
		assert_false(rig.all[128 + i].is_dead);
		assert_near(rig.all[128 + i].bytes, WEIGHT);
	}
}

static void a_freed_page_ends_its_sample(void **state)
{
	const uint64_t start = 64 * MIB, middle = start + 8 * MIB, end = middle + 8 * MIB;

	(void) state;
	map(PID, start, end, 0, 0, "");
	pages(PID, start, middle, PAGE_GONE);
	pages(PID, middle, end, PAGE_ANONYMOUS);
	add_fill(start, end);
	check();
	assert_int_equal(bytes_between(start, middle), 0);
	assert_near(bytes_between(middle, end), 8 * MIB);
	assert_int_equal(alive(), 32);
	/* Touched again, they stay ended: that has samples of its own. */
	pages(PID, start, middle, PAGE_ANONYMOUS);
	check();
	assert_int_equal(bytes_between(start, middle), 0);
	assert_int_equal(alive(), 32);
}

/* A page that was swapped out comes back without being touched first. */
static void a_swapped_page_keeps_its_sample(void **state)
{
	const uint64_t start = 64 * MIB, end = start + 16 * MIB;

	(void) state;
	map(PID, start, end, 0, 0, "");
	pages(PID, start, end, PAGE_SWAPPED);
	add_fill(start, end);
	check();
	assert_int_equal(rig.result.sampled, 0);
	assert_int_equal(alive(), 64);
	pages(PID, start, end, PAGE_ANONYMOUS);
	check();
	assert_near(rig.result.sampled, 16 * MIB);
}

/* Memory so sparse that no probe meets it has no bytes, but its samples are not ended. */
static void a_page_between_the_probes_keeps_its_sample(void **state)
{
	const uint64_t start = 64 * MIB, end = start + 16 * MIB;

	(void) state;
	map(PID, start, end, 0, 0, "");
	for (uint64_t at = start; at < end; at += 2 * MIB) {
		pages(PID, at, at + PAGE_BYTES, PAGE_ANONYMOUS);
		(void) add(at);
	}
	check();
	assert_int_equal(rig.result.sampled, 0);
	assert_int_equal(alive(), 8);
}

/* ---- the cap --------------------------------------------------------------------------------- */

/* 1 + 3/sqrt(n) times what it is by itself. */
static void no_sample_stands_for_too_much(void **state)
{
	static const struct {
		unsigned n, times_10;
	} cases[] = { { 1, 40 }, { 4, 25 }, { 9, 20 } };
	const uint64_t start = 64 * MIB;

	(void) state;
	map(PID, start, start + 3 * 4 * BLOCK, 0, 0, "");
	pages(PID, start, start + 3 * 4 * BLOCK, PAGE_ANONYMOUS);
	for (size_t i = 0; i < 3; i++) {
		for (unsigned k = 0; k < cases[i].n; k++)
			(void) add(start + i * 4 * BLOCK + k * 16 * KIB);
	}
	check();
	for (size_t i = 0; i < 3; i++) {
		const uint64_t most = WEIGHT * cases[i].n * cases[i].times_10 / 10, at = start + i * 4 * BLOCK;

		assert_near(bytes_between(at, at + 4 * BLOCK), most < BLOCK ? most : BLOCK);
	}
}

/* 300 MiB that the kernel filled (read(2)) beside a few samples. */
static void a_lone_sample_gets_four_times_its_weight(void **state)
{
	const uint64_t start = 64 * MIB, end = start + 300 * MIB;

	(void) state;
	map(PID, start, end, 0, 0, "[heap]");
	pages(PID, start, end, PAGE_ANONYMOUS);
	(void) add(start + 100 * MIB);
	check();
	assert_int_equal(rig.result.anonymous, 300 * MIB);
	assert_int_equal(rig.result.sampled, 4 * WEIGHT);
	assert_int_equal(rig.all[0].bytes, 4 * WEIGHT);
}

/* 100 MiB touched beside it, in the same mapping: what is not sampled is not spread over it. */
static void what_the_kernel_filled_is_nobodys(void **state)
{
	const uint64_t start = 64 * MIB, middle = start + 100 * MIB, end = middle + 300 * MIB;

	(void) state;
	map(PID, start, end, 0, 0, "");
	pages(PID, start, end, PAGE_ANONYMOUS);
	add_fill(start, middle);
	check();
	assert_near(bytes_between(start, end), 100 * MIB);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void files_are_no_functions(void **state)
{
	const uint64_t start = 64 * MIB, end = start + 80 * MIB, code = 512 * MIB;

	(void) state;
	map(PID, start, end, 0, 7, "/data/a b.bin");
	pages(PID, start, end, PAGE_FILE);
	map(PID, code, code + 2 * MIB, 0, 8, "/lib/libc.so.6");
	pages(PID, code, code + 2 * MIB, PAGE_FILE);
	map(PID, code + 4 * MIB, code + 5 * MIB, 2 * MIB, 8, "/lib/libc.so.6");
	pages(PID, code + 4 * MIB, code + 5 * MIB, PAGE_FILE);
	(void) add(start + MIB);
	check();
	assert_int_equal(rig.result.anonymous + rig.result.shared + rig.result.sampled, 0);
	assert_int_equal(rig.files.n, 2);
	assert_string_equal(rig.files.list[0].name, "/data/a b.bin");
	assert_int_equal(rig.files.list[0].bytes, 80 * MIB);
	assert_string_equal(rig.files.list[1].name, "/lib/libc.so.6");
	assert_int_equal(rig.files.list[1].bytes, 3 * MIB);
}

/* A private mapping's written pages are anonymous. */
static void written_pages_of_a_file_are_touched(void **state)
{
	const uint64_t start = 64 * MIB, middle = start + 24 * MIB, end = middle + 8 * MIB;

	(void) state;
	map(PID, start, end, 0, 7, "/data/a.bin");
	pages(PID, start, middle, PAGE_FILE);
	pages(PID, middle, end, PAGE_ANONYMOUS);
	add_fill(middle, end);
	check();
	assert_int_equal(rig.result.anonymous, 8 * MIB);
	assert_near(bytes_between(middle, end), 8 * MIB);
	assert_int_equal(rig.files.n, 1);
	assert_int_equal(rig.files.list[0].bytes, 24 * MIB);
}

static void the_kernels_pages_are_not_counted(void **state)
{
	(void) state;
	map(PID, 64 * MIB, 66 * MIB, 0, 0, "[vvar]");
	map(PID, 66 * MIB, 68 * MIB, 0, 0, "[vdso]");
	map(PID, 68 * MIB, 70 * MIB, 0, 0, "[stack]");
	pages(PID, 64 * MIB, 70 * MIB, PAGE_ANONYMOUS);
	check();
	assert_int_equal(rig.result.anonymous, 2 * MIB);
	assert_int_equal(rig.files.n, 0);
}

/* ---- shared memory --------------------------------------------------------------------------- */

static void all_shared_memory_is_counted(void **state)
{
	static const char *const names[] = { "/dev/zero (deleted)", "/memfd:x (deleted)", "/SYSV00000000 (deleted)", "/dev/shm/x",
		"[anon_shmem:x]" };

	(void) state;
	/* Wherever it begins: no part of it is taken for another. */
	for (unsigned i = 0; i < 5; i++) {
		const uint64_t start = (64 + 64 * i) * MIB + (i + 1) * 300 * KIB;

		map(PID, start, start + 16 * MIB, 0, 7 + i, names[i]);
		pages(PID, start, start + 16 * MIB, PAGE_FILE);
		add_fill(start, start + 16 * MIB);
	}
	check();
	assert_int_equal(rig.result.anonymous, 0);
	assert_int_equal(rig.files.n, 0);
	assert_int_equal(rig.result.shared, 5 * 16 * MIB);
	assert_near(rig.result.sampled, 5 * 16 * MIB);
}

/* Two processes have it at different addresses. */
static void shared_memory_is_counted_once(void **state)
{
	const uint64_t start = 64 * MIB, other = 100 * MIB + 12 * KIB;
	struct samples none = { .list = NULL };

	(void) state;
	map(PID, start, start + 16 * MIB, 0, 7, "/dev/zero (deleted)");
	pages(PID, start, start + 16 * MIB, PAGE_FILE);
	map(PID + 1, other, other + 16 * MIB, 0, 7, "/dev/zero (deleted)");
	pages(PID + 1, other, other + 16 * MIB, PAGE_FILE);
	map(PID + 1, other + 32 * MIB, other + 33 * MIB, 0, 8, "/dev/zero (deleted)");
	pages(PID + 1, other + 32 * MIB, other + 33 * MIB, PAGE_FILE);
	add_fill(start, start + 16 * MIB);
	check();
	assert_int_equal(rig.result.shared, 16 * MIB);
	assert_near(rig.result.sampled, 16 * MIB);
	assert_int_equal(check_of(PID + 1, &none), 0);
	assert_int_equal(rig.result.shared, MIB);
	/* The next pass counts it again. */
	map_done(&rig.shared);
	assert_int_equal(check_of(PID + 1, &none), 0);
	assert_int_equal(rig.result.shared, 17 * MIB);
}

/* One has mapped it all and touched its beginning; the other touched the rest. */
static void shared_memory_that_another_only_maps_is_counted(void **state)
{
	const uint64_t start = 64 * MIB, end = start + 16 * MIB, touched = start + MIB;

	(void) state;
	map(PID, start, end, 0, 7, "/dev/shm/x");
	pages(PID, start, touched, PAGE_FILE);
	map(PID + 1, start, end, 0, 7, "/dev/shm/x");
	pages(PID + 1, touched, end, PAGE_FILE);
	check();
	assert_int_equal(rig.result.shared, MIB);
	add_fill(touched, end);
	assert_int_equal(check_of(PID + 1, &rig.samples), 0);
	assert_int_equal(rig.result.shared, 15 * MIB);
	assert_near(rig.result.sampled, 15 * MIB);
}

/* ---- huge pages ------------------------------------------------------------------------------ */

/* By smaps, where the kernel has no PAGEMAP_SCAN. */
static void write_smaps(uint64_t start, uint64_t middle, uint64_t end)
{
	char text[1000];

	(void) snprintf(text, sizeof(text),
		"%08llx-%08llx rw-p 00000000 00:00 0 \nSize: 1 kB\nAnonHugePages:    %llu kB\nVmFlags: rd wr\n"
		"%08llx-%08llx rw-p 00000000 00:00 0 \nSize: 1 kB\nAnonHugePages:    0 kB\nVmFlags: rd wr\n",
		(unsigned long long) start, (unsigned long long) middle, (unsigned long long) (middle - start) / 1024,
		(unsigned long long) middle, (unsigned long long) end);
	folder_write(&rig.folder, PID, "smaps", text);
}

/* A fault brings 2 MiB, so one sample is of 128 MiB: 600 MiB are five of them. */
static void huge_pages_are_measured(void **state)
{
	const uint64_t start = 64 * MIB, middle = start + 600 * MIB, end = middle + 100 * MIB;

	(void) state;
	map(PID, start, middle, 0, 0, "");
	map(PID, middle, end, 0, 0, "");
	write_smaps(start, middle, end);
	pages(PID, start, end, PAGE_ANONYMOUS);
	for (uint64_t at = start + 2 * MIB; at < middle; at += 128 * MIB)
		(void) add(at);
	add_fill(middle, end);
	check(); /* also the first time */
	assert_int_equal(rig.result.huge, 600 * MIB);
	assert_near(bytes_between(start, middle), 600 * MIB);
	assert_near(bytes_between(middle, end), 100 * MIB);
}

/* One of small pages beside: a huge page that is resident in part is none. */
static void half_a_huge_page_is_none(void **state)
{
	const uint64_t start = 64 * MIB, end = start + 8 * MIB;

	(void) state;
	map(PID, start, end, 0, 0, "");
	write_smaps(start, end, end + PAGE_BYTES);
	pages(PID, start, start + 3 * MIB, PAGE_ANONYMOUS);
	add_fill(start, start + 3 * MIB);
	check();
	assert_int_equal(rig.result.huge, 2 * MIB);
	assert_int_equal(rig.result.anonymous, 3 * MIB);
	assert_near(rig.result.sampled, 3 * MIB);
}

/* Small pages that the kernel made huge ones of later have a sample each 256 KiB, and all count. */
static void collapsed_pages_keep_their_samples(void **state)
{
	const uint64_t start = 64 * MIB, end = start + 32 * MIB;

	(void) state;
	map(PID, start, end, 0, 0, "");
	write_smaps(start, end, end + PAGE_BYTES);
	pages(PID, start, end, PAGE_ANONYMOUS);
	add_fill(start, end);
	check();
	assert_int_equal(rig.result.huge, 32 * MIB);
	assert_int_equal(alive(), 128);
	assert_near(rig.result.sampled, 32 * MIB);
	assert_near(rig.all[0].bytes, WEIGHT);
}

/* ---- forked children ------------------------------------------------------------------------- */

static int check_samples(uint64_t most)
{
	const struct check_options options = {
		.proc = rig.folder.fd,
		.pid = PID,
		.period = PERIOD,
		.by_samples = true,
		.most_bytes = most,
		.files = &rig.files,
		.shared = &rig.shared,
	};

	return check_process(rig.check, &options, &rig.samples, &rig.result);
}

/* Its mappings are its parent's: only its own samples count. */
static void a_child_counts_what_it_touched(void **state)
{
	const uint64_t start = 64 * MIB, middle = start + 50 * MIB, end = start + 300 * MIB;

	(void) state;
	pages(PID, start, end, PAGE_ANONYMOUS);
	add_fill(start, middle);
	assert_int_equal(check_samples(300 * MIB), 0);
	assert_int_equal(rig.result.sampled, 50 * MIB);
	assert_int_equal(rig.result.anonymous, 0);
	pages(PID, start, start + 10 * MIB, PAGE_GONE);
	assert_int_equal(check_samples(300 * MIB), 0);
	assert_int_equal(rig.result.sampled, 40 * MIB);
	assert_int_equal(alive(), 160);
}

static void a_childs_block_has_its_newest_samples(void **state)
{
	const uint64_t start = 64 * MIB, end = start + BLOCK;

	(void) state;
	pages(PID, start, end, PAGE_ANONYMOUS);
	for (int i = 0; i < 5; i++)
		add_fill(start, end);
	assert_int_equal(check_samples(300 * MIB), 0);
	assert_int_equal(rig.result.sampled, BLOCK);
	for (size_t i = 0; i < 80; i++)
		assert_int_equal(rig.all[i].is_dead, i < 64);
}

static void a_child_has_no_more_than_is_resident(void **state)
{
	const uint64_t start = 64 * MIB, end = start + 64 * MIB;

	(void) state;
	pages(PID, start, end, PAGE_ANONYMOUS);
	add_fill(start, end);
	assert_int_equal(check_samples(16 * MIB), 0);
	assert_int_equal(rig.result.sampled, 16 * MIB);
	assert_near(bytes_between(start, end), 16 * MIB);
	assert_int_equal(alive(), 256);
}

/* ---- bad input ------------------------------------------------------------------------------- */

static void a_process_that_ended_changes_nothing(void **state)
{
	struct sample *s;

	(void) state;
	s = add(64 * MIB);
	assert_int_equal(check_of(PID, &rig.samples), -ESRCH);
	pages(PID, 64 * MIB, 65 * MIB, PAGE_ANONYMOUS);
	folder_write(&rig.folder, PID, "maps", "");
	folder_write(&rig.folder, PID, "smaps", "");
	assert_int_equal(check_of(PID, &rig.samples), -ESRCH);
	assert_false(s->is_dead || s->is_checked);
}

static void broken_mappings_are_survived(void **state)
{
	static const char *const texts[] = { "\n", "x\n", "4000000", "4000000-", "4000000-4100000", "4000000-4100000 ",
		"4000000-4100000 rw-p", "4000000-4100000 rw-p 0 0:0 0", "4100000-4000000 rw-p 0 0:0 0 \n",
		"4000000-4000000 rw-p 0 0:0 0 \n", "-\n", "ffffffffffffffffff-ffffffffffffffffffff rw-p 0 0:0 0 \n",
		"4000000-4100000 rw-p zzz\n", "4000000-4100000 rw-p 0 0:0 0 \nAnonHugePages:", "AnonHugePages: 1 kB\n" };

	(void) state;
	pages(PID, 64 * MIB, 68 * MIB, PAGE_ANONYMOUS);
	(void) add(64 * MIB);
	for (int k = 0; k < 2; k++) {
		for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
			folder_write(&rig.folder, PID, "maps", texts[i]);
			folder_write(&rig.folder, PID, "smaps", texts[i]);
			assert_int_equal(check_of(PID, &rig.samples), 0);
			assert_true(rig.result.anonymous <= MIB);
			rig.all[0].is_dead = false;
		}
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(samples_share_what_is_resident),
		TEST(each_block_has_its_own),
		TEST(what_is_not_resident_is_not_shared),
		TEST(the_newest_samples_win),
		TEST(a_freed_page_ends_its_sample),
		TEST(a_swapped_page_keeps_its_sample),
		TEST(a_page_between_the_probes_keeps_its_sample),
		TEST(no_sample_stands_for_too_much),
		TEST(a_lone_sample_gets_four_times_its_weight),
		TEST(what_the_kernel_filled_is_nobodys),
		TEST(files_are_no_functions),
		TEST(written_pages_of_a_file_are_touched),
		TEST(the_kernels_pages_are_not_counted),
		TEST(all_shared_memory_is_counted),
		TEST(shared_memory_is_counted_once),
		TEST(shared_memory_that_another_only_maps_is_counted),
		TEST(huge_pages_are_measured),
		TEST(half_a_huge_page_is_none),
		TEST(collapsed_pages_keep_their_samples),
		TEST(a_child_counts_what_it_touched),
		TEST(a_childs_block_has_its_newest_samples),
		TEST(a_child_has_no_more_than_is_resident),
		TEST(a_process_that_ended_changes_nothing),
		TEST(broken_mappings_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
