/* SPDX-License-Identifier: MIT
 *
 * A recording keeps within its limit, and merged data keeps its extremes, totals and means. The
 * reference is the simulated run itself (record_rig.h); the file size is checked after every
 * commit.
 */
#include "writer_rig.h"

#include <math.h>

enum {
	MOST_IDS = 16
};

/* ---- what comes back ------------------------------------------------------------------------- */

struct figures {
	uint64_t last_ns;
	int64_t rss_max[MOST_IDS], rss_min[MOST_IDS], cpu_last[MOST_IDS], hwm_max[MOST_IDS];
	__int128 rss_sum[MOST_IDS];
	uint64_t rss_cover[MOST_IDS];
	int64_t job_max, job_min, host_max, disk_read;
	__int128 job_sum;
	uint64_t job_cover, job_looks, windows;
};

static void take_process(struct figures *f, const struct reading *r)
{
	assert_in_range(r->id, 1, MOST_IDS - 1);
	if (r->metric == M_PROC_RSS) {
		if (f->rss_cover[r->id] == 0 || r->min < f->rss_min[r->id])
			f->rss_min[r->id] = r->min;
		if (r->max > f->rss_max[r->id])
			f->rss_max[r->id] = r->max;
		f->rss_sum[r->id] += (__int128) r->value * r->span_ns;
		f->rss_cover[r->id] += r->span_ns;
	} else if (r->metric == M_PROC_CPU_USER) {
		assert_true(r->value >= f->cpu_last[r->id]);
		f->cpu_last[r->id] = r->value;
	} else if (r->metric == M_PROC_HWM && r->value > f->hwm_max[r->id]) {
		f->hwm_max[r->id] = r->value;
	}
}

static bool see(void *ctx, const struct frame *frame)
{
	struct figures *f = ctx;

	assert_true(frame->time_ns >= f->last_ns);
	f->last_ns = frame->time_ns;
	for (size_t i = 0; i < frame->n_readings; i++) {
		const struct reading *r = &frame->readings[i];

		if (!r->known)
			continue;
		if (metrics[r->metric].entity == ENTITY_PROCESS)
			take_process(f, r);
		if (r->metric == M_HOST_MEM_USED && r->max > f->host_max)
			f->host_max = r->max;
		if (r->metric == M_HOST_DISK_READ)
			f->disk_read = r->value;
		if (r->metric != M_JOB_RSS_SUM)
			continue;
		f->job_max = r->max > f->job_max ? r->max : f->job_max;
		f->job_min = f->windows == 0 || r->min < f->job_min ? r->min : f->job_min;
		f->job_sum += (__int128) r->value * r->span_ns;
		f->job_cover += r->span_ns;
		f->job_looks += r->n;
		f->windows++;
	}
	return true;
}

static struct figures read_back(const char *file)
{
	struct figures f = { .last_ns = 0 };
	struct replay *r = NULL;
	struct err err = { "" };

	if (replay_open(file, &r, &err) < 0 || replay_frames(r, false, see, &f, &err) < 0)
		fail_msg("%s", err.text);
	replay_close(r);
	return f;
}

/* A mean, in the metric's unit; rounding may cost a few units per merge. */
static void expect_mean(__int128 sum, uint64_t cover, __int128 true_sum, uint64_t true_cover)
{
	int64_t mean = (int64_t) (sum / cover), truth = (int64_t) (true_sum / true_cover);

	assert_true(llabs(mean - truth) <= 32);
}

/* ---- a long run ------------------------------------------------------------------------------ */

