/* SPDX-License-Identifier: MIT
 *
 * Host metrics: memory twice a second and whenever the job's memory changes, the rest once a
 * second. Every file is opened once and read with pread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/longfile.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/host/folders.h"
#include "source/host/parse.h"
#include "source/source.h"
#include "source/report_once.h"

enum {
	FAST = 1 << 0,
	SLOW = 1 << 1,
	PAGES = 1 << 2
};

static const struct source_group groups[] = {
	/* meminfo: 30 us on a CPU that just woke up, as much as twenty reads of statm */
	{ .name = "fast", .period_ns = 500000000 },
	{ .name = "slow", .period_ns = 1000000000 },
	/* vmstat: huge pages, swap, OOM kills; also read to distinguish fork families */
	{ .name = "pages", .period_ns = 1000000000 },
};

enum host_file {
	FILE_MEMINFO,
	FILE_STAT,
	FILE_LOADAVG,
	FILE_VMSTAT,
	FILE_DISKSTATS,
	FILE_NET_DEV,
	FILE_PSI_CPU,
	FILE_PSI_MEM,
	FILE_PSI_IO,
	FILE_COUNT,
	FILE_WORKDIR = FILE_COUNT, /* not files: the folder that env names, */
	FILE_SHM,                  /* and the folder of POSIX shared memory */
	FILE_SLOTS,
};

/* A core's times at the last read. */
struct core {
	bool seen;
	struct cpu_line last;
};

struct source {
	int fds[FILE_SLOTS];    /* -1: could not be opened */
	int errors[FILE_SLOTS]; /* 0, or the error of the last open or read */
	struct report_once once;
	struct longfile text;
	struct core *cores;
	size_t n_cores;
	uint64_t tick_ns, page_bytes;
};

/* ---- parsing of each file ----------------------------------------------------------------------------------------- */

static struct maybe minus(struct maybe a, struct maybe b)
{
	return a.known && b.known && a.value >= b.value ? known(a.value - b.value) : UNKNOWN;
}

static void report_meminfo(struct source *s, const char *text, struct framebuf *out)
{
	struct meminfo m;

	meminfo_parse(text, &m);
	report_once(&s->once, out, M_HOST_MEM_USED, minus(m.total, m.available));
	report_once(&s->once, out, M_HOST_MEM_AVAILABLE, m.available);
	report_once(&s->once, out, M_HOST_SHMEM, m.shmem);
	report_once(&s->once, out, M_HOST_SWAP_USED, minus(m.swap_total, m.swap_free));
}

static struct maybe ticks(const struct source *s, uint64_t n)
{
	return maybe_count(0, n, s->tick_ns);
}

static void report_total(struct source *s, const struct cpu_line *line, struct framebuf *out)
{
	report_once(&s->once, out, M_HOST_CPU_USER, ticks(s, line->user + line->nice));
	report_once(&s->once, out, M_HOST_CPU_SYSTEM, ticks(s, line->system + line->irq + line->softirq));
	report_once(&s->once, out, M_HOST_CPU_IDLE, ticks(s, line->idle));
	report_once(&s->once, out, M_HOST_CPU_IOWAIT, ticks(s, line->iowait));
	report_once(&s->once, out, M_HOST_CPU_STEAL, ticks(s, line->steal));
}

/* The core's entry in the list, which grows when a core comes online; NULL: out of memory. */
static struct core *core_at(struct source *s, size_t core)
{
	if (core >= s->n_cores) {
		size_t n = core + 16;
		struct core *cores = reallocarray(s->cores, n, sizeof(*cores));

		if (!cores)
			return NULL;
		memset(cores + s->n_cores, 0, (n - s->n_cores) * sizeof(*cores));
		s->cores = cores;
		s->n_cores = n;
	}
	return &s->cores[core];
}

/* The share of the interval in which this core worked; unknown at the first read. Idle and iowait
 * may go back (proc_stat(5)), so each field is compared separately. Stolen time is part of the
 * interval, but this core did not work in it. */
