/* SPDX-License-Identifier: MIT
 *
 * The recorder of a traced run: the memory that the job writes events into, and its messages
 * for the user.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "api/handles.h"
#include "base/buf.h"
#include "base/mask.h"
#include "source/trace/reach.h"

int hwi_trace_layers(const char *list, unsigned *ret, struct hiw_err *ret_err)
{
	struct err err = { "" };
	struct buf names = BUF_INIT(200);
	int r = trace_layers_parse(list ? list : "", ret);

	for (unsigned layer = 1; r < 0 && layer <= TRACE_ALL; layer <<= 1)
		(void) buf_printf(&names, "%s%s", layer > 1 ? ", " : "", trace_layer_name(layer));
	if (r < 0)
		(void) err_set(&err, r, "'%.80s' is not something to trace; give some of %s, separated by commas", list,
			names.data ? names.data : "");
	buf_done(&names);
	return api_err(ret_err, &err, r);
}

bool hwi_trace_needs(unsigned layers, enum hwi_trace_hook hook)
{
	const unsigned ranges = TRACE_RANGES, gpu = TRACE_MEMORY | TRACE_LAUNCHES | TRACE_KERNELS;

	return layers & (hook == HWI_TRACE_NVTX || hook == HWI_TRACE_ITT ? ranges : gpu);
}

/* What the recorder lacks is an error with --strict, else a warning. */
static int lacks(struct hiw_recorder *r, int error, struct err *err)
{
	if (!r->options.degrade)
		return error;
	(void) snprintf(r->trace_warning, sizeof(r->trace_warning), "the job is not traced: %.400s", err->text);
	err->text[0] = '\0';
	return 0;
}

/* Without a feed the job runs unsampled. */
static void open_where(struct hiw_recorder *r)
{
	const struct hwi_sampling *o = &r->trace_options.sampling;
	const struct where_feed_options options = {
		.program = o->program,
		.period = o->period,
		.stack_bytes = o->stack_bytes,
		.removes_maps = o->removes_maps,
		.attaches = o->attaches,
	};

	if (o->period && !r->options.no_record)
		r->where = where_feed_new(&options);
}

int open_trace(struct hiw_recorder *r, struct err *err)
{
	struct trace_reader_options options = {
		.layers = r->trace_options.layers,
		.select = {
			.phase_range = r->trace_options.phase_range,
			.step = r->trace_options.step,
			.windows = r->trace_options.windows,
		},
	};
	int error;

	open_where(r);
	if (!r->trace_options.layers)
		return 0;
	if (r->options.no_record)
		return lacks(r, err_set(err, -EINVAL, "no recording is written, which would have what is traced"), err);
	options.root = r->trace_root = calloc(1, sizeof(*r->trace_root));
	error = r->trace_root ? root_open("/", r->trace_root, err) : err_set(err, -ENOMEM, "out of memory");
	if (error == 0)
		error = trace_reader_new(&options, &r->trace, err);
	return error == -EINVAL ? error : error < 0 ? lacks(r, error, err)
						    : 0; /* the command line is wrong */
}

int hwi_recorder_where(struct hiw_recorder *r, pid_t pid, pid_t *ret_pid, struct hiw_err *ret_err)
{
	struct err err = { "" };
	int error;

	*ret_pid = 0;
	if (!r->where)
		return api_err(ret_err, &err, err_set(&err, -ENOENT, "no recording is written, which would have it"));
	error = where_feed_start(r->where, pid, ret_pid, &err);
	if (*ret_pid > 0)
		hiw_recorder_ignore(r, *ret_pid);
	return api_err(ret_err, &err, error);
}

const char *trace_step(const struct hiw_recorder *r)
{
	if (!r->trace_options.layers)
		return NULL;
	return r->trace_options.step ? r->trace_options.step : TRACE_STEP_DEFAULT;
}

static void end_wait(struct hiw_recorder *r)
{
	if (r->trace_timer >= 0)
		(void) close(r->trace_timer);
	r->trace_timer = -1;
}