static void expect_truth(const struct figures *f, const struct sim *s, uint64_t ticks)
{
	__int128 job_sum = 0;
	int64_t job_max = 0, job_min = INT64_MAX, host_max = 0;

	for (uint64_t k = 0; k < ticks; k++) {
		int64_t sum = 0, host = 8000 * MB + (int64_t) (k * 104729 % 5000) * 4096;

		for (unsigned id = 1; id <= s->processes; id++)
			sum += sim_rss(id, k);
		job_sum += (__int128) sum * s->tick_ns;
		job_max = sum > job_max ? sum : job_max;
		job_min = sum < job_min ? sum : job_min;
		host_max = host > host_max ? host : host_max;
	}
	assert_int_equal(f->job_max, job_max);
	assert_int_equal(f->job_min, job_min);
	assert_int_equal(f->host_max, host_max);
	/* The end of the run may add one more. */
	assert_in_range(f->job_looks, ticks, ticks + 1);
	assert_int_equal(f->job_cover, ticks * s->tick_ns);
	expect_mean(f->job_sum, f->job_cover, job_sum, ticks * s->tick_ns);
	for (unsigned id = 1; id <= s->processes; id++) {
		__int128 sum = 0;
		int64_t max = 0, min = INT64_MAX;

		for (uint64_t k = 0; k < ticks; k++) {
			sum += (__int128) sim_rss(id, k) * s->tick_ns;
			max = sim_rss(id, k) > max ? sim_rss(id, k) : max;
			min = sim_rss(id, k) < min ? sim_rss(id, k) : min;
		}
		assert_int_equal(f->rss_max[id], max);
		assert_int_equal(f->rss_min[id], min);
		assert_int_equal(f->cpu_last[id], sim_cpu(id, (ticks - 1) / 10 * 10));
		assert_int_equal(f->hwm_max[id], 5100 * MB);
		assert_int_equal(f->rss_cover[id], ticks * s->tick_ns);
		expect_mean(f->rss_sum[id], f->rss_cover[id], sum, ticks * s->tick_ns);
	}
}

/* Records the whole run; checks the file size after each window. */
static uint64_t file_bytes(const char *file)
{
	struct stat st;

	return stat(file, &st) == 0 ? (uint64_t) st.st_size : 0;
}

static void expect_within(const char *file, uint64_t limit, const struct sim *s)
{
	if (disk_bytes(file) > limit)
		fail_msg("%llu bytes after sample %llu, %llu of them in the file",
			(unsigned long long) disk_bytes(file), (unsigned long long) s->k,
			(unsigned long long) file_bytes(file));
}

static uint64_t run(struct sim *s, const char *file, uint64_t ticks, uint64_t max_bytes, uint64_t recent_ns)
{
	struct writer_rig w;
	uint64_t most = 0;

	writer_rig_new(&w, s, file, max_bytes, recent_ns, 200);
	while (s->k < ticks) {
		sim_tick(s);
		if (sim_time(s, s->k - 1) / s->window_ns == sim_time(s, s->k) / s->window_ns)
			continue;
		writer_rig_give(&w, false);
		most = disk_bytes(file) > most ? disk_bytes(file) : most;
		expect_within(file, max_bytes, s);
		if (w.writer.failed)
			fail_msg("%s", w.writer.trouble.text);
	}
	sim_end(s);
	if (s->job)
		writer_rig_totals(&w, s->job);
	writer_rig_finish(&w);
	assert_int_equal(w.writer.result, 0);
	writer_rig_done(&w);
	return most;
}

static void a_long_run_keeps_its_limit_and_its_truth(void **state)
{
	const uint64_t ticks = 16000, limit = 600000;
	struct rig_folder f;
	struct figures thin;
	struct sim s;
	struct replay *r;
	struct job *job;

	(void) state;
	folder_new(&f);
	sim_new(&s, 500 * MS, SEC, 7, true);
	assert_true(run(&s, f.file, ticks, limit, 20 * SEC) > limit / 2);
	expect_sound(f.file);
	expect_within(f.file, limit, &s);
	thin = read_back(f.file);
	assert_true(thin.windows < 1500);
	expect_truth(&thin, &s, ticks);

	/* The values of show do not come from the windows: they are exactly the same. */
	assert_int_equal(replay_open(f.file, &r, NULL), 0);
	assert_int_equal(replay_job(r, &job, NULL), 0);
	assert_true(expect_same_timeline(s.job, job) > TIMELINE_BUCKETS / 2);
	for (int m = 0; m < METRIC_COUNT; m++) {
		const struct acc *a = job_acc(s.job, (enum metric) m, 0),
				 *b = job_acc(job, (enum metric) m, 0);

		assert_int_equal(!a, !b);
		if (!a)
			continue;
		assert_int_equal(a->max, b->max);
		assert_int_equal(a->last, b->last);
		assert_int_equal(a->span_ns, b->span_ns);
		assert_true(!(a->sum < b->sum) && !(a->sum > b->sum));
	}
	job_free(job);
	replay_close(r);
	sim_done(&s);
	folder_done(&f);
}

