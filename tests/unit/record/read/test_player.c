/* SPDX-License-Identifier: MIT
 *
 * Replay in stretches: the same as in one piece, also while recordings grow; from any time on.
 */
#include "record_rig.h"

#include <inttypes.h>

#include "base/buf.h"
#include "writer_rig.h"

/* ---- what was shown, a line a thing ---------------------------------------------------------- */

struct log {
	struct buf text;
	size_t births, ends, frames;
	uint64_t from_ns;     /* earlier frames are not written down */
	uint64_t last_ns;
};

static void note_readings(struct log *log, const struct frame *f)
{
	for (size_t i = 0; i < f->n_readings; i++) {
		const struct reading *r = &f->readings[i];

		(void) buf_printf(&log->text, "%" PRIu64 " %u/%u %d %" PRId64 " %" PRId64 " %" PRId64 "\n",
			f->time_ns, r->metric, r->id, r->known, r->min, r->value, r->max);
	}
}

static bool note(void *ctx, const struct frame *f)
{
	struct log *log = ctx;

	assert_true(f->time_ns >= log->last_ns);
	log->last_ns = f->time_ns;
	log->frames++;
	log->births += f->n_births;
	log->ends += f->n_ends;
	if (f->time_ns < log->from_ns)
		return true;
	note_readings(log, f);
	for (size_t i = 0; i < f->n_events; i++)
		(void) buf_printf(&log->text, "%" PRIu64 " %s %s\n", f->time_ns,
			event_name(f->events[i].kind), f->events[i].text);
	for (size_t i = 0; i < f->n_series; i++)
		(void) buf_printf(&log->text, "%" PRIu64 " %s %.17g\n", f->time_ns, f->series[i].name,
			f->series[i].value);
	return true;
}

static struct log log_new(void)
{
	return (struct log) { .text = BUF_INIT(64 << 20) };
}

static struct replay *opened(const char *file)
{
	struct replay *r = NULL;
	struct err err = { "" };

	if (replay_open(file, &r, &err) < 0)
		fail_msg("%s", err.text);
	return r;
}

static struct log whole(const char *file, uint64_t from_ns)
{
	struct replay *r = opened(file);
	struct log log = log_new();

	log.from_ns = from_ns;
	assert_int_equal(replay_frames(r, false, note, &log, NULL), 0);
	replay_close(r);
	return log;
}

/* With a mark and a value of a series now and then. */
static void speaking_tick(struct sim *s)
{
	const uint64_t now = sim_time(s, s->k);

	if (s->k % 13 == 0) {
		framebuf_event(&s->buf,
			&(struct event) {
				.time_ns = now, .kind = EVENT_MARK, .entity = ENTITY_JOB, .text = "m" });
		framebuf_series(&s->buf,
			&(struct series_value) { "loss", 1.0 / (double) (s->k + 1), true, (int64_t) s->k });
		sim_send(s, FRAME_USER, now, 0);
	}
	sim_tick(s);
}

