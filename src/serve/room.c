/* SPDX-License-Identifier: MIT
 *
 * /v1/room: is there room for a job of this size on each GPU? Judged by the 95th percentile, over the
 * window, of device memory, SM activity, occupancy and memory bandwidth. The share of time in which any
 * kernel ran (utilisation, the graphics engine's activity) says neither full nor free, and is never
 * judged by. What cannot be judged is null, with the reason. Nothing is reserved.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/units.h"
#include "serve/answers.h"

#define SECOND UINT64_C(1000000000)

/* A job that does not say what it needs of the SMs. */
static const double default_sm = 0.1;
/* From here on occupancy and bandwidth are taken for full, whatever the SMs do. */
static const double full = 0.9;
/* SM counters that stay below this while the driver reports kernels all the time contradict it: one
 * warp on one of 200 SMs would be 0.005. */
static const double no_activity = 0.001, some_kernel = 0.5;
static const uint64_t suspect_span_ns = 60 * SECOND;

struct wish {
	struct hiw_maybe gpu_memory, ram;
	double sm, cpus;         /* cpus 0: not asked for */
	uint64_t span_ns;
};

enum fits {
	FITS_UNKNOWN = -1,
	FITS_NO,
	FITS_YES
};

/* The judgement of a GPU, and what it is based on. */
struct verdict {
	enum fits fits;
	char reason[256];
	struct spread memory, sm, occupancy, dram, busy, power;
};

