/* SPDX-License-Identifier: MIT
 *
 * hiwater report: writes one HTML page about a run, or about several.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/terminal.h"

static struct {
	const char *output;
	bool redact;
} arg_report;

struct reporting {
	char *paths[HIW_REPORT_RUNS];
	struct hiw_run *runs[HIW_REPORT_RUNS];
	size_t n;
	int fd;
	int error; /* -errno of a failed write, else 0 */
};

static int put(void *ctx, const void *data, size_t len)
{
	struct reporting *r = ctx;

	r->error = file_put(r->fd, data, len);
	return r->error;
}

static int add_run(struct reporting *r, const char *name)
{
	struct hiw_err err = { "" };
	int code;

	if (r->n == HIW_REPORT_RUNS) {
		complain("too many runs: a report shows at most %d", HIW_REPORT_RUNS);
		return EXIT_USAGE;
	}
	code = find_run(name, &r->paths[r->n], &err);
	for (size_t i = 0; code == 0 && i < r->n; i++) {
		if (strcmp(r->paths[i], r->paths[r->n]) == 0) {
			complain("%s is given twice; leave one out", r->paths[i]);
			r->n++;
			return EXIT_USAGE;
		}
	}
	if (code == 0)
		code = hiw_run_open(r->paths[r->n], &r->runs[r->n], &err);
	r->n++;
	if (code == 0)
		return 0;
	complain("%s", err.text[0] ? err.text : strerror(-code));
	return EXIT_FAILED;
}

/* The default name, in the working directory: "train.html" for "train.hiw", "hiwater-17.html" for
 * run 17 of the history. */
static char *usual_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *end = strrchr(name, '.');
	const int len = end && strcmp(end, ".hiw") == 0 ? (int) (end - name) : (int) strlen(name);
	const bool is_number = (int) strspn(name, "0123456789") == len;
	char *ret;

	return asprintf(&ret, "%s%.*s.html", is_number ? "hiwater-" : "", len, name) < 0 ? NULL : ret;
}

static int write_to(struct reporting *r, const char *path, struct hiw_err *err)
{
	const struct hiw_report what = {
		.size = sizeof(what), .redact = arg_report.redact, .write = put, .ctx = r
	};
	struct file_aside file;
	int code;

	r->error = file_begin(&file, path);
	if (r->error)
		return r->error;
	r->fd = file.fd;
	code = hiw_report(r->runs, r->n, &what, err);
	if (file_end(&file, code) < 0 && code == 0)
		code = r->error = -EIO;
	return code;
}

static int make(struct reporting *r)
{
	autofree char *name = arg_report.output ? strdup(arg_report.output) : usual_name(r->paths[0]);
	struct hiw_err err = { "" };
	const int code = name ? write_to(r, name, &err) : -ENOMEM;

	if (code < 0 && r->error)
		complain("cannot write %s: %s", name, strerror(-r->error));
	else if (code < 0)
		complain("%s", err.text[0] ? err.text : strerror(-code));
	if (code < 0)
		return EXIT_FAILED;
	if (!arg_report.output) {
		(void) printf("%s\n", name);
		return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
	}
	return 0;
}

static int report_main(int argc, char **argv)
{
	struct reporting r = { .fd = -1 };
	int status = 0;

	for (int i = 0; status == 0 && i < argc; i++)
		status = add_run(&r, argv[i]);
	if (status == 0 && argc == 0)
		status = add_run(&r, "last");
	if (status == 0)
		status = make(&r);
	for (size_t i = 0; i < r.n; i++) {
		hiw_run_close(r.runs[i]);
		free(r.paths[i]);
	}
	return status;
}

static const struct opt opts[] = {
	{ 'o', "output", OPT_FILE, "FILE.html", "write to FILE.html, which appears only when it is complete",
		opt_text,
		(void *) &arg_report.output },
	{ 0, "redact", OPT_NONE, NULL, "leave out user, host, commands, paths and process names",
		opt_flag, &arg_report.redact },
	{ 0 },
};

static const char *const prose[] = {
	"Writes one HTML page about RUN; a run that is still running, or whose recorder was killed, is "
	"shown up to its last recorded second. The page is self-contained: it loads nothing, and can be "
	"mailed, archived and opened without a network.",
	"It shows the summary and, on one time axis, memory, GPUs, CPUs, input and output, user series, "
	"phases, marks and alerts, and the lifetimes of processes; findings with links to their evidence; "
	"how each figure was obtained; the data for download. Press ? for the keys. Without JavaScript it "
	"shows the figures, the tables and plain pictures of the main curves.",
	"A point of a chart is the minimum, the mean and the maximum of its span of time, so that a peak is "
	"visible at every zoom. Several runs, at most 64, are overlaid, aligned at their starts; of a name, the latest run "
	"is taken. The address FILE.html#t=1.5-3 opens the page at these seconds.",
	"Without -o the page is named after the recording, train.html or hiwater-17.html, in the working "
	"directory, and its name is printed.",
	"The exit status is 0, 1 if there is no such run, it cannot be read or the page cannot be written, "
	"2 for an invalid command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater report",
	"the last run, as hiwater-NUMBER.html",
	"hiwater report train.hiw -o train.html",
	"a recording",
	"hiwater report base new -o two.html",
	"the latest runs called base and new in one set of charts",
	"hiwater report --redact 12 -o to-show.html",
	"run 12, without user, host and commands",
	NULL,
};

const struct command command_report = {
	.name = "report",
	.usage = "[options] [RUN...]",
	.operands = WHAT_A_RUN_IS " The default is last.",
	.sentence = "write a self-contained HTML page: charts, findings, figures",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = report_main,
};
