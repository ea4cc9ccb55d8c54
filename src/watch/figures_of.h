/* SPDX-License-Identifier: MIT
 *
 * What rules read from the job's accumulators.
 */
#pragma once

#include "summary/summary.h"

/* What a counter of the host or the job rose by during the run. */
struct maybe figures_rise(const struct summary *s, enum metric metric);
/* A gauge's largest value, and its mean over the time it is known for; negative if it is unknown. */
struct maybe figures_most(const struct summary *s, enum metric metric, uint32_t id);
double figures_mean(const struct summary *s, enum metric metric, uint32_t id);
