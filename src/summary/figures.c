/* SPDX-License-Identifier: MIT
 *
 * Figures of a summary that facts and other outputs share (facts.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "summary/facts.h"

bool figure_outlived(const struct summary *s)
{
	static const int64_t least_ns = 1000000, least_share = 100;
	const int64_t beyond_ns = s->wall_ns.value - s->main_wall_ns.value;

	return s->wall_ns.known && s->main_wall_ns.known && beyond_ns >= least_ns &&
	       beyond_ns >= s->wall_ns.value / least_share;
}

struct ceiling ceiling_of(const struct summary *s)
{
	const struct facts *f = s->facts;
	struct maybe limit = maybe_min(f->limit_bytes, s->cgroup_limit);
	bool limit_counts = limit.known &&
			    (!f->capacity_bytes.known || limit.value <= f->capacity_bytes.value);

	if (summary_is_batch_only(f))
		return (struct ceiling) { UNKNOWN, "" };
	if (f->request_bytes.known &&
		!(limit_counts && (limit.value < f->request_bytes.value || s->oom_killed)))
		return (struct ceiling) { f->request_bytes, "requested" };
	if (limit_counts)
		return (struct ceiling) { limit, "limit" };
	return (struct ceiling) { f->capacity_bytes,
		s->job && job_parts(s->job) ? "on its nodes" : "on this machine" };
}

struct maybe figure_cores(const struct facts *f)
{
	struct maybe all = f->cpus.known ? known(f->cpus.value * 1000000) : UNKNOWN;

	return maybe_min(all, f->limit_cpu_ppm);
}

static int larger_first(const void *a, const void *b)
{
	const struct process *x = *(const struct process *const *) a, *y = *(const struct process *const *) b;

	if (x->peak_bytes != y->peak_bytes)
		return x->peak_bytes < y->peak_bytes ? 1 : -1;
	return x->id < y->id ? -1 : x->id > y->id;
}

int figure_processes(const struct job *job, const struct process ***ret, size_t *ret_n)
{
	size_t n = job ? job_process_count(job) : 0;
	const struct process **list = n > 0 ? calloc(n, sizeof(*list)) : NULL;

	if (n > 0 && !list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		list[i] = job_process(job, i);
	if (n > 0)
		qsort(list, n, sizeof(*list), larger_first);
	*ret = list;
	*ret_n = n;
	return 0;
}
