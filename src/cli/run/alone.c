/* SPDX-License-Identifier: MIT
 *
 * Where hiwater could not work, the job runs all the same.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "cli/cli.h"
#include "cli/run/run.h"

enum {
	/* What is open while the job runs with all that can be asked for (21: the recording with its journals, the GPU helper,
	 * commands of alerts, the clock of --progress), and for a moment beside it: files of /proc, what is written at the end.
	 * Fewer, and processes would be overlooked, recordings lost. */
	FILES_NEEDED = 28,
};

bool run_may_be_alone(const struct run_options *options)
{
	return !options->measure.limits.text[0] && options->repeat == 1;
}

bool run_is_crowded(const struct run_options *options)
{
	return run_may_be_alone(options) && !descriptors_are_left(FILES_NEEDED);
}

int run_alone(const struct run_options *options, char *const *argv)
{
	if (!options->measure.quiet)
		complain("warning: the job is not measured, nothing is written: hiwater needs %d files open beside those it inherits "
			 "(ulimit -n)",
			FILES_NEEDED);
	child_give_back(&options->inherited);
	(void) execvp(argv[0], argv);
	return run_cannot(argv[0], -errno);
}

int run_cannot(const char *file, int error)
{
	complain("cannot run '%s': %s%s", file, strerror(-error), child_why_not(file, -error));
	return error == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
