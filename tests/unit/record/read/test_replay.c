/* SPDX-License-Identifier: MIT */
#include "replay_rig.h"

/* ---- the job --------------------------------------------------------------------------------- */

static void expect_acc(const struct acc *a, const struct acc *b)
{
	assert_int_equal(!a, !b);
	if (!a)
		return;
	assert_int_equal(a->n, b->n);
	assert_int_equal(a->min, b->min);
	assert_int_equal(a->max, b->max);
	assert_int_equal(a->max_at_ns, b->max_at_ns);
	assert_int_equal(a->last, b->last);
	assert_int_equal(a->last_at_ns, b->last_at_ns);
	assert_int_equal(a->hold_ns, b->hold_ns);
	assert_true(!(a->sum < b->sum) && !(a->sum > b->sum));
	assert_int_equal(a->span_ns, b->span_ns);
}

static void expect_process(const struct process *a, const struct process *b)
{
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(a->id, b->id);
	assert_int_equal(a->parent, b->parent);
	assert_int_equal(a->pid, b->pid);
	assert_int_equal(a->ppid, b->ppid);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->start_ns, b->start_ns);
	assert_int_equal(a->born_ns, b->born_ns);
	assert_int_equal(a->ended_ns, b->ended_ns);
	assert_int_equal(a->is_main, b->is_main);
	assert_int_equal(a->ended, b->ended);
	assert_int_equal(a->how, b->how);
	assert_int_equal(a->status_known, b->status_known);
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->command, b->command);
	assert_int_equal(a->peak_bytes, b->peak_bytes);
	assert_int_equal(a->peak_exact, b->peak_exact);
	assert_int_equal(a->cpu_user_ns, b->cpu_user_ns);
	assert_int_equal(a->read_bytes, b->read_bytes);
	assert_int_equal(a->io_known, b->io_known);
	assert_int_equal(a->cpu_known, b->cpu_known);
	assert_int_equal(a->split_known, b->split_known);
}

static void expect_same_job(const struct job *a, const struct job *b)
{
	const struct facts *f = job_facts_const(a), *g = job_facts_const(b);

	for (int m = 0; m < METRIC_COUNT; m++)
		expect_acc(job_acc(a, (enum metric) m, 0), job_acc(b, (enum metric) m, 0));
	assert_int_equal(job_process_count(a), job_process_count(b));
	for (size_t i = 0; i < job_process_count(a); i++)
		expect_process(job_process(a, i), job_process_by_id(b, job_process(a, i)->id));
	assert_int_equal(job_now(a), job_now(b));
	assert_int_equal(job_alive(a), job_alive(b));
#define F_INT(name) \
	assert_int_equal(f->name.known, g->name.known); \
	if (f->name.known) \
		assert_int_equal(f->name.value, g->name.value);
#define F_TEXT(name) \
	if (strcmp(#name, "recording") != 0) { \
		assert_int_equal(!f->name, !g->name); \
		if (f->name) \
			assert_string_equal(f->name, g->name); \
	}
#define F(kind, name, sentence) F_##kind(name)
#include "model/facts.def"
#undef F
#undef F_INT
#undef F_TEXT
	assert_int_equal(job_event_count(a), job_event_count(b));
	for (size_t i = 0; i < job_event_count(a); i++) {
		assert_int_equal(job_event(a, i)->kind, job_event(b, i)->kind);
		assert_int_equal(job_event(a, i)->cause, job_event(b, i)->cause);
		assert_int_equal(job_event(a, i)->time_ns, job_event(b, i)->time_ns);
		assert_string_equal(job_event(a, i)->text, job_event(b, i)->text);
	}
	assert_int_equal(job_series_count(a), job_series_count(b));
	for (size_t i = 0; i < job_series_count(a); i++) {
		const struct series *s = job_series(a, i), *t = job_series(b, i);

		assert_string_equal(s->name, t->name);
		assert_int_equal(s->n, t->n);
		assert_int_equal(isnan(s->last), isnan(t->last));
		assert_true(isnan(s->min) ? isnan(t->min) : !(s->min < t->min) && !(s->min > t->min));
		assert_int_equal(s->has_step, t->has_step);
		assert_int_equal(s->last_step, t->last_step);
	}
	assert_int_equal(job_phase_count(a), job_phase_count(b));
	for (size_t i = 0; i < job_phase_count(a); i++) {
		const struct phase *p = job_phase(a, i), *q = job_phase(b, i);

		assert_int_equal(p->number, q->number);
		assert_int_equal(p->parent, q->parent);
		assert_string_equal(p->name, q->name);
		assert_int_equal(p->begin_ns, q->begin_ns);
		assert_int_equal(p->end_ns, q->end_ns);
		assert_int_equal(p->ram_known, q->ram_known);
		assert_int_equal(p->ram_before, q->ram_before);
		assert_int_equal(p->ram_peak, q->ram_peak);
		assert_int_equal(p->ram_after, q->ram_after);
		assert_int_equal(p->use.cpu_energy_uj.known, q->use.cpu_energy_uj.known);
		assert_int_equal(p->use.cpu_energy_uj.value, q->use.cpu_energy_uj.value);
		assert_int_equal(p->use.gpu_peak.known, q->use.gpu_peak.known);
		assert_int_equal(p->use.work[GPU_WORK_BUSY].value, q->use.work[GPU_WORK_BUSY].value);
	}
}

/* Marks, phases and series at sample k. */
static void the_job_is_as_it_was(void **state)
{
	struct rig_folder f;
	struct job *job;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 5, true);
	run_with_words(f.file, &s, 95);
	job = read_job(f.file);
	expect_same_job(s.job, job);
	assert_string_equal(job_facts(job)->recording, f.file);
	job_free(job);
	sim_done(&s);
	folder_done(&f);
}

