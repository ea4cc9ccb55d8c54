/* SPDX-License-Identifier: MIT */
#include "tree_helper.h"

#include <dirent.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "source/host/folders.h"
#include "source/host/mountinfo.h"
#include "source/host/parse.h"

enum {
	FAST = 1,
	SLOW = 2 | 4
}; /* with pages */

/* Expected times are counted in clock ticks of 10 ms, as x86 and all common machines have them. */
#define TICK INT64_C(10000000)

struct expected {
	enum metric metric;
	bool known;
	int64_t value;
};

static struct source *open_host(const struct root *root, const char *workdir)
{
	struct source_env env = { .root = root, .workdir = workdir };
	struct source *s = NULL;

	assert_int_equal(source_host.open(&env, &s, NULL), 0);
	return s;
}

static void expect_all(const struct framebuf *out, const struct expected *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i].known)
			check_value(out, list[i].metric, 0, list[i].value);
		else
			check_unknown(out, list[i].metric);
	}
}

#define EXPECT_ALL(out, list) expect_all(out, list, sizeof(list) / sizeof((list)[0]))

static void a_workstation_is_read_to_the_last_number(void **state)
{
	(void) state;
	int64_t page = sysconf(_SC_PAGESIZE);
	const struct expected list[] = {
		{ M_HOST_MEM_USED, true, INT64_C(4096000) * 1024 },
		{ M_HOST_MEM_AVAILABLE, true, INT64_C(12288000) * 1024 },
		{ M_HOST_SWAP_USED, true, 1024 * 1024 },
		{ M_HOST_CPU_USER, true, (16000 + 220) * TICK },
		{ M_HOST_CPU_SYSTEM, true, (2800 + 60 + 140) * TICK },
		{ M_HOST_CPU_IDLE, true, 360000 * TICK },
		{ M_HOST_CPU_IOWAIT, true, 340 * TICK },
		{ M_HOST_CPU_STEAL, true, 56 * TICK },
		{ M_HOST_LOAD1, true, 1250000 },
		{ M_HOST_DISK_READ, true, (2000 + 30 + 500 + 1) * 512 }, /* nvme0n1, nvme0n10, sda, sdb */
		{ M_HOST_DISK_WRITE, true, (1000 + 40 + 700 + 2) * 512 },
		{ M_HOST_NET_RX, true, 46246738 + 262 },
		{ M_HOST_NET_TX, true, 85354 + 146 },
		{ M_HOST_PSI_CPU, true, INT64_C(2000001000) },
		{ M_HOST_PSI_MEM, true, 3000000 },
		{ M_HOST_PSI_MEM_FULL, true, 1500000 },
		{ M_HOST_PSI_IO, true, 777000000 },
		{ M_HOST_SWAP_IN, true, 7 * page },
		{ M_HOST_SWAP_OUT, true, 11 * page },
		{ M_HOST_OOM_KILLS, true, 4 },
		{ M_HOST_THP_FAULTS, true, 150 },
		{ M_HOST_DISK_FREE, false, 0 }, /* statvfs would report this machine */
		{ M_HOST_SHM, false, 0 },
	};
	struct root root = tree_open("cgroup-v2");
	struct source *s = open_host(&root, "/home/user");
	struct framebuf out = { 0 };

	assert_int_equal(source_host.read(s, FAST | SLOW, &out), 0);
	EXPECT_ALL(&out, list);
	check_value(&out, M_HOST_CPU_USER, 1 + 7, (9000 + 80) * TICK);
	check_value(&out, M_HOST_CPU_SYSTEM, 1 + 0, (300 + 5 + 15) * TICK);
	check_value(&out, M_HOST_CPU_IDLE, 1 + 3, 50000 * TICK);
	assert_null(find_reading(&out, M_HOST_CPU_IDLE, 1 + 8));
	assert_null(find_reading(&out, M_HOST_CORE_BUSIEST, 0)); /* a single read gives no
	                                                          * difference */
	source_host.close(s);
	framebuf_done(&out);
	root_done(&root);
}

static void the_fast_group_is_memory_alone(void **state)
{
	(void) state;
	struct root root = tree_open("cgroup-v2");
	struct source *s = open_host(&root, NULL);
	struct framebuf out = { 0 };

	assert_int_equal(source_host.groups[0].period_ns, 500000000);
	assert_int_equal(source_host.groups[1].period_ns, 1000000000);
	assert_int_equal(source_host.read(s, FAST, &out), 0);
	assert_int_equal(out.n_readings, 4);
	source_host.close(s);
	framebuf_done(&out);
	root_done(&root);
}

