/* SPDX-License-Identifier: MIT
 *
 * Restores the values of phases that the events of their start and end do not contain.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "job/job_internal.h"

static struct phase *make(struct job *job, const struct phase *from)
{
	struct phase phase = {
		.number = from->number,
		.name = strdup(from->name ? from->name : ""),
		.facts = strdup(from->facts ? from->facts : ""),
	};

	if (!phase.name || !phase.facts || phase_add(job, &phase) < 0) {
		phase_done(&phase);
		return NULL;
	}
	return phase_find(job, from->number);
}

int job_restore_phase(struct job *job, const struct phase *phase)
{
	struct phase *mine = phase_find(job, phase->number);
	char *name, *facts;

	if (!mine)
		mine = make(job, phase);
	if (!mine)
		return -ENOMEM;
	if (phase->end_ns != 0 && !mine->settled)
		phase_settle(job, mine);
	else if (phase->end_ns == 0 && mine->settled && phase_unsettle(job, (size_t) (mine - job->phases)) < 0)
		return -ENOMEM;
	if (mine->end_ns == 0 && phase->end_ns != 0)
		job->n_open--;
	else if (mine->end_ns != 0 && phase->end_ns == 0)
		job->n_open++;
	name = mine->name;
	facts = mine->facts;
	*mine = *phase;
	mine->settled = phase->end_ns != 0;
	mine->name = name;
	mine->facts = facts;
	return 0;
}
