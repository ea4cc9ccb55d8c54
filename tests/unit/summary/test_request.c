/* SPDX-License-Identifier: MIT
 *
 * What to request, from histories that are simulated, so that the right answer is known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "summary/request.h"

#define MIB(n)     ((int64_t) ((n) * 1048576.0))
#define GIB(n)     ((int64_t) ((n) * 1073741824.0))
#define SECONDS(n) ((int64_t) ((n) * 1e9))

static const struct request_options usual = REQUEST_OPTIONS_INIT;

static struct request_run run_of(const char *name, int64_t bytes, double seconds, double cores)
{
	struct request_run r = {
		.is_whole = true,
		.memory.value = known(bytes),
		.time.value = known(SECONDS(seconds)),
		.cores_mean_ppm = known((int64_t) (cores * 1e6)),
	};

	(void) snprintf(r.run, sizeof(r.run), "%s", name);
	(void) snprintf(r.name, sizeof(r.name), "xgb");
	return r;
}

/* The run failed; at_limit: for lack of memory. */
static struct request_run ended_early(struct request_run r, bool at_limit)
{
	r.is_whole = false;
	r.memory.is_least = r.time.is_least = true;
	r.memory.at_limit = at_limit;
	return r;
}

static struct request made(const struct request_run *runs, size_t n)
{
	struct request r;

	assert_int_equal(request_make(runs, n, &usual, &r), 0);
	return r;
}

static void assert_text(void (*put)(const struct request *r, struct buf *out), const struct request *r,
	const char *expected)
{
	struct buf text = BUF_INIT(1 << 16);

	put(r, &text);
	assert_string_equal(text.len > 0 ? text.data : "", expected);
	buf_done(&text);
}

static void basis(const struct request *r, struct buf *out)
{
	request_basis(r, UNITS_IEC, out);
}

static void assert_judged(const struct request *r, unsigned which, const char *expected)
{
	struct buf text = BUF_INIT(1 << 16);

	assert_int_equal(request_judgement(r, which, &text), expected != NULL);
	if (expected)
		assert_string_equal(text.data, expected);
	buf_done(&text);
}

static void test_largest_of_all_runs(void **state)
{
	const struct request_run runs[] = {
		run_of("3", MIB(500), 400, 1.8),
		run_of("2", MIB(509), 390, 1.7),
		run_of("1", MIB(480), 380, 1.6),
	};
	const struct request r = made(runs, 3);

	(void) state;
	assert_text(request_line, &r, "#SBATCH --mem=640M --cpus-per-task=2 --time=0:10:00");
	assert_text(basis, &r,
		"from 3 runs of xgb: peak 509 MiB + 20 %, cores 1.80, 6 min 40 s + 50 %");
	assert_text(request_rounding, &r, "rounded up: memory to 64 MiB, CPUs to whole ones, time to 5 min");
	assert_string_equal(r.memory.run, "2");
	assert_string_equal(r.time.run, "3");
	assert_int_equal(r.would_fail, 0);
	assert_int_equal(r.may_fail, 0);
}

static void test_one_run_is_rough(void **state)
{
	const struct request_run run = run_of("3", MIB(509), 76, 1.8);
	struct request r = made(&run, 1);

	(void) state;
	assert_text(request_line, &r, "#SBATCH --mem=640M --cpus-per-task=2 --time=0:05:00");
	assert_text(basis, &r, "rough: one run of 76 s + 50 %, peak 509 MiB + 20 %, cores 1.80");
	/* What was watched is a part of the job's time: no time is requested. */
	struct request_run watched = run;

	watched.is_watched = true;
	r = made(&watched, 1);
	assert_text(request_line, &r, "#SBATCH --mem=640M --cpus-per-task=2");
	assert_text(basis, &r, "rough: watched for 76 s, peak 509 MiB + 20 %, cores 1.80");
	watched.is_block = watched.has_swap = true;
	r = made(&watched, 1);
	assert_text(basis, &r,
		"rough: one block of 76 s, peak 509 MiB with swap and huge pages + 20 %, cores 1.80");
}

