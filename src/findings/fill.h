/* SPDX-License-Identifier: MIT
 *
 * What fills a memory limit. A cgroup's limit counts the processes' memory, files in tmpfs, shared
 * memory, the kernel's own use and the page cache, which is freed first. Pure functions; the incident
 * report and the findings both use them, so that they agree.
 */
#pragma once

#include "base/buf.h"
#include "summary/summary.h"

struct fills {
	struct incident_part parts[FILLS]; /* the largest first; small ones are left out */
	size_t n;
	bool is_group;                     /* of a cgroup's limit; else of the machine's memory */
};

/* What filled the limit at a time. job: RAM of the job's processes then. */
struct fills fills_at(const struct summary *s, uint64_t at_ns, struct maybe job, struct maybe limit);

/* Appends "tmpfs and shared memory 551 MiB, processes of the job 4 MiB". */
void fills_put(const struct fills *fills, struct buf *text);

/* A gauge's value at a time: its largest if that was reached in the seconds before, else its last. */
struct maybe value_near(const struct summary *s, enum metric metric, uint64_t at_ns);

/* True if tmpfs and shared memory are at least half of what cannot be freed in the cgroup with the
 * limit at that time. */
bool is_filled_by_shmem(const struct summary *s, uint64_t at_ns);
