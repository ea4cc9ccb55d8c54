/* SPDX-License-Identifier: MIT */
#include "cli/doctor_rows.h"

#include <stdarg.h>
#include <stdio.h>

#include "cli/columns.h"
#include "cli/terminal.h"

void doctor_row_set(struct doctor_row *row, bool available, const char *remedy, const char *format, ...)
{
	va_list ap;

	row->available = available;
	(void) snprintf(row->remedy, sizeof(row->remedy), "%s", remedy);
	va_start(ap, format);
	(void) vsnprintf(row->text, sizeof(row->text), format, ap);
	va_end(ap);
}

void doctor_rows_text(const struct doctor_row *rows, size_t n, const char *name, const char *introduction,
	size_t width, struct buf *out)
{
	const struct table_column columns[] = {
		{ .head = name, .is_left = true },
		{ .head = "HERE", .is_left = true },
		{ .head = "HOW, OR WHY NOT", .is_left = true, .least = 12 },
	};
	struct table table;

	table_init(&table, columns, sizeof(columns) / sizeof(*columns), terminal_is_utf8());
	for (size_t i = 0; i < n; i++) {
		table_cell(&table, rows[i].what);
		table_cell(&table, rows[i].available ? "yes" : "no");
		table_cell(&table, rows[i].text);
	}
	(void) table_put(&table, (unsigned) width, out);
	table_done(&table);
	for (size_t i = 0; i < n; i++) {
		struct buf remedy = BUF_INIT(2 * DOCTOR_ROW_TEXT);

		(void) buf_printf(&remedy, "%s %s: %s.", introduction, rows[i].what, rows[i].remedy);
		if (*rows[i].remedy && !remedy.error)
			add_two_columns(out, 0, remedy.data, width + 1, "", width);
		buf_done(&remedy);
	}
}

void doctor_rows_lack(const char *command, const char *why, size_t width, struct buf *out)
{
	struct buf text = BUF_INIT(2 * DOCTOR_ROW_TEXT);

	(void) buf_printf(&text, "%s is not available: %s.", command, why);
	if (!text.error)
		add_two_columns(out, 0, text.data, width + 1, "", width);
	buf_done(&text);
}

void doctor_rows_json(const struct doctor_row *rows, size_t n, const char *key, struct json *j)
{
	json_key_array(j, key);
	for (size_t i = 0; i < n; i++) {
		const struct doctor_row *row = &rows[i];

		json_object(j);
		json_key_str(j, "what", row->what);
		json_key_bool(j, "available", row->available);
		json_key_text(j, "how", row->available ? row->text : "");
		json_key_text(j, "why_not", row->available ? "" : row->text);
		json_key_text(j, "remedy", row->remedy);
		json_end(j);
	}
	json_end(j);
}
