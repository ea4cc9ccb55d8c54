/* SPDX-License-Identifier: MIT */
#include "base/smallfile.h"
#include "tree_helper.h"

#include <sched.h>

enum {
	KIB = 1024,
	MIB = 1024 * 1024,
	PAGE = 4096
};

struct expected {
	const char *tree, *hostname, *kernel, *cpu_model, *container;
	uint32_t cpus, cpus_online;
	uint64_t huge, fault, mem_kib, swap_kib;
	uint64_t rss_error, hwm_error; /* pages */
	bool per_thread;
};

/* Errors: 64 pages per thread before Linux 6.2; else 3 counters x (batch - 1) x CPUs, batch =
 * max(32, 2 x CPUs), until 6.17 for rss. */
static const struct expected machines[] = {
	{ "cgroup-v2", "workstation", "6.12.9-200.fc41.x86_64", "Intel(R) Core(TM) i7-10700 CPU @ 2.90GHz",
		"", 8, 8, 2 * MIB, 64 * KIB, 16384000, 8192000, 3 * 31 * 8, 3 * 31 * 8, false },
	{ "cgroup-v1", "oldnode", "4.18.0-553.el8_10.x86_64", "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", "",
		3, 4, 2 * MIB, PAGE, 32768000, 0, 64, 64, true },
	{ "hybrid", "vm", "6.18.44", "AMD EPYC", "", 2, 2, 2 * MIB, PAGE, 24684084, 0, 0, 3 * 31 * 2, false },
	{ "container", "3f2a9c1d7b60", "6.8.0-51-generic", "AMD Ryzen 9 7950X 16-Core Processor", "docker", 4,
		32, 2 * MIB, PAGE, 65536000, 2048000, 3 * 63 * 32, 3 * 63 * 32, false },
	{ "no-permission", "", "", "", "", 0, 0, 0, PAGE, 8192000, 0, 0, 0, false },
	{ "wsl", "DESKTOP", "5.15.153.1-microsoft-standard-WSL2", "Intel(R) Core(TM) Ultra 7 155H", "wsl", 22,
		22, 2 * MIB, PAGE, 16000000, 4194304, 64, 64, true },
	{ "slurm-v1", "node017", "4.18.0-477.el8.x86_64", "AMD EPYC 7763 64-Core Processor", "", 16, 128,
		2 * MIB, PAGE, 527433728, 0, 64, 64, true },
	{ "slurm-v2", "node018", "5.14.0-427.el9.x86_64", "AMD EPYC 9654 96-Core Processor", "", 8, 192,
		2 * MIB, PAGE, 792000000, 0, 64, 64, true },
	{ "kubernetes", "trainer-0", "5.4.0-1103-aws", "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz",
		"kubernetes", 16, 16, 0, PAGE, 128000000, 0, 64, 64, true },
};

static void check_machine(const struct expected *e)
{
	struct root root = tree_open(e->tree);
	struct machine m;

	print_message("%s\n", e->tree);
	assert_int_equal(machine_read(&root, &m), 0);
	assert_string_equal(m.hostname, e->hostname);
	assert_string_equal(m.kernel, e->kernel);
	assert_string_equal(m.cpu_model, e->cpu_model);
	assert_string_equal(m.container, e->container);
	assert_int_equal(m.cpus, e->cpus);
	assert_int_equal(m.cpus_online, e->cpus_online);
	assert_int_equal(m.huge_page_bytes, e->huge);
	assert_int_equal(m.fault_page_bytes, e->fault);
	assert_int_equal(m.mem_total_bytes, e->mem_kib * KIB);
	assert_int_equal(m.swap_total_bytes, e->swap_kib * KIB);
	assert_int_equal(m.rss_error_bytes, e->rss_error * m.page_bytes);
	assert_int_equal(m.hwm_error_bytes, e->hwm_error * m.page_bytes);
	assert_int_equal(m.rss_error_per_thread, e->per_thread);
	root_done(&root);
}

static void captured_machines_give_the_same_facts(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		check_machine(&machines[i]);
}

/* From the CPU or from the file, it is the kernel's text. */
static void the_model_is_as_in_cpuinfo(void **state)
{
	struct root root;
	struct err err = { "" };
	struct machine m;
	char text[4096];
	const char *at;

	(void) state;
	assert_int_equal(root_open(NULL, &root, &err), 0);
	assert_int_equal(machine_read(&root, &m), 0);
	if (smallfile_read(root.proc, "cpuinfo", text, sizeof(text)) > 0 &&
		(at = strstr(text, "model name\t: "))) {
		at += strlen("model name\t: ");
		assert_int_equal(strlen(m.cpu_model), strcspn(at, "\n"));
		assert_memory_equal(m.cpu_model, at, strlen(m.cpu_model));
	}
	root_done(&root);
}

static struct machine machine_of(const struct temp_tree *t)
{
	struct root root = temp_tree_root(t);
	struct machine m;

	assert_int_equal(machine_read(&root, &m), 0);
	root_done(&root);
	return m;
}

