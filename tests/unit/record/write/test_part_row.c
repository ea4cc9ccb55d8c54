/* SPDX-License-Identifier: MIT
 *
 * The windows that the recording of a rank or a node has for a merge (record/part_row.h).
 */
#include "record_rig.h"

#include <time.h>

#include "record/merge/merge.h"

/* Until the file is there: of a run that is written as a whole at its end no such rows are stored. */
static void wait_for_file(const char *file)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct stat st = { 0 };

	for (int i = 0; i < 60000 && (stat(file, &st) < 0 || st.st_size == 0); i++)
		(void) nanosleep(&pause, NULL);
	assert_true(st.st_size > 0);
}

/* A run of so many windows of a second; part: "rank", "node" or NULL. */
static void run(const char *file, const char *part, unsigned windows, uint64_t max_bytes)
{
	struct record *r;
	struct sim s;

	sim_new(&s, 250 * MS, SEC, 1, true);
	struct facts *f = job_facts(s.job);

	assert_int_equal(job_set_text(&f->part, part), 0);
	assert_int_equal(job_set_text(&f->id, "8b7c"), 0);
	assert_int_equal(job_set_text(&f->scheduler, "slurm"), 0);
	assert_int_equal(job_set_text(&f->scheduler_job, "1.0"), 0);
	assert_int_equal(job_set_text(&f->node, "n1"), 0);
	f->started_wall_ns = known(INT64_C(1700000000) * (int64_t) SEC);
	f->rank = part && strcmp(part, "rank") == 0 ? known(3) : UNKNOWN;
	r = rig_record(&(struct record_options) { .path = file, .max_bytes = max_bytes, .queue_bytes = 1 << 30 });
	sim_into(&s, r);
	for (unsigned k = 0; k < windows * 4; k++) {
		sim_tick(&s);
		if (k == 12)
			wait_for_file(file);
	}
	sim_end(&s);
	rig_finish(r, s.job);
	sim_done(&s);
}

static bool has_rows(const char *file)
{
	return sql_int(file, "SELECT count(*) FROM sqlite_master WHERE name = 'part_row'") == 1;
}

static void expect_same(const char *a, const char *b, const char *sql)
{
	assert_int_equal(sql_int(a, sql), sql_int(b, sql));
}

static void merge(const char *from, const char *to)
{
	struct err err = { "" };

	if (merge_recordings(&from, 1, to, &err) < 0)
		fail_msg("%s", err.text);
}

/* The rows that the recorder wrote are those that a merge makes of the windows. */
static void expect_rows(const char *part, unsigned windows, int64_t most)
{
	struct rig_folder f;
	char with[128], without[128];

	folder_new(&f);
	(void) snprintf(with, sizeof(with), "%s/with.hiw", f.path);
	(void) snprintf(without, sizeof(without), "%s/without.hiw", f.path);
	run(f.file, part, windows, 0);
	expect_sound(f.file);
	assert_true(has_rows(f.file));
	assert_in_range(sql_int(f.file, "SELECT count(*) FROM part_row WHERE part = 0"), most / 2, most + 1);
	assert_int_equal(sql_int(f.file, "SELECT max(ram_max) FROM part_row"), sql_int(f.file, "SELECT max(ram_max) FROM job_sample"));
	assert_int_equal(sql_int(f.file, "SELECT max(user) FROM part_row"), sql_int(f.file, "SELECT max(cpu_user) FROM job_sample"));
	merge(f.file, with);
	sql_run(f.file, "DROP TABLE part_row");
	merge(f.file, without);
	expect_same(with, without, "SELECT count(*) FROM part_row");
	expect_same(with, without, "SELECT max(ram_max) - min(ram_min) FROM part_row");
	expect_same(with, without, "SELECT total(t + span + ram + low_min + low_max + high + processes) % 1e15 FROM part_row");
	expect_same(with, without, "SELECT max(user + system) FROM part_row");
	folder_done(&f);
}

static void of_a_rank(void **state)
{
	(void) state;
	expect_rows("rank", 1000, 128);
}

static void of_a_node(void **state)
{
	(void) state;
	expect_rows("node", 3000, 1000);
}

/* A merge uses them, and does not read the windows. */
static void a_merge_reads_them_alone(void **state)
{
	struct rig_folder f;
	char to[128];

	(void) state;
	folder_new(&f);
	(void) snprintf(to, sizeof(to), "%s/job.hiw", f.path);
	run(f.file, "rank", 400, 0);
	sql_run(f.file, "DELETE FROM job_sample");
	merge(f.file, to);
	assert_true(sql_int(to, "SELECT count(*) FROM part_row") >= 64);
	folder_done(&f);
}

static void others_have_none(void **state)
{
	static const struct {
		const char *part;
		unsigned windows;
	} runs[] = {
		{ NULL, 1000 },
		{ "rank", 200 }, /* its windows are read as fast */
		{ "node", 1500 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		struct rig_folder f;

		folder_new(&f);
		run(f.file, runs[i].part, runs[i].windows, 0);
		assert_false(has_rows(f.file));
		folder_done(&f);
	}
}

/* The limit of the recording holds. */
static void where_there_is_room(void **state)
{
	const uint64_t most = 1 << 20;
	struct rig_folder f;
	struct stat st;

	(void) state;
	folder_new(&f);
	run(f.file, "rank", 6000, most);
	expect_sound(f.file);
	assert_int_equal(stat(f.file, &st), 0);
	assert_true((uint64_t) st.st_size <= most);
	assert_true(sql_int(f.file, "SELECT count(*) FROM job_sample") > 300);
	assert_false(has_rows(f.file));
	folder_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_rank),
		cmocka_unit_test(of_a_node),
		cmocka_unit_test(a_merge_reads_them_alone),
		cmocka_unit_test(others_have_none),
		cmocka_unit_test(where_there_is_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