static void test_failed_runs_are_lower_bounds(void **state)
{
	struct request_run runs[] = {
		run_of("3", GIB(20), 7200, 1),
		ended_early(run_of("2", GIB(5), 60, 9), false),
		run_of("1", GIB(18), 7100, 1),
	};
	struct request r = made(runs, 3);

	(void) state;
	/* Less than the others needed: nothing follows from it, nor from its cores. */
	assert_text(request_line, &r, "#SBATCH --mem=24G --cpus-per-task=1 --time=3:00:00");
	assert_false(r.memory.is_least);
	/* More than the others needed. */
	runs[1].memory.value = known(GIB(30));
	r = made(runs, 3);
	assert_text(request_line, &r, "#SBATCH --mem=36G --cpus-per-task=1 --time=3:00:00");
	assert_text(basis, &r,
		"from 3 runs of xgb: peak at least 30.0 GiB (run 2 did not finish) + 20 %, cores 1, 2 h + 50 %");
	/* An upper bound is not the least that it needs. */
	runs[1].is_bound = true;
	r = made(runs, 3);
	assert_text(basis, &r,
		"from 3 runs of xgb: peak at most 30.0 GiB so far (run 2 did not finish) + 20 %, cores 1, 2 h + 50 %");
	/* Killed at a limit. */
	runs[1].memory.at_limit = true;
	r = made(runs, 3);
	assert_text(basis, &r,
		"from 3 runs of xgb: peak more than 30.0 GiB (a limit ended run 2 there) + 20 %, cores 1, 2 h + 50 %");
	assert_true(r.memory.at_limit && r.memory.is_least);
	/* A limit that a later run needed as well: the later run says more. */
	runs[1].memory.value = known(GIB(19));
	r = made(runs, 3);
	assert_false(r.memory.is_least);
	assert_true(r.memory.need.value == GIB(20));
	/* Exactly as much: the killed one needed more. */
	runs[1].memory.value = known(GIB(20));
	assert_true(made(runs, 3).memory.at_limit);
}

static void test_only_early_ends(void **state)
{
	const struct request_run failed = ended_early(run_of("8", MIB(509), 400, 1), false),
				 killed = ended_early(run_of("8", GIB(32), 231, 1.75), true);
	struct request r = made(&failed, 1);

	(void) state;
	assert_string_equal(r.why_not,
		"the run did not end with status 0, so its needs are unknown; at least 509 MiB and 6 min 40 s");
	assert_false(r.memory.value.known || r.time.value.known || r.cpus.value.known);
	assert_text(request_line, &r, "");
	assert_text(basis, &r, "");
	r = made((struct request_run[]) { failed, failed }, 2);
	assert_non_null(strstr(r.why_not, "none of 2 runs ended with status 0"));
	/* It needs more memory than this; how long it takes is unknown. */
	r = made(&killed, 1);
	assert_text(request_line, &r, "#SBATCH --mem=39G --cpus-per-task=2");
	assert_text(basis, &r,
		"rough: one run of 3 min 51 s, peak more than 32.0 GiB (a limit ended run 8 there) + 20 %, cores 1.75");
}

static void test_out_of_time(void **state)
{
	struct request_run run = ended_early(run_of("8", GIB(2), 3600, 1), false);

	(void) state;
	run.time.at_limit = true;
	run.requested_ns = known(SECONDS(3600));
	const struct request r = made(&run, 1);

	assert_text(request_line, &r, "#SBATCH --mem=2560M --cpus-per-task=1 --time=1:30:00");
	assert_judged(&r, 2, "time: 1 h requested, more than 1 h used: too little");
	assert_text(basis, &r,
		"rough: one run of more than 1 h (a limit ended run 8 there) + 50 %, peak at least 2.00 GiB (run 8 did not "
		"finish) + 20 %, cores 1");
}

