/* SPDX-License-Identifier: MIT
 *
 * hiwater export: writes a recording in other programs' formats, to stdout or to a file. The file
 * gets its name only when it is complete.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/programs.h"
#include "cli/terminal.h"

#define TO_CHOICES     "csv|json|openmetrics|otlp|perfetto|chrome|nsys-sqlite|svg|js1|sacct"
#define ENTITY_CHOICES "host|job|process|gpu|gpu_process|series|events"

enum {
	SERIES_MOST = 64,
	PIXELS_MOST = 10000,
};

static struct {
	const char *to, *entity, *output;
	bool recent, redact;
	const char *series[SERIES_MOST];
	size_t n_series;
	unsigned width, height;
	const char *endpoint;
	bool insecure;
} arg_export;

static int parse_to(const char *value, void *dest, struct err *err)
{
	const int i = opt_choice(value, TO_CHOICES, err);

	*(const char **) dest = value;
	return i < 0 ? i : 0;
}

static int parse_entity(const char *value, void *dest, struct err *err)
{
	const int i = opt_choice(value, ENTITY_CHOICES, err);

	*(const char **) dest = value;
	return i < 0 ? i : 0;
}

static int parse_series(const char *value, void *dest, struct err *err)
{
	(void) dest;
	if (arg_export.n_series == SERIES_MOST)
		return err_set(err, -EINVAL, "more than %d series; leave some out", SERIES_MOST);
	arg_export.series[arg_export.n_series++] = value;
	return 0;
}

static int parse_pixels(const char *value, void *dest, struct err *err)
{
	uint64_t pixels;
	const char *p = value;

	if (parse_u64(&p, &pixels) < 0 || *p || pixels < 1 || pixels > PIXELS_MOST)
		return err_set(err, -EINVAL, "'%s' is not a whole number of pixels from 1 to %d",
			value, PIXELS_MOST);
	*(unsigned *) dest = (unsigned) pixels;
	return 0;
}

/* ---- the output ------------------------------------------------------------------------------ */

struct target {
	const char *name;
	int fd;
	int error;  /* -errno of a failed write, else 0 */
};

static int put(void *ctx, const void *data, size_t len)
{
	struct target *target = ctx;

	target->error = file_put(target->fd, data, len);
	return target->error;
}

/* Prints the error and returns the exit status. */
static int fail(const struct target *target, int error, const struct hiw_err *err)
{
	if (target->error)
		complain("cannot write %s: %s", target->name, strerror(-target->error));
	else
		complain("%s", err->text[0] ? err->text : strerror(-error));
	return error == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}

