/* SPDX-License-Identifier: MIT
 *
 * Device limits as CUDA's driver library reports them: no context is created, no kernel is run.
 * cuInit opens every GPU that this user may open, wakes those that sleep, and may block: call it
 * only in a process that may hang.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/gpu_fact.h"

/* Is any of the facts that CUDA reports wanted? */
bool cuda_facts_any(const struct gpu_fact_set *wanted);

/* uuid: "GPU-...", as NVML writes it. */
typedef void cuda_fact_reporter(void *ctx, const char *uuid, enum gpu_fact fact, int64_t value);

/* Reports the facts of all devices; none if libcuda.so.1 (or the library that HIWATER_CUDA names)
 * is missing or cannot be initialised. Unsets CUDA_VISIBLE_DEVICES in this process. */
void cuda_facts(cuda_fact_reporter *report, void *ctx);
