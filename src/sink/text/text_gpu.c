/* SPDX-License-Identifier: MIT
 *
 * The rows of GPUs. SM activity comes first where it was had; "busy" says what it is, because it is mostly taken for
 * more.
 */
#include <stdio.h>
#include <string.h>

#include "summary/framework.h"
#include "sink/text/text.h"
#include "base/textwidth.h"

/* A share of one in per cent. */
static const char *share(struct maybe ppm, char buf[UNITS_LEN])
{
	return keep_together(units_percent(ppm.value, 1000000, buf));
}

static void amount(struct text *t, const char *name, struct maybe bytes)
{
	char text[UNITS_LEN];

	if (bytes.known && bytes.value > 0)
		layout_part(&t->l, "%s" NB "%s", name, keep_together(units_bytes(bytes.value, t->o->units, text)));
}

static void held(struct text *t, const struct birth *b)
{
	enum method method;
	const struct maybe peak = summary_gpu_device_peak(t->s, b->id), all = b->gpu.memory_bytes;
	const struct maybe job = summary_gpu_job_peak(t->s, b->id, &method);
	char text[UNITS_LEN], of[UNITS_LEN], percent[UNITS_LEN];

	if (job.known)
		layout_part(&t->l, "job" NB "peak" NB "%s %s", keep_together(units_bytes(job.value, t->o->units, text)),
			method_name(method));
	else
		layout_part(&t->l, "job" NB "peak not known");
	if (peak.known && all.known)
		layout_part(&t->l, "device" NB "peak" NB "%s of" NB "%s (%s)%s",
			keep_together(units_bytes(peak.value, t->o->units, text)),
			keep_together(units_bytes_like(all.value, peak.value, t->o->units, of)),
			keep_together(units_percent(peak.value, all.value, percent)), b->gpu.unified ? " shared with the host" : "");
	else if (peak.known)
		layout_part(&t->l, "device" NB "peak" NB "%s", keep_together(units_bytes(peak.value, t->o->units, text)));
	amount(t, "others", summary_most(t->s, M_GPU_FOREIGN_MEM, b->id));
	amount(t, "unattributed", summary_most(t->s, M_GPU_UNATTRIBUTED_MEM, b->id));
}

static void worked(struct text *t, uint32_t id)
{
	const struct maybe occupancy = summary_mean(t->s, M_GPU_SM_OCCUPANCY, id), busy = summary_mean(t->s, M_GPU_BUSY, id);
	const struct maybe dram = summary_mean(t->s, M_GPU_DRAM_ACTIVE, id), tensor = summary_mean(t->s, M_GPU_TENSOR_ACTIVE, id);
	char text[UNITS_LEN];
	enum metric lead;

	if (!summary_gpu_lead(t->s, id, &lead)) {
		layout_part(&t->l, "utilisation not known");
		return;
	}
	if (lead != M_GPU_BUSY)
		layout_part(&t->l, "%s" NB "%s", figure_gpu_lead(lead), share(summary_mean(t->s, lead, id), text));
	if (occupancy.known)
		layout_part(&t->l, "occupancy" NB "%s", share(occupancy, text));
	if (tensor.known && tensor.value >= 5000)
		layout_part(&t->l, "tensor" NB "%s", share(tensor, text));
	if (dram.known)
		layout_part(&t->l, "memory" NB "bandwidth" NB "%s", share(dram, text));
	if (busy.known)
		layout_part(&t->l, "busy" NB "%s (some kernel ran)", share(busy, text));
}

static void drew(struct text *t, uint32_t id)
{
	const struct maybe mean = summary_mean(t->s, M_GPU_POWER, id), most = summary_most(t->s, M_GPU_POWER, id);
	const struct maybe temp = summary_most(t->s, M_GPU_TEMP, id);
	bool counted;
	const struct maybe energy = summary_gpu_energy(t->s, id, &counted);
	char text[UNITS_LEN], of[UNITS_LEN];

	if (mean.known)
		layout_part(&t->l, "mean" NB "%s" NB "W, max" NB "%s", figure_number((double) mean.value / 1e6, text),
			figure_number((double) most.value / 1e6, of));
	if (energy.known)
		layout_part(&t->l, "%s" NB "J%s", figure_number((double) energy.value / 1e6, text), counted ? "" : " (power over time)");
	if (temp.known)
		layout_part(&t->l, "%lld" NB "C", (long long) (temp.value + 500) / 1000);
}

static void held_back(struct text *t, uint32_t id)
{
	static const int64_t least = 10000000;
	char text[UNITS_LEN];

	for (size_t i = 0; i < FIGURE_THROTTLES; i++) {
		const struct maybe time = summary_risen(t->s, figure_throttles[i].metric, id);

		if (time.known && time.value >= least)
			layout_part(&t->l, "held" NB "back" NB "%s by %s", keep_together(units_duration(time.value, text)),
				figure_throttles[i].words);
	}
}

/* What the job's frameworks say: held from the driver, and of that given out. */
static void allocated(struct text *t, const struct birth *b)
{
	static const int64_t worth_a_word = 100000; /* ppm */
	struct framework list[FRAMEWORKS_MOST];
	const size_t n = frameworks_of(t->s->job, b, list);
	char text[UNITS_LEN], name[64];

	for (size_t i = 0; i < n; i++) {
		const struct framework *f = &list[i];

		layout_break(&t->l);
		(void) snprintf(name, sizeof(name), "%s" NB "allocated" NB "peak", f->name);
		amount(t, name, f->allocated_peak);
		amount(t, "reserved" NB "peak", f->reserved_peak);
		if (f->fragmentation_ppm.known && f->fragmentation_ppm.value >= worth_a_word)
			layout_part(&t->l, "fragmented" NB "%s", share(f->fragmentation_ppm, text));
		if (f->alloc_retries.known && f->alloc_retries.value > 0)
			layout_part(&t->l, "%lld" NB "retries", (long long) f->alloc_retries.value);
		if (f->ooms.known && f->ooms.value > 0)
			layout_part(&t->l, "out" NB "of" NB "memory %lld" NB "times", (long long) f->ooms.value);
	}
}