static void wsl_has_no_pressure_and_no_disk_twice(void **state)
{
	(void) state;
	const struct expected list[] = {
		{ M_HOST_MEM_USED, true, INT64_C(1000000) * 1024 },
		{ M_HOST_SWAP_USED, true, 0 },
		{ M_HOST_DISK_READ, true, 2010 * 512 },
		{ M_HOST_DISK_WRITE, true, 3000 * 512 },
		{ M_HOST_NET_RX, true, 70 },
		{ M_HOST_THP_FAULTS, true, 5 },
		{ M_HOST_PSI_CPU, false, 0 },
		{ M_HOST_PSI_MEM, false, 0 },
		{ M_HOST_PSI_MEM_FULL, false, 0 },
		{ M_HOST_PSI_IO, false, 0 },
		{ M_HOST_OOM_KILLS, false, 0 },
	};
	struct root root = tree_open("wsl");
	struct source *s = open_host(&root, NULL);
	struct framebuf out = { 0 };

	assert_int_equal(source_host.read(s, FAST | SLOW, &out), 0);
	EXPECT_ALL(&out, list);
	source_host.close(s);
	framebuf_done(&out);
	root_done(&root);
}

static void unreadable_files_are_reported_once(void **state)
{
	(void) state;
	struct root root = tree_open("no-permission");
	struct source *s = open_host(&root, NULL);
	struct framebuf out = { 0 };
	size_t unknown = 0;

	assert_int_equal(source_host.read(s, FAST | SLOW, &out), 0);
	for (size_t i = 0; i < out.n_readings; i++)
		unknown += !out.readings[i].known;
	assert_int_equal(unknown, 21);
	assert_int_equal(out.n_readings, 21 + 4);
	check_value(&out, M_HOST_MEM_USED, 0, INT64_C(4096000) * 1024);
	framebuf_clear(&out);
	assert_int_equal(source_host.read(s, FAST | SLOW, &out), 0);
	assert_int_equal(out.n_readings, 4);
	source_host.close(s);
	framebuf_done(&out);
	root_done(&root);
}

static void a_machine_without_procfs_is_an_error_with_text(void **state)
{
	(void) state;
	struct temp_tree t;
	struct err err = { "" };
	struct source *s = NULL;

	temp_tree_new(&t);
	struct root root = temp_tree_root(&t);
	struct source_env env = { .root = &root };

	assert_true(source_host.open(&env, &s, &err) < 0);
	assert_null(s);
	assert_true(strlen(err.text) > 0);
	root_done(&root);
	temp_tree_done(&t);
}

static void the_busiest_core_is_a_difference(void **state)
{
	(void) state;
	struct temp_tree t;
	struct framebuf out = { 0 };

	temp_tree_new(&t);
	temp_tree_put(&t, "proc/stat",
		"cpu  200 0 0 200 0 0 0 0 0 0\n"
		"cpu0 100 0 0 100 0 0 0 0 0 0\ncpu1 100 0 0 100 50 0 0 0 0 0\nintr 1\n");
	struct root root = temp_tree_root(&t);
	struct source *s = open_host(&root, NULL);

	assert_int_equal(source_host.read(s, SLOW, &out), 0);
	assert_null(find_reading(&out, M_HOST_CORE_BUSIEST, 0));
	framebuf_clear(&out);
	/* core 0: 10 of 100 ticks busy; core 1: 75 of 100, its iowait falls; core 9 comes online */
	temp_tree_put(&t, "proc/stat", "cpu  285 0 0 315 0 0 0 0 0 0\ncpu0 105 2 1 190 0 1 1 0 0 0\n"
				       "cpu1 170 0 5 120 40 0 0 5 0 0\ncpu9 100 0 0 0 0 0 0 0 0 0\nintr 1\n");
	assert_int_equal(source_host.read(s, SLOW, &out), 0);
	check_value(&out, M_HOST_CORE_BUSIEST, 0, 750000);
	framebuf_clear(&out);
	/* no time passed, so there is no share */
	assert_int_equal(source_host.read(s, SLOW, &out), 0);
	assert_null(find_reading(&out, M_HOST_CORE_BUSIEST, 0));
	framebuf_clear(&out);
	temp_tree_put(&t, "proc/stat", "cpu  285 0 0 315 0 0 0 0 0 0\ncpu9 100 0 0 0 0 0 0 8 0 0\nintr 1\n");
	assert_int_equal(source_host.read(s, SLOW, &out), 0);
	check_value(&out, M_HOST_CORE_BUSIEST, 0, 0); /* all of its time was stolen */
	source_host.close(s);
	framebuf_done(&out);
	root_done(&root);
	temp_tree_done(&t);
}