static void test_unseen_runs_do_not_count(void **state)
{
	struct request_run runs[] = { run_of("2", GIB(9), 100, 1), run_of("1", GIB(1), 100, 1) };

	(void) state;
	runs[0].unseen = "the tasks that srun started were not measured";
	struct request r = made(runs, 2);

	assert_true(r.memory.need.value == GIB(1));
	assert_int_equal(r.runs, 1);
	assert_text(basis, &r,
		"rough: one run of 1 min 40 s + 50 %, peak 1.00 GiB + 20 %, cores 1; 1 more run does not count: the "
		"tasks that srun started were not measured");
	r = made(runs, 1);
	assert_string_equal(r.why_not, "the tasks that srun started were not measured");
}

static void test_memory_steps(void **state)
{
	static const struct {
		int64_t peak;
		const char *line;
	} rows[] = {
		{ 1, "#SBATCH --mem=64M" },
		{ MIB(53.3), "#SBATCH --mem=64M" },
		{ MIB(53.4), "#SBATCH --mem=128M" },
		{ MIB(413), "#SBATCH --mem=512M" },
		{ GIB(1), "#SBATCH --mem=1280M" },
		{ GIB(2.5), "#SBATCH --mem=3G" },
		{ GIB(6.6), "#SBATCH --mem=8G" },
		{ GIB(30), "#SBATCH --mem=36G" },
		{ GIB(100), "#SBATCH --mem=120G" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct request_run run = { .is_whole = true, .memory.value = known(rows[i].peak) };
		const struct request r = made(&run, 1);

		assert_text(request_line, &r, rows[i].line);
	}
}

/* ---- simulated histories --------------------------------------------------------------------- */

enum {
	MOST = 4000
};

static uint64_t random_state;

/* From 0 to 1; the same numbers on each run of the test. */
static double uniform(void)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double) (random_state >> 11) / 9007199254740992.0;
}

static int ascending(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

	return x < y ? -1 : x > y;
}

static struct request at_quantile(const struct request_run *runs, size_t n, double margin, double quantile)
{
	const struct request_options options = { .margin = margin, .quantile = quantile };
	struct request r;

	assert_int_equal(request_make(runs, n, &options, &r), 0);
	return r;
}

/* The quantile of finished runs is one of them; the request is never less than it, and as many runs
 * as are counted would have failed. */
static void test_quantile_of_finished_runs(void **state)
{
	static const double quantiles[] = { 0.01, 0.5, 0.9, 0.95, 1 };
	static struct request_run runs[60];
	static int64_t needs[60];

	(void) state;
	random_state = 1;
	for (size_t n = 1; n <= 60; n++) {
		const double margin = uniform() * (double) (n % 2);

		for (size_t i = 0; i < n; i++) {
			needs[i] = MIB(1 + 30000 * uniform());
			runs[i] = run_of("1", needs[i], 60, 1);
		}
		qsort(needs, n, sizeof(*needs), ascending);
		for (size_t q = 0; q < sizeof(quantiles) / sizeof(*quantiles); q++) {
			const struct request r = at_quantile(runs, n, margin, quantiles[q]);
			const size_t k = (size_t) ceil((double) n * quantiles[q] - 1e-9);
			size_t failing = 0;

			for (size_t i = 0; i < n; i++)
				failing += needs[i] > r.memory.value.value;
			assert_true(r.memory.need.value == needs[k - 1]);
			assert_false(r.memory.is_least);
			assert_true(r.memory.value.value >= r.memory.need.value);
			assert_int_equal(r.would_fail, failing);
			assert_true(failing <= n - k);
		}
	}
}

/* All runs had the same limit: below it the quantile is that of the true needs, above it the answer
 * is "more than the limit". */
