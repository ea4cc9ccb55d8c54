/* SPDX-License-Identifier: MIT
 *
 * The part of doctor that comes first: what can be measured here, the one thing that would improve it
 * most, and a table with a row for each topic.
 */
#pragma once

#include <stddef.h>

#include "api/internal.h"
#include "base/buf.h"
#include "base/json.h"

/* What doctor found. machine: the lines of hwi_doctor_machine. Borrowed. */
struct findings_here {
	const struct hwi_check *checks;
	size_t n;
	const char *machine;
};

/* Appends the two lines. */
void doctor_overview_text(const struct findings_here *here, size_t width, struct buf *out);
/* Appends the table. */
void doctor_overview_table(const struct findings_here *here, size_t width, struct buf *out);
/* Writes key and value. */
void doctor_overview_json(const struct findings_here *here, struct json *j);
