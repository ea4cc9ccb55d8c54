/* SPDX-License-Identifier: MIT */
#include "record/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "record/index_guard.h"
#include "record/schema.h"

enum {
	BUSY_MS = 250,       /* how long SQLite waits for another writer, */
	BUSY_TRIES = 8,      /* and how often before it is an error */
	FINISH_BUSY_MS = 50, /* a reader keeps the journal: it stays next to the file */
};

static const char *const journals[] = { "-wal", "-shm", "-journal" };

/* ---- errors ---------------------------------------------------------------------------------- */

/* For some errors SQLite stores the system's error number; for the others errno is still set. */
static int system_error(sqlite3 *db)
{
	int last = errno, code = db ? sqlite3_system_errno(db) : 0;

	if (code == 0)
		code = last;

	return code > 0 ? -code : -EIO;
}

static int error_of(sqlite3 *db, int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		return system_error(db);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EBADMSG;
	default:
		return -EIO;
	}
}

int store_error(struct store *s, int rc)
{
	int r = error_of(s->db, rc);

	if (r < 0 && !s->why[0]) {
		const char *text = r == -EBUSY ? "another program is writing to it" : strerror(-r);

		(void) snprintf(s->why, sizeof(s->why), "%s", text);
	}
	return r;
}

const char *store_why(const struct store *s)
{
	return s->why;
}

/* ---- statements ------------------------------------------------------------------------------ */

static const char *const sql_of[STATEMENT_COUNT] = {
	[PUT_META] = "INSERT OR REPLACE INTO meta VALUES(?,?)",
	[PUT_PROCESS_BIRTH] =
		"INSERT INTO process(id,parent,pid,ppid,uid,start,startstack,born,is_main,name,command,rank)"
		" VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"
		" ON CONFLICT(id) DO UPDATE SET uid=excluded.uid, startstack=excluded.startstack, name=excluded.name,"
		" command=excluded.command, rank=coalesce(excluded.rank,rank)",
	[PUT_PROCESS_END] =
		"UPDATE process SET ended=coalesce(ended,?2), end_source=?3, status=coalesce(?4,status) WHERE id=?1",
	[PUT_PROCESS] =
		"INSERT OR REPLACE INTO process VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[PUT_GPU] = ("INSERT INTO gpu VALUES(?,?,?,?,?,?,?,NULL,?,?,?,?,?,?,?,?)"
		     " ON CONFLICT(id) DO UPDATE SET memory=excluded.memory, unified=excluded.unified"),
	[PUT_GPU_PROCESS] = "INSERT OR IGNORE INTO gpu_process VALUES(?,?,?,?,?,NULL,?,?,?,?)",
	[END_GPU] = "UPDATE gpu SET ended=?2 WHERE id=?1 AND ended IS NULL",
	[END_GPU_PROCESS] = "UPDATE gpu_process SET ended=?2 WHERE id=?1 AND ended IS NULL",
	[PUT_SERIES] = "INSERT OR IGNORE INTO series(id,name) VALUES(?,?)",
	[PUT_SERIES_STATE] =
		"UPDATE series SET n=?2, first=?3, last=?4, min=?5, max=?6, step=?7, sum=?8, minima=?9 WHERE id=?1",
	[PUT_VALUE] = "INSERT INTO series_value VALUES(?,?,?,?)",
	[PUT_EVENT] = "INSERT INTO event VALUES(?,?,?,?,?,?,?,?)",
	[PUT_PHASE] = "INSERT OR REPLACE INTO phase VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[PUT_ACC] = "INSERT OR REPLACE INTO summary VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[PUT_BUCKET] = "INSERT OR REPLACE INTO timeline VALUES(?,?,?,?,?,?,?,?,?)",
	[DROP_BUCKETS] = "DELETE FROM timeline",
	[PAGE_COUNT] = "PRAGMA page_count",
	[FREE_COUNT] = "PRAGMA freelist_count",
};

sqlite3_stmt *store_prepare(struct store *s, const char *sql)
{
	sqlite3_stmt *statement = NULL;

	(void) store_error(
		s, sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL));
	return statement;
}

sqlite3_stmt *store_get(struct store *s, enum store_statement which)
{
	if (!s->statements[which])
		s->statements[which] = store_prepare(s, sql_of[which]);
	return s->statements[which];
}

