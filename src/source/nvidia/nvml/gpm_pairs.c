/* SPDX-License-Identifier: MIT */
#include "source/nvidia/nvml/gpm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "source/nvidia/nvml/internal.h"

/* Closer samples are useless: the driver's own counters are updated no faster. */
#define SHORTEST_NS 100000000ULL
/* Between comparisons of expensive metrics during a run. */
#define EXPENSIVE_NS 5000000000ULL

enum kind {
	SHARE,
	EXPENSIVE, /* a share that costs 1 to 2 ms on an H100; all others together cost 30 us */
	RATE       /* in MiB/s; becomes a counter of bytes */
};

/* Id 60 is NVLink received, 61 sent. */
static const struct {
	uint32_t id;
	enum metric metric;
	enum kind kind;
} list[NVML_GPM_METRICS] = {
	{ 1, M_GPU_GRAPHICS_ACTIVE, EXPENSIVE },
	{ 2, M_GPU_SM_ACTIVE, SHARE },
	{ 3, M_GPU_SM_OCCUPANCY, SHARE },
	{ 5, M_GPU_TENSOR_ACTIVE, SHARE },
	{ 10, M_GPU_DRAM_ACTIVE, SHARE },
	{ 11, M_GPU_FP64_ACTIVE, SHARE },
	{ 12, M_GPU_FP32_ACTIVE, SHARE },
	{ 13, M_GPU_FP16_ACTIVE, SHARE },
	{ 20, M_GPU_PCIE_TX, RATE },
	{ 21, M_GPU_PCIE_RX, RATE },
	{ 61, M_GPU_NVLINK_TX, RATE },
	{ 60, M_GPU_NVLINK_RX, RATE },
};

/* The third sample, and which metrics are compared with it. */
enum {
	LONG_AGO = 2
};
enum wanted {
	ALL,
	CHEAP_ONES,
	EXPENSIVE_ONES
};

static int find(enum metric metric)
{
	for (int i = 0; i < NVML_GPM_METRICS; i++) {
		if (list[i].metric == metric)
			return i;
	}
	return -1;
}

bool nvml_gpm_has_metric(enum metric metric)
{
	return find(metric) >= 0;
}

struct maybe nvml_gpm_ppm(double pct)
{
	if (!isfinite(pct) || pct < 0 || pct > 100.5) /* half a percent over is rounding */
		return UNKNOWN;
	return known(pct >= 100 ? 1000000 : (int64_t) llround(pct * 10000));
}

/* ---- samples --------------------------------------------------------------------------------- */

static void *whole_gpu(const struct nvml_gpu *d)
{
	return d->parent ? d->parent->handle : d->handle;
}

/* Probes GPM once and allocates the samples. */
static void begin(struct source *s, struct nvml_gpu *d)
{
	struct nvml_gpm_support support = { .version = 1 };
	struct nvml_gpm *g = &d->gpm;

	g->is_probed = true;
	g->code = NVML_CALL(&s->nvml, gpm_support, whole_gpu(d), &support);
	if (g->code == NVML_SUCCESS && !support.supported)
		g->code = NVML_NOT_SUPPORTED;
	for (size_t i = 0; i < sizeof(g->samples) / sizeof(g->samples[0]) && g->code == NVML_SUCCESS; i++)
		g->code = NVML_CALL(&s->nvml, gpm_alloc, &g->samples[i]);
	g->supported = g->code == NVML_SUCCESS;
}

void nvml_gpm_drop(struct source *s, struct nvml_gpu *d)
{
	for (size_t i = 0; i < sizeof(d->gpm.samples) / sizeof(d->gpm.samples[0]); i++) {
		if (d->gpm.samples[i])
			(void) NVML_CALL(&s->nvml, gpm_free, d->gpm.samples[i]);
	}
	d->gpm = (struct nvml_gpm) { .noted = d->gpm.noted };
}

static int take_gpm_sample(struct source *s, struct nvml_gpu *d, unsigned place)
{
	struct nvml_gpm *g = &d->gpm;
	void *sample = g->samples[place];
	int code;

	if (d->parent)
		code = NVML_CALL(&s->nvml, gpm_mig_sample, d->parent->handle, d->gpu_instance, sample);
	else
		code = NVML_CALL(&s->nvml, gpm_sample, d->handle, sample);

	g->taken_ns[place] = code == NVML_SUCCESS ? clock_boot_ns() : 0;
	return code;
}

/* ---- means between two samples --------------------------------------------------------------- */

static bool is_absent(const struct nvml_gpm *g, int i)
{
	enum nvml_meaning meaning = nvml_code(g->codes[i])->meaning;

	return meaning == NVML_ABSENT || meaning == NVML_FORBIDDEN || g->codes[i] == NVML_INVALID_ARGUMENT;
}

