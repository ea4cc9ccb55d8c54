/* SPDX-License-Identifier: MIT */
#include "watch/story.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/units.h"
#include "watch/rules.h"

enum {
	GROWTH_PARTS = 20, /* growth that is told of is 5 % of what was held at the end of it, at least */
	FLAT_PARTS = 50    /* what is within 2 % of the rise has not begun to rise */
};

static const char ran_out[] = "out of memory";

/* ---- when ------------------------------------------------------------------------------------------------------------- */

static bool is_kill(const struct event *e)
{
	return e->kind == EVENT_OOM;
}

static bool tells_of_memory(const struct event *e)
{
	return is_kill(e) || (e->kind == EVENT_TRIGGER && strncmp(e->text, ran_out, sizeof(ran_out) - 1) == 0);
}

/* The event to tell of: memory that ran out before anything else, else the first trigger. */
static const struct event *event_of(const struct job *job)
{
	const struct event *found = NULL;

	for (size_t i = 0; job && i < job_event_count(job); i++) {
		const struct event *e = job_event(job, i);

		if (!is_kill(e) && e->kind != EVENT_TRIGGER)
			continue;
		if (!found || (tells_of_memory(e) && !tells_of_memory(found)) || (is_kill(e) && !is_kill(found)))
			found = e;
	}
	return found;
}

static bool was_killed(const struct process *p)
{
	return p->ended && p->status_known && WIFSIGNALED(p->status) && WTERMSIG(p->status) == SIGKILL;
}

/* Whom the kernel named, else the first that SIGKILL ended; NULL if that is unknown. */
static const struct process *victim_of(const struct job *job, const struct event *e)
{
	if (is_kill(e) && e->entity == ENTITY_PROCESS)
		return job_process_by_id(job, e->id);
	for (size_t i = 0; tells_of_memory(e) && i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		if (was_killed(p) && p->ended_ns <= e->time_ns + 2000000000)
			return p;
	}
	return NULL;
}

/* A kill is told of after it happened: the victim's end is nearer to it. */
bool story_when(const struct summary *s, uint64_t *ret_ns)
{
	const struct event *e = event_of(s->job);
	const struct process *victim = e ? victim_of(s->job, e) : NULL;

	if (!e)
		return false;
	if (!victim)
		victim = job_main(s->job); /* its end, too, is told of afterwards */
	*ret_ns = victim && victim->ended && victim->ended_ns < e->time_ns ? victim->ended_ns : e->time_ns;
	return true;
}

/* ---- who held what ---------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	const struct story_held *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* The victim held its peak when it was killed: it was still growing. */
static int64_t bytes_of(const struct process *p, const struct process *victim, int64_t bytes)
{
	return p == victim && p->peak_bytes > bytes ? p->peak_bytes : bytes;
}

static int take_holders(struct story *story, const struct job *job, const struct story_moment *moment,
	const struct process *victim)
{
	struct story_held *list = calloc(moment->n_held + 1, sizeof(*list));
	size_t n = 0;
	bool has_victim = false;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < moment->n_held; i++) {
		const struct process *p = job_process_by_id(job, moment->held[i].id);

		if (!p)
			continue;
		has_victim = has_victim || p == victim;
		list[n++] = (struct story_held) { p->id, bytes_of(p, victim, moment->held[i].bytes) };
	}
	/* Too short for a look: the kernel's mark is all that is known. */
	if (victim && !has_victim && victim->peak_bytes > 0)
		list[n++] = (struct story_held) { victim->id, victim->peak_bytes };
	qsort(list, n, sizeof(list[0]), by_size);
	for (size_t i = 0; i < n; i++) {
		if (i < STORY_HOLDERS) {
			const struct process *p = job_process_by_id(job, list[i].id);

			story->holders[story->n_holders++] = (struct story_holder) { p, list[i].bytes, p == victim };
		} else {
			story->others++;
			story->others_bytes += list[i].bytes;
		}
	}
	free(list);
	return 0;
}

/* ---- how it grew ------------------------------------------------------------------------------------------------------ */

/* From the last valley to the end; a fall of less than a twentieth of what it rises by is no valley, and what was flat
 * before is no growth. */
