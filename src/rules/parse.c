/* SPDX-License-Identifier: MIT
 *
 * Parser of the grammar in rule.h, by recursive descent over at most RULE_TEXT bytes and RULE_DEPTH
 * levels.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "rules/lex.h"

static const uint64_t growth_span_ns = UINT64_C(300000000000); /* default time span of growth() */
static const uint64_t least_growth_ns = UINT64_C(1000000000);

/* ---- terms --------------------------------------------------------------------------------------------------------- */

static const struct {
	const char *sign;
	enum rule_op op, opposite;
} operators[] = {
	{ "<=", OP_LE, OP_GT },
	{ ">=", OP_GE, OP_LT },
	{ "==", OP_EQ, OP_NE },
	{ "!=", OP_NE, OP_EQ },
	{ "<", OP_LT, OP_GE },
	{ ">", OP_GT, OP_LE },
};

static bool parse_operator(struct parser *p, struct rule_term *term)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
		if (!lex_sign(p, operators[i].sign))
			continue;
		term->op = p->negated ? operators[i].opposite : operators[i].op;
		return true;
	}
	return false;
}

static void parse_amount(struct parser *p, struct rule_term *term)
{
	struct rule_number number;
	struct rule_why why;
	const char *at;
	bool limit;

	lex_blanks(p);
	at = p->p;
	if (lex_keyword(p, "nan") || lex_keyword(p, "inf") || lex_keyword(p, "absent")) {
		lex_fail(p, at, "not a number; write NAME is %.*s", (int) (p->p - at), at);
		return;
	}
	if (!lex_number(p, &number))
		return;
	if (rule_amount(term, &number, p->rule->kind, &why) < 0) {
		lex_fail(p, at, "%s", why.text);
		return;
	}
	if (!lex_keyword(p, "of"))
		return;
	lex_blanks(p);
	at = p->p;
	limit = lex_keyword(p, "limit");
	if (!limit && !lex_keyword(p, "capacity"))
		lex_fail(p, at, "expected limit or capacity after 'of'");
	else if (rule_of(term, limit ? WHOLE_LIMIT : WHOLE_CAPACITY, &why) < 0)
		lex_fail(p, at, "%s", why.text);
}

/* Repetition counts are refused: nested ones make glibc use time and memory without bound. */
static void parse_pattern(struct parser *p, struct rule_term *term)
{
	char pattern[RULE_TEXT], reason[120];
	const char *at;
	size_t len;
	int r;

	lex_blanks(p);
	at = p->p;
	if (*at == '"' || *at == '\'') {
		if (!lex_quoted(p, pattern, sizeof(pattern)))
			return;
	} else {
		len = strcspn(at, " \t\r\n)");
		p->p += len;
		if (!lex_copy(p, at, len, pattern, sizeof(pattern)))
			return;
	}
	if (!*pattern) {
		lex_fail(p, at,
			"expected a pattern: an extended regular expression, in quotes if it contains blanks");
		return;
	}
	if (strchr(pattern, '{') || strchr(pattern, '\\')) {
		lex_fail(p, at, "{ and \\ are not supported in patterns; write [.] for a literal dot");
		return;
	}
	term->pattern = malloc(sizeof(*term->pattern));
	r = term->pattern ? regcomp(term->pattern, pattern, REG_EXTENDED | REG_NOSUB) : 0;
	if (!term->pattern) {
		p->code = p->code < 0 ? p->code : -ENOMEM;
	} else if (r) {
		(void) regerror(r, term->pattern, reason, sizeof(reason));
		free(term->pattern);
		term->pattern = NULL;
		lex_fail(p, at, "invalid pattern: %s", reason);
	}
}

/* After "NAME is". */
static void parse_is(struct parser *p, struct rule_term *term)
{
	static const struct {
		const char *word;
		enum rule_test test;
	} states[] = { { "nan", TEST_NAN }, { "inf", TEST_INF }, { "absent", TEST_ABSENT } };
	const bool is_not = lex_keyword(p, "not");
	const char *at;

	lex_blanks(p);
	at = p->p;
	term->negated = p->negated != is_not;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (lex_keyword(p, states[i].word)) {
			term->test = states[i].test;
			return;
		}
	}
	lex_fail(p, at, "expected nan, inf or absent");
}

