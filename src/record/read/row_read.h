/* SPDX-License-Identifier: MIT
 *
 * Reads rows from a statement that selects all columns of schema_columns in their order. Columns
 * that are not integers are unknown, malformed values are ignored.
 */
#pragma once

#include <sqlite3.h>

#include "record/rows.h"

/* False if the row has no time or no id. */
bool row_read(sqlite3_stmt *statement, const struct row_layout *l, enum entity entity, bool recent,
	struct row *ret);
