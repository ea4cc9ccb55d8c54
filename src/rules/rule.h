/* SPDX-License-Identifier: MIT
 *
 * A rule: "ram > 90% of limit for 30s", as --alert, --limit, check, compare --fail-if, top's filter and Python take it.
 * One grammar (parse.c); names are metric.def's (name.c); what it means of given values is rule_holds. Pure:
 * no file is read, nothing is kept between calls.
 *
 *   rule  = [info:|warn:|error:] [ever|always|never] any [for SPAN]      ever, always, never: check only
 *   any   = all { or all }          all = part { and part }          part = not part | ( any ) | term
 *   term  = NAME < <= > >= == != VALUE [of limit | of capacity]
 *         | NAME is [not] nan | inf | absent                             NAME ~ PATTERN, NAME !~ PATTERN (texts)
 *         | growth(NAME [, SPAN]) > VALUE/SPAN                           no NAME for SPAN | for Nx median
 *         | NAME = VALUE                                                 limits only, alone
 *   NAME  = ram, gpu.mem, gpu0.mem, gpu[0].mem, process.rss, host.mem_used, time, exit, cpu, loss, "a series"; behind
 *           it .peak .mean .last: over the run so far
 *   VALUE = number [unit] [/s /min /h /d]; +5% -5%: relative, compare only
 *
 * "not" is worked into the terms while parsing, so an expression is terms, ands and ors. A value that cannot be had
 * makes its comparison untrue, negated or not: absent never fires.
 * Threads: one at a time a rule.
 */
#pragma once

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/metric.h"

enum {
	RULE_TEXT = 256,   /* with its NUL */
	RULE_NAME = 64,
	RULE_TERMS = 16,
	RULE_DEPTH = 16,   /* of parentheses and nots */
	RULE_VALUE_TEXT = 80,
};

enum rule_kind {
	RULE_ALERT,
	RULE_LIMIT,   /* NAME = VALUE; becomes NAME >= VALUE */
	RULE_CHECK,
	RULE_COMPARE, /* % is of the base */
	RULE_FILTER,  /* of processes: bare names are theirs */
};

enum rule_level {
	RULE_INFO,
	RULE_WARN,
	RULE_ERROR
};

enum rule_quantifier {
	RULE_BARE,    /* check: as ever */
	RULE_EVER,
	RULE_ALWAYS,  /* the expression is negated: it holds if that never does */
	RULE_NEVER
};

/* What a name names. */
enum rule_what {
	RULE_METRIC,
	RULE_SERIES,
	RULE_TIME,    /* since the run's start, in ns */
	RULE_EXIT,    /* main's exit status as a shell has it, once it has ended */
	RULE_FIELD,   /* of a process */
};

enum rule_field {
	FIELD_NAME,
	FIELD_COMMAND,
	FIELD_PID,
	FIELD_UID
};

enum rule_part {
	PART_NOW,
	PART_PEAK,
	PART_MEAN,
	PART_LAST
};

struct rule_name {
	enum rule_what what;
	enum rule_part part;
	enum rule_field field;
	enum entity entity;    /* of a metric or field; else ENTITY_JOB */
	int metric, also;      /* also: added to it ("cpu" is user and system); -1: none */
	bool indexed;          /* one GPU */
	uint32_t index;        /* the driver's number of it */
	char series[RULE_NAME];
};

enum rule_test {
	TEST_COMPARE,
	TEST_NAN,
	TEST_INF,
	TEST_ABSENT,
	TEST_MATCH,
	TEST_GROWTH,
	TEST_SILENT,
};

enum rule_op {
	OP_LT,
	OP_LE,
	OP_GT,
	OP_GE,
	OP_EQ,
	OP_NE
};

