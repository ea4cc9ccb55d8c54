/* SPDX-License-Identifier: MIT
 *
 * Traced work: what a job did from inside, an event each: ranges that the program or its libraries
 * named, calls of a GPU's interface, kernels, copies, allocations. Origins (the probe in the job, an
 * imported file of another tool) pass events to a trace_sink; the recording is one
 * (record/trace/trace_write.h).
 *
 * Times are nanoseconds since the run's start, as in frames. Texts are borrowed until the call
 * returns; any bytes, control characters included.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What can be traced: run --trace=WHAT, bits. */
enum trace_layer {
	TRACE_RANGES = 1,
	TRACE_MEMORY = 2,
	TRACE_LAUNCHES = 4,
	TRACE_KERNELS = 8,
	TRACE_ALL = 15,
};

enum trace_kind {
	TRACE_RANGE,  /* a named stretch of a thread: NVTX, ITT, cpu_op of torch.profiler */
	TRACE_MARK,   /* a named instant of a thread; end_ns is start_ns */
	TRACE_LAUNCH, /* a call of a GPU's interface on the host: a launch, a copy, a synchronisation */
	TRACE_KERNEL, /* work on a device; a launch of a graph is one kernel, its nodes have its correlation */
	TRACE_COPY,   /* bytes moved: between host and device, or on a device */
	TRACE_FILL,   /* bytes set on a device */
	TRACE_ALLOC,  /* an allocation of a GPU's memory; an instant */
	TRACE_FREE,   /* the release of one; bytes are those that it had */
	TRACE_KIND_COUNT,
};

/* Kinds of memory, of both ends of a copy and of an allocation. */
enum trace_memory {
	TRACE_MEMORY_UNKNOWN,
	TRACE_PAGEABLE, /* of the host */
	TRACE_PINNED,   /* of the host, page-locked */
	TRACE_DEVICE,
	TRACE_ARRAY,
	TRACE_MANAGED,  /* migrates between host and device */
	TRACE_MEMORY_COUNT,
};

/* Bits of an event. */
enum trace_flag {
	TRACE_UNCLOSED = 1, /* the range had no end: end_ns is that of its process, or of the recording */
	TRACE_CROSSING = 2, /* it overlaps another range of its thread without being inside, or began on another thread */
	TRACE_INVALID = 4,  /* without times, or with an end before its start: counted, in no sum */
	TRACE_FAILED = 8,   /* the call returned an error */
	TRACE_NODE = 16,    /* a kernel or copy that is a node of a launched graph */
};

/* A process with events. */
struct trace_process {
	int64_t pid;          /* in the recorder's namespace; of an imported file: as in the file; -1: none */
	uint64_t start_ns;    /* since boot, as process_birth; 0: unknown */
	const char *name;     /* "" if unknown */
	const char *origin;   /* "probe", "kineto", "nsys", "chrome" */
	int64_t rank;         /* -1: unknown */
};

/* What equal events share. */
struct trace_site {
	enum trace_kind kind;
	uint32_t process;     /* from trace_sink.process */
	const char *name;     /* as the program gave it; of kernels mangled, if it has only that */
	const char *domain;   /* of a range: NVTX's or ITT's domain, a category of a Chrome trace; "": none */
	int64_t tid;          /* of ranges, marks and launches; -1: unknown */
	int64_t device;       /* of kernels, copies, fills, allocations: number in its process; -1: unknown */
	uint64_t context, stream;
	uint32_t grid[3], block[3];             /* all 0: unknown */
	uint32_t registers, shared_static, shared_dynamic; /* a thread; bytes a block */
	enum trace_memory source, target;       /* of a copy, a fill; an allocation: target */
	const char *device_name; /* "": unknown; with the first site of its device */
};

struct trace_event {
	enum trace_kind kind;
	uint32_t site;        /* from trace_sink.site */
	uint32_t flags;       /* enum trace_flag */
	uint32_t depth;       /* of a range: how many ranges of its thread are around it */
	uint64_t start_ns, end_ns;
	uint64_t queued_ns, submitted_ns; /* of work on a device; 0: unknown */
	uint64_t correlation; /* equal in a launch and what it started, within a process; 0: none */
	uint64_t bytes;       /* of copies, fills, allocations and releases */
	uint64_t address;     /* of allocations and releases */
};

