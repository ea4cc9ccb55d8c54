/* SPDX-License-Identifier: MIT
 *
 * Private to the files of the rule language: names and units, apart from the grammar.
 */
#pragma once

#include "rules/rule.h"

/* What a number's unit says. */
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

/* A number as it was written. */
struct rule_number {
	double value;          /* in the dimension's base: bytes, ns, uJ, uW, millidegrees, Hz, cores, percent */
	enum rule_dim dim;
	uint64_t per_ns;       /* "/min": a minute, value is by the second; 0: no rate */
	bool has_sign;         /* "+5" or "-5" */
};

/* Why something is refused, for a column that the caller knows. */
struct rule_why {
	char text[256];
};

/* Sets the reason; returns -EINVAL. */
int rule_refuse(struct rule_why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The unit that *p begins with; moves behind it. False if there is none of that name: *p stays. */
bool rule_unit(const char **p, struct rule_number *number);
/* "min" of 60e9; of no unit "". Static. */
const char *rule_time_name(uint64_t ns);

/* What word (quoted: in quotes) names. Returns 0 or -EINVAL with the reason. */
int rule_name(const char *word, bool quoted, enum rule_kind kind, struct rule_name *ret, struct rule_why *why);

/* Turns the number into what term (test and name are set) is compared with. Returns 0 or -EINVAL with the reason. */
int rule_amount(struct rule_term *term, const struct rule_number *number, enum rule_kind kind, struct rule_why *why);

/* "of limit", "of capacity" behind a percentage. Returns 0 or -EINVAL with the reason. */
int rule_of(struct rule_term *term, enum rule_whole whole, struct rule_why *why);
