/* SPDX-License-Identifier: MIT
 *
 * A simulated machine with processes whose files do not change, so that all changes come from the
 * sampler.
 */
#pragma once

#include "sampler_rig.h"

#define STATUS \
	"Name:\tjob\nTgid:\t%d\nPid:\t%d\nUid:\t0\t0\t0\t0\nVmHWM:\t%8ld kB\nVmRSS:\t%8ld kB\nVmSwap:\t0 kB\n" \
	"HugetlbPages:\t0 kB\nThreads:\t1\nSigIgn:\t0000000000000000\n" \
	"voluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n"
#define ROLLUP \
	"00400000-7ffd0000 ---p 00000000 00:00 0 [rollup]\nRss: %ld kB\nPss: %ld kB\nShared_Clean: 0 kB\n" \
	"Shared_Dirty: 0 kB\nPrivate_Clean: 0 kB\nPrivate_Dirty: %ld kB\n"

enum {
	FIRST_PID = 300
};

static inline void put_process(const struct temp_tree *t, int pid, int ppid, long rss_kib)
{
	char file[64], text[1024];

	(void) snprintf(file, sizeof(file), "proc/%d/stat", pid);
	(void) snprintf(text, sizeof(text),
		"%d (job) S %d 300 300 0 -1 0 10 0 0 0 5 5 0 0 20 0 1 0 1000 1000000 10 1 1 1 "
		"140722 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		pid, ppid);
	temp_tree_put(t, file, text);
	(void) snprintf(file, sizeof(file), "proc/%d/statm", pid);
	(void) snprintf(text, sizeof(text), "%ld %ld 10 1 0 10 0\n", rss_kib / 4 + 100, rss_kib / 4);
	temp_tree_put(t, file, text);
	(void) snprintf(file, sizeof(file), "proc/%d/status", pid);
	(void) snprintf(text, sizeof(text), STATUS, pid, pid, rss_kib, rss_kib);
	temp_tree_put(t, file, text);
	(void) snprintf(file, sizeof(file), "proc/%d/io", pid);
	temp_tree_put(t, file, "rchar: 1\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: 0\nwrite_bytes: 0\n"
			       "cancelled_write_bytes: 0\n");
	(void) snprintf(file, sizeof(file), "proc/%d/cmdline", pid);
	temp_tree_put(t, file, "job");
	(void) snprintf(file, sizeof(file), "proc/%d/maps", pid);
	temp_tree_put(t, file, "00400000-00401000 r-xp 00000000 08:01 42 /bin/job\n");
	(void) snprintf(file, sizeof(file), "proc/%d/smaps_rollup", pid);
	(void) snprintf(text, sizeof(text), ROLLUP, rss_kib, rss_kib, rss_kib);
	temp_tree_put(t, file, text);
	(void) snprintf(file, sizeof(file), "proc/%d/task/%d/children", pid, pid);
	temp_tree_put(t, file, "");
}

/* A parent and its n - 1 children, each of that many KiB. */
static inline void put_machine(struct temp_tree *t, int n, long rss_kib)
{
	char children[512] = "", file[64];

	temp_tree_new(t);
	temp_tree_put(t, "proc/loadavg", "0.00 0.00 0.00 1/100 999\n");
	temp_tree_put(t, "proc/meminfo",
		"MemTotal: 99000000 kB\nMemFree: 50000000 kB\nMemAvailable: 60000000 kB\n");
	temp_tree_put(t, "proc/stat", "cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
	temp_tree_put(t, "proc/vmstat", "thp_fault_alloc 0\nthp_collapse_alloc 0\npswpin 0\npswpout 0\n");
	temp_tree_put(t, "proc/self/status", "Name:\thiwater\nVmHWM:\t2000 kB\nVmRSS:\t2000 kB\n");
	for (int i = 0; i < n; i++)
		put_process(t, FIRST_PID + i, i ? FIRST_PID : 1, rss_kib);
	for (int i = 1; i < n; i++)
		(void) snprintf(children + strlen(children), 16, "%d ", FIRST_PID + i);
	(void) snprintf(file, sizeof(file), "proc/%d/task/%d/children", FIRST_PID, FIRST_PID);
	temp_tree_put(t, file, children);
}
