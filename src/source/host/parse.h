/* SPDX-License-Identifier: MIT
 *
 * Parsers of the machine-wide files of procfs. All are total on any bytes that end in a NUL; values
 * that the text lacks are unknown.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/maybe.h"

/* proc_meminfo(5), in bytes. */
struct meminfo {
	struct maybe total, available, swap_total, swap_free;
	struct maybe mapped;     /* of processes: AnonPages + Mapped */
	struct maybe shmem;      /* tmpfs and shared memory */
};
void meminfo_parse(const char *text, struct meminfo *ret);

/* One "cpu" line of proc_stat(5), in clock ticks. user and nice include the guest times. */
struct cpu_line {
	int core; /* -1: all cores together */
	uint64_t user, nice, system, idle, iowait, irq, softirq, steal;
};
/* Parses the line at *p and moves to the next. False, leaving *p and *ret alone, at the first line
 * of another kind. */
bool cpu_line_next(const char **p, struct cpu_line *ret);

/* proc_vmstat(5): huge pages given to programs, pages swapped in and out, processes that the kernel
 * killed for lack of memory. */
struct vmstat {
	struct maybe thp_faults, swap_in_pages, swap_out_pages, oom_kills;
};
void vmstat_parse(const char *text, struct vmstat *ret);

/* Bytes received and sent, or read and written, since boot. */
struct traffic {
	struct maybe in, out;
};

/* Documentation/admin-guide/iostats.rst: bytes read and written by whole disks. Partitions are
 * excluded, and so are devices on top of other disks or without one (loop, ram, zram, dm, md,
 * bcache, drbd). */
void diskstats_parse(const char *text, struct traffic *ret);

/* proc_net_dev(5): bytes received and sent, over all interfaces except lo. */
void net_dev_parse(const char *text, struct traffic *ret);

/* Documentation/accounting/psi.rst: total stall times in ns. */
struct pressure {
	struct maybe some_ns, full_ns;
};
void pressure_parse(const char *text, struct pressure *ret);
