/* SPDX-License-Identifier: MIT
 *
 * Where hiwater could not work, the job runs all the same.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run.h"

enum {
	/* What is open while the job runs, and for a moment beside it: files of /proc, the recording with its journals, what is
	 * written at the end. Fewer, and processes would be overlooked, recordings lost. */
	FILES_NEEDED = 14,
	FILES_NEEDED_TO_RECORD = 15,
	FILES_MANY = 64,
};

static int files_needed(const struct run_options *options)
{
	return options->measure.recorder.no_record ? FILES_NEEDED : FILES_NEEDED_TO_RECORD;
}

bool run_is_crowded(const struct run_options *options)
{
	struct pollfd files[FILES_MANY];
	struct rlimit limit;
	rlim_t room = 0;

	/* Whoever asks for a limit does not want the job without it, and repetitions need somebody to count them. */
	if (options->measure.limits.text[0] || options->repeat > 1 || getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
		limit.rlim_cur >= FILES_MANY)
		return false;
	for (rlim_t i = 0; i < limit.rlim_cur; i++)
		files[i] = (struct pollfd) { .fd = (int) i };
	if (poll(files, limit.rlim_cur, 0) < 0)
		return false;
	for (rlim_t i = 0; i < limit.rlim_cur; i++)
		room += files[i].revents == POLLNVAL;
	return room < (rlim_t) files_needed(options);
}

int run_alone(const struct run_options *options, char *const *argv)
{
	if (!options->measure.quiet)
		complain("warning: the job is not measured, nothing is written: hiwater needs %d files open beside those it inherits "
			 "(ulimit -n)",
			files_needed(options));
	child_give_back(&options->inherited);
	(void) execvp(argv[0], argv);
	return run_cannot(argv[0], -errno);
}

int run_cannot(const char *file, int error)
{
	complain("cannot run '%s': %s%s", file, strerror(-error), child_why_not(file, -error));
	return error == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
