/* SPDX-License-Identifier: MIT
 *
 * Simulated runs for tests of recordings: a job whose every value follows from a rule known to
 * the tests, a folder that is removed with the test, and SQL queries of the result through SQLite's
 * own interface.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/job.h"
#include "model/framebuf.h"
#include "record/read/replay.h"
#include "record/write/record.h"

#define MS  UINT64_C(1000000)
#define SEC (1000 * MS)
#define MB  INT64_C(1048576)

/* ---- a folder -------------------------------------------------------------------------------- */

struct rig_folder {
	char path[64];
	char file[96];
};

static inline void folder_new(struct rig_folder *f)
{
	(void) snprintf(f->path, sizeof(f->path), "/tmp/hiwater-test-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	(void) snprintf(f->file, sizeof(f->file), "%s/run.hiw", f->path);
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void) st;
	(void) type;
	(void) ftw;
	return remove(path);
}

static inline void folder_done(struct rig_folder *f)
{
	(void) nftw(f->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The number of entries in the folder. */
static inline unsigned folder_count(const struct rig_folder *f)
{
	char command[160];
	unsigned n = 0;
	FILE *out;

	(void) snprintf(command, sizeof(command), "ls -A %s | wc -l", f->path);
	out = popen(command, "r");
	assert_non_null(out);
	assert_int_equal(fscanf(out, "%u", &n), 1);
	(void) pclose(out);
	return n;
}

/* ---- SQL ------------------------------------------------------------------------------------- */

/* The first value of the query sql: *ret_known is false if it is NULL or there is no row. */
static inline int64_t sql_int_or(const char *path, const char *sql, bool *ret_known)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *st = NULL;
	int64_t value = 0;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	(void) sqlite3_busy_timeout(db, 10000);
	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	*ret_known = sqlite3_step(st) == SQLITE_ROW && sqlite3_column_type(st, 0) != SQLITE_NULL;
	if (*ret_known)
		value = sqlite3_column_int64(st, 0);
	(void) sqlite3_finalize(st);
	(void) sqlite3_close(db);
	return value;
}

static inline int64_t sql_int(const char *path, const char *sql)
{
	bool known;
	int64_t value = sql_int_or(path, sql, &known);

	if (!known)
		fail_msg("%s gives nothing", sql);
	return value;
}

static inline bool sql_is_null(const char *path, const char *sql)
{
	bool known;

	(void) sql_int_or(path, sql, &known);
	return !known;
}

static inline void expect_text(const char *path, const char *sql, const char *expected)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *st = NULL;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	assert_string_equal((const char *) sqlite3_column_text(st, 0), expected);
	(void) sqlite3_finalize(st);
	(void) sqlite3_close(db);
}

static inline void sql_run(const char *path, const char *sql)
{
	sqlite3 *db = NULL;
	char *text = NULL;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	(void) sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
	if (sqlite3_exec(db, sql, NULL, NULL, &text) != SQLITE_OK)
		fail_msg("%s: %s", sql, text);
	(void) sqlite3_close(db);
}

static inline void expect_sound(const char *path)
{
	expect_text(path, "PRAGMA integrity_check", "ok");
}

/* ---- a made-up run --------------------------------------------------------------------------- */

/* A job of n processes, sampled at each step. Process 1 is the main process. The values of step
 * k depend on k alone. */
struct sim {
	struct job *job;          /* made by applying the same frames; NULL: none is made */
	struct framebuf buf;
	uint64_t tick_ns, window_ns;
	unsigned processes;
	/* the main process grows for a minute, then changes slightly every two seconds */
	bool calm;
	uint64_t k;               /* the next step */
	/* Receivers of frames and totals. */
	void (*frame)(void *ctx, const struct frame *frame);
	void (*totals)(void *ctx, const struct job *job);
	void *ctx;
};

static inline uint64_t sim_time(const struct sim *s, uint64_t k)
{
	return 1 * MS + k * s->tick_ns;
}

/* Resident size of process id at step k: some never change, some rarely, one at each step, with
 * a burst. */
static inline int64_t sim_rss(unsigned id, uint64_t k)
{
	switch (id % 4) {
	case 1:
		return 3000 * MB + (int64_t) (k * 7919 % 1000) * 4096 + (k == 777 ? 2000 * MB : 0);
	case 2:
		return 100 * MB;
	case 3:
		return 200 * MB + (int64_t) (k / 500) * MB;
	default:
		return 50 * MB + (int64_t) (k / 37 % 5) * MB;
	}
}

static inline int64_t calm_rss(uint64_t k)
{
	return k < 600 ? (int64_t) (k + 1) * 5 * MB : 3000 * MB + (int64_t) (k / 20 * 7919 % 100) * 4096;
}

