/* SPDX-License-Identifier: MIT */
#include "summary/gpus_now.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/textwidth.h"
#include "summary/note_names.h"

enum {
	MOST_GPUS = 1 << 12,
	MOST_USERS = 1 << 16,
	MOST_NOTES = 256,
	TEXT_MOST = 1 << 24,
};

char *gpus_now_text(struct gpus_now *now, const char *text)
{
	struct buf clean = BUF_INIT(TEXT_MOST);
	char *copied = text_clean(text, true, &clean) == 0 ? strdup(clean.data) : NULL;

	buf_done(&clean);
	if (!copied)
		now->error = -ENOMEM;
	return copied;
}

static void free_gpu(struct gpu_now *g)
{
	char *const texts[] = { g->uuid, g->name, g->vendor, g->pci, g->parent, g->driver };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free(texts[i]);
	for (size_t i = 0; i < GPU_FACT_COUNT; i++)
		free(g->facts[i].text);
}

static void free_user(struct gpu_user_now *u)
{
	free(u->name);
	free(u->user);
	free(u->command);
	free(u->program);
}

static void free_note(struct gpu_note_now *n)
{
	free(n->about);
	free(n->why);
}

void gpus_now_done(struct gpus_now *now)
{
	for (size_t i = 0; i < now->n_gpus; i++)
		free_gpu(&now->gpus[i]);
	for (size_t i = 0; i < now->n_users; i++)
		free_user(&now->users[i]);
	for (size_t i = 0; i < now->n_notes; i++)
		free_note(&now->notes[i]);
	free(now->gpus);
	free(now->users);
	free(now->notes);
	free(now->host);
	*now = (struct gpus_now) { 0 };
}

/* ---- frames --------------------------------------------------------------------------------------------------------- */

static struct gpu_now *gpu_of(const struct gpus_now *now, uint32_t id)
{
	for (size_t i = 0; i < now->n_gpus; i++) {
		if (now->gpus[i].id == id)
			return &now->gpus[i];
	}
	return NULL;
}

static struct gpu_user_now *user_of(const struct gpus_now *now, uint32_t id)
{
	for (size_t i = now->n_users; i-- > 0;) {
		if (now->users[i].id == id)
			return &now->users[i];
	}
	return NULL;
}

static void apply_gpu_birth(struct gpus_now *now, enum frame_source source, const struct birth *b)
{
	struct gpu_now *before = gpu_of(now, b->id);

	if (before) { /* born again: the source did not know its memory at first */
		before->memory_bytes = b->gpu.memory_bytes;
		before->unified = b->gpu.unified;
		return;
	}
	struct gpu_now gpu = {
		.id = b->id,
		.source = source,
		.uuid = gpus_now_text(now, b->gpu.uuid),
		.name = gpus_now_text(now, b->gpu.name),
		.vendor = gpus_now_text(now, b->gpu.vendor),
		.pci = gpus_now_text(now, b->gpu.pci),
		.parent = gpus_now_text(now, b->gpu.parent),
		.driver = gpus_now_text(now, b->gpu.driver),
		.index = b->gpu.index,
		.cuda_index = b->gpu.cuda_index,
		.memory_bytes = b->gpu.memory_bytes,
		.unified = b->gpu.unified,
		.is_module = b->gpu.is_module,
		.is_numa = b->gpu.is_numa,
		.power_span_ns = b->gpu.power_span_ns,
		.is_chosen = true,
	};

	if (!now->error)
		now->error = vec_reserve(&now->gpus, &now->cap_gpus, now->n_gpus, sizeof(gpu), MOST_GPUS);
	if (now->error)
		free_gpu(&gpu);
	else
		now->gpus[now->n_gpus++] = gpu;
}

static void apply_user_birth(struct gpus_now *now, const struct birth *b)
{
	struct gpu_user_now user = {
		.id = b->id,
		.gpu = b->gpu_process.gpu,
		.pid = b->gpu_process.pid,
		.uid = b->gpu_process.uid,
		.name = gpus_now_text(now, b->gpu_process.name),
		.user = gpus_now_text(now, ""),
		.command = gpus_now_text(now, ""),
		.program = gpus_now_text(now, ""),
		.compute = b->gpu_process.compute,
		.graphics = b->gpu_process.graphics,
	};

	if (!now->error)
		now->error = vec_reserve(
			&now->users, &now->cap_users, now->n_users, sizeof(user), MOST_USERS);
	if (now->error)
		free_user(&user);
	else
		now->users[now->n_users++] = user;
}

