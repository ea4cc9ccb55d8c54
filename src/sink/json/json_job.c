/* SPDX-License-Identifier: MIT
 *
 * A job of several ranks for programs: the key "job" of the summary (docs/job.schema.json).
 */
#include <stdio.h>
#include <string.h>

#include "sink/json/json_summary.h"

static void node_gpus(struct json *j, const struct job *job, size_t node)
{
	const struct parts *p = job_parts(job);

	json_key_array(j, "gpus");
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct birth *b = &job_gpu(job, i)->birth;

		for (size_t k = 0; job_gpu_counts(job, b) && k < p->n_gpus; k++) {
			if (p->gpu[k].gpu == b->id && p->gpu[k].node == node) {
				json_str(j, b->gpu.uuid);
				break;
			}
		}
	}
	json_end(j);
}

static void ram_peak(struct json *j, struct maybe peak, struct maybe low, struct maybe high)
{
	json_key_maybe(j, "ram_peak_bytes", peak);
	json_key_maybe(j, "ram_low_bytes", low);
	json_key_maybe(j, "ram_high_bytes", high);
}

static void node(struct json *j, const struct job *job, size_t i)
{
	const struct part_node *n = &job_parts(job)->node[i];

	json_object(j);
	json_key_text(j, "node", n->name);
	json_key_maybe(j, "ranks", n->ranks);
	json_key_seconds(j, "start_s", n->start_ns);
	json_key_seconds(j, "end_s", n->end_ns);
	ram_peak(j, n->ram_peak_bytes, n->ram_low_bytes, n->ram_high_bytes);
	json_key_seconds(j, "ram_at_s", n->ram_at_ns);
	json_key_text(j, "ram_method", n->ram_method);
	json_key_bool(j, "ram_measured_together", n->has_union.value == 1);
	json_key_seconds(j, "ram_gap_s", n->union_gap_ns);
	json_key_maybe(j, "limit_bytes", n->limit_bytes);
	json_key_maybe(j, "capacity_bytes", n->capacity_bytes);
	json_key_maybe(j, "cpus", n->cpus);
	json_key_seconds(j, "cpu_s", n->cpu_ns);
	json_key_maybe(j, "read_bytes", n->read_bytes);
	json_key_maybe(j, "write_bytes", n->write_bytes);
	json_key_maybe(j, "network_receive_bytes", n->net_rx_bytes);
	json_key_maybe(j, "network_transmit_bytes", n->net_tx_bytes);
	json_key(j, "cpu_energy_j");
	if (n->energy_uj.known)
		json_num(j, (double) n->energy_uj.value / 1e6);
	else
		json_null(j);
	json_key_seconds(j, "clock_ahead_s", n->clock_ahead_ns);
	json_key_seconds(j, "clock_step_s", n->clock_step_ns);
	node_gpus(j, job, i);
	json_end(j);
}

static void rank(struct json *j, const struct part *p)
{
	json_object(j);
	json_key_maybe(j, "rank", p->rank);
	json_key_text(j, "node", p->node);
	json_key_maybe(j, "local_rank", p->local_rank);
	json_key_maybe(j, "restart", p->restart);
	json_key_text(j, "file", p->file);
	json_key_bool(j, "has_recording", p->has_recording.value == 1);
	json_key_text(j, "version", p->version);
	json_key_bool(j, "complete", p->complete.value == 1);
	json_key_bool(j, "running", p->running.value == 1);
	json_key_seconds(j, "start_s", p->start_ns);
	json_key_seconds(j, "wall_s", p->wall_ns);
	json_key_maybe(j, "exit_code", p->exit_code);
	ram_peak(j, p->ram_peak_bytes, p->ram_low_bytes, p->ram_high_bytes);
	json_key_text(j, "ram_method", p->ram_method);
	json_key_seconds(j, "user_s", p->user_ns);
	json_key_seconds(j, "system_s", p->system_ns);
	json_key_maybe(j, "read_bytes", p->read_bytes);
	json_key_maybe(j, "write_bytes", p->write_bytes);
	json_key_seconds(j, "step_s", p->step_ns);
	json_end(j);
}

static void lacks(struct json *j, const struct parts *p)
{
	enum {
		LISTED = 4096
	};
	int64_t missing[LISTED];
	const size_t n = parts_missing(p, missing, LISTED);

	json_key_array(j, "missing");
	for (size_t i = 0; i < n && i < LISTED; i++) {
		json_object(j);
		json_key_maybe(j, "rank", known(missing[i]));
		json_end(j);
	}
	json_end(j);
	json_key_maybe(j, "missing_nodes", known((int64_t) parts_missing_nodes(p)));
	json_key_array(j, "cut_off");
	for (size_t i = 0; i < p->n; i++) {
		if (!part_is_cut_off(&p->part[i]) || part_is(&p->part[i], "node")) /* a node has ram_gap_s */
			continue;
		json_object(j);
		json_key_maybe(j, "rank", p->part[i].rank);
		json_key_text(j, "node", p->part[i].node);
		json_key_seconds(j, "at_s", known(part_end_ns(&p->part[i])));
		json_end(j);
	}
	json_end(j);
	json_key_array(j, "unreadable");
	for (size_t i = 0; i < p->n_problems; i++) {
		json_object(j);
		json_key_text(j, "file", p->problem[i].file);
		json_key_text(j, "why", p->problem[i].why);
		json_end(j);
	}
	json_end(j);
}

/* "4711_7.0": the id "4711_7", the step "0". */
static void key_id(struct json *j, const char *job)
{
	const char *dot = job ? strrchr(job, '.') : NULL;
	char id[128] = "";

	if (job)
		(void) snprintf(
			id, sizeof(id), "%.*s", dot ? (int) (dot - job) : (int) sizeof(id) - 1, job);
	json_key_text(j, "id", id);
	json_key_text(j, "step", dot ? dot + 1 : NULL);
}

void json_job(struct json *j, const struct summary *s)
{
	const struct parts *p = s->job ? job_parts(s->job) : NULL;
	const struct facts *f = s->facts;

	if (!p)
		return;
	json_key(j, "job");
	json_object(j);
	json_key_text(j, "scheduler", f->scheduler);
	key_id(j, f->scheduler_job);
	json_key_text(j, "cluster", f->cluster);
	json_key_bool(j, "complete", parts_are_complete(p));
	json_key_bool(j, "running", parts_are_running(p));
	json_key_maybe(j, "world_size", parts_ranks(p) > 0 ? known(parts_ranks(p)) : UNKNOWN);
	lacks(j, p);
	json_key_seconds(j, "stagger_s", known(parts_stagger_ns(p)));
	json_key_bool(j, "clocks_compared", p->clocks_compared);
	json_key_seconds(j, "clock_rest_s", p->clock_rest_ns);
	json_key_text(j, "other_jobs", f->other_jobs);
	json_key_array(j, "nodes");
	for (size_t i = 0; i < p->n_nodes; i++)
		node(j, s->job, i);
	json_end(j);
	json_key_array(j, "ranks");
	for (size_t i = 0; i < p->n; i++) {
		if (part_is_rank(&p->part[i]))
			rank(j, &p->part[i]);
	}
	json_end(j);
	json_end(j);
}
