/* SPDX-License-Identifier: MIT
 *
 * hiwater export: a recording in other programs' formats, to stdout or into a file that is whole or not there.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/terminal.h"

#define TO_CHOICES     "csv|json|openmetrics|perfetto|svg"
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
} arg_export;

static int take_to(const char *value, void *dest, struct err *err)
{
	const int i = opt_choice(value, TO_CHOICES, err);

	*(const char **) dest = value;
	return i < 0 ? i : 0;
}

static int take_entity(const char *value, void *dest, struct err *err)
{
	const int i = opt_choice(value, ENTITY_CHOICES, err);

	*(const char **) dest = value;
	return i < 0 ? i : 0;
}

static int take_series(const char *value, void *dest, struct err *err)
{
	(void) dest;
	if (arg_export.n_series == SERIES_MOST)
		return err_set(err, -EINVAL, "at most %d series", SERIES_MOST);
	arg_export.series[arg_export.n_series++] = value;
	return 0;
}

static int take_pixels(const char *value, void *dest, struct err *err)
{
	uint64_t pixels;
	const char *p = value;

	if (parse_u64(&p, &pixels) < 0 || *p || pixels < 1 || pixels > PIXELS_MOST)
		return err_set(err, -EINVAL, "'%s' is no number of pixels from 1 to %d", value, PIXELS_MOST);
	*(unsigned *) dest = (unsigned) pixels;
	return 0;
}

/* ---- where it goes -------------------------------------------------------------------------------------------------- */

struct target {
	const char *name;
	int fd;
	int error;  /* of writing */
};

static int put(void *ctx, const void *data, size_t len)
{
	struct target *target = ctx;

	target->error = file_put(target->fd, data, len);
	return target->error;
}

/* Complains unless the reader went away; returns the exit status. */
static int fail(const struct target *target, int error, const struct hiw_err *err)
{
	if (target->error)
		complain("cannot write %s: %s", target->name, strerror(-target->error));
	else
		complain("%s", err->text[0] ? err->text : strerror(-error));
	return error == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}

static int export_to(struct hiw_run *run, struct target *target, struct hiw_err *err)
{
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
	};

	return hiw_run_export(run, &what, err);
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

/* ---- the command ---------------------------------------------------------------------------------------------------- */

static int export_run(const char *name)
{
	autofree char *path = NULL;
	struct hiw_run *run = NULL;
	struct hiw_err err = { "" };
	int r = hiw_find(name, &path, &err);

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
		complain("one RUN at a time; see hiwater export --help");
		return EXIT_USAGE;
	}
	if (!arg_export.to) {
		complain("to what? for example: hiwater export last --to csv");
		return EXIT_USAGE;
	}
	return export_run(argc == 1 ? argv[0] : "last");
}

static const struct opt opts[] = {
	{ 0, "to", OPT_CHOICE, TO_CHOICES, "the format", take_to, (void *) &arg_export.to },
	{ 'o', "output", OPT_FILE, "FILE", "into FILE, which is whole or not there", opt_text, (void *) &arg_export.output },
	{ 0, "entity", OPT_CHOICE, ENTITY_CHOICES, "what of it (csv: job; json: all; openmetrics: all but processes)", take_entity,
		(void *) &arg_export.entity },
	{ 0, "series", OPT_TEXT, "NAME", "svg: what the job logged as NAME, in place of the first four; may be given again", take_series, NULL },
	{ 0, "width", OPT_TEXT, "PIXELS", "svg: of the picture (820)", take_pixels, &arg_export.width },
	{ 0, "height", OPT_TEXT, "PIXELS", "svg: of each chart in it (74)", take_pixels, &arg_export.height },
	{ 0, "recent", OPT_NONE, NULL, "the last minutes at full rate in place of their windows", opt_flag, &arg_export.recent },
	{ 0, "redact", OPT_NONE, NULL, "without user, host, commands and names of processes", opt_flag, &arg_export.redact },
	{ 0 },
};

static const char *const prose[] = {
	"Writes RUN in another program's format on stdout, also one that still runs or whose recorder was killed: then up to its "
	"last second. Values are in base units (bytes, seconds, joules, watts, degrees Celsius, hertz, ratios of 0 to 1); what "
	"could not be had is left empty or out, never 0.",
	"csv is one table: a line a window, with the smallest, the mean and the largest value of what goes up and down in it, so "
	"that no burst is lost. json is an object a line, told apart by its \"kind\".",
	"openmetrics has timestamps, for promtool tsdb create-blocks-from openmetrics; processes are in it only if asked for "
	"(--entity process), since each makes series of its own. It needs room for the samples in TMPDIR (/var/tmp).",
	"perfetto is a trace for ui.perfetto.dev: counters, lifetimes of processes, phases and marks.",
	"svg is a picture: CPUs, RAM, GPUs and what the job logged, one below the other over the same time.",
	"The exit status is 0, 1 if there is no such run or it cannot be read or written, 2 for a command line that makes no "
	"sense.",
	NULL,
};

static const char *const examples[] = {
	"hiwater export last --to csv -o job.csv",
	"the last run, a line a window",
	"hiwater export 12 --to csv --entity process",
	"the processes of run 12",
	"hiwater export base --to perfetto -o run.pftrace",
	"to be opened in ui.perfetto.dev",
	"hiwater export base --to openmetrics -o run.om",
	"for promtool tsdb create-blocks-from openmetrics run.om DATA",
	"hiwater export last --to svg --series loss -o run.svg",
	"a picture of the run, with the loss that it logged",
	NULL,
};

const struct command command_export = {
	.name = "export",
	.usage = "[options] --to FORMAT [RUN]",
	.operands = WHAT_A_RUN_IS " Without one it is the last.",
	.sentence = "a run for other programs: CSV, JSON, OpenMetrics, Perfetto, SVG",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = export_main,
};
