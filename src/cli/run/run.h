/* SPDX-License-Identifier: MIT
 *
 * What the files of hiwater run share.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/measure.h"
#include "cli/run/child.h"

enum run_cgroup {
	RUN_CGROUP_AUTO,
	RUN_CGROUP_NEW,
	RUN_CGROUP_NONE
};

/* What the options say. */
struct run_options {
	struct measure measure;
	enum run_cgroup cgroup;
	uint64_t repeat;
	bool no_subreaper, wait, live;
	struct inherited inherited;
};

/* How one run of the job went. */
struct outcome {
	int own;             /* hiwater's own exit status where the job never began; else 0 */
	int status;          /* main's, as waitpid gives it */
	bool limited;        /* a limit ended it */
	bool end_asked;      /* somebody asked for an end: no further repetition */
	bool measured;       /* figures are known; they are asked for with --repeat only */
	struct hiw_figures figures;
};

/* Starts, follows and reports one run. */
void run_once(const struct run_options *options, char *const *argv, struct outcome *ret);

/* Runs it over and over, prints a table at the end; *ret is the outcome of the last or first failing run. */
void run_repeatedly(const struct run_options *options, char *const *argv, struct outcome *ret);

/* May the job run where hiwater cannot work? Whoever asks for a limit does not want it without that one, and repetitions
 * need somebody to count them. */
bool run_may_be_alone(const struct run_options *options);

/* May it, and so few files be open (ulimit -n) that hiwater could not work? */
bool run_is_crowded(const struct run_options *options);

/* Becomes the command, unmeasured. Comes back with an exit status where it cannot be run. */
int run_alone(const struct run_options *options, char *const *argv);

/* Says that file cannot be run because of error (-errno). Returns the exit status. */
int run_cannot(const char *file, int error);
