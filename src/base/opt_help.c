/* SPDX-License-Identifier: MIT
 *
 * --help and man pages from the tables of opt.h.
 */
#include "base/opt.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/opt_row.h"

enum {
	WIDTH = 80,
	SENTENCES = 28, /* column where the sentences of options begin */
};

/* Date of the last change of the page's layout, which does not depend on the date of a build. */
static const char man_date[] = "2026-11-21";

/* ---- --help ---- */

/* Writes text from column on, further lines from indent on. A line exceeds WIDTH only for a
 * single long word. */
static void wrap(FILE *out, const char *text, size_t column, size_t indent)
{
	bool is_first = true;

	for (const char *p = text; *(p += strspn(p, " \n"));) {
		size_t len = strcspn(p, " \n");

		if (!is_first && column + 1 + len >= WIDTH) {
			fprintf(out, "\n%*s", (int) indent, "");
			column = indent;
		} else if (!is_first) {
			fputc(' ', out);
			column++;
		}
		fwrite(p, 1, len, out);
		column += len;
		p += len;
		is_first = false;
	}
	fputc('\n', out);
}

/* "--summary full|line|none", "--progress[=PERIOD]", "-n NAME" */
static size_t spell(const struct opt *o, char *text, size_t size)
{
	char letter[] = { '-', o->letter, '\0' };
	bool has_value = o->arg != OPT_NONE, is_optional = o->arg == OPT_OPTIONAL;
	int n = snprintf(text, size, "%s%s%s%s%s%s%s", o->letter ? letter : "    ",
		o->letter && o->name ? ", " : "", o->name ? "--" : "", o->name ? o->name : "",
		!has_value    ? ""
		: is_optional ? "[="
			      : " ",
		has_value && o->arg_name ? o->arg_name : "", is_optional ? "]" : "");

	return n < 0 ? 0 : (size_t) n < size ? (size_t) n
					     : size - 1;
}

static void help_option(const struct opt *o, FILE *out)
{
	char text[160];
	size_t column = 2 + spell(o, text, sizeof(text));

	fprintf(out, "  %s", text);
	if (column + 2 > SENTENCES) {
		fputc('\n', out);
		column = 0;
	}
	fprintf(out, "%*s", (int) (SENTENCES - column), "");
	wrap(out, o->sentence, SENTENCES, SENTENCES);
}

static void help_examples(const struct command *command, FILE *out)
{
	const char *const *example = command->examples;

	if (!example || !example[0])
		return;
	fputs("\nExamples:\n", out);
	for (; example[0] && example[1]; example += 2) {
		fprintf(out, "  %s\n      ", example[0]);
		wrap(out, example[1], 6, 6);
	}
}

void opt_help(const struct command *command, FILE *out)
{
	size_t column = strlen(OPT_PROGRAM);
	const char *blank = command->name[0] ? " " : "";

	column += strlen(blank) + strlen(command->name);
	fprintf(out, "%s%s%s: ", OPT_PROGRAM, blank, command->name);
	wrap(out, command->sentence, column + 2, 2);
	help_examples(command, out);
	column += strlen("Usage: ") + 1;
	fprintf(out, "\nUsage: %s%s%s ", OPT_PROGRAM, blank, command->name);
	wrap(out, command->usage ? command->usage : "", column, column);
	if (command->operands) {
		fputc('\n', out);
		wrap(out, command->operands, 0, 0);
	}
	fputs("\nOptions:\n", out);
	for (const struct opt *o = NULL; (o = opt_next(command, o));) {
		if (o->sentence)
			help_option(o, out);
	}
}

/* ---- man pages: man(7), groff_man(7) ---- */

/* Writes n bytes of text literally for roff; dashes stay ASCII. Returns the number of bytes
 * written. */
