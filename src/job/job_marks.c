/* SPDX-License-Identifier: MIT
 *
 * The user's marks, for the summary: their number, and the last of them. They are stored apart from
 * other events, which may be numerous.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "job/job_internal.h"

/* The number is a fact, too: a thinned recording has lost some marks. */
static void count(struct job *job)
{
	struct maybe *seen = &job->facts.marks_seen;

	job->n_marks++;
	*seen = maybe_max(*seen, known((int64_t) job->n_marks));
}

int mark_apply(struct job *job, const struct event *event)
{
	struct mark *mark = &job->marks[job->n_marks % MARKS_KEPT];
	char *text = strdup(event->text ? event->text : "");

	if (!text)
		return -ENOMEM;
	free(mark->text);
	*mark = (struct mark) { event->time_ns, text };
	count(job);
	return 0;
}

size_t job_mark_count(const struct job *job)
{
	return job->n_marks < MARKS_KEPT ? job->n_marks : MARKS_KEPT;
}

const struct mark *job_mark(const struct job *job, size_t i)
{
	const size_t kept = job_mark_count(job);

	return i < kept ? &job->marks[(job->n_marks - kept + i) % MARKS_KEPT] : NULL;
}

void marks_done(struct job *job)
{
	for (size_t i = 0; i < MARKS_KEPT; i++)
		free(job->marks[i].text);
}
