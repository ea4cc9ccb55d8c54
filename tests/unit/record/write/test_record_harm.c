/* SPDX-License-Identifier: MIT
 *
 * Other programs truncate, overwrite, replace or remove the files of a recording while it is
 * written: the process lives, the recording continues with a gap or its loss is reported, and
 * another file is never taken for it.
 */
#include "record/index_guard.h"
#include "writer_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

/* ---- a run and its harm ---------------------------------------------------------------------- */

struct harmed {
	struct rig_folder folder;
	struct writer_rig w;
	struct sim sim;
	char wal[110], shm[110];
};

static void guard_fault(int number, siginfo_t *info, void *context)
{
	(void) context;
	if (!index_guard_fault(info->si_addr))
		(void) signal(number, SIG_DFL);
}

static void on_faults(void)
{
	struct sigaction action = { .sa_sigaction = guard_fault, .sa_flags = SA_SIGINFO };

	assert_int_equal(sigaction(SIGBUS, &action, NULL), 0);
}

static void ticks(struct harmed *h, int n)
{
	for (int i = 0; i < n; i++) {
		sim_tick(&h->sim);
		writer_rig_give(&h->w, false);
	}
}

/* What is in no total: a mark, a value of a series, a GPU. */
static void add_mark(struct harmed *h, const char *text)
{
	const struct event mark = { .time_ns = sim_time(&h->sim, h->sim.k), .kind = EVENT_MARK, .text = text };

	framebuf_event(&h->sim.buf, &mark);
	framebuf_series(&h->sim.buf, &(struct series_value) { text, 1, false, 0 });
	sim_send(&h->sim, FRAME_USER, mark.time_ns, 0);
}

static void add_gpu(struct harmed *h)
{
	struct birth birth = { .entity = ENTITY_GPU, .id = 1 };

	birth.gpu.uuid = "GPU-1";
	birth.gpu.name = "one";
	framebuf_birth(&h->sim.buf, &birth);
	sim_send(&h->sim, FRAME_NVML, sim_time(&h->sim, h->sim.k), 0);
}

/* Two seconds and a half of it are recorded. number: as in writer_options. */
static void begin_in(struct harmed *h, unsigned number)
{
	on_faults();
	sim_new(&h->sim, 100 * MS, SEC, 3, true);
	writer_rig_new(&h->w, &h->sim, h->folder.file, 64000000, 100 * SEC, 200);
	h->w.writer.options.number = number;
	(void) snprintf(h->wal, sizeof(h->wal), "%s-wal", h->folder.file);
	(void) snprintf(h->shm, sizeof(h->shm), "%s-shm", h->folder.file);
	add_gpu(h);
	ticks(h, 1);
	add_mark(h, "first");
	ticks(h, 24);
	assert_true(h->w.writer.commits > 0);
}

static void begin(struct harmed *h)
{
	folder_new(&h->folder);
	begin_in(h, 0);
	assert_int_equal(access(h->shm, F_OK), 0);
}

static void end(struct harmed *h)
{
	sim_end(&h->sim);
	h->sim.totals(h->sim.ctx, h->sim.job);
	writer_rig_finish(&h->w);
	assert_null(h->w.writer.store);
}

static void done(struct harmed *h)
{
	writer_rig_done(&h->w);
	sim_done(&h->sim);
	folder_done(&h->folder);
}

static bool says(const struct err *err, const char *word)
{
	return strstr(err->text, word) != NULL;
}

/* The file is whole: its end, all that is in no total, and rows of the time after the harm. */
static void expect_complete(struct harmed *h, const char *file, uint64_t longest_gap_ns)
{
	assert_int_equal(h->w.writer.result, 0);
	expect_sound(file);
	assert_int_equal(sql_int(file, "SELECT value FROM meta WHERE key = 'ended_ns'"),
		(int64_t) sim_time(&h->sim, h->sim.k));
	assert_int_equal(sql_int(file, "SELECT count(*) FROM event WHERE kind = 'mark'"), 3);
	assert_int_equal(sql_int(file, "SELECT count(*) FROM series_value"), 3);
	assert_int_equal(sql_int(file, "SELECT count(DISTINCT name) FROM series"), 3);
	assert_int_equal(sql_int(file, "SELECT count(*) FROM gpu WHERE uuid = 'GPU-1'"), 1);
	assert_int_equal(sql_int(file, "SELECT count(*) FROM process WHERE ended IS NOT NULL"), 3);
	assert_int_equal(sql_int(file, "SELECT n FROM summary WHERE entity = 'job' AND metric = 'ram'"),
		(int64_t) h->sim.k);
	assert_true(sql_int(file, "SELECT max(t) FROM job_sample") >= (int64_t) (5 * SEC));
	assert_true(h->w.writer.gap_ns <= longest_gap_ns);
}

