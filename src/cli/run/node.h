/* SPDX-License-Identifier: MIT
 *
 * hiwater run as one of several ranks (docs/jobs.md). Of the recorders on a node one is the leader: it has a second recorder, of the
 * union of all ranks there and of what exists once per node (the host, the GPUs, the cgroup), in the same process and loop. The others
 * try once a second to become it. Where a node has several ranks, their own recorders are light: a sample each second, no GPUs.
 *
 * Nothing here stops a job: without a folder to meet in (node_folder.h) there is a warning, and no recorder of the node.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/run/node_folder.h"

/* The ranks that keep a recording of their own (--ranks). */
struct ranks {
	enum {
		RANKS_DEFAULT, /* all, or of more than 64 the leaders */
		RANKS_ALL,
		RANKS_LEADER,
		RANKS_LIST
	} which;
	const char *list;  /* "0,8,16" */
};

/* Parses "all", "leader" or a list of ranks. Returns 0, or -EINVAL with text. */
int parse_ranks(const char *value, void *dest, struct err *err);

struct node {
	const struct measure *measure;   /* borrowed */
	const char *const *argv;         /* borrowed */
	struct hwi_rank rank;
	struct node_folder folder;
	struct hiw_recorder *recorder;   /* of the node; NULL: this process is not the leader, or cannot be */
	bool started;                    /* recorder measures at least one rank */
	bool ended;
	bool has_rank_0;
	bool warned;                     /* of ranks in another PID namespace */
	struct node_rank *ranks;         /* those that recorder measures or has measured */
	size_t n, cap;
	uint64_t next_try_ns;            /* CLOCK_BOOTTIME */
};

#define NODE_NONE { .folder = NODE_FOLDER_NONE }

/* Reads which rank this is and meets the other recorders of the node. Call it before the recorder of the rank is made. measure and argv
 * must outlive n. */
void node_prepare(struct node *n, const struct measure *measure, const char *const *argv);

/* What the recorder of this process measures, and whether it keeps a recording. */
enum hwi_part node_own_part(const struct node *n, const struct ranks *ranks);

/* Makes the options of the rank's recorder light where the node's recorder measures the rest, except what the user asked for. True if the
 * rank's recorder leaves the GPUs to the node's. */
bool node_lighten(const struct node *n, struct hiw_options *o);

/* The job has started as main: announces it, and begins to measure the node if this is the leader. rank: the recorder of the rank. */
void node_begin(struct node *n, pid_t main, struct hiw_recorder *rank);

/* The descriptor of the node's recorder; -1: none. It changes when this process becomes the leader. */
int node_fd(const struct node *n);

/* node_fd is readable: takes a sample, with the ranks that have come meanwhile. */
void node_step(struct node *n, struct hiw_recorder *rank);

/* Call it after each step of the rank's recorder: becomes the leader if there is none, at most once a second. */
void node_try(struct node *n, struct hiw_recorder *rank);

/* A child was reaped that may be the helper of the node's recorder. */
void node_reaped(struct node *n, pid_t pid, int status);

/* The job has ended: ends the node's recording. */
void node_end(struct node *n);

/* How much this rank prints of itself if the user did not choose; the summary of all ranks is the node's. */
enum summary_kind node_summary_kind(const struct node *n);

/* The leader on the node of rank 0 prints the summary of its node, and how to see the whole job. recorder: of the rank. */
void node_report(struct node *n, struct hiw_recorder *recorder);

/* Leaves the folder, after which another recorder may become the leader, and frees everything. */
void node_leave(struct node *n);
