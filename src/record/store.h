/* SPDX-License-Identifier: MIT
 *
 * A recording open for writing: one connection, prepared statements, one transaction at a time. All functions belong
 * to one thread and return 0 or -errno (-ENOSPC, -EIO, -EBUSY, -ENOMEM, ...); store_why then has a text.
 */
#pragma once

#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "record/rows.h"
#include "record/wire_totals.h"

/* What kinds of rows take how much room, roughly: decides what is thinned. */
enum store_class {
	CLASS_SAMPLE,
	CLASS_RECENT,
	CLASS_PROCESS,
	CLASS_EVENT,
	CLASS_SERIES,
	CLASS_COUNT
};

struct store_use {
	uint64_t rows, bytes;
};

enum store_statement {
	PUT_META,
	PUT_PROCESS_BIRTH,
	PUT_PROCESS_END,
	PUT_PROCESS,
	PUT_GPU,
	PUT_GPU_PROCESS,
	END_GPU,
	END_GPU_PROCESS,
	PUT_SERIES,
	PUT_SERIES_STATE,
	PUT_VALUE,
	PUT_EVENT,
	PUT_PHASE,
	PUT_ACC,
	PUT_BUCKET,
	DROP_BUCKETS,
	PAGE_COUNT,
	FREE_COUNT,
	STATEMENT_COUNT,
};

struct store_cached {
	char *sql;
	sqlite3_stmt *statement;
};

struct store {
	sqlite3 *db;
	char *path;
	struct row_layout layout;
	bool in_transaction, wal;
	unsigned wal_pages;            /* in the journal after the last commit; */
	unsigned checkpoint_pages;     /* from so many on it is moved into the file */
	uint64_t pages_used, pages;    /* as of the last commit */
	struct store_use use[CLASS_COUNT];
	sqlite3_stmt *rows[ENTITY_COUNT][2];
	sqlite3_stmt *statements[STATEMENT_COUNT];
	struct buf part;               /* scratch */
	struct acc accs[METRIC_COUNT]; /* as last written, of id 0 */
	uint64_t course_span_ns;       /* likewise */
	uint64_t fact_prints[128];     /* likewise, by place in fact_infos */
	char **series;                 /* names; the id is the place + 1 */
	size_t n_series, cap_series;
	struct map series_places;      /* from the hash of a name */
	struct store_cached *cached;   /* statements by their text */
	size_t n_cached, cap_cached;
	char why[256];
};

struct store_options {
	const char *path;     /* absolute; must not exist unless it is empty and reserved */
	const char *name;     /* what to call it in texts */
	bool reserved;
	bool wal;             /* false: filled in one go and then closed; nobody reads it meanwhile */
	uint64_t max_bytes;
	unsigned wal_pages;   /* how many pages of journal before they are moved into the file */
};

int store_create(const struct store_options *options, struct store **ret, struct err *err);
/* Closes. A finished file has no journal beside it; one that went wrong is left as it is. NULL is fine. */
int store_close(struct store *s, bool finished);
/* Removes the file at path and what SQLite put beside it. */
void store_unlink(const char *path);

const char *store_why(const struct store *s);

/* Begins a transaction if none is open; waits a little where another program writes. */
int store_begin(struct store *s);
int store_commit(struct store *s);
void store_rollback(struct store *s);

/* Runs SQL without results; a statement with its bound parameters. What sqlite says as 0 or -errno. */
int store_run(struct store *s, const char *sql);
int store_step(struct store *s, sqlite3_stmt *statement);
int store_error(struct store *s, int rc);
sqlite3_stmt *store_prepare(struct store *s, const char *sql); /* NULL: see why */
/* The same, kept: the caller resets it and leaves it to the store. */
sqlite3_stmt *store_cached(struct store *s, const char *sql);
sqlite3_stmt *store_get(struct store *s, enum store_statement which);

/* A row of a window, or a look at full rate. */
int store_row(struct store *s, enum entity entity, bool recent, const struct row *row);

int store_meta_int(struct store *s, const char *key, int64_t value);
int store_meta_text(struct store *s, const char *key, const char *value);

/* Births, ends, events, series values of a frame. */
int store_frame(struct store *s, const struct frame *frame);
int store_totals(struct store *s, const struct wire_totals *totals);

/* Text as TEXT, or as BLOB where it is no UTF-8; a number or NULL; a time. */
void store_bind_text(sqlite3_stmt *statement, int at, const char *text);
void store_bind_if(sqlite3_stmt *statement, int at, bool is_known, int64_t value);
void store_bind_time(sqlite3_stmt *statement, int at, uint64_t ns);
uint64_t store_hash(const char *text);

/* The id of the series called name, made where it is new; 0: there are too many. */
int store_series(struct store *s, const char *name, int64_t *ret_id);

#define STORE_PAGE 4096

/* Pages in use and pages in all: within a transaction as they are now, else as of the last commit. */
int store_pages(struct store *s, uint64_t *ret_used, uint64_t *ret_all);
/* Bytes of the file and its journal on disk. */
uint64_t store_disk_bytes(const struct store *s);
/* Moves the journal into the file. -EBUSY if a reader is in the way. */
int store_checkpoint(struct store *s);
/* Moves the journal into the file and writes the file into fd, as one that needs no journal. */
int store_copy(struct store *s, int fd);
