/* SPDX-License-Identifier: MIT
 *
 * The alert engine: evaluates rules on frames, live or replayed, and reports when they begin and
 * cease to hold, for the job, each process or each GPU. Its only inputs are frames and, for
 * percentages, the facts of the run. It allocates memory for new entities only.
 *
 * A rule is raised once it has held for its time without interruption. It is cleared once it has
 * not held for as long (a second at least; a silence is cleared at once), or when its process or
 * GPU has ended. A value that was not renewed in its time is absent, and absent values raise
 * nothing. A value of a series is valid until the next one.
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
	ALERT_SUBJECT = 64,
	ALERT_TEXT = ALERT_WHAT + RULE_TEXT + 2,
	ALERT_VALUE = RULE_VALUE_TEXT,
};

/* A rule that was raised or cleared. */
struct alert {
	size_t rule;            /* number of the rule */
	bool raised;            /* else it is cleared */
	enum rule_level level;
	enum entity entity;     /* of the subject: JOB, PROCESS, GPU, GPU_PROCESS */
	uint32_t id;
	int32_t pid;            /* of a process; 0: none */
	uint64_t time_ns;       /* since the run's start */
	/* the value in base units (bytes, seconds, joules, watts, degrees, ratios); may be NaN */
	double number;
	char value[ALERT_VALUE];/* the same with unit: "23.1 GiB" */
	char what[ALERT_WHAT];  /* subject and value: "gpu 0: 7.90 GiB of 8.00 GiB" */
	char text[ALERT_TEXT];  /* rule, subject and value: "ram > 90% for 30s: 23.1 GiB of 25.0 GiB" */
};

/* History of a rule so far. */
struct watch_history {
	uint64_t raised;        /* number of times */
	uint64_t first_ns;      /* time of the first */
	double number;          /* value at the first, in base units */
	char first[ALERT_WHAT];
	bool had;               /* all values that the rule needs were known at some time */
};

/* Subjects of a rule, counted by its result. */
enum count_kind {
	COUNT_HOLDS,
	COUNT_HOLDS_NOT,
	COUNT_UNKNOWN,
	COUNT_KINDS
};

struct counts {
	struct subject_count {
		size_t n;
		struct rule_seen seen;
		char subject[ALERT_SUBJECT]; /* "gpu 0: ", "python (4711): ", "" */
	} of[COUNT_KINDS];
};

struct watch;

/* facts are borrowed until watch_free() and read when needed. Returns NULL if out of memory. */
struct watch *watch_new(const struct facts *facts);
void watch_free(struct watch *w);

/* Adds a rule; call it before the first frame. Takes ownership of *rule with its patterns, also on
 * failure. Returns its number, -E2BIG or -ENOMEM. */
int watch_add(struct watch *w, struct rule *rule);
const struct rule *watch_rule(const struct watch *w, size_t number); /* NULL: no such rule */

/* Applies a frame and evaluates the rules that are due. A frame_fn; ctx is the watch. */
void watch_frame(void *ctx, const struct frame *frame);
/* Time passed without a frame: evaluates rules that became due. */
void watch_advance(struct watch *w, uint64_t time_ns);

/* Fetches the next alert; false if there is none. */
bool watch_next(struct watch *w, struct alert *ret);
/* Number of alerts that were dropped because the queue was full. */
uint64_t watch_lost(const struct watch *w);
/* True while a rule on memory is raised. */
bool watch_about_memory(const struct watch *w);
/* The first name in the rule that never had a value, if the rule could not be evaluated for that
 * reason; else NULL. */
const struct rule_name *watch_never_known(const struct watch *w, size_t number);

/* Is the rule raised for the process or GPU with that id (0: for any), and did it hold at its last
 * evaluation? */
bool watch_stands(const struct watch *w, size_t number, uint32_t id);
/* Counts the subjects for which the rule holds now or, for a rule of check, held when they ended;
 * of each kind of result, *ret has the subject nearest to the threshold. Raises no alerts. */
void watch_count(struct watch *w, size_t number, struct counts *ret);

/* The process of the job that uses the most memory of a GPU, given by id or by the driver's number.
 * Returns its pid, or 0: unknown. Needs watch_keep_top_users() before the first frame, which returns
 * 0. */
int watch_keep_top_users(struct watch *w);
int32_t watch_top_user(const struct watch *w, uint32_t gpu);
int32_t watch_top_user_of_index(const struct watch *w, uint32_t index);
const struct watch_history *watch_history(const struct watch *w, size_t number);

/* ---- the base of a percentage: the same for alerts, limits and checks ---------------------------------------------- */

/* The amount that is 100 %, in the metric's unit; of CPUs in ns a second: for metrics of the host
 * all CPUs that the job may run on, else its quota where that is smaller. gpu_bytes: size of the
 * memory of the GPU in question. Unknown: no percentage. */
struct maybe whole_of(const struct facts *facts, const struct rule_term *term, struct maybe gpu_bytes);

/* ---- the preset of common alerts: --alert default -------------------------------------------------------------------- */

/* True if text is the name of the preset. */
bool is_default_alerts(const char *text);

/* The rules, NULL-terminated. The manual lists them, too (cli/measure.h). */
extern const char *const default_alerts[];
