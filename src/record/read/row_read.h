/* SPDX-License-Identifier: MIT
 *
 * Rows out of a statement that selects the columns of schema_columns, all of them, in their order. Whatever lies in the
 * file: what is no integer is unknown, what cannot be is left out.
 */
#pragma once

#include <sqlite3.h>

#include "record/rows.h"

/* False if the row is none of ours (no time, no id). */
bool row_read(sqlite3_stmt *statement, const struct row_layout *l, enum entity entity, bool recent, struct row *ret);
