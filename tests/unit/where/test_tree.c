/* SPDX-License-Identifier: MIT
 *
 * The processes of a job and its highs, by records and sizes that a test makes. Samples are one of 64 faults, so one
 * stands for 256 KiB. Every process has the same addresses: one mapping, from 64 MiB on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/where.h"
#include "where/tree.h"
#include "where_rig.h"

enum {
	PERIOD = 64,
	STACK = 64, /* bytes of a sample's stack */
};
#define WEIGHT (PERIOD * PAGE_BYTES)
#define BASE   (64 * MIB)
#define SECOND UINT64_C(1000000000)

static struct rig {
	struct folder folder;
	struct modules *modules;
	struct tree *tree;
	uint64_t now_ns;
} rig;

static int set_up(void **state)
{
	struct tree_options options = { .period = PERIOD };

	(void) state;
	memset(&rig, 0, sizeof(rig));
	folder_new(&rig.folder);
	rig.modules = modules_new(rig.folder.fd);
	options.proc = rig.folder.fd;
	options.modules = rig.modules;
	rig.tree = tree_new(&options);
	assert_non_null(rig.tree);
	rig.now_ns = 1000;
	return 0;
}

static int tear_down(void **state)
{
	(void) state;
	tree_free(rig.tree);
	modules_free(rig.modules);
	folder_done(&rig.folder);
	return 0;
}

/* ---- records --------------------------------------------------------------------------------- */

static struct record *record(enum record_kind kind, pid_t pid, pid_t tid)
{
	struct record *r = calloc(1, sizeof(*r) + STACK);

	assert_non_null(r);
	r->kind = kind;
	r->pid = pid;
	r->tid = tid;
	r->time_ns = ++rig.now_ns;
	return r;
}

static void sample(pid_t pid, uint64_t address)
{
	struct record *r = record(RECORD_SAMPLE, pid, pid);

	r->sample.address = address;
	r->sample.stack = (unsigned char *) (r + 1);
	r->sample.stack_bytes = STACK;
	tree_record(rig.tree, r);
}

static void fork_of(pid_t parent, pid_t pid, pid_t tid)
{
	struct record *r = record(RECORD_FORK, pid, tid);

	r->fork.parent = parent;
	tree_record(rig.tree, r);
}

static void name_of(pid_t pid, const char *name, bool is_exec)
{
	struct record *r = record(RECORD_NAME, pid, pid);

	r->name.name = name;
	r->name.is_exec = is_exec;
	tree_record(rig.tree, r);
}

static void exit_of(pid_t pid, pid_t tid)
{
	tree_record(rig.tree, record(RECORD_EXIT, pid, tid));
}

/* ---- what processes have --------------------------------------------------------------------- */

static void size(int pid, uint64_t anonymous_mib, uint64_t mapped_mib)
{
	char text[100];
	static const char maps[] = "04000000-44000000 rw-p 00000000 00:00 0 \n";

	(void) snprintf(text, sizeof(text), "99999 %llu %llu 1 0 1 0\n",
		(unsigned long long) ((anonymous_mib + mapped_mib) * MIB / PAGE_BYTES),
		(unsigned long long) (mapped_mib * MIB / PAGE_BYTES));
	folder_write(&rig.folder, pid, "statm", text);
	folder_write(&rig.folder, pid, "maps", maps);
	folder_write(&rig.folder, pid, "smaps", maps);
	(void) close(folder_open(&rig.folder, pid, "pagemap", 0));
}

/* Pages are there, without samples. */
static void fill(int pid, uint64_t at_mib, uint64_t mib)
{
	folder_pages(&rig.folder, pid, BASE + at_mib * MIB, BASE + (at_mib + mib) * MIB, PAGE_ANONYMOUS);
}

static void touch(int pid, uint64_t at_mib, uint64_t mib)
{
	fill(pid, at_mib, mib);
	for (uint64_t at = at_mib * MIB; at < (at_mib + mib) * MIB; at += WEIGHT)
		sample(pid, BASE + at);
}