static void the_boot_id_is_hashed(void **state)
{
	(void) state;
	struct root root = tree_open("cgroup-v2");
	struct machine m;

	assert_int_equal(machine_read(&root, &m), 0);
	assert_true(m.boot_id_hash == 0xb8546a9bbc0e68d0); /* FNV-1a of the 36 characters */
	root_done(&root);
}

#define THP "sys/kernel/mm/transparent_hugepage/"

static void a_fault_may_map_the_largest_enabled_page(void **state)
{
	(void) state;
	static const struct {
		const char *top, *small, *pmd;
		uint64_t bytes;
	} rows[] = {
		{ "always madvise [never]", "always inherit madvise [never]",
			"always [inherit] madvise never", 4 * KIB },
		{ "always madvise [never]", "always inherit [madvise] never",
			"always [inherit] madvise never", 64 * KIB },
		{ "always madvise [never]", "[always] inherit madvise never",
			"always inherit madvise [never]", 64 * KIB },
		{ "always madvise [never]", "always inherit madvise [never]",
			"[always] inherit madvise never", 4 * KIB },
		{ "[always] madvise never", "always [inherit] madvise never",
			"always inherit madvise [never]", 64 * KIB },
		{ "always [madvise] never", "always inherit madvise [never]",
			"always [inherit] madvise never", 4 * KIB },
		{ "[always] madvise never", "always [inherit] madvise never",
			"[always] inherit madvise never", 64 * KIB },
		{ "always [madvise] never", NULL, NULL, 4 * KIB }, /* before Linux 6.8 */
		{ "always madvise [never]", NULL, NULL, 4 * KIB },
		{ "", NULL, NULL, 4 * KIB },
		{ "[", "[always", "[]", 4 * KIB },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct temp_tree t;

		temp_tree_new(&t);
		temp_tree_put(&t, THP "hpage_pmd_size", "2097152\n");
		temp_tree_put(&t, THP "enabled", rows[i].top);
		if (rows[i].small) {
			temp_tree_put(&t, THP "hugepages-64kB/enabled", rows[i].small);
			temp_tree_put(&t, THP "hugepages-2048kB/enabled", rows[i].pmd);
			temp_tree_put(&t, THP "hugepages-xkB/enabled", "[always]");
		}
		assert_int_equal(machine_of(&t).fault_page_bytes, rows[i].bytes);
		temp_tree_done(&t);
	}
}

static void a_fault_maps_a_folio_of_a_file_since_6_18(void **state)
{
	static const struct {
		const char *kernel, *huge;
		uint64_t bytes;
	} rows[] = {
		{ "6.17.9-amd64", "2097152\n", 64 * KIB },
		{ "6.18.0", "2097152\n", 2 * MIB },
		{ "7.0.1-cloud", "2097152\n", 2 * MIB },
		{ "6.18.0", NULL, 64 * KIB }, /* built without huge pages: no folios */
		{ "odd", "2097152\n", 64 * KIB },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct temp_tree t;

		temp_tree_new(&t);
		temp_tree_put(&t, "proc/sys/kernel/osrelease", rows[i].kernel);
		if (rows[i].huge)
			temp_tree_put(&t, THP "hpage_pmd_size", rows[i].huge);
		assert_int_equal(machine_of(&t).file_fault_bytes, rows[i].bytes);
		temp_tree_done(&t);
	}
}

