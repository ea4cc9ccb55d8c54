/* SPDX-License-Identifier: MIT
 *
 * What a percentage in a rule is of: the same for alerts, limits and checks.
 */
#pragma once

#include "job/job.h"
#include "rules/rule.h"

/* In the metric's unit; of processors in ns a second: of the machine's metrics those that the job may run on, else the
 * quota where it is less. gpu_bytes: the memory of the GPU that the term looks at. Unknown: nothing to take a part of. */
struct maybe whole_of(const struct facts *facts, const struct rule_term *term, struct maybe gpu_bytes);
