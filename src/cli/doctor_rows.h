/* SPDX-License-Identifier: MIT
 *
 * A part of doctor: a table of what works here, and the remedies below it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/json.h"

enum {
	DOCTOR_ROW_TEXT = 1024
};

struct doctor_row {
	const char *what;              /* "ranges (NVTX)" */
	bool available;
	char text[DOCTOR_ROW_TEXT];    /* how, or why not */
	char remedy[DOCTOR_ROW_TEXT];  /* "": none is known, or none is needed */
};

void doctor_row_set(struct doctor_row *row, bool available, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Appends a table, whose first column has the name of the part, and the remedies after an
 * introduction: "To follow". */
void doctor_rows_text(const struct doctor_row *rows, size_t n, const char *name, const char *introduction,
	size_t width, struct buf *out);
/* Appends that all of it is not available, and why. */
void doctor_rows_lack(const char *command, const char *why, size_t width, struct buf *out);
/* Writes key and value. */
void doctor_rows_json(const struct doctor_row *rows, size_t n, const char *key, struct json *j);
