/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/opt.h"

/* ---- a command line to try: every kind of option ---- */

static struct {
	bool json, plain, verbose, hidden;
	const char *output, *name, *summary, *progress;
	int interval;
	unsigned progress_seen;
} arg;

static int take_interval(const char *value, void *dest, struct err *err)
{
	if (strcmp(value, "10ms") != 0)
		return err_set(err, -ERANGE, "'%s' is not 10ms", value);
	*(int *) dest = 10;
	return 0;
}

static int take_progress(const char *value, void *dest, struct err *err)
{
	(void) err;
	*(const char **) dest = value;
	arg.progress_seen++;
	return 0;
}

static int take_summary(const char *value, void *dest, struct err *err)
{
	int choice = opt_choice(value, "full|line|none", err);

	if (choice >= 0)
		*(const char **) dest = value;
	return choice < 0 ? choice : 0;
}

static int take_badly(const char *value, void *dest, struct err *err)
{
	(void) value;
	(void) dest;
	(void) err;
	return -ENOSPC;
}

static const struct opt run_opts[] = {
	{ 'o', "output", OPT_FILE, "FILE.hiw",
		"write the recording to FILE.hiw; it's made after the job has started, and "
		"a folder that is named like this one is created",
		opt_text, &arg.output },
	{ 'n', NULL, OPT_TEXT, "NAME", "name of the run: [runs] of one name are a group", opt_text,
		&arg.name },
	{ 'i', "interval", OPT_TEXT, "INTERVAL", "time between two samples", take_interval,
		&arg.interval },
	{ 0, "summary", OPT_CHOICE, "full|line|none", "how much to print at the end", take_summary,
		&arg.summary },
	{ 0, "summary-file", OPT_FILE, "FILE", "print the summary into FILE", opt_text,
		&arg.output },
	{ 0, "progress", OPT_OPTIONAL, "PERIOD", "print a line each PERIOD", take_progress,
		&arg.progress },
	{ 'p', "plain", OPT_NONE, NULL, "words instead of tables", opt_flag, &arg.plain },
	{ 'v', "verbose", OPT_NONE, NULL, "say more", opt_flag, &arg.verbose },
	{ 0, "jso", OPT_NONE, NULL, NULL, opt_flag, &arg.hidden },
	{ 'j', "json", OPT_NONE, NULL, "print \\ JSON", opt_flag, &arg.json },
	{ 0, "no-space", OPT_NONE, NULL, "fails", take_badly, NULL },
	{ 0 },
};

static const char *const run_examples[] = {
	"hiwater run -- make -j8",
	"measure a build",
	"hiwater run -o a.hiw ./train.py",
	"keep the recording in a file whose name you choose, which may then be copied "
	"to another machine and shown there",
	"hiwater run true",
	"likewise, in a script",
	NULL,
};

static const char *const run_prose[] = {
	".dots and 'quotes' at a line's begin must not be read as requests.",
	"The job's stdin, stdout and stderr are its own; back\\slashes and - dashes stay.",
	NULL,
};

static const char *const prose[] = { "hiwater reports what a job used.", NULL };

static const struct command commands[] = {
	{ .name = "",
		.usage = "COMMAND [options] ...",
		.sentence = "what a job used",
		.prose = prose },
	{ .name = "run",
		.usage = "[options] [--] COMMAND...",
		.sentence = "measure a command",
		.prose = run_prose,
		.examples = run_examples,
		.opts = run_opts,
		.stops_at_operand = true },
	{ .name = "show",
		.usage = "[options] [RUN]",
		.operands = "RUN: a number, or last.",
		.sentence = "a run's summary",
		.opts = run_opts },
	{ .name = "doctor", .usage = "[options]", .sentence = "what can be measured here" },
	{ .name = "_generate", .usage = "WHAT", .sentence = "not for people" },
};

enum {
	N = sizeof(commands) / sizeof(*commands)
};
static const struct command *const run = &commands[1], *const show = &commands[2],
				   *const doctor = &commands[3];

/* Splits line at blanks and parses it. The operands are joined into *left. */
static int parse(const struct command *command, const char *line, char *left, struct err *err)
{
	static char words[256], *argv[32];
	char *rest = words, *word;
	int argc = 0;

	memset(&arg, 0, sizeof(arg));
	snprintf(words, sizeof(words), "%s", line);
	while ((word = strsep(&rest, " ")))
		argv[argc++] = word;
	argv[argc] = NULL;
	int first = opt_parse(command, argc, argv, err);

	left[0] = '\0';
	for (int i = first; i >= 0 && i < argc; i++)
		snprintf(left + strlen(left), 256 - strlen(left), "%s%s", i > first ? " " : "",
			argv[i]);
	return first;
}