static void truncate_to(const char *path, off_t size)
{
	assert_int_equal(truncate(path, size), 0);
}

static void empty(const char *path)
{
	truncate_to(path, 0);
}

static void cut_half(const char *path)
{
	truncate_to(path, 16384);
}

static void drop(const char *path)
{
	assert_int_equal(unlink(path), 0);
}

/* Another program's reader makes the index grow again, with zeros. */
static void empty_and_grow(const char *path)
{
	truncate_to(path, 0);
	truncate_to(path, 32768);
}

/* ---- the journal and its index --------------------------------------------------------------- */

static void continues_after(const char *which, void (*harm)(const char *path), int64_t marks)
{
	struct harmed h;

	begin(&h);
	harm(strcmp(which, "shm") == 0 ? h.shm : h.wal);
	add_mark(&h, "second");
	ticks(&h, 25);
	assert_false(h.w.writer.paused);
	assert_true(says(&h.w.writer.trouble, which));
	assert_true(says(&h.w.writer.trouble, "by another program"));
	add_mark(&h, "third");
	ticks(&h, 25);
	end(&h);
	if (marks == 3)
		expect_complete(&h, h.folder.file, 3 * SEC);
	expect_sound(h.folder.file);
	assert_int_equal(sql_int(h.folder.file, "SELECT count(*) FROM event WHERE kind = 'mark'"), marks);
	assert_int_equal(sql_int(h.folder.file, "SELECT value FROM meta WHERE key = 'recording_gap_ns'"),
		(int64_t) h.w.writer.gap_ns);
	assert_true(h.w.writer.gap_ns > 0);
	assert_int_equal(sql_int(h.folder.file, "SELECT count(*) FROM event WHERE kind = 'note' AND text LIKE"
						" 'recording: no rows from %'"),
		1);
	assert_int_equal(folder_count(&h.folder), 1);
	done(&h);
}

static void an_index_that_is_lost_is_made_anew(void **state)
{
	(void) state;
	continues_after("shm", empty, 3);
	continues_after("shm", cut_half, 3);
	continues_after("shm", drop, 3);
	continues_after("shm", empty_and_grow, 3);
}

static void a_journal_without_its_name_is_made_anew(void **state)
{
	(void) state;
	continues_after("wal", drop, 3);
}

/* What was only in the journal is lost: here the first mark; the GPU is known to the writer. */
static void a_truncated_journal_loses_its_last_seconds(void **state)
{
	(void) state;
	continues_after("wal", empty, 2);
	continues_after("wal", cut_half, 2);
}

/* The last seconds of a run, too. */
static void an_index_that_is_lost_at_the_end(void **state)
{
	struct harmed h;

	(void) state;
	begin(&h);
	add_mark(&h, "second");
	ticks(&h, 34);
	add_mark(&h, "third");
	empty(h.shm);
	end(&h);
	expect_complete(&h, h.folder.file, 2 * SEC);
	assert_true(says(&h.w.writer.trouble, "the recording has a gap of"));
	assert_true(says(&h.w.writer.trouble, "its journal was lost"));
	done(&h);
}

static void a_reader_survives_as_well(void **state)
{
	struct harmed h;
	struct replay *r;
	struct job *job = NULL;

	(void) state;
	begin(&h);
	sim_tick(&h.sim);
	writer_rig_give(&h.w, true); /* between two transactions, so that the reader may make the index anew */
	assert_int_equal(replay_open(h.folder.file, &r, NULL), 0);
	empty(h.shm);
	if (replay_job(r, &job, NULL) == 0)
		job_free(job);
	replay_close(r);
	ticks(&h, 25);
	assert_int_equal(replay_open(h.folder.file, &r, NULL), 0);
	assert_int_equal(replay_job(r, &job, NULL), 0);
	assert_true(job_now(job) >= 4 * SEC);
	job_free(job);
	replay_close(r);
	ticks(&h, 10);
	end(&h);
	done(&h);
}

/* ---- the file itself ------------------------------------------------------------------------- */

static void overwrite(const char *path, off_t at, size_t n)
{
	int fd = open(path, O_WRONLY);
	char junk[4096];

	memset(junk, 'x', sizeof(junk));
	assert_true(fd >= 0);
	for (size_t i = 0; i < n; i += sizeof(junk))
		assert_int_equal(pwrite(fd, junk, sizeof(junk), at + (off_t) i), sizeof(junk));
	assert_int_equal(close(fd), 0);
}

static void overwrite_begin(const char *path)
{
	overwrite(path, 0, 40960);
}