static bool ends_in(const char *text, const char *end)
{
	const size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static int export_to(struct hiw_run *run, struct target *target, struct hiw_err *err)
{
	struct hwi_otlp otlp = { .disabled = false };
	int r = strcmp(arg_export.to, "otlp") == 0 ? hwi_otlp_resource(&otlp, err) : 0;
	const struct hiw_export what = {
		.size = sizeof(what),
		.to = arg_export.to,
		.entity = arg_export.entity,
		.recent = arg_export.recent,
		.redact = arg_export.redact,
		.write = put,
		.ctx = target,
		.series = arg_export.series,
		.n_series = arg_export.n_series,
		.width = arg_export.width,
		.height = arg_export.height,
		.attributes = (const char *const *) otlp.attributes,
		.n_attributes = otlp.n_attributes,
		.gzip = arg_export.output && ends_in(arg_export.output, ".gz"),
	};

	if (r == 0)
		r = hiw_run_export(run, &what, err);
	hwi_otlp_done(&otlp);
	return r;
}

static int export_into(struct hiw_run *run, const char *path)
{
	struct target target = { .name = path };
	struct file_aside file;
	struct hiw_err err = { "" };
	int r;

	target.error = file_begin(&file, path);
	if (target.error)
		return fail(&target, target.error, &err);
	target.fd = file.fd;
	r = export_to(run, &target, &err);
	if (file_end(&file, r) < 0 && r == 0)
		r = target.error = -EIO;
	return r < 0 ? fail(&target, r, &err) : 0;
}

static int export_out(struct hiw_run *run)
{
	struct target target = { .name = "to stdout", .fd = STDOUT_FILENO };
	struct hiw_err err = { "" };
	const int r = export_to(run, &target, &err);

	if (r == -EPIPE)
		return EXIT_FAILED;
	return r < 0 ? fail(&target, r, &err) : 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Executes hiwater-otlp, which reports errors of its own. Headers stay in the environment. */
static int become_sender(const char *path)
{
	char program[PATH_MAX], where[PROGRAM_WHY_LEN], file[PATH_MAX + 8], url[PATH_MAX];
	char name[] = "hiwater-otlp", insecure[] = "insecure=1", redact[] = "redact=1";
	char *argv[6] = { name, file };
	size_t n = 2;

	if (program_find("hiwater-otlp", program, sizeof(program)) < 0) {
		program_why_not("hiwater-otlp", where, sizeof(where));
		complain("cannot send: %s; a build without the headers of libcurl omits it; export --to otlp -o FILE writes what "
			 "would be sent",
			where);
		return EXIT_FAILED;
	}
	(void) snprintf(file, sizeof(file), "file=%s", path);
	(void) snprintf(url, sizeof(url), "url=%s", arg_export.endpoint ? arg_export.endpoint : "");
	if (arg_export.endpoint)
		argv[n++] = url;
	if (arg_export.insecure)
		argv[n++] = insecure;
	if (arg_export.redact)
		argv[n++] = redact;
	argv[n] = NULL;
	(void) execv(program, argv);
	complain("cannot run %s: %s", program, strerror(errno));
	return EXIT_FAILED;
}

static int send_run(const char *path)
{
	struct hwi_otlp settings;
	struct hiw_err err = { "" };
	const int r = hwi_otlp_settings(arg_export.endpoint, arg_export.insecure, &settings, &err);

	hwi_otlp_done(&settings);
	if (r < 0) {
		complain("%s", err.text);
		return EXIT_USAGE;
	}
	if (settings.disabled) {
		complain("nothing was sent: OTEL_SDK_DISABLED is true");
		return 0;
	}
	return become_sender(path);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int export_run(const char *name)
{
	autofree char *path = NULL;
	struct hiw_run *run = NULL;
	struct hiw_err err = { "" };
	int r = find_run(name, &path, &err);

	if (r == 0 && strcmp(arg_export.to, "otlp") == 0 && !arg_export.output)
		return send_run(path);
	if (r == 0)
		r = hiw_run_open(path, &run, &err);
	if (r < 0) {
		complain("%s", err.text[0] ? err.text : strerror(-r));
		r = EXIT_FAILED;
	} else {
		r = arg_export.output ? export_into(run, arg_export.output) : export_out(run);
	}
	hiw_run_close(run);
	return r;
}

static int export_main(int argc, char **argv)
{
	if (argc > 1) {
		complain("export takes one RUN; see hiwater export --help");
		return EXIT_USAGE;
	}
	if (!arg_export.to) {
		complain("export needs a format, for example: hiwater export last --to csv");
		return EXIT_USAGE;
	}
	if (!arg_export.output && strcmp(arg_export.to, "nsys-sqlite") == 0) {
		complain("nsys-sqlite is a database, which needs a file: add -o FILE, for example: -o run.sqlite");
		return EXIT_USAGE;
	}
	return export_run(argc == 1 ? argv[0] : "last");
}

static const struct opt opts[] = {
	{ 0, "to", OPT_CHOICE, TO_CHOICES, "the format", parse_to, (void *) &arg_export.to },
	{ 'o', "output", OPT_FILE, "FILE",
		"write to FILE, which appears only when it is complete; if it ends in .gz it is compressed", opt_text,
		(void *) &arg_export.output },
	{ 0, "entity", OPT_CHOICE, ENTITY_CHOICES,
		"what to export (csv: job; json: all; openmetrics: all but processes)", parse_entity,
		(void *) &arg_export.entity },
	{ 0, "series", OPT_TEXT, "NAME",
		"svg: draw the user series NAME instead of the first four; may be repeated", parse_series,
		NULL },
	{ 0, "width", OPT_TEXT, "PIXELS", "svg: width of the picture (820)", parse_pixels,
		&arg_export.width },
	{ 0, "height", OPT_TEXT, "PIXELS", "svg: height of each chart in it (74)", parse_pixels,
		&arg_export.height },
	{ 0, "endpoint", OPT_TEXT, "URL",
		"otlp: the receiver (the variables OTEL_*, else http://localhost:4318)", opt_text,
		(void *) &arg_export.endpoint },
	{ 0, "otlp-insecure", OPT_NONE, NULL, "otlp: allow http:// to another machine, which is not encrypted", opt_flag,
		&arg_export.insecure },
	{ 0, "recent", OPT_NONE, NULL, "the last minutes at full rate instead of as windows", opt_flag,
		&arg_export.recent },
	{ 0, "redact", OPT_NONE, NULL, "leave out user, host, commands and process names", opt_flag,
		&arg_export.redact },
	{ 0 },
};

static const char *const prose[] = {
	"Writes RUN in another program's format to stdout; a run that is still running, or whose recorder "
	"was killed, up to its last recorded second. Values are in base units (bytes, seconds, joules, "
	"watts, degrees Celsius, hertz, ratios of 0 to 1); a value that is not available is left empty or "
	"out, never written as 0.",
	"csv is one table: a line per window, with the minimum, the mean and the maximum of each gauge in "
	"it, so that no burst is lost. json is one object per line; \"kind\" states what it is.",
	"openmetrics has timestamps, for promtool tsdb create-blocks-from openmetrics; it has processes "
	"only with --entity process, since each process adds series of its own. It needs room for the "
	"samples in TMPDIR (/var/tmp).",
	"otlp sends the run to a receiver of OTLP, such as an OpenTelemetry collector, as JSON over HTTP; with -o it writes what would be "
	"sent to FILE, a request per line. The standard variables OTEL_EXPORTER_OTLP_... apply; secrets belong into "
	"OTEL_EXPORTER_OTLP_HEADERS.",
	"perfetto is a trace for ui.perfetto.dev: counters, lifetimes of processes, phases and marks; of a traced run also "
	"ranges, calls, kernels and copies.",
	"chrome and nsys-sqlite have the traced work alone: chrome as torch.profiler writes it, for tools that read its files; "
	"nsys-sqlite as a database with the tables of Nsight Systems' exports, which needs -o.",
	"svg is a picture: CPUs, RAM, GPUs and user series, one below the other on the same time axis.",
	"js1 is the text that jobstats keeps in Slurm's AdminComment (JS1:...), for jobstats and reportseff; sacct is a header and a "
	"line with the names and units of sacct -P, to be joined with its output.",
	"The exit status is 0, 1 if there is no such run or it cannot be read or written, 2 for an invalid "
	"command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater export last --to csv -o job.csv",
	"the last run, a line per window",
	"hiwater export 12 --to csv --entity process",
	"the processes of run 12",
	"hiwater export base --to perfetto -o run.pftrace",
	"a trace to open in ui.perfetto.dev",
	"hiwater export last --to chrome -o trace.json.gz",
	"ranges and kernels of a traced run, for HTA and other readers of torch.profiler's traces",
	"hiwater export last --to nsys-sqlite -o trace.sqlite",
	"the same for scripts that read exports of Nsight Systems",
	"hiwater export base --to otlp --endpoint http://localhost:4318",
	"send a run to an OpenTelemetry collector",
	"hiwater export base --to openmetrics -o run.om",
	"for promtool tsdb create-blocks-from openmetrics run.om DATA",
	"hiwater export last --to svg --series loss -o run.svg",
	"a picture of the run, with its user series loss",
	"hiwater export last --to js1",
	"what jobstats and reportseff read in the AdminComment of a job (docs/slurm.md)",
	NULL,
};

const struct command command_export = {
	.name = "export",
	.usage = "[options] --to FORMAT [RUN]",
	.operands = WHAT_A_RUN_IS " The default is last.",
	.sentence = "convert a run to CSV, JSON, OpenMetrics, OTLP and others",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = export_main,
};
