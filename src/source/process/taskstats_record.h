/* SPDX-License-Identifier: MIT
 *
 * Parses one taskstats message behind its generic netlink header: attributes, and in them struct
 * taskstats in the running kernel's version (include/uapi/linux/taskstats.h). That header is not
 * included, because its struct is the build machine's. Total on any bytes; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/frame.h"

/* include/uapi/linux/taskstats.h */
enum {
	TASKSTATS_GET = 1,              /* command */
	TASKSTATS_ASK_PID = 1,          /* attributes of the command */
	TASKSTATS_REGISTER_CPUMASK = 3,
	TASKSTATS_PID = 1,              /* attributes of an answer or a record */
	TASKSTATS_TGID = 2,
	TASKSTATS_STATS = 3,
	TASKSTATS_AGGR_PID = 4,
	TASKSTATS_AGGR_TGID = 5,
};

struct taskstats_layout {
	uint16_t shift;      /* bytes by which version 15 moved ac_comm and the fields after it */
	uint16_t tgid_shift; /* likewise ac_tgid */
	bool has_tgid;       /* ac_tgid and the flag of the last thread: from version 12 */
	bool has_io;         /* the kernel counts I/O */
};

/* In whole KiB. */
struct taskstats_io {
	uint64_t read_bytes, write_bytes, write_cancelled, read_chars, write_chars;
};

/* The end of one thread. */
struct taskstats_record {
	uint32_t pid, tgid;      /* tgid: pid if the kernel does not send it */
	uint32_t ppid, uid;
	char name[16];
	bool has_run;            /* of the first thread: it has called exec since its fork */
	bool is_last;            /* the process has no thread left */
	uint32_t status;         /* as in waitpid; of the thread (before version 12, 0 except for
	                          * the first) */
	uint64_t start_wall_s;   /* since 1970 */
	uint64_t received_ns;    /* CLOCK_BOOTTIME after its end (taskstats.c) */
	uint64_t hwm_bytes;      /* of the process's memory; 0: not recorded */
	uint64_t vm_bytes;       /* the largest address space; 0: not recorded */
	uint64_t run_ns;         /* CPU time, exact; 0: not recorded */
	uint64_t user_ns, system_ns; /* sampled by the timer */
	uint64_t faults_minor;
	struct taskstats_io io;
};

/* The payload of the first attribute of that type, or NULL; *ret_size is its size. */
const char *taskstats_attribute(const char *text, size_t len, uint16_t type, size_t *ret_size);

/* text: the kernel's answer about thread tid of process pid. Returns 0, or -EPROTO if no known
 * layout fits. */
int taskstats_layout_find(
	const char *text, size_t len, uint32_t tid, uint32_t pid, struct taskstats_layout *ret);

/* Returns 0, or -EBADMSG, leaving *ret alone. */
int taskstats_record_parse(const char *text, size_t len, const struct taskstats_layout *layout,
	struct taskstats_record *ret);

void taskstats_io_add(struct taskstats_io *sum, const struct taskstats_io *io);
struct io_facts taskstats_io_facts(const struct taskstats_io *io, bool is_known);
