/* SPDX-License-Identifier: MIT
 *
 * The processes that a name selects, and the functions of self.c.
 */
#include "tree_helper.h"

#include <dirent.h>
#include <sys/mman.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "children.h"

enum {
	MANY = 16
};

/* A machine of made-up processes: none of them is this one's parent, as far as its files show. */
struct fake {
	struct temp_tree tree;
	struct root root;
};

static void put(const struct fake *f, int pid, const char *file, const char *text, size_t n)
{
	char path[200];
	FILE *out;

	(void) snprintf(path, sizeof(path), "proc/%d/%s", pid, file);
	temp_tree_put(&f->tree, path, "");
	(void) snprintf(path, sizeof(path), "%s/proc/%d/%s", f->tree.path, pid, file);
	out = fopen(path, "w");
	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, n, out), n);
	assert_int_equal(fclose(out), 0);
}

#define PUT(f, pid, file, text) put(f, pid, file, text, sizeof(text) - 1)

static int fake_new(void **state)
{
	static struct fake f;

	temp_tree_new(&f.tree);
	temp_tree_put(&f.tree, "proc/loadavg", "0 0 0 1/1 1\n");
	PUT(&f, 1000001, "comm", "python\n");
	PUT(&f, 1000001, "cmdline", "/usr/bin/python\0train.py\0--lr=1\0");
	PUT(&f, 1000002, "comm", "python\n");
	PUT(&f, 1000002, "cmdline", "python\0-c\0import a\nimport b\0");
	PUT(&f, 1000003, "comm", "kworker/0:1\n");
	PUT(&f, 1000003, "cmdline", ""); /* kernel threads and zombies have none */
	PUT(&f, 1000004, "comm", "train.py\n");
	PUT(&f, 1000004, "cmdline", "sh\0/opt/train.py\0");
	temp_tree_put(&f.tree, "proc/1000005/stat", "gone meanwhile");
	temp_tree_put(&f.tree, "proc/self9/cmdline", "python");
	temp_tree_put(&f.tree, "proc/99999999999999999999/cmdline", "python");
	f.root = temp_tree_root(&f.tree);
	*state = &f;
	return 0;
}

static int fake_done(void **state)
{
	struct fake *f = *state;

	root_done(&f->root);
	temp_tree_done(&f->tree);
	return 0;
}

static void check_found(const struct root *root, const char *regex, const pid_t *expected)
{
	pid_t pids[MANY] = { 0 };
	struct err err = { "" };
	ssize_t n = find_by_name(root, regex, pids, MANY, &err);
	size_t wanted = 0;

	for (; expected[wanted]; wanted++) {
		bool found = false;

		for (ssize_t i = 0; i < n; i++)
			found |= pids[i] == expected[wanted];
		if (!found)
			fail_msg("'%s' does not find %d", regex, (int) expected[wanted]);
	}
	if (n != (ssize_t) wanted)
		fail_msg("'%s' finds %zd, not %zu", regex, n, wanted);
}

static void names_and_arguments_are_matched(void **state)
{
	static const struct {
		const char *regex;
		pid_t found[MANY];
	} searches[] = {
		{ "python", { 1000001, 1000002 } },
		{ "^python$", { 1000001, 1000002 } },               /* the name, to its end */
		{ "train[.]py", { 1000001, 1000004 } },
		{ "train[.]py$", { 1000004 } },                     /* the end of the last argument
		                                                     * is the end of the text */
		{ "--lr=1$", { 1000001 } },
		{ "python train", { 1000001 } },                    /* arguments are joined by blanks */
		{ "^kworker/0:1$", { 1000003 } },
		{ "import a.import b$", { 1000002 } },              /* also over lines */
		{ "(sh|bash) .*(x|y)?train", { 1000004 } },
		{ "^/usr", { 1000001 } },
		{ "ruby", { 0 } },
		{ "", { 1000001, 1000002, 1000003, 1000004 } },
	};
	const struct fake *f = *state;

	for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++)
		check_found(&f->root, searches[i].regex, searches[i].found);
}

