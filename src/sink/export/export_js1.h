/* SPDX-License-Identifier: MIT
 *
 * js1: the summary of a job that jobstats keeps in Slurm's AdminComment, and that jobstats, reportseff
 * and others read: "JS1:", then base64 of gzip of JSON.
 */
#pragma once

#include "base/buf.h"
#include "sink/export/export_nodes.h"

enum {
	JS1_BYTES = 60000 /* Slurm's database column ends at 64 KiB */
};

/* Appends the text, without a line feed, at most most bytes long: where it would be longer, nodes in a row
 * are summed as groups of 2, 4, 8, ..., and "grouped" in the JSON says so. Returns 0, -ENOMEM, or
 * -E2BIG if even one group is too long. */
int js1_write(const struct export_job *job, size_t most, struct buf *out);