/* Why events are missing. */
enum trace_loss {
	TRACE_LOST_OVERWRITTEN, /* the process wrote faster than the recorder read */
	TRACE_LOST_THREADS,     /* more threads at once than the process has chunks */
	TRACE_LOST_NAMES,       /* no room for another name: the events are there, called "(names full)" */
	TRACE_LOST_DROPPED,     /* the GPU's library reported that it dropped them */
	TRACE_LOST_INCOMPLETE,  /* in flight when the process ended */
	TRACE_LOST_DAMAGED,     /* the memory shared with the job, or the imported file, was not valid there */
	TRACE_LOST_THINNED,     /* their rows were left out, to stay within a limit; they are in all sums */
	TRACE_LOSS_COUNT,
};

/* Where events go. Every function returns 0 or -errno, after which the caller stops. All calls come
 * from one thread. */
struct trace_sink {
	/* *ret is the process's number, from 1; the same process again gets the same one. 0, also of a site: there
	 * are too many; calls with it are counted as lost. */
	int (*process)(void *ctx, const struct trace_process *process, uint32_t *ret);
	/* *ret is the site's number, from 1; an equal site gets the same one. */
	int (*site)(void *ctx, const struct trace_site *site, uint32_t *ret);
	/* In any order of time. */
	int (*event)(void *ctx, const struct trace_event *event);
	int (*thread)(void *ctx, uint32_t process, int64_t tid, const char *name);
	/* n more events of the process are missing; process 0: of none in particular. */
	int (*lost)(void *ctx, uint32_t process, enum trace_loss cause, uint64_t n);
	/* Records of kernels and copies were kept from begin to end (UINT64_MAX: it is open); why is
	 * "whole run", "steps 10-20". Sent again with its end. */
	int (*window)(void *ctx, uint64_t begin_ns, uint64_t end_ns, const char *why);
	/* At the end: the memory that processes of the job touched to write their events, summed. NULL: it is not asked for. */
	int (*probe)(void *ctx, uint64_t bytes);
	void *ctx;
	/* A range that is a phase of the run begins or ends: before later events are passed on, and before its frame
	 * comes. NULL: it makes no difference. */
	void (*phase)(void *phase_ctx, uint64_t time_ns, uint32_t number, bool begins);
	void *phase_ctx;
};

/* The domain of the marks that the probe makes of calls of CUDA that failed. */
#define TRACE_FAILED_DOMAIN "CUDA"

enum {
	TRACE_DRAIN_MS = 50, /* between two drains */
	TRACE_PHASE_FIRST = 1000000, /* numbers of phases that are ranges; those of the user are below */
};

enum trace_drain {
	TRACE_DRAIN_USUAL, /* events of the last 100 ms stay for the next, so that the phases in which they began are known */
	TRACE_DRAIN_ALL,   /* nothing stays */
	TRACE_DRAIN_LAST,  /* and no more will come: what is open ends */
};

/* An origin that is read again and again while the run lasts. */
struct trace_feed {
	/* Passes on the events that there are. Returns 0, or the error of the sink. */
	int (*drain)(void *ctx, enum trace_drain how, const struct trace_sink *sink);
	void *ctx;
};

/* "range", "kernel": the name in tables, JSON and exports; -1 for other texts. */
const char *trace_kind_name(enum trace_kind kind);
int trace_kind_find(const char *name);
/* "pageable", "device"; "" for TRACE_MEMORY_UNKNOWN. */
const char *trace_memory_name(enum trace_memory memory);
int trace_memory_find(const char *name);
/* "overwritten", "dropped". */
const char *trace_loss_name(enum trace_loss loss);
int trace_loss_find(const char *name);
/* "ranges", "kernels": one bit of enum trace_layer; NULL: not one. */
const char *trace_layer_name(unsigned layer);

/* Parses "ranges,memory", a list of layers; "" is all. Returns 0, or -EINVAL if a word is none. */
int trace_layers_parse(const char *list, unsigned *ret);