static void values_that_return_are_reported(void **state)
{
	(void) state;
	struct temp_tree t;
	struct framebuf out = { 0 };

	temp_tree_new(&t);
	temp_tree_put(&t, "proc/meminfo",
		"MemTotal: 100 kB\nMemAvailable: 60 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
	struct root root = temp_tree_root(&t);
	struct source *s = open_host(&root, NULL);

	temp_tree_put(&t, "proc/meminfo", ""); /* truncated */
	assert_int_equal(source_host.read(s, FAST, &out), 0);
	check_unknown(&out, M_HOST_MEM_USED);
	check_unknown(&out, M_HOST_SWAP_USED);
	framebuf_clear(&out);
	temp_tree_put(&t, "proc/meminfo",
		"MemTotal: many kB\n\xff\xfe: 12\nMemAvailable: 99999999999999999999 kB\n");
	assert_int_equal(source_host.read(s, FAST, &out), 0);
	assert_int_equal(out.n_readings, 0);
	temp_tree_put(&t, "proc/meminfo",
		"MemTotal: 100 kB\nMemAvailable: 60 kB\nSwapTotal: 8 kB\nSwapFree: 5 kB\n");
	assert_int_equal(source_host.read(s, FAST, &out), 0);
	check_value(&out, M_HOST_MEM_USED, 0, 40 * 1024);
	check_value(&out, M_HOST_SWAP_USED, 0, 3 * 1024);
	source_host.close(s);
	framebuf_done(&out);
	root_done(&root);
	temp_tree_done(&t);
}

static void a_torn_cpu_line_is_no_line(void **state)
{
	(void) state;
	const char *p = "cpu  1 2 3 4 5 6 7 8\ncpu1 10 20 30 4";
	struct cpu_line line = { .core = 99 };

	assert_true(cpu_line_next(&p, &line));
	assert_int_equal(line.core, -1);
	assert_int_equal(line.steal, 8);
	assert_false(cpu_line_next(&p, &line));
	assert_int_equal(line.core, -1);
	static const char *const bad[] = {
		"",
		"cpu",
		"cpu\n",
		"cpu 1 2 3\n",
		"cpux 1 2 3 4\n",
		"cpu99999999999999999999 1 2 3 4\n",
		"cpu70000 1 2 3 4\n",
		"cpu1",
		"intr 1\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		p = bad[i];
		assert_false(cpu_line_next(&p, &line));
		assert_ptr_equal(p, bad[i]);
	}
	p = "cpu0 1 2 3 4\n"; /* the oldest kernels */
	assert_true(cpu_line_next(&p, &line));
	assert_int_equal(line.idle, 4);
	assert_int_equal(line.iowait, 0);
}

static void a_sum_is_whole_or_unknown(void **state)
{
	(void) state;
	struct traffic t;
	static const char disks[] =
		"   8       0 sda 1 1 100 1 1 1 200 1 0 3 7\n   8      16 sdb 1 1 10 1 1 1 20 1 0 3 7\n";
	static const char *const bad_disks[] = {
		"",
		"\n",
		"   8       0 sda 1 1 100 1 1 1 200 1 0 3 7\n   8      16 sdb 1 1 10 1\n",
		"8 0 sda 1 1 99999999999999999999 1 1 1 200 1\n",
		"8 0 sda 1 1 36893488147419103 1 1 1 200 1 1\n",
		"   7       0 loop0 1 1 100 1 1 1 200 1 0 3 7\n",
		"8 0\n",
		"8 0 sda",
	};

	diskstats_parse(disks, &t);
	assert_true(t.in.known && t.out.known);
	assert_int_equal(t.in.value, 110 * 512);
	assert_int_equal(t.out.value, 220 * 512);
	for (size_t i = 0; i < sizeof(bad_disks) / sizeof(bad_disks[0]); i++) {
		diskstats_parse(bad_disks[i], &t);
		assert_false(t.in.known);
	}
	static const char *const bad_net[] = { "", "a\n", "a\nb\n", "a\nb\neth0: 1 2 3 4\n", "a\nb\neth0 1\n",
		"a\nb\n: 1\n" };

	for (size_t i = 0; i < sizeof(bad_net) / sizeof(bad_net[0]); i++) {
		net_dev_parse(bad_net[i], &t);
		assert_false(t.in.known || t.out.known);
	}
	/* a namespace of its own, nothing in it */
	net_dev_parse("a\nb\n    lo: 5 1 0 0 0 0 0 0 5 1 0\n", &t);
	assert_true(t.in.known && t.in.value == 0);
	net_dev_parse("a\nb\nlong_name0:5 1 0 0 0 0 0 0 6 1 0\n", &t); /* no blank behind the colon */
	assert_true(t.in.value == 5 && t.out.value == 6);
}

static void partitions_are_recognized_by_their_disks(void **state)
{
	(void) state;
	struct traffic t;

	diskstats_parse(
		"179 0 mmcblk0 1 1 7 1 1 1 0 1\n179 1 mmcblk0p1 1 1 6 1 1 1 0 1\n179 8 mmcblk0boot0 1 1 1 1 1 1 0 1\n"
		"202 1 xvda1 1 1 1000 1 1 1 0 1\n8 0 sda 1 1 100 1 1 1 0 1\n8 1 sda15 1 1 50 1 1 1 0 1\n"
		"65 160 sdaa 1 1 10000 1 1 1 0 1\n11 0 sr0 1 1 100000 1 1 1 0 1\n",
		&t);
	assert_int_equal(t.in.value, (7 + 1 + 1000 + 100 + 10000 + 100000) * 512);
}

static void pressure_needs_its_line(void **state)
{
	(void) state;
	struct pressure p;

	pressure_parse("some avg10=0.00 avg60=0.00 avg300=0.00\nfull avg10=0.00 total=4\n", &p);
	assert_false(p.some_ns.known); /* not the next line's */
	assert_true(p.full_ns.known && p.full_ns.value == 4000);
	pressure_parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=12", &p);
	assert_false(p.some_ns.known || p.full_ns.known); /* torn */
	pressure_parse("something total=4\n", &p);
	assert_false(p.some_ns.known);
}

/* ---- the folder in which the job works ----------------------------------------------------------------------------- */

static void the_file_system_is_that_of_the_longest_mount(void **state)
{
	(void) state;
	autofclose FILE *f = fopen(TESTS_DIR "/trees/cgroup-v2/proc/self/mountinfo", "r");
	char text[4096];

	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	static const struct {
		const char *path, *type;
	} rows[] = {
		{ "/", "ext4" },
		{ "/homes", "ext4" },
		{ "/home", "nfs4" },
		{ "/home/user", "nfs4" },
		{ "/proc/1", "proc" },
		{ "/home/user/my disk", "xfs" },
		{ "/sys/fs", "sysfs" },
		{ "/sys/fs/cgroup/x", "cgroup2" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct mount mount;

		assert_true(mountinfo_type_at(text, rows[i].path, &mount));
		assert_string_equal(mount.type, rows[i].type);
	}
}

static void lines_that_are_none_are_passed_over(void **state)
{
	(void) state;
	const char *p =
		"garbage\n36 35 98:0 / /a rw - ext3\n36 35 98:0 /r\\040t /b\\134c rw shared:1 master:2 - ext3 none rw,x\n"
		"36 35 98:0 / /c rw shared:1\n\\\n36 35";
	struct mount mount;

	assert_true(mountinfo_next(&p, &mount));
	assert_string_equal(mount.root, "/r t");
	assert_string_equal(mount.point, "/b\\c");
	assert_string_equal(mount.type, "ext3");
	assert_true(mount_has_option(&mount, "rw") && mount_has_option(&mount, "x"));
	assert_false(mount_has_option(&mount, "r"));
	assert_false(mountinfo_next(&p, &mount));
}

static int mount_tmpfs(const char *folder)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	return mount("none", folder, "tmpfs", 0, "size=64k");
}

static bool is_mounted(const struct root *root, const char *folder)
{
	const char *text = mountinfo_text(root);
	struct mount mount;

	return text && mountinfo_type_at(text, folder, &mount) && strcmp(mount.point, folder) == 0;
}

enum {
	UNSEEN = 255
};

/* In a mount namespace of its own, gone with the child. Returns 0 if the cached list shows mounts
 * that come and go, errno if nothing can be mounted, or UNSEEN. */
static int mount_and_look(const char *folder)
{
	struct root root;

	if (unshare(CLONE_NEWNS) < 0)
		return errno;
	if (root_open("/", &root, NULL) < 0 || is_mounted(&root, folder) ||
		mountinfo_text(&root) != mountinfo_text(&root))
		return UNSEEN;
	if (mount_tmpfs(folder) < 0)
		return errno;
	if (!is_mounted(&root, folder) || umount(folder) < 0 || is_mounted(&root, folder))
		return UNSEEN;
	root_done(&root);
	return 0;
}

static void a_mount_that_comes_and_goes_is_seen(void **state)
{
	struct temp_tree t;
	int status;

	(void) state;
	temp_tree_new(&t);
	pid_t child = fork();

	if (child == 0)
		_exit(mount_and_look(t.path));
	assert_int_equal(waitpid(child, &status, 0), child);
	temp_tree_done(&t);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != UNSEEN);
	if (WEXITSTATUS(status)) {
		print_message("no tmpfs can be mounted here: %s\n", strerror(WEXITSTATUS(status)));
		skip();
	}
}