static void give_back(int pid, uint64_t at_mib, uint64_t mib)
{
	folder_pages(&rig.folder, pid, BASE + at_mib * MIB, BASE + (at_mib + mib) * MIB, PAGE_GONE);
}

/* It has ended. */
static void vanish(int pid)
{
	static const char *const files[] = { "statm", "maps", "smaps", "pagemap" };

	folder_write(&rig.folder, pid, "statm", "0 0 0 0 0 0 0\n");
	for (size_t i = 0; i < 4; i++)
		folder_remove(&rig.folder, pid, files[i]);
}

static void tick(void)
{
	rig.now_ns += 50000000;
	(void) tree_tick(rig.tree, rig.now_ns, SECOND);
}

/* The job's program begins, of pid 100. */
static void begin(void)
{
	tree_begin(rig.tree, 100, true);
	name_of(100, "job", true);
}

/* ---- highs ----------------------------------------------------------------------------------- */

static struct tree_high *last_high(void)
{
	assert_true(tree_high_count(rig.tree) > 0);
	return tree_high(rig.tree, tree_high_count(rig.tree) - 1);
}

/* Bytes of a process's samples (0: of all) at addresses, in the last high. */
static uint64_t bytes_of(uint32_t process, uint64_t at_mib, uint64_t mib)
{
	const struct tree_high *const h = last_high();
	uint64_t bytes = 0;

	for (size_t i = 0; i < h->n_shares; i++) {
		const struct sample *const s = h->shares[i].sample;

		if ((process == 0 || s->process == process) && s->address >= BASE + at_mib * MIB &&
			s->address < BASE + (at_mib + mib) * MIB)
			bytes += h->shares[i].bytes;
	}
	return bytes;
}

static void assert_near(uint64_t got, uint64_t expected)
{
	if (got + 4096 < expected || got > expected + 4096)
		fail_msg("%llu instead of %llu", (unsigned long long) got, (unsigned long long) expected);
}

static void assert_mib(uint64_t got, uint64_t mib)
{
	assert_near(got, mib * MIB);
}

static void a_high_has_what_is_resident(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 300);
	size(100, 300, 5);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(tree_high_count(rig.tree), 1);
	assert_int_equal(last_high()->number, 1);
	assert_int_equal(last_high()->total_bytes, 305 * MIB);
	assert_int_equal(last_high()->time_boot_ns, rig.now_ns);
	assert_int_equal(last_high()->checked_bytes, 305 * MIB);
	assert_true(last_high()->is_new && !last_high()->was_sent);
	assert_mib(bytes_of(1, 0, 300), 300);
	tree_settle(rig.tree); /* nothing is new */
	assert_int_equal(tree_high_count(rig.tree), 1);
	assert_int_equal(tree_process_count(rig.tree), 1);
	assert_int_equal(tree_process(rig.tree, 0)->pid, 100);
	assert_string_equal(tree_process(rig.tree, 0)->name, "job");
}

/* Within 5 % it is the last one again. */
static void a_high_is_five_percent_higher(void **state)
{
	static const struct {
		unsigned mib, number;
	} cases[] = { { 100, 1 }, { 102, 1 }, { 104, 1 }, { 103, 1 }, { 110, 2 }, { 115, 2 }, { 121, 3 } };
	uint64_t most = 0;

	(void) state;
	begin();
	for (size_t i = 0, at = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const unsigned mib = cases[i].mib;

		if (mib > at)
			touch(100, at, mib - at);
		at = mib > at ? mib : at;
		size(100, mib, 0);
		tick();
		tree_settle(rig.tree);
		most = mib > most ? mib : most;
		assert_int_equal(last_high()->number, cases[i].number);
		assert_int_equal(last_high()->total_bytes, most * MIB);
		assert_int_equal(tree_high_count(rig.tree), cases[i].number);
	}
}

static void samples_since_the_check_share_the_growth(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 300);
	size(100, 300, 0);
	tick();
	touch(100, 300, 8); /* less than 5 %: no check */
	size(100, 304, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 304 * MIB);
	assert_int_equal(last_high()->checked_bytes, 300 * MIB);
	assert_mib(bytes_of(1, 0, 300), 300);
	assert_mib(bytes_of(1, 300, 8), 4);
}

