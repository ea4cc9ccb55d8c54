/* SPDX-License-Identifier: MIT */
#include "record_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <time.h>

/* ---- a run read back with SQLite ------------------------------------------------------------- */

static void expect_header(const char *file)
{
	struct stat st;

	assert_int_equal(sql_int(file, "PRAGMA application_id"), 0x48695761);
	assert_int_equal(sql_int(file, "PRAGMA user_version"), 2);
	assert_int_equal(sql_int(file, "PRAGMA auto_vacuum"), 2);
	expect_text(file, "PRAGMA journal_mode", "delete");
	expect_sound(file);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void expect_windows(const char *file)
{
	char sql[256];

	/* 50 samples of 100 ms are windows 0 to 4 and the remainder after the last sample. */
	assert_int_equal(sql_int(file, "SELECT count(*) FROM host_sample WHERE t < 5000000000"), 5);
	assert_int_equal(sql_int(file, "SELECT count(*) FROM job_sample WHERE t % 1000000000 <> 0"), 0);
	for (int w = 0; w < 5; w++) {
		int64_t max = 0, min = INT64_MAX, sum = 0;

		for (uint64_t k = (uint64_t) w * 10; k < (uint64_t) w * 10 + 10; k++) {
			int64_t rss = sim_rss(1, k);

			max = rss > max ? rss : max;
			min = rss < min ? rss : min;
			sum += rss;
		}
		(void) snprintf(sql, sizeof(sql),
			"SELECT rss_max FROM process_sample WHERE id = 1 AND t = %d000000000", w);
		/* A value of the window before is valid for the first millisecond. */
		assert_true(sql_int(file, sql) >= max);
		(void) snprintf(sql, sizeof(sql),
			"SELECT rss_min FROM process_sample WHERE id = 1 AND t = %d000000000", w);
		assert_true(sql_int(file, sql) <= min);
		(void) snprintf(sql, sizeof(sql),
			"SELECT rss FROM process_sample WHERE id = 1 AND t = %d000000000", w);
		assert_true(llabs(sql_int(file, sql) - sum / 10) < MB);
		(void) snprintf(
			sql, sizeof(sql), "SELECT n FROM process_sample WHERE id = 1 AND t = %d000000000", w);
		assert_int_equal(sql_int(file, sql), 10);
	}
	/* and the values set by the end of the run */
	assert_int_equal(sql_int(file, "SELECT count(*) FROM job_recent"), 51);
	assert_int_equal(sql_int(file, "SELECT ram FROM job_recent WHERE t = 301000000"), sim_rss(1, 3));
	assert_true(sql_is_null(file, "SELECT part FROM job_recent WHERE t = 301000000"));
	assert_true(sql_is_null(
		file, "SELECT energy FROM job_recent, host_recent WHERE host_recent.t = 301000000"));
	assert_int_equal(sql_int(file, "SELECT count(*) FROM job_sample WHERE cgroup_mem IS NOT NULL"), 0);
}

static void a_run_is_a_database(void **state)
{
	struct rig_folder f;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	rig_run(f.file, &s, 50, 0);
	assert_int_equal(folder_count(&f), 1); /* no journal, nothing temporary */
	expect_header(f.file);
	expect_windows(f.file);
	expect_text(f.file, "SELECT value FROM meta WHERE key = 'command'", "train --data x");
	assert_int_equal(
		sql_int(f.file, "SELECT value FROM meta WHERE key = 'ended_ns'"), (int64_t) sim_time(&s, 50));
	assert_int_equal(sql_int(f.file, "SELECT value FROM meta WHERE key = 'schema'"), 2);
	assert_int_equal(sql_int(f.file, "SELECT count(*) FROM meta WHERE key = 'recording'"), 0);
	assert_int_equal(sql_int(f.file, "SELECT count(*) FROM metric"), METRIC_COUNT);
	expect_text(f.file, "SELECT unit FROM metric WHERE entity = 'process' AND name = 'cpu_user'", "ns");
	expect_text(f.file, "SELECT name FROM process WHERE is_main", "proc1");
	expect_text(f.file, "SELECT end_source FROM process WHERE id = 1", "reaped");
	assert_int_equal(sql_int(f.file, "SELECT pid FROM process"), 1001);
	assert_int_equal(
		sql_int(f.file, "SELECT max FROM summary WHERE entity = 'job' AND metric = 'ram_main'"),
		job_acc(s.job, M_JOB_RAM_MAIN, 0)->max);
	assert_int_equal(
		sql_int(f.file, "SELECT n FROM summary WHERE entity = 'job' AND metric = 'ram_main'"),
		(int64_t) job_acc(s.job, M_JOB_RAM_MAIN, 0)->n);
	sim_done(&s);
	folder_done(&f);
}

/* The same through the sqlite3 program, if it is installed. */
static void sqlite3_reads_it(void **state)
{
	struct rig_folder f;
	struct sim s;
	char command[256], text[64] = "";
	FILE *out;

	(void) state;
	if (system("command -v sqlite3 > /dev/null") != 0) {
		print_message("no sqlite3 program here\n");
		skip();
	}
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	rig_run(f.file, &s, 30, 0);
	(void) snprintf(
		command, sizeof(command), "sqlite3 %s 'SELECT max(rss_max) FROM process_sample'", f.file);
	out = popen(command, "r");
	assert_non_null(out);
	assert_non_null(fgets(text, sizeof(text), out));
	(void) pclose(out);
	assert_int_equal(strtoll(text, NULL, 10), sql_int(f.file, "SELECT max(rss_max) FROM process_sample"));
	sim_done(&s);
	folder_done(&f);
}

static void send_all(struct record *r, struct framebuf *b, uint64_t time_ns)
{
	const struct frame frame = framebuf_frame(b, FRAME_USER, time_ns, 0);

	record_frame(r, &frame);
	framebuf_clear(b);
}

static void events_and_series_are_there(void **state)
{
	const double values[] = { 0.5, NAN, INFINITY, -1e300 };
	struct framebuf b = { 0 };
	struct rig_folder f;
	struct record *r;

	(void) state;
	folder_new(&f);
	r = rig_record(&(struct record_options) { .path = f.file });
	framebuf_event(&b,
		&(struct event) { .time_ns = 5 * MS,
			.kind = EVENT_PHASE_BEGIN,
			.entity = ENTITY_JOB,
			.phase = 3,
			.text = "epoch" });
	framebuf_event(&b,
		&(struct event) { .time_ns = 6 * MS,
			.kind = EVENT_MARK,
			.entity = ENTITY_PROCESS,
			.id = 9,
			.text = "\xff not UTF-8" });
	for (int i = 0; i < 4; i++)
		framebuf_series(&b, &(struct series_value) { "loss", values[i], i > 0, i });
	framebuf_series(&b, &(struct series_value) { "accuracy", 1, false, 0 });
	send_all(r, &b, 7 * MS);
	framebuf_done(&b);
	rig_finish(r, NULL);
	expect_text(f.file, "SELECT text FROM event WHERE kind = 'phase-begin' AND phase = 3 AND t = 5000000",
		"epoch");
	expect_text(f.file,
		"SELECT typeof(text) FROM event WHERE kind = 'mark' AND entity = 'process' AND id = 9",
		"blob");
	assert_int_equal(sql_int(f.file,
				 "SELECT count(*) FROM series_value v JOIN series s ON v.series = s.id"
				 " WHERE s.name = 'loss'"),
		4);
	assert_int_equal(
		sql_int(f.file, "SELECT count(*) FROM series_value WHERE value IS NULL AND step = 1"), 1);
	assert_int_equal(sql_int(f.file, "SELECT value > 1e308 FROM series_value WHERE step = 2"), 1);
	assert_true(sql_is_null(f.file, "SELECT step FROM series_value WHERE value = 0.5"));
	folder_done(&f);
}

/* Names may be any bytes; 15 of them. */
static void any_bytes_are_a_name(void **state)
{
	struct birth birth = { .entity = ENTITY_PROCESS, .id = 1 };
	struct framebuf b = { 0 };
	struct rig_folder f;
	struct record *r;

	(void) state;
	folder_new(&f);
	r = rig_record(&(struct record_options) { .path = f.file });
	birth.process.name = "a\xc3\x28\n'\"";
	birth.process.command = "caf\xc3\xa9";
	framebuf_birth(&b, &birth);
	send_all(r, &b, MS);
	framebuf_done(&b);
	rig_finish(r, NULL);
	expect_text(f.file, "SELECT hex(name) FROM process", "61C3280A2722");
	expect_text(f.file, "SELECT command FROM process", "caf\xc3\xa9");
	folder_done(&f);
}

/* A GPU that could not report its memory at first keeps its row once it does. */
static void a_gpu_that_is_born_again_is_one(void **state)
{
	struct birth birth = { .entity = ENTITY_GPU, .id = 1, .gpu = { .uuid = "GPU-1", .name = "A" } };
	struct framebuf b = { 0 };
	struct rig_folder f;
	struct record *r;

	(void) state;
	folder_new(&f);
	r = rig_record(&(struct record_options) { .path = f.file });
	framebuf_birth(&b, &birth);
	send_all(r, &b, MS);
	birth.gpu.memory_bytes = known(8192);
	birth.gpu.unified = true;
	framebuf_birth(&b, &birth);
	send_all(r, &b, 2 * MS);
	framebuf_done(&b);
	rig_finish(r, NULL);
	assert_int_equal(
		sql_int(f.file,
			"SELECT count(*) FROM gpu WHERE memory = 8192 AND unified AND born = 1000000 AND uuid = 'GPU-1'"),
		1);
	assert_int_equal(sql_int(f.file, "SELECT count(*) FROM gpu"), 1);
	folder_done(&f);
}

/* ---- size ------------------------------------------------------------------------------------ */

static const char rows[] = "SELECT (SELECT count(*) FROM host_sample) + (SELECT count(*) FROM job_sample)"
			   " + (SELECT count(*) FROM process_sample) + (SELECT count(*) FROM host_recent)"
			   " + (SELECT count(*) FROM job_recent) + (SELECT count(*) FROM process_recent)";

static void a_training_of_37_minutes_is_under_two_mebibytes(void **state)
{
	const uint64_t ticks = 37 * 60 * 10;
	struct rig_folder f;
	struct stat st;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	s.calm = true;
	rig_run(f.file, &s, ticks, 0);
	assert_int_equal(stat(f.file, &st), 0);
	assert_int_equal(sql_int(f.file, "SELECT count(*) FROM job_sample"), (int64_t) ticks / 10 + 1);
	/* The last minutes at full rate, and nothing older. */
	assert_in_range(sql_int(f.file, "SELECT count(*) FROM job_recent"), 3000, 3200);
	print_message("%lld bytes, %lld rows\n", (long long) st.st_size, (long long) sql_int(f.file, rows));
	assert_true(st.st_size < 2 * 1024 * 1024);
	sim_done(&s);
	folder_done(&f);
}

static void a_row_of_ten_processes_is_under_a_hundred_bytes(void **state)
{
	struct rig_folder f;
	struct stat few, many;
	struct sim s;
	int64_t n;

	(void) state;
	folder_new(&f);
	sim_new(&s, 10 * MS, SEC, 10, true);
	rig_run(f.file, &s, 300, 0);
	assert_int_equal(stat(f.file, &few), 0);
	n = sql_int(f.file, rows);
	sim_done(&s);
	assert_int_equal(unlink(f.file), 0);
	sim_new(&s, 10 * MS, SEC, 10, true);
	rig_run(f.file, &s, 3300, 0);
	assert_int_equal(stat(f.file, &many), 0);
	n = sql_int(f.file, rows) - n;
	print_message("%lld bytes a row\n", (long long) ((many.st_size - few.st_size) / n));
	assert_true(many.st_size - few.st_size < 100 * n);
	sim_done(&s);
	folder_done(&f);
}

/* ---- where and when -------------------------------------------------------------------------- */

static void nothing_is_made_before_there_is_something_to_say(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct sim s;
	char *path = NULL;
	struct record_end end;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	sim_into(&s, r);
	for (int k = 0; k < 5; k++)
		sim_tick(&s);
	assert_int_equal(folder_count(&f), 0);
	assert_null(record_path(r));
	sim_end(&s);
	assert_int_equal(record_finish(r, s.job, true, 10 * SEC, &end, NULL), 0);
	path = end.path;
	assert_string_equal(path, f.file);
	assert_int_equal(folder_count(&f), 1);
	expect_header(f.file);
	assert_int_equal(sql_int(f.file, "SELECT count(*) FROM job_sample"), 1);
	assert_int_equal(sql_int(f.file, "SELECT count(*) FROM job_recent"), 6);
	free(path);
	sim_done(&s);
	folder_done(&f);
}

static void a_name_that_is_taken_gets_a_number(void **state)
{
	struct rig_folder f;
	struct record *r;
	char path[160], other[] = "other";
	struct err err = { "" };

	(void) state;
	folder_new(&f);
	r = rig_record(&(struct record_options) { .path = f.file, .renames = true });
	assert_null(record_renamed(r));
	rig_finish(r, NULL);
	for (unsigned n = 2; n < 4; n++) {
		(void) snprintf(path, sizeof(path), "%.*s-%u.hiw", (int) strlen(f.file) - 4, f.file, n);
		r = rig_record(&(struct record_options) { .path = f.file, .renames = true });
		assert_string_equal(record_renamed(r), path);
		rig_finish(r, NULL);
		expect_header(path);
	}
	/* Taken between the check and the first row. */
	(void) snprintf(path, sizeof(path), "%s/%s", f.path, other);
	r = rig_record(&(struct record_options) { .path = path, .renames = true });
	assert_null(record_renamed(r));
	assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0644)), 0);
	rig_finish(r, NULL);
	(void) snprintf(path, sizeof(path), "%s/%s-2", f.path, other);
	expect_header(path);
	assert_int_equal(record_new(&(struct record_options) { .path = "/dev/null", .renames = true }, &r, &err),
		-ENOTSUP);
	folder_done(&f);
}