static void is_lost_after(void (*harm)(const char *path), const char *word)
{
	struct harmed h;

	begin(&h);
	harm(h.folder.file);
	ticks(&h, 25);
	assert_true(h.w.writer.lost);
	if (!says(&h.w.writer.trouble, word))
		fail_msg("\"%s\" does not say \"%s\"", h.w.writer.trouble.text, word);
	assert_true(says(&h.w.writer.trouble, "no recording: another program"));
	ticks(&h, 10);
	end(&h);
	assert_int_equal(h.w.writer.result, -EBADMSG);
	assert_int_equal(access(h.wal, F_OK), -1);
	done(&h);
}

static void a_file_of_no_use_is_reported(void **state)
{
	(void) state;
	is_lost_after(empty, "truncated");
	is_lost_after(cut_half, "truncated");
	is_lost_after(overwrite_begin, "overwritten");
}

/* Behind a header that is as it was: found by a check of the whole file at the end. */
static void damage_in_the_middle_is_found_at_the_end(void **state)
{
	struct harmed h;

	(void) state;
	begin(&h);
	sim_tick(&h.sim);
	writer_rig_give(&h.w, true);
	assert_int_equal(store_checkpoint(h.w.writer.store), 0);
	overwrite(h.folder.file, 8 * 4096, 16 * 4096);
	ticks(&h, 5);
	end(&h);
	assert_true(h.w.writer.result < 0);
	assert_true(says(&h.w.writer.trouble, "no recording: "));
	assert_false(says(&h.w.writer.trouble, "continues"));
	done(&h);
}

static void a_touched_file_is_complete(void **state)
{
	struct harmed h;

	(void) state;
	begin(&h);
	assert_int_equal(utimensat(AT_FDCWD, h.folder.file, NULL, 0), 0);
	add_mark(&h, "second");
	add_mark(&h, "third");
	ticks(&h, 35);
	end(&h);
	assert_string_equal(h.w.writer.trouble.text, "");
	expect_complete(&h, h.folder.file, 0);
	done(&h);
}

