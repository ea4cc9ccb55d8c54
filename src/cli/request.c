/* SPDX-License-Identifier: MIT
 *
 * hiwater request: what to request for the next run of a job.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/terminal.h"

static struct {
	bool json;
	enum hwi_request_format format;
	double margin, quantile;
	const char *by;
} arg_request = { .margin = 0.2, .quantile = 1 };

/* The value of an option without an argument. */
static enum hwi_request_format formats[] = {
	HWI_REQUEST_SLURM,
	HWI_REQUEST_PBS,
	HWI_REQUEST_LSF,
	HWI_REQUEST_SGE,
	HWI_REQUEST_K8S,
	HWI_REQUEST_SNAKEMAKE,
	HWI_REQUEST_NEXTFLOW,
};

static int parse_format(const char *value, void *dest, struct err *err)
{
	const enum hwi_request_format format = *(enum hwi_request_format *) dest;

	(void) value;
	if (arg_request.format != HWI_REQUEST_AUTO && arg_request.format != format)
		return err_set(err, -EINVAL, "two formats were given; leave one out");
	arg_request.format = format;
	return 0;
}

/* "20%" or, if fractions are allowed, "0.95". Returns false if it is neither. */
static bool parse_share(const char *text, bool fraction, double *ret)
{
	const char *p = text;
	double value;

	if (parse_double(&p, &value) < 0 || !(value >= 0))
		return false;
	parse_blanks(&p);
	if (strcmp(p, "%") == 0)
		*ret = value / 100;
	else if (fraction && *p == '\0')
		*ret = value;
	else
		return false;
	return true;
}

static int parse_margin(const char *value, void *dest, struct err *err)
{
	static const double most = 10;

	if (!parse_share(value, false, dest) || *(double *) dest > most)
		return err_set(err, -EINVAL, "invalid margin '%.40s'; give a percentage from 0%% to 1000%%, such as 20%%",
			value);
	return 0;
}

static int parse_quantile(const char *value, void *dest, struct err *err)
{
	double *quantile = dest;

	if (!parse_share(value, true, quantile) || *quantile <= 0 || *quantile > 1)
		return err_set(err, -EINVAL, "invalid quantile '%.40s'; give a number above 0, at most 1, such as 0.95",
			value);
	return 0;
}

static int parse_by(const char *value, void *dest, struct err *err)
{
	const char *key = value + strspn(value, "-");

	if (!*key || strchr(key, '='))
		return err_set(err, -EINVAL, "invalid key '%.40s'; give the name of an argument, such as rows", value);
	*(const char **) dest = key;
	return 0;
}

static int request_main(int argc, char **argv)
{
	const struct hiw_style style = terminal_style(STDOUT_FILENO, HIW_IEC, false);
	const struct hwi_request what = {
		.runs = (const char *const *) argv,
		.n_runs = (size_t) argc,
		.format = arg_request.format,
		.json = arg_request.json,
		.margin = arg_request.margin,
		.quantile = arg_request.quantile,
		.by = arg_request.by,
		.style = &style,
	};
	autofree char *text = NULL;
	struct hiw_err err = { "" };
	bool is_known = false;
	size_t len = 0;
	int r;

	if (argc == 0) {
		complain("request needs a NAME or a RUN, for example: hiwater request last");
		return EXIT_USAGE;
	}
	r = hwi_request(&what, &text, &len, &is_known, &err);
	if (r < 0) {
		complain("%s", err.text[0] ? err.text : strerror(-r));
		return EXIT_FAILED;
	}
	r = print_out(text, len);
	return r ? r : is_known ? 0
				: EXIT_FAILED;
}

#define FORMAT_ROW(i, name, sentence) \
	{ 0, name, OPT_NONE, NULL, sentence, parse_format, &formats[i] }

static const struct opt opts[] = {
	FORMAT_ROW(0, "slurm", "a line for sbatch (the default, unless the newest run ran under another scheduler)"),
	FORMAT_ROW(1, "pbs", "a line for qsub of PBS Professional or OpenPBS"),
	FORMAT_ROW(2, "lsf", "a line for bsub"),
	FORMAT_ROW(3, "sge", "a line for qsub of Grid Engine"),
	FORMAT_ROW(4, "k8s", "the resources of a Kubernetes container, in YAML"),
	FORMAT_ROW(5, "snakemake", "threads and resources of a Snakemake rule"),
	FORMAT_ROW(6, "nextflow", "directives of a Nextflow process"),
	{ 0, "json", OPT_NONE, NULL, "print JSON, in base units", opt_flag, &arg_request.json },
	{ 0, "margin", OPT_TEXT, "PERCENT", "what to add to the peak of memory (20%)", parse_margin,
		&arg_request.margin },
	{ 0, "quantile", OPT_TEXT, "Q", "the share of the runs for which the request is enough (1: all of them)",
		parse_quantile, &arg_request.quantile },
	{ 0, "by", OPT_TEXT, "KEY",
		"a request for each value of KEY: an argument (--KEY=1, --KEY 1, KEY=1) or a part of the run's "
		"name (NAME/KEY=1, NAME-KEY1)",
		parse_by, (void *) &arg_request.by },
	{ 0 },
};

static const char *const prose[] = {
	"Prints what to request for the next run of a job, from what its runs used. A name stands for all of "
	"its finished runs in the history. Everything but the request itself is a comment, so that the "
	"output can be pasted into a script.",
	"Memory is the largest peak of all runs (the upper bound where there is one; swap and huge pages are "
	"added) and the margin, rounded up to 64 MiB below 1 GiB, to 256 MiB below 8 GiB, else to 1 GiB. Time "
	"is the longest run and 50 %, rounded up to 5 minutes. CPUs are the cores of the busiest stretch, or "
	"of the mean of a short run, rounded up. GPUs are those on which the job used memory.",
	"A run that failed, was killed or was lost needed at least what it used. If it used more than every "
	"run that ended well, the figure is given as 'at least', or as 'more than' if a memory or time limit "
	"ended it. If no run ended well, and no limit ended one, no request can be made. Runs whose work was "
	"not measured (srun, several ranks, clients of daemons such as docker or kubectl) do not count, nor do "
	"whole programs where the newest run of that name is a block or was attached, or the reverse.",
	"With --quantile below 1 the request is enough for that share of the runs, by the estimate of Kaplan "
	"and Meier, in which a run that ended early counts up to its end; the output states how many of the "
	"runs would have failed.",
	"If something was requested for the newest run (--request of hiwater run, or the scheduler), the "
	"output states whether that was too little, about right or too much.",
	"The exit status is 0, 1 if there is no such run, it cannot be read, or no request can be made, 2 for "
	"an invalid command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater request xgb",
	"from all runs called xgb, for the scheduler that they ran under",
	"hiwater request --k8s --margin 30% last",
	"from the last run, for Kubernetes, with more room",
	"hiwater request --by rows xgb",
	"a request for each number of rows",
	"hiwater request --quantile 0.95 --json align",
	"enough for 95 % of the runs, for a program",
	NULL,
};

const struct command command_request = {
	.name = "request",
	.usage = "[options] NAME|RUN...",
	.operands = WHAT_A_RUN_IS " Here a name stands for all of its finished runs.",
	.sentence = "what to request for the next run of a job",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = request_main,
};
