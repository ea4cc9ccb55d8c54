// SPDX-License-Identifier: MIT
/*
 * A fake of CUPTI for the fake driver of cuda_traced.c: subscribers, callbacks, and records of kernels,
 * copies, fills and graphs in the sizes of a release (FAKE_CUPTI is its version, KERNEL_BYTES the size of
 * a kernel's record; the fields that hiwater reads are at the same offsets in all).
 *
 * HIWATER_FAKE_CUPTI has words:
 *
 *     subscribe=N    subscribing fails with that result; with 39 the other tool is "CUPTI for othertool"
 *     kernels=N      enabling kernels fails with that result
 *     old-driver     several subscribers are refused, without a name
 *     zero=N         the first N kernels have no times
 *     drops=N        N records are dropped
 *     thread         buffers are given back on a thread of CUPTI's
 *     mute           buffers are never asked for: another tool has the records
 *     hold           full buffers are given back when it is asked to flush, not before
 *     replay=PATH    the first kernel brings the records of the file along, kernels of this release, each
 *                    called "captured"
 *
 * What breaks a real one ends the process with a message: V1 and V2 functions in one process, a flush in a
 * function for buffers, use in a child of fork, a buffer that was not asked for.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cupti_fake.h"
#include "fake.h"

enum {
	OK = 0,
	INVALID_PARAMETER = 1,
	INVALID_OPERATION = 7,
	END = 12,
	NOT_INITIALIZED = 15,
	INVALID_KIND = 21,
	SUBSCRIBED = 39,
	DRIVER = 1,
	RESOURCE = 3,
	CBIDS = 878,
	KINDS = 64,
	MEMCPY_BYTES = 96,
	MEMCPY2_BYTES = 96,
	MEMSET_BYTES = 88,
	GRAPH_BYTES = 56,
	MAX_BUFFERS = 256,
};

typedef void callback_fn(void *user, unsigned domain, unsigned cbid, const void *data);

struct given {
	uint8_t *buffer;
	size_t size, used;
};

static struct {
	pthread_mutex_t mutex;
	pid_t pid;
	int interface; /* 0: not yet known; 1, 2: which functions the process uses */
	callback_fn *callback;
	void *user;
	bool calls[CBIDS], resources[16], kinds[KINDS];
	void (*request)(uint8_t **, size_t *, size_t *);
	void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
	void (*request_v2)(uint8_t **, size_t *, size_t *, void *);
	void (*complete_v2)(uint8_t *, size_t, size_t, void *);
	uint8_t *buffer;
	size_t size, used;
	struct given held[MAX_BUFFERS]; /* full, and not yet complete */
	size_t n_held;
	size_t dropped;
	unsigned zeros;
	bool told_drops;
} the = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local bool is_in_buffer_callback;

/* ---- the words ------------------------------------------------------------------------------- */

static const char *word(const char *name)
{
	const char *at = getenv("HIWATER_FAKE_CUPTI");
	const size_t len = strlen(name);

	for (; at && *at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL) {
		if (strncmp(at, name, len) == 0 && (at[len] == '=' || at[len] == ' ' || !at[len]))
			return at + len + (at[len] == '=');
	}
	return NULL;
}

static int number(const char *name)
{
	const char *const text = word(name);

	return text ? (int) strtol(text, NULL, 10) : 0;
}

static void check(int interface)
{
	if (the.pid && the.pid != getpid())
		fake_die("CUPTI is used in a child of fork");
	the.pid = getpid();
	if (interface && the.interface && the.interface != interface)
		fake_die("V1 and V2 functions of CUPTI are mixed");
	if (interface)
		the.interface = interface;
}

/* ---- subscribers and callbacks --------------------------------------------------------------- */

EXPORT int cuptiGetVersion(uint32_t *ret);
int cuptiGetVersion(uint32_t *ret)
{
	*ret = FAKE_CUPTI;
	return OK;
}