static void say(struct verdict *v, enum fits fits, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void say(struct verdict *v, enum fits fits, const char *format, ...)
{
	va_list ap;

	v->fits = fits;
	va_start(ap, format);
	(void) vsnprintf(v->reason, sizeof(v->reason), format, ap);
	va_end(ap);
}

/* ---- the question ---------------------------------------------------------------------------- */

static bool parse_size(const struct request *q, const char *name, struct hiw_maybe *ret, struct answer *a)
{
	const char *text = request_arg(q, name);
	struct err err = { "" };
	int64_t bytes = 0;

	if (!text)
		return true;
	if (units_parse_bytes(text, &bytes, &err) < 0 || bytes < 0) {
		answer_error(a, 400, "%s: %s", name, *err.text ? err.text : "give a size such as 8GiB");
		return false;
	}
	*ret = (struct hiw_maybe) { bytes, true };
	return true;
}

static bool parse_amount(
	const struct request *q, const char *name, double most, double *ret, struct answer *a)
{
	const char *text = request_arg(q, name);
	char *end;
	double value;

	if (!text)
		return true;
	value = strtod(text, &end);
	if (end == text || *end || !(value >= 0 && value <= most)) {
		answer_error(a, 400, "%s: give a number from 0 to %g", name, most);
		return false;
	}
	*ret = value;
	return true;
}

static bool parse_wish(const struct serve *s, const struct request *q, struct wish *w, struct answer *a)
{
	*w = (struct wish) { .sm = default_sm };
	if (!parse_size(q, "gpu_memory", &w->gpu_memory, a) || !parse_size(q, "ram", &w->ram, a) ||
		!parse_amount(q, "sm", 1e6, &w->sm, a) || !parse_amount(q, "cpus", 1e6, &w->cpus, a) ||
		!window_of(s, q, a, &w->span_ns))
		return false;
	if (w->span_ns == 0)
		w->span_ns = s->o.window_ns;
	return true;
}

/* ---- the host -------------------------------------------------------------------------------- */

/* Is there a value that is still valid? What a driver that hangs reported before says nothing of now. */
static bool is_current(const struct thing *t, const char *metric, uint64_t now)
{
	return thing_value(t, metric_of(t->entity, metric), now).known;
}

static void judge_host(const struct serve *s, const struct wish *w, uint64_t now, struct verdict *v)
{
	const struct thing *host = &s->machine.host;

	v->memory = thing_spread(host, KEPT_HOST_RAM, w->span_ns, now);
	v->busy = thing_spread(host, KEPT_HOST_CPU, w->span_ns, now);
	const double ram_free = (double) s->capacity_bytes - v->memory.p95, cpus_free = s->cpus - v->busy.p95;

	v->fits = FITS_YES;
	if (w->ram.known && is_current(host, "mem_used", now) && s->capacity_bytes > 0 &&
		(double) w->ram.value > ram_free)
		say(v, FITS_NO, "RAM: %.0f of %lld bytes are free (p95)", ram_free, (long long) s->capacity_bytes);
	else if (w->cpus > 0 && v->busy.known && is_current(host, "cpu_user", now) && w->cpus > cpus_free)
		say(v, FITS_NO, "CPUs: %.1f of %.0f are free (p95)", cpus_free > 0 ? cpus_free : 0, s->cpus);
	else if (w->ram.known && (!is_current(host, "mem_used", now) || s->capacity_bytes == 0))
		say(v, FITS_UNKNOWN, "the memory of the machine cannot be read");
	else if (w->cpus > 0 && !(v->busy.known && is_current(host, "cpu_user", now)))
		say(v, FITS_UNKNOWN, "the CPU use of the machine cannot be read");
}

/* ---- a GPU ----------------------------------------------------------------------------------- */

static bool is_divided(const struct stream *st, const struct thing *gpu)
{
	for (size_t i = 0; i < st->n_gpus; i++) {
		if (*gpu->uuid && strcmp(st->gpus[i]->instance_of, gpu->uuid) == 0)
			return true;
	}
	return false;
}

/* Do the counters of SM activity contradict the driver? Seen on real GPUs after errors: they stay 0. */
static bool is_suspect(const struct thing *gpu, uint64_t now, struct verdict *v)
{
	const struct spread sm = thing_spread(gpu, KEPT_GPU_SM, suspect_span_ns, now),
			    busy = thing_spread(gpu, KEPT_GPU_BUSY, suspect_span_ns, now),
			    power = thing_spread(gpu, KEPT_GPU_POWER, suspect_span_ns, now);

	if (!sm.known || !busy.known || sm.max / 1e6 >= no_activity || busy.mean / 1e6 < some_kernel)
		return false;
	if (power.known)
		say(v, FITS_UNKNOWN,
			"suspect counters: no SM activity, while a kernel ran for %.0f %% of the time and the GPU drew %.0f W",
			busy.mean / 1e4, power.mean / 1e6);
	else
		say(v, FITS_UNKNOWN, "suspect counters: no SM activity, while a kernel ran for %.0f %% of the time",
			busy.mean / 1e4);
	return true;
}

/* Bytes that are free. */
static struct hiw_maybe free_memory(const struct thing *gpu, const struct verdict *v, uint64_t now)
{
	const struct hiw_maybe reserved = thing_value(gpu, metric_of(HIW_GPU, "mem_reserved"), now);

	if (!gpu->memory_bytes.known || !is_current(gpu, "mem", now))
		return (struct hiw_maybe) { 0, false };
	const int64_t taken = (int64_t) v->memory.p95 + (reserved.known ? reserved.value : 0);

	return (struct hiw_maybe) { gpu->memory_bytes.value - taken, true };
}

static void judge_gpu(
	const struct stream *st, const struct thing *gpu, const struct wish *w, uint64_t now,
	struct verdict *v)
{
	v->memory = thing_spread(gpu, KEPT_GPU_MEM, w->span_ns, now);
	v->sm = thing_spread(gpu, KEPT_GPU_SM, w->span_ns, now);
	v->occupancy = thing_spread(gpu, KEPT_GPU_OCCUPANCY, w->span_ns, now);
	v->dram = thing_spread(gpu, KEPT_GPU_DRAM, w->span_ns, now);
	v->busy = thing_spread(gpu, KEPT_GPU_BUSY, w->span_ns, now);
	v->power = thing_spread(gpu, KEPT_GPU_POWER, w->span_ns, now);
	const struct hiw_maybe room = free_memory(gpu, v, now);
	const double sm = v->sm.p95 / 1e6;

	v->fits = FITS_YES;
	if (is_divided(st, gpu))
		say(v, FITS_NO, "it is divided into MIG instances: these are listed");
	else if (w->gpu_memory.known && room.known && w->gpu_memory.value > room.value)
		say(v, FITS_NO, "memory: %lld of %lld bytes are free (p95)",
			(long long) (room.value > 0 ? room.value : 0), (long long) gpu->memory_bytes.value);
	else if (is_suspect(gpu, now, v))
		return;
	else if (is_current(gpu, "sm_active", now) && sm + w->sm > 1)
		say(v, FITS_NO, "SM activity is %.3f (p95), and the job needs %.3f", sm, w->sm);
	else if (is_current(gpu, "sm_occupancy", now) && v->occupancy.p95 / 1e6 >= full)
		say(v, FITS_NO, "the SMs' warps are occupied: %.3f (p95)", v->occupancy.p95 / 1e6);
	else if (is_current(gpu, "dram_active", now) && v->dram.p95 / 1e6 >= full)
		say(v, FITS_NO, "the bandwidth of the memory is in use: %.3f (p95)", v->dram.p95 / 1e6);
	else if (w->gpu_memory.known && !room.known)
		say(v, FITS_UNKNOWN,
			v->memory.known || v->busy.known
				? "no current figure of its memory: the driver does not answer, or does not report it"
				: "its memory cannot be read");
	else if (!is_current(gpu, "sm_active", now))
		say(v, FITS_UNKNOWN,
			v->sm.known ? "no current SM activity: the driver does not answer"
				    : "the driver has reported no SM activity so far; utilisation alone says neither full nor free");
	else
		say(v, FITS_YES, "SM activity is %.3f (p95)%s", sm,
			w->gpu_memory.known ? ", and memory is free" : "; no memory was asked for");
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void put_fits(struct json *j, const struct verdict *v)
{
	json_key(j, "fits");
	if (v->fits == FITS_UNKNOWN)
		json_null(j);
	else
		json_bool(j, v->fits == FITS_YES);
	json_key_text(j, "reason", v->reason);
}

/* Time of the newest of the figures. */
static uint64_t newest_of(const struct verdict *v)
{
	const struct spread *all[] = { &v->memory, &v->sm, &v->occupancy, &v->dram, &v->busy, &v->power };
	uint64_t newest = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i]->newest_ns > newest)
			newest = all[i]->newest_ns;
	}
	return newest;
}

