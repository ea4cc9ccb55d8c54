/* SPDX-License-Identifier: MIT
 *
 * Private to the files of the rule language: names and units, without the grammar.
 */
#pragma once

#include "rules/rule.h"

/* Dimension of a number, by its unit. */
enum rule_dim {
	DIM_BARE,
	DIM_BYTES,
	DIM_TIME,
	DIM_ENERGY,
	DIM_POWER,
	DIM_HEAT,
	DIM_FREQUENCY,
	DIM_CORES,
	DIM_PERCENT,
};

/* A number as written in a rule. */
struct rule_number {
	/* in the dimension's base: bytes, ns, uJ, uW, millidegrees, Hz, cores, percent */
	double value;
	enum rule_dim dim;
	uint64_t per_ns;       /* time unit of a rate, "/min"; value is per second; 0: no rate */
	bool has_sign;         /* "+5" or "-5" */
};

/* Reason for an error, without the column, which the caller knows. */
struct rule_why {
	char text[256];
};

/* Sets the reason; returns -EINVAL. */
int rule_refuse(struct rule_why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Applies the unit at *p to number and moves *p past it. False if the unit is unknown: *p stays. No
 * unit is fine. */
bool rule_unit(const char **p, struct rule_number *number);
/* "min" for 60e9; "" if there is no such unit. A static string. */
const char *rule_time_name(uint64_t ns);

/* Resolves a name (quoted: it was in quotes). Returns 0 or -EINVAL with the reason. */
int rule_name(
	const char *word, bool quoted, enum rule_kind kind, struct rule_name *ret, struct rule_why *why);

/* Sets the value that term (test and name are set) is compared with. Returns 0 or -EINVAL with the
 * reason. */
int rule_amount(
	struct rule_term *term, const struct rule_number *number, enum rule_kind kind, struct rule_why *why);

/* Applies "of limit" or "of capacity" after a percentage. Returns 0 or -EINVAL with the reason. */
int rule_of(struct rule_term *term, enum rule_whole whole, struct rule_why *why);
