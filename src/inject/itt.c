/* SPDX-License-Identifier: MIT
 *
 * Tasks, markers and thread names of ITT (https://github.com/intel/ittapi): oneDNN, PyTorch, OpenVINO and
 * others call it. Each library has a copy of its static part, a list of functions with a pointer each. At its
 * first call a copy loads the library that INTEL_LIBITTNOTIFY64 names and calls __itt_api_init, which fills
 * the pointers. The declarations here are of that binary interface.
 *
 * What is not in the table below stays as it is without a collector. Tasks with a clock of their own
 * (..._ex) are among that: what their times mean only the program knows.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "handle.h"
#include "probe.h"

struct itt_id {
	unsigned long long d1, d2, d3;
};

struct itt_domain {
	volatile int flags; /* 0: the program does not call */
	const char *name;
	void *name_wide;
	int extra1;
	void *extra2;
	struct itt_domain *next;
};

struct itt_string {
	const char *text;
	void *text_wide;
	int extra1;
	void *extra2;
	struct itt_string *next;
};

_Static_assert(sizeof(struct itt_domain) <= sizeof(((struct handle *) 0)->abi), "a domain is a handle");
_Static_assert(sizeof(struct itt_string) <= sizeof(((struct handle *) 0)->abi), "a string is a handle");

struct itt_function {
	const char *name;
	void **pointer;
	void *initial; /* loads the collector */
	void *without; /* without a collector; may be NULL */
	int group;
};

struct itt_global {
	unsigned char magic[8];
	unsigned long major, minor, build; /* build: a date */
	volatile long api_initialized, mutex_initialized, counter;
	pthread_mutex_t mutex;
	void *library, *error_handler;
	const char **path;
	struct itt_function *functions; /* up to a NULL name */
	/* and more, of newer versions */
};

enum {
	FIRST_BUILD = 20120101, /* older ones have shorter functions */
};

/* ---- names -------------------------------------------------------------------------------------------------------- */

static uint32_t domain_offset(const struct itt_domain *domain)
{
	struct handle *const h = domain ? handle_ours(domain) : NULL;

	/* Or made by the static part before it loaded us. */
	return h ? handle_offset(h) : domain ? probe_text0(domain->name)
					     : 0;
}

static uint32_t string_offset(const struct itt_string *string)
{
	struct handle *const h = string ? handle_ours(string) : NULL;

	return h ? handle_offset(h) : string ? probe_text0(string->text)
					     : 0;
}

static void fill_domain(struct handle *h)
{
	const struct itt_domain domain = { .flags = 1, .name = h->name };

	memcpy(h->abi, (const void *) &domain, sizeof(domain));
}

static void fill_string(struct handle *h)
{
	const struct itt_string string = { .text = h->name };

	memcpy(h->abi, &string, sizeof(string));
}

static struct itt_domain *domain_create(const char *name)
{
	return (struct itt_domain *) (void *) handle_of(HANDLE_ITT_DOMAIN, name, fill_domain);
}

static struct itt_string *string_handle_create(const char *name)
{
	return (struct itt_string *) (void *) handle_of(HANDLE_ITT_STRING, name, fill_string);
}

/* The name of a function: its symbol, or its library and where it is there. */
static uint32_t function_name(const void *function)
{
	static const char digits[] = "0123456789abcdef";
	char text[300] = "", *at = text;
	Dl_info info;
	uintptr_t offset;
	const char *file;

	if (!dladdr(function, &info) || !info.dli_fname)
		return 0;
	if (info.dli_sname)
		return probe_text0(info.dli_sname);
	offset = (uintptr_t) function - (uintptr_t) info.dli_fbase;
	file = strrchr(info.dli_fname, '/');
	file = file ? file + 1 : info.dli_fname;
	at = mempcpy(at, file, strnlen(file, 255));
	at = stpcpy(at, "+0x");
	for (int shift = offset > UINT32_MAX ? 60 : 28; shift >= 0; shift -= 4)
		*at++ = digits[offset >> shift & 15];
	return probe_text(text, (size_t) (at - text));
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

static inline uint64_t begin(void)
{
	return probe_follows(TRACE_RANGES) ? probe_now() : 0;
}

/* The id of a task that may end in another thread: an id of ITT's is three numbers. */
static uint64_t event_id(const struct itt_id *id)
{
	const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);

	return ((id->d1 * odd ^ id->d2) * odd ^ id->d3) * odd;
}