static void more_than_there_is_room_for_are_counted(void **state)
{
	const struct fake *f = *state;
	pid_t pids[2] = { 0, 77 };

	assert_int_equal(find_by_name(&f->root, "", pids, 1, NULL), 4);
	assert_true(pids[0] >= 1000001 && pids[0] <= 1000004);
	assert_int_equal(pids[1], 77);
	assert_int_equal(find_by_name(&f->root, "", NULL, 0, NULL), 4);
}

static void a_bad_expression_is_explained(void **state)
{
	static const char *const bad[] = { "(", "[", "a{2", "*(" };
	const struct fake *f = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = { "" };

		assert_int_equal(find_by_name(&f->root, bad[i], NULL, 0, &err), -EINVAL);
		assert_non_null(strstr(err.text, bad[i]));
	}
}

/* Longer than the buffer: it counts by its beginning. */
static void long_command_lines_are_cut(void **state)
{
	const struct fake *f = *state;
	static char text[100000];

	memset(text, 'y', sizeof(text));
	memcpy(text, "longest", 7);
	put(f, 1000004, "cmdline", text, sizeof(text));
	check_found(&f->root, "^longesty+", (pid_t[]) { 1000004, 0 });
	PUT(f, 1000004, "cmdline", "sh\0/opt/train.py\0");
}

static int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void) closedir(dir);
	return n;
}

/* Without a free descriptor it fails, and leaves none open. */
static void no_descriptors_is_an_error(void **state)
{
	const struct fake *f = *state;
	const int before = open_fds();
	struct rlimit limit, none;
	ssize_t found;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	found = find_by_name(&f->root, "python", NULL, 0, NULL);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(found, -EMFILE);
	assert_int_equal(open_fds(), before);
}

/* ---- this machine ---------------------------------------------------------------------------------------------------- */

static void name_yourself(const struct child *c, void *arg)
{
	(void) prctl(PR_SET_NAME, arg);
	child_done(c, 0);
	child_wait(c);
}

static void this_process_and_its_parents_are_left_out(void **state)
{
	char name[16], regex[32];
	struct root root;

	(void) state;
	assert_int_equal(root_open("/", &root, NULL), 0);
	(void) snprintf(name, sizeof(name), "hwf-%d", (int) getpid());
	(void) snprintf(regex, sizeof(regex), "^%s$", name);
	struct child first = child_start(name_yourself, name), second = child_start(name_yourself, name);

	(void) child_take(&first);
	(void) child_take(&second);
	(void) prctl(PR_SET_NAME, name);
	check_found(&root, regex, (pid_t[]) { first.pid, second.pid, 0 });
	child_end(&second);
	check_found(&root, regex, (pid_t[]) { first.pid, 0 });
	/* From inside first, this process is a parent. */
	pid_t inner = fork();

	assert_true(inner >= 0);
	if (inner == 0) {
		pid_t pids[MANY];

		(void) prctl(PR_SET_NAME, name);
		_exit(find_by_name(&root, regex, pids, MANY, NULL) == 1 && pids[0] == first.pid ? 0 : 1);
	}
	int status;

	assert_int_equal(waitpid(inner, &status, 0), inner);
	assert_int_equal(status, 0);
	child_end(&first);
	check_found(&root, regex, (pid_t[]) { 0 });
	(void) prctl(PR_SET_NAME, "test_find");
	root_done(&root);
}

/* ---- self.c ------------------------------------------------------------------------------------------------------------ */

static void own_memory_is_correct(void **state)
{
	enum {
		BYTES = 128 << 20,
		HUGE_PAGES = 4 << 20,
		COUNTED_LATE = 64 * 4096
	};
	/* The kernel adds up its CPUs' counts a little later. */
	const uint64_t slack = HUGE_PAGES + COUNTED_LATE * (uint64_t) sysconf(_SC_NPROCESSORS_CONF);
	uint64_t rss, hwm, before;
	struct root root;

	(void) state;
	assert_int_equal(root_open("/", &root, NULL), 0);
	assert_int_equal(self_memory(&root, &before, &hwm), 0);
	char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	memset(p, 1, BYTES);
	assert_int_equal(self_memory(&root, &rss, &hwm), 0);
	assert_true(rss + slack >= before + BYTES && rss <= before + BYTES + slack);
	(void) munmap(p, BYTES);
	assert_int_equal(self_memory(&root, &rss, &hwm), 0);
	assert_true(rss <= before + slack);
	assert_true(hwm + slack >= before + BYTES);
	root_done(&root);
}

