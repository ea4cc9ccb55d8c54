/* SPDX-License-Identifier: MIT
 *
 * Timelines: values known by construction, compared live, stored, cut off and replayed.
 */
#include <math.h>

#include "writer_rig.h"

static const struct job_config config = { .page_bytes = 4096, .fault_page_bytes = 4096, .ours = true };

static void apply(struct job *job, struct framebuf *buf, uint64_t time_ns, uint64_t hold_ns)
{
	const struct frame frame = framebuf_frame(buf, FRAME_TOTALS, time_ns, hold_ns);

	assert_int_equal(job_apply(job, &frame), 0);
	framebuf_clear(buf);
}

static int64_t anon_at(uint64_t second)
{
	return 100 * MB + (int64_t) (second * 7919 % 1000) * 4096;
}

/* A gauge that is read each second and valid until the next second: each bucket has the values
 * of its seconds. */
static void expect_seconds(const struct job *job, uint64_t seconds)
{
	const struct timeline *c = job_timeline(job, M_JOB_ANON, 0);
	const uint64_t wide = job_timeline_span(job) / SEC;

	assert_non_null(c);
	assert_int_equal(job_timeline_span(job) % SEC, 0);
	for (uint64_t place = 0; place < TIMELINE_BUCKETS; place++) {
		const struct timeline_bucket *b = &c->buckets[place];
		int64_t min = INT64_MAX, max = 0;
		double sum = 0;
		uint64_t n = 0;

		for (uint64_t s = place * wide; s < (place + 1) * wide && s < seconds; s++, n++) {
			min = anon_at(s) < min ? anon_at(s) : min;
			max = anon_at(s) > max ? anon_at(s) : max;
			sum += (double) anon_at(s);
		}
		assert_int_equal(b->known, n > 0);
		assert_int_equal(b->cover_ns, n * SEC);
		if (n == 0)
			continue;
		assert_int_equal(b->min, min);
		assert_int_equal(b->max, max);
		assert_true(fabs(timeline_mean(b) - sum / (double) n) < 1);
	}
}

static void a_gauge_is_what_was_read(void **state)
{
	static const uint64_t lengths[] = { 1, 50, 128, 129, 256, 257, 5000 };

	(void) state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct job *job = job_new(&config);
		struct framebuf buf = { 0 };

		for (uint64_t s = 0; s < lengths[i]; s++) {
			framebuf_value(&buf, M_JOB_ANON, 0, anon_at(s));
			apply(job, &buf, s * SEC, 3 * SEC);
		}
		job_end(job, lengths[i] * SEC, &buf);
		expect_seconds(job, lengths[i]);
		/* At least half of the buckets are used once there are as many seconds. */
		assert_true(
			lengths[i] / (job_timeline_span(job) / SEC) >= (lengths[i] < 64 ? lengths[i] : 64));
		framebuf_done(&buf);
		job_free(job);
	}
}

static void silence_is_no_level(void **state)
{
	struct job *job = job_new(&config);
	const struct timeline_bucket *b;
	struct framebuf buf = { 0 };

	(void) state;
	framebuf_value(&buf, M_JOB_ANON, 0, 5 * MB);
	apply(job, &buf, 0, 2 * SEC);
	framebuf_value(&buf, M_JOB_ANON, 0, 7 * MB);
	apply(job, &buf, 10 * SEC + SEC / 2, 3 * SEC);
	framebuf_unknown(&buf, M_JOB_ANON, 0);
	apply(job, &buf, 12 * SEC, 3 * SEC);
	b = job_timeline(job, M_JOB_ANON, 0)->buckets;
	assert_int_equal(b[1].cover_ns, SEC);
	for (int i = 2; i < 10; i++)
		assert_false(b[i].known);
	assert_int_equal(b[10].cover_ns, SEC / 2);
	assert_int_equal(b[11].cover_ns, SEC);
	assert_false(b[12].known);
	assert_int_equal(b[11].max, 7 * MB);
	framebuf_done(&buf);
	job_free(job);
}

static void a_counter_is_its_rate(void **state)
{
	struct job *job = job_new(&config);
	struct framebuf buf = { 0 };
	const struct timeline *c;
	double sum = 0;

	(void) state;
	/* Two cores for 100 s, then half a core; sampled every two seconds, not at the edges of
	 * buckets. */
	for (int64_t s = 0; s <= 300; s += 2) {
		framebuf_value(&buf, M_JOB_CPU_USER, 0,
			5 + (s < 100 ? 2000 * s : 200000 + 500 * (s - 100)) * (int64_t) MS);
		apply(job, &buf, (uint64_t) s * SEC + 300 * MS, 3 * SEC);
	}
	c = job_timeline(job, M_JOB_CPU_USER, 0);
	assert_int_equal(job_timeline_span(job), 4 * SEC);
	for (int i = 0; i < TIMELINE_BUCKETS; i++) {
		const struct timeline_bucket *b = &c->buckets[i];

		sum += b->sum;
		if (b->known)
			assert_true(fabs(timeline_mean(b) - (i < 25 ? 2 : 0.5)) < (i == 25 ? 0.2 : 1e-9));
	}
	assert_true(fabs(sum - 300000 * (double) MS) < 1000);
	assert_int_equal(c->buckets[3].max, 2000 * MS);
	assert_int_equal(c->buckets[50].min, 500 * MS);
	framebuf_done(&buf);
	job_free(job);
}

