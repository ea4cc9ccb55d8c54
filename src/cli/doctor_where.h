/* SPDX-License-Identifier: MIT
 *
 * The part of doctor about run --where: may page faults be sampled here, with which resolution, at
 * which price, and what is in the way. hiwater-where tries it: it opens events of itself.
 */
#pragma once

#include "cli/doctor_rows.h"

enum {
	DOCTOR_WHERE_ROWS = 8,
};

struct doctor_where {
	struct doctor_row rows[DOCTOR_WHERE_ROWS];
	char lacks[DOCTOR_ROW_TEXT]; /* why nothing can be tried; "": it was */
};

void doctor_where_find(struct doctor_where *ret);
/* Appends a table, and the remedies. */
void doctor_where_text(const struct doctor_where *w, size_t width, struct buf *out);
/* Writes key and value. */
void doctor_where_json(const struct doctor_where *w, struct json *j);
