/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/export/export_internal.h"

enum {
	MOST_NAMES = 1 << 20
};

static uint64_t key_of(enum entity entity, uint32_t id)
{
	return (uint64_t) entity << 32 | id;
}

static void free_texts(struct birth *birth)
{
	const char **texts[BIRTH_TEXTS];
	const unsigned n = birth_texts(birth, texts);

	for (unsigned i = 0; i < n; i++)
		free((char *) (uintptr_t) *texts[i]);
}

static int copy_texts(struct birth *birth)
{
	const char **texts[BIRTH_TEXTS];
	const unsigned n = birth_texts(birth, texts);
	int error = 0;

	for (unsigned i = 0; i < n; i++) {
		*texts[i] = strdup(*texts[i] ? *texts[i] : "");
		error = *texts[i] ? error : -ENOMEM;
	}
	return error;
}

static void add(struct export_names *names, const struct birth *birth)
{
	struct birth copy = *birth;
	uint32_t place;
	int error = copy_texts(&copy);

	if (error == 0 && map_get(&names->places, key_of(birth->entity, birth->id), &place)) {
		free_texts(&names->births[place]);
		names->births[place] = copy;
		return;
	}
	if (error == 0)
		error = vec_reserve(&names->births, &names->cap, names->n, sizeof(copy), MOST_NAMES);
	if (error == 0)
		error = map_put(&names->places, key_of(birth->entity, birth->id), (uint32_t) names->n);
	if (error < 0) {
		free_texts(&copy);
		names->error = error;
		return;
	}
	names->births[names->n++] = copy;
}

static void forget(struct export_names *names, enum entity entity, uint32_t id)
{
	struct birth *last = &names->births[names->n - 1];
	uint32_t place;

	if (!map_get(&names->places, key_of(entity, id), &place))
		return;
	map_remove(&names->places, key_of(entity, id));
	free_texts(&names->births[place]);
	if (&names->births[place] != last) {
		names->births[place] = *last;
		(void) map_put(&names->places, key_of(last->entity, last->id), place);
	}
	names->n--;
}

char *names_gpu_number(
	const struct export_names *names, const struct birth *gpu, uint32_t id, char buf[UNITS_LEN])
{
	const long long number = gpu && gpu->gpu.index.known ? (long long) gpu->gpu.index.value
							     : (long long) id;

	(void) snprintf(buf, UNITS_LEN, "%lld", number);
	for (size_t i = 0; gpu && *gpu->gpu.parent && i < names->n; i++) {
		const struct birth *b = &names->births[i];

		if (b->entity == ENTITY_GPU && b->gpu.index.known &&
			strcmp(b->gpu.uuid, gpu->gpu.parent) == 0)
			(void) snprintf(buf, UNITS_LEN, "%lld.%lld", (long long) b->gpu.index.value, number);
	}
	return buf;
}

void names_see(struct export_names *names, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_births; i++)
		add(names, &frame->births[i]);
}

void names_forget(struct export_names *names, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_ends && names->n > 0; i++)
		forget(names, frame->ends[i].entity, frame->ends[i].id);
}

const struct birth *names_find(const struct export_names *names, enum entity entity, uint32_t id)
{
	uint32_t place;

	return map_get(&names->places, key_of(entity, id), &place) ? &names->births[place] : NULL;
}

void names_done(struct export_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free_texts(&names->births[i]);
	free(names->births);
	map_done(&names->places);
}
