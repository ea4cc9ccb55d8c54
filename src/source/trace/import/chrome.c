/* SPDX-License-Identifier: MIT
 *
 * Chrome traces: an array of events, or an object that has one, "traceEvents", among facts about it.
 *
 * What torch.profiler (Kineto) writes: times are microseconds with three decimals after
 * baseTimeNanoseconds, which is the wall clock. Work on a GPU has the device as its pid and the stream as
 * its tid; it belongs to the process that the other events are of, which is how calls and their work
 * find each other. Other pids and tids are texts ("Spans", "").
 *
 * Of ONNX Runtime and VizTracer only X events come, with clocks that begin anywhere.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json/json_read.h"
#include "source/trace/import/chrome_event.h"
#include "source/trace/import/import_internal.h"

enum {
	PROCESSES_MOST = 1 << 16,
	THREADS_MOST = 1 << 16,  /* names of threads */
	OPEN_MOST = 1 << 16,     /* B events without their E */
	DEVICES_MOST = 64,
	NAME_MOST = 256,         /* of a process or thread */
	NOTHING = OPEN_MOST,     /* in place of a number of an open range */
	NUMBERS_OF_TEXTS = 1 << 30, /* for pids and tids that are texts: above those that Linux has */
};

struct process {
	bool is_text;
	int64_t pid;
	char *name, *text;
	uint32_t number; /* of the sink, in this pass; 0: not there yet */
};

struct thread {
	size_t process;
	int64_t tid;
	char *name;
};

/* A B event whose E did not come yet: on the stack of its thread, and in the order of the file. */
struct open_range {
	size_t process;
	int64_t tid, start_ns;
	bool is_invalid;
	char *name, *category;
	uint32_t below, above;    /* of its thread; NOTHING: none. A free one has the next free one below */
	uint32_t older, newer;    /* of all threads */
};

struct device {
	int64_t id;
	char name[CHROME_WORD];
};

struct chrome {
	struct json_read *json;
	bool is_object, is_kineto, has_base;
	int64_t base_ns;
	struct process *processes;
	size_t n_processes, cap_processes;
	struct map process_places;
	struct thread *threads;
	size_t n_threads, cap_threads;
	struct map thread_places;
	struct open_range *open;
	size_t n_open, cap_open;  /* places in use at most; those that are free are a list */
	uint32_t free_open, oldest, newest;
	struct map open_tops;     /* of a thread: the range that its next E ends */
	struct device devices[DEVICES_MOST];
	size_t n_devices;
	size_t main; /* the process that work on devices is of; SIZE_MAX: not known */
	int64_t rank;
	uint64_t cuda_calls, no_object, unopened, given_up;
	struct chrome_event event;
	enum trace_kind kind;  /* of the event, if it has a duration */
	bool is_on_device;     /* its pid and tid are a device and a stream */
};

/* Most texts differ in their first letter: a call less. */
static inline bool is_word(const char *text, const char *word)
{
	return text[0] == word[0] && strcmp(text, word) == 0;
}

static bool ends_with(const char *text, const char *end)
{
	const size_t len = strlen(text), n = strlen(end);

	return len >= n && strcmp(text + len - n, end) == 0;
}

/* ---- processes and threads ------------------------------------------------------------------- */

/* A number in place of a text: the same in both passes and in all files. */
static int64_t number_of_text(const char *text)
{
	return NUMBERS_OF_TEXTS + (int64_t) (import_hash_text(text) & (NUMBERS_OF_TEXTS / 2 - 1));
}

/* The place of the process; -ENOMEM or -EFBIG. */
static int find_process(struct chrome *c, const struct chrome_id *id, size_t *ret)
{
	const uint64_t key = id->is_text ? import_hash(1, import_hash_text(id->text))
					 : import_hash(2, (uint64_t) id->number);
	struct process p = { .is_text = id->is_text, .pid = id->number };
	uint32_t place;
	int r;

	if (map_get(&c->process_places, key, &place)) {
		*ret = place;
		return 0;
	}
	if (id->is_text)
		p.pid = number_of_text(id->text);
	r = vec_reserve(&c->processes, &c->cap_processes, c->n_processes, sizeof(p), PROCESSES_MOST);
	if (r == 0)
		r = map_put(&c->process_places, key, (uint32_t) c->n_processes);
	if (r < 0)
		return r;
	p.text = strdup(id->is_text ? id->text : "");
	if (!p.text)
		return -ENOMEM;
	c->processes[c->n_processes] = p;
	*ret = c->n_processes++;
	return 0;
}