bool nvml_gpm_reports(struct source *s, struct nvml_gpu *d, enum metric metric)
{
	int i = find(metric);

	if (!d->gpm.is_probed)
		begin(s, d);
	return i >= 0 && d->gpm.supported && !is_absent(&d->gpm, i);
}

/* NVML's fields may report the same counter: only one of the two is used. */
static bool is_ours(const struct nvml_gpu *d, int i)
{
	const struct nvml_row *row = nvml_row_of(list[i].metric);

	return !row || d->tries[row - nvml_rows].code == NVML_ELSEWHERE;
}

/* MiB/s times the time between the samples, accumulated. */
static struct maybe rate_total(struct nvml_gpm *g, int i, double mib_s, uint64_t span_ns)
{
	double bytes = mib_s * 0x1p20 * (double) span_ns / 1e9;

	if (!isfinite(bytes) || bytes < 0 || bytes > 0x1p60)
		return UNKNOWN;
	g->total_bytes[i] += (uint64_t) bytes;
	return known((int64_t) g->total_bytes[i]);
}

/* Notes why SM activity covers only a part of the run (a profiler may use the counters). If it was
 * never available, only a refusal or an unspecified error is noted. */
static void note_missing(struct source *s, struct nvml_gpu *d, int code, struct framebuf *out)
{
	const struct nvml_code *meant = nvml_code(code);
	const bool was_had = d->reported[M_GPU_SM_ACTIVE] == REPORTED_KNOWN,
		   is_refusal = meant->meaning == NVML_FORBIDDEN;
	char text[256];

	if (d->gpm.noted || !(was_had || is_refusal || meant->code == NVML_UNKNOWN))
		return;
	d->gpm.noted = true;
	(void) snprintf(text, sizeof(text), "%s available from GPM: %s (NVML code %d)%s%s",
		was_had ? "no longer" : "not", meant->why, code,
		is_refusal                      ? "; "
		: meant->meaning == NVML_ABSENT ? ""
						: "; hiwater retries",
		is_refusal ? meant->remedy : "");
	nvml_note(s, d, out, "gpu.sm_active", CAUSE_NONE, text);
}

/* Notes the impossible values of one read together, each metric once. */
static void note_rejected(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	struct buf names = BUF_INIT(256);
	char text[320];

	for (int i = 0; i < NVML_GPM_METRICS; i++) {
		const enum metric metric = list[i].metric;

		if (!is_ours(d, i) || !(d->rejected[metric] & ~(unsigned) d->rejected_noted[metric]))
			continue;
		d->rejected_noted[metric] = d->rejected[metric];
		(void) buf_printf(&names, "%sgpu.%s", names.len ? ", " : "", metrics[metric].name);
	}
	(void) snprintf(
		text, sizeof(text), "GPM reports impossible values for %s; they are left out", names.data);
	if (names.len)
		nvml_note(s, d, out, "gpu", CAUSE_NONE, text);
	buf_done(&names);
}

/* GPM reports NaN for "no value"; after a valid value, NaN is as impossible as a negative value or
 * more than 100 %. */
static void append_metric(struct source *s, struct nvml_gpu *d, int i, const struct nvml_gpm_metric *m,
	uint64_t span_ns, struct framebuf *out)
{
	struct nvml_gpm *g = &d->gpm;
	struct maybe value = UNKNOWN;
	struct reading r;

	g->codes[i] = (int) m->code;
	if (!is_ours(d, i))
		return;
	if (m->code == NVML_SUCCESS)
		value = list[i].kind == RATE ? rate_total(g, i, m->value, span_ns) : nvml_gpm_ppm(m->value);
	if (m->code == NVML_SUCCESS && !value.known &&
		(!isnan(m->value) || d->reported[list[i].metric] == REPORTED_KNOWN))
		nvml_reject(d, list[i].metric, NVML_REJECTED_FIGURE);
	else if (m->code == NVML_SUCCESS && !value.known)
		nvml_mark_no_value(d, list[i].metric);
	else if (m->code != NVML_SUCCESS && list[i].metric == M_GPU_SM_ACTIVE)
		note_missing(s, d, (int) m->code, out);
	r = reading_of(list[i].metric, d->id, value.value);
	r.known = value.known;
	r.span_ns = list[i].kind == RATE || !value.known ? 0 : span_ns;
	nvml_append(d, out, &r);
}

static void append_all_unknown(struct nvml_gpu *d, struct framebuf *out)
{
	for (int i = 0; i < NVML_GPM_METRICS; i++) {
		if (is_ours(d, i))
			nvml_append_value(d, out, list[i].metric, UNKNOWN);
	}
}