static void test_quantile_under_a_limit(void **state)
{
	static struct request_run runs[MOST];
	static int64_t needs[MOST];
	const int64_t limit = GIB(16);

	(void) state;
	random_state = 2;
	for (size_t n = 5; n <= 205; n += 25) {
		for (size_t i = 0; i < n; i++) {
			needs[i] = GIB(1 + 19 * uniform());
			runs[i] = run_of("1", needs[i], 60, 1);
			if (needs[i] > limit) {
				runs[i] = ended_early(runs[i], true);
				runs[i].memory.value = known(limit);
			}
		}
		qsort(needs, n, sizeof(*needs), ascending);
		for (double quantile = 0.05; quantile <= 1; quantile += 0.05) {
			const struct request r = at_quantile(runs, n, 0, quantile);
			const int64_t right = needs[(size_t) ceil((double) n * quantile - 1e-9) - 1];

			if (right <= limit)
				assert_true(r.memory.need.value == right && !r.memory.is_least);
			else
				assert_true(r.memory.need.value == limit && r.memory.at_limit);
		}
	}
}

/* Three in ten runs failed at some time, whatever they needed. The estimate is near the true
 * quantile, from which the finished runs alone, and all values alike, are far. */
static void test_quantile_with_failures(void **state)
{
	static struct request_run runs[MOST];
	const double right = GIB(2 + 8 * 0.9); /* of needs from 2 to 10 GiB */
	double error;

	(void) state;
	random_state = 3;
	for (size_t i = 0; i < MOST; i++) {
		const double need = 2 + 8 * uniform(), end = 20 * uniform();

		runs[i] = run_of("1", GIB(need < end ? need : end), 60, 1);
		if (end < need)
			runs[i] = ended_early(runs[i], false);
	}
	const struct request r = at_quantile(runs, MOST, 0, 0.9);

	error = fabs((double) r.memory.need.value / right - 1);
	assert_false(r.memory.is_least);
	assert_true(error < 0.02);
	assert_true(r.whole < MOST * 8 / 10); /* many failed */
}

static void test_failures_are_counted(void **state)
{
	static struct request_run runs[40];

	(void) state;
	for (size_t i = 0; i < 40; i++)
		runs[i] = run_of("1", i < 38 ? GIB(4) : GIB(40), 600, 1);
	runs[0] = ended_early(runs[0], false);
	struct request r = at_quantile(runs, 40, 0.2, 0.9);

	assert_text(request_line, &r, "#SBATCH --mem=5G --cpus-per-task=1 --time=0:15:00");
	assert_text(basis, &r,
		"from 40 runs of xgb: peak 4.00 GiB + 20 %, cores 1, 10 min + 50 %; 2 of 40 runs would have failed, 1 more may "
		"have: it ended early");
	/* A run that takes longer than the rest fails too. */
	runs[1].time.value = known(SECONDS(7200));
	assert_int_equal(at_quantile(runs, 40, 0.2, 0.9).would_fail, 3);
}

/* ---- against what was requested -------------------------------------------------------------- */

