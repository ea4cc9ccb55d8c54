/* SPDX-License-Identifier: MIT
 *
 * A job of several ranks for programs: the key "job" of the summary (docs/job.schema.json).
 */
#include <stdio.h>
#include <string.h>

#include "sink/json/json_summary.h"

static void key_text(struct json *j, const char *key, const char *text)
{
	json_key_text(j, key, text);
}

static void key_number(struct json *j, const char *key, struct maybe value)
{
	json_key(j, key);
	json_maybe(j, value);
}

static void key_time(struct json *j, const char *key, struct maybe ns)
{
	json_key(j, key);
	json_seconds(j, ns);
}

static void key_bool(struct json *j, const char *key, bool value)
{
	json_key(j, key);
	json_bool(j, value);
}

static void key_list(struct json *j, const char *key)
{
	json_key(j, key);
	json_array(j);
}

static void node_gpus(struct json *j, const struct job *job, size_t node)
{
	const struct parts *p = job_parts(job);

	key_list(j, "gpus");
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct birth *b = &job_gpu(job, i)->birth;

		for (size_t k = 0; k < p->n_gpus; k++) {
			if (p->gpu[k].gpu == b->id && p->gpu[k].node == node) {
				json_str(j, b->gpu.uuid);
				break;
			}
		}
	}
	json_end(j);
}

static void node(struct json *j, const struct job *job, size_t i)
{
	const struct part_node *n = &job_parts(job)->node[i];

	json_object(j);
	key_text(j, "node", n->name);
	key_number(j, "ranks", n->ranks);
	key_time(j, "start_s", n->start_ns);
	key_time(j, "end_s", n->end_ns);
	key_number(j, "ram_peak_bytes", n->ram_peak_bytes);
	key_number(j, "ram_low_bytes", n->ram_low_bytes);
	key_number(j, "ram_high_bytes", n->ram_high_bytes);
	key_time(j, "ram_at_s", n->ram_at_ns);
	key_text(j, "ram_method", n->ram_method);
	key_bool(j, "ram_measured_together", n->has_union.value == 1);
	key_time(j, "ram_gap_s", n->union_gap_ns);
	key_number(j, "limit_bytes", n->limit_bytes);
	key_number(j, "capacity_bytes", n->capacity_bytes);
	key_number(j, "cpus", n->cpus);
	key_time(j, "cpu_s", n->cpu_ns);
	key_number(j, "read_bytes", n->read_bytes);
	key_number(j, "write_bytes", n->write_bytes);
	key_number(j, "network_receive_bytes", n->net_rx_bytes);
	key_number(j, "network_transmit_bytes", n->net_tx_bytes);
	json_key(j, "cpu_energy_j");
	if (n->energy_uj.known)
		json_num(j, (double) n->energy_uj.value / 1e6);
	else
		json_null(j);
	key_time(j, "clock_ahead_s", n->clock_ahead_ns);
	key_time(j, "clock_step_s", n->clock_step_ns);
	node_gpus(j, job, i);
	json_end(j);
}

static void rank(struct json *j, const struct part *p)
{
	json_object(j);
	key_number(j, "rank", p->rank);
	key_text(j, "node", p->node);
	key_number(j, "local_rank", p->local_rank);
	key_number(j, "restart", p->restart);
	key_text(j, "file", p->file);
	key_bool(j, "has_recording", p->has_recording.value == 1);
	key_text(j, "version", p->version);
	key_bool(j, "complete", p->complete.value == 1);
	key_bool(j, "running", p->running.value == 1);
	key_time(j, "start_s", p->start_ns);
	key_time(j, "wall_s", p->wall_ns);
	key_number(j, "exit_code", p->exit_code);
	key_number(j, "ram_peak_bytes", p->ram_peak_bytes);
	key_number(j, "ram_low_bytes", p->ram_low_bytes);
	key_number(j, "ram_high_bytes", p->ram_high_bytes);
	key_text(j, "ram_method", p->ram_method);
	key_time(j, "user_s", p->user_ns);
	key_time(j, "system_s", p->system_ns);
	key_number(j, "read_bytes", p->read_bytes);
	key_number(j, "write_bytes", p->write_bytes);
	key_time(j, "step_s", p->step_ns);
	json_end(j);
}

static void lacks(struct json *j, const struct parts *p)
{
	enum {
		LISTED = 4096
	};
	int64_t missing[LISTED];
	const size_t n = parts_missing(p, missing, LISTED);

	key_list(j, "missing");
	for (size_t i = 0; i < n && i < LISTED; i++) {
		json_object(j);
		key_number(j, "rank", known(missing[i]));
		json_end(j);
	}
	json_end(j);
	key_number(j, "missing_nodes", known((int64_t) parts_missing_nodes(p)));
	key_list(j, "cut_off");
	for (size_t i = 0; i < p->n; i++) {
		if (!part_is_cut_off(&p->part[i]) || part_is(&p->part[i], "node")) /* a node has ram_gap_s */
			continue;
		json_object(j);
		key_number(j, "rank", p->part[i].rank);
		key_text(j, "node", p->part[i].node);
		key_time(j, "at_s", known(part_end_ns(&p->part[i])));
		json_end(j);
	}
	json_end(j);
	key_list(j, "unreadable");
	for (size_t i = 0; i < p->n_problems; i++) {
		json_object(j);
		key_text(j, "file", p->problem[i].file);
		key_text(j, "why", p->problem[i].why);
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
	key_text(j, "id", id);
	key_text(j, "step", dot ? dot + 1 : NULL);
}

void json_job(struct json *j, const struct summary *s)
{
	const struct parts *p = s->job ? job_parts(s->job) : NULL;
	const struct facts *f = s->facts;

	if (!p)
		return;
	json_key(j, "job");
	json_object(j);
	key_text(j, "scheduler", f->scheduler);
	key_id(j, f->scheduler_job);
	key_text(j, "cluster", f->cluster);
	key_bool(j, "complete", parts_are_complete(p));
	key_bool(j, "running", parts_are_running(p));
	key_number(j, "world_size", parts_ranks(p) > 0 ? known(parts_ranks(p)) : UNKNOWN);
	lacks(j, p);
	key_time(j, "stagger_s", known(parts_stagger_ns(p)));
	key_bool(j, "clocks_compared", p->clocks_compared);
	key_time(j, "clock_rest_s", p->clock_rest_ns);
	key_text(j, "other_jobs", f->other_jobs);
	key_list(j, "nodes");
	for (size_t i = 0; i < p->n_nodes; i++)
		node(j, s->job, i);
	json_end(j);
	key_list(j, "ranks");
	for (size_t i = 0; i < p->n; i++) {
		if (part_is_rank(&p->part[i]))
			rank(j, &p->part[i]);
	}
	json_end(j);
	json_end(j);
}
