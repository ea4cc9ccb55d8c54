/* SPDX-License-Identifier: MIT
 *
 * What the OpenCL layer knows of a program's devices, queues, contexts and shared virtual memory, found by
 * their handles. An entry is made when a handle is first seen and stays; a runtime that gives the same
 * address to a new object finds the entry again, and its numbers with it. So nothing has to be locked:
 * not at a lookup, and not around fork.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/opencl_clock.h"
#include "inject/opencl_records.h"

struct opencl_device {
	void *handle;
	int32_t number; /* from 0; a part of a device has the number of the whole */
	char name[128];
	struct opencl_clock clock;
};

struct opencl_queue {
	void *handle;
	struct opencl_device *device; /* NULL: not known */
	uint32_t number, context;     /* from 1 */
	_Atomic bool asked;           /* the program asked for profiling */
	_Atomic bool profiled;        /* commands have times */
	/* The list of properties that the program created it with; NULL: none. */
	_Atomic(uint64_t *) properties;
	_Atomic size_t properties_bytes;
	struct opencl_records records; /* of commands in flight */
};

/* The entry of a handle; made if there is none. NULL: no memory. */
struct opencl_device *opencl_device(void *handle);
struct opencl_queue *opencl_queue_new(void *handle, void *context, void *device);
uint32_t opencl_context(void *handle);

/* NULL: it was created in a way that the layer does not see. */
struct opencl_queue *opencl_queue(void *handle);

/* The device of a context that has only one; NULL: several. */
struct opencl_device *opencl_context_device(void *context);

/* An allocation of shared virtual memory with its site, and its end: the bytes that it had, and its site;
 * 0: it is not known, or it was made before a fork. */
void opencl_svm_new(void *pointer, uint64_t bytes, uint32_t site);
uint64_t opencl_svm_end(void *pointer, uint32_t *site);
