/* SPDX-License-Identifier: MIT
 *
 * Records of the commands in flight: what is to be written when the runtime says that one has ended. They
 * are used again and never freed, so that a callback that comes late finds one, in another use. Nothing
 * locks. Threads that enqueue into a queue and those that call back take and return records at different
 * ends of its list, in cache lines of their own: a command takes a microsecond, and a line that moves
 * between two CPUs a tenth of it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Who moves a record out of IN_FLIGHT has it: the runtime's callback, or a search for commands that failed. */
enum opencl_record_state {
	OPENCL_FREE,      /* or in the hands of one thread */
	OPENCL_IN_FLIGHT,
	OPENCL_EXAMINED,  /* a search asks for its status */
	OPENCL_ARRIVED,   /* the callback came meanwhile, and left it to the search */
};

struct opencl_queue;

struct opencl_record {
	_Alignas(64) _Atomic uint64_t state; /* how often it was used, and in the low 2 bits its state */
	_Atomic(void *) event;               /* NULL: it is not in flight */
	_Atomic(struct opencl_queue *) queue;
	uint64_t before;    /* CLOCK_MONOTONIC, when the call began */
	union {
		uint64_t bytes; /* of work */
		void **freed;   /* else: memory that the command frees; from malloc */
	};
	uint32_t site;      /* of work; else the number of those in freed */
	uint32_t correlation;
	uint32_t took;      /* the call; ns */
	uint32_t index, next;
	uint16_t
		generation; /* of the process: a child of fork inherits records, not the runtime's threads */
	bool releases, is_work;
};
_Static_assert(sizeof(struct opencl_record) == 64, "a cache line");

/* A queue's part; all zero to begin with. */
struct opencl_records {
	/* Of those who enqueue. */
	_Alignas(64) atomic_flag is_locked; /* zero is clear, with the compilers that we have */
	uint32_t kept; /* index + 1 of the first */
	_Atomic uint32_t begun;
	/* Of those who call back. */
	_Alignas(64) _Atomic uint32_t returned;
	_Atomic uint32_t ended;
};

/* A record of the caller's, with a reference to nothing; NULL: no memory, or a million in flight. */
struct opencl_record *opencl_record_claim(struct opencl_records *list);
void opencl_record_return(struct opencl_records *list, struct opencl_record *record);

/* The record is filled in: from now on others may have it. Returns what its callback is to be given. */
void *opencl_record_publish(struct opencl_records *list, struct opencl_record *record);

/* The record that a callback was given. True: it is the caller's. */
bool opencl_record_take(void *data, struct opencl_record **ret);

/* A search: record number i, from 0, NULL after the last. */
struct opencl_record *opencl_record_at(uint32_t i);
bool opencl_record_examine(struct opencl_record *record);
/* Does a thread have it, which fills it in or writes what it is of? */
bool opencl_record_is_held(struct opencl_record *record);
/* True: the callback came meanwhile, and the record is the caller's. */
bool opencl_record_leave(struct opencl_record *record);
