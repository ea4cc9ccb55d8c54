/* SPDX-License-Identifier: MIT
 *
 * Replays a recording in stretches: for a live view that follows a growing recording or seeks in a
 * finished one.
 */
#include <errno.h>
#include <stdlib.h>

#include "record/read/replay_internal.h"

struct player {
	struct play play;
};

int player_new(
	struct replay *r, bool (*see)(void *ctx, const struct frame *frame), void *ctx, struct player **ret)
{
	struct player *p = malloc(sizeof(*p));

	if (!p)
		return -ENOMEM;
	play_init(&p->play, r, 0);
	p->play.see = see;
	p->play.ctx = ctx;
	*ret = p;
	return 0;
}

void player_free(struct player *p)
{
	if (!p)
		return;
	play_done(&p->play);
	free(p);
}

/* Events are written at once, windows when they close. In a growing recording, anything after
 * the last window pending for the next window, so that everything is shown in order. */
static uint64_t whole_until(const struct play *play, uint64_t until_ns)
{
	int64_t last;

	if (!replay_growing(play->r))
		return until_ns;
	if (!reader_number(play->r, "SELECT max(t) FROM job_sample", &last) || last < 0)
		return 0;
	return (uint64_t) last < until_ns ? (uint64_t) last : until_ns;
}

int player_to(struct player *p, uint64_t until_ns, struct err *err)
{
	struct play *play = &p->play;

	play->err = err;
	play->stopped = false;
	play_open(play, false);
	play_run(play, whole_until(play, until_ns));
	play_close(play);
	return play->error;
}

int player_seek(struct player *p, uint64_t from_ns, struct err *err)
{
	struct play *play = &p->play;
	__typeof__(play->see) see = play->see;
	struct replay *r = play->r;
	void *ctx = play->ctx;

	play_done(play);
	play_init(play, r, from_ns);
	play->see = see;
	play->ctx = ctx;
	play->err = err;
	if (from_ns == 0)
		return 0;
	play_open(play, false);
	play_state(play, from_ns);
	play_close(play);
	return play->error;
}
