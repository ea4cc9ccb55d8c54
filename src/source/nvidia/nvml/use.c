/* SPDX-License-Identifier: MIT
 *
 * Processes' use of the engines. The driver keeps a ring of samples, each of which assigns an
 * engine's whole interval to one process: the sum over processes is not the device's utilisation. A
 * process without a row had no sample, which is not a measured zero, so nothing is appended for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "source/nvidia/nvml/internal.h"

enum {
	ROOM = 256, /* rows; the driver announces 100 */
	ENGINES = 4,
	/* On the first read, samples of this much time count; older ones may belong to processes
	 * that ended long ago. */
	FIRST_US = 1000000,
	AHEAD_US = 600000000, /* maximum distance of a stamp ahead of our clock */
	PCT = 10000,
};

static const enum metric engine_metrics[ENGINES] = { M_GPROC_SM_BUSY, M_GPROC_MEM_BUSY, M_GPROC_ENC_BUSY,
	M_GPROC_DEC_BUSY };

/* A row of either call. */
struct use {
	uint32_t pid;
	uint64_t time_us;
	uint32_t pct[ENGINES];
};

struct use_list {
	struct use rows[ROOM];
	unsigned n;
};

/* ---- the two calls --------------------------------------------------------------------------- */

static int read_info(struct source *s, struct nvml_gpu *d, uint64_t seen_us, struct use_list *ret)
{
	struct nvml_process_info rows[ROOM];
	struct nvml_processes_info info = {
		.version = NVML_VERSION(info, 1),
		.count = ROOM,
		.last_seen_us = seen_us,
		.list = rows,
	};
	int code = NVML_CALL(&s->nvml, processes_use, d->handle, &info);

	for (unsigned i = 0; code == NVML_SUCCESS && i < info.count && i < ROOM; i++)
		ret->rows[ret->n++] = (struct use) { rows[i].pid, rows[i].time_us,
			{ rows[i].sm, rows[i].memory, rows[i].encoder, rows[i].decoder } };
	return code;
}

static int read_samples(struct source *s, struct nvml_gpu *d, uint64_t seen_us, struct use_list *ret)
{
	struct nvml_process_sample rows[ROOM];
	unsigned n = ROOM;
	int code = NVML_CALL(&s->nvml, process_use, d->handle, rows, &n, seen_us);

	for (unsigned i = 0; code == NVML_SUCCESS && i < n && i < ROOM; i++)
		ret->rows[ret->n++] = (struct use) { rows[i].pid, rows[i].time_us,
			{ rows[i].sm, rows[i].memory, rows[i].encoder, rows[i].decoder } };
	return code;
}

static int (*const calls[])(
	struct source *, struct nvml_gpu *, uint64_t, struct use_list *) = { read_info, read_samples };

enum {
	CALLS = sizeof(calls) / sizeof(calls[0])
};

static int read_use(struct source *s, struct nvml_gpu *d, struct use_list *ret)
{
	struct nvml_processes *p = &d->processes;

	for (;; p->use_version++) {
		ret->n = 0;
		int code = calls[p->use_version](s, d, p->use_seen_us, ret);

		if (nvml_code(code)->meaning != NVML_ABSENT || p->use_version + 1 == CALLS)
			return code;
	}
}

/* ---- evaluation ------------------------------------------------------------------------------ */

/* The first engine with an impossible value; ENGINES: none. */
static int implausible_engine(const struct use *u)
{
	int e = 0;

	while (e < ENGINES && u->pct[e] <= 100)
		e++;
	return e;
}

/* A stamp in the future is invalid: once used as the newest, no later sample would be newer. */
static bool is_plausible(const struct use *u, uint64_t after_us, uint64_t until_us)
{
	return implausible_engine(u) == ENGINES && u->pid != 0 && u->time_us > after_us &&
	       u->time_us <= until_us;
}