sqlite3_stmt *store_cached(struct store *s, const char *sql)
{
	enum {
		MOST_CACHED = 128
	};
	struct store_cached entry;

	for (size_t i = 0; i < s->n_cached; i++) {
		if (strcmp(s->cached[i].sql, sql) == 0)
			return s->cached[i].statement;
	}
	if (vec_reserve(&s->cached, &s->cap_cached, s->n_cached, sizeof(entry), MOST_CACHED) < 0)
		return NULL;
	entry.sql = strdup(sql);
	entry.statement = entry.sql ? store_prepare(s, sql) : NULL;
	if (!entry.statement) {
		free(entry.sql);
		return NULL;
	}
	s->cached[s->n_cached++] = entry;
	return entry.statement;
}

int store_step(struct store *s, sqlite3_stmt *statement)
{
	int r;

	if (!statement) {
		r = error_of(s->db, sqlite3_errcode(s->db)); /* error of preparing it */
		return r < 0 ? r : -ENOMEM;
	}
	/* After some errors SQLite has rolled the transaction back: nothing may be written without it. */
	if (s->in_transaction && sqlite3_get_autocommit(s->db))
		return -EIO;
	errno = 0;
	r = store_error(s, sqlite3_step(statement));
	(void) sqlite3_reset(statement);
	return r;
}

int store_run(struct store *s, const char *sql)
{
	errno = 0;
	return store_error(s, sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

/* ---- transactions ---------------------------------------------------------------------------- */

int store_begin(struct store *s)
{
	int rc = SQLITE_BUSY;

	if (s->in_transaction)
		return 0;
	if (!s->db) /* reopening failed */
		return -EIO;
	errno = 0;
	for (int i = 0; i < BUSY_TRIES && (rc & 0xff) == SQLITE_BUSY; i++)
		rc = sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	s->in_transaction = rc == SQLITE_OK;
	return store_error(s, rc);
}

static int read_number(struct store *s, enum store_statement which, uint64_t *ret)
{
	sqlite3_stmt *statement = store_get(s, which);
	int rc = statement ? sqlite3_step(statement) : SQLITE_NOMEM;

	*ret = rc == SQLITE_ROW ? (uint64_t) sqlite3_column_int64(statement, 0) : 0;
	if (statement)
		(void) sqlite3_reset(statement);
	return store_error(s, rc);
}

int store_pages(struct store *s, uint64_t *ret_used, uint64_t *ret_all)
{
	uint64_t unused = 0;
	int r = 0;

	/* Outside of a transaction this would take locks each time. */
	if (s->in_transaction) {
		r = read_number(s, PAGE_COUNT, &s->pages);
		if (r == 0)
			r = read_number(s, FREE_COUNT, &unused);
		s->pages_used = s->pages - unused;
	}
	*ret_used = s->pages_used;
	*ret_all = s->pages;
	return r;
}

/* SQLite reports the journal's length here, so checkpoint from here. */
static int journal_grew(void *ctx, sqlite3 *db, const char *name, int pages)
{
	struct store *s = ctx;

	s->wal_pages = (unsigned) pages;
	if (s->wal_pages >= s->checkpoint_pages)
		(void) sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	return SQLITE_OK;
}

int store_commit(struct store *s)
{
	uint64_t used, all;
	int r;

	if (!s->in_transaction)
		return 0;
	r = store_pages(s, &used, &all);
	if (r == 0)
		r = store_run(s, "COMMIT");
	if (r < 0)
		store_rollback(s);
	else
		store_note_files(s);
	s->in_transaction = false;
	return r;
}

void store_rollback(struct store *s)
{
	if (s->db && !sqlite3_get_autocommit(s->db))
		(void) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	s->in_transaction = false;
}

uint64_t store_disk_bytes(const struct store *s)
{
	char path[4200];
	struct stat st;

	if (s->nameless)
		return (s->pages + s->wal_pages) * STORE_PAGE;
	uint64_t bytes = stat(s->path, &st) == 0 ? (uint64_t) st.st_size : 0;

	for (size_t i = 0; i < sizeof(journals) / sizeof(journals[0]); i++) {
		(void) snprintf(path, sizeof(path), "%s%s", s->path, journals[i]);
		if (stat(path, &st) == 0)
			bytes += (uint64_t) st.st_size;
	}
	return bytes;
}

int store_checkpoint(struct store *s)
{
	/* Not through store_error: a reader that keeps the journal for a while is not an error. */
	int r = error_of(
		s->db, sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL));

	store_note_files(s);
	return r;
}

void store_settle(const char *path)
{
	sqlite3 *db = NULL;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK)
		(void) sqlite3_exec(db, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL);
	(void) sqlite3_close_v2(db);
}