static void test_fits(void **state)
{
	struct request_run run = run_of("1", GIB(4), 3600, 1.8);

	(void) state;
	run.requested_bytes = known(GIB(4) - 1);
	run.requested_ns = known(SECONDS(3599));
	run.requested_cpus = known(1);
	run.gpus = known(1);
	run.requested_gpus = known(2);
	struct request r = made(&run, 1);

	assert_judged(&r, 0, "memory: 4.00 GiB requested, 4.00 GiB used: too little");
	assert_judged(&r, 1, "CPUs: 1 requested, 1.80 cores used: too little");
	assert_judged(&r, 2, "time: 59 min 59 s requested, 1 h used: too little");
	assert_judged(&r, 3, "GPUs: 2 requested, 1 used: too much");
	run.requested_bytes = known(GIB(4));
	run.requested_ns = known(SECONDS(3600));
	run.requested_cpus = known(2);
	run.requested_gpus = known(1);
	r = made(&run, 1);
	assert_judged(&r, 0, "memory: 4.00 GiB requested, 4.00 GiB used: about right");
	assert_judged(&r, 1, "CPUs: 2 requested, 1.80 cores used: about right");
	assert_judged(&r, 2, "time: 1 h requested, 1 h used: about right");
	assert_judged(&r, 3, "GPUs: 1 requested, 1 used: about right");
	/* 5 GiB would do: 70 % of 7.1, not of 7.2. */
	run.requested_bytes = known(GIB(7.1));
	run.requested_ns = known(SECONDS(6000));
	assert_int_equal(made(&run, 1).memory.fit, REQUEST_ABOUT_RIGHT);
	assert_int_equal(made(&run, 1).time.fit, REQUEST_ABOUT_RIGHT);
	run.requested_bytes = known(GIB(7.2));
	run.requested_ns = known(SECONDS(6001));
	run.requested_cpus = known(4);
	assert_int_equal(made(&run, 1).memory.fit, REQUEST_TOO_MUCH);
	assert_int_equal(made(&run, 1).time.fit, REQUEST_TOO_MUCH);
	assert_int_equal(made(&run, 1).cpus.fit, REQUEST_TOO_MUCH);
	/* All of the machine is no request. */
	run.is_whole_machine = true;
	assert_judged(&(struct request) { 0 }, 0, NULL);
	r = made(&run, 1);
	assert_judged(&r, 0, NULL);
}

/* ---- lines ------------------------------------------------------------------------------------ */

static void test_formats(void **state)
{
	static const struct {
		enum request_format format;
		const char *line;
	} rows[] = {
		{ REQUEST_SLURM, "#SBATCH --mem=5G --cpus-per-task=3 --time=1-13:30:00 --gres=gpu:2" },
		{ REQUEST_PBS, "#PBS -l select=1:ncpus=3:mem=5gb:ngpus=2 -l walltime=37:30:00" },
		{ REQUEST_LSF, "#BSUB -n 3 -R \"span[hosts=1] rusage[mem=5GB]\" -M 5GB -W 37:30 -gpu num=2" },
		{ REQUEST_SGE, "#$ -pe smp 3 -l mem_free=5G -l h_rt=37:30:00 -l gpu=2" },
		{ REQUEST_K8S,
			"resources: {requests: {cpu: 3, memory: 5Gi}, limits: {memory: 5Gi, nvidia.com/gpu: 2}}  # of the Job: "
			"activeDeadlineSeconds: 135000" },
		{ REQUEST_SNAKEMAKE, "threads: 3\nresources: mem_mb=5369, runtime=2250, gpu=2" },
		{ REQUEST_NEXTFLOW, "cpus 3\nmemory '5 GB'\ntime '2250m'\naccelerator 2" },
	};
	struct request_run run = run_of("1", GIB(4), 90000, 2.2);

	(void) state;
	run.gpus = known(2);
	run.gpu_bytes = known(GIB(23));
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct request_options options = {
			.margin = 0.2, .quantile = 1, .format = rows[i].format
		};
		struct request r;

		assert_int_equal(request_make(&run, 1, &options, &r), 0);
		assert_text(request_line, &r, rows[i].line);
	}
	/* The scheduler of the run decides. */
	(void) snprintf(run.scheduler, sizeof(run.scheduler), "pbs");
	assert_int_equal(made(&run, 1).format, REQUEST_PBS);
	const struct request r = made(&run, 1);

	assert_text(basis, &r,
		"rough: one run of 1 d 1 h + 50 %, peak 4.00 GiB + 20 %, cores 2.20, 2 GPUs with up to 23.0 GiB used");
}

static void test_unknown_gpus(void **state)
{
	struct request_run run = run_of("1", GIB(4), 600, 1);

	(void) state;
	(void) snprintf(run.gpu_unseen, sizeof(run.gpu_unseen), "none could be read");
	const struct request r = made(&run, 1);

	assert_text(request_line, &r, "#SBATCH --mem=5G --cpus-per-task=1 --time=0:15:00");
	assert_text(basis, &r,
		"rough: one run of 10 min + 50 %, peak 4.00 GiB + 20 %, cores 1, GPUs not known: none could be read");
	assert_false(r.gpus.value.known);
}

