/* SPDX-License-Identifier: MIT
 *
 * hiwater compare: compares runs, or groups of repeated runs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/terminal.h"

enum {
	COMPARE_INCOMPLETE = 3, /* of --fail-if; the same status as that of hiwater check */
};

static struct {
	bool json, md, kernels, where;
	enum hiw_units units;
	const char *by;
	struct rules rules;
} arg_compare = { .rules.kind = HIW_RULE_COMPARE };

static size_t count(const char *const *texts)
{
	size_t n = 0;

	while (texts[n])
		n++;
	return n;
}

static int compare_main(int argc, char **argv)
{
	static const int statuses[] = {
		[HIW_PASS] = 0, [HIW_FAIL] = 1, [HIW_INCOMPLETE] = COMPARE_INCOMPLETE
	};
	struct hiw_style style = terminal_style(STDOUT_FILENO, arg_compare.units, false);
	const struct hiw_compare what = {
		.runs = (const char *const *) argv,
		.n_runs = (size_t) argc,
		.rules = arg_compare.rules.text,
		.n_rules = count(arg_compare.rules.text),
		.format = arg_compare.json ? HIW_COMPARE_JSON : arg_compare.md ? HIW_COMPARE_MARKDOWN
									       : HIW_COMPARE_TEXT,
		.style = &style,
		.by = arg_compare.by,
	};
	enum hiw_check_result result = HIW_PASS;
	autofree char *text = NULL;
	struct hiw_err err = { "" };
	size_t len = 0;
	int r;

	if (argc < 2) {
		complain("compare needs at least two RUNs, for example: hiwater compare base new");
		return EXIT_USAGE;
	}
	if (arg_compare.kernels + arg_compare.where + (arg_compare.by ? 1 : 0) > 1) {
		complain("--kernels, --where and --by exclude each other; give one of them");
		return EXIT_USAGE;
	}
	if (arg_compare.kernels || arg_compare.where)
		style.width = terminal_width(STDOUT_FILENO, 0); /* a file or a pipe has whole names */
	r = arg_compare.kernels ? hwi_compare_kernels(&what, &text, &len, &result, &err)
	    : arg_compare.where ? hwi_compare_where(&what, &text, &len, &result, &err)
				: hiw_compare(&what, &text, &len, &result, &err);
	if (r < 0) {
		complain("%s", err.text[0] ? err.text : strerror(-r));
		return r == -EINVAL ? EXIT_USAGE : what.n_rules > 0 ? COMPARE_INCOMPLETE
								    : EXIT_FAILED;
	}
	if (print_out(text, len))
		return EXIT_FAILED;
	return statuses[result];
}

static const struct opt opts[] = {
	{ 0, "by", OPT_TEXT, "HEADS",
		"one row per group, with a column for each part of its name: model,data for mlp-original",
		opt_text, (void *) &arg_compare.by },
	{ 0, "fail-if", OPT_TEXT, "RULE", "exit with 1 if RULE holds: 'ram.peak > +5%'; may be repeated",
		parse_rule, &arg_compare.rules },
	{ 0, "kernels", OPT_NONE, NULL,
		"compare the kernels of traced runs by name, the largest added time first (ranges, if there are none)",
		opt_flag, &arg_compare.kernels },
	{ 0, "where", OPT_NONE, NULL,
		"compare the memory of sampled runs by the function that first touched it, the largest difference first",
		opt_flag, &arg_compare.where },
	{ 0, "json", OPT_NONE, NULL, "print JSON, in base units", opt_flag, &arg_compare.json },
	{ 0, "md", OPT_NONE, NULL, "print a Markdown table", opt_flag, &arg_compare.md },
	{ 0, "units", OPT_CHOICE, UNITS_CHOICES, "units of sizes: GiB, GB, or bytes (iec)", parse_units,
		&arg_compare.units },
	{ 0 },
};

static const char *const prose[] = {
	"Compares runs side by side. A name stands for all finished runs of that name in the history; runs "
	"of one name are a group, and the first group is the base. Each run counts as one value: mean and "
	"standard deviation over the runs of a group.",
	"With four runs or more in both groups, a Mann-Whitney U test (exact, two-sided) decides whether a "
	"figure differs: '~', or the sign for almost equal, means p > 0.05. With fewer runs there is no test: the text states how many runs "
	"it needs, and for which figures every run of one group lies above, or below, every run of the base; "
	"for single runs the plain differences are shown. The last line is the result: time, RAM and GPU "
	"memory in one sentence.",
	"With more than two groups, at most 256, the table has a row per group and a column per figure, and no test: with "
	"many groups some difference is always found. --by model,data gives each part of the names a "
	"column; names are split at the first of / : , blank - _ that splits all of them into as many "
	"parts, from the end.",
	"Runs that did not end with status 0 are named. They are left out of a group in which others did; if "
	"none did, the figures are shown without a comparison, and a rule of --fail-if is not decided.",
	"It warns if hosts, CPUs, commands, sampling intervals, GPUs or GPU drivers differ.",
	"Rules of --fail-if are those of hiwater check with .peak, .mean or .last, applied to the means of "
	"the groups; a percentage with a sign is relative to the base: 'time > +10%', 'loss.last > 0.5', "
	"'gpu.busy.mean < -5%'.",
	"--kernels shows for each kernel of runs that were traced (hiwater run --trace) its total time, count and mean, with the "
	"deviation over the runs of a group; what is in one group only is new or gone. Rules on them select by a pattern of the name, "
	"and fail if one that matches does: 'kernel(\"*gemm*\").total > +10%', 'range(\"step*\").mean > 20ms', also .count.",
	"--where shows for each function of runs that were sampled (hiwater run --where) the memory at the peak that it first touched. "
	"Functions are matched by library and name. +- is one sigma of the difference, which counts beyond two of them; else it is called "
	"the same. Rules on them select by a pattern: 'where(\"load_*\") > +10%', 'where(\"*\") > 2G'; one relative to the base holds "
	"only if the difference counts.",
	"The exit status is 0, 1 if a rule holds (or a run cannot be read, or stdout cannot be written), 2 "
	"for an invalid rule or command line, 3 if the data does not decide: a value is not available, no "
	"run of a group ended with status 0, or the end of a run is not recorded.",
	NULL,
};

static const char *const examples[] = {
	"hiwater compare base new",
	"all runs called base, and all called new",
	"hiwater compare last-1 last",
	"the two latest runs",
	"hiwater report base new -o two.html",
	"the latest run of each in one set of charts",
	"hiwater compare --by model,data mlp-small mlp-large xgb-small xgb-large",
	"a table of what each model uses on each data set",
	"hiwater compare --fail-if 'ram.peak > +5%' base new",
	"a gate for CI",
	"hiwater compare --kernels base new",
	"which kernels became slower",
	"hiwater compare --where --fail-if 'where(\"load_*\") > +10%' base new",
	"which functions touch more memory, as a gate for CI",
	NULL,
};

const struct command command_compare = {
	.name = "compare",
	.usage = "[options] RUN RUN...",
	.operands = WHAT_A_RUN_IS " Here a name stands for all of its finished runs.",
	.sentence = "compare runs, or groups of runs of one name",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = compare_main,
};