static bool always_has_value(const struct rule_name *name)
{
	return name->what == RULE_TIME || name->what == RULE_EXIT || name->what == RULE_FIELD ||
	       name->part != PART_NOW;
}

static void parse_growth(struct parser *p, struct rule_term *term)
{
	const char *at = p->p;

	term->test = TEST_GROWTH;
	term->span_ns = growth_span_ns;
	if (!lex_sign(p, "("))
		lex_fail(p, at, "expected '('; write growth(NAME) > 10MiB/min");
	lex_name(p, &term->name);
	lex_blanks(p);
	at = p->p;
	if (p->code == 0 && lex_sign(p, ",")) {
		lex_blanks(p);
		at = p->p;
		term->span_ns = lex_span(p);
		if (term->span_ns < least_growth_ns)
			lex_fail(p, at, "the time span of growth() is at least 1 s");
	}
	lex_blanks(p);
	at = p->p;
	if (!lex_sign(p, ")"))
		lex_fail(p, at, "the parenthesis of growth( is not closed");
	if (always_has_value(&term->name))
		lex_fail(p, at, "growth() takes a metric or a series, without .peak, .mean or .last");
	lex_blanks(p);
	at = p->p;
	if (!parse_operator(p, term))
		lex_fail(p, at, "expected a comparison; write growth(NAME) > 10MiB/min");
	if (p->code == 0)
		parse_amount(p, term);
}

/* "5x median"; else returns false and consumes nothing. */
static bool parse_multiple(struct parser *p, struct rule_term *term)
{
	const char *at, *s;

	lex_blanks(p);
	at = s = p->p;
	if (parse_double(&s, &term->value) < 0 || *s != 'x')
		return false;
	p->p = s + 1;
	if (!lex_keyword(p, "median"))
		lex_fail(p, at, "expected 'median'; write 5x median");
	else if (!(term->value > 1 && term->value <= 1e6))
		lex_fail(p, at, "expected a multiple above 1, such as 5x median");
	term->whole = WHOLE_MEDIAN;
	return true;
}

static void parse_silence(struct parser *p, struct rule_term *term)
{
	const char *at;

	term->test = TEST_SILENT;
	term->negated = p->negated;
	lex_name(p, &term->name);
	lex_blanks(p);
	at = p->p;
	if (p->code == 0 && always_has_value(&term->name))
		lex_fail(p, at, "this name always has a value");
	else if (p->code == 0 && !lex_keyword(p, "for"))
		lex_fail(p, at, "expected a duration; write no NAME for 5m, or for 5x median");
	else if (!parse_multiple(p, term))
		term->span_ns = lex_span(p);
}

static void parse_comparison(struct parser *p, struct rule_term *term)
{
	const char *at;
	bool is_text, is_not;

	lex_name(p, &term->name);
	is_text = term->name.what == RULE_FIELD && term->name.field <= FIELD_COMMAND;
	lex_blanks(p);
	at = p->p;
	if (p->code < 0)
		return;
	if (lex_keyword(p, "is")) {
		parse_is(p, term);
		return;
	}
	is_not = lex_sign(p, "!~");
	if (is_not || lex_sign(p, "~")) {
		term->test = TEST_MATCH;
		term->negated = p->negated != is_not;
		if (is_text)
			parse_pattern(p, term);
		else
			lex_fail(p, at, "~ applies to texts only: process.name, process.command");
		return;
	}
	if (parse_operator(p, term))
		parse_amount(p, term);
	else if (at[0] == '=' && (at[1] == '>' || at[1] == '<'))
		lex_fail(p, at, "unknown operator '=%c'; write %c=", at[1], at[1]);
	else if (*at == '=')
		lex_fail(p, at, "'=' sets a limit (--limit); to compare, write ==");
	else
		lex_fail(p, at, "expected < <= > >= == != and a number, or is nan, is inf, is absent");
}

static void emit(struct parser *p, int code)
{
	p->rule->code[p->rule->n_code++] = (signed char) code;
}

