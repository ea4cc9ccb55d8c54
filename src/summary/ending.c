/* SPDX-License-Identifier: MIT
 *
 * How a job ended.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/textwidth.h"
#include "base/units.h"
#include "summary/facts.h"

const char *figure_signal(int signal, char buf[UNITS_LEN])
{
	const char *name = units_signal(signal);

	if (name)
		return name;
	(void) snprintf(buf, UNITS_LEN, "signal %d", signal);
	return buf;
}

struct ending ending_of(const struct summary *s)
{
	const struct facts *f = s->facts;
	const struct maybe code = job_exit_code(f);
	const int status = (int) f->exit_status.value;
	struct ending end = { .outcome = OUTCOME_EXIT, .code = (int) code.value, .code_known = code.known };

	if (!code.known)
		end.outcome = !s->complete              ? OUTCOME_UNFINISHED
			      : f->raised && *f->raised ? OUTCOME_RAISED
							: OUTCOME_UNSEEN;
	else if (f->stopped_by.known)
		end.outcome = OUTCOME_LIMIT;
	else if (WIFSIGNALED(status)) {
		end.outcome = OUTCOME_SIGNAL;
		end.signal = WTERMSIG(status);
	}
	return end;
}

bool ended_badly(const struct summary *s)
{
	const struct ending end = ending_of(s);

	return end.outcome == OUTCOME_SIGNAL || end.outcome == OUTCOME_LIMIT ||
	       end.outcome == OUTCOME_RAISED ||
	       (end.outcome == OUTCOME_EXIT && end.code != 0);
}

/* The kernel killed main, not descendants alone. */
static bool killed_main(const struct incident *incident)
{
	bool is_main = false;

	for (size_t i = 0; i < incident->n_processes; i++)
		is_main |= incident->processes[i].killed && incident->processes[i].process->is_main;
	return is_main;
}

const char *out_of_memory_words(const struct summary *s)
{
	if (s->oom_killed)
		return killed_main(&s->incident) ? ": out of memory, the kernel ended it"
						 : ": out of memory, the kernel killed a process";
	return s->lost ? ": the recording breaks off close to the memory limit, the kernel may have killed the job and hiwater for lack of memory"
		       : ": out of memory is suspected";
}

bool finding_is_repeated(const struct summary *s, const struct finding *f)
{
	return s->incident.what && s->incident.is_kill && f->fired && strcmp(f->code, "out-of-memory") == 0;
}

bool figure_is_node(const struct facts *f)
{
	return f->part && strcmp(f->part, "node") == 0;
}

void figure_node(const struct facts *f, struct buf *out)
{
	const char *name = f->node && *f->node ? f->node : f->host;
	const struct maybe n = f->local_ranks;

	buf_printf(out, "node" NB "%s", name ? name : "unknown");
	if (n.known)
		buf_printf(out, ", %lld" NB "%s", (long long) n.value, n.value == 1 ? "rank" : "ranks");
}

bool figure_is_block(const struct facts *f, struct buf *ret_title)
{
	const bool is_cell = f->by_cell.value == 1, has_name = f->name && *f->name;

	if (!is_cell && f->by_block.value != 1)
		return false;
	/* Of a whole notebook, which hiwater on measures. */
	if (is_cell && has_name && strcmp(f->name, "notebook") == 0)
		buf_str(ret_title, f->name);
	else
		buf_printf(ret_title, "%s%s%s", is_cell ? "cell" : "block", has_name ? " " : "",
			has_name ? f->name : "");
	return true;
}