static void take_growth(struct story *story, const struct story_moment *moment)
{
	const struct story_level *levels = moment->levels;
	const size_t n = moment->n_levels;
	int64_t top, low;
	size_t first = n;

	if (n < 2)
		return;
	top = low = levels[n - 1].bytes;
	while (first > 0 && levels[first - 1].bytes <= low + (top - low) / GROWTH_PARTS + top / GROWTH_PARTS) {
		first--;
		low = levels[first].bytes < low ? levels[first].bytes : low;
		top = levels[first].bytes > top ? levels[first].bytes : top;
	}
	for (size_t i = first; i < n; i++) {
		if (levels[i].bytes <= low + (top - low) / FLAT_PARTS)
			first = i;
	}
	if (levels[n - 1].bytes - low <= levels[n - 1].bytes / GROWTH_PARTS || levels[n - 1].time_ns <= levels[first].time_ns)
		return;
	story->since_ns = known((int64_t) levels[first].time_ns);
	story->from_bytes = known(levels[first].bytes);
	story->growth_per_s = (double) (levels[n - 1].bytes - levels[first].bytes) /
			      ((double) (levels[n - 1].time_ns - levels[first].time_ns) / 1e9);
}

/* ---- what to try ------------------------------------------------------------------------------------------------------ */

static void put_advice(const struct summary *s, const struct story *story, struct buf *out)
{
	const struct story_holder *most = story->n_holders > 0 ? &story->holders[0] : NULL;
	const struct maybe asked = s->facts->request_bytes;
	char number[UNITS_LEN];

	if (!story->memory) {
		buf_str(out, "look at the last minutes: hiwater show, the tables *_recent of the recording");
		return;
	}
	if (!story->host_memory) {
		buf_str(out, "a smaller batch, lower precision, or freeing what is kept on the device; fragmentation may be it where "
			     "much is reserved and little allocated");
		return;
	}
	if (story->limit.known && asked.known && llabs(story->limit.value - asked.value) <= asked.value / 20)
		buf_printf(out, "ask for more than the %s requested; ", units_bytes(asked.value, UNITS_IEC, number));
	else if (story->limit.known)
		buf_printf(out, "a larger limit than %s; ", units_bytes(story->limit.value, UNITS_IEC, number));
	if (story->n_holders + story->others > 2 && most && most->bytes < story->held.value / 2)
		buf_str(out, "fewer processes at a time (workers, -j); ");
	if (story->since_ns.known && story->growth_per_s > 0 && s->wall_ns.known &&
		(int64_t) story->at_ns - story->since_ns.value > s->wall_ns.value / 2)
		buf_str(out, "look for what is kept and never freed: it grew for most of the run; ");
	buf_str(out, "smaller pieces of data at a time");
}

/* By the last look, by the peak if that was just then, and by what the victim alone held. */
static struct maybe held_at(const struct summary *s, uint64_t at_ns, const struct story_moment *moment,
	const struct process *victim)
{
	static const int64_t near_ns = 1000000000;
	const struct ram_figure *all = &s->combined;
	struct maybe held = moment->n_levels > 0 ? known(moment->levels[moment->n_levels - 1].bytes) : UNKNOWN;

	if (victim)
		held = maybe_max(held, known(victim->peak_bytes));
	if (all->at_ns.known && all->at_ns.value <= (int64_t) at_ns && all->at_ns.value + near_ns >= (int64_t) at_ns)
		held = maybe_max(held, all->peak);
	return held;
}

/* ---- the story -------------------------------------------------------------------------------------------------------- */

static void put_what(const struct summary *s, const struct event *e, const struct process *victim, struct story *story,
	struct buf *out)
{
	(void) s;
	story->memory = tells_of_memory(e);
	/* What a program says itself is of a device: the host's memory ends by a kill. */
	story->host_memory = story->memory && (is_kill(e) || victim || strstr(e->text, "the kernel killed"));
	if (victim && story->memory)
		buf_printf(out, "out of memory: the kernel killed %.15s[%d]", victim->name, victim->pid);
	else
		buf_str(out, *e->text ? e->text : ran_out);
}

int story_make(struct summary *s, uint64_t at_ns, const struct story_moment *moment)
{
	const struct event *e = event_of(s->job);
	struct buf what = BUF_INIT(4096), advice = BUF_INIT(4096);
	struct story story = { .at_ns = at_ns, .limit = memory_limit(s), .asked = s->facts->request_bytes };
	const struct process *victim = e ? victim_of(s->job, e) : NULL;
	int r;

	if (!e)
		return 0;
	put_what(s, e, victim, &story, &what);
	r = take_holders(&story, s->job, moment, victim);
	take_growth(&story, moment);
	story.held = held_at(s, at_ns, moment, story.host_memory ? victim : NULL);
	put_advice(s, &story, &advice);
	story.what = r == 0 && !what.error ? strdup(what.data) : NULL;
	story.advice = r == 0 && !advice.error ? strdup(advice.data) : NULL;
	buf_done(&what);
	buf_done(&advice);
	if (!story.what || !story.advice) {
		free(story.what);
		free(story.advice);
		return r < 0 ? r : -ENOMEM;
	}
	free(s->story.what);
	free(s->story.advice);
	s->story = story;
	return 0;
}