static void parse_term(struct parser *p)
{
	struct rule_term *term = &p->rule->terms[p->rule->n_terms];

	lex_blanks(p);
	if (p->rule->n_terms == RULE_TERMS) {
		lex_fail(p, p->p, "more than %d comparisons; split the rule in two", RULE_TERMS);
		return;
	}
	p->rule->n_terms++; /* rule_done() frees its pattern */
	term->offset = (unsigned) (p->p - p->start);
	if (lex_keyword(p, "no"))
		parse_silence(p, term);
	else if (lex_keyword(p, "growth"))
		parse_growth(p, term);
	else
		parse_comparison(p, term);
	if (p->code == 0)
		emit(p, (int) p->rule->n_terms - 1);
}

/* ---- expressions --------------------------------------------------------------------------------------------------- */

static void parse_any(struct parser *p);

static void parse_part(struct parser *p)
{
	const char *at;

	lex_blanks(p);
	at = p->p;
	if (p->depth == RULE_DEPTH) {
		lex_fail(p, at, "nested more than %d levels deep", RULE_DEPTH);
		return;
	}
	p->depth++;
	if (lex_keyword(p, "not")) {
		p->negated = !p->negated;
		parse_part(p);
		p->negated = !p->negated;
	} else if (lex_sign(p, "(")) {
		parse_any(p);
		if (!lex_sign(p, ")"))
			lex_fail(p, at, "this parenthesis is not closed");
	} else {
		parse_term(p);
	}
	p->depth--;
}

static void parse_all(struct parser *p)
{
	parse_part(p);
	while (p->code == 0 && (lex_keyword(p, "and") || lex_sign(p, "&&"))) {
		parse_part(p);
		if (p->code == 0)
			emit(p, p->negated ? CODE_OR : CODE_AND);
	}
}

static void parse_any(struct parser *p)
{
	parse_all(p);
	while (p->code == 0 && (lex_keyword(p, "or") || lex_sign(p, "||"))) {
		parse_all(p);
		if (p->code == 0)
			emit(p, p->negated ? CODE_AND : CODE_OR);
	}
}

static void parse_limit(struct parser *p)
{
	struct rule_term *term = &p->rule->terms[p->rule->n_terms++];
	const char *at;

	lex_blanks(p);
	at = p->p;
	term->offset = (unsigned) (at - p->start);
	lex_name(p, &term->name);
	if (p->code == 0 &&
		(term->name.part != PART_NOW || term->name.what == RULE_FIELD ||
			term->name.what == RULE_EXIT ||
			(term->name.what == RULE_METRIC && metrics[term->name.metric].kind != KIND_GAUGE)))
		lex_fail(
			p, at, "a limit needs a current value: ram, gpu.mem, process.rss, processes or time");
	lex_blanks(p);
	at = p->p;
	if (p->code == 0 && (!lex_sign(p, "=") || *p->p == '='))
		lex_fail(p, at, "write a limit as NAME = VALUE");
	term->op = OP_GE;
	if (p->code == 0)
		parse_amount(p, term);
	if (p->code == 0)
		emit(p, 0);
}

/* Unquoted names contain no colon, so a word before one is meant as a level. */
static void check_level(struct parser *p)
{
	size_t len = 0;

	lex_blanks(p);
	while (isalpha((unsigned char) p->p[len]))
		len++;
	if (len > 0 && p->p[len] == ':')
		lex_fail(p, p->p,
			"unknown level '%.*s'; use info:, warn: or error:", (int) (len < 40 ? len : 40),
			p->p);
}

static void parse_head(struct parser *p)
{
	static const char *const levels[] = {
		[RULE_INFO] = "info", [RULE_WARN] = "warn", [RULE_ERROR] = "error"
	};
	static const char *const quantifiers[] = {
		[RULE_EVER] = "ever", [RULE_ALWAYS] = "always", [RULE_NEVER] = "never"
	};

	p->rule->level = RULE_WARN;
	lex_blanks(p);
	for (int i = RULE_INFO; i <= RULE_ERROR; i++) {
		const size_t len = strlen(levels[i]);

		if (strncmp(p->p, levels[i], len) == 0 && p->p[len] == ':') {
			p->p += len + 1;
			p->rule->level = (enum rule_level) i;
			break;
		}
	}
	check_level(p);
	for (int i = RULE_EVER; i <= RULE_NEVER; i++) {
		lex_blanks(p);
		const char *at = p->p;

		if (lex_keyword(p, quantifiers[i])) {
			if (p->rule->kind != RULE_CHECK)
				lex_fail(p, at, "'%s' is for hiwater check only, which judges a whole run",
					quantifiers[i]);
			p->rule->quantifier = (enum rule_quantifier) i;
			p->negated = i == RULE_ALWAYS;
			break;
		}
	}
}

