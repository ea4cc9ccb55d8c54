/* SPDX-License-Identifier: MIT
 *
 * The leak rules, for anonymous memory and for memory that a framework's allocator has allocated,
 * against timelines with and without a leak: an hour each, sampled every second, a hundred runs of
 * each kind with seeds of their own. False alarms and misses are counted, printed, and limited to
 * the numbers stated here.
 */
#include <math.h>

#include "record_rig.h"

#include "findings/findings.h"
#include "summary/summary.h"

enum {
	RUNS = 100,
	SECONDS_A_RUN = 3600
};

/* ---- chance ----------------------------------------------------------------------------------------------------------- */

/* Steele, Lea, Flood: SplitMix64; the same everywhere. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15U;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
	return z ^ (z >> 31);
}

static double between(uint64_t *state, double low, double high)
{
	return low + (high - low) * (double) (next_random(state) >> 11) / 9007199254740992.0;
}

/* Of a bell, nearly: mean 0, deviation 1. */
static double noise(uint64_t *state)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += between(state, 0, 1);
	return sum;
}

/* ---- timelines -------------------------------------------------------------------------------------------------------- */

/* Parameters of a run; MiB and seconds. */
struct shape {
	double base, jitter, height, period, at, width, per_min;
};

static double flat(const struct shape *s, double t)
{
	(void) s;
	(void) t;
	return 0;
}

static double warm_up(const struct shape *s, double t)
{
	return t < s->at ? s->height * t / s->at : s->height;
}

static double cache(const struct shape *s, double t)
{
	return s->height * (1 - exp(-t / s->width));
}

static double sawtooth(const struct shape *s, double t)
{
	return s->height * fmod(t + s->at, s->period) / s->period;
}

static double step(const struct shape *s, double t)
{
	return t < s->at ? 0 : s->height;
}

static double two_steps(const struct shape *s, double t)
{
	return step(s, t) + (t < s->at + s->width ? 0 : s->height / 2);
}

static double bump(const struct shape *s, double t)
{
	return fmod(t + s->at, s->period) < s->width / 20 ? s->height : 0;
}

static double leak(const struct shape *s, double t)
{
	return s->per_min * t / 60;
}

static double leak_12(const struct shape *s, double t)
{
	return 4 * leak(s, t);
}

static double leak_under_sawtooth(const struct shape *s, double t)
{
	return leak_12(s, t) + 900 * fmod(t + s->at, s->period) / s->period;
}

static double leak_after_warm_up(const struct shape *s, double t)
{
	return leak_12(s, t) + (t < 300 ? s->height * t / 300 : s->height);
}

/* A large process takes a while to release its memory: the last samples find what is left of it. */
static double leak_until_its_end(const struct shape *s, double t)
{
	const double last = 20, left = (SECONDS_A_RUN - t) / last;

	return left >= 1 ? leak_12(s, t) : left * (leak_12(s, t) + s->base) - s->base;
}

static const struct kind {
	const char *name;
	double (*mib)(const struct shape *s, double t);
	bool leaks;
	int most_wrong[2]; /* of judged */
} kinds[] = {
	{ "flat", flat, false, { 0, 0 } },
	{ "warm-up of some minutes", warm_up, false, { 0, 0 } },
	{ "cache that fills up", cache, false, { 0, 0 } },
	{ "sawtooth", sawtooth, false, { 0, 0 } },
	{ "one step", step, false, { 0, 0 } },
	{ "two steps", two_steps, false, { 0, 0 } },
	{ "bumps", bump, false, { 0, 0 } },
	{ "leak of 3 MiB/min", leak, true, { 0, 0 } },
	{ "leak of 12 MiB/min", leak_12, true, { 0, 0 } },
	{ "the same under a sawtooth of 900 MiB", leak_under_sawtooth, true, { 0, 4 } },
	{ "the same after a warm-up", leak_after_warm_up, true, { 0, 0 } },
	{ "the same, released at the end", leak_until_its_end, true, { 0, 0 } },
};

static struct shape random_shape(uint64_t *state)
{
	return (struct shape) {
		.base = between(state, 500, 8000),
		.jitter = between(state, 0.1, 5),
		.height = between(state, 200, 4000),
		.period = between(state, 30, 300),
		.at = between(state, 100, 600),
		.width = between(state, 300, 900),
		.per_min = 3,
	};
}

/* A step or a bump may be at any time. */
static struct shape shape_of(const struct kind *kind, uint64_t *state)
{
	struct shape s = random_shape(state);

	if (kind->mib == step || kind->mib == two_steps)
		s.at = between(state, 0, SECONDS_A_RUN);
	if (kind->mib == bump)
		s.period = between(state, 200, 1200);
	return s;
}

/* ---- runs ------------------------------------------------------------------------------------------------------------- */

static struct job *new_job(void)
{
	const struct job_config config = { .page_bytes = 4096, .fault_page_bytes = 4096, .ours = true };
	struct job *job = job_new(&config);

	assert_non_null(job);
	job_facts(job)->capacity_bytes = known(64 * 1024 * MB);
	return job;
}

/* Allocated memory: between two steps the same, within a step up to twice as much. A sample falls
 * anywhere into a step. */