static const struct chrome_id no_id = { .is_text = false, .number = -1 };

static int process_of(struct chrome *c, const struct chrome_id *id, size_t *ret)
{
	return find_process(c, id->is_known ? id : &no_id, ret);
}

/* Keeps the name of a thread: the first that it has. Past the limit it goes without. */
static void name_thread(struct chrome *c, size_t process, int64_t tid, const char *name)
{
	const uint64_t key = import_hash(process, (uint64_t) tid);
	uint32_t place;
	char *copy;

	if (name[0] == '\0' || map_get(&c->thread_places, key, &place))
		return;
	if (vec_reserve(&c->threads, &c->cap_threads, c->n_threads, sizeof(*c->threads), THREADS_MOST) < 0)
		return;
	copy = strndup(name, NAME_MOST);
	if (!copy || map_put(&c->thread_places, key, (uint32_t) c->n_threads) < 0) {
		free(copy);
		return;
	}
	c->threads[c->n_threads++] = (struct thread) { process, tid, copy };
}

/* A tid that is a text has a number of its own in its process, and the text as its name. */
static int64_t tid_of(struct chrome *c, size_t process, const struct chrome_id *id)
{
	int64_t tid;

	if (!id->is_known)
		return -1;
	if (!id->is_text)
		return id->number;
	tid = number_of_text(id->text);
	name_thread(c, process, tid, id->text);
	return tid;
}

/* The sink's number of the process. */
static int register_process(struct trace_import *f, size_t place, uint32_t *ret)
{
	struct chrome *c = f->reader;
	struct process *p = &c->processes[place];
	const struct trace_import_target *target = f->target;
	struct trace_process process = {
		.pid = p->pid,
		.origin = f->facts.origin,
		.name = p->name ? p->name : p->text,
		.rank = target ? target->rank : -1,
	};
	int r = 0;

	if (process.rank < 0)
		process.rank = f->facts.rank;
	if (!target)
		*ret = (uint32_t) place + 1;
	else if (p->number == 0)
		r = target->sink->process(target->sink->ctx, &process, &p->number);
	if (r == 0 && target)
		*ret = p->number;
	return r;
}