static struct maybe core_busy(struct source *s, const struct cpu_line *now)
{
	struct core *core = core_at(s, (size_t) now->core);

	if (!core)
		return UNKNOWN;
	const struct cpu_line *before = &core->last;
	uint64_t busy = counter_delta(before->user, now->user) + counter_delta(before->nice, now->nice) +
			counter_delta(before->system, now->system) + counter_delta(before->irq, now->irq) +
			counter_delta(before->softirq, now->softirq);
	uint64_t rest = counter_delta(before->idle, now->idle) + counter_delta(before->iowait, now->iowait) +
			counter_delta(before->steal, now->steal);
	bool compared = core->seen && busy + rest > 0 && busy + rest < UINT32_MAX;

	core->last = *now;
	core->seen = true;
	return compared ? known((int64_t) (busy * 1000000 / (busy + rest))) : UNKNOWN;
}

static void add_core_value(struct framebuf *out, enum metric metric, int core, struct maybe value)
{
	if (value.known)
		framebuf_value(out, metric, 1 + (uint32_t) core, value.value);
}

static void add_core(struct source *s, const struct cpu_line *line, struct framebuf *out)
{
	add_core_value(out, M_HOST_CPU_USER, line->core, ticks(s, line->user + line->nice));
	add_core_value(out, M_HOST_CPU_SYSTEM, line->core,
		ticks(s, line->system + line->irq + line->softirq));
	add_core_value(out, M_HOST_CPU_IDLE, line->core, ticks(s, line->idle));
}

static void tell_unknown(struct source *s, struct framebuf *out, const enum metric *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		report_once(&s->once, out, list[i], UNKNOWN);
}

static void report_stat(struct source *s, const char *text, struct framebuf *out)
{
	static const enum metric totals[] = {
		M_HOST_CPU_USER,
		M_HOST_CPU_SYSTEM,
		M_HOST_CPU_IDLE,
		M_HOST_CPU_IOWAIT,
		M_HOST_CPU_STEAL,
	};
	struct cpu_line line;
	struct maybe busiest = UNKNOWN;
	bool total = false, cores = false;

	for (const char *p = text; cpu_line_next(&p, &line);) {
		if (line.core < 0) {
			report_total(s, &line, out);
			total = true;
		} else {
			busiest = maybe_max(busiest, core_busy(s, &line));
			add_core(s, &line, out);
			cores = true;
		}
	}
	if (!total)
		tell_unknown(s, out, totals, sizeof(totals) / sizeof(totals[0]));
	if (busiest.known || !cores) /* a single read of the cores gives no difference yet */
		report_once(&s->once, out, M_HOST_CORE_BUSIEST, busiest);
}

static void report_loadavg(struct source *s, const char *text, struct framebuf *out)
{
	uint64_t ppm = 0;
	int r = parse_ppm(&text, &ppm);

	report_once(&s->once, out, M_HOST_LOAD1, maybe_count(*text == ' ' ? r : -EBADMSG, ppm, 1));
}

static struct maybe times(struct maybe value, uint64_t scale)
{
	return value.known ? maybe_count(0, (uint64_t) value.value, scale) : UNKNOWN;
}

static void report_vmstat(struct source *s, const char *text, struct framebuf *out)
{
	struct vmstat v;

	vmstat_parse(text, &v);
	report_once(&s->once, out, M_HOST_THP_FAULTS, v.thp_faults);
	report_once(&s->once, out, M_HOST_SWAP_IN, times(v.swap_in_pages, s->page_bytes));
	report_once(&s->once, out, M_HOST_SWAP_OUT, times(v.swap_out_pages, s->page_bytes));
	report_once(&s->once, out, M_HOST_OOM_KILLS, v.oom_kills);
}

static void report_diskstats(struct source *s, const char *text, struct framebuf *out)
{
	struct traffic t;

	diskstats_parse(text, &t);
	report_once(&s->once, out, M_HOST_DISK_READ, t.in);
	report_once(&s->once, out, M_HOST_DISK_WRITE, t.out);
}