static inline int64_t sim_cpu(unsigned id, uint64_t k)
{
	return id % 4 == 2 ? 0 : (int64_t) (k * 3 * MS / (id % 4 == 3 ? 500 : 1) / 10 * 10);
}

static inline void sim_new(
	struct sim *s, uint64_t tick_ns, uint64_t window_ns, unsigned processes, bool with_job)
{
	const struct job_config config = { .page_bytes = 4096, .fault_page_bytes = 4096, .ours = true };

	*s = (struct sim) { .tick_ns = tick_ns, .window_ns = window_ns, .processes = processes };
	if (!with_job)
		return;
	s->job = job_new(&config);
	assert_non_null(s->job);
	job_facts(s->job)->interval_ns = known((int64_t) tick_ns);
	job_facts(s->job)->window_ns = known((int64_t) window_ns);
	job_facts(s->job)->main_pid = known(1001);
	assert_int_equal(job_set_text(&job_facts(s->job)->command, "train --data x"), 0);
	assert_int_equal(job_set_text(&job_facts(s->job)->name, "study"), 0);
}

static inline void sim_done(struct sim *s)
{
	framebuf_done(&s->buf);
	job_free(s->job);
}

static inline void sim_send(struct sim *s, enum frame_source source, uint64_t time_ns, uint64_t hold_ns)
{
	const struct frame frame = framebuf_frame(&s->buf, source, time_ns, hold_ns);

	if (s->job)
		assert_int_equal(job_apply(s->job, &frame), 0);
	s->frame(s->ctx, &frame);
	framebuf_clear(&s->buf);
}

static inline void sim_born(struct sim *s, unsigned id)
{
	struct birth birth = { .entity = ENTITY_PROCESS, .id = id };
	char name[16];

	(void) snprintf(name, sizeof(name), "proc%u", id);
	birth.process.pid = (int32_t) (1000 + id);
	birth.process.ppid = id == 1 ? 1 : 1001;
	birth.process.parent = id == 1 ? 0 : 1;
	birth.process.start_ns = 5000 * SEC + id;
	birth.process.name = name;
	birth.process.command = "train --data x";
	birth.process.is_main = id == 1;
	framebuf_birth(&s->buf, &birth);
}

static inline void sim_host(struct sim *s, uint64_t time_ns)
{
	framebuf_value(&s->buf, M_HOST_MEM_USED, 0, 8000 * MB + (int64_t) (s->k * 104729 % 5000) * 4096);
	framebuf_value(
		&s->buf, M_HOST_MEM_AVAILABLE, 0, 16000 * MB - (int64_t) (s->k * 104729 % 5000) * 4096);
	sim_send(s, FRAME_HOST, time_ns, 3 * s->tick_ns);
	if (s->k % 10)
		return;
	for (int m = 0; m < METRIC_COUNT; m++) {
		const bool is_fabric = m >= M_HOST_FABRIC_RX && m <= M_HOST_FABRIC_BUSIEST; /* it has none */

		if (metrics[m].entity == ENTITY_HOST && m != M_HOST_MEM_USED && m != M_HOST_MEM_AVAILABLE &&
			!is_fabric)
			framebuf_value(&s->buf, (enum metric) m, 0,
				metrics[m].kind == KIND_COUNTER ? (int64_t) (s->k * 1000003 * (1 + m % 7))
								: (int64_t) (s->k / 50 % 100) * 10000);
	}
	sim_send(s, FRAME_HOST, time_ns, 3 * s->window_ns);
}

/* One step: host, processes, the job's totals. */
static inline void sim_tick(struct sim *s)
{
	const uint64_t now = sim_time(s, s->k);
	int64_t sum = 0, cpu = 0, rss;

	sim_host(s, now);
	for (unsigned id = 1; id <= s->processes; id++) {
		if (s->k == 0)
			sim_born(s, id);
		rss = s->calm && id == 1 ? calm_rss(s->k) : sim_rss(id, s->k);
		framebuf_value(&s->buf, M_PROC_RSS, id, rss);
		framebuf_value(&s->buf, M_PROC_RSS_FILE, id, 30 * MB);
		sum += rss;
	}
	sim_send(s, FRAME_PROCFS, now, 3 * s->tick_ns);
	for (unsigned id = 1; s->k % 10 == 0 && id <= s->processes; id++) {
		framebuf_value(&s->buf, M_PROC_CPU_USER, id, sim_cpu(id, s->k));
		framebuf_value(&s->buf, M_PROC_CPU_SYSTEM, id, sim_cpu(id, s->k) / 10);
		framebuf_value(&s->buf, M_PROC_THREADS, id, 4);
		framebuf_value(&s->buf, M_PROC_HWM, id, 5100 * MB);
		framebuf_value(&s->buf, M_PROC_SWAP, id, 0);
		framebuf_value(&s->buf, M_PROC_READ_BYTES, id, sim_cpu(id, s->k) * 20);
		framebuf_value(&s->buf, M_PROC_SWITCHES, id, sim_cpu(id, s->k) / 100000);
		cpu += sim_cpu(id, s->k);
	}
	if (s->k % 10 == 0)
		sim_send(s, FRAME_PROCFS, now, 3 * s->window_ns);
	if (s->job) {
		job_total(s->job, now, &s->buf);
	} else {
		framebuf_value(&s->buf, M_JOB_RAM, 0, sum);
		framebuf_value(&s->buf, M_JOB_RSS_SUM, 0, sum);
		if (s->k % 10 == 0)
			framebuf_value(&s->buf, M_JOB_CPU_USER, 0, cpu);
	}
	sim_send(s, FRAME_TOTALS, now, 3 * s->tick_ns);
	s->k++;
	if (s->job && s->totals && now / s->window_ns != sim_time(s, s->k) / s->window_ns)
		s->totals(s->ctx, s->job);
}

