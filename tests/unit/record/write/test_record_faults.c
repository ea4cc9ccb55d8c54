/* SPDX-License-Identifier: MIT
 *
 * Disks that fill up or fail: one message, the recording pauses or ends, committed data stays readable,
 * the caller continues.
 */
#include "base/units.h"
#include "record/read/reader.h"
#include "writer_rig.h"

#include <errno.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <signal.h>

/* ---- a VFS that fails ------------------------------------------------------------------------ */

/* SQLite's own methods, except that one write and all later ones fail
 * (sqlite.org/c3ref/io_methods.html). */
struct faults {
	sqlite3_vfs vfs;
	sqlite3_vfs *real;
	/* The file itself and its journal have different methods. */
	sqlite3_io_methods methods[2];
	const sqlite3_io_methods *real_methods[2];
	long left;       /* writes that still succeed; negative: all do */
	int rc;          /* the result of the next one */
};

static struct faults faults;

static bool is_failing(void)
{
	if (faults.left < 0)
		return false;
	if (faults.left > 0) {
		faults.left--;
		return false;
	}
	return true;
}

static const sqlite3_io_methods *real_of(const sqlite3_file *file)
{
	return faults.real_methods[file->pMethods == &faults.methods[1]];
}

static int fail_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
	return is_failing() ? faults.rc : real_of(file)->xWrite(file, bytes, n, at);
}

static int fail_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	return is_failing() ? faults.rc : real_of(file)->xTruncate(file, size);
}

static int fail_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
	int rc = faults.real->xOpen(faults.real, name, file, flags, ret_flags);

	(void) vfs;
	if (rc == SQLITE_OK && file->pMethods) {
		int i = (flags & SQLITE_OPEN_MAIN_DB) != 0;

		faults.real_methods[i] = file->pMethods;
		faults.methods[i] = *file->pMethods;
		faults.methods[i].xWrite = fail_write;
		faults.methods[i].xTruncate = fail_truncate;
		file->pMethods = &faults.methods[i];
	}
	return rc;
}

static void faults_on(long left, int rc)
{
	faults.real = sqlite3_vfs_find("unix");
	assert_non_null(faults.real);
	faults.vfs = *faults.real;
	faults.vfs.zName = "faults";
	faults.vfs.xOpen = fail_open;
	faults.vfs.pNext = NULL;
	faults.left = left;
	faults.rc = rc;
	assert_int_equal(sqlite3_vfs_register(&faults.vfs, 1), SQLITE_OK);
}

static void faults_off(void)
{
	faults.left = -1;
	assert_int_equal(sqlite3_vfs_unregister(&faults.vfs), SQLITE_OK);
	assert_int_equal(sqlite3_vfs_register(faults.real, 1), SQLITE_OK);
}

/* Any resulting file can be opened or is recognized as invalid; committed data is complete. */
static void expect_readable(const char *file, int64_t least_ns)
{
	struct replay *r = NULL;
	struct job *job = NULL;
	struct err err = { "" };

	if (access(file, F_OK) < 0) {
		assert_int_equal(least_ns, 0);
		return;
	}
	if (replay_open(file, &r, &err) < 0) {
		assert_int_equal(least_ns, 0);
		assert_true(err.text[0] != '\0');
		return;
	}
	assert_int_equal(replay_job(r, &job, &err), 0);
	assert_true((int64_t) job_now(job) >= least_ns);
	job_free(job);
	replay_close(r);
	expect_sound(file);
}

/* Fails from the left-th write on. Returns false if the run needs no more writes than that. */
static bool run_with_fault(long left, int rc)
{
	struct rig_folder f;
	struct writer_rig w;
	struct sim s;
	int64_t committed = 0;
	bool failed;

	folder_new(&f);
	faults_on(left, rc);
	sim_new(&s, 100 * MS, SEC, 2, true);
	writer_rig_new(&w, &s, f.file, 64000000, 2 * SEC, 200);
	for (int k = 0; k < 60; k++) {
		uint64_t commits = w.writer.commits;

		sim_tick(&s);
		writer_rig_give(&w, false);
		if (w.writer.commits != commits)
			committed = (int64_t) sim_time(&s, s.k - 1);
	}
	sim_end(&s);
	writer_rig_finish(&w);
	failed = w.writer.failed || w.writer.result < 0;
	if (failed) {
		assert_true(w.writer.result < 0);
		assert_true(w.writer.trouble.text[0] != '\0');
		assert_null(w.writer.store);
	}
	faults_off();
	expect_readable(f.file, committed);
	writer_rig_done(&w);
	sim_done(&s);
	folder_done(&f);
	return failed;
}

