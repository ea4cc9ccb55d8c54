/* SPDX-License-Identifier: MIT
 *
 * Calls to the host engine. The profiling counters exist once per machine: a watch on one of their
 * fields claims them, unless the engine uses them already. So hiwater only adds a watch to fields
 * that other clients watch, and starts profiling only on request (may_profile).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "source/nvidia/dcgm/internal.h"

enum {
	WATCH_US = 1000000,
	KEEP_S = 10,
	ONCE_US = 1000000000,
	GPM_SINCE = 9,           /* CUDA's major capability: NVML (GPM) reports the same from Hopper on */
};
/* A profiled field has a value this recent: exporters sample it every 30 s. */
static const int64_t fresh_us = 120000000;

static const uint16_t identity[] = { DCGM_UUID, DCGM_NAME, DCGM_PCI, DCGM_CAPABILITY, DCGM_INDEX,
	DCGM_MEM_TOTAL };

enum {
	IDENTITY = sizeof(identity) / sizeof(identity[0])
};

/* ---- groups ---------------------------------------------------------------------------------- */

/* A name that is unique in the engine, which keeps names until the connection ends. */
static void name_new(struct source *s, char ret[64])
{
	(void) snprintf(ret, 64, "hiwater-%d-%llu-%u", (int) getpid(), (unsigned long long) clock_boot_ns(),
		s->n_names++);
}

/* Watches fields of the GPUs with these ids. The engine is shared and keeps every object created in
 * it, so a failed attempt removes its own. */
static int watch(struct source *s, const unsigned *ids, int n_ids, const uint16_t *fields, size_t n,
	long long every_us)
{
	const struct dcgm *dcgm = &s->dcgm;
	uintptr_t group = 0, list = 0;
	char name[64];
	int code;

	name_new(s, name);
	code = DCGM_CALL(dcgm, group, dcgm->handle, DCGM_GROUP_EMPTY, name, &group);
	for (int i = 0; i < n_ids && code == DCGM_OK; i++)
		code = DCGM_CALL(dcgm, group_add, dcgm->handle, group, ids[i]);
	name_new(s, name);
	if (code == DCGM_OK)
		code = DCGM_CALL(dcgm, field_group, dcgm->handle, (int) n, fields, name, &list);
	if (code == DCGM_OK)
		code = DCGM_CALL(dcgm, watch, dcgm->handle, group, list, every_us, KEEP_S, 0);
	if (code != DCGM_OK && list)
		(void) DCGM_CALL(dcgm, field_group_end, dcgm->handle, list);
	if (code != DCGM_OK && group)
		(void) DCGM_CALL(dcgm, group_end, dcgm->handle, group);
	return code;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* The GPU with that UUID, also one known before the connection was lost; else a new one; NULL: no
 * room. */
static struct dcgm_gpu *gpu_of(struct source *s, const char *uuid)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (strcmp(s->gpus[i].uuid, uuid) == 0)
			return &s->gpus[i];
	}
	return s->n_gpus < DCGM_GPUS ? &s->gpus[s->n_gpus++] : NULL;
}

static struct maybe number(const struct dcgm_value *v, double scale)
{
	double x;

	return dcgm_number(v, &x) == DCGM_FINE && x >= 0 && x < 0x1p40 ? known((int64_t) (x * scale))
								       : UNKNOWN;
}