static void lists_of_processors_are_counted(void **state)
{
	(void) state;
	static const struct {
		const char *list;
		uint32_t n;
	} rows[] = {
		{ "0\n", 1 },
		{ "0-3\n", 4 },
		{ "0-3,8,10-11\n", 7 },
		{ "", 0 },
		{ "\n", 0 },
		{ "3-1\n", 0 },
		{ "0-\n", 0 },
		{ "x\n", 0 },
		{ "0-99999999999999\n", 0 },
		{ "1,\n", 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct temp_tree t;

		temp_tree_new(&t);
		temp_tree_put(&t, "sys/devices/system/cpu/online", rows[i].list);
		assert_int_equal(machine_of(&t).cpus_online, rows[i].n);
		temp_tree_done(&t);
	}
}

static void releases_decide_the_error(void **state)
{
	(void) state;
	static const struct {
		const char *release;
		uint64_t rss_pages, hwm_pages;
		bool per_thread;
	} rows[] = {
		{ "3.10.0-1160.el7.x86_64\n", 64, 64, true },
		{ "6.1.0-32-amd64\n", 64, 64, true },
		{ "6.2.0\n", 3 * 127 * 64, 3 * 127 * 64, false },
		{ "6.16.12\n", 3 * 127 * 64, 3 * 127 * 64, false },
		{ "6.17\n", 0, 3 * 127 * 64, false },
		{ "7.0.1\n", 0, 3 * 127 * 64, false },
		{ "10.3.0\n", 0, 3 * 127 * 64, false },
		{ "linux\n", 0, 0, false },
		{ "6\n", 0, 0, false },
		{ "6.99999999999999999999\n", 0, 0, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct temp_tree t;

		temp_tree_new(&t);
		temp_tree_put(&t, "proc/sys/kernel/osrelease", rows[i].release);
		temp_tree_put(&t, "sys/devices/system/cpu/online", "0-63\n");
		struct machine m = machine_of(&t);

		assert_int_equal(m.rss_error_bytes, rows[i].rss_pages * m.page_bytes);
		assert_int_equal(m.hwm_error_bytes, rows[i].hwm_pages * m.page_bytes);
		assert_int_equal(m.rss_error_per_thread, rows[i].per_thread);
		temp_tree_done(&t);
	}
}

static void containers_are_recognized_by_their_traces(void **state)
{
	(void) state;
	static const struct {
		const char *file, *text, *container;
	} rows[] = {
		{ ".dockerenv", "", "docker" },
		{ "run/.containerenv", "engine=\"podman\"\n", "podman" },
		{ ".singularity.d/runscript", "", "apptainer" },
		{ "proc/1/cgroup", "4:memory:/lxc/web\n", "lxc" },
		{ "proc/1/cgroup", "0::/machine.slice/libpod-0123456789abcdef.scope\n", "podman" },
		{ "proc/1/cgroup", "12:memory:/kubepods/besteffort/podx/y\n", "kubernetes" },
		{ "proc/1/cgroup", "0::/init.scope\n", "" },
		{ "proc/self/mountinfo", "9 8 0:50 / /proc/meminfo rw - fuse.lxcfs lxcfs rw\n", "lxc" },
		/* a host that runs containers is not one */
		{ "proc/self/mountinfo",
			"9 8 0:50 / /var/lib/kubelet/pods/u/volumes/x rw - tmpfs tmpfs rw\n"
			"9 8 0:50 / /var/lib/docker/containers/u/mounts/shm rw - tmpfs shm rw\n"
			"9 8 0:50 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw\n",
			"" },
		{ "proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft\n", "wsl" },
		{ "proc/1/cgroup", "", "" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct temp_tree t;

		temp_tree_new(&t);
		temp_tree_put(&t, rows[i].file, rows[i].text);
		assert_string_equal(machine_of(&t).container, rows[i].container);
		temp_tree_done(&t);
	}
}

static void the_first_process_may_say_it(void **state)
{
	(void) state;
	struct temp_tree t;
	char path[256];

	temp_tree_new(&t);
	temp_tree_put(&t, "proc/1/environ", "");
	snprintf(path, sizeof(path), "%s/proc/1/environ", t.path);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fwrite("PATH=/bin\0container=lxc\0", 1, 24, f);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(machine_of(&t).container, "lxc");
	temp_tree_put(&t, "proc/1/environ", "acontainer=lxc");
	assert_string_equal(machine_of(&t).container, "");
	temp_tree_done(&t);
}

static void an_empty_folder_is_an_unknown_machine(void **state)
{
	(void) state;
	struct temp_tree t;

	temp_tree_new(&t);
	struct machine m = machine_of(&t);

	assert_string_equal(m.hostname, "");
	assert_int_equal(m.mem_total_bytes, 0);
	assert_int_equal(m.boot_id_hash, 0);
	assert_int_equal(m.rss_error_bytes, 0);
	assert_int_equal(m.fault_page_bytes, m.page_bytes);
	temp_tree_done(&t);
}

static void this_machine_agrees_with_the_system_calls(void **state)
{
	(void) state;
	struct root root;
	struct machine m;
	char name[128] = "";
	cpu_set_t all, one;

	assert_int_equal(root_open("/", &root, NULL), 0);
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	assert_int_equal(machine_read(&root, &m), 0);
	assert_int_equal(gethostname(name, sizeof(name)), 0);
	assert_string_equal(m.hostname, name);
	assert_int_equal(m.cpus, CPU_COUNT(&all));
	assert_int_equal(m.cpus_online, sysconf(_SC_NPROCESSORS_ONLN));
	assert_int_equal(m.mem_total_bytes, sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
	assert_int_equal(m.clock_tick_ns, 1000000000 / sysconf(_SC_CLK_TCK));
	assert_true(m.kernel[0] && m.boot_id_hash);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &all) && CPU_COUNT(&one) == 0)
			CPU_SET(i, &one);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(machine_read(&root, &m), 0);
	assert_int_equal(m.cpus, 1);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	root_done(&root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captured_machines_give_the_same_facts),
		cmocka_unit_test(a_fault_maps_a_folio_of_a_file_since_6_18),
		cmocka_unit_test(the_boot_id_is_hashed),
		cmocka_unit_test(the_model_is_as_in_cpuinfo),
		cmocka_unit_test(a_fault_may_map_the_largest_enabled_page),
		cmocka_unit_test(lists_of_processors_are_counted),
		cmocka_unit_test(releases_decide_the_error),
		cmocka_unit_test(containers_are_recognized_by_their_traces),
		cmocka_unit_test(the_first_process_may_say_it),
		cmocka_unit_test(an_empty_folder_is_an_unknown_machine),
		cmocka_unit_test(this_machine_agrees_with_the_system_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
