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

/* Plausible maxima for any GPU, in the units of metrics: far above existing hardware (modules of
 * two dies draw 1.4 kW, memory clocks are 16 GHz) and far below garbage. */
#define GPU_POWER_MOST INT64_C(10000000000)
#define GPU_CLOCK_MOST INT64_C(50000000000)
#define GPU_TEMP_MOST  200000

struct gpu_fact_row {
	const char *name; /* "MAX_CLOCK_SM" */
	enum gpu_fact_kind kind;
	int64_t most; /* largest plausible value */
	const char *sentence;
};

extern const struct gpu_fact_row gpu_facts[GPU_FACT_COUNT];

/* The facts that are requested. All zero: none. */
struct gpu_fact_set {
	bool has[GPU_FACT_COUNT];
};

/* The reason for a missing value, unless the device simply has none. */
enum gpu_lack {
	GPU_LACK_NONE,
	GPU_LACK_RIGHT,   /* this user has no permission */
	GPU_LACK_ERROR,   /* an unspecific driver error, or an implausible fact */
	GPU_LACK_COUNT,
};

/* One fact of one device as a source reports it, or the reason for a missing fact or metric. */
struct gpu_fact_value {
	uint32_t id;      /* of the device, assigned by its source */
	uint16_t fact;    /* enum gpu_fact; if of_metric: enum metric */
	bool is_text, of_metric;
	enum gpu_lack lack; /* not GPU_LACK_NONE: there is no value; always so if of_metric */
	int64_t value;    /* unless is_text */
	char text[96];    /* if is_text */
};
