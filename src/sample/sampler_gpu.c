/* SPDX-License-Identifier: MIT
 *
 * GPUs in the clock: what the helper tells is put among the frames, and the job's memory on devices is added up.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sample/sampler_internal.h"

enum {
	FRAMES_A_TICK = 256,     /* taken at one tick at most */
	MOST_XIDS = 32           /* of one frame */
};

static const uint64_t rouse_ns = 1000000000;
static const uint64_t silent_ns = UINT64_C(5000000000); /* what a driver told before it hung is taken without the rest */

static const struct gpu_vendor *vendors_of(const struct sampler *s)
{
	return s->options.vendors ? s->options.vendors : gpu_vendors;
}

static void start(struct sampler *s)
{
	struct facts *facts = job_facts(s->job);
	const struct gpu_request request = {
		.task = GPU_SAMPLE,
		.vendors = vendors_of(s),
		.env = &s->env,
		.interval_ns = s->options.interval_ns,
		.restart_ns = s->options.gpu_restart_ns,
	};
	struct err err = { "" };

	s->gpus.begun = true;
	s->gpus.ids.root = s->options.root;
	if (s->options.gpu == GPU_NONE)
		facts->gpu_asked = known(0);
	if (s->options.gpu == GPU_NONE || (!s->options.root->live && !s->options.vendors))
		return;
	s->gpus.helper = gpu_helper_start(&request, &err);
	if (!s->gpus.helper)
		(void) job_set_text(&facts->gpu_why, err.text);
}

/* Is there another helper than at the last look? What the one before it said of who is who means nothing any more. */
static void meet_helper(struct sampler *s, uint64_t now_ns)
{
	const unsigned starts = gpu_helper_status(s->gpus.helper).starts;

	if (starts == s->gpus.starts)
		return;
	processes_ignore(s->processes, gpu_helper_pid(s->gpus.helper));
	if (s->gpus.starts > 0)
		gpu_ids_detach(&s->gpus.ids, &s->buf);
	s->gpus.starts = starts;
	sampler_show(s, &s->buf, FRAME_RECORDER, now_ns, 0);
}

/* Who was on a device is told of again by another helper, unless there will be none, or one that cannot ask. */
static void give_up(struct sampler *s, uint64_t now_ns)
{
	for (const struct gpu_vendor *v = vendors_of(s); v->ops && s->gpus.starts > 1; v++) {
		if (gpu_helper_has_given_up(s->gpus.helper, v->ops))
			gpu_ids_drop_detached(&s->gpus.ids, v->ops->frame, &s->buf);
	}
	sampler_show(s, &s->buf, FRAME_RECORDER, now_ns, 0);
}

/* An error that a driver reported of a device. */
struct xid {
	uint32_t gpu;
	uint64_t time_ns; /* as its note has it */
	char what[160];
};

/* What fails on several devices at once (their links) comes in one frame. Returns how many. */
static size_t xids_of(const struct framebuf *told, struct xid *ret, size_t room)
{
	static const char about[] = "gpu.xid: ";
	size_t n = 0;

	for (size_t i = 0; i < told->n_events && n < room; i++) {
		if (strncmp(told->events[i].text, about, sizeof(about) - 1) != 0)
			continue;
		ret[n].gpu = told->events[i].id;
		ret[n].time_ns = told->events[i].time_ns;
		(void) snprintf(ret[n].what, sizeof(ret[n].what), "%s", told->events[i].text + sizeof(about) - 1);
		n++;
	}
	return n;
}

/* On a device that the job is on it is worth keeping what was seen around it; the first says most. */
static void trigger_xid(struct sampler *s, const struct xid *xid)
{
	const struct acc *ours = job_acc(s->job, M_GPU_JOB_MEM, xid->gpu);

	if (s->gpus.xid_told || !ours || ours->max <= 0)
		return;
	s->gpus.xid_told = true;
	sampler_trigger_at(s, xid->time_ns, xid->what);
}

static void tell_gap(struct sampler *s, uint64_t ns)
{
	struct facts *facts = job_facts(s->job);

	facts->gpu_longest_gap_ns = maybe_max(facts->gpu_longest_gap_ns, known((int64_t) ns));
}

/* What comes and goes while a driver is slow is in no figure. */
static void see_gap(struct sampler *s, enum frame_source source, uint64_t time_ns)
{
	const uint64_t last_ns = s->gpus.read_ns[source], gap_ns = counter_delta(last_ns, time_ns);

	if (last_ns && gap_ns > s->gpus.hold_ns[source])
		tell_gap(s, gap_ns);
}

/* It may have been slow to begin, too. */
static void see_start(struct sampler *s, uint64_t time_ns)
{
	static const uint64_t usual_ns = UINT64_C(1000000000);

	if (time_ns > usual_ns)
		tell_gap(s, time_ns);
}

static void count_gap(struct sampler *s, const struct frame *frame)
{
	uint64_t *last_ns = &s->gpus.read_ns[frame->source], *hold_ns = &s->gpus.hold_ns[frame->source];
	bool any = false, missing = false;

	for (size_t i = 0; i < frame->n_readings; i++) {
		any |= frame->readings[i].metric == M_GPU_MEM && frame->readings[i].known;
		missing |= frame->readings[i].metric == M_GPU_MEM && !frame->readings[i].known;
	}
	if (missing && !any) { /* it answered at last: what comes now is no slowness */
		see_gap(s, frame->source, frame->told_ns);
		*last_ns = 0;
		*hold_ns = *hold_ns ? *hold_ns : frame->hold_ns; /* nor was it slow to begin */
	}
	if (!any || frame->time_ns < *last_ns)
		return;
	see_gap(s, frame->source, frame->time_ns);
	*last_ns = frame->time_ns;
	if (*hold_ns == 0)
		see_start(s, frame->time_ns);
	if (*hold_ns == 0 || frame->hold_ns < *hold_ns) /* lists tell memory, too, and stand for longer */
		*hold_ns = frame->hold_ns;
}

