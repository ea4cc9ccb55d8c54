/* SPDX-License-Identifier: MIT
 *
 * What the readers of both formats share: facts, the place where an event leaves, the nesting of ranges.
 */
#pragma once

#include "base/map.h"
#include "source/trace/import/import.h"
#include "source/trace/import/nest.h"

struct trace_import {
	char *path;
	struct trace_import_facts facts;
	bool has_time;               /* of facts: first_ns and last_ns are set */
	void *reader;                /* of the format */
	int (*pass)(struct trace_import *f, struct err *err);
	void (*free)(void *reader);
	/* Of a pass; NULL while the facts are read. */
	struct trace_import_target *target;
	struct nest nest;
};

/* An event as the file has it. */
struct import_event {
	struct trace_site site;
	uint64_t thread;          /* a key of its thread, the same in both passes; of ranges and marks */
	int64_t start_ns, end_ns; /* of the file's clock */
	bool is_invalid;          /* without times, or they are beyond all bounds */
	uint32_t flags;
	uint64_t correlation, bytes, address;
};

/* One of that kind, without times; the name is borrowed. */
struct import_event import_new(enum trace_kind kind, const char *name);

/* Opens: returns 0, -EPROTO (not this format, without text) or -errno with text. */
int import_open_chrome(struct trace_import *f, struct err *err);
int import_open_nsys(struct trace_import *f, struct err *err);

/* Counts the event while the facts are read (site.process is not used), else passes it to the sink.
 * Returns 0 or the sink's -errno. */
int import_event(struct trace_import *f, struct import_event *e);

/* Adds a note, once; what does not fit is dropped. */
void import_note(struct trace_import *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A number of words, mixed. */
uint64_t import_hash(uint64_t a, uint64_t b);
uint64_t import_hash_text(const char *text);

/* "Pageable", "Device", in any case: its kind of memory. len bytes. */
enum trace_memory import_memory(const char *word, size_t len);
