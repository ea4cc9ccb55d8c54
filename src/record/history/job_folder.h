/* SPDX-License-Identifier: MIT
 *
 * The files of a job's folder (docs/jobs.md): NODE-rRANK[-RESTART].hiw of a rank, NODE[-RESTART].hiw of a node, NODE.ranks with
 * a line for each rank that keeps no recording. Only regular files count, and no link is followed: what else lies
 * there belongs to another program and stays.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A recording in the folder. */
struct job_part {
	char *path;
	int64_t rank;   /* by its name; -1: of a node */
	uint64_t bytes; /* without its journal */
	int64_t mtime_s; /* the latest, of the file and its journal */
	bool has_journal; /* it is being written on this machine, or its recorder was killed */
};

struct job_parts {
	struct job_part *parts; /* those of nodes first, then by rank, of one rank the latest start first */
	size_t n, cap;
	int64_t mtime_s;        /* the latest, of the folder and the files in it */
};

/* "slurm-4711.0": a scheduler or launcher, and its job. */
bool job_folder_is_key(const char *key);
/* The key as a part of a file's name, of at most JOB_KEY_BYTES with its NUL. Returns 0, or -EINVAL if it is none. */
enum {
	JOB_KEY_BYTES = 200
};
int job_folder_key(const char *key, char *ret, size_t size);
/* Is word, "slurm:4711", a launcher and a job? Then it returns what follows the colon, and *ret_launcher is static; else NULL. */
const char *job_folder_word(const char *word, const char **ret_launcher);

/* The sum of the files of hiwater in folder/name. Returns 0 or -errno. */
int job_folder_bytes(int folder, const char *name, uint64_t *ret);

/* Returns 0 or -errno; ret is empty then. */
int job_folder_parts(const char *path, struct job_parts *ret);
void job_parts_done(struct job_parts *parts);

#define autoparts __attribute__((cleanup(job_parts_done)))

/* Removes the files of hiwater, then the folder. Returns 0, -ENOTEMPTY with a text that names one of the files that
 * stay, or another -errno with text. */
int job_folder_remove(const char *path, struct err *err);
