/* SPDX-License-Identifier: MIT
 *
 * The entry of the CUDA front end, and its one callback.
 *
 * CUDA's driver loads the library that CUDA_INJECTION64_PATH names when the program first calls cuInit, and
 * calls InitializeInjection. It subscribes to CUPTI and asks for a callback at the entry and exit of those
 * driver functions that are followed (cuda_functions.c). The runtime library calls the driver, so its
 * functions are seen there.
 *
 * Before 13.3, and with drivers before r610, CUPTI has one subscriber in a process: where another tool has
 * it, nothing of CUDA is followed, and the reason is reported. Later ones can be shared, if every user has the
 * _v2 functions; then no setting that holds for all of them is touched.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "inject/cuda.h"

enum {
	OOM_MARKS = 8, /* in a process: a program may try again and again */
	OUT_OF_MEMORY = 2,
};

struct cupti cuda_cupti;

static struct {
	atomic_flag is_begun;
	unsigned generation;
	pid_t pid;
	struct cuda_function functions[CUPTI_CBIDS];
	unsigned layers;           /* enum trace_layer: asked for, and possible here */
	_Atomic bool is_forked;    /* reported in a child */
	_Atomic bool has_failed;   /* an error after which every call fails */
	_Atomic unsigned oom_marks;
	char other[128];           /* the tool that has CUPTI */
} cuda = { .is_begun = ATOMIC_FLAG_INIT };

/* Functions of the driver in progress on this thread: only the outer one is a launch. */
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned char depth;

bool cuda_is_ours(void)
{
	return probe_generation() == cuda.generation;
}

/* ---- what cannot be followed ----------------------------------------------------------------- */

void cuda_refused(unsigned layers, int result, const char *other)
{
	char text[64];

	switch (result) {
	case CUPTI_SUBSCRIBED:
		probe_not_followed(layers, TRACE_WHY_SUBSCRIBER, other && other[0] ? other : NULL);
		return;
	case CUPTI_VIRTUALIZED:
		snprintf(text, sizeof(text), "a vGPU without profiling");
		break;
	case CUPTI_CONFIDENTIAL:
		snprintf(text, sizeof(text), "confidential computing");
		break;
	default:
		snprintf(text, sizeof(text), "libcupti %u, result %d", cuda_cupti.version, result);
	}
	probe_not_followed(layers, TRACE_WHY_UNSUPPORTED, text);
}

/* Errors after which the context, or the process, cannot use CUDA any more. */
static const struct {
	int code;
	const char *text;
} fatal_errors[] = {
	{ 46, "device unavailable" },
	{ 214, "uncorrectable ECC error" },
	{ 220, "NVLink error" },
	{ 226, "contained error" },
	{ 700, "illegal address" },
	{ 702, "launch timed out" },
	{ 709, "context destroyed" },
	{ 710, "device-side assert" },
	{ 714, "hardware stack error" },
	{ 715, "illegal instruction" },
	{ 716, "misaligned address" },
	{ 717, "invalid address space" },
	{ 718, "invalid program counter" },
	{ 719, "launch failed" },
	{ 802, "system not ready" },
	{ 999, "unknown error" },
};

static const char *text_of(int code)
{
	if (code == OUT_OF_MEMORY)
		return atomic_fetch_add(&cuda.oom_marks, 1) < OOM_MARKS ? "out of memory" : NULL;
	for (size_t i = 0; i < sizeof(fatal_errors) / sizeof(fatal_errors[0]); i++) {
		/* Later calls repeat it. */
		if (fatal_errors[i].code == code)
			return atomic_exchange(&cuda.has_failed, true) ? NULL : fatal_errors[i].text;
	}
	return NULL;
}

