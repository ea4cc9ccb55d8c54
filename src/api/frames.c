/* SPDX-License-Identifier: MIT
 *
 * The public interface: frames, of a recorder and of a recording.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "rules/rule.h"

/* ---- metrics --------------------------------------------------------------------------------- */

_Static_assert((int) HIW_GPU_PROCESS == (int) ENTITY_GPU_PROCESS && (int) HIW_GPU == (int) ENTITY_GPU &&
		       (int) HIW_PROCESS == (int) ENTITY_PROCESS && (int) HIW_JOB == (int) ENTITY_JOB,
	"hiw_entity is enum entity");
_Static_assert((int) HIW_UNIT_HZ == (int) UNIT_HZ && (int) HIW_UNIT_UW == (int) UNIT_UW &&
		       (int) HIW_UNIT_PPM == (int) UNIT_PPM,
	"hiw_unit is enum unit");
_Static_assert((int) HIW_HWM == (int) KIND_HWM && (int) HIW_COUNTER == (int) KIND_COUNTER,
	"hiw_kind is enum metric_kind");

static const struct hiw_metric public_metrics[METRIC_COUNT] = {
#define X(id, ent, column, unit_, kind_, adds, om, labels, json, origin, text) \
	[M_##id] = { .entity = (enum hiw_entity) ENTITY_##ent, \
		.unit = (enum hiw_unit) UNIT_##unit_, \
		.kind = (enum hiw_kind) KIND_##kind_, \
		.name = #column, \
		.sentence = text },
#include "model/metric.def"
#undef X
};

const struct hiw_metric *hiw_metric(unsigned number)
{
	return number < METRIC_COUNT ? &public_metrics[number] : NULL;
}

int hiw_metric_find(enum hiw_entity entity, const char *name)
{
	return metric_find((enum entity) entity, name);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void public_process(const struct process_birth *b, struct hiw_birth *ret)
{
	ret->name = b->name;
	ret->pid = (struct hiw_maybe) { b->pid, true };
	ret->uid = (struct hiw_maybe) { b->uid, true };
	ret->ppid = (struct hiw_maybe) { b->ppid, true };
	ret->parent = b->parent;
	ret->start_ns = b->start_ns;
	ret->command = b->command;
	ret->is_main = b->is_main;
}

static void public_gpu(const struct gpu_birth *b, struct hiw_birth *ret)
{
	ret->name = b->name;
	ret->uuid = b->uuid;
	ret->vendor = b->vendor;
	ret->driver = b->driver;
	ret->index = api_maybe(b->index);
	ret->memory_bytes = api_maybe(b->memory_bytes);
	ret->instance_of = b->parent;
	ret->unified = b->unified;
}

static void public_gpu_process(const struct gpu_process_birth *b, struct hiw_birth *ret)
{
	ret->name = b->name;
	ret->pid = api_maybe(b->pid);
	ret->uid = api_maybe(b->uid);
	ret->gpu = b->gpu;
	ret->process = b->process;
}

static struct hiw_birth public_birth(const struct birth *b)
{
	struct hiw_birth birth = {
		.entity = (enum hiw_entity) b->entity,
		.id = b->id,
		.command = "",
		.uuid = "",
		.vendor = "",
		.driver = "",
		.instance_of = "",
	};

	if (b->entity == ENTITY_PROCESS)
		public_process(&b->process, &birth);
	else if (b->entity == ENTITY_GPU)
		public_gpu(&b->gpu, &birth);
	else
		public_gpu_process(&b->gpu_process, &birth);
	return birth;
}

/* Room for n entries of size bytes. */
static bool room(void *array, size_t *cap, size_t n, size_t size)
{
	void *more;

	if (n <= *cap)
		return true;
	more = reallocarray(*(void **) array, n, size);
	if (!more)
		return false;
	*(void **) array = more;
	*cap = n;
	return true;
}

static bool room_for(struct public_frames *f, const struct frame *frame)
{
	return room(&f->births, &f->cap_births, frame->n_births, sizeof(*f->births)) &&
	       room(&f->readings, &f->cap_readings, frame->n_readings, sizeof(*f->readings)) &&
	       room(&f->ends, &f->cap_ends, frame->n_ends, sizeof(*f->ends)) &&
	       room(&f->events, &f->cap_events, frame->n_events, sizeof(*f->events)) &&
	       room(&f->values, &f->cap_values, frame->n_series, sizeof(*f->values));
}

static void copy_lists(struct public_frames *f, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_ends; i++)
		f->ends[i] = (struct hiw_end) { (enum hiw_entity) frame->ends[i].entity, frame->ends[i].id };
	for (size_t i = 0; i < frame->n_events; i++) {
		const struct event *e = &frame->events[i];

		f->events[i] = (struct hiw_event) { e->time_ns, event_name(e->kind),
			(enum hiw_entity) e->entity, e->id, e->value_ns, e->text };
	}
	for (size_t i = 0; i < frame->n_series; i++) {
		const struct series_value *v = &frame->series[i];

		f->values[i] = (struct hiw_value) { v->name, v->value, v->has_step, v->step };
	}
}

static const char *const source_names[FRAME_SOURCE_COUNT] = {
	[FRAME_PROCFS] = "procfs",
	[FRAME_HOST] = "host",
	[FRAME_CGROUP] = "cgroup",
	[FRAME_TASKSTATS] = "taskstats",
	[FRAME_TOTALS] = "totals",
	[FRAME_USER] = "user",
	[FRAME_RECORDER] = "recorder",
	[FRAME_NVML] = "nvml",
	[FRAME_DCGM] = "dcgm",
	[FRAME_AMDGPU] = "amdgpu",
	[FRAME_DRM] = "drm",
};

