/* SPDX-License-Identifier: MIT
 *
 * Removes from a job the data that identify its user and program: for reports that are shown to
 * others.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job/job_internal.h"

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
		&f->recording, &f->cgroup, &f->left_names, &f->stopped_why, &f->note, &f->vm_name, &f->data_name };

	for (size_t i = 0; i < sizeof(private_facts) / sizeof(private_facts[0]); i++)
		forget(private_facts[i]);
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
