/* SPDX-License-Identifier: MIT
 *
 * A signal reaches the job exactly once.
 *
 * All signals are blocked and read from descriptors. What the terminal sent (si_code SI_KERNEL) went to the whole
 * foreground group, so the job has it. Of anything else a canary tells whether the group got it: if it did not, main
 * is sent it. A question takes 10 ms at most, in which whoever kills the members one by one (Slurm's linuxproc) comes
 * to the canary too; meanwhile what arrives waits in the kernel, for the next canary.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stdint.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>
#include <time.h>

#include "cli/run/canary.h"

enum {
	SIGNALS_BATCH = 64
};

struct signals {
	int fd, child_fd;                /* every signal but SIGCHLD; SIGCHLD */
	pid_t main;                      /* who is sent what it did not get; 0: nobody (any more) */
	struct canary now[2];            /* those that live while no question is open; the second only if the first is stale */
	struct canary asked[2];          /* those of the open question */
	struct signalfd_siginfo batch[SIGNALS_BATCH];
	unsigned n;                      /* signals of the open question */
	uint64_t due_ns;                 /* when it is answered; 0: none is open */
	uint64_t stop_asked_ns;          /* when the job was asked to stop (Ctrl-Z); 0: not lately */
	bool end_asked;                  /* somebody wants an end of it: no further repetition, no waiting */
	bool end_asked_late;             /* the same, when main had ended */
	struct hiw_recorder *recorder;   /* is told which children are none of the job's; NULL: nobody measures */
};

/* Blocks all signals and opens the descriptors. Returns 0 or -errno, then with signals as they were. */
int signals_block(struct signals *s);

/* main was started: from now on it is sent what it would miss. */
void signals_begin(struct signals *s, pid_t main, struct hiw_recorder *recorder);

/* main ended: nothing is forwarded any more, the canaries are told to go. */
void signals_end(struct signals *s);

/* Closes the descriptors, and waits for the canaries' end. Signals stay blocked. */
void signals_close(struct signals *s);

/* fd is readable and no question is open: takes what waits. */
void signals_take(struct signals *s);

/* Answers the open question if it is time. */
void signals_answer(struct signals *s, uint64_t now_ns);

/* How long ppoll may wait, in *room; NULL: for ever. */
const struct timespec *signals_timeout(const struct signals *s, struct timespec *room);

/* True if pid, which ended, is a canary: it is reaped and, while there is somebody to forward to, replaced. */
bool signals_lost_canary(struct signals *s, pid_t pid);

/* Stops this process as Ctrl-Z does, so that the shell sees it; returns when it goes on. Does nothing if main (0:
 * nobody) goes on already or a SIGCONT is here. */
void signals_stop_self(struct signals *s);

/* Ends this process by signal, without a core of its own. Returns only where that is impossible (pid 1). */
void signals_die(int signal);