static void every_write_may_fail(void **state)
{
	long left = 0;

	(void) state;
	for (; run_with_fault(left, SQLITE_FULL); left += 1 + left / 8)
		;
	assert_true(left > 50);
	for (left = 0; run_with_fault(left, SQLITE_IOERR_WRITE); left += 2 + left / 4)
		;
	assert_true(left > 50);
}

/* All writes from the left-th on fail for three seconds; then the disk has space again. */
static void with_fault_for_a_while(long left, int rc)
{
	struct rig_folder f;
	struct writer_rig w;
	struct sim s;
	bool was_paused = false;

	folder_new(&f);
	faults_on(left, rc);
	sim_new(&s, 100 * MS, SEC, 2, true);
	writer_rig_new(&w, &s, f.file, 64000000, 100 * SEC, 200);
	for (int k = 0; k < 100; k++) {
		const struct event mark = { .time_ns = sim_time(&s, s.k), .kind = EVENT_MARK, .text = "x" };

		framebuf_event(&s.buf, &mark);
		framebuf_series(&s.buf, &(struct series_value) { k % 2 ? "odd" : "even", k, true, k });
		sim_send(&s, FRAME_USER, mark.time_ns, 0);
		sim_tick(&s);
		writer_rig_give(&w, false);
		if (k == 60)
			faults.left = -1;
		was_paused = was_paused || w.writer.paused;
	}
	sim_end(&s);
	s.totals(s.ctx, s.job);
	writer_rig_finish(&w);
	if (faults.left < 0 && was_paused) {
		assert_true(strstr(w.writer.trouble.text, "cannot write") != NULL);
		assert_true(strstr(w.writer.news.text, "the recording continues; it has a gap of") != NULL);
		assert_true(w.writer.gap_ns > 0 && w.writer.gap_ns < 9 * SEC);
		assert_int_equal(sql_int(f.file, "SELECT value FROM meta WHERE key = 'recording_gap_ns'"),
			(int64_t) w.writer.gap_ns);
	}
	assert_int_equal(w.writer.result, 0);
	faults_off();
	expect_sound(f.file);
	assert_int_equal(sql_int(f.file, "SELECT value FROM meta WHERE key = 'ended_ns'"),
		(int64_t) sim_time(&s, s.k));
	/* What cannot be read again is there from the whole time. */
	assert_int_equal(sql_int(f.file, "SELECT count(*) FROM event WHERE kind = 'mark'"), 100);
	assert_int_equal(sql_int(f.file, "SELECT count(DISTINCT t) FROM series_value"), 100);
	assert_int_equal(sql_int(f.file, "SELECT n FROM series WHERE name = 'odd'"), 50);
	assert_int_equal(sql_int(f.file, "SELECT count(*) FROM process WHERE ended IS NOT NULL"), 2);
	assert_int_equal(sql_int(f.file, "SELECT n FROM summary WHERE entity = 'job' AND metric = 'ram'"),
		(int64_t) s.k);
	assert_true(sql_int(f.file, "SELECT max(t) FROM job_sample") >= (int64_t) (9 * SEC));
	writer_rig_done(&w);
	sim_done(&s);
	folder_done(&f);
}

static void a_disk_that_fails_for_a_while_leaves_a_gap(void **state)
{
	(void) state;
	for (long left = 60; left < 400; left += 1 + left / 4) {
		with_fault_for_a_while(left, SQLITE_FULL);
		with_fault_for_a_while(left, SQLITE_IOERR_WRITE);
	}
}

static int drain_in_vain(void *ctx, enum trace_drain how, const struct trace_sink *sink)
{
	(void) how;
	(void) sink;
	return *(const int *) ctx;
}

/* What is traced comes from the job: an error there is not one of the disk. */
static void errors_of_what_is_traced_pause_nothing(void **state)
{
	int error = -ENOMEM;
	struct rig_folder f;
	struct writer_rig w;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 2, true);
	writer_rig_new(&w, &s, f.file, 64000000, 100 * SEC, 200);
	w.writer.options.trace = (struct trace_feed) { drain_in_vain, &error };
	for (int k = 0; k < 30; k++) {
		sim_tick(&s);
		writer_rig_give(&w, false);
		error = k % 2 ? -ENOMEM : -EINVAL;
		writer_drain(&w.writer, TRACE_DRAIN_USUAL);
		assert_false(w.writer.paused);
	}
	sim_end(&s);
	s.totals(s.ctx, s.job);
	writer_rig_finish(&w);
	assert_string_equal(w.writer.trouble.text, "");
	assert_int_equal(w.writer.gap_ns, 0);
	writer_rig_done(&w);
	sim_done(&s);
	folder_done(&f);
}

