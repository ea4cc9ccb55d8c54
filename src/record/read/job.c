/* SPDX-License-Identifier: MIT
 *
 * Restores the job of a recording from its tables; no window is read.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/schema1.h"
#include "record/read/reader.h"
#include "record/read/replay_internal.h"
#include "record/schema.h"

/* Limits above those of any recording; rows beyond them are ignored. */
enum {
	MOST_PROCESSES = 100000,
	MOST_EVENTS = 200000,
	MOST_PHASES = 16384,
	MOST_SERIES = 4096,
	MOST_GPUS = 1 << 16,
	MOST_ACCS = 100000,
	MOST_BUCKETS = 100000,
};
static const size_t most_text = 32 << 20; /* total length of commands and events */

struct putting {
	struct replay *r;
	struct job *job;
	struct err *err;
	size_t text;   /* total length so far */
	unsigned phases;
};

/* The text of a column, as long as the total length is within the limit. */
static const char *within(struct putting *p, const char *text)
{
	size_t len = strlen(text);

	if (len > most_text - p->text)
		return "";
	p->text += len;
	return text;
}

/* One table to read: sql, or the rest of the statement after FROM if columns are listed. */
struct table {
	const char *name, *sql;
	int most;
	int (*put)(struct putting *p, sqlite3_stmt *st);
	const char *const *columns; /* NULL-terminated; columns that the file lacks read as NULL */
};

