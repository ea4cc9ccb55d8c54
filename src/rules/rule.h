/* SPDX-License-Identifier: MIT
 *
 * A rule: "ram > 90% of limit for 30s", for --alert, --limit, check, compare --fail-if, top's
 * filter and Python. They share one grammar (parse.c); names are those of metric.def (name.c);
 * rule_holds() evaluates a rule on given values. Pure functions, without files or state.
 *
 *   rule  = [info:|warn:|error:] [ever|always|never] any [for SPAN]      ever, always, never: check only
 *   any   = all { or all }          all = part { and part }          part = not part | ( any ) | term
 *   term  = NAME < <= > >= == != VALUE [of limit | of capacity]
 *         | NAME is [not] nan | inf | absent                             NAME ~ PATTERN, NAME !~ PATTERN (texts)
 *         | growth(NAME [, SPAN]) > VALUE/SPAN                           no NAME for SPAN | for Nx median
 *         | NAME = VALUE                                                 limits only, alone
 *   NAME  = ram, gpu.mem, gpu0.mem, gpu[0].mem, process.rss, host.mem_used, time, exit, cpu, loss, "a series";
 *           with .peak .mean .last: over the run so far
 *   VALUE = number [unit] [/s /min /h /d]; +5% -5%: relative, compare only
 *
 * The parser applies "not" to the terms, so an expression is terms, ands and ors. A comparison with
 * an unknown value is false, negated or not: absent values raise nothing.
 *
 * Threads: one at a time per rule.
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
	RULE_COMPARE, /* percentages are of the base run */
	RULE_FILTER,  /* bare names are those of processes */
};

enum rule_level {
	RULE_INFO,
	RULE_WARN,
	RULE_ERROR
};

enum rule_quantifier {
	RULE_BARE,    /* check: like ever */
	RULE_EVER,
	RULE_ALWAYS,  /* the expression is negated: the rule passes if that never holds */
	RULE_NEVER
};

/* Kinds of names. */
enum rule_what {
	RULE_METRIC,
	RULE_SERIES,
	RULE_TIME,    /* since the run's start, in ns */
	RULE_EXIT,    /* main's exit status, as a shell shows it, after its end */
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
	int metric, also;      /* also: a metric added to it ("cpu" is user and system); -1: none */
	bool indexed;          /* a certain GPU */
	uint32_t index;        /* its number, by the driver */
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

/* The base of a percentage. */
enum rule_whole {
	WHOLE_NONE,     /* the value is no percentage */
	WHOLE_RAM,      /* the limit, else the request, else the machine's memory */
	WHOLE_LIMIT,    /* the limit, else the request */
	WHOLE_CAPACITY, /* the machine's memory */
	WHOLE_GPU,      /* the GPU's memory */
	WHOLE_CORES,    /* CPUs, in ns a second */
	WHOLE_BASE,     /* compare: the same value of the base run */
	WHOLE_MEDIAN,   /* silence: a multiple of the median time between two values */
};

struct rule_term {
	enum rule_test test;
	bool negated;           /* for tests other than comparisons */
	struct rule_name name;
	enum rule_op op;
	double value;           /* in the metric's unit, rates and growth per second; or percent of whole */
	enum rule_whole whole;
	bool rate;              /* compares the counter's increase per second */
	uint64_t per_ns;        /* time unit for showing a rate or growth, "/min"; 0: a second */
	uint64_t span_ns;       /* GROWTH: time span; SILENT: duration */
	regex_t *pattern;       /* MATCH; owned by the rule */
	unsigned offset;        /* of its text, in bytes */
};

/* Plain data, except for patterns: rule_done() frees them. */
struct rule {
	char text[RULE_TEXT];   /* as given, without surrounding blanks */
	enum rule_kind kind;
	enum rule_level level;  /* default: RULE_WARN */
	enum rule_quantifier quantifier;
	uint64_t for_ns;        /* 0: at once */
	enum entity subject;    /* evaluated for each PROCESS, GPU or GPU_PROCESS; JOB: once */
	size_t n_terms, n_code;
	struct rule_term terms[RULE_TERMS];
	signed char code[2 * RULE_TERMS]; /* postfix: a term's number, or CODE_AND, CODE_OR */
};

enum {
	CODE_AND = -1,
	CODE_OR = -2
};

/* Parses text. Returns 0; -EINVAL with an error of three lines (message, rule, caret below the
 * column) and *ret all zero; or -ENOMEM. */
int rule_parse(const char *text, enum rule_kind kind, struct rule *ret, struct err *err);
void rule_done(struct rule *rule); /* an all-zero rule is valid */

/* Current value of a term's name. low and high: extremes over the time that value covers. */
struct rule_value {
	bool known;
	double low, value, high; /* SILENT: ns since the last one; NaN and infinities only of series */
	bool whole_known;
	double whole;            /* base of a percentage */
	const char *text;        /* of a text field; borrowed */
};
/* Looks up the value of a term; *ret is all zero before. */
typedef void rule_lookup(void *ctx, const struct rule *rule, size_t term, struct rule_value *ret);

/* The term that decided: the first true one of a rule that holds, the first false one of a rule
 * that does not; if all values are missing, the first term. */
struct rule_seen {
	const struct rule_term *term; /* never NULL for a parsed rule */
	struct rule_value value;
	bool missing;                 /* some value was unknown */
};

/* Does the expression hold now? With "for SPAN": did it hold throughout the time that the values
 * cover; else: at some moment of it. seen may be NULL. */
bool rule_holds(const struct rule *rule, rule_lookup *lookup, void *ctx, struct rule_seen *seen);

/* The threshold of a comparison, percentages resolved, in the metric's unit; NaN: unknown. */
double rule_threshold(const struct rule_term *term, const struct rule_value *value);

/* The value in base units, for programs: bytes, seconds, joules, watts, degrees, ratios; NaN:
 * none. */
double rule_number(const struct rule_term *term, const struct rule_value *value);

/* "23.1 GiB", "12.0 MiB/min", "nan", "absent". Returns buf. */
char *rule_value_text(
	const struct rule_term *term, const struct rule_value *value, char buf[RULE_VALUE_TEXT]);

/* "ram", "gpu0.mem", "process.rss.peak"; returns buf. */
char *rule_name_text(const struct rule_name *name, char buf[RULE_NAME]);

/* The kind of memory that a rule is on, by its first term on memory. */
enum rule_memory {
	RULE_NO_MEMORY,
	RULE_HOST_MEMORY,
	RULE_GPU_MEMORY
};
enum rule_memory rule_memory(const struct rule *rule);
