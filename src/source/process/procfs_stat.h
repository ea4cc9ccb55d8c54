/* SPDX-License-Identifier: MIT
 *
 * Parses the line of /proc/PID/stat; proc_pid_stat(5). Total on any bytes that end in a NUL; any
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define STARTCODE_HIDDEN 1

struct procfs_stat {
	char name[64];           /* field 2: at most 15 bytes (kernel threads: more), any bytes but
	                          * NUL; truncated here */
	char state;              /* field 3: R S D Z T t X I */
	int32_t pid;             /* field 1 */
	int32_t ppid;            /* field 4 */
	int32_t pgrp;            /* field 5 */
	int32_t session;         /* field 6 */
	uint64_t faults_minor;   /* field 10, minflt */
	uint64_t faults_waited;  /* field 11, cminflt: of reaped children */
	uint64_t faults_major;   /* field 12, majflt */
	uint64_t user_ticks;     /* field 14, in 1/sysconf(_SC_CLK_TCK) s */
	uint64_t system_ticks;   /* field 15 */
	uint64_t user_waited_ticks;   /* field 16 */
	uint64_t system_waited_ticks; /* field 17 */
	uint64_t threads;        /* field 20; a zombie leader of living threads is included */
	uint64_t start_ticks;    /* field 22, since boot; with the pid, the identity of the process */
	uint64_t vsize_bytes;    /* field 23; 0: no memory (any more) */
	uint64_t startcode;      /* field 26; STARTCODE_HIDDEN; 0: no memory */
	uint64_t endcode;        /* field 27; likewise */
	uint64_t startstack;     /* field 28; 0: hidden or no memory */
};

/* Parses line. Returns 0, or -EBADMSG, leaving *ret alone, if it is not such a line (or ends too
 * early). */
int procfs_stat_parse(const char *line, struct procfs_stat *ret);

/* Field 52 (since Linux 3.5): a zombie's exit status, as in waitpid. 0 may also mean no permission
 * (another user's process). False, leaving *ret alone, if the line has no such field. */
bool procfs_stat_exit(const char *line, int32_t *ret);
