// SPDX-License-Identifier: MIT
#include "fake.h"

#include <math.h>

/* Memory of all processes of the device, in bytes. */
static double process_memory(const struct fake_scenario *s, const struct fake_gpu *gpu, double t)
{
	double sum = 0;
	unsigned pid;

	for (size_t i = 0; i < s->processes.n; i++) {
		const struct fake_item *process = s->processes.items[i];
		if ((process->gpu == gpu || process->gpu->parent == gpu) &&
			fake_process_lives(process, t, &pid))
			sum += fake_bag_number(&process->bag, "memory", t, 0);
	}
	return sum;
}

int fake_figure(
	const struct fake_scenario *s, const struct fake_gpu *gpu, const char *key, double t, double *ret)
{
	const struct fake_key *found = fake_bag_find(&gpu->bag, key);
	const struct fake_value *v = found ? &found->value : NULL;

	if (!v)
		return 3;
	if (v->kind == FAKE_PROCESSES) {
		*ret = v->a + process_memory(s, gpu, t);
		return 0;
	}
	if (v->kind == FAKE_INTEGRAL) {
		const struct fake_key *of = fake_bag_find(&gpu->bag, v->of);
		if (!of)
			fake_die("%s: no key %s to integrate", key, v->of);
		*ret = v->a + fake_value_integral(&of->value, t);
		return 0;
	}
	return fake_value_at(v, t, ret);
}

int fake_figure_mean(const struct fake_gpu *gpu, const char *key, double from, double until, double *ret)
{
	const struct fake_key *found = fake_bag_find(&gpu->bag, key);
	double last = 0;
	int code = found ? fake_value_at(&found->value, until, &last) : 3;

	if (code != 0)
		return code;
	*ret = NAN;
	if (until > from && !isnan(last))
		*ret = (fake_value_integral(&found->value, until) - fake_value_integral(&found->value, from)) / (until - from);
	return 0;
}
