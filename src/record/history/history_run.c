/* SPDX-License-Identifier: MIT */
#include "record/history/history_run.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "job/job.h"
#include "record/read/reader.h"
#include "record/recorder_id.h"

/* The keys of table meta that a listing needs. */
struct listed_facts {
	char *name, *command, *note, *mode, *raised, *scheduler, *scheduler_job, *part, *boot_id;
	struct maybe started_wall_ns, ended_ns, last_ns, exit_status, pinned, reaped_user_ns,
		reaped_system_ns, ranks, local_ranks, nodes, ram_peak_bytes;
};

static const struct {
	const char *key;
	bool is_text;
	size_t offset; /* in struct listed_facts */
} keys[] = {
	{ "name", true, offsetof(struct listed_facts, name) },
	{ "command", true, offsetof(struct listed_facts, command) },
	{ "note", true, offsetof(struct listed_facts, note) },
	{ "mode", true, offsetof(struct listed_facts, mode) },
	{ "raised", true, offsetof(struct listed_facts, raised) },
	{ "scheduler", true, offsetof(struct listed_facts, scheduler) },
	{ "scheduler_job", true, offsetof(struct listed_facts, scheduler_job) },
	{ "part", true, offsetof(struct listed_facts, part) },
	{ "boot_id", true, offsetof(struct listed_facts, boot_id) },
	{ "ranks", false, offsetof(struct listed_facts, ranks) },
	{ "local_ranks", false, offsetof(struct listed_facts, local_ranks) },
	{ "nodes", false, offsetof(struct listed_facts, nodes) },
	{ "ram_peak_bytes", false, offsetof(struct listed_facts, ram_peak_bytes) },
	{ "started_wall_ns", false, offsetof(struct listed_facts, started_wall_ns) },
	{ "ended_ns", false, offsetof(struct listed_facts, ended_ns) },
	{ "last_ns", false, offsetof(struct listed_facts, last_ns) },
	{ "exit_status", false, offsetof(struct listed_facts, exit_status) },
	{ "pinned", false, offsetof(struct listed_facts, pinned) },
	{ "reaped_user_ns", false, offsetof(struct listed_facts, reaped_user_ns) },
	{ "reaped_system_ns", false, offsetof(struct listed_facts, reaped_system_ns) },
};

static void read_fact(sqlite3_stmt *st, struct listed_facts *ret)
{
	const char *key = reader_text(st, 0);
	struct maybe number = UNKNOWN;
	char *text;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		char *at = (char *) ret + keys[i].offset;

		if (strcmp(keys[i].key, key) != 0)
			continue;
		if (keys[i].is_text) {
			text = strdup(reader_text(st, 1));
			free(*(char **) (void *) at);
			memcpy(at, &text, sizeof(text));
		} else {
			number.known = reader_int(st, 1, &number.value);
			memcpy(at, &number, sizeof(number));
		}
		return;
	}
}

/* Reads them in one pass: up to 200 runs are listed at a time. */
static void read_facts(struct replay *replay, struct listed_facts *ret)
{
	enum {
		MOST = 1000
	};
	sqlite3_stmt *st = reader_prepare(replay, "SELECT key, value FROM meta");

	*ret = (struct listed_facts) { 0 };
	for (int i = 0; st && i < MOST && sqlite3_step(st) == SQLITE_ROW; i++)
		read_fact(st, ret);
	(void) sqlite3_finalize(st);
}

int history_run_read(const char *path, struct history_run *ret)
{
	struct listed_facts facts;
	struct replay *replay;
	int r = replay_open(path, &replay, NULL);

	if (r < 0)
		return r;
	reader_allow(replay);
	read_facts(replay, &facts);
	replay_close(replay);
	*ret = (struct history_run) {
		.is_blank = !facts.command,
		.name = facts.name,
		.scheduler = facts.scheduler,
		.scheduler_job = facts.scheduler_job,
	};
	free(facts.command);
	free(facts.note);
	free(facts.mode);
	free(facts.raised);
	free(facts.part);
	free(facts.boot_id);
	return 0;
}

void history_run_done(struct history_run *run)
{
	free(run->name);
	free(run->scheduler);
	free(run->scheduler_job);
}

struct largest {
	struct maybe ram, cpu_user, cpu_system;
};

