/* SPDX-License-Identifier: MIT
 *
 * What hiwater uses of CUPTI, NVIDIA's tracing library, in declarations of its own: CUPTI is found at
 * run time (cuda_library.c), and none of its files is needed to build hiwater.
 *
 * Records and parameters are declared as far as they are read. CUPTI only ever appended to them: the
 * offsets below are those of every release from 11.8 to 13.5, while the full sizes differ. So sizeof is
 * never used to step through a buffer of records; cuptiActivityGetNextRecord is.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Results. */
enum {
	CUPTI_OK = 0,
	CUPTI_END = 12,            /* of a buffer */
	CUPTI_NOT_INITIALIZED = 15,
	CUPTI_NOT_SUPPORTED = 27,
	CUPTI_VIRTUALIZED = 33,    /* a vGPU without tracing */
	CUPTI_PRIVILEGES = 35,
	CUPTI_SUBSCRIBED = 39,     /* another tool is there */
	CUPTI_CONFIDENTIAL = 41,   /* confidential computing */
	CUPTI_UNKNOWN = 999,
};

/* cuptiGetVersion: a small number up to 12.9 (28), then 10000 * major + 100 * minor + patch. */
enum {
	CUPTI_NO_BUFFER_ALLOWED = 27, /* a request for a buffer may be answered with none from here on */
	CUPTI_13_0 = 130000,          /* the first release of 13: see cuda_work.c */
	CUPTI_13_2 = 130200,          /* struct cupti_subscriber has all its fields */
	CUPTI_13_3 = 130300,          /* several subscribers */
};

/* ---- callbacks ------------------------------------------------------------------------------- */

enum {
	CUPTI_DRIVER = 1,   /* domains */
	CUPTI_RESOURCE = 3,
	CUPTI_ENTER = 0,    /* sites */
	CUPTI_EXIT = 1,
	CUPTI_CONTEXT_DESTROYED = 2, /* of CUPTI_RESOURCE: it is about to be */
	CUPTI_CBIDS = 1536, /* numbers of driver functions that are looked at; 13.5 has less than 900 */
};

/* CUPTI_DRIVER. */
struct cupti_call {
	uint32_t site;
	const char *function;
	const void *params;   /* the arguments, in the layout of a struct of them in order */
	const int *result;    /* at CUPTI_EXIT */
	const char *kernel;   /* of a launch: its mangled name */
	void *context;
	uint32_t context_id;
	uint64_t *data;       /* a word of the subscriber's: what it stores at CUPTI_ENTER is there at CUPTI_EXIT */
	uint32_t correlation;
};

/* CUPTI_RESOURCE. */
struct cupti_resource {
	void *context;
};

typedef void cupti_callback(void *user, unsigned domain, unsigned cbid, const void *data);

/* Argument of cuptiSubscribe_v2. */
struct cupti_subscriber {
	size_t size;          /* of this struct: 32 before CUPTI_13_2 */
	const char *name;
	char *other;          /* receives the name of the tool that is there already */
	size_t other_size;    /* at least 64 */
	uint8_t shared;       /* from CUPTI_13_2: others may subscribe too */
	uint8_t padding[7];
};

/* ---- records of activities ------------------------------------------------------------------- */

enum {
	CUPTI_MEMCPY = 1,
	CUPTI_MEMSET = 2,
	CUPTI_KERNEL_SERIAL = 3, /* a kind that hiwater never asks for: it makes kernels run one by one */
	CUPTI_KERNEL = 10,
	CUPTI_MEMCPY2 = 22,      /* between devices */
	CUPTI_GRAPH = 51,        /* the launch of a graph as a whole */
};

struct cupti_record {
	uint32_t kind;
};

struct cupti_kernel {
	uint32_t kind;
	uint8_t cache[2];
	uint16_t registers;
	uint32_t partitioned[2];
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	uint32_t grid[3], block[3];
	uint32_t shared_static, shared_dynamic;
	uint32_t local_thread, local_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *reserved;
	uint64_t queued, submitted;
	uint8_t launch[8];
	uint64_t node;           /* of a graph; 0: none */
};

struct cupti_memcpy {
	uint32_t kind;
	uint8_t direction, source, target, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t correlation, runtime_correlation, padding;
	void *reserved;
	uint64_t node;
};

struct cupti_memcpy2 {
	uint32_t kind;
	uint8_t direction, source, target, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t source_device, source_context, target_device, target_context;
	uint32_t correlation;
	void *reserved;
	uint64_t node;
};

struct cupti_memset {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t correlation;
	uint16_t flags, memory;
	uint32_t padding;
	void *reserved;
	uint64_t node;
};

struct cupti_graph {
	uint32_t kind, correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
};

