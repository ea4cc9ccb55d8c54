/* SPDX-License-Identifier: MIT
 *
 * What is asked of a host engine. The counters of the profiling module are one's on the machine: a watch on one of its
 * fields takes them, unless the engine has them already. So hiwater adds its watch to those of others and begins none.
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
	GPM_SINCE = 9,           /* CUDA's major capability: of Hopper and later NVML tells the same by itself */
};
static const int64_t fresh_us = 120000000; /* who profiles at all has a value of so long ago: exporters take one in 30 s */

static const uint16_t identity[] = { DCGM_UUID, DCGM_NAME, DCGM_PCI, DCGM_CAPABILITY, DCGM_INDEX, DCGM_MEM_TOTAL };

enum {
	IDENTITY = sizeof(identity) / sizeof(identity[0])
};

/* ---- groups --------------------------------------------------------------------------------------------------------- */

/* A name that nobody has used in the engine, which keeps names for as long as a connection lasts. */
static void name_new(struct source *s, char ret[64])
{
	(void) snprintf(ret, 64, "hiwater-%d-%llu-%u", (int) getpid(), (unsigned long long) clock_boot_ns(), s->n_names++);
}

/* Watches fields of the engine's GPUs with these ids. The engine is shared and keeps what is made there: what comes to nothing
 * is taken back. */
static int watch(struct source *s, const unsigned *ids, int n_ids, const uint16_t *fields, size_t n, long long every_us)
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

/* ---- who is there --------------------------------------------------------------------------------------------------- */

/* The one of that uuid, from before a loss too; a new one; NULL: there is no room. */
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

	return dcgm_number(v, &x) == DCGM_FINE && x >= 0 && x < 0x1p40 ? known((int64_t) (x * scale)) : UNKNOWN;
}

/* "00000000:3B:00.0" as sysfs has it. */
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

static void meet(struct source *s, unsigned id, const struct dcgm_value *v)
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
	g->here = true;
	g->why = DCGM_NOT_YET;
	memset(g->stamp_us, 0, sizeof(g->stamp_us));
}

int dcgm_engine_meet(struct source *s)
{
	unsigned ids[DCGM_GPUS];
	int n = 0, code = DCGM_CALL(&s->dcgm, devices, s->dcgm.handle, ids, &n);

	s->watched_ns = 0;
	s->is_refused = false;
	for (size_t i = 0; i < s->n_gpus; i++)
		s->gpus[i].here = false;
	n = n < DCGM_GPUS ? n : DCGM_GPUS;
	if (code == DCGM_OK && n > 0)
		code = watch(s, ids, n, identity, IDENTITY, ONCE_US);
	if (code == DCGM_OK && n > 0)
		code = DCGM_CALL(&s->dcgm, update, s->dcgm.handle, 1);
	for (int i = 0; i < n && code == DCGM_OK; i++) {
		memset(s->values, 0, sizeof(s->values));
		code = DCGM_CALL(&s->dcgm, latest, s->dcgm.handle, (int) ids[i], identity, IDENTITY, s->values);
		if (code == DCGM_OK)
			meet(s, ids[i], s->values);
	}
	return code;
}

/* ---- profiling ------------------------------------------------------------------------------------------------------ */

int dcgm_engine_read(struct source *s, const struct dcgm_gpu *g)
{
	uint16_t fields[DCGM_READ];
	int code;

	for (int i = 0; i < DCGM_ROWS; i++)
		fields[i] = (uint16_t) dcgm_rows[i].field;
	fields[DCGM_ROWS] = DCGM_BUSY;
	for (int i = 0; i < DCGM_READ; i++) /* what is not touched is no answer */
		s->values[i] = (struct dcgm_value) { .status = DCGM_NO_DATA };
	asked_turn_to(s->env, g->index);
	code = DCGM_CALL(&s->dcgm, latest, s->dcgm.handle, (int) g->engine_id, fields, DCGM_READ, s->values);
	asked_turn_to(s->env, UNKNOWN);
	return code;
}

/* Does anybody have the engine profile this GPU? */
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

/* All fields, else those that matter most: what the counters cannot count at once is refused by some versions. */
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

		if (g->here && (is_profiled(s, g) || (s->may_profile && g->why == DCGM_NOBODY_PROFILES)))
			ids[n++] = g->engine_id;
	}
	if (n == 0)
		return;
	code = watch_fields(s, ids, n);
	s->watched_ns = clock_boot_ns();
	for (size_t i = 0; i < s->n_gpus; i++) {
		for (int k = 0; k < n; k++) {
			if (s->gpus[i].here && s->gpus[i].engine_id == ids[k])
				s->gpus[i].why = code == DCGM_OK ? DCGM_NOT_YET : dcgm_code_why(code);
		}
	}
	if (code != DCGM_OK)
		s->watched_ns = 0;
	s->is_refused = code != DCGM_OK && dcgm_code_why(code) != DCGM_TAKEN; /* a profiler ends; the others stay so */
}
