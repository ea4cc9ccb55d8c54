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

/* What the parts of the groups' names are: "model" and "data" of "mlp-original". */
struct compare_heads {
	size_t n;                        /* 0: names are told whole */
	const char *names[COMPARE_HEADS]; /* borrowed */
};

/* Both end with a line feed. Text has what was warned of below the table. */
int compare_text(const struct comparison *c, const struct sink_options *options, bool markdown, struct buf *out);

/* compare_table.c: a row a group and no test, for more than two groups. */
int compare_table(const struct comparison *c, const struct compare_heads *heads, const struct sink_options *options, bool markdown,
	struct buf *out);
/* Appends one part of a group's name. */
void compare_part(const struct comparison *c, const struct compare_heads *heads, size_t group, size_t head, struct buf *out);

/* compare_json.c: members of an object that the caller has begun: groups, figures, warnings. */
int compare_json(const struct comparison *c, const struct compare_heads *heads, struct json *j);

/* For both tables: what stands below one, its words flowing in a narrow terminal; a cell's text; of swap, files or a GPU that nobody used there is nothing to tell; text in a cell of
 * Markdown; what should be alike and is not. */
void compare_notes(const char *text, const struct sink_options *options, bool markdown, struct buf *out);
char *compare_cell_text(const struct compare_row *row, const struct compare_cell *cell, enum units units, char buf[COMPARE_CELL_LEN]);
bool compare_is_nothing(const struct comparison *c, const struct compare_row *row);
void compare_markdown(const char *text, struct buf *out);
void compare_warnings(const struct comparison *c, bool other_commands, struct buf *out); /* of others: they are meant to differ */
