/* SPDX-License-Identifier: MIT
 *
 * Inside libhiwater-trace.so, which is loaded into the job: what its front ends (nvtx.c, itt.c,
 * opencl.c, cuda.c) use to write events. A front end knows an interface; this module finds the memory
 * of the recorder (model/trace_ring.h), claims a slot at the first event of a process, and writes.
 *
 * Nothing here allocates, locks, makes a system call (the first event of a process and of a thread
 * excepted), uses floating point, or keeps a pointer of the program's. All functions may be called by
 * any thread at any time, also in a signal handler, also in a child of fork, which is a process of its
 * own: it gets its own slot at its next event. Where there is no recorder they do nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace.h"
#include "model/trace_ring.h"

#define PROBE_API __attribute__((visibility("default")))

/* Is the layer (enum trace_layer, one bit) followed now? Cheap: two relaxed loads. Front ends ask before
 * they do work. Attaches this process at the first call. */
bool probe_follows(unsigned layer);

/* Is the layer to be followed at some time of this run in this process? */
bool probe_wants(unsigned layer);

uint64_t probe_now(void);

/* CLOCK_MONOTONIC less CLOCK_REALTIME now: added to a wall-clock time of a GPU's library. */
int64_t probe_mono_minus_real(void);

enum {
	PROBE_TEXT_BYTES = 4000, /* of a text; longer ones are cut */
};

/* The offset of a text in the slot's arena, which stores equal ones once. len: bytes. 0: no room (counted as TRACE_LOST_NAMES), or no recorder. */
uint32_t probe_text(const char *text, size_t len);
uint32_t probe_text0(const char *text);   /* up to its NUL; NULL is 0 */
uint32_t probe_wide(const wchar_t *text);        /* as UTF-8 */
/* text as UTF-8 into ret, without a NUL; the bytes written. */
size_t probe_utf8(const wchar_t *text, char *ret, size_t bytes);
/* Without room the offset of one without grid, block, registers and shared memory, else trace_site_unnamed: an event is
 * never left out for want of a name. */
uint32_t probe_site(const struct trace_ring_site *site);

/* Write one event of the calling thread. time_ns is probe_now() when the front end was called: 1 event of 64
 * is timed, from there to its end. */
void probe_range(enum trace_ring_kind kind, uint64_t time_ns, uint32_t name, uint32_t domain, uint64_t id);
void probe_call(
	enum trace_ring_kind kind, uint64_t time_ns, uint32_t name, uint64_t correlation, unsigned flags);
void probe_memory(uint64_t time_ns, unsigned flags, const struct trace_ring_memory *memory);
void probe_work(uint64_t start_ns, unsigned flags, const struct trace_ring_work *work);

/* n events of this process are lost. */
void probe_lost(enum trace_loss cause, uint64_t n);

/* n more kernels, copies and fills are in flight, or -n fewer: launched while kernels are followed, and not
 * written. What is left when the process ends is counted as TRACE_LOST_INCOMPLETE by the recorder. */
void probe_in_flight(int64_t n);

/* This process's layers are not followed, and why; detail: a version, the name of the tool that is in the
 * way; NULL: none. */
void probe_not_followed(unsigned layers, enum trace_why why, const char *detail);

/* Number of the process within this one's ancestors by fork: increases in each child. A front end that keeps
 * state of a process (a subscriber, handles) compares it. */
unsigned probe_generation(void);