static void operands(const struct command *command, const char *line, const char *expected)
{
	char left[256];
	struct err err = { "" };

	if (parse(command, line, left, &err) < 0)
		fail_msg("%s: %s", line, err.text);
	if (strcmp(left, expected) != 0)
		fail_msg("%s: operands are '%s'", line, left);
}

static void refused(const struct command *command, const char *line, const char *text)
{
	char left[256];
	struct err err = { "" };

	assert_int_equal(parse(command, line, left, &err), -EINVAL);
	assert_string_equal(err.text, text);
}

/* ---- parsing ---- */

static void test_spellings(void **state)
{
	(void) state;
	operands(run, "run", "");
	operands(run, "run -pv -o f", "");
	assert_true(arg.plain && arg.verbose && !arg.json);
	assert_string_equal(arg.output, "f");
	operands(run, "run -pof -nname", "");
	assert_true(arg.plain);
	assert_string_equal(arg.output, "f");
	assert_string_equal(arg.name, "name");
	operands(run, "run -vi 10ms --output=a=b", "");
	assert_int_equal(arg.interval, 10);
	assert_string_equal(arg.output, "a=b");
	operands(run, "run --output --json", "");
	assert_string_equal(arg.output, "--json");
	assert_false(arg.json);
	operands(run, "run --output=-- --", "");
	assert_string_equal(arg.output, "--");
	operands(run, "run --summary line --summary full", "");
	assert_string_equal(arg.summary, "full");
}

static void test_optional_values(void **state)
{
	(void) state;
	operands(run, "run --progress 5s", "5s");
	assert_int_equal(arg.progress_seen, 1);
	assert_null(arg.progress);
	operands(run, "run --progress=5s cmd", "cmd");
	assert_string_equal(arg.progress, "5s");
}

static void test_abbreviations(void **state)
{
	(void) state;
	operands(run, "run --out f --verb --int=10ms", "");
	assert_string_equal(arg.output, "f");
	assert_true(arg.verbose);
	assert_int_equal(arg.interval, 10);
	operands(run, "run --summary full", ""); /* the whole name, although another begins with it */
	assert_string_equal(arg.summary, "full");
	operands(run, "run --js", ""); /* a hidden one does not count */
	assert_true(arg.json);
	assert_false(arg.hidden);
	operands(run, "run --jso", "");
	assert_true(arg.hidden);
	assert_false(arg.json);
	refused(run, "run --sum full",
		"option --sum is ambiguous: --summary or --summary-file; see hiwater run --help");
	refused(run, "run --p",
		"option --p is ambiguous: --progress or --plain; see hiwater run --help");
}

static void test_operands(void **state)
{
	(void) state;
	operands(run, "run make -j8 --output x", "make -j8 --output x");
	assert_null(arg.output);
	operands(run, "run -p make -v", "make -v");
	assert_false(arg.verbose);
	operands(run, "run -- -p", "-p");
	assert_false(arg.plain);
	operands(run, "run -p -- make -- -v", "make -- -v");
	operands(run, "run - -p", "- -p");
	operands(run, "run --", "");
	operands(show, "show 3 -p 4 -o f 5 --verbose", "3 4 5");
	assert_true(arg.plain && arg.verbose);
	assert_string_equal(arg.output, "f");
	operands(show, "show 3 -p -- -v 4 -- 5", "3 -v 4 -- 5");
	assert_true(arg.plain);
	assert_false(arg.verbose);
	operands(show, "show - 1", "- 1");
	operands(show, "show a b c -pv --output=f --interval 10ms d", "a b c d");
	assert_int_equal(arg.interval, 10);
	operands(doctor, "doctor x", "x");
	assert_int_equal(opt_parse(doctor, 0, NULL, NULL), 0);
}

static void test_help(void **state)
{
	static const char *const lines[] = { "run --help", "run -h", "run -ph make", "run --he" };
	char left[256];

	(void) state;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(parse(run, lines[i], left, NULL), -ECANCELED);
	assert_int_equal(parse(doctor, "doctor x -h", left, NULL), -ECANCELED);
	operands(run, "run make --help", "make --help");
	operands(run, "run -o -h", "");
}

static void test_errors(void **state)
{
	(void) state;
	refused(run, "run --intervall 1",
		"unknown option --intervall; did you mean --interval? see hiwater run --help");
	refused(run, "run --intervla=1",
		"unknown option --intervla; did you mean --interval? see hiwater run --help");
	refused(show, "show 3 --jsno",
		"unknown option --jsno; did you mean --json? see hiwater show --help");
	refused(run, "run --colour", "unknown option --colour; see hiwater run --help");
	refused(run, "run --=x", "unknown option --; see hiwater run --help");
}

