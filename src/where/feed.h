/* SPDX-License-Identifier: MIT
 *
 * The recorder's side of the sampler, hiwater-where: starts it for a process that waits to execute
 * the job's program, and passes its lines (where/lines.h) to the recording. It reads files of the
 * job's, so its lines are not trusted.
 *
 * where_feed_drain may be called by another thread than the rest.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/where.h"

enum {
	WHERE_NOTE = 400,
};

struct where_feed_options {
	const char *program;     /* absolute */
	unsigned period;         /* faults a sample */
	unsigned stack_bytes;    /* that are copied */
	bool removes_maps;
	/* perf maps that the job's processes write are removed when they were read */
	bool attaches;           /* to a process that runs already */
};

struct where_feed;

/* NULL: out of memory. */
struct where_feed *where_feed_new(const struct where_feed_options *options);
/* Ends the sampler, if it runs. */
void where_feed_free(struct where_feed *f);

/* Starts the sampler and waits until the events of the process are open. Returns 0 with the
 * sampler's pid, a child of this process, or -errno with text; then *ret_pid is that of a sampler
 * that is ending, or 0. */
int where_feed_start(struct where_feed *f, pid_t pid, pid_t *ret_pid, struct err *err);
/* When the run began, CLOCK_BOOTTIME: times are passed since then; before, nothing is passed. */
void where_feed_begin(struct where_feed *f, uint64_t start_boot_ns);

/* A struct where_source's; ctx: the feed. The last one waits for at most 20 s, and 5 s for a sampler that says nothing, unless it names functions. */
int where_feed_drain(void *feed, bool last, const struct where_sink *sink);

/* A struct where_source's, likewise: the sampler sends what it has sent once more. */
void where_feed_again(void *feed);

/* Nothing is drained any more: the sampler ends. */
void where_feed_end(struct where_feed *f);

/* What the sampler used; false: it is not known, as before its end. */
bool where_feed_cost(struct where_feed *f, uint64_t *ret_cpu_ns, uint64_t *ret_rss_bytes);

/* What the user is to know, once; "": nothing. */
void where_feed_note(struct where_feed *f, char ret[static WHERE_NOTE]);
