/* SPDX-License-Identifier: MIT */
#include "gpu_fact.h"

const struct gpu_fact_row gpu_facts[GPU_FACT_COUNT] = {
#define X(id, kind, sentence) [GF_##id] = { #id, FACT_##kind, sentence },
#include "gpu_fact.def"
#undef X
};