/* One kernel a drain, without a break between them. */
static int drain_kernels(void *ctx, enum trace_drain how, const struct trace_sink *sink)
{
	struct sim *s = ctx;
	const struct trace_process p = { .pid = 5, .name = "p", .origin = "probe", .rank = -1 };
	struct trace_site site = { .kind = TRACE_KERNEL, .name = "k", .domain = "", .tid = -1 };
	struct trace_event e = { .end_ns = sim_time(s, s->k) };
	int r;

	(void) how;
	e.start_ns = e.end_ns > 100 * MS ? e.end_ns - 100 * MS : 0;
	r = sink->process(sink->ctx, &p, &site.process);
	if (r == 0)
		r = sink->site(sink->ctx, &site, &e.site);
	if (r == 0)
		r = sink->window(sink->ctx, 0, UINT64_MAX, "whole run");
	return r == 0 ? sink->event(sink->ctx, &e) : r;
}

static void a_pause_is_no_idle_time_of_a_gpu(void **state)
{
	struct rig_folder f;
	struct writer_rig w;
	struct sim s;
	bool was_paused = false;
	int64_t traced, busy;

	(void) state;
	folder_new(&f);
	faults_on(-1, SQLITE_FULL);
	sim_new(&s, 100 * MS, SEC, 2, true);
	writer_rig_new(&w, &s, f.file, 64000000, 100 * SEC, 200);
	w.writer.options.trace = (struct trace_feed) { drain_kernels, &s };
	for (int k = 0; k < 200; k++) {
		sim_tick(&s);
		writer_rig_give(&w, false);
		writer_drain(&w.writer, TRACE_DRAIN_USUAL);
		faults.left = k < 50 || k > 120 ? -1 : 0;
		was_paused = was_paused || w.writer.paused;
	}
	assert_true(was_paused);
	sim_end(&s);
	s.totals(s.ctx, s.job);
	writer_rig_finish(&w);
	faults_off();
	traced = sql_int(f.file, "SELECT traced FROM trace_busy");
	busy = sql_int(f.file, "SELECT busy FROM trace_busy");
	assert_in_range(traced, 8 * SEC, 15 * SEC);
	assert_in_range(traced - busy, 0, SEC / 2);
	writer_rig_done(&w);
	sim_done(&s);
	folder_done(&f);
}

/* A sampler, as the recorder hears it: a new frame with each drain, passed once; "again" passes all of them once more. */
struct frames {
	uint32_t known, passed;
	unsigned agains;
};

static int drain_frames(void *ctx, bool last, const struct where_sink *sink)
{
	const struct where_frame frame = { .module = "/bin/job", .build_id = "", .function = "f", .file = "" };
	struct frames *f = ctx;
	int r = 0;

	(void) last;
	f->known++;
	while (r == 0 && f->passed < f->known) {
		f->passed++;
		r = sink->frame(sink->ctx, f->passed, &frame);
	}
	return r;
}

static void pass_frames_again(void *ctx)
{
	struct frames *f = ctx;

	f->passed = 0;
	f->agains++;
}

static void samples_of_a_lost_transaction_are_passed_again(void **state)
{
	struct frames frames = { 0 };
	struct rig_folder f;
	struct writer_rig w;
	struct sim s;

	(void) state;
	folder_new(&f);
	faults_on(-1, SQLITE_FULL);
	sim_new(&s, 100 * MS, SEC, 2, true);
	writer_rig_new(&w, &s, f.file, 64000000, 100 * SEC, 200);
	w.writer.options.where = (struct where_source) { drain_frames, pass_frames_again, &frames };
	for (int k = 0; k < 200; k++) {
		sim_tick(&s);
		writer_rig_give(&w, false);
		writer_drain(&w.writer, TRACE_DRAIN_USUAL);
		faults.left = k < 55 || k > 120 ? -1 : 0;
	}
	assert_false(w.writer.paused);
	assert_int_equal(frames.agains, 1); /* not with each attempt */
	sim_end(&s);
	s.totals(s.ctx, s.job);
	writer_rig_finish(&w);
	faults_off();
	assert_int_equal(sql_int(f.file, "SELECT count(*) FROM where_frame"), frames.known);
	writer_rig_done(&w);
	sim_done(&s);
	folder_done(&f);
}

/* ---- real disks ------------------------------------------------------------------------------ */

