/* SPDX-License-Identifier: MIT
 *
 * Table part_row (docs/recording.md): the windows of a part of a job, as few as a merge keeps of them. A merged recording has those of each of
 * its parts, by number. A rank's or a node's own recording has its own under the number 0, written at its end: a merge then reads 128 rows
 * and not the 3,600 windows of an hour. Where they are missing (the recorder runs or was killed, the disk was full, an older version) the
 * windows are summed up when they are merged.
 */
#pragma once

#include "base/maybe.h"
#include "record/store.h"

enum {
	PART_ROWS_NODE = 1000, /* windows of a node, or of a tree that is not one rank */
	PART_ROWS_RANK = 128,
};

#define PART_ROW_TABLE \
	"CREATE TABLE part_row(part INTEGER, t INTEGER, span INTEGER, ram_min INTEGER, ram INTEGER, ram_max INTEGER," \
	" low_min INTEGER, low_max INTEGER, high INTEGER, user INTEGER, system INTEGER, read INTEGER, written INTEGER," \
	" processes INTEGER, PRIMARY KEY(part, t)) WITHOUT ROWID;"
#define PART_ROW_INSERT "INSERT OR REPLACE INTO part_row VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)"

/* The columns of job_sample that are summed up, NULL-terminated: reading all of them would take ten times as long. */
extern const char *const part_row_windows[];

/* False: no time or span that a run can have; sums of them could overflow. */
bool part_row_is_time(struct maybe value);

/* The width of a row, of a part that took wall_ns. */
uint64_t part_row_width(struct maybe wall_ns, bool is_rank);

/* Sums windows, a statement over those columns in the order of t, into rows of that number in s. Returns 0 or -errno. */
int part_rows_sum(struct store *s, int64_t number, uint64_t width_ns, sqlite3_stmt *windows);

/* At the end of a recording, after the last commit: writes its own rows if it is one of a rank or a node and max_bytes leaves room. If it
 * fails, they are missing. */
void part_rows_store(struct store *s, uint64_t wall_ns, uint64_t max_bytes);
