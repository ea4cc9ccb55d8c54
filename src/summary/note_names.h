/* SPDX-License-Identifier: MIT
 *
 * Merges notes that say the same of several figures: "the driver answers with error 999 for
 * gpu.temp" and "... for gpu.fan" are "the driver answers with error 999 for gpu.temp, gpu.fan".
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* True if both say the same, each of its own figures; false for notes without a figure. */
bool note_names_alike(const char *a, const char *b);
/* Appends note a with the figures of b added to its own; out is empty, and a and b are alike.
 * Returns 0 or -ENOMEM. */
int note_names_join(const char *a, const char *b, struct buf *out);