static void parse_tail(struct parser *p)
{
	const char *at;

	lex_blanks(p);
	at = p->p;
	if (p->code == 0 && lex_keyword(p, "for")) {
		p->rule->for_ns = lex_span(p);
		if (p->rule->kind != RULE_ALERT && p->rule->kind != RULE_CHECK)
			lex_fail(p, at, "'for' is for alerts and checks only");
		else if (p->rule->quantifier == RULE_ALWAYS)
			lex_fail(p, at, "always covers the whole time: remove 'for', or use ever or never");
	}
	lex_blanks(p);
	if (*p->p)
		lex_fail(p, p->p,
			"unexpected text; join comparisons with 'and' or 'or', and write 'for' before a duration");
}

/* Sets the subject of the rule: the job, each process or each GPU. */
static void find_subject(struct parser *p)
{
	struct rule *rule = p->rule;

	rule->subject = ENTITY_JOB;
	for (size_t i = 0; i < rule->n_terms; i++) {
		const enum entity e = rule->terms[i].name.entity;

		if (e == ENTITY_HOST || e == ENTITY_JOB || rule->terms[i].name.indexed)
			continue;
		if (rule->subject != ENTITY_JOB && rule->subject != e)
			lex_fail(p, p->start + rule->terms[i].offset,
				"a rule judges each %s or each %s, not both", entity_name(rule->subject),
				entity_name(e));
		rule->subject = e;
	}
}

/* compare needs figures of the whole run. */
static void check_figures(struct parser *p)
{
	const struct rule *rule = p->rule;
	char name[RULE_NAME];

	for (size_t i = 0; rule->kind == RULE_COMPARE && i < rule->n_terms; i++) {
		const struct rule_term *t = &rule->terms[i];
		const char *at = p->start + t->offset;

		(void) rule_name_text(&t->name, name);
		if (t->test == TEST_GROWTH || t->test == TEST_SILENT || t->name.what == RULE_FIELD)
			lex_fail(p, at,
				"'%s': runs are compared by figures of the whole run, such as ram.peak",
				name);
		else if (t->name.part == PART_NOW && t->name.what != RULE_TIME && t->name.what != RULE_EXIT)
			lex_fail(p, at, "'%s' is a momentary value; write %s.peak, %s.mean or %s.last", name,
				name, name, name);
	}
}

static void copy_text(struct rule *rule, const char *text)
{
	size_t len;

	text += strspn(text, " \t\r\n");
	len = strlen(text);
	while (len > 0 && isspace((unsigned char) text[len - 1]))
		len--;
	memcpy(rule->text, text, len);
	rule->text[len] = '\0';
}

int rule_parse(const char *text, enum rule_kind kind, struct rule *ret, struct err *err)
{
	struct parser p = { .rule = ret, .start = text, .p = text, .err = err };

	*ret = (struct rule) { .kind = kind };
	if (strlen(text) >= RULE_TEXT)
		return err_set(
			err, -EINVAL, "the rule is longer than %d bytes; split it in two", RULE_TEXT - 1);
	if (text[strspn(text, " \t\r\n")] == '\0')
		return err_set(err, -EINVAL, "the rule is empty; for example: %s",
			kind == RULE_LIMIT ? "ram = 24GiB" : "ram > 90%");
	copy_text(ret, text);
	parse_head(&p);
	if (kind == RULE_LIMIT)
		parse_limit(&p);
	else
		parse_any(&p);
	parse_tail(&p);
	if (p.code == 0)
		find_subject(&p);
	if (p.code == 0)
		check_figures(&p);
	if (p.code < 0) {
		rule_done(ret);
		return p.code;
	}
	return 0;
}

void rule_done(struct rule *rule)
{
	for (size_t i = 0; i < rule->n_terms; i++) {
		if (rule->terms[i].pattern)
			regfree(rule->terms[i].pattern);
		free(rule->terms[i].pattern);
	}
	*rule = (struct rule) { 0 };
}
