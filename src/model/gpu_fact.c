/* SPDX-License-Identifier: MIT */
#include "model/gpu_fact.h"

#define ANY   INT64_MAX
#define POWER GPU_POWER_MOST
#define CLOCK GPU_CLOCK_MOST
#define TEMP  GPU_TEMP_MOST

const struct gpu_fact_row gpu_facts[GPU_FACT_COUNT] = {
#define X(id, kind, most, sentence) [GF_##id] = { #id, FACT_##kind, most, sentence },
#include "model/gpu_fact.def"
#undef X
};
