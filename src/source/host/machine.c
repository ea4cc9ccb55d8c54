/* SPDX-License-Identifier: MIT
 *
 * Facts of this machine: CPUs, page sizes, accuracy of memory counters, kernel, container.
 */
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/host/fabric.h"
#include "source/host/container.h"
#include "source/source.h"

#define THP "kernel/mm/transparent_hugepage"

/* The first line of a file, "" if there is none. */
static void first_line(int dirfd, const char *path, char *line, size_t size)
{
	if (smallfile_read(dirfd, path, line, size) < 0)
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
}

/* ---- CPUs --------------------------------------------------------------------------------------------------------- */

/* Asks the CPU itself, as the kernel does (arch/x86/kernel/cpu/common.c, get_model_name): from
 * Linux 4.15 to 5.17 opening cpuinfo may take 10 ms until its frequencies are fresh
 * (arch_freq_prepare_all). */
static bool model_from_cpuid(char *model, size_t size)
{
#ifdef __x86_64__
	enum {
		FIRST_LEAF = (int) 0x80000002,
		LEAVES = 3
	};
	unsigned words[LEAVES][4];
	char text[sizeof(words) + 1] = "";
	const char *p = text;

	for (unsigned i = 0; i < LEAVES; i++) {
		if (!__get_cpuid((unsigned) FIRST_LEAF + i, &words[i][0], &words[i][1], &words[i][2],
			    &words[i][3]))
			return false;
	}
	memcpy(text, words, sizeof(words));
	parse_blanks(&p);
	(void) snprintf(model, size, "%s", p);
	for (size_t n = strlen(model); n > 0 && model[n - 1] == ' '; n--)
		model[n - 1] = '\0';
	return model[0] != '\0';
#else
	(void) model;
	(void) size;
	return false;
#endif
}

/* "model name\t: AMD EPYC"; other architectures have other keys (arch/.../cpuinfo), or none. */
static void cpu_model(const struct root *root, char *model, size_t size)
{
	static const char *const keys[] = { "model name", "Model", "cpu model", "Hardware", "uarch", "cpu" };
	char text[4096];

	if ((root->live && model_from_cpuid(model, size)) ||
		smallfile_read(root->proc, "cpuinfo", text, sizeof(text)) < 0)
		return;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *p = text;

		do {
			const char *at = p;
			bool found = parse_word(&at, keys[i]);

			parse_blanks(&at);
			if (!found || *at != ':')
				continue;
			at++;
			parse_blanks(&at);
			snprintf(model, size, "%.*s", (int) strcspn(at, "\n"), at);
			return;
		} while (parse_line(&p));
	}
}

/* "0-3,8" is 5 CPUs; 0 if the text is not such a list. cpuset(7), "List format". */
static uint32_t list_count(const char *p)
{
	uint64_t first, last, count = 0;

	for (;;) {
		if (parse_u64(&p, &first) < 0)
			return 0;
		last = first;
		if (*p == '-' && (p++, parse_u64(&p, &last) < 0))
			return 0;
		if (last < first || last - first >= UINT32_MAX - count)
			return 0;
		count += last - first + 1;
		if (*p++ != ',')
			return (uint32_t) count;
	}
}

static uint32_t cpus_online(const struct root *root)
{
	char list[1024];

	if (smallfile_read(root->sys, "devices/system/cpu/online", list, sizeof(list)) < 0)
		return 0;
	return list_count(list);
}

/* The set may be larger than glibc's cpu_set_t: the kernel returns EINVAL until it fits. */
static uint32_t cpus_allowed_live(void)
{
	for (size_t n = 1024; n <= 1 << 20; n *= 2) {
		cpu_set_t *set = CPU_ALLOC(n);

		if (!set)
			return 0;
		int r = sched_getaffinity(0, CPU_ALLOC_SIZE(n), set) < 0 ? -errno : 0;
		int count = r == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(n), set) : 0;

		CPU_FREE(set);
		if (r != -EINVAL)
			return (uint32_t) count;
	}
	return 0;
}

