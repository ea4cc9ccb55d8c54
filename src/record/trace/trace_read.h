/* SPDX-License-Identifier: MIT
 *
 * Reads the traced work of a recording, growing or finished; nothing in the file is trusted. One thread
 * at a time.
 */
#pragma once

#include "base/err.h"
#include "model/trace.h"
#include "record/read/replay.h"

/* Buckets of durations: 32 an octave from 1 ns, so that a quantile is within 1.1 % of the truth.
 * trace_stat.histogram is a blob of pairs of varints (as SQLite's: big-endian, 7 bits a byte): the
 * difference to the bucket before, the count. */
enum {
	TRACE_BUCKETS_AN_OCTAVE = 32
};

/* trace_stat.phase of sums that are not divided by phases, since there were too many of them. */
#define TRACE_PHASE_MIXED UINT32_MAX

/* The sums of equal events: of one name, kind, process, thread (ranges) or device and stream (work), and
 * phase. */
struct trace_stat {
	enum trace_kind kind;
	uint32_t process;        /* trace_read_process */
	const char *name, *domain; /* borrowed from the reader */
	int64_t tid, device;     /* -1: none */
	uint64_t stream;
	uint32_t phase;          /* number of the phase; 0: none */
	enum trace_memory source, target;
	uint64_t count, invalid; /* invalid ones are in no sum; count is without them */
	uint64_t total_ns, min_ns, max_ns;
	double sum_squares;      /* of ns */
	uint64_t bytes;          /* of copies, fills and allocations */
	uint64_t rows;           /* how many of count have a row: all of them make quantiles exact */
	const void *histogram;
	size_t histogram_bytes;
};

/* A device of a process: the union of its kernels and copies over all streams, within the windows. */
struct trace_busy {
	uint32_t process;
	int64_t device;          /* -1: unknown */
	const char *name;        /* of the device; "" if unknown */
	uint64_t traced_ns;      /* the windows; if there is none, from the first event to the last */
	uint64_t busy_ns, kernels_ns, copies_ns, both_ns; /* copies: and fills; both: at once */
	uint64_t gaps, longest_ns, longest_at_ns;         /* a gap ends with its window */
	uint64_t first_ns, last_ns;
	uint64_t late;           /* events that were lost, or so far out of order that they count in part; 0: exact */
};

/* In place of an enum trace_memory: device, array and managed memory together. */
enum {
	TRACE_PEAK_GPU = TRACE_MEMORY_COUNT,
};

/* What calls of a process had allocated at once, of a kind. */
struct trace_peak {
	uint32_t process;
	int64_t device;          /* -1: unknown */
	uint32_t memory;         /* enum trace_memory, or TRACE_PEAK_GPU */
	uint64_t live_bytes;     /* at the end */
	uint64_t peak_bytes, peak_at_ns;
	bool is_exact;           /* no event of the process was lost */
};

struct trace_window {
	uint64_t begin_ns, end_ns;
	const char *why;
};

struct trace_lost {
	uint32_t process;        /* 0: none in particular */
	enum trace_loss cause;
	uint64_t n;
};

struct trace_read;

/* r is borrowed and stays open. Returns 0; -ENOENT with text if the recording has no traced work ("... was
 * not traced; use: hiwater run --trace -- ..."); or -errno with text. */
int trace_read_new(struct replay *r, struct trace_read **ret, struct err *err);
void trace_read_free(struct trace_read *t);

/* Index from 0; counts as of the open. */
size_t trace_read_stat_count(const struct trace_read *t);
const struct trace_stat *trace_read_stat(const struct trace_read *t, size_t i);
size_t trace_read_busy_count(const struct trace_read *t);
const struct trace_busy *trace_read_busy(const struct trace_read *t, size_t i);
size_t trace_read_peak_count(const struct trace_read *t);
const struct trace_peak *trace_read_peak(const struct trace_read *t, size_t i);
size_t trace_read_window_count(const struct trace_read *t);
const struct trace_window *trace_read_window(const struct trace_read *t, size_t i);
size_t trace_read_lost_count(const struct trace_read *t);
const struct trace_lost *trace_read_lost(const struct trace_read *t, size_t i);

/* The expression (POSIX ERE) of the names of steps that the run was traced with; NULL: none is known. Any text. */
const char *trace_read_step(const struct trace_read *t);

/* The memory that processes of the job touched to write their events, summed; not known of a run that was killed, merged or
 * imported. */
struct maybe trace_read_probe_bytes(const struct trace_read *t);

/* By their numbers, from 1; NULL: there is none. */
const struct trace_process *trace_read_process(const struct trace_read *t, uint32_t number);
const struct trace_site *trace_read_site(struct trace_read *t, uint32_t number);
size_t trace_read_process_count(const struct trace_read *t);
const char *trace_read_thread(struct trace_read *t, uint32_t process, int64_t tid); /* its name; "" */

/* Rows of the kinds (bit n: kind n) that overlap [from_ns, to_ns), in the order of their start, until see
 * returns false. Memory does not grow with their number. Returns 0 or -errno with text. */
int trace_read_rows(struct trace_read *t, unsigned kinds, uint64_t from_ns, uint64_t to_ns,
	bool (*see)(void *ctx, const struct trace_event *event), void *ctx, struct err *err);

/* A call of a GPU's driver that found no memory, or the first one after which nothing else worked. */
struct trace_failure {
	uint32_t process;
	uint64_t at_ns, count;   /* of equal ones: the first; how many were marked, which not all are */
	char text[192];          /* the call, bytes asked for, error; any bytes */
};

enum {
	TRACE_FAILURES = 8,
};
/* Different ones, in the order of time; *ret_n of list are set. Returns 0 or -errno with text. */
int trace_read_failures(struct trace_read *t, struct trace_failure list[static TRACE_FAILURES], size_t *ret_n,
	struct err *err);

/* "device", "pinned", and "gpu" for TRACE_PEAK_GPU; -1 for other texts. */
const char *trace_peak_name(uint32_t memory);
int trace_peak_find(const char *name);

/* The name of a histogram's bucket for a duration, and a duration in the middle of one. */
unsigned trace_bucket(uint64_t duration_ns);
uint64_t trace_bucket_ns(unsigned bucket);
/* The quantile q (0 to 1) of the stat's durations by its histogram; 0: it has none. */
uint64_t trace_stat_quantile(const struct trace_stat *stat, double q);
