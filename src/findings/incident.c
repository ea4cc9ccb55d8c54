/* SPDX-License-Identifier: MIT */
#include "findings/incident.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/units.h"
#include "findings/finding.h"
#include "findings/fill.h"
#include "findings/gpus.h"
#include "findings/growth.h"

enum {
	LIMIT_PERCENT = 95, /* of the limit: a job that used so much, or was about to, may have run into it */
	NEAR_PERCENT = 80   /* of the limit: from here on advise a larger one */
};

/* Kinds of events, by the beginning of their text. The event of the highest rank is reported; of
 * equals the first. */
static const struct event_rank {
	const char *begins;
	int rank;
	bool memory;
} event_ranks[] = {
	{ "out of memory", 4, true },
	{ "signal ", 3, false },
	{ "RAM alert", 2, true },
	{ "GPU memory alert", 2, true },
	{ "", 1, false },
};
static const struct event_rank kill_rank = { "", 5, true };

/* ---- event and moment ------------------------------------------------------------------------------------------------ */

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool is_kill(const struct event *e)
{
	return e->kind == EVENT_OOM;
}

static const struct event_rank *rank_of(const struct event *e)
{
	size_t i = 0;

	while (!begins(e->text, event_ranks[i].begins))
		i++;
	return is_kill(e) ? &kill_rank : &event_ranks[i];
}

static const struct event *event_of(const struct job *job)
{
	const struct event *found = NULL;

	for (size_t i = 0; job && i < job_event_count(job); i++) {
		const struct event *e = job_event(job, i);

		if (!is_kill(e) && e->kind != EVENT_TRIGGER)
			continue;
		if (!found || rank_of(e)->rank > rank_of(found)->rank)
			found = e;
	}
	return found;
}

/* Did the kernel kill a process for lack of RAM? An "out of memory" that a program reports concerns
 * its device, unless it says host. */
static bool kernel_killed(const struct event *e)
{
	return is_kill(e) || (begins(e->text, "out of memory") && strstr(e->text, "the kernel killed"));
}

static bool is_on_gpu(const struct event *e)
{
	return begins(e->text, "GPU memory alert") || strstr(e->text, ": Xid ") ||
	       (begins(e->text, "out of memory") && !kernel_killed(e) &&
		       !begins(e->text, "out of memory: host: "));
}

/* SIGKILL ended main, and out-of-memory suspects a lack of memory. */
static bool is_suspected(const struct summary *s, const struct event *e)
{
	return begins(e->text, "signal 9 ") && memory_may_have_ended_it(s);
}

static bool was_killed(const struct process *p)
{
	return p->ended && p->status_known && WIFSIGNALED(p->status) && WTERMSIG(p->status) == SIGKILL;
}

/* The process that the kernel named, else the first that SIGKILL ended; NULL if unknown. */
static const struct process *victim_of(const struct job *job, const struct event *e)
{
	if (is_kill(e) && e->entity == ENTITY_PROCESS)
		return job_process_by_id(job, e->id);
	for (size_t i = 0; kernel_killed(e) && i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		if (was_killed(p) && p->ended_ns <= e->time_ns + 2000000000)
			return p;
	}
	return NULL;
}

/* A kill is reported after it happened; the victim's end is closer to it. */
bool incident_when(const struct summary *s, struct incident_moment *ret)
{
	const struct event *e = event_of(s->job);
	const struct process *victim = e ? victim_of(s->job, e) : NULL;

	*ret = (struct incident_moment) { .at_ns = s->wall_ns.known ? (uint64_t) s->wall_ns.value : 0 };
	if (e)
		ret->at_ns = e->time_ns;
	if (!e)
		ret->of_limit = is_filled_by_shmem(s, ret->at_ns);
	if (!e)
		return s->lost;
	ret->on_gpu = is_on_gpu(e);
	if (!victim)
		victim = job_main(s->job); /* its end is reported later, too */
	if (victim && victim->ended && victim->ended_ns < e->time_ns)
		ret->at_ns = victim->ended_ns;
	ret->of_limit = !ret->on_gpu && is_filled_by_shmem(s, ret->at_ns);
	return true;
}

/* ---- top users -------------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	const struct incident_use *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* A process's memory; of the victim its peak, as it was still growing when it was killed. */
static int64_t bytes_of(const struct process *p, const struct process *victim, int64_t bytes)
{
	return p == victim && p->peak_bytes > bytes ? p->peak_bytes : bytes;
}

