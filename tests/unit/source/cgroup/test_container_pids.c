/* SPDX-License-Identifier: MIT
 *
 * Containers by the ids in procfs cgroup: what the container runtimes name their groups.
 */
#include "tree_helper.h"

#define A "0123456789ab0123456789ab0123456789ab0123456789ab0123456789abcdef"
#define B "0123456789ab0123456789ab0123456789ab0123456789ab0123456789ab0000"
#define C "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

enum {
	MANY = 8
};

static void put_group(const struct temp_tree *t, int pid, const char *text)
{
	char path[64];

	(void) snprintf(path, sizeof(path), "proc/%d/cgroup", pid);
	temp_tree_put(t, path, text);
}

static void machine_new(struct temp_tree *t, const char *mounts)
{
	temp_tree_new(t);
	temp_tree_put(t, "proc/self/mountinfo", mounts);
	temp_tree_put(t, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
}

#define V2 "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
#define V1 "31 20 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"

static void containers_are_found_by_id(void **state)
{
	static const struct {
		const char *mounts, *group, *cgroup;
	} cases[] = {
		{ V2, "0::/system.slice/docker-" A ".scope\n", "/system.slice/docker-" A ".scope" },
		{ V2, "0::/system.slice/docker-" A ".scope/init.scope\n", "/system.slice/docker-" A ".scope" },
		{ V2, "0::/machine.slice/libpod-" A ".scope/container\n", "/machine.slice/libpod-" A ".scope" },
		{ V2, "0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-" A ".scope\n",
			"/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-" A ".scope" },
		{ V1, "5:cpu:/x\n4:memory:/docker/" A "\n0::/\n", "/docker/" A },
		{ V1, "4:memory:/kubepods/besteffort/pod1-2/" A "\n", "/kubepods/besteffort/pod1-2/" A },
		{ V2, "0::/../docker-" A ".scope\n", "" }, /* outside of this cgroup namespace */
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t pids[MANY] = { 0 };
		struct temp_tree t;
		struct container found;
		char id[CONTAINER_ID];

		machine_new(&t, cases[i].mounts);
		put_group(&t, 1, "0::/init.scope\n4:memory:/\n");
		put_group(&t, 70, cases[i].group);
		put_group(&t, 71, cases[i].group);
		put_group(&t, 80, "0::/system.slice/docker-" C ".scope\n");
		temp_tree_put(&t, "proc/90/stat", "gone meanwhile");
		struct root root = temp_tree_root(&t);

		assert_int_equal(container_find(&root, "0123456789ab", pids, MANY, &found), 0);
		assert_int_equal(found.n, 2);
		assert_int_equal(pids[0] + pids[1], 70 + 71);
		assert_string_equal(found.id, A);
		assert_string_equal(found.cgroup, cases[i].cgroup);
		assert_int_equal(container_of(&root, 71, id), 0);
		assert_string_equal(id, A);
		assert_int_equal(container_of(&root, 1, id), -ENOENT);
		assert_int_equal(container_of(&root, 99, id), -ESRCH);
		root_done(&root);
		temp_tree_done(&t);
	}
}

static void an_id_must_name_one_container(void **state)
{
	pid_t pids[MANY] = { 0 };
	struct container found;
	struct temp_tree t;

	(void) state;
	machine_new(&t, V2);
	put_group(&t, 70, "0::/docker/" A "\n");
	put_group(&t, 80, "0::/docker/" B "\n");
	put_group(&t, 90, "0::/docker/" C "/docker/" A "\n"); /* A runs in C */
	put_group(&t, 91, "0::/x/" C "0\n");                  /* 65 digits are no id */
	struct root root = temp_tree_root(&t);

	assert_int_equal(container_find(&root, "0123", pids, MANY, &found), -EEXIST);
	assert_int_equal(container_find(&root, "ffff", pids, MANY, &found), -ENOENT);
	assert_int_equal(container_find(&root, B, pids, MANY, &found), 0);
	assert_int_equal(found.n, 1);
	assert_int_equal(pids[0], 80);
	assert_int_equal(container_find(&root, "fedc", pids, MANY, &found), 0);
	assert_int_equal(found.n, 1);
	assert_string_equal(found.cgroup, "/docker/" C);
	assert_int_equal(container_find(&root, A, pids, 1, &found), 0); /* more than there is room for */
	assert_int_equal(found.n, 2);
	root_done(&root);
	temp_tree_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(containers_are_found_by_id),
		cmocka_unit_test(an_id_must_name_one_container),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