static int write_all(int fd, const unsigned char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t written = write(fd, bytes, n);

		if (written < 0)
			return -errno;
		bytes += written;
		n -= (size_t) written;
	}
	return 0;
}

/* Of the header, they declare a WAL journal (sqlite.org/fileformat2.html). */
enum {
	WRITE_VERSION = 18,
	READ_VERSION = 19,
	ROLLBACK_JOURNAL = 1
};

/* Read through SQLite's own descriptor: closing another descriptor of the same file would drop
 * this process's locks (fcntl(2)). */
int store_copy(struct store *s, int fd)
{
	unsigned char bytes[8 * STORE_PAGE];
	sqlite3_file *file = NULL;
	sqlite3_int64 size = 0;
	int r = store_checkpoint(s);

	if (r == 0)
		r = error_of(s->db, sqlite3_file_control(s->db, "main", SQLITE_FCNTL_FILE_POINTER, &file));
	if (r == 0)
		r = error_of(s->db, file->pMethods->xFileSize(file, &size));
	for (sqlite3_int64 at = 0; r == 0 && at < size; at += (sqlite3_int64) sizeof(bytes)) {
		size_t n = size - at < (sqlite3_int64) sizeof(bytes) ? (size_t) (size - at) : sizeof(bytes);

		r = error_of(s->db, file->pMethods->xRead(file, bytes, (int) n, at));
		if (r == 0 && at == 0)
			bytes[WRITE_VERSION] = bytes[READ_VERSION] = ROLLBACK_JOURNAL;
		if (r == 0)
			r = write_all(fd, bytes, n);
	}
	return r;
}

void store_unlink_journals(const char *path)
{
	char journal[4200];

	for (size_t i = 0; i < sizeof(journals) / sizeof(journals[0]); i++) {
		(void) snprintf(journal, sizeof(journal), "%s%s", path, journals[i]);
		(void) unlink(journal);
	}
}

void store_unlink(const char *path)
{
	(void) unlink(path);
	store_unlink_journals(path);
}

/* ---- making and closing ---------------------------------------------------------------------- */

static int put_metric(struct store *s, sqlite3_stmt *st, const struct metric_info *m)
{
	const char *const texts[] = {
		entity_name(m->entity),
		m->name,
		unit_name(m->unit),
		kind_name(m->kind),
		adds_name(m->adds),
		m->om,
		m->om_labels,
		m->json,
		m->origin,
		m->sentence,
	};

	for (int i = 0; i < (int) (sizeof(texts) / sizeof(texts[0])); i++)
		(void) sqlite3_bind_text(st, i + 1, texts[i], -1, SQLITE_STATIC);
	return store_step(s, st);
}

static int put_metrics(struct store *s)
{
	sqlite3_stmt *st = store_prepare(s, "INSERT INTO metric VALUES(?,?,?,?,?,?,?,?,?,?)");
	int r = st ? 0 : store_step(s, NULL);

	for (int m = 0; m < METRIC_COUNT && r == 0; m++)
		r = put_metric(s, st, &metrics[m]);
	(void) sqlite3_finalize(st);
	return r;
}

static const char connection_settings[] =
	"PRAGMA synchronous=OFF; PRAGMA secure_delete=OFF; PRAGMA cache_size=-512; PRAGMA mmap_size=0;"
	"PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF";

/* The tables go directly into the file, so that it is recognizable even while all rows are in
 * the journal. */
static int make_tables(struct store *s)
{
	struct buf sql = BUF_INIT(1 << 20);
	int r;

	(void) buf_printf(&sql,
		"PRAGMA page_size=%d; PRAGMA journal_mode=OFF; PRAGMA auto_vacuum=INCREMENTAL; %s;"
		"BEGIN IMMEDIATE; PRAGMA application_id=%d; PRAGMA user_version=%d;",
		STORE_PAGE, connection_settings, SCHEMA_APPLICATION, SCHEMA_VERSION);
	(void) schema_tables(&sql);
	r = sql.error ? sql.error : store_run(s, sql.data);
	buf_done(&sql);
	if (r == 0)
		r = put_metrics(s);
	if (r == 0)
		r = store_meta_int(s, "schema", SCHEMA_VERSION);
	return r == 0 ? store_run(s, "COMMIT") : r;
}

