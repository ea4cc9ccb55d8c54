/* SPDX-License-Identifier: MIT */
#include "base/opt.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/opt_row.h"

const struct opt opt_help_row = { 'h', "help", OPT_NONE, NULL, "show this text", NULL, NULL };

const struct opt *opt_next(const struct command *command, const struct opt *o)
{
	if (o == &opt_help_row)
		return NULL;
	o = o ? o + 1 : command->opts;
	return o && (o->letter || o->name) ? o : &opt_help_row;
}

const char *opt_next_choice(const char **p, size_t *len)
{
	const char *choice = *p;

	if (!choice || *choice == '\0')
		return NULL;
	*len = strcspn(choice, "|");
	*p = choice + *len + (choice[*len] == '|' ? 1 : 0);
	return choice;
}

bool opt_is_listed(const struct command *command)
{
	return command->name[0] != '\0' && command->name[0] != '_';
}

int opt_flag(const char *value, void *dest, struct err *err)
{
	(void) value;
	(void) err;
	*(bool *) dest = true;
	return 0;
}

int opt_text(const char *value, void *dest, struct err *err)
{
	(void) err;
	*(const char **) dest = value;
	return 0;
}

int opt_text_or_empty(const char *value, void *dest, struct err *err)
{
	return opt_text(value, dest, err);
}

/* ---- the nearest name ---- */

