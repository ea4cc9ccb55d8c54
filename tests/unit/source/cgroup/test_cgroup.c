/* SPDX-License-Identifier: MIT */
#include "tree_helper.h"

#include "base/maybe.h"
#include "source/cgroup/path.h"

enum {
	MEMORY = 1,
	DETAIL = 2,
	EVENTS = 4,
	QUOTA = 8,
	LIMIT = 16
};

#define NONE UNKNOWN
#define MANY 8

/* ---- captured machines --------------------------------------------------------------------------------------------- */

struct expected {
	const char *tree, *path, *scheduler;
	bool v2;
	struct maybe limit, cpu_ppm;
	ssize_t pids;
	pid_t pid[3];
	struct maybe mem, peak, anon, file, kernel, cpu_ns, throttled_ns, oom_kills;
	struct maybe periods, throttled;
	/* of the group with the limit */
	struct maybe shmem, unreclaimable;
};

#define K(n) { (n), true }

static const struct expected machines[] = {
	{ "cgroup-v2", "/user.slice/user-1000.slice/user@1000.service/app.slice/run-4242.scope", "systemd",
		true, K(8589934592), K(1500000), 3, { 4242, 4250, 4251 }, K(734003200), K(734003200),
		K(524288000), K(157286400 - 1048576), K(41943040), K(12500000000), K(45000000), K(1), K(100),
		K(3), K(1048576), K(524288000 + 1048576 + 41943040 - 31457280) },
	{ "cgroup-v1", "/batch/job9", "", false, K(4294967296), K(2000000), 3, { 4242, 4243, 4250 },
		K(209715200), NONE, K(104857600), K(94371840 - 10485760), K(1048576), K(987654321000),
		K(250000000), K(2), K(10), K(4), K(10485760), K(104857600 + 10485760) },
	/* cpuacct:/ has more processes than the memory group: it is not the job's CPU time */
	{ "hybrid", "/process_api/6b0302aa", "", false, NONE, NONE, 1, { 4242 }, K(52428800), K(52428800),
		K(41943040), K(8388608 - 1048576), K(524288), NONE, NONE, K(0), NONE, NONE, K(1048576), NONE },
	{ "container", "/", "", true, K(2147483648), K(500000), 2, { 1, 4242 }, K(104857600), NONE,
		K(73400320), K(20971520 - 4194304), K(6291456), K(900000), K(7000), K(0), K(5), K(1), K(4194304),
		K(73400320 + 4194304 + 6291456 - 2097152) },
	{ "no-permission", "/job", "", true, NONE, NONE, 1, { 4242 }, NONE, NONE, NONE, NONE, NONE,
		K(1000000), NONE, NONE, NONE, NONE, NONE, NONE },
	{ "wsl", "/", "", true, NONE, NONE, 2, { 1, 4242 }, NONE, NONE, NONE, NONE, NONE, K(77000), NONE,
		NONE, NONE, NONE, NONE, NONE },
	{ "slurm-v1", "/slurm/uid_1001/job_77/step_0/task_0", "slurm", false, K(2147483648), NONE, 1,
		{ 4242 }, K(1073741824), K(1073741824), K(1000000000), K(50000000 - 10000000),
		K(2000000), K(60000000000), K(0), K(1), K(0), K(0), K(10000000), K(1010000000) },
	{ "slurm-v2", "/system.slice/node018_slurmstepd.scope/job_77/step_0/user/task_0", "slurm", true,
		K(3221225472), NONE, 1, { 4242 }, K(300), NONE, K(200), K(40), NONE, K(5000), NONE, K(3),
		NONE, NONE, K(20), K(226) },
	{ "kubernetes", "/", "kubernetes", false, K(1073741824), K(2500000), 2, { 1, 4242 }, K(400000), NONE,
		K(300000), K(60000), K(1000), K(42), K(99), K(0), K(1), K(1), K(30000), K(330000) },
};

static void check_maybe(const struct framebuf *out, enum metric metric, struct maybe value)
{
	if (value.known)
		check_value(out, metric, 0, value.value);
	else
		check_unknown(out, metric);
}

static void check_same(struct maybe a, struct maybe b)
{
	assert_int_equal(a.known, b.known);
	if (a.known)
		assert_int_equal(a.value, b.value);
}