/* tree_dropped() returns each high that is no longer kept, once; the first and the last high are kept. */
static void there_are_at_most_sixteen(void **state)
{
	bool gone[64] = { false };
	uint32_t number;
	unsigned n = 0;
	uint64_t at = 0;

	(void) state;
	begin();
	for (unsigned i = 0, mib = 10; i < 40; i++, mib += mib / 10) {
		touch(100, at, mib - at);
		at = mib;
		size(100, mib, 0);
		tick();
		tree_settle(rig.tree);
		assert_true(tree_high_count(rig.tree) <= WHERE_HIGHS);
		for (; tree_dropped(rig.tree, &number); n++) {
			assert_true(number > 1 && number < 64 && !gone[number]);
			gone[number] = true;
		}
	}
	assert_int_equal(tree_high_count(rig.tree), WHERE_HIGHS);
	assert_int_equal(n, 40 - WHERE_HIGHS);
	assert_int_equal(tree_high(rig.tree, 0)->number, 1);
	assert_int_equal(last_high()->number, 40);
	for (size_t i = 0; i < WHERE_HIGHS; i++) {
		assert_false(gone[tree_high(rig.tree, i)->number]);
		assert_true(i == 0 || tree_high(rig.tree, i)->total_bytes > tree_high(rig.tree, i - 1)->total_bytes);
	}
}

/* ---- what was freed -------------------------------------------------------------------------- */

static void what_was_freed_is_dropped_before_it_is_touched_again(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 300);
	size(100, 300, 0);
	tick();
	give_back(100, 0, 300);
	size(100, 0, 0);
	tick();
	assert_int_equal(last_high()->total_bytes, 300 * MIB); /* as it was */
	assert_mib(bytes_of(1, 0, 300), 300);
	/* By the kernel, without samples: the old ones would have their pages again. */
	fill(100, 0, 300);
	touch(100, 300, 50);
	size(100, 350, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 350 * MIB);
	assert_int_equal(bytes_of(1, 0, 300), 0);
	assert_mib(bytes_of(1, 300, 50), 50);
}

static void what_was_touched_again_between_two_ticks(void **state)
{
	const struct sample *first;

	(void) state;
	begin();
	touch(100, 0, 300);
	size(100, 300, 0);
	tick();
	touch(100, 0, 350);
	size(100, 350, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 350 * MIB);
	assert_mib(bytes_of(1, 0, 350), 350);
	assert_int_equal(last_high()->n_shares, 1400);
	first = last_high()->shares[0].sample;
	assert_true(first->number > 1200);
}

/* A fall below 4 MiB costs no check. */
static void a_small_fall_is_none(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 300);
	size(100, 300, 0);
	tick();
	give_back(100, 0, 3);
	size(100, 297, 0);
	tick();
	fill(100, 0, 3);
	size(100, 301, 0);
	tick();
	tree_settle(rig.tree);
	assert_mib(bytes_of(1, 0, 300), 300);
}

/* Without credit the check waits, and the high is not raised by what may be stale. */
static void a_check_waits_for_credit(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 300);
	size(100, 300, 0);
	tick();
	give_back(100, 0, 300);
	size(100, 0, 0);
	assert_int_equal(tree_tick(rig.tree, ++rig.now_ns, 0), 0);
	touch(100, 300, 100);
	size(100, 100, 0);
	assert_int_equal(tree_tick(rig.tree, ++rig.now_ns, 0), 0);
	touch(100, 0, 300);
	size(100, 400, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 400 * MIB);
	assert_mib(bytes_of(1, 0, 400), 400);
}