/* Another SQLite may checkpoint it: the journal is then shorter, and nothing is lost. */
static void a_checkpoint_of_another_program_is_no_harm(void **state)
{
	struct harmed h;

	(void) state;
	begin(&h);
	sql_run(h.folder.file, "PRAGMA wal_checkpoint(PASSIVE)");
	add_mark(&h, "second");
	add_mark(&h, "third");
	ticks(&h, 35);
	end(&h);
	assert_string_equal(h.w.writer.trouble.text, "");
	expect_complete(&h, h.folder.file, 0);
	done(&h);
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void gets_another_name(unsigned number)
{
	struct harmed h;
	char other[160], moved[160];
	struct stat st;

	folder_new(&h.folder);
	assert_int_equal(setenv("HIWATER_DIR", h.folder.path, 1), 0);
	begin_in(&h, number);
	(void) snprintf(other, sizeof(other), "%s/other", h.folder.path);
	(void) snprintf(moved, sizeof(moved), "%s/run-2.hiw", h.folder.path);
	write_file(other, "somebody's");
	assert_int_equal(rename(other, h.folder.file), 0);
	add_mark(&h, "second");
	ticks(&h, 15);
	/* From now on nothing of it is beside the other file. */
	assert_int_equal(folder_count(&h.folder), 1);
	add_mark(&h, "third");
	ticks(&h, 20);
	end(&h);
	assert_true(h.w.writer.moved);
	assert_string_equal(h.w.writer.target, moved);
	assert_true(says(&h.w.writer.news, moved));
	assert_int_equal(stat(h.folder.file, &st), 0);
	assert_int_equal(st.st_size, 10);
	expect_complete(&h, moved, 0);
	assert_int_equal(folder_count(&h.folder), 2);
	done(&h);
}

static void a_replaced_file_gets_another_name(void **state)
{
	(void) state;
	gets_another_name(0);
	gets_another_name(1);
}

/* Another program was faster: that is no error, and later ones are reported. */
static void a_name_that_is_taken_is_noted(void **state)
{
	struct harmed h;
	char second[160], third[160], other[160];

	(void) state;
	folder_new(&h.folder);
	(void) snprintf(second, sizeof(second), "%s/run-2.hiw", h.folder.path);
	(void) snprintf(third, sizeof(third), "%s/run-3.hiw", h.folder.path);
	(void) snprintf(other, sizeof(other), "%s/other", h.folder.path);
	write_file(h.folder.file, "somebody's");
	begin_in(&h, 1);
	assert_true(says(&h.w.writer.note, second));
	assert_string_equal(h.w.writer.trouble.text, "");
	(void) snprintf(h.shm, sizeof(h.shm), "%.100s-shm", second);
	empty(h.shm);
	add_mark(&h, "second");
	ticks(&h, 25);
	assert_true(says(&h.w.writer.trouble, "-shm was truncated"));
	assert_true(says(&h.w.writer.news, "the recording continues; it has a gap of"));
	write_file(other, "somebody's");
	assert_int_equal(rename(other, second), 0);
	add_mark(&h, "third");
	ticks(&h, 20);
	end(&h);
	assert_string_equal(h.w.writer.target, third);
	assert_true(says(&h.w.writer.news, third));
	expect_complete(&h, third, 3 * SEC);
	done(&h);
}

/* The next run has the name of one that lost it, and the same names of a journal and an index. */
static void leaves_the_next_run_alone(int ticks_before)
{
	struct harmed h, next = { .folder = { .path = "" } };
	char moved[160];

	begin(&h);
	(void) snprintf(moved, sizeof(moved), "%s/moved.hiw", h.folder.path);
	assert_int_equal(rename(h.folder.file, moved), 0);
	ticks(&h, ticks_before);
	next.folder = h.folder;
	begin_in(&next, 1);
	add_mark(&next, "second");
	add_mark(&h, "second");
	ticks(&h, 15);
	ticks(&next, 15);
	add_mark(&h, "third");
	ticks(&h, 25 - ticks_before);
	end(&h);
	add_mark(&next, "third");
	ticks(&next, 25);
	end(&next);
	assert_string_equal(next.w.writer.trouble.text, "");
	assert_string_equal(next.w.writer.target, h.folder.file);
	expect_complete(&next, h.folder.file, 0);
	h.w.writer.result = 0; /* -ENOENT; and yet it is whole */
	expect_complete(&h, moved, 0);
	/* Replaced, it has a copy; without a file of its name it was removed or renamed. */
	assert_int_equal(folder_count(&h.folder), h.w.writer.moved ? 3 : 2);
	writer_rig_done(&next.w);
	sim_done(&next.sim);
	done(&h);
}

static void a_recording_without_its_name_leaves_the_next_one_alone(void **state)
{
	(void) state;
	leaves_the_next_run_alone(0);
	leaves_the_next_run_alone(15);
}

/* It was to be opened again, by its name. */
static void another_file_is_not_opened_in_its_place(void **state)
{
	struct harmed h;
	struct stat st;

	(void) state;
	begin(&h);
	empty(h.shm);
	for (int i = 0; i < 20 && !h.w.writer.paused; i++)
		ticks(&h, 1);
	assert_true(h.w.writer.paused);
	drop(h.folder.file);
	drop(h.wal);
	write_file(h.folder.file, "somebody's");
	write_file(h.wal, "somebody's");
	ticks(&h, 25);
	end(&h);
	assert_int_equal(h.w.writer.result, -EBADMSG);
	assert_true(says(&h.w.writer.news, "no recording: another program has removed or replaced"));
	assert_int_equal(stat(h.folder.file, &st), 0);
	assert_int_equal(st.st_size, 10);
	assert_int_equal(stat(h.wal, &st), 0);
	assert_int_equal(st.st_size, 10);
	done(&h);
}

static void a_removed_file_is_reported(void **state)
{
	struct harmed h;

	(void) state;
	begin(&h);
	drop(h.folder.file);
	ticks(&h, 25);
	end(&h);
	assert_int_equal(h.w.writer.result, -ENOENT);
	assert_true(says(&h.w.writer.trouble, "was removed or renamed during the run"));
	assert_int_equal(folder_count(&h.folder), 0);
	done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_index_that_is_lost_is_made_anew),
		cmocka_unit_test(a_journal_without_its_name_is_made_anew),
		cmocka_unit_test(a_truncated_journal_loses_its_last_seconds),
		cmocka_unit_test(an_index_that_is_lost_at_the_end),
		cmocka_unit_test(a_reader_survives_as_well),
		cmocka_unit_test(a_file_of_no_use_is_reported),
		cmocka_unit_test(damage_in_the_middle_is_found_at_the_end),
		cmocka_unit_test(a_touched_file_is_complete),
		cmocka_unit_test(a_checkpoint_of_another_program_is_no_harm),
		cmocka_unit_test(a_replaced_file_gets_another_name),
		cmocka_unit_test(a_name_that_is_taken_is_noted),
		cmocka_unit_test(a_recording_without_its_name_leaves_the_next_one_alone),
		cmocka_unit_test(another_file_is_not_opened_in_its_place),
		cmocka_unit_test(a_removed_file_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
