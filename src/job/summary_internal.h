/* SPDX-License-Identifier: MIT
 *
 * What summary.c and summary_ram.c share.
 */
#pragma once

#include "job/summary.h"

/* Main, descendants, combined. */
void summary_ram(const struct job *job, struct summary *summary);
