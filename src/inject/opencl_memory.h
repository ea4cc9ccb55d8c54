/* SPDX-License-Identifier: MIT
 *
 * Memory of OpenCL: buffers, images, pipes and shared virtual memory, each written when it is created
 * and when it is gone. A memory object is gone when its runtime says so (a destructor callback), not when
 * the program releases it: commands and parts of it may still use it. What was made of another object (a
 * part of a buffer, an image in a buffer) is no memory of its own.
 *
 * Runtimes may allocate an object when it is first used, on each device that uses it; the sizes are those
 * that the program asked for. An object of a context with several devices is of none in particular.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the creation of an object, with the name of the call that made it; mem NULL: it failed, for want
 * of memory if error says that. bytes: what was asked for, 0 if only the runtime knows. Returns mem. */
void *opencl_mem_created(
	const char *call, void *context, uint64_t flags, size_t bytes, void *mem, int32_t error);

void opencl_svm_created(void *context, size_t bytes, void *pointer);
void opencl_svm_freed(void *pointer, uint64_t time_ns);