static struct series_value allocated(const struct shape *s, double mib, uint64_t *state)
{
	const double at = between(state, -0.2, 1);

	return (struct series_value) { .name = "torch/gpu0/allocated_bytes",
		.value = (mib + (at < 0 ? 0 : at * s->base)) * (double) MB };
}

/* Plays a run; each frame goes to the job, and to the recording if there is one. */
static void play(struct job *job, struct record *record, const struct kind *kind, uint64_t seed)
{
	uint64_t state = seed;
	const struct shape s = shape_of(kind, &state);
	struct framebuf buf = { 0 };

	for (int t = 0; t < SECONDS_A_RUN; t++) {
		const double mib = s.base + kind->mib(&s, t) + s.jitter * noise(&state);
		struct frame frame;

		framebuf_value(&buf, M_JOB_ANON, 0, (int64_t) (mib * (double) MB));
		framebuf_value(&buf, M_JOB_RAM, 0, (int64_t) ((mib + 100) * (double) MB));
		const struct series_value value = allocated(&s, mib, &state);

		framebuf_series(&buf, &value);
		frame = framebuf_frame(&buf, FRAME_TOTALS, (uint64_t) t * SEC + 1, 3 * SEC);
		assert_int_equal(job_apply(job, &frame), 0);
		if (record) {
			record_frame(record, &frame);
			record_totals(record, job);
		}
		framebuf_clear(&buf);
	}
	job_facts(job)->ended_ns = known((int64_t) (SECONDS_A_RUN * SEC));
	job_facts(job)->exit_status = known(0);
	job_end(job, SECONDS_A_RUN * SEC, &buf);
	framebuf_done(&buf);
}

/* Does the finding fire? *ret_per_s: its growth rate. */
static bool judge(struct job *job, const char *code, double *ret_per_s, char *text, size_t size)
{
	struct summary s;
	bool fired = false;

	assert_int_equal(summary_make(job, &s), 0);
	assert_int_equal(findings_make(&s, NULL), 0);
	for (size_t i = 0; i < s.n_findings; i++) {
		const struct finding *f = &s.findings[i];

		if (strcmp(f->code, code) != 0)
			continue;
		fired = f->fired;
		for (unsigned e = 0; e < f->n_evidence; e++) {
			if (strcmp(f->evidence[e].key, "growth_bytes_per_s") == 0)
				*ret_per_s = f->evidence[e].value;
		}
		(void) snprintf(text, size, "%s", fired ? f->message : f->why_not);
	}
	summary_done(&s);
	return fired;
}

/* tolerance: relative error of the rate; few samples meet the valley between two steps. */
static const struct {
	const char *code;
	double tolerance;
} judged[] = { { "host-leak", 0.2 }, { "gpu-leak", 0.4 } };

static int wrong_of(const struct kind *kind, const char *code, double tolerance)
{
	const double truth = (kind->mib == leak ? 3 : 12) * (double) MB / 60;
	int wrong = 0;

	for (uint64_t seed = 1; seed <= RUNS; seed++) {
		struct job *job = new_job();
		double per_s = 0;
		char text[512];

		play(job, NULL, kind, seed);
		if (judge(job, code, &per_s, text, sizeof(text)) != kind->leaks)
			wrong++;
		else if (kind->leaks && fabs(per_s - truth) > truth * tolerance)
			fail_msg("%s: %g MiB/min reported: %s", kind->name, per_s * 60 / (double) MB, text);
		job_free(job);
	}
	return wrong;
}

static void false_alarms_and_misses(void **state)
{
	bool good = true;

	(void) state;
	for (size_t c = 0; c < sizeof(judged) / sizeof(judged[0]); c++) {
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			const int wrong = wrong_of(&kinds[i], judged[c].code, judged[c].tolerance);

			print_message("# %-10s %-40s %3d %s of %d\n", judged[c].code, kinds[i].name, wrong,
				kinds[i].leaks ? "misses" : "false alarms", RUNS);
			good = good && wrong <= kinds[i].most_wrong[c];
		}
	}
	assert_true(good);
}

/* Findings of the recording are the live ones. */
static void a_recording_says_the_same(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i += 4) {
		struct job *job = new_job(), *again = NULL;
		struct rig_folder f;
		struct record *record;
		struct replay *r = NULL;
		char live[512] = "", shown[512] = "";
		double per_s;

		folder_new(&f);
		record = rig_record(&(struct record_options) {
			.path = f.file, .max_bytes = 400000, .queue_bytes = 1 << 30 });
		play(job, record, &kinds[i], 7);
		rig_finish(record, job);
		assert_int_equal(replay_open(f.file, &r, NULL), 0);
		assert_int_equal(replay_job(r, &again, NULL), 0);
		for (size_t c = 0; c < sizeof(judged) / sizeof(judged[0]); c++) {
			assert_int_equal(
				judge(job, judged[c].code, &per_s, live, sizeof(live)), kinds[i].leaks);
			assert_int_equal(
				judge(again, judged[c].code, &per_s, shown, sizeof(shown)), kinds[i].leaks);
			assert_string_equal(live, shown);
		}
		replay_close(r);
		job_free(again);
		job_free(job);
		folder_done(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(false_alarms_and_misses),
		cmocka_unit_test(a_recording_says_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
