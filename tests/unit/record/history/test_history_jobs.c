/* SPDX-License-Identifier: MIT
 *
 * The folder of a job in the history: one run, however many recordings it has.
 */
#include "record_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>
#include <utime.h>

#include "record/history/history.h"
#include "record/recorder_id.h"

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

/* What a recording says of its run. */
struct of {
	const char *name, *part, *scheduler, *job;
	int64_t rank, ranks, nodes, status;
	uint64_t ticks;
};

/* Records a run at path; NULL: in the history. Returns its path, freed by the caller. */
static char *record_run(const char *path, const struct of *of)
{
	struct record *r = rig_record(&(struct record_options) { .path = path, .window_ns = SEC });
	struct record_end end;
	struct facts *f;
	struct sim s;

	sim_new(&s, 100 * MS, SEC, 1, true);
	sim_into(&s, r);
	f = job_facts(s.job);
	assert_int_equal(job_set_text(&f->name, of->name), 0);
	assert_int_equal(job_set_text(&f->part, of->part ? of->part : "rank"), 0);
	if (of->job) {
		assert_int_equal(job_set_text(&f->scheduler, of->scheduler ? of->scheduler : "slurm"), 0);
		assert_int_equal(job_set_text(&f->scheduler_job, of->job), 0);
	}
	f->rank = known(of->rank);
	f->ranks = known(of->ranks ? of->ranks : 2);
	f->nodes = known(of->nodes ? of->nodes : 1);
	f->started_wall_ns = known(1700000000000000000);
	for (uint64_t k = 0; k < (of->ticks ? of->ticks : 15); k++)
		sim_tick(&s);
	sim_end(&s);
	f->exit_status = known(of->status);
	assert_int_equal(record_finish(r, s.job, true, 60 * SEC, &end, NULL), 0);
	sim_done(&s);
	return end.path;
}

static char *job_folder(const char *key)
{
	struct err err = { "" };
	char *path = NULL;

	if (history_job_folder(key, &path, &err) < 0)
		fail_msg("%s: %s", key, err.text);
	return path;
}

static void add_part(const char *in, const char *name, const struct of *of)
{
	char path[256];

	(void) snprintf(path, sizeof(path), "%s/%s", in, name);
	free(record_run(path, of));
}

/* Everything in it was written that long ago. */
static void age(const char *path, time_t by_s)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	const struct utimbuf times = { time(NULL) - by_s, time(NULL) - by_s };
	char file[400];

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		(void) snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		if (strcmp(entry->d_name, "..") != 0)
			(void) utime(file, &times);
	}
	assert_int_equal(closedir(dir), 0);
}