uint32_t cpus_allowed_add(struct cpus_allowed *to, pid_t pid)
{
	struct cpus_allowed of = { 0 };
	uint32_t n = 0;

	(void) sched_getaffinity(pid, sizeof(of.bits), (cpu_set_t *) (void *) of.bits);
	for (size_t i = 0; i < sizeof(of.bits) / sizeof(of.bits[0]); i++) {
		to->bits[i] |= of.bits[i];
		n += (uint32_t) __builtin_popcountl(to->bits[i]);
	}
	return n;
}

static uint32_t cpus_allowed(const struct root *root)
{
	static const char key[] = "\nCpus_allowed_list:\t";
	char text[4096];

	if (root->live)
		return cpus_allowed_live();
	if (smallfile_read(root->proc, "self/status", text, sizeof(text)) < 0)
		return 0;
	const char *list = strstr(text, key);

	return list ? list_count(list + sizeof(key) - 1) : 0;
}

/* ---- pages -------------------------------------------------------------------------------------------------------- */

static uint64_t pmd_bytes(const struct root *root)
{
	char text[32];
	const char *p = text;
	uint64_t size = 0;

	if (smallfile_read(root->sys, THP "/hpage_pmd_size", text, sizeof(text)) < 0 ||
		parse_u64(&p, &size) < 0)
		return 0;
	return size;
}

/* The selected word of "always inherit [madvise] never". */
static bool is_chosen(const char *text, const char *word)
{
	const char *p = strchr(text, '[');

	return p && (p++, parse_word(&p, word)) && *p == ']';
}

/* Whether an anonymous fault may map such pages (at least where the program asks for them). */
static bool is_enabled(const char *text, bool inherited)
{
	return is_chosen(text, "always") || is_chosen(text, "madvise") ||
	       (inherited && is_chosen(text, "inherit"));
}

/* The size if "hugepages-64kB" is enabled, else 0. */
static uint64_t enabled_size(int thp_dir, const char *name, bool top_enabled)
{
	char path[300], text[128];
	const char *p = name;
	uint64_t kib;

	if (!parse_word(&p, "hugepages-") || parse_u64(&p, &kib) < 0 || strcmp(p, "kB") != 0 ||
		kib > UINT32_MAX)
		return 0;
	snprintf(path, sizeof(path), "%s/enabled", name);
	if (smallfile_read(thp_dir, path, text, sizeof(text)) < 0)
		return 0;
	return is_enabled(text, top_enabled) ? kib * 1024 : 0;
}

/* The largest page below the PMD's size that one anonymous fault may map
 * (Documentation/admin-guide/mm/transhuge.rst). Since Linux 6.8 each size has a switch of its own,
 * which the global one governs only if it says "inherit". Pages of PMD size are excluded: the
 * kernel counts those (vmstat). */
static uint64_t fault_bytes(const struct root *root, uint64_t page_bytes, uint64_t huge_bytes)
{
	autoclose int fd = openat(root->sys, THP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t largest = page_bytes;
	char text[128];

	if (fd < 0 || smallfile_read(fd, "enabled", text, sizeof(text)) < 0)
		return page_bytes;
	bool top_enabled = is_enabled(text, false);
	autoclosedir DIR *dir = fdopendir(fd);

	if (!dir)
		return page_bytes;
	int thp_dir = take_fd(fd); /* dir owns it now */

	for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		uint64_t size = enabled_size(thp_dir, entry->d_name, top_enabled);

		if (size > largest && size != huge_bytes)
			largest = size;
	}
	return largest;
}

/* ---- accuracy of resident sizes ----------------------------------------------------------------------------------- */

/* "6.18.44-fc" is 6.18 as 618000 + 0; 0 if it is not a release. */
static uint64_t release_number(const char *release)
{
	uint64_t major, minor;

	if (parse_u64(&release, &major) < 0 || *release++ != '.' || parse_u64(&release, &minor) < 0)
		return 0;
	return major > 1000 || minor > 999 ? 0 : major * 1000 + minor;
}

