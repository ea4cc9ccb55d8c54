/* SPDX-License-Identifier: MIT
 *
 * GPUs in the sampling loop: applies the helper's frames and adds up the job's memory on the
 * devices.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sample/sampler_internal.h"

enum {
	FRAMES_PER_SAMPLE = 256,     /* most frames applied per sample */
	MOST_XIDS = 32           /* of one frame */
};

static const uint64_t resume_ns = 1000000000;
/* apply a driver's last frames without waiting for others if it was silent for this long */
static const uint64_t silent_ns = UINT64_C(5000000000);

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
		facts->gpu_queried = known(0);
	if (s->options.gpu == GPU_NONE || (!s->options.root->live && !s->options.vendors))
		return;
	s->gpus.helper = gpu_helper_start(&request, &err);
	if (!s->gpus.helper)
		(void) job_set_text(&facts->gpu_why, err.text);
}

/* If the helper was restarted, the ids of the previous one are void. */
static void check_restart(struct sampler *s, uint64_t now_ns)
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

/* A new helper reports the processes on a device again, unless there is no new one or it cannot
 * read this driver. */
static void drop_detached(struct sampler *s, uint64_t now_ns)
{
	for (const struct gpu_vendor *v = vendors_of(s); v->ops && s->gpus.starts > 1; v++) {
		if (gpu_helper_has_given_up(s->gpus.helper, v->ops))
			gpu_ids_drop_detached(&s->gpus.ids, v->ops->frame, &s->buf);
	}
	sampler_show(s, &s->buf, FRAME_RECORDER, now_ns, 0);
}

/* An error that a driver reported for a device. */
struct xid {
	uint32_t gpu;
	uint64_t time_ns; /* time of its note */
	char what[160];
};

/* An error on several devices at once (their links) is in one frame. Returns the number of
 * errors. */
static size_t xids_of(const struct framebuf *buf, struct xid *ret, size_t room)
{
	static const char about[] = "gpu.xid: ";
	size_t n = 0;

	for (size_t i = 0; i < buf->n_events && n < room; i++) {
		if (strncmp(buf->events[i].text, about, sizeof(about) - 1) != 0)
			continue;
		ret[n].gpu = buf->events[i].id;
		ret[n].time_ns = buf->events[i].time_ns;
		(void) snprintf(
			ret[n].what, sizeof(ret[n].what), "%s", buf->events[i].text + sizeof(about) - 1);
		n++;
	}
	return n;
}

/* An error on a device that the job uses is a trigger; only the first one, which is the most
 * informative. */
static void trigger_xid(struct sampler *s, const struct xid *xid)
{
	const struct acc *ours = job_acc(s->job, M_GPU_JOB_MEM, xid->gpu);

	if (s->gpus.xid_reported || !ours || ours->max <= 0)
		return;
	s->gpus.xid_reported = true;
	sampler_trigger_at(s, xid->time_ns, xid->what);
}

static void report_gap(struct sampler *s, uint64_t ns)
{
	struct facts *facts = job_facts(s->job);

	facts->gpu_longest_gap_ns = maybe_max(facts->gpu_longest_gap_ns, known((int64_t) ns));
}

/* Memory used while a driver is slow is in no reading. */
static void check_gap(struct sampler *s, enum frame_source source, uint64_t time_ns)
{
	const uint64_t last_ns = s->gpus.read_ns[source], gap_ns = counter_delta(last_ns, time_ns);

	if (last_ns && gap_ns > s->gpus.hold_ns[source])
		report_gap(s, gap_ns);
}

/* The driver may also have been slow to start. */
static void check_first_delay(struct sampler *s, uint64_t time_ns)
{
	static const uint64_t normal_ns = UINT64_C(1000000000);

	if (time_ns > normal_ns)
		report_gap(s, time_ns);
}