/* One whose pages cannot be read (setuid) does not keep the others from highs. */
static void a_process_that_cannot_be_read(void **state)
{
	(void) state;
	begin();
	size(100, 1, 0);
	fork_of(100, 101, 101);
	name_of(101, "closed", true);
	touch(101, 0, 100);
	size(101, 100, 0);
	tick();
	tree_settle(rig.tree);
	folder_remove(&rig.folder, 101, "pagemap");
	size(101, 50, 0);
	folder_remove(&rig.folder, 101, "pagemap");
	tick();
	touch(100, 0, 200);
	size(100, 200, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 250 * MIB);
	assert_mib(bytes_of(2, 0, 200), 200);
}

/* ---- the ends of processes ------------------------------------------------------------------- */

static void exec_ends_samples(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 100);
	size(100, 100, 0);
	tick();
	name_of(100, "next", true);
	assert_int_equal(tree_high_count(rig.tree), 1); /* settled */
	assert_mib(bytes_of(1, 0, 100), 100);
	fill(100, 0, 100); /* by the kernel */
	touch(100, 100, 100);
	size(100, 200, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 200 * MIB);
	assert_int_equal(bytes_of(1, 0, 200), 0);
	assert_mib(bytes_of(2, 0, 200), 100);
	assert_string_equal(tree_process(rig.tree, 0)->name, "job");
	assert_string_equal(tree_process(rig.tree, 1)->name, "next");
}

static void nothing_counts_before_the_first_exec(void **state)
{
	(void) state;
	tree_begin(rig.tree, 100, true);
	size(100, 30, 5); /* hiwater's copy */
	tick();
	tree_settle(rig.tree);
	assert_int_equal(tree_high_count(rig.tree), 0);
}

/* It need not live until a tick. */
static void a_high_is_settled_before_a_process_ends(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 100);
	exit_of(100, 100);
	assert_int_equal(tree_alive(rig.tree), 0);
	assert_int_equal(tree_high_count(rig.tree), 1);
	assert_int_equal(last_high()->total_bytes, 100 * MIB);
	assert_mib(bytes_of(1, 0, 100), 100);
	tree_settle(rig.tree);
	assert_int_equal(tree_high_count(rig.tree), 1);
}

static void growth_since_the_last_tick_counts(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 100);
	size(100, 100, 0);
	tick();
	touch(100, 100, 60);
	size(100, 0, 0);
	exit_of(100, 100);
	assert_int_equal(last_high()->total_bytes, 160 * MIB);
	assert_mib(bytes_of(1, 0, 160), 160);
}

/* Also that of others. */
static void growth_of_all_processes_counts(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 20);
	fork_of(100, 101, 101);
	fork_of(100, 102, 102);
	touch(101, 20, 50);
	touch(102, 20, 30);
	exit_of(101, 101);
	exit_of(102, 102);
	exit_of(100, 100);
	assert_int_equal(last_high()->total_bytes, 100 * MIB);
	assert_mib(bytes_of(0, 0, 100), 100);
}

/* What is freed and touched again between two ticks does not grow. */
static void churn_is_no_growth(void **state)
{
	(void) state;
	begin();
	for (int i = 0; i < 300; i++)
		touch(100, 0, 1);
	exit_of(100, 100);
	assert_int_equal(last_high()->total_bytes, MIB);
	assert_true(bytes_of(1, 0, 1) <= MIB);
}

static void churn_of_several_ticks_is_no_growth(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 64);
	size(100, 64, 0);
	tick();
	for (int i = 0; i < 10; i++) {
		for (int k = 0; k < 30; k++)
			touch(100, 64 + (uint64_t) i, 1); /* elsewhere after each tick */
		tick();
	}
	touch(100, 80, 1);
	size(100, 0, 0);
	exit_of(100, 100);
	assert_int_equal(last_high()->total_bytes, 65 * MIB);
	assert_true(bytes_of(1, 0, 100) <= 65 * MIB);
}

/* Children that end one after the other are not there at once. */
static void children_that_ended_are_not_counted_together(void **state)
{
	(void) state;
	begin();
	size(100, 2, 0);
	touch(100, 0, 2);
	tick();
	for (int pid = 101; pid < 120; pid++) {
		fork_of(100, pid, pid);
		name_of(pid, "child", true);
		touch(pid, 0, 10);
		size(pid, 10, 0);
		if (pid % 2)
			tick();
		touch(pid, 10, 2);
		size(pid, 0, 0);
		exit_of(pid, pid);
		vanish(pid);
	}
	tree_settle(rig.tree);
	assert_int_equal(tree_alive(rig.tree), 1);
	assert_int_equal(last_high()->total_bytes, 14 * MIB);
	assert_true(bytes_of(0, 0, 100) <= 14 * MIB);
}

