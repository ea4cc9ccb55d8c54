/* SPDX-License-Identifier: MIT
 *
 * MIG: instances of a divided GPU are devices of their own. They have uuid, memory, processes and GPM; everything else
 * is their GPU's. A handle is valid until the GPU is divided anew.
 */
#include <string.h>

#include "source/nvidia/nvml/internal.h"

static struct nvml_gpu *find(struct source *s, const struct nvml_gpu *parent, const char *uuid)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i]->parent == parent && s->gpus[i]->state != NVML_ENDED && strcmp(s->gpus[i]->uuid, uuid) == 0)
			return s->gpus[i];
	}
	return NULL;
}

/* The instance behind a handle, found or made; NULL without memory or where it does not tell who it is. */
static struct nvml_gpu *meet(struct source *s, struct nvml_gpu *parent, void *handle, unsigned index)
{
	char uuid[NVML_NAME] = "";

	if (NVML_CALL(&s->nvml, uuid, handle, uuid, sizeof(uuid)) != NVML_SUCCESS)
		return NULL;
	struct nvml_gpu *d = find(s, parent, uuid);

	if (!d)
		d = nvml_gpu_add(s);
	if (!d)
		return NULL;
	bool is_new = !d->parent || d->state != NVML_AWAKE;

	d->parent = parent;
	d->handle = handle;
	d->index = index;
	d->state = NVML_AWAKE;
	if (NVML_CALL(&s->nvml, gpu_instance, handle, &d->gpu_instance) != NVML_SUCCESS ||
		NVML_CALL(&s->nvml, compute_instance, handle, &d->compute_instance) != NVML_SUCCESS)
		d->gpu_instance = d->compute_instance = NVML_NONE_U32;
	if (is_new)
		(void) nvml_identify(s, d);
	return d;
}

static void end(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	const struct end gone = { .entity = ENTITY_GPU, .id = d->id, .how = END_SEEN };

	if (out) {
		nvml_processes_end(d, out);
		framebuf_end(out, &gone);
	}
	nvml_gpm_drop(s, d);
	d->state = NVML_ENDED;
}

void nvml_instances_find(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	unsigned mode = 0, pending, most = 0;
	bool was_divided = d->mig;

	nvml_turn_to(s, d);
	if (NVML_CALL(&s->nvml, mig_mode, d->handle, &mode, &pending) != NVML_SUCCESS || mode != 1)
		mode = 0;
	d->mig = mode;
	if (!d->mig && !was_divided)
		return;
	if (d->mig != was_divided)
		memset(d->tries, 0, sizeof(d->tries)); /* what it gives is another thing now */
	for (size_t i = 0; i < s->n_gpus; i++)
		s->gpus[i]->met = false;
	if (d->mig && NVML_CALL(&s->nvml, mig_count, d->handle, &most) != NVML_SUCCESS)
		most = 0;
	for (unsigned i = 0; i < most && i < NVML_MAX_DEVICES; i++) {
		void *handle = NULL;
		/* NOT_FOUND is a hole: others may follow. */
		struct nvml_gpu *instance = NVML_CALL(&s->nvml, mig_by_index, d->handle, i, &handle) == NVML_SUCCESS
						    ? meet(s, d, handle, i)
						    : NULL;

		if (instance)
			instance->met = true;
	}
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct nvml_gpu *instance = s->gpus[i];

		if (instance->parent == d && instance->state != NVML_ENDED && !instance->met)
			end(s, instance, out);
	}
}
