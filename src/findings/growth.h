/* SPDX-License-Identifier: MIT
 *
 * Growth of RAM or of GPU memory before it ran out: from the last minimum to that moment, or from the
 * end of the last rest, if memory was flat for a quarter of that time. Pure functions; the incident
 * report and the findings both use them, so that they agree.
 */
#pragma once

#include "findings/incident.h"

struct growth {
	bool known;           /* false: no growth was found */
	int64_t since_ns;
	int64_t from_bytes;
	double per_s;
	double rise;          /* to its end, in bytes */
};

/* From the samples before the moment. victim: the process that the kernel killed then, or NULL. */
struct growth growth_of_levels(const struct incident_moment *moment, const struct process *victim);

/* The least rise that counts as growth towards a limit: a twentieth of it, at most 8 MiB. */
int64_t growth_least(struct maybe limit);

/* Growth of RAM: that of the incident report, which is finer, else from the timeline of the job's
 * anonymous memory. */
struct growth growth_of_run(const struct summary *s);
