/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "record/index_guard.h"
#include "record/schema.h"
#include "record/store.h"

enum {
	MAIN_FILE,
	JOURNAL,
	INDEX
};

static const char *const ends[] = { [MAIN_FILE] = "", [JOURNAL] = "-wal", [INDEX] = "-shm" };

/* False if there is no such file; one that cannot be examined is as before. */
static bool look(const struct store *s, int which, struct store_file *ret)
{
	char path[4200];
	struct stat st;

	(void) snprintf(path, sizeof(path), "%s%s", s->path, ends[which]);
	*ret = s->files[which];
	if (stat(path, &st) < 0)
		return errno != ENOENT;
	*ret = (struct store_file) {
		.device = st.st_dev,
		.inode = st.st_ino,
		.bytes = st.st_size,
		.written = st.st_mtim,
	};
	return true;
}

static bool is_same(const struct store_file *a, const struct store_file *b)
{
	return a->device == b->device && a->inode == b->inode;
}

bool store_has_name(const struct store *s)
{
	struct stat st;

	if (stat(s->path, &st) < 0)
		return errno != ENOENT;
	return st.st_dev == s->open.device && st.st_ino == s->open.inode;
}

bool store_has_journals(const struct store *s)
{
	struct store_file now;

	if (store_has_name(s))
		return true;
	for (int i = JOURNAL; i <= INDEX; i++) {
		if (!s->files[i].inode || !look(s, i, &now) || !is_same(&now, &s->files[i]))
			return false;
	}
	return true;
}

void store_note_files(struct store *s)
{
	if (!s->wal || s->nameless)
		return;
	index_guard_watch(s->db);
	if (!store_has_name(s)) /* the files next to that name may be those of another recording */
		return;
	for (int i = MAIN_FILE; i <= INDEX; i++) {
		if (!look(s, i, &s->files[i]))
			s->files[i] = (struct store_file) { 0 };
	}
}

static bool is_written(const struct store_file *before, const struct store_file *now)
{
	return before->written.tv_sec != now->written.tv_sec ||
	       before->written.tv_nsec != now->written.tv_nsec;
}

static uint32_t big_endian(const unsigned char *at)
{
	return (uint32_t) at[0] << 24 | (uint32_t) at[1] << 16 | (uint32_t) at[2] << 8 | at[3];
}

/* The size according to the header; 0: it is not that of a recording. Read through SQLite's own
 * descriptor, as in store_copy. Offsets: sqlite.org/fileformat2.html. */
static off_t bytes_by_header(struct store *s)
{
	enum {
		PAGES = 28,
		APPLICATION = 68,
		HEADER = 100
	};
	static const char magic[16] = "SQLite format 3";
	unsigned char bytes[HEADER];
	sqlite3_file *file = NULL;

	if (sqlite3_file_control(s->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
		file->pMethods->xRead(file, bytes, HEADER, 0) != SQLITE_OK)
		return 0;
	if (memcmp(bytes, magic, sizeof(magic)) != 0 ||
		big_endian(bytes + APPLICATION) != SCHEMA_APPLICATION)
		return 0;
	return (off_t) big_endian(bytes + PAGES) * STORE_PAGE;
}

static enum store_harm harm_of_file(struct store *s, const struct store_file *now)
{
	const struct store_file *before = &s->files[MAIN_FILE];

	if (!is_same(now, before))
		return HARM_REPLACED;
	if (now->bytes >= before->bytes && !is_written(before, now))
		return HARM_NONE;
	s->is_touched = true;
	const off_t bytes = bytes_by_header(s);

	/* Another SQLite may have checkpointed it, and made it shorter. */
	if (now->bytes < before->bytes && (bytes == 0 || bytes != now->bytes))
		return HARM_TRUNCATED;
	return bytes > 0 ? HARM_NONE : HARM_OVERWRITTEN;
}

/* A shorter journal next to a file that was written meanwhile is a checkpoint of another SQLite. */
static enum store_harm harm_of_journal(const struct store *s, const struct store_file *main_file)
{
	const struct store_file *before = &s->files[JOURNAL];
	struct store_file now;

	if (!before->inode)
		return HARM_NONE;
	if (!look(s, JOURNAL, &now) || !is_same(&now, before))
		return HARM_JOURNAL_NAME;
	return now.bytes < before->bytes && !is_written(&s->files[MAIN_FILE], main_file) ? HARM_JOURNAL
											 : HARM_NONE;
}

static enum store_harm harm_of_index(const struct store *s)
{
	const struct store_file *before = &s->files[INDEX];
	struct store_file now;

	if (!before->inode)
		return HARM_NONE;
	if (!look(s, INDEX, &now) || !is_same(&now, before) || now.bytes < before->bytes)
		return HARM_INDEX;
	return index_guard_lost(s->db) ? HARM_INDEX : HARM_NONE;
}

enum store_harm store_harm(struct store *s)
{
	struct store_file now;
	enum store_harm harm;

	if (!s->db || !s->wal || s->nameless || !s->files[MAIN_FILE].inode)
		return HARM_NONE;
	if (!look(s, MAIN_FILE, &now))
		return HARM_REMOVED;
	harm = harm_of_file(s, &now);
	if (harm == HARM_NONE)
		harm = harm_of_journal(s, &now);
	return harm == HARM_NONE ? harm_of_index(s) : harm;
}

/* ---- going on -------------------------------------------------------------------------------- */

void store_forget_written(struct store *s)
{
	memset(s->accs, 0, sizeof(s->accs));
	memset(s->fact_fingerprints, 0, sizeof(s->fact_fingerprints));
	s->timeline_span_ns = 0;
	s->why[0] = '\0';
}

int store_series_again(struct store *s)
{
	sqlite3_stmt *st = s->n_series > 0 ? store_get(s, PUT_SERIES) : NULL;
	int r = 0;

	for (size_t i = 0; i < s->n_series && r == 0; i++) {
		if (st) {
			(void) sqlite3_bind_int64(st, 1, (int64_t) i + 1);
			store_bind_text(st, 2, s->series[i]);
		}
		r = store_step(s, st);
	}
	return r;
}

void store_keep_journals(struct store *s)
{
	int keep = 1;

	(void) sqlite3_file_control(s->db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
}

/* The journal stays open, without a name. In any other journal mode SQLite looks for one next to the name
 * before each transaction, and uses that of another recording. */
void store_detach(struct store *s)
{
	const bool are_ours = store_has_journals(s);

	store_keep_journals(s);
	s->nameless = true;
	if (are_ours)
		store_unlink_journals(s->path);
}

bool store_is_sound(struct store *s)
{
	sqlite3_stmt *st;
	bool is_sound;

	if (!s->is_touched)
		return true;
	st = store_prepare(s, "PRAGMA quick_check(1)");
	is_sound = st && sqlite3_step(st) == SQLITE_ROW &&
		   strcmp((const char *) sqlite3_column_text(st, 0), "ok") == 0;
	(void) sqlite3_finalize(st);
	return is_sound;
}
