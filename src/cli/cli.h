/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the command: the rows of the command table, exit statuses, output and
 * messages.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/internal.h"
#include "base/opt.h"

enum {
	EXIT_FAILED = 1,        /* the command failed */
	EXIT_USAGE = 2,         /* invalid command line; hiwater run exits with EXIT_BEFORE_JOB instead */
	EXIT_LIMIT = 124,       /* a --limit ended the job */
	EXIT_BEFORE_JOB = 125,  /* hiwater failed before the job began */
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

/* For --help and the man pages of the commands with a RUN operand (src/record/history/history.c
 * resolves it). */
#define WHAT_A_RUN_IS \
	"A RUN is a run number (hiwater runs lists them), last, last-1 and so on, a name (its latest run; " \
	"name:NAME where NAME alone would be read as something else), the path of a recording or of a " \
	"folder with those of one job, or slurm:JOB[.STEP], torchrun:ID or mpi:ID (the newest step of that job; also what " \
	"was written with -o)."

extern const struct command command_run, command_attach, command_top, command_runs, command_show,
	command_check, command_compare, command_request, command_export, command_report, command_mark,
	command_merge, command_import, command_collect, command_doctor, command_gpus, command_serve,
	command_trace, command_where, command_generate;

/* The command table, filled by main(): hiwater itself, then its commands. */
extern struct command cli_commands[21];
extern const size_t cli_command_count;

/* Writes "hiwater: TEXT\n" to stderr, in one write if it is short, with control characters masked;
 * waits patience_ms at most for a slow reader. */
void print_message(const char *text, int patience_ms);

/* The same, waiting PATIENCE_SHORT_MS. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on complain() passes its text, without "hiwater: " and newline, to handler (NULL: to
 * stderr again), and report_usage_error() calls usage. */
void complain_through(void (*handler)(const char *text), void (*usage)(void));

/* The command line is invalid; what is wrong was reported by complain(). */
void report_usage_error(void);

/* Writes text to stdout. Returns 0, or EXIT_FAILED after a complaint (no complaint on EPIPE). */
int print_out(const char *text, size_t len);

/* True if the environment sets name to a value other than "" and "0". */
bool environment_flag(const char *name);