static void put_file(const char *in, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	(void) snprintf(path, sizeof(path), "%s/%s", in, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static bool exists(const char *in, const char *name)
{
	char path[256];

	(void) snprintf(path, sizeof(path), "%s/%s", in, name);
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
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

static void expect_missing(const char *run)
{
	struct err err = { "" };
	char *path = NULL;

	assert_int_equal(history_find(run, &path, &err), -ENOENT);
	assert_true(err.text[0] != '\0');
}

static unsigned count_files(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	assert_int_equal(closedir(dir), 0);
	return n - 2;
}

/* ---- making it ------------------------------------------------------------------------------- */

static void all_ranks_get_one_folder(void **state)
{
	char *one = job_folder("slurm-4711.0"), *again = job_folder("slurm-4711.0"),
	     *other = job_folder("slurm-4711.1"), *odd = job_folder("mpi-a/../b"), *reserved = NULL;
	struct stat st;
	uint64_t number;

	(void) state;
	assert_non_null(strstr(one, "/state/runs/1-slurm-4711.0"));
	assert_string_equal(one, again);
	assert_non_null(strstr(other, "/2-slurm-4711.1"));
	assert_non_null(strstr(odd, "/3-mpi-a_.._b"));
	assert_int_equal(stat(one, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(history_reserve(&reserved, &number, NULL), 0);
	assert_int_equal(number, 4);
	assert_int_equal(count_files(getenv("HIWATER_DIR")), 4);
	free(one);
	free(again);
	free(other);
	free(odd);
	free(reserved);
}

static void a_key_needs_a_launcher_and_a_job(void **state)
{
	static const char *const keys[] = { "", "slurm", "slurm-", "notes-1", "-1", "../slurm-1" };
	struct err err = { "" };
	char *path = NULL;

	(void) state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		assert_int_equal(history_job_folder(keys[i], &path, &err), -EINVAL);
		assert_non_null(strstr(err.text, "cannot name the folder of a job"));
	}
	assert_int_equal(access(getenv("HIWATER_DIR"), F_OK), -1);
}

/* That many processes ask at once; every other one for a number of its own. */
static void ask_at_once(unsigned n, const char *key, bool with_others)
{
	int gate[2], status;
	char byte;

	assert_int_equal(pipe(gate), 0);
	for (unsigned i = 0; i < n; i++) {
		pid_t pid = fork();
		uint64_t number;
		char *path;

		assert_true(pid >= 0);
		if (pid > 0)
			continue;
		(void) close(gate[1]);
		(void) read(gate[0], &byte, 1);
		if (with_others && i % 2)
			_exit(history_reserve(&path, &number, NULL) < 0);
		if (history_job_folder(key, &path, NULL) < 0)
			_exit(1);
		put_file(path, (char[]) { 'r', (char) ('a' + i), '\0' }, "here\n");
		_exit(0);
	}
	(void) close(gate[0]);
	(void) close(gate[1]); /* now */
	while (wait(&status) > 0)
		assert_int_equal(status, 0);
}

static void ranks_that_ask_at_once_get_one_folder(void **state)
{
	enum {
		RANKS = 16
	};

	(void) state;
	for (int i = 0; i < 20; i++) {
		char key[32], *path;

		(void) snprintf(key, sizeof(key), "slurm-%d.0", i);
		ask_at_once(RANKS, key, false);
		path = job_folder(key);
		assert_int_equal(count_files(path), RANKS);
		free(path);
		assert_int_equal(count_files(getenv("HIWATER_DIR")), i + 1);
	}
}

/* A number is that of a folder or of a file. */
static void no_number_is_used_twice(void **state)
{
	enum {
		ALL = 16
	};
	bool used[ALL + 1] = { false };
	DIR *dir;
	const struct dirent *entry;

	(void) state;
	ask_at_once(ALL, "slurm-1.0", true);
	dir = opendir(getenv("HIWATER_DIR"));
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		const unsigned long number = strtoul(entry->d_name, NULL, 10);

		if (entry->d_name[0] == '.')
			continue;
		assert_in_range(number, 1, ALL / 2 + 1);
		assert_false(used[number]);
		used[number] = true;
	}
	assert_int_equal(closedir(dir), 0);
	assert_int_equal(count_files(getenv("HIWATER_DIR")), ALL / 2 + 1);
}

/* Its rank was killed while it had the lock. */
static void a_lock_that_nobody_holds_is_broken(void **state)
{
	char path[160], *made;

	(void) state;
	free(job_folder("slurm-1.0"));
	(void) snprintf(path, sizeof(path), "%s/.making-slurm-2.0", getenv("HIWATER_DIR"));
	assert_int_equal(mkdir(path, 0700), 0);
	made = job_folder("slurm-2.0");
	assert_non_null(strstr(made, "/2-slurm-2.0"));
	assert_int_equal(access(path, F_OK), -1);
	free(made);
}

/* A cluster that was set up anew counts from 1 again, and torchrun calls each job "none". */
static void an_earlier_job_of_that_number_is_another_run(void **state)
{
	char *first = job_folder("torchrun-none"), *second;

	(void) state;
	add_part(first, "n1-r0.hiw", &(struct of) { .name = "a" });
	age(first, 3600);
	second = job_folder("torchrun-none");
	assert_non_null(strstr(first, "/1-torchrun-none"));
	assert_non_null(strstr(second, "/2-torchrun-none"));
	add_part(second, "n1-r0.hiw", &(struct of) { .name = "b" });
	expect_found("torchrun:none", "/2-torchrun-none");
	free(first);
	free(second);
}

#define WITH_HISTORY(test) cmocka_unit_test_setup_teardown(test, new_history, drop_history)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_HISTORY(all_ranks_get_one_folder),
		WITH_HISTORY(a_key_needs_a_launcher_and_a_job),
		WITH_HISTORY(ranks_that_ask_at_once_get_one_folder),
		WITH_HISTORY(no_number_is_used_twice),
		WITH_HISTORY(a_lock_that_nobody_holds_is_broken),
		WITH_HISTORY(an_earlier_job_of_that_number_is_another_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
