/* SPDX-License-Identifier: MIT
 *
 * Private to parse.c: tokens of a rule, and errors. After the first error parsing stops.
 */
#pragma once

#include "rules/rule_internal.h"

struct parser {
	struct rule *rule;
	const char *start, *p;
	bool negated;       /* inside an odd number of nots */
	unsigned depth;
	struct err *err;
	int code;           /* 0 or the first error */
};

/* Sets the error: the message, the rule, and a caret below at. Later errors are ignored. */
void lex_fail(struct parser *p, const char *at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void lex_blanks(struct parser *p);

/* Consume the next word, or sign, if it is this one; else return false and leave the position. */
bool lex_keyword(struct parser *p, const char *word);
bool lex_sign(struct parser *p, const char *sign);

/* Copies len bytes of the text at from. False, with an error, if they do not fit. */
bool lex_copy(struct parser *p, const char *from, size_t len, char *ret, size_t size);

/* "..." or '...', with p->p at the quote. */
bool lex_quoted(struct parser *p, char *ret, size_t size);

void lex_name(struct parser *p, struct rule_name *ret);
uint64_t lex_span(struct parser *p);              /* ns; 0 with an error */
bool lex_number(struct parser *p, struct rule_number *ret);
