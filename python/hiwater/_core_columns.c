/* SPDX-License-Identifier: MIT
 *
 * Runs a SELECT on a recording and returns its columns as arrays of 8-byte numbers. The arrays are
 * bytes objects: in the limited API of 3.9 no other object can export its memory without a copy.
 * SQLite runs without the GIL.
 */
#include "_core_columns.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

enum {
	BUSY_MS = 10000, /* wait for a writer */
};

enum kind {
	NOTHING, /* only NULLs so far */
	WHOLE,
	REAL,
	TEXT,
};

union cell {
	int64_t whole;
	double real;
	struct {
		uint32_t begin, len;
	} text; /* range in the texts of the column */
};

struct column {
	enum kind kind;
	union cell *cells;
	unsigned char *nulls;      /* one per row */
	size_t n_nulls;
	char *texts;
	size_t texts_len, texts_cap;
};

struct table {
	sqlite3 *db;
	sqlite3_stmt *statement;
	int n_columns;
	struct column *columns;
	size_t n, cap;             /* rows */
	const char *why;           /* reason of a failure outside SQLite */
};

/* ---- gathering ----------------------------------------------------------------------------------------------------- */

static int make_room(struct table *t)
{
	const size_t cap = t->cap ? 2 * t->cap : 256;

	if (t->n < t->cap)
		return SQLITE_OK;
	for (int i = 0; i < t->n_columns; i++) {
		struct column *c = &t->columns[i];
		union cell *cells = reallocarray(c->cells, cap, sizeof(*cells));
		unsigned char *nulls = cells ? realloc(c->nulls, cap) : NULL;

		c->cells = cells ? cells : c->cells;
		c->nulls = nulls ? nulls : c->nulls;
		if (!nulls)
			return SQLITE_NOMEM;
	}
	t->cap = cap;
	return SQLITE_OK;
}

static int append_text(struct column *c, union cell *cell, const unsigned char *text, size_t len)
{
	if (c->texts_len + len > UINT32_MAX)
		return SQLITE_TOOBIG;
	if (c->texts_len + len > c->texts_cap) {
		const size_t cap = 2 * (c->texts_len + len) + 256;
		char *texts = realloc(c->texts, cap);

		if (!texts)
			return SQLITE_NOMEM;
		c->texts = texts;
		c->texts_cap = cap;
	}
	if (len > 0)
		memcpy(c->texts + c->texts_len, text, len);
	cell->text.begin = (uint32_t) c->texts_len;
	cell->text.len = (uint32_t) len;
	c->texts_len += len;
	return SQLITE_OK;
}

/* Converts a column of integers to floats, at its first fraction. */
static void become_real(struct column *c, size_t n)
{
	for (size_t i = 0; c->kind == WHOLE && i < n; i++)
		c->cells[i].real = (double) c->cells[i].whole;
	c->kind = REAL;
}

static int append_value(struct table *t, int i)
{
	struct column *c = &t->columns[i];
	union cell *cell = &c->cells[t->n];
	const int type = sqlite3_column_type(t->statement, i);
	const bool is_text = type == SQLITE_TEXT || type == SQLITE_BLOB;

	*cell = (union cell) { 0 };
	c->nulls[t->n] = type == SQLITE_NULL;
	c->n_nulls += type == SQLITE_NULL;
	if (type == SQLITE_NULL)
		return SQLITE_OK;
	if (c->kind != NOTHING && (c->kind == TEXT) != is_text) {
		t->why = "a column has both numbers and texts";
		return SQLITE_MISMATCH;
	}
	if (is_text) {
		c->kind = TEXT;
		return append_text(c, cell, sqlite3_column_text(t->statement, i),
			(size_t) sqlite3_column_bytes(t->statement, i));
	}
	if (type == SQLITE_FLOAT && c->kind != REAL)
		become_real(c, t->n);
	if (c->kind == REAL)
		cell->real = sqlite3_column_double(t->statement, i);
	else
		cell->whole = sqlite3_column_int64(t->statement, i);
	if (c->kind == NOTHING)
		c->kind = WHOLE;
	return SQLITE_OK;
}

