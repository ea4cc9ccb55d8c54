/* SPDX-License-Identifier: MIT
 *
 * A recording open for writing: one connection, prepared statements, one transaction at a time. All
 * functions must be called from one thread and return 0 or -errno (-ENOSPC, -EIO, -EBUSY, -ENOMEM,
 * ...); store_why then returns the text of the first error.
 */
#pragma once

#include <sqlite3.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "record/rows.h"
#include "record/wire_totals.h"

/* Classes of rows whose sizes are tracked, approximately; they decide which rows are thinned. */
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

/* What another program did to the files while they were open. */
enum store_harm {
	HARM_NONE,
	HARM_INDEX,       /* NAME-shm was truncated, replaced or removed: open the file again */
	HARM_JOURNAL,     /* NAME-wal was truncated: what it had is lost; open the file again */
	HARM_JOURNAL_NAME, /* NAME-wal was replaced or removed: nothing is lost; open the file again */
	HARM_REMOVED,     /* the file has no name any more */
	HARM_REPLACED,    /* another file has its name */
	HARM_TRUNCATED,   /* the file is of no use any more */
	HARM_OVERWRITTEN, /* likewise */
};

/* A file as this process left it. */
struct store_file {
	dev_t device;
	ino_t inode; /* 0: unknown */
	off_t bytes;
	struct timespec written;
};

struct store_cached {
	char *sql;
	sqlite3_stmt *statement;
};

/* A recording that this process writes or reads. */
struct store_open {
	struct store_open *next;
	dev_t device;
	ino_t inode; /* 0: not listed */
};

struct store {
	struct store_open open;
	sqlite3 *db;
	char *path;
	struct row_layout layout;
	bool in_transaction, wal;
	unsigned wal_pages;            /* pages in the journal after the last commit */
	unsigned checkpoint_pages;     /* the journal is checkpointed from this size on */
	struct store_file files[3];    /* the file, its journal and its index, after the last commit */
	bool nameless;                 /* HARM_REMOVED or HARM_REPLACED was handled */
	bool is_touched;               /* another program wrote to the file; its header is sound */
	uint64_t pages_used, pages;    /* as of the last commit */
	uint64_t trace_pages;          /* of them, those of traced work, which has a limit of its own */
	struct store_use use[CLASS_COUNT];
	sqlite3_stmt *rows[ENTITY_COUNT][2];
	sqlite3_stmt *statements[STATEMENT_COUNT];
	struct buf part;               /* scratch */
	struct acc accs[METRIC_COUNT]; /* as last written, of id 0 */
	uint64_t timeline_span_ns;     /* as last written */
	uint64_t fact_fingerprints[160];     /* as last written, indexed as fact_infos */
	char **series;                 /* names; the id is the index + 1 */
	size_t n_series, cap_series;
	struct map series_places;      /* from the hash of a name */
	struct store_cached *cached;   /* prepared statements by their SQL */
	size_t n_cached, cap_cached;
	char why[256];
};

struct store_options {
	const char *path;     /* absolute; must not exist unless it is empty and reserved */
	const char *name;     /* its name in messages */
	bool reserved;
	bool wal;             /* false: filled in one transaction and closed, with no reader meanwhile */
	uint64_t max_bytes;
	unsigned wal_pages;   /* checkpoint the journal from this number of pages on */
};

int store_create(const struct store_options *options, struct store **ret, struct err *err);
/* Opens a finished recording, to add tables to it; a transaction that is not committed leaves it as it was. Does not
 * wait for other programs that have it open: -EBUSY. The caller has made sure that no recorder writes it
 * (record/trace/trace_file.h). */
int store_open_existing(const char *path, struct store **ret, struct err *err);
/* Closes the store. A finished file has no journal; after an error the files stay as they are. s
 * may be NULL. */
int store_close(struct store *s, bool finished);
/* Removes the file at path and SQLite's files next to it. */
void store_unlink(const char *path);
/* Only the files next to it. */
void store_unlink_journals(const char *path);

/* Lists the file at path as open in this process, and removes it from the list. */
void store_list_open(struct store_open *file, const char *path);
void store_unlist_open(const struct store_open *file);
/* True if this process is writing or reading the file with this inode: it is not to be opened and closed in
 * another way, which would drop this process's locks (fcntl(2)). */
