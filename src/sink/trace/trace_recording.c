/* SPDX-License-Identifier: MIT
 *
 * What a view has of each recording, copied: the recording is closed before the view is written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "sink/trace/trace_view.h"

enum {
	MOST_NOTES = 100,
};

static int copy_processes(struct trace_view_recording *to, const struct trace_read *t)
{
	const size_t n = trace_read_process_count(t);

	to->processes = calloc(n + 1, sizeof(*to->processes));
	if (!to->processes)
		return -ENOMEM;
	to->n_processes = n;
	for (size_t i = 0; i < n; i++) {
		const struct trace_process *p = trace_read_process(t, (uint32_t) i + 1);

		to->processes[i] = p ? *p : (struct trace_process) { .pid = -1, .rank = -1 };
		to->processes[i].name = strdup(p ? p->name : "");
		to->processes[i].origin = strdup(p ? p->origin : "");
		if (!to->processes[i].name || !to->processes[i].origin)
			return -ENOMEM;
	}
	return 0;
}

static int by_begin(const void *a, const void *b)
{
	const struct trace_window *x = a, *y = b;

	return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

/* In the order of time; their length together counts what overlaps once. */
static int copy_windows(struct trace_view_recording *to, const struct trace_read *t)
{
	const size_t n = trace_read_window_count(t);
	uint64_t until = 0;

	to->windows = calloc(n + 1, sizeof(*to->windows));
	if (!to->windows)
		return -ENOMEM;
	to->n_windows = n;
	for (size_t i = 0; i < n; i++) {
		to->windows[i] = *trace_read_window(t, i);
		to->windows[i].why = strdup(to->windows[i].why);
		if (!to->windows[i].why)
			return -ENOMEM;
	}
	qsort(to->windows, n, sizeof(*to->windows), by_begin);
	for (size_t i = 0; i < n; i++) {
		const uint64_t end =
			to->windows[i].end_ns < to->wall_ns ? to->windows[i].end_ns : to->wall_ns;
		const uint64_t begin = to->windows[i].begin_ns > until ? to->windows[i].begin_ns : until;

		if (begin < end) {
			to->windows_ns += end - begin;
			until = end;
		}
	}
	return 0;
}

/* "trace: process 5 is not followed ..." */
static int copy_notes(struct trace_view_recording *to, const struct job *job)
{
	for (size_t i = 0; i < job_event_count(job); i++) {
		const struct event *event = job_event(job, i);
		const char *text = event->text;

		if (event->kind != EVENT_NOTE || !parse_word(&text, "trace: ") || to->n_notes == MOST_NOTES)
			continue;
		if (vec_reserve(&to->notes, &to->cap_notes, to->n_notes, sizeof(*to->notes), MOST_NOTES) < 0)
			return -ENOMEM;
		to->notes[to->n_notes] = strdup(text);
		if (!to->notes[to->n_notes])
			return -ENOMEM;
		to->n_notes++;
	}
	return 0;
}

int trace_recording_fill(
	struct trace_view_recording *to, struct trace_read *t, const struct job *job, bool is_growing)
{
	const struct facts *f = job_facts_const(job);
	int r;

	*to = (struct trace_view_recording) {
		.argv_json = f->argv_json ? strdup(f->argv_json) : NULL,
		.command = f->command ? strdup(f->command) : NULL,
		.rank = f->rank,
		.wall_ns = f->ended_ns.known ? (uint64_t) f->ended_ns.value : job_now(job),
		.is_growing = is_growing,
		.is_cut = !is_growing && !f->ended_ns.known,
	};
	r = copy_processes(to, t);
	if (r == 0)
		r = copy_notes(to, job);
	if (r == 0)
		r = trace_read_failures(t, to->failures, &to->n_failures, NULL);
	return r == 0 ? copy_windows(to, t) : r;
}

void trace_recording_done(struct trace_view_recording *r)
{
	for (size_t i = 0; r->processes && i < r->n_processes; i++) {
		free((void *) (uintptr_t) r->processes[i].name);
		free((void *) (uintptr_t) r->processes[i].origin);
	}
	for (size_t i = 0; r->windows && i < r->n_windows; i++)
		free((void *) (uintptr_t) r->windows[i].why);
	for (size_t i = 0; i < r->n_notes; i++)
		free(r->notes[i]);
	free(r->notes);
	free(r->processes);
	free(r->windows);
	free(r->argv_json);
	free(r->command);
}