static void check_readings(const struct root *root, const struct expected *e)
{
	struct source_env env = { .root = root, .cgroup = e->path };
	struct framebuf out = { 0 };
	struct source *s = NULL;
	struct cgroup_facts facts;

	assert_int_equal(cgroup_of(root, 4242, &facts), 0);
	env.cgroup_limit = facts.limit_bytes.known ? facts.limit_path : NULL;
	assert_int_equal(source_cgroup.open(&env, &s, NULL), 0);
	assert_int_equal(source_cgroup.read(s, MEMORY, &out), 0);
	assert_int_equal(out.n_readings, 2);
	assert_int_equal(source_cgroup.read(s, DETAIL, &out), 0);
	assert_int_equal(out.n_readings, 7);
	assert_int_equal(source_cgroup.read(s, EVENTS, &out), 0);
	assert_int_equal(out.n_readings, 8);
	assert_int_equal(source_cgroup.read(s, QUOTA, &out), 0);
	assert_int_equal(out.n_readings, 11);
	assert_int_equal(source_cgroup.read(s, LIMIT, &out), 0);
	assert_int_equal(out.n_readings, 13);
	check_maybe(&out, M_JOB_CGROUP_SHMEM, e->shmem);
	check_maybe(&out, M_JOB_LIMIT_UNRECLAIMABLE, e->unreclaimable);
	check_maybe(&out, M_JOB_LIMIT_SHMEM, e->unreclaimable.known ? e->shmem : UNKNOWN);
	check_maybe(&out, M_JOB_CGROUP_MEM, e->mem);
	check_maybe(&out, M_JOB_CGROUP_PEAK, e->peak);
	check_maybe(&out, M_JOB_CGROUP_ANON, e->anon);
	check_maybe(&out, M_JOB_CGROUP_FILE, e->file);
	check_maybe(&out, M_JOB_CGROUP_KERNEL, e->kernel);
	check_maybe(&out, M_JOB_CGROUP_CPU, e->cpu_ns);
	check_maybe(&out, M_JOB_CGROUP_THROTTLED, e->throttled_ns);
	check_maybe(&out, M_JOB_OOM_KILLS, e->oom_kills);
	check_maybe(&out, M_JOB_CGROUP_PERIODS, e->periods);
	check_maybe(&out, M_JOB_CGROUP_THROTTLED_PERIODS, e->throttled);
	framebuf_clear(&out);
	assert_int_equal(source_cgroup.read(s, MEMORY | DETAIL | EVENTS | QUOTA | LIMIT, &out), 0);
	for (size_t i = 0; i < out.n_readings; i++) /* unavailable values were reported once */
		assert_true(out.readings[i].known);
	source_cgroup.close(s);
	framebuf_done(&out);
}

static void check_facts(const struct root *root, const struct expected *e)
{
	struct cgroup_facts facts;
	pid_t pids[MANY] = { 0 };

	assert_int_equal(cgroup_of(root, 4242, &facts), 0);
	assert_string_equal(facts.path, e->path);
	assert_string_equal(facts.scheduler, e->scheduler);
	assert_int_equal(facts.v2, e->v2);
	assert_false(facts.exclusive || facts.peak_is_ours);
	check_same(facts.limit_bytes, e->limit);
	check_same(facts.cpu_limit_ppm, e->cpu_ppm);
	assert_int_equal(cgroup_pids(root, e->path, pids, MANY), e->pids);
	for (ssize_t i = 0; i < e->pids; i++)
		assert_int_equal(pids[i], e->pid[i]);
	assert_int_equal(cgroup_pids(root, e->path, NULL, 0), e->pids);
}

static void captured_groups_give_the_same_values(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		struct root root = tree_open(machines[i].tree);

		print_message("%s\n", machines[i].tree);
		check_facts(&root, &machines[i]);
		check_readings(&root, &machines[i]);
		root_done(&root);
	}
}

static void a_folder_without_cgroups_has_none(void **state)
{
	(void) state;
	struct temp_tree t;
	struct cgroup_facts facts;
	struct source *s = NULL;
	struct err err = { "" };
	pid_t pid;

	temp_tree_new(&t);
	temp_tree_put(&t, "proc/7/cgroup", "0::/a\n");
	temp_tree_put(&t, "proc/8/cgroup", "");
	struct root root = temp_tree_root(&t);
	struct source_env env = { .root = &root, .cgroup = "/a" };

	assert_int_equal(cgroup_of(&root, 7, &facts), -ENOENT);
	assert_int_equal(cgroup_of(&root, 8, &facts), -ENOENT);
	assert_int_equal(cgroup_of(&root, 9, &facts), -ENOENT);
	assert_int_equal(cgroup_pids(&root, "/a", &pid, 1), -ENOENT);
	assert_int_equal(source_cgroup.open(&env, &s, &err), -ENOENT);
	assert_true(strlen(err.text) > 0);
	env.cgroup = NULL;
	assert_int_equal(source_cgroup.open(&env, &s, &err), -ENOENT);
	assert_null(s);
	root_done(&root);
	temp_tree_done(&t);
}

/* ---- what fills a limit --------------------------------------------------------------------------------------------- */

