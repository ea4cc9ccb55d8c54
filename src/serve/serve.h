/* SPDX-License-Identifier: MIT
 *
 * hiwater-serve: answers over HTTP what is used now, on a node or by one job.
 *
 * Three threads. The main thread samples the machine (its own recorder) and accepts connections;
 * the reader (jobs.c) follows the recordings of live runs; the HTTP threads of libmicrohttpd
 * format answers from the last frames. They meet at one lock, which is held for as long as it takes
 * to copy or to format values: no file, driver or socket is touched under it, so that neither a
 * slow reader nor a hung driver delays a sample or an answer.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "serve/jobs.h"
#include "serve/stream.h"

enum {
	LISTENERS_MOST = 16,
	NAMES_MOST = 32,         /* of --host-name, --admins, --history, --group */
	TOKEN_MOST = 4096,
};

struct group {
	char *name, *uuids;      /* comma-separated */
};

/* The words that hiwater serve passes (src/cli/serve.c). Borrowed from argv. */
struct serve_options {
	const char *listen[LISTENERS_MOST];
	const char *host_names[NAMES_MOST], *admins[NAMES_MOST], *histories[NAMES_MOST], *groups[NAMES_MOST];
	const char *token_file, *tls_cert, *tls_key, *textfile, *sd_file, *file;
	uint64_t window_ns, interval_ns;
	int jobs;                /* enum which_jobs */
	int parent;              /* of run --listen: ends when this process, its parent, has ended; 0: none */
	bool gpus, with_users, quiet;
};

enum which_jobs {
	JOBS_ALL,
	JOBS_SLURM,
	JOBS_K8S,
	JOBS_SYSTEMD,
	JOBS_NONE
};

struct serve {
	struct serve_options o;
	pthread_mutex_t lock;
	struct stream machine;   /* of a node's server */
	bool has_machine;        /* false: run --listen, one job alone */
	struct jobs jobs;
	char token[TOKEN_MOST];  /* "": none */
	uid_t admins[NAMES_MOST];
	size_t n_admins;
	struct group groups[NAMES_MOST];
	size_t n_groups;
	double cpus;             /* of the machine */
	int64_t capacity_bytes;  /* memory of the machine; 0: unknown */
};

/* Who asks. */
struct viewer {
	bool sees_all;
	bool is_user;            /* uid is known: the peer of a unix socket */
	uid_t uid;
};

/* May the viewer see this run in full? */
static inline bool viewer_sees(const struct viewer *v, uid_t owner)
{
	return v->sees_all || (v->is_user && v->uid == owner);
}

/* The name of the groups (--group) that a GPU is in; "" if none. */
const char *group_of(const struct serve *s, const char *uuid);