static void record_run(const char *file, uint64_t ticks)
{
	struct record *r;
	struct sim s;

	sim_new(&s, 100 * MS, SEC, 5, true);
	r = rig_record(&(struct record_options) { .path = file, .queue_bytes = 1 << 28 });
	sim_into(&s, r);
	for (uint64_t k = 0; k < ticks; k++)
		speaking_tick(&s);
	sim_end(&s);
	rig_finish(r, s.job);
	sim_done(&s);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void stretches_make_the_whole(void **state)
{
	struct log expected, log = log_new();
	struct rig_folder f;
	struct player *p;
	struct replay *r;

	(void) state;
	folder_new(&f);
	record_run(f.file, 300);
	expected = whole(f.file, 0);
	r = opened(f.file);
	assert_int_equal(player_new(r, note, &log, &p), 0);
	for (uint64_t t = 0; t <= 31 * SEC; t += 700 * MS)
		assert_int_equal(player_to(p, t, NULL), 0);
	assert_true(log.frames > 90);
	assert_string_equal(log.text.data, expected.text.data);
	assert_int_equal(log.births, 5);
	assert_int_equal(log.ends, 5);
	assert_int_equal(player_to(p, UINT64_MAX, NULL), 0);
	assert_int_equal(log.text.len, expected.text.len);
	player_free(p);
	replay_close(r);
	buf_done(&log.text);
	buf_done(&expected.text);
	folder_done(&f);
}

/* Each commit is followed; the total output equals that of the finished file. */
static void it_follows_what_grows(void **state)
{
	struct log expected, log = log_new();
	struct player *p = NULL;
	struct replay *r = NULL;
	struct rig_folder f;
	struct writer_rig w;
	struct sim s;
	unsigned grew = 0;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 5, true);
	writer_rig_new(&w, &s, f.file, 64000000, 300 * SEC, 200);
	for (uint64_t window = 0; window < 20; window++) {
		const size_t before = log.text.len;

		for (int i = 0; i < 10; i++)
			speaking_tick(&s);
		writer_rig_give(&w, false);
		if (!p && access(f.file, F_OK) == 0) {
			r = opened(f.file);
			assert_int_equal(player_new(r, note, &log, &p), 0);
		}
		if (p)
			assert_int_equal(player_to(p, UINT64_MAX, NULL), 0);
		grew += log.text.len > before;
	}
	assert_true(grew > 15);
	assert_int_equal(log.ends, 0);
	sim_end(&s);
	writer_rig_totals(&w, s.job);
	writer_rig_finish(&w);
	assert_int_equal(player_to(p, UINT64_MAX, NULL), 0);
	expected = whole(f.file, 0);
	assert_string_equal(log.text.data, expected.text.data);
	assert_int_equal(log.births, 5);
	assert_int_equal(log.ends, 5);
	player_free(p);
	replay_close(r);
	buf_done(&log.text);
	buf_done(&expected.text);
	writer_rig_done(&w);
	sim_done(&s);
	folder_done(&f);
}

struct state {
	size_t births, sizes, frames;
	int64_t rss[6];
};

static bool note_state(void *ctx, const struct frame *f)
{
	struct state *s = ctx;

	if (f->time_ns > 20 * SEC)
		return true;
	s->frames++;
	s->births += f->n_births;
	for (size_t i = 0; i < f->n_readings; i++) {
		const struct reading *r = &f->readings[i];

		if (r->metric != M_PROC_RSS || r->id > 5)
			continue;
		s->sizes++;
		s->rss[r->id] = r->value;
	}
	return true;
}

static void it_goes_to_any_time(void **state)
{
	struct log expected, log = log_new();
	struct state at = { 0 };
	struct rig_folder f;
	struct player *p;
	struct replay *r;

	(void) state;
	folder_new(&f);
	record_run(f.file, 300);
	expected = whole(f.file, 20 * SEC + 1);
	r = opened(f.file);
	assert_int_equal(player_new(r, note_state, &at, &p), 0);
	assert_int_equal(player_seek(p, 20 * SEC, NULL), 0);
	assert_int_equal(at.frames, 1);
	assert_int_equal(at.births, 5);
	assert_int_equal(at.sizes, 5);
	assert_true(at.rss[1] >= 3000 * MB);
	assert_int_equal(at.rss[2], 100 * MB); /* it never changed: its only row is the first */
	player_free(p);

	assert_int_equal(player_new(r, note, &log, &p), 0);
	assert_int_equal(player_to(p, 25 * SEC, NULL), 0);
	buf_clear(&log.text);
	log.last_ns = 0;
	assert_int_equal(player_seek(p, 20 * SEC, NULL), 0); /* back */
	log.from_ns = 20 * SEC + 1;
	buf_clear(&log.text);
	assert_int_equal(player_to(p, UINT64_MAX, NULL), 0);
	assert_string_equal(log.text.data, expected.text.data);
	player_free(p);
	replay_close(r);
	buf_done(&log.text);
	buf_done(&expected.text);
	folder_done(&f);
}

static void after_the_end_no_process_lives(void **state)
{
	struct log log = log_new();
	struct rig_folder f;
	struct player *p;
	struct replay *r;

	(void) state;
	folder_new(&f);
	record_run(f.file, 50);
	r = opened(f.file);
	assert_int_equal(player_new(r, note, &log, &p), 0);
	assert_int_equal(player_seek(p, 3600 * SEC, NULL), 0);
	assert_int_equal(player_to(p, UINT64_MAX, NULL), 0);
	assert_int_equal(log.frames, 0);
	player_free(p);
	replay_close(r);
	buf_done(&log.text);
	folder_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stretches_make_the_whole),
		cmocka_unit_test(it_follows_what_grows),
		cmocka_unit_test(it_goes_to_any_time),
		cmocka_unit_test(after_the_end_no_process_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