/* The limit is that of a group above, which other processes fill too. */
static void the_group_with_the_limit_is_read(void **state)
{
	struct temp_tree t;
	struct framebuf out = { 0 };
	struct source *s = NULL;
	struct cgroup_facts facts;

	(void) state;
	temp_tree_new(&t);
	temp_tree_put(&t, "proc/7/cgroup", "0::/a/b\n");
	temp_tree_put(&t, "sys/fs/cgroup/cgroup.controllers", "memory\n");
	temp_tree_put(&t, "sys/fs/cgroup/a/memory.max", "1000\n");
	temp_tree_put(&t, "sys/fs/cgroup/a/memory.stat",
		"anon 100\nfile 500\nkernel 60\nshmem 400\nslab_reclaimable 50\n");
	temp_tree_put(&t, "sys/fs/cgroup/a/b/memory.max", "max\n");
	temp_tree_put(&t, "sys/fs/cgroup/a/b/memory.stat", "anon 10\nfile 40\nshmem 30\n");
	struct root root = temp_tree_root(&t);

	assert_int_equal(cgroup_of(&root, 7, &facts), 0);
	assert_string_equal(facts.limit_path, "/a");
	struct source_env env = {
		.root = &root, .cgroup = facts.path, .cgroup_limit = facts.limit_path
	};

	assert_int_equal(source_cgroup.open(&env, &s, NULL), 0);
	assert_int_equal(source_cgroup.read(s, DETAIL | LIMIT, &out), 0);
	check_value(&out, M_JOB_LIMIT_UNRECLAIMABLE, 0, 100 + 400 + 60 - 50);
	check_value(&out, M_JOB_LIMIT_SHMEM, 0, 400);
	check_value(&out, M_JOB_CGROUP_SHMEM, 0, 30);
	check_value(&out, M_JOB_CGROUP_FILE, 0, 10); /* shared memory is no page cache */
	source_cgroup.close(s);
	framebuf_clear(&out);
	/* before Linux 5.18 */
	temp_tree_put(&t, "sys/fs/cgroup/a/memory.stat",
		"anon 100\nfile 500\nkernel_stack 3\nshmem 400\nslab_unreclaimable 7\n");
	assert_int_equal(source_cgroup.open(&env, &s, NULL), 0);
	assert_int_equal(source_cgroup.read(s, LIMIT, &out), 0);
	check_value(&out, M_JOB_LIMIT_UNRECLAIMABLE, 0, 510);
	source_cgroup.close(s);
	framebuf_done(&out);
	root_done(&root);
	temp_tree_done(&t);
}

static bool has_reading(const struct framebuf *out, enum metric metric)
{
	for (size_t i = 0; i < out->n_readings; i++) {
		if (out->readings[i].metric == metric)
			return true;
	}
	return false;
}

/* Near the limit, what fills it is read with the charge: the kernel may end the job within the second. */
static void a_group_that_fills_is_read_out_of_turn(void **state)
{
	static const struct {
		const char *charge;
		bool is_read;
	} steps[] = { { "100\n", false }, { "240\n", false }, { "600\n", true }, { "630\n", false },
		{ "700\n", true }, { "400\n", true }, { "200\n", false } };
	struct temp_tree t;
	struct framebuf out = { 0 };
	struct source *s = NULL;

	(void) state;
	temp_tree_new(&t);
	temp_tree_put(&t, "sys/fs/cgroup/cgroup.controllers", "memory\n");
	temp_tree_put(&t, "sys/fs/cgroup/j/memory.current", "0\n");
	temp_tree_put(&t, "sys/fs/cgroup/j/memory.stat",
		"anon 1\nfile 500\nkernel 1\nshmem 400\nslab_reclaimable 0\n");
	struct root root = temp_tree_root(&t);
	struct source_env env = {
		.root = &root, .cgroup = "/j", .cgroup_limit = "/j", .cgroup_limit_bytes = known(1000)
	};

	assert_int_equal(source_cgroup.open(&env, &s, NULL), 0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		framebuf_clear(&out);
		temp_tree_put(&t, "sys/fs/cgroup/j/memory.current", steps[i].charge);
		assert_int_equal(source_cgroup.read(s, MEMORY, &out), 0);
		assert_int_equal(has_reading(&out, M_JOB_LIMIT_UNRECLAIMABLE), steps[i].is_read);
	}
	source_cgroup.close(s);
	framebuf_done(&out);
	root_done(&root);
	temp_tree_done(&t);
}

/* ---- the mark ------------------------------------------------------------------------------------------------------ */

static void a_mark_from_before_counts_once_it_rises(void **state)
{
	(void) state;
	struct temp_tree t;
	struct framebuf out = { 0 };
	struct source *s = NULL;

	temp_tree_new(&t);
	temp_tree_put(&t, "sys/fs/cgroup/cgroup.controllers", "memory\n");
	temp_tree_put(&t, "sys/fs/cgroup/j/memory.current", "100\n");
	temp_tree_put(&t, "sys/fs/cgroup/j/memory.peak", "900\n");
	struct root root = temp_tree_root(&t);
	struct source_env env = { .root = &root, .cgroup = "/j" };

	assert_int_equal(source_cgroup.open(&env, &s, NULL), 0);
	assert_int_equal(source_cgroup.read(s, MEMORY, &out), 0);
	check_unknown(&out, M_JOB_CGROUP_PEAK);
	temp_tree_put(&t, "sys/fs/cgroup/j/memory.peak", "901\n");
	assert_int_equal(source_cgroup.read(s, MEMORY, &out), 0);
	check_value(&out, M_JOB_CGROUP_PEAK, 0, 901);
	source_cgroup.close(s);
	framebuf_done(&out);
	root_done(&root);
	temp_tree_done(&t);
}

