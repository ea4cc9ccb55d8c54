/* SPDX-License-Identifier: MIT
 *
 * Command lines from tables: the same rows drive parsing, --help, the man pages and the shell
 * completions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

/* The kind of an option's argument, for completion. */
enum opt_arg {
	OPT_NONE,
	OPT_TEXT,
	OPT_FILE,
	OPT_CHOICE,
	OPT_OPTIONAL
};

/* One option. Long names may be abbreviated if unambiguous. */
struct opt {
	char letter;      /* 0: none */
	const char *name; /* long name without dashes; NULL: letter only */
	enum opt_arg arg;
	const char *arg_name; /* "FILE.hiw"; for OPT_CHOICE "full|line|none" */
	const char *sentence; /* one sentence, for --help and the man page; NULL: hidden */
	/* Parses the value (NULL with OPT_NONE or an absent optional) and stores it in dest.
	 * Returns 0 or -errno with text. */
	int (*parse)(const char *value, void *dest, struct err *err);
	void *dest;
};

/* One command. All texts are plain ASCII. */
struct command {
	const char
		*name; /* "": hiwater itself (the part before a command); "_...": hidden */
	const char *usage; /* after the name: "[options] [--] COMMAND..." */
	const char *operands; /* a sentence or two about the operands, or NULL */
	const char *sentence;
	const char *const *prose; /* paragraphs of the man page; NULL-terminated; may be NULL */
	const char *const
		*examples; /* "hiwater run -- make", "its effect", ...; NULL-terminated pairs */
	const char *const *keys; /* of a screen: "q", "its effect", ...; NULL-terminated pairs; may be NULL */
	const struct opt *
		opts; /* ends with a row without letter and name; may be NULL. Without -h and --help */
	bool stops_at_operand; /* the words after the first operand belong to another command */
	int (*main)(int argc, char **argv); /* operands only; returns the exit status */
};

/* Ready-made parsers: *(bool *)dest = true; *(const char **)dest = value; */
int opt_flag(const char *value, void *dest, struct err *err);
int opt_text(const char *value, void *dest, struct err *err);

/* As opt_text; the only parser that gets an empty value. */
int opt_text_or_empty(const char *value, void *dest, struct err *err);

/* Parses the options; argv[0] is the command's name. Unless the command stops at its first
 * operand, options may follow operands: argv is then reordered so that the operands come last,
 * in their order. "--" ends the options. Returns the index of the first operand (argc: none),
 * -EINVAL with a text that names the word, the reason and the nearest option, or -ECANCELED for
 * --help and -h. */
int opt_parse(const struct command *command, int argc, char **argv, struct err *err);

/* The index of value in choices (separated by '|'), or -EINVAL with text. */
int opt_choice(const char *value, const char *choices, struct err *err);

/* The entry of names (n entries, which may be NULL) nearest to word: the shortest that begins
 * with it, else one within a small edit distance (Damerau-Levenshtein, at most a third of the
 * word's length, rounded up), else NULL. */
const char *opt_nearest(const char *word, const char *const *names, size_t n);

/* The edit distance between a and b: insertions, deletions, changes and swaps of neighbours;
 * SIZE_MAX if either is very long. */
size_t opt_edits(const char *a, const char *b);

/* Prints --help of one command: examples first, 80 columns. */
void opt_help(const struct command *command, FILE *out);

/* Write the man page in roff (man(7)) and the completions of n commands. name is the program's;
 * the page of a single command (n = 1) is name-COMMAND(1). shell: "bash", "zsh", "fish", else
 * -EINVAL. Return 0, or -EIO if out failed. */
int opt_man(const struct command *commands, size_t n, const char *name, FILE *out);
int opt_completion(const struct command *commands, size_t n, const char *shell, FILE *out);
