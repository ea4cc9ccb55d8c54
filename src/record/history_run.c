/* SPDX-License-Identifier: MIT */
#include "record/history_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/reader.h"

int history_run_read(const char *path, struct history_run *ret)
{
	struct replay *replay;
	int r = replay_open(path, &replay, NULL);

	if (r < 0)
		return r;
	reader_allow(replay);
	*ret = (struct history_run) {
		.name = reader_meta_text(replay, "name"),
		.scheduler = reader_meta_text(replay, "scheduler"),
		.scheduler_job = reader_meta_text(replay, "scheduler_job"),
	};
	replay_close(replay);
	return 0;
}

void history_run_done(struct history_run *run)
{
	free(run->name);
	free(run->scheduler);
	free(run->scheduler_job);
}

static struct maybe meta_int(struct replay *replay, const char *key)
{
	struct maybe value = UNKNOWN;

	value.known = reader_meta_int(replay, key, &value.value);
	return value;
}

static struct maybe largest(struct replay *replay, const char *metric)
{
	struct maybe value = UNKNOWN;
	sqlite3_stmt *st = reader_prepare(replay, "SELECT max FROM summary WHERE entity = 'job' AND id = 0 AND metric = ?"
						  " AND n > 0");

	if (st) {
		(void) sqlite3_bind_text(st, 1, metric, -1, SQLITE_STATIC);
		value.known = sqlite3_step(st) == SQLITE_ROW && reader_int(st, 0, &value.value);
	}
	(void) sqlite3_finalize(st);
	return value;
}

/* What the kernel told when everything was waited for, or what was seen: neither is ever too much. */
static struct maybe cores(struct replay *replay, int64_t wall_ns)
{
	struct maybe seen = maybe_sum(largest(replay, "cpu_user"), largest(replay, "cpu_system"));
	struct maybe told = maybe_sum(meta_int(replay, "reaped_user_ns"), meta_int(replay, "reaped_system_ns"));
	struct maybe used = maybe_max(seen, told);

	if (!used.known || wall_ns <= 0 || used.value < 0)
		return UNKNOWN;
	return known((int64_t) ((__int128) used.value * 1000000 / wall_ns));
}

static char *text_or_empty(char *text)
{
	return text ? text : strdup("");
}

static void read_times(struct replay *replay, struct history_entry *e)
{
	struct maybe ended = meta_int(replay, "ended_ns"), last = meta_int(replay, "last_ns");
	struct maybe started = meta_int(replay, "started_wall_ns");

	e->complete = ended.known;
	e->wall_ns = ended.known ? ended.value : last.known ? last.value
							    : 0;
	e->started_wall_ns = started.known && started.value > 0 ? (uint64_t) started.value : 0;
}

int history_entry_read(const char *path, struct history_entry *ret)
{
	struct history_entry e = { 0 };
	struct replay *replay;
	int r = replay_open(path, &replay, NULL);

	if (r < 0)
		return r;
	reader_allow(replay);
	e.path = strdup(path);
	e.name = text_or_empty(reader_meta_text(replay, "name"));
	e.command = text_or_empty(reader_meta_text(replay, "command"));
	read_times(replay, &e);
	e.status = (int32_t) meta_int(replay, "exit_status").value;
	e.pinned = meta_int(replay, "pinned").value != 0;
	e.peak_bytes = largest(replay, "ram");
	e.cores_ppm = cores(replay, e.wall_ns);
	e.running = !e.complete && replay_growing(replay);
	replay_close(replay);
	if (!e.path || !e.name || !e.command) {
		history_entry_done(&e);
		return -ENOMEM;
	}
	*ret = e;
	return 0;
}

void history_entry_done(struct history_entry *entry)
{
	free(entry->path);
	free(entry->name);
	free(entry->command);
	*entry = (struct history_entry) { 0 };
}
