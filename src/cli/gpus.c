/* SPDX-License-Identifier: MIT
 *
 * hiwater gpus: lists the GPUs and the processes on them, once or repeatedly; scripts may use it
 * instead of nvidia-smi.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/terminal.h"

/* Exit statuses; those that nvidia-smi has too are the same. */
enum {
	GPUS_NONE = 6,      /* no GPU found, or none that --id selects */
	GPUS_NO_DRIVER = 9, /* a GPU, but no driver to read it */
	GPUS_LOST = 15,     /* a GPU is lost */
	GPUS_SILENT = 124,  /* a driver did not answer in time */
};

static struct {
	bool json, list, spec, no_header, help_gpu, help_apps, help_line;
	const char *csv;    /* "gpus", "processes"; NULL: another format */
	const char *line, *query, *apps, *format, *ids, *root, *file;
	enum hiw_units units;
	const struct loop_unit *loop_unit; /* NULL: once */
	const char *
		loop_word; /* the number of units; NULL or "": it is the next word, as in "-l 1", "-lms 500" */
	uint64_t loop_ns;   /* 0: once */
	uint64_t patience_ns;
} arg_gpus = { .patience_ns = UINT64_C(30000000000) };

/* ---- options --------------------------------------------------------------------------------- */

static int parse_csv(const char *value, void *dest, struct err *err)
{
	static const char *const kinds[] = { "gpus", "processes" };
	const int i = value ? opt_choice(value, "gpus|processes", err) : 0;

	if (i < 0)
		return i;
	*(const char **) dest = kinds[i];
	return 0;
}

/* The unit of the loop's interval, by the option that gave it. */
struct loop_unit {
	const char *option, *unit, *example, *usual;
	uint64_t ns;
};
/* 5 as nvidia-smi's */
static const struct loop_unit loop_seconds = { "-l (--loop)", "seconds", "-l 0.5", "5", 1000000000 };
static const struct loop_unit loop_short_ms = { "-lms", "milliseconds", "-lms 500", NULL, 1000000 };
static const struct loop_unit loop_ms = { "--loop-ms", "milliseconds", "--loop-ms=500", NULL, 1000000 };

/* nvidia-smi's -lms is the letter l with a value that begins with "ms". The number may be an
 * operand, so read_loop parses it. */
static int parse_loop(const char *value, void *dest, struct err *err)
{
	const bool is_ms = value && strncmp(value, "ms", 2) == 0;

	(void) dest;
	(void) err;
	arg_gpus.loop_unit = is_ms ? &loop_short_ms : &loop_seconds;
	arg_gpus.loop_word = is_ms ? value + 2 + (value[2] == '=') : value;
	return 0;
}

static int parse_loop_ms(const char *value, void *dest, struct err *err)
{
	(void) dest;
	(void) err;
	arg_gpus.loop_unit = &loop_ms;
	arg_gpus.loop_word = value;
	return 0;
}

static int parse_patience(const char *value, void *dest, struct err *err)
{
	int64_t ns = 0;
	int r = units_parse_duration(value, &ns, err);

	if (r == 0 && (ns < 1000000 || ns > INT64_C(3600000000000)))
		r = err_set(err, -EINVAL, "'%.40s' is out of range; give 1ms to 1h", value);
	if (r == 0)
		*(uint64_t *) dest = (uint64_t) ns;
	return r;
}

/* "csv,noheader,nounits". Returns 0, or EXIT_USAGE after a complaint. */
static int read_format(struct hwi_gpus_options *o)
{
	char words[128], *rest = words, *word;
	bool csv = false;

	(void) snprintf(words, sizeof(words), "%s", arg_gpus.format ? arg_gpus.format : "csv");
	while ((word = strsep(&rest, ", "))) {
		if (strcmp(word, "csv") == 0)
			csv = true;
		else if (strcmp(word, "noheader") == 0)
			o->no_header = arg_gpus.no_header = true;
		else if (strcmp(word, "nounits") == 0)
			o->no_units = true;
		else if (*word) {
			complain("--format: unknown word '%.40s'; give csv, noheader, nounits", word);
			return EXIT_USAGE;
		}
	}
	if (!csv)
		complain("--format must contain csv: --format=csv,%.100s", arg_gpus.format);
	return csv ? 0 : EXIT_USAGE;
}

