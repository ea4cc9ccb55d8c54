/* SPDX-License-Identifier: MIT
 *
 * What the files of the command share: the table's rows, exit statuses, how it speaks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/internal.h"
#include "base/opt.h"

enum {
	EXIT_FAILED = 1,        /* what was asked for could not be done */
	EXIT_USAGE = 2,         /* a command line that makes no sense; of run: EXIT_BEFORE_JOB */
	EXIT_LIMIT = 124,       /* ended by --limit */
	EXIT_BEFORE_JOB = 125,  /* hiwater failed before the job began */
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

/* For --help and man pages of whoever takes a RUN (src/record/history/history.c finds it). */
#define WHAT_A_RUN_IS \
	"A RUN is a number of the history (hiwater runs lists them), last, last-1 and so on, a name (its latest run; " \
	"name:3 where it would be read as something else), the path of a recording, or slurm:JOB."

extern const struct command command_run, command_attach, command_top, command_runs, command_show, command_check, command_compare, command_export, command_report, command_mark, command_doctor, command_gpus,
	command_generate;

/* The table, filled by main: hiwater itself, then its commands. */
extern struct command cli_commands[14];
extern const size_t cli_command_count;

/* Writes "hiwater: TEXT" to stderr in one piece. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Complaints go there instead, without "hiwater: " and the end of the line; NULL: to stderr again. */
void complain_through(void (*there)(const char *text));

/* Writes text to stdout. Returns 0, or EXIT_FAILED after a complaint (none if the reader went away). */
int print_out(const char *text, size_t len);

/* True if the environment sets name to something but "" and "0". */
bool environment_says(const char *name);
