/* SPDX-License-Identifier: MIT
 *
 * The bytes of one taskstats message behind its generic netlink header: attributes, and in them struct taskstats of
 * whatever version the running kernel has (include/uapi/linux/taskstats.h). That header is not included: the struct
 * there is the building machine's. Total on any bytes; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/frame.h"

/* include/uapi/linux/taskstats.h */
enum {
	TASKSTATS_GET = 1,              /* command */
	TASKSTATS_ASK_PID = 1,          /* attributes of it */
	TASKSTATS_REGISTER_CPUMASK = 3,
	TASKSTATS_PID = 1,              /* attributes of an answer or a record */
	TASKSTATS_TGID = 2,
	TASKSTATS_STATS = 3,
	TASKSTATS_AGGR_PID = 4,
	TASKSTATS_AGGR_TGID = 5,
};

struct taskstats_layout {
	uint16_t shift;      /* bytes that version 15 pushed ac_comm and what follows back */
	uint16_t tgid_shift; /* likewise ac_tgid */
	bool has_tgid;       /* ac_tgid and the mark of the last thread: from version 12 */
	bool has_io;         /* the kernel counts I/O */
};

/* In whole KiB. */
struct taskstats_io {
	uint64_t read_bytes, write_bytes, write_cancelled, read_chars, write_chars;
};

/* One thread's end. */
struct taskstats_record {
	uint32_t pid, tgid;      /* tgid: pid where the kernel does not say */
	uint32_t ppid, uid;
	char name[16];
	bool has_run;            /* of the first thread: it has called exec since its fork */
	bool is_last;            /* no thread of the process is left */
	uint32_t status;         /* as waitpid gives it; of the thread (before version 12, 0 but for the first) */
	uint64_t start_wall_s;   /* since 1970 */
	uint64_t after_ns, received_ns; /* CLOCK_BOOTTIME between which it ended (taskstats.c) */
	uint64_t lived_ns;       /* since the process began, with its last thread; 0: unknown (before version 12) */
	uint64_t hwm_bytes;      /* of the process's memory; 0: not kept */
	uint64_t run_ns;         /* processor time, exact; 0: not kept */
	uint64_t user_ns, system_ns; /* sampled by the timer */
	uint64_t faults_minor;
	struct taskstats_io io;
};

/* The payload of the first attribute of that type, or NULL; *ret_size is its size. */
const char *taskstats_attribute(const char *text, size_t len, uint16_t type, size_t *ret_size);

/* text: what the kernel says of thread tid of process pid. Returns 0, or -EPROTO if no known layout fits. */
int taskstats_layout_find(const char *text, size_t len, uint32_t tid, uint32_t pid, struct taskstats_layout *ret);

/* Returns 0, or -EBADMSG, leaving *ret alone. */
int taskstats_record_parse(const char *text, size_t len, const struct taskstats_layout *layout,
	struct taskstats_record *ret);

void taskstats_io_add(struct taskstats_io *sum, const struct taskstats_io *io);
struct io_facts taskstats_io_facts(const struct taskstats_io *io, bool is_known);
