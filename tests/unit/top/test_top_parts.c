/* SPDX-License-Identifier: MIT
 *
 * Parts of the live view: histories, short amounts, the model, rows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "top/format.h"
#include "top/model.h"
#include "top/history_ring.h"
#include "top/view.h"

#define SECOND UINT64_C(1000000000)

/* ---- histories ---------------------------------------------------------------------------------------------------- */

static void a_peak_survives_a_day(void **state)
{
	struct history_ring *t = calloc(1, sizeof(*t));

	(void) state;
	for (uint64_t s = 0; s < 86400; s++)
		history_add(t, s * SECOND, 3 * SECOND, 10, s == 4321 ? 500 : 11);
	const struct bucket all = history_span(t, 0, 86400 * SECOND);

	assert_true(all.n > 0 && all.max >= 500 && all.max <= 500);
	assert_true(all.mean > 9.9F && all.mean < 10.1F);
	assert_true(history_span(t, 0, 3600 * SECOND).max < 12);           /* before it */
	assert_true(history_span(t, 85000 * SECOND, 86400 * SECOND).max < 12); /* after it, by the second */
	free(t);
}

static void what_is_not_known_is_no_zero(void **state)
{
	struct history_ring *t = calloc(1, sizeof(*t));

	(void) state;
	assert_int_equal(history_span(t, 0, 10 * SECOND).n, 0);
	history_add(t, 1 * SECOND, 3 * SECOND, 0, 0);
	history_add(t, 3 * SECOND, 3 * SECOND, 5, 5);   /* it stood for itself in between */
	history_add(t, 60 * SECOND, 3 * SECOND, 7, 7);  /* a gap */
	assert_true(history_span(t, 1 * SECOND, 2 * SECOND).n > 0);
	assert_true(history_span(t, 1 * SECOND, 2 * SECOND).max <= 0);
	assert_true(history_span(t, 2 * SECOND, 3 * SECOND).n > 0);
	assert_int_equal(history_span(t, 10 * SECOND, 50 * SECOND).n, 0);
	assert_int_equal(history_span(t, 61 * SECOND, 70 * SECOND).n, 0);
	free(t);
}

/* ---- amounts ------------------------------------------------------------------------------------------------------ */

static void amounts_are_short(void **state)
{
	char buf[SHORT_LEN];

	(void) state;
	assert_string_equal(short_bytes(0, UNITS_IEC, buf), "0");
	assert_string_equal(short_bytes(999, UNITS_IEC, buf), "999");
	assert_string_equal(short_bytes(1000, UNITS_IEC, buf), "0.98K");
	assert_string_equal(short_bytes(64.0 * (1 << 30), UNITS_IEC, buf), "64.0G");
	assert_string_equal(short_bytes(64.0 * (1 << 30), UNITS_SI, buf), "68.7G");
	assert_string_equal(short_bytes(1500, UNITS_SI, buf), "1.50k");
	assert_string_equal(short_bytes(1e12, UNITS_BYTES, buf), "1000000000000");
	assert_string_equal(short_number(9.996, buf), "10.0");
	assert_string_equal(short_number(127.4, buf), "127");
	assert_string_equal(short_time(2472 * SECOND, buf), "0:41:12");
	assert_string_equal(short_time(90061 * SECOND, buf), "1d 1:01:01");
	assert_string_equal(short_span(600 * SECOND, buf), "10 min");
}

/* ---- the model ---------------------------------------------------------------------------------------------------- */

static void bear(struct model *m, uint32_t id, uint32_t parent, const char *name)
{
	const struct hiw_birth birth = {
		.entity = HIW_PROCESS,
		.id = id,
		.parent = parent,
		.name = name,
		.command = "",
		.uuid = "",
		.instance_of = "",
		.pid = { 1000 + id, true },
		.uid = { 0, true },
	};
	const struct hiw_frame frame = { .time_ns = m->now_ns, .n_births = 1, .births = &birth };

	model_see(m, &frame);
}

static void say(struct model *m, uint64_t time_ns, enum fig fig, uint32_t id, int64_t value, bool known)
{
	const struct hiw_reading reading = { id, (unsigned) m->metric[fig], known, value, value, value };
	const struct hiw_frame frame = {
		.time_ns = time_ns, .hold_ns = 3 * SECOND, .n_readings = 1, .readings = &reading
	};

	model_see(m, &frame);
}