static void report_net_dev(struct source *s, const char *text, struct framebuf *out)
{
	struct traffic t;

	net_dev_parse(text, &t);
	report_once(&s->once, out, M_HOST_NET_RX, t.in);
	report_once(&s->once, out, M_HOST_NET_TX, t.out);
}

static void report_psi_cpu(struct source *s, const char *text, struct framebuf *out)
{
	struct pressure p;

	pressure_parse(text, &p);
	report_once(&s->once, out, M_HOST_PSI_CPU, p.some_ns);
}

static void report_psi_mem(struct source *s, const char *text, struct framebuf *out)
{
	struct pressure p;

	pressure_parse(text, &p);
	report_once(&s->once, out, M_HOST_PSI_MEM, p.some_ns);
	report_once(&s->once, out, M_HOST_PSI_MEM_FULL, p.full_ns);
}

static void report_psi_io(struct source *s, const char *text, struct framebuf *out)
{
	struct pressure p;

	pressure_parse(text, &p);
	report_once(&s->once, out, M_HOST_PSI_IO, p.some_ns);
}

static const struct {
	const char *path;
	unsigned group;
	/* text "" if the file could not be read */
	void (*report)(struct source *s, const char *text, struct framebuf *out);
} files[FILE_COUNT] = {
	[FILE_MEMINFO] = { "meminfo", FAST, report_meminfo },
	[FILE_STAT] = { "stat", SLOW, report_stat },
	[FILE_LOADAVG] = { "loadavg", SLOW, report_loadavg },
	[FILE_VMSTAT] = { "vmstat", PAGES, report_vmstat },
	[FILE_DISKSTATS] = { "diskstats", SLOW, report_diskstats },
	[FILE_NET_DEV] = { "net/dev", SLOW, report_net_dev },
	[FILE_PSI_CPU] = { "pressure/cpu", SLOW, report_psi_cpu },
	[FILE_PSI_MEM] = { "pressure/memory", SLOW, report_psi_mem },
	[FILE_PSI_IO] = { "pressure/io", SLOW, report_psi_io },
};

/* ---- folders ------------------------------------------------------------------------------------------------------- */

static void read_folders(struct source *s, struct framebuf *out)
{
	report_once(&s->once, out, M_HOST_DISK_FREE, folder_free(s->fds[FILE_WORKDIR]));
	report_once(&s->once, out, M_HOST_SHM, folder_used(s->fds[FILE_SHM]));
}

/* ---- the source --------------------------------------------------------------------------------------------------- */

static void host_close(struct source *s)
{
	if (!s)
		return;
	for (int i = 0; i < FILE_SLOTS; i++) {
		if (s->fds[i] >= 0)
			(void) close(s->fds[i]);
	}
	longfile_done(&s->text);
	free(s->cores);
	free(s);
}

struct maybe host_mapped(const struct root *root)
{
	autoclose int fd = smallfile_open(root->proc, "meminfo");
	struct stat folder, file;
	struct meminfo m;
	char text[4096];

	if (fd < 0 || fstat(root->proc, &folder) < 0 || fstat(fd, &file) < 0 || folder.st_dev != file.st_dev)
		return UNKNOWN;
	if (smallfile_pread(fd, text, sizeof(text)) <= 0)
		return UNKNOWN;
	meminfo_parse(text, &m);
	return m.mapped;
}

