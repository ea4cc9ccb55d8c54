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
enum opt_arg {
	OPT_NONE,
	OPT_TEXT,
	OPT_FILE,
	OPT_CHOICE,
	OPT_OPTIONAL
};

/* One option. Long names may be given in a unique abbreviation. */
struct opt {
	char letter;      /* 0: none */
	const char *name; /* long name without dashes; NULL: letter only */
	enum opt_arg arg;
	const char *arg_name; /* "FILE.hiw"; for OPT_CHOICE "full|line|none" */
	const char *sentence; /* one sentence, for --help and the man page; NULL: hidden */
	/* Takes the value (NULL with OPT_NONE or an absent optional) into dest, which is arg_* of the command.
	 * Returns 0 or a negative errno with text. */
	int (*take)(const char *value, void *dest, struct err *err);
	void *dest;
};

/* One command. All texts are plain ASCII. */
struct command {
	const char
		*name; /* "": hiwater itself (what stands in front of a command); "_...": hidden */
	const char *usage; /* behind the name: "[options] [--] COMMAND..." */
	const char *operands; /* what they may be, a sentence or two, where it needs one; NULL */
	const char *sentence;
	const char *const *prose; /* paragraphs for the man page; NULL-terminated; may be NULL */
	const char *const
		*examples; /* "hiwater run -- make", "what it does", ...; NULL-terminated pairs */
	const char *const *keys; /* of a screen: "q", "what it does", ...; NULL-terminated pairs; may be NULL */
	const struct opt *
		opts; /* ends with a row without letter and name; may be NULL. -h and --help are ours */
	bool stops_at_operand; /* what follows the first operand belongs to another command */
	int (*main)(int argc, char **argv); /* operands only; returns the exit status */
};

/* Ready-made takers: *(bool *)dest = true; *(const char **)dest = value; */
int opt_flag(const char *value, void *dest, struct err *err);
int opt_text(const char *value, void *dest, struct err *err);

/* Reads the options; argv[0] is the command's name. Unless the command stops at its first operand, options may follow
 * operands: argv is then reordered so that the operands come last, in their order. "--" ends the options. Returns the
 * index of the first operand (argc: none), or -EINVAL with a text that names the word, says why and gives the nearest
 * option. --help and -h give -ECANCELED: print help. */
int opt_parse(const struct command *command, int argc, char **argv, struct err *err);

/* The entry of choices (separated by '|') that value is, as an index; -EINVAL with text. */
int opt_choice(const char *value, const char *choices, struct err *err);

/* The name in names (n of them; NULLs are passed over) nearest to word: the shortest that begins with it, else one that is
 * near (Damerau-Levenshtein, a third of the word's length, rounded up), else NULL. */
const char *opt_nearest(const char *word, const char *const *names, size_t n);

/* Insertions, deletions, changes and swaps of neighbours that make b of a; SIZE_MAX if either is very long. */
size_t opt_edits(const char *a, const char *b);

/* --help of one command; examples first; 80 columns. */
void opt_help(const struct command *command, FILE *out);

/* Man page in roff (man(7)) and completions of all commands (n of them). name is the program's; the page of a single
 * command (n = 1) is name-COMMAND(1). shell: "bash", "zsh", "fish", else -EINVAL. Returns 0, or -EIO if out failed. */
int opt_man(const struct command *commands, size_t n, const char *name, FILE *out);
int opt_completion(const struct command *commands, size_t n, const char *shell, FILE *out);
