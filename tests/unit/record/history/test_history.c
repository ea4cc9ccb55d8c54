/* SPDX-License-Identifier: MIT */
#include "record_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "record/history/history.h"

static struct rig_folder folder;

static int new_history(void **state)
{
	char path[96];

	(void) state;
	folder_new(&folder);
	(void) snprintf(path, sizeof(path), "%s/state/runs", folder.path);
	return setenv("HIWATER_DIR", path, 1);
}

static int drop_history(void **state)
{
	(void) state;
	folder_done(&folder);
	return 0;
}

/* A run in the history with that many samples of 100 ms. Returns its path, freed by the caller. */
static char *add_run(const char *name, const char *slurm, uint64_t ticks, bool keep)
{
	struct record *r = rig_record(&(struct record_options) { .window_ns = SEC });
	struct sim s;
	char *path = NULL;
	struct record_end end;

	sim_new(&s, 100 * MS, SEC, 1, true);
	sim_into(&s, r);
	assert_int_equal(job_set_text(&job_facts(s.job)->name, name), 0);
	if (slurm) {
		assert_int_equal(job_set_text(&job_facts(s.job)->scheduler, "slurm"), 0);
		assert_int_equal(job_set_text(&job_facts(s.job)->scheduler_job, slurm), 0);
	}
	job_facts(s.job)->started_wall_ns = known(1700000000000000000);
	for (uint64_t k = 0; k < ticks; k++)
		sim_tick(&s);
	sim_end(&s);
	assert_int_equal(record_finish(r, s.job, keep, 60 * SEC, &end, NULL), 0);
	path = end.path;
	sim_done(&s);
	return path;
}

static void expect_found(const char *run, const char *end)
{
	struct err err = { "" };
	char *path = NULL;

	if (history_find(run, &path, &err) < 0)
		fail_msg("%s: %s", run, err.text);
	assert_true(strlen(path) >= strlen(end));
	assert_string_equal(path + strlen(path) - strlen(end), end);
	free(path);
}

static void expect_error(const char *run, int error)
{
	struct err err = { "" };
	char *path = NULL;

	assert_int_equal(history_find(run, &path, &err), error);
	assert_true(err.text[0] != '\0');
}

static void expect_missing(const char *run)
{
	expect_error(run, -ENOENT);
}

static void a_folder_that_is_not_there_is_empty(void **state)
{
	struct history h;

	(void) state;
	assert_int_equal(history_read(&h, NULL), 0);
	assert_int_equal(h.n, 0);
	history_done(&h);
	expect_missing("last");
	expect_missing("1");
	expect_missing("study");
	assert_int_equal(history_trim(1, 1, NULL), 0);
}