static void garbage_is_unknown(void **state)
{
	(void) state;
	static const char *const garbage[] = { "", "\n", "max\n", "-5\n", "12", "12 13\n",
		"99999999999999999999\n", "18446744073709551615\n", "\xff\xfe\n" };
	static const char *const garbage_stat[] = { "", "anon", "anon \n", "anon x\n", "anonymous 5\n",
		"anon 99999999999999999999\n" };
	struct temp_tree t;
	struct source *s = NULL;

	temp_tree_new(&t);
	temp_tree_put(&t, "sys/fs/cgroup/cgroup.controllers", "memory\n");
	temp_tree_put(&t, "sys/fs/cgroup/j/memory.current", "100\n");
	temp_tree_put(&t, "sys/fs/cgroup/j/memory.stat", "anon 5\n");
	struct root root = temp_tree_root(&t);
	struct source_env env = { .root = &root, .cgroup = "/j" };

	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		struct framebuf out = { 0 };

		temp_tree_put(&t, "sys/fs/cgroup/j/memory.current", garbage[i]);
		assert_int_equal(source_cgroup.open(&env, &s, NULL), 0);
		assert_int_equal(source_cgroup.read(s, MEMORY, &out), 0);
		check_unknown(&out, M_JOB_CGROUP_MEM);
		source_cgroup.close(s);
		framebuf_done(&out);
	}
	for (size_t i = 0; i < sizeof(garbage_stat) / sizeof(garbage_stat[0]); i++) {
		struct framebuf out = { 0 };

		temp_tree_put(&t, "sys/fs/cgroup/j/memory.stat", garbage_stat[i]);
		assert_int_equal(source_cgroup.open(&env, &s, NULL), 0);
		assert_int_equal(source_cgroup.read(s, DETAIL, &out), 0);
		check_unknown(&out, M_JOB_CGROUP_ANON);
		source_cgroup.close(s);
		framebuf_done(&out);
	}
	root_done(&root);
	temp_tree_done(&t);
}

/* ---- quotas --------------------------------------------------------------------------------------------------------- */

struct quota_case {
	/* proc/7/cgroup; the file that makes the unified hierarchy, NULL: v1 */
	const char *groups, *controllers;
	const char *file[8], *text[8];
	const char *cpu_path;
	int64_t ppm, periods;
};

#define CPU     "sys/fs/cgroup/cpu/"
#define ALL     "sys/fs/cgroup/"
#define STAT(n) "nr_periods " n "\nnr_throttled 2\nthrottled_time 3000\nthrottled_usec 3\n"

static const struct quota_case quota_cases[] = {
	/* v1: the job's own place in the other hierarchy, independent of its memory's group */
	{ "4:memory:/everybody\n1:cpu:/q\n", NULL,
		{ "sys/fs/cgroup/memory/everybody/memory.usage_in_bytes", CPU "q/cpu.cfs_quota_us",
			CPU "q/cpu.cfs_period_us", CPU "q/cpu.stat" },
		{ "1\n", "20000\n", "100000\n", STAT("7") }, "/q", 200000, 7 },
	/* above it */
	{ "4:memory:/everybody\n1:cpu:/q/below\n", NULL,
		{ "sys/fs/cgroup/memory/everybody/memory.usage_in_bytes", CPU "q/cpu.cfs_quota_us",
			CPU "q/cpu.cfs_period_us", CPU "q/cpu.stat", CPU "q/below/cpu.cfs_quota_us",
			CPU "q/below/cpu.cfs_period_us", CPU "q/below/cpu.stat" },
		{ "1\n", "20000\n", "100000\n", STAT("7"), "-1\n", "100000\n", STAT("0") }, "/q", 200000, 7 },
	/* v2: the smallest of two */
	{ "0::/a/b/c\n", ALL "cgroup.controllers",
		{ ALL "a/cpu.max", ALL "a/cpu.stat", ALL "a/b/cpu.max", ALL "a/b/cpu.stat",
			ALL "a/b/c/cpu.max", ALL "a/b/c/cpu.stat", ALL "a/b/c/memory.current" },
		{ "300000 100000\n", STAT("5"), "50000 100000\n", STAT("6"), "max 100000\n", STAT("8"),
			"1\n" },
		"/a/b", 500000, 6 },
};

