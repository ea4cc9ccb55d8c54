/* SPDX-License-Identifier: MIT
 *
 * Samples of page faults from the kernel: one perf event for each CPU, inherited by every thread
 * and process of the job, and a thread that does nothing but copy the records out of the kernel's
 * rings, so that few are lost.
 *
 * A sample is one of `period` faults of a thread, with its registers and a copy of its stack;
 * without CAP_PERFMON (perf_event_paranoid 2) faults inside system calls are not counted. Other
 * records say which files are mapped where (with PROT_EXEC), who forked, executed a program and
 * ended.
 *
 * events_next and events_free are to be called from one thread.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
	EVENTS_REGISTERS = 33, /* of an architecture, at most */
};

struct events_options {
	unsigned period;       /* faults a sample */
	unsigned stack_bytes;  /* of a copied stack: a multiple of 8 below 64 KiB */
	bool from_exec;        /* begins with the exec of the thread; else at once */
	bool has_no_lost;      /* set by events_open: the kernel does not count what it drops */
};

enum record_kind {
	RECORD_SAMPLE,
	RECORD_MAP,            /* a file was mapped with PROT_EXEC */
	RECORD_NAME,           /* a thread has a new name; is_exec: it executes another program */
	RECORD_FORK,           /* of a process or a thread */
	RECORD_EXIT,
	RECORD_LOST,
};

/* What the kernel reported. One allocation, which the receiver frees. */
struct record {
	enum record_kind kind;
	uint64_t time_ns;      /* CLOCK_BOOTTIME */
	pid_t pid, tid;
	union {
		struct {
			uint64_t ip, address;    /* of user space; of the fault */
			uint64_t registers[EVENTS_REGISTERS]; /* by the architecture's numbers of perf;
				0: not there */
			bool has_registers;
			uint32_t stack_bytes;    /* valid bytes, from the stack pointer on */
			uint32_t asked_bytes;
			const unsigned char *stack;
		} sample;
		struct {
			uint64_t start, length, offset, inode;
			uint32_t major, minor;
			const char *path;
		} map;
		struct {
			const char *name;
			bool is_exec;
		} name;
		struct {
			pid_t parent;
		} fork;
		uint64_t lost;
	};
};

struct events;

/* Events of the thread tid, and of what it starts. *ret is the caller's. Returns 0, or -errno with
 * text: -EPERM, -EACCES, -ENOSYS where the kernel or a container does not allow it. */
int events_open(pid_t tid, const struct events_options *options, struct events **ret, struct err *err);
/* Adds another thread, which was there before (attach). Returns 0 or -errno with text. */
int events_add(struct events *e, pid_t tid, struct err *err);
/* Starts the copying. Returns 0 or -errno with text. */
int events_start(struct events *e, struct err *err);
void events_free(struct events *e);

/* Were faults in system calls counted too? */
bool events_has_kernel(const struct events *e);
/* Pages of a ring that there was room for, of locked memory. */
unsigned events_ring_pages(const struct events *e);
/* Of a ring on this machine, where the limit of locked memory is no obstacle. */
unsigned events_ring_most(void);
/* Is this an architecture whose stacks can be followed? */
bool events_has_registers(void);

/* Records that the kernel dropped, until now: it reports them by records too, but not those after the last one that had
 * room. 0 before Linux 6.0. */
uint64_t events_lost(const struct events *e);

/* Waits for records, at most timeout_ms, and passes those that are complete in the order of time: a
 * record is passed when later ones were searched. *ret_n are the caller's to free(), one each, with
 * the list, which is valid until the next call. Returns false when all threads have ended and
 * everything was passed. */
bool events_next(struct events *e, int timeout_ms, struct record ***ret, size_t *ret_n);
/* Copies at once what is in the rings, for the next events_next. */
void events_flush(struct events *e);
