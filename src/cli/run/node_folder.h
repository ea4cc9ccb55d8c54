/* SPDX-License-Identifier: MIT
 *
 * Where the recorders of the ranks on one node meet: a folder of the user's on the node, KEY-NODE below hiwater-UID in
 * XDG_RUNTIME_DIR or /tmp, one for each start of ranks. It has
 *
 *     lock        the recorder that holds it (flock) is the leader, until it ends: the kernel releases the lock even of a
 *                 recorder that is killed
 *     PID-START   the main process of a rank: its pid and start time (procfs, stat field 22), so that the file of a recorder
 *                 that was killed is not taken for another process; its contents: the rank, and the PID namespace
 *     reported    a leader has printed the summary of the node
 *
 * No file is trusted that another user may have made: the folders belong to this user, with mode 0700.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/maybe.h"
#include "base/root.h"

struct node_folder {
	int dir;                 /* -1: no folder */
	struct root root;
	int lock;                /* held; -1: this recorder is not the leader */
	char path[512];
	char own[64];            /* the announcement of this recorder; "": none */
	int64_t mtime_ns;        /* of the folder when it was listed; 0: never */
	bool settled;            /* the folder was older than the clock of its time when it was listed */
};

#define NODE_FOLDER_NONE { .dir = -1, .lock = -1 }

/* A rank's main process. */
struct node_rank {
	pid_t pid;
	uint64_t start_ticks;
	struct maybe rank;
};

/* Makes the folder, or opens that of the other recorders. name: KEY-NODE. Returns 0, or -errno with text; then *ret is
 * NODE_FOLDER_NONE. */
int node_folder_open(const char *name, struct node_folder *ret, struct err *err);

/* Tries to become the leader. True if this recorder is the leader, now or since before. Never blocks. */
bool node_folder_lead(struct node_folder *f);

/* Announces a rank of this recorder by its main process, a child of the caller that was not reaped. Returns 0 or -errno. */
int node_folder_announce(struct node_folder *f, pid_t pid, struct maybe rank);

/* Has the folder changed since it was listed, or can that not be said? */
bool node_folder_changed(struct node_folder *f);

/* Calls see with the main process of each rank, as far as it is still running, in no order. The announcement of one that has ended is
 * removed. Returns how many are in another PID namespace, for which see is not called. */
size_t node_folder_list(
	struct node_folder *f, void (*see)(void *ctx, const struct node_rank *rank), void *ctx);

/* True for the first caller of all recorders. */
bool node_folder_report(struct node_folder *f);

/* Removes the announcement, gives up the lock, and removes the folder if no rank is announced in it. */
void node_folder_leave(struct node_folder *f);
