/* SPDX-License-Identifier: MIT
 *
 * Completions for shells from the tables of opt.h. Each script is complete in itself: it asks no program.
 */
#include "base/opt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/opt_row.h"

/* All commands, and where the script goes. */
struct script {
	const struct command *commands;
	size_t n;
	FILE *out;
};

/* The command behind c (NULL: the first) that is for people; NULL at the end. */
static const struct command *next_listed(const struct script *s, const struct command *c)
{
	for (c = c ? c + 1 : s->commands; c < s->commands + s->n; c++) {
		if (opt_is_listed(c))
			return c;
	}
	return NULL;
}

/* The row of hiwater itself; one without options of its own if the table has none. */
static const struct command *program_of(const struct script *s)
{
	static const struct command bare = { .name = "" };

	for (size_t i = 0; i < s->n; i++) {
		if (s->commands[i].name[0] == '\0')
			return &s->commands[i];
	}
	return &bare;
}

/* The row behind o that is shown. */
static const struct opt *next_shown(const struct command *command, const struct opt *o)
{
	while ((o = opt_next(command, o)) && !o->sentence)
		;
	return o;
}

/* True if the option swallows the next word. */
static bool takes_word(const struct opt *o)
{
	return o->arg != OPT_NONE && o->arg != OPT_OPTIONAL;
}

/* True if an operand of the command may be a file. */
static bool wants_files(const struct command *command)
{
	return command->usage && (strstr(command->usage, "FILE") || strstr(command->usage, "RUN"));
}

/* "full line none" */
static void put_choices(FILE *out, const char *choices)
{
	const char *choice, *between = "";
	size_t len;

	while ((choice = opt_next_choice(&choices, &len))) {
		fprintf(out, "%s%.*s", between, (int) len, choice);
		between = " ";
	}
}

/* "-o" and "--output" with glue between them. */
static void put_spellings(FILE *out, const struct opt *o, const char *glue)
{
	if (o->letter)
		fprintf(out, "-%c", o->letter);
	if (o->name)
		fprintf(out, "%s--%s", o->letter ? glue : "", o->name);
}

/* Writes text for the inside of single quotes, with a backslash in front of each byte of special. */
static void put_quoted(FILE *out, const char *text, const char *special, const char *quote)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs(quote, out);
		else if (strchr(special, *text))
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

/* ---- bash: bash(1), Programmable Completion ---- */

static const char bash_head[] =
	"# bash completion of hiwater, made by the command itself.\n"
	"_hiwater_files() {\n"
	"\tlocal IFS=$'\\n'\n"
	"\tCOMPREPLY=($(compgen -f -- \"$1\"))\n"
	"\tcompopt -o filenames 2>/dev/null\n"
	"}\n"
	"_hiwater() {\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	"\tlocal options= valued= operands=none word i\n"
	"\tCOMPREPLY=()\n"
	"\t# \"--option=value\" comes as three words.\n"
	"\tif [[ $cur == = ]]; then\n"
	"\t\tcur=\n"
	"\telif [[ $prev == = ]] && ((COMP_CWORD > 1)); then\n"
	"\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
	"\tfi\n";

static const char bash_tail[] = "\t# Where do the operands begin?\n"
				"\tlocal ended=\n"
				"\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
				"\t\tword=${COMP_WORDS[i]}\n"
				"\t\tif [[ $word == -- ]]; then\n"
				"\t\t\tended=yes\n"
				"\t\t\t((i++))\n"
				"\t\t\tbreak\n"
				"\t\telif [[ $word == = ]]; then\n"
				"\t\t\t((i++))\n"
				"\t\telif [[ \" $valued \" == *\" $word \"* ]]; then\n"
				"\t\t\t[[ ${COMP_WORDS[i+1]} == = ]] || ((i++))\n"
				"\t\telif [[ $word != -* && $operands == command ]]; then\n"
				"\t\t\tbreak\n"
				"\t\tfi\n"
				"\tdone\n"
				"\tif [[ $operands == command ]] && ((i < COMP_CWORD)); then\n"
				"\t\tif declare -F _command_offset >/dev/null; then\n"
				"\t\t\t_command_offset \"$i\"\n"
				"\t\telse\n"
				"\t\t\t_hiwater_files \"$cur\"\n"
				"\t\tfi\n"
				"\telif [[ $cur == -* && -z $ended ]]; then\n"
				"\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
				"\telif [[ $operands == command ]]; then\n"
				"\t\tCOMPREPLY=($(compgen -c -- \"$cur\"))\n"
				"\telif [[ $operands == files ]]; then\n"
				"\t\t_hiwater_files \"$cur\"\n"
				"\tfi\n"
				"}\n"
				"complete -F _hiwater hiwater\n";

