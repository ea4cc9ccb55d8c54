/* SPDX-License-Identifier: MIT
 *
 * The traced work of the parts: the sums of each, under processes that have the rank of their part.
 */
#include <errno.h>
#include <stdint.h>

#include "record/merge/merge_internal.h"
#include "record/trace/trace_read.h"
#include "record/trace/trace_write.h"

/* The file that was read last: an earlier merge has many parts. */
struct source {
	size_t input;
	struct replay *r;
	struct trace_read *t; /* NULL: it has no traced work */
};

static void close_source(struct source *s)
{
	trace_read_free(s->t);
	replay_close(s->r);
	s->t = NULL;
	s->r = NULL;
}

/* A list of ranks, a file that has gone since the first pass, or one whose traced work is damaged: the other figures
 * stay. Returns 0 or -ENOMEM. */
static int open_source(struct merge *m, size_t input, struct source *s)
{
	int r;

	if (s->input == input)
		return 0;
	close_source(s);
	s->input = input;
	if (replay_open(m->inputs[input].path, &s->r, NULL) < 0)
		return 0;
	r = trace_read_new(s->r, &s->t, NULL);
	return r == -ENOMEM ? r : 0;
}

static int add_part(struct merge *m, size_t part, struct source *s, struct trace_write *w)
{
	const struct candidate *c = &m->candidates[part];
	const struct part *p = &m->parts->part[part];
	const int64_t was = c->number > 0 ? c->was_start_ns : 0;
	const struct trace_add_options options = {
		.rank = p->rank.known ? p->rank.value : -1,
		.only_its_rank = c->number > 0,
		.shift_ns = p->start_ns.value - was,
		.end_ns = (uint64_t) larger(part_end_ns(p), 0),
	};
	const int r = open_source(m, c->input, s);

	return r == 0 && s->t ? trace_write_add(w, s->t, &options) : r;
}

int merge_copy_trace(struct merge *m)
{
	const struct trace_write_options options = { 0 };
	struct trace_write *w = trace_write_new(m->store, &options);
	struct source source = { .input = SIZE_MAX };
	int r = w ? 0 : -ENOMEM;

	for (size_t i = 0; i < m->n && r == 0; i++)
		r = add_part(m, i, &source, w);
	close_source(&source);
	if (r == 0)
		r = trace_write_flush(w);
	trace_write_free(w);
	return r;
}
