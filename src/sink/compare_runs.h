/* SPDX-License-Identifier: MIT
 *
 * A comparison as text, as a Markdown table, as JSON.
 */
#pragma once

#include "base/json.h"
#include "job/comparison.h"
#include "sink/sink.h"

/* Both end with a line feed. Text has what was warned of below the table. */
int compare_text(const struct comparison *c, const struct sink_options *options, bool markdown, struct buf *out);

/* Members of an object that the caller has begun: groups, figures, warnings. */
int compare_json(const struct comparison *c, struct json *j);
