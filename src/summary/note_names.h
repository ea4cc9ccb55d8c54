/* SPDX-License-Identifier: MIT
 *
 * Notes that say the same of several figures are one: "the driver answers with error 999 for gpu.temp" and "... for gpu.fan" are
 * "the driver answers with error 999 for gpu.temp, gpu.fan".
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* Do they say the same, of whatever figures? Those without a figure do not. */
bool note_names_alike(const char *a, const char *b);
/* Adds to out, empty, what a says, with the figures of b behind its own. They are alike. Returns 0 or -ENOMEM. */
int note_names_join(const char *a, const char *b, struct buf *out);