static void end_user(struct gpus_now *now, uint32_t id)
{
	struct gpu_user_now *u = user_of(now, id);

	if (!u)
		return;
	free_user(u);
	memmove(u, u + 1, (size_t) (now->users + now->n_users - (u + 1)) * sizeof(*u));
	now->n_users--;
}

static void apply_reading(struct gpus_now *now, const struct reading *r)
{
	const struct maybe value = r->known ? known(r->value) : UNKNOWN;

	if (metrics[r->metric].entity == ENTITY_GPU) {
		struct gpu_now *g = gpu_of(now, r->id);

		if (g)
			g->metrics[r->metric] = r->metric == M_GPU_ENERGY && g->energy_is_summed ? UNKNOWN
												 : value;
	} else if (metrics[r->metric].entity == ENTITY_GPU_PROCESS) {
		struct gpu_user_now *u = user_of(now, r->id);

		if (u)
			u->metrics[r->metric] = value;
	}
}

/* Adds the figure of a note to an equal note on other figures, which must then be printed again. */
static void join_note(struct gpus_now *now, struct gpu_note_now *n, const char *why)
{
	struct buf joined = BUF_INIT(TEXT_MOST);
	char *text = note_names_join(n->why, why, &joined) == 0 ? strdup(joined.data) : NULL;

	buf_done(&joined);
	if (!text) {
		now->error = -ENOMEM;
		return;
	}
	n->is_warned &= strcmp(n->why, text) == 0;
	free(n->why);
	n->why = text;
}

/* True if the note is known already: a source that was restarted repeats its notes. */
static bool is_noted(struct gpus_now *now, const struct gpu_note_now *note)
{
	for (size_t i = 0; i < now->n_notes; i++) {
		struct gpu_note_now *n = &now->notes[i];

		if (n->gpu != note->gpu || strcmp(n->about, note->about) != 0)
			continue;
		if (note_names_alike(n->why, note->why))
			join_note(now, n, note->why);
		else if (strcmp(n->why, note->why) != 0)
			continue;
		return true;
	}
	return false;
}

static void add_note(struct gpus_now *now, struct gpu_note_now note, const char *about, const char *why)
{
	note.about = gpus_now_text(now, about);
	note.why = gpus_now_text(now, why);
	if (!now->error && !is_noted(now, &note) &&
		vec_reserve(&now->notes, &now->cap_notes, now->n_notes, sizeof(note), MOST_NOTES) == 0)
		now->notes[now->n_notes++] = note;
	else
		free_note(&note);
}

void gpus_now_note(struct gpus_now *now, const char *why)
{
	add_note(now, (struct gpu_note_now) { .cause = CAUSE_HELPER }, "gpu", why);
}

void gpus_now_sample_note(struct gpus_now *now, const char *why)
{
	add_note(now, (struct gpu_note_now) { .cause = CAUSE_HELPER, .is_of_sample = true }, "gpu", why);
}

static void drop_sample_notes(struct gpus_now *now)
{
	size_t kept = 0;

	for (size_t i = 0; i < now->n_notes; i++) {
		if (now->notes[i].is_of_sample)
			free_note(&now->notes[i]);
		else
			now->notes[kept++] = now->notes[i];
	}
	now->n_notes = kept;
}

/* "gpu.energy: GPU 0: no counter": the subject is the text before the first colon. */
static void note_event(struct gpus_now *now, const struct event *e)
{
	const char *colon = strchr(e->text, ':');
	struct gpu_now *g = e->entity == ENTITY_GPU ? gpu_of(now, e->id) : NULL;
	char about[32] = "gpu";

	if (colon && (size_t) (colon - e->text) < sizeof(about)) {
		memcpy(about, e->text, (size_t) (colon - e->text));
		about[colon - e->text] = '\0';
	}
	if (g && note_is_about(e, "gpu.energy"))
		g->energy_is_summed = true;
	add_note(now, (struct gpu_note_now) { .gpu = e->entity == ENTITY_GPU ? e->id : 0, .cause = e->cause },
		about, colon ? colon + 1 + strspn(colon + 1, " ") : e->text);
}

