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
#include "record/history/history_run.h"
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

/* ---- as one run ------------------------------------------------------------------------------ */

static struct history read_history(size_t expected)
{
	struct history h;

	assert_int_equal(history_read(&h, NULL), 0);
	assert_int_equal(h.n, expected);
	return h;
}

static void a_folder_is_one_run(void **state)
{
	char *path = job_folder("slurm-4711.0"), file[256];
	struct history_entry node;
	struct history h;
	uint64_t bytes = 0;
	struct stat st;

	(void) state;
	add_part(path, "n1-r0.hiw", &(struct of) { .name = "study" });
	add_part(path, "n1-r1.hiw", &(struct of) { .name = "study", .status = 3 << 8, .ticks = 35 });
	add_part(path, "n1.hiw", &(struct of) { .name = "study", .part = "node", .ticks = 25 });
	put_file(path, "n1.ranks", "{}\n");
	for (int i = 0; i < 4; i++) {
		static const char *const names[] = { "n1-r0.hiw", "n1-r1.hiw", "n1.hiw", "n1.ranks" };

		(void) snprintf(file, sizeof(file), "%s/%s", path, names[i]);
		assert_int_equal(stat(file, &st), 0);
		bytes += (uint64_t) st.st_size;
	}
	h = read_history(1);
	const struct history_entry *e = &h.entries[0];

	assert_true(e->is_folder && e->complete && !e->running && !e->pinned);
	assert_int_equal(e->number, 1);
	assert_string_equal(e->path, path);
	assert_string_equal(e->name, "study");
	assert_string_equal(e->command, "train --data x");
	assert_int_equal(e->started_wall_ns, 1700000000000000000);
	assert_int_equal(e->wall_ns, 3501 * MS);
	assert_int_equal(e->status.value, 3 << 8);
	assert_int_equal(e->ranks.value, 2);
	assert_int_equal(e->nodes.value, 1);
	assert_int_equal(e->file_bytes, bytes);
	(void) snprintf(file, sizeof(file), "%s/n1.hiw", path);
	assert_int_equal(history_entry_read(file, &node), 0);
	assert_true(e->peak_bytes.known && node.peak_bytes.known);
	assert_int_equal(e->peak_bytes.value, node.peak_bytes.value); /* of the only node */
	history_entry_done(&node);
	history_done(&h);
	expect_found("last", "/1-slurm-4711.0");
	expect_found("1", "/1-slurm-4711.0");
	expect_found("study", "/1-slurm-4711.0");
	expect_found(path, "/1-slurm-4711.0");
	free(path);
}

/* Neither the sum of the nodes' peaks nor one of them; status 0 only if all ranks are known to have ended so. */
static void what_the_parts_do_not_say_is_unknown(void **state)
{
	char *path = job_folder("slurm-1.0");
	struct history h;

	(void) state;
	add_part(path, "n1-r0.hiw", &(struct of) { .name = "study", .nodes = 2 });
	add_part(path, "n1.hiw", &(struct of) { .name = "study", .part = "node", .nodes = 2 });
	add_part(path, "n2.hiw", &(struct of) { .name = "study", .part = "node", .nodes = 2 });
	h = read_history(1);
	assert_false(h.entries[0].peak_bytes.known);
	assert_false(h.entries[0].status.known); /* rank 1 has no recording */
	assert_true(h.entries[0].complete);
	history_done(&h);
	add_part(path, "n2-r1.hiw", &(struct of) { .name = "study", .rank = 1, .nodes = 2 });
	h = read_history(1);
	assert_true(h.entries[0].status.known);
	assert_int_equal(h.entries[0].status.value, 0);
	history_done(&h);
	free(path);
}

/* The last start of a rank counts. */
static void a_restart_replaces_the_status(void **state)
{
	char *path = job_folder("slurm-1.0");
	struct history h;

	(void) state;
	add_part(path, "n1-r0.hiw", &(struct of) { .name = "study", .ranks = 1, .status = 9 });
	add_part(path, "n1-r0-1.hiw", &(struct of) { .name = "study", .ranks = 1 });
	h = read_history(1);
	assert_true(h.entries[0].status.known);
	assert_int_equal(h.entries[0].status.value, 0);
	history_done(&h);
	free(path);
}

