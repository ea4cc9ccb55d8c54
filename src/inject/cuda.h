/* SPDX-License-Identifier: MIT
 *
 * The parts of the CUDA front end. cuda.c is called by the driver when the program first uses CUDA
 * (CUDA_INJECTION64_PATH), subscribes to CUPTI, and hands each call of a driver function that it
 * follows to cuda_memory.c or writes it as a launch; cuda_work.c receives the records of kernels and
 * copies. All of them write events through probe.h.
 *
 * CUPTI is used inside InitializeInjection and CUPTI's own callbacks, and at exit, and nowhere else; no
 * function of CUDA is called at all (in a callback it could hang). After a fork without exec the child
 * cannot use CUDA: cuda_is_ours() is false there, and nothing is done.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "inject/cupti.h"
#include "inject/probe.h"

/* How driver functions are followed. */
enum cuda_class {
	CUDA_NOT_FOLLOWED,
	CUDA_MEMORY,  /* allocates or releases memory: cuda_memory.c */
	CUDA_LAUNCH,  /* a launch, a copy, a fill */
	CUDA_WAIT,    /* a synchronisation; also cuProfilerStart and cuProfilerStop */
	CUDA_FAILURE, /* nothing but its failure is of interest: it allocates memory that no call names */
	CUDA_DESTROY, /* ends contexts: what is complete is flushed before */
	CUDA_CAPTURE_BEGINS, /* of a stream: what is launched until it ends does not run */
	CUDA_CAPTURE_ENDS,
};

/* What a function of CUDA_MEMORY does, and its first arguments. */
enum cuda_act {
	CUDA_NO_ACT,
	CUDA_LINEAR,      /* (address *, bytes) */
	CUDA_MANAGED,
	CUDA_PITCH,       /* (address *, pitch *, width, height) */
	CUDA_FREE,        /* (address) */
	CUDA_PINNED,      /* (address *, bytes) */
	CUDA_REGISTER,    /* (address, bytes) */
	CUDA_PINNED_FREE, /* (address) */
	CUDA_ARRAY,       /* (handle *, descriptor *) */
	CUDA_ARRAY_3D,
	CUDA_MIPMAPPED,   /* (handle *, descriptor *, levels) */
	CUDA_ARRAY_FREE,  /* (handle) */
	CUDA_CREATE,      /* (handle *, bytes, properties *) */
	CUDA_RETAIN,      /* (handle *, address) */
	CUDA_IMPORT,      /* (handle *): memory of another process, or an object without memory */
	CUDA_RELEASE,     /* (handle) */
	CUDA_MAP,         /* (address, bytes, offset, handle) */
	CUDA_UNMAP,       /* (address, bytes) */
};

struct cuda_function {
	uint8_t class; /* enum cuda_class */
	uint8_t act;   /* enum cuda_act */
	_Atomic uint32_t name; /* offset of its name as a text of the slot; 0: not yet used */
};

/* The library's functions, and the subscriber. Filled in before any callback. */
extern struct cupti cuda_cupti;

/* Is this the process that subscribed, and not a child of it? */
bool cuda_is_ours(void);

/* ---- cuda_library.c -------------------------------------------------------------------------- */

/* Finds libcupti and fills in the functions and the version. Returns NULL; the name of what was looked for, if
 * it is in none of the places. */
const char *cuda_library(struct cupti *ret);

/* The profiler or checker that runs this process, by what it leaves in the environment and in the address
 * space; NULL: none. */
const char *cuda_other_tool(void);

/* ---- cuda_functions.c ------------------------------------------------------------------------ */

/* The functions that are followed, by number; after cuda_library(). */
void cuda_functions(struct cuda_function ret[CUPTI_CBIDS]);

/* ---- cuda_memory.c --------------------------------------------------------------------------- */

/* A call of a function of class CUDA_MEMORY begins, and has returned. */
void cuda_memory_enter(unsigned act, const struct cupti_call *call);
void cuda_memory_exit(unsigned act, const struct cupti_call *call);
/* Bytes that a call of an allocating function asked for; 0: unknown. */
uint64_t cuda_memory_requested(unsigned act, const struct cupti_call *call);
/* A context is about to be destroyed, and its memory with it. */
void cuda_memory_context_ends(uint32_t context);
/* The device of the context, remembered; -1: unknown. */
int32_t cuda_device_of(void *context, uint32_t context_id);

/* ---- cuda_work.c ----------------------------------------------------------------------------- */

/* Registers the buffers; kinds are enabled when kernels are first followed. False: kernels are not followed. */
bool cuda_work_begin(void);
/* A call that launches something begins; it has failed; it has returned. */
void cuda_work_launches(uint32_t correlation);
void cuda_work_not_launched(uint32_t correlation);
void cuda_work_launched(void);
/* The capture of a stream begins or ends. */
void cuda_work_captures(bool begins);
/* At the exit of a driver function: enables or disables kinds when a window has begun or ended, and
 * delivers what is complete once a second. Cheap otherwise. */
void cuda_work_poll(void);
/* Delivers what is complete. Only at the entry or exit of a driver function. */
void cuda_work_flush(void);
/* Delivers everything, also what is not complete. At exit. */
void cuda_work_end(void);

/* ---- cuda.c ---------------------------------------------------------------------------------- */

/* A call of CUPTI failed with the result: the layers are not followed. other: the tool that has CUPTI; NULL or
 * "": unknown. */
void cuda_refused(unsigned layers, int result, const char *other);
