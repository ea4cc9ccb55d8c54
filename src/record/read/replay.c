/* SPDX-License-Identifier: MIT */
#include "record/read/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "record/index_guard.h"
#include "record/read/reader.h"
#include "record/recorder_id.h"
#include "record/schema.h"
#include "record/network_fs.h"

/* Limits of a recording's contents; a hostile file could exceed any. */
static const struct {
	int limit, value;
} limits[] = {
	{ SQLITE_LIMIT_LENGTH, 2 << 20 },
	{ SQLITE_LIMIT_SQL_LENGTH, 64 << 10 },
	{ SQLITE_LIMIT_COLUMN, 1000 },
	{ SQLITE_LIMIT_EXPR_DEPTH, 50 },
	{ SQLITE_LIMIT_COMPOUND_SELECT, 8 },
	{ SQLITE_LIMIT_VDBE_OP, 100000 },
	{ SQLITE_LIMIT_FUNCTION_ARG, 8 },
	{ SQLITE_LIMIT_ATTACHED, 0 },
	{ SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100 },
	{ SQLITE_LIMIT_TRIGGER_DEPTH, 1 },
	{ SQLITE_LIMIT_WORKER_THREADS, 0 },
};

enum {
	BUSY_MS = 1000
};

/* ---- opening --------------------------------------------------------------------------------- */

static int count_steps(void *ctx)
{
	struct replay *r = ctx;

	return r->steps-- <= 0;
}