static int host_open(const struct source_env *env, struct source **ret, struct err *err)
{
	struct source *s = calloc(1, sizeof(*s));
	bool any = false;

	if (!s)
		return err_set(err, -ENOMEM, "host metrics: out of memory");
	s->tick_ns = 1000000000 / (uint64_t) sysconf(_SC_CLK_TCK);
	s->page_bytes = (uint64_t) sysconf(_SC_PAGESIZE);
	for (int i = 0; i < FILE_COUNT; i++) {
		s->fds[i] = smallfile_open(env->root->proc, files[i].path);
		s->errors[i] = s->fds[i] < 0 ? s->fds[i] : 0;
		any |= s->fds[i] >= 0;
	}
	s->fds[FILE_WORKDIR] = folder_open_work(env);
	s->fds[FILE_SHM] = folder_open_shm(env);
	for (int i = FILE_COUNT; i < FILE_SLOTS; i++)
		s->errors[i] = s->fds[i] < 0 ? s->fds[i] : 0;
	if (!any) {
		int r = s->errors[FILE_MEMINFO];

		host_close(s);
		return err_set(err, r, "host metrics: no procfs file can be opened: %s",
			strerror(-r));
	}
	*ret = s;
	return 0;
}

/* memory is read at every sample, into a block on the stack with one call: the needed lines come
 * first. */
static void read_file(struct source *s, enum host_file file, struct framebuf *out)
{
	char small[4096];
	const char *text = small;
	ssize_t n = s->errors[file]; /* the error of a file that could not be opened */

	if (s->fds[file] >= 0 && files[file].group == FAST) {
		n = smallfile_pread(s->fds[file], small, sizeof(small));
	} else if (s->fds[file] >= 0) {
		n = longfile_pread(&s->text, s->fds[file]);
		text = n < 0 ? "" : s->text.data;
	}
	s->errors[file] = n < 0 ? (int) n : 0;
	files[file].report(s, n < 0 ? "" : text, out);
}

static int host_read(struct source *s, unsigned group_mask, struct framebuf *out)
{
	for (int i = 0; i < FILE_COUNT; i++) {
		if (files[i].group & group_mask)
			read_file(s, (enum host_file) i, out);
	}
	if (group_mask & SLOW)
		read_folders(s, out);
	return 0;
}

/* ---- availability ------------------------------------------------------------------------------------------------- */

#define PSI_MISSING   "this kernel has no pressure stall information"
#define PSI_REMEDY    "boot with psi=1 (Linux 4.20 or newer, built with CONFIG_PSI)"
#define NO_LINE(file) "no procfs " file ", or it lacks the line"
#define NO_THP        "no procfs vmstat, or a kernel without transparent huge pages"

/* The method for each metric, and the reason and remedy where it is not available. shown_by: the
 * metric that a single read already gives. */