static void thinned_and_whole_say_the_same(void **state)
{
	const uint64_t ticks = 10000;
	struct rig_folder f;
	struct figures thin, whole;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 200 * MS, SEC, 9, false);
	(void) run(&s, f.file, ticks, 64000000, 20 * SEC);
	whole = read_back(f.file);
	sim_done(&s);
	assert_int_equal(unlink(f.file), 0);
	sim_new(&s, 200 * MS, SEC, 9, false);
	(void) run(&s, f.file, ticks, 600000, 20 * SEC);
	thin = read_back(f.file);
	assert_true(thin.windows * 2 < whole.windows);
	assert_int_equal(thin.job_max, whole.job_max);
	assert_int_equal(thin.job_min, whole.job_min);
	assert_int_equal(thin.job_looks, whole.job_looks);
	assert_int_equal(thin.job_cover, whole.job_cover);
	assert_int_equal(thin.disk_read, whole.disk_read);
	expect_mean(thin.job_sum, thin.job_cover, whole.job_sum, whole.job_cover);
	for (unsigned id = 1; id <= 9; id++) {
		assert_int_equal(thin.rss_max[id], whole.rss_max[id]);
		assert_int_equal(thin.rss_min[id], whole.rss_min[id]);
		assert_int_equal(thin.cpu_last[id], whole.cpu_last[id]);
		assert_int_equal(thin.rss_cover[id], whole.rss_cover[id]);
		expect_mean(thin.rss_sum[id], thin.rss_cover[id], whole.rss_sum[id], whole.rss_cover[id]);
	}
	sim_done(&s);
	folder_done(&f);
}

static void the_oldest_windows_are_the_widest(void **state)
{
	struct rig_folder f;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 500 * MS, SEC, 2, false);
	(void) run(&s, f.file, 16000, 500000, 10 * SEC);
	/* No window is wider than the previous one, except where a level begins, and none
	 * overlaps the next. */
	assert_int_equal(
		sql_int(f.file,
			"SELECT count(*) FROM (SELECT span, lag(span) OVER (ORDER BY t) AS before FROM"
			" job_sample) WHERE span > before + 10000000"),
		0);
	assert_int_equal(
		sql_int(f.file,
			"SELECT count(*) FROM (SELECT t, lag(t + span) OVER (ORDER BY t) AS before FROM"
			" job_sample) WHERE t < before - 1000000000"),
		0);
	assert_int_equal(
		sql_int(f.file, "SELECT span FROM job_sample ORDER BY t DESC LIMIT 1 OFFSET 10"), SEC);
	assert_true(sql_int(f.file, "SELECT span FROM job_sample ORDER BY t LIMIT 1") >= (int64_t) (8 * SEC));
	/* Windows of processes begin where the job's do, except the last: it has no sample. */
	assert_int_equal(
		sql_int(f.file,
			"SELECT count(*) FROM process_sample WHERE t NOT IN (SELECT t FROM job_sample)"
			" AND t < 8000000000000"),
		0);
	sim_done(&s);
	folder_done(&f);
}

/* A sample every one and a half windows: rows that stand for two of them, and not all from the
 * start of a pair. */