void close_trace(struct hiw_recorder *r)
{
	end_wait(r);
	if (!r->trace_is_used) {
		trace_reader_free(r->trace);
		where_feed_free(r->where);
		if (r->trace_root)
			root_done(r->trace_root);
		free(r->trace_root);
	}
	r->trace = NULL;
	r->where = NULL;
	r->trace_root = NULL;
}

void poll_trace(struct hiw_recorder *r)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (r->trace && r->epoll >= 0 && trace_reader_socket(r->trace) >= 0)
		(void) epoll_ctl(r->epoll, EPOLL_CTL_ADD, trace_reader_socket(r->trace), &event);
}

/* A job that writes no event costs what an untraced one does: memory is prepared a little later, and the file of
 * the recording is begun when there is something to read. Without a timer that waits for the next sample. */
static void begin_wait(struct hiw_recorder *r)
{
	static const struct itimerspec times = {
		.it_value.tv_nsec = 5000000,
		.it_interval.tv_nsec = 20000000,
	};
	struct epoll_event event = { .events = EPOLLIN };

	r->trace_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (r->trace_timer < 0 || timerfd_settime(r->trace_timer, 0, &times, NULL) < 0 || r->epoll < 0 ||
		epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->trace_timer, &event) < 0)
		end_wait(r);
	if (r->trace_timer < 0)
		trace_reader_prepare(r->trace);
}

void begin_trace(struct hiw_recorder *r)
{
	const struct facts *f = job_facts_const(sampler_job(r->sampler));

	if (r->where && f->started_boot_ns.known)
		where_feed_begin(r->where, (uint64_t) f->started_boot_ns.value);
	if (!r->trace || !f->started_boot_ns.known)
		return;
	trace_reader_begin(r->trace, (uint64_t) f->started_boot_ns.value, (pid_t) f->main_pid.value);
	if (r->record && !record_has_begun(r->record))
		begin_wait(r);
}

bool has_traced(const struct hiw_recorder *r)
{
	return r->trace && trace_reader_is_used(r->trace);
}

static void begin_record(struct hiw_recorder *r)
{
	uint64_t expirations;

	if (!r->record || record_has_begun(r->record)) {
		end_wait(r);
		return;
	}
	if (has_traced(r))
		record_begin(r->record);
	else if (r->trace_timer >= 0 && read(r->trace_timer, &expirations, sizeof(expirations)) > 0)
		trace_reader_prepare(r->trace);
}

/* A frame is made in the middle of a sample: what is to be read waits for the step. */
void trace_frame(struct hiw_recorder *r, const struct frame *frame)
{
	const unsigned most = sizeof(r->trace_checks) / sizeof(*r->trace_checks);

	for (size_t i = 0; i < frame->n_births && r->n_trace_checks < most; i++) {
		const struct birth *b = &frame->births[i];
		struct trace_check *check = &r->trace_checks[r->n_trace_checks];

		if (b->entity != ENTITY_PROCESS)
			continue;
		check->pid = b->process.pid;
		(void) snprintf(check->name, sizeof(check->name), "%s", b->process.name);
		r->n_trace_checks++;
	}
}

/* A program that measures itself sets its variables while it runs, which the kernel's files do not show. */
static void check_reach(struct hiw_recorder *r)
{
	const unsigned n = r->options.attached ? 0 : r->n_trace_checks;
	char text[TRACE_NOTE_BYTES];

	for (unsigned i = 0; i < n; i++) {
		const struct trace_check *check = &r->trace_checks[i];

		if (!trace_is_out_of_reach(&r->root, check->pid))
			continue;
		trace_reach_note(++r->out_of_reach, check->pid, check->name, text, sizeof(text));
		if (text[0])
			trace_reader_add_note(r->trace, text);
	}
	r->n_trace_checks = 0;
}

void end_trace(struct hiw_recorder *r)
{
	char text[TRACE_NOTE_BYTES];

	if (!r->trace)
		return;
	check_reach(r);
	trace_reach_sum(r->out_of_reach, text, sizeof(text));
	if (text[0])
		trace_reader_add_note(r->trace, text);
	step_trace(r);
}