/* Links, pipes and folders in it, a recording of nonsense, and names of others. */
static void only_regular_files_of_hiwater_count(void **state)
{
	char *path = job_folder("slurm-1.0"), *whole, file[256];
	struct err err = { "" };
	struct history h;

	(void) state;
	whole = record_run(NULL, &(struct of) { .name = "elsewhere", .job = "9" });
	(void) snprintf(file, sizeof(file), "%s/n1-r0.hiw", path);
	assert_int_equal(symlink(whole, file), 0);
	(void) snprintf(file, sizeof(file), "%s/n1-r1.hiw", path);
	assert_int_equal(mkfifo(file, 0600), 0);
	(void) snprintf(file, sizeof(file), "%s/n1-r2.hiw", path);
	assert_int_equal(mkdir(file, 0700), 0);
	put_file(path, "n1-r3.hiw", "not a database");
	put_file(path, "notes.txt", "mine");
	h = read_history(1);
	assert_string_equal(h.entries[0].name, "elsewhere");
	history_done(&h);
	add_part(path, "n1-r4.hiw", &(struct of) { .name = "study" });
	put_file(path, "n1-r4.hiw-shm", "");
	put_file(path, ".n1-r5.hiw.77.tmp", "half");
	put_file(path, "n1.ranks", "{}\n");
	h = read_history(2);
	assert_string_equal(h.entries[0].name, "study");
	history_done(&h);
	age(path, 3600);
	assert_int_equal(history_remove("1", &err), -ENOTEMPTY);
	assert_non_null(strstr(err.text, "the folder stays because of what is not hiwater's"));
	assert_true(exists(path, "n1-r0.hiw") && exists(path, "n1-r1.hiw") && exists(path, "n1-r2.hiw") &&
		    exists(path, "notes.txt"));
	assert_false(exists(path, "n1-r3.hiw") || exists(path, "n1-r4.hiw") || exists(path, "n1-r4.hiw-shm") ||
		     exists(path, ".n1-r5.hiw.77.tmp") || exists(path, "n1.ranks"));
	assert_int_equal(access(whole, F_OK), 0); /* what the link names */
	h = read_history(1);
	history_done(&h);
	free(whole);
	free(path);
}

static void a_link_to_a_folder_is_no_run(void **state)
{
	char *path = job_folder("slurm-1.0"), moved[160];
	struct history h;

	(void) state;
	add_part(path, "n1-r0.hiw", &(struct of) { .name = "study" });
	(void) snprintf(moved, sizeof(moved), "%s/elsewhere", folder.path);
	assert_int_equal(rename(path, moved), 0);
	assert_int_equal(symlink(moved, path), 0);
	h = read_history(0);
	history_done(&h);
	expect_missing("last");
	expect_missing("slurm:1");
	assert_int_equal(history_remove(path, NULL), -EINVAL);
	assert_true(exists(moved, "n1-r0.hiw"));
	free(path);
}

/* ---- what is removed, and what stays --------------------------------------------------------- */

/* As if the recorder of the recording in/name were this process. */
static void make_running(const char *in, const char *name)
{
	struct recorder_id self;
	char sql[400], path[256];

	assert_int_equal(recorder_id_self(&self), 0);
	(void) snprintf(path, sizeof(path), "%s/%s", in, name);
	(void) snprintf(sql, sizeof(sql),
		"DELETE FROM meta WHERE key = 'ended_ns'; INSERT OR REPLACE INTO meta VALUES"
		"('recorder_pid', %lld), ('recorder_start', %llu), ('boot_id', '%s')",
		(long long) self.pid, (unsigned long long) self.start_ticks, self.boot);
	sql_run(path, sql);
	(void) snprintf(path, sizeof(path), "%s-wal", name);
	put_file(in, path, ""); /* which a recorder on this machine has next to it */
}

static void add_files(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		free(record_run(NULL, &(struct of) { .name = "file" }));
}

static void a_finished_folder_goes_in_its_turn(void **state)
{
	char *path = job_folder("slurm-1.0");
	struct err err = { "" };
	struct history h;

	(void) state;
	add_part(path, "n1-r0.hiw", &(struct of) { .name = "study" });
	add_part(path, "n1-r1.hiw", &(struct of) { .name = "study" });
	add_files(2);
	age(path, 3600);
	assert_int_equal(history_trim(3, UINT64_MAX, &err), 0);
	assert_string_equal(err.text, "");
	assert_int_equal(history_trim(2, UINT64_MAX, &err), 0);
	assert_non_null(strstr(err.text, "removed the oldest run from the history"));
	assert_int_equal(access(path, F_OK), -1);
	h = read_history(2);
	history_done(&h);
	free(path);
}

