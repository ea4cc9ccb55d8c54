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
	COMPARE_CELL_LEN = 3 * UNITS_LEN
};

/* Titles of the parts of the groups' names: "model" and "data" of "mlp-original". */
struct compare_heads {
	size_t n;                        /* 0: names are shown whole */
	const char *names[COMPARE_HEADS]; /* borrowed */
};

/* Writes two groups, or one group against the first, with changes and tests; warnings follow the
 * table. Ends with a line feed. Returns 0 or -errno. */
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

/* ---- shared by both tables ----------------------------------------------------------------------------------------------- */

/* Lines below a table, wrapped in a narrow terminal. */
void compare_notes(const char *text, const struct sink_options *options, bool markdown, struct buf *out);
/* "22.4 +- 0.1 GiB", "unknown". Returns buf. */
char *compare_cell_text(const struct compare_row *row, const struct compare_cell *cell, enum units units,
	char buf[COMPARE_CELL_LEN]);
/* The figure is 0 or unknown in all runs. */
bool compare_is_nothing(const struct comparison *c, const struct compare_row *row);
/* Text for a Markdown cell. */
void compare_markdown(const char *text, struct buf *out);
/* Warns of facts that differ between the runs: hosts, CPUs, drivers. other_commands: commands are
 * meant to differ. */
void compare_warnings(const struct comparison *c, bool other_commands, struct buf *out);
