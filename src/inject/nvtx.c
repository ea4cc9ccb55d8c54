/* SPDX-License-Identifier: MIT
 *
 * Ranges, marks and thread names of NVTX 3 (https://github.com/NVIDIA/NVTX). Each library that uses NVTX
 * has a copy of its client part, a table of function pointers. At its first call a copy loads the library
 * that NVTX_INJECTION64_PATH names and calls InitializeInjectionNvtx2, which stores its functions there.
 * The declarations here are of that binary interface, which does not change within version 3.
 *
 * Another tool that was to be loaded before is loaded from here, and stores its functions first; ours call
 * them. What the program passes later, a handle or the id of a range, is then that tool's, so that it
 * also works where the program passes it to functions that are not ours; it is ours where that tool has none.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "handle.h"
#include "probe.h"

/* The path of the other tool: set by the recorder. */
#define OTHER_ENVIRONMENT "HIWATER_TRACE_NVTX"

/* Tables of functions, and the functions in them. */
enum {
	CORE,
	CORE2,
	TABLES,
	MODULE_CORE = 1,
	MODULE_CORE2 = 5,
	FUNCTIONS = 16, /* of each, index 0 unused */
};

enum {
	MARK_EX = 1,
	MARK_A,
	MARK_W,
	START_EX,
	START_A,
	START_W,
	END,
	PUSH_EX,
	PUSH_A,
	PUSH_W,
	POP,
	NAME_THREAD_A = 14,
	NAME_THREAD_W,
};

enum {
	DOMAIN_MARK_EX = 1,
	DOMAIN_START_EX,
	DOMAIN_END,
	DOMAIN_PUSH_EX,
	DOMAIN_POP,
	REGISTER_STRING_A = 10,
	REGISTER_STRING_W,
	CREATE_A,
	CREATE_W,
	DESTROY,
};

enum {
	MESSAGE_ASCII = 1,
	MESSAGE_WIDE,
	MESSAGE_REGISTERED,
	NOT_TRACKED = -2, /* what push and pop return for "the level is unknown" */
	LEVELS = 6,       /* domains of a thread with open ranges whose levels are known */
};

/* nvtxEventAttributes_t. */
struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	int32_t unused;
	const void *message;
};
_Static_assert(sizeof(struct attributes) == 48, "nvtxEventAttributes_t");

typedef void (*function)(void);

struct callbacks { /* export table 1 */
	size_t size;
	int (*module_table)(int module, function ***table, unsigned *n);
};

/* Functions of the other tool: NULL before the first copy, no_function where it has none. */
static function _Atomic theirs[TABLES][FUNCTIONS];

static void no_function(void)
{
}

static inline function their_function(unsigned table, unsigned id)
{
	const function f = atomic_load_explicit(&theirs[table][id], memory_order_relaxed);

	return f == no_function ? NULL : f;
}

/* ---- handles and levels ------------------------------------------------------------------------------------------- */

static struct handle *handle_given(const void *given)
{
	struct handle *const h = given ? handle_ours(given) : NULL;

	return h || !given ? h : handle_by_alias(given);
}

/* The handle as the other tool knows it: none, where it made none. */
static void *their_handle(const void *given)
{
	return handle_ours(given) ? NULL : (void *) (uintptr_t) given;
}

/* How many ranges of a domain are open in this thread, for the domains that have some. */
struct level {
	uint32_t domain, depth;
};

static _Thread_local struct level levels[LEVELS] __attribute__((tls_model("initial-exec")));

/* The level of a range that begins. */
static int level_push(uint32_t domain)
{
	struct level *unused = NULL;

	for (unsigned i = 0; i < LEVELS; i++) {
		if (levels[i].domain == domain && levels[i].depth > 0)
			return (int) levels[i].depth++;
		if (levels[i].depth == 0 && !unused)
			unused = &levels[i];
	}
	if (!unused)
		return NOT_TRACKED;
	*unused = (struct level) { domain, 1 };
	return 0;
}