/* One that goes on when the run is over. GPUs that sleep by then are no driver that does not answer. */
static void count_last_gaps(struct sampler *s, uint64_t end_ns)
{
	for (int source = 0; source < FRAME_SOURCE_COUNT; source++) {
		if (gpu_helper_is_cut_short(s->gpus.helper, (enum frame_source) source))
			see_gap(s, (enum frame_source) source, end_ns);
	}
}

static void take(struct sampler *s, const struct frame *frame)
{
	const uint64_t time_ns = frame->time_ns, hold_ns = frame->hold_ns;
	const enum frame_source source = frame->source;
	struct xid xids[MOST_XIDS];

	count_gap(s, frame);
	gpu_ids_apply(&s->gpus.ids, frame, s->processes, s->job, &s->buf);
	const size_t n_xids = xids_of(&s->buf, xids, MOST_XIDS);

	sampler_show(s, &s->buf, source, time_ns, hold_ns);
	gpu_ids_total(&s->gpus.ids, s->job, &s->totals);
	sampler_show(s, &s->totals, FRAME_TOTALS, time_ns, hold_ns);
	for (size_t i = 0; i < n_xids; i++)
		trigger_xid(s, &xids[i]);
}

static void take_all(struct sampler *s)
{
	const struct frame *frame;

	for (int i = 0; i < FRAMES_A_TICK && (frame = gpu_helper_frame(s->gpus.helper)); i++)
		take(s, frame);
}

static void take_last_frames(struct sampler *s, uint64_t for_ns)
{
	const struct frame *frame;

	while ((frame = gpu_helper_last_frame(s->gpus.helper, for_ns)))
		take(s, frame);
}

static void set_facts(struct sampler *s)
{
	const struct gpu_status status = gpu_helper_status(s->gpus.helper);
	struct facts *facts = job_facts(s->job);

	facts->gpu_helper_cpu_ns = known((int64_t) status.cpu_ns);
	if (status.n_open > 0)
		facts->gpu_helper_rss_bytes = known((int64_t) status.rss_bytes);
	if (facts->gpu_asked.known || !status.is_settled)
		return;
	facts->gpu_asked = known(1);
	facts->gpu_seen = known(status.saw_gpu);
	if (status.n_open > 0)
		return;
	(void) job_set_text(&facts->gpu_why, status.why_not);
	if (gpu_is_fault(status.code_not))
		facts->gpu_fault = known(1);
}

/* Whoever stops the helper (SIGSTOP) takes a second of readings away at most: it is told to go on, which is nothing to one that
 * runs. Its channel ends before its pid can be anybody else's. */
static void rouse(struct sampler *s, uint64_t now_ns)
{
	const pid_t pid = gpu_helper_pid(s->gpus.helper);

	if (pid <= 0 || gpu_helper_fd(s->gpus.helper) < 0 || now_ns < s->gpus.roused_ns + rouse_ns)
		return;
	s->gpus.roused_ns = now_ns;
	(void) kill(pid, SIGCONT);
}

void sampler_gpu_step(struct sampler *s, uint64_t now_ns)
{
	if (!s->gpus.begun)
		start(s);
	if (!s->gpus.helper)
		return;
	meet_helper(s, now_ns); /* before it may be waited for: one that found no GPU ends at once */
	take_all(s);
	take_last_frames(s, silent_ns);
	rouse(s, now_ns);
	gpu_helper_watch(s->gpus.helper, &s->buf);
	sampler_show(s, &s->buf, FRAME_RECORDER, now_ns, 0);
	meet_helper(s, now_ns);
	give_up(s, now_ns);
	set_facts(s);
}

void sampler_gpu_ask_last(struct sampler *s)
{
	if (s->options.gpu == GPU_NONE)
		job_facts(s->job)->gpu_asked = known(0);
	if (s->gpus.helper)
		gpu_helper_request_last(s->gpus.helper);
}

void sampler_gpu_end(struct sampler *s, uint64_t now_ns)
{
	struct gpu_helper *helper = s->gpus.helper;

	if (!helper)
		return;
	take_all(s);
	while (gpu_helper_await_last(helper))
		take_all(s);
	take_all(s);
	take_last_frames(s, 0);
	count_last_gaps(s, now_ns);
	gpu_ids_drop_detached(&s->gpus.ids, FRAME_SOURCE_COUNT, &s->buf);
	set_facts(s);
	gpu_helper_end_run(helper, &s->buf);
	sampler_show(s, &s->buf, FRAME_RECORDER, now_ns, 0);
}

void sampler_gpu_reaped(struct sampler *s, pid_t pid, int status)
{
	if (s->gpus.helper && pid == gpu_helper_pid(s->gpus.helper))
		gpu_helper_reaped(s->gpus.helper, status);
}

void sampler_gpu_free(struct sampler *s)
{
	gpu_helper_free(s->gpus.helper);
	gpu_ids_done(&s->gpus.ids);
	s->gpus.helper = NULL;
}

pid_t sampler_helper(const struct sampler *s)
{
	return s->gpus.helper ? gpu_helper_pid(s->gpus.helper) : 0;
}
