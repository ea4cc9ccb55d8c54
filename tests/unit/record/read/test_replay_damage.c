/* SPDX-License-Identifier: MIT
 *
 * Recordings that are damaged, manipulated or no recordings at all: refused or read as far as
 * possible, never a crash.
 */
#include "replay_rig.h"

/* ---- what is none of ours -------------------------------------------------------------------- */

static void write_file(const char *path, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	(void) close(fd);
}

static void expect_refused(const char *path, int code, const char *word)
{
	struct replay *r = NULL;
	struct err err = { "" };

	assert_int_equal(replay_open(path, &r, &err), code);
	assert_null(r);
	if (!strstr(err.text, word))
		fail_msg("\"%s\" does not say \"%s\"", err.text, word);
}

static void other_files_are_refused(void **state)
{
	struct rig_folder f;
	sqlite3 *db = NULL;

	(void) state;
	folder_new(&f);
	expect_refused(f.file, -ENOENT, "No such file");
	expect_refused(f.path, -EISDIR, "is a folder");
	write_file(f.file, "", 0);
	expect_refused(f.file, -EBADMSG, "empty");
	write_file(f.file, "hello", 5);
	expect_refused(f.file, -EBADMSG, "not a hiwater recording");
	char many[8192];

	memset(many, 'x', sizeof(many));
	write_file(f.file, many, sizeof(many));
	expect_refused(f.file, -EBADMSG, "not a hiwater recording");
	(void) unlink(f.file);
	assert_int_equal(sqlite3_open(f.file, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "CREATE TABLE meta(key, value)", NULL, NULL, NULL), SQLITE_OK);
	(void) sqlite3_close(db);
	expect_refused(f.file, -EBADMSG, "not a hiwater recording");
	sql_run(f.file, "PRAGMA application_id=1214863201; PRAGMA user_version=99");
	expect_refused(f.file, -EBADMSG, "newer");
	sql_run(f.file,
		"PRAGMA user_version=1; DROP TABLE meta; CREATE VIEW meta AS SELECT 1 AS key, 2 AS value");
	expect_refused(f.file, -EBADMSG, "meta");
	folder_done(&f);
}

/* Reads a manipulated file completely: the result does not matter, only that it ends. */
static bool see_nothing(void *ctx, const struct frame *frame)
{
	uint64_t *n = ctx;

	*n += 1 + frame->n_readings;
	return true;
}

static int read_everything(const char *path)
{
	struct replay *r = NULL;
	struct job *job = NULL;
	struct err err = { "" };
	uint64_t n = 0;
	int code = replay_open(path, &r, &err);

	if (code < 0) {
		assert_true(err.text[0] != '\0');
		return code;
	}
	code = replay_job(r, &job, &err);
	job_free(job);
	for (int recent = 0; recent < 2; recent++) {
		int frames = replay_frames(r, recent, see_nothing, &n, &err);

		code = code < 0 ? code : frames;
	}
	(void) replay_growing(r);
	assert_true(code == 0 || err.text[0]);
	replay_close(r);
	return code;
}

static const char *const tampering[] = {
	"DROP TABLE summary",
	"DROP TABLE process; CREATE VIEW process AS SELECT * FROM job_sample",
	"DROP TABLE job_sample; CREATE VIEW job_sample AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
	" SELECT x AS t, 1 AS span, 1 AS n, NULL AS part FROM c",
	"DROP TABLE event; CREATE VIRTUAL TABLE event USING fts5(t, kind, entity, id, phase, value, text)",
	"UPDATE process SET id = -id",
	"UPDATE process SET born = 'yesterday', ended = -5, end_source = 7, name = zeroblob(100000), command = NULL",
	"UPDATE process SET ended = 0",
	"UPDATE summary SET n = -1",
	"UPDATE summary SET min = 'x', sum = 9e999, span = -3, metric = metric || 'x'",
	"UPDATE summary SET id = id + 4294967296",
	"UPDATE meta SET value = zeroblob(1000000) WHERE key = 'command'",
	"UPDATE meta SET value = -9223372036854775808 WHERE typeof(value) = 'integer'",
	"UPDATE meta SET value = NULL",
	"DELETE FROM meta",
	"UPDATE job_sample SET span = -1, ram = 'a', ram_min = 9223372036854775807, part = 'ram 5 ram -5 x y z'",
	"UPDATE job_sample SET span = 9223372036854775807",
	"UPDATE process_sample SET rss = NULL, rss_max = 5, part = zeroblob(1000)",
	"UPDATE event SET kind = 'mark', t = -1, text = zeroblob(500000), phase = 4294967295",
	"INSERT INTO event VALUES(9223372036854775807, 'phase-begin', 'job', 1, 77, 0, NULL, NULL)",
	"UPDATE event SET kind = 'note', cause = zeroblob(100)",
	"ALTER TABLE event DROP COLUMN cause",
	"UPDATE series SET n = 'x'; UPDATE series_value SET series = 99, value = 'x', t = NULL",
	"ALTER TABLE job_sample DROP COLUMN ram",
	"ALTER TABLE process DROP COLUMN command",
	"ALTER TABLE host_sample ADD COLUMN later INTEGER",
	"CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM process; END",
	"INSERT INTO process(id, born, name) WITH RECURSIVE c(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM c WHERE x < 3000)"
	" SELECT x, 5, 'p' FROM c",
	"INSERT OR REPLACE INTO process_sample(t, id, rss) WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c"
	" WHERE x < 3000) SELECT x, 7, x FROM c",
};