/* Options to the library's. Returns 0, or EXIT_USAGE after a complaint. */
static int read_options(struct hwi_gpus_options *o)
{
	const struct {
		bool is_given;
		enum hwi_gpus_format format;
		const char *option, *fields;
	} kinds[] = {
		{ arg_gpus.json, HWI_GPUS_JSON, "--json", NULL },
		{ arg_gpus.csv, arg_gpus.csv && *arg_gpus.csv == 'p' ? HWI_GPUS_CSV_PROCESSES : HWI_GPUS_CSV,
			"--csv", NULL },
		{ arg_gpus.line, HWI_GPUS_LINE, "--line", arg_gpus.line },
		{ arg_gpus.list, HWI_GPUS_LIST, "--list-gpus", NULL },
		{ arg_gpus.query, HWI_GPUS_QUERY, "--query-gpu", arg_gpus.query },
		{ arg_gpus.apps, HWI_GPUS_QUERY_APPS, "--query-compute-apps", arg_gpus.apps },
	};
	const char *first = NULL;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!kinds[i].is_given)
			continue;
		if (first) {
			complain("%s and %s exclude each other; give one of them", first, kinds[i].option);
			return EXIT_USAGE;
		}
		first = kinds[i].option;
		o->format = kinds[i].format;
		o->fields = kinds[i].fields;
	}
	if (arg_gpus.spec && first && !arg_gpus.json) {
		complain("--spec and %s exclude each other; --spec prints text or, with --json, JSON", first);
		return EXIT_USAGE;
	}
	if (arg_gpus.format && !arg_gpus.query && !arg_gpus.apps) {
		complain("--format needs --query-gpu or --query-compute-apps");
		return EXIT_USAGE;
	}
	o->ids = arg_gpus.ids;
	o->root = arg_gpus.root;
	o->spec = arg_gpus.spec;
	o->no_header = arg_gpus.no_header;
	o->patience_ns = arg_gpus.patience_ns;
	return arg_gpus.query || arg_gpus.apps ? read_format(o) : 0;
}

/* ---- samples --------------------------------------------------------------------------------- */

static int status_of(int error)
{
	static const struct {
		int error, status;
	} statuses[] = {
		{ 0, 0 },
		{ -ENODEV, GPUS_NONE },
		{ -ENXIO, GPUS_NO_DRIVER },
		{ -EREMOTEIO, GPUS_LOST },
		{ -ETIMEDOUT, GPUS_SILENT },
	};

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		if (statuses[i].error == error)
			return statuses[i].status;
	}
	return EXIT_FAILED;
}

/* Did the read give nothing to show? With some errors there is still output. */
static bool is_empty(const struct hwi_gpus *gpus, int error)
{
	struct hwi_gpu_device any = { .size = sizeof(any) };

	return error == -ENODEV || error == -ENXIO || error == -ENOMEM || !hwi_gpus_device(gpus, 0, &any);
}

/* A table that is continued in a loop has its header once, as nvidia-smi's has and as programs that
 * read it expect. */
static const char *without_header(const char *text)
{
	const bool has = (arg_gpus.csv || arg_gpus.query || arg_gpus.apps) && !arg_gpus.no_header;
	const char *end = has ? strchr(text, '\n') : NULL;

	return end ? end + 1 : text;
}

static int show(struct hwi_gpus *gpus, FILE *file, bool first)
{
	const struct hiw_style style = terminal_style(file ? -1 : STDOUT_FILENO, arg_gpus.units, false);
	autofree char *whole = NULL;
	size_t len = 0;
	int r = hwi_gpus_text(gpus, &style, &whole, &len);

	if (r < 0) {
		complain("%s", strerror(-r));
		return EXIT_FAILED;
	}
	const char *text = first ? whole : without_header(whole);

	len -= (size_t) (text - whole);
	if (!file)
		return print_out(text, len);
	if (fwrite(text, 1, len, file) == len && fflush(file) == 0)
		return 0;
	complain("cannot write to %s: %s", arg_gpus.file, strerror(errno));
	return EXIT_FAILED;
}

/* Reads and shows one sample. *ret_go_on: false if the loop must end. */
static int sample(struct hwi_gpus *gpus, FILE *file, bool first, bool *ret_go_on)
{
	struct hiw_err err = { "" };
	const int r = hwi_gpus_read(gpus, &err);

	*ret_go_on = !is_empty(gpus, r);
	if (r < 0)
		complain("%s", err.text);
	while (*ret_go_on && hwi_gpus_warning(gpus, &err))
		complain("warning: %s", err.text);
	if (!*ret_go_on && !arg_gpus.json)
		return status_of(r);
	const int shown = show(gpus, file, first);

	*ret_go_on = *ret_go_on && shown == 0;
	return shown ? shown : status_of(r);
}

/* Sleeps until one interval after *next; if that has passed already, the next interval starts
 * now. */