static void what_is_there_is_kept(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct err err = { "" };
	char path[160];

	(void) state;
	folder_new(&f);
	(void) snprintf(path, sizeof(path), "%s/none/run.hiw", f.path);
	assert_int_equal(record_new(&(struct record_options) { .path = path }, &r, &err), -ENOENT);
	assert_non_null(strstr(err.text, "none"));
	assert_int_equal(close(open(f.file, O_CREAT | O_WRONLY, 0644)), 0);
	assert_int_equal(record_new(&(struct record_options) { .path = f.file }, &r, &err), -EEXIST);
	assert_non_null(strstr(err.text, f.file));
	(void) snprintf(path, sizeof(path), "%s/run.hiw/x", f.path);
	assert_int_equal(record_new(&(struct record_options) { .path = path }, &r, &err), -ENOTDIR);
	assert_int_equal(record_new(&(struct record_options) { .path = f.path, .overwrite = true }, &r, &err),
		-EISDIR);
	r = rig_record(&(struct record_options) { .path = f.file, .overwrite = true });
	rig_finish(r, NULL);
	expect_header(f.file);
	folder_done(&f);
}

static void a_forgotten_one_leaves_nothing(void **state)
{
	struct rig_folder f;
	struct sim s;
	struct record *r;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	sim_into(&s, r);
	sim_tick(&s);
	record_forget(r);
	assert_int_equal(folder_count(&f), 0);
	record_forget(NULL);
	sim_done(&s);
	folder_done(&f);
}