static void test_more_errors(void **state)
{
	(void) state;
	refused(run, "run -x", "unknown option -x; see hiwater run --help");
	refused(run, "run -pxv", "unknown option -x in -pxv; see hiwater run --help");
	refused(run, "run -summary",
		"unknown option -summary; did you mean --summary? see hiwater run --help");
	refused(run, "run --output",
		"option --output needs a value: FILE.hiw; see hiwater run --help");
	refused(run, "run --output -- make",
		"option --output needs a value: FILE.hiw; see hiwater run --help");
	refused(run, "run -n -- make", "option -n needs a value: NAME; see hiwater run --help");
	refused(run, "run --output= make",
		"option --output needs a non-empty value: FILE.hiw; see hiwater run --help");
	refused(run, "run -pn", "option -n needs a value: NAME; see hiwater run --help");
	refused(run, "run --plain=yes",
		"option --plain takes no value, 'yes' was given; see hiwater run --help");
	refused(run, "run --help=yes",
		"option --help takes no value, 'yes' was given; see hiwater run --help");
	refused(run, "run --int 1y", "--interval: '1y' is not 10ms; see hiwater run --help");
	refused(run, "run -i1y", "-i: '1y' is not 10ms; see hiwater run --help");
	refused(run, "run --no-space",
		"--no-space: No space left on device; see hiwater run --help");
	refused(run, "run --summary ful",
		"--summary: invalid value 'ful', expected one of full|line|none; did you mean full? see hiwater run "
		"--help");
	refused(run, "run --summary lots",
		"--summary: invalid value 'lots', expected one of full|line|none; see hiwater run --help");
	refused(&commands[0], "hiwater --verson", "unknown option --verson; see hiwater --help");
}

static void test_nearest(void **state)
{
	static const char *const names[] = { "run", "attach", NULL, "runs", "show", "doctor" };

	(void) state;
	assert_string_equal(opt_nearest("attatch", names, 6), "attach");
	assert_string_equal(opt_nearest("shwo", names, 6), "show");
	assert_string_equal(opt_nearest("doctro", names, 6), "doctor");
	assert_string_equal(opt_nearest("run", names, 6), "run");
	assert_string_equal(opt_nearest("rnus", names, 6), "runs");
	assert_string_equal(opt_nearest("d", names, 6), "doctor");
	/* Names that begin with the word come before similar ones; of those, the shortest. */
	assert_string_equal(opt_nearest("ca", (const char *const[]) { "cb", "cart", "cat" }, 3), "cat");
	assert_null(opt_nearest("make", names, 6));
	assert_null(opt_nearest("", names, 6));
	assert_null(opt_nearest("x", names, 6));
	assert_null(opt_nearest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
				"aaaaaaaaaaaaaaaaaaaaaaa",
		names, 6));
}

static void test_choices(void **state)
{
	struct err err = { "" };

	(void) state;
	assert_int_equal(opt_choice("iec", "iec|si|bytes", NULL), 0);
	assert_int_equal(opt_choice("bytes", "iec|si|bytes", NULL), 2);
	assert_int_equal(opt_choice("byte", "iec|si|bytes", &err), -EINVAL);
	assert_string_equal(
		err.text, "invalid value 'byte', expected one of iec|si|bytes; did you mean bytes?");
	assert_int_equal(opt_choice("", "iec|si", NULL), -EINVAL);
	assert_int_equal(opt_choice("iec|si", "iec|si", NULL), -EINVAL);
}

/* ---- texts ---- */

/* The output of writer; freed by the caller. */
static char *written(void (*writer)(FILE *out, const void *what), const void *what)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	writer(out, what);
	if (fclose(out) != 0 || !text)
		abort(); /* out of memory */
	return text;
}

static void write_help(FILE *out, const void *command)
{
	opt_help(command, out);
}

static void write_man(FILE *out, const void *command)
{
	assert_int_equal(opt_man(command ? command : commands, command ? 1 : N, "hiwater", out), 0);
}

static void write_completion(FILE *out, const void *shell)
{
	assert_int_equal(opt_completion(commands, N, shell, out), 0);
}

static void contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in:\n%s", part, text);
}

