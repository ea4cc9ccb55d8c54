/* SPDX-License-Identifier: MIT
 *
 * A check of a process: which samples' pages are still resident, and how much memory each of them
 * stands for. One thread.
 *
 * A fault may bring one page, a huge page, or none, so samples are not multiplied by a size. The
 * address space is divided into strata, each of so many addresses that about 16 samples are
 * expected, and what is resident of a stratum is measured (one page of 64, through pagemap): its
 * samples share that. Two rules keep it right:
 * - the newest samples count until the stratum's bytes are used up; older ones were freed, and
 *   touched again;
 * - no sample stands for more than (1 + 3/sqrt(n)) times its period: the rest was touched without a
 *   sample, by the kernel in a system call, or moved by mremap. Pages of mapped files are counted
 *   by the file's name and are no function's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "where/sample.h"

/* Mapped files of a process. */
struct check_file {
	char *name;
	uint64_t device, inode, bytes;
};
struct check_files {
	struct check_file *list;
	size_t n, cap;
};
void check_files_done(struct check_files *f);

struct check_options {
	int proc;              /* descriptor of the folder of processes */
	pid_t pid;
	unsigned period;
	/* It shares pages with one that it was forked of, which counts them: its own samples count, each
	 * as what it stands for by itself, as long as their pages are there. most_bytes: of all. */
	bool by_samples;
	uint64_t most_bytes;
	struct check_files *files;
	struct map *shared;    /* of shared memory what processes of this pass have counted */
};

struct check_result {
	uint64_t anonymous, shared; /* bytes that are resident, by probes: what functions may have touched */
	uint64_t sampled;      /* of them, that samples stand for */
	uint64_t huge;         /* bytes of huge pages */
};

struct check;
struct check *check_new(void); /* NULL: out of memory */
void check_free(struct check *l);

/* Checks a process: sets bytes and is_dead of the samples. Returns 0, or -errno if the process
 * cannot be read (it ended: -ESRCH), and then changes nothing. */
int check_process(struct check *l, const struct check_options *options, struct samples *samples,
	struct check_result *ret);