static void check_quota(const struct quota_case *c)
{
	struct framebuf out = { 0 };
	struct source *s = NULL;
	struct cgroup_facts facts;
	struct temp_tree t;

	temp_tree_new(&t);
	temp_tree_put(&t, "proc/7/cgroup", c->groups);
	if (c->controllers)
		temp_tree_put(&t, c->controllers, "cpu memory\n");
	for (size_t i = 0; c->file[i]; i++)
		temp_tree_put(&t, c->file[i], c->text[i]);
	struct root root = temp_tree_root(&t);

	assert_int_equal(cgroup_of(&root, 7, &facts), 0);
	assert_string_equal(facts.cpu_path, c->cpu_path);
	check_same(facts.cpu_limit_ppm, known(c->ppm));
	const struct source_env env = {
		.root = &root, .cgroup = facts.path, .cgroup_shared = true, .cgroup_cpu = facts.cpu_path
	};

	assert_int_equal(source_cgroup.open(&env, &s, NULL), 0);
	assert_int_equal(source_cgroup.read(s, QUOTA, &out), 0);
	check_value(&out, M_JOB_CGROUP_PERIODS, 0, c->periods);
	check_value(&out, M_JOB_CGROUP_THROTTLED_PERIODS, 0, 2);
	check_value(&out, M_JOB_CGROUP_THROTTLED, 0, 3000);
	source_cgroup.close(s);
	framebuf_done(&out);
	root_done(&root);
	temp_tree_done(&t);
}

/* All processes of a group are throttled together, so others in it do not matter. */
static void a_quota_is_read_where_it_throttles_the_job(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(quota_cases) / sizeof(quota_cases[0]); i++)
		check_quota(&quota_cases[i]);
}

/* ---- patterns and parsers ------------------------------------------------------------------------------------------ */

#define HEX64 "3f2a9c1d7b60aa55e0c1b2a3948576671829304f5e6d7c8b9aa0b1c2d3e4f506"

static void schedulers_are_recognized_by_their_paths(void **state)
{
	(void) state;
	static const struct {
		const char *path, *scheduler;
	} rows[] = {
		{ "/slurm/uid_1001/job_77/step_0/task_0", "slurm" },
		{ "/slurm_node017/uid_0/job_4/step_batch/task_special", "slurm" },
		{ "/slurm/uid_1001/job_77", "slurm" },
		{ "/system.slice/slurmstepd.scope/job_77/step_extern/user/task_0", "slurm" },
		{ "/system.slice/node018_slurmstepd.scope/job_77/step_0/user/task_0", "slurm" },
		{ "/system.slice/slurmstepd.scope/s01AB23CD45EF6/step_0/user/task_0", "slurm" },
		{ "/system.slice/n1_slurmstepd.scope/sZZZZZZZZZZZZZ/step_batch/slurm", "slurm" },
		{ "/system.slice/slurmstepd.scope/s01AB23CD45EF/step_0", "systemd" },   /* twelve */
		{ "/system.slice/slurmstepd.scope/s01AB23CD45EF67/step_0", "systemd" }, /* fourteen */
		{ "/system.slice/slurmstepd.scope/s01ab23cd45ef6/step_0", "systemd" },
		{ "/system.slice/slurmstepd.scope/system", "systemd" },
		{ "/system.slice/slurmd.service", "systemd" },
		{ "/slurm/uid_x/job_77", "" },
		{ "/slurm/job_77", "" },
		{ "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0d3a_1.slice/cri-containerd-" HEX64
		  ".scope",
			"kubernetes" },
		{ "/kubepods.slice/kubepods-pod0d3a_1.slice/crio-" HEX64 ".scope", "kubernetes" },
		{ "/kubepods/burstable/pod0d3a1f5e/" HEX64, "kubernetes" },
		{ "/kubepods/pod0d3a1f5e/" HEX64, "kubernetes" },
		/* a cluster inside docker */
		{ "/system.slice/docker-" HEX64 ".scope/kubepods/pod1/x", "kubernetes" },
		{ "/docker/" HEX64, "docker" },
		{ "/system.slice/docker-" HEX64 ".scope", "docker" },
		{ "/system.slice/docker.service", "systemd" },
		{ "/docker", "" },
		{ "/docker/short", "" },
		{ "/user.slice/user-0.slice/libpod-" HEX64 ".scope/container", "podman" },
		{ "/libpod_parent/libpod-" HEX64, "podman" },
		{ "/lxc.payload.web/init.scope", "lxc" },
		{ "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt", "qemu" },
		{ "/user.slice/user-1000.slice/session-2.scope", "systemd" },
		{ "/init.scope", "systemd" },
		{ "/", "" },
		{ "", "" },
		{ "//", "" },
		{ "/batch/job9", "" },
		{ "/kubepodsx", "" },
		{ "/xkubepods", "" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(cgroup_scheduler(rows[i].path, strlen(rows[i].path)), rows[i].scheduler) != 0)
			fail_msg("%s: not %s", rows[i].path, rows[i].scheduler);
	}
}

