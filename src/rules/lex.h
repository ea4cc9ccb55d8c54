/* SPDX-License-Identifier: MIT
 *
 * Private to parse.c: the words of a rule and the errors about them. After the first error nothing is read on.
 */
#pragma once

#include "rules/rule_internal.h"

struct parser {
	struct rule *rule;
	const char *start, *p;
	bool negated;       /* an odd number of nots is around what is read */
	unsigned depth;
	struct err *err;
	int code;           /* 0 or the first error */
};

/* Sets the error: what is wrong, the rule, and a caret below at. Later ones are ignored. */
void lex_fail(struct parser *p, const char *at, const char *format, ...) __attribute__((format(printf, 3, 4)));

void lex_blanks(struct parser *p);

/* True and behind it if the next word, or what comes next, is this one. */
bool lex_keyword(struct parser *p, const char *word);
bool lex_sign(struct parser *p, const char *sign);

/* Copies len bytes of the text at from; too many are an error. */
bool lex_copy(struct parser *p, const char *from, size_t len, char *ret, size_t size);

/* "..." or '...', with p->p at the quote. */
bool lex_quoted(struct parser *p, char *ret, size_t size);

void lex_name(struct parser *p, struct rule_name *ret);
uint64_t lex_span(struct parser *p);              /* ns; 0 with an error */
bool lex_number(struct parser *p, struct rule_number *ret);