static int gather(struct table *t, const char *uri, const char *sql)
{
	int r = sqlite3_open_v2(uri, &t->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);

	if (r == SQLITE_OK) {
		(void) sqlite3_busy_timeout(t->db, BUSY_MS);
		r = sqlite3_prepare_v2(t->db, sql, -1, &t->statement, NULL);
	}
	if (r != SQLITE_OK)
		return r;
	t->n_columns = sqlite3_column_count(t->statement);
	t->columns = calloc((size_t) t->n_columns + 1, sizeof(*t->columns));
	if (!t->columns)
		return SQLITE_NOMEM;
	while ((r = sqlite3_step(t->statement)) == SQLITE_ROW) {
		r = make_room(t);
		for (int i = 0; r == SQLITE_OK && i < t->n_columns; i++)
			r = append_value(t, i);
		if (r != SQLITE_OK)
			return r;
		t->n++;
	}
	return r == SQLITE_DONE ? SQLITE_OK : r;
}

static void table_done(struct table *t)
{
	for (int i = 0; t->columns && i < t->n_columns; i++) {
		free(t->columns[i].cells);
		free(t->columns[i].nulls);
		free(t->columns[i].texts);
	}
	free(t->columns);
	(void) sqlite3_finalize(t->statement);
	(void) sqlite3_close(t->db);
}

/* ---- for Python ---------------------------------------------------------------------------------------------------- */

static PyObject *texts_of(const struct column *c, size_t n)
{
	PyObject *list = PyList_New((Py_ssize_t) n);

	for (size_t i = 0; list && i < n; i++) {
		const char *text = c->texts ? c->texts + c->cells[i].text.begin : "";
		PyObject *item = c->nulls[i]
					 ? Py_BuildValue("")
					 : PyUnicode_DecodeUTF8(text, (Py_ssize_t) c->cells[i].text.len, "replace");

		if (!item || PyList_SetItem(list, (Py_ssize_t) i, item) < 0) {
			Py_DECREF(list);
			return NULL;
		}
	}
	return list;
}

/* Unknown values are NaN, so a column of integers with an unknown value is converted to floats. */
static PyObject *numbers_of(struct column *c, size_t n)
{
	if (c->n_nulls > 0)
		become_real(c, n);
	for (size_t i = 0; c->n_nulls > 0 && i < n; i++) {
		if (c->nulls[i])
			c->cells[i].real = (double) NAN;
	}
	PyObject *bytes = PyBytes_FromStringAndSize(
		(const char *) c->cells, (Py_ssize_t) (n * sizeof(*c->cells)));
	PyObject *view = bytes ? PyMemoryView_FromObject(bytes) : NULL;
	PyObject *made = view ? PyObject_CallMethod(view, "cast", "s", c->kind == REAL ? "d" : "q") : NULL;

	Py_XDECREF(view);
	Py_XDECREF(bytes);
	return made;
}

/* (NAME, VALUES) of each column. */
static PyObject *columns_of(struct table *t)
{
	PyObject *list = PyList_New(t->n_columns);

	for (int i = 0; list && i < t->n_columns; i++) {
		struct column *c = &t->columns[i];
		PyObject *values = c->kind == TEXT ? texts_of(c, t->n) : numbers_of(c, t->n);
		PyObject *pair = values ? Py_BuildValue("sN", sqlite3_column_name(t->statement, i), values)
					: NULL;

		if (!pair || PyList_SetItem(list, i, pair) < 0) {
			Py_DECREF(list);
			return NULL;
		}
	}
	return list;
}

PyObject *core_columns(PyObject *module, PyObject *args)
{
	struct table t = { 0 };
	const char *uri, *sql;
	PyObject *made = NULL;
	int r;

	(void) module;
	if (!PyArg_ParseTuple(args, "ss", &uri, &sql))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		r = gather(&t, uri, sql);
	Py_END_ALLOW_THREADS if (r == SQLITE_OK)
		made = columns_of(&t);
	else if (r == SQLITE_NOMEM)
		PyErr_NoMemory();
	else PyErr_SetString(PyExc_OSError, t.why ? t.why : t.db ? sqlite3_errmsg(t.db)
								 : sqlite3_errstr(r));
	table_done(&t);
	return made;
}