static const struct host_row {
	enum metric metric, shown_by;
	enum host_file file;
	const char *how, *missing, *remedy;
} rows[] = {
#define ROW(m, file, how, missing, remedy) { M_HOST_##m, M_HOST_##m, file, how, missing, remedy }
	ROW(MEM_USED, FILE_MEMINFO, "procfs meminfo", "meminfo has no MemAvailable", "Linux 3.14 or newer"),
	ROW(MEM_AVAILABLE, FILE_MEMINFO, "procfs meminfo", "meminfo has no MemAvailable",
		"Linux 3.14 or newer"),
	ROW(SHMEM, FILE_MEMINFO, "procfs meminfo", NO_LINE("meminfo"), ""),
	ROW(SWAP_USED, FILE_MEMINFO, "procfs meminfo", NO_LINE("meminfo"), ""),
	ROW(CPU_USER, FILE_STAT, "procfs stat, in clock ticks", NO_LINE("stat"), ""),
	ROW(CPU_SYSTEM, FILE_STAT, "procfs stat, in clock ticks", NO_LINE("stat"), ""),
	ROW(CPU_IDLE, FILE_STAT, "procfs stat, in clock ticks", NO_LINE("stat"), ""),
	ROW(CPU_IOWAIT, FILE_STAT, "procfs stat, in clock ticks", NO_LINE("stat"), ""),
	ROW(CPU_STEAL, FILE_STAT, "procfs stat, in clock ticks", NO_LINE("stat"), ""),
	{ M_HOST_CORE_BUSIEST, M_HOST_CPU_USER, FILE_STAT, "procfs stat, between two samples",
		NO_LINE("stat"), "" },
	ROW(LOAD1, FILE_LOADAVG, "procfs loadavg", NO_LINE("loadavg"), ""),
	ROW(DISK_FREE, FILE_WORKDIR, "statvfs of the working directory",
		"no working directory is known (a captured machine has none)", ""),
	ROW(SHM, FILE_SHM, "statvfs of /dev/shm", "no /dev/shm (a captured machine has none)", ""),
	ROW(DISK_READ, FILE_DISKSTATS, "procfs diskstats, whole disks", "no disk is listed", ""),
	ROW(DISK_WRITE, FILE_DISKSTATS, "procfs diskstats, whole disks", "no disk is listed", ""),
	ROW(NET_RX, FILE_NET_DEV, "procfs net/dev, without lo", "no interface is listed", ""),
	ROW(NET_TX, FILE_NET_DEV, "procfs net/dev, without lo", "no interface is listed", ""),
	ROW(PSI_CPU, FILE_PSI_CPU, "procfs pressure/cpu", PSI_MISSING, PSI_REMEDY),
	ROW(PSI_MEM, FILE_PSI_MEM, "procfs pressure/memory", PSI_MISSING, PSI_REMEDY),
	ROW(PSI_MEM_FULL, FILE_PSI_MEM, "procfs pressure/memory", PSI_MISSING, PSI_REMEDY),
	ROW(PSI_IO, FILE_PSI_IO, "procfs pressure/io", PSI_MISSING, PSI_REMEDY),
	ROW(SWAP_IN, FILE_VMSTAT, "procfs vmstat", NO_LINE("vmstat"), ""),
	ROW(SWAP_OUT, FILE_VMSTAT, "procfs vmstat", NO_LINE("vmstat"), ""),
	ROW(THP_FAULTS, FILE_VMSTAT, "procfs vmstat", NO_THP, ""),
	ROW(OOM_KILLS, FILE_VMSTAT, "procfs vmstat", NO_LINE("vmstat"), "Linux 4.13 or newer"),
#undef ROW
};

static bool was_read(const struct framebuf *out, enum metric metric)
{
	for (size_t i = 0; i < out->n_readings; i++) {
		if (out->readings[i].metric == metric && out->readings[i].id == 0)
			return out->readings[i].known;
	}
	return false;
}

/* Translates an error of open or read for users; NULL: the row's own text. */
static void explain(int error, const struct host_row *row, struct source_probe *ret)
{
	ret->why_not = row->missing;
	ret->remedy = row->remedy;
	if (error == -EREMOTE) {
		ret->why_not = "a network or FUSE file system: statvfs could hang";
		ret->remedy = "work on a local disk";
	} else if (error == -EACCES || error == -EPERM) {
		ret->why_not = "no permission to read it";
		ret->remedy = "a container may mask it: run hiwater outside the container";
	} else if (error && error != -ENOENT && error != -EBADF && error != -EOPNOTSUPP) {
		ret->why_not = "the file cannot be read";
		ret->remedy = "";
	}
}

static void host_probe(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	struct framebuf out = { 0 };
	struct source *s = NULL;
	int failed = host_open(env, &s, NULL);

	if (failed == 0)
		(void) host_read(s, FAST | SLOW | PAGES, &out);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct source_probe probe = { rows[i].metric, was_read(&out, rows[i].shown_by), rows[i].how,
			"", "" };

		if (!probe.available)
			explain(s ? s->errors[rows[i].file] : failed, &rows[i], &probe);
		report(ctx, &probe);
	}
	framebuf_done(&out);
	host_close(s);
}

const struct source_ops source_host = {
	.name = "host",
	.frame = FRAME_HOST,
	.groups = groups,
	.n_groups = sizeof(groups) / sizeof(groups[0]),
	.open = host_open,
	.read = host_read,
	.probe = host_probe,
	.close = host_close,
};