static size_t roff_bytes(FILE *out, const char *text, size_t n)
{
	static const struct {
		char byte;
		const char *escape;
	} escapes[] = {
		{ '\\', "\\e" },
		{ '-', "\\-" },
		{ '\'', "\\(aq" },
		{ '`', "\\(ga" },
		{ '^', "\\(ha" },
		{ '~', "\\(ti" },
		{ '"', "\\(dq" },
		{ '\n', " " },
	};
	const size_t n_escapes = sizeof(escapes) / sizeof(*escapes);
	size_t written = 0;

	if (n > 0 && *text == '.')
		written += fwrite(
			"\\&", 1, 2, out); /* a line that begins with it would be a request */
	for (size_t k = 0; k < n; k++) {
		size_t i = 0;

		while (i < n_escapes && escapes[i].byte != text[k])
			i++;
		written += i < n_escapes
				   ? fwrite(escapes[i].escape, 1, strlen(escapes[i].escape), out)
				   : fwrite(text + k, 1, 1, out);
	}
	return written;
}

static void roff(FILE *out, const char *text)
{
	roff_bytes(out, text, strlen(text));
}

/* Writes words of running text, with short source lines; end closes the last one. */
static void roff_words(FILE *out, const char *text, const char *end)
{
	size_t column = 0;

	for (const char *p = text; *(p += strspn(p, " \n"));) {
		size_t len = strcspn(p, " \n");

		if (column > 0)
			fputc(column + len > 64 ? '\n' : ' ', out);
		column = column + len > 64 ? 0 : column + 1;
		column += roff_bytes(out, p, len);
		p += len;
	}
	fprintf(out, "%s\n", end);
}

/* Writes a table's sentence as running text: with a capital and a full stop. */
static void roff_sentence(FILE *out, const char *text)
{
	autofree char *sentence = strdup(text);
	const size_t len = strlen(text), word = strspn(text, "abcdefghijklmnopqrstuvwxyz'-");

	if (len == 0 || !sentence)
		return;
	/* A word with other characters than small letters ("hiwater.h", "iGPU") is a name and
	 * keeps its first letter. */
	if (strchr(" ,;:", text[word]))
		sentence[0] = (char) toupper((unsigned char) text[0]);
	roff_words(out, sentence, strchr(".?!:", text[len - 1]) ? "" : ".");
}

static void man_option(const struct opt *o, FILE *out)
{
	bool has_value = o->arg != OPT_NONE;

	fputs(".TP\n", out);
	if (o->letter)
		fprintf(out, "\\fB\\-%c\\fR", o->letter);
	if (o->letter && o->name)
		fputs(", ", out);
	if (o->name) {
		fputs("\\fB\\-\\-", out);
		roff(out, o->name);
		fputs("\\fR", out);
	}
	if (has_value) {
		fputs(o->arg == OPT_OPTIONAL ? "[=\\fI" : " \\fI", out);
		roff(out, o->arg_name);
		fputs(o->arg == OPT_OPTIONAL ? "\\fR]" : "\\fR", out);
	}
	fputc('\n', out);
	roff_sentence(out, o->sentence);
}

static void man_options(const struct command *command, FILE *out)
{
	for (const struct opt *o = NULL; (o = opt_next(command, o));) {
		if (o->sentence)
			man_option(o, out);
	}
}

static void man_prose(const struct command *command, FILE *out, bool follows_heading)
{
	for (const char *const *p = command->prose; p && *p; p++) {
		if (!follows_heading)
			fputs(".PP\n", out);
		roff_words(out, *p, "");
		follows_heading = false;
	}
	if (command->operands) {
		fputs(".PP\n", out);
		roff_words(out, command->operands, "");
	}
}

static void man_pairs(const char *const *pairs, FILE *out)
{
	for (const char *const *p = pairs; p && p[0] && p[1]; p += 2) {
		fputs(".TP\n\\fB", out);
		roff(out, p[0]);
		fputs("\\fR\n", out);
		roff_sentence(out, p[1]);
	}
}

/* Keys and examples, each with a heading if there are any. */
static void man_lists(const struct command *command, const char *before, const char *behind, FILE *out)
{
	const struct {
		const char *title;
		const char *const *pairs;
	} lists[] = { { "Keys", command->keys }, { "Examples", command->examples } };

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (!lists[i].pairs || !lists[i].pairs[0])
			continue;
		fputs(before, out);
		for (const char *c = lists[i].title; *c; c++)
			fputc(*behind ? *c : toupper((unsigned char) *c), out);
		fprintf(out, "%s\n", behind);
		man_pairs(lists[i].pairs, out);
	}
}