static void a_job_that_runs_is_never_removed(void **state)
{
	char *path = job_folder("slurm-1.0");
	struct err err = { "" };
	struct history h;

	(void) state;
	add_part(path, "n1-r0.hiw", &(struct of) { .name = "study" });
	add_part(path, "n1-r1.hiw", &(struct of) { .name = "study" });
	add_files(2);
	make_running(path, "n1-r1.hiw");
	age(path, 3600); /* its machine was suspended */
	h = read_history(3);
	assert_true(h.entries[0].running && !h.entries[0].complete);
	history_done(&h);
	assert_int_equal(history_trim(1, 1, NULL), 0);
	assert_true(exists(path, "n1-r0.hiw") && exists(path, "n1-r1.hiw"));
	assert_int_equal(history_remove("1", &err), -EBUSY);
	assert_non_null(strstr(err.text, "run 1 is still running"));
	h = read_history(2); /* and the last, which has just ended */
	history_done(&h);
	free(path);
}

/* One rank has ended; those on other nodes write here every minute at least. */
static void a_job_that_was_just_written_to_stays(void **state)
{
	char *path = job_folder("slurm-1.0");

	(void) state;
	add_part(path, "n1-r0.hiw", &(struct of) { .name = "study" });
	add_files(2);
	assert_int_equal(history_trim(1, 1, NULL), 0);
	assert_true(exists(path, "n1-r0.hiw"));
	assert_int_equal(history_remove("1", NULL), 0); /* by hand: nothing in it is being recorded */
	assert_int_equal(access(path, F_OK), -1);
	free(path);
}

/* On a node that shares this history, as its last copy shows. */
static void a_rank_on_another_node_may_run(void **state)
{
	char *path = job_folder("slurm-1.0"), file[256];
	struct history h;

	(void) state;
	add_part(path, "n1-r0.hiw", &(struct of) { .name = "study" });
	(void) snprintf(file, sizeof(file), "%s/n1-r0.hiw", path);
	sql_run(file, "DELETE FROM meta WHERE key = 'ended_ns'; INSERT OR REPLACE INTO meta VALUES('boot_id', 'another')");
	h = read_history(1);
	assert_true(h.entries[0].running);
	history_done(&h);
	assert_int_equal(history_remove("1", NULL), -EBUSY);
	age(path, 3600);
	h = read_history(1);
	assert_false(h.entries[0].running || h.entries[0].complete); /* lost */
	history_done(&h);
	assert_int_equal(history_remove("1", NULL), 0);
	free(path);
}

static void a_pinned_part_pins_the_job(void **state)
{
	char *hand = job_folder("slurm-1.0"), *trigger = job_folder("slurm-2.0"), file[256];

	(void) state;
	for (int i = 0; i < 2; i++) {
		const char *path = i == 0 ? hand : trigger;

		add_part(path, "n1-r0.hiw", &(struct of) { .name = "study" });
		add_part(path, "n1-r1.hiw", &(struct of) { .name = "study" });
		(void) snprintf(file, sizeof(file), "%s/n1-r1.hiw", path);
		sql_run(file, i == 0 ? "INSERT INTO meta VALUES('pinned', 1)" : "INSERT INTO meta VALUES('pinned', 2)");
		age(path, 3600);
	}
	add_files(3);
	assert_int_equal(history_trim(3, UINT64_MAX, NULL), 0); /* 3 and 4: what a trigger pinned goes last */
	assert_true(exists(hand, "n1-r0.hiw") && exists(trigger, "n1-r0.hiw"));
	assert_int_equal(history_trim(2, UINT64_MAX, NULL), 0);
	assert_true(exists(hand, "n1-r0.hiw"));
	assert_int_equal(access(trigger, F_OK), -1);
	assert_int_equal(history_trim(1, UINT64_MAX, NULL), 0);
	assert_true(exists(hand, "n1-r0.hiw"));
	free(hand);
	free(trigger);
}

/* Each rank ends and trims. */
static void a_step_on_210_nodes_evicts_nobody(void **state)
{
	enum {
		NODES = 210
	};
	char *precious = record_run(NULL, &(struct of) { .name = "precious" }), *path = job_folder("slurm-1.0");
	struct history h;

	(void) state;
	for (unsigned i = 0; i < NODES; i++) {
		char from[256], to[32];
		struct err err = { "" };

		(void) snprintf(to, sizeof(to), "n%u-r%u.hiw", i, i);
		if (i == 0) {
			add_part(path, to, &(struct of) { .name = "wide", .ranks = NODES, .nodes = NODES });
		} else {
			char link_to[256];

			(void) snprintf(from, sizeof(from), "%s/n0-r0.hiw", path);
			(void) snprintf(link_to, sizeof(link_to), "%s/%s", path, to);
			assert_int_equal(link(from, link_to), 0);
		}
		assert_int_equal(history_trim(200, UINT64_C(1) << 30, &err), 0);
		assert_string_equal(err.text, "");
	}
	h = read_history(2);
	assert_string_equal(h.entries[0].name, "precious");
	assert_int_equal(h.entries[1].ranks.value, NODES);
	assert_false(h.entries[1].status.known); /* of few of them */
	history_done(&h);
	free(precious);
	free(path);
}

