/* SPDX-License-Identifier: MIT
 *
 * hiwater compare: runs, or groups of repeated runs, beside each other.
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
	COMPARE_INCOMPLETE = 3, /* of --fail-if, as of check */
};

static struct {
	bool json, md;
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
	static const int statuses[] = { [HIW_PASS] = 0, [HIW_FAIL] = 1, [HIW_INCOMPLETE] = COMPARE_INCOMPLETE };
	const struct hiw_style style = terminal_style(STDOUT_FILENO, arg_compare.units, false);
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
	enum hiw_verdict verdict = HIW_PASS;
	autofree char *text = NULL;
	struct hiw_err err = { "" };
	size_t len = 0;
	int r;

	if (argc < 2) {
		complain("compare what with what? for example: hiwater compare base new");
		return EXIT_USAGE;
	}
	r = hiw_compare(&what, &text, &len, &verdict, &err);
	if (r < 0) {
		complain("%s", err.text[0] ? err.text : strerror(-r));
		return r == -EINVAL ? EXIT_USAGE : what.n_rules > 0 ? COMPARE_INCOMPLETE
								    : EXIT_FAILED;
	}
	if (print_out(text, len))
		return EXIT_FAILED;
	return statuses[verdict];
}

static const struct opt opts[] = {
	{ 0, "by", OPT_TEXT, "HEADS", "a row a group; what the parts of its name are, for example model,data of mlp-original", opt_text,
		(void *) &arg_compare.by },
	{ 0, "fail-if", OPT_TEXT, "RULE", "exit with 1 if it holds: 'ram.peak > +5%'; may be repeated", take_rule, &arg_compare.rules },
	{ 0, "json", OPT_NONE, NULL, "as JSON, in base units", opt_flag, &arg_compare.json },
	{ 0, "md", OPT_NONE, NULL, "as a Markdown table", opt_flag, &arg_compare.md },
	{ 0, "units", OPT_CHOICE, UNITS_CHOICES, "units of amounts: GiB, GB, or bytes (iec)", take_units, &arg_compare.units },
	{ 0 },
};

static const char *const prose[] = {
	"Puts runs beside each other. A name stands for all finished runs of it in the history; runs of one name are a group, and "
	"the first group is the base. Each run counts as one value: mean +- standard deviation over the runs of a group.",
	"With four runs or more in both groups a Mann-Whitney U test (exact, two-sided) says whether a figure differs: '~' stands "
	"where p is over 0.05. With fewer there are too few runs to tell; of single runs the plain differences are shown.",
	"Of more than two groups the table has a row a group and a column a figure, and no test: with many groups some difference "
	"is always found. --by model,data gives each part of the names a column; they are cut at the first of / : , blank - _ that "
	"cuts all of them into as many parts, from the end.",
	"It warns where hosts, processors, commands, sampling intervals, GPUs or their drivers differ.",
	"Rules of --fail-if are those of check with .peak, .mean or .last, on the means of the groups; a percentage with a sign is "
	"relative to the base: 'time > +10%', 'loss.last > 0.5', 'gpu.busy.mean < -5%'.",
	"The exit status is 0, 1 if a rule holds (or a run cannot be read, or stdout not be written), 2 for a rule or a command line that makes no sense, 3 "
	"where the data does not tell: a value was not had, or the end of a run is not recorded.",
	NULL,
};

static const char *const examples[] = {
	"hiwater compare base new",
	"all runs called base, and all called new",
	"hiwater compare last-1 last",
	"the two latest runs",
	"hiwater compare --by model,data mlp-small mlp-large xgb-small xgb-large",
	"what each model uses on each data set",
	"hiwater compare --fail-if 'ram.peak > +5%' base new",
	"a gate for CI",
	NULL,
};

const struct command command_compare = {
	.name = "compare",
	.usage = "[options] RUN RUN...",
	.operands = WHAT_A_RUN_IS " Here a name is all of its finished runs.",
	.sentence = "runs, or groups of runs of one name, beside each other",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = compare_main,
};