/* rss is the sum of three resident counters of an mm (file, anonymous, shmem).
 *
 * Before Linux 6.2 each thread collects its changes and adds them every 64 page faults
 * (mm/memory.c, SPLIT_RSS_COUNTING, TASK_RSS_EVENTS_THRESH): up to 64 pages per thread, over all
 * counters.
 *
 * Since 6.2 (f1a7941243c1, "mm: convert mm's rss stats into percpu_counter") each CPU collects less
 * than a batch of max(32, 2 * CPUs) per counter (lib/percpu_counter.c, compute_batch_value). statm
 * and status then read the approximate sum, until 82241a83cd15 ("mm: fix the inaccurate memory
 * statistics issue for users", in 6.17 at the latest) made them add up the CPUs' shares. VmHWM
 * still starts from the value of mm->hiwater_rss when memory was released, which is updated from
 * the approximate sum, so its error remains. */
static void rss_errors(struct machine *m)
{
	enum {
		COUNTERS = 3,
		THREAD_PAGES = 64,
		LEAST_BATCH = 32
	};
	uint64_t release = release_number(m->kernel), cpus = m->cpus_online;
	uint64_t batch = 2 * cpus > LEAST_BATCH ? 2 * cpus : LEAST_BATCH;
	uint64_t percpu = COUNTERS * (batch - 1) * cpus * m->page_bytes;

	if (release == 0)
		return;
	m->rss_error_per_thread = release < 6002;
	m->hwm_error_bytes = release < 6002 ? THREAD_PAGES * m->page_bytes : percpu;
	m->rss_error_bytes = release < 6017 ? m->hwm_error_bytes : 0;
}

/* A fault on a cached page of a file maps those around it (fault_around_bytes, 64 KiB); since Linux
 * 6.18 ("mm/filemap: map entire large folio faultaround") the whole folio in the cache, at most a
 * huge page. */
static uint64_t file_fault(const struct machine *m)
{
	enum {
		AROUND = 65536
	};
	const uint64_t around = m->page_bytes > AROUND ? m->page_bytes : AROUND;

	return release_number(m->kernel) >= 6018 && m->huge_page_bytes > around ? m->huge_page_bytes : around;
}

/* ---- the rest ----------------------------------------------------------------------------------------------------- */

/* FNV-1a, 64 bits (draft-eastlake-fnv). */
static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char) *text) * 0x100000001b3;
	return hash;
}

static void names(const struct root *root, struct machine *m)
{
	char boot_id[64];

	first_line(root->proc, "sys/kernel/hostname", m->hostname, sizeof(m->hostname));
	if (root->live && !m->hostname[0] && gethostname(m->hostname, sizeof(m->hostname) - 1) < 0)
		m->hostname[0] = '\0';
	first_line(root->proc, "sys/kernel/osrelease", m->kernel, sizeof(m->kernel));
	cpu_model(root, m->cpu_model, sizeof(m->cpu_model));
	snprintf(m->container, sizeof(m->container), "%s", machine_container(root, m->kernel));
	m->pid_namespace = root->live && !machine_first_pids(root);
	first_line(root->proc, "sys/kernel/random/boot_id", boot_id, sizeof(boot_id));
	m->boot_id_hash = boot_id[0] ? hash_of(boot_id) : 0;
}

static void memory(const struct root *root, struct machine *m)
{
	uint64_t shmem = 0;
	char text[4096];

	m->page_bytes = (uint64_t) sysconf(_SC_PAGESIZE);
	m->huge_page_bytes = pmd_bytes(root);
	m->fault_page_bytes = fault_bytes(root, m->page_bytes, m->huge_page_bytes);
	m->file_fault_bytes = file_fault(m);
	if (smallfile_read(root->proc, "meminfo", text, sizeof(text)) < 0)
		return;
	/* remain 0 if the file lacks the line */
	(void) parse_key(text, "MemTotal", &m->mem_total_bytes);
	(void) parse_key(text, "SwapTotal", &m->swap_total_bytes);
	if (parse_key(text, "Shmem", &shmem) == 0)
		m->shmem = known_unsigned(shmem);
}

int machine_read(const struct root *root, struct machine *ret)
{
	struct machine m = { 0 };

	names(root, &m);
	memory(root, &m);
	m.cpus_online = cpus_online(root);
	m.cpus = cpus_allowed(root);
	m.clock_tick_ns = 1000000000 / (uint64_t) sysconf(_SC_CLK_TCK);
	rss_errors(&m);
	fabric_links(root, &m.fabric_bits_per_s, m.fabric_ports, sizeof(m.fabric_ports));
	*ret = m;
	return 0;
}