static void sleep_until(struct timespec *next)
{
	struct timespec now;

	next->tv_sec += (time_t) (arg_gpus.loop_ns / 1000000000);
	next->tv_nsec += (long) (arg_gpus.loop_ns % 1000000000);
	if (next->tv_nsec >= 1000000000) {
		next->tv_nsec -= 1000000000;
		next->tv_sec++;
	}
	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	if (next->tv_sec < now.tv_sec || (next->tv_sec == now.tv_sec && next->tv_nsec < now.tv_nsec))
		*next = now;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL) == EINTR)
		;
}

static int loop(struct hwi_gpus *gpus, FILE *file)
{
	struct timespec next;
	bool go_on;
	int status = sample(gpus, file, true, &go_on);

	(void) clock_gettime(CLOCK_MONOTONIC, &next);
	while (arg_gpus.loop_ns && go_on) {
		sleep_until(&next);
		status = sample(gpus, file, false, &go_on);
	}
	return status;
}

static int help(enum hwi_gpus_format format)
{
	autofree char *text = NULL;

	if (hwi_gpus_fields(format, &text) < 0)
		return EXIT_FAILED;
	return print_out(text, strlen(text));
}

/* "-l 1" and "-lms 500" leave their number as an operand. Returns how many operands it consumed, or
 * -1 after a complaint. */
static int read_loop(int argc, char **argv)
{
	const struct loop_unit *u = arg_gpus.loop_unit;
	const bool is_next = u && (!arg_gpus.loop_word || !*arg_gpus.loop_word) && argc > 0;
	const char *word = is_next ? argv[0] : arg_gpus.loop_word;
	char *end;

	if (!u)
		return 0;
	word = word && *word ? word : u->usual;
	if (!word) {
		complain("%s needs a number of %s: %s", u->option, u->unit, u->example);
		return -1;
	}
	const double number = strtod(word, &end), ns = number * (double) u->ns;

	if (end == word || *end || !(ns >= 1e6) || number > 1e6) {
		complain(
			"%s: '%.40s' is not a valid interval; give a number of %s, at least 1 ms and at most 1000000, such as %s",
			u->option, word, u->unit, u->example);
		return -1;
	}
	arg_gpus.loop_ns = (uint64_t) ns;
	return is_next;
}

/* Returns 0, or EXIT_USAGE after a complaint. */
static int read_operands(int argc, char **argv)
{
	const int taken = read_loop(argc, argv);

	if (taken < 0)
		return EXIT_USAGE;
	if (argc > taken) {
		complain("unexpected operand '%.80s'; to select a GPU, use --id", argv[taken]);
		return EXIT_USAGE;
	}
	return 0;
}

