/* SPDX-License-Identifier: MIT
 *
 * The recorder's children from before the job, and the processes they start: none of them is part
 * of the job.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/smallfile.h"
#include "source/process/processes_internal.h"

enum {
	PREEXISTING_MAX = 1 << 16
};

void pid_list_done(struct pid_list *l)
{
	free(l->pid);
	*l = (struct pid_list) { 0 };
}

/* Out of memory: the job gets one process too many. */
static int list_add(void *ctx, int32_t pid)
{
	struct pid_list *l = ctx;

	if (vec_reserve(&l->pid, &l->cap, l->n, sizeof(*l->pid), PREEXISTING_MAX) < 0)
		return -ENOMEM;
	l->pid[l->n++] = pid;
	return 0;
}

void processes_list_preexisting(const struct root *root, struct pid_list *ret)
{
	const int fd = root->live && root->proc >= 0 ? smallfile_open(root->proc, "thread-self/children")
						     : -1;

	ret->n = 0;
	if (fd >= 0)
		(void) numbers_children(fd, list_add, ret);
}

bool processes_is_preexisting(const struct processes *p, pid_t pid)
{
	for (size_t i = 0; i < p->preexisting.n; i++) {
		if (p->preexisting.pid[i] == pid)
			return processes_is_ignored(p, pid);
	}
	return false;
}

bool processes_has_preexisting(const struct processes *p)
{
	return p->preexisting.n > 0;
}

static int preexisting_add(void *ctx, int32_t pid)
{
	struct processes *p = ctx;

	/* already known, or started by hiwater itself */
	if (processes_is_ignored(p, pid) || member_of_pid(p, pid))
		return 0;
	processes_ignore(p, pid);
	return list_add(&p->preexisting, pid);
}

void processes_ignore_preexisting(struct processes *p, const struct pid_list *preexisting)
{
	for (size_t i = 0; i < preexisting->n; i++)
		(void) preexisting_add(p, preexisting->pid[i]);
}

struct parent {
	struct processes *p;
	int32_t pid;
};

static int thread_visit(void *ctx, int32_t tid)
{
	const struct parent *parent = ctx;
	char path[PATH_LEN];
	int fd;

	(void) snprintf(path, sizeof(path), "%d/task/%d/children", parent->pid, tid);
	fd = smallfile_open(parent->p->env.root->proc, path);
	return fd < 0 ? 0 : numbers_children(fd, preexisting_add, parent->p);
}

/* The list grows during the loop, so processes found here are visited too. Those that have ended
 * leave the list but stay ignored until their pid is reassigned. */
void preexisting_scan(struct processes *p)
{
	char path[PATH_LEN];

	for (size_t i = 0; i < p->preexisting.n;) {
		struct parent parent = { .p = p, .pid = p->preexisting.pid[i] };

		if (processes_is_ignored(p, parent.pid) &&
			numbers_list(p->env.root->proc, process_path(path, parent.pid, parent.pid, "task"),
				thread_visit, &parent) >= 0)
			i++;
		else
			p->preexisting.pid[i] = p->preexisting.pid[--p->preexisting.n];
	}
}
