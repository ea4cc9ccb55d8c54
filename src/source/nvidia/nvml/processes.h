/* SPDX-License-Identifier: MIT
 *
 * The processes on a device: the driver's lists, its samples of their use of the engines, and its
 * accounting.
 *
 * Lists cost milliseconds and hold a lock of the driver that the measured program waits for. They
 * are read when the device's memory has moved since the last list, and now and then in any case, as
 * long as there is credit (source.h). If credit is short, devices whose memory is at a new high
 * come first, because peaks matter most; memory that moved by 1 GiB or more justifies a debt. Once
 * memory has moved away from a list, its content is no longer appended.
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
	bool implausible;      /* the driver reports more memory than the device has */
	bool compute, graphics;
	uint64_t started_us;   /* wall clock; 0: unknown */
	uint64_t accounted_us; /* start time by accounting, to recognise a reused pid */
};

/* State of one device. */
struct nvml_processes {
	struct nvml_process *list; /* sorted by pid */
	struct nvml_process *next; /* buffer of the same size for the next list */
	size_t n, cap;
	uint64_t listed_ns;        /* when lists were read last; 0: never */
	uint64_t list_cpu_ns, list_wall_ns; /* their cost */
	struct maybe listed_used;  /* device memory at that time */
	struct maybe used;         /* device memory at the last read */
	int64_t most_used;         /* the highest memory at which lists were read */
	uint64_t moved_ns;         /* when memory last changed */
	uint64_t stale_ns;         /* since when memory differs from listed_used by more than noise; or 0 */
	bool forgotten;            /* unknown was appended for that reason */
	uint64_t reported_ns, waited_ns; /* when processes were last appended; time since the append before */
	uint8_t version[NVML_LISTS]; /* of the call in use: 0 is the newest */
	bool absent[NVML_LISTS];
	bool empty[NVML_LISTS];
	uint8_t skipped[NVML_LISTS]; /* number of times since its last read */
	uint64_t read_ns[NVML_LISTS];
	int code[NVML_LISTS];
	int list_code;             /* of the last list; NVML_SUCCESS: the compute list was read */
	uint8_t use_version;
	bool use_absent;
	int use_code;
	uint64_t use_seen_us;      /* newest sample used, wall clock */
	bool accounting;           /* the driver keeps each process's peak */
};

/* Buffers that all devices share. */
struct nvml_room {
	uint8_t *bytes;             /* cap entries of any kind */
	struct nvml_listed *listed; /* NVML_LISTS * cap */
	size_t cap, n;              /* n: in listed */
};

/* Reads lists and samples of the devices that are due; appends births, ends and readings. */
void nvml_processes_read(struct source *s, struct framebuf *out);

/* ---- schedule.c --------------------------------------------------------------------------------- */

enum {
	NVML_CREDIT_SPARE = 50 /* hundredths of the credit needed for reads that can wait */
};

/* How long a list stays valid while memory does not move, by the cost of the last lists of all
 * devices. */
uint64_t nvml_idle_ns(const struct source *s);
/* Lists one device's processes, without a read budget. */
void nvml_processes_list(struct source *s, struct nvml_gpu *d, struct framebuf *out);
/* The device to list next; NULL: the remaining ones can wait. */
struct nvml_gpu *nvml_next_to_list(const struct source *s);
/* False for a divided GPU (its instances have the lists), in WSL, and for one that does not
 * answer. */
bool nvml_can_list(const struct source *s, const struct nvml_gpu *d);
bool nvml_list_is_due(const struct source *s, const struct nvml_gpu *d); /* and its turn has come */
/* Does device memory differ from that at the last list? */
bool nvml_memory_has_moved(const struct nvml_processes *p);
void nvml_memory_update(const struct source *s, struct nvml_processes *p, struct maybe used);
/* Device memory was read: is it moving, how much credit may be borrowed for that, and which lists
 * are out of date? */
void nvml_processes_watch(struct source *s, struct framebuf *out);
/* Is that share of the maximum credit available, in hundredths? Always true without a read
 * budget. */
bool nvml_has_credit(const struct source *s, int hundredths);

/* ---- processes.c ----------------------------------------------------------------------------- */

/* All processes of d have ended, or are unknown from now on. */
void nvml_processes_end(struct nvml_gpu *d, struct framebuf *out);
void nvml_processes_free(struct nvml_gpu *d);

/* The process with that pid; NULL: none. */
struct nvml_process *nvml_process_find(const struct nvml_processes *p, uint32_t pid);

/* use.c: processes' use of the engines, by the driver's samples since the last read. */
void nvml_use_read(struct source *s, struct nvml_gpu *d, struct framebuf *out);

/* lists.c: fills s->room with the processes on d, merged. Returns NVML's code: that of the compute
 * list, or that d is lost. */
int nvml_lists_read(struct source *s, struct nvml_gpu *d);
/* Are processes missing because that list failed? */
bool nvml_list_lacks(const struct nvml_processes *p, enum nvml_list which);

/* ---- lists as drivers write them (lists.c) --------------------------------------------------- */

/* Process lists as drivers write them. An entry has 16 bytes (pid, memory), 24 (plus GPU and
 * compute instance) or 32: drivers 535.43 to 535.86 write 32 under the name of the 24-byte form. So
 * the buffer has room for the longest form and is filled with a pattern; the last byte written
 * shows the form. */

enum {
	NVML_ENTRY_V1 = 16,
	NVML_ENTRY = 24,
	NVML_ENTRY_LONG = 32,
	NVML_PATTERN = 0xA5,
};

struct nvml_listed {
	uint32_t pid;
	uint64_t bytes; /* NVML_NONE_U64: unknown */
	uint32_t gpu_instance, compute_instance; /* NVML_NONE_U32: no MIG */
	bool compute, graphics; /* the lists that contain it */
};

/* The entry length of n entries in size bytes that were filled with the pattern. maybe_long: may
 * the driver write long entries, if more was written than n entries of either kind need? */
size_t nvml_list_stride(const uint8_t *bytes, size_t size, size_t n, bool maybe_long);

/* Decodes up to n entries of stride bytes into ret, which must have room for them; entries with pid
 * 0 are skipped. Returns their number. */
size_t nvml_list_decode(const uint8_t *bytes, size_t n, size_t stride, struct nvml_listed *ret);

/* Sorts by pid and merges entries of one process: several lists may contain it with the same
 * memory, so the largest value counts, not the sum. Returns the number left. */
size_t nvml_list_merge(struct nvml_listed *list, size_t n);