static int start_journal(struct store *s)
{
	struct buf sql = BUF_INIT(1024);
	int r;

	(void) sqlite3_wal_hook(s->db, journal_grew, s);
	(void) buf_printf(&sql, "PRAGMA journal_mode=WAL; PRAGMA journal_size_limit=%u",
		s->checkpoint_pages * STORE_PAGE);
	r = sql.error ? sql.error : store_run(s, sql.data);
	buf_done(&sql);
	return r;
}

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct store_open *open_files;

void store_list_open(struct store_open *file, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return;
	file->device = st.st_dev;
	file->inode = st.st_ino;
	(void) pthread_mutex_lock(&open_lock);
	file->next = open_files;
	open_files = file;
	(void) pthread_mutex_unlock(&open_lock);
}

void store_unlist_open(const struct store_open *file)
{
	(void) pthread_mutex_lock(&open_lock);
	for (struct store_open **at = &open_files; *at; at = &(*at)->next) {
		if (*at == file) {
			*at = file->next;
			break;
		}
	}
	(void) pthread_mutex_unlock(&open_lock);
}

bool store_is_open(const struct stat *st)
{
	bool is_open = false;

	(void) pthread_mutex_lock(&open_lock);
	for (const struct store_open *f = open_files; f && !is_open; f = f->next)
		is_open = f->device == st->st_dev && f->inode == st->st_ino;
	(void) pthread_mutex_unlock(&open_lock);
	return is_open;
}

static int open_new(struct store *s, const struct store_options *o)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (o->reserved ? 0 : O_CREAT | O_EXCL);
	autoclose int fd = open(o->path, flags, 0600);

	if (fd < 0) {
		int r = -errno;

		(void) snprintf(s->why, sizeof(s->why), "%s", strerror(-r));
		return r;
	}
	/* Another recording that had this name may still use them: it keeps them without a name. */
	store_unlink_journals(o->path);
	return store_error(
		s, sqlite3_open_v2(o->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL));
}

int store_create(const struct store_options *options, struct store **ret, struct err *err)
{
	struct store *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "cannot write %s: out of memory", options->name);
	row_layout_init(&s->layout);
	s->part = BUF_INIT(4096);
	s->path = strdup(options->path);
	r = s->path ? open_new(s, options) : -ENOMEM;
	if (r == 0) {
		store_list_open(&s->open, s->path);
		(void) sqlite3_busy_timeout(s->db, BUSY_MS);
		r = make_tables(s);
		s->wal = options->wal;
		s->checkpoint_pages = options->wal_pages;
		if (r == 0 && s->wal)
			r = start_journal(s);
		if (r == 0)
			store_note_files(s);
		else if (s->path)
			store_unlink(s->path);
	}
	if (r < 0) {
		(void) err_set(
			err, r, "cannot write %s: %s", options->name, s->why[0] ? s->why : strerror(-r));
		(void) store_close(s, false);
		return r;
	}
	*ret = s;
	return 0;
}

/* Nothing that a forged file brings along is run. */
static void protect(struct store *s)
{
	(void) sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void) sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	(void) sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	(void) sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	(void) sqlite3_busy_timeout(s->db, BUSY_MS);
}

static int64_t header_number(struct store *s, const char *sql)
{
	sqlite3_stmt *st = store_prepare(s, sql);
	const int64_t value = st && sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;

	(void) sqlite3_finalize(st);
	return value;
}

/* A journal that a killed recorder left becomes part of the file. Afterwards the journal is one that undoes what
 * was not committed. */
static int join_journal(struct store *s)
{
	int r = store_run(s, connection_settings);

	if (r == 0)
		r = store_run(s, "PRAGMA journal_mode=DELETE");
	return r;
}