static void task_begin(
	const struct itt_domain *domain, struct itt_id id, struct itt_id parent, struct itt_string *name)
{
	const uint64_t now = begin();

	(void) id;
	(void) parent;
	if (now)
		probe_range(TRACE_RING_PUSH, now, string_offset(name), domain_offset(domain), 0);
}

static void task_begin_fn(
	const struct itt_domain *domain, struct itt_id id, struct itt_id parent, void *function)
{
	const uint64_t now = begin();

	(void) id;
	(void) parent;
	if (now)
		probe_range(TRACE_RING_PUSH, now, function_name(function), domain_offset(domain), 0);
}

static void task_end(const struct itt_domain *domain)
{
	const uint64_t now = begin();

	if (now)
		probe_range(TRACE_RING_POP, now, 0, domain_offset(domain), 0);
}

static void task_begin_overlapped(
	const struct itt_domain *domain, struct itt_id id, struct itt_id parent, struct itt_string *name)
{
	const uint64_t now = begin();

	(void) parent;
	if (now)
		probe_range(TRACE_RING_START, now, string_offset(name), domain_offset(domain), event_id(&id));
}

static void task_end_overlapped(const struct itt_domain *domain, struct itt_id id)
{
	const uint64_t now = begin();

	if (now)
		probe_range(TRACE_RING_END, now, 0, domain_offset(domain), event_id(&id));
}

static void marker(const struct itt_domain *domain, struct itt_id id, struct itt_string *name, int scope)
{
	const uint64_t now = begin();

	(void) id;
	(void) scope;
	if (now)
		probe_range(TRACE_RING_MARK, now, string_offset(name), domain_offset(domain), 0);
}

static void thread_set_name(const char *name)
{
	const uint64_t now = begin();

	if (now)
		probe_range(TRACE_RING_THREAD, now, probe_text0(name), 0, 0);
}

/* ---- attaching to a copy of the static part ----------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*function)(void);
} ours[] = {
	{ "__itt_domain_create", (void (*)(void)) domain_create },
	{ "__itt_string_handle_create", (void (*)(void)) string_handle_create },
	{ "__itt_task_begin", (void (*)(void)) task_begin },
	{ "__itt_task_begin_fn", (void (*)(void)) task_begin_fn },
	{ "__itt_task_end", (void (*)(void)) task_end },
	{ "__itt_task_begin_overlapped", (void (*)(void)) task_begin_overlapped },
	{ "__itt_task_end_overlapped", (void (*)(void)) task_end_overlapped },
	{ "__itt_marker", (void (*)(void)) marker },
	{ "__itt_thread_set_name", (void (*)(void)) thread_set_name },
};

PROBE_API void __itt_api_init(struct itt_global *global, int groups);

/* Called by each copy, under its lock. What a copy does without a collector, it does where ranges are not
 * followed, which costs nothing then. */
void __itt_api_init(struct itt_global *global, int groups)
{
	static const unsigned char magic[8] = { 0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30 };
	const bool is_followed = probe_wants(TRACE_RANGES);

	(void) groups;
	if (!global || memcmp(global->magic, magic, sizeof(magic)) != 0 || global->build < FIRST_BUILD)
		return;
	for (struct itt_function *f = global->functions; f && f->name; f++) {
		void *function = f->without;

		for (size_t i = 0; is_followed && i < sizeof(ours) / sizeof(ours[0]); i++) {
			if (strcmp(f->name, ours[i].name) == 0)
				memcpy(&function, &ours[i].function, sizeof(function));
		}
		*f->pointer = function;
	}
}
