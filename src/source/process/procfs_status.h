/* SPDX-License-Identifier: MIT
 *
 * Parses /proc/PID/status; proc_pid_status(5). Total on any bytes that end in a NUL; any thread.
 */
#pragma once

#include <stdbool.h>

#include "base/maybe.h"

/* Lines that the kernel did not write (a kernel thread has no Vm lines) are unknown. */
struct procfs_status {
	char name[64];           /* Name: escaped by the kernel ("\n" as two bytes); "" without the line */
	struct maybe tgid;       /* differs from the file's own pid for a thread */
	struct maybe ppid;
	struct maybe uid;        /* the real one */
	struct maybe vm_peak_bytes; /* VmPeak: the largest address space */
	struct maybe hwm_bytes;  /* VmHWM */
	struct maybe rss_bytes;  /* VmRSS */
	struct maybe data_bytes; /* VmData: private writable address space */
	struct maybe swap_bytes; /* VmSwap */
	struct maybe hugetlb_bytes; /* HugetlbPages */
	struct maybe threads;
	struct maybe switches;   /* voluntary_ctxt_switches of this one thread */
	struct maybe preemptions;/* nonvoluntary_ctxt_switches, likewise */
	bool ignores_sigchld;    /* SigIgn has SIGCHLD: the kernel reaps its children without adding
	                          * their counters to it */
};

/* Parses text. Returns 0, or -EBADMSG, leaving *ret alone, if it has no Tgid line with a number. */
int procfs_status_parse(const char *text, struct procfs_status *ret);