static void rows_of_slow_looks_do_not_overlap(void **state)
{
	struct rig_folder f;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 1500 * MS, SEC, 3, false);
	(void) run(&s, f.file, 6000, 400000, 10 * SEC);
	expect_sound(f.file);
	assert_true(sql_int(f.file, "SELECT max(span) FROM job_sample") >= (int64_t) (8 * SEC));
	assert_int_equal(
		sql_int(f.file,
			"SELECT count(*) FROM (SELECT t, lag(t + span) OVER (ORDER BY t) AS before FROM"
			" job_sample) WHERE t < before"),
		0);
	assert_int_equal(
		sql_int(f.file,
			"SELECT count(*) FROM (SELECT t, lag(t + span) OVER (ORDER BY t) AS before FROM"
			" host_sample) WHERE t < before"),
		0);
	sim_done(&s);
	folder_done(&f);
}

/* A machine that was suspended, and a process that started and ended. */
static void gaps_stay_gaps(void **state)
{
	struct rig_folder f;
	struct writer_rig w;
	struct figures fig;
	struct sim s;
	uint64_t covered;

	(void) state;
	folder_new(&f);
	sim_new(&s, 500 * MS, SEC, 3, false);
	writer_rig_new(&w, &s, f.file, 500000, 10 * SEC, 200);
	for (int part = 0; part < 12; part++) {
		for (int k = 0; k < 2000; k++) {
			sim_tick(&s);
			if (k % 2)
				writer_rig_give(&w, false);
		}
		s.k += 200000; /* more than a day */
	}
	sim_end(&s);
	writer_rig_finish(&w);
	assert_int_equal(w.writer.result, 0);
	writer_rig_done(&w);
	expect_sound(f.file);
	fig = read_back(f.file);
	/* Each part is covered until three periods after its last sample. */
	covered = 12 * (uint64_t) (2000 * 500 + 2 * 500) * MS;
	assert_in_range(fig.job_cover, covered - 1000 * MS, covered);
	assert_in_range(fig.rss_cover[1], covered - 1000 * MS, covered);
	assert_int_equal(fig.job_looks, 24000);
	sim_done(&s);
	folder_done(&f);
}

/* ---- what is not in windows ------------------------------------------------------------------ */

/* A machine that is stalled for 10 ms between any two reads of the clock. */
static uint64_t late_ns;

uint64_t __real_clock_boot_ns(void);
uint64_t __wrap_clock_boot_ns(void);
uint64_t __wrap_clock_boot_ns(void)
{
	return __real_clock_boot_ns() + (late_ns ? late_ns += 10 * MS : 0);
}

static void a_busy_machine_keeps_the_limit(void **state)
{
	struct rig_folder f;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 500 * MS, SEC, 7, true);
	late_ns = 1;
	(void) run(&s, f.file, 4000, 600000, 20 * SEC);
	late_ns = 0;
	expect_sound(f.file);
	sim_done(&s);
	folder_done(&f);
}

static void the_full_rate_has_its_share(void **state)
{
	const uint64_t limit = 1000000;
	struct rig_folder f;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 2 * MS, SEC, 2, false);
	(void) run(&s, f.file, 40000, limit, 100000 * SEC); /* as if the last minutes never ended */
	expect_sound(f.file);
	/* The newest rows remain. */
	assert_true(sql_int(f.file, "SELECT min(t) FROM job_recent") > (int64_t) (40 * SEC));
	assert_int_equal(sql_int(f.file, "SELECT max(t) FROM job_recent"), (int64_t) sim_time(&s, 39999));
	assert_true(sql_int(f.file, "SELECT count(*) FROM job_recent") > 1000);
	assert_int_equal(
		sql_int(f.file, "SELECT max(rss_max) FROM process_sample WHERE id = 1"), sim_rss(1, 777));
	sim_done(&s);
	folder_done(&f);
}

/* ---- what triggers keep ---------------------------------------------------------------------- */

/* A trigger at sample k. */
static void sim_trigger(struct sim *s)
{
	const struct event event = {
		.time_ns = sim_time(s, s->k), .kind = EVENT_TRIGGER, .entity = ENTITY_JOB, .text = "x"
	};

	framebuf_event(&s->buf, &event);
	sim_send(s, FRAME_RECORDER, event.time_ns, 0);
}

