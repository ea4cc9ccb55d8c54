/* SPDX-License-Identifier: MIT */
#include "summary/ranks.h"

#include <stdlib.h>

enum {
	RANKS_LISTED = 1 << 16
};

static int by_rank(const void *a, const void *b)
{
	const struct rank_use *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

static void merge(struct rank_use *into, const struct rank_use *one)
{
	into->processes += one->processes;
	into->user_ns += one->user_ns;
	into->is_cpu_partial = into->is_cpu_partial || one->is_cpu_partial;
	into->cpu_ns = into->cpu_ns.known && one->cpu_ns.known ? maybe_sum(into->cpu_ns, one->cpu_ns)
							       : maybe_max(into->cpu_ns, one->cpu_ns);
	if (one->peak_bytes.known &&
		(!into->peak_bytes.known || one->peak_bytes.value > into->peak_bytes.value)) {
		into->peak_bytes = one->peak_bytes;
		into->largest = one->largest;
	}
}

int ranks_of(const struct job *job, struct rank_use **ret, size_t *ret_n)
{
	const size_t all = job ? job_process_count(job) : 0;
	struct rank_use *list = NULL;
	size_t cap = 0, n = 0, kept = 0;

	*ret = NULL;
	*ret_n = 0;
	for (size_t i = 0; i < all; i++) {
		const struct process *p = job_process(job, i);

		if (!p->rank.known)
			continue;
		if (vec_reserve(&list, &cap, n, sizeof(*list), RANKS_LISTED) < 0)
			break;
		list[n++] = (struct rank_use) {
			.rank = p->rank.value,
			.processes = 1,
			.largest = p,
			.peak_bytes = p->peak_bytes > 0 ? known(p->peak_bytes) : UNKNOWN,
			.cpu_ns = p->cpu_known ? known(p->cpu_user_ns + p->cpu_system_ns) : UNKNOWN,
			.user_ns = p->cpu_known ? p->cpu_user_ns : 0,
			.is_cpu_partial = !p->cpu_known,
		};
	}
	if (n == 0)
		return 0;
	qsort(list, n, sizeof(*list), by_rank);
	for (size_t i = 1; i < n; i++) {
		if (list[i].rank == list[kept].rank)
			merge(&list[kept], &list[i]);
		else
			list[++kept] = list[i];
	}
	*ret = list;
	*ret_n = kept + 1;
	return 0;
}

void ranks_list(const struct rank_use *ranks, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n;) {
		size_t last = i;

		while (last + 1 < n && ranks[last + 1].rank == ranks[last].rank + 1)
			last++;
		(void) buf_printf(out, "%s%lld", i > 0 ? ", " : "", (long long) ranks[i].rank);
		if (last > i)
			(void) buf_printf(out, "-%lld", (long long) ranks[last].rank);
		i = last + 1;
	}
}

/* "12.1 GiB, CPU 3.4 s" */
static void figures(const struct rank_use *r, struct buf *out)
{
	char text[UNITS_LEN];

	if (r->peak_bytes.known)
		(void) buf_printf(out, "%s%s", r->largest->peak_exact ? "" : "at least ",
			units_bytes(r->peak_bytes.value, UNITS_IEC, text));
	else
		(void) buf_str(out, "RAM unknown");
	if (r->cpu_ns.known)
		(void) buf_printf(out, ", CPU %s%s", r->is_cpu_partial ? "at least " : "",
			units_duration(r->cpu_ns.value, text));
}

/* "RAM 1.20 GiB (rank 3) to 1.31 GiB (rank 0), CPU 3.1 s (rank 2) to 3.5 s (rank 5)". Ranks of unknown figures are left out. */
static void span(const struct rank_use *list, size_t n, struct buf *out)
{
	const struct rank_use *least = NULL, *most = NULL, *idlest = NULL, *busiest = NULL;
	char low[UNITS_LEN], high[UNITS_LEN];

	for (size_t i = 0; i < n; i++) {
		const struct rank_use *r = &list[i];

		if (r->peak_bytes.known) {
			least = !least || r->peak_bytes.value < least->peak_bytes.value ? r : least;
			most = !most || r->peak_bytes.value > most->peak_bytes.value ? r : most;
		}
		if (r->cpu_ns.known) {
			idlest = !idlest || r->cpu_ns.value < idlest->cpu_ns.value ? r : idlest;
			busiest = !busiest || r->cpu_ns.value > busiest->cpu_ns.value ? r : busiest;
		}
	}
	if (most)
		(void) buf_printf(out, "RAM %s (rank %lld) to %s (rank %lld)",
			units_bytes(least->peak_bytes.value, UNITS_IEC, low), (long long) least->rank,
			units_bytes(most->peak_bytes.value, UNITS_IEC, high), (long long) most->rank);
	if (busiest)
		(void) buf_printf(out, "%sCPU %s (rank %lld) to %s (rank %lld)", most ? ", " : "",
			units_duration(idlest->cpu_ns.value, low), (long long) idlest->rank,
			units_duration(busiest->cpu_ns.value, high), (long long) busiest->rank);
}

void ranks_words(const struct rank_use *ranks, size_t n, struct buf *out)
{
	if (n > 1) {
		span(ranks, n, out);
	} else {
		(void) buf_printf(out, "rank %lld: ", (long long) ranks->rank);
		figures(ranks, out);
	}
}