int store_open_existing(const char *path, struct store **ret, struct err *err)
{
	struct store *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "cannot write %s: out of memory", path);
	row_layout_init(&s->layout);
	s->part = BUF_INIT(4096);
	s->path = strdup(path);
	errno = 0;
	r = s->path ? 0 : -ENOMEM;
	if (r == 0)
		r = store_error(
			s, sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL));
	if (r == 0) {
		store_list_open(&s->open, s->path);
		protect(s);
		r = join_journal(s);
	}
	if (r == 0 && (header_number(s, "PRAGMA application_id") != SCHEMA_APPLICATION ||
			      header_number(s, "PRAGMA user_version") != SCHEMA_VERSION)) {
		r = err_set(err, -EBADMSG, "%s is not a recording of this version of hiwater; nothing was changed", path);
	} else if (r < 0) {
		(void) err_set(err, r, "cannot write %s: %s", path, s->why[0] ? s->why : strerror(-r));
	}
	if (r < 0) {
		(void) store_close(s, false);
		return r;
	}
	store_note_files(s);
	*ret = s;
	return 0;
}

/* The last change of a file without its name: what SQLite would do with files of that name. */
static void forget_journal(struct store *s)
{
	static const unsigned char versions[] = { ROLLBACK_JOURNAL, ROLLBACK_JOURNAL };
	sqlite3_file *file = NULL;

	if (sqlite3_file_control(s->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK)
		(void) file->pMethods->xWrite(file, versions, sizeof(versions), WRITE_VERSION);
}

/* Without readers the file has no journal afterwards; with readers, the last one to close
 * removes the journal. */
static int leave_one_file(struct store *s)
{
	if (!s->wal)
		return 0;
	(void) sqlite3_busy_timeout(s->db, FINISH_BUSY_MS);
	const bool is_whole = store_checkpoint(s) == 0;

	if (s->nameless && is_whole)
		forget_journal(s);
	else if (!s->nameless && store_has_journals(s))
		(void) sqlite3_exec(s->db, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL);
	return 0;
}

static void finalize_all(struct store *s)
{
	for (int e = 0; e < ENTITY_COUNT; e++) {
		(void) sqlite3_finalize(s->rows[e][0]);
		(void) sqlite3_finalize(s->rows[e][1]);
	}
	for (int i = 0; i < STATEMENT_COUNT; i++)
		(void) sqlite3_finalize(s->statements[i]);
	for (size_t i = 0; i < s->n_cached; i++) {
		(void) sqlite3_finalize(s->cached[i].statement);
		free(s->cached[i].sql);
	}
	free(s->cached);
	memset(s->rows, 0, sizeof(s->rows));
	memset(s->statements, 0, sizeof(s->statements));
	s->cached = NULL;
	s->n_cached = s->cap_cached = 0;
}

static void disconnect(struct store *s, bool checkpoint)
{
	const sqlite3 *db = s->db;

	finalize_all(s);
	if (s->db && s->wal && !store_has_journals(s))
		store_keep_journals(s);
	if (s->db && !checkpoint)
		(void) sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	(void) sqlite3_close_v2(s->db);
	s->db = NULL;
	if (db)
		index_guard_forget(db);
}

int store_reopen(struct store *s, enum store_harm harm)
{
	const bool has_journal = harm == HARM_INDEX;
	int r;

	store_rollback(s);
	if (harm == HARM_JOURNAL_NAME)
		(void) store_checkpoint(s);
	disconnect(s, false);
	memset(s->files, 0, sizeof(s->files));
	if (!store_has_name(s))
		return -ESTALE;
	if (!has_journal)
		store_unlink_journals(s->path);
	s->why[0] = '\0';
	s->wal_pages = 0;
	r = store_error(
		s, sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL));
	if (r == 0) {
		(void) sqlite3_busy_timeout(s->db, BUSY_MS);
		r = store_run(s, connection_settings);
	}
	if (r == 0)
		r = start_journal(s);
	if (r == 0 && store_has_name(s))
		store_note_files(s);
	return r;
}

int store_close(struct store *s, bool finished)
{
	int r = 0;

	if (!s)
		return 0;
	finalize_all(s);
	if (s->db && finished)
		r = leave_one_file(s);
	disconnect(s, finished);
	store_unlist_open(&s->open);
	for (size_t i = 0; i < s->n_series; i++)
		free(s->series[i]);
	free(s->series);
	map_done(&s->series_places);
	buf_done(&s->part);
	free(s->path);
	free(s);
	return r;
}