/* What was there at the check and ended since is not taken off what others touched. */
static void one_that_came_since_the_check_has_what_it_touched(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 2);
	size(100, 2, 0);
	fork_of(100, 101, 101);
	name_of(101, "one", true);
	touch(101, 0, 100);
	size(101, 100, 0);
	tick();
	size(101, 0, 0);
	exit_of(101, 101);
	vanish(101);
	fork_of(100, 102, 102);
	name_of(102, "two", true);
	touch(102, 0, 104);
	size(102, 104, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 106 * MIB);
	assert_int_equal(last_high()->checked_bytes, 102 * MIB);
	assert_mib(bytes_of(1, 0, 2), 2);
	assert_mib(bytes_of(3, 0, 104), 104);
}

/* COW: the writer is the toucher of its copy. */
static void children_count_what_they_touched(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 300);
	size(100, 300, 10);
	for (int pid = 101; pid < 104; pid++) {
		fork_of(100, pid, pid);
		fill(pid, 0, 300);
		touch(pid, 0, 50);
		size(pid, 300, 10);
	}
	tick();
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, (300 + 3 * 50 + 10) * MIB);
	assert_mib(bytes_of(1, 0, 300), 300);
	for (uint32_t i = 2; i < 5; i++)
		assert_mib(bytes_of(i, 0, 300), 50);
}

static void samples_pass_to_the_eldest_child(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 300);
	size(100, 300, 0);
	tick();
	fork_of(100, 101, 101);
	fork_of(100, 102, 102);
	for (int pid = 101; pid < 103; pid++) {
		fill(pid, 0, 300);
		touch(pid, 300, pid == 101 ? 48 : 20);
		size(pid, pid == 101 ? 348 : 320, 0);
	}
	touch(100, 400, 12); /* after the forks: its own */
	size(100, 312, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 380 * MIB);
	size(100, 0, 0);
	exit_of(100, 100);
	vanish(100);
	assert_int_equal(tree_alive(rig.tree), 2);
	fill(101, 400, 12); /* of the kernel */
	touch(101, 500, 48);
	size(101, 408, 0);
	tick();
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, (408 + 20) * MIB);
	assert_mib(bytes_of(1, 0, 300), 300);
	assert_mib(bytes_of(2, 300, 48), 48);
	assert_mib(bytes_of(2, 500, 48), 48);
	assert_int_equal(bytes_of(0, 400, 12), 0);
	assert_mib(bytes_of(3, 300, 20), 20);
	/* And from it to the next. */
	size(101, 0, 0);
	exit_of(101, 101);
	vanish(101);
	touch(102, 600, 200);
	size(102, 520, 0);
	tick();
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 520 * MIB);
	assert_mib(bytes_of(1, 0, 300), 300);
	assert_mib(bytes_of(3, 0, 1000), 220);
}

/* What the parent touched between two forks is there in the second child alone. */
static void what_was_touched_between_forks_is_the_next_childs(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 100);
	fork_of(100, 101, 101);
	fill(101, 0, 100);
	touch(100, 200, 60);
	touch(101, 400, 40);
	fork_of(100, 102, 102);
	fill(102, 0, 100);
	fill(102, 200, 60);
	size(100, 160, 0);
	size(101, 140, 0);
	size(102, 160, 0);
	tick();
	tick();
	size(100, 0, 0);
	exit_of(100, 100);
	vanish(100);
	touch(102, 600, 100);
	size(102, 260, 0);
	tick();
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, (100 + 60 + 40 + 100) * MIB);
	assert_mib(bytes_of(1, 0, 100), 100);
	assert_mib(bytes_of(1, 200, 60), 60);
	assert_mib(bytes_of(2, 400, 40), 40);
	/* What the first one touched then is not the second one's, which has other pages there. */
	fill(102, 400, 40);
	size(102, 300, 0);
	size(101, 0, 0);
	exit_of(101, 101);
	vanish(101);
	touch(102, 800, 200);
	size(102, 500, 0);
	tick();
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 500 * MIB);
	assert_mib(bytes_of(1, 0, 100), 100);
	assert_mib(bytes_of(1, 200, 60), 60);
	assert_mib(bytes_of(2, 400, 40), 0);
}