static void free_space_is_that_of_the_folder(void **state)
{
	(void) state;
	struct root root;
	struct statvfs st;
	struct framebuf out = { 0 };

	assert_int_equal(root_open("/", &root, NULL), 0);
	assert_int_equal(statvfs("/dev/shm", &st), 0);
	struct source *s = open_host(&root, "/dev/shm");

	assert_int_equal(source_host.read(s, SLOW, &out), 0);
	const struct reading *r = find_reading(&out, M_HOST_DISK_FREE, 0);

	assert_true(r && r->known && r->value > 0);
	assert_true((uint64_t) r->value <= st.f_blocks * st.f_frsize);
	r = find_reading(&out, M_HOST_SHM, 0);
	assert_true(r && r->known);
	assert_in_range(r->value, 0, 1000000);
	source_host.close(s);
	framebuf_done(&out);
	root_done(&root);
}

/* It reports 0 bytes of 0: nothing is full. */
static void a_file_system_without_a_size_has_no_free_space(void **state)
{
	(void) state;
	const int fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_false(folder_free(fd).known);
	assert_int_equal(close(fd), 0);
}

static void a_network_file_system_is_not_asked(void **state)
{
	(void) state;
	struct temp_tree t;
	struct framebuf out = { 0 };
	struct probes probes = { 0 };
	char line[256];

	temp_tree_new(&t);
	snprintf(line, sizeof(line),
		"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / %s rw - nfs4 server:/x rw\n", t.path);
	temp_tree_put(&t, "proc/self/mountinfo", line);
	temp_tree_put(&t, "proc/loadavg", "0.10 0.00 0.00 1/1 1\n");
	struct root root = temp_tree_root(&t);

	root.live = true;
	struct source_env env = { .root = &root, .workdir = t.path };
	struct source *s = open_host(&root, t.path);

	assert_int_equal(source_host.read(s, SLOW, &out), 0);
	check_unknown(&out, M_HOST_DISK_FREE);
	check_value(&out, M_HOST_LOAD1, 0, 100000);
	source_host.probe(&env, probes_take, &probes);
	assert_non_null(strstr(probes.of[M_HOST_DISK_FREE].why_not, "network"));
	source_host.close(s);
	framebuf_done(&out);
	root_done(&root);
	temp_tree_done(&t);
}