static void man_usage(const char *name, const struct command *command, FILE *out)
{
	fputs("\\fB", out);
	roff(out, name);
	if (command->name[0]) {
		fputc(' ', out);
		roff(out, command->name);
	}
	fputs("\\fR ", out);
	roff(out, command->usage ? command->usage : "");
	fputc('\n', out);
}

/* The page header: title and names in capitals, then NAME. */
static void man_head(const char *page, const char *sentence, FILE *out)
{
	fputs(".\\\" Generated by hiwater from its option tables.\n.TH ", out);
	for (const char *p = page; *p; p++)
		fputc(toupper((unsigned char) *p), out);
	fprintf(out, " 1 %s \"%s %s\" \"User Commands\"\n", man_date, OPT_PROGRAM, HIW_VERSION);
	/* Left-aligned, without hyphenation: command lines must stay intact. */
	fputs(".nh\n.ad l\n.SH NAME\n", out);
	roff(out, page);
	fputs(" \\- ", out);
	roff(out, sentence);
	fputc('\n', out);
}

/* The page of one command. */
static void man_of_command(const struct command *command, const char *name, FILE *out)
{
	char page[80];

	(void) snprintf(
		page, sizeof(page), "%s%s%s", name, command->name[0] ? "-" : "", command->name);
	man_head(page, command->sentence, out);
	fputs(".SH SYNOPSIS\n", out);
	man_usage(name, command, out);
	fputs(".SH DESCRIPTION\n", out);
	roff_sentence(out, command->sentence);
	man_prose(command, out, false);
	fputs(".SH OPTIONS\n", out);
	man_options(command, out);
	man_lists(command, ".SH ", "", out);
	if (command->name[0]) {
		fputs(".SH SEE ALSO\n.BR ", out);
		roff(out, name);
		fputs(" (1)\n", out);
	}
}

/* One command of the page of all commands. */
static void man_section(const struct command *command, const char *name, FILE *out)
{
	fputs(".SS ", out);
	roff(out, name);
	fputc(' ', out);
	roff(out, command->name);
	fputc('\n', out);
	man_usage(name, command, out);
	fputs(".PP\n", out);
	roff_sentence(out, command->sentence);
	man_prose(command, out, false);
	man_options(command, out);
	man_lists(command, ".PP\n", ":", out);
}

static void man_see_also(const struct command *commands, size_t n, const char *name, FILE *out)
{
	const char *between = "";

	fputs(".SH SEE ALSO\n", out);
	for (size_t i = 0; i < n; i++) {
		if (!opt_is_listed(&commands[i]))
			continue;
		fprintf(out, "%s.BR ", between);
		roff(out, name);
		fputs("\\-", out);
		roff(out, commands[i].name);
		fputs(" (1)", out);
		between = " ,\n";
	}
	fputc('\n', out);
}

/* The page of all commands. */
static void man_of_all(const struct command *commands, size_t n, const char *name, FILE *out)
{
	static const struct command unnamed = {
		.name = "", .usage = "COMMAND [options] ...", .sentence = "what a job used"
	};
	const struct command *program = &unnamed;
	const char *between = "";

	for (size_t i = 0; i < n; i++) {
		if (commands[i].name[0] == '\0')
			program = &commands[i];
	}
	man_head(name, program->sentence, out);
	fputs(".SH SYNOPSIS\n", out);
	for (size_t i = 0; i < n; i++) {
		if (!opt_is_listed(&commands[i]))
			continue;
		fputs(between, out);
		man_usage(name, &commands[i], out);
		between = ".br\n";
	}
	fputs(".SH DESCRIPTION\n", out);
	if (program->prose)
		man_prose(program, out, true);
	else
		roff_sentence(out, program->sentence);
	fputs(".SH OPTIONS\n", out);
	man_options(program, out);
	man_lists(program, ".SH ", "", out);
	fputs(".SH COMMANDS\n", out);
	for (size_t i = 0; i < n; i++) {
		if (opt_is_listed(&commands[i]))
			man_section(&commands[i], name, out);
	}
	man_see_also(commands, n, name, out);
}

int opt_man(const struct command *commands, size_t n, const char *name, FILE *out)
{
	if (n == 1)
		man_of_command(commands, name, out);
	else
		man_of_all(commands, n, name, out);
	return ferror(out) ? -EIO : 0;
}
