/* SPDX-License-Identifier: MIT
 *
 * base/opt: command lines. The input is one, its words separated by NUL or newline; the first byte
 * selects the command.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	MAX_WORDS = 32
};

static bool flag;
static const char *text;

static int take_choice(const char *value, void *dest, struct err *err)
{
	int code = opt_choice(value, "full|line|none", err);

	(void) dest;
	return code < 0 ? code : 0;
}

static const struct opt opts[] = {
	{ 'o', "output", OPT_FILE, "FILE.hiw", "write the recording", opt_text, &text },
	{ 'n', NULL, OPT_TEXT, "NAME", "name of the run", opt_text, &text },
	{ 0, "summary", OPT_CHOICE, "full|line|none", "how much to print", take_choice, NULL },
	{ 0, "summary-file", OPT_FILE, "FILE", "where to", opt_text, &text },
	{ 0, "progress", OPT_OPTIONAL, "PERIOD", "a line each period", opt_text, &text },
	{ 'p', "plain", OPT_NONE, NULL, "words", opt_flag, &flag },
	{ 'j', "json", OPT_NONE, NULL, NULL, opt_flag, &flag },
	{ 0 },
};

static const struct command commands[] = {
	{ .name = "run",
		.usage = "[options] [--] COMMAND...",
		.sentence = "measure",
		.opts = opts,
		.stops_at_operand = true },
	{ .name = "show", .usage = "[options] [RUN]", .sentence = "a summary", .opts = opts },
};

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* After any permutation the words are the same. */
static void check_words(char **before, char **after, int n)
{
	for (int i = 0; i < n; i++) {
		int found = 0;

		for (int k = 0; k < n; k++)
			found += before[i] == after[k];
		check(found == 1);
	}
}

/* Operands keep their order. */
static void check_order(char **argv, int first, int argc)
{
	for (int i = first; i + 1 < argc; i++)
		check(argv[i] < argv[i + 1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *words = malloc(size + 1), *argv[MAX_WORDS + 1], *before[MAX_WORDS + 1];
	struct err err = { "" };
	int argc = 0;

	if (!words)
		return 0;
	memcpy(words, data, size);
	words[size] = '\0';
	for (char *p = words, *end = words + size; p <= end && argc < MAX_WORDS;
		p += strlen(p) + 1) {
		p[strcspn(p, "\n")] = '\0';
		argv[argc++] = p;
	}
	argv[argc] = NULL;
	memcpy(before, argv, sizeof(*argv) * (size_t) (argc + 1));
	const struct command *command = &commands[size > 0 ? data[0] % 2 : 0];
	int first = opt_parse(command, argc, argv, &err);

	check(first == -EINVAL || first == -ECANCELED || (first >= 1 && first <= argc));
	check((first == -EINVAL) == (err.text[0] != '\0'));
	check_words(before, argv, argc);
	if (first > 0)
		check_order(argv, first, argc);
	free(words);
	return 0;
}