/* "00000000:3B:00.0" as sysfs writes it. */
static void pci_of(const struct dcgm_value *v, char ret[DCGM_TEXT])
{
	char text[DCGM_TEXT];
	const char *p = text;
	size_t n = 0;

	dcgm_text(v, text, sizeof(text));
	if (strcspn(text, ":") == 8)
		p += 4;
	for (; *p && n + 1 < DCGM_TEXT; p++)
		ret[n++] = (char) (*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
	ret[n] = '\0';
}

static void add_gpu(struct source *s, unsigned id, const struct dcgm_value *v)
{
	const struct maybe capability = number(&v[3], 1);
	char uuid[DCGM_TEXT];
	struct dcgm_gpu *g;

	dcgm_text(&v[0], uuid, sizeof(uuid));
	if (!uuid[0] || (capability.known && capability.value >> 16 >= GPM_SINCE))
		return;
	g = gpu_of(s, uuid);
	if (!g)
		return;
	(void) snprintf(g->uuid, sizeof(g->uuid), "%s", uuid);
	dcgm_text(&v[1], g->name, sizeof(g->name));
	pci_of(&v[2], g->pci);
	g->index = number(&v[4], 1);
	g->memory_bytes = number(&v[5], 1 << 20);
	g->engine_id = id;
	g->is_present = true;
	g->why = DCGM_NOT_YET;
	memset(g->stamp_us, 0, sizeof(g->stamp_us));
}

int dcgm_engine_find_gpus(struct source *s)
{
	unsigned ids[DCGM_GPUS];
	int n = 0, code = DCGM_CALL(&s->dcgm, devices, s->dcgm.handle, ids, &n);

	s->watched_ns = 0;
	s->is_refused = false;
	for (size_t i = 0; i < s->n_gpus; i++)
		s->gpus[i].is_present = false;
	n = n < DCGM_GPUS ? n : DCGM_GPUS;
	if (code == DCGM_OK && n > 0)
		code = watch(s, ids, n, identity, IDENTITY, ONCE_US);
	if (code == DCGM_OK && n > 0)
		code = DCGM_CALL(&s->dcgm, update, s->dcgm.handle, 1);
	for (int i = 0; i < n && code == DCGM_OK; i++) {
		memset(s->values, 0, sizeof(s->values));
		code = DCGM_CALL(
			&s->dcgm, latest, s->dcgm.handle, (int) ids[i], identity, IDENTITY, s->values);
		if (code == DCGM_OK)
			add_gpu(s, ids[i], s->values);
	}
	return code;
}

/* ---- profiling ------------------------------------------------------------------------------- */

int dcgm_engine_read(struct source *s, const struct dcgm_gpu *g)
{
	uint16_t fields[DCGM_READ];
	int code;

	for (int i = 0; i < DCGM_ROWS; i++)
		fields[i] = (uint16_t) dcgm_rows[i].field;
	fields[DCGM_ROWS] = DCGM_BUSY;
	for (int i = 0; i < DCGM_READ; i++) /* detects entries that DCGM does not fill */
		s->values[i] = (struct dcgm_value) { .status = DCGM_NO_DATA };
	driver_call_device(s->env, g->index);
	code = DCGM_CALL(&s->dcgm, latest, s->dcgm.handle, (int) g->engine_id, fields, DCGM_READ, s->values);
	driver_call_device(s->env, UNKNOWN);
	return code;
}

/* Does any client of the engine profile this GPU? */
static bool is_profiled(struct source *s, struct dcgm_gpu *g)
{
	const int64_t now_us = (int64_t) (clock_wall_ns() / 1000);
	int code = dcgm_engine_read(s, g);

	g->why = dcgm_code_why(code);
	for (int i = 0; i < DCGM_ROWS && code == DCGM_OK; i++) {
		if (s->values[i].status == DCGM_OK && s->values[i].stamp_us > now_us - fresh_us)
			return true;
	}
	if (code == DCGM_OK)
		g->why = DCGM_NOBODY_PROFILES;
	return false;
}

/* All fields, else the most important ones: some versions refuse fields that the hardware cannot
 * count at once. */
static int watch_fields(struct source *s, const unsigned *ids, int n)
{
	static const size_t counts[] = { DCGM_ROWS, DCGM_CORE, 2 };
	uint16_t fields[DCGM_READ] = { DCGM_BUSY };
	int code = DCGM_OK;

	for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		for (size_t i = 0; i < counts[k]; i++)
			fields[1 + i] = (uint16_t) dcgm_rows[i].field;
		code = watch(s, ids, n, fields, counts[k] + 1, WATCH_US);
		s->n_watched = counts[k];
		if (code != DCGM_PROFILING_MULTI_PASS)
			break;
	}
	return code;
}

void dcgm_engine_watch(struct source *s)
{
	unsigned ids[DCGM_GPUS];
	int n = 0, code;

	if (s->is_refused)
		return;
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct dcgm_gpu *g = &s->gpus[i];

		if (g->is_present &&
			(is_profiled(s, g) || (s->may_profile && g->why == DCGM_NOBODY_PROFILES)))
			ids[n++] = g->engine_id;
	}
	if (n == 0)
		return;
	code = watch_fields(s, ids, n);
	s->watched_ns = clock_boot_ns();
	for (size_t i = 0; i < s->n_gpus; i++) {
		for (int k = 0; k < n; k++) {
			if (s->gpus[i].is_present && s->gpus[i].engine_id == ids[k])
				s->gpus[i].why = code == DCGM_OK ? DCGM_NOT_YET : dcgm_code_why(code);
		}
	}
	if (code != DCGM_OK)
		s->watched_ns = 0;
	/* A profiler ends some time; the other reasons are permanent. */
	s->is_refused = code != DCGM_OK && dcgm_code_why(code) != DCGM_COUNTERS_IN_USE;
}