static int by_id(const void *a, const void *b)
{
	const struct incident_use *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* A process that first appeared when the victim had ended may be its replacement. */
static bool came_after(const struct process *p, const struct process *victim)
{
	return victim && p != victim && victim->ended && p->born_ns >= victim->ended_ns;
}

/* Processes that existed at the moment, each once with the sum of its entries. Returns their
 * number. */
static size_t add_up(const struct job *job, const struct incident_moment *moment,
	const struct process *victim, struct incident_use *list)
{
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < moment->n_uses; i++) {
		const struct process *p = job_process_by_id(job, moment->uses[i].id);

		if (p && !came_after(p, victim))
			list[n++] = moment->uses[i];
	}
	qsort(list, n, sizeof(list[0]), by_id);
	for (size_t i = 0; i < n; i++) {
		if (kept > 0 && list[kept - 1].id == list[i].id)
			list[kept - 1].bytes += list[i].bytes;
		else
			list[kept++] = list[i];
	}
	return kept;
}

static int collect_top_users(struct incident *incident, const struct job *job,
	const struct incident_moment *moment, const struct process *victim)
{
	struct incident_use *list = calloc(moment->n_uses + 1, sizeof(*list));
	size_t n;
	bool has_victim = false;

	if (!list)
		return -ENOMEM;
	n = add_up(job, moment, victim, list);
	for (size_t i = 0; i < n; i++) {
		const struct process *p = job_process_by_id(job, list[i].id);

		has_victim = has_victim || p == victim;
		list[i].bytes = bytes_of(p, victim, list[i].bytes);
	}
	/* A victim too short-lived for a sample: only the kernel's high-water mark is known. */
	if (victim && !has_victim && victim->peak_bytes > 0)
		list[n++] = (struct incident_use) { victim->id, victim->peak_bytes };
	qsort(list, n, sizeof(list[0]), by_size);
	for (size_t i = 0; i < n; i++) {
		if (i < INCIDENT_PROCESSES) {
			const struct process *p = job_process_by_id(job, list[i].id);

			incident->processes[incident->n_processes++] = (struct incident_process) { p,
				list[i].bytes, p == victim };
		} else {
			incident->others++;
			incident->others_bytes += list[i].bytes;
		}
	}
	free(list);
	return 0;
}

/* ---- growth ----------------------------------------------------------------------------------------------------------- */

static void set_growth(
	struct incident *incident, const struct incident_moment *moment, const struct process *victim)
{
	const struct growth growth = growth_of_levels(moment, victim);
	const int64_t least =
		growth_least(incident->memory && !moment->on_gpu ? incident->limit : UNKNOWN);

	incident->has_history = moment->n_levels > 0;
	if (!growth.known || growth.rise < (double) least)
		return;
	incident->since_ns = known(growth.since_ns);
	incident->from_bytes = known(growth.from_bytes);
	incident->growth_per_s = growth.per_s;
}

/* ---- advice ----------------------------------------------------------------------------------------------------------- */

static const char keeps_growing[] = "looking for a leak, as memory grew for most of the run; ";

static bool grew_for_long(const struct summary *s, const struct incident *incident)
{
	return incident->since_ns.known && incident->growth_per_s > 0 && s->wall_ns.known &&
	       (int64_t) incident->at_ns - incident->since_ns.value > s->wall_ns.value / 2;
}

static void put_advice_on_gpu(const struct summary *s, const struct incident *incident, struct buf *out)
{
	char number[UNITS_LEN];

	if (incident->other.known && incident->limit.known &&
		incident->other.value > incident->limit.value / 10)
		buf_printf(out, "a GPU of its own: other processes used %s there; ",
			units_bytes(incident->other.value, UNITS_IEC, number));
	if (grew_for_long(s, incident))
		buf_str(out, keeps_growing);
	buf_str(out,
		"a smaller batch, lower precision, or freeing unused data on the device; if much is reserved and little "
		"allocated, it may be fragmented");
}

static bool has_killed_process(const struct incident *incident)
{
	bool killed = false;

	for (size_t i = 0; i < incident->n_processes; i++)
		killed |= incident->processes[i].killed;
	return killed;
}

/* Is value far below the limit? */
static bool is_far_below(struct maybe value, struct maybe limit)
{
	return value.known && limit.known && (double) value.value < (double) limit.value * NEAR_PERCENT / 100;
}