/* The end of the run: every process has ended. */
static inline void sim_end(struct sim *s)
{
	const uint64_t now = sim_time(s, s->k);

	for (unsigned id = s->processes; id >= 1; id--) {
		struct end end = {
			.entity = ENTITY_PROCESS, .id = id, .how = id == 1 ? END_REAPED : END_SEEN
		};

		end.status_known = id == 1;
		framebuf_end(&s->buf, &end);
	}
	sim_send(s, FRAME_PROCFS, now, 3 * s->tick_ns);
	if (!s->job)
		return;
	job_facts(s->job)->ended_ns = known((int64_t) now);
	job_facts(s->job)->exit_status = known(0);
	job_end(s->job, now, &s->buf);
	if (!framebuf_is_empty(&s->buf))
		sim_send(s, FRAME_TOTALS, now, 3 * s->tick_ns);
}

/* The timelines of both are exactly the same. Returns the number of buckets. */
struct rig_buckets {
	const struct job *other;
	unsigned n;
};

static inline void expect_same_bucket(void *ctx, const struct timeline *c, unsigned place)
{
	struct rig_buckets *seen = ctx;
	const struct timeline *other = job_timeline(seen->other, c->metric, c->id);

	assert_non_null(other);
	const struct timeline_bucket *a = &c->buckets[place], *b = &other->buckets[place];

	assert_true(b->known);
	assert_int_equal(a->cover_ns, b->cover_ns);
	assert_int_equal(a->min, b->min);
	assert_int_equal(a->max, b->max);
	assert_memory_equal(&a->sum, &b->sum, sizeof(a->sum));
	seen->n++;
}

static inline unsigned expect_same_timeline(const struct job *one, const struct job *other)
{
	struct rig_buckets there = { .other = other }, back = { .other = one };

	assert_int_equal(job_timeline_span(one), job_timeline_span(other));
	job_each_bucket(one, 0, expect_same_bucket, &there);
	job_each_bucket(other, 0, expect_same_bucket, &back);
	assert_int_equal(there.n, back.n);
	return there.n;
}

/* ---- into a recording ------------------------------------------------------------------------ */

static inline void to_record_frame(void *ctx, const struct frame *frame)
{
	record_frame(ctx, frame);
}

static inline void to_record_totals(void *ctx, const struct job *job)
{
	record_totals(ctx, job);
}

static inline void sim_into(struct sim *s, struct record *r)
{
	s->frame = to_record_frame;
	s->totals = to_record_totals;
	s->ctx = r;
}

static inline struct record *rig_record(const struct record_options *options)
{
	struct record *r = NULL;
	struct err err = { "" };

	if (record_new(options, &r, &err) < 0)
		fail_msg("%s", err.text);
	return r;
}

/* Finishes it without an error. */
static inline void rig_finish(struct record *r, const struct job *job)
{
	struct err err = { "" };

	if (record_finish(r, job, true, 60 * SEC, NULL, &err) < 0)
		fail_msg("%s", err.text);
}

/* A whole run of that many steps in file. */
static inline void rig_run(const char *file, struct sim *s, uint64_t ticks, uint64_t max_bytes)
{
	struct record *r = rig_record(&(struct record_options) {
		.path = file, .window_ns = s->window_ns, .max_bytes = max_bytes, .queue_bytes = 1 << 30 });
	struct err err = { "" };

	sim_into(s, r);
	for (uint64_t k = 0; k < ticks; k++)
		sim_tick(s);
	sim_end(s);
	assert_int_equal(record_dropped(r), 0);
	if (record_trouble(r, &err))
		fail_msg("%s", err.text);
	rig_finish(r, s->job);
}