static void apply_mean(
	struct job *job, struct framebuf *buf, uint64_t time_ns, uint64_t span_ns, int64_t value)
{
	struct reading mean = reading_of(M_GPU_GRAPHICS_ACTIVE, 1, value);

	mean.span_ns = span_ns;
	framebuf_reading(buf, mean);
	apply(job, buf, time_ns, 3 * SEC);
}

/* Nine seconds of 0 and one of 1, as live means over the time before. */
static void a_live_mean_is_drawn_before_its_frame(void **state)
{
	struct job *job = job_new(&config);
	struct framebuf buf = { 0 };
	const struct timeline_bucket *b;

	(void) state;
	apply_mean(job, &buf, 9 * SEC, 9 * SEC, 0);
	apply_mean(job, &buf, 10 * SEC, SEC, 1000000);
	job_end(job, 12 * SEC, &buf);
	assert_int_equal(job_timeline_span(job), SEC);
	b = job_timeline(job, M_GPU_GRAPHICS_ACTIVE, 1)->buckets;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(b[i].cover_ns, SEC);
		assert_true(b[i].known && fabs(timeline_mean(&b[i]) - (i < 9 ? 0 : 1000000)) < 1e-6);
		assert_int_equal(b[i].min, i < 9 ? 0 : 1000000);
		assert_int_equal(b[i].max, i < 9 ? 0 : 1000000);
	}
	for (int i = 10; i < TIMELINE_BUCKETS; i++)
		assert_false(b[i].known);
	framebuf_done(&buf);
	job_free(job);
}

/* A mean that covers parts of two buckets, the first before any other value. */
static void a_live_mean_is_shared_by_buckets(void **state)
{
	struct job *job = job_new(&config);
	struct framebuf buf = { 0 };
	const struct timeline_bucket *b;

	(void) state;
	apply_mean(job, &buf, 5 * SEC + 250 * MS, 500 * MS, 600000);
	apply_mean(job, &buf, 6 * SEC + 250 * MS, SEC, 200000);
	b = job_timeline(job, M_GPU_GRAPHICS_ACTIVE, 1)->buckets;
	assert_false(b[3].known);
	assert_int_equal(b[4].cover_ns, 250 * MS);
	assert_int_equal(b[4].max, 600000);
	assert_int_equal(b[5].cover_ns, SEC);
	assert_true(fabs(timeline_mean(&b[5]) - (0.25 * 600000 + 0.75 * 200000)) < 1e-6);
	assert_int_equal(b[6].cover_ns, 250 * MS);
	assert_int_equal(b[6].max, 200000);
	assert_false(b[7].known);
	framebuf_done(&buf);
	job_free(job);
}

/* A driver takes its samples some time after the frame's time, not always the same: the times between them
 * are not exactly those between frames. A bucket covers no more than its own time, and a recording has it. */
static void live_means_overlap_a_little(void **state)
{
	static const int64_t late_ms[] = { 1, 6, 2, 9, 3, 3, 8, 1 };
	struct job *job = job_new(&config), *restored;
	struct framebuf buf = { 0 };
	const struct timeline *c;
	struct rig_folder f;
	struct replay *replay;
	struct record *record;

	(void) state;
	folder_new(&f);
	record = rig_record(&(struct record_options) {
		.path = f.file, .window_ns = SEC, .max_bytes = 64000000, .queue_bytes = 1 << 24 });
	for (uint64_t s = 1; s <= 64; s++) {
		const int64_t more_ms = late_ms[s % 8] - late_ms[(s - 1) % 8];

		apply_mean(job, &buf, s * SEC + 500 * MS, (uint64_t) (1000 + more_ms) * MS, 700000);
	}
	c = job_timeline(job, M_GPU_GRAPHICS_ACTIVE, 1);
	for (uint64_t s = 1; s <= 64; s++) {
		const struct timeline_bucket *b = &c->buckets[s];

		assert_true(b->known && b->cover_ns <= SEC);
		if (s < 64)
			assert_true(b->cover_ns >= SEC - 10 * MS);
		assert_true(fabs(timeline_mean(b) - 700000) < 1e-6);
	}
	job_facts(job)->ended_ns = known(65 * (int64_t) SEC);
	job_end(job, 65 * SEC, &buf);
	rig_finish(record, job);
	assert_int_equal(replay_open(f.file, &replay, NULL), 0);
	assert_int_equal(replay_job(replay, &restored, NULL), 0);
	assert_int_equal(expect_same_timeline(job, restored), 65);
	replay_close(replay);
	folder_done(&f);
	framebuf_done(&buf);
	job_free(restored);
	job_free(job);
}

