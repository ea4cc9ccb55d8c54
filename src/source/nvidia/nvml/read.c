/* SPDX-License-Identifier: MIT
 *
 * Reads a row: the first way that works is kept, a figure that a device does not support is not
 * read again, and unknown is appended once. The meaning of codes is in tables.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "source/nvidia/nvml/internal.h"

/* A counter that restarts (the GPU was reset, the driver reloaded) continues from its last
 * value. */
static struct reading continued(struct nvml_gpu *d, struct reading r)
{
	struct nvml_counter *c = &d->counters[r.metric];

	if (r.value < c->last)
		c->before += c->last;
	c->last = r.value;
	return reading_of((enum metric) r.metric, r.id, c->before + r.value);
}

void nvml_append(struct nvml_gpu *d, struct framebuf *out, const struct reading *reading)
{
	enum nvml_reported *reported = &d->reported[reading->metric];

	if (reading->known)
		framebuf_reading(out,
			metrics[reading->metric].kind == KIND_COUNTER ? continued(d, *reading) : *reading);
	else if (*reported != REPORTED_UNKNOWN)
		framebuf_unknown(out, (enum metric) reading->metric, d->id);
	*reported = reading->known ? REPORTED_KNOWN : REPORTED_UNKNOWN;
}

void nvml_append_value(struct nvml_gpu *d, struct framebuf *out, enum metric metric, struct maybe value)
{
	struct reading r = reading_of(metric, d->id, value.value);

	r.known = value.known;
	nvml_append(d, out, &r);
}

void nvml_set(struct reading *r, uint64_t value, uint64_t scale)
{
	int64_t scaled;

	if (!__builtin_mul_overflow(value, scale, &scaled))
		*r = reading_of((enum metric) r->metric, r->id, scaled);
}

void nvml_note(struct source *s, const struct nvml_gpu *d, struct framebuf *out, const char *about,
	enum note_cause cause, const char *text)
{
	char words[640], instance[48] = "";
	const struct event event = {
		.time_ns = counter_delta(s->env->start_boot_ns, s->now_ns),
		.kind = EVENT_NOTE,
		.entity = d->id ? ENTITY_GPU : ENTITY_JOB, /* a GPU that could not be opened has no birth */
		.id = d->id,
		.text = words,
		.cause = cause,
	};

	if (d->parent)
		(void) snprintf(instance, sizeof(instance), ", MIG instance %u", d->index);
	(void) snprintf(words, sizeof(words), "%s: GPU %u%s: %s", about,
		d->parent ? d->parent->index : d->index, instance, text);
	framebuf_event(out, &event);
}

/* ---- codes ----------------------------------------------------------------------------------- */

enum nvml_meaning nvml_handle_code(struct source *s, struct nvml_gpu *d, int code, struct framebuf *out)
{
	enum nvml_meaning meaning = nvml_code(code)->meaning;

	if (meaning == NVML_STALE && d->parent) {
		s->rescan = true; /* a MIG handle is valid until the GPU is divided anew */
		return NVML_NOT_NOW;
	}
	if (meaning == NVML_STALE && code == NVML_INVALID_ARGUMENT)
		return NVML_NOT_NOW;
	if (meaning == NVML_LOST || meaning == NVML_STALE) {
		nvml_gpu_lost(s, d->parent ? d->parent : d, code, out);
		return NVML_LOST;
	}
	return meaning;
}

static struct nvml_notes *notes_of(struct nvml_gpu *d, const struct nvml_row *row)
{
	return &d->notes[row - nvml_rows];
}

static bool is_unsupported(enum nvml_meaning meaning)
{
	return meaning == NVML_ABSENT || meaning == NVML_FORBIDDEN;
}