static void row(struct text *t, const struct birth *b)
{
	struct buf name = BUF_INIT(4096);
	char label[UNITS_LEN];

	layout_row(&t->l, TONE_LABEL, job_gpu_name(t->s->job, &b->gpu, label), TEXT_INDENT);
	text_clean(b->gpu.name, t->o->utf8, &name);
	held(t, b);
	if (name.len > 0)
		layout_part(&t->l, "%s", name.data);
	layout_break(&t->l);
	worked(t, b->id);
	drew(t, b->id);
	held_back(t, b->id);
	allocated(t, b);
	layout_end(&t->l);
	buf_done(&name);
}

/* Those that the job never touched, together. */
static void row_unused(struct text *t)
{
	struct buf list = BUF_INIT(1 << 16);
	char label[UNITS_LEN];

	for (size_t i = 0; i < job_gpu_count(t->s->job); i++) {
		const struct birth *b = &job_gpu(t->s->job, i)->birth;

		if (!figure_gpu_used(t->s, b->id))
			buf_printf(&list, "%s%s", list.len ? ", " : "", keep_together(job_gpu_name(t->s->job, &b->gpu, label)));
	}
	if (list.len > 0) {
		layout_row(&t->l, TONE_LABEL, "GPUs", TEXT_INDENT);
		layout_part(&t->l, "the job held nothing on %s", list.data);
		layout_end(&t->l);
	}
	buf_done(&list);
}

void text_gpus(struct text *t)
{
	for (size_t i = 0; t->s->job && i < job_gpu_count(t->s->job); i++) {
		const struct birth *b = &job_gpu(t->s->job, i)->birth;

		if (figure_gpu_used(t->s, b->id))
			row(t, b);
	}
	if (t->s->job)
		row_unused(t);
}

/* ---- one fact a line -------------------------------------------------------------------------------------------------- */

static void plain_frameworks(struct text *t, const struct birth *b, const char *name, void (*fact)(struct text *t, const char *text))
{
	struct framework list[FRAMEWORKS_MOST];
	const size_t n = frameworks_of(t->s->job, b, list);
	char text[UNITS_LEN], line[512];

	for (size_t i = 0; i < n; i++) {
		const struct {
			const char *what;
			struct maybe value;
		} amounts[] = { { "allocated", list[i].allocated_peak }, { "reserved", list[i].reserved_peak } };

		for (size_t k = 0; k < 2; k++) {
			if (!amounts[k].value.known)
				continue;
			(void) snprintf(line, sizeof(line), "%s memory peak that %s %s: %s", name, list[i].name, amounts[k].what,
				units_bytes(amounts[k].value.value, t->o->units, text));
			fact(t, line);
		}
	}
}

static void plain_gpu(struct text *t, const struct birth *b, void (*fact)(struct text *t, const char *text))
{
	enum method method;
	const struct maybe peak = summary_gpu_device_peak(t->s, b->id), job = summary_gpu_job_peak(t->s, b->id, &method);
	const struct maybe power = summary_mean(t->s, M_GPU_POWER, b->id);
	char name[UNITS_LEN], text[UNITS_LEN], of[UNITS_LEN], line[512];
	enum metric lead;

	(void) job_gpu_name(t->s->job, &b->gpu, name);
	(void) snprintf(line, sizeof(line), "%s: %s", name, b->gpu.name);
	fact(t, line);
	if (job.known) {
		(void) snprintf(line, sizeof(line), "%s memory peak of the job: %s, %s", name,
			units_bytes(job.value, t->o->units, text), method_name(method));
		fact(t, line);
	}
	if (peak.known) {
		(void) snprintf(line, sizeof(line), "%s memory peak of the device: %s%s%s", name,
			units_bytes(peak.value, t->o->units, text), b->gpu.memory_bytes.known ? " of " : "",
			b->gpu.memory_bytes.known ? units_bytes(b->gpu.memory_bytes.value, t->o->units, of) : "");
		fact(t, line);
	}
	plain_frameworks(t, b, name, fact);
	if (summary_gpu_lead(t->s, b->id, &lead)) {
		const int64_t mean = summary_mean(t->s, lead, b->id).value;

		(void) snprintf(line, sizeof(line), "%s %s: %lld percent%s", name, figure_gpu_lead(lead),
			(long long) (mean + 5000) / 10000, lead == M_GPU_BUSY ? " of the time some kernel ran" : "");
		fact(t, line);
	}
	if (power.known) {
		(void) snprintf(line, sizeof(line), "%s power, mean: %s watts", name,
			figure_number((double) power.value / 1e6, text));
		fact(t, line);
	}
}

void text_plain_gpus(struct text *t, void (*fact)(struct text *t, const char *text))
{
	for (size_t i = 0; t->s->job && i < job_gpu_count(t->s->job); i++) {
		const struct birth *b = &job_gpu(t->s->job, i)->birth;

		if (figure_gpu_used(t->s, b->id))
			plain_gpu(t, b, fact);
	}
}
