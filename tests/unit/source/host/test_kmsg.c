/* SPDX-License-Identifier: MIT
 *
 * Records as kernels write them, and this machine's log.
 */
#include "tree_helper.h"

#include "source/host/kmsg.h"

#define HEAD "3,1212,6963728056,-;"

static void oom_victims_are_read(void **state)
{
	static const struct {
		const char *record;
		int32_t pid; /* 0: the record reports no kill */
		const char *name;
	} rows[] = {
		{ HEAD "Memory cgroup out of memory: Killed process 11172 (alloc) total-vm:207144kB, anon-rss:65280kB, "
		       "file-rss:964kB, shmem-rss:0kB, UID:0 pgtables:164kB oom_score_adj:0\n",
			11172, "alloc" },
		{ "3,900,123456789,-,caller=T812;Out of memory: Killed process 4711 (python3) total-vm:9207144kB, "
		  "anon-rss:7265280kB\n SUBSYSTEM=memory\n",
			4711, "python3" },
		{ HEAD "Out of memory (oom_kill_allocating_task): Killed process 5 (x) total-vm:1kB\n", 5,
			"x" },
		/* Linux 4.4, RHEL 7 */
		{ HEAD "Killed process 77 (mysqld) total-vm:12kB, anon-rss:4kB, file-rss:0kB\n", 77,
			"mysqld" },
		{ HEAD "Killed process 77 (java), UID 501, total-vm:12kB, anon-rss:4kB, file-rss:0kB\n", 77,
			"java" },
		/* hostile names */
		{ HEAD "Killed process 6 (a (b) c) total-vm:1kB", 6, "a (b) c" },
		{ HEAD "Killed process 6 (a) total-vm:9) total-vm:1kB", 6, "a) total-vm:9" },
		{ HEAD "Killed process 6 () total-vm:1kB", 6, "" },
		{ HEAD "Killed process 6 (\\x0aname\\x5c\\x) total-vm:1kB", 6, "\nname\\\\x" },
		{ HEAD "Killed process 6 (sixteen and more letters) total-vm:1kB", 6, "sixteen and mor" },
		/* not the kernel's own, or no process was killed */
		{ "11,79,101,-;Out of memory: Killed process 1 (init) total-vm:1kB, anon-rss:1kB\n", 0, "" },
		{ "3,79,101,-;first line\n Killed process 1 (init) total-vm:1kB\n", 0, "" },
		{ HEAD "Out of memory: Kill process 7 (x) score 1 or sacrifice child\n", 0, "" },
		{ HEAD "oom-kill:constraint=CONSTRAINT_MEMCG,task=alloc,pid=11172,uid=0\n", 0, "" },
		{ HEAD "Killed process 0 (x) total-vm:1kB", 0, "" },
		{ HEAD "Killed process 2147483648 (x) total-vm:1kB", 0, "" },
		{ HEAD "Killed process -6 (x) total-vm:1kB", 0, "" },
		{ HEAD "Killed process 6 x) total-vm:1kB", 0, "" },
		{ HEAD "Killed process 6 (x total-vm:1kB", 0, "" },
		{ HEAD "Killed process 6 (x)", 0, "" },
		{ HEAD " total-vm: Killed process 6 (x)", 0, "" },
		{ "Killed process 6 (x) total-vm:1kB", 0, "" },
		{ "3", 0, "" },
		{ "", 0, "" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct oom_victim victim = { .pid = -1 };
		const bool found = kmsg_victim_parse(rows[i].record, &victim);

		if (found != (rows[i].pid != 0))
			fail_msg("\"%s\": %d", rows[i].record, found);
		assert_int_equal(victim.pid, found ? rows[i].pid : -1);
		assert_string_equal(victim.name, rows[i].name);
	}
}

/* A captured machine has no log that could be followed. */
static void a_captured_machine_has_none(void **state)
{
	struct root root = tree_open("cgroup-v2");

	(void) state;
	assert_int_equal(oom_log_open(&root), -EOPNOTSUPP);
	root_done(&root);
}

/* As the device returns it, one record per read, from a file of one record. */
static void a_log_is_read_to_its_end(void **state)
{
	struct temp_tree t;
	struct oom_victim victim = { 0 };

	(void) state;
	temp_tree_new(&t);
	temp_tree_put(&t, "log", HEAD "Memory cgroup out of memory: Killed process 31 (one) total-vm:1kB\n");
	struct root root = temp_tree_root(&t);
	int fd = openat(root.top, "log", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(oom_log_next(fd, &victim), 1);
	assert_int_equal(victim.pid, 31);
	assert_string_equal(victim.name, "one");
	assert_int_equal(oom_log_next(fd, &victim), 0);
	(void) close(fd);
	assert_int_equal(oom_log_next(fd, &victim), -EBADF);
	root_done(&root);
	temp_tree_done(&t);
}

/* Where it may be read here: from its end on, and without waiting for more. */
static void the_log_of_this_machine_begins_at_its_end(void **state)
{
	struct oom_victim victim = { .pid = -1 };
	struct root root;

	(void) state;
	assert_int_equal(root_open("/", &root, NULL), 0);
	int fd = oom_log_open(&root);

	root_done(&root);
	if (fd < 0) {
		print_message("# the kernel's log cannot be read\n");
		skip();
	}
	for (int killed = 0; oom_log_next(fd, &victim) == 1; killed++) /* processes being killed right
	                                                                * now */
		assert_true(victim.pid > 1 && killed < 100);
	(void) close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(oom_victims_are_read),
		cmocka_unit_test(a_captured_machine_has_none),
		cmocka_unit_test(a_log_is_read_to_its_end),
		cmocka_unit_test(the_log_of_this_machine_begins_at_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