/* An unspecified error is noted once: it may be the first sign of a fault. */
static void note_error(struct source *s, struct nvml_gpu *d, const struct nvml_row *row,
	const struct nvml_try *t, struct framebuf *out)
{
	char text[128];

	if (nvml_code(t->code)->code != NVML_UNKNOWN || notes_of(d, row)->error)
		return;
	notes_of(d, row)->error = true;
	(void) snprintf(text, sizeof(text), "the driver returns error %d for gpu.%s", t->code,
		metrics[row->metrics[0]].name);
	nvml_note(s, d, out, "gpu", CAUSE_NONE, text);
}

void nvml_reject(struct nvml_gpu *d, enum metric metric, enum nvml_rejected kind)
{
	d->rejected[metric] |= (uint8_t) (1u << kind);
}

static void note_rejected(struct source *s, struct nvml_gpu *d, enum metric metric, enum nvml_rejected kind,
	struct framebuf *out)
{
	static const struct {
		const char *of, *instead;
	} words[NVML_REJECTED] = {
		[NVML_REJECTED_FIGURE] = { "the driver reports impossible values for gpu.",
			"they are left out" },
		[NVML_REJECTED_ROW] = { "the driver reports impossible values for a process's ",
			"such samples of processes are left out" },
	};
	char text[160];

	(void) snprintf(
		text, sizeof(text), "%s%s; %s", words[kind].of, metrics[metric].name, words[kind].instead);
	nvml_note(s, d, out, "gpu", CAUSE_NONE, text);
}

void nvml_note_rejected(
	struct source *s, struct nvml_gpu *d, const enum metric *rejected, size_t n, struct framebuf *out)
{
	for (size_t i = 0; i < n; i++) {
		const unsigned unnoted = d->rejected[rejected[i]] &
					 ~(unsigned) d->rejected_noted[rejected[i]];

		for (int kind = 0; unnoted && kind < NVML_REJECTED; kind++) {
			if (unnoted & 1u << kind)
				note_rejected(s, d, rejected[i], (enum nvml_rejected) kind, out);
		}
		d->rejected_noted[rejected[i]] |= (uint8_t) unnoted;
	}
}

void nvml_mark_no_value(struct nvml_gpu *d, enum metric metric)
{
	d->no_value[metric] |= d->reported[metric] == REPORTED_NEVER;
}

void nvml_note_no_value(struct source *s, struct nvml_gpu *d, const char *who, struct framebuf *out)
{
	struct buf names = BUF_INIT(512);
	char text[576];

	for (int m = 0; m < METRIC_COUNT; m++) {
		if (!d->no_value[m] || d->no_value_noted[m])
			continue;
		d->no_value_noted[m] = true;
		(void) buf_printf(&names, "%sgpu.%s", names.len ? ", " : "", metrics[m].name);
	}
	(void) snprintf(text, sizeof(text), "%s returns no value for %s", who, names.data);
	if (names.len)
		nvml_note(s, d, out, "gpu", CAUSE_NONE, text);
	buf_done(&names);
}

/* Is its value impossible (noted as such)? */
static bool is_rejected(const struct nvml_gpu *d, enum metric metric)
{
	return d->rejected[metric] & 1u << NVML_REJECTED_FIGURE;
}

/* Notes once why values end: means cover only the time before. The driver may report that by a
 * value, all ones. */
static void note_unavailable(struct source *s, struct nvml_gpu *d, const struct nvml_row *row,
	const struct nvml_try *t, enum nvml_meaning meaning, struct framebuf *out)
{
	const struct nvml_code *code = nvml_code(t->code);
	const bool was_had = d->reported[row->metrics[0]] == REPORTED_KNOWN;
	char why[96], text[160];

	if (t->code == NVML_NONSENSE)
		nvml_reject(d, row->metrics[0], NVML_REJECTED_FIGURE);
	if (notes_of(d, row)->unavailable || !was_had || is_rejected(d, row->metrics[0]) ||
		!(meaning == NVML_FINE || is_unsupported(meaning)))
		return;
	notes_of(d, row)->unavailable = true;
	if (meaning == NVML_FINE)
		(void) snprintf(why, sizeof(why), "the driver reports that it is no longer available");
	else
		(void) snprintf(why, sizeof(why), "%s (NVML code %d)", code->why, t->code);
	(void) snprintf(
		text, sizeof(text), "gpu.%s became unavailable: %s", metrics[row->metrics[0]].name, why);
	nvml_note(s, d, out, "gpu", CAUSE_NONE, text);
}