static bool is_wanted(int i, enum wanted wanted)
{
	return wanted == ALL || (list[i].kind == EXPENSIVE) == (wanted == EXPENSIVE_ONES);
}

static int compare(struct source *s, struct nvml_gpu *d, unsigned before, unsigned after, enum wanted wanted,
	struct framebuf *out)
{
	struct nvml_gpm *g = &d->gpm;
	struct nvml_gpm_metrics *m = s->gpm_metrics;

	memset(m, 0, sizeof(*m));
	m->version = 1;
	m->before = g->samples[before];
	m->after = g->samples[after];
	for (int i = 0; i < NVML_GPM_METRICS; i++) {
		if (!is_absent(g, i) && is_wanted(i, wanted))
			m->metrics[m->count++] = (struct nvml_gpm_metric) { .id = list[i].id,
				.code = NVML_UNKNOWN };
	}
	if (m->count == 0)
		return wanted == ALL ? NVML_NOT_SUPPORTED : NVML_SUCCESS;
	const int code = NVML_CALL(&s->nvml, gpm_metrics, m);

	for (uint32_t k = 0; code == NVML_SUCCESS && k < m->count && k < NVML_GPM_METRICS; k++) {
		for (int i = 0; i < NVML_GPM_METRICS; i++) {
			if (list[i].id == m->metrics[k].id)
				append_metric(s, d, i, &m->metrics[k],
					g->taken_ns[after] - g->taken_ns[before], out);
		}
	}
	note_rejected(s, d, out);
	nvml_note_no_value(s, d, "GPM", out);
	return code;
}

/* Compares expensive metrics over the time since they were compared last, and begins the next such time. */
static int compare_expensive(struct source *s, struct nvml_gpu *d, unsigned newest, struct framebuf *out)
{
	struct nvml_gpm *g = &d->gpm;
	const uint64_t span_ns = counter_delta(g->taken_ns[LONG_AGO], g->taken_ns[newest]);

	int code = NVML_SUCCESS;

	if (g->taken_ns[LONG_AGO] && span_ns < (s->env->budget->last ? SHORTEST_NS : EXPENSIVE_NS))
		return NVML_SUCCESS;
	if (g->taken_ns[LONG_AGO])
		code = compare(s, d, LONG_AGO, newest, EXPENSIVE_ONES, out);
	if (code == NVML_SUCCESS && !s->env->budget->last)
		code = take_gpm_sample(s, d, LONG_AGO);
	if (code == NVML_SUCCESS || nvml_code(code)->meaning == NVML_LOST)
		return code;
	g->taken_ns[LONG_AGO] = 0; /* only these are unknown until the next try */
	for (int i = 0; i < NVML_GPM_METRICS; i++) {
		if (list[i].kind == EXPENSIVE)
			nvml_append_value(d, out, list[i].metric, UNKNOWN);
	}
	return NVML_SUCCESS;
}

static void read_device(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	struct nvml_gpm *g = &d->gpm;

	nvml_turn_to(s, d);
	if (!g->is_probed)
		begin(s, d);
	if (!g->supported) {
		if (g->code != NVML_SUCCESS)
			append_all_unknown(d, out);
		note_missing(s, d, g->code, out);
		return;
	}
	if (g->taken_ns[g->next ^ 1] && clock_boot_ns() - g->taken_ns[g->next ^ 1] < SHORTEST_NS) {
		if (s->env->budget && s->env->budget->last)
			(void) compare_expensive(s, d, g->next ^ 1, out);
		return;
	}
	const unsigned newest = g->next, before = g->next ^ 1;
	int code = take_gpm_sample(s, d, newest);

	g->next = before;
	if (code == NVML_SUCCESS && g->taken_ns[before]) /* not the first of two */
		code = compare(s, d, before, newest, s->env->budget ? CHEAP_ONES : ALL, out);
	if (code == NVML_SUCCESS && s->env->budget)
		code = compare_expensive(s, d, newest, out);
	if (code == NVML_SUCCESS)
		return;
	enum nvml_meaning meaning = nvml_handle_code(s, d, code, out);

	if (meaning == NVML_LOST)
		return;
	note_missing(s, d, code, out);
	g->code = code;
	g->supported = meaning != NVML_ABSENT && meaning != NVML_FORBIDDEN;
	append_all_unknown(d, out);
}

void nvml_gpm_read(struct source *s, struct framebuf *out)
{
	if (!s->gpm_metrics)
		s->gpm_metrics = calloc(1, sizeof(*s->gpm_metrics));
	if (!s->gpm_metrics)
		return;
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i]->state != NVML_AWAKE)
			continue;
		read_device(s, s->gpus[i], out);
		nvml_publish(s, out);
	}
}
