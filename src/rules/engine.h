/* SPDX-License-Identifier: MIT
 *
 * The watching engine: sees frames, live or replayed, and tells when rules begin and cease to hold, for the job, for
 * each process or for each GPU. It needs nothing but frames and, for percentages, the facts of the run. Once the
 * entities are known it allocates nothing.
 *
 * A rule is raised once it has held for its time without interruption, and cleared once it has not held for as long (a
 * second at least; a silence is over at once), or when what it is about has ended. A value that nobody renewed in its time is absent; absent
 * fires nothing. A series' value stands until the next one.
 *
 * Threads: one at a time.
 */
#pragma once

#include <stdbool.h>

#include "job/job.h"
#include "model/frame.h"
#include "rules/rule.h"

enum {
	WATCH_RULES = 64,
	ALERT_WHAT = 300,
	ALERT_WHO = 64,
	ALERT_TEXT = ALERT_WHAT + RULE_TEXT + 2,
	ALERT_VALUE = RULE_VALUE_TEXT,
};

/* Something to tell. */
struct alert {
	size_t rule;            /* its number */
	bool raised;            /* else it is cleared */
	enum rule_level level;
	enum entity entity;     /* about whom: JOB, PROCESS, GPU, GPU_PROCESS */
	uint32_t id;
	int32_t pid;            /* of a process; 0: none */
	uint64_t time_ns;       /* since the run's start */
	double number;          /* what was seen in base units (bytes, seconds, joules, watts, degrees, ratios); NaN too */
	char value[ALERT_VALUE];/* the same for people: "23.1 GiB" */
	char what[ALERT_WHAT];  /* whom it is about and what it saw: "gpu 0: 7.90 GiB of 8.00 GiB" */
	char text[ALERT_TEXT];  /* the rule and what it saw: "ram > 90% for 30s: 23.1 GiB of 25.0 GiB" */
};

/* What became of a rule so far. */
struct watch_story {
	uint64_t raised;        /* how often */
	uint64_t first_ns;      /* when first */
	double number;          /* what was seen then, in base units */
	char first[ALERT_WHAT];
	bool had;               /* every value that it needs was there at some time */
};

enum tally_kind {
	TALLY_HOLDS,
	TALLY_HOLDS_NOT,
	TALLY_UNKNOWN,
	TALLY_KINDS
};

struct tally {
	struct tallied {
		size_t n;
		struct rule_seen seen;
		char who[ALERT_WHO]; /* "gpu 0: ", "python (4711): ", "" */
	} of[TALLY_KINDS];
};

struct watch;

/* facts are borrowed until the end and looked at when needed. NULL: out of memory. */
struct watch *watch_new(const struct facts *facts);
void watch_free(struct watch *w);

/* Adds a rule, which is copied with its pattern: *rule is the engine's from here on, also on failure. Before the first
 * frame. Returns its number, or -E2BIG or -ENOMEM. */
int watch_add(struct watch *w, struct rule *rule);
const struct rule *watch_rule(const struct watch *w, size_t number); /* NULL: there are not so many */

/* A frame_seer; ctx is the watch. */
void watch_see(void *ctx, const struct frame *frame);
/* Time passes without a frame. */
void watch_tick(struct watch *w, uint64_t time_ns);

/* The next thing to tell; false if there is none. */
bool watch_next(struct watch *w, struct alert *ret);
/* How many were dropped because nobody asked in time. */
uint64_t watch_lost(const struct watch *w);
/* True while a rule about memory is raised. */
bool watch_about_memory(const struct watch *w);
/* The first of the rule's names that nobody ever had a value of, where that keeps it from saying anything; NULL: none. */
const struct rule_name *watch_never_had(const struct watch *w, size_t number);

/* Is the rule raised for the process or GPU with that id (0: for somebody), and did it hold when it was last judged? */
bool watch_stands(const struct watch *w, size_t number, uint32_t id);
/* For how many of those whom it is judged for the rule holds now, or, of a rule to check, held when they ended; and of each
 * kind the one who is nearest to what it asks about. Tells nothing. */
void watch_tally(struct watch *w, size_t number, struct tally *ret);

/* The pid of the member of the job that holds most of a GPU's memory: of the GPU with this id, or with this number of
 * the driver's; 0: none is known. Known where watch_keep_holders was called before the first frame. */
int watch_keep_holders(struct watch *w);
int32_t watch_holder(const struct watch *w, uint32_t gpu);
int32_t watch_holder_of_index(const struct watch *w, uint32_t index);
const struct watch_story *watch_story(const struct watch *w, size_t number);

/* ---- the base of a percentage: the same for alerts, limits and checks ---------------------------------------------- */

/* In the metric's unit; of processors in ns a second: of the machine's metrics those that the job may run on, else the
 * quota where it is less. gpu_bytes: the memory of the GPU that the term looks at. Unknown: nothing to take a part of. */
struct maybe whole_of(const struct facts *facts, const struct rule_term *term, struct maybe gpu_bytes);

/* ---- the preset of common alerts: --alert usual -------------------------------------------------------------------- */

/* Does text stand for them? */
bool usual_is(const char *text);

/* The rules, NULL-terminated. The manual has them, too (cli/measure.h). */
extern const char *const usual_alerts[];