/* The instances may report other busy figures, or none. */
static void note_divided(
	struct source *s, struct nvml_gpu *d, const struct nvml_row *row, struct framebuf *out)
{
	char text[128];

	if (notes_of(d, row)->divided || row->metrics[0] != M_GPU_BUSY)
		return;
	notes_of(d, row)->divided = true;
	(void) snprintf(
		text, sizeof(text), "gpu.%s is not available: " NVML_WITHHELD, metrics[M_GPU_BUSY].name);
	nvml_note(s, d, out, "gpu", CAUSE_NONE, text);
}

/* One permission applies to many figures: only the first refused one of a device is noted. */
static void note_refusal(struct source *s, struct nvml_gpu *d, const struct nvml_row *row,
	const struct nvml_try *t, struct framebuf *out)
{
	const struct nvml_code *code = nvml_code(t->code);
	char text[224];

	if (code->meaning != NVML_FORBIDDEN || d->refusal_noted)
		return;
	d->refusal_noted = true;
	(void) snprintf(text, sizeof(text),
		"the driver refuses some values, gpu.%s first: %s (NVML code %d); %s",
		metrics[row->metrics[0]].name, code->why, t->code, code->remedy);
	nvml_note(s, d, out, "gpu", CAUSE_NONE, text);
}

static void note_way(struct source *s, struct nvml_gpu *d, const struct nvml_row *row,
	const struct nvml_try *t, struct framebuf *out)
{
	const char *note = row->ways[t->way].note, *colon = note ? strchr(note, ':') : NULL;
	char about[32];

	if (notes_of(d, row)->way || !colon)
		return;
	notes_of(d, row)->way = true;
	(void) snprintf(about, sizeof(about), "%.*s", (int) (colon - note), note);
	nvml_note(s, d, out, about, CAUSE_NONE, colon + 2);
}

/* ---- one row of one device ------------------------------------------------------------------- */

/* All ones means "no value"; for a typed field it is NO_DATA. Means over time, and figures cached
 * from the memory call, have none at first. */
static bool has_no_value(const struct nvml_row *row, const struct nvml_try *t)
{
	const enum metric metric = row->metrics[0];

	return t->code == NVML_SUCCESS ||
	       (t->code == NVML_NO_DATA && metrics[metric].kind != KIND_COUNTER && metric != M_GPU_MEM_FREE);
}

static void mark_missing_values(
	struct nvml_gpu *d, const struct nvml_row *row, const struct nvml_try *t, const struct reading *r)
{
	for (unsigned i = 0; has_no_value(row, t) && !r[0].known && i < row->n; i++) {
		if (!r[i].known && !is_rejected(d, row->metrics[i]))
			nvml_mark_no_value(d, row->metrics[i]);
	}
}

/* Tries the way in use, and the next ones if it is not supported. Returns the meaning of the last
 * code. */
static enum nvml_meaning try_ways(struct source *s, struct nvml_gpu *d, const struct nvml_row *row,
	struct nvml_try *t, struct reading *r, struct framebuf *out)
{
	for (;;) {
		for (unsigned i = 0; i < row->n; i++)
			r[i] = (struct reading) { .id = d->id, .metric = (uint16_t) row->metrics[i], .n = 1 };
		t->code = row->ways[t->way].read(s, d, r);
		enum nvml_meaning meaning = t->code == NVML_ELSEWHERE ? NVML_NOT_NOW
								      : nvml_handle_code(s, d, t->code, out);

		if (!is_unsupported(meaning))
			return meaning;
		if (meaning == NVML_FORBIDDEN)
			t->refusal = t->code;
		if (t->way + 1 == NVML_MAX_WAYS || !row->ways[t->way + 1].read) {
			t->absent = true;
			t->code = t->refusal ? t->refusal : t->code; /* available, but not to this user */
			return t->refusal ? NVML_FORBIDDEN : meaning;
		}
		t->way++;
	}
}

