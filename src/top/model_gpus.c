/* SPDX-License-Identifier: MIT
 *
 * The GPUs of a model: what they are called, whether they are used, and what processes do on all of them.
 */
#include <stdio.h>
#include <string.h>

#include "top/model.h"

bool model_uses(const struct model *m, const struct thing *gpu)
{
	const struct figure *f = model_figure(m, gpu, GPU_JOB_MEM);

	return m->machine || (f && f->peak > 0);
}

static bool is_instance(const struct thing *gpu)
{
	return gpu->instance_of && *gpu->instance_of;
}

void model_gpu_name(const struct model *m, size_t place, const char *whole, const char *instance, char buf[GPU_NAME])
{
	const struct thing *gpu = m->gpus[place];
	const long long number = gpu->index.known ? (long long) gpu->index.value : (long long) place;
	size_t of = 0;

	while (of < m->n_gpus && !(is_instance(gpu) && m->gpus[of]->uuid && strcmp(m->gpus[of]->uuid, gpu->instance_of) == 0))
		of++;
	if (of < m->n_gpus && m->gpus[of]->index.known)
		(void) snprintf(buf, GPU_NAME, "%s%lld.%lld", instance, (long long) m->gpus[of]->index.value, number);
	else
		(void) snprintf(buf, GPU_NAME, "%s%lld", is_instance(gpu) ? instance : whole, number);
}

static void add(struct hiw_maybe *sum, const struct figure *f)
{
	if (f)
		*sum = (struct hiw_maybe) { sum->value + f->value, true };
}

void model_settle(struct model *m)
{
	for (size_t i = 0; i < m->n; i++)
		m->things[i]->gpu_mem = m->things[i]->gpu_busy_ppm = (struct hiw_maybe) { 0, false };
	for (size_t i = 0; i < m->n; i++) {
		const struct thing *t = m->things[i];
		struct thing *process = t->entity == HIW_GPU_PROCESS ? model_find(m, HIW_PROCESS, t->process) : NULL;

		if (!process)
			continue;
		add(&process->gpu_mem, model_figure(m, t, ON_GPU_MEM));
		add(&process->gpu_busy_ppm, model_figure(m, t, ON_GPU_BUSY));
	}
}