static void lines_of_proc_cgroup(void **state)
{
	(void) state;
	static const char text[] =
		"garbage\n:\n12:memory\n12:memory:relative\nx:memory:/x\n9:cpu,cpuacct:/a:b c\n"
		"5:xmemory,memoryx:/no\n1:name=systemd:/s\n0::/u";
	struct cgroup_line line;

	assert_true(cgroup_line_of(text, CGROUP_CPUACCT, &line));
	assert_int_equal(line.path_len, 6);
	assert_memory_equal(line.path, "/a:b c", 6);
	assert_true(cgroup_line_of(text, CGROUP_CPU, &line));
	assert_false(cgroup_line_of(text, CGROUP_MEMORY, &line));
	assert_true(cgroup_line_of(text, CGROUP_UNIFIED, &line));
	assert_memory_equal(line.path, "/u", 3);
	assert_false(cgroup_line_of("", CGROUP_UNIFIED, &line));
}

static void paths_are_seen_below_the_mount(void **state)
{
	(void) state;
	static const struct {
		const char *root, *path, *below; /* NULL: not available */
	} rows[] = {
		{ "/", "/", "/" },
		{ "/", "/a/b", "/a/b" },
		{ "/docker/x", "/docker/x", "/" },
		{ "/docker/x", "/docker/x/y", "/y" },
		{ "/docker/x", "/docker/xy", NULL },
		{ "/docker/x", "/docker", NULL },
		{ "/docker/x", "/", NULL },
		{ "/", "/../other", NULL },
		{ "/", "/..", NULL },
		{ "/", "/a/../b", NULL },
		{ "/", "/..a/b..", "/..a/b.." },
		{ "/", "/a (deleted)", NULL },
		{ "/", "", NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cgroup_mount mount = { .found = true };
		char below[CGROUP_PATH] = "untouched";

		snprintf(mount.root, sizeof(mount.root), "%s", rows[i].root);
		int r = cgroup_below(&mount, rows[i].path, strlen(rows[i].path), below);

		assert_int_equal(r, rows[i].below ? 0 : -ENOENT);
		assert_string_equal(below, rows[i].below ? rows[i].below : "untouched");
	}
	struct cgroup_mount mount = { .found = true, .root = "/" };
	char path[CGROUP_PATH + 1], below[CGROUP_PATH];

	memset(path, 'a', sizeof(path));
	path[0] = '/';
	assert_int_equal(cgroup_below(&mount, path, CGROUP_PATH, below), -ENAMETOOLONG);
	assert_int_equal(cgroup_below(&mount, path, CGROUP_PATH - 1, below), 0);
	assert_int_equal(strlen(below), CGROUP_PATH - 1);
}

static void mounts_are_recognized_by_type_and_controller(void **state)
{
	(void) state;
	struct cgroup_mounts m;

	cgroup_mounts_parse("", &m);
	assert_int_equal(cgroup_charging(&m), CGROUP_HIERARCHIES);
	cgroup_mounts_parse(
		"1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n2 0 0:2 / /host/cg rw - cgroup2 x rw\n",
		&m);
	assert_int_equal(cgroup_charging(&m), CGROUP_UNIFIED);
	assert_string_equal(m.of[CGROUP_UNIFIED].point, "sys/fs/cgroup"); /* the first */
	cgroup_mounts_parse(
		"1 0 0:1 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		"2 0 0:2 /x /m rw - cgroup cgroup rw,memory\n3 0 0:3 / /s rw - cgroup cgroup rw,name=memory\n",
		&m);
	assert_int_equal(cgroup_charging(&m), CGROUP_MEMORY);
	assert_string_equal(m.of[CGROUP_MEMORY].root, "/x");
	assert_false(m.of[CGROUP_CPU].found);
}

static void limits(void **state)
{
	(void) state;
	check_same(cgroup_limit_parse("max\n", true), UNKNOWN);
	check_same(cgroup_limit_parse("1073741824\n", true), known(1073741824));
	check_same(cgroup_limit_parse("0\n", true), known(0));
	check_same(cgroup_limit_parse("9223372036854771712\n", false), UNKNOWN);
	check_same(cgroup_limit_parse("9223372036854710272\n", false), UNKNOWN); /* 64 KiB pages */
	check_same(cgroup_limit_parse("1 2\n", true), UNKNOWN);
	check_same(cgroup_limit_parse("", false), UNKNOWN);
	check_same(cgroup_cpu_max_parse("max 100000\n"), UNKNOWN);
	check_same(cgroup_cpu_max_parse("150000 100000\n"), known(1500000));
	check_same(cgroup_cpu_max_parse("33333 100000\n"), known(333330));
	check_same(cgroup_cpu_max_parse("150000 0\n"), UNKNOWN);
	check_same(cgroup_cpu_max_parse("150000\n"), UNKNOWN);
	check_same(cgroup_cpu_max_parse("18446744073709551615 1\n"), UNKNOWN);
}

/* A v1 limit above the machine's memory has no effect. */
static void a_limit_above_the_memory_is_none(void **state)
{
	(void) state;
	static const struct {
		const char *limit;
		struct maybe expected;
	} rows[] = { { "1024\n", { 1024, true } }, { "102399\n", { 102399, true } },
		{ "102400\n", { 0, false } } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct temp_tree t;
		struct cgroup_facts facts;

		temp_tree_new(&t);
		temp_tree_put(&t, "proc/meminfo", "MemTotal: 100 kB\n");
		temp_tree_put(&t, "proc/7/cgroup", "4:memory:/a\n");
		temp_tree_put(&t, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", rows[i].limit);
		struct root root = temp_tree_root(&t);

		assert_int_equal(cgroup_of(&root, 7, &facts), 0);
		check_same(facts.limit_bytes, rows[i].expected);
		root_done(&root);
		temp_tree_done(&t);
	}
}

static void no_path_leads_out(void **state)
{
	(void) state;
	struct root root = tree_open("cgroup-v2");
	pid_t pid;

	assert_int_equal(cgroup_pids(&root, "/..", &pid, 1), -EINVAL);
	assert_int_equal(cgroup_pids(&root, "/user.slice/../../x", &pid, 1), -EINVAL);
	assert_int_equal(cgroup_pids(&root, "user.slice", &pid, 1), -EINVAL);
	assert_int_equal(cgroup_pids(&root, "/gone", &pid, 1), -ENOENT);
	root_done(&root);
}

/* ---- availability -------------------------------------------------------------------------------------------------- */

static void every_cgroup_metric_is_probed(void **state)
{
	(void) state;
	static const char *const trees[] = { "cgroup-v2", "cgroup-v1", "slurm-v2", "no-permission" };

	for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		struct root root = tree_open(trees[i]);
		struct cgroup_facts facts;
		struct probes p = { 0 };

		assert_int_equal(cgroup_of(&root, 4242, &facts), 0);
		struct source_env env = { .root = &root, .cgroup = facts.path };

		source_cgroup.probe(&env, probes_take, &p);
		assert_int_equal(p.n, 13);
		bool all = i < 2;

		assert_true(p.of[M_JOB_CGROUP_PEAK].available == all);
		assert_true(p.of[M_JOB_CGROUP_CPU].available);
		assert_true(p.of[M_JOB_CGROUP_KERNEL].available == all);
		if (i == 2) /* Linux 5.14 */
			assert_string_equal(p.of[M_JOB_CGROUP_PEAK].remedy, "Linux 5.19 or newer");
		if (i == 3)
			assert_string_equal(p.of[M_JOB_CGROUP_MEM].why_not, "the file cannot be read");
		memset(&p, 0, sizeof(p));
		env.cgroup = NULL;
		source_cgroup.probe(&env, probes_take, &p);
		assert_int_equal(p.n, 13);
		assert_non_null(strstr(p.of[M_JOB_CGROUP_MEM].remedy, "--cgroup=new"));
		root_done(&root);
	}
}

/* ---- a group named by the user ---------------------------------------------------------------------------------------- */

static void a_group_is_found_by_either_path(void **state)
{
	static const char *const paths[] = {
		"/batch/job9",
		"/batch/job9//",
		"/sys/fs/cgroup/memory/batch/job9",
		"/sys/fs/cgroup/memory/batch/job9/",
	};
	struct root root = tree_open("cgroup-v1");
	struct cgroup_facts facts;
	pid_t pids[4];

	(void) state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		assert_int_equal(cgroup_at(&root, paths[i], &facts), 0);
		assert_string_equal(facts.path, "/batch/job9");
		assert_false(facts.v2);
		assert_int_equal(facts.limit_bytes.value, 4294967296);
		assert_int_equal(cgroup_pids(&root, paths[i], pids, 4), 3);
	}
	assert_int_equal(cgroup_at(&root, "batch/job9", &facts), -EINVAL);
	assert_int_equal(cgroup_at(&root, "/batch/../batch", &facts), -EINVAL);
	assert_int_equal(cgroup_at(&root, "/sys/fs/cgroup/memoryx", &facts), -ENOENT);
	assert_int_equal(cgroup_at(&root, "/sys/fs/cgroup/memory", &facts), 0);
	assert_string_equal(facts.path, "/");
	root_done(&root);
}

