/* SPDX-License-Identifier: MIT
 *
 * Commands of OpenCL's queues: from the call that enqueues one to its times.
 *
 * A call is between opencl_begin and opencl_end, which write when it began and returned. If the program
 * wanted no event of the command, it gets one of ours. When the command ends, the runtime calls us back
 * on a thread of its own; the event's times are read, the kernel, copy or fill is written, and the event
 * is released. A command that we follow has a record until then (opencl_records.h). A runtime may call back
 * a moment after clFinish has returned, and one that does not call back for a command that failed (PoCL) would
 * keep event and queue without end: so opencl_reap looks for those.
 *
 * The program sees none of this: its events have one more reference, which clGetEventInfo is kept from
 * reporting (opencl_references), and what it releases is released once our call is done.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "inject/opencl_abi.h"
#include "inject/opencl_objects.h"
#include "model/trace.h"

enum {
	OPENCL_NO_WORK = TRACE_KIND_COUNT, /* opencl_command.kind: a flush, a wait, a marker */
};

/* One call, on the stack of the function that wraps it. The first part is filled in before opencl_begin,
 * or between it and opencl_end. */
struct opencl_command {
	const char *call;   /* the name of the function, also of the work if it is no kernel */
	unsigned kind;      /* TRACE_KERNEL, TRACE_COPY, TRACE_FILL or OPENCL_NO_WORK */
	void *kernel;       /* of a kernel: its handle */
	uint32_t grid[3], block[3];
	uint8_t source, target; /* enum trace_memory */
	uint64_t bytes;
	bool blocking;      /* when the call returns the command has ended */
	void **freed; /* shared virtual memory that the command frees; from malloc, and taken over */
	uint32_t freed_count;

	struct opencl_queue *queue; /* the rest is private */
	void **event, *own_event;
	bool outermost, called, work, unseen;
	uint32_t correlation;
	uint64_t before, after; /* CLOCK_MONOTONIC */
};

/* event: the program's, may be NULL. Returns the one to call with. */
void **opencl_begin(struct opencl_command *command, void *queue, void **event);

/* Returns status. */
int32_t opencl_end(struct opencl_command *command, int32_t status);

/* Kernels were created: the address of one may be that of an earlier one. */
void opencl_kernels_changed(void);

/* Writes, and lets go of, commands of a queue that have ended. */
void opencl_reap(struct opencl_queue *queue);

/* How many references of an event are ours. */
uint32_t opencl_references(const void *event);
