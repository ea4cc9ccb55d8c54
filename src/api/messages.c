/* SPDX-License-Identifier: MIT
 *
 * The public interface: what the job or its user tells the recorder.
 */
#include <errno.h>

#include "api/handles.h"
#include "base/clock.h"

enum {
	MESSAGES_A_STEP = 64, /* taken between two looks at the clock */
};
static const uint64_t last_messages_ns = 100000000;

/* Main's mark at the edge that the frame tells of: is it right for an exact peak? */
static bool mark_at_edge(struct hiw_recorder *r, const struct frame *frame)
{
	const enum event_kind kind = frame->n_events > 0 ? frame->events[0].kind : EVENT_MARK;

	if (kind != EVENT_PHASE_BEGIN && kind != EVENT_PHASE_END)
		return false;
	return sampler_read_main(r->sampler) && (kind == EVENT_PHASE_END || sampler_reset_mark(r->sampler) == 0);
}

/* What a message said. A phase's edge or a mark asks for a frame at once, so that what happened lies between two looks. */
static void push_message(struct hiw_recorder *r, bool exact)
{
	struct frame frame = framebuf_frame(&r->pushed_frame, FRAME_USER, sampler_time(r->sampler), 0);

	if (frame.n_events > 0)
		sampler_now(r->sampler);
	exact = exact && mark_at_edge(r, &frame);
	frame.time_ns = sampler_time(r->sampler);
	if (!framebuf_is_empty(&r->pushed_frame))
		sampler_push(r->sampler, &frame);
	if (exact)
		job_phase_edge(sampler_job(r->sampler), frame.events[0].phase);
	framebuf_clear(&r->pushed_frame);
}

/* Takes one that waits, if any. */
static bool take_message(struct hiw_recorder *r)
{
	if (pushed_receive(&r->pushed, sampler_time(r->sampler), &r->pushed_frame) == 0)
		return false;
	push_message(r, false);
	return true;
}

int hiw_recorder_push(struct hiw_recorder *r, const char *message, bool exact, struct hiw_err *ret_err)
{
	struct err err = { "" };
	int error = r->ended ? -ESRCH : pushed_parse(&r->pushed, message, sampler_time(r->sampler), &r->pushed_frame, &err);

	if (error == 0)
		push_message(r, exact);
	else
		framebuf_clear(&r->pushed_frame);
	return api_err(ret_err, &err, error);
}

int hwi_recorder_read_mark(struct hiw_recorder *r)
{
	return sampler_read_main(r->sampler) ? 0 : -ESRCH;
}

void take_messages(struct hiw_recorder *r)
{
	for (int i = 0; i < MESSAGES_A_STEP && take_message(r); i++)
		;
}

/* All that were sent before the end. Who lives on may go on sending. */
void take_last_messages(struct hiw_recorder *r)
{
	const uint64_t until = clock_boot_ns() + last_messages_ns;

	while (take_message(r) && clock_boot_ns() < until)
		;
}

int hiw_recorder_mark(struct hiw_recorder *r, const char *text)
{
	const struct event event = {
		.time_ns = sampler_time(r->sampler),
		.kind = EVENT_MARK,
		.entity = ENTITY_JOB,
		.text = text,
	};
	struct frame frame = { .source = FRAME_USER, .live = true, .n_events = 1, .events = &event };

	if (r->ended)
		return -ESRCH;
	if (pushed_check_mark(text, NULL) < 0)
		return -EMSGSIZE;
	sampler_now(r->sampler);
	frame.time_ns = sampler_time(r->sampler);
	sampler_push(r->sampler, &frame);
	return 0;
}