static void read_largest(struct replay *replay, struct largest *ret)
{
	sqlite3_stmt *st = reader_prepare(replay,
		"SELECT metric, max FROM summary WHERE entity = 'job' AND id = 0 AND"
		" metric IN ('ram', 'cpu_user', 'cpu_system') AND n > 0");

	*ret = (struct largest) { UNKNOWN, UNKNOWN, UNKNOWN };
	for (int i = 0; st && i < 3 && sqlite3_step(st) == SQLITE_ROW; i++) {
		const char *metric = reader_text(st, 0);
		struct maybe *to = strcmp(metric, "ram") == 0        ? &ret->ram
				   : strcmp(metric, "cpu_user") == 0 ? &ret->cpu_user
								     : &ret->cpu_system;

		to->known = reader_int(st, 1, &to->value);
	}
	(void) sqlite3_finalize(st);
}

/* The kernel's totals of all waited-for processes, or the sampled ones: both are lower bounds,
 * so the larger is better. */
static struct maybe cores(const struct listed_facts *facts, const struct largest *l, int64_t wall_ns)
{
	struct maybe used = maybe_max(maybe_sum(l->cpu_user, l->cpu_system),
		maybe_sum(facts->reaped_user_ns, facts->reaped_system_ns));

	if (!used.known || wall_ns <= 0 || used.value < 0)
		return UNKNOWN;
	return known((int64_t) ((__int128) used.value * 1000000 / wall_ns));
}

/* On a shared disk, of another machine. */
static bool is_another_boot(const char *boot)
{
	struct recorder_id id;

	return recorder_id_self(&id) == 0 && strcmp(id.boot, boot) != 0;
}

static void fill(struct replay *replay, struct listed_facts *facts, struct history_entry *e)
{
	struct largest l;

	read_largest(replay, &l);
	e->name = facts->name ? facts->name : strdup("");
	e->command = facts->command ? facts->command : strdup("");
	e->note = facts->note ? facts->note : strdup("");
	e->raised = facts->raised ? facts->raised : strdup("");
	e->complete = facts->ended_ns.known;
	e->wall_ns = e->complete ? facts->ended_ns.value : facts->last_ns.value;
	if (facts->started_wall_ns.value > 0)
		e->started_wall_ns = (uint64_t) facts->started_wall_ns.value;
	e->status = facts->exit_status;
	e->pinned = facts->pinned.value != 0;
	e->by_trigger = facts->pinned.value == JOB_PINNED_BY_TRIGGER;
	e->peak_bytes = facts->ram_peak_bytes.known ? facts->ram_peak_bytes : l.ram; /* a later PSS pass may lower a total */
	e->cores_ppm = cores(facts, &l, e->wall_ns);
	e->is_watched = mode_is_attach(facts->mode);
	e->running = !e->complete && replay_growing(replay);
	e->is_elsewhere = !e->complete && !e->running && facts->boot_id && is_another_boot(facts->boot_id);
	e->is_node = facts->part && strcmp(facts->part, "node") == 0;
	e->ranks = facts->ranks;
	e->nodes = facts->nodes;
	/* launchers state the number of ranks only */
	if (!e->nodes.known && e->ranks.known && facts->local_ranks.known &&
		facts->local_ranks.value == e->ranks.value)
		e->nodes = known(1);
}

int history_entry_open(const char *path, struct history_entry *ret, struct replay **ret_replay)
{
	struct history_entry e = { 0 };
	struct listed_facts facts;
	struct replay *replay;
	int r = replay_open(path, &replay, NULL);

	if (r < 0)
		return r;
	reader_allow(replay);
	read_facts(replay, &facts);
	fill(replay, &facts, &e);
	free(facts.scheduler);
	free(facts.scheduler_job);
	free(facts.mode);
	free(facts.part);
	free(facts.boot_id);
	e.path = strdup(path);
	if (!e.path || !e.name || !e.command || !e.note || !e.raised) {
		history_entry_done(&e);
		r = -ENOMEM;
	}
	if (r < 0 || !ret_replay)
		replay_close(replay);
	else
		*ret_replay = replay;
	if (r == 0)
		*ret = e;
	return r;
}

int history_entry_read(const char *path, struct history_entry *ret)
{
	return history_entry_open(path, ret, NULL);
}

void history_entry_done(struct history_entry *entry)
{
	free(entry->path);
	free(entry->name);
	free(entry->command);
	free(entry->note);
	free(entry->raised);
	*entry = (struct history_entry) { 0 };
}