/* "-o --output" of all options, or of those alone that swallow a word. */
static void option_words(FILE *out, const struct command *command, bool only_valued)
{
	const char *between = "";

	for (const struct opt *o = NULL; (o = next_shown(command, o));) {
		if (only_valued && !takes_word(o))
			continue;
		fputs(between, out);
		put_spellings(out, o, " ");
		between = " ";
	}
}

static void bash_value(FILE *out, const struct opt *o)
{
	fputs("\t\t", out);
	put_spellings(out, o, "|");
	if (o->arg == OPT_FILE) {
		fputs(") _hiwater_files \"$cur\"; return ;;\n", out);
	} else if (o->arg == OPT_CHOICE) {
		fputs(") COMPREPLY=($(compgen -W '", out);
		put_choices(out, o->arg_name);
		fputs("' -- \"$cur\")); return ;;\n", out);
	} else {
		fputs(") return ;;\n", out);
	}
}

static void bash_command(FILE *out, const struct command *command)
{
	bool has_valued = false;

	fprintf(out, "\t%s)\n\t\toptions='", command->name);
	option_words(out, command, false);
	fputs("'\n\t\tvalued='", out);
	option_words(out, command, true);
	fprintf(out, "'\n\t\toperands=%s\n",
		command->stops_at_operand ? "command"
		: wants_files(command)    ? "files"
					  : "none");
	for (const struct opt *o = NULL; (o = next_shown(command, o));) {
		if (!takes_word(o))
			continue;
		if (!has_valued)
			fputs("\t\tcase $prev in\n", out);
		has_valued = true;
		bash_value(out, o);
	}
	fputs(has_valued ? "\t\tesac\n\t\t;;\n" : "\t\t;;\n", out);
}

static void bash(const struct script *s)
{
	fputs(bash_head, s->out);
	fputs("\tif ((COMP_CWORD == 1)); then\n\t\tCOMPREPLY=($(compgen -W '", s->out);
	for (const struct command *c = NULL; (c = next_listed(s, c));)
		fprintf(s->out, "%s ", c->name);
	option_words(s->out, program_of(s), false);
	fputs("' -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase ${COMP_WORDS[1]} in\n", s->out);
	for (const struct command *c = NULL; (c = next_listed(s, c));)
		bash_command(s->out, c);
	fputs("\t*)\n\t\treturn\n\t\t;;\n\tesac\n", s->out);
	fputs(bash_tail, s->out);
}

/* ---- zsh: zshcompsys(1), _arguments ---- */

static void zsh_value(FILE *out, const struct opt *o)
{
	if (o->arg == OPT_NONE)
		return;
	fputs(o->arg == OPT_OPTIONAL ? "::" : ":", out);
	put_quoted(out, o->arg == OPT_CHOICE ? o->name ? o->name : "value" : o->arg_name, "\\:[]",
		"'\\''");
	if (o->arg == OPT_FILE) {
		fputs(":_files", out);
	} else if (o->arg == OPT_CHOICE) {
		fputs(":(", out);
		put_choices(out, o->arg_name);
		fputc(')', out);
	} else {
		fputs(": ", out);
	}
}

/* One spelling: '(-o --output)--output=[sentence]:FILE:_files' */
static void zsh_spelling(FILE *out, const struct opt *o, bool is_long)
{
	static const char *const long_marks[] = {
		[OPT_NONE] = "",
		[OPT_TEXT] = "=",
		[OPT_FILE] = "=",
		[OPT_CHOICE] = "=",
		[OPT_OPTIONAL] = "=-",
	};

	fputs("\t\t\t'", out);
	if (o == &opt_help_row) {
		fputs("(- *)", out);
	} else if (o->letter && o->name) {
		fputc('(', out);
		put_spellings(out, o, " ");
		fputc(')', out);
	}
	if (is_long)
		fprintf(out, "--%s%s[", o->name, long_marks[o->arg]);
	else
		fprintf(out, "-%c%s[", o->letter, takes_word(o) ? "+" : "");
	put_quoted(out, o->sentence, "\\:[]", "'\\''");
	fputc(']', out);
	if (is_long || takes_word(o))
		zsh_value(out, o);
	fputs("' \\\n", out);
}

static void zsh_options(FILE *out, const struct command *command)
{
	for (const struct opt *o = NULL; (o = next_shown(command, o));) {
		if (o->letter)
			zsh_spelling(out, o, false);
		if (o->name)
			zsh_spelling(out, o, true);
	}
}

static void zsh_command(FILE *out, const struct command *command)
{
	fprintf(out, "\t\t%s)\n\t\t\t_arguments -s -S \\\n", command->name);
	zsh_options(out, command);
	if (command->stops_at_operand)
		fputs("\t\t\t'(-)1:command: _command_names -e' \\\n\t\t\t'*::arguments: _normal'\n",
			out);
	else if (wants_files(command))
		fputs("\t\t\t'*:file:_files'\n", out);
	else
		fputs("\t\t\t'*:argument: '\n", out);
	fputs("\t\t\t;;\n", out);
}

