/* SPDX-License-Identifier: MIT
 *
 * A job as the accounting of schedulers has it: its nodes with what they had and used, and its tasks.
 * The formats js1 and sacct are written from these arrays alone. export_job_read() is the only place
 * that fills them: a recording of one rank or one node has one of each, one of a merged job as many as it
 * has parts.
 */
#pragma once

#include "summary/summary.h"

struct export_gpu {
	char index[16];            /* as the driver numbers it: "0"; "0.2" for an instance */
	struct maybe util_ppm;     /* mean over time */
	struct maybe used_bytes;   /* the job's peak there; the device's where the driver does not say */
	struct maybe total_bytes;
};

struct export_node {
	char name[256];
	struct maybe cpus;         /* that the job may use */
	struct maybe cpu_ns;       /* used */
	struct maybe used_bytes;   /* peak of memory */
	struct maybe total_bytes;  /* requested, else the limit, else the machine's */
	struct export_gpu *gpus;
	size_t n_gpus;
};

struct export_task {
	struct maybe rank;
	size_t node;               /* its index in nodes */
	struct maybe peak_bytes, mean_bytes, read_bytes, write_bytes;
};

struct export_job {
	struct maybe wall_ns, cpu_ns, energy_uj;
	struct maybe request_bytes, request_cpus, request_gpus; /* over all nodes */
	struct maybe n_nodes, n_tasks; /* also those of which no recording was found */
	struct export_node *nodes;
	size_t n;
	struct export_task *tasks;
	size_t n_measured;         /* tasks measured; 0: a recording of all tasks on a node */
};

/* Fills ret from the summary. Texts are copied. Returns 0 or -ENOMEM; call export_job_done() either way. */
int export_job_read(const struct summary *s, struct export_job *ret);
void export_job_done(struct export_job *job);