/* ---- after a kill ---------------------------------------------------------------------------- */

static void drop_frame(void *ctx, const struct frame *frame)
{
	(void) ctx;
	(void) frame;
}

/* Records window after window; reports each commit to the parent and waits for permission to
 * continue. */
static void record_until_killed(const char *file, int tell, int go_on)
{
	struct writer_rig w;
	struct sim s;
	char byte;

	sim_new(&s, 100 * MS, SEC, 3, true);
	writer_rig_new(&w, &s, file, 64000000, 300 * SEC, 200);
	for (;;) {
		uint64_t commits = w.writer.commits;

		while (w.writer.commits == commits) {
			sim_tick(&s);
			if (sim_time(&s, s.k - 1) / SEC != sim_time(&s, s.k) / SEC)
				writer_rig_give(&w, false);
		}
		if (write(tell, &s.k, sizeof(s.k)) != sizeof(s.k) || read(go_on, &byte, 1) != 1)
			_exit(1);
		/* and data that was not committed */
		sim_tick(&s);
	}
}

static void a_kill_leaves_what_was_committed(void **state)
{
	struct rig_folder f;
	int tell[2], go_on[2], status;
	uint64_t ticks = 0;
	struct replay *r;
	struct job *job;
	pid_t child;

	(void) state;
	folder_new(&f);
	assert_int_equal(pipe(tell), 0);
	assert_int_equal(pipe(go_on), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		record_until_killed(f.file, tell[1], go_on[0]);
	for (int i = 0; i < 7; i++) {
		assert_int_equal(read(tell[0], &ticks, sizeof(ticks)), sizeof(ticks));
		if (i < 6)
			assert_int_equal(write(go_on[1], "", 1), 1);
	}
	r = open_replay(f.file);
	assert_true(replay_growing(r));
	replay_close(r);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	r = open_replay(f.file);
	assert_false(replay_growing(r));
	assert_int_equal(replay_job(r, &job, NULL), 0);
	replay_close(r);

	/* The same run up to that commit, made here. */
	struct sim s;

	sim_new(&s, 100 * MS, SEC, 3, true);
	s.frame = drop_frame;
	while (s.k < ticks)
		sim_tick(&s);
	expect_same_job(s.job, job);
	assert_false(job_facts(job)->ended_ns.known);
	expect_sound(f.file);
	sim_done(&s);
	job_free(job);
	for (int i = 0; i < 2; i++) {
		(void) close(tell[i]);
		(void) close(go_on[i]);
	}
	folder_done(&f);
}

/* A killed recording on a read-only medium: its journal belongs to it there too. */
static void a_journal_is_read_where_nothing_can_be_written(void **state)
{
	struct rig_folder f;
	struct writer_rig w;
	struct sim s;
	struct job *job;
	struct replay *r;
	char to[160], command[400];

	(void) state;
	folder_new(&f);
	(void) snprintf(to, sizeof(to), "%s/medium", f.path);
	assert_int_equal(mkdir(to, 0700), 0);
	if (mount("none", to, "tmpfs", 0, "size=4m") < 0) {
		print_message("no tmpfs can be mounted here: %s\n", strerror(errno));
		folder_done(&f);
		skip();
	}
	sim_new(&s, 100 * MS, SEC, 2, true);
	writer_rig_new(&w, &s, f.file, 64000000, 300 * SEC, 200);
	for (int k = 0; k < 40; k++) {
		sim_tick(&s);
		if (k % 10 == 9)
			writer_rig_give(&w, false);
	}
	(void) snprintf(command, sizeof(command), "cp %s %s-wal %s", f.file, f.file, to);
	assert_int_equal(system(command), 0);
	writer_rig_done(&w);
	assert_int_equal(mount("none", to, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=4m"), 0);
	(void) snprintf(to, sizeof(to), "%s/medium/run.hiw", f.path);
	r = open_replay(to);
	assert_int_equal(replay_job(r, &job, NULL), 0);
	replay_close(r);
	expect_same_job(s.job, job);
	job_free(job);
	sim_done(&s);
	(void) snprintf(to, sizeof(to), "%s/medium", f.path);
	assert_int_equal(umount(to), 0);
	folder_done(&f);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* The output, by metric and id. */
struct seen {
	struct replay *replay;
	uint64_t last_ns, frames, births, ends, events, values, nans;
	bool born[64], ended[64];
	int64_t rss_max[64], cpu_last[64];
	__int128 rss_sum[64];
	uint64_t rss_cover[64], rss_looks[64], job_rows, rss_readings[64];
	uint64_t stop_after;
};

static void see_reading(struct seen *seen, const struct reading *r)
{
	if (metrics[r->metric].entity == ENTITY_PROCESS && r->id > 0) {
		assert_in_range(r->id, 1, 63);
		assert_true(seen->born[r->id]);
		assert_false(seen->ended[r->id]);
	}
	if (!r->known || r->id > 63)
		return;
	assert_true(r->min <= r->value && r->value <= r->max);
	if (r->metric == M_JOB_RAM)
		seen->job_rows++;
	if (r->metric == M_PROC_RSS) {
		seen->rss_max[r->id] = r->max > seen->rss_max[r->id] ? r->max : seen->rss_max[r->id];
		seen->rss_sum[r->id] += (__int128) r->value * r->span_ns;
		seen->rss_cover[r->id] += r->span_ns;
		seen->rss_looks[r->id] += r->n;
		seen->rss_readings[r->id]++;
	}
	if (r->metric == M_PROC_CPU_USER)
		seen->cpu_last[r->id] = r->value;
}

static bool see_frame(void *ctx, const struct frame *frame)
{
	struct seen *seen = ctx;

	assert_false(frame->live);
	assert_true(frame->time_ns >= seen->last_ns);
	seen->last_ns = frame->time_ns;
	seen->frames++;
	for (size_t i = 0; i < frame->n_births; i++) {
		if (frame->births[i].entity != ENTITY_PROCESS || frame->births[i].id > 63)
			continue;
		assert_false(seen->born[frame->births[i].id]);
		seen->born[frame->births[i].id] = true;
		seen->births++;
	}
	for (size_t i = 0; i < frame->n_readings; i++)
		see_reading(seen, &frame->readings[i]);
	for (size_t i = 0; i < frame->n_ends; i++) {
		if (frame->ends[i].entity == ENTITY_PROCESS && frame->ends[i].id <= 63)
			seen->ended[frame->ends[i].id] = true;
		seen->ends++;
	}
	for (size_t i = 0; i < frame->n_series; i++) {
		assert_string_equal(frame->series[i].name, "loss");
		seen->nans += isnan(frame->series[i].value) != 0;
	}
	seen->events += frame->n_events;
	seen->values += frame->n_series;
	return seen->stop_after == 0 || seen->frames < seen->stop_after;
}

static void play(const char *file, bool recent, struct seen *seen)
{
	struct replay *r = open_replay(file);
	struct err err = { "" };

	if (replay_frames(r, recent, see_frame, seen, &err) < 0)
		fail_msg("%s", err.text);
	replay_close(r);
}

static void frames_come_back(void **state)
{
	const uint64_t ticks = 95;
	struct seen seen = { .last_ns = 0 };
	struct rig_folder f;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 5, true);
	run_with_words(f.file, &s, ticks);
	play(f.file, false, &seen);
	assert_int_equal(seen.births, 5);
	assert_int_equal(seen.ends, 5);
	assert_int_equal(seen.values, ticks);
	assert_int_equal(seen.nans, 1);
	assert_int_equal(seen.events, job_event_count(s.job));
	for (unsigned id = 1; id <= 5; id++) {
		int64_t max = 0;
		__int128 sum = 0, off;

		for (uint64_t k = 0; k < ticks; k++) {
			max = sim_rss(id, k) > max ? sim_rss(id, k) : max;
			sum += (__int128) sim_rss(id, k) * s.tick_ns;
		}
		assert_int_equal(seen.rss_max[id], max);
		assert_int_equal(seen.cpu_last[id], sim_cpu(id, (ticks - 1) / 10 * 10));
		/* An unchanged process has no rows, but values for every window. */
		assert_int_equal(seen.rss_readings[id], ticks / 10 + 1);
		assert_in_range(seen.rss_cover[id], ticks * s.tick_ns - 1 * MS, ticks * s.tick_ns + 1 * MS);
		off = seen.rss_sum[id] > sum ? seen.rss_sum[id] - sum : sum - seen.rss_sum[id];
		assert_true(off < (__int128) 6000 * MB * MS * 2);
	}
	sim_done(&s);
	folder_done(&f);
}

static bool see_causes(void *ctx, const struct frame *frame)
{
	unsigned *causes = ctx;

	for (size_t i = 0; i < frame->n_events; i++) {
		if (frame->events[i].kind == EVENT_NOTE)
			*causes |= 1U << frame->events[i].cause;
	}
	return true;
}

/* From frames, and from the job made of all of them, which agree. */
static unsigned causes_of(const char *file)
{
	struct replay *r = open_replay(file);
	struct job *job = read_job(file);
	unsigned causes = 0, jobs = 0;

	assert_int_equal(replay_frames(r, false, see_causes, &causes, NULL), 0);
	for (size_t i = 0; i < job_event_count(job); i++)
		jobs |= job_event(job, i)->kind == EVENT_NOTE ? 1U << job_event(job, i)->cause : 0;
	assert_int_equal(jobs, causes);
	job_free(job);
	replay_close(r);
	return causes;
}

/* The cause of a note is stored and replayed, also if it is unknown; in an older file it is
 * unknown. */
static void notes_keep_their_causes(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	r = rig_record(&(struct record_options) { .path = f.file, .queue_bytes = 1 << 28 });
	sim_into(&s, r);
	framebuf_event(&s.buf,
		&(struct event) { .time_ns = 1, .kind = EVENT_MARK, .entity = ENTITY_JOB, .text = "m" });
	for (enum note_cause cause = CAUSE_NONE; cause < CAUSE_COUNT; cause++)
		framebuf_event(&s.buf,
			&(struct event) { .time_ns = 1,
				.kind = EVENT_NOTE,
				.entity = ENTITY_GPU,
				.text = "gpu: x",
				.cause = cause });
	sim_send(&s, FRAME_RECORDER, 1, 0);
	sim_tick(&s);
	sim_end(&s);
	rig_finish(r, s.job);
	assert_int_equal(causes_of(f.file), (1U << CAUSE_COUNT) - 1);
	expect_text(f.file,
		"SELECT group_concat(ifnull(cause, '-')) FROM (SELECT cause FROM event ORDER BY rowid)",
		"-,none,device,nvml,amdgpu,drm,helper,helper-ended,-");
	sql_run(f.file, "UPDATE event SET cause = 'later'");
	assert_int_equal(causes_of(f.file), 1U << CAUSE_UNKNOWN);
	sql_run(f.file, "ALTER TABLE event DROP COLUMN cause");
	assert_int_equal(causes_of(f.file), 1U << CAUSE_UNKNOWN);
	sim_done(&s);
	folder_done(&f);
}

static void the_last_minutes_come_back_at_full_rate(void **state)
{
	const uint64_t ticks = 4000; /* 400 s: the first 100 are windows only */
	struct seen seen = { .last_ns = 0 };
	struct rig_folder f;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 3, true);
	run_with_words(f.file, &s, ticks);
	play(f.file, true, &seen);
	/* 95 to 100 windows, then each sample. */
	assert_in_range(seen.job_rows, 3000 + 90, 3100 + 100);
	assert_int_equal(seen.rss_readings[1], seen.job_rows);
	/* One that never changes also has values. */
	assert_int_equal(seen.rss_readings[2], seen.job_rows);
	assert_int_equal(seen.rss_max[1], sim_rss(1, 777));
	sim_done(&s);
	folder_done(&f);

	/* A short run is available at full rate from its first sample to its last. */
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 3, true);
	run_with_words(f.file, &s, 25);
	seen = (struct seen) { .last_ns = 0 };
	play(f.file, true, &seen);
	assert_int_equal(seen.rss_looks[1], 25);
	assert_int_equal(seen.rss_readings[1], 25);
	sim_done(&s);
	folder_done(&f);
}

static void it_stops_when_asked(void **state)
{
	struct seen seen = { .stop_after = 4 };
	struct rig_folder f;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 3, true);
	run_with_words(f.file, &s, 100);
	play(f.file, false, &seen);
	assert_int_equal(seen.frames, 4);
	sim_done(&s);
	folder_done(&f);
}