/* Calls put with each row, up to a maximum. A missing table has no rows. */
static int each(struct putting *p, const struct table *table)
{
	sqlite3_stmt *st = NULL;
	int rc = SQLITE_DONE, code = 0, most = table->most;

	if (table->columns)
		st = reader_table(p->r, table->name, table->columns, table->sql);
	else if (reader_has_table(p->r, table->name))
		st = reader_prepare(p->r, table->sql);

	while (st && code == 0 && most-- > 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		code = table->put(p, st);
	(void) sqlite3_finalize(st);
	if (code < 0)
		return err_set(p->err, code, "%s: %s", p->r->path, strerror(-code));
	return reader_error(p->r, rc, p->err);
}

/* ---- facts ----------------------------------------------------------------------------------- */

static int put_fact(struct putting *p, sqlite3_stmt *st)
{
	const char *key = schema1_now(reader_text(st, 0));
	char *facts = (char *) job_facts(p->job);

	for (size_t i = 0; i < fact_count; i++) {
		struct maybe number = { .known = true };
		char **text;

		if (strcmp(fact_infos[i].name, key) != 0 || strcmp(key, "recording") == 0)
			continue;
		if (!fact_infos[i].is_text) {
			/* None of these facts can be negative. */
			if (reader_int(st, 1, &number.value) && number.value >= 0)
				memcpy(facts + fact_infos[i].offset, &number, sizeof(number));
			return 0;
		}
		text = (char **) (void *) (facts + fact_infos[i].offset);
		return job_set_text(text, within(p, reader_text(st, 1)));
	}
	return 0;
}

/* ---- accumulators ---------------------------------------------------------------------------- */

static int put_acc(struct putting *p, sqlite3_stmt *st)
{
	int entity = entity_find(reader_text(st, 0));
	int metric = entity < 0 ? -1 : metric_find((enum entity) entity, reader_text(st, 2));
	struct acc acc = { .sum = sqlite3_column_double(st, 10) };
	uint32_t id;

	if (metric < 0 || !reader_id(st, 1, &id) || !reader_time(st, 3, &acc.n) || acc.n == 0 ||
		!reader_int(st, 4, &acc.min) || !reader_int(st, 5, &acc.max) ||
		!reader_int(st, 7, &acc.last) || !reader_time(st, 6, &acc.max_at_ns) ||
		!reader_time(st, 8, &acc.last_at_ns) || !reader_time(st, 9, &acc.hold_ns) ||
		!reader_time(st, 11, &acc.span_ns) || !isfinite(acc.sum))
		return 0;
	(void) reader_time(st, 12, &acc.unlisted_ns); /* missing in older recordings, like rise */
	/* Older recordings lack that of shared memory: then at most this. */
	acc.rise = reader_int_or(st, 13, metric == M_HOST_SHMEM && acc.max > acc.min ? acc.max - acc.min : 0);
	return job_restore_acc(p->job, (enum metric) metric, id, &acc);
}

static int put_bucket(struct putting *p, sqlite3_stmt *st)
{
	int entity = entity_find(reader_text(st, 0));
	int metric = entity < 0 ? -1 : metric_find((enum entity) entity, reader_text(st, 2));
	struct timeline_bucket bucket = { .sum = sqlite3_column_double(st, 8) };
	uint64_t time_ns, span_ns;
	uint32_t id;

	if (metric < 0 || !reader_id(st, 1, &id) || !reader_time(st, 3, &time_ns) ||
		!reader_time(st, 4, &span_ns) || span_ns == 0 || !reader_time(st, 5, &bucket.cover_ns) ||
		bucket.cover_ns > span_ns || !reader_int(st, 6, &bucket.min) ||
		!reader_int(st, 7, &bucket.max) || !isfinite(bucket.sum))
		return 0;
	return job_restore_bucket(p->job, (enum metric) metric, id, time_ns, span_ns, &bucket);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void read_end(sqlite3_stmt *st, struct process *process)
{
	int how = how_find(reader_text(st, 9));
	int64_t status;

	process->ended = reader_time(st, 8, &process->ended_ns);
	process->how = how < 0 ? END_SEEN : (enum end_how) how;
	process->status_known = reader_int(st, 10, &status) && status >= INT32_MIN && status <= INT32_MAX;
	if (process->status_known)
		process->status = (int32_t) status;
}

static void read_figures(sqlite3_stmt *st, struct process *process)
{
	process->rss_bytes = reader_int_or(st, 13, 0);
	process->rss_file_bytes = reader_int_or(st, 14, 0);
	process->peak_bytes = reader_int_or(st, 15, 0);
	process->peak_exact = reader_int_or(st, 16, 0) != 0;
	process->cpu_known = reader_int(st, 17, &process->cpu_user_ns);
	process->cpu_system_ns = reader_int_or(st, 18, 0);
	process->faults_minor = reader_int_or(st, 19, 0);
	process->faults_waited = reader_int_or(st, 20, 0);
	process->io_known = reader_int(st, 21, &process->read_bytes);
	process->write_bytes = reader_int_or(st, 22, 0);
	process->split_known = reader_int(st, 23, &process->private_bytes);
	process->shared_bytes = reader_int_or(st, 24, 0);
}

static int put_process(struct putting *p, sqlite3_stmt *st)
{
	struct process process = { .is_main = reader_int_or(st, 11, 0) != 0 };
	autofree char *command = NULL;

	if (!reader_id(st, 0, &process.id) || process.id == 0)
		return 0;
	(void) reader_id(st, 1, &process.parent);
	process.pid = (int32_t) reader_int_or(st, 2, 0);
	process.ppid = (int32_t) reader_int_or(st, 3, 0);
	(void) reader_id(st, 4, &process.uid);
	(void) reader_time(st, 5, &process.start_ns);
	process.startstack = (uint64_t) reader_int_or(st, 6, 0);
	(void) reader_time(st, 7, &process.born_ns);
	read_end(st, &process);
	(void) snprintf(process.name, sizeof(process.name), "%s", reader_text(st, 12));
	read_figures(st, &process);
	if (reader_time(st, 27, &process.grown_since_ns))
		process.grown_bytes = reader_int_or(st, 26, 0);
	process.rank.known = reader_int(st, 28, &process.rank.value);
	command = strdup(within(p, reader_text(st, 25)));
	process.command = command;
	return command ? job_restore_process(p->job, &process) : -ENOMEM;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

static int put_gpu_entity(struct putting *p, enum entity entity, sqlite3_stmt *st)
{
	const struct birth birth = birth_read(entity, st);
	const struct end end = { .entity = entity, .id = birth.id };
	struct frame frame = { .source = FRAME_NVML, .n_births = 1, .births = &birth };
	int r;

	if (birth.id == 0 || !reader_time(st, 1, &frame.time_ns))
		return 0;
	r = job_apply(p->job, &frame);
	frame = (struct frame) { .source = FRAME_NVML, .n_ends = 1, .ends = &end };
	return r == 0 && reader_time(st, 2, &frame.time_ns) ? job_apply(p->job, &frame) : r;
}

static int put_gpu(struct putting *p, sqlite3_stmt *st)
{
	return put_gpu_entity(p, ENTITY_GPU, st);
}

static int put_gpu_process(struct putting *p, sqlite3_stmt *st)
{
	return put_gpu_entity(p, ENTITY_GPU_PROCESS, st);
}

/* ---- series, events, phases ------------------------------------------------------------------ */

static double read_double(sqlite3_stmt *st, int column)
{
	int type = sqlite3_column_type(st, column);

	return type == SQLITE_FLOAT || type == SQLITE_INTEGER ? sqlite3_column_double(st, column) : NAN;
}

static int put_series(struct putting *p, sqlite3_stmt *st)
{
	struct series series = {
		.first = read_double(st, 2),
		.last = read_double(st, 3),
		.min = read_double(st, 4),
		.max = read_double(st, 5),
	};
	autofree char *name = strdup(within(p, reader_text(st, 0)));

	if (!name)
		return -ENOMEM;
	/* Logged after the last totals, which do not contain the process yet. */
	if (!reader_time(st, 1, &series.n) || series.n == 0)
		return 0;
	series.name = name;
	series.has_step = reader_int(st, 6, &series.last_step);
	series.sum = isfinite(read_double(st, 7)) ? read_double(st, 7) : 0;
	(void) minima_parse(reader_text(st, 8), &series.minima);
	return job_restore_series(p->job, &series);
}

static int put_event(struct putting *p, sqlite3_stmt *st)
{
	struct event event;
	struct frame frame = { .source = FRAME_RECORDER, .n_events = 1, .events = &event };

	if (!event_read(st, &event))
		return 0;
	if (event.kind == EVENT_PHASE_BEGIN && p->phases++ >= MOST_PHASES)
		return 0;
	event.text = within(p, event.text);
	frame.time_ns = event.time_ns;
	return job_apply(p->job, &frame);
}

static void get_use(sqlite3_stmt *st, struct phase_use *u)
{
	const struct {
		struct maybe *to;
		int64_t most; /* the integral is in ppm */
	} columns[] = {
		{ &u->gpu_before, INT64_MAX },
		{ &u->gpu_peak, INT64_MAX },
		{ &u->gpu_after, INT64_MAX },
		{ &u->work[GPU_WORK_BUSY], 1000000 },
		{ &u->work[GPU_WORK_SM], 1000000 },
		{ &u->cpu_energy_uj, INT64_MAX },
		{ &u->gpu_energy_uj, INT64_MAX },
		{ &u->job_peak, INT64_MAX },
		{ &u->cpu_ns, INT64_MAX },
	};
	int64_t value;

	for (int i = 0; i < (int) (sizeof(columns) / sizeof(columns[0])); i++) {
		if (reader_int(st, 10 + i, &value) && value >= 0 && value <= columns[i].most)
			*columns[i].to = known(value);
	}
}

static int put_phase(struct putting *p, sqlite3_stmt *st)
{
	struct phase phase = { .peak_exact = reader_int_or(st, 8, 0) != 0 };
	autofree char *name = strdup(within(p, reader_text(st, 2)));
	autofree char *facts = strdup(within(p, reader_text(st, 9)));

	if (!name || !facts)
		return -ENOMEM;
	if (!reader_id(st, 0, &phase.number) || phase.number == 0 || !reader_time(st, 3, &phase.begin_ns))
		return 0;
	phase.name = name;
	phase.facts = facts;
	(void) reader_id(st, 1, &phase.parent);
	(void) reader_time(st, 4, &phase.end_ns);
	phase.ram_known = reader_int(st, 6, &phase.ram_peak);
	phase.ram_before = reader_int_or(st, 5, 0);
	phase.ram_after = reader_int_or(st, 7, 0);
	get_use(st, &phase.use);
	return job_restore_phase(p->job, &phase);
}

/* ---- the job --------------------------------------------------------------------------------- */

static const char *const process_columns[] = { "id", "parent", "pid", "ppid", "uid", "start", "startstack",
	"born", "ended", "end_source", "status", "is_main", "name", "rss", "rss_file", "peak", "peak_exact",
	"cpu_user", "cpu_system", "faults_minor", "faults_waited", "read_bytes", "write_bytes", "private",
	"shared", "command", "grown", "grown_since", "rank", NULL };

static const char *const series_columns[] = { "name", "n", "first", "last", "min", "max", "step", "sum",
	"minima", NULL };

static const char *const phase_columns[] = { "number", "parent", "name", "began", "ended", "ram_before",
	"ram_peak", "ram_after", "peak_exact", "facts", "gpu_before", "gpu_peak", "gpu_after", "gpu_busy",
	"gpu_sm_active", "cpu_energy", "gpu_energy", "job_peak", "cpu", NULL };

static const char *const acc_columns[] = { "entity", "id", "metric", "n", "min", "max", "max_at", "last",
	"last_at", "hold", "sum", "span", "unlisted", "rise", NULL };

static const char *const timeline_columns[] = { "entity", "id", "metric", "t", "span", "cover", "min", "max",
	"sum", NULL };

static const struct table tables[] = {
	{ "meta", "SELECT key, value FROM meta", 1000, put_fact, NULL },
	{ "process", "ORDER BY id", MOST_PROCESSES, put_process, process_columns },
	{ "gpu", "ORDER BY id", MOST_GPUS, put_gpu, birth_tables[1].columns },
	{ "gpu_process", "ORDER BY id", MOST_GPUS, put_gpu_process, birth_tables[2].columns },
	{ "series", "ORDER BY id", MOST_SERIES, put_series, series_columns },
	{ "event", "ORDER BY rowid", MOST_EVENTS, put_event, event_columns },
	{ "phase", "ORDER BY number", MOST_PHASES, put_phase, phase_columns },
	{ "summary", "ORDER BY entity, metric, id", MOST_ACCS, put_acc, acc_columns },
	{ "timeline", "", MOST_BUCKETS, put_bucket, timeline_columns },
};

static int put_all(struct putting *p)
{
	struct frame last = { .source = FRAME_RECORDER };
	int64_t last_ns;
	int code = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && code == 0; i++)
		code = each(p, &tables[i]);
	if (code == 0)
		code = job_set_text(&job_facts(p->job)->recording, p->r->path);
	if (code == 0) {
		struct parts *parts;

		code = reader_parts(p->r, &parts);
		if (parts)
			job_take_parts(p->job, parts);
	}
	/* The job's clock is the time at which the recording ends. */
	if (code == 0 && reader_meta_int(p->r, "last_ns", &last_ns) && last_ns > 0) {
		last.time_ns = (uint64_t) last_ns;
		code = job_apply(p->job, &last);
	}
	return code;
}

int replay_job(struct replay *r, struct job **ret, struct err *err)
{
	const struct job_config config = { .page_bytes = 4096 };
	struct putting p = { .r = r, .job = job_new(&config), .err = err };
	int code;

	if (!p.job)
		return err_set(err, -ENOMEM, "%s: out of memory", r->path);
	reader_allow(r);
	(void) sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL); /* read all tables as of one commit */
	code = put_all(&p);
	(void) sqlite3_exec(r->db, "COMMIT", NULL, NULL, NULL);
	if (code < 0) {
		job_free(p.job);
		return code;
	}
	*ret = p.job;
	return 0;
}
