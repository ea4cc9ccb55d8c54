/* SPDX-License-Identifier: MIT
 *
 * Requests for the next run (memory, time, CPUs), from the use of this run and of earlier ones.
 */
#pragma once

#include "findings/finding.h"

/* Advised requests. An unknown value: the request of this run fits or cannot be judged; the why_not
 * text says which. */
struct advice {
	struct maybe mem_bytes, time_ns, cpus;
	char mem_why_not[256], time_why_not[256];
	struct maybe peak_bytes; /* largest need of all runs, swap and huge pages included */
	struct maybe wall_ns;    /* longest of all runs */
	bool peak_is_earlier;    /* the peak is of an earlier run */
	bool peak_is_bound;      /* the peak is this run's upper bound */
	size_t runs;             /* this run included */
};

void advice_make(const struct known_of_run *k, struct advice *ret);

/* Peak x 1.2, rounded up to a multiple of 64 MiB below 1 GiB, of 256 MiB below 8 GiB, else of 1
 * GiB; wall time x 1.25, rounded up to 5 minutes. */
int64_t advice_memory(int64_t peak_bytes);
int64_t advice_time(int64_t wall_ns);

/* Writes an amount from advice_memory() or a request: "27 GiB", "1280 MiB". */
void advice_put_amount(int64_t bytes, struct buf *out);

/* Write options of sbatch(1), each after a space: "--mem=27G", "--time=1:30:00", "--cpus-per-task=5". */
void advice_put_mem(int64_t bytes, struct buf *out);
void advice_put_time(int64_t ns, struct buf *out);
void advice_put_cpus(int64_t cpus, struct buf *out);