static void protect(struct replay *r)
{
	(void) sqlite3_db_config(r->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void) sqlite3_db_config(r->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	(void) sqlite3_db_config(r->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	(void) sqlite3_db_config(r->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		(void) sqlite3_limit(r->db, limits[i].limit, limits[i].value);
	(void) sqlite3_busy_timeout(r->db, BUSY_MS);
	sqlite3_progress_handler(r->db, READER_STEPS, count_steps, r);
}

/* Without locks where they are unreliable (there, only complete copies are renamed into place)
 * and where nothing can be written: then the journal's index is kept in memory. */
static int connect(struct replay *r, bool locks)
{
	const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
	int rc = sqlite3_open_v2(r->path, &r->db, flags, locks ? NULL : "unix-none");

	if (rc != SQLITE_OK)
		return rc;
	protect(r);
	return sqlite3_exec(r->db,
		locks ? "PRAGMA cell_size_check=ON; PRAGMA query_only=ON; PRAGMA mmap_size=0"
		      : "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cell_size_check=ON; PRAGMA query_only=ON; PRAGMA mmap_size=0",
		NULL, NULL, NULL);
}

static int read_pragma(struct replay *r, const char *sql, int64_t *ret)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(r->db, sql, -1, &st, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	(void) sqlite3_finalize(st);
	return rc;
}

/* The first read of the file, in which its errors show. */
static int read_header(struct replay *r, int64_t *ret_application, int64_t *ret_version)
{
	int64_t tables = 0;
	int rc;

	reader_allow(r);
	rc = read_pragma(r, "SELECT count(*) FROM sqlite_master", &tables);
	if (rc == SQLITE_ROW)
		rc = read_pragma(r, "PRAGMA application_id", ret_application);
	if (rc == SQLITE_ROW)
		rc = read_pragma(r, "PRAGMA user_version", ret_version);
	return rc;
}

static bool needs_no_locks(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
	case SQLITE_IOERR:
		return true;
	default:
		return false;
	}
}

/* Only then SQLite maps an index; asking for it otherwise would make one. */
static bool has_journal(struct replay *r)
{
	sqlite3_stmt *st = reader_prepare(r, "PRAGMA journal_mode");
	const bool has = st && sqlite3_step(st) == SQLITE_ROW && strcmp(reader_text(st, 0), "wal") == 0;

	(void) sqlite3_finalize(st);
	return has;
}

static int open_file(struct replay *r, struct err *err)
{
	int64_t application = 0, version = 0;
	bool locks = !network_fs_kind(r->path);
	int rc = connect(r, locks);

	if (rc == SQLITE_OK)
		rc = read_header(r, &application, &version);
	if (locks && needs_no_locks(rc)) {
		locks = false;
		reader_disconnect(r);
		rc = connect(r, false);
		if (rc == SQLITE_OK)
			rc = read_header(r, &application, &version);
	}
	if (rc != SQLITE_ROW)
		return reader_error(r, rc, err);
	if (application != SCHEMA_APPLICATION)
		return err_set(err, -EBADMSG, "%s is not a hiwater recording", r->path);
	if (version > SCHEMA_VERSION)
		return err_set(err, -EBADMSG,
			"%s has format %lld; this hiwater reads formats up to %d; install a newer hiwater",
			r->path, (long long) version, SCHEMA_VERSION);
	if (!reader_has_table(r, "meta"))
		return err_set(err, -EBADMSG, "%s is damaged: the table meta is missing", r->path);
	r->has_index = locks && has_journal(r);
	reader_guard(r);
	return 0;
}

/* "file:..." is a URI to SQLite; prefix "./" to such a name. */
static char *plain_name(const char *path)
{
	char *name;

	return asprintf(&name, "%s%s", strncmp(path, "file:", 5) == 0 ? "./" : "", path) < 0 ? NULL : name;
}

static int check_file(const char *path, uint64_t *ret_bytes, struct err *err)
{
	char journal[PATH_MAX];
	struct stat st;

	if (stat(path, &st) < 0)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return err_set(err, -EISDIR, "%s is a folder; give one of the recordings in it", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EBADMSG, "%s is not a regular file", path);
	if (st.st_size == 0)
		return err_set(err, -EBADMSG,
			"%s is empty: its run has just started, hiwater was killed before it wrote anything, or another program emptied it",
			path);
	*ret_bytes = (uint64_t) st.st_size;
	if (snprintf(journal, sizeof(journal), "%s-wal", path) < (int) sizeof(journal) &&
		stat(journal, &st) == 0)
		*ret_bytes += (uint64_t) st.st_size;
	return 0;
}

int replay_open(const char *path, struct replay **ret, struct err *err)
{
	uint64_t bytes;
	struct replay *r;
	int code = check_file(path, &bytes, err);

	if (code < 0)
		return code;
	r = calloc(1, sizeof(*r));
	if (r)
		r->path = plain_name(path);
	if (!r || !r->path) {
		replay_close(r);
		return err_set(err, -ENOMEM, "%s: out of memory", path);
	}
	r->file_bytes = bytes;
	row_layout_init(&r->layout);
	store_list_open(&r->open, r->path);
	code = open_file(r, err);
	if (code < 0) {
		replay_close(r);
		return code;
	}
	*ret = r;
	return 0;
}

void replay_close(struct replay *r)
{
	if (!r)
		return;
	reader_disconnect(r);
	store_unlist_open(&r->open);
	free(r->path);
	free(r);
}

/* ---- is it being written? -------------------------------------------------------------------- */

bool replay_growing(struct replay *r)
{
	struct recorder_id id = { 0 };
	autofree char *boot = NULL;
	int64_t ended, start;

	reader_allow(r);
	if (reader_meta_int(r, "ended_ns", &ended) || !reader_meta_int(r, "recorder_pid", &id.pid) ||
		!reader_meta_int(r, "recorder_start", &start))
		return false;
	boot = reader_meta_text(r, "boot_id");
	if (!boot || strlen(boot) >= sizeof(id.boot))
		return false;
	id.start_ticks = (uint64_t) start;
	memcpy(id.boot, boot, strlen(boot) + 1);
	return recorder_id_lives(&id);
}

/* ---- copying --------------------------------------------------------------------------------- */

static int copy_pages(struct replay *r, const char *to, struct err *err)
{
	sqlite3 *db = NULL;
	sqlite3_backup *backup = NULL;
	int rc = sqlite3_open_v2(to, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, "unix-none");

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		backup = sqlite3_backup_init(db, "main", r->db, "main");
	if (backup) {
		(void) sqlite3_backup_step(backup, -1);
		rc = sqlite3_backup_finish(backup);
	} else if (rc == SQLITE_OK) {
		rc = sqlite3_errcode(db);
	}
	int code = rc == SQLITE_OK ? 0 : -(sqlite3_system_errno(db) > 0 ? sqlite3_system_errno(db) : EIO);

	if (code < 0)
		(void) err_set(err, code, "cannot copy %s: %s", r->path, sqlite3_errstr(rc));
	(void) sqlite3_close_v2(db);
	return code;
}

/* Bytes 18 and 19 of the header: 2 makes readers expect a WAL journal next to the file
 * (sqlite.org/fileformat2.html). */
static int forget_journal(const char *path)
{
	static const unsigned char rollback[2] = { 1, 1 };
	enum {
		VERSIONS = 18
	};
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return pwrite(fd, rollback, sizeof(rollback), VERSIONS) == sizeof(rollback) ? 0 : -EIO;
}

int replay_copy(struct replay *r, const char *path, struct err *err)
{
	char temporary[PATH_MAX];
	int fd, code = network_fs_temporary(path, temporary, sizeof(temporary));

	if (code < 0)
		return err_set(err, code, "%s: %s", path, strerror(-code));
	if (access(path, F_OK) == 0)
		return err_set(err, -EEXIST, "%s already exists; choose another name or remove it", path);
	(void) unlink(temporary);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, -errno, "cannot write %s: %s", path, strerror(errno));
	(void) close(fd);
	reader_allow(r);
	code = copy_pages(r, temporary, err);
	if (code == 0) {
		code = forget_journal(temporary);
		if (code == 0)
			code = network_fs_rename(temporary, path, false);
		if (code < 0)
			(void) err_set(err, code, "cannot write %s: %s", path, strerror(-code));
	}
	if (code < 0)
		(void) unlink(temporary);
	return code;
}

int replay_frames_of(struct replay *r, bool recent, const bool wanted[METRIC_COUNT],
	bool (*see)(void *ctx, const struct frame *frame), void *ctx, struct err *err)
{
	const struct row_layout all = r->layout;
	int code = row_layout_of(&r->layout, wanted);

	if (code < 0)
		(void) err_set(err, code, "%s: too many metrics requested", r->path);
	else
		code = replay_frames(r, recent, see, ctx, err);
	r->layout = all;
	return code;
}
