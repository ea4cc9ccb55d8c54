/* SPDX-License-Identifier: MIT
 *
 * hiwater merge: the recordings of all ranks of a job as one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/measure.h"

static struct {
	const char *output;
} arg_merge;

/* A path as it is; else a RUN of the history. */
static int find_input(const char *word, char **ret, struct hiw_err *err)
{
	if (access(word, F_OK) < 0)
		return find_run(word, ret, err);
	*ret = strdup(word);
	return *ret ? 0 : -ENOMEM;
}

static int merge_main(int argc, char **argv)
{
	struct hiw_err err = { "" };
	char **paths = calloc((size_t) argc + 1, sizeof(*paths));
	int r = paths ? 0 : -ENOMEM;

	if (argc < 1 || !arg_merge.output) {
		complain("merge needs %s; see hiwater merge --help",
			argc < 1 ? "a folder, or the recordings of a job's ranks"
				 : "a name for the result, -o JOB.hiw");
		free(paths);
		return EXIT_USAGE;
	}
	for (int i = 0; i < argc && r == 0; i++)
		r = find_input(argv[i], &paths[i], &err);
	if (r == 0)
		r = hwi_merge((const char *const *) paths, (size_t) argc, arg_merge.output, &err);
	if (r < 0)
		complain("%s", err.text[0] ? err.text : strerror(-r));
	for (int i = 0; paths && i < argc; i++)
		free(paths[i]);
	free(paths);
	return r < 0 ? EXIT_FAILED : 0;
}

static const struct opt opts[] = {
	{ 'o', "output", OPT_FILE, "JOB.hiw", "write the result to JOB.hiw, which must not exist", opt_text,
		(void *) &arg_merge.output },
	{ 0 },
};

static const char *const prose[] = {
	"Merges the recordings of all ranks and nodes of one job into one small recording, which every "
	"command reads as any other. A folder "
	"given to show, report, export, check or compare is merged in the same way, so the figures are the "
	"same.",
	"The result depends neither on the order of the files nor on how many merges led to it: merging "
	"two halves, and then the results, "
	"gives the same. A file that cannot be read is listed in the result. Of a folder with several jobs "
	"the newest is merged.",
	"The exit status is 0, 1 if nothing could be merged or the result cannot be written, 2 for an "
	"invalid command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater merge runs/4711.0 -o job.hiw",
	"the ranks of step 0 of job 4711",
	"hiwater merge n1.hiw n2.hiw -o both.hiw",
	"two merged halves of a job",
	NULL,
};

const struct command command_merge = {
	.name = "merge",
	.usage = "[options] DIR|FILE|RUN...",
	.sentence = "the recordings of all ranks of a job as one",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = merge_main,
};