static int subscribe(void **ret, callback_fn *callback, void *user)
{
	if (number("subscribe"))
		return number("subscribe");
	if (the.callback)
		return SUBSCRIBED;
	the.callback = callback;
	the.user = user;
	*ret = &the;
	return OK;
}

EXPORT int cuptiSubscribe(void **ret, callback_fn *callback, void *user);
int cuptiSubscribe(void **ret, callback_fn *callback, void *user)
{
	int result = subscribe(ret, callback, user);

	check(result == OK ? 1 : 0);
	return result;
}

#if FAKE_CUPTI >= 130000
struct subscriber {
	size_t size;
	const char *name;
	char *other;
	size_t other_size;
	uint8_t shared, padding[7];
};

EXPORT int cuptiSubscribe_v2(void **ret, callback_fn *callback, void *user, struct subscriber *more);
int cuptiSubscribe_v2(void **ret, callback_fn *callback, void *user, struct subscriber *more)
{
	const bool is_shared = more->size == sizeof(*more) && more->shared;
	int result;

	if (more->size != (FAKE_CUPTI >= 130200 ? sizeof(*more) : offsetof(struct subscriber, shared)))
		return INVALID_PARAMETER;
	if (is_shared && word("old-driver"))
		return SUBSCRIBED;
	result = subscribe(ret, callback, user);
	if (result == SUBSCRIBED && more->other)
		strncpy(more->other, "CUPTI for othertool", more->other_size);
	check(result == OK ? is_shared ? 2 : 1 : 0);
	return result;
}
#endif

EXPORT int cuptiEnableCallback(uint32_t on, void *subscriber, uint32_t domain, uint32_t cbid);
int cuptiEnableCallback(uint32_t on, void *subscriber, uint32_t domain, uint32_t cbid)
{
	check(0);
	if (subscriber != &the || (domain == DRIVER && cbid >= CBIDS) || (domain == RESOURCE && cbid >= 16))
		return INVALID_PARAMETER;
	*(domain == DRIVER ? &the.calls[cbid] : &the.resources[cbid]) = on;
	return OK;
}

EXPORT int cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char **ret);
int cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char **ret)
{
	*ret = domain != DRIVER             ? NULL
	       : cbid == FAKE_CBID_CAPTURES ? "cuStreamBeginCapture_v2"
	       : cbid == FAKE_CBID_CAPTURED ? "cuStreamEndCapture"
					    : NULL;
	return *ret ? OK : INVALID_PARAMETER;
}

EXPORT int cuptiGetDeviceId(void *context, uint32_t *ret);
int cuptiGetDeviceId(void *context, uint32_t *ret)
{
	*ret = ((struct fake_context *) context)->device;
	return OK;
}

EXPORT int cuptiGetContextId(void *context, uint32_t *ret);
int cuptiGetContextId(void *context, uint32_t *ret)
{
	*ret = ((struct fake_context *) context)->id;
	return OK;
}

struct call_data {
	uint32_t site;
	const char *name;
	const void *params, *result;
	const char *kernel;
	void *context;
	uint32_t context_id;
	uint64_t *data;
	uint32_t correlation;
};

EXPORT fakecupti_call_fn fakecupti_call;
void fakecupti_call(struct fake_call *call, bool is_exit)
{
	const struct call_data data = { is_exit, call->name, call->params, &call->result, call->kernel, call->context,
		call->context_id, &call->data[0], call->correlation };

	if (the.callback && the.calls[call->cbid])
		the.callback(the.user, DRIVER, call->cbid, &data);
}