static void what_is_not_followed_has_none(void **state)
{
	struct job *job = job_new(&config);
	struct framebuf buf = { 0 };

	(void) state;
	assert_null(job_timeline(job, M_JOB_ANON, 0));
	assert_int_equal(job_timeline_span(job), 0);
	framebuf_value(&buf, M_HOST_LOAD1, 0, 1);
	framebuf_value(&buf, M_HOST_CPU_USER, 3, 1);
	apply(job, &buf, 0, SEC);
	assert_null(job_timeline(job, M_HOST_LOAD1, 0));
	assert_null(job_timeline(job, M_HOST_CPU_USER, 3));
	framebuf_done(&buf);
	job_free(job);
}

/* As after kill -9: only the last commit is known. */
static void a_recording_has_it_at_every_commit(void **state)
{
	struct writer_rig w;
	struct rig_folder f;
	struct sim s;
	unsigned most = 0;

	(void) state;
	folder_new(&f);
	sim_new(&s, 500 * MS, SEC, 2, true);
	writer_rig_new(&w, &s, f.file, 64000000, 20 * SEC, 200);
	while (s.k < 1200) {
		struct replay *r;
		struct job *job;

		sim_tick(&s);
		if (sim_time(&s, s.k - 1) / SEC == sim_time(&s, s.k) / SEC)
			continue;
		writer_rig_give(&w, false);
		if (s.k < 4 || (s.k % 100 > 4 && s.k % 256 > 6))
			continue;
		assert_int_equal(replay_open(f.file, &r, NULL), 0);
		assert_int_equal(replay_job(r, &job, NULL), 0);
		most = expect_same_timeline(s.job, job);
		job_free(job);
		replay_close(r);
	}
	assert_true(most > TIMELINE_BUCKETS / 2);
	sim_end(&s);
	writer_rig_totals(&w, s.job);
	writer_rig_finish(&w);
	writer_rig_done(&w);
	sim_done(&s);
	folder_done(&f);
}

static bool apply_frame(void *ctx, const struct frame *frame)
{
	return job_apply(ctx, frame) == 0;
}

/* Windows have the same amounts as their samples. */
static void replayed_windows_make_it_too(void **state)
{
	const enum metric which[] = { M_JOB_ANON, M_JOB_CPU_USER, M_JOB_CPU_SYSTEM };
	struct rig_folder f;
	struct replay *r;
	struct job *job = job_new(&config);
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 3, true);
	rig_run(f.file, &s, 6000, 0);
	assert_int_equal(replay_open(f.file, &r, NULL), 0);
	assert_int_equal(replay_frames(r, false, apply_frame, job, NULL), 0);
	assert_int_equal(job_timeline_span(job), job_timeline_span(s.job));
	for (size_t i = 0; i < sizeof(which) / sizeof(which[0]); i++) {
		const struct timeline *a = job_timeline(s.job, which[i], 0),
				      *b = job_timeline(job, which[i], 0);

		for (int place = 1; place < TIMELINE_BUCKETS - 1; place++) {
			const double live = timeline_mean(&a->buckets[place]),
				     again = timeline_mean(&b->buckets[place]);

			if (a->buckets[place + 1].known && fabs(live - again) > fabs(live) / 50)
				fail_msg("%s, bucket %d: %g live, %g again", metrics[which[i]].name, place,
					live, again);
		}
	}
	replay_close(r);
	job_free(job);
	sim_done(&s);
	folder_done(&f);
}

/* The contents of a file are not trusted. */
static void nonsense_is_left_out(void **state)
{
	struct job *job = job_new(&config);
	const struct timeline_bucket b = { .known = true, .cover_ns = 1, .min = 1, .max = 2, .sum = 3 };

	(void) state;
	assert_int_equal(job_restore_bucket(job, M_HOST_LOAD1, 0, 0, SEC, &b), 0);
	assert_int_equal(job_restore_bucket(job, M_JOB_ANON, 7, 0, SEC, &b), 0);
	assert_int_equal(job_restore_bucket(job, M_JOB_ANON, 0, 8 * SEC, 4 * SEC, &b), 0);
	assert_int_equal(job_restore_bucket(job, M_JOB_ANON, 0, 16 * SEC, 8 * SEC, &b), 0);
	assert_int_equal(job_restore_bucket(job, M_JOB_ANON, 0, (uint64_t) INT64_MAX, 4 * SEC, &b), 0);
	assert_int_equal(job_timeline_span(job), 4 * SEC);
	assert_true(job_timeline(job, M_JOB_ANON, 0)->buckets[2].known);
	for (int i = 3; i < TIMELINE_BUCKETS; i++)
		assert_false(job_timeline(job, M_JOB_ANON, 0)->buckets[i].known);
	job_free(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gauge_is_what_was_read),
		cmocka_unit_test(silence_is_no_level),
		cmocka_unit_test(a_counter_is_its_rate),
		cmocka_unit_test(a_live_mean_is_drawn_before_its_frame),
		cmocka_unit_test(a_live_mean_is_shared_by_buckets),
		cmocka_unit_test(live_means_overlap_a_little),
		cmocka_unit_test(what_is_not_followed_has_none),
		cmocka_unit_test(a_recording_has_it_at_every_commit),
		cmocka_unit_test(replayed_windows_make_it_too),
		cmocka_unit_test(nonsense_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
