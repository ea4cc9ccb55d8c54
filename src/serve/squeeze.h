/* SPDX-License-Identifier: MIT
 *
 * gzip, for answers.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* Does the Accept-Encoding header (NULL: none) allow gzip? */
bool accepts_gzip(const char *header);

/* Appends text, compressed. Returns 0 or -errno. */
int squeeze(const struct buf *text, struct buf *out);

/* Does the Accept header prefer OpenMetrics to the older text format? */
bool accepts_openmetrics(const char *header);
