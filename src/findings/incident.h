/* SPDX-License-Identifier: MIT
 *
 * The incident report of a run that ended badly or raised a trigger: which memory ran out, the top
 * users at that moment, growth before it, the request, advice. Pure functions: the caller reads the
 * samples around the moment from the recording.
 *
 * incident_when() finds the moment and says which memory it concerns; the caller fills in the samples;
 * incident_make() writes the report to the summary.
 */
#pragma once

#include "summary/summary.h"

/* Memory of a process at its last sample before the moment. */
struct incident_use {
	uint32_t id;
	int64_t bytes;
};

/* Memory of the whole job at an instant. */
struct incident_level {
	uint64_t time_ns;
	int64_t bytes;
};

struct incident_moment {
	uint64_t at_ns;
	bool on_gpu;                       /* the moment and all that follows concern GPU memory; else RAM */
	const struct incident_use *uses;   /* in any order; several entries of one process are added up */
	size_t n_uses;
	const struct incident_level *levels; /* of the job, in order of time, up to the moment */
	size_t n_levels;
	bool of_limit; /* levels are of what cannot be freed in the cgroup with the limit, not of RAM */
	const struct touched *touched; /* where the RAM came from, at the last high before; NULL: not sampled */
};

/* Returns true if the run may have an incident to report; then *ret has its time and kind of
 * memory, and nothing else yet. */
bool incident_when(const struct summary *s, struct incident_moment *ret);

/* Fills s->incident if there is an incident; summary_done() frees it. Returns 0 or -ENOMEM. */
int incident_make(struct summary *s, const struct incident_moment *moment);