static void test_help_text(void **state)
{
	char *text = written(write_help, run);

	(void) state;
	for (const char *p = text; *p; p += strcspn(p, "\n") + 1) {
		if (strcspn(p, "\n") > 80)
			fail_msg("too wide: %.*s", (int) strcspn(p, "\n"), p);
	}
	for (const char *p = text; *p; p++)
		assert_true(*p == '\n' || (*p >= ' ' && *p <= '~'));
	assert_true(strstr(text, "Examples:") <
		    strstr(text, "Usage: hiwater run [options] [--] COMMAND...\n"));
	assert_true(strstr(text, "Usage:") < strstr(text, "Options:"));
	contains(text, "hiwater run: measure a command\n");
	contains(text, "  hiwater run -- make -j8\n      measure a build\n");
	contains(text,
		"\n  -o, --output FILE.hiw     write the recording to FILE.hiw; it's made after\n"
		"                            the job has started, and a folder that is named\n");
	contains(text, "\n  -n NAME ");
	contains(text, "\n      --summary full|line|none\n                            how much");
	contains(text, "\n      --progress[=PERIOD]   print");
	contains(text, "\n  -h, --help                show this text\n");
	assert_null(strstr(text, "--jso "));
	free(text);
	text = written(write_help, show);
	contains(text, "\nUsage: hiwater show [options] [RUN]\n\nRUN: a number, or last.\n\nOptions:\n");
	free(text);
}

/* Runs a shell command in which $FILE is a file with text. Returns its exit status, -1 if the
 * program is missing. */
static int run_on(const char *program, const char *command, const char *text)
{
	char path[] = "/tmp/test_opt_XXXXXX", line[64];
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(close(fd), 0);
	snprintf(line, sizeof(line), "command -v %s >/dev/null 2>&1", program);
	int status = -1;

	if (system(line) == 0) {
		assert_int_equal(setenv("FILE", path, 1), 0);
		status = system(command);
		status = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
	}
	(void) unlink(path);
	return status;
}

static void test_man_pages(void **state)
{
	char *all = written(write_man, NULL), *one = written(write_man, run);

	(void) state;
	contains(all, "\n.TH HIWATER 1 ");
	contains(all, "\nhiwater \\- what a job used\n");
	contains(all, "\n.SS hiwater run\n");
	contains(all, "\n.SS hiwater doctor\n");
	contains(all, "\n\\&.dots and \\(aqquotes\\(aq");
	contains(all, "back\\eslashes\nand \\- dashes");
	contains(all, "\n\\fB\\-\\-progress\\fR[=\\fIPERIOD\\fR]\nPrint a line each PERIOD.\n");
	contains(all, ".BR hiwater\\-run (1)");
	contains(all, "\nA run\\(aqs summary.\n"); /* a word of one letter */
	contains(all, "\nRUN: a number, or last.\n");
	assert_null(strstr(all, "_generate"));
	contains(one, "\n.TH HIWATER-RUN 1 ");
	contains(one, "\nhiwater\\-run \\- measure a command\n");
	contains(one, "\nLikewise, in a script.\n");
	contains(one,
		"\n.SH EXAMPLES\n.TP\n\\fBhiwater run \\-\\- make \\-j8\\fR\nMeasure a build.\n");
	contains(one, ".BR hiwater (1)");
	free(all);
	free(one);
}

/* The output is checked by other programs. Those missing on this machine are skipped. */
static void judged(const char *program, const char *command, char *text)
{
	int status = run_on(program, command, text);

	free(text);
	if (status == -1)
		print_message("# %s is not on this machine\n", program);
	else
		assert_int_equal(status, 0);
}

static void test_man_pages_are_sound(void **state)
{
	(void) state;
	for (size_t i = 0; i < N; i++) {
		const struct command *command = i == 0 ? NULL : &commands[i];

		judged("mandoc", "mandoc -T lint -W style $FILE", written(write_man, command));
		judged("man",
			"LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l $FILE 2>&1 >/dev/null | (! "
			"grep .)",
			written(write_man, command));
		judged("man", "LC_ALL=C MANWIDTH=80 man -l $FILE | grep -q 'hiwater'",
			written(write_man, command));
	}
	judged("man", "LC_ALL=C MANWIDTH=80 man -l $FILE | grep -q -- '--summary full|line|none'",
		written(write_man, run));
	judged("man", "LC_ALL=C MANWIDTH=80 man -l $FILE | grep -q -- '\\.dots and .quotes. at'",
		written(write_man, run));
}

static void test_completions_are_sound(void **state)
{
	(void) state;
	judged("bash", "bash -n $FILE", written(write_completion, "bash"));
	judged("zsh", "zsh -n $FILE", written(write_completion, "zsh"));
	judged("fish", "fish -n $FILE", written(write_completion, "fish"));
	FILE *nowhere = fopen("/dev/null", "w");

	assert_non_null(nowhere);
	assert_int_equal(opt_completion(commands, N, "csh", nowhere), -EINVAL);
	assert_int_equal(fclose(nowhere), 0);
}