static void count_gap(struct sampler *s, const struct frame *frame)
{
	uint64_t *last_ns = &s->gpus.read_ns[frame->source], *hold_ns = &s->gpus.hold_ns[frame->source];
	bool any = false, missing = false;

	for (size_t i = 0; i < frame->n_readings; i++) {
		any |= frame->readings[i].metric == M_GPU_MEM && frame->readings[i].known;
		missing |= frame->readings[i].metric == M_GPU_MEM && !frame->readings[i].known;
	}
	if (missing && !any) { /* it answered, so what follows is not a gap */
		check_gap(s, frame->source, frame->answered_ns);
		*last_ns = 0;
		*hold_ns = *hold_ns ? *hold_ns : frame->hold_ns; /* nor a slow start */
	}
	if (!any || frame->time_ns < *last_ns)
		return;
	check_gap(s, frame->source, frame->time_ns);
	*last_ns = frame->time_ns;
	if (*hold_ns == 0)
		check_first_delay(s, frame->time_ns);
	/* process lists also have memory and are valid longer */
	if (*hold_ns == 0 || frame->hold_ns < *hold_ns)
		*hold_ns = frame->hold_ns;
}

/* A gap that lasts until the end of the run. GPUs suspended by then are not a driver that does
 * not respond. */
static void count_last_gaps(struct sampler *s, uint64_t end_ns)
{
	for (int source = 0; source < FRAME_SOURCE_COUNT; source++) {
		if (gpu_helper_is_cut_short(s->gpus.helper, (enum frame_source) source))
			check_gap(s, (enum frame_source) source, end_ns);
	}
}

static void apply_frame(struct sampler *s, const struct frame *frame)
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

static void apply_frames(struct sampler *s)
{
	const struct frame *frame;

	for (int i = 0; i < FRAMES_PER_SAMPLE && (frame = gpu_helper_frame(s->gpus.helper)); i++)
		apply_frame(s, frame);
}

static void apply_last_frames(struct sampler *s, uint64_t for_ns)
{
	const struct frame *frame;

	while ((frame = gpu_helper_last_frame(s->gpus.helper, for_ns)))
		apply_frame(s, frame);
}

static void set_facts(struct sampler *s)
{
	const struct gpu_status status = gpu_helper_status(s->gpus.helper);
	struct facts *facts = job_facts(s->job);

	facts->gpu_helper_cpu_ns = known((int64_t) status.cpu_ns);
	if (status.n_open > 0)
		facts->gpu_helper_rss_bytes = known((int64_t) status.rss_bytes);
	if (facts->gpu_queried.known || !status.is_settled)
		return;
	facts->gpu_queried = known(1);
	facts->gpu_seen = known(status.saw_gpu);
	if (status.n_open > 0)
		return;
	(void) job_set_text(&facts->gpu_why, status.why_not);
	if (gpu_is_fault(status.code_not))
		facts->gpu_fault = known(1);
}

/* A stopped helper (SIGSTOP) loses at most a second of samples: send SIGCONT, which has no
 * effect on a running one. Its channel ends before its pid can be reused. */
static void resume_helper(struct sampler *s, uint64_t now_ns)
{
	const pid_t pid = gpu_helper_pid(s->gpus.helper);

	if (pid <= 0 || gpu_helper_fd(s->gpus.helper) < 0 || now_ns < s->gpus.resumed_ns + resume_ns)
		return;
	s->gpus.resumed_ns = now_ns;
	(void) kill(pid, SIGCONT);
}

void sampler_gpu_step(struct sampler *s, uint64_t now_ns)
{
	if (!s->gpus.begun)
		start(s);
	if (!s->gpus.helper)
		return;
	check_restart(s, now_ns); /* first: a helper that found no GPU ends at once and may be reaped */
	apply_frames(s);
	apply_last_frames(s, silent_ns);
	resume_helper(s, now_ns);
	gpu_helper_watch(s->gpus.helper, &s->buf);
	sampler_show(s, &s->buf, FRAME_RECORDER, now_ns, 0);
	check_restart(s, now_ns);
	drop_detached(s, now_ns);
	set_facts(s);
}

void sampler_gpu_request_last(struct sampler *s)
{
	if (s->options.gpu == GPU_NONE)
		job_facts(s->job)->gpu_queried = known(0);
	if (s->gpus.helper)
		gpu_helper_request_last(s->gpus.helper);
}

void sampler_gpu_end(struct sampler *s, uint64_t now_ns)
{
	struct gpu_helper *helper = s->gpus.helper;

	if (!helper)
		return;
	apply_frames(s);
	while (gpu_helper_await_last(helper))
		apply_frames(s);
	apply_frames(s);
	apply_last_frames(s, 0);
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
