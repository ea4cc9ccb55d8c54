/* SPDX-License-Identifier: MIT
 *
 * Facts of GPUs (gpu_fact.def): their names, and a set of them. Static tables; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpu_fact {
#define X(id, kind, sentence) GF_##id,
#include "gpu_fact.def"
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

struct gpu_fact_row {
	const char *name; /* "MAX_CLOCK_SM" */
	enum gpu_fact_kind kind;
	const char *sentence;
};

extern const struct gpu_fact_row gpu_facts[GPU_FACT_COUNT];

/* Which facts somebody wants. All zero: none. */
struct gpu_fact_set {
	bool has[GPU_FACT_COUNT];
};

/* One fact of one device, as it crosses from a source to whoever asked. */
struct gpu_fact_told {
	uint32_t id;      /* the device's, that its source gave it */
	uint16_t fact;    /* enum gpu_fact */
	bool is_text;
	int64_t value;    /* unless is_text */
	char text[96];    /* if is_text */
};
