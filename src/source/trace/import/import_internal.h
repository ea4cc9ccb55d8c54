/* SPDX-License-Identifier: MIT
 *
 * What the readers of both formats share: facts, the place where an event leaves, the nesting of ranges.
 */
#pragma once

#include "base/map.h"
#include "source/trace/import/import.h"

struct import_thread;

/* How ranges of a thread nest, from their begins and ends in the order of their begins. */
struct import_nest {
	struct import_thread *threads;
	size_t n, cap;
	struct map places;
	uint64_t unordered;
};

struct trace_import {
	char *path;
	struct trace_import_facts facts;
	bool has_time;               /* of facts: first_ns and last_ns are set */
	void *reader;                /* of the format */
	int (*pass)(struct trace_import *f, struct err *err);
	void (*free)(void *reader);
	/* Of a pass; NULL while the facts are read. */
	struct trace_import_target *target;
	struct import_nest nest;
};

/* An event as the file has it. */
struct import_event {
	struct trace_site site;
	int64_t start_ns, end_ns; /* of the file's clock */
	bool is_invalid;          /* without times, or they are beyond all bounds */
	uint32_t flags;
	uint64_t correlation, bytes, address;
};

/* Opens: returns 0, -EPROTO (not this format, without text) or -errno with text. */
int import_open_chrome(struct trace_import *f, struct err *err);
int import_open_nsys(struct trace_import *f, struct err *err);

/* Counts the event while the facts are read (site.process is not used), else passes it to the sink.
 * Returns 0 or the sink's -errno. */
int import_event(struct trace_import *f, struct import_event *e);

/* Adds a note, once; what does not fit is dropped. */
void import_note(struct trace_import *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The number of ranges around this one, the next of its thread. *crossing: it ends after one of those
 * that it begins in. Out of memory: 0. */
uint32_t import_nest_add(struct import_nest *nest, uint64_t thread, int64_t start_ns, int64_t end_ns,
	bool *crossing);
void import_nest_done(struct import_nest *nest);

/* A number of words, mixed. */
uint64_t import_hash(uint64_t a, uint64_t b);
uint64_t import_hash_text(const char *text);

/* "Pageable", "Device", in any case: its kind of memory. len bytes. */
enum trace_memory import_memory(const char *word, size_t len);
