/* SPDX-License-Identifier: MIT
 *
 * Gathers the values that a report draws over time from the frames of a run, in memory that does
 * not grow with the run's length: tables that become too large are merged (html_table.h).
 */
#pragma once

#include "base/map.h"
#include "job/job.h"
#include "sink/html/html_table.h"

enum {
	HTML_PROCESSES = 16, /* processes with lines of their own in the charts */
};

/* The metrics that are drawn: other values need not be replayed. */
extern const bool html_drawn[METRIC_COUNT];

/* True if the value is drawn as it is. False for values of processes, and for those that
 * correct others. */
bool html_is_drawn(const struct job *job, const struct reading *r);

struct html_event {
	uint64_t time_ns;
	enum event_kind kind;
	int64_t value_ns;
	char *text;
};

struct html_gather {
	const struct job *job;
	bool is_redacted;          /* leaves out texts of events that name processes */
	struct html_table *tables; /* job, host, processes, then GPUs and series as they come */
	size_t n_tables, cap_tables;
	struct map gpus;           /* id to table */
	/* id of a process to the column of its memory; the next column is its CPU time */
	struct map chosen;
	size_t weight;             /* of all tables, when last computed */
	unsigned rows_since;
	struct html_event *events;
	size_t n_events, cap_events;
	uint64_t events_lost;      /* dropped, because there were too many */
	uint64_t now_ns;           /* time of the last frame */
	int64_t to_storage;        /* bytes that the job wrote and did not cancel, so far */
	int error;
};

/* job: replayed from the same recording; borrowed until html_gather_done(). Returns 0 or -ENOMEM. */
int html_gather_init(struct html_gather *g, const struct job *job, bool is_redacted);
void html_gather_frame(struct html_gather *g, const struct frame *frame);
/* After the last frame. Returns 0 or the first error. */
int html_gather_end(struct html_gather *g);
void html_gather_done(struct html_gather *g);

/* The table of an entity; id 0: the first. NULL: none. */
const struct html_table *html_gather_find(const struct html_gather *g, const char *entity, uint32_t id);
/* A metric's column; NULL: it was never read. */
const struct html_column *html_gather_column(const struct html_table *t, enum metric metric);