void gpus_now_apply(struct gpus_now *now, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_births; i++) {
		if (frame->births[i].entity == ENTITY_GPU)
			apply_gpu_birth(now, frame->source, &frame->births[i]);
		else if (frame->births[i].entity == ENTITY_GPU_PROCESS)
			apply_user_birth(now, &frame->births[i]);
	}
	for (size_t i = 0; i < frame->n_events; i++) { /* notes first: they affect values of the same frame */
		if (frame->events[i].kind == EVENT_NOTE)
			note_event(now, &frame->events[i]);
	}
	for (size_t i = 0; i < frame->n_readings; i++)
		apply_reading(now, &frame->readings[i]);
	for (size_t i = 0; i < frame->n_ends; i++) {
		if (frame->ends[i].entity == ENTITY_GPU_PROCESS)
			end_user(now, frame->ends[i].id);
	}
}

void gpus_now_fact(struct gpus_now *now, uint32_t id, const struct gpu_fact_value *told)
{
	struct gpu_now *g = gpu_of(now, id);

	if (!g || told->fact >= (told->of_metric ? (int) METRIC_COUNT : (int) GPU_FACT_COUNT) ||
		told->lack >= GPU_LACK_COUNT)
		return;
	if (told->of_metric) {
		g->lacks[told->fact] = told->lack;
		return;
	}
	g->facts[told->fact].lack = told->lack;
	if (told->lack != GPU_LACK_NONE)
		return;
	if (!told->is_text) {
		g->facts[told->fact].number = known(told->value);
		return;
	}
	free(g->facts[told->fact].text);
	g->facts[told->fact].text = gpus_now_text(now, told->text);
}

void gpus_now_begin_sample(struct gpus_now *now)
{
	drop_sample_notes(now);
	for (size_t i = 0; i < now->n_gpus; i++) {
		struct gpu_now *g = &now->gpus[i];

		for (size_t f = 0; f < GPU_FACT_COUNT; f++)
			free(g->facts[f].text);
		memset(g->facts, 0, sizeof(g->facts));
		memset(g->lacks, 0, sizeof(g->lacks));
	}
}

/* ---- order ---------------------------------------------------------------------------------------------------------- */

const struct gpu_now *gpus_now_find(const struct gpus_now *now, const char *uuid)
{
	for (size_t i = 0; *uuid && i < now->n_gpus; i++) {
		if (strcmp(now->gpus[i].uuid, uuid) == 0)
			return &now->gpus[i];
	}
	return NULL;
}

static int compare_maybe(struct maybe a, struct maybe b)
{
	if (!a.known || !b.known)
		return a.known ? -1 : b.known;
	return (a.value > b.value) - (a.value < b.value);
}

/* Whole devices: those with an index of the driver first, then by PCI address. */
static int by_index(const void *a, const void *b)
{
	const struct gpu_now *x = a, *y = b;
	const int order = compare_maybe(x->index, y->index);

	return order ? order : strcmp(x->pci, y->pci);
}

static int by_number(const void *a, const void *b)
{
	const struct gpu_now *x = a, *y = b;
	int order = compare_maybe(x->number, y->number);

	if (order == 0) /* the GPU itself precedes its instances */
		order = (*x->parent != '\0') - (*y->parent != '\0');
	return order ? order : compare_maybe(x->index, y->index);
}

static void number_all(struct gpus_now *now)
{
	int64_t next = 0;

	for (size_t i = 0; i < now->n_gpus; i++) {
		struct gpu_now *g = &now->gpus[i];

		g->number = UNKNOWN;
		if (*g->parent)
			continue;
		g->number = g->index.known ? g->index : known(next);
		next = g->number.value + 1;
	}
	for (size_t i = 0; i < now->n_gpus; i++) {
		const struct gpu_now *parent = gpus_now_find(now, now->gpus[i].parent);

		if (parent)
			now->gpus[i].number = parent->number;
	}
}

void gpus_now_sort(struct gpus_now *now)
{
	if (now->n_gpus == 0)
		return;
	qsort(now->gpus, now->n_gpus, sizeof(*now->gpus), by_index);
	number_all(now);
	qsort(now->gpus, now->n_gpus, sizeof(*now->gpus), by_number);
}

bool gpus_now_is_lost(const struct gpus_now *now, const struct gpu_now *gpu)
{
	const struct gpu_now *parent = gpus_now_find(now, gpu->parent);

	return gpu->facts[GF_LOST].number.known || (parent && parent->facts[GF_LOST].number.known);
}

enum metric gpu_now_lead(const struct gpu_now *gpu)
{
	static const enum metric leads[] = { M_GPU_SM_ACTIVE, M_GPU_GRAPHICS_ACTIVE, M_GPU_BUSY };

	for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
		if (gpu->metrics[leads[i]].known)
			return leads[i];
	}
	return METRIC_COUNT;
}