/* While it is recorded it counts half of the limit; afterwards it goes before what is older. */
static void a_job_larger_than_the_history_evicts_itself_alone(void **state)
{
	const uint64_t most = 100 << 20;
	char *precious = record_run(NULL, &(struct of) { .name = "precious" }), *path = job_folder("slurm-1.0"), file[256];
	struct history h;

	(void) state;
	add_part(path, "n1-r0.hiw", &(struct of) { .name = "wide" });
	put_file(path, "n1.ranks", "");
	(void) snprintf(file, sizeof(file), "%s/n1.ranks", path);
	assert_int_equal(truncate(file, 300 << 20), 0);
	add_files(1);
	assert_int_equal(history_trim(200, most, NULL), 0);
	h = read_history(3);
	history_done(&h);
	age(path, 3600);
	assert_int_equal(history_trim(200, most, NULL), 0);
	h = read_history(2);
	assert_string_equal(h.entries[0].name, "precious");
	assert_string_equal(h.entries[1].name, "file");
	history_done(&h);
	free(precious);
	free(path);
}

static void a_folder_of_runs_that_were_too_short_goes(void **state)
{
	char *path = job_folder("slurm-1.0");

	(void) state;
	expect_missing("last");
	assert_int_equal(history_trim(200, UINT64_MAX, NULL), 0);
	assert_int_equal(access(path, F_OK), 0); /* its ranks may have just started */
	assert_int_equal(history_remove("1", NULL), -EBUSY);
	age(path, 3600);
	assert_int_equal(history_trim(200, UINT64_MAX, NULL), 0);
	assert_int_equal(access(path, F_OK), -1);
	free(path);
}

/* ---- finding a job --------------------------------------------------------------------------- */

static void add_job(const char *key)
{
	char *path = job_folder(key);

	add_part(path, "n1-r0.hiw", &(struct of) { .name = "step", .job = strchr(key, '-') + 1 });
	free(path);
}

static void the_newest_step_of_a_job_is_found(void **state)
{
	char *none = NULL;

	(void) state;
	add_job("slurm-4711.0");
	add_job("slurm-4711.1");
	free(record_run(NULL, &(struct of) { .name = "script", .job = "4711" }));
	add_job("slurm-47110.0");
	expect_found("slurm:4711", "/2-slurm-4711.1"); /* not the batch script, which saw no step */
	expect_found("slurm:4711.0", "/1-slurm-4711.0");
	expect_missing("slurm:4711.2");
	expect_missing("slurm:471");
	assert_int_equal(history_find("slurm:", &none, NULL), -EINVAL);
	free(record_run(NULL, &(struct of) { .name = "script", .job = "4712" }));
	expect_found("slurm:4712", "/5.hiw");
	add_job("slurm-100_7.0");
	add_job("slurm-100_8.0");
	expect_found("slurm:100", "/7-slurm-100_8.0");
	expect_found("slurm:100_7", "/6-slurm-100_7.0");
	add_job("mpi-a.b");
	expect_missing("mpi:a");
	expect_found("mpi:a.b", "/8-mpi-a.b");
	add_job("slurm-4712-prterun-n1-77"); /* mpirun in the batch script */
	expect_found("slurm:4712", "/9-slurm-4712-prterun-n1-77");
	add_job("torchrun-none-n1-88");
	expect_found("torchrun:none", "/10-torchrun-none-n1-88");
	add_job("torchrun-exp-2");
	expect_missing("torchrun:exp");
}

static void write_elsewhere(const char *name, const char *job, char path[160])
{
	(void) snprintf(path, 160, "%s/%s", folder.path, name);
	free(record_run(path, &(struct of) { .name = "o", .job = job }));
}

