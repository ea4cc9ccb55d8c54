/* SPDX-License-Identifier: MIT
 *
 * What lies in the history's folder: NUMBER.hiw, a run of one recording, and NUMBER-SCHEDULER-JOB, the folder of a
 * job whose ranks and nodes have a recording each (job_folder.h), which is one run too. Both take their numbers from one
 * row. Everything else belongs to another program: it does not count and is never removed.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct listed {
	uint64_t number;
	char *key;      /* of a job's folder: "slurm-4711.0"; NULL: a file */
	uint64_t bytes; /* journals included; 0: a number that is reserved, or a folder in which nothing is recorded yet */
	int64_t mtime_s;
};

struct listing {
	char folder[PATH_MAX - NAME_MAX - 1];
	struct listed *runs; /* by number: oldest first */
	size_t n, cap;
};

/* A missing folder is an empty history. with_bytes: those of a job's folder are summed, which takes a stat of each of its
 * files; else its bytes are 1. Returns 0 or -errno with text. */
int history_list(struct listing *ret, bool with_bytes, struct err *err);
void history_list_done(struct listing *list);

#define autolist __attribute__((cleanup(history_list_done)))

/* The path of one of its runs. */
void history_list_path(const struct listing *list, const struct listed *run, char *ret, size_t size);

/* The name "17.hiw" or "17-slurm-4711.0". *ret_key is borrowed from name; NULL: that of a file. */
bool history_name(const char *name, uint64_t *ret_number, const char **ret_key);

/* Is there a recording, or a reserved number, of that name in folder? */
bool history_is_ours(const char *folder, const char *name);

/* The next number: above those in the list and that of the newest run that was removed. People write numbers down, so none is
 * used twice. */
uint64_t history_next(const struct listing *list);
/* Call it before the run of that number is removed. True if the number is stored. */
bool history_note_removed(const char *folder, uint64_t number);
