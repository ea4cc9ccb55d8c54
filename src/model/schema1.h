/* SPDX-License-Identifier: MIT
 *
 * Names in recordings of schema 1: of tables, columns, metrics and facts (facts.def). Schema 2 renamed some of them and changed
 * nothing else, so a reader that accepts both reads both. Names of rules that people wrote for schema 1 are found, too.
 */
#pragma once

enum {
	SCHEMA1_NAME = 96
};

/* The present name of a metric or fact that schema 1 called then; then itself if it was not renamed. */
const char *schema1_now(const char *then);

/* What schema 1 calls a table, or a column (of a gauge also NAME_min and NAME_max); NULL: it was not renamed. Returns buf. */
const char *schema1_then(const char *now, char buf[SCHEMA1_NAME]);