EXPORT fakecupti_context_ends_fn fakecupti_context_ends;
void fakecupti_context_ends(void *context)
{
	const struct {
		void *context, *more[2];
	} data = { context, { NULL, NULL } };

	if (the.callback && the.resources[2])
		the.callback(the.user, RESOURCE, 2, &data);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void *give_back(void *arg)
{
	const struct given *const given = arg;

	is_in_buffer_callback = true;
	if (the.interface == 2) {
		size_t info[4] = { sizeof(info) };

		the.complete_v2(given->buffer, given->size, given->used, info);
	} else {
		the.complete(NULL, 0, given->buffer, given->size, given->used);
	}
	is_in_buffer_callback = false;
	return NULL;
}

static void deliver(struct given given)
{
	pthread_t thread;

	if (!given.buffer)
		return;
	if (word("thread") && pthread_create(&thread, NULL, give_back, &given) == 0)
		pthread_join(thread, NULL);
	else
		give_back(&given);
}

static void ask(void)
{
	size_t records = 0, size = 0;
	uint8_t *buffer = NULL;

	is_in_buffer_callback = true;
	if (the.interface == 2) {
		size_t info = sizeof(info);

		the.request_v2(&buffer, &size, &records, &info);
	} else {
		the.request(&buffer, &size, &records);
	}
	is_in_buffer_callback = false;
	if (!buffer && FAKE_CUPTI < 27)
		fake_die("no buffer");
	if ((uintptr_t) buffer % 8 != 0)
		fake_die("a buffer that is not aligned");
	if (buffer)
		memset(buffer, 0, size);
	the.buffer = buffer;
	the.size = size;
	the.used = 0;
}

/* A place for a record, in a buffer that has room for it; NULL: dropped. full: a buffer to be given back. */
static uint8_t *place(size_t bytes, struct given *full)
{
	if (the.buffer && the.used + bytes > the.size) {
		*full = (struct given) { the.buffer, the.size, the.used };
		the.buffer = NULL;
	}
	if (!the.buffer)
		ask();
	if (!the.buffer || the.used + bytes > the.size) {
		the.dropped++;
		return NULL;
	}
	the.used += bytes;
	return the.buffer + the.used - bytes;
}

/* ---- records --------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static size_t bytes_of(unsigned kind)
{
	switch (kind) {
	case 1:
		return MEMCPY_BYTES;
	case 2:
		return MEMSET_BYTES;
	case 10:
		return KERNEL_BYTES;
	case 22:
		return MEMCPY2_BYTES;
	case 51:
		return GRAPH_BYTES;
	default:
		return 0;
	}
}

static void put(uint8_t *at, size_t offset, const void *value, size_t size)
{
	memcpy(at + offset, value, size);
}
#define PUT(offset, type, value) put(at, offset, &(type) { value }, sizeof(type))

static size_t start_offset(unsigned kind)
{
	return kind == 51 ? 8 : 16;
}

static void put_kernel(uint8_t *at, const struct fake_work *work)
{
	const uint32_t where[] = { 0, work->context_id, work->stream };

	PUT(6, uint16_t, 32);
	put(at, 40, where, sizeof(where));
	put(at, 52, work->grid, sizeof(work->grid));
	put(at, 64, work->block, sizeof(work->block));
	PUT(76, int32_t, 1024);
	PUT(80, int32_t, 2048);
	PUT(92, uint32_t, work->correlation);
	put(at, 104, &work->name, sizeof(work->name));
	PUT(144, uint64_t, work->node);
	PUT(156, uint32_t, work->graph);
	/* The last byte of the record: it must not be taken for the next one. */
	at[KERNEL_BYTES - 1] = 0xff;
}

static void put_other(uint8_t *at, const struct fake_work *work)
{
	const uint32_t where[] = { 0, work->context_id, work->stream };

	if (work->kind == 51) {
		PUT(4, uint32_t, work->correlation);
		PUT(28, uint32_t, work->graph);
		PUT(32, uint32_t, work->context_id);
		PUT(36, uint32_t, work->stream);
		return;
	}
	PUT(8, uint64_t, work->bytes);
	put(at, 32, where, sizeof(where));
	if (work->kind == 2) {
		PUT(50, uint16_t, (uint16_t) work->target);
	} else {
		PUT(4, uint8_t, (uint8_t) work->direction);
		PUT(5, uint8_t, (uint8_t) work->source);
		PUT(6, uint8_t, (uint8_t) work->target);
	}
	PUT(work->kind == 22 ? 60 : 44, uint32_t, work->correlation);
	PUT(work->kind == 22 ? 72 : 64, uint64_t, work->node);
}