static int64_t looks_between(const char *file, uint64_t from_s, uint64_t to_s)
{
	char sql[128];

	(void) snprintf(sql, sizeof(sql), "SELECT count(*) FROM job_recent WHERE t >= %llu AND t < %llu",
		(unsigned long long) (from_s * SEC), (unsigned long long) (to_s * SEC));
	return sql_int(file, sql);
}

struct looks {
	uint64_t n, last_ns;
	bool backwards;
};

static bool count_look(void *ctx, const struct frame *frame)
{
	struct looks *looks = ctx;

	for (size_t i = 0; i < frame->n_readings; i++) {
		if (frame->readings[i].metric == M_JOB_RAM)
			looks->n += frame->readings[i].n;
	}
	looks->backwards = looks->backwards || frame->time_ns < looks->last_ns;
	looks->last_ns = frame->time_ns;
	return true;
}

/* The last 60 s before a trigger and 10 s after it stay, whatever comes later; and it is
 * reported once. */
static void what_was_around_a_trigger_stays(void **state)
{
	const uint64_t limit = 2000000, ticks = 6000;
	struct looks looks = { 0 };
	struct writer_rig w;
	struct rig_folder f;
	struct replay *r;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 2, true);
	writer_rig_new(&w, &s, f.file, limit, 60 * SEC, 200);
	while (s.k < ticks) {
		if (s.k == 1500)
			sim_trigger(&s);
		sim_tick(&s);
		if (sim_time(&s, s.k - 1) / SEC == sim_time(&s, s.k) / SEC)
			continue;
		writer_rig_give(&w, false);
		expect_within(f.file, limit, &s);
	}
	sim_end(&s);
	writer_rig_totals(&w, s.job);
	writer_rig_finish(&w);
	writer_rig_done(&w);
	assert_in_range(looks_between(f.file, 91, 160), 680, 690);
	assert_int_equal(looks_between(f.file, 0, 89), 0);
	assert_int_equal(looks_between(f.file, 161, 530), 0);
	assert_int_equal(replay_open(f.file, &r, NULL), 0);
	assert_int_equal(replay_frames(r, true, count_look, &looks, NULL), 0);
	assert_in_range(looks.n, ticks, ticks + 1);
	assert_false(looks.backwards);
	replay_close(r);
	sim_done(&s);
	folder_done(&f);
}

/* Triggers all the time do not make a recording exceed its limit. */
static void many_triggers_are_bounded(void **state)
{
	const uint64_t limit = 600000;
	struct writer_rig w;
	struct rig_folder f;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 6, true);
	writer_rig_new(&w, &s, f.file, limit, 20 * SEC, 200);
	while (s.k < 3000) {
		if (s.k % 300 == 299)
			sim_trigger(&s);
		sim_tick(&s);
		if (sim_time(&s, s.k - 1) / SEC == sim_time(&s, s.k) / SEC)
			continue;
		writer_rig_give(&w, false);
		expect_within(f.file, limit, &s);
	}
	sim_end(&s);
	writer_rig_totals(&w, s.job);
	writer_rig_finish(&w);
	writer_rig_done(&w);
	expect_sound(f.file);
	sim_done(&s);
	folder_done(&f);
}

/* A run of one process with more data than the limit allows: in addition to each sample, a frame
 * of the test's own. */
struct flood {
	struct rig_folder f;
	struct sim s;
	struct writer_rig w;
	struct framebuf b; /* the next frame */
};

enum {
	FLOOD_LIMIT = 700000
};

static void flood_begin(struct flood *o)
{
	*o = (struct flood) { 0 };
	folder_new(&o->f);
	sim_new(&o->s, 500 * MS, SEC, 1, false);
	writer_rig_new(&o->w, &o->s, o->f.file, FLOOD_LIMIT, 5 * SEC, 200);
}

