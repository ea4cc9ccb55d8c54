/* SPDX-License-Identifier: MIT
 *
 * The black box: triggers, and the story of a run in which something happened, gathered from its recording, told by
 * findings/.
 */
#include <errno.h>
#include <stdlib.h>

#include "api/handles.h"
#include "base/buf.h"
#include "findings/story.h"

enum {
	MOST = 4000000
};

struct gathering {
	struct story_held *held;
	struct story_level *levels;
	size_t n_held, cap_held, n_levels, cap_levels;
	int error;
};

static void take_held(void *ctx, uint32_t id, int64_t bytes)
{
	struct gathering *g = ctx;

	if (g->error == 0)
		g->error = vec_room(&g->held, &g->cap_held, g->n_held, sizeof(*g->held), MOST);
	if (g->error == 0)
		g->held[g->n_held++] = (struct story_held) { id, bytes };
}

static void take_level(void *ctx, uint64_t time_ns, int64_t bytes)
{
	struct gathering *g = ctx;

	if (g->error == 0)
		g->error = vec_room(&g->levels, &g->cap_levels, g->n_levels, sizeof(*g->levels), MOST);
	if (g->error == 0)
		g->levels[g->n_levels++] = (struct story_level) { time_ns, bytes };
}

/* The recording of a run that was just measured is read back; without one the summary is all there is. */
static void gather(struct hiw_run *run, const struct story_moment *of, struct gathering *g)
{
	const struct replay_seer seer = { take_held, take_level, g };
	const char *path = job_facts_const(run->job)->recording;
	struct replay *opened = NULL;

	if (run->replay)
		g->error = replay_moment(run->replay, of->at_ns, of->on_gpu, &seer);
	else if (path && replay_open(path, &opened, NULL) == 0)
		g->error = replay_moment(opened, of->at_ns, of->on_gpu, &seer);
	replay_close(opened);
}

int run_tell(struct hiw_run *run)
{
	struct gathering g = { 0 };
	struct story_moment moment;
	int r;

	if (!story_when(&run->summary, &moment))
		return 0;
	gather(run, &moment, &g);
	moment.held = g.held;
	moment.n_held = g.n_held;
	moment.levels = g.levels;
	moment.n_levels = g.n_levels;
	r = story_make(&run->summary, &moment);
	free(g.held);
	free(g.levels);
	return r < 0 ? r : g.error == -ENOMEM ? g.error
					      : 0;
}

void hiw_recorder_trigger(struct hiw_recorder *r, const char *why)
{
	sampler_now(r->sampler);
	sampler_trigger(r->sampler, why);
}
