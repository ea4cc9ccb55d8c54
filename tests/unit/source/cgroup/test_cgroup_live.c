/* SPDX-License-Identifier: MIT
 *
 * A group created on this machine, and children in it whose use is known.
 */
#include "tree_helper.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "source/cgroup/path.h"

enum {
	MEMORY = 1,
	DETAIL = 2,
	EVENTS = 4,
	MIB = 1 << 20,
	TOUCHED = 60 * MIB,
	LIMIT = 30 * MIB,
	SLACK = 20 * MIB
};

struct group {
	struct root root;
	char path[CGROUP_PATH];
	int procs, dir;
	struct source *source;
};

/* False, with the reason printed, where no group can be created. */
static bool group_make(struct group *g)
{
	struct err err = { "" };

	assert_int_equal(root_open("/", &g->root, NULL), 0);
	if (cgroup_make(&g->root, g->path, sizeof(g->path), &g->procs, &g->dir, &err) < 0) {
		print_message("# no cgroup of one's own: %s\n", err.text);
		root_done(&g->root);
		return false;
	}
	struct source_env env = { .root = &g->root, .cgroup = g->path };

	assert_int_equal(source_cgroup.open(&env, &g->source, &err), 0);
	return true;
}

static bool group_is_there(const struct group *g)
{
	pid_t pid;

	return cgroup_pids(&g->root, g->path, &pid, 1) >= 0;
}

/* A group becomes empty shortly after its last process was reaped: the kernel removes a process
 * when it is gone. */
static void group_done(struct group *g)
{
	source_cgroup.close(g->source);
	(void) close(g->procs);
	if (g->dir >= 0)
		(void) close(g->dir);
	cgroup_remove(&g->root, g->path);
	for (int i = 0; i < 1000 && group_is_there(g); i++) {
		usleep(1000);
		cgroup_remove(&g->root, g->path);
	}
	assert_false(group_is_there(g));
	root_done(&g->root);
}

/* Starts a child in the group that touches TOUCHED bytes, frees them, reports it through *ret_ready,
 * and then waits until *ret_go is closed. */
static pid_t start_child(const struct group *g, int *ret_ready, int *ret_go)
{
	int ready[2], go[2];

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0) {
		(void) close(ready[1]);
		(void) close(go[0]);
		*ret_ready = ready[0];
		*ret_go = go[1];
		return pid;
	}
	char byte = 0;

	(void) close(go[1]);
	if (write(g->procs, "0", 1) != 1)
		_exit(3);
	char *block = mmap(NULL, TOUCHED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		_exit(4);
	for (size_t i = 0; i < TOUCHED; i += 4096)
		((volatile char *) block)[i] = 1;
	(void) munmap(block, TOUCHED);
	if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 0)
		_exit(5);
	_exit(0);
}