/* The reported end is that of the file, or before it where it could be written again meanwhile. */
static void expect_end(const char *file, const char *text)
{
	static const char before[] = "It ends ", again[] = ", unless it can be written again";
	const char *begin = strstr(text, before), *end = begin ? strstr(begin, " into the run") : NULL;
	struct replay *reader;
	int64_t last_ns = 0, said_ns = 0;
	char span[UNITS_LEN], said[UNITS_LEN];

	if (!end)
		fail_msg("\"%s\" does not say when it ends", text);
	(void) snprintf(said, sizeof(said), "%.*s", (int) (end - begin) - (int) strlen(before),
		begin + strlen(before));
	assert_int_equal(replay_open(file, &reader, NULL), 0);
	(void) reader_meta_int(reader, "last_ns", &last_ns);
	replay_close(reader);
	if (strcmp(said, units_duration(last_ns, span)) == 0)
		return;
	assert_int_equal(units_parse_duration(said, &said_ns, NULL), 0);
	if (!strstr(text, again) || said_ns > last_ns)
		fail_msg("\"%s\", but it ends %s into the run", text, span);
}

/* Runs until the recording has an error, which is reported once. True: it ended the recording; else
 * there was room for the end, after a gap. */
static bool run_into_trouble(const char *file, const char *word)
{
	struct record *r = rig_record(&(struct record_options) { .path = file });
	struct err err = { "" };
	struct sim s;
	bool told = false;
	char *path = NULL;
	struct record_end end;
	bool has_ended;

	sim_new(&s, 100 * MS, SEC, 10, true);
	sim_into(&s, r);
	for (int k = 0; k < 20000 && !told; k++) {
		sim_tick(&s);
		if (k % 10 == 9)
			(void) usleep(1000); /* let it work; the amount does not matter */
		told = record_trouble(r, &err);
	}
	if (!told)
		fail_msg("no trouble");
	if (!strstr(err.text, word) || !strstr(err.text, file))
		fail_msg("\"%s\" does not say \"%s\"", err.text, word);
	expect_end(file, err.text);
	/* Once; and the rest of the run does nothing. */
	assert_false(record_trouble(r, &err));
	for (int k = 0; k < 100; k++)
		sim_tick(&s);
	assert_false(record_trouble(r, &err));
	sim_end(&s);
	has_ended = record_finish(r, s.job, true, 60 * SEC, &end, NULL) < 0;
	path = end.path;
	free(path);
	sim_done(&s);
	return has_ended;
}

static void a_full_disk_ends_the_recording_only(void **state)
{
	struct rig_folder f;

	(void) state;
	folder_new(&f);
	if (mount("none", f.path, "tmpfs", 0, "size=340k") < 0) {
		folder_done(&f);
		print_message("no tmpfs can be mounted here: %s\n", strerror(errno));
		skip();
	}
	if (run_into_trouble(f.file, "No space left on device"))
		expect_text(f.file, "SELECT value FROM meta WHERE key = 'recording_stopped'",
			"No space left on device");
	expect_readable(f.file, 1);
	assert_int_equal(umount(f.path), 0);
	folder_done(&f);
}

static char limited_file[96];

static void under_a_limit(void **state)
{
	(void) state;
	(void) run_into_trouble(limited_file, "File too large");
}

/* The limit's signal must not reach the job's recorder either. */
static void a_file_size_limit_ends_the_recording_only(void **state)
{
	const struct CMUnitTest in_child[] = { cmocka_unit_test(under_a_limit) };
	struct rig_folder f;
	pid_t child;
	int status;

	(void) state;
	folder_new(&f);
	(void) snprintf(limited_file, sizeof(limited_file), "%s", f.file);
	(void) fflush(stdout);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		const struct rlimit limit = { 300000, 300000 };

		(void) setrlimit(RLIMIT_FSIZE, &limit);
		_exit(cmocka_run_group_tests_name("under a limit", in_child, NULL, NULL));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	expect_readable(f.file, 1);
	folder_done(&f);
}

static void a_folder_that_goes_away_is_trouble(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct err err = { "" };
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	folder_done(&f);
	sim_into(&s, r);
	for (int k = 0; k < 50; k++)
		sim_tick(&s);
	assert_true(record_finish(r, s.job, true, 60 * SEC, NULL, &err) < 0);
	assert_non_null(strstr(err.text, f.file));
	sim_done(&s);
}

