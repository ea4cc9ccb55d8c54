/* SPDX-License-Identifier: MIT */
#include "job/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "job/job_internal.h"

enum {
	KEPT_BY_DEFAULT = 500
};

/* ---- creating and freeing -------------------------------------------------------------------- */

/* Huge pages of PMD size are counted by the kernel; if smaller ones are enabled, any fault may
 * map one. */
static int64_t page_of(const struct job_config *config)
{
	uint64_t page = config->page_bytes ? config->page_bytes : 4096;

	return (int64_t) (config->fault_page_bytes > page ? config->fault_page_bytes : page);
}

struct job *job_new(const struct job_config *config)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->config = *config;
	if (job->config.max_processes == 0)
		job->config.max_processes = KEPT_BY_DEFAULT;
	job->page_bytes = page_of(config);
	job->memory = memory_new(&(struct memory_config) {
		.page_bytes = job->page_bytes,
		.huge_bytes = (int64_t) config->huge_page_bytes,
		.machine_bytes = (int64_t) config->machine_bytes,
		.rss_error_bytes = (int64_t) config->rss_error_bytes,
		.ours = config->ours,
		.is_off = config->everyone,
	});
	if (!job->memory) {
		free(job);
		return NULL;
	}
	job->pass.main_private = INT64_MAX;
	job->burst_since_ns = job->proven_since_ns = UINT64_MAX;
	return job;
}

const struct parts *job_parts(const struct job *job)
{
	return job->parts;
}

struct parts *job_edit_parts(struct job *job)
{
	return job->parts;
}

void job_take_parts(struct job *job, struct parts *parts)
{
	parts_free(job->parts);
	job->parts = parts;
}

void job_free(struct job *job)
{
	if (!job)
		return;
	for (size_t i = 0; i < job->n_members; i++)
		member_free(job->members[i]);
	events_done(job);
	timelines_done(job);
	parts_free(job->parts);
#define F_INT(name)
#define F_TEXT(name)            free(job->facts.name);
#define F(kind, name, sentence) F_##kind(name)
#include "model/facts.def"
#undef F
#undef F_INT
#undef F_TEXT
	map_done(&job->by_id);
	map_done(&job->gpu_places);
	gpu_entities_done(&job->gpus);
	gpu_entities_done(&job->gpu_users);
	free(job->members);
	free(job->live);
	memory_free(job->memory);
	free(job->gpu_accs);
	free(job);
}

struct facts *job_facts(struct job *job)
{
	return &job->facts;
}

const struct facts *job_facts_const(const struct job *job)
{
	return &job->facts;
}

int job_set_text(char **field, const char *text)
{
	char *copy = NULL;

	if (text) {
		copy = strdup(text);
		if (!copy)
			return -ENOMEM;
	}
	free(*field);
	*field = copy;
	return 0;
}

struct maybe job_exit_code(const struct facts *f)
{
	const int status = (int) f->exit_status.value;

	if (!f->exit_status.known && !f->ended_ns.known)
		return UNKNOWN;
	if (f->stopped_by.known)
		return f->stopped_by;
	if (!f->exit_status.known)
		return UNKNOWN;
	return known(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

/* ---- applying -------------------------------------------------------------------------------- */

static void keep_first(int *error, int code)
{
	if (code < 0 && *error == 0)
		*error = code;
}

/* Passes values of the host and the cgroup to the estimator. */
static void estimator_apply(struct job *job, const struct reading *r)
{
	const struct facts *f = &job->facts;

	if (!r->known)
		return;
	if (r->metric == M_HOST_THP_FAULTS)
		memory_huge(job->memory, r->value);
	else if (r->metric == M_JOB_CGROUP_ANON && f->cgroup_exclusive.value == 1 && f->own_rss_bytes.known)
		memory_cgroup(job->memory, r->value - f->own_rss_bytes.value);
}

static int reading_apply(struct job *job, const struct reading *r, const struct frame *frame)
{
	struct acc *acc, before;

	if (r->metric >= METRIC_COUNT)
		return 0;
	if (metrics[r->metric].entity == ENTITY_PROCESS)
		return process_apply(job, r);
	estimator_apply(job, r);
	acc = acc_make(job, r->metric, r->id);
	if (!acc)
		return metrics[r->metric].entity == ENTITY_GPU ? -ENOMEM : 0;
	timeline_apply(job, acc, r, frame);
	if ((r->metric == M_GPU_MEM || r->metric == M_GPU_JOB_MEM) && (r->known || acc->n > 0))
		gpu_unlisted_advance(job, r->id, frame->time_ns);
	before = *acc;
	acc_apply(job, acc, r, frame);
	phases_add_rise(job, r, &before, acc, frame);
	return 0;
}

int job_apply(struct job *job, const struct frame *frame)
{
	int error = 0;

	job->seq++;
	if (frame->time_ns > job->now_ns)
		job->now_ns = frame->time_ns;
	memory_time(job->memory, job->now_ns);
	for (size_t i = 0; i < frame->n_births; i++) {
		const struct birth *birth = &frame->births[i];

		if (birth->entity == ENTITY_PROCESS)
			keep_first(&error, birth_apply(job, birth, frame->time_ns));
		else if (birth->entity == ENTITY_GPU || birth->entity == ENTITY_GPU_PROCESS)
			keep_first(&error, gpu_birth_apply(job, birth, frame->time_ns));
		if (birth->entity == ENTITY_GPU)
			gpus_allocate(job);
	}
	for (size_t i = 0; i < frame->n_readings; i++)
		keep_first(&error, reading_apply(job, &frame->readings[i], frame));
	phases_update_use(job, frame);
	for (size_t i = 0; i < frame->n_ends; i++) {
		const struct end *end = &frame->ends[i];

		if (end->entity == ENTITY_PROCESS)
			keep_first(&error, end_apply(job, end, frame->time_ns));
		else if (end->entity == ENTITY_GPU || end->entity == ENTITY_GPU_PROCESS)
			gpu_end_apply(job, end, frame->time_ns);
	}
	for (size_t i = 0; i < frame->n_events; i++)
		keep_first(&error, event_apply(job, &frame->events[i]));
	for (size_t i = 0; i < frame->n_series; i++)
		keep_first(&error, series_apply(job, &frame->series[i]));
	if (frame->n_ends > 0)
		keep_first(&error, members_limit(job));
	if (job->parts_changed)
		phases_update_parts(job);
	return error;
}

/* ---- reading the job ------------------------------------------------------------------------- */

size_t job_process_count(const struct job *job)
{
	return job->n_members;
}

const struct process *job_process(const struct job *job, size_t i)
{
	return i < job->n_members ? &job->members[i]->p : NULL;
}

size_t job_process_behind(const struct job *job, uint32_t id)
{
	size_t i = job->n_members;

	while (i > 0 && job->members[i - 1]->p.id > id)
		i--;
	return i;
}

const struct process *job_process_by_id(const struct job *job, uint32_t id)
{
	const struct member *m = member_find(job, id);

	return m ? &m->p : NULL;
}

const struct process *job_main(const struct job *job)
{
	return job->main ? &job->main->p : NULL;
}

size_t job_alive(const struct job *job)
{
	return job->n_live;
}

uint64_t job_now(const struct job *job)
{
	return job->now_ns;
}
