/* SPDX-License-Identifier: MIT
 *
 * The newest values of what the job logs, and how they went.
 */
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "top/model.h"

/* Is it a figure of a framework's allocator, "torch/gpu0/allocated_bytes"? */
static bool is_allocator_name(const char *name)
{
	static const char *const devices[] = { "gpu", "GPU-", "MIG-" };
	const char *slash = strchr(name, '/');

	if (!slash || !strchr(slash + 1, '/'))
		return false;
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		if (strncmp(slash + 1, devices[i], strlen(devices[i])) == 0)
			return true;
	}
	return false;
}

/* Those of the program first: what a framework's allocators say of each device may be many. */
static struct series_line *series_of(struct model *m, const char *name)
{
	const bool is_allocator = is_allocator_name(name);
	struct series_line *line;
	char clean[sizeof(m->series[0]->name)];

	model_clean(m, name, clean, sizeof(clean));
	for (size_t i = 0; i < m->n_series; i++) {
		if (strcmp(m->series[i]->name, clean) == 0)
			return m->series[i];
	}
	size_t place = m->n_series;

	if (!is_allocator) {
		while (place > 0 && m->series[place - 1]->is_allocator)
			place--;
	}
	if (place == SERIES_KEPT || !(line = calloc(1, sizeof(*line))))
		return NULL;
	if (m->n_series == SERIES_KEPT)
		free(m->series[--m->n_series]);
	memmove(&m->series[place + 1], &m->series[place], (m->n_series++ - place) * sizeof(line));
	line->is_allocator = is_allocator;
	line->is_bytes = text_ends(name, "bytes");
	memcpy(line->name, clean, sizeof(clean));
	return m->series[place] = line;
}

void model_take_value(struct model *m, const struct hiw_value *v, uint64_t time_ns)
{
	struct series_line *line = series_of(m, v->name);

	if (!line)
		return;
	line->value = v->value;
	line->has_step = v->has_step;
	line->step = v->step;
	if (v->value - v->value == 0) /* neither NaN nor infinite */
		trail_add(&line->trail, time_ns, UINT64_MAX, v->value, v->value); /* until the next one */
}
