/* SPDX-License-Identifier: MIT
 *
 * Facts of GPUs (gpu_fact.def): their names, and a set of them. Static tables; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpu_fact {
#define X(id, kind, most, sentence) GF_##id,
#include "model/gpu_fact.def"
#undef X
	GPU_FACT_COUNT
};

enum gpu_fact_kind {
	FACT_TEXT,
	FACT_COUNT,
	FACT_FLAG,
	FACT_MASK,
	FACT_BYTES,
	FACT_HZ,
	FACT_UW,
	FACT_MCEL,
};

/* The most that can be so of a GPU, whoever made it, in the units of metrics: far above what is built (modules of two dies draw
 * 1.4 kW, memory clocks are 16 GHz), and far below garbage. */
#define GPU_POWER_MOST INT64_C(10000000000)
#define GPU_CLOCK_MOST INT64_C(50000000000)
#define GPU_TEMP_MOST  200000

struct gpu_fact_row {
	const char *name; /* "MAX_CLOCK_SM" */
	enum gpu_fact_kind kind;
	int64_t most; /* that it may be: more cannot be so */
	const char *sentence;
};

extern const struct gpu_fact_row gpu_facts[GPU_FACT_COUNT];

/* Which facts somebody wants. All zero: none. */
struct gpu_fact_set {
	bool has[GPU_FACT_COUNT];
};

/* Why there is no value, where that is more than that the device has none. */
enum gpu_lack {
	GPU_LACK_NONE,
	GPU_LACK_RIGHT,   /* this user may not have it */
	GPU_LACK_ERROR,   /* the driver answered with an error that says nothing, or of a fact what cannot be so */
	GPU_LACK_COUNT,
};

/* One fact of one device, as it crosses from a source to whoever asked; or why it has none, or no value of a metric. */
struct gpu_fact_told {
	uint32_t id;      /* the device's, that its source gave it */
	uint16_t fact;    /* enum gpu_fact; of_metric: enum metric */
	bool is_text, of_metric;
	enum gpu_lack lack; /* not GPU_LACK_NONE: that, and no value; always so of_metric */
	int64_t value;    /* unless is_text */
	char text[96];    /* if is_text */
};