/* Of a run of which a part was watched, the time of the whole job is not known. */
static void test_time_of_watched_runs(void **state)
{
	struct request_run runs[] = { run_of("2", MIB(700), 76, 1), run_of("1", MIB(500), 20, 1) };

	(void) state;
	runs[0].is_watched = true;
	struct request r = made(runs, 2);

	assert_text(request_line, &r, "#SBATCH --mem=896M --cpus-per-task=1 --time=0:05:00");
	assert_text(basis, &r, "from 2 runs of xgb: peak 700 MiB + 20 %, cores 1, 20 s + 50 %");
	/* The other failed: how long the job takes is not known. */
	runs[1] = ended_early(runs[1], false);
	r = made(runs, 2);
	assert_false(r.time.value.known);
	assert_text(request_line, &r, "#SBATCH --mem=896M --cpus-per-task=1");
	assert_text(basis, &r, "from 2 runs of xgb: peak 700 MiB + 20 %, cores 1");
}

static void test_runs_of_several_names(void **state)
{
	struct request_run runs[] = { run_of("2", MIB(700), 76, 1), run_of("1", MIB(500), 20, 1) };
	struct request r;

	(void) state;
	(void) snprintf(runs[1].name, sizeof(runs[1].name), "other");
	r = made(runs, 2);
	assert_text(basis, &r, "from 2 runs: peak 700 MiB + 20 %, cores 1, 76 s + 50 %");
	runs[0].name[0] = runs[1].name[0] = '\0';
	(void) snprintf(runs[0].command, sizeof(runs[0].command), "./a");
	(void) snprintf(runs[1].command, sizeof(runs[1].command), "./b");
	r = made(runs, 2);
	assert_text(basis, &r, "from 2 runs: peak 700 MiB + 20 %, cores 1, 76 s + 50 %");
	(void) snprintf(runs[1].command, sizeof(runs[1].command), "./a");
	r = made(runs, 2);
	assert_text(basis, &r, "from 2 runs of this command: peak 700 MiB + 20 %, cores 1, 76 s + 50 %");
}

static struct request without(const struct request_run *runs, size_t n, struct request_left_out left_out)
{
	struct request_options options = REQUEST_OPTIONS_INIT;
	struct request r;

	options.left_out = left_out;
	assert_int_equal(request_make(runs, n, &options, &r), 0);
	return r;
}

static void test_what_was_left_out_is_stated(void **state)
{
	const struct request_run runs[] = { run_of("2", MIB(500), 76, 1), run_of("1", MIB(509), 20, 1) };
	struct request_run failed = ended_early(runs[0], false);
	struct request r = without(runs, 1, (struct request_left_out) { .unread = 53 });

	(void) state;
	assert_text(basis, &r,
		"from the newest of 54 runs of xgb: peak 500 MiB + 20 %, cores 1, 76 s + 50 %; hiwater request xgb reads all");
	r = without(runs, 2, (struct request_left_out) { .unread = 8, .is_uncounted = true });
	assert_text(basis, &r,
		"from the newest 2 of more than 10 runs of xgb: peak 509 MiB + 20 %, cores 1, 76 s + 50 %; hiwater request xgb "
		"reads all");
	r = without(runs, 2, (struct request_left_out) { .unreadable = 1, .other_mode = 2 });
	assert_text(basis, &r,
		"from 2 runs of xgb: peak 509 MiB + 20 %, cores 1, 76 s + 50 %; 1 recording could not be read; 2 watched parts of "
		"that name do not count");
	r = without(&failed, 1, (struct request_left_out) { .unread = 3 });
	assert_string_equal(r.why_not,
		"the newest run did not end with status 0, so its needs are unknown; at least 500 MiB and 76 s; hiwater request "
		"xgb reads all");
}

