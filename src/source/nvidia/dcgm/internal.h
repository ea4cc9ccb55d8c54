/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the DCGM source: dcgm.c implements the source, engine.c calls the host
 * engine.
 */
#pragma once

#include "source/nvidia/dcgm/load.h"
#include "source/nvidia/dcgm/value.h"
#include "source/source.h"

enum {
	DCGM_ROWS = 12,          /* fields of the profiling module that are read */
	DCGM_READ = DCGM_ROWS + 1, /* plus the GPU's busy time, to detect a stalled module */
	DCGM_TEXT = 96,
	DCGM_CORE = 5,           /* the first rows: the most important, if not all can be watched */
};

struct dcgm_row {
	enum dcgm_field field;
	enum metric metric;
	bool is_rate;            /* bytes per second, made into a counter */
};
extern const struct dcgm_row dcgm_rows[DCGM_ROWS];

/* A GPU that DCGM knows and that has no GPM. */
struct dcgm_gpu {
	unsigned engine_id;      /* the engine's number for it */
	uint32_t id;             /* 0: no birth appended yet */
	bool is_present;               /* the engine lists it */
	char uuid[DCGM_TEXT], name[DCGM_TEXT], pci[DCGM_TEXT];
	struct maybe index, memory_bytes;
	enum dcgm_why why, noted;
	uint64_t zero_since_ns;  /* since when it reports 0 while busy; 0: it does not */
	int64_t stamp_us[DCGM_ROWS]; /* of the newest appended value; 0: none yet */
	double bytes[DCGM_ROWS]; /* of rates, accumulated */
	bool reported[DCGM_ROWS];    /* the last append was a value, not unknown */
};

struct source {
	struct dcgm dcgm;
	const struct source_env *env;
	struct dcgm_gpu gpus[DCGM_GPUS];
	size_t n_gpus;
	unsigned n_names;        /* group names used in the engine, which must be unique */
	uint32_t last_id;
	uint64_t now_ns;
	uint64_t watched_ns;     /* since when fields are watched; 0: not watched */
	bool is_refused;         /* permanently, on this connection */
	size_t n_watched;        /* of dcgm_rows */
	bool may_profile;        /* also if no other client does (HIWATER_DCGM_PROFILE=1) */
	bool origin_noted;               /* the note that DCGM reports the activity was sent */
	struct dcgm_value values[DCGM_READ];
};

/* ---- engine.c -------------------------------------------------------------------------------- */

/* Finds the engine's GPUs. Returns DCGM's code. */
int dcgm_engine_find_gpus(struct source *s);

/* Watches the profiling fields if a client watches them already or the user allows it; else sets
 * why in each GPU. */
void dcgm_engine_watch(struct source *s);

/* Reads the latest values of g into s->values, in the order of dcgm_rows, followed by its busy
 * time. Returns DCGM's code. */
int dcgm_engine_read(struct source *s, const struct dcgm_gpu *g);
