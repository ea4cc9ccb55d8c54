/* SPDX-License-Identifier: MIT */
#include "findings/figures_of.h"

static const struct acc *acc_of(const struct summary *s, enum metric metric, uint32_t id)
{
	return s->job ? job_acc(s->job, metric, id) : NULL;
}

struct maybe figures_rise(const struct summary *s, enum metric metric)
{
	const struct acc *acc = acc_of(s, metric, 0);

	return acc ? known(acc->last > acc->min ? acc->last - acc->min : 0) : UNKNOWN;
}

struct maybe figures_most(const struct summary *s, enum metric metric, uint32_t id)
{
	const struct acc *acc = acc_of(s, metric, id);

	return acc ? known(acc->max) : UNKNOWN;
}

double figures_mean(const struct summary *s, enum metric metric, uint32_t id)
{
	const struct acc *acc = acc_of(s, metric, id);

	return acc && acc->span_ns > 0 ? acc->sum / (double) acc->span_ns : -1;
}