bool store_is_open(const struct stat *st);

const char *store_why(const struct store *s);

/* Begins a transaction if none is open. Waits briefly if another program is writing. */
int store_begin(struct store *s);
int store_commit(struct store *s);
void store_rollback(struct store *s);

/* Run SQL without results; step a statement with its bound parameters; convert an SQLite result
 * code to 0 or -errno. */
int store_run(struct store *s, const char *sql);
int store_step(struct store *s, sqlite3_stmt *statement);
int store_error(struct store *s, int rc);
sqlite3_stmt *store_prepare(struct store *s, const char *sql); /* NULL: see store_why */
/* The same, cached: the caller resets the statement but does not finalize it. */
sqlite3_stmt *store_cached(struct store *s, const char *sql);
sqlite3_stmt *store_get(struct store *s, enum store_statement which);

/* Writes the row of a window, or of a sample at full rate. */
int store_row(struct store *s, enum entity entity, bool recent, const struct row *row);

int store_meta_int(struct store *s, const char *key, int64_t value);
int store_meta_text(struct store *s, const char *key, const char *value);

/* Writes the births, ends, events and series values of a frame. */
int store_frame(struct store *s, const struct frame *frame);
int store_totals(struct store *s, const struct wire_totals *totals);

/* Bind text (as BLOB if it is not valid UTF-8), a number or NULL, a time. */
void store_bind_text(sqlite3_stmt *statement, int at, const char *text);
void store_bind_if(sqlite3_stmt *statement, int at, bool is_known, int64_t value);
void store_bind_time(sqlite3_stmt *statement, int at, uint64_t ns);
uint64_t store_hash(const char *text);

/* Sets *ret_id to the id of the series called name, which is created if it is new; 0: there are
 * too many. */
int store_series(struct store *s, const char *name, int64_t *ret_id);

#define STORE_PAGE 4096

/* Pages in use and in total: within a transaction the current numbers, else those of the last
 * commit. */
int store_pages(struct store *s, uint64_t *ret_used, uint64_t *ret_all);
/* Bytes of the file and its journal on disk. */
uint64_t store_disk_bytes(const struct store *s);
/* Checkpoints: moves the journal into the file. Returns -EBUSY if a reader prevents it. */
int store_checkpoint(struct store *s);
/* Moves the journal of a finished recording into its file and removes it, which its recorder could not do while a reader had it open. Does
 * nothing if another program has it open now, or if it cannot be written. */
void store_settle(const char *path);
/* Checkpoints, then writes the file to fd such that it can be read without a journal. */
int store_copy(struct store *s, int fd);

/* ---- harm done by other programs (store_harm.c) ---------------------------------------------- */

/* Compares the files with what this process left; call it before a transaction and before its commit. */
enum store_harm store_harm(struct store *s);
/* Remembers the files as they are now: after each commit or checkpoint of this process. */
void store_note_files(struct store *s);
/* False: the file was removed, or another one has its name. */
bool store_has_name(const struct store *s);
/* False: the file lost its name, and the journal and the index next to that name are not, or not surely, its
 * own. SQLite removes both by name when it no longer uses them. */
bool store_has_journals(const struct store *s);
/* SQLite is not to remove the journal and the index. */
void store_keep_journals(struct store *s);

/* Forgets what was written, as after a transaction that was rolled back: the next totals are written
 * in full. */
void store_forget_written(struct store *s);
/* After HARM_INDEX and HARM_JOURNAL*: closes the file without a checkpoint and opens it again. -ESTALE: its
 * name is that of another file or of none, which is not opened. After another error, call it again later. */
int store_reopen(struct store *s, enum store_harm harm);
/* After HARM_REMOVED and HARM_REPLACED, between two transactions: from now on no file next to this one
 * is used, since those with its name are another program's. */
void store_detach(struct store *s);
/* In a new transaction after one was rolled back: the names of all series again. */
int store_series_again(struct store *s);
/* False: the file is damaged. Only if another program wrote to it, as this reads all of it. */
bool store_is_sound(struct store *s);