/* ---- processes that may still be started ------------------------------------------------------------------------------- */

static void the_closest_limit_of_processes_counts(void **state)
{
	static const struct {
		const char *group, *a, *b, *used_a, *used_b;
		int64_t left;
	} rows[] = {
		{ "0::/a/b\n", "100\n", "max\n", "90\n", "3\n", 10 },
		{ "0::/a/b\n", "100\n", "8\n", "90\n", "3\n", 5 },
		{ "0::/a/b\n", "100\n", "8\n", "90\n", "9\n", 0 },
		{ "0::/a/b\n", "max\n", "max\n", "90\n", "3\n", INT64_MAX },
		{ "4:pids:/a/b\n0::/\n", "20\n", "max\n", "8\n", "3\n", 12 },
		{ "0::/elsewhere\n", "20\n", "max\n", "8\n", "3\n", INT64_MAX },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *at = rows[i].group[0] == '0' ? "sys/fs/cgroup" : "sys/fs/cgroup/pids";
		const char *const files[] = { "a/pids.max", "a/b/pids.max", "a/pids.current", "a/b/pids.current" };
		const char *const texts[] = { rows[i].a, rows[i].b, rows[i].used_a, rows[i].used_b };
		struct temp_tree t;
		char file[80];

		temp_tree_new(&t);
		temp_tree_put(&t, "proc/self/cgroup", rows[i].group);
		temp_tree_put(&t, "sys/fs/cgroup/cgroup.controllers", "");
		for (size_t k = 0; k < sizeof(files) / sizeof(files[0]); k++) {
			(void) snprintf(file, sizeof(file), "%s/%s", at, files[k]);
			temp_tree_put(&t, file, texts[k]);
		}
		struct root root = temp_tree_root(&t);

		assert_int_equal(cgroup_processes_left(&root), rows[i].left);
		root_done(&root);
		temp_tree_done(&t);
	}
}