/* Busy time is not SM activity: a chart of SM activity begins at its first value. */
static void a_chart_is_of_one_figure(void **state)
{
	const struct hiw_birth gpu = {
		.entity = HIW_GPU, .id = 1, .name = "H100", .command = "", .uuid = "GPU-1", .instance_of = ""
	};
	const struct hiw_frame born = { .n_births = 1, .births = &gpu };
	struct model m;

	(void) state;
	assert_int_equal(model_init(&m, false, true), 0);
	model_see(&m, &born);
	say(&m, 1 * SECOND, GPU_BUSY, 1, 960000, true);
	assert_true(history_span(m.gpus[0]->busy, 0, 2 * SECOND).max > 900000);
	say(&m, 2 * SECOND, GPU_SM, 1, 280000, true);
	say(&m, 3 * SECOND, GPU_BUSY, 1, 970000, true);
	assert_true(history_span(m.gpus[0]->busy, 0, 4 * SECOND).max < 300000);
	model_done(&m);
}

static void log_one(struct model *m, const char *name, double value)
{
	const struct hiw_value one = { name, value, false, 0 };
	const struct hiw_frame frame = { .time_ns = SECOND, .n_values = 1, .values = &one };

	model_see(m, &frame);
}

/* However many devices a framework reports. */
static void what_the_program_logs_comes_first(void **state)
{
	struct model m;
	char name[40];

	(void) state;
	assert_int_equal(model_init(&m, false, true), 0);
	for (unsigned i = 0; i < 2 * SERIES_KEPT; i++) {
		(void) snprintf(name, sizeof(name), "torch/gpu%u/allocated_bytes", i);
		log_one(&m, name, 1 << 30);
	}
	log_one(&m, "train/loss", 0.5);
	log_one(&m, "accuracy", 0.8);
	log_one(&m, "train/loss", 0.4);
	assert_int_equal(m.n_series, SERIES_KEPT);
	assert_string_equal(m.series[0]->name, "train/loss");
	assert_true(m.series[0]->value < 0.45);
	assert_string_equal(m.series[1]->name, "accuracy");
	assert_string_equal(m.series[2]->name, "torch/gpu0/allocated_bytes");
	assert_true(m.series[2]->is_bytes && !m.series[0]->is_bytes);
	model_done(&m);
}

static void every_figure_has_a_metric(void **state)
{
	struct model m;

	(void) state;
	assert_int_equal(model_init(&m, false, true), 0);
	for (int f = 0; f < FIG_COUNT; f++)
		assert_true(m.metric[f] >= 0);
	for (unsigned i = 0; hiw_metric(i); i++)
		assert_true(i - m.first[hiw_metric(i)->entity] < FIGURES_MOST);
	model_done(&m);
}

static void counters_become_rates(void **state)
{
	const struct thing *t;
	struct model m;
	double rate;

	(void) state;
	assert_int_equal(model_init(&m, false, true), 0);
	bear(&m, 1, 0, "a");
	t = model_find(&m, HIW_PROCESS, 1);
	say(&m, SECOND, PROC_CPU_USER, 1, 100, true);
	say(&m, SECOND, PROC_CPU_SYSTEM, 1, 0, true);
	assert_false(model_rate(&m, t, PROC_CPU_USER, PROC_CPU_SYSTEM, &rate));
	say(&m, 3 * SECOND, PROC_CPU_USER, 1, 100 + (int64_t) SECOND, true);
	say(&m, 3 * SECOND, PROC_CPU_SYSTEM, 1, (int64_t) SECOND, true);
	assert_true(model_rate(&m, t, PROC_CPU_USER, PROC_CPU_SYSTEM, &rate));
	assert_true(rate > 0.99e9 && rate < 1.01e9);
	say(&m, 4 * SECOND, PROC_CPU_USER, 1, 5, true); /* it went back: another one's */
	assert_false(model_rate(&m, t, PROC_CPU_USER, PROC_CPU_SYSTEM, &rate));
	say(&m, 5 * SECOND, PROC_RSS, 1, 7, true);
	assert_int_equal(model_figure(&m, t, PROC_RSS)->value, 7);
	say(&m, 6 * SECOND, PROC_RSS, 1, 0, false);
	assert_null(model_figure(&m, t, PROC_RSS));
	say(&m, 7 * SECOND, JOB_RAM, 0, 9, true);
	assert_non_null(model_figure(&m, &m.job, JOB_RAM));
	say(&m, 70 * SECOND, PROC_RSS, 1, 1, true); /* the job's value was not renewed */
	assert_null(model_figure(&m, &m.job, JOB_RAM));
	model_done(&m);
}