static void read_row(struct source *s, struct nvml_gpu *d, const struct nvml_row *row, struct framebuf *out)
{
	struct nvml_try *t = &d->tries[row - nvml_rows];
	struct reading r[NVML_MAX_METRICS];

	if (t->absent || (d->parent && !row->of_instance))
		return;
	enum nvml_meaning meaning = try_ways(s, d, row, t, r, out);

	if (meaning == NVML_LOST)
		return;
	if (meaning == NVML_FINE || t->code == NVML_ELSEWHERE)
		note_way(s, d, row, t, out);
	else
		note_error(s, d, row, t, out);
	note_refusal(s, d, row, t, out);
	if (t->code == NVML_ELSEWHERE)
		return;
	if (nvml_is_withheld(d, row->metrics[0], t->code))
		note_divided(s, d, row, out);
	else if (meaning != NVML_FINE || !r[0].known)
		note_unavailable(s, d, row, t, meaning, out);
	nvml_note_rejected(s, d, row->metrics, row->n, out);
	mark_missing_values(d, row, t, r);
	for (unsigned i = 0; i < row->n; i++) {
		r[i].known &= meaning == NVML_FINE;
		nvml_append(d, out, &r[i]);
	}
	if (row->metrics[0] == M_GPU_MEM) {
		d->mem = r[0].known ? known(r[0].value) : UNKNOWN;
		d->mem_ns = s->now_ns;
	}
}

void nvml_publish(struct source *s, const struct framebuf *out)
{
	if (s->env->on_progress)
		s->env->on_progress(s->env->progress_ctx);
	else if (s->env->on_partial)
		s->env->on_partial(s->env->progress_ctx, out);
}

static void read_group(struct source *s, struct nvml_gpu *d, enum nvml_group group, struct framebuf *out)
{
	if (d->state == NVML_AWAKE && !d->parent && group == NVML_GROUP_COUNTERS)
		(void) nvml_handle_code(s, d, nvml_fields_read(&s->nvml, d->handle, &d->fields), out);
	for (size_t i = 0; i < nvml_n_rows && d->state == NVML_AWAKE; i++) {
		if (nvml_rows[i].group == group)
			read_row(s, d, &nvml_rows[i], out);
	}
}

static const enum nvml_group by_rows[] = { NVML_GROUP_MEMORY, NVML_GROUP_ACTIVITY, NVML_GROUP_COUNTERS,
	NVML_GROUP_RARE };

/* With a read budget, lists are read in turn instead (nvml_processes_read). */
static void read_device(struct source *s, struct nvml_gpu *d, unsigned what, struct framebuf *out)
{
	nvml_turn_to(s, d);
	for (size_t i = 0; i < sizeof(by_rows) / sizeof(by_rows[0]); i++) {
		if (!(what & 1u << by_rows[i]))
			continue;
		read_group(s, d, by_rows[i], out);
		nvml_publish(s, out);
	}
	nvml_note_no_value(s, d, "the driver", out);
	if (s->env->budget || !(what & 1u << NVML_GROUP_PROCESSES))
		return;
	nvml_processes_list(s, d, out);
	nvml_publish(s, out);
}

void nvml_read_devices(struct source *s, unsigned what, struct framebuf *out)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i]->parent)
			continue;
		read_device(s, s->gpus[i], what, out);
		for (size_t k = 0; k < s->n_gpus; k++) {
			if (s->gpus[k]->parent == s->gpus[i])
				read_device(s, s->gpus[k], what, out);
		}
	}
}
