/* SPDX-License-Identifier: MIT
 *
 * Who holds most of a GPU's memory: what a limit on it is for.
 */
#include "rules/engine_internal.h"

int watch_keep_holders(struct watch *w)
{
	const struct rule_term held = { .name = { .what = RULE_METRIC, .entity = ENTITY_GPU_PROCESS, .metric = M_GPROC_MEM, .also = -1 } };

	w->entities |= 1U << ENTITY_GPU_PROCESS | 1U << ENTITY_GPU;
	w->holders = cells_slot(&w->cells, &held);
	w->has_holders = true;
	return 0;
}

int32_t watch_holder(const struct watch *w, uint32_t gpu)
{
	const struct crowd *crowd = &w->cells.crowds[ENTITY_GPU_PROCESS];
	double most = 0;
	int32_t pid = 0;

	for (size_t i = 0; w->has_holders && i < crowd->n; i++) {
		const struct place *p = &crowd->places[i];
		const struct cell *cell = &w->cells.slots[w->holders].cells[i];

		if (!p->id || p->gpu != gpu || !p->ours || p->pid == 0 || !cell->known || cell->value <= most)
			continue;
		most = cell->value;
		pid = p->pid;
	}
	return pid;
}

int32_t watch_holder_of_index(const struct watch *w, uint32_t index)
{
	const int place = cells_gpu(&w->cells, index);

	return place < 0 ? 0 : watch_holder(w, w->cells.crowds[ENTITY_GPU].places[place].id);
}