/* Ranges on a device nest by their streams. */
static uint64_t thread_key(size_t process, int64_t tid, bool is_stream)
{
	return import_hash(process * 2 + is_stream, (uint64_t) tid);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* On the file's clock; while the facts are read, without its base, which may come last. */
static int64_t time_of(const struct trace_import *f, int64_t ns, bool *is_beyond)
{
	const struct chrome *c = f->reader;
	int64_t t = 0;

	if (__builtin_add_overflow(f->target ? c->base_ns : 0, ns, &t))
		*is_beyond = true;
	return *is_beyond ? 0 : t;
}

static void set_times(const struct trace_import *f, struct import_event *e)
{
	const struct chrome_event *from = &((const struct chrome *) f->reader)->event;
	const bool is_instant = e->site.kind == TRACE_MARK;

	e->is_invalid = !from->has_ts || from->is_beyond || (!is_instant && !from->has_dur);
	e->start_ns = e->end_ns = from->has_ts ? time_of(f, from->ts_ns, &e->is_invalid) : 0;
	if (!is_instant && !e->is_invalid && __builtin_add_overflow(e->start_ns, from->dur_ns, &e->end_ns))
		e->is_invalid = true;
}

/* What an X event of this category is. */
static enum trace_kind kind_of(const char *category)
{
	if (is_word(category, "cpu_op") || is_word(category, "python_function"))
		return TRACE_RANGE;
	if (is_word(category, "kernel") || is_word(category, "Kernel"))
		return TRACE_KERNEL;
	if (is_word(category, "gpu_memcpy") || is_word(category, "Memcpy"))
		return TRACE_COPY;
	if (is_word(category, "gpu_memset") || is_word(category, "Memset"))
		return TRACE_FILL;
	if (ends_with(category, "_runtime") || ends_with(category, "_driver") || is_word(category, "Runtime"))
		return TRACE_LAUNCH;
	return TRACE_RANGE;
}

/* Once an event. */
static void find_kind(struct chrome *c)
{
	const char *category = c->event.category;

	c->kind = kind_of(category);
	c->is_on_device = c->kind == TRACE_KERNEL || c->kind == TRACE_COPY || c->kind == TRACE_FILL ||
			  is_word(category, "gpu_user_annotation");
}

static uint32_t unsigned_of(int64_t value)
{
	return value > 0 && value <= UINT32_MAX ? (uint32_t) value : 0;
}

/* "Memcpy HtoD (Pageable -> Device)", "Memset (Device)": what stands in brackets. */
static void set_memory(struct trace_site *site)
{
	const char *open = strrchr(site->name, '('), *close = open ? strchr(open, ')') : NULL;
	const char *arrow = open ? strstr(open, " -> ") : NULL;

	if (!close)
		return;
	if (arrow && arrow < close) {
		site->source = import_memory(open + 1, (size_t) (arrow - open - 1));
		open = arrow + 3;
	}
	site->target = import_memory(open + 1, (size_t) (close - open - 1));
}

/* The device, context and stream of work; where args lack them, pid and tid have them. */
static void set_device(const struct chrome *c, struct trace_site *site)
{
	const struct chrome_event *from = &c->event;
	int64_t stream = from->stream;

	site->device = from->device;
	if (site->device < 0 && from->pid.is_known && !from->pid.is_text)
		site->device = from->pid.number;
	if (stream < 0 && from->tid.is_known && !from->tid.is_text)
		stream = from->tid.number;
	site->stream = stream > 0 ? (uint64_t) stream : 0;
	site->context = from->context > 0 ? (uint64_t) from->context : 0;
	for (size_t i = 0; i < c->n_devices; i++) {
		if (c->devices[i].id == site->device)
			site->device_name = c->devices[i].name;
	}
}

static void set_kernel(const struct chrome *c, struct trace_site *site)
{
	for (int i = 0; i < 3; i++) {
		site->grid[i] = unsigned_of(c->event.grid[i]);
		site->block[i] = unsigned_of(c->event.block[i]);
	}
	site->registers = unsigned_of(c->event.registers);
	/* Static and dynamic in one. */
	site->shared_static = unsigned_of(c->event.shared);
}

/* The process of the event. Of one process are all that torch.profiler writes: work on a device has the
 * device as its pid, and the profiler's own spans have a text. */
static int owner_of(struct chrome *c, size_t *ret)
{
	const struct chrome_event *from = &c->event;
	const bool is_nobodys = c->is_on_device || is_word(from->category, "overhead") ||
				(c->is_kineto && (from->pid.is_text || !from->pid.is_known));

	if (!is_nobodys)
		return process_of(c, &from->pid, ret);
	if (c->main == SIZE_MAX)
		return find_process(c, &no_id, ret);
	*ret = c->main;
	return 0;
}

/* Passes the event on. */
static int pass_event(struct trace_import *f, enum trace_kind kind)
{
	struct chrome *c = f->reader;
	const struct chrome_event *from = &c->event;
	struct import_event e = import_new(kind, from->name);
	size_t owner;
	int r = owner_of(c, &owner);

	if (r == 0)
		r = register_process(f, owner, &e.site.process);
	if (r < 0)
		return r;
	set_times(f, &e);
	e.correlation = from->correlation > 0 ? (uint64_t) from->correlation : 0;
	if (kind == TRACE_RANGE || kind == TRACE_MARK)
		e.site.domain = from->domain[0] ? from->domain : from->category;
	if (c->is_on_device)
		set_device(c, &e.site);
	else
		e.site.tid = tid_of(c, owner, &from->tid);
	e.thread = thread_key(owner, c->is_on_device ? from->tid.number : e.site.tid, c->is_on_device);
	if (kind == TRACE_KERNEL)
		set_kernel(c, &e.site);
	if (kind == TRACE_COPY || kind == TRACE_FILL) {
		set_memory(&e.site);
		e.bytes = from->bytes > 0 ? (uint64_t) from->bytes : 0;
	}
	if (!f->target && kind == TRACE_LAUNCH)
		c->cuda_calls++;
	return import_event(f, &e);
}

/* ---- B and E --------------------------------------------------------------------------------- */

static uint64_t key_of_open(const struct open_range *o)
{
	return import_hash(o->process, (uint64_t) o->tid);
}

static void drop_open(struct chrome *c, uint32_t at)
{
	struct open_range *o = &c->open[at];

	free(o->name);
	free(o->category);
	if (o->above != NOTHING)
		c->open[o->above].below = o->below;
	else if (o->below == NOTHING || map_put(&c->open_tops, key_of_open(o), o->below) < 0)
		map_remove(&c->open_tops, key_of_open(o));
	if (o->below != NOTHING)
		c->open[o->below].above = o->above;
	*(o->older != NOTHING ? &c->open[o->older].newer : &c->oldest) = o->newer;
	*(o->newer != NOTHING ? &c->open[o->newer].older : &c->newest) = o->older;
	o->below = c->free_open;
	c->free_open = at;
}

static void forget_open(struct chrome *c)
{
	while (c->oldest != NOTHING)
		drop_open(c, c->oldest);
}

/* A place for one more. If too many are open the oldest is given up. */
static int place_of_open(struct trace_import *f, uint32_t *ret)
{
	struct chrome *c = f->reader;
	int r;

	if (c->free_open == NOTHING && c->n_open == OPEN_MOST) {
		f->facts.broken += !f->target;
		c->given_up += !f->target;
		drop_open(c, c->oldest);
	}
	if (c->free_open != NOTHING) {
		*ret = c->free_open;
		return 0;
	}
	r = vec_reserve(&c->open, &c->cap_open, c->n_open, sizeof(*c->open), OPEN_MOST);
	if (r < 0)
		return r;
	*ret = (uint32_t) c->n_open;
	return 0;
}

/* Puts it at a place that is free, on top of its thread's. */
static int put_open(struct chrome *c, uint32_t at, const struct open_range *o)
{
	uint32_t below = NOTHING;

	(void) map_get(&c->open_tops, key_of_open(o), &below);
	if (map_put(&c->open_tops, key_of_open(o), at) < 0)
		return -ENOMEM;
	if (at == c->free_open)
		c->free_open = c->open[at].below;
	else
		c->n_open++;
	c->open[at] = *o;
	c->open[at].below = below;
	c->open[at].above = c->open[at].newer = NOTHING;
	c->open[at].older = c->newest;
	if (below != NOTHING)
		c->open[below].above = at;
	*(c->newest != NOTHING ? &c->open[c->newest].newer : &c->oldest) = at;
	c->newest = at;
	return 0;
}

static int begin_range(struct trace_import *f)
{
	struct chrome *c = f->reader;
	struct open_range o = { .is_invalid = !c->event.has_ts || c->event.is_beyond };
	uint32_t at = 0;
	int r = process_of(c, &c->event.pid, &o.process);

	if (r == 0)
		r = place_of_open(f, &at);
	if (r < 0)
		return r;
	o.tid = tid_of(c, o.process, &c->event.tid);
	o.start_ns = time_of(f, c->event.ts_ns, &o.is_invalid);
	o.name = strdup(c->event.name);
	o.category = strdup(c->event.domain[0] ? c->event.domain : c->event.category);
	if (!o.name || !o.category || put_open(c, at, &o) < 0) {
		free(o.name);
		free(o.category);
		return -ENOMEM;
	}
	return 0;
}

/* Ends the open range at i. */
static int end_open(struct trace_import *f, uint32_t i, int64_t end_ns, bool is_invalid, uint32_t flags)
{
	struct chrome *c = f->reader;
	const struct open_range *o = &c->open[i];
	struct import_event e = import_new(TRACE_RANGE, o->name);
	int r = register_process(f, o->process, &e.site.process);

	e.site.domain = o->category;
	e.site.tid = o->tid;
	e.start_ns = o->start_ns;
	e.end_ns = end_ns;
	e.is_invalid = o->is_invalid || is_invalid;
	e.flags = flags;
	e.thread = thread_key(o->process, o->tid, false);
	if (r == 0)
		r = import_event(f, &e);
	drop_open(c, i);
	return r;
}

static int end_range(struct trace_import *f)
{
	struct chrome *c = f->reader;
	bool is_invalid = !c->event.has_ts || c->event.is_beyond;
	const int64_t end_ns = time_of(f, c->event.ts_ns, &is_invalid);
	struct open_range wanted = { 0 };
	uint32_t top;
	int r = process_of(c, &c->event.pid, &wanted.process);

	if (r < 0)
		return r;
	wanted.tid = tid_of(c, wanted.process, &c->event.tid);
	if (map_get(&c->open_tops, key_of_open(&wanted), &top))
		return end_open(f, top, end_ns, is_invalid, 0);
	c->unopened++;
	return 0;
}

static int end_all(struct trace_import *f)
{
	struct chrome *c = f->reader;
	int r = 0;

	while (c->oldest != NOTHING && r == 0) {
		const int64_t start = c->open[c->oldest].start_ns, last = f->facts.last_ns;

		r = end_open(f, c->oldest, last > start ? last : start, false, TRACE_UNCLOSED);
	}
	return r;
}

/* ---- one event ------------------------------------------------------------------------------- */

static int name_process(struct chrome *c, size_t place)
{
	struct process *p = &c->processes[place];

	/* Of several the first: the pid of a device may be that of a process, too. */
	if (p->name || c->event.about[0] == '\0')
		return 0;
	p->name = strdup(c->event.about);
	return p->name ? 0 : -ENOMEM;
}

/* Names of processes and threads, which may come after their events: they are collected with the facts. */
static int read_metadata(struct trace_import *f)
{
	struct chrome *c = f->reader;
	const struct chrome_event *from = &c->event;
	size_t process;
	int r;

	if (f->target || (!is_word(from->name, "process_name") && !is_word(from->name, "thread_name")))
		return 0;
	r = process_of(c, &from->pid, &process);
	if (r < 0)
		return r == -EFBIG ? 0 : r;
	if (is_word(from->name, "process_name"))
		return name_process(c, process);
	if (strncmp(from->about, "stream ", 7) != 0)
		name_thread(c, process, tid_of(c, process, &from->tid), from->about);
	return 0;
}

/* The first process with events of the host. */
static int find_main(struct trace_import *f)
{
	struct chrome *c = f->reader;
	const struct chrome_event *from = &c->event;

	if (f->target || c->main != SIZE_MAX || !from->pid.is_known || from->pid.is_text ||
		from->pid.number < 0 || c->is_on_device)
		return 0;
	return process_of(c, &from->pid, &c->main);
}

static int see_event(struct trace_import *f)
{
	struct chrome *c = f->reader;
	int r;

	c->is_on_device = false;
	switch (c->event.ph) {
	case 'M':
		return read_metadata(f);
	case 'X':
		find_kind(c);
		r = find_main(f);
		return r < 0 ? r : pass_event(f, c->kind);
	case 'B':
		r = find_main(f);
		return r < 0 ? r : begin_range(f);
	case 'E':
		return end_range(f);
	case 'i':
	case 'I':
	case 'R':
		return pass_event(f, TRACE_MARK);
	default:
		f->facts.other += !f->target;
		return 0;
	}
}

/* ---- the document ---------------------------------------------------------------------------- */

/* A place that cannot be read, with its offset: the first is reported. */
static void note_broken(struct trace_import *f)
{
	struct chrome *c = f->reader;

	if (f->target)
		return;
	if (f->facts.broken == 0)
		import_note(f, "at byte %llu%s: %s; that event is lost, the next ones were read",
			(unsigned long long) json_read_offset(c->json),
			json_read_is_compressed(c->json) ? " of its uncompressed text" : "", json_read_why(c->json));
	f->facts.broken++;
}

static void note_cut(struct trace_import *f)
{
	struct chrome *c = f->reader;
	const unsigned long long offset = json_read_offset(c->json);
	const char *where = json_read_is_compressed(c->json) ? " of its uncompressed text" : "";

	if (f->target || f->facts.is_cut)
		return;
	f->facts.is_cut = true;
	if (f->facts.events == 0)
		import_note(f, "cut off at byte %llu%s, before its first event (%s)", offset, where,
			json_read_why(c->json));
	else
		import_note(f, "cut off at byte %llu%s (%s); the %llu events before it are imported", offset, where,
			json_read_why(c->json), (unsigned long long) f->facts.events);
}

/* The events of an array whose begin was read. Returns 0, 1 (the text cannot be read further: the caller
 * stops) or -errno of the sink. */
static int read_events(struct trace_import *f)
{
	struct chrome *c = f->reader;
	const unsigned depth = json_read_depth(c->json);

	for (;;) {
		enum json_token token = json_read_next(c->json);
		int r = 0;

		if (token == JSON_ARRAY_END)
			return 0;
		if (token == JSON_OBJECT) {
			token = chrome_event_read(c->json, &c->event);
			if (token == JSON_OBJECT_END)
				r = see_event(f);
		} else if (token < JSON_END) {
			c->no_object++;
			if (token == JSON_ARRAY)
				token = json_read_skip(c->json);
		}
		if (r < 0)
			return r;
		if (token == JSON_CUT || token == JSON_END)
			return 1;
		if (token != JSON_BROKEN)
			continue;
		note_broken(f);
		if (!json_read_resume(c->json, depth))
			return 1;
	}
}

static enum json_token read_distributed(struct trace_import *f)
{
	struct json_read *j = ((struct chrome *) f->reader)->json;
	enum json_token token = json_read_next(j);

	if (token != JSON_OBJECT)
		return token == JSON_ARRAY ? json_read_skip(j) : token;
	while ((token = json_read_next(j)) == JSON_KEY) {
		if (is_word(json_read_text(j, NULL), "rank"))
			token = chrome_number_read(j, 0, &f->facts.rank);
		else if (is_word(json_read_text(j, NULL), "world_size"))
			token = chrome_number_read(j, 0, &f->facts.ranks);
		else
			token = json_read_skip(j);
		if (token >= JSON_END)
			return token;
	}
	return token;
}

static enum json_token read_device(struct chrome *c)
{
	struct device d = { .id = -1 };
	enum json_token token;

	while ((token = json_read_next(c->json)) == JSON_KEY) {
		if (is_word(json_read_text(c->json, NULL), "id"))
			token = chrome_number_read(c->json, 0, &d.id);
		else if (is_word(json_read_text(c->json, NULL), "name"))
			token = chrome_text_read(c->json, d.name, sizeof(d.name));
		else
			token = json_read_skip(c->json);
		if (token >= JSON_END)
			return token;
	}
	if (c->n_devices < DEVICES_MOST && d.id >= 0)
		c->devices[c->n_devices++] = d;
	return token;
}

static enum json_token read_devices(struct chrome *c)
{
	enum json_token token = json_read_next(c->json);

	c->n_devices = 0;
	if (token != JSON_ARRAY)
		return token == JSON_OBJECT ? json_read_skip(c->json) : token;
	while ((token = json_read_next(c->json)) != JSON_ARRAY_END) {
		if (token == JSON_OBJECT)
			token = read_device(c);
		else if (token == JSON_ARRAY)
			token = json_read_skip(c->json);
		if (token >= JSON_END)
			break;
	}
	return token;
}

/* A fact about the events. It is the same in a pass; of several that differ the last holds. */
static enum json_token read_fact(struct trace_import *f)
{
	struct chrome *c = f->reader;
	const char *key = json_read_text(c->json, NULL);

	if (f->target)
		return json_read_skip(c->json);
	if (is_word(key, "baseTimeNanoseconds")) {
		int64_t base = -1;
		const enum json_token token = chrome_number_read(c->json, 0, &base);

		c->has_base |= base >= 0;
		c->base_ns = base >= 0 ? base : c->base_ns;
		return token;
	}
	if (is_word(key, "schemaVersion") || is_word(key, "traceName") || is_word(key, "trace_id"))
		c->is_kineto = true;
	if (is_word(key, "distributedInfo"))
		return read_distributed(f);
	if (is_word(key, "deviceProperties"))
		return read_devices(c);
	return json_read_skip(c->json);
}

/* The facts and the events of an object whose begin was read; what cannot be read after the events began
 * may be some more of them. *ret_found: it has events. Returns 0, 1 or -errno as read_events. */
static int read_object(struct trace_import *f, bool *ret_found)
{
	struct chrome *c = f->reader;

	for (;;) {
		enum json_token token = json_read_next(c->json);
		int r = 0;

		if (token == JSON_KEY && is_word(json_read_text(c->json, NULL), "traceEvents")) {
			token = json_read_next(c->json);
			*ret_found |= token == JSON_ARRAY;
			if (token == JSON_ARRAY)
				r = read_events(f);
			else if (token == JSON_OBJECT)
				token = json_read_skip(c->json);
		} else if (token == JSON_KEY) {
			token = read_fact(f);
		}
		if (r != 0)
			return r;
		if (token == JSON_CUT || token == JSON_END)
			return 1;
		if (token != JSON_BROKEN)
			continue;
		if (!*ret_found)
			return 1;
		note_broken(f);
		if (!json_read_resume(c->json, 2))
			return 1;
		r = read_events(f);
		if (r != 0)
			return r;
	}
}

/* A text without events; *err says what was there. */
static int no_events(struct trace_import *f, enum json_token token, struct err *err)
{
	struct chrome *c = f->reader;
	const unsigned long long offset = json_read_offset(c->json);

	if (token == JSON_CUT)
		return err_set(err, -ENODATA, "%s: cut off at byte %llu, before its first event (%s)", f->path, offset,
			json_read_why(c->json));
	if (token == JSON_BROKEN)
		return err_set(err, -EBADMSG, "%s: at byte %llu: %s; it is neither a Chrome trace (JSON) nor an SQLite "
					      "export of Nsight Systems (nsys export --type sqlite)",
			f->path, offset, json_read_why(c->json));
	return err_set(err, -EBADMSG, "%s is JSON, but no trace: it has neither an array of events nor the key "
				      "\"traceEvents\"",
		f->path);
}

/* All of the text. Returns 0 or -errno. */
static int read_text(struct trace_import *f, struct err *err)
{
	struct chrome *c = f->reader;
	enum json_token token = json_read_next(c->json);
	bool found = token == JSON_ARRAY;
	int r = 0;

	c->is_object = token == JSON_OBJECT;
	if (token == JSON_ARRAY)
		r = read_events(f);
	else if (token == JSON_OBJECT)
		r = read_object(f, &found);
	if (r < 0)
		return r;
	if (!found)
		return no_events(f, json_read_next(c->json), err);
	/* Something follows an array that seemed to end. */
	while (r == 0 && (token = json_read_next(c->json)) == JSON_BROKEN) {
		note_broken(f);
		if (json_read_resume(c->json, c->is_object ? 2 : 1))
			r = read_events(f);
		if (r < 0)
			return r;
	}
	if (json_read_next(c->json) == JSON_CUT)
		note_cut(f);
	return end_all(f);
}

/* ---- a pass ---------------------------------------------------------------------------------- */

static int start_pass(struct trace_import *f, struct err *err)
{
	struct chrome *c = f->reader;
	struct json_read *json = NULL;
	int r = json_read_open(f->path, &json, err);

	if (r < 0)
		return r;
	json_read_free(c->json);
	c->json = json;
	forget_open(c);
	for (size_t i = 0; i < c->n_processes; i++)
		c->processes[i].number = 0;
	return 0;
}

static int pass_threads(struct trace_import *f)
{
	struct chrome *c = f->reader;
	const struct trace_sink *sink = f->target->sink;
	int r = 0;

	for (size_t i = 0; i < c->n_threads && r == 0; i++) {
		const struct thread *t = &c->threads[i];

		if (c->processes[t->process].number)
			r = sink->thread(sink->ctx, c->processes[t->process].number, t->tid, t->name);
	}
	return r;
}

static int pass_chrome(struct trace_import *f, struct err *err)
{
	int r = start_pass(f, err);

	if (r == 0)
		r = read_text(f, err);
	return r < 0 ? r : pass_threads(f);
}

static void free_chrome(void *reader)
{
	struct chrome *c = reader;

	json_read_free(c->json);
	forget_open(c);
	for (size_t i = 0; i < c->n_processes; i++) {
		free(c->processes[i].name);
		free(c->processes[i].text);
	}
	for (size_t i = 0; i < c->n_threads; i++)
		free(c->threads[i].name);
	free(c->open);
	free(c->processes);
	free(c->threads);
	map_done(&c->process_places);
	map_done(&c->thread_places);
	map_done(&c->open_tops);
	free(c);
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* The clock, once all facts are known. Kineto had no base before 2024: its times were microseconds since
 * 1970 then. Returns 0, or -EBADMSG with text: base and times together are beyond all bounds. */
static int find_clock(struct trace_import *f, struct err *err)
{
	struct chrome *c = f->reader;
	const int64_t year_ns = 31556952000000000LL;

	if (f->has_time && (__builtin_add_overflow(f->facts.first_ns, c->base_ns, &f->facts.first_ns) ||
				   __builtin_add_overflow(f->facts.last_ns, c->base_ns, &f->facts.last_ns)))
		return err_set(err, -EBADMSG, "%s: its baseTimeNanoseconds and its times are beyond the year 2262",
			f->path);
	f->facts.is_wall = c->has_base || (c->is_kineto && f->facts.first_ns > 45 * year_ns &&
						  f->facts.last_ns < 130 * year_ns);
	return 0;
}

static void note_missing(struct trace_import *f)
{
	const struct chrome *c = f->reader;
	const struct trace_import_facts *facts = &f->facts;

	if (c->is_kineto && c->cuda_calls && facts->kinds[TRACE_KERNEL] == 0)
		import_note(f, "empty capture: it has %llu calls of the GPU's interface, but no kernel; another tool "
			       "may have used CUPTI in that process",
			(unsigned long long) c->cuda_calls);
	if (facts->other)
		import_note(f, "%llu events are no ranges, calls or work on a device (flows, counters) and are left out",
			(unsigned long long) facts->other);
	if (c->given_up)
		import_note(f, "%llu ranges were given up: more than %d were open at once", (unsigned long long) c->given_up,
			OPEN_MOST);
	if (c->unopened)
		import_note(f, "%llu ends of ranges without a begin are left out", (unsigned long long) c->unopened);
	if (facts->invalid)
		import_note(f, "%llu events have no valid times: counted as invalid, in no sum",
			(unsigned long long) facts->invalid);
}

int import_open_chrome(struct trace_import *f, struct err *err)
{
	struct chrome *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_set(err, -ENOMEM, "%s: out of memory", f->path);
	c->main = SIZE_MAX;
	c->free_open = c->oldest = c->newest = NOTHING;
	f->reader = c;
	f->free = free_chrome;
	f->pass = pass_chrome;
	f->facts.format = "a Chrome trace";
	f->facts.origin = "chrome";
	r = start_pass(f, err);
	if (r == 0)
		r = read_text(f, err);
	if (r == -ENOMEM && err && err->text[0] == '\0')
		return err_set(err, r, "%s: out of memory", f->path);
	if (r == -EFBIG)
		return err_set(err, r, "%s has more than %d processes", f->path, PROCESSES_MOST);
	if (r < 0)
		return r;
	if (c->is_kineto) {
		f->facts.format = "torch.profiler";
		f->facts.origin = "kineto";
	}
	/* Of many files only the one that is passed on is open. */
	json_read_free(c->json);
	c->json = NULL;
	note_missing(f);
	return find_clock(f, err);
}