/* What a process touched after a fork is not its grandchild's either. */
static void what_was_touched_after_a_fork_is_no_grandchilds(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 100);
	fork_of(100, 101, 101);
	touch(100, 200, 60);
	fork_of(101, 102, 102);
	fill(101, 0, 100);
	fill(102, 0, 100);
	fill(102, 200, 60); /* other pages */
	size(100, 160, 0);
	size(101, 100, 0);
	size(102, 160, 0);
	tick();
	size(101, 0, 0);
	exit_of(101, 101);
	vanish(101);
	size(100, 0, 0);
	exit_of(100, 100);
	vanish(100);
	touch(102, 400, 200);
	size(102, 360, 0);
	tick();
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 360 * MIB);
	assert_mib(bytes_of(1, 0, 100), 100);
	assert_mib(bytes_of(1, 200, 60), 0);
}

/* From child to child, as far as they were forked after it. */
static void what_was_touched_between_forks_goes_on(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 100);
	fork_of(100, 101, 101);
	touch(100, 200, 60);
	fork_of(100, 102, 102);
	fork_of(100, 103, 103);
	for (int pid = 101; pid < 104; pid++)
		fill(pid, 0, 100);
	fill(102, 200, 60);
	fill(103, 200, 60);
	size(100, 160, 0);
	size(101, 100, 0);
	size(102, 160, 0);
	size(103, 160, 0);
	tick();
	for (int pid = 100; pid < 103; pid += 2) {
		size(pid, 0, 0);
		exit_of(pid, pid);
		vanish(pid);
	}
	touch(103, 400, 100);
	size(103, 260, 0);
	tick();
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 260 * MIB);
	assert_mib(bytes_of(1, 0, 100), 100);
	assert_mib(bytes_of(1, 200, 60), 60);
}

static void small_processes_end_without_a_high(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 100);
	size(100, 100, 0);
	tick();
	for (int pid = 101; pid < 104; pid++) {
		fork_of(100, pid, pid);
		sample(pid, BASE + 500 * MIB);
		exit_of(pid, pid);
	}
	assert_int_equal(tree_high_count(rig.tree), 0);
	fork_of(100, 104, 104); /* the fourth: 1 MiB, one percent */
	sample(104, BASE + 500 * MIB);
	exit_of(104, 104);
	assert_int_equal(tree_high_count(rig.tree), 1);
}

/* A child has none of what its parent freed. */
static void only_what_the_heir_has_passes(void **state)
{
	(void) state;
	begin();
	touch(100, 0, 100);
	size(100, 100, 0);
	tick();
	fork_of(100, 101, 101);
	fill(101, 50, 50);
	touch(101, 100, 100);
	size(101, 150, 0);
	size(100, 0, 0);
	exit_of(100, 100);
	assert_int_equal(last_high()->total_bytes, 200 * MIB); /* before */
	touch(101, 200, 100);
	size(101, 250, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 250 * MIB);
	assert_int_equal(bytes_of(1, 0, 50), 0);
	assert_mib(bytes_of(1, 50, 50), 50);
}