static int end_child(pid_t pid, int ready, int go)
{
	int status;

	(void) close(go);
	(void) close(ready);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int64_t value_of(const struct framebuf *out, enum metric metric)
{
	const struct reading *r = find_reading(out, metric, 0);

	if (!r || !r->known)
		fail_msg("%s could not be had", metrics[metric].name);
	return r->value;
}

static void the_peak_of_a_child_is_kept(void **state)
{
	(void) state;
	struct group g = { 0 };
	struct framebuf out = { 0 };
	struct cgroup_facts facts;
	pid_t pids[4];
	int ready, go;
	char byte;

	if (!group_make(&g))
		skip();
	pid_t pid = start_child(&g, &ready, &go);

	assert_int_equal(read(ready, &byte, 1), 1);
	assert_int_equal(source_cgroup.read(g.source, MEMORY | DETAIL | EVENTS, &out), 0);
	int64_t peak = value_of(&out, M_JOB_CGROUP_PEAK), now = value_of(&out, M_JOB_CGROUP_MEM);

	assert_true(peak >= TOUCHED && peak < TOUCHED + SLACK);
	assert_true(now > 0 && now < SLACK);
	assert_true(value_of(&out, M_JOB_CGROUP_ANON) < SLACK);
	assert_int_equal(value_of(&out, M_JOB_OOM_KILLS), 0);
	assert_int_equal(cgroup_pids(&g.root, g.path, pids, 4), 1);
	assert_int_equal(pids[0], pid);
	assert_int_equal(cgroup_of(&g.root, pid, &facts), 0);
	assert_string_equal(facts.path, g.path);
	assert_int_equal(end_child(pid, ready, go), 0);
	framebuf_clear(&out);
	assert_int_equal(source_cgroup.read(g.source, MEMORY, &out), 0);
	assert_true(value_of(&out, M_JOB_CGROUP_PEAK) >= peak); /* also if the group is empty */
	framebuf_done(&out);
	group_done(&g);
}

/* Sets the group's limit. */
static void limit_group(const struct group *g)
{
	struct cgroup_mounts mounts;
	char text[32];

	assert_int_equal(cgroup_mounts_read(&g->root, &mounts), 0);
	enum cgroup_hierarchy hierarchy = cgroup_charging(&mounts);
	autoclose int dir = cgroup_open_dir(&g->root, &mounts.of[hierarchy], g->path);

	assert_true(dir >= 0);
	autoclose int fd = openat(
		dir, hierarchy == CGROUP_UNIFIED ? "memory.max" : "memory.limit_in_bytes", O_WRONLY);
	int n = snprintf(text, sizeof(text), "%d", LIMIT);

	assert_int_equal(write(fd, text, (size_t) n), n);
}

static void a_kill_for_lack_of_memory_is_counted(void **state)
{
	(void) state;
	struct group g = { 0 };
	struct framebuf out = { 0 };
	int ready, go;

	if (!group_make(&g))
		skip();
	limit_group(&g);
	for (int kills = 1; kills <= 2; kills++) {
		pid_t pid = start_child(&g, &ready, &go);
		int status = end_child(pid, ready, go);

		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		framebuf_clear(&out);
		assert_int_equal(source_cgroup.read(g.source, MEMORY | DETAIL | EVENTS, &out), 0);
		assert_int_equal(value_of(&out, M_JOB_OOM_KILLS), kills);
		assert_true(value_of(&out, M_JOB_CGROUP_PEAK) <= LIMIT);
	}
	framebuf_done(&out);
	group_done(&g);
}

static void the_smallest_limit_is_found(void **state)
{
	(void) state;
	struct group g = { 0 };
	struct cgroup_facts facts;

	if (!group_make(&g))
		skip();
	limit_group(&g);
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		bool ok = write(g.procs, "0", 1) == 1 && cgroup_of(&g.root, 0, &facts) == 0 &&
			  facts.limit_bytes.known && facts.limit_bytes.value == LIMIT;

		_exit(ok ? 0 : 1);
	}
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	group_done(&g);
}

static void two_groups_have_two_names(void **state)
{
	(void) state;
	struct group a = { 0 }, b = { 0 };

	if (!group_make(&a))
		skip();
	assert_true(group_make(&b));
	assert_string_not_equal(a.path, b.path);
	group_done(&b);
	assert_true(group_is_there(&a));
	group_done(&a);
}

static void a_removed_group_is_reported_once(void **state)
{
	(void) state;
	struct group g = { 0 };
	struct framebuf out = { 0 };

	if (!group_make(&g))
		skip();
	assert_int_equal(source_cgroup.read(g.source, MEMORY, &out), 0);
	(void) value_of(&out, M_JOB_CGROUP_MEM);
	cgroup_remove(&g.root, g.path);
	assert_false(group_is_there(&g));
	framebuf_clear(&out);
	assert_int_equal(source_cgroup.read(g.source, MEMORY, &out), 0);
	check_unknown(&out, M_JOB_CGROUP_MEM);
	framebuf_clear(&out);
	assert_int_equal(source_cgroup.read(g.source, MEMORY, &out), 0);
	assert_int_equal(out.n_readings, 0);
	framebuf_done(&out);
	group_done(&g);
}

/* Only groups created here are removed, and only on this machine. */
static void other_groups_are_left_alone(void **state)
{
	(void) state;
	struct root root = tree_open("cgroup-v2");
	struct err err = { "" };
	char path[CGROUP_PATH];
	int procs = -1, dir = -1;

	assert_int_equal(cgroup_make(&root, path, sizeof(path), &procs, &dir, &err), -EROFS);
	assert_true(strlen(err.text) > 0);
	assert_int_equal(procs, -1);
	root_done(&root);
	struct temp_tree t;
	pid_t pid;

	temp_tree_new(&t);
	temp_tree_put(&t, "sys/fs/cgroup/cgroup.controllers", "memory\n");
	temp_tree_put(&t, "sys/fs/cgroup/batch/hiwater/cgroup.procs", "");
	temp_tree_put(&t, "sys/fs/cgroup/batch/hiwater/x", "");
	root = temp_tree_root(&t);
	root.live = true;
	char file[256];

	for (int i = 0; i < 2; i++) { /* rmdir would remove an empty folder */
		snprintf(file, sizeof(file), "%s/sys/fs/cgroup/batch/empty%d", t.path, i);
		assert_int_equal(mkdir(file, 0755), 0);
	}
	snprintf(file, sizeof(file), "%s/sys/fs/cgroup/batch/hiwater-1-0", t.path);
	assert_int_equal(mkdir(file, 0755), 0);
	cgroup_remove(&root, "/batch/empty0");
	cgroup_remove(&root, "/batch/hiwater-1-0/../empty1");
	cgroup_remove(&root, "/");
	cgroup_remove(&root, "");
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "sys/fs/cgroup/batch/empty%d", i);
		assert_int_equal(faccessat(root.top, path, F_OK, 0), 0);
	}
	cgroup_remove(&root, "/batch/hiwater-1-0");
	assert_int_equal(faccessat(root.top, "sys/fs/cgroup/batch/hiwater-1-0", F_OK, 0), -1);
	assert_int_equal(cgroup_pids(&root, "/batch", &pid, 1), -ENOENT); /* no cgroup.procs at its top */
	root.live = false;
	root_done(&root);
	temp_tree_done(&t);
}