/* ---- the real machine ---------------------------------------------------------------------------------------------- */

static void this_machine_adds_up(void **state)
{
	(void) state;
	struct root root;
	struct framebuf out = { 0 };

	assert_int_equal(root_open("/", &root, NULL), 0);
	struct source *s = open_host(&root, "/");

	assert_int_equal(source_host.read(s, FAST | SLOW, &out), 0);
	const struct reading *used = find_reading(&out, M_HOST_MEM_USED, 0);
	const struct reading *available = find_reading(&out, M_HOST_MEM_AVAILABLE, 0);

	assert_true(used && available && used->known && available->known);
	/* sysinfo(2) has the same total: both are from one read of meminfo */
	assert_int_equal(used->value + available->value, sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
	source_host.close(s);
	framebuf_done(&out);
	root_done(&root);
}

static unsigned open_calls;

/* Replaces libc's for the whole program: counts, then does the same. */
int openat(int dirfd, const char *path, int flags, ...)
{
	va_list ap;

	va_start(ap, flags);
	int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;

	va_end(ap);
	open_calls++;
	return (int) syscall(SYS_openat, dirfd, path, flags | O_LARGEFILE, mode);
}

static void a_steady_read_opens_and_keeps_nothing(void **state)
{
	(void) state;
	struct root root;
	struct framebuf out = { 0 };

	assert_int_equal(root_open("/", &root, NULL), 0);
	open_calls = 0;
	struct source *s = open_host(&root, "/");

	assert_true(open_calls > 0); /* checks that opens are counted */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(source_host.read(s, FAST | SLOW, &out), 0);
		framebuf_clear(&out);
	}
	size_t before = mallinfo2().uordblks;

	open_calls = 0;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(source_host.read(s, FAST | SLOW, &out), 0);
		framebuf_clear(&out);
	}
	assert_int_equal(open_calls, 0);
	assert_int_equal(mallinfo2().uordblks, before);
	source_host.close(s);
	framebuf_done(&out);
	root_done(&root);
}