/* ---- while it grows -------------------------------------------------------------------------- */

/* Waits until the recording has reached time_ns; the disk may be slow, but not for a minute. */
static void wait_for(const char *file, uint64_t time_ns)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	for (int i = 0; i < 12000; i++) {
		struct stat st;

		if (stat(file, &st) == 0 && st.st_size > 0) {
			sqlite3 *db = NULL;
			sqlite3_stmt *st_ = NULL;
			int64_t last = -1;

			(void) sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL);
			if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key = 'last_ns'", -1, &st_,
				    NULL) == SQLITE_OK &&
				sqlite3_step(st_) == SQLITE_ROW)
				last = sqlite3_column_int64(st_, 0);
			(void) sqlite3_finalize(st_);
			(void) sqlite3_close(db);
			if (last >= (int64_t) time_ns)
				return;
		}
		(void) nanosleep(&pause, NULL);
	}
	fail_msg("no commit in a minute");
}

static void it_is_readable_while_it_grows(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 2, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	sim_into(&s, r);
	for (int w = 1; w <= 3; w++) {
		for (int k = 0; k < 10; k++)
			sim_tick(&s);
		wait_for(f.file, sim_time(&s, s.k - 1));
		expect_sound(f.file);
		/* The open window is available at full rate; closed ones as windows. */
		assert_int_equal(sql_int(f.file, "SELECT count(*) FROM job_recent"), w * 10);
		assert_int_equal(sql_int(f.file, "SELECT count(*) FROM job_sample"), w - 1);
		assert_int_equal(
			sql_int(f.file,
				"SELECT last FROM summary WHERE entity = 'job' AND metric = 'ram_main'"),
			sim_rss(1, s.k - 1));
	}
	assert_string_equal(record_path(r), f.file);
	rig_finish(r, s.job);
	assert_int_equal(folder_count(&f), 1);
	sim_done(&s);
	folder_done(&f);
}

