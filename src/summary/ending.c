/* SPDX-License-Identifier: MIT
 *
 * How a job ended.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "summary/facts.h"

/* signal(7); real-time signals have no names. */
static const struct {
	int number;
	const char *name;
} signals[] = {
	{ SIGHUP, "SIGHUP" },
	{ SIGINT, "SIGINT" },
	{ SIGQUIT, "SIGQUIT" },
	{ SIGILL, "SIGILL" },
	{ SIGTRAP, "SIGTRAP" },
	{ SIGABRT, "SIGABRT" },
	{ SIGBUS, "SIGBUS" },
	{ SIGFPE, "SIGFPE" },
	{ SIGKILL, "SIGKILL" },
	{ SIGUSR1, "SIGUSR1" },
	{ SIGSEGV, "SIGSEGV" },
	{ SIGUSR2, "SIGUSR2" },
	{ SIGPIPE, "SIGPIPE" },
	{ SIGALRM, "SIGALRM" },
	{ SIGTERM, "SIGTERM" },
	{ SIGXCPU, "SIGXCPU" },
	{ SIGXFSZ, "SIGXFSZ" },
	{ SIGVTALRM, "SIGVTALRM" },
	{ SIGPROF, "SIGPROF" },
	{ SIGIO, "SIGIO" },
	{ SIGPWR, "SIGPWR" },
	{ SIGSYS, "SIGSYS" },
};

const char *figure_signal(int signal, char buf[UNITS_LEN])
{
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		if (signals[i].number == signal)
			return signals[i].name;
	}
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
		end.outcome = s->complete ? OUTCOME_UNSEEN : OUTCOME_UNFINISHED;
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