/* If memory is exhausted, the frame is dropped. */
void public_show(struct public_frames *f, const struct frame *frame)
{
	if (!room_for(f, frame))
		return;
	for (size_t i = 0; i < frame->n_births; i++)
		f->births[i] = public_birth(&frame->births[i]);
	for (size_t i = 0; i < frame->n_readings; i++) {
		const struct reading *r = &frame->readings[i];

		f->readings[i] = (struct hiw_reading) { r->id, r->metric, r->known, r->value, r->min,
			r->max };
	}
	copy_lists(f, frame);
	f->see(f->ctx, &(const struct hiw_frame) {
			       .time_ns = frame->time_ns,
			       .hold_ns = frame->hold_ns,
			       .live = frame->live,
			       .source = frame->live ? source_names[frame->source] : "",
			       .n_births = frame->n_births,
			       .n_readings = frame->n_readings,
			       .n_ends = frame->n_ends,
			       .n_events = frame->n_events,
			       .n_values = frame->n_series,
			       .births = f->births,
			       .readings = f->readings,
			       .ends = f->ends,
			       .events = f->events,
			       .values = f->values,
		       });
}

void public_free(struct public_frames *f)
{
	if (!f)
		return;
	free(f->births);
	free(f->readings);
	free(f->ends);
	free(f->events);
	free(f->values);
	free(f);
}

static struct public_frames *public_new(hiw_frame_fn *see, void *ctx)
{
	struct public_frames *f = calloc(1, sizeof(*f));

	if (f) {
		f->see = see;
		f->ctx = ctx;
	}
	return f;
}

int hiw_recorder_watch(struct hiw_recorder *r, hiw_frame_fn *see, void *ctx)
{
	r->seer = public_new(see, ctx);
	return r->seer ? 0 : -ENOMEM;
}

/* ---- recordings ------------------------------------------------------------------------------ */

struct hiw_player {
	struct player *player;
	struct public_frames *seer;
};

static bool show(void *ctx, const struct frame *frame)
{
	public_show(ctx, frame);
	return true;
}

int hiw_player_new(
	struct hiw_run *run, hiw_frame_fn *see, void *ctx, struct hiw_player **ret, struct hiw_err *ret_err)
{
	struct err err = { "" };
	struct hiw_player *p;

	if (!run->replay)
		return api_err(ret_err, &err,
			err_set(&err, -EINVAL,
				"cannot replay the run of a recorder; use hiw_recorder_watch"));
	p = calloc(1, sizeof(*p));
	if (p)
		p->seer = public_new(see, ctx);
	if (!p || !p->seer || player_new(run->replay, show, p->seer, &p->player) < 0) {
		hiw_player_free(p);
		return api_err(ret_err, &err, err_set(&err, -ENOMEM, "out of memory"));
	}
	*ret = p;
	return 0;
}

void hiw_player_free(struct hiw_player *p)
{
	if (!p)
		return;
	player_free(p->player);
	public_free(p->seer);
	free(p);
}

int hiw_player_to(struct hiw_player *p, uint64_t until_ns, struct hiw_err *ret_err)
{
	struct err err = { "" };

	return api_err(ret_err, &err, player_to(p->player, until_ns, &err));
}

int hiw_player_seek(struct hiw_player *p, uint64_t from_ns, struct hiw_err *ret_err)
{
	struct err err = { "" };

	return api_err(ret_err, &err, player_seek(p->player, from_ns, &err));
}

/* ---- filters --------------------------------------------------------------------------------- */

struct hwi_filter {
	struct rule rule;
};

int hwi_filter_new(const char *text, struct hwi_filter **ret, struct hiw_err *ret_err)
{
	struct hwi_filter *filter = calloc(1, sizeof(*filter));
	struct err err = { "" };
	int r = filter ? rule_parse(text, RULE_FILTER, &filter->rule, &err) : -ENOMEM;

	if (r < 0)
		free(filter);
	else
		*ret = filter;
	return api_err(ret_err, &err, r);
}

void hwi_filter_free(struct hwi_filter *filter)
{
	if (!filter)
		return;
	rule_done(&filter->rule);
	free(filter);
}

/* The caller's callback, which returns the values of a process. */
struct asking {
	void (*look)(void *ctx, const struct hwi_query *asked, struct hwi_answer *ret);
	void *ctx;
};

static void read_term(void *ctx, const struct rule *rule, size_t i, struct rule_value *ret)
{
	static const char *const fields[] = {
		[FIELD_NAME] = "name",
		[FIELD_COMMAND] = "command",
		[FIELD_PID] = "pid",
		[FIELD_UID] = "uid",
	};
	const struct asking *asking = ctx;
	const struct rule_term *term = &rule->terms[i];
	const struct hwi_query asked = {
		.field = term->name.what == RULE_FIELD ? fields[term->name.field] : NULL,
		.entity = (enum hiw_entity) term->name.entity,
		.gpu_index = { term->name.index, term->name.indexed },
		.metric = term->name.metric,
		.also = term->name.also,
		.rate = term->rate,
		.peak = term->name.part == PART_PEAK,
	};
	struct hwi_answer answer = { .known = false };

	if (term->name.what == RULE_FIELD || term->name.what == RULE_METRIC)
		asking->look(asking->ctx, &asked, &answer);
	ret->known = answer.known;
	ret->low = ret->value = ret->high = answer.value;
	ret->whole_known = answer.whole > 0;
	ret->whole = answer.whole;
	ret->text = answer.text;
}

bool hwi_filter_picks(const struct hwi_filter *filter,
	void (*see)(void *ctx, const struct hwi_query *asked, struct hwi_answer *ret), void *ctx)
{
	struct asking asking = { see, ctx };

	return rule_holds(&filter->rule, read_term, &asking, NULL);
}
