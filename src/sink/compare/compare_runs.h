/* SPDX-License-Identifier: MIT
 *
 * A comparison as text, as a Markdown table, as JSON.
 */
#pragma once

#include "base/json.h"
#include "sink/sink.h"
#include "summary/comparison.h"

enum {
	COMPARE_HEADS = 8,
	COMPARE_CELL_LEN = 3 * UNITS_LEN,
	COMPARE_CHANGE_LEN = COMPARE_CELL_LEN + 1
};

/* Titles of the parts of the groups' names: "model" and "data" of "mlp-original". */
struct compare_heads {
	size_t n;                        /* 0: names are shown whole */
	const char *names[COMPARE_HEADS]; /* borrowed */
};

/* Writes two groups with changes and tests; notes, warnings and the result follow the table. Ends
 * with a line feed. Returns 0 or -errno. */
int compare_text(
	const struct comparison *c, const struct sink_options *options, bool markdown, struct buf *out);

/* The same for more than two groups: a row a group, no tests (compare_table.c). */
int compare_table(const struct comparison *c, const struct compare_heads *heads,
	const struct sink_options *options, bool markdown, struct buf *out);
/* Appends one part of a group's name: "mlp". */
void compare_part(const struct comparison *c, const struct compare_heads *heads, size_t group, size_t head,
	struct buf *out);

/* compare_json.c: members of an object that the caller has begun: groups, figures, warnings. */
int compare_json(const struct comparison *c, const struct compare_heads *heads, struct json *j);

/* ---- below a table (compare_notes.c) ------------------------------------------------------------------------------------- */

/* Writes, for two groups: what the runs do not decide and what would decide it, warnings, and the
 * result in one line. Wrapped in a narrow terminal; in Markdown each line is a paragraph. */
void compare_notes(
	const struct comparison *c, const struct sink_options *options, bool markdown, struct buf *out);
/* The same below a table of any number of groups, which has no tests. */
void compare_table_notes(
	const struct comparison *c, const struct sink_options *options, bool markdown, struct buf *out);
/* The result in one line without its label and line feed: "new is 1.18 +- 0.01 times faster and
 * uses 1.11 times the RAM". has_test: two groups, with tests; else the lowest means. */
void compare_result(
	const struct comparison *c, const struct sink_options *options, bool has_test, struct buf *out);

/* ---- shared by both tables ----------------------------------------------------------------------------------------------- */

/* True if a line of text is wider than width. */
bool compare_is_too_wide(const char *text, unsigned width);
/* Appends a group's name, cleaned and shortened. */
void compare_name(
	const struct comparison *c, size_t group, const struct sink_options *options, struct buf *out);
/* "22.4 +- 0.1 GiB", "unknown". Returns buf. */
char *compare_cell_text(const struct compare_row *row, const struct compare_cell *cell,
	const struct sink_options *options, char buf[COMPARE_CELL_LEN]);
/* "-15.1 %", "+11.0 pt" (points of a percentage), "~" for no difference. Returns buf. */
char *compare_change_text(const struct compare_row *row, const struct compare_change *change,
	const struct sink_options *options, char buf[COMPARE_CHANGE_LEN]);
/* The figure is 0 or unknown in all runs. */
bool compare_is_nothing(const struct comparison *c, const struct compare_row *row);
/* Text for a Markdown cell. */
void compare_markdown(const char *text, struct buf *out);
