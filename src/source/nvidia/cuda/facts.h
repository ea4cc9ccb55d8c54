/* SPDX-License-Identifier: MIT
 *
 * What CUDA's driver library says of the devices' limits: no context is made, no kernel run. It opens every GPU that it
 * may, which wakes those that sleep, and may block: it belongs where a driver may hang.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/gpu_fact.h"

/* Is one of those wanted that it can tell? */
bool cuda_facts_any(const struct gpu_fact_set *wanted);

/* uuid: "GPU-...", as NVML has it. */
typedef void cuda_fact_teller(void *ctx, const char *uuid, enum gpu_fact fact, int64_t value);

/* Tells of all devices; of none where there is no libcuda.so.1 (HIWATER_CUDA in the environment names another) or it does
 * not start. Changes CUDA_VISIBLE_DEVICES of this process. */
void cuda_facts(cuda_fact_teller *tell, void *ctx);