static void in_a_hurry_each_tick_is_committed(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	sim_into(&s, r);
	record_hurry(r, true);
	for (int k = 0; k < 5; k++) {
		sim_tick(&s);
		wait_for(f.file, sim_time(&s, s.k - 1));
	}
	record_hurry(r, false);
	rig_finish(r, s.job);
	sim_done(&s);
	folder_done(&f);
}

/* ---- write_locally --------------------------------------------------------------------------- */

static void on_a_share_it_is_copied(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	r = rig_record(&(struct record_options) { .path = f.file, .force_snapshot = true });
	assert_non_null(record_note(r));
	assert_non_null(strstr(record_note(r), "/tmp"));
	sim_into(&s, r);
	for (int k = 0; k < 200; k++)
		sim_tick(&s);
	/* The first copy is made ten seconds into the run; it is complete, and there is no other
	 * file next to it. */
	wait_for(f.file, 10 * SEC);
	expect_sound(f.file);
	expect_text(f.file, "PRAGMA journal_mode", "delete");
	assert_int_equal(folder_count(&f), 1);
	for (int k = 0; k < 200; k++)
		sim_tick(&s);
	sim_end(&s);
	rig_finish(r, s.job);
	expect_header(f.file);
	assert_int_equal(folder_count(&f), 1);
	assert_int_equal(sql_int(f.file, "SELECT count(*) FROM job_sample"), 41);
	sim_done(&s);
	folder_done(&f);
}