/* The search for the name nearest to a word. */
struct near {
	const char *word;
	size_t len;
	const char *best; /* NULL: none yet */
	size_t best_len, distance;
	bool begins;      /* with the word */
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Insertions, deletions, changes and swaps of neighbours that turn a into b (optimal string
 * alignment). */
static size_t edits(const char *a, size_t a_len, const char *b, size_t b_len)
{
	enum {
		LONGEST = 40
	};
	unsigned char rows[3][LONGEST + 1];
	unsigned char *older = rows[0], *old = rows[1], *now = rows[2];

	if (a_len > LONGEST || b_len > LONGEST)
		return SIZE_MAX;
	for (size_t k = 0; k <= b_len; k++)
		old[k] = (unsigned char) k;
	for (size_t i = 1; i <= a_len; i++) {
		now[0] = (unsigned char) i;
		for (size_t k = 1; k <= b_len; k++) {
			size_t change = old[k - 1] + (a[i - 1] != b[k - 1] ? 1U : 0U);
			size_t cost = least(change, least(old[k], now[k - 1]) + 1);

			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				cost = least(cost, older[k - 2] + 1U);
			now[k] = (unsigned char) cost;
		}
		unsigned char *free_row = older;

		older = old;
		old = now;
		now = free_row;
	}
	return old[b_len];
}

size_t opt_edits(const char *a, const char *b)
{
	return edits(a, strlen(a), b, strlen(b));
}

static void near_try(struct near *near, const char *name, size_t len)
{
	const bool begins = near->len > 0 && len >= near->len && memcmp(name, near->word, near->len) == 0;
	const size_t distance = begins ? len - near->len : edits(near->word, near->len, name, len);

	/* A part of the word must remain, else any short name would be near to any short word. */
	if (!begins && (distance > (near->len + 2) / 3 || distance >= near->len))
		return;
	if (near->best && (begins < near->begins || (begins == near->begins && distance >= near->distance)))
		return;
	near->best = name;
	near->best_len = len;
	near->distance = distance;
	near->begins = begins;
}

const char *opt_nearest(const char *word, const char *const *names, size_t n)
{
	struct near near = { .word = word, .len = strlen(word) };

	for (size_t i = 0; i < n; i++) {
		if (names[i])
			near_try(&near, names[i], strlen(names[i]));
	}
	return near.best;
}

int opt_choice(const char *value, const char *choices, struct err *err)
{
	struct near near = { .word = value, .len = strlen(value) };
	const char *p = choices, *choice;
	size_t len;

	for (int i = 0; (choice = opt_next_choice(&p, &len)); i++) {
		if (len == near.len && memcmp(choice, value, len) == 0)
			return i;
		near_try(&near, choice, len);
	}
	if (near.best)
		return err_set(err, -EINVAL, "invalid value '%.80s', expected one of %s; did you mean %.*s?",
			value, choices, (int) near.best_len, near.best);
	return err_set(err, -EINVAL, "invalid value '%.80s', expected one of %s", value, choices);
}

/* ---- reading a command line ---- */

/* The remaining words, the first of which is an option. */
struct reader {
	const struct command *command;
	int argc;
	char **argv;
	struct err *err;
};

static const char *blank_of(const struct command *command)
{
	return command->name[0] ? " " : "";
}

/* Writes "TEXT; see hiwater run --help". A text of several lines gets no hint. */
__attribute__((format(printf, 2, 3))) static int complain(
	const struct reader *r, const char *format, ...)
{
	struct err why;
	va_list ap;

	va_start(ap, format);
	(void) vsnprintf(why.text, sizeof(why.text) - 80, format, ap);
	va_end(ap);
	if (strchr(why.text, '\n'))
		return err_set(r->err, -EINVAL, "%s", why.text);
	return err_set(r->err, -EINVAL, "%s%s see %s%s%s --help", why.text,
		why.text[0] && why.text[strlen(why.text) - 1] == '?' ? "" : ";", OPT_PROGRAM,
		blank_of(r->command), r->command->name);
}

/* "unknown option --intervall; did you mean --interval?"; shows the word as it was given. */
static int complain_unknown(const struct reader *r, const char *word, size_t len)
{
	size_t dashes = strspn(word, "-");
	struct near near = { .word = word + dashes, .len = len - dashes };

	for (const struct opt *o = NULL; (o = opt_next(r->command, o));) {
		if (o->name && o->sentence)
			near_try(&near, o->name, strlen(o->name));
	}
	if (near.best)
		return complain(r, "unknown option %.*s; did you mean --%s?", (int) least(len, 80),
			word, near.best);
	return complain(r, "unknown option %.*s", (int) least(len, 80), word);
}

/* Calls the row's parser with value. shown is the option as the user wrote it. Returns used, the
 * number of words consumed. */
static int apply_option(
	const struct reader *r, const struct opt *o, const char *shown, const char *value, int used)
{
	struct err why = { "" };

	if (o == &opt_help_row)
		return -ECANCELED;
	if (value && *value == '\0' && o->parse != opt_text_or_empty)
		return complain(r, "option %s needs a non-empty value: %s", shown, o->arg_name);
	int code = o->parse(value, o->dest, &why);

	if (code < 0)
		return complain(r, "%s: %.350s", shown, why.text[0] ? why.text : strerror(-code));
	return used;
}

/* The row whose name equals the len bytes at name, else the only one that begins with them. NULL
 * if there is none; if there are several, *other is a second one. */
static const struct opt *find_long(
	const struct command *command, const char *name, size_t len, const struct opt **other)
{
	const struct opt *found = NULL;

	*other = NULL;
	for (const struct opt *o = NULL; (o = opt_next(command, o));) {
		if (!o->name || strncmp(o->name, name, len) != 0)
			continue;
		if (o->name[len] == '\0') {
			*other = NULL;
			return o;
		}
		if (!o->sentence)
			continue; /* hidden options cannot be abbreviated */
		if (found)
			*other = o;
		else
			found = o;
	}
	return found;
}

/* The same with the next word as the value, unless it is "--". */
static int apply_next_word(const struct reader *r, const struct opt *o, const char *shown)
{
	if (r->argc < 2 || strcmp(r->argv[1], "--") == 0)
		return complain(r, "option %s needs a value: %s", shown, o->arg_name);
	return apply_option(r, o, shown, r->argv[1], 2);
}

/* Reads "--name", "--name=value" or "--name value". Returns the number of words. */
static int read_long(const struct reader *r)
{
	const char *word = r->argv[0], *name = word + 2;
	size_t len = strcspn(name, "=");
	const char *value = name[len] == '=' ? name + len + 1 : NULL;
	const struct opt *other, *o = find_long(r->command, name, len, &other);
	char shown[64];

	if (!o || len == 0)
		return complain_unknown(r, word, len + 2);
	if (other)
		return complain(
			r, "option %.80s is ambiguous: --%s or --%s", word, o->name, other->name);
	(void) snprintf(shown, sizeof(shown), "--%s", o->name);
	if (value && o->arg == OPT_NONE)
		return complain(r, "option %s takes no value, '%.80s' was given", shown, value);
	if (value || o->arg == OPT_NONE || o->arg == OPT_OPTIONAL)
		return apply_option(r, o, shown, value, 1);
	return apply_next_word(r, o, shown);
}

static const struct opt *find_letter(const struct command *command, char letter)
{
	const struct opt *o = NULL;

	while ((o = opt_next(command, o)) && o->letter != letter)
		;
	return o;
}

/* Reads "-a", "-abc", "-n value", "-nvalue". Returns the number of words. */
static int read_letters(const struct reader *r)
{
	const char *word = r->argv[0];

	for (const char *p = word + 1; *p; p++) {
		const struct opt *o = find_letter(r->command, *p);
		char shown[] = { '-', *p, '\0' };
		int code;

		if (!o && p == word + 1)
			return complain_unknown(r, word, strlen(word));
		if (!o)
			return complain(r, "unknown option %s in %.80s", shown, word);
		if (o->arg == OPT_NONE || (o->arg == OPT_OPTIONAL && !p[1])) {
			code = apply_option(r, o, shown, NULL, 1);
			if (code < 0)
				return code;
			continue;
		}
		if (p[1])
			return apply_option(r, o, shown, p + 1, 1);
		return apply_next_word(r, o, shown);
	}
	return 1;
}

/* Moves the n words at argv[from] before argv[to], where to <= from. */
static void move_words(char **argv, int to, int from, int n)
{
	for (; n > 0; n--, to++, from++) {
		char *word = argv[from];

		memmove(argv + to + 1, argv + to, (size_t) (from - to) * sizeof(*argv));
		argv[to] = word;
	}
}

int opt_parse(const struct command *command, int argc, char **argv, struct err *err)
{
	int operands =
		1; /* words before it are parsed; from it to i are operands that options have overtaken */

	for (int i = 1; i < argc;) {
		struct reader reader = {
			.command = command, .argc = argc - i, .argv = argv + i, .err = err
		};
		const char *word = argv[i];

		if (word[0] != '-' || word[1] == '\0') {
			if (command->stops_at_operand)
				break;
			i++;
			continue;
		}
		bool is_last = strcmp(word, "--") == 0;
		int used = is_last          ? 1
			   : word[1] == '-' ? read_long(&reader)
					    : read_letters(&reader);

		if (used < 0)
			return used;
		move_words(argv, operands, i, used);
		operands += used;
		i += used;
		if (is_last)
			break;
	}
	return operands < argc ? operands : argc;
}