/* What a v2 machine permits a user: below the own group if it delegates memory, as its sibling if
 * that escapes nothing. */
static void v2_groups_are_made_where_memory_is_delegated(void **state)
{
	(void) state;
	static const struct {
		const char *own_control, *above_control, *own_max, *own_quota;
		const char *made_in; /* NULL: nowhere */
		int r;
	} rows[] = {
		{ "cpu memory\n", "\n", "max\n", "max 100000\n", "sys/fs/cgroup/u/own", -ENOENT },
		{ "cpu memory\n", "memory\n", "1000\n", "5 10\n", "sys/fs/cgroup/u/own", -ENOENT },
		{ "\n", "cpu memory pids\n", "max\n", "max 100000\n", "sys/fs/cgroup/u", -ENOENT },
		{ "\n", "cpu memory pids\n", "1000\n", "max 100000\n", NULL, -EDQUOT },
		{ "\n", "cpu memory pids\n", "max\n", "50000 100000\n", NULL, -EDQUOT },
		{ "cpu\n", "cpu memoryx\n", "max\n", "max 100000\n", NULL, -EOPNOTSUPP },
	};
	static const struct timespec long_ago[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	static const char *const places[] = { "sys/fs/cgroup/u/own", "sys/fs/cgroup/u" };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct temp_tree t;
		struct err err = { "" };
		char path[CGROUP_PATH] = "";
		int procs = -1, dir = -1;

		temp_tree_new(&t);
		temp_tree_put(&t, "proc/self/cgroup", "0::/u/own\n");
		temp_tree_put(&t, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
		temp_tree_put(&t, "sys/fs/cgroup/u/cgroup.subtree_control", rows[i].above_control);
		temp_tree_put(&t, "sys/fs/cgroup/u/own/cgroup.subtree_control", rows[i].own_control);
		temp_tree_put(&t, "sys/fs/cgroup/u/own/memory.max", rows[i].own_max);
		temp_tree_put(&t, "sys/fs/cgroup/u/own/cpu.max", rows[i].own_quota);
		struct root root = temp_tree_root(&t);

		for (size_t j = 0; j < 2; j++)
			assert_int_equal(utimensat(root.top, places[j], long_ago, 0), 0);
		root.live = true;
		int r = cgroup_make(&root, path, sizeof(path), &procs, &dir, &err);

		/* no kernel fills the new folder here: cgroup.procs is missing, and the folder is
		 * removed again */
		assert_int_equal(r, rows[i].r);
		assert_int_equal(procs, -1);
		assert_int_equal(dir, -1);
		assert_true(r != -EOPNOTSUPP || strstr(err.text, "systemd-run"));
		for (size_t j = 0; j < 2; j++) { /* a folder that was created and removed changes
		                                  * the time */
			struct stat st;
			bool made = rows[i].made_in && strcmp(rows[i].made_in, places[j]) == 0;

			assert_int_equal(fstatat(root.top, places[j], &st, 0), 0);
			assert_int_equal(st.st_mtim.tv_sec != 1, made);
			assert_int_equal(st.st_nlink, j == 0 ? 2 : 3);
		}
		root.live = false;
		root_done(&root);
		temp_tree_done(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_peak_of_a_child_is_kept),
		cmocka_unit_test(a_kill_for_lack_of_memory_is_counted),
		cmocka_unit_test(the_smallest_limit_is_found),
		cmocka_unit_test(two_groups_have_two_names),
		cmocka_unit_test(a_removed_group_is_reported_once),
		cmocka_unit_test(other_groups_are_left_alone),
		cmocka_unit_test(v2_groups_are_made_where_memory_is_delegated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