static void zsh(const struct script *s)
{
	fputs("#compdef hiwater\n"
	      "# zsh completion of hiwater, made by the command itself.\n"
	      "_hiwater() {\n"
	      "\tlocal curcontext=$curcontext state line\n"
	      "\tlocal -a subcommands\n" /* $commands is zsh's own */
	      "\ttypeset -A opt_args\n"
	      "\tsubcommands=(\n",
		s->out);
	for (const struct command *c = NULL; (c = next_listed(s, c));) {
		fprintf(s->out, "\t\t'%s:", c->name);
		put_quoted(s->out, c->sentence, "\\:", "'\\''");
		fputs("'\n", s->out);
	}
	fputs("\t)\n\t_arguments -C \\\n", s->out);
	zsh_options(s->out, program_of(s));
	fputs("\t\t\t'1:command:->command' \\\n"
	      "\t\t\t'*::arguments:->arguments'\n"
	      "\tcase $state in\n"
	      "\tcommand)\n"
	      "\t\t_describe -t commands 'hiwater command' subcommands\n"
	      "\t\t;;\n"
	      "\targuments)\n"
	      "\t\tcase $line[1] in\n",
		s->out);
	for (const struct command *c = NULL; (c = next_listed(s, c));)
		zsh_command(s->out, c);
	/* Autoloaded, the file is the function's body and has to call it; sourced, it makes it known. */
	fputs("\t\tesac\n"
	      "\t\t;;\n"
	      "\tesac\n"
	      "}\n"
	      "if [[ $funcstack[1] == _hiwater ]]; then\n"
	      "\t_hiwater \"$@\"\n"
	      "else\n"
	      "\tcompdef _hiwater hiwater\n"
	      "fi\n",
		s->out);
}

/* ---- fish: complete(1) ---- */

static void fish_option(FILE *out, const char *condition, const char *name, const struct opt *o)
{
	fprintf(out, "complete -c hiwater -n '%s%s%s'", condition, name[0] ? " " : "", name);
	if (o->letter)
		fprintf(out, " -s %c", o->letter);
	if (o->name)
		fprintf(out, " -l %s", o->name);
	if (o->arg == OPT_FILE) {
		fputs(" -r -F", out);
	} else if (o->arg == OPT_CHOICE) {
		fputs(" -x -a '", out);
		put_choices(out, o->arg_name);
		fputc('\'', out);
	} else if (o->arg == OPT_TEXT) {
		fputs(" -x", out);
	}
	fputs(" -d '", out);
	put_quoted(out, o->sentence, "\\", "\\'");
	fputs("'\n", out);
}

static void fish_command(FILE *out, const struct command *command)
{
	fprintf(out, "complete -c hiwater -n __hiwater_bare -a %s -d '", command->name);
	put_quoted(out, command->sentence, "\\", "\\'");
	fputs("'\n", out);
	for (const struct opt *o = NULL; (o = next_shown(command, o));)
		fish_option(out, "__hiwater_is", command->name, o);
	if (command->stops_at_operand) {
		fprintf(out,
			"complete -c hiwater -n '__hiwater_is %s' -x -a "
			"'(__fish_complete_subcommand --fcs-skip=2 ",
			command->name);
		option_words(out, command, true);
		fputs(")'\n", out);
	} else if (wants_files(command)) {
		fprintf(out, "complete -c hiwater -n '__hiwater_is %s' -F\n", command->name);
	}
}

static void fish(const struct script *s)
{
	fputs("# fish completion of hiwater, made by the command itself.\n"
	      "function __hiwater_bare\n"
	      "\ttest (count (commandline -opc)) -eq 1\n"
	      "end\n"
	      "function __hiwater_is\n"
	      "\tset -l words (commandline -opc)\n"
	      "\ttest (count $words) -gt 1; and test $words[2] = $argv[1]\n"
	      "end\n"
	      "complete -c hiwater -f\n",
		s->out);
	for (const struct opt *o = NULL; (o = next_shown(program_of(s), o));)
		fish_option(s->out, "__hiwater_bare", "", o);
	for (const struct command *c = NULL; (c = next_listed(s, c));)
		fish_command(s->out, c);
}

/* ---- the table of shells ---- */

static const struct {
	const char *name;
	void (*write)(const struct script *s);
} shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };

int opt_completion(const struct command *commands, size_t n, const char *shell, FILE *out)
{
	struct script script = { .commands = commands, .n = n, .out = out };

	for (size_t i = 0; i < sizeof(shells) / sizeof(*shells); i++) {
		if (strcmp(shells[i].name, shell) == 0) {
			shells[i].write(&script);
			return ferror(out) ? -EIO : 0;
		}
	}
	return -EINVAL;
}
