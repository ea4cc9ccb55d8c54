/* SPDX-License-Identifier: MIT */
#include "where/sample.h"

#include <stdlib.h>

#include "where/events.h"

void sample_ref(struct sample *s)
{
	s->users++;
}

void sample_forget_record(struct sample *s)
{
	if (!s->record)
		return;
	*s->raw_bytes -= s->record->sample.stack_bytes;
	free(s->record);
	image_unref(s->image);
	s->record = NULL;
	s->image = NULL;
}

void sample_unref(struct sample *s)
{
	if (--s->users > 0)
		return;
	sample_forget_record(s);
	free(s);
}

struct sample *sample_first(struct sample *s)
{
	return s->twin ? s->twin : s;
}

void sample_unwound(struct sample *s, uint32_t stack)
{
	s->stack = stack;
	s->has_failed = stack == 0;
	sample_forget_record(s);
}

bool samples_append(struct samples *list, struct sample *s)
{
	if (list->n == list->cap) {
		const size_t cap = list->cap ? 2 * list->cap : 64;
		struct sample **const grown = realloc(list->list, cap * sizeof(struct sample *));

		if (!grown)
			return false;
		list->list = grown;
		list->cap = cap;
	}
	list->list[list->n++] = s;
	return true;
}

void samples_drop_dead(struct samples *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++) {
		if (list->list[i]->is_dead)
			sample_unref(list->list[i]);
		else
			list->list[n++] = list->list[i];
	}
	list->n = n;
}

void samples_done(struct samples *list)
{
	for (size_t i = 0; i < list->n; i++) {
		list->list[i]->is_dead = true;
		sample_unref(list->list[i]);
	}
	free(list->list);
	*list = (struct samples) { .list = NULL };
}
