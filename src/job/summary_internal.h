/* SPDX-License-Identifier: MIT
 *
 * What summary.c and summary_ram.c share.
 */
#pragma once

#include "job/summary.h"

/* What is about GPUs, with its notes. Returns 0 or -ENOMEM. */
int summary_gpu(struct summary *summary);
/* Main, descendants, combined. */
void summary_ram(const struct job *job, struct summary *summary);
