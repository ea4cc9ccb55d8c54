/* SPDX-License-Identifier: MIT
 *
 * hiwater: the table of commands.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/terminal.h"

static bool arg_version;

static const struct opt opts[] = {
	{ 'V', "version", OPT_NONE, NULL, "print the version", opt_flag, &arg_version },
	{ 0 },
};

static const char *const prose[] = {
	"Measures the resource use of a job: memory, CPU time, input and output, and GPUs, at their peak "
	"and over time. A job is a command with everything that it starts, or processes that already run. "
	"Every number states how it was obtained; one that is not available is left out, with the reason.",
	"Measuring does not change the job: its output, its signals and its exit status are the same as "
	"without hiwater.",
	NULL,
};

static const char *const examples[] = {
	"hiwater run -- python train.py",
	"run a command and print what it used",
	"hiwater attach 4711",
	"measure a running process, until Ctrl-C",
	"hiwater top",
	"show current use, live",
	"hiwater show",
	"print the last run's summary again",
	NULL,
};

static const struct command program = {
	.name = "",
	.usage = "COMMAND [options]...",
	.sentence = "peak and over-time resource use of a job",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.stops_at_operand = true,
};

struct command cli_commands[21];
const size_t cli_command_count = sizeof(cli_commands) / sizeof(cli_commands[0]);

static void fill_table(void)
{
	static const struct command *const all[] = {
		&program,
		&command_run,
		&command_attach,
		&command_top,
		&command_runs,
		&command_show,
		&command_check,
		&command_compare,
		&command_request,
		&command_export,
		&command_report,
		&command_trace,
		&command_where,
		&command_merge,
		&command_import,
		&command_collect,
		&command_mark,
		&command_gpus,
		&command_serve,
		&command_doctor,
		&command_generate,
	};
	_Static_assert(sizeof(all) / sizeof(all[0]) == sizeof(cli_commands) / sizeof(cli_commands[0]),
		"one row a command");

	for (size_t i = 0; i < cli_command_count; i++)
		cli_commands[i] = *all[i];
}

static bool is_listed(const struct command *c)
{
	return c->name[0] != '\0' && c->name[0] != '_';
}

static void print_help(void)
{
	printf("hiwater: %s\n\nUsage: hiwater %s\n\nCommands:\n", program.sentence, program.usage);
	for (size_t i = 0; i < cli_command_count; i++) {
		if (is_listed(&cli_commands[i]))
			printf("  %-8s  %s\n", cli_commands[i].name, cli_commands[i].sentence);
	}
	printf("\nExamples:\n");
	for (const char *const *p = examples; *p; p += 2)
		printf("  %-32s  %s\n", p[0], p[1]);
	printf("\nSee hiwater COMMAND --help for options; hiwater --version prints the version.\n");
}

/* The user may have forgotten "run --" in front of a job, so the status is that of a job that was
 * not started. */
static int unknown_command(const char *word)
{
	const char *names[sizeof(cli_commands) / sizeof(cli_commands[0])] = { NULL };
	const char *nearest;

	for (size_t i = 0; i < cli_command_count; i++)
		names[i] = is_listed(&cli_commands[i]) ? cli_commands[i].name : NULL;
	nearest = opt_nearest(word, names, cli_command_count);
	if (nearest)
		complain("unknown command '%s'; did you mean hiwater %s?", word, nearest);
	else
		complain(
			"unknown command '%s'; see hiwater --help, or measure a program with: hiwater run -- %s",
			word, word);
	return EXIT_BEFORE_JOB;
}

static int finish_stdout(void)
{
	if (fflush(stdout) == 0)
		return 0;
	if (errno != EPIPE)
		complain("cannot write to stdout: %s", strerror(errno));
	return EXIT_FAILED;
}

/* argv[0] is the command's name. */
static int run_command(const struct command *command, int argc, char **argv)
{
	struct err err = { "" };
	int first = opt_parse(command, argc, argv, &err);

	if (first == -ECANCELED) {
		opt_help(command, stdout);
		return finish_stdout();
	}
	if (first < 0) {
		complain("%s", err.text);
		return command->main == command_run.main ? EXIT_BEFORE_JOB : EXIT_USAGE;
	}
	return command->main(argc - first, argv + first);
}

static int help(void)
{
	print_help();
	return finish_stdout();
}

/* "hiwater help run" is the same as "hiwater run --help". */
static int choose_command(int argc, char **argv)
{
	bool is_help = strcmp(argv[0], "help") == 0;

	if (is_help && (argc == 1 || argv[1][0] == '-'))
		return help();
	if (is_help)
		return choose_command(2, (char *[]) { argv[1], "--help", NULL });
	for (size_t i = 1; i < cli_command_count; i++) {
		if (strcmp(cli_commands[i].name, argv[0]) == 0)
			return run_command(&cli_commands[i], argc, argv);
	}
	return unknown_command(argv[0]);
}

int main(int argc, char **argv)
{
	struct err err = { "" };
	int first, status;

	terminal_guard_streams();
	hwi_guard_recordings();
	fill_table();
	first = opt_parse(&program, argc, argv, &err);
	if (first < 0 && first != -ECANCELED) {
		complain("%s", err.text);
		return EXIT_BEFORE_JOB;
	}
	if (arg_version) {
		printf("hiwater %s\n", hiw_version());
		return finish_stdout();
	}
	if (first == -ECANCELED || first >= argc)
		return help();
	status = choose_command(argc - first, argv + first);
	if (status == EXIT_USAGE)
		report_usage_error();
	return status;
}

/* ---- hiwater _generate, for the build: man pages and completions from the table -------------- */

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

static const struct opt generate_opts[] = { { 0 } };

const struct command command_generate = {
	.name = "_generate",
	.usage = "man|man-COMMAND|bash|zsh|fish",
	.sentence = "write man pages and completions",
	.opts = generate_opts,
	.main = generate_main,
};