static void elsewhere_there_is_no_note(void **state)
{
	struct rig_folder f;
	struct record *r;

	(void) state;
	folder_new(&f);
	r = rig_record(&(struct record_options) { .path = f.file });
	assert_null(record_note(r));
	record_forget(r);
	folder_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_is_a_database),
		cmocka_unit_test(sqlite3_reads_it),
		cmocka_unit_test(events_and_series_are_there),
		cmocka_unit_test(any_bytes_are_a_name),
		cmocka_unit_test(a_gpu_that_is_born_again_is_one),
		cmocka_unit_test(a_training_of_37_minutes_is_under_two_mebibytes),
		cmocka_unit_test(a_row_of_ten_processes_is_under_a_hundred_bytes),
		cmocka_unit_test(nothing_is_made_before_there_is_something_to_say),
		cmocka_unit_test(a_name_that_is_taken_gets_a_number),
		cmocka_unit_test(what_is_there_is_kept),
		cmocka_unit_test(a_forgotten_one_leaves_nothing),
		cmocka_unit_test(it_is_readable_while_it_grows),
		cmocka_unit_test(in_a_hurry_each_tick_is_committed),
		cmocka_unit_test(on_a_share_it_is_copied),
		cmocka_unit_test(elsewhere_there_is_no_note),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
