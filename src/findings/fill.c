/* SPDX-License-Identifier: MIT */
#include "findings/fill.h"

#include <stdlib.h>

#include "base/units.h"

enum {
	PART_LEAST = 100,   /* parts below a hundredth of the whole are left out */
	CACHE_LEAST = 20    /* page cache is freed first: below a twentieth it fills nothing */
};

struct maybe value_near(const struct summary *s, enum metric metric, uint64_t at_ns)
{
	static const uint64_t near_ns = UINT64_C(5000000000);
	const struct acc *acc = s->job ? job_acc(s->job, metric, 0) : NULL;

	if (!acc)
		return UNKNOWN;
	return known(acc->max_at_ns + near_ns >= at_ns ? acc->max : acc->last);
}

static int by_size(const void *a, const void *b)
{
	const struct incident_part *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void add(struct fills *f, enum fill fill, int64_t bytes)
{
	if (bytes > 0)
		f->parts[f->n++] = (struct incident_part) { fill, bytes };
}

/* The largest first, without small ones. */
static void settle(struct fills *f)
{
	int64_t whole = 0;

	for (size_t i = 0; i < f->n; i++)
		whole += f->parts[i].bytes;
	qsort(f->parts, f->n, sizeof(f->parts[0]), by_size);
	while (f->n > 1 && f->parts[f->n - 1].bytes < whole / PART_LEAST)
		f->n--;
}

/* RAM of processes includes shared memory that they map; where there is little, it is theirs alone,
 * and it may have grown since the cgroup was read. */
static int64_t own_memory(struct maybe anon, struct maybe job, int64_t shmem)
{
	const int64_t least = anon.known ? anon.value : 0;

	return job.known && shmem < job.value / 2 ? larger(least, job.value) : least;
}

static void fill_group(const struct summary *s, uint64_t at_ns, struct maybe job, int64_t limit,
	struct fills *ret)
{
	const struct maybe all = value_near(s, M_JOB_LIMIT_UNRECLAIMABLE, at_ns),
			   anon = value_near(s, M_JOB_ANON, at_ns);
	const int64_t shmem = value_near(s, M_JOB_LIMIT_SHMEM, at_ns).value;
	const bool is_alone = summary_limit_is_own(s);
	/* where others share the limit it is not read, and is counted with them */
	const int64_t kernel = is_alone ? value_near(s, M_JOB_CGROUP_KERNEL, at_ns).value : 0;
	const int64_t cache = value_near(s, M_JOB_CGROUP_FILE, at_ns).value;
	const int64_t of_processes = larger(all.value - shmem - kernel, 0);
	const struct maybe known_anon = is_alone ? maybe_max(anon, known(of_processes)) : anon;
	int64_t room = larger(limit - shmem - kernel, 0);
	const int64_t own = smaller(own_memory(known_anon, job, shmem), room);

	add(ret, FILL_SHMEM, smaller(shmem, limit));
	add(ret, FILL_KERNEL, kernel);
	add(ret, FILL_PROCESSES, own);
	room -= own;
	if (!is_alone)
		add(ret, FILL_OTHERS, smaller(larger(of_processes - own, 0), room));
	else if (smaller(cache, room) >= limit / CACHE_LEAST)
		add(ret, FILL_CACHE, smaller(cache, room));
}

/* Shared memory and other processes of the whole machine. */
static void fill_machine(const struct summary *s, uint64_t at_ns, struct maybe job, struct fills *ret)
{
	const struct maybe used = value_near(s, M_HOST_MEM_USED, at_ns);
	const int64_t shmem = value_near(s, M_HOST_SHMEM, at_ns).value;
	const int64_t own = own_memory(value_near(s, M_JOB_ANON, at_ns), job, shmem);

	add(ret, FILL_SHMEM, shmem);
	add(ret, FILL_PROCESSES, own);
	add(ret, FILL_OTHERS, used.known ? used.value - shmem - own : 0);
}

struct fills fills_at(const struct summary *s, uint64_t at_ns, struct maybe job, struct maybe limit)
{
	const struct maybe of_group = s->facts->limit_bytes, capacity = s->facts->capacity_bytes;
	struct fills f = { .is_group = of_group.known && limit.known && of_group.value == limit.value };

	if (f.is_group && s->job && job_acc(s->job, M_JOB_LIMIT_UNRECLAIMABLE, 0))
		fill_group(s, at_ns, job, limit.value, &f);
	else if (!f.is_group && limit.known && capacity.known && limit.value == capacity.value)
		fill_machine(s, at_ns, job, &f);
	else if (job.known)
		add(&f, FILL_PROCESSES, job.value);
	settle(&f);
	return f;
}

void fills_put(const struct fills *fills, struct buf *text)
{
	char number[UNITS_LEN];

	for (size_t i = 0; i < fills->n; i++)
		buf_printf(text, "%s%s %s", i > 0 ? ", " : "", fill_words(fills->parts[i].fill),
			units_bytes(fills->parts[i].bytes, UNITS_IEC, number));
}

bool is_filled_by_shmem(const struct summary *s, uint64_t at_ns)
{
	const struct maybe all = value_near(s, M_JOB_LIMIT_UNRECLAIMABLE, at_ns),
			   shmem = value_near(s, M_JOB_LIMIT_SHMEM, at_ns);

	return all.known && shmem.known && shmem.value > 0 && shmem.value >= all.value / 2;
}