static void flood_tick(struct flood *o, enum frame_source source, uint64_t hold_ns)
{
	const struct frame frame = framebuf_frame(&o->b, source, sim_time(&o->s, o->s.k), hold_ns);

	writer_rig_frame(&o->w, &frame);
	framebuf_clear(&o->b);
	sim_tick(&o->s);
	if (o->s.k % 2) {
		writer_rig_give(&o->w, false);
		expect_within(o->f.file, FLOOD_LIMIT, &o->s);
	}
}

/* The file may be checked from here on. */
static void flood_end(struct flood *o)
{
	writer_rig_finish(&o->w);
	assert_int_equal(o->w.writer.result, 0);
	writer_rig_done(&o->w);
	framebuf_done(&o->b);
	expect_sound(o->f.file);
}

static void flood_done(struct flood *o)
{
	sim_done(&o->s);
	folder_done(&o->f);
}

static void extremes_of_series_stay(void **state)
{
	struct flood o;

	(void) state;
	flood_begin(&o);
	for (uint64_t k = 0; k < 5000; k++) {
		for (unsigned i = 0; i < 40; i++) {
			double value = sin((double) (k * 40 + i)) + (k == 1234 && i == 20 ? 1e6 : 0) -
				       (k == 99 && i == 3 ? 1e6 : 0);

			framebuf_series(&o.b,
				&(struct series_value) { i % 2 ? "a" : "b",
					k == 777 && i == 8 ? (double) NAN : value, true,
					(int64_t) (k * 40 + i) });
		}
		flood_tick(&o, FRAME_USER, 0);
	}
	sim_end(&o.s);
	flood_end(&o);
	assert_true(sql_int(o.f.file, "SELECT count(*) FROM series_value") < 20000);
	assert_true(sql_int(o.f.file, "SELECT count(*) FROM series_value") > 500);
	assert_int_equal(sql_int(o.f.file, "SELECT step FROM series_value ORDER BY value DESC LIMIT 1"),
		1234 * 40 + 20);
	assert_int_equal(
		sql_int(o.f.file,
			"SELECT step FROM series_value WHERE value IS NOT NULL ORDER BY value LIMIT 1"),
		99 * 40 + 3);
	assert_int_equal(
		sql_int(o.f.file,
			"SELECT count(*) FROM series_value WHERE value IS NULL AND step = 777 * 40 + 8"),
		1);
	/* No value was changed. */
	assert_int_equal(
		sql_int(o.f.file,
			"SELECT count(*) FROM series_value WHERE abs(value) > 1.0 AND abs(value) < 900000"),
		0);
	flood_done(&o);
}

