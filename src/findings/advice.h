/* SPDX-License-Identifier: MIT
 *
 * What to request next time, from what this run and the earlier ones used.
 */
#pragma once

#include "findings/finding.h"

/* What one may ask for. Unknown: what was asked for fits, or nothing can be said; then why_not says why. */
struct advice {
	struct maybe mem_bytes, time_ns, cpus;
	char mem_why_not[256], time_why_not[256];
	struct maybe peak_bytes; /* the largest need of all runs; swap and huge pages are in it */
	struct maybe wall_ns;    /* the longest */
	bool peak_is_earlier;    /* that peak was an earlier run's */
	bool peak_is_bound;      /* it is this run's upper bound */
	size_t runs;             /* this one included */
};

void advice_make(const struct known_of_run *k, struct advice *ret);

/* Peak x 1.2 and wall x 1.25, rounded up to what people write: 64 MiB below 1 GiB, 256 MiB below 8, then whole GiB;
 * five minutes. */
int64_t advice_memory(int64_t peak_bytes);
int64_t advice_time(int64_t wall_ns);

/* What is rounded, for people: "27 GiB", "1280 MiB". */
void advice_put_amount(int64_t bytes, struct buf *out);

/* "--mem=27G", "--time=1:30:00", "--cpus-per-task=5": sbatch(1). */
void advice_put_mem(int64_t bytes, struct buf *out);
void advice_put_time(int64_t ns, struct buf *out);
void advice_put_cpus(int64_t cpus, struct buf *out);