EXPORT fakecupti_enabled_fn fakecupti_enabled;
bool fakecupti_enabled(unsigned kind)
{
	return the.kinds[kind];
}

/* Times of what has not ended are not known yet. Returns whether there is such a record. */
static bool has_incomplete(struct given given, bool clear)
{
	const uint64_t now = now_ns();
	bool found = false;

	for (size_t i = 0; given.buffer && i < given.used;) {
		uint8_t *const at = given.buffer + i;
		uint32_t kind;
		uint64_t end;

		memcpy(&kind, at, sizeof(kind));
		if (bytes_of(kind) == 0)
			break; /* a buffer that was given twice at once: what is in it is anything */
		memcpy(&end, at + start_offset(kind) + 8, sizeof(end));
		if (end > now) {
			found = true;
			if (clear)
				memset(at + start_offset(kind), 0, 16);
		}
		i += bytes_of(kind);
	}
	return found;
}

static void replay(const char *path, struct given *full)
{
	FILE *const file = fopen(path, "re");
	uint8_t record[KERNEL_BYTES];
	const char *const name = "captured";

	if (!file)
		fake_die("%s cannot be read", path);
	while (fread(record, sizeof(record), 1, file) == 1) {
		uint8_t *const at = place(sizeof(record), full);

		if (!at || full->buffer)
			fake_die("no room for the records of %s", path);
		memcpy(at, record, sizeof(record));
		memcpy(at + 104, &name, sizeof(name));
	}
	fclose(file);
}

EXPORT fakecupti_work_fn fakecupti_work;
void fakecupti_work(const struct fake_work *work)
{
	const size_t bytes = bytes_of(work->kind);
	struct given full = { 0 };
	uint64_t start = work->start, end = work->end;
	uint8_t *at;

	if (!the.kinds[work->kind] || word("mute"))
		return;
	pthread_mutex_lock(&the.mutex);
	if (!the.told_drops) {
		the.told_drops = true;
		the.dropped += (size_t) number("drops");
		if (word("replay"))
			replay(word("replay"), &full);
	}
	at = place(bytes, &full);
	if (at) {
		if (work->kind == 10 && the.zeros < (unsigned) number("zero")) {
			the.zeros++;
			start = end = 0;
		}
		put(at, 0, &work->kind, sizeof(uint32_t));
		put(at, start_offset(work->kind), &start, sizeof(start));
		put(at, start_offset(work->kind) + 8, &end, sizeof(end));
		if (work->kind == 10)
			put_kernel(at, work);
		else
			put_other(at, work);
	}
	if (full.buffer && the.n_held == MAX_BUFFERS)
		fake_die("too many buffers");
	if (full.buffer)
		the.held[the.n_held++] = full;
	full = (struct given) { 0 };
	if (!word("hold") && the.n_held > 0 && !has_incomplete(the.held[0], false)) {
		full = the.held[0];
		memmove(&the.held[0], &the.held[1], --the.n_held * sizeof(the.held[0]));
	}
	pthread_mutex_unlock(&the.mutex);
	deliver(full);
}