static void recordings_elsewhere_are_found(void **state)
{
	char one[160], two[160], in[160], part[160];

	(void) state;
	write_elsewhere("x.hiw", "4711.0", one);
	expect_missing("slurm:4711");
	assert_int_equal(history_point("slurm-4711.0", one), 0);
	assert_int_equal(history_point("slurm-4711.0", one), 0); /* is noted already */
	expect_found("slurm:4711", "/x.hiw");
	expect_found("slurm:4711.0", "/x.hiw");
	expect_missing("slurm:4711.1");
	/* Several are the list of them. */
	write_elsewhere("y.hiw", "4711.0", two);
	assert_int_equal(history_point("slurm-4711.0", two), 0);
	expect_found("slurm:4711", "/jobs/slurm-4711.0");
	assert_int_equal(unlink(one), 0);
	expect_found("slurm:4711", "/y.hiw");
	/* That name is another job's by now. */
	assert_int_equal(unlink(two), 0);
	write_elsewhere("y.hiw", "5000.0", two);
	expect_missing("slurm:4711");
	/* A folder. */
	(void) snprintf(in, sizeof(in), "%s/4711.1", folder.path);
	assert_int_equal(mkdir(in, 0700), 0);
	write_elsewhere("4711.1/n1-r0.hiw", "4711.1", part);
	assert_int_equal(history_point("slurm-4711.1", in), 0);
	expect_found("slurm:4711", "/4711.1");
	/* What lies in the history needs no pointer. */
	add_job("slurm-4711.2");
	(void) snprintf(in, sizeof(in), "%s/1-slurm-4711.2", getenv("HIWATER_DIR"));
	assert_int_equal(history_point("slurm-4711.2", in), 0);
	(void) snprintf(in, sizeof(in), "%s/jobs/slurm-4711.2", getenv("HIWATER_DIR"));
	assert_int_equal(access(in, F_OK), -1);
}

static void a_list_that_was_tampered_with_finds_nothing(void **state)
{
	char jobs[192], list[256];
	char path[160];

	(void) state;
	write_elsewhere("x.hiw", "1.0", path);
	assert_int_equal(history_point("slurm-1.0", path), 0);
	(void) snprintf(jobs, sizeof(jobs), "%s/jobs", getenv("HIWATER_DIR"));
	put_file(jobs, "slurm-1.0", "x.hiw\n\n/no/such\n../x.hiw\n");
	expect_missing("slurm:1");
	(void) snprintf(list, sizeof(list), "%s/slurm-2.0", jobs);
	assert_int_equal(mkfifo(list, 0600), 0);
	expect_missing("slurm:2");
	assert_true(history_point("slurm-2.0", path) < 0);
	(void) snprintf(list, sizeof(list), "%s/slurm-3.0", jobs);
	assert_int_equal(symlink("/etc/passwd", list), 0);
	expect_missing("slurm:3");
	assert_true(history_point("slurm-3.0", path) < 0);
	assert_int_equal(history_point("slurm-4.0", "relative.hiw"), -EINVAL);
	assert_int_equal(history_point("slurm-4.0", "/two\nlines"), -EINVAL);
}

static void the_newest_1000_lists_are_kept(void **state)
{
	enum {
		MOST = 1000
	};
	char jobs[192], name[64];

	(void) state;
	assert_int_equal(history_point("slurm-first", "/x"), 0);
	(void) snprintf(jobs, sizeof(jobs), "%s/jobs", getenv("HIWATER_DIR"));
	age(jobs, 3600);
	for (int i = 1; i < MOST + 1; i++) {
		(void) snprintf(name, sizeof(name), "slurm-%d.0", i);
		assert_true(exists(jobs, "slurm-first"));
		assert_int_equal(history_point(name, "/x"), 0);
	}
	assert_int_equal(count_files(jobs), MOST);
	assert_false(exists(jobs, "slurm-first"));
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
		WITH_HISTORY(a_folder_is_one_run),
		WITH_HISTORY(what_the_parts_do_not_say_is_unknown),
		WITH_HISTORY(a_restart_replaces_the_status),
		WITH_HISTORY(only_regular_files_of_hiwater_count),
		WITH_HISTORY(a_link_to_a_folder_is_no_run),
		WITH_HISTORY(a_finished_folder_goes_in_its_turn),
		WITH_HISTORY(a_job_that_runs_is_never_removed),
		WITH_HISTORY(a_job_that_was_just_written_to_stays),
		WITH_HISTORY(a_rank_on_another_node_may_run),
		WITH_HISTORY(a_pinned_part_pins_the_job),
		WITH_HISTORY(a_step_on_210_nodes_evicts_nobody),
		WITH_HISTORY(a_job_larger_than_the_history_evicts_itself_alone),
		WITH_HISTORY(a_folder_of_runs_that_were_too_short_goes),
		WITH_HISTORY(the_newest_step_of_a_job_is_found),
		WITH_HISTORY(recordings_elsewhere_are_found),
		WITH_HISTORY(a_list_that_was_tampered_with_finds_nothing),
		WITH_HISTORY(the_newest_1000_lists_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
