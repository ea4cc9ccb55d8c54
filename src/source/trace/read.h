/* SPDX-License-Identifier: MIT
 *
 * Follows a job by the events that its processes write into shared memory (ring.h): drains all slots while the job
 * runs, and passes what it finds to a sink, usually the recording's.
 *
 * Nothing in the memory is trusted. Bytes are copied before they are judged, and copied events count only if their
 * chunk's generation is still the same afterwards. A drain reads each chunk once, so it ends whatever another
 * process writes meanwhile.
 *
 * Threads: trace_drain in one thread (the recording's); trace_reader_note, trace_reader_bytes_of and
 * trace_reader_answer in any one other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/root.h"
#include "model/trace.h"
#include "source/trace/select.h"

enum {
	TRACE_NOTE_BYTES = 400,
};

struct trace_reader_options {
	const struct root *root;   /* borrowed */
	unsigned layers;           /* enum trace_layer */
	struct trace_select_options select;
};

struct trace_reader;

/* Returns 0 or -errno with text. */
int trace_reader_new(const struct trace_reader_options *options, struct trace_reader **ret, struct err *err);
/* Processes of the job that still run stop writing events. */
void trace_reader_free(struct trace_reader *t);

/* The run's start (CLOCK_BOOTTIME) and the main process. Nothing is drained before. */
void trace_reader_begin(struct trace_reader *t, uint64_t start_boot_ns, pid_t main);
/* Its windows, and the phases that its ranges are. */
struct trace_select *trace_reader_select(struct trace_reader *t);

/* For the job: the descriptor that it inherits, and the value of TRACE_ENVIRONMENT. */
int trace_reader_fd(const struct trace_reader *t);
const char *trace_reader_environment(const struct trace_reader *t);

/* A socket on which processes of the job ask for the descriptor, -1: none; call trace_reader_answer when it is
 * readable. */
int trace_reader_socket(const struct trace_reader *t);
void trace_reader_answer(struct trace_reader *t);

/* Has a process of the job used the memory? Once true it stays so. Any thread. */
bool trace_reader_is_used(const struct trace_reader *t);
/* Has pages ready for the first processes. While nothing is drained: trace_drain does it, too. */
void trace_reader_prepare(struct trace_reader *t);

/* Reads what there is; model/trace.h has the meaning of how. Returns 0, or the error of the sink: then some
 * events are lost, and it may be called again. */
int trace_drain(void *reader, enum trace_drain how, const struct trace_sink *sink);

/* Adds a message. Any thread. */
void trace_reader_add_note(struct trace_reader *t, const char *text);
/* The next message for the user ("process 17 (python): kernels are not followed: ..."), each once. False: none. */
bool trace_reader_note(struct trace_reader *t, char ret[static TRACE_NOTE_BYTES]);

/* The bytes of shared memory in the resident size and the high-water mark of a process; start_ticks 0: of the
 * latest one of this pid. */
uint64_t trace_reader_bytes_of(void *reader, pid_t pid, uint64_t start_ticks);