EXPORT int cuptiActivityFlushAll(uint32_t forced);
int cuptiActivityFlushAll(uint32_t forced)
{
	struct given given = { 0 };

	check(0);
	if (is_in_buffer_callback)
		fake_die("a flush in a function for buffers");
	if (!the.complete && !the.complete_v2)
		return INVALID_OPERATION;
	/* Buffers are given back whole: those with a record that is not complete stay, unless it is forced. */
	for (size_t i = 0; i < the.n_held;) {
		pthread_mutex_lock(&the.mutex);
		const bool stays = has_incomplete(the.held[i], forced != 0) && !forced;

		given = the.held[i];
		if (!stays)
			memmove(&the.held[i], &the.held[i + 1], (--the.n_held - i) * sizeof(given));
		pthread_mutex_unlock(&the.mutex);
		if (stays)
			i++;
		else
			deliver(given);
	}
	pthread_mutex_lock(&the.mutex);
	given = (struct given) { the.buffer, the.size, the.used };
	if (has_incomplete(given, forced != 0) && !forced)
		given.buffer = NULL;
	else
		the.buffer = NULL;
	pthread_mutex_unlock(&the.mutex);
	deliver(given);
	return OK;
}

EXPORT int cuptiActivityFlushPeriod(uint32_t ms);
int cuptiActivityFlushPeriod(uint32_t ms)
{
	(void) ms;
	check(0);
	if (the.interface == 2)
		fake_die("a setting of all users of CUPTI");
	return OK;
}

static int next(uint8_t *buffer, size_t valid, uint8_t **record)
{
	size_t at = 0;
	uint32_t kind = 0;

	if (*record) {
		memcpy(&kind, *record, sizeof(kind));
		at = (size_t) (*record - buffer) + bytes_of(kind);
	}
	if (at >= valid)
		return END;
	memcpy(&kind, buffer + at, sizeof(kind));
	if (bytes_of(kind) == 0)
		return INVALID_KIND;
	*record = buffer + at;
	return OK;
}

static int set_kind(uint32_t kind, bool on)
{
	if (kind >= KINDS || (!the.complete && !the.complete_v2))
		return INVALID_KIND;
	if (kind == 10 && on && number("kernels"))
		return number("kernels");
	the.kinds[kind] = on;
	return OK;
}

#define V1(name, arguments, body) \
	EXPORT int name arguments; \
	int name arguments \
	{ \
		check(1); \
		body \
	}

V1(cuptiActivityEnable, (uint32_t kind), return set_kind(kind, true);)
V1(cuptiActivityDisable, (uint32_t kind), return set_kind(kind, false);)
V1(cuptiActivityRegisterCallbacks,
	(void (*request)(uint8_t **, size_t *, size_t *), void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t)),
	the.request = request;
	the.complete = complete;
	return OK;)
V1(cuptiActivityGetNextRecord, (uint8_t *buffer, size_t valid, uint8_t **record),
	return next(buffer, valid, record);)
V1(cuptiActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *ret), (void) context;
	(void) stream;
	*ret = the.dropped;
	the.dropped = 0;
	return OK;)

#if FAKE_CUPTI >= 130300
#define V2(name, arguments, body) \
	EXPORT int name arguments; \
	int name arguments \
	{ \
		check(2); \
		if (subscriber != &the) \
			return INVALID_PARAMETER; \
		body \
	}

V2(cuptiActivityEnable_v2, (void *subscriber, uint32_t kind, void *config), (void) config;
	/* Not where it is shared, unless a setting of all users says so. */
	return kind == 51 ? INVALID_KIND : set_kind(kind, true);)
V2(cuptiActivityDisable_v2, (void *subscriber, uint32_t kind, void *config), (void) config;
	return set_kind(kind, false);)
V2(cuptiActivityRegisterCallbacks_v2,
	(void *subscriber, void (*request)(uint8_t **, size_t *, size_t *, void *),
		void (*complete)(uint8_t *, size_t, size_t, void *)),
	the.request_v2 = request;
	the.complete_v2 = complete;
	return OK;)
V2(cuptiActivityGetNextRecord_v2, (void *subscriber, uint8_t *buffer, size_t valid, uint8_t **record),
	return next(buffer, valid, record);)
V2(cuptiActivityGetNumDroppedRecords_v2, (void *subscriber, void *context, uint32_t stream, size_t *ret), (void) context;
	(void) stream;
	*ret = the.dropped;
	the.dropped = 0;
	return OK;)
#endif