static void events_are_bounded_and_a_kill_stays(void **state)
{
	struct flood o;

	(void) state;
	flood_begin(&o);
	for (uint64_t k = 0; k < 4000; k++) {
		const uint64_t now = sim_time(&o.s, o.s.k);

		for (unsigned i = 0; i < 8; i++)
			framebuf_event(&o.b,
				&(struct event) { .time_ns = now,
					.kind = EVENT_ALERT,
					.entity = ENTITY_JOB,
					.text = "an alert of some length, to fill the table" });
		for (unsigned i = 0; k == 5 && i < 60; i++)
			framebuf_event(&o.b,
				&(struct event) { .time_ns = now,
					.kind = EVENT_MARK,
					.entity = ENTITY_JOB,
					.text = i < 10 ? "early" : "late" });
		framebuf_event(&o.b,
			&(struct event) { .time_ns = now,
				.kind = k % 2 ? EVENT_PHASE_END : EVENT_PHASE_BEGIN,
				.entity = ENTITY_JOB,
				.phase = 1 + (uint32_t) k / 2,
				.text = "phase" });
		if (k == 10)
			framebuf_event(&o.b,
				&(struct event) { .time_ns = now,
					.kind = EVENT_OOM,
					.entity = ENTITY_JOB,
					.text = "killed" });
		if (k == 10)
			framebuf_event(&o.b,
				&(struct event) { .time_ns = now,
					.kind = EVENT_NOTE,
					.entity = ENTITY_GPU,
					.id = 1,
					.text = "gpu.energy: summed" });
		if (k == 10)
			framebuf_event(&o.b,
				&(struct event) { .time_ns = now,
					.kind = EVENT_NOTE,
					.entity = ENTITY_GPU,
					.id = 1,
					.text = "gpu: other" });
		if (k == 0)
			framebuf_event(&o.b,
				&(struct event) { .time_ns = now,
					.kind = EVENT_PHASE_BEGIN,
					.entity = ENTITY_JOB,
					.phase = 100000,
					.text = "all" });
		flood_tick(&o, FRAME_USER, 0);
	}
	flood_end(&o);
	assert_true(sql_int(o.f.file, "SELECT count(*) FROM event") < 20000);
	assert_int_equal(sql_int(o.f.file, "SELECT count(*) FROM event WHERE kind = 'oom'"), 1);
	assert_int_equal(sql_int(o.f.file, "SELECT count(*) FROM event WHERE kind = 'mark'"), MARKS_KEPT);
	assert_int_equal(
		sql_int(o.f.file, "SELECT count(*) FROM event WHERE kind = 'mark' AND text = 'late'"),
		MARKS_KEPT);
	assert_int_equal(
		sql_int(o.f.file,
			"SELECT count(*) FROM event WHERE kind = 'note' AND text = 'gpu.energy: summed'"),
		1);
	assert_int_equal(sql_int(o.f.file, "SELECT count(*) FROM event WHERE kind = 'note'"), 1);
	/* it is still open */
	assert_int_equal(sql_int(o.f.file, "SELECT count(*) FROM event WHERE phase = 100000"), 1);
	assert_int_equal(
		sql_int(o.f.file,
			"SELECT count(*) FROM event e WHERE kind = 'phase-end' AND NOT EXISTS"
			" (SELECT 1 FROM event b WHERE b.kind = 'phase-begin' AND b.phase = e.phase)"),
		0);
	flood_done(&o);
}

/* One process after the other, each with a long command. */
static void short_processes_are_bounded(void **state)
{
	struct flood o;
	char command[300];

	(void) state;
	memset(command, 'c', sizeof(command) - 1);
	command[sizeof(command) - 1] = '\0';
	flood_begin(&o);
	for (uint64_t k = 0; k < 3000; k++) {
		for (unsigned i = 0; i < 4; i++) {
			const uint32_t id = 10 + 4 * (uint32_t) k + i;
			struct birth birth = { .entity = ENTITY_PROCESS, .id = id };

			birth.process.name = "short";
			birth.process.command = command;
			framebuf_birth(&o.b, &birth);
			framebuf_value(&o.b, M_PROC_RSS, id, id == 999 ? 9000 * MB : MB);
			framebuf_end(&o.b, &(struct end) { .entity = ENTITY_PROCESS, .id = id });
		}
		flood_tick(&o, FRAME_PROCFS, SEC);
	}
	flood_end(&o);
	assert_true(sql_int(o.f.file, "SELECT count(*) FROM process") < 1800);
	assert_int_equal(sql_int(o.f.file, "SELECT count(*) FROM process WHERE is_main"), 1);
	assert_int_equal(sql_int(o.f.file, "SELECT count(*) FROM job_sample WHERE t < 2000000000"), 1);
	flood_done(&o);
}

/* More processes than have their own rows: the shared row is merged like any other. */
static void the_others_are_thinned_too(void **state)
{
	struct rig_folder f;
	struct writer_rig w;
	struct sim s;
	int64_t used;

	(void) state;
	folder_new(&f);
	sim_new(&s, 500 * MS, SEC, 12, false);
	writer_rig_new(&w, &s, f.file, 600000, 5 * SEC, 4);
	for (uint64_t k = 0; k < 6000; k++) {
		sim_tick(&s);
		if (s.k % 2) {
			writer_rig_give(&w, false);
			expect_within(f.file, 600000, &s);
		}
	}
	writer_rig_finish(&w);
	assert_int_equal(w.writer.result, 0);
	writer_rig_done(&w);
	expect_sound(f.file);
	/* The main process, 5, 9 and a fourth have their own rows; the sum of the others never
	 * decreases. */
	assert_int_equal(
		sql_int(f.file,
			"SELECT count(*) FROM (SELECT cpu_user, lag(cpu_user) OVER (ORDER BY t) AS before"
			" FROM process_sample WHERE id = 0) WHERE cpu_user < before"),
		0);
	used = sql_int(f.file, "SELECT max(cpu_user) FROM process_sample WHERE id = 0");
	assert_true(used > 0);
	assert_true(sql_int(f.file, "SELECT max(rss_max) FROM process_sample WHERE id = 0") >=
		    sim_rss(2, 0) * 3 + sim_rss(4, 0) * 3);
	sim_done(&s);
	folder_done(&f);
}

