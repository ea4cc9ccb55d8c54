/* SPDX-License-Identifier: MIT
 *
 * What the files of the DCGM source share: dcgm.c is the source, engine.c talks to the host engine.
 */
#pragma once

#include "source/nvidia/dcgm/load.h"
#include "source/nvidia/dcgm/value.h"
#include "source/source.h"

enum {
	DCGM_ROWS = 12,          /* fields of the profiling module that are read */
	DCGM_READ = DCGM_ROWS + 1, /* and how busy the GPU is, to tell a module that is stalled */
	DCGM_TEXT = 96,
	DCGM_CORE = 5,           /* the first ones: what matters most, where not all can be had at once */
};

struct dcgm_row {
	enum dcgm_field field;
	enum metric metric;
	bool is_rate;            /* bytes per second, which become a counter */
};
extern const struct dcgm_row dcgm_rows[DCGM_ROWS];

/* A GPU that DCGM knows and GPM does not serve. */
struct dcgm_gpu {
	unsigned engine_id;      /* the engine's number of it */
	uint32_t id;             /* 0: not born yet */
	bool here;               /* the engine knows it */
	char uuid[DCGM_TEXT], name[DCGM_TEXT], pci[DCGM_TEXT];
	struct maybe index, memory_bytes;
	enum dcgm_why why, noted;
	uint64_t zero_since_ns;  /* it says 0 and is busy; 0: no */
	int64_t stamp_us[DCGM_ROWS]; /* of the newest value that was told; 0: none yet */
	double bytes[DCGM_ROWS]; /* of rates, over time */
	bool told[DCGM_ROWS];    /* a value, at last */
};

struct source {
	struct dcgm dcgm;
	const struct source_env *env;
	struct dcgm_gpu gpus[DCGM_GPUS];
	size_t n_gpus;
	unsigned n_names;        /* names given to groups in the engine: each must be new there */
	uint32_t last_id;
	uint64_t now_ns;
	uint64_t watched_ns;     /* since when its fields are watched; 0: they are not */
	bool is_refused;         /* for good, on this connection */
	size_t n_watched;        /* of dcgm_rows */
	bool may_profile;        /* also where nobody does: the user said so */
	bool said;               /* that DCGM tells the activity */
	struct dcgm_value values[DCGM_READ];
};

/* ---- engine.c -------------------------------------------------------------------------------------------------- */

/* Learns which GPUs there are. Returns DCGM's code. */
int dcgm_engine_meet(struct source *s);

/* Watches the profiling fields, where somebody does already or the user wants it; else says in each GPU why not. */
void dcgm_engine_watch(struct source *s);

/* The latest values of g, in the order of dcgm_rows, and how busy it is behind them. Returns DCGM's code. */
int dcgm_engine_read(struct source *s, const struct dcgm_gpu *g);