/* Mean and extremes over the rows of one process. */
static void append_process(
	const struct use *rows, size_t n, const struct nvml_process *p, struct framebuf *out)
{
	for (int e = 0; e < ENGINES; e++) {
		struct reading r = reading_of(engine_metrics[e], p->id, 0);
		uint64_t sum = 0;

		r.min = INT64_MAX;
		for (size_t i = 0; i < n; i++) {
			int64_t ppm = (int64_t) rows[i].pct[e] * PCT;

			sum += (uint64_t) ppm;
			r.min = ppm < r.min ? ppm : r.min;
			r.max = ppm > r.max ? ppm : r.max;
		}
		r.value = (int64_t) (sum / n);
		framebuf_reading(out, r);
	}
}

/* Rows with pid 0 are unused. */
static void reject_implausible(struct nvml_gpu *d, const struct use_list *list)
{
	for (unsigned i = 0; i < list->n; i++) {
		const int e = list->rows[i].pid ? implausible_engine(&list->rows[i]) : ENGINES;

		if (e < ENGINES)
			nvml_reject(d, engine_metrics[e], NVML_REJECTED_ROW);
	}
}

static int by_pid(const void *a, const void *b)
{
	uint32_t x = ((const struct use *) a)->pid, y = ((const struct use *) b)->pid;

	return (x > y) - (x < y);
}

static uint64_t first_after(const struct use_list *list, uint64_t wall_us)
{
	uint64_t newest = 0;

	for (unsigned i = 0; i < list->n; i++) {
		if (is_plausible(&list->rows[i], newest, wall_us + AHEAD_US))
			newest = list->rows[i].time_us;
	}
	return newest + FIRST_US > wall_us ? newest - FIRST_US : newest;
}

static void append_use(struct nvml_gpu *d, struct use_list *list, struct framebuf *out)
{
	struct nvml_processes *p = &d->processes;
	const uint64_t wall_us = clock_wall_ns() / 1000;
	uint64_t after_us = p->use_seen_us ? p->use_seen_us : first_after(list, wall_us);
	unsigned n = 0;

	for (unsigned i = 0; i < list->n; i++) {
		if (is_plausible(&list->rows[i], after_us, wall_us + AHEAD_US))
			list->rows[n++] = list->rows[i];
	}
	for (unsigned i = 0; i < n; i++) {
		if (list->rows[i].time_us > p->use_seen_us)
			p->use_seen_us = list->rows[i].time_us;
	}
	qsort(list->rows, n, sizeof(list->rows[0]), by_pid);
	for (unsigned from = 0, to; from < n; from = to) {
		const struct nvml_process *process = nvml_process_find(p, list->rows[from].pid);

		for (to = from + 1; to < n && list->rows[to].pid == list->rows[from].pid;)
			to++;
		if (process)
			append_process(&list->rows[from], to - from, process, out);
	}
}

/* For a device without such samples, doctor gives the reason; here an error is noted once. */
static void note_error(struct source *s, struct nvml_gpu *d, enum nvml_meaning meaning, struct framebuf *out)
{
	const struct nvml_code *code = nvml_code(d->processes.use_code);
	char text[224];

	if (d->use_noted ||
		!(meaning == NVML_FORBIDDEN || meaning == NVML_GROW || code->code == NVML_UNKNOWN))
		return;
	d->use_noted = true;
	(void) snprintf(text, sizeof(text),
		"the driver does not report which processes used the SMs and other engines: %s (NVML code %d)",
		code->why, d->processes.use_code);
	nvml_note(s, d, out, "gpu", CAUSE_NONE, text);
}

void nvml_use_read(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	struct nvml_processes *p = &d->processes;
	struct use_list list;

	if (p->use_absent)
		return;
	if (p->use_seen_us > clock_wall_ns() / 1000 + AHEAD_US)
		p->use_seen_us = 0; /* the clock was set back */
	p->use_code = read_use(s, d, &list);
	enum nvml_meaning meaning = nvml_handle_code(s, d, p->use_code, out);

	p->use_absent = meaning == NVML_ABSENT || meaning == NVML_FORBIDDEN;
	note_error(s, d, meaning, out);
	if (meaning != NVML_FINE)
		return;
	reject_implausible(d, &list);
	nvml_note_rejected(s, d, engine_metrics, ENGINES, out);
	append_use(d, &list, out);
}
