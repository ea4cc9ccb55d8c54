/* SPDX-License-Identifier: MIT
 *
 * Who is on a device: the driver's lists, its samples of who had the engines, and its own accounting.
 *
 * Lists cost milliseconds and hold a lock of the driver that the measured program waits for: they are read when the
 * device's memory has moved since the last time, and now and then in any case, as long as there is credit for it
 * (source.h). Where that is short, whose memory is at a new high comes first: peaks are what people ask for. Memory that
 * moved by a GiB and more is worth a debt. What stood in a list is not told once memory has moved away from it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/framebuf.h"

struct source;
struct nvml_gpu;

enum nvml_list {
	NVML_LIST_COMPUTE,
	NVML_LIST_GRAPHICS,
	NVML_LIST_MPS,
	NVML_LISTS,
};

/* A process on a device. */
struct nvml_process {
	uint32_t pid, id;
	struct maybe bytes;
	bool absurd;           /* what the driver says it holds cannot be */
	bool compute, graphics;
	uint64_t started_us;   /* wall clock; 0: unknown */
	uint64_t accounted_us; /* when it began, as accounting says it: a pid may be used again */
};

/* Of one device. */
struct nvml_processes {
	struct nvml_process *list; /* by pid */
	struct nvml_process *next; /* as much room for the list after it */
	size_t n, cap;
	uint64_t listed_ns;        /* when lists were read last; 0: never */
	uint64_t list_cpu_ns, list_wall_ns; /* what they took */
	struct maybe listed_used;  /* the device's memory then */
	struct maybe used;         /* and at the last look */
	int64_t most_used;         /* the most at which they were read */
	uint64_t moved_ns;         /* when memory was last seen to have moved */
	uint64_t stale_ns;         /* since when it is elsewhere than at the list, by more than noise; 0: it is not */
	bool forgotten;            /* and that was told */
	uint64_t told_ns, waited_ns; /* when its processes were told of; since the time before that */
	uint8_t version[NVML_LISTS]; /* of the call in use: 0 is the newest */
	bool absent[NVML_LISTS];
	bool empty[NVML_LISTS];
	uint8_t skipped[NVML_LISTS]; /* so many times since it was read */
	uint64_t read_ns[NVML_LISTS];
	int code[NVML_LISTS];
	int list_code;             /* of the last look: NVML_SUCCESS where who is in the compute list is known */
	uint8_t use_version;
	bool use_absent;
	int use_code;
	uint64_t use_seen_us;      /* newest sample that was told, wall clock */
	bool accounting;           /* the driver keeps each process's peak */
};

/* Room that all devices share. */
struct nvml_room {
	uint8_t *bytes;             /* cap entries of any kind */
	struct nvml_listed *listed; /* NVML_LISTS * cap */
	size_t cap, n;              /* n: in listed */
};

/* Reads lists and samples of every device that it is worth it for; births, ends, readings go to out. */
void nvml_processes_read(struct source *s, struct framebuf *out);

/* ---- turns.c --------------------------------------------------------------------------------------------------- */

enum {
	NVML_CREDIT_SPARE = 50 /* hundredths that must be there for what can wait */
};

/* How long a list stands where memory does not move, by what the last lists of all devices took. */
uint64_t nvml_rest_ns(const struct source *s);
/* Reads those of one device, where nobody has to save. */
void nvml_processes_list(struct source *s, struct nvml_gpu *d, struct framebuf *out);
/* The device whose turn it is to be listed. NULL: what is left can wait. */
struct nvml_gpu *nvml_next_to_list(const struct source *s);
/* A divided GPU's instances have the lists. */
bool nvml_may_be_listed(const struct source *s, const struct nvml_gpu *d);
bool nvml_is_to_be_listed(const struct source *s, const struct nvml_gpu *d); /* and there is a reason to */
/* Memory is not what it was at the last list. */
bool nvml_has_moved(const struct nvml_processes *p);
void nvml_see_memory(const struct source *s, struct nvml_processes *p, struct maybe used);
/* Device memory was read: is one moving, what may be borrowed for that, and whose list does not stand any more. */
void nvml_processes_watch(struct source *s, struct framebuf *out);
/* Whether a list of d that can wait may be read: a share of what can be saved up is there, in hundredths. */
bool nvml_may_list(const struct source *s, int hundredths);

/* ---- processes.c ----------------------------------------------------------------------------------------------- */

/* All processes of d are gone, or nobody can tell any more. */
void nvml_processes_end(struct nvml_gpu *d, struct framebuf *out);
void nvml_processes_free(struct nvml_gpu *d);

/* The process of that pid; NULL. */
struct nvml_process *nvml_process_find(const struct nvml_processes *p, uint32_t pid);

/* use.c: which processes had the engines, by the driver's samples since the last look. */
void nvml_use_read(struct source *s, struct nvml_gpu *d, struct framebuf *out);

/* lists.c: fills s->room with who is on d, merged. Returns NVML's code: that of the compute list, or that d is lost. */
int nvml_lists_read(struct source *s, struct nvml_gpu *d);
/* Are processes missing because that list failed? */
bool nvml_list_lacks(const struct nvml_processes *p, enum nvml_list which);

/* ---- lists as drivers write them (lists.c) ------------------------------------------------------------------------- */

/*
 * Process lists as drivers write them. An entry is 16 bytes (pid, memory), 24 (and GPU and compute instance) or 32: the
 * drivers 535.43 to 535.86 write 32 under the name of the 24. So a list is read into room for the longest, filled with a
 * pattern before, and how far the driver wrote says which it was.
 */

enum {
	NVML_ENTRY_V1 = 16,
	NVML_ENTRY = 24,
	NVML_ENTRY_LONG = 32,
	NVML_PATTERN = 0xA5,
};

struct nvml_listed {
	uint32_t pid;
	uint64_t bytes; /* NVML_NONE_U64: the driver does not say */
	uint32_t gpu_instance, compute_instance; /* NVML_NONE_U32: no MIG */
	bool compute, graphics; /* the lists it was in */
};

/* The length of n entries in size bytes that held the pattern. maybe_long: what to take where more was written than n
 * entries of either kind. */
size_t nvml_list_stride(const uint8_t *bytes, size_t size, size_t n, bool maybe_long);

/* Adds up to n entries of stride bytes to ret, which has room for them; entries of pid 0 are left out. Returns how many. */
size_t nvml_list_decode(const uint8_t *bytes, size_t n, size_t stride, struct nvml_listed *ret);

/* Sorts by pid and makes one entry of those of the same process: a pid may be in several lists with what may be the
 * same memory, so the largest counts, not the sum. Returns how many are left. */
size_t nvml_list_merge(struct nvml_listed *list, size_t n);
