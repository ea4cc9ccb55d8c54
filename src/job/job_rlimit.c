/* SPDX-License-Identifier: MIT
 *
 * Limits of processes (setrlimit): each process has its own and is compared with it alone. The facts
 * of the run name the process that came nearest to its limit.
 */
#include <string.h>

#include "job/job_internal.h"

/* The facts of one kind of limit. */
static struct rlimit_facts {
	struct maybe *limit, *peak, *pid;
	char **name;
} facts_of(struct job *job, enum rlimit_kind k)
{
	struct facts *f = &job->facts;

	if (k == RLIMIT_OF_VM)
		return (struct rlimit_facts) { &f->vm_limit_bytes, &f->vm_peak_bytes, &f->vm_pid,
			&f->vm_name };
	return (struct rlimit_facts) { &f->data_limit_bytes, &f->data_peak_bytes, &f->data_pid,
		&f->data_name };
}

/* What the limit counts, at least. Resident pages are part of the address space. */
static struct maybe use_of(const struct member *m, enum rlimit_kind k)
{
	if (k == RLIMIT_OF_VM && m->program_peak > 0)
		return maybe_max(m->under_rlimit[k], known(m->program_peak));
	return m->under_rlimit[k];
}

static double share_of(struct maybe use, struct maybe limit)
{
	return use.known && limit.known ? (double) use.value / (double) (limit.value + 1) : -1;
}

void rlimits_update(struct job *job, struct member *m)
{
	for (enum rlimit_kind k = 0; k < RLIMITS; k++) {
		const struct rlimit_facts f = facts_of(job, k);
		const struct maybe use = use_of(m, k), limit = m->rlimit[k];

		if (job->rlimit_of[k] == m->p.id && *f.name &&
			strncmp(*f.name, m->p.name, sizeof(m->p.name)) != 0)
			(void) job_set_text(f.name, m->p.name);
		if (!limit.known || (f.limit->known && share_of(use, limit) <= share_of(*f.peak, *f.limit)))
			continue;
		*f.limit = limit;
		*f.peak = use;
		*f.pid = known(m->p.pid);
		if (job->rlimit_of[k] != m->p.id || !*f.name)
			(void) job_set_text(f.name, m->p.name);
		job->rlimit_of[k] = m->p.id;
	}
}