/* ---- counts from before the job --------------------------------------------------------------------------------------- */

static void counters_from_before_the_job(void **state)
{
	static const struct {
		const char *group, *file, *text;
		struct maybe cgroup;
	} rows[] = {
		{ "4:memory:/a/b\n", "sys/fs/cgroup/memory/a/b/memory.oom_control",
			"under_oom 0\noom_kill 6\n", K(6) },
		{ "4:memory:/a/b\n", "sys/fs/cgroup/memory/a/b/memory.oom_control", "under_oom 0\n", NONE },
		{ "4:memory:/a/b\n", "sys/fs/cgroup/memory/a/b/else", "", NONE },
		{ "0::/a/b\n", "sys/fs/cgroup/a/b/memory.events",
			"max 3\noom 2\noom_kill 7\noom_group_kill 1\n", K(7) },
		{ "0::/a/b\n", "sys/fs/cgroup/a/b/memory.events.local", "oom_kill 8\n", K(8) },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct counters_before_fork counts;
		struct temp_tree t;
		bool v2 = rows[i].group[0] == '0';

		temp_tree_new(&t);
		temp_tree_put(&t, "proc/self/cgroup", rows[i].group);
		temp_tree_put(&t, "proc/vmstat",
			"pgfault 3\nthp_fault_alloc 4\nthp_collapse_alloc 1\noom_kill 9\n");
		temp_tree_put(&t, v2 ? "sys/fs/cgroup/cgroup.controllers" : "sys/fs/cgroup/memory/x", "");
		temp_tree_put(&t, rows[i].file, rows[i].text);
		struct root root = temp_tree_root(&t);

		counters_before_fork_read(&root, false, &counts);
		assert_int_equal(counts.oom_kills.value, 9);
		assert_int_equal(counts.thp_faults.value, 5);
		assert_int_equal(counts.cgroup_oom_kills.known, rows[i].cgroup.known);
		assert_int_equal(counts.cgroup_oom_kills.value, rows[i].cgroup.value);
		assert_string_equal(counts.path, "/a/b");
		counters_before_fork_read(&root, true, &counts);
		assert_true(counts.oom_kills.known && !counts.cgroup_oom_kills.known);
		assert_string_equal(counts.path, "");
		root_done(&root);
		temp_tree_done(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_group_is_found_by_either_path),
		cmocka_unit_test(the_closest_limit_of_processes_counts),
		cmocka_unit_test(counters_from_before_the_job),
		cmocka_unit_test(captured_groups_give_the_same_values),
		cmocka_unit_test(a_folder_without_cgroups_has_none),
		cmocka_unit_test(the_group_with_the_limit_is_read),
		cmocka_unit_test(a_group_that_fills_is_read_out_of_turn),
		cmocka_unit_test(a_mark_from_before_counts_once_it_rises),
		cmocka_unit_test(garbage_is_unknown),
		cmocka_unit_test(a_quota_is_read_where_it_throttles_the_job),
		cmocka_unit_test(schedulers_are_recognized_by_their_paths),
		cmocka_unit_test(lines_of_proc_cgroup),
		cmocka_unit_test(paths_are_seen_below_the_mount),
		cmocka_unit_test(mounts_are_recognized_by_type_and_controller),
		cmocka_unit_test(limits),
		cmocka_unit_test(a_limit_above_the_memory_is_none),
		cmocka_unit_test(no_path_leads_out),
		cmocka_unit_test(every_cgroup_metric_is_probed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
