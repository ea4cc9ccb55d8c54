// SPDX-License-Identifier: MIT
/*
 * Between the fake of CUDA's driver that is traced (cuda_traced.c) and the fake of CUPTI (cupti.c):
 * the driver finds these functions in whichever libcupti the process has loaded, and calls them as a
 * real driver calls back into CUPTI.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of functions that hiwater finds by their names: not those of a real driver. */
enum {
	FAKE_CBID_CAPTURES = 870,
	FAKE_CBID_CAPTURED,
};

/* A call of a driver function, at its entry and at its exit. */
struct fake_call {
	unsigned cbid;
	const char *name;
	const void *params;
	int result;
	const char *kernel;
	void *context;
	unsigned context_id;
	unsigned correlation;
	uint64_t data[2]; /* a word for each of two subscribers */
};

/* Work on the device, with its true times (wall clock, ns). */
struct fake_work {
	unsigned kind;   /* CUPTI's: 1, 2, 10, 22, 51 */
	const char *name;
	uint64_t start, end, bytes;
	unsigned context_id, stream, correlation;
	unsigned grid[3], block[3];
	uint64_t node;
	unsigned graph;
	unsigned direction, source, target;
};

typedef void fakecupti_call_fn(struct fake_call *call, bool is_exit);
typedef void fakecupti_work_fn(const struct fake_work *work);
typedef void fakecupti_context_ends_fn(void *context);
typedef bool fakecupti_enabled_fn(unsigned kind);

/* Of a context: its id, which CUPTI's functions return. */
struct fake_context {
	unsigned id, device;
	struct fake_context *before; /* the one that was made before it: all are kept */
};
