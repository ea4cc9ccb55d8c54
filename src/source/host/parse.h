/* SPDX-License-Identifier: MIT
 *
 * Parsers of the machine-wide files of procfs. All of them are total on any bytes that end in a NUL; what a text does
 * not say is unknown.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/maybe.h"

/* proc_meminfo(5), in bytes. */
struct meminfo {
	struct maybe total, available, swap_total, swap_free;
	struct maybe mapped;     /* by processes: AnonPages + Mapped */
};
void meminfo_parse(const char *text, struct meminfo *ret);

/* One "cpu" line of proc_stat(5), in clock ticks. guest times are in user and nice already. */
struct cpu_line {
	int core; /* -1: all cores together */
	uint64_t user, nice, system, idle, iowait, irq, softirq, steal;
};
/* Reads the line at *p and moves to the next. False, *p and *ret as they were, at the first that is no such line. */
bool cpu_line_next(const char **p, struct cpu_line *ret);

/* proc_vmstat(5): what programs were given as huge pages, pages moved from and to swap, processes that the kernel killed
 * for lack of memory. */
struct vmstat {
	struct maybe thp_faults, swap_in_pages, swap_out_pages, oom_kills;
};
void vmstat_parse(const char *text, struct vmstat *ret);

/* Bytes that came in and went out since boot. */
struct traffic {
	struct maybe in, out;
};

/* Documentation/admin-guide/iostats.rst: read and written, over whole disks. Partitions are left out, and so is what
 * stands on other disks or on none (loop, ram, zram, dm, md, bcache, drbd). */
void diskstats_parse(const char *text, struct traffic *ret);

/* proc_net_dev(5): received and sent, over all interfaces but lo. */
void net_dev_parse(const char *text, struct traffic *ret);

/* Documentation/accounting/psi.rst: total stall times in ns. */
struct pressure {
	struct maybe some_ns, full_ns;
};
void pressure_parse(const char *text, struct pressure *ret);
