/* SPDX-License-Identifier: MIT
 *
 * Command lines from tables: the same rows parse, print --help, write the man page and the shell completions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

/* What an option's argument is, for completion. */
enum opt_arg { OPT_NONE, OPT_TEXT, OPT_FILE, OPT_CHOICE, OPT_OPTIONAL };

/* One option. Long names may be given in a unique abbreviation. */
struct opt {
	char letter;             /* 0: none */
	const char *name;        /* long name without dashes; NULL: letter only */
	enum opt_arg arg;
	const char *arg_name;    /* "FILE.hiw"; for OPT_CHOICE "full|line|none" */
	const char *sentence;    /* one sentence, for --help and the man page */
	/* Takes the value (NULL with OPT_NONE or an absent optional) into dest, which is arg_* of the command.
	 * Returns 0 or a negative errno with text. */
	int (*take)(const char *value, void *dest, struct err *err);
	void *dest;
};

/* One command. */
struct command {
	const char *name;
	const char *usage;             /* behind the name: "[options] [--] COMMAND..." */
	const char *sentence;
	const char *const *prose;      /* paragraphs for the man page; NULL-terminated; may be NULL */
	const char *const *examples;   /* "hiwater run -- make", "what it does", ...; NULL-terminated pairs */
	const struct opt *opts;        /* ends with a row without letter and name */
	bool stops_at_operand;         /* what follows the first operand belongs to another command */
	int (*main)(int argc, char **argv); /* operands only; returns the exit status */
};

/* Ready-made takers: *(bool *)dest = true; *(const char **)dest = value; */
int opt_flag(const char *value, void *dest, struct err *err);
int opt_text(const char *value, void *dest, struct err *err);

/* Reads the options in front of the operands. Returns the index of the first operand, or -EINVAL with a text that
 * names the word, says why and gives the nearest option. --help and -h give -ECANCELED: print help. */
int opt_parse(const struct command *command, int argc, char **argv, struct err *err);

/* The entry of choices (separated by '|') that value is, as an index; -EINVAL with text. */
int opt_choice(const char *value, const char *choices, struct err *err);

/* The name in names (n of them) nearest to word, NULL if none is near (Damerau-Levenshtein, a third of its length). */
const char *opt_nearest(const char *word, const char *const *names, size_t n);

/* --help of one command; examples first. */
void opt_help(const struct command *command, FILE *out);

/* Man page in roff (man(7)) and completions of all commands (n of them). shell: "bash", "zsh", "fish". */
int opt_man(const struct command *commands, size_t n, const char *name, FILE *out);
int opt_completion(const struct command *commands, size_t n, const char *shell, FILE *out);