static void put_gpu(struct json *j, const struct serve *s, const struct thing *gpu, const struct wish *w,
	const struct verdict *host, uint64_t now)
{
	struct verdict v = { .fits = FITS_YES };
	char number[48];

	judge_gpu(&s->machine, gpu, w, now, &v);
	if (v.fits != FITS_NO && host->fits != FITS_YES && (host->fits == FITS_NO || v.fits == FITS_YES))
		say(&v, host->fits, "%s", host->reason);
	gpu_number(&s->machine, gpu, number, sizeof(number));
	json_object(j);
	json_key(j, "uuid");
	json_str(j, gpu->uuid);
	json_key(j, "gpu");
	json_str(j, number);
	json_key_text(j, "group", group_of(s, gpu->uuid));
	put_fits(j, &v);
	json_time(j, "at", newest_of(&v), now);
	json_key(j, "memory_total_bytes");
	json_maybe(j, (struct maybe) { gpu->memory_bytes.value, gpu->memory_bytes.known });
	json_metric(j, "memory_reserved_bytes", gpu, "mem_reserved", now);
	json_spread(j, "memory_used_bytes", &v.memory, 1);
	json_spread(j, "sm_active", &v.sm, 1e6);
	json_spread(j, "sm_occupancy", &v.occupancy, 1e6);
	json_spread(j, "dram_active", &v.dram, 1e6);
	json_spread(j, "busy", &v.busy, 1e6);
	json_spread(j, "power_w", &v.power, 1e6);
	json_end(j);
}

static void put_host(struct json *j, const struct wish *w, const struct verdict *host)
{
	json_key(j, "host");
	json_object(j);
	put_fits(j, host);
	json_spread(j, "ram_used_bytes", &host->memory, 1);
	json_spread(j, "cpus_used", &host->busy, 1);
	json_end(j);
	json_key(j, "window_s");
	json_num(j, (double) w->span_ns / 1e9);
}

void answer_room(struct serve *s, const struct request *q, struct answer *a)
{
	struct wish wish;
	struct json j;

	if (!parse_wish(s, q, &wish, a))
		return;
	if (!s->has_machine) {
		answer_error(a, 404, "this is the endpoint of one job; the node's hiwater serve knows of room");
		return;
	}
	pthread_mutex_lock(&s->lock);
	const uint64_t now = clock_boot_ns();
	struct verdict host = { .fits = FITS_YES };

	judge_host(s, &wish, now, &host);
	json_init(&j, &a->body, true);
	json_object(&j);
	json_stamp(s, &j);
	put_host(&j, &wish, &host);
	json_key(&j, "gpus");
	json_array(&j);
	for (size_t i = 0; i < s->machine.n_gpus; i++)
		put_gpu(&j, s, s->machine.gpus[i], &wish, &host, now);
	json_end(&j);
	json_end(&j);
	(void) buf_str(&a->body, "\n");
	pthread_mutex_unlock(&s->lock);
}