/* ---- readers --------------------------------------------------------------------------------- */

/* A reader that keeps its transaction makes the journal grow, up to the limit; then writing
 * waits for the reader. Nothing is lost meanwhile except frames that do not fit into the queue. */
static void a_reader_that_stays_stops_it_at_the_limit(void **state)
{
	const uint64_t limit = 1 << 20;
	struct queue_state ignored;
	struct rig_folder f;
	struct writer_rig w;
	struct chunk *chunk = NULL;
	struct sim s;
	sqlite3 *db = NULL;
	bool blocked = false;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 4, true);
	writer_rig_new(&w, &s, f.file, limit, 300 * SEC, 200);
	while (s.k < 20)
		sim_tick(&s);
	writer_rig_give(&w, false);
	assert_int_equal(sqlite3_open_v2(f.file, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM meta", NULL, NULL, NULL), SQLITE_OK);
	while (!blocked) {
		assert_true(s.k < 100000);
		do
			sim_tick(&s);
		while (s.k % 10);
		queue_push(&w.queue, true);
		for (chunk = queue_pop(&w.queue, 0, &ignored); chunk && !blocked;) {
			struct chunk *next = chunk->next;

			blocked = !writer_apply(&w.writer, chunk, false);
			if (blocked)
				break;
			queue_return(&w.queue, chunk);
			chunk = next;
		}
		/* The rows of one window may exceed it. */
		assert_true(disk_bytes(f.file) < limit + (200 << 10));
	}
	assert_true(disk_bytes(f.file) > limit / 2);
	assert_false(w.writer.failed);
	assert_false(writer_apply(&w.writer, chunk, false));
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	while (chunk) {
		struct chunk *next = chunk->next;

		assert_true(writer_apply(&w.writer, chunk, false));
		queue_return(&w.queue, chunk);
		chunk = next;
	}
	while (s.k % 10 || s.k < 20)
		sim_tick(&s);
	writer_rig_give(&w, false);
	expect_within(f.file, limit, &s);
	assert_int_equal(sql_int(f.file, "SELECT value FROM meta WHERE key = 'last_ns'"),
		(int64_t) sim_time(&s, s.k - 1));
	sim_end(&s);
	writer_rig_finish(&w);
	assert_int_equal(w.writer.result, 0);
	writer_rig_done(&w);
	expect_sound(f.file);
	sim_done(&s);
	folder_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_run_keeps_its_limit_and_its_truth),
		cmocka_unit_test(thinned_and_whole_say_the_same),
		cmocka_unit_test(the_oldest_windows_are_the_widest),
		cmocka_unit_test(rows_of_slow_looks_do_not_overlap),
		cmocka_unit_test(gaps_stay_gaps),
		cmocka_unit_test(a_busy_machine_keeps_the_limit),
		cmocka_unit_test(the_full_rate_has_its_share),
		cmocka_unit_test(what_was_around_a_trigger_stays),
		cmocka_unit_test(many_triggers_are_bounded),
		cmocka_unit_test(extremes_of_series_stay),
		cmocka_unit_test(events_are_bounded_and_a_kill_stays),
		cmocka_unit_test(short_processes_are_bounded),
		cmocka_unit_test(the_others_are_thinned_too),
		cmocka_unit_test(a_reader_that_stays_stops_it_at_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