#define CUPTI_AT(type, field, offset) \
	_Static_assert(offsetof(struct type, field) == (offset), "the layout of " #type)

CUPTI_AT(cupti_call, params, 16);
CUPTI_AT(cupti_call, kernel, 32);
CUPTI_AT(cupti_call, context_id, 48);
CUPTI_AT(cupti_call, data, 56);
CUPTI_AT(cupti_call, correlation, 64);
CUPTI_AT(cupti_subscriber, other_size, 24);
CUPTI_AT(cupti_subscriber, shared, 32);
CUPTI_AT(cupti_kernel, registers, 6);
CUPTI_AT(cupti_kernel, start, 16);
CUPTI_AT(cupti_kernel, device, 40);
CUPTI_AT(cupti_kernel, grid, 52);
CUPTI_AT(cupti_kernel, shared_static, 76);
CUPTI_AT(cupti_kernel, correlation, 92);
CUPTI_AT(cupti_kernel, name, 104);
CUPTI_AT(cupti_kernel, queued, 120);
CUPTI_AT(cupti_kernel, node, 144);
CUPTI_AT(cupti_memcpy, bytes, 8);
CUPTI_AT(cupti_memcpy, device, 32);
CUPTI_AT(cupti_memcpy, correlation, 44);
CUPTI_AT(cupti_memcpy, node, 64);
CUPTI_AT(cupti_memcpy2, bytes, 8);
CUPTI_AT(cupti_memcpy2, device, 32);
CUPTI_AT(cupti_memcpy2, source_device, 44);
CUPTI_AT(cupti_memcpy2, correlation, 60);
CUPTI_AT(cupti_memcpy2, node, 72);
CUPTI_AT(cupti_memset, bytes, 8);
CUPTI_AT(cupti_memset, correlation, 44);
CUPTI_AT(cupti_memset, memory, 50);
CUPTI_AT(cupti_memset, node, 64);
CUPTI_AT(cupti_graph, device, 24);
CUPTI_AT(cupti_graph, stream, 36);

/* ---- functions ------------------------------------------------------------------------------- */

typedef void cupti_request(uint8_t **buffer, size_t *size, size_t *records);
typedef void cupti_request_v2(uint8_t **buffer, size_t *size, size_t *records, void *info);
typedef void cupti_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef void cupti_complete_v2(uint8_t *buffer, size_t size, size_t valid, void *info);

/* Those of the library; NULL where it does not have them. X(return type and name, "symbol", arguments) */
#define CUPTI_FUNCTIONS(X) \
	X(get_version, "cuptiGetVersion", (uint32_t *) ) \
	X(subscribe, "cuptiSubscribe", (void **, cupti_callback *, void *) ) \
	X(subscribe_v2, "cuptiSubscribe_v2", \
		(void **, cupti_callback *, void *, struct cupti_subscriber *) ) \
	X(enable_callback, "cuptiEnableCallback", (uint32_t, void *, uint32_t, uint32_t) ) \
	X(callback_name, "cuptiGetCallbackName", (uint32_t, uint32_t, const char **) ) \
	X(get_device, "cuptiGetDeviceId", (void *, uint32_t *) ) \
	X(get_context, "cuptiGetContextId", (void *, uint32_t *) ) \
	X(register_buffers, "cuptiActivityRegisterCallbacks", (cupti_request *, cupti_complete *) ) \
	X(register_buffers_v2, "cuptiActivityRegisterCallbacks_v2", \
		(void *, cupti_request_v2 *, cupti_complete_v2 *) ) \
	X(enable, "cuptiActivityEnable", (uint32_t) ) \
	X(enable_v2, "cuptiActivityEnable_v2", (void *, uint32_t, void *) ) \
	X(disable, "cuptiActivityDisable", (uint32_t) ) \
	X(disable_v2, "cuptiActivityDisable_v2", (void *, uint32_t, void *) ) \
	X(next, "cuptiActivityGetNextRecord", (uint8_t *, size_t, struct cupti_record **) ) \
	X(next_v2, "cuptiActivityGetNextRecord_v2", \
		(void *, uint8_t *, size_t, struct cupti_record **) ) \
	X(dropped, "cuptiActivityGetNumDroppedRecords", (void *, uint32_t, size_t *) ) \
	X(dropped_v2, "cuptiActivityGetNumDroppedRecords_v2", (void *, void *, uint32_t, size_t *) ) \
	X(flush, "cuptiActivityFlushAll", (uint32_t) ) \
	X(flush_period, "cuptiActivityFlushPeriod", (uint32_t) )

struct cupti {
#define CUPTI_FIELD(name, symbol, arguments) int(*name) arguments;
	CUPTI_FUNCTIONS(CUPTI_FIELD)
#undef CUPTI_FIELD
	uint32_t version;
	void *subscriber;
	/* Several subscribers are allowed: then the _v2 functions alone may be used, or other tools break. */
	int is_shared;
};