static int ask(FILE *file)
{
	struct hwi_gpus_options options = HWI_GPUS_OPTIONS_INIT;
	struct hwi_gpus *gpus = NULL;
	struct hiw_err err = { "" };
	int status = read_options(&options), r;

	if (status)
		return status;
	r = hwi_gpus_open(&options, &gpus, &err);
	if (r < 0) {
		complain("%s", err.text[0] ? err.text : strerror(-r));
		return r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	status = loop(gpus, file);
	hwi_gpus_close(gpus);
	return status;
}

static int gpus_main(int argc, char **argv)
{
	FILE *file = NULL;
	int status = read_operands(argc, argv);

	if (status)
		return status;
	if (arg_gpus.help_gpu || arg_gpus.help_apps || arg_gpus.help_line)
		return help(arg_gpus.help_gpu ? HWI_GPUS_QUERY : arg_gpus.help_apps ? HWI_GPUS_QUERY_APPS
										    : HWI_GPUS_LINE);
	if (arg_gpus.file) {
		file = fopen(arg_gpus.file, "we");
		if (!file) {
			complain("cannot write to %s: %s", arg_gpus.file, strerror(errno));
			return EXIT_FAILED;
		}
	}
	status = ask(file);
	if (file && fclose(file) != 0 && status == 0) {
		complain("cannot write to %s: %s", arg_gpus.file, strerror(errno));
		status = EXIT_FAILED;
	}
	return status;
}

/* ---- the tables ------------------------------------------------------------------------------ */

static const struct opt opts[] = {
	{ 0, "json", OPT_NONE, NULL, "print JSON, in base units (docs/gpus.schema.json)", opt_flag,
		&arg_gpus.json },
	{ 0, "csv", OPT_OPTIONAL, "gpus|processes",
		"print CSV in base units: a row per GPU, or per process (gpus)", parse_csv, &arg_gpus.csv },
	{ 0, "line", OPT_TEXT, "FORMAT",
		"print one line for status bars: '{gpu}: {busy}% {mem} of {mem_total}'", opt_text,
		(void *) &arg_gpus.line },
	{ 0, "spec", OPT_NONE, NULL, "print the hardware: SMs, cores, shared memory, registers, limits",
		opt_flag, &arg_gpus.spec },
	{ 'L', "list-gpus", OPT_NONE, NULL, "print names and UUIDs only", opt_flag, &arg_gpus.list },
	{ 0, "query-gpu", OPT_TEXT, "FIELDS",
		"print a table of these fields, separated by commas and named as nvidia-smi's", opt_text,
		(void *) &arg_gpus.query },
	{ 0, "query-compute-apps", OPT_TEXT, "FIELDS", "the same for the compute processes", opt_text,
		(void *) &arg_gpus.apps },
	{ 0, "format", OPT_TEXT, "csv[,noheader][,nounits]", "format of a queried table (csv)", opt_text,
		(void *) &arg_gpus.format },
	{ 'i', "id", OPT_TEXT, "IDS",
		"only these GPUs, separated by commas: numbers (a MIG instance: 0.1), UUIDs or PCI addresses",
		opt_text, (void *) &arg_gpus.ids },
	{ 'l', "loop", OPT_OPTIONAL, "SECONDS", "repeat every SECONDS until Ctrl-C (5)", parse_loop, NULL },
	{ 0, "loop-ms", OPT_TEXT, "MS", "the same in milliseconds; also: -lms MS", parse_loop_ms, NULL },
	{ 'f', "filename", OPT_FILE, "FILE", "write to FILE instead of stdout", opt_text,
		(void *) &arg_gpus.file },
	{ 0, "no-header", OPT_NONE, NULL, "leave out the lines above the first GPU", opt_flag,
		&arg_gpus.no_header },
	{ 0, "units", OPT_CHOICE, UNITS_CHOICES, "units of sizes: GiB, GB, or bytes (iec)", parse_units,
		&arg_gpus.units },
	{ 0, "timeout", OPT_TEXT, "SPAN", "how long to wait for a driver (30s)", parse_patience,
		&arg_gpus.patience_ns },
	{ 0, "root", OPT_FILE, "DIR", "examine a captured machine: DIR holds its proc and sys", opt_text,
		(void *) &arg_gpus.root },
	{ 0, "help-query-gpu", OPT_NONE, NULL, "list the fields of --query-gpu", opt_flag,
		&arg_gpus.help_gpu },
	{ 0, "help-query-compute-apps", OPT_NONE, NULL, "list the fields of --query-compute-apps", opt_flag,
		&arg_gpus.help_apps },
	{ 0, "help-line", OPT_NONE, NULL, "list the fields of --line", opt_flag, &arg_gpus.help_line },
	{ 0 },
};

static const char *const prose[] = {
	"Prints a line per GPU, and below it the processes on it: NVIDIA GPUs are read through the driver's "
	"library, those of AMD, Intel and others through the kernel. GPU is the driver's number; CUDA is "
	"the number in a CUDA program with the current CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER: - means "
	"hidden, ? that only CUDA itself knows. MIG instances are listed below their GPU.",
	"BUSY is the share of time in which any kernel ran, even one thread on one SM; SM ACTIVE, if the "
	"driver reports it, the share in which an SM had work, mean over all SMs: how full the GPU was. The "
	"percentage after a process is its share of the driver's utilization samples. Memory of processes "
	"that are not visible here has a line of its own, unattributed.",
	"--query-gpu and --query-compute-apps accept the names of nvidia-smi's fields and print its header, "
	"units and [N/A], so a script only has to change the program's name. --line is for status bars and "
	"prompts: {field} is replaced by a figure, once for each GPU; {{ and }} are literal braces, \\n is "
	"a new line, which then separates the GPUs.",
	"A GPU that sleeps is not woken up; a note names it. For formats without notes, stderr says why "
	"rows are missing: a GPU that cannot be opened or is lost, processes that a driver does not list; "
	"for --csv also why figures are missing. Each driver is called in a process of its own: one that "
	"hangs is given up after --timeout, and the others' data is printed.",
	"The exit status is 0; 1 if the command failed; 2 for an invalid command line; 6 if there is no "
	"GPU, or none that --id selects; 9 if there is a GPU but no driver to read it; 15 if a GPU is lost; "
	"124 if a driver did not answer in time. nvidia-smi uses 2, 6, 9 and 15 for the same.",
	NULL,
};

static const char *const examples[] = {
	"hiwater gpus",
	"the GPUs and the processes on them",
	"hiwater gpus --query-gpu=index,memory.used --format=csv,noheader,nounits",
	"a query as a script would send to nvidia-smi",
	"hiwater gpus --line '{gpu}: {busy}% {mem}'",
	"one line for a status bar",
	"hiwater gpus --spec -i 0",
	"the hardware of GPU 0",
	NULL,
};

const struct command command_gpus = {
	.name = "gpus",
	.usage = "[options]",
	.sentence = "list the GPUs and the processes on them",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = gpus_main,
};
