/* SPDX-License-Identifier: MIT
 *
 * The live runs whose recordings this server may read, each followed from its growing recording: those
 * of the histories, and those that a process called hiwater has open. A recording is opened with the
 * rights of its owner, also by root, so that no user makes the server open what that user could not.
 * Recordings are read at most as often as they are committed, and for at most a twentieth of the time.
 */
#pragma once

#include <hiwater.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "serve/stream.h"

struct serve;

/* A live run. */
struct live_run {
	char *path;
	pthread_mutex_t *lock;   /* the server's */
	uid_t uid;               /* of the file's owner */
	gid_t gid;
	struct hiw_run *run;
	struct hiw_player *player;
	struct stream stream;
	char *id, *name, *command, *user, *scheduler, *scheduler_job, *node, *step, *labels;
	struct hiw_maybe rank, main_pid, limit_bytes, request_bytes;
	int64_t started_wall_ns;
	char pod[256], namespace[256], container[128]; /* Kubernetes; "" if it is in none */
};

struct jobs {
	struct live_run **list;
	size_t n, cap;
	pthread_t thread;
	uint64_t pause_ns;       /* between two reads of the recordings */
	bool is_running;
	_Atomic bool stop;
	int wake;                /* eventfd: written to end the thread */
};

/* Starts the reader. Returns 0 or -errno. */
int jobs_start(struct serve *s);
void jobs_end(struct serve *s);