/* Ranges that are phases: they were read after they began, so the time of the event is before that of its frame. */
static void push_phases(struct hiw_recorder *r)
{
	struct trace_phase_edge edge;

	while (trace_select_phase(trace_reader_select(r->trace), &edge)) {
		char masked[2 * TRACE_PHASE_NAME + 1];
		const struct event event = {
			.time_ns = edge.time_ns,
			.kind = edge.begins ? EVENT_PHASE_BEGIN : EVENT_PHASE_END,
			.entity = ENTITY_JOB,
			.phase = edge.number,
			.text = masked,
		};
		const struct frame frame = {
			.time_ns = sampler_time(r->sampler),
			.source = FRAME_USER,
			.live = true,
			.n_events = 1,
			.events = &event,
		};

		for (char *p = edge.name; *p; p++)
			*p = (char) (*p == '\n' ? ' ' : *p); /* further lines of a phase's text are its facts */
		(void) mask_text(edge.name, masked, sizeof(masked));
		sampler_push(r->sampler, &frame);
	}
}

void finish_phases(struct hiw_recorder *r)
{
	static const uint64_t wait_ns = 500000000;
	char text[TRACE_NOTE_BYTES];
	uint64_t left_out;

	if (!r->trace)
		return;
	begin_record(r);
	if (!r->record || !r->trace_options.phase_range)
		return;
	record_drain(r->record, wait_ns);
	push_phases(r);
	left_out = trace_select_phases_left_out(trace_reader_select(r->trace));
	(void) snprintf(text, sizeof(text), "trace: --phase-range: %llu more ranges match; the first %d are phases",
		(unsigned long long) left_out, TRACE_PHASES_MOST);
	if (left_out)
		trace_reader_add_note(r->trace, text);
}

/* A note is in the recording too, while there is one. */
void step_trace(struct hiw_recorder *r)
{
	char text[TRACE_NOTE_BYTES];

	if (!r->trace)
		return;
	if (!r->ended) {
		begin_record(r);
		trace_reader_answer(r->trace);
		check_reach(r);
		push_phases(r);
	}
	while (!r->trace_warning[0] && trace_reader_note(r->trace, text)) {
		const struct event event = {
			.time_ns = sampler_time(r->sampler),
			.kind = EVENT_NOTE,
			.entity = ENTITY_JOB,
			.text = text,
		};
		const struct frame frame = {
			.time_ns = event.time_ns,
			.source = FRAME_RECORDER,
			.live = true,
			.n_events = 1,
			.events = &event,
		};

		(void) snprintf(r->trace_warning, sizeof(r->trace_warning), "%s", text);
		if (!r->ended)
			sampler_push(r->sampler, &frame);
	}
}

bool trace_warning(struct hiw_recorder *r, struct err *ret)
{
	step_trace(r);
	if (r->where && !r->trace_warning[0])
		where_feed_note(r->where, r->trace_warning);
	if (!r->trace_warning[0])
		return false;
	(void) snprintf(ret->text, sizeof(ret->text), "%s", r->trace_warning);
	r->trace_warning[0] = '\0';
	return true;
}

int hwi_recorder_new_traced(const struct hiw_options *options, enum hwi_part part,
	const struct hwi_tracing *trace, struct hiw_recorder **ret, struct hiw_err *err)
{
	return recorder_new(options, part, trace, ret, err);
}

int hwi_recorder_trace_fd(const struct hiw_recorder *r)
{
	return r->trace ? trace_reader_fd(r->trace) : -1;
}

const char *hwi_recorder_trace_environment(const struct hiw_recorder *r)
{
	return r->trace ? trace_reader_environment(r->trace) : "";
}

int hwi_recorder_trace_window(struct hiw_recorder *r, const char *window, struct hiw_err *ret_err)
{
	struct err err = { "" };
	int error;

	if (!r->trace || r->ended)
		error = err_set(&err, -ENOENT, "no window of a trace: the run is not traced; start it with trace=True");
	else
		error = trace_select_add(trace_reader_select(r->trace), window, &err);
	return api_err(ret_err, &err, error);
}