/* What a percentage is of. */
enum rule_whole {
	WHOLE_NONE,     /* value is no percentage */
	WHOLE_RAM,      /* the limit, else what was asked for, else the machine's */
	WHOLE_LIMIT,    /* the limit, else what was asked for */
	WHOLE_CAPACITY, /* the machine's memory */
	WHOLE_GPU,      /* the GPU's memory */
	WHOLE_CORES,    /* processors, in ns a second */
	WHOLE_BASE,     /* compare: the same value of the base */
	WHOLE_MEDIAN,   /* silence: value is a multiple of the median of the times between two values */
};

struct rule_term {
	enum rule_test test;
	bool negated;           /* of the tests that are no comparison */
	struct rule_name name;
	enum rule_op op;
	double value;           /* in the metric's unit; a rate or a growth: of that a second; percent of a whole */
	enum rule_whole whole;
	bool rate;              /* the counter's rise a second is meant */
	uint64_t per_ns;        /* "/min": a rate or growth is told as it was asked for; 0: of a second */
	uint64_t span_ns;       /* GROWTH: looked back; SILENT: how long */
	regex_t *pattern;       /* MATCH; the rule's */
	unsigned offset;        /* where it begins, in bytes */
};

/* Plain data but for patterns. */
struct rule {
	char text[RULE_TEXT];   /* as it was given, without what surrounds it */
	enum rule_kind kind;
	enum rule_level level;  /* RULE_WARN if none was given */
	enum rule_quantifier quantifier;
	uint64_t for_ns;        /* 0: at once */
	enum entity subject;    /* it is judged for each of these: PROCESS, GPU, GPU_PROCESS; else JOB: once */
	size_t n_terms, n_code;
	struct rule_term terms[RULE_TERMS];
	signed char code[2 * RULE_TERMS]; /* postfix: a term's number, or CODE_AND, CODE_OR */
};

enum {
	CODE_AND = -1,
	CODE_OR = -2
};

/* Reads text. Returns 0; -EINVAL with a text of three lines (what, and in whose column), *ret all zero; -ENOMEM. */
int rule_parse(const char *text, enum rule_kind kind, struct rule *ret, struct err *err);
void rule_done(struct rule *rule); /* copes with an all-zero one */

/* What a term's name is at the moment. low and high: extremes over the time that value stands for. */
struct rule_value {
	bool known;
	double low, value, high; /* SILENT: ns since the last one; NaN and infinities only of series */
	bool whole_known;
	double whole;            /* of what a percentage is */
	const char *text;        /* of a text; borrowed */
};
typedef void rule_look(void *ctx, const struct rule *rule, size_t term, struct rule_value *ret); /* *ret: all zero */

/* What decided: the first true term of a rule that holds, the first false one of a rule that does not;
 * where all that was asked for is missing, the first. */
struct rule_seen {
	const struct rule_term *term; /* never NULL of a rule that was read */
	struct rule_value value;
	bool missing;                 /* something was not known */
};

/* Does the expression hold now? With a span it is asked whether it held all of the time that the values stand for,
 * else whether it did at some moment of it. seen may be NULL. */
bool rule_holds(const struct rule *rule, rule_look *look, void *ctx, struct rule_seen *seen);

/* What a comparison is against, percentages and all, in the metric's unit; NaN: not known. */
double rule_threshold(const struct rule_term *term, const struct rule_value *value);

/* The value in base units, as programs get it: bytes, seconds, joules, watts, degrees, ratios; NaN: there is none. */
double rule_number(const struct rule_term *term, const struct rule_value *value);

/* "23.1 GiB", "12.0 MiB/min", "nan", "absent". Returns buf. */
char *rule_value_text(const struct rule_term *term, const struct rule_value *value, char buf[RULE_VALUE_TEXT]);

/* "ram", "gpu0.mem", "process.rss.peak"; returns buf. */
char *rule_name_text(const struct rule_name *name, char buf[RULE_NAME]);

/* Whose memory a rule is about, by its first term that is about any. */
enum rule_memory {
	RULE_NO_MEMORY,
	RULE_HOST_MEMORY,
	RULE_GPU_MEMORY
};
enum rule_memory rule_memory(const struct rule *rule);
