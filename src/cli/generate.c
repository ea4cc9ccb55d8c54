/* SPDX-License-Identifier: MIT
 *
 * hiwater _generate, for the build: man pages and completions out of the table.
 */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < cli_command_count; i++) {
		if (strcmp(cli_commands[i].name, name) == 0)
			return &cli_commands[i];
	}
	return NULL;
}

static int generate(const char *what)
{
	const struct command *command;
	const char *rest = what;

	if (strcmp(what, "man") == 0)
		return opt_man(cli_commands, cli_command_count, "hiwater", stdout);
	if (!parse_word(&rest, "man-"))
		return opt_completion(cli_commands, cli_command_count, what, stdout);
	command = find_command(rest);
	return command ? opt_man(command, 1, "hiwater", stdout) : -1;
}

static int generate_main(int argc, char **argv)
{
	if (argc != 1 || generate(argv[0]) < 0) {
		complain("_generate needs one of man, man-COMMAND, bash, zsh, fish");
		return EXIT_USAGE;
	}
	if (fflush(stdout) == 0)
		return 0;
	complain("cannot write to stdout");
	return EXIT_FAILED;
}

static const struct opt opts[] = { { 0 } };

const struct command command_generate = {
	.name = "_generate",
	.usage = "man|man-COMMAND|bash|zsh|fish",
	.sentence = "write man pages and completions",
	.opts = opts,
	.main = generate_main,
};