/* A mark for an allocation that failed and for the first error that lasts. */
static void mark_failure(const struct cuda_function *function, const struct cupti_call *call)
{
	const char *const error = text_of(*call->result);
	const uint64_t bytes = error && function->class == CUDA_MEMORY && call->params
				       ? cuda_memory_requested(function->act, call)
				       : 0;
	char text[192], asked[40] = "";

	if (!error)
		return;
	if (bytes > 0)
		snprintf(asked, sizeof(asked), " of %llu bytes", (unsigned long long) bytes);
	snprintf(text, sizeof(text), "%.80s%s: %s (%d)", call->function ? call->function : "?", asked, error,
		*call->result);
	probe_range(TRACE_RING_MARK, probe_now(), probe_text0(text), probe_text0(TRACE_FAILED_DOMAIN), 0);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static uint32_t name_of(struct cuda_function *function, const struct cupti_call *call)
{
	uint32_t name = atomic_load_explicit(&function->name, memory_order_relaxed);

	if (name == 0) {
		name = probe_text0(call->function);
		atomic_store_explicit(&function->name, name, memory_order_relaxed);
	}
	return name;
}

/* The word of the call says at its exit whether its begin was written: layers change in between. */
static void enter_launch(struct cuda_function *function, const struct cupti_call *call)
{
	const bool is_outer = depth++ == 0, follow = is_outer && probe_follows(TRACE_LAUNCHES);

	if (is_outer && function->class == CUDA_LAUNCH)
		cuda_work_launches(call->correlation);

	if (call->data)
		*call->data = follow;
	if (follow && call->data)
		probe_call(TRACE_RING_ENTER, probe_now(), name_of(function, call), call->correlation, 0);
}

static void exit_launch(struct cuda_function *function, const struct cupti_call *call)
{
	const bool has_failed = call->result && *call->result != 0;

	if (depth > 0)
		depth--;
	if (call->data && *call->data == 1)
		probe_call(TRACE_RING_LEAVE, probe_now(), name_of(function, call), call->correlation,
			has_failed ? TRACE_FAILED : 0);
	if (function->class == CUDA_LAUNCH && has_failed)
		cuda_work_not_launched(call->correlation);
	else if (function->class == CUDA_LAUNCH)
		cuda_work_launched();
}

static void on_enter(struct cuda_function *function, const struct cupti_call *call)
{
	switch ((enum cuda_class) function->class) {
	case CUDA_MEMORY:
		if (call->params && probe_follows(TRACE_MEMORY))
			cuda_memory_enter(function->act, call);
		break;
	case CUDA_LAUNCH:
	case CUDA_WAIT:
		enter_launch(function, call);
		break;
	case CUDA_DESTROY:
		cuda_work_flush();
		break;
	case CUDA_CAPTURE_ENDS:
		cuda_work_captures(false);
		break;
	case CUDA_CAPTURE_BEGINS:
	case CUDA_FAILURE:
	case CUDA_NOT_FOLLOWED:
		break;
	}
}

static void on_exit_of(struct cuda_function *function, const struct cupti_call *call)
{
	switch ((enum cuda_class) function->class) {
	case CUDA_MEMORY:
		if (call->params && call->result && probe_follows(TRACE_MEMORY))
			cuda_memory_exit(function->act, call);
		break;
	case CUDA_LAUNCH:
	case CUDA_WAIT:
		exit_launch(function, call);
		break;
	case CUDA_CAPTURE_BEGINS:
		if (call->result && *call->result == 0)
			cuda_work_captures(true);
		break;
	case CUDA_CAPTURE_ENDS:
	case CUDA_DESTROY:
	case CUDA_FAILURE:
	case CUDA_NOT_FOLLOWED:
		break;
	}
	if (call->result && *call->result != 0)
		mark_failure(function, call);
	cuda_work_poll();
}

static void callback(void *user, unsigned domain, unsigned cbid, const void *data)
{
	const struct cupti_call *const call = data;
	uint32_t context;

	(void) user;
	if (!data)
		return;
	if (!cuda_is_ours()) {
		if (!atomic_exchange(&cuda.is_forked, true))
			probe_not_followed(cuda.layers, TRACE_WHY_FORKED, NULL);
		return;
	}
	if (domain == CUPTI_RESOURCE && cbid == CUPTI_CONTEXT_DESTROYED) {
		const struct cupti_resource *const resource = data;

		if (cuda_cupti.get_context && cuda_cupti.get_context(resource->context, &context) == CUPTI_OK)
			cuda_memory_context_ends(context);
	} else if (domain == CUPTI_DRIVER && cbid < CUPTI_CBIDS) {
		if (call->site == CUPTI_ENTER)
			on_enter(&cuda.functions[cbid], call);
		else
			on_exit_of(&cuda.functions[cbid], call);
	}
}

/* ---- the beginning --------------------------------------------------------------------------- */

static bool can_be_shared(void)
{
	const struct cupti *const c = &cuda_cupti;

	return c->version >= CUPTI_13_3 && c->subscribe_v2 && c->register_buffers_v2 && c->enable_v2 &&
	       c->disable_v2 && c->next_v2 && c->dropped_v2;
}

static int subscribe_v2(bool shared)
{
	const size_t before_13_2 = offsetof(struct cupti_subscriber, shared);
	struct cupti_subscriber subscriber = {
		.size = cuda_cupti.version < CUPTI_13_2 ? before_13_2 : sizeof(subscriber),
		.name = "hiwater",
		.other = cuda.other,
		.other_size = sizeof(cuda.other),
		.shared = shared,
	};
	const int result = cuda_cupti.subscribe_v2(&cuda_cupti.subscriber, callback, NULL, &subscriber);

	cuda.other[sizeof(cuda.other) - 1] = '\0';
	return result;
}

/* Shared where the library and the driver can; else alone. */
static int subscribe(void)
{
	int result;

	if (can_be_shared()) {
		result = subscribe_v2(true);
		cuda_cupti.is_shared = result == CUPTI_OK;
		/* With the name of another tool, the refusal is final. Without, the driver is too old for sharing. */
		if (result != CUPTI_SUBSCRIBED || cuda.other[0])
			return result;
	}
	if (!cuda_cupti.subscribe)
		return CUPTI_NOT_SUPPORTED;
	result = cuda_cupti.subscribe(&cuda_cupti.subscriber, callback, NULL);
	/* Asks who it is; if it has just gone, this subscribes. */
	return result == CUPTI_SUBSCRIBED && cuda_cupti.subscribe_v2 ? subscribe_v2(false) : result;
}

static bool is_wanted(const struct cuda_function *function)
{
	switch ((enum cuda_class) function->class) {
	case CUDA_MEMORY:
		return (cuda.layers & TRACE_MEMORY) != 0;
	case CUDA_LAUNCH:
	case CUDA_WAIT:
		return (cuda.layers & (TRACE_LAUNCHES | TRACE_KERNELS)) != 0;
	case CUDA_DESTROY:
	case CUDA_CAPTURE_BEGINS:
	case CUDA_CAPTURE_ENDS:
		return (cuda.layers & TRACE_KERNELS) != 0;
	case CUDA_FAILURE:
		return true;
	case CUDA_NOT_FOLLOWED:
		break;
	}
	return false;
}

static int enable_callbacks(void)
{
	int result = CUPTI_NOT_SUPPORTED;

	if (!cuda_cupti.enable_callback)
		return result;
	for (unsigned cbid = 0; cbid < CUPTI_CBIDS; cbid++) {
		/* A function that this release does not have is refused. */
		if (is_wanted(&cuda.functions[cbid]) &&
			cuda_cupti.enable_callback(1, cuda_cupti.subscriber, CUPTI_DRIVER, cbid) == CUPTI_OK)
			result = CUPTI_OK;
	}
	if (cuda.layers & TRACE_MEMORY)
		cuda_cupti.enable_callback(1, cuda_cupti.subscriber, CUPTI_RESOURCE, CUPTI_CONTEXT_DESTROYED);
	return result;
}

static void *end_work(void *unused)
{
	cuda_work_end();
	return unused;
}

/* Only the process that subscribed, not a child of it, and not twice. A driver that hangs would keep the process from
 * ending, so that a thread calls it, the only one of the probe's; what is missing then is counted as incomplete. */
static void at_exit(void)
{
	enum {
		PATIENCE_S = 5
	};
	struct timespec until;
	sigset_t all, before;
	pthread_t thread;

	if (!cuda_is_ours() || getpid() != cuda.pid)
		return;
	(void) sigfillset(&all);
	(void) pthread_sigmask(SIG_SETMASK, &all, &before);
	const int error = pthread_create(&thread, NULL, end_work, NULL);

	(void) pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		cuda_work_end();
		return;
	}
	(void) clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	if (pthread_timedjoin_np(thread, NULL, &until) != 0)
		(void) pthread_detach(thread);
}

