/* SPDX-License-Identifier: MIT */
#include "source/trace/import/import.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "source/trace/import/import_internal.h"

void import_note(struct trace_import *f, const char *format, ...)
{
	struct trace_import_facts *facts = &f->facts;
	char *text = facts->notes[facts->n_notes];
	va_list ap;

	if (facts->n_notes == IMPORT_NOTES)
		return;
	va_start(ap, format);
	(void) vsnprintf(text, sizeof(facts->notes[0]), format, ap);
	va_end(ap);
	facts->n_notes++;
}

uint64_t import_hash(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;

	h = (h ^ h >> 32 ^ b) * 0xc4ceb9fe1a85ec53ULL;
	return h ^ h >> 29;
}

uint64_t import_hash_text(const char *text)
{
	uint64_t h = 14695981039346656037ULL;

	for (; *text; text++)
		h = (h ^ (unsigned char) *text) * 1099511628211ULL;
	return h;
}

enum trace_memory import_memory(const char *word, size_t len)
{
	static const struct {
		const char *word;
		enum trace_memory memory;
	} kinds[] = {
		{ "pageable", TRACE_PAGEABLE },
		{ "pinned", TRACE_PINNED },
		{ "device", TRACE_DEVICE },
		{ "device static", TRACE_DEVICE },
		{ "array", TRACE_ARRAY },
		{ "managed", TRACE_MANAGED },
		{ "managed static", TRACE_MANAGED },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strlen(kinds[i].word) == len && strncasecmp(word, kinds[i].word, len) == 0)
			return kinds[i].memory;
	}
	return TRACE_MEMORY_UNKNOWN;
}

/* ---- events ---------------------------------------------------------------------------------- */

struct import_event import_new(enum trace_kind kind, const char *name)
{
	const struct trace_site site = {
		.kind = kind,
		.name = name,
		.domain = "",
		.tid = -1,
		.device = -1,
		.device_name = "",
	};

	return (struct import_event) { .site = site };
}

static bool is_invalid(const struct import_event *e)
{
	return e->is_invalid || e->end_ns < e->start_ns;
}

static bool has_depth(const struct import_event *e)
{
	return e->site.kind == TRACE_RANGE || e->site.kind == TRACE_MARK;
}

static int count_event(struct trace_import *f, const struct import_event *e)
{
	struct trace_import_facts *facts = &f->facts;
	/* Only their order matters: the lowest time becomes 0. */
	struct trace_event event = {
		.kind = e->site.kind,
		.start_ns = (uint64_t) e->start_ns ^ 1ULL << 63,
		.end_ns = (uint64_t) e->end_ns ^ 1ULL << 63,
	};

	facts->kinds[e->site.kind]++;
	facts->events++;
	if (is_invalid(e)) {
		facts->invalid++;
		return 0;
	}
	if (!f->has_time || e->start_ns < facts->first_ns)
		facts->first_ns = e->start_ns;
	if (!f->has_time || e->end_ns > facts->last_ns)
		facts->last_ns = e->end_ns;
	f->has_time = true;
	return has_depth(e) ? nest_add(&f->nest, e->thread, &event) : 0;
}

int import_event(struct trace_import *f, struct import_event *e)
{
	struct trace_import_target *target = f->target;
	struct trace_event event = {
		.kind = e->site.kind,
		.flags = e->flags,
		.correlation = e->correlation,
		.bytes = e->bytes,
		.address = e->address,
	};
	const bool invalid = is_invalid(e);
	int r;

	if (!target) {
		r = count_event(f, e);
		return r < 0 ? r : 0;
	}
	if (!invalid && e->start_ns < target->zero_ns) {
		target->before++;
		return 0;
	}
	/* Both are int64_t: their difference fits into uint64_t. */
	if (!e->is_invalid && e->start_ns >= target->zero_ns)
		event.start_ns = event.end_ns = (uint64_t) e->start_ns - (uint64_t) target->zero_ns;
	if (invalid)
		event.flags |= TRACE_INVALID;
	else
		event.end_ns = (uint64_t) e->end_ns - (uint64_t) target->zero_ns;
	r = target->sink->site(target->sink->ctx, &e->site, &event.site);
	if (r == 0 && has_depth(e) && !invalid)
		r = nest_add(&f->nest, e->thread, &event);
	else if (r == 0)
		r = 1;
	return r > 0 ? target->sink->event(target->sink->ctx, &event) : r;
}

/* ---- the file -------------------------------------------------------------------------------- */

int trace_import_open(const char *path, struct trace_import **ret, struct err *err)
{
	struct trace_import *f = calloc(1, sizeof(*f));
	int r;

	if (f)
		f->path = strdup(path);
	if (!f || !f->path) {
		trace_import_free(f);
		return err_set(err, -ENOMEM, "%s: out of memory", path);
	}
	f->facts.rank = -1;
	f->facts.ranks = -1;
	nest_start(&f->nest, true);
	r = import_open_nsys(f, err);
	if (r == -EPROTO)
		r = import_open_chrome(f, err);
	if (r == 0 && f->facts.events == 0)
		r = err_set(err, -ENODATA, "%s (%s) has no event%s%s", path, f->facts.format,
			f->facts.n_notes ? ": " : "", f->facts.n_notes ? f->facts.notes[0] : "");
	if (r < 0) {
		trace_import_free(f);
		return r;
	}
	*ret = f;
	return 0;
}

void trace_import_free(struct trace_import *f)
{
	if (!f)
		return;
	if (f->free)
		f->free(f->reader);
	nest_done(&f->nest);
	free(f->path);
	free(f);
}

const struct trace_import_facts *trace_import_facts(const struct trace_import *f)
{
	return &f->facts;
}

/* What is missing, and the span in which work on devices was kept. */
static int pass_frame(struct trace_import *f)
{
	const struct trace_import_facts *facts = &f->facts;
	const struct trace_import_target *target = f->target;
	const struct trace_sink *sink = target->sink;
	const uint64_t *kinds = facts->kinds;
	const uint64_t work = kinds[TRACE_KERNEL] + kinds[TRACE_COPY] + kinds[TRACE_FILL];
	int64_t begin = facts->first_ns > target->zero_ns ? facts->first_ns : target->zero_ns;
	int r = 0;

	if (work && facts->last_ns > begin)
		r = sink->window(sink->ctx, (uint64_t) begin - (uint64_t) target->zero_ns,
			(uint64_t) facts->last_ns - (uint64_t) target->zero_ns, "imported");
	if (r == 0 && facts->broken)
		r = sink->lost(sink->ctx, 0, TRACE_LOST_DAMAGED, facts->broken);
	return r;
}

int trace_import_pass(struct trace_import *f, struct trace_import_target *target, struct err *err)
{
	int r;

	if (err)
		err->text[0] = '\0';
	target->before = 0;
	f->target = target;
	nest_start(&f->nest, false);
	r = f->pass(f, err);
	if (r == 0)
		r = nest_flush(&f->nest, target->sink->event, target->sink->ctx);
	if (r == 0)
		r = pass_frame(f);
	f->target = NULL;
	return r;
}