static void wait_for_signals(const struct child *c, void *arg)
{
	sigset_t all;

	(void) arg;
	(void) sigfillset(&all);
	(void) sigprocmask(SIG_SETMASK, &all, NULL);
	child_done(c, 0);
	child_wait(c);
}

static void pending_signals_are_read(void **state)
{
	const int signals[] = { SIGHUP, SIGTERM, SIGUSR1, SIGRTMIN + 3 };
	struct child c = child_start(wait_for_signals, NULL);
	uint64_t mask = 1, expected = 0;
	struct root root;

	(void) state;
	assert_int_equal(root_open("/", &root, NULL), 0);
	(void) child_take(&c);
	assert_int_equal(pending_signals(&root, c.pid, &mask), 0);
	assert_int_equal(mask, 0);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		assert_int_equal(kill(c.pid, signals[i]), 0);
		expected |= UINT64_C(1) << (signals[i] - 1);
		assert_int_equal(pending_signals(&root, c.pid, &mask), 0);
		assert_true(mask == expected);
	}
	child_end(&c);
	assert_int_equal(pending_signals(&root, c.pid, &mask), -ENOENT);
	assert_true(mask == expected); /* untouched */
	root_done(&root);
}

/* On a large site a user is in a thousand groups, and their line precedes the others. */
static void many_groups_hide_nothing(void **state)
{
	static char text[40000];
	struct temp_tree tree;
	uint64_t rss, hwm, mask;
	struct root root;

	(void) state;
	(void) snprintf(text, sizeof(text), "Name:\tx\nGroups:\t");
	for (int i = 0; i < 3000; i++)
		(void) snprintf(text + strlen(text), 12, "%d ", 1000000 + i);
	(void) snprintf(text + strlen(text), 200,
		"\nVmHWM:\t    300 kB\nVmRSS:\t    200 kB\nSigPnd:\t0000000000000001\n"
		"ShdPnd:\t8000000000000000\n");
	temp_tree_new(&tree);
	temp_tree_put(&tree, "proc/self/status", text);
	temp_tree_put(&tree, "proc/7/status", text);
	temp_tree_put(&tree, "proc/8/status", "Name:\tx\nState:\tZ (zombie)\n");
	root = temp_tree_root(&tree);
	assert_int_equal(self_memory(&root, &rss, &hwm), 0);
	assert_int_equal(rss, 200 * 1024);
	assert_int_equal(hwm, 300 * 1024);
	assert_int_equal(pending_signals(&root, 7, &mask), 0);
	assert_true(mask == UINT64_C(0x8000000000000001));
	assert_int_equal(pending_signals(&root, 8, &mask), -EBADMSG);
	root_done(&root);
	temp_tree_done(&tree);
}

/* It existed, has ended, and sends no signal. */
static void a_spent_pid_was_a_process(void **state)
{
	pid_t first = spent_pid(), second = spent_pid();

	(void) state;
	assert_true(first > 0 && second > 0 && first != second);
	assert_int_equal(kill(first, 0), -1);
	assert_int_equal(errno, ESRCH);
	errno = 0;
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_arguments_are_matched),
		cmocka_unit_test(more_than_there_is_room_for_are_counted),
		cmocka_unit_test(a_bad_expression_is_explained),
		cmocka_unit_test(long_command_lines_are_cut),
		cmocka_unit_test(no_descriptors_is_an_error),
		CHILDREN_TEST(this_process_and_its_parents_are_left_out),
		cmocka_unit_test(own_memory_is_correct),
		CHILDREN_TEST(pending_signals_are_read),
		cmocka_unit_test(many_groups_hide_nothing),
		cmocka_unit_test(a_spent_pid_was_a_process),
	};

	return cmocka_run_group_tests(tests, fake_new, fake_done);
}