static int level_pop(uint32_t domain)
{
	for (unsigned i = 0; i < LEVELS; i++) {
		if (levels[i].domain == domain && levels[i].depth > 0)
			return (int) --levels[i].depth;
	}
	return NOT_TRACKED;
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

/* The time of an event; 0: ranges are not followed. */
static inline uint64_t begin(void)
{
	return probe_follows(TRACE_RANGES) ? probe_now() : 0;
}

static uint32_t name_of(const struct attributes *a)
{
	if (!a || a->size < sizeof(*a) || !a->message)
		return 0;
	switch (a->message_type) {
	case MESSAGE_ASCII:
		return probe_text0(a->message);
	case MESSAGE_WIDE:
		return probe_wide(a->message);
	case MESSAGE_REGISTERED:
		return handle_offset(handle_given(a->message));
	default:
		return 0;
	}
}

/* The attributes as the other tool is to see them: without a string that it did not register. */
static const struct attributes *for_them(const struct attributes *a, struct attributes *copy)
{
	if (!a || a->size < sizeof(*a) || a->message_type != MESSAGE_REGISTERED || !handle_ours(a->message))
		return a;
	*copy = *a;
	copy->size = sizeof(*copy);
	copy->message = NULL;
	return copy;
}

/* Ids that we made, where the other tool has none, differ from its own in their upper bits. */
#define OUR_IDS UINT64_C(0x6877000000000000)
#define ID_BITS UINT64_C(0x0000ffffffffffff)

static uint64_t new_id(void)
{
	static _Atomic uint64_t last;

	return OUR_IDS | ((atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1) & ID_BITS);
}

static uint64_t their_id(uint64_t id)
{
	return (id & ~ID_BITS) == OUR_IDS ? 0 : id;
}

/* The other tool's ids may be unique only within a domain. */
static uint64_t event_id(const struct handle *domain, uint64_t id)
{
	return id + handle_number(domain) * UINT64_C(0x9E3779B97F4A7C15);
}

/* Writes the start of a range, whose id, if theirs is 0, is ours. */
static uint64_t start(uint64_t now, struct handle *domain, uint32_t name, uint64_t theirs_is)
{
	const uint64_t id = theirs_is ? theirs_is : new_id();

	if (now)
		probe_range(TRACE_RING_START, now, name, handle_offset(domain), event_id(domain, id));
	return id;
}

/* ---- the default domain ------------------------------------------------------------------------------------------- */

typedef void (*mark_a)(const char *);
typedef void (*mark_w)(const wchar_t *);
typedef void (*mark_ex)(const struct attributes *);
typedef uint64_t (*start_a)(const char *);
typedef uint64_t (*start_w)(const wchar_t *);
typedef uint64_t (*start_ex)(const struct attributes *);
typedef void (*end_id)(uint64_t);
typedef int (*push_a)(const char *);
typedef int (*push_w)(const wchar_t *);
typedef int (*push_ex)(const struct attributes *);
typedef int (*pop)(void);
typedef void (*thread_a)(uint32_t, const char *);
typedef void (*thread_w)(uint32_t, const wchar_t *);

static void our_mark_a(const char *message)
{
	const mark_a they = (mark_a) their_function(CORE, MARK_A);
	const uint64_t now = begin();

	if (now)
		probe_range(TRACE_RING_MARK, now, probe_text0(message), 0, 0);
	if (they)
		they(message);
}

static void our_mark_w(const wchar_t *message)
{
	const mark_w they = (mark_w) their_function(CORE, MARK_W);
	const uint64_t now = begin();

	if (now)
		probe_range(TRACE_RING_MARK, now, probe_wide(message), 0, 0);
	if (they)
		they(message);
}

static void our_mark_ex(const struct attributes *a)
{
	const mark_ex they = (mark_ex) their_function(CORE, MARK_EX);
	const uint64_t now = begin();
	struct attributes copy;

	if (now)
		probe_range(TRACE_RING_MARK, now, name_of(a), 0, 0);
	if (they)
		they(for_them(a, &copy));
}

static uint64_t our_start_a(const char *message)
{
	const start_a they = (start_a) their_function(CORE, START_A);
	const uint64_t now = begin();

	return start(now, NULL, now ? probe_text0(message) : 0, they ? they(message) : 0);
}

static uint64_t our_start_w(const wchar_t *message)
{
	const start_w they = (start_w) their_function(CORE, START_W);
	const uint64_t now = begin();

	return start(now, NULL, now ? probe_wide(message) : 0, they ? they(message) : 0);
}

static uint64_t our_start_ex(const struct attributes *a)
{
	const start_ex they = (start_ex) their_function(CORE, START_EX);
	const uint64_t now = begin();
	struct attributes copy;

	return start(now, NULL, now ? name_of(a) : 0, they ? they(for_them(a, &copy)) : 0);
}

static void our_end(uint64_t id)
{
	const end_id they = (end_id) their_function(CORE, END);
	const uint64_t now = begin();

	if (now)
		probe_range(TRACE_RING_END, now, 0, 0, event_id(NULL, id));
	if (they)
		they(their_id(id));
}

static int our_push_a(const char *message)
{
	const push_a they = (push_a) their_function(CORE, PUSH_A);
	const uint64_t now = begin();
	const int level = level_push(0);

	if (now)
		probe_range(TRACE_RING_PUSH, now, probe_text0(message), 0, 0);
	return they ? they(message) : level;
}

static int our_push_w(const wchar_t *message)
{
	const push_w they = (push_w) their_function(CORE, PUSH_W);
	const uint64_t now = begin();
	const int level = level_push(0);

	if (now)
		probe_range(TRACE_RING_PUSH, now, probe_wide(message), 0, 0);
	return they ? they(message) : level;
}

static int our_push_ex(const struct attributes *a)
{
	const push_ex they = (push_ex) their_function(CORE, PUSH_EX);
	const uint64_t now = begin();
	const int level = level_push(0);
	struct attributes copy;

	if (now)
		probe_range(TRACE_RING_PUSH, now, name_of(a), 0, 0);
	return they ? they(for_them(a, &copy)) : level;
}

static int our_pop(void)
{
	const pop they = (pop) their_function(CORE, POP);
	const uint64_t now = begin();
	const int level = level_pop(0);

	if (now)
		probe_range(TRACE_RING_POP, now, 0, 0, 0);
	return they ? they() : level;
}

static void our_name_thread_a(uint32_t thread, const char *name)
{
	const thread_a they = (thread_a) their_function(CORE, NAME_THREAD_A);
	const uint64_t now = begin();

	if (now)
		probe_range(TRACE_RING_THREAD, now, probe_text0(name), 0, thread);
	if (they)
		they(thread, name);
}

static void our_name_thread_w(uint32_t thread, const wchar_t *name)
{
	const thread_w they = (thread_w) their_function(CORE, NAME_THREAD_W);
	const uint64_t now = begin();

	if (now)
		probe_range(TRACE_RING_THREAD, now, probe_wide(name), 0, thread);
	if (they)
		they(thread, name);
}

/* ---- domains ------------------------------------------------------------------------------------------------------ */

typedef void (*domain_mark)(void *, const struct attributes *);
typedef uint64_t (*domain_start)(void *, const struct attributes *);
typedef void (*domain_end)(void *, uint64_t);
typedef int (*domain_push)(void *, const struct attributes *);
typedef int (*domain_pop)(void *);
typedef void *(*register_a)(void *, const char *);
typedef void *(*register_w)(void *, const wchar_t *);
typedef void *(*create_a)(const char *);
typedef void *(*create_w)(const wchar_t *);
typedef void (*destroy)(void *);

static void our_domain_mark(void *domain, const struct attributes *a)
{
	const domain_mark they = (domain_mark) their_function(CORE2, DOMAIN_MARK_EX);
	const uint64_t now = begin();
	struct attributes copy;

	if (now)
		probe_range(TRACE_RING_MARK, now, name_of(a), handle_offset(handle_given(domain)), 0);
	if (they)
		they(their_handle(domain), for_them(a, &copy));
}

static uint64_t our_domain_start(void *domain, const struct attributes *a)
{
	const domain_start they = (domain_start) their_function(CORE2, DOMAIN_START_EX);
	const uint64_t now = begin();
	struct attributes copy;

	return start(now, handle_given(domain), now ? name_of(a) : 0,
		they ? they(their_handle(domain), for_them(a, &copy)) : 0);
}

static void our_domain_end(void *domain, uint64_t id)
{
	const domain_end they = (domain_end) their_function(CORE2, DOMAIN_END);
	const uint64_t now = begin();

	if (now)
		probe_range(TRACE_RING_END, now, 0, 0, event_id(handle_given(domain), id));
	if (they)
		they(their_handle(domain), their_id(id));
}

static int our_domain_push(void *domain, const struct attributes *a)
{
	const domain_push they = (domain_push) their_function(CORE2, DOMAIN_PUSH_EX);
	const uint64_t now = begin();
	struct handle *const h = handle_given(domain);
	const int level = level_push(handle_number(h));
	struct attributes copy;

	if (now)
		probe_range(TRACE_RING_PUSH, now, name_of(a), handle_offset(h), 0);
	return they ? they(their_handle(domain), for_them(a, &copy)) : level;
}

static int our_domain_pop(void *domain)
{
	const domain_pop they = (domain_pop) their_function(CORE2, DOMAIN_POP);
	const uint64_t now = begin();
	struct handle *const h = handle_given(domain);
	const int level = level_pop(handle_number(h));

	if (now)
		probe_range(TRACE_RING_POP, now, 0, handle_offset(h), 0);
	return they ? they(their_handle(domain)) : level;
}

/* What the program gets: theirs, if they made one, under which ours is found again. */
static void *made(struct handle *ours, void *they_made)
{
	if (they_made && ours)
		handle_alias(they_made, ours);
	return they_made ? they_made : ours;
}

static void *our_register_a(void *domain, const char *text)
{
	const register_a they = (register_a) their_function(CORE2, REGISTER_STRING_A);

	return made(handle_of(HANDLE_STRING, text, NULL), they ? they(their_handle(domain), text) : NULL);
}

static struct handle *handle_of_wide(enum handle_kind kind, const wchar_t *name)
{
	char text[PROBE_TEXT_BYTES + 1];

	if (!name)
		return NULL;
	text[probe_utf8(name, text, sizeof(text) - 1)] = '\0';
	return handle_of(kind, text, NULL);
}

static void *our_register_w(void *domain, const wchar_t *text)
{
	const register_w they = (register_w) their_function(CORE2, REGISTER_STRING_W);

	return made(handle_of_wide(HANDLE_STRING, text), they ? they(their_handle(domain), text) : NULL);
}

static void *our_create_a(const char *name)
{
	const create_a they = (create_a) their_function(CORE2, CREATE_A);

	return made(handle_of(HANDLE_DOMAIN, name, NULL), they ? they(name) : NULL);
}

static void *our_create_w(const wchar_t *name)
{
	const create_w they = (create_w) their_function(CORE2, CREATE_W);

	return made(handle_of_wide(HANDLE_DOMAIN, name), they ? they(name) : NULL);
}

/* Ours stays: another part of the program may have made a domain of this name too. */
static void our_destroy(void *domain)
{
	const destroy they = (destroy) their_function(CORE2, DESTROY);

	if (they && their_handle(domain))
		they(domain);
}

/* ---- attaching to a copy of the client part ----------------------------------------------------------------------- */

static const function ours[TABLES][FUNCTIONS] = {
	[CORE] = {
		[MARK_EX] = (function) our_mark_ex,
		[MARK_A] = (function) our_mark_a,
		[MARK_W] = (function) our_mark_w,
		[START_EX] = (function) our_start_ex,
		[START_A] = (function) our_start_a,
		[START_W] = (function) our_start_w,
		[END] = (function) our_end,
		[PUSH_EX] = (function) our_push_ex,
		[PUSH_A] = (function) our_push_a,
		[PUSH_W] = (function) our_push_w,
		[POP] = (function) our_pop,
		[NAME_THREAD_A] = (function) our_name_thread_a,
		[NAME_THREAD_W] = (function) our_name_thread_w,
	},
	[CORE2] = {
		[DOMAIN_MARK_EX] = (function) our_domain_mark,
		[DOMAIN_START_EX] = (function) our_domain_start,
		[DOMAIN_END] = (function) our_domain_end,
		[DOMAIN_PUSH_EX] = (function) our_domain_push,
		[DOMAIN_POP] = (function) our_domain_pop,
		[REGISTER_STRING_A] = (function) our_register_a,
		[REGISTER_STRING_W] = (function) our_register_w,
		[CREATE_A] = (function) our_create_a,
		[CREATE_W] = (function) our_create_w,
		[DESTROY] = (function) our_destroy,
	},
};

typedef const void *(*get_export_table)(uint32_t id);
typedef int (*initialize)(get_export_table get);

PROBE_API int InitializeInjectionNvtx2(get_export_table get);

/* The tables of a copy, and what was in them before any tool stored a function. */
struct copy {
	function **table[TABLES];
	unsigned n[TABLES];
	function before[TABLES][FUNCTIONS];
};

static bool read_copy(get_export_table get, struct copy *c)
{
	static const int modules[TABLES] = { MODULE_CORE, MODULE_CORE2 };
	const struct callbacks *const callbacks = get ? get(1) : NULL;

	memset(c, 0, sizeof(*c));
	if (!callbacks || callbacks->size < sizeof(*callbacks))
		return false;
	for (unsigned t = 0; t < TABLES; t++) {
		if (callbacks->module_table(modules[t], &c->table[t], &c->n[t]) != 1 || !c->table[t])
			c->n[t] = 0;
		if (c->n[t] > FUNCTIONS)
			c->n[t] = FUNCTIONS;
		for (unsigned i = 1; i < c->n[t]; i++)
			c->before[t][i] = c->table[t][i] ? *c->table[t][i] : NULL;
	}
	return true;
}

/* Loads the other tool, whose functions are in the copy then. Returns what it returned; 0: none, or it failed,
 * and the copy is as before. */
static int initialize_theirs(get_export_table get, const struct copy *c)
{
	const char *const path = secure_getenv(OTHER_ENVIRONMENT);
	void *const library = path && *path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
	const initialize theirs_init = library ? (initialize) dlsym(library, "InitializeInjectionNvtx2") : NULL;
	const int result = theirs_init && theirs_init != InitializeInjectionNvtx2 ? theirs_init(get) : 0;

	for (unsigned t = 0; t < TABLES && result == 0; t++) {
		for (unsigned i = 1; i < c->n[t]; i++) {
			if (c->table[t][i])
				*c->table[t][i] = c->before[t][i];
		}
	}
	return result;
}

/* What the other tool has stored, which must be the same in each copy: our functions do not know from which
 * they are called. */
static bool remember_theirs(const struct copy *c)
{
	for (unsigned t = 0; t < TABLES; t++) {
		for (unsigned i = 1; i < c->n[t]; i++) {
			function known = NULL, stored = c->table[t][i] ? *c->table[t][i] : NULL;

			if (!ours[t][i])
				continue;
			if (!stored || stored == c->before[t][i])
				stored = no_function;
			if (!atomic_compare_exchange_strong(&theirs[t][i], &known, stored) && known != stored)
				return false;
		}
	}
	return true;
}

/* 1: the copy calls us from now on; 0: it does nothing any more. */
int InitializeInjectionNvtx2(get_export_table get)
{
	const int error = errno;
	struct copy c;
	int result;

	if (!read_copy(get, &c))
		return 0;
	result = initialize_theirs(get, &c);
	if (probe_wants(TRACE_RANGES) && remember_theirs(&c)) {
		for (unsigned t = 0; t < TABLES; t++) {
			for (unsigned i = 1; i < c.n[t]; i++) {
				if (ours[t][i] && c.table[t][i])
					*c.table[t][i] = ours[t][i];
			}
		}
		result = 1;
	}
	errno = error;
	return result;
}
