/* SPDX-License-Identifier: MIT
 *
 * What a report shows of a run over time, gathered from its frames in memory that does not grow with the run's length.
 */
#pragma once

#include "base/map.h"
#include "job/job.h"
#include "sink/html/html_table.h"

enum {
	HTML_PROCESSES = 16, /* that have lines of their own in the charts */
};

/* What is drawn: no other readings need come. A metric that was never read takes no room. */
extern const bool html_drawn[METRIC_COUNT];

/* Is it one of a chart, as it is? Those of processes are drawn in another way, and some are a part of what others say. */
bool html_is_drawn(const struct job *job, const struct reading *r);

struct html_event {
	uint64_t time_ns;
	enum event_kind kind;
	int64_t value_ns;
	char *text;
};

struct html_gather {
	const struct job *job;
	bool is_redacted;          /* texts of events that name processes are left out */
	struct html_table *tables; /* job, host, processes, then GPUs and series as they come */
	size_t n_tables, cap_tables;
	struct map gpus;           /* id to table */
	struct map chosen;         /* id of a process to the column of its memory; the next is its processor time */
	size_t weight;             /* of all tables, as of the last look */
	unsigned rows_since;
	struct html_event *events;
	size_t n_events, cap_events;
	uint64_t events_lost;      /* there were too many */
	uint64_t now_ns;           /* time of the last frame */
	int64_t to_storage;        /* of what the job wrote, so far */
	int error;
};

/* job: replayed from the same recording; borrowed until _done. Returns 0 or -ENOMEM. */
int html_gather_init(struct html_gather *g, const struct job *job, bool is_redacted);
void html_gather_see(struct html_gather *g, const struct frame *frame);
/* All frames were seen. Returns 0 or the first error. */
int html_gather_end(struct html_gather *g);
void html_gather_done(struct html_gather *g);

/* The table of an entity, the first if there are several; NULL: there is none. */
const struct html_table *html_gather_find(const struct html_gather *g, const char *entity, uint32_t id);
/* A metric's column; NULL: it was never read. */
const struct html_column *html_gather_column(const struct html_table *t, enum metric metric);