/* ---- availability -------------------------------------------------------------------------------------------------- */

static struct probes probe_tree(const char *name)
{
	struct root root = tree_open(name);
	struct source_env env = { .root = &root };
	struct probes probes = { 0 };

	source_host.probe(&env, probes_take, &probes);
	root_done(&root);
	return probes;
}

static void every_host_metric_is_probed(void **state)
{
	(void) state;
	struct probes p = probe_tree("cgroup-v2");

	for (int m = 0; m < METRIC_COUNT; m++) {
		bool ours = metrics[m].entity == ENTITY_HOST && m != M_HOST_ENERGY &&
			    (m < M_HOST_FABRIC_RX || m > M_HOST_FABRIC_BUSIEST);

		assert_true(p.told[m] == ours);
		if (ours && p.of[m].available != (m != M_HOST_DISK_FREE && m != M_HOST_SHM))
			fail_msg("%s: %s", metrics[m].name, p.of[m].why_not);
	}
}

static void missing_metrics_have_a_reason_and_a_remedy(void **state)
{
	(void) state;
	struct probes wsl = probe_tree("wsl"), masked = probe_tree("no-permission");

	assert_false(wsl.of[M_HOST_PSI_MEM].available);
	assert_non_null(strstr(wsl.of[M_HOST_PSI_MEM].remedy, "psi=1"));
	assert_true(wsl.of[M_HOST_DISK_READ].available);
	assert_true(masked.of[M_HOST_MEM_USED].available);
	assert_false(masked.of[M_HOST_CPU_USER].available);
	assert_false(masked.of[M_HOST_CORE_BUSIEST].available);
	assert_string_equal(masked.of[M_HOST_CPU_USER].why_not, "the file cannot be read");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_workstation_is_read_to_the_last_number),
		cmocka_unit_test(the_fast_group_is_memory_alone),
		cmocka_unit_test(wsl_has_no_pressure_and_no_disk_twice),
		cmocka_unit_test(unreadable_files_are_reported_once),
		cmocka_unit_test(a_machine_without_procfs_is_an_error_with_text),
		cmocka_unit_test(the_busiest_core_is_a_difference),
		cmocka_unit_test(values_that_return_are_reported),
		cmocka_unit_test(a_torn_cpu_line_is_no_line),
		cmocka_unit_test(a_sum_is_whole_or_unknown),
		cmocka_unit_test(partitions_are_recognized_by_their_disks),
		cmocka_unit_test(pressure_needs_its_line),
		cmocka_unit_test(the_file_system_is_that_of_the_longest_mount),
		cmocka_unit_test(lines_that_are_none_are_passed_over),
		cmocka_unit_test(a_mount_that_comes_and_goes_is_seen),
		cmocka_unit_test(free_space_is_that_of_the_folder),
		cmocka_unit_test(a_network_file_system_is_not_asked),
		cmocka_unit_test(a_file_system_without_a_size_has_no_free_space),
		cmocka_unit_test(this_machine_adds_up),
		cmocka_unit_test(a_steady_read_opens_and_keeps_nothing),
		cmocka_unit_test(every_host_metric_is_probed),
		cmocka_unit_test(missing_metrics_have_a_reason_and_a_remedy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