static void a_pid_that_is_used_again(void **state)
{
	(void) state;
	begin();
	size(100, 1, 0);
	fork_of(100, 101, 101);
	name_of(101, "old", true);
	touch(101, 0, 100);
	size(101, 100, 0);
	tick();
	/* Its exit was lost. */
	vanish(101);
	fork_of(100, 101, 101);
	name_of(101, "new", true);
	touch(101, 200, 200);
	size(101, 200, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(tree_alive(rig.tree), 2);
	assert_int_equal(last_high()->total_bytes, 201 * MIB);
	assert_mib(bytes_of(2, 200, 200), 200);
	assert_int_equal(bytes_of(1, 0, 1000), 0);
	assert_string_equal(tree_process(rig.tree, 0)->name, "old");
	assert_string_equal(tree_process(rig.tree, 1)->name, "new");
}

/* Its exit was lost and no other has its pid: the others have highs, and it is in none of them. */
static void a_process_whose_end_was_lost(void **state)
{
	(void) state;
	begin();
	size(100, 1, 0);
	fork_of(100, 101, 101);
	name_of(101, "old", true);
	touch(101, 0, 100);
	size(101, 100, 0);
	tick();
	vanish(101);
	tick();
	touch(100, 0, 200);
	size(100, 200, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 200 * MIB);
	assert_mib(bytes_of(2, 0, 200), 200);
	assert_int_equal(bytes_of(1, 0, 1000), 0);
}

static void threads_are_no_processes(void **state)
{
	struct record *r;

	(void) state;
	begin();
	touch(100, 0, 100);
	size(100, 100, 0);
	fork_of(100, 100, 105);
	assert_int_equal(tree_alive(rig.tree), 1);
	exit_of(100, 105);
	assert_int_equal(tree_alive(rig.tree), 1);
	r = record(RECORD_NAME, 100, 105);
	r->name.name = "thread";
	tree_record(rig.tree, r);
	exit_of(100, 100); /* others of it still run */
	assert_int_equal(tree_alive(rig.tree), 1);
	tick();
	tree_settle(rig.tree);
	assert_mib(bytes_of(1, 0, 100), 100);
	assert_string_equal(tree_process(rig.tree, 0)->name, "job");
	assert_int_equal(tree_pid_count(rig.tree), 1);
}

/* ---- other records --------------------------------------------------------------------------- */

static void records_of_strangers_are_ignored(void **state)
{
	(void) state;
	begin();
	touch(999, 0, 1);
	name_of(999, "x", true);
	exit_of(999, 999);
	fork_of(998, 999, 999);
	assert_int_equal(tree_alive(rig.tree), 1);
	assert_int_equal(tree_raw_bytes(rig.tree), 0);
}

static void names_follow(void **state)
{
	char long_name[] = "0123456789abcdefghi";

	(void) state;
	begin();
	touch(100, 0, 1);
	name_of(100, long_name, false);
	assert_string_equal(tree_process(rig.tree, 0)->name, "0123456789abcde");
	name_of(100, "", false);
	assert_string_equal(tree_process(rig.tree, 0)->name, "");
}

static void losses_are_counted(void **state)
{
	struct record *r;

	(void) state;
	begin();
	touch(100, 0, 100);
	size(100, 100, 0);
	r = record(RECORD_LOST, -1, -1);
	r->lost = 7;
	tree_record(rig.tree, r);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(tree_lost(rig.tree), 7);
	assert_int_equal(last_high()->lost, 7);
}

static void see_raw(void *ctx, struct sample *s)
{
	assert_non_null(s->record);
	++*(unsigned *) ctx;
}

/* Samples with equal stacks have one copy of it, that of the first; others of their own. */
static void equal_stacks_are_kept_once(void **state)
{
	struct sample *first, *other;
	struct record *r;
	unsigned n = 0;

	(void) state;
	begin();
	touch(100, 0, 100);
	r = record(RECORD_SAMPLE, 100, 100);
	r->sample.address = BASE + 50 * MIB;
	r->sample.ip = 4711;
	tree_record(rig.tree, r);
	size(100, 100, 0);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(tree_raw_bytes(rig.tree), STACK);
	tree_each_raw(rig.tree, see_raw, &n);
	assert_int_equal(n, 2);
	first = sample_first(last_high()->shares[0].sample);
	other = last_high()->shares[last_high()->n_shares - 1].sample;
	assert_ptr_equal(sample_first(last_high()->shares[9].sample), first);
	assert_ptr_equal(sample_first(other), other);
	sample_unwound(first, 7);
	assert_int_equal(sample_first(last_high()->shares[99].sample)->stack, 7);
	assert_int_equal(tree_raw_bytes(rig.tree), 0);
	sample_unwound(other, 0);
	assert_true(other->has_failed);
	size(100, 0, 0);
	exit_of(100, 100); /* the high has them still */
	assert_int_equal(sample_first(last_high()->shares[99].sample)->stack, 7);
}

/* attach: what was there before is one row, and its own samples count. */
static void an_attached_process_has_what_it_had(void **state)
{
	(void) state;
	size(100, 200, 10);
	fill(100, 0, 200);
	folder_write(&rig.folder, 100, "comm", "old one\n");
	tree_add(rig.tree, 100);
	size(101, 20, 10);
	folder_write(&rig.folder, 101, "comm", "other\n");
	tree_add(rig.tree, 101);
	assert_int_equal(tree_before(rig.tree), 230 * MIB);
	touch(100, 200, 100);
	size(100, 300, 10);
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 330 * MIB);
	assert_mib(bytes_of(1, 0, 300), 100);
	assert_string_equal(tree_process(rig.tree, 0)->name, "old one");
}

