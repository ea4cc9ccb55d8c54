/* SPDX-License-Identifier: MIT
 *
 * F9: sends a signal to one process of the user's own, after two answers. The recorder sends it, so
 * that it never reaches a reused pid.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "top/top.h"

static const struct {
	int digit, signal;
	const char *name;
} signals[] = {
	{ '1', SIGHUP, "HUP" },
	{ '2', SIGINT, "INT" },
	{ '3', SIGUSR1, "USR1" },
	{ '4', SIGUSR2, "USR2" },
	{ '5', SIGTERM, "TERM" },
	{ '6', SIGSTOP, "STOP" },
	{ '7', SIGCONT, "CONT" },
	{ '9', SIGKILL, "KILL" },
};

enum {
	SIGNALS = sizeof(signals) / sizeof(signals[0])
};

const char *signal_menu(void)
{
	return "1 HUP  2 INT  3 USR1  4 USR2  5 TERM  6 STOP  7 CONT  9 KILL  Esc none";
}

int signal_of(int digit)
{
	for (size_t i = 0; i < SIGNALS; i++) {
		if (signals[i].digit == digit)
			return signals[i].signal;
	}
	return 0;
}

const char *signal_name(int signal)
{
	for (size_t i = 0; i < SIGNALS; i++) {
		if (signals[i].signal == signal)
			return signals[i].name;
	}
	return "?";
}

/* Why no signal can be sent; NULL: it can. missing: the reason if there is no process. */
static const char *why_not(const struct top *t, const struct thing *process, const char *missing)
{
	if (t->options.readonly)
		return "signals are disabled (--readonly)";
	if (!t->feed.recorder)
		return "signals need a live view of the machine or of a process";
	if (!process)
		return missing;
	if (!process->uid.known || (uid_t) process->uid.value != geteuid())
		return "the process belongs to another user";
	return NULL;
}

static bool may_signal(struct top *t, const struct thing *process, const char *missing)
{
	const char *why = why_not(t, process, missing);

	if (why)
		(void) snprintf(t->view.message, sizeof(t->view.message), "%s", why);
	return why == NULL;
}

bool top_may_signal(struct top *t)
{
	return may_signal(t, model_find(&t->model, HIW_PROCESS, t->view.picked), "select a process first");
}

void top_signal(struct top *t, int signal)
{
	const struct thing *process = model_find(&t->model, HIW_PROCESS, t->view.signal_to);
	const long long pid = process ? (long long) process->pid.value : 0;
	int r;

	if (!may_signal(t, process, "the process has ended"))
		return;
	r = hiw_recorder_signal(t->feed.recorder, (pid_t) pid, signal);
	if (r < 0)
		(void) snprintf(t->view.message, sizeof(t->view.message), "%s was not sent to %lld: %s",
			signal_name(signal), pid, strerror(-r));
	else
		(void) snprintf(t->view.message, sizeof(t->view.message), "%s was sent to %lld",
			signal_name(signal), pid);
}