/* The kernel killed a child, and main continued without it. */
static void test_a_limit_that_killed_a_child(void **state)
{
	struct request_run run = run_of("8", GIB(2), 400, 1);

	(void) state;
	run.memory.is_least = run.memory.at_limit = true;
	const struct request r = made(&run, 1);

	assert_text(basis, &r,
		"rough: one run of 6 min 40 s + 50 %, peak more than 2.00 GiB (a limit killed a process of run 8 there) + 20 %, "
		"cores 1");
}

static void test_fits_of_runs_that_ended_early(void **state)
{
	struct request_run run = ended_early(run_of("8", MIB(509), 400, 0.004), false);

	(void) state;
	run.requested_cpus = known(8);
	assert_judged(&(struct request[]) { made(&run, 1) }[0], 1, NULL);
	run.cores_mean_ppm = known(9300000);
	assert_judged(&(struct request[]) { made(&run, 1) }[0], 1,
		"CPUs: 8 requested, at least 9.30 cores used: too little");
}

static void test_fits_of_bounds(void **state)
{
	struct request_run runs[] = { run_of("2", MIB(47.7), 400, 1), run_of("1", MIB(31), 400, 1) };
	struct request r;

	(void) state;
	runs[0].is_bound = true;
	runs[0].memory.low = known(MIB(13.2));
	runs[0].requested_bytes = known(MIB(30));
	r = made(runs, 1);
	assert_judged(&r, 0, NULL);
	/* What another run used for certain decides. */
	r = made(runs, 2);
	assert_judged(&r, 0, "memory: 30.0 MiB requested, at least 31.0 MiB used: too little");
	runs[0].requested_bytes = known(MIB(50));
	r = made(runs, 1);
	assert_judged(&r, 0, "memory: 50.0 MiB requested, at most 47.7 MiB used: about right");
	/* The kernel killed it for that limit. */
	runs[0].requested_bytes = known(MIB(30));
	runs[0].memory.at_limit = runs[0].memory.is_least = true;
	r = made(runs, 1);
	assert_judged(&r, 0, "memory: 30.0 MiB requested, more than 47.7 MiB used: too little");
}

/* How it is requested depends on the site. */
static void test_mig_instances(void **state)
{
	struct request_run run = run_of("8", GIB(2), 400, 1);

	(void) state;
	run.gpus = known(1);
	run.gpu_bytes = known(GIB(5));
	run.has_mig = true;
	const struct request r = made(&run, 1);

	assert_text(request_line, &r, "#SBATCH --mem=2560M --cpus-per-task=1 --time=0:10:00");
	assert_text(basis, &r,
		"rough: one run of 6 min 40 s + 50 %, peak 2.00 GiB + 20 %, cores 1, 1 MIG instance with up to 5.00 GiB used");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_largest_of_all_runs),
		cmocka_unit_test(test_one_run_is_rough),
		cmocka_unit_test(test_failed_runs_are_lower_bounds),
		cmocka_unit_test(test_only_early_ends),
		cmocka_unit_test(test_out_of_time),
		cmocka_unit_test(test_unseen_runs_do_not_count),
		cmocka_unit_test(test_memory_steps),
		cmocka_unit_test(test_quantile_of_finished_runs),
		cmocka_unit_test(test_quantile_under_a_limit),
		cmocka_unit_test(test_quantile_with_failures),
		cmocka_unit_test(test_failures_are_counted),
		cmocka_unit_test(test_fits),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_unknown_gpus),
		cmocka_unit_test(test_time_of_watched_runs),
		cmocka_unit_test(test_runs_of_several_names),
		cmocka_unit_test(test_what_was_left_out_is_stated),
		cmocka_unit_test(test_a_limit_that_killed_a_child),
		cmocka_unit_test(test_fits_of_runs_that_ended_early),
		cmocka_unit_test(test_fits_of_bounds),
		cmocka_unit_test(test_mig_instances),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