/* The kernel killed a process while neither the job nor the machine was near the machine's memory,
 * and no other limit is known: the process moved into a cgroup after its start, or hiwater was set
 * to read no cgroup. */
static bool ran_into_unseen_limit(const struct summary *s, const struct incident *incident)
{
	const struct maybe capacity = s->facts->capacity_bytes;

	return !incident->on_gpu && has_killed_process(incident) && capacity.known && incident->limit.known &&
	       incident->limit.value == capacity.value && is_far_below(incident->used, capacity) &&
	       is_far_below(figures_most(s, M_HOST_MEM_USED, 0), capacity);
}

/* An alert may fire long before the limit. */
static bool ran_into_limit(const struct incident *incident)
{
	const bool killed = has_killed_process(incident);

	return incident->limit.known &&
	       (killed || !incident->used.known ||
		       (double) incident->used.value >= (double) incident->limit.value * NEAR_PERCENT / 100);
}

/* By the parts alone, which were read together: the amount in use may be of a later moment. */
static bool is_mostly_shmem(const struct incident *incident)
{
	int64_t all = 0;

	for (size_t i = 0; i < incident->n_parts; i++)
		all += incident->parts[i].bytes;
	return all > 0 && incident->parts[0].fill == FILL_SHMEM && incident->parts[0].bytes >= all / 2;
}

static void put_advice(const struct summary *s, const struct incident *incident, struct buf *out)
{
	const bool is_shmem = is_mostly_shmem(incident);
	const struct incident_process *most = incident->n_processes > 0 ? &incident->processes[0] : NULL;
	const struct maybe requested = s->facts->request_bytes;
	char number[UNITS_LEN];

	if (!incident->limit.known && has_killed_process(incident))
		buf_str(out,
			"a larger limit of the cgroup that the process was moved into, which hiwater did not read; ");
	else if (ran_into_limit(incident) && requested.known &&
		 llabs(incident->limit.value - requested.value) <= requested.value / 20)
		buf_printf(
			out, "a larger request than %s; ", units_bytes(requested.value, UNITS_IEC, number));
	else if (ran_into_limit(incident))
		buf_printf(out,
			s->facts->capacity_bytes.known &&
					incident->limit.value == s->facts->capacity_bytes.value
				? "a machine with more than %s; "
				: "a larger limit than %s; ",
			units_bytes(incident->limit.value, UNITS_IEC, number));
	if (incident->n_processes + incident->others > 2 && most && most->bytes < incident->used.value / 2)
		buf_str(out, "fewer processes at a time (workers, -j); ");
	if (!is_shmem && grew_for_long(s, incident))
		buf_str(out, keeps_growing);
	buf_str(out,
		is_shmem ? "removing files in /dev/shm and other tmpfs when they are done, or keeping them on a disk: they count as memory"
			 : "smaller chunks of data");
}

/* ---- the report ------------------------------------------------------------------------------------------------------- */

/* Memory in use at the moment: the largest of the last sample, the peak if it was just then, and
 * the victim's peak. */
static struct maybe use_at(
	const struct summary *s, const struct incident_moment *moment, const struct process *victim)
{
	static const int64_t near_ns = 1000000000;
	const struct ram_figure *all = &s->combined;
	const int64_t at_ns = (int64_t) moment->at_ns;
	int64_t total = 0;
	struct maybe use = moment->n_levels > 0 ? known(moment->levels[moment->n_levels - 1].bytes) : UNKNOWN;

	/* Processes do not share GPU memory: their sum is the job's. */
	for (size_t i = 0; moment->on_gpu && i < moment->n_uses; i++)
		total += moment->uses[i].bytes;
	if (total > 0)
		use = maybe_max(use, known(total));
	if (victim)
		use = maybe_max(use, known(victim->peak_bytes));
	if (!moment->on_gpu && all->at_ns.known && all->at_ns.value <= at_ns &&
		all->at_ns.value + near_ns >= at_ns)
		use = maybe_max(use, all->peak);
	return use;
}

/* The limit on that memory: of GPUs the size of the GPU if the job used one, else unknown. */
static struct maybe limit_of(const struct summary *s, bool on_gpu)
{
	const struct gpus used = gpus_used(s->job);
	const double bytes = used.n == 1 ? gpu_memory(s->job, used.ids[0]) : -1;

	if (!on_gpu)
		return memory_limit(s);
	return bytes > 0 ? known((int64_t) bytes) : UNKNOWN;
}

static struct maybe foreign_on_gpus(const struct summary *s)
{
	const struct gpus used = gpus_used(s->job);
	struct maybe most = UNKNOWN;

