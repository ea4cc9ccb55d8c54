/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of hiwater run. run.c parses the options; once.c starts, follows and reports
 * one run of the job; repeat.c repeats that. child.c starts the job, signals.c forwards signals,
 * tree.c reaps children, live.c shows the view.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/measure.h"
#include "cli/run/child.h"
#include "cli/run/endpoint.h"
#include "cli/run/node.h"
#include "cli/run/sender.h"
#include "cli/run/trace.h"
#include "cli/run/where.h"

enum run_cgroup {
	RUN_CGROUP_AUTO,
	RUN_CGROUP_NEW,
	RUN_CGROUP_NONE
};

/* The command's options. */
struct run_options {
	struct measure measure;
	enum run_cgroup cgroup;
	struct ranks ranks;
	uint64_t repeat;
	bool is_last;        /* no further run follows: the job has no more use of what hiwater inherited */
	bool no_subreaper, wait, live, strict;
	struct sender_options otlp;
	struct trace_options trace;
	struct where_options where;
	struct inherited inherited;
	struct endpoint endpoint; /* as it is before a run */
};

/* The outcome of one run of the job. */
struct outcome {
	int own;             /* hiwater's own exit status if the job was not started; else 0 */
	char lack[600];      /* why hiwater cannot start the job as its child, and must become it; "" if it
	                      * can */
	int status;          /* wait status of the main process */
	bool limited;        /* a limit ended the job */
	bool end_requested;      /* hiwater got SIGINT, SIGTERM, SIGHUP or SIGQUIT: no further repetition */
	bool measured;       /* figures is set; with --repeat only */
	struct hiw_figures figures;
};

/* Starts, follows and reports one run. */
void run_once(const struct run_options *options, char *const *argv, struct outcome *ret);

/* Repeats the run and prints a table at the end. *ret is the outcome of the first failing run, else
 * of the last. */
void run_repeatedly(const struct run_options *options, char *const *argv, struct outcome *ret);

/* Executes the command in place of hiwater, unmeasured because of lack. Returns an exit status if the
 * exec fails. */
int run_unmeasured(const struct run_options *options, char *const *argv, const char *lack);

/* Reports that file cannot be executed because of error (-errno). Returns the exit status, 126 or
 * 127. */
int run_exec_failed(const char *file, int error);