static void begin(void)
{
	const char *const tool = cuda_other_tool();
	const char *library;
	int result;

	if (tool) {
		probe_not_followed(cuda.layers, TRACE_WHY_SUBSCRIBER, tool);
		return;
	}
	library = cuda_library(&cuda_cupti);
	if (library) {
		probe_not_followed(cuda.layers, TRACE_WHY_NO_LIBRARY, library);
		return;
	}
	cuda_functions(cuda.functions);
	result = subscribe();
	if (result == CUPTI_OK)
		result = enable_callbacks();
	if (result != CUPTI_OK) {
		cuda_refused(cuda.layers, result, cuda.other);
		return;
	}
	if ((cuda.layers & TRACE_KERNELS) && cuda_work_begin())
		atexit(at_exit);
}

PROBE_API int InitializeInjection(void);

/* Called by the driver inside cuInit. Returns 1 in any case: the driver is to continue. */
int InitializeInjection(void)
{
	if (atomic_flag_test_and_set(&cuda.is_begun))
		return 1;
	cuda.generation = probe_generation();
	cuda.pid = getpid();
	for (unsigned layer = TRACE_MEMORY; layer <= TRACE_KERNELS; layer <<= 1) {
		if (probe_wants(layer))
			cuda.layers |= layer;
	}
	if (cuda.layers)
		begin();
	return 1;
}
