/* SPDX-License-Identifier: MIT
 *
 * Forwards signals so that each reaches the job exactly once.
 *
 * All signals are blocked and read from descriptors. Signals of the terminal (si_code SI_KERNEL) go
 * to the whole foreground group, so the job has them. For any other signal a group probe shows
 * whether the group got it; if not, it is forwarded to main. A check takes 10 ms at most, so that a
 * sender which signals the members one by one (Slurm's linuxproc) reaches the probe too; signals
 * that arrive meanwhile stay pending in the kernel, for the next probe.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stdint.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>
#include <time.h>

#include "cli/run/group_probe.h"

enum {
	SIGNALS_BATCH = 64
};

struct signals {
	int fd, child_fd;                /* every signal but SIGCHLD; SIGCHLD */
	pid_t main;                      /* signals are forwarded to it; 0: main has not started, or has
	                                  * ended */
	struct group_probe now[2];       /* probes for the next check; the second only if the first is
	                                  * stale */
	struct group_probe checked[2];   /* probes of the check in progress */
	struct signalfd_siginfo batch[SIGNALS_BATCH];
	unsigned n;                      /* signals of the check in progress */
	uint64_t due_ns;                 /* when the check ends; 0: none is in progress */
	uint64_t stop_requested_ns;          /* when the job got a stop signal (Ctrl-Z); 0: none, or it was
	                                      * continued */
	bool end_requested;                  /* got SIGINT, SIGTERM, SIGHUP or SIGQUIT: no further
	                                      * repetition, no waiting */
	bool end_requested_late;             /* the same, after main's end */
	struct hiw_recorder *recorder;   /* must ignore the probes, which are not part of the job; NULL:
	                                  * the job is not measured */
};

/* Blocks all signals and opens the descriptors. Returns 0, or -errno with the signal mask
 * restored. */
int signals_block(struct signals *s);

/* main was started: signals that it does not get itself are forwarded to it from now on. */
void signals_begin(struct signals *s, pid_t main, struct hiw_recorder *recorder);

/* main ended: stops forwarding and kills the probes. */
void signals_end(struct signals *s);

/* Closes the descriptors and reaps the probes. Signals stay blocked. */
void signals_close(struct signals *s);

/* After the job: SIGBUS, a fault of another run's recording that is read (hwi_guard_recordings), ends
 * hiwater if it is blocked. The next signals_block blocks it again. */
void signals_allow_faults(void);

/* Call it when fd is readable and no check is in progress: reads the pending signals and starts a
 * check. */
void signals_read(struct signals *s);

/* Continues the check in progress; at due_ns, forwards the signals that the group did not get. */
void signals_check(struct signals *s, uint64_t now_ns);

/* How long ppoll may wait, in *room; NULL: without limit. */
const struct timespec *signals_timeout(const struct signals *s, struct timespec *room);

/* True if pid, a child that has ended, is a probe: it is reaped and, while signals are forwarded,
 * replaced. */
bool signals_lost_probe(struct signals *s, pid_t pid);

/* Stops this process as Ctrl-Z does, so that the shell sees it; returns when it is continued. Does
 * nothing if main (0: there is none) was continued already or a SIGCONT is pending. */
void signals_stop_self(struct signals *s);

/* Ends this process by signal, without a core dump of its own. Returns only if that is impossible
 * (PID 1). */
void signals_die(int signal);