static void files_are_listed(void **state)
{
	static const char maps[] = "04000000-08000000 r-xp 00000000 00:01 7   /lib/a\n"
				   "08000000-44000000 rw-p 00000000 00:00 0 \n";

	(void) state;
	begin();
	for (int pid = 100; pid < 102; pid++) {
		if (pid > 100) {
			fork_of(100, pid, pid);
			name_of(pid, "other", true);
		}
		touch(pid, 64, 10);
		size(pid, 10, pid == 100 ? 3 : 5);
		folder_write(&rig.folder, pid, "maps", maps);
		folder_write(&rig.folder, pid, "smaps", maps);
		folder_pages(&rig.folder, pid, BASE, BASE + (pid == 100 ? 3 : 5) * MIB, PAGE_FILE);
	}
	tick();
	tree_settle(rig.tree);
	assert_int_equal(last_high()->total_bytes, 25 * MIB);
	assert_int_equal(last_high()->n_files, 1); /* of all that have it mapped, the most */
	assert_string_equal(last_high()->files[0].name, "/lib/a");
	assert_int_equal(last_high()->files[0].bytes, 5 * MIB);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_high_has_what_is_resident),
		TEST(a_high_is_five_percent_higher),
		TEST(samples_since_the_check_share_the_growth),
		TEST(there_are_at_most_sixteen),
		TEST(what_was_freed_is_dropped_before_it_is_touched_again),
		TEST(what_was_touched_again_between_two_ticks),
		TEST(a_small_fall_is_none),
		TEST(a_check_waits_for_credit),
		TEST(a_process_that_cannot_be_read),
		TEST(exec_ends_samples),
		TEST(nothing_counts_before_the_first_exec),
		TEST(a_high_is_settled_before_a_process_ends),
		TEST(growth_since_the_last_tick_counts),
		TEST(growth_of_all_processes_counts),
		TEST(churn_is_no_growth),
		TEST(churn_of_several_ticks_is_no_growth),
		TEST(children_that_ended_are_not_counted_together),
		TEST(one_that_came_since_the_check_has_what_it_touched),
		TEST(children_count_what_they_touched),
		TEST(samples_pass_to_the_eldest_child),
		TEST(what_was_touched_between_forks_is_the_next_childs),
		TEST(what_was_touched_after_a_fork_is_no_grandchilds),
		TEST(what_was_touched_between_forks_goes_on),
		TEST(small_processes_end_without_a_high),
		TEST(only_what_the_heir_has_passes),
		TEST(a_pid_that_is_used_again),
		TEST(a_process_whose_end_was_lost),
		TEST(threads_are_no_processes),
		TEST(records_of_strangers_are_ignored),
		TEST(names_follow),
		TEST(losses_are_counted),
		TEST(equal_stacks_are_kept_once),
		TEST(an_attached_process_has_what_it_had),
		TEST(files_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