static void write_to(struct model *m, uint64_t time_ns, int64_t written, int64_t cancelled)
{
	const struct hiw_reading readings[] = {
		{ 0, (unsigned) m->metric[JOB_WRITE], true, written, written, written },
		{ 0, (unsigned) m->metric[JOB_CANCELLED], cancelled >= 0, cancelled, cancelled, cancelled },
	};
	const struct hiw_frame frame = {
		.time_ns = time_ns, .hold_ns = 3 * SECOND, .n_readings = 2, .readings = readings
	};

	model_see(m, &frame);
}

static void expect_writes(const struct model *m, double rate)
{
	const struct figure *f = model_figure(m, &m->job, JOB_WRITE);

	assert_true(f && f->has_rate);
	assert_true(f->rate == rate);
}

/* An older recording has no counter of cancelled writes; its writes are without them. */
static void what_was_cancelled_was_not_written(void **state)
{
	struct model m;

	(void) state;
	assert_int_equal(model_init(&m, false, true), 0);
	write_to(&m, 1 * SECOND, 1000, 0);
	write_to(&m, 2 * SECOND, 1500, 0);
	expect_writes(&m, 500);
	write_to(&m, 4 * SECOND, 2500, 800);
	expect_writes(&m, 100);
	write_to(&m, 5 * SECOND, 2600, 1600);
	expect_writes(&m, 0);
	write_to(&m, 6 * SECOND, 3200, 1600); /* still less than reported before */
	expect_writes(&m, 0);
	write_to(&m, 7 * SECOND, 3500, 1600);
	expect_writes(&m, 200);
	model_clear(&m);
	write_to(&m, 1 * SECOND, 1000, -1);
	write_to(&m, 2 * SECOND, 1500, -1);
	expect_writes(&m, 500);
	model_done(&m);
}

static void the_ended_are_gone(void **state)
{
	const struct hiw_end end = { HIW_PROCESS, 2 };
	const struct hiw_frame frame = { .n_ends = 1, .ends = &end };
	struct model m;

	(void) state;
	assert_int_equal(model_init(&m, false, true), 0);
	for (uint32_t id = 1; id <= 3; id++)
		bear(&m, id, 0, "x");
	model_see(&m, &frame);
	model_see(&m, &frame);
	assert_null(model_find(&m, HIW_PROCESS, 2));
	assert_int_equal(model_find(&m, HIW_PROCESS, 3)->id, 3);
	assert_int_equal(model_processes(&m), 2);
	model_done(&m);
}

static void names_are_harmless(void **state)
{
	struct model m;

	(void) state;
	assert_int_equal(model_init(&m, false, false), 0);
	bear(&m, 1, 0, "e\033[2J\xc2\x9b\xff");
	for (const char *p = model_find(&m, HIW_PROCESS, 1)->name; *p; p++)
		assert_true(*p >= ' ' && *p < 127);
	model_done(&m);
}

static void bear_gpu(
	struct model *m, uint32_t id, const char *uuid, const char *instance_of, struct hiw_maybe index)
{
	const struct hiw_birth birth = { .entity = HIW_GPU,
		.id = id,
		.name = "x",
		.command = "",
		.uuid = uuid,
		.instance_of = instance_of,
		.index = index };
	const struct hiw_frame frame = { .time_ns = m->now_ns, .n_births = 1, .births = &birth };

	model_see(m, &frame);
}

/* Named by the numbers of hiwater gpus, wherever they are in the list. */
static void gpus_are_called_by_their_numbers(void **state)
{
	static const char *const names[] = { "GPU4", "busy4", "MIG4.0", "busy4.0", "MIG4.3", "busy4.3",
		"GPU1", "busy1", "MIG2", "busy2", "GPU5", "busy5" };
	struct model m;
	char name[GPU_NAME];

	(void) state;
	assert_int_equal(model_init(&m, true, true), 0);
	bear_gpu(&m, 1, "GPU-a", "", (struct hiw_maybe) { 4, true });
	bear_gpu(&m, 2, "MIG-1", "GPU-a", (struct hiw_maybe) { 0, true });
	bear_gpu(&m, 3, "MIG-2", "GPU-a", (struct hiw_maybe) { 3, true });
	bear_gpu(&m, 4, "GPU-b", "", (struct hiw_maybe) { 1, true });
	bear_gpu(&m, 5, "MIG-3", "GPU-gone", (struct hiw_maybe) { 2, true });
	bear_gpu(&m, 6, "", "", (struct hiw_maybe) { 0, false });
	for (size_t i = 0; i < m.n_gpus; i++) {
		model_gpu_name(&m, i, "GPU", "MIG", name);
		assert_string_equal(name, names[2 * i]);
		model_gpu_name(&m, i, "busy", "busy", name);
		assert_string_equal(name, names[2 * i + 1]);
	}
	model_done(&m);
}

