/* SPDX-License-Identifier: MIT
 *
 * Turns the events that one process wrote (model/trace_ring.h) into those of a recording: begins and ends become
 * ranges with their depth, offsets become sites, CLOCK_MONOTONIC becomes time of the run.
 *
 * Each thread has a stack of its open ranges. A range that ends while one that began later is still open does not
 * nest: both are TRACE_CROSSING. Ranges without an end are TRACE_UNCLOSED; they get the time at which the process
 * was seen to have ended. Where events of a thread were lost, its open ranges end with the last event before, since
 * their ends may be among the lost ones: how long they took is not known, so they are TRACE_INVALID too, counted and
 * in no sum. An end without a begin is ignored.
 *
 * Every byte is the process's: any value may come, in any order. Memory is bounded. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace.h"
#include "model/trace_ring.h"

enum {
	TRACE_OPEN_MOST = 4096,    /* ranges open at once, a thread */
	TRACE_THREADS_MOST = 8192, /* a process */
	TRACE_SITES_MOST = 1 << 18,
};

/* A text of the process's arena: writes at most size bytes of what is at this offset if it is a text of the type
 * (trace_text.type), and returns their number; -1: it is none. */
typedef ptrdiff_t trace_text_fn(void *ctx, uint32_t offset, unsigned type, void *ret, size_t size);

/* Converts times; set anew before each series of events. */
struct trace_clock {
	int64_t offset_ns;         /* is added: CLOCK_BOOTTIME less CLOCK_MONOTONIC less the run's start */
	uint64_t now_ns;           /* of the run: an event that is more than a second later is invalid */
};

/* Who wants to see ranges and calls of some names begin and end, while they are read. */
struct trace_selector {
	/* What one of this name is to it, bits; 0: nothing. Asked once for each site. */
	unsigned (*select)(void *ctx, enum trace_kind kind, const char *name);
	/* number: 0 at the begin; at the end as it was set then. Calls have a begin only. */
	void (*edge)(
		void *ctx, unsigned what, const char *name, uint64_t time_ns, bool begins, uint32_t *number);
	void *ctx;
};

struct trace_decoder;

/* process: its number in the sink. NULL: out of memory. */
struct trace_decoder *trace_decoder_new(uint32_t process, trace_text_fn *text, void *text_ctx);
void trace_decoder_free(struct trace_decoder *d);
/* Before the first event; selector is borrowed. */
void trace_decoder_select(struct trace_decoder *d, const struct trace_selector *selector);

/* An event of a thread; the events of a thread in the order of their writing. event has trace_ring_bytes(kind)
 * bytes. Returns 0, or the sink's error. */
int trace_decode(struct trace_decoder *d, const struct trace_clock *clock, int32_t tid,
	const struct trace_ring_head *event, const struct trace_sink *sink);

/* Events of a thread were lost; tid -1: of any thread. */
int trace_decode_gap(struct trace_decoder *d, int32_t tid, const struct trace_sink *sink);

/* Events were lost of threads that are none of these n. */
int trace_decode_gap_of_others(
	struct trace_decoder *d, const int32_t *tids, size_t n, const struct trace_sink *sink);

/* The process does not write events of these layers (enum trace_layer) any more: ends of what is open will not come. */
int trace_decode_off(struct trace_decoder *d, unsigned layers, const struct trace_sink *sink);

/* Names could not be stored: an event without a name is one of them, from here on. */
void trace_decode_names_full(struct trace_decoder *d);

/* The process has ended, or the run: ends what is open. */
int trace_decode_end(struct trace_decoder *d, uint64_t end_ns, const struct trace_sink *sink);