/* A shell completes a line with the script and prints the result. */
static void completes(const char *shell, const char *line, const char *expected)
{
	char command[600], *script = written(write_completion, shell);

	if (strcmp(shell, "bash") == 0)
		snprintf(command, sizeof(command),
			"bash --norc -c '. $FILE; line=\"%s\"; read -ra COMP_WORDS <<<\"${line//=/ "
			"= }\"; "
			"[[ $line != *\" \" ]] || COMP_WORDS+=(\"\"); "
			"COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "
			"_hiwater 2>/dev/null; echo \" ${COMPREPLY[*]} \"' | grep -qF -- '%s'",
			line, expected);
	else
		snprintf(command, sizeof(command),
			"fish -N -c 'source $FILE; complete -C \"%s\"' | cut -f1 | tr '\\n' ' ' "
			"| sed 's/^/ /' | grep -qF -- '%s'",
			line, expected);
	int status = run_on(shell, command, script);

	free(script);
	if (status > 0)
		fail_msg("%s: '%s' does not give '%s'", shell, line, expected);
}

/* zsh completes only on a terminal, so create one. Each read waits for the expected output; a
 * time limit ends missing output. (zsh -n accepts too much: this is the real test of the
 * script.) */
static void test_zsh_completes(void **state)
{
	static const char command[] =
		"ZDOTDIR=$(mktemp -d) && export ZDOTDIR && cp \"$FILE\" \"$ZDOTDIR/_hiwater\" && "
		"timeout 60 zsh -f -c '"
		"zmodload zsh/zpty; zpty z \"zsh -f -i\"; "
		"zpty -w z \"PS1=; fpath=($ZDOTDIR \\$fpath); autoload -Uz compinit; compinit -u -D; bindkey ^I complete-word; "
		"print REA\\\"\\\"DY\"; "
		"zpty -r z out \"*READY*\"; "
		"try() { zpty -w -n z \"$1$(printf \"\\t\")\"; zpty -r z out \"*$2*\" || exit 1; zpty -w -n z \"$(printf \"\\025\")\"; }; "
		"try \"hiwater do\" \"hiwater doctor\"; "
		"try \"hiwater run --pl\" \"run --plain\"; "
		"try \"hiwater show 3 --summary l\" \"--summary line\"; "
		"try \"hiwater run -p hostnam\" \"-p hostname\"; "
		"try \"hiwater run -- hostnam\" \"-- hostname\"; "
		"try \"hiwater run -o /etc/hostn\" \"-o /etc/hostname\"; "
		"zpty -d z' >/dev/null; status=$?; rm -r \"$ZDOTDIR\"; exit $status";

	(void) state;
	judged("zsh", command, written(write_completion, "zsh"));
}

static void test_completions_complete(void **state)
{
	static const char *const shells[] = { "bash", "fish" };

	(void) state;
	for (size_t i = 0; i < 2; i++) {
		completes(shells[i], "hiwater r", " run ");
		completes(shells[i], "hiwater do", " doctor ");
		completes(shells[i], "hiwater run --pl", " --plain ");
		completes(shells[i], "hiwater run --summary ", " full line none ");
		completes(shells[i], "hiwater show --summary l", " line ");
		completes(shells[i], "hiwater show 3 --interv", " --interval ");
		completes(shells[i], "hiwater show /etc/hostn", " /etc/hostname ");
		completes(shells[i], "hiwater run --output /etc/hostn", " /etc/hostname ");
		completes(shells[i], "hiwater run hostnam", " hostname ");
		completes(shells[i], "hiwater run --output x hostnam", " hostname ");
	}
	completes("bash", "hiwater run --summary=fu", " full ");
	completes("bash", "hiwater run -p -- hostnam", " hostname ");
	completes("bash", "hiwater doctor /etc/hostn", "  ");
	completes("bash", "hiwater run --interval ", "  ");
	completes("fish", "hiwater run --summary=fu", " --summary=full ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spellings),
		cmocka_unit_test(test_optional_values),
		cmocka_unit_test(test_abbreviations),
		cmocka_unit_test(test_operands),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_more_errors),
		cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_choices),
		cmocka_unit_test(test_help_text),
		cmocka_unit_test(test_man_pages),
		cmocka_unit_test(test_man_pages_are_sound),
		cmocka_unit_test(test_completions_are_sound),
		cmocka_unit_test(test_completions_complete),
		cmocka_unit_test(test_zsh_completes),
	};

	return cmocka_run_group_tests_name("opt", tests, NULL, NULL);
}