static void runs_are_kept_and_found(void **state)
{
	char *one = add_run("study", NULL, 15, true), *two = add_run("other", "4711.2", 25, true),
	     *three = add_run("study", NULL, 15, true);
	struct history h;
	struct stat st;
	char path[160];

	(void) state;
	assert_non_null(one);
	assert_non_null(strstr(one, "/state/runs/1.hiw"));
	assert_non_null(strstr(three, "/state/runs/3.hiw"));
	(void) snprintf(path, sizeof(path), "%s/state/runs", folder.path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(stat(one, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	expect_found("1", "/1.hiw");
	expect_found("last", "/3.hiw");
	expect_found("last-1", "/2.hiw");
	expect_found("last-2", "/1.hiw");
	expect_missing("last-3");
	expect_missing("17");
	expect_found("study", "/3.hiw");
	expect_found("other", "/2.hiw");
	expect_missing("stud");
	expect_found("slurm:4711", "/2.hiw");
	expect_found("slurm:4711.2", "/2.hiw");
	expect_missing("slurm:471");
	expect_error("slurm:", -EINVAL);
	expect_found(two, "/2.hiw");
	expect_missing("./none.hiw");
	assert_int_equal(history_find("", &one, NULL), -EINVAL);

	assert_int_equal(history_read(&h, NULL), 0);
	assert_int_equal(h.n, 3);
	assert_int_equal(h.entries[0].number, 1);
	assert_string_equal(h.entries[1].name, "other");
	assert_string_equal(h.entries[1].command, "train --data x");
	assert_int_equal(h.entries[1].wall_ns, 2501 * MS);
	assert_int_equal(h.entries[1].started_wall_ns, 1700000000000000000);
	assert_true(h.entries[1].complete);
	assert_false(h.entries[1].running);
	assert_true(h.entries[1].peak_bytes.known);
	assert_true(h.entries[1].peak_bytes.value >= sim_rss(1, 24));
	assert_true(h.entries[1].cores_ppm.known);
	assert_int_equal(stat(two, &st), 0);
	assert_int_equal(h.entries[1].file_bytes, st.st_size);
	history_done(&h);
	free(one);
	free(two);
	free(three);
}

static void an_arrays_tasks_are_found(void **state)
{
	static const char *const jobs[] = { "100_7", "100_70", "100_8.0", "1000_7" };

	(void) state;
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		free(add_run("task", jobs[i], 25, true));
	expect_found("slurm:100", "/3.hiw");
	expect_found("slurm:100_7", "/1.hiw");
	expect_found("slurm:100_70", "/2.hiw");
	expect_found("slurm:100_8", "/3.hiw");
	expect_found("slurm:1000", "/4.hiw");
	expect_missing("slurm:10");
	expect_missing("slurm:100_");
}

struct seen {
	uint64_t numbers[4];
	size_t n, most;
};

static bool see_one(void *ctx, const struct history_entry *entry, struct replay *replay)
{
	struct seen *seen = ctx;

	assert_non_null(replay);
	assert_false(entry->is_watched);
	seen->numbers[seen->n++] = entry->number;
	return seen->n < seen->most;
}

static void the_newest_are_read_first(void **state)
{
	struct seen seen = { .most = 2 };

	(void) state;
	for (int i = 0; i < 3; i++)
		free(add_run("run", NULL, 25, true));
	assert_int_equal(history_newest(see_one, &seen, NULL), 0);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.numbers[0], 3);
	assert_int_equal(seen.numbers[1], 2);
}

static void a_short_run_is_not_kept(void **state)
{
	struct history h;
	char *path = add_run("short", NULL, 5, false);

	(void) state;
	assert_null(path);
	assert_int_equal(access(getenv("HIWATER_DIR"), F_OK), -1); /* not even the folder was created */
	/* One whose file already exists is removed. */
	path = add_run("longer", NULL, 35, false);
	assert_null(path);
	assert_int_equal(history_read(&h, NULL), 0);
	assert_int_equal(h.n, 0);
	history_done(&h);
}

/* Home folders on a network file system are common on clusters. */
static void a_history_on_a_share_gets_copies(void **state)
{
	struct record *r = rig_record(&(struct record_options) { .window_ns = SEC, .force_snapshot = true });
	struct history h;
	struct sim s;
	char *path = NULL;
	struct record_end end;

	(void) state;
	sim_new(&s, 100 * MS, SEC, 1, true);
	sim_into(&s, r);
	for (int k = 0; k < 300; k++)
		sim_tick(&s);
	sim_end(&s);
	assert_int_equal(record_finish(r, s.job, true, 60 * SEC, &end, NULL), 0);
	path = end.path;
	assert_non_null(strstr(path, "/state/runs/1.hiw"));
	expect_sound(path);
	assert_int_equal(history_read(&h, NULL), 0);
	assert_int_equal(h.n, 1);
	assert_true(h.entries[0].complete);
	history_done(&h);
	free(path);
	sim_done(&s);
}

static void a_file_is_found_where_nothing_else_is(void **state)
{
	char path[160], *found = NULL;

	(void) state;
	(void) snprintf(path, sizeof(path), "%s/plain", folder.path);
	assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
	assert_int_equal(chdir(folder.path), 0);
	assert_int_equal(history_find("plain", &found, NULL), 0);
	assert_string_equal(found, "plain");
	free(found);
	assert_int_equal(chdir("/"), 0);
}

/* ---- what has to stay ------------------------------------------------------------------------ */

static unsigned count_runs(void)
{
	struct history h;
	unsigned n;

	assert_int_equal(history_read(&h, NULL), 0);
	n = (unsigned) h.n;
	history_done(&h);
	return n;
}

static void what_a_trigger_pinned_goes_last(void **state)
{
	char *path[5];

	(void) state;
	for (int i = 0; i < 5; i++)
		path[i] = add_run("study", NULL, 15, true);
	sql_run(path[0], "INSERT INTO meta VALUES('pinned', 1)");
	sql_run(path[1], "INSERT INTO meta VALUES('pinned', 2)");
	sql_run(path[3], "INSERT INTO meta VALUES('pinned', 2)");
	assert_int_equal(history_trim(4, UINT64_MAX, NULL), 0);
	assert_int_equal(access(path[2], F_OK), -1);
	assert_int_equal(access(path[1], F_OK), 0);
	assert_int_equal(history_trim(3, UINT64_MAX, NULL), 0);
	assert_int_equal(access(path[1], F_OK), -1);
	assert_int_equal(access(path[3], F_OK), 0);
	/* Runs pinned by hand, and the last one, stay at any limit. */
	assert_int_equal(history_trim(1, UINT64_MAX, NULL), 0);
	assert_int_equal(access(path[0], F_OK), 0);
	assert_int_equal(access(path[3], F_OK), -1);
	assert_int_equal(access(path[4], F_OK), 0);
	for (int i = 0; i < 5; i++)
		free(path[i]);
}

static void the_oldest_go_first_and_some_stay(void **state)
{
	char *path[6], junk[160];
	struct stat st;
	struct history h;

	(void) state;
	for (int i = 0; i < 6; i++)
		path[i] = add_run("study", NULL, 15, true);
	/* 1 is pinned, 2 is still running, 3 is not a recording any more. */
	sql_run(path[0], "INSERT INTO meta VALUES('pinned', 1)");
	struct {
		int64_t pid;
		unsigned long long start;
		char boot[64];
	} self = { getpid(), 0, "" };
	FILE *file = fopen("/proc/self/stat", "r");
	char text[1024], *p;

	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	(void) fclose(file);
	p = strrchr(text, ')');
	for (int i = 3; i <= 22; i++)
		p = strchr(p, ' ') + 1;
	self.start = strtoull(p, NULL, 10);
	file = fopen("/proc/sys/kernel/random/boot_id", "r");
	assert_non_null(file);
	assert_non_null(fgets(self.boot, sizeof(self.boot), file));
	(void) fclose(file);
	self.boot[strcspn(self.boot, "\n")] = '\0';
	char sql[400];

	(void) snprintf(sql, sizeof(sql),
		"DELETE FROM meta WHERE key = 'ended_ns'; INSERT OR REPLACE INTO meta VALUES"
		"('recorder_pid', %lld), ('recorder_start', %llu), ('boot_id', '%s')",
		(long long) self.pid, self.start, self.boot);
	sql_run(path[1], sql);
	file = fopen(path[2], "w");
	assert_non_null(file);
	assert_true(fputs("not a database", file) >= 0);
	(void) fclose(file);

	assert_int_equal(history_read(&h, NULL), 0);
	assert_int_equal(h.n, 5);
	assert_true(h.entries[0].pinned);
	assert_true(h.entries[1].running);
	assert_false(h.entries[1].complete);
	history_done(&h);

	struct err err = { "" };

	/* What is no recording does not count either. */
	assert_int_equal(history_trim(5, UINT64_MAX, &err), 0);
	assert_string_equal(err.text, "");
	assert_int_equal(history_trim(4, UINT64_MAX, &err), 0);
	assert_non_null(strstr(err.text, "removed the oldest run from the history"));
	assert_non_null(strstr(err.text, ": 4"));
	assert_int_equal(access(path[0], F_OK), 0);
	assert_int_equal(access(path[1], F_OK), 0);
	assert_int_equal(access(path[2], F_OK), 0);
	assert_int_equal(access(path[3], F_OK), -1);
	assert_int_equal(access(path[4], F_OK), 0);
	assert_int_equal(access(path[5], F_OK), 0);
	/* The newest stays, however small the limit. */
	assert_int_equal(history_trim(0, 0, NULL), 0);
	assert_int_equal(access(path[2], F_OK), 0);
	assert_int_equal(access(path[4], F_OK), -1);
	assert_int_equal(access(path[5], F_OK), 0);

	/* Removing by hand: not a running one, and not a file that is not a recording. */
	assert_int_equal(history_remove("2", &err), -EBUSY);
	assert_non_null(strstr(err.text, "running"));
	assert_int_equal(history_remove("6", NULL), 0);
	assert_int_equal(access(path[5], F_OK), -1);
	assert_int_equal(history_remove("6", NULL), -ENOENT);
	assert_int_equal(history_remove("3", &err), -EINVAL);
	assert_non_null(strstr(err.text, "is not a hiwater recording; remove it with rm"));
	assert_int_equal(access(path[2], F_OK), 0);
	(void) snprintf(junk, sizeof(junk), "%s/run.hiw", folder.path);
	assert_int_equal(close(open(junk, O_CREAT | O_WRONLY, 0600)), 0);
	assert_int_equal(history_remove(junk, NULL), -EINVAL);
	assert_int_equal(stat(junk, &st), 0);
	assert_int_equal(count_runs(), 2);
	for (int i = 0; i < 6; i++)
		free(path[i]);
}

/* A large file of somebody else, with a number for a name. */
static void foreign_files_are_left_alone(void **state)
{
	char foreign[160], *path[3], *next;
	struct stat st;
	int fd;

	(void) state;
	for (int i = 0; i < 3; i++)
		path[i] = add_run("study", NULL, 15, true);
	(void) snprintf(foreign, sizeof(foreign), "%.*s/4.hiw", (int) (strrchr(path[0], '/') - path[0]), path[0]);
	fd = open(foreign, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, INT64_C(5) << 30), 0);
	assert_int_equal(close(fd), 0);
	expect_found("last", "/3.hiw");
	next = add_run("study", NULL, 15, true);
	assert_non_null(strstr(next, "/5.hiw"));
	assert_int_equal(history_trim(200, 1 << 30, NULL), 0);
	assert_int_equal(count_runs(), 4);
	expect_found("last", "/5.hiw");
	expect_found("last-1", "/3.hiw");
	assert_int_equal(history_trim(0, 0, NULL), 0);
	assert_int_equal(count_runs(), 1);
	assert_int_equal(stat(foreign, &st), 0);
	assert_int_equal(st.st_size, INT64_C(5) << 30);
	assert_int_equal(unlink(foreign), 0);
	free(next);
	for (int i = 0; i < 3; i++)
		free(path[i]);
}

/* With the header of a recording: those that can be read are not removed in its place. */
static void a_damaged_recording_does_not_count(void **state)
{
	char *path[5];
	struct err err = { "" };

	(void) state;
	for (int i = 0; i < 5; i++)
		path[i] = add_run("study", NULL, 15, true);
	assert_int_equal(truncate(path[0], 4096), 0);
	assert_int_equal(history_trim(4, UINT64_MAX, &err), 0);
	assert_string_equal(err.text, "");
	assert_int_equal(history_trim(3, UINT64_MAX, &err), 0);
	assert_non_null(strstr(err.text, ": 2"));
	/* The newest but one has more bytes than the limit. */
	sql_run(path[3], "DROP TABLE meta");
	assert_int_equal(truncate(path[3], 40 << 20), 0);
	assert_int_equal(history_trim(200, 20 << 20, &err), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(access(path[i], F_OK), i == 1 ? -1 : 0);
		free(path[i]);
	}
}

/* Of this process, as another one sees it: closing any other descriptor of the file would drop it. */
static bool is_locked(const char *path)
{
	enum {
		SHARED_FIRST = 0x40000002, /* sqlite.org/lockingv3.html */
		SHARED_SIZE = 510
	};
	struct flock lock = { .l_type = F_WRLCK, .l_start = SHARED_FIRST, .l_len = SHARED_SIZE };
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		int fd = open(path, O_RDWR);

		_exit(fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status == 0;
}

static void listing_keeps_the_locks_of_readers(void **state)
{
	char *path = add_run("study", NULL, 15, true);
	struct history h;
	struct replay *r;

	(void) state;
	sql_run(path, "PRAGMA journal_mode=WAL");
	assert_int_equal(replay_open(path, &r, NULL), 0);
	assert_true(is_locked(path));
	assert_int_equal(history_read(&h, NULL), 0);
	assert_int_equal(h.n, 1);
	history_done(&h);
	assert_true(is_locked(path));
	replay_close(r);
	assert_false(is_locked(path));
	free(path);
}

static void bytes_are_limited_too(void **state)
{
	struct history h;
	uint64_t bytes = 0;

	(void) state;
	for (int i = 0; i < 4; i++)
		free(add_run("study", NULL, 15, true));
	assert_int_equal(history_read(&h, NULL), 0);
	assert_int_equal(h.n, 4);
	for (size_t i = 0; i < 4; i++)
		bytes += h.entries[i].file_bytes;
	history_done(&h);
	assert_int_equal(history_trim(200, bytes, NULL), 0);
	assert_int_equal(count_runs(), 4);
	assert_int_equal(history_trim(200, bytes - 1, NULL), 0);
	assert_int_equal(count_runs(), 3);
	expect_missing("1");
	/* A number is not used twice. */
	free(add_run("study", NULL, 15, true));
	expect_found("last", "/5.hiw");
	assert_int_equal(history_remove("5", NULL), 0);
	free(add_run("study", NULL, 16, true));
	expect_found("last", "/6.hiw");
	expect_missing("5");
}

/* That many runs, all copies of one. */
static void fill_history(unsigned n)
{
	char *first = add_run("study", NULL, 15, true), path[192];
	static char bytes[1 << 20];
	struct stat st;
	size_t size;
	FILE *file = fopen(first, "r");

	assert_non_null(file);
	size = fread(bytes, 1, sizeof(bytes), file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(stat(first, &st), 0);
	assert_int_equal(st.st_size, size);
	free(first);
	for (unsigned i = 2; i <= n; i++) {
		(void) snprintf(path, sizeof(path), "%s/%u.hiw", getenv("HIWATER_DIR"), i);
		file = fopen(path, "w");
		assert_non_null(file);
		assert_int_equal(fwrite(bytes, 1, size, file), size);
		assert_int_equal(fclose(file), 0);
	}
}

/* That many programs trim at once. */
static void trim_at_once(unsigned programs, unsigned max_runs)
{
	int gate[2], status;
	char byte;

	assert_int_equal(pipe(gate), 0);
	for (unsigned i = 0; i < programs; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid > 0)
			continue;
		(void) close(gate[1]);
		(void) read(gate[0], &byte, 1);
		_exit(history_trim(max_runs, UINT64_MAX, NULL) < 0);
	}
	(void) close(gate[0]);
	(void) close(gate[1]); /* now */
	while (wait(&status) > 0)
		assert_int_equal(status, 0);
}

static void runs_that_end_at_once_remove_no_more_than_one_would(void **state)
{
	enum {
		RUNS = 120,
		MOST = 100
	};

	(void) state;
	fill_history(RUNS);
	trim_at_once(24, MOST);
	assert_int_equal(count_runs(), MOST);
	expect_found("21", "/21.hiw");
	expect_missing("20");
}

/* As on a network file system: the lock's owner never releases it, and all continue without it. */
static void trimming_does_not_wait_for_a_stuck_lock(void **state)
{
	enum {
		RUNS = 120,
		MOST = 100
	};

	(void) state;
	fill_history(RUNS);

	int held = open(getenv("HIWATER_DIR"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(flock(held, LOCK_EX), 0);
	trim_at_once(24, MOST);
	assert_int_equal(close(held), 0);
	assert_int_equal(count_runs(), MOST);
	expect_found("21", "/21.hiw");
	expect_missing("20");
}

/* They may turn out too short to be kept. */
static void a_run_that_just_started_evicts_no_other(void **state)
{
	uint64_t number;
	char *path;

	(void) state;
	fill_history(4);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(history_reserve(&path, &number, NULL), 0);
		free(path);
	}
	assert_int_equal(history_trim(4, UINT64_MAX, NULL), 0);
	assert_int_equal(count_runs(), 4);
}

static void a_reserved_number_is_unique(void **state)
{
	char *one = NULL, *two = NULL;
	uint64_t first, second;
	struct history h;

	(void) state;
	assert_int_equal(history_reserve(&one, &first, NULL), 0);
	assert_int_equal(history_reserve(&two, &second, NULL), 0);
	assert_int_equal(second, first + 1);
	assert_int_equal(history_read(&h, NULL), 0);
	assert_int_equal(h.n, 0);
	history_done(&h);
	expect_missing("last"); /* they have just started */
	assert_int_equal(history_remove("1", NULL), -EBUSY);
	free(one);
	free(two);
}

static void a_damaged_number_of_the_newest_counts_nothing(void **state)
{
	static const char *const damaged[] = { "18446744073709551615\n", "9223372036854775808\n", "x\n" };
	char path[160];

	(void) state;
	free(add_run("study", NULL, 15, true));
	(void) snprintf(path, sizeof(path), "%s/state/runs/newest-removed", folder.path);
	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		FILE *file = fopen(path, "w");
		char *reserved = NULL;
		uint64_t number;

		assert_non_null(file);
		assert_true(fputs(damaged[i], file) >= 0);
		assert_int_equal(fclose(file), 0);
		assert_int_equal(history_reserve(&reserved, &number, NULL), 0);
		assert_int_equal(number, 2 + i);
		free(reserved);
	}
}

static void the_folder_follows_the_environment(void **state)
{
	struct err err = { "" };
	char dir[4096], expected[4096];

	(void) state;
	(void) snprintf(expected, sizeof(expected), "%s/.local/state/hiwater", folder.path);
	assert_int_equal(history_dir(dir, sizeof(dir), NULL), 0);
	assert_string_equal(dir, getenv("HIWATER_DIR"));
	assert_int_equal(unsetenv("HIWATER_DIR"), 0);
	assert_int_equal(setenv("XDG_STATE_HOME", "/x/state", 1), 0);
	assert_int_equal(history_dir(dir, sizeof(dir), NULL), 0);
	assert_string_equal(dir, "/x/state/hiwater");
	assert_int_equal(setenv("XDG_STATE_HOME", "state", 1), 0); /* as if it were not set */
	assert_int_equal(setenv("HOME", folder.path, 1), 0);
	assert_int_equal(history_dir(dir, sizeof(dir), NULL), 0);
	assert_string_equal(dir, expected);
	assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
	assert_int_equal(history_dir(dir, sizeof(dir), NULL), 0);
	assert_string_equal(dir, expected);
	assert_int_equal(setenv("HOME", "/no/home", 1), 0); /* is not made */
	assert_int_equal(history_dir(dir, sizeof(dir), &err), -ENOENT);
	assert_non_null(strstr(err.text, "HOME is /no/home: No such file"));
	assert_int_equal(setenv("XDG_STATE_HOME", "/no/home/state", 1), 0);
	assert_int_equal(history_dir(dir, sizeof(dir), &err), -ENOENT);
	assert_int_equal(setenv("XDG_STATE_HOME", "/no/homes", 1), 0);
	assert_int_equal(history_dir(dir, sizeof(dir), &err), 0);
	assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
	assert_int_equal(setenv("HOME", "home/me", 1), 0);
	assert_int_equal(history_dir(dir, sizeof(dir), &err), -ENOENT);
	assert_non_null(strstr(err.text, "HOME is not an absolute path"));
	assert_int_equal(unsetenv("HOME"), 0);
	assert_int_equal(history_dir(dir, sizeof(dir), NULL), -ENOENT);
	assert_int_equal(setenv("HIWATER_DIR", "relative", 1), 0);
	assert_int_equal(history_dir(dir, sizeof(dir), NULL), 0);
	assert_int_equal(dir[0], '/');
}

static void a_history_that_cannot_be_is_an_error_at_once(void **state)
{
	struct record *r = NULL;
	struct err err = { "" };
	char path[160];

	(void) state;
	(void) snprintf(path, sizeof(path), "%s/file", folder.path);
	assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
	(void) snprintf(path, sizeof(path), "%s/file/runs", folder.path);
	assert_int_equal(setenv("HIWATER_DIR", path, 1), 0);
	assert_int_equal(record_new(&(struct record_options) { .window_ns = SEC }, &r, &err), -ENOTDIR);
	assert_true(err.text[0] != '\0');
}

#define WITH_HISTORY(test) cmocka_unit_test_setup_teardown(test, new_history, drop_history)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_HISTORY(a_folder_that_is_not_there_is_empty),
		WITH_HISTORY(runs_are_kept_and_found),
		WITH_HISTORY(an_arrays_tasks_are_found),
		WITH_HISTORY(the_newest_are_read_first),
		WITH_HISTORY(a_short_run_is_not_kept),
		WITH_HISTORY(a_history_on_a_share_gets_copies),
		WITH_HISTORY(a_file_is_found_where_nothing_else_is),
		WITH_HISTORY(the_oldest_go_first_and_some_stay),
		WITH_HISTORY(what_a_trigger_pinned_goes_last),
		WITH_HISTORY(foreign_files_are_left_alone),
		WITH_HISTORY(a_damaged_recording_does_not_count),
		WITH_HISTORY(listing_keeps_the_locks_of_readers),
		WITH_HISTORY(bytes_are_limited_too),
		WITH_HISTORY(runs_that_end_at_once_remove_no_more_than_one_would),
		WITH_HISTORY(trimming_does_not_wait_for_a_stuck_lock),
		WITH_HISTORY(a_run_that_just_started_evicts_no_other),
		WITH_HISTORY(a_reserved_number_is_unique),
		WITH_HISTORY(a_damaged_number_of_the_newest_counts_nothing),
		WITH_HISTORY(the_folder_follows_the_environment),
		WITH_HISTORY(a_history_that_cannot_be_is_an_error_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
