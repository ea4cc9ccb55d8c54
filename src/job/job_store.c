/* SPDX-License-Identifier: MIT
 *
 * The data of a job that a recording stores, and restoring it.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job/job_internal.h"

void job_each_acc(const struct job *job,
	void (*see)(void *ctx, enum metric metric, uint32_t id, const struct acc *acc), void *ctx)
{
	for (int m = 0; m < METRIC_COUNT; m++) {
		if (job->accs[m].n > 0)
			see(ctx, (enum metric) m, 0, &job->accs[m]);
	}
	for (size_t i = 0; i < job->n_gpu_accs; i++) {
		if (job->gpu_accs[i].acc.n > 0)
			see(ctx, job->gpu_accs[i].metric, job->gpu_accs[i].id, &job->gpu_accs[i].acc);
	}
}

/* Older versions of hiwater stored two stays of one process on a GPU separately; the later one
 * continues. */
static struct acc both_stints(const struct acc *a, const struct acc *b)
{
	const struct acc *first = a->last_at_ns <= b->last_at_ns ? a : b, *then = first == a ? b : a;
	struct acc both = *then;

	both.n += first->n;
	both.rise = first->rise > then->rise ? first->rise : then->rise;
	both.min = first->min < then->min ? first->min : then->min;
	if (first->max >= then->max) {
		both.max = first->max;
		both.max_at_ns = first->max_at_ns;
	}
	both.sum += first->sum;
	both.span_ns += first->span_ns;
	return both;
}

int job_restore_acc(struct job *job, enum metric metric, uint32_t id, const struct acc *acc)
{
	struct acc *mine = acc_make(job, metric, id);

	if (!mine)
		return metrics[metric].entity == ENTITY_GPU ? -ENOMEM : 0;
	*mine = metrics[metric].entity == ENTITY_GPU_PROCESS && mine->n > 0 ? both_stints(mine, acc) : *acc;
	if (acc->last_at_ns > job->now_ns)
		job->now_ns = acc->last_at_ns;
	return 0;
}

/* Later frames continue from the restored values of counters. */
static void counters_restore(struct member *m)
{
	const struct process *p = &m->p;
	const struct counter user = { 0, p->cpu_user_ns, p->cpu_known };
	const struct counter system = { 0, p->cpu_system_ns, p->cpu_known };

	m->young = true;
	m->tree[TREE_USER].own = user;
	m->tree[TREE_SYSTEM].own = system;
	m->tree[TREE_FAULTS].own = (struct counter) { 0, p->faults_minor, p->cpu_known };
	m->tree[TREE_FAULTS].waited = (struct counter) { 0, p->faults_waited, p->cpu_known };
	m->plain[PLAIN_READ_BYTES] = (struct counter) { 0, p->read_bytes, p->io_known };
	m->plain[PLAIN_WRITE_BYTES] = (struct counter) { 0, p->write_bytes, p->io_known };
	m->program_peak = p->peak_bytes;
}

int job_restore_process(struct job *job, const struct process *process)
{
	char *command = strdup(process->command ? process->command : "");
	struct member *m = command ? member_find(job, process->id) : NULL;

	if (command && !m)
		m = member_make(job, process->id, !process->ended);
	if (!m) {
		free(command);
		return -ENOMEM;
	}
	free(m->p.command);
	m->p = *process;
	m->p.command = command;
	counters_restore(m);
	if (m->live != NOT_ALIVE) {
		job->live[m->live].rss = process->rss_bytes;
		job->live[m->live].file = process->rss_file_bytes;
		job->live[m->live].is_main = process->is_main;
		job->live[m->live].rss_known = true;
	}
	if (process->is_main)
		job->main = m;
	else
		job->n_ended += process->ended;
	job->seen++;
	if (process->peak_bytes > job->largest_peak)
		job->largest_peak = process->peak_bytes;
	return 0;
}

/* The events of a phase's start and end do not contain all its values. */
static struct phase *phase_make(struct job *job, const struct phase *from)
{
	struct phase phase = {
		.number = from->number,
		.name = strdup(from->name ? from->name : ""),
		.facts = strdup(from->facts ? from->facts : ""),
	};

	if (!phase.name || !phase.facts || phase_add(job, &phase) < 0) {
		phase_done(&phase);
		return NULL;
	}
	return phase_find(job, from->number);
}

int job_restore_phase(struct job *job, const struct phase *phase)
{
	struct phase *mine = phase_find(job, phase->number);
	char *name, *facts;

	if (!mine)
		mine = phase_make(job, phase);
	if (!mine)
		return -ENOMEM;
	if (phase->end_ns != 0 && !mine->settled)
		phase_settle(job, mine);
	else if (phase->end_ns == 0 && mine->settled &&
		 phase_unsettle(job, (size_t) (mine - job->phases)) < 0)
		return -ENOMEM;
	if (mine->end_ns == 0 && phase->end_ns != 0)
		job->n_open--;
	else if (mine->end_ns != 0 && phase->end_ns == 0)
		job->n_open++;
	name = mine->name;
	facts = mine->facts;
	*mine = *phase;
	mine->settled = phase->end_ns != 0;
	mine->name = name;
	mine->facts = facts;
	return 0;
}

/* ---- without names ---------------------------------------------------------------------------
 *
 * Removes the data that identify the user and the program: for reports that are shown to others. */

static void forget(char **text)
{
	free(*text);
	*text = NULL;
}

static void empty(const char *text)
{
	if (text && *text)
		*(char *) (uintptr_t) text = '\0';
}

void job_redact(struct job *job)
{
	struct facts *f = &job->facts;
	char **const private_facts[] = { &f->user, &f->host, &f->command, &f->argv_json, &f->directory,
		&f->recording, &f->cgroup, &f->left_names, &f->stopped_why, &f->note, &f->vm_name,
		&f->data_name };

	for (size_t i = 0; i < sizeof(private_facts) / sizeof(private_facts[0]); i++)
		forget(private_facts[i]);
	if (job->parts)
		parts_redact(job->parts);
	for (size_t i = 0; i < job->n_members; i++) {
		struct process *p = &job->members[i]->p;

		memset(p->name, 0, sizeof(p->name));
		memcpy(p->name, "process", sizeof("process"));
		empty(p->command);
	}
	for (size_t i = 0; i < job->gpu_users.n; i++)
		empty(job->gpu_users.list[i].birth.gpu_process.name);
	for (size_t i = 0; i < job->n_events; i++) {
		if (event_is_private(&job->events[i]))
			empty(job->events[i].text);
	}
}