static void a_file_that_appears_meanwhile_is_kept(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct err err = { "" };
	struct stat st;
	struct sim s;
	FILE *file;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	file = fopen(f.file, "w");
	assert_non_null(file);
	assert_int_equal(fputs("mine", file) >= 0, 1);
	(void) fclose(file);
	sim_into(&s, r);
	for (int k = 0; k < 5; k++)
		sim_tick(&s);
	assert_true(record_finish(r, s.job, true, 60 * SEC, NULL, &err) < 0);
	assert_int_equal(stat(f.file, &st), 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(folder_count(&f), 1);
	sim_done(&s);
	folder_done(&f);
}

/* The same where another name will do: that is reported, and no error. */
static void a_name_that_is_taken_meanwhile_is_reported(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct record_end end;
	struct err err = { "" };
	struct sim s;
	FILE *file;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	r = rig_record(&(struct record_options) { .path = f.file, .renames = true });
	file = fopen(f.file, "w");
	assert_non_null(file);
	(void) fclose(file);
	sim_into(&s, r);
	for (int k = 0; k < 5; k++)
		sim_tick(&s);
	sim_end(&s);
	assert_int_equal(record_finish(r, s.job, true, 60 * SEC, &end, &err), 0);
	assert_non_null(end.path);
	assert_non_null(strstr(end.path, "-2.hiw"));
	assert_non_null(strstr(err.text, " exists; this run is recorded in "));
	assert_non_null(strstr(err.text, end.path));
	free(end.path);
	sim_done(&s);
	folder_done(&f);
}

/* On a network file system the copy may fail: the recording stays where it was written, and the
 * message names the path. */
static void a_copy_that_fails_leaves_the_original(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct err err = { "" };
	struct sim s;
	char *where, original[128] = "";

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	r = rig_record(&(struct record_options) { .path = f.file, .force_snapshot = true });
	folder_done(&f);
	sim_into(&s, r);
	for (int k = 0; k < 50; k++)
		sim_tick(&s);
	sim_end(&s);
	assert_true(record_finish(r, s.job, true, 60 * SEC, NULL, &err) < 0);
	where = strstr(err.text, "/tmp/hiwater-");
	while (where && strstr(where + 1, "/tmp/hiwater-"))
		where = strstr(where + 1, "/tmp/hiwater-");
	assert_non_null(where);
	(void) snprintf(original, sizeof(original), "%.*s", (int) strcspn(where, " ;:"), where);
	expect_readable(original, 1);
	(void) unlink(original);
	*strrchr(original, '/') = '\0';
	assert_int_equal(rmdir(original), 0);
	sim_done(&s);
}

/* At the end a disk gets at most two seconds; here it gets none. */
static void a_locked_file_is_waited_for_only_so_long(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct err err = { "" };
	struct sim s;
	sqlite3 *db = NULL;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 1, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	sim_into(&s, r);
	for (int k = 0; k < 20; k++)
		sim_tick(&s);
	for (int i = 0; i < 6000 && !record_path(r); i++)
		(void) usleep(10000);
	assert_non_null(record_path(r));
	/* Another program writes to it and does not finish. */
	for (int i = 0; i < 6000; i++) {
		if (!db)
			assert_int_equal(
				sqlite3_open_v2(f.file, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
		if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK)
			break;
		(void) usleep(10000);
	}
	assert_int_equal(sqlite3_get_autocommit(db), 0);
	for (int k = 0; k < 20; k++)
		sim_tick(&s);
	assert_int_equal(record_finish(r, s.job, true, 50 * MS, NULL, &err), -ETIMEDOUT);
	assert_true(err.text[0] != '\0');
	(void) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	(void) sqlite3_close(db);
	/* The thread continues on its own and finishes: the file is then one file, and complete. */
	for (int i = 0; i < 6000 &&
			(folder_count(&f) > 1 ||
				sql_is_null(f.file,
					"SELECT 1 FROM meta WHERE key = 'last_ns' AND"
					" value > 3900000000"));
		i++)
		(void) usleep(10000);
	assert_int_equal(folder_count(&f), 1);
	expect_sound(f.file);
	sim_done(&s);
	folder_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_write_may_fail),
		cmocka_unit_test(a_disk_that_fails_for_a_while_leaves_a_gap),
		cmocka_unit_test(errors_of_what_is_traced_pause_nothing),
		cmocka_unit_test(a_pause_is_no_idle_time_of_a_gpu),
		cmocka_unit_test(samples_of_a_lost_transaction_are_passed_again),
		cmocka_unit_test(a_full_disk_ends_the_recording_only),
		cmocka_unit_test(a_file_size_limit_ends_the_recording_only),
		cmocka_unit_test(a_folder_that_goes_away_is_trouble),
		cmocka_unit_test(a_file_that_appears_meanwhile_is_kept),
		cmocka_unit_test(a_name_that_is_taken_meanwhile_is_reported),
		cmocka_unit_test(a_copy_that_fails_leaves_the_original),
		cmocka_unit_test(a_locked_file_is_waited_for_only_so_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
