/* SPDX-License-Identifier: MIT
 *
 * run --where: samples the page faults of the job. hiwater-where (src/where/) is a child of
 * hiwater, which opens its events while the job's process waits to execute its program.
 */
#pragma once

#include <hiwater.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "api/internal.h"
#include "base/err.h"
#include "cli/run/trace.h"

struct where_options {
	bool enabled, fine, python;
	unsigned stack_bytes;
};

/* Of one run. */
struct where_job {
	bool enabled, quiet, strict;
	char *program;           /* its path; NULL: not enabled */
	struct hiw_recorder *recorder;
	pid_t pid;               /* of hiwater-where; 0: not running */
};

/* Parser of the option; dest is a struct where_options. */
int parse_where(const char *value, void *dest, struct err *err);

/* Before the recorder is made: what is to be sampled, in ret. What is missing is a warning, or with
 * strict an error. Returns 0, or -errno after a complaint. */
int where_prepare(struct where_job *w, const struct where_options *options, bool strict, bool quiet,
	struct hwi_sampling *ret);

/* For struct launch: the job's process, which waits, is sampled from its exec on. ctx: a struct
 * where_job. *ret_reader: the sampler. Returns 0, also where it cannot be, after a warning; with strict -errno after a
 * complaint. */
int where_hold(void *ctx, pid_t pid, pid_t *ret_reader);

/* The child with that pid was reaped. */
void where_left(struct where_job *w);
/* After the recording is complete: waits for the child's end. */
void where_end(struct where_job *w);