static void tampering_does_no_harm(void **state)
{
	struct rig_folder f;
	struct sim s;
	char *copy = NULL;

	(void) state;
	for (size_t i = 0; i < sizeof(tampering) / sizeof(tampering[0]); i++) {
		folder_new(&f);
		sim_new(&s, 100 * MS, SEC, 3, true);
		run_with_words(f.file, &s, 35);
		assert_int_equal(read_everything(f.file), 0);
		sql_run(f.file, tampering[i]);
		(void) read_everything(f.file);
		sim_done(&s);
		folder_done(&f);
	}
	free(copy);
}

static char *slurp(const char *path, size_t *ret)
{
	FILE *file = fopen(path, "rb");
	char *bytes = malloc(1 << 22);

	assert_non_null(file);
	assert_non_null(bytes);
	*ret = fread(bytes, 1, 1 << 22, file);
	(void) fclose(file);
	return bytes;
}

/* Truncated anywhere, and with bytes changed anywhere: a result or an error with a text, within
 * its bounds. */
static void damage_does_no_harm(void **state)
{
	struct rig_folder f;
	struct sim s;
	size_t n;
	char *bytes, path[160];
	uint64_t seed = 42;

	(void) state;
	folder_new(&f);
	(void) snprintf(path, sizeof(path), "%s/damaged.hiw", f.path);
	sim_new(&s, 100 * MS, SEC, 3, true);
	run_with_words(f.file, &s, 35);
	bytes = slurp(f.file, &n);
	for (size_t cut = 0; cut < n; cut += cut < 200 ? 7 : 4096 / 2 + 13) {
		write_file(path, bytes, cut);
		(void) read_everything(path);
	}
	for (int i = 0; i < 300; i++) {
		char *damaged = malloc(n);

		assert_non_null(damaged);
		memcpy(damaged, bytes, n);
		for (int k = 0; k < 1 + i % 30; k++) {
			seed = seed * 6364136223846793005U + 1442695040888963407U;
			damaged[(seed >> 20) % n] = (char) (seed >> 7);
		}
		write_file(path, damaged, n);
		free(damaged);
		(void) read_everything(path);
	}
	free(bytes);
	sim_done(&s);
	folder_done(&f);
}

/* ---- a corpus -------------------------------------------------------------------------------- */

/* Small pages make small files; the tables are the same. */
static void keep_small(const char *from, const char *name, size_t cut, const char *tamper)
{
	char path[300];
	size_t n;
	char *bytes;

	sql_run(from, "DELETE FROM metric; DELETE FROM host_recent; PRAGMA page_size=512; VACUUM");
	if (tamper)
		sql_run(from, tamper);
	bytes = slurp(from, &n);
	for (size_t i = 0; cut == 1 && i < 40; i++)
		bytes[512 + i * 977 % (n - 512)] ^= (char) (1 << i % 8);
	(void) snprintf(path, sizeof(path), "%s/../fuzz/corpus/recording/%s", TESTS_DIR, name);
	write_file(path, bytes, cut > 1 ? n * cut / 100 : n);
	free(bytes);
}

/* The initial corpus of the harness does no harm; UPDATE_CORPUS=1 rewrites it. */
static void the_corpus_does_no_harm(void **state)
{
	static const struct {
		const char *name;
		size_t cut;
		const char *tamper;
	} files[] = {
		{ "whole", 0, NULL },
		{ "cut", 60, NULL },
		{ "flipped", 1, NULL },
		{ "running", 0, "DELETE FROM meta WHERE key = 'ended_ns'; DELETE FROM process WHERE id = 2" },
		{ "types", 0,
			"UPDATE process SET born = 'x', ended = -1; UPDATE job_sample SET part = 'ram 1 swap 2',"
			" ram_max = 'y', span = -1; UPDATE summary SET n = -1 WHERE metric < 'm'; UPDATE event SET phase = -1" },
		{ "views", 0,
			"DROP TABLE process_sample; CREATE VIEW process_sample AS SELECT * FROM job_sample;"
			" DROP TABLE summary; CREATE TABLE summary(entity, id, metric)" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct rig_folder f;
		struct sim s;
		char path[300];

		(void) snprintf(
			path, sizeof(path), "%s/../fuzz/corpus/recording/%s", TESTS_DIR, files[i].name);
		if (!getenv("UPDATE_CORPUS")) {
			int code = read_everything(path);

			assert_true(code == 0 || i > 0); /* the first is complete */
			continue;
		}
		folder_new(&f);
		sim_new(&s, 200 * MS, SEC, 3, true);
		run_with_words(f.file, &s, 9);
		keep_small(f.file, files[i].name, files[i].cut, files[i].tamper);
		sim_done(&s);
		folder_done(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(tampering_does_no_harm),
		cmocka_unit_test(damage_does_no_harm),
		cmocka_unit_test(the_corpus_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