/* ---- rows --------------------------------------------------------------------------------------------------------- */

static void expect_rows(const struct view *v, size_t n, const uint32_t *ids, const unsigned *depths)
{
	assert_int_equal(v->n_rows, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(v->rows[i].id, ids[i]);
		if (depths)
			assert_int_equal(v->rows[i].depth, depths[i]);
	}
}

static void rows_stand_where_they_belong(void **state)
{
	struct model m;
	struct view v;

	(void) state;
	assert_int_equal(model_init(&m, false, true), 0);
	view_init(&v, UNITS_IEC, false);
	bear(&m, 1, 0, "main");
	bear(&m, 2, 1, "small");
	bear(&m, 3, 1, "large");
	bear(&m, 4, 2, "unknown");
	bear(&m, 5, 6, "loop");
	bear(&m, 6, 5, "loop"); /* each the other's parent: only a damaged file says so */
	say(&m, SECOND, PROC_RSS, 1, 50, true);
	say(&m, SECOND, PROC_RSS, 2, 10, true);
	say(&m, SECOND, PROC_RSS, 3, 90, true);
	view_rows(&v, &m);
	expect_rows(&v, 6, (uint32_t[]) { 3, 1, 2, 4, 5, 6 }, NULL);
	v.reverse = true; /* unknown values stay last */
	view_rows(&v, &m);
	expect_rows(&v, 6, (uint32_t[]) { 2, 1, 3, 4, 5, 6 }, NULL);
	v.reverse = false;
	v.tree = true;
	view_rows(&v, &m);
	expect_rows(&v, 6, (uint32_t[]) { 1, 3, 2, 4, 5, 6 }, (unsigned[]) { 0, 1, 1, 2, 0, 1 });
	assert_int_equal(view_filter(&v, "rss > 20"), 0);
	view_rows(&v, &m);
	expect_rows(&v, 2, (uint32_t[]) { 1, 3 }, (unsigned[]) { 0, 1 });
	assert_true(view_filter(&v, "rss >") < 0);
	assert_string_equal(v.filter_text, "rss > 20"); /* the old rows are kept */
	assert_true(v.trouble[0] != '\0');
	view_done(&v);
	model_done(&m);
}

/* A paused view keeps its rows while processes end. */
static void rows_outlive_their_processes(void **state)
{
	const struct hiw_end ends[] = { { HIW_PROCESS, 1 }, { HIW_PROCESS, 2 } };
	const struct hiw_frame frame = { .n_ends = 2, .ends = ends };
	struct model m;
	struct view v;

	(void) state;
	assert_int_equal(model_init(&m, false, true), 0);
	view_init(&v, UNITS_IEC, false);
	for (uint32_t id = 1; id <= 3; id++)
		bear(&m, id, 0, "twin");
	view_rows(&v, &m);
	expect_rows(&v, 3, (uint32_t[]) { 1, 2, 3 }, NULL);
	model_see(&m, &frame);
	model_see(&m, &frame);
	assert_null(model_find(&m, HIW_PROCESS, 2));
	view_pick(&v, 1);
	assert_int_equal(v.picked, 2);
	assert_int_equal(view_place(&v), 1);
	strcpy(v.search, "twin");
	view_search(&v, &m, false); /* an ended process has no name */
	assert_int_equal(v.picked, 3);
	view_done(&v);
	model_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peak_survives_a_day),
		cmocka_unit_test(what_is_not_known_is_no_zero),
		cmocka_unit_test(amounts_are_short),
		cmocka_unit_test(every_figure_has_a_metric),
		cmocka_unit_test(a_chart_is_of_one_figure),
		cmocka_unit_test(what_the_program_logs_comes_first),
		cmocka_unit_test(counters_become_rates),
		cmocka_unit_test(what_was_cancelled_was_not_written),
		cmocka_unit_test(the_ended_are_gone),
		cmocka_unit_test(names_are_harmless),
		cmocka_unit_test(gpus_are_called_by_their_numbers),
		cmocka_unit_test(rows_stand_where_they_belong),
		cmocka_unit_test(rows_outlive_their_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