	for (size_t i = 0; i < used.n; i++)
		most = maybe_max(most, figures_most(s, M_GPU_OTHER_MEM, used.ids[i]));
	return most;
}

/* Would memory in use, at its growth, have reached the limit before the next commit of the
 * recording? */
static bool ended_at_limit(const struct incident *incident)
{
	const double soon_s = 2;

	return incident->used.known && incident->limit.known &&
	       (double) incident->used.value + incident->growth_per_s * soon_s >=
		       (double) incident->limit.value * LIMIT_PERCENT / 100;
}

static void put_headline(const struct summary *s, const struct event *e, const struct process *victim,
	const struct incident *incident, struct buf *out)
{
	if (!e)
		buf_str(out,
			"the recording breaks off close to the memory limit: the kernel may have killed the job "
			"and hiwater for lack of memory");
	else if (victim && incident->memory)
		buf_printf(out, "out of memory: the kernel killed %.15s[%d]", victim->name, victim->pid);
	else
		buf_printf(out, "%s%s", *e->text ? e->text : event_ranks[0].begins,
			is_suspected(s, e) ? ": out of memory is suspected" : "");
}

static void put_next_step(const struct summary *s, const struct incident *incident, struct buf *out)
{
	if (!incident->memory && !s->facts->recording)
		buf_str(out,
			"-o FILE.hiw, which keeps the last minutes at full rate (this run was not recorded)");
	else if (!incident->memory)
		buf_str(out, "hiwater show for the last minutes, or the tables *_recent of the recording");
	else if (incident->on_gpu)
		put_advice_on_gpu(s, incident, out);
	else
		put_advice(s, incident, out);
}

/* Stores the report with its texts in s->incident. Returns 0 or -ENOMEM. */
static int store(
	struct summary *s, struct incident *incident, const struct event *e, const struct process *victim)
{
	struct buf what = BUF_INIT(4096), advice = BUF_INIT(4096);

	put_headline(s, e, victim, incident, &what);
	put_next_step(s, incident, &advice);
	incident->what = what.error ? NULL : strdup(what.data);
	incident->advice = advice.error ? NULL : strdup(advice.data);
	buf_done(&what);
	buf_done(&advice);
	if (!incident->what || !incident->advice) {
		free(incident->what);
		free(incident->advice);
		return -ENOMEM;
	}
	free(s->incident.what);
	free(s->incident.advice);
	s->incident = *incident;
	return 0;
}

/* What filled the limit; job: RAM of the job's processes at the moment. */
static void set_fills(const struct summary *s, struct incident *incident, struct maybe job)
{
	const struct fills fills = fills_at(s, incident->at_ns, job, incident->limit);

	incident->is_group_limit = fills.is_group;
	incident->n_parts = fills.n;
	memcpy(incident->parts, fills.parts, sizeof(incident->parts));
}

int incident_make(struct summary *s, const struct incident_moment *moment)
{
	const struct event *e = event_of(s->job);
	const struct process *victim = e ? victim_of(s->job, e) : NULL;
	struct incident incident = {
		.at_ns = moment->at_ns,
		.on_gpu = moment->on_gpu,
		.memory = !e || rank_of(e)->memory || is_suspected(s, e),
		.limit = limit_of(s, moment->on_gpu),
		.requested = s->facts->request_bytes,
		.other = moment->on_gpu ? foreign_on_gpus(s) : UNKNOWN,
	};
	const int r = collect_top_users(&incident, s->job, moment, victim);

	if (r < 0)
		return r;
	const struct maybe job = use_at(s, moment, victim);

	incident.is_kill = !e || kernel_killed(e) || is_suspected(s, e);
	incident.used = job;
	if (!moment->on_gpu && incident.limit.known && s->facts->limit_bytes.known &&
		incident.limit.value == s->facts->limit_bytes.value)
		incident.used = maybe_max(job, value_near(s, M_JOB_LIMIT_UNRECLAIMABLE, moment->at_ns));
	if (ran_into_unseen_limit(s, &incident))
		incident.limit = UNKNOWN;
	set_growth(&incident, moment, victim);
	if (!e && !ended_at_limit(&incident))
		return 0;
	if (incident.memory && !moment->on_gpu) {
		set_fills(s, &incident, moment->of_limit ? s->combined.peak : job);
		incident.touched = moment->touched;
	}
	return store(s, &incident, e, victim);
}
