/* SPDX-License-Identifier: MIT
 *
 * What most people want to be told of: --alert usual.
 */
#pragma once

#include <stdbool.h>

/* Does text stand for them? */
bool usual_is(const char *text);

/* The rules, NULL-terminated. The manual has them, too (cli/measure.h). */
extern const char *const usual_alerts[];