/* ---- one file -------------------------------------------------------------------------------- */

static void a_copy_is_whole_also_while_it_grows(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct replay *replay;
	struct job *job;
	struct sim s;
	char copy[160];
	struct stat st;

	(void) state;
	folder_new(&f);
	(void) snprintf(copy, sizeof(copy), "%s/copy.hiw", f.path);
	sim_new(&s, 100 * MS, SEC, 3, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	sim_into(&s, r);
	for (int k = 0; k < 100; k++)
		sim_tick(&s);
	for (int i = 0; i < 6000 && !record_path(r); i++)
		(void) usleep(10000);
	assert_non_null(record_path(r));
	replay = open_replay(f.file);
	assert_true(replay_growing(replay));
	assert_int_equal(replay_copy(replay, copy, NULL), 0);
	assert_int_equal(replay_copy(replay, copy, NULL), -EEXIST);
	replay_close(replay);
	assert_int_equal(stat(copy, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	expect_sound(copy);
	expect_text(copy, "PRAGMA journal_mode", "delete");
	assert_int_equal(sql_int(copy, "PRAGMA application_id"), 0x48695761);
	job = read_job(copy);
	assert_true(job_acc(job, M_JOB_RAM, 0) || job_now(job) == 0);
	job_free(job);
	sim_end(&s);
	rig_finish(r, s.job);
	sim_done(&s);
	folder_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_job_is_as_it_was),
		cmocka_unit_test(a_kill_leaves_what_was_committed),
		cmocka_unit_test(a_journal_is_read_where_nothing_can_be_written),
		cmocka_unit_test(frames_come_back),
		cmocka_unit_test(notes_keep_their_causes),
		cmocka_unit_test(the_last_minutes_come_back_at_full_rate),
		cmocka_unit_test(it_stops_when_asked),
		cmocka_unit_test(a_copy_is_whole_also_while_it_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
