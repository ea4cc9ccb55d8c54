/* SPDX-License-Identifier: MIT
 *
 * Texts for people: tests/golden/summary-*.txt have each summary at 40, 80 and 120 columns, in
 * UTF-8 and in ASCII. UPDATE_GOLDEN=1 writes them anew; review the difference before a commit.
 */
#include "summary_gpus.h"
#include "summary_runs.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "findings/gpus.h"
#include "sink/sink.h"
#include "summary/gpus_now.h"

static const struct sink_options usual = {
	.width = 80, .utf8 = true, .history = "/home/ana/.local/state/hiwater"
};

/* ---- golden files --------------------------------------------------------------------------------------------------- */

static void write_golden(const char *path, const struct buf *text)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(text->data, 1, text->len, file), text->len);
	assert_int_equal(fclose(file), 0);
}

static void assert_golden(const char *name, const struct buf *text)
{
	char path[512];
	static char expected[1 << 18];
	const char *update = getenv("UPDATE_GOLDEN");

	assert_int_equal(text->error, 0);
	(void) snprintf(path, sizeof(path), "%s/golden/summary-%s", TESTS_DIR, name);
	if (update && update[0] == '1') {
		write_golden(path, text);
		return;
	}
	FILE *file = fopen(path, "rb");

	if (!file)
		fail_msg("%s: %s (UPDATE_GOLDEN=1 makes it)", path, strerror(errno));
	size_t n = fread(expected, 1, sizeof(expected) - 1, file);

	(void) fclose(file);
	expected[n] = '\0';
	for (size_t i = 0, line = 1; i <= n; i++) {
		if (text->data[i] != expected[i])
			fail_msg("%s:%zu differs; now:\n%s", path, line, text->data);
		line += expected[i] == '\n';
	}
}

/* Columns of one line, by a simpler rule than the sink's: one a character, two from U+3000 on. */
static unsigned columns_of(const char *line, size_t n)
{
	unsigned columns = 0;

	for (const unsigned char *p = (const unsigned char *) line; n > 0; p++, n--)
		columns += (*p & 0xC0) == 0x80 ? 0 : *p >= 0xE3 && *p != 0xEF ? 2
									      : 1;
	return columns;
}

static void assert_width(const char *text, unsigned width)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		if (columns_of(text, n) > width)
			fail_msg("%u columns, %u allowed: %.*s", columns_of(text, n), width, (int) n, text);
		if (n > 0 && text[n - 1] == ' ')
			fail_msg("blank at the end: '%.*s'", (int) n, text);
		text += n + (text[n] == '\n');
	}
}

/* Without its colours, the text must equal the uncoloured summary. */
static void without_colors(struct buf *text)
{
	char *to = text->data;

	for (const char *from = text->data; *from; from++) {
		if (*from == '\x1b') {
			assert_int_equal(from[1], '[');
			from += strcspn(from, "m");
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
}

static void append(struct made *m, const struct sink_options *o, struct buf *all)
{
	struct buf bare = BUF_INIT(1 << 20), colored = BUF_INIT(1 << 20);
	struct sink_options with_color = *o;

	assert_int_equal(sink_summary(SINK_TEXT, &m->s, o, &bare), 0);
	assert_null(strchr(bare.data, '\x1b'));
	assert_null(strchr(bare.data, '\x1f'));
	assert_width(bare.data, o->width);
	for (size_t i = 0; !o->utf8 && i < bare.len; i++)
		assert_true((unsigned char) bare.data[i] < 0x80);
	with_color.color = true;
	assert_int_equal(sink_summary(SINK_TEXT, &m->s, &with_color, &colored), 0);
	without_colors(&colored);
	assert_string_equal(colored.data, bare.data);
	buf_printf(all, "== %u columns, %s\n%s", o->width, o->utf8 ? "UTF-8" : "ASCII", bare.data);
	buf_done(&bare);
	buf_done(&colored);
}

static void assert_text(struct made *m, const char *name, bool plain, bool why)
{
	static const unsigned widths[] = { 40, 80, 120 };
	struct sink_options o = usual;
	struct buf all = BUF_INIT(1 << 20);

	o.plain = plain;
	o.why = why;
	for (int utf8 = 1; utf8 >= 0; utf8--) {
		for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++) {
			o.utf8 = utf8;
			o.width = widths[i];
			append(m, &o, &all);
		}
	}
	assert_golden(name, &all);
	buf_done(&all);
}

/* ---- for people ------------------------------------------------------------------------------------------------------ */

static void made_quiet(struct made *m)
{
	made_new(m);
	assert_int_equal(findings_make(&m->s, NULL), 0);
}

static void test_text(void **state)
{
	static const struct {
		void (*make)(struct made *m);
		const char *name;
		bool plain, why;
	} rows[] = {
		{ made_training, "training.txt", false, false },
		{ made_training, "training-plain.txt", true, false },
		{ made_training, "training-why.txt", false, true },
		{ made_quiet, "quiet.txt", false, false },
		{ made_killed, "killed.txt", false, false },
		{ made_killed, "killed-plain.txt", true, false },
		{ made_many, "many.txt", false, false },
		{ made_attached, "attached.txt", false, false },
		{ made_attached, "attached-plain.txt", true, false },
		{ made_block, "block.txt", false, false },
		{ made_block, "block-plain.txt", true, false },
		{ made_block_raised, "block-raised.txt", false, false },
		{ made_lost, "lost.txt", false, false },
		{ made_lost, "lost-plain.txt", true, true },
		{ made_gpus, "gpus.txt", false, false },
		{ made_gpus, "gpus-plain.txt", true, false },
		{ made_no_driver, "no-driver.txt", false, false },
		{ made_no_gpu, "quiet.txt", false, false },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct made m;

		rows[i].make(&m);
		assert_text(&m, rows[i].name, rows[i].plain, rows[i].why);
		made_done(&m);
	}
}

static void test_colored(void **state)
{
	struct sink_options o = usual;
	struct buf all = BUF_INIT(1 << 20);
	struct made m;

	(void) state;
	o.color = true;
	made_killed(&m);
	assert_int_equal(sink_summary(SINK_TEXT, &m.s, &o, &all), 0);
	assert_golden("killed-colored.txt", &all);
	assert_non_null(strstr(all.data, "\x1b[1;31mERROR\x1b[0m"));
	made_done(&m);
	buf_done(&all);
}

static void test_an_unknown_size_is_omitted(void **state)
{
	struct buf text = BUF_INIT(1 << 20);
	struct made m;

	(void) state;
	made_new(&m);
	for (uint32_t i = 1; i <= 3; i++)
		made_process(&m, i, "brief", 0, false);
	assert_int_equal(sink_summary(SINK_TEXT, &m.s, &usual, &text), 0);
	assert_null(strstr(text.data, "Largest"));
	assert_null(strstr(text.data, "brief["));
	made_process(&m, 4, "long", MIB(9), false);
	buf_clear(&text);
	assert_int_equal(sink_summary(SINK_TEXT, &m.s, &usual, &text), 0);
	assert_non_null(strstr(text.data, "long["));
	assert_null(strstr(text.data, "brief["));
	made_done(&m);
	buf_done(&text);
}

static void test_units(void **state)
{
	struct sink_options o = usual;
	struct buf text = BUF_INIT(1 << 20);
	struct made m;

	(void) state;
	made_killed(&m);
	o.units = UNITS_SI;
	assert_int_equal(sink_summary(SINK_TEXT, &m.s, &o, &text), 0);
	assert_non_null(strstr(text.data, "peak 34.3 GB of 34.4 limit"));
	buf_clear(&text);
	o.units = UNITS_BYTES;
	o.width = 40;
	assert_int_equal(sink_summary(SINK_TEXT, &m.s, &o, &text), 0);
	assert_non_null(strstr(text.data, "peak 34252364185 bytes\n"));
	assert_non_null(strstr(text.data, "of 34359738368 limit (100 %)\n"));
	assert_width(text.data, 40);
	made_done(&m);
	buf_done(&text);
}

/* At any width that the terminal reports. */
static void test_every_width(void **state)
{
	void (*const makers[])(
		struct made *m) = { made_training, made_killed, made_many, made_lost, made_gpus };
	struct sink_options o = usual;

	(void) state;
	for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++) {
		struct made m;

		makers[i](&m);
		for (o.width = 0; o.width < 130; o.width++) {
			struct buf text = BUF_INIT(1 << 20);

			o.why = o.width % 2;
			o.plain = o.width % 3 == 0;
			assert_int_equal(sink_summary(SINK_TEXT, &m.s, &o, &text), 0);
			assert_width(text.data, o.width < 40 ? 40 : o.width);
			buf_done(&text);
		}
		made_done(&m);
	}
}

/* ---- for programs ---------------------------------------------------------------------------------------------------- */

static void test_json(void **state)
{
	static const struct {
		void (*make)(struct made *m);
		const char *name;
		bool why;
	} rows[] = {
		{ made_training, "training.json", true },
		{ made_killed, "killed.json", false },
		{ made_many, "many.json", false },
		{ made_lost, "lost.json", false },
		{ made_attached, "attached.json", false },
		{ made_gpus, "gpus.json", false },
		{ made_no_driver, "no-driver.json", false },
		{ made_no_gpu, "no-gpu.json", false },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct sink_options o = usual;
		struct buf text = BUF_INIT(1 << 20);
		struct made m;

		rows[i].make(&m);
		o.why = rows[i].why;
		assert_int_equal(sink_summary(SINK_JSON, &m.s, &o, &text), 0);
		assert_golden(rows[i].name, &text);
		made_done(&m);
		buf_done(&text);
	}
}

static void assert_line(
	struct made *m, const struct sink_options *o, enum sink_kind kind, const char *expected)
{
	struct buf text = BUF_INIT(1 << 16);

	assert_int_equal(sink_summary(kind, &m->s, o, &text), 0);
	assert_string_equal(text.data, expected);
	buf_done(&text);
}

static void test_line(void **state)
{
	struct made m;

	(void) state;
	made_training(&m);
	assert_line(&m, &usual, SINK_LINE,
		"hiwater 17 exit=0 wall=4324s ram_peak=22.4GiB ram_method=bounded cpu=20890s "
		"cores=4.83 error=0 warn=0 hint=2\n");
	made_done(&m);
	made_killed(&m);
	set_text(&m.f->recording, "/tmp/8.hiw");
	set_text(&m.f->name, "a name");
	m.f->rank = known(3);
	assert_line(&m, &usual, SINK_LINE,
		"hiwater a_name rank=3 exit=137 wall=231s ram_peak=31.9GiB ram_method=exact "
		"cpu=72.1s cores=1.75 error=1 warn=0 hint=0\n");
	made_done(&m);
	made_lost(&m);
	assert_line(&m, &usual, SINK_LINE,
		"hiwater - exit=unknown wall=unknown ram_peak=unknown ram_method=unknown "
		"cpu=unknown cores=unknown error=0 warn=0 hint=0\n");
	made_done(&m);
}

static bool text_has(struct made *m, const char *part)
{
	struct buf out = BUF_INIT(1 << 20);

	assert_int_equal(sink_summary(SINK_TEXT, &m->s, &usual, &out), 0);
	for (char *p = strstr(out.data, "\xC2\xA0"); p; p = strstr(p, "\xC2\xA0")) {
		memmove(p, p + 1, strlen(p));
		*p = ' ';
	}
	const bool has = strstr(out.data, part) != NULL;

	buf_done(&out);
	return has;
}

/* Samples missed the peak at which the kernel killed: they are a lower bound. */
static void test_a_sampled_peak_of_a_cgroup(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	m.s.cgroup_peak = known(MIB(500));
	m.s.cgroup_method = METHOD_SAMPLED;
	m.s.cgroup_oom_kills = known(0);
	assert_true(text_has(&m, "cgroup peak 500 MiB"));
	m.s.cgroup_oom_kills = known(1);
	assert_true(text_has(&m, "cgroup peak at least 500 MiB"));
	m.s.cgroup_oom_kills = known(0);
	m.s.cgroup_peak = known(MIB(300)); /* the job used 413 */
	assert_true(text_has(&m, "cgroup peak at least 300 MiB"));
	m.s.cgroup_method = METHOD_EXACT;
	assert_true(text_has(&m, "cgroup peak 300 MiB"));
	made_done(&m);
}

/* Once in the full text and once in the plain one. */
static void test_an_incident(void **state)
{
	struct sink_options plain = usual;
	struct buf out = BUF_INIT(1 << 20);
	struct made m;

	(void) state;
	made_training(&m);
	m.s.incident = (struct incident) {
		.what = strdup("out of memory"),
		.at_ns = SECONDS(231),
		.memory = true,
		.used = known(GIB(31)),
		.limit = known(GIB(32)),
		.since_ns = known(SECONDS(100)),
		.from_bytes = known(GIB(2)),
		.growth_per_s = GIB(0.25),
		.processes = { { .process = job_process(m.job, 0), .bytes = GIB(20), .killed = true } },
		.n_processes = 1,
		.others = 3,
		.others_bytes = GIB(11),
		.advice = strdup("Give it more."),
	};
	assert_true(text_has(&m, "Events    at 3 min 51 s: out of memory\n"));
	assert_true(text_has(&m, "          used 31.0 GiB   limit 32.0 GiB\n"));
	assert_true(text_has(&m, "          RAM grew 256 MiB/s since 1 min 40 s   from 2.00 GiB\n"));
	assert_true(text_has(
		&m, "          RAM at that time:   python[5001] 20.0 GiB (killed)   3 others 11.0 GiB\n"));
	assert_true(text_has(&m, "          try: Give it more.\n"));
	plain.plain = true;
	assert_int_equal(sink_summary(SINK_TEXT, &m.s, &plain, &out), 0);
	assert_non_null(strstr(out.data, "event after: 3 minutes 51 seconds: out of memory\n"));
	assert_non_null(strstr(out.data, "RAM grew: 256 MiB/s since 1 minute 40 seconds\n"));
	assert_non_null(
		strstr(out.data, "RAM used at that time by python, process 5001: 20.0 GiB (killed)\n"));
	assert_non_null(strstr(out.data, "try: Give it more.\n"));
	buf_done(&out);
	made_done(&m);
}

/* Out of memory: five lines say when, who, what filled which limit, how it grew and what to try, and no
 * finding repeats them. */
static void test_out_of_memory_is_reported_once(void **state)
{
	struct sink_options why = usual;
	struct buf out = BUF_INIT(1 << 20);
	struct made m;

	(void) state;
	made_killed(&m);
	m.s.incident = (struct incident) {
		.what = strdup("out of memory: the kernel killed solver[5123]"),
		.at_ns = SECONDS(231),
		.memory = true,
		.is_kill = true,
		.is_group_limit = true,
		.used = known(GIB(32)),
		.limit = known(GIB(32)),
		.has_history = true,
		.since_ns = known(SECONDS(100)),
		.from_bytes = known(GIB(2)),
		.growth_per_s = GIB(0.25),
		.processes = { { .process = job_process(m.job, 0), .bytes = GIB(2), .killed = true } },
		.n_processes = 1,
		.parts = { { FILL_SHMEM, GIB(29) }, { FILL_PROCESSES, GIB(2) } },
		.n_parts = 2,
		.advice = strdup("Give it more."),
	};
	assert_true(text_has(&m,
		"Events    at 3 min 51 s: out of memory, the kernel ended it\n"
		"          killed: solver[5123], 2.00 GiB\n"
		"          filled: limit of the cgroup 32.0 GiB\n"
		"          tmpfs and shared memory 29.0 GiB   processes of the job 2.00 GiB\n"
		"          grew: 256 MiB/s since 1 min 40 s   from 2.00 GiB\n"
		"          try: Give it more.\n"));
	assert_false(text_has(&m, "ERROR"));
	assert_false(text_has(&m, "OK"));
	assert_true(text_has(&m, "Findings  see the event above\n"));
	why.why = true; /* all rules, and why they fired */
	assert_int_equal(sink_summary(SINK_TEXT, &m.s, &why, &out), 0);
	assert_non_null(strstr(out.data, "ERROR out-of-memory"));
	buf_clear(&out);
	m.s.incident.since_ns = UNKNOWN;
	assert_true(text_has(&m, "          grew: no growth was seen before it\n"));
	m.s.incident.limit = UNKNOWN;
	assert_true(text_has(&m, "          filled: a limit that hiwater did not read"));
	buf_done(&out);
	made_done(&m);
}

/* No failure is followed by OK, even if the rule that reports it is switched off. */
static void test_a_failure_is_not_ok(void **state)
{
	struct made m;

	(void) state;
	for (int i = 0; i < 3; i++) {
		made_new(&m);
		m.f->exit_status = known(i == 0 ? 0 : i == 1 ? 1 << 8
							     : SIGSEGV);
		assert_int_equal(findings_make(&m.s, NULL), 0);
		assert_int_equal(text_has(&m, "Findings  OK"), i == 0);
		assert_int_equal(text_has(&m, "WARN  failed"), i != 0);
		assert_int_equal(findings_switch_off(&m.s, "failed"), 0);
		assert_int_equal(text_has(&m, "Findings  OK"), i == 0);
		assert_int_equal(text_has(&m, "none explains why the job failed"), i != 0);
		made_done(&m);
	}
}

static void test_limits_are_shown(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	assert_false(text_has(&m, "address space"));
	m.f->vm_limit_bytes = known(MIB(781));
	m.f->vm_peak_bytes = known(MIB(780));
	m.f->vm_pid = known(5001);
	set_text(&m.f->vm_name, "python3");
	m.f->rss_limit_bytes = known(GIB(1));
	m.s.shmem_peak = known(MIB(551));
	m.s.unreclaimable_peak = known(MIB(960));
	m.f->limit_bytes = known(GIB(1));
	assert_true(text_has(&m, "address space at least 780 MiB (python3[5001]) of 781 limit (100 %)"));
	assert_true(text_has(&m, "limit on resident size 1.00 GiB (RLIMIT_RSS, which Linux ignores)"));
	assert_true(text_has(&m, "tmpfs and shared memory 551 MiB"));
	assert_true(text_has(&m, "limit (94 %)\n          (all processes of the group)\n"));
	m.f->cgroup_exclusive = m.f->limit_is_own = known(1);
	assert_true(text_has(&m, "not reclaimable 960 MiB of 1.00 GiB limit (94 %)"));
	assert_false(text_has(&m, "all processes of the group"));
	m.s.shmem_at_most = true;
	assert_true(text_has(&m, "tmpfs and shared memory at most 551 MiB (system-wide)"));
	m.s.shmem_peak = known(MIB(15)); /* of everybody: says little */
	assert_false(text_has(&m, "tmpfs"));
	made_done(&m);
}

static void test_progress(void **state)
{
	struct sink_progress progress = { 0 };
	struct sink_options o = usual;
	const struct acc ram = { .n = 5, .last = GIB(1.2), .max = GIB(1.31) },
			 processes = { .n = 5, .last = 3 };
	struct made m;

	(void) state;
	made_new(&m);
	o.progress = &progress;
	m.s.combined.peak = known(GIB(1.31));
	m.f->cpus = known(2);
	m.s.wall_ns = known(SECONDS(100));
	assert_int_equal(job_restore_acc(m.job, M_JOB_RAM, 0, &ram), 0);
	assert_int_equal(job_restore_acc(m.job, M_JOB_PROCESSES, 0, &processes), 0);
	/* The first line has the mean, the next one the use since the first. */
	assert_line(&m, &o, SINK_PROGRESS,
		"hiwater 1 min 40 s  RAM 1.20 GiB (peak 1.31)  CPU 1.75 of 2 cores  3 processes\n");
	m.s.wall_ns = known(SECONDS(110));
	m.s.user_ns = known(SECONDS(75));
	assert_line(&m, &o, SINK_PROGRESS,
		"hiwater 1 min 50 s  RAM 1.20 GiB (peak 1.31)  CPU 0.50 of 2 cores  3 processes\n");
	assert_line(&m, &o, SINK_PROGRESS,
		"hiwater 1 min 50 s  RAM 1.20 GiB (peak 1.31)  CPU 1.75 of 2 cores  3 processes\n");
	o.width = 66;
	assert_line(
		&m, &o, SINK_PROGRESS, "hiwater 1 min 50 s  RAM 1.20 GiB (peak 1.31)  CPU 1.75 of 2 cores\n");
	made_done(&m);
	made_lost(&m);
	assert_line(&m, &o, SINK_PROGRESS, "hiwater\n");
	made_done(&m);
}

/* On a terminal of 80 columns, and in a file. Parts that GPUs displace are in the summary. */
static void test_progress_has_the_gpus(void **state)
{
	struct sink_options o = { .units = UNITS_IEC, .width = 80 };
	const struct acc ram = { .n = 5, .last = GIB(1.2), .max = GIB(1.31) };
	struct made m;

	(void) state;
	made_gpus(&m);
	m.s.combined.peak = known(GIB(1.31));
	m.f->cpus = known(64);
	m.s.wall_ns = known(SECONDS(100));
	assert_int_equal(job_restore_acc(m.job, M_JOB_RAM, 0, &ram), 0);
	assert_line(&m, &o, SINK_PROGRESS,
		"hiwater 1 min 40 s  RAM 1.20 GiB  CPU 1.75  GPU 0 30.0 GiB SM active 20 %\n");
	o.width = 2000;
	assert_line(&m, &o, SINK_PROGRESS,
		"hiwater 1 min 40 s  RAM 1.20 GiB (peak 1.31)  CPU 1.75 of 64 cores  GPU 0 30.0 GiB SM active 20 %"
		"  GPU 1 4.00 GiB busy 90 %  GPU 3 2.00 GiB\n");
	made_done(&m);
}

/* A driver that always ends the helper before it reports a GPU: whether there is one is unknown. */
static void test_an_ended_helper_leaves_gpus_unknown(void **state)
{
	static const struct {
		enum note_cause cause;
		int64_t asked; /* -1: not yet; else it answered, and lost its answers */
		const char *told;
	} rows[] = {
		{ CAUSE_HELPER_ENDED, 1, "none could be read: the GPU helper ended before it reported one" },
		{ CAUSE_HELPER_ENDED, -1, "none could be read: the GPU helper ended before it reported one" },
		{ CAUSE_UNKNOWN, 1, NULL },
		{ CAUSE_UNKNOWN, -1, NULL },
		{ CAUSE_NVML, 1, "no GPU found" },
		{ CAUSE_NVML, -1, NULL }, /* explained by the note */
		{ CAUSE_NONE, -1, "the run ended before any GPU could be read" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const bool is_other = rows[i].cause != CAUSE_HELPER_ENDED && rows[i].cause != CAUSE_UNKNOWN;
		struct framebuf b = { 0 };
		struct made m;

		made_new(&m);
		if (rows[i].asked >= 0)
			m.f->gpu_queried = known(rows[i].asked);
		m.f->gpu_seen = m.f->gpu_queried.known ? known(0) : UNKNOWN;
		framebuf_event(&b,
			&(struct event) { .time_ns = (uint64_t) SECONDS(3),
				.kind = EVENT_NOTE,
				.entity = ENTITY_GPU,
				.text = "gpu: in other words",
				.cause = rows[i].cause });
		apply(m.job, &b, (uint64_t) SECONDS(3));
		framebuf_done(&b);
		assert_int_equal(summary_gpu(&m.s), 0);
		assert_int_equal(m.s.gpu_none, is_other && rows[i].asked >= 0);
		assert_int_equal(m.s.n_notes, rows[i].told ? 2 : 1);
		if (rows[i].told)
			assert_string_equal(m.s.notes[1].why, rows[i].told);
		made_done(&m);
	}
}

/* GPUs that lack a process list without a reason, "012", given a note with that cause. */
static void gpus_without_list(enum note_cause cause, uint32_t id, char ret[4])
{
	static const char *const vendors[] = { "nvidia", "amd", "intel" };
	struct framebuf b = { 0 };
	struct made m;

	made_new(&m);
	m.f->gpu_queried = m.f->gpu_seen = known(1);
	for (uint32_t i = 0; i < 3; i++) {
		const struct gpu_birth gpu = { .uuid = vendors[i],
			.name = "A",
			.vendor = vendors[i],
			.pci = "",
			.parent = "",
			.driver = "",
			.index = known(i) };

		framebuf_birth(&b, &(struct birth) { .entity = ENTITY_GPU, .id = i + 1, .gpu = gpu });
		framebuf_value(&b, M_GPU_MEM, i + 1, MIB(1));
	}
	framebuf_event(&b,
		&(struct event) { .kind = EVENT_NOTE,
			.entity = ENTITY_GPU,
			.id = id,
			.text = "gpu: in other words",
			.cause = cause });
	apply(m.job, &b, (uint64_t) SECONDS(1));
	framebuf_done(&b);
	assert_int_equal(summary_gpu(&m.s), 0);
	for (size_t i = 0; i < m.s.n_notes; i++) {
		if (strstr(m.s.notes[i].why, ": the driver returned no process list before the end"))
			*ret++ = m.s.notes[i].why[strlen("GPU ")];
	}
	*ret = '\0';
	made_done(&m);
}

static void test_a_missing_list_has_one_reason(void **state)
{
	static const struct {
		enum note_cause cause;
		uint32_t id;
		const char *miss;
	} rows[] = {
		{ CAUSE_NONE, 0, "012" },
		{ CAUSE_NONE, 1, "012" },
		{ CAUSE_DEVICE, 2, "02" },
		{ CAUSE_DEVICE, 0, "012" }, /* a GPU without a birth */
		{ CAUSE_NVML, 0, "12" },
		{ CAUSE_AMDGPU, 0, "02" },
		{ CAUSE_DRM, 0, "01" },
		{ CAUSE_HELPER, 0, "" },
		{ CAUSE_HELPER_ENDED, 0, "" },
		{ CAUSE_UNKNOWN, 0, "" },
		{ CAUSE_UNKNOWN, 3, "01" },
	};
	char miss[4];

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		gpus_without_list(rows[i].cause, rows[i].id, miss);
		if (strcmp(miss, rows[i].miss) != 0)
			fail_msg("row %zu: %s", i, miss);
	}
}

/* The exact peak of a process is a lower bound for its device, and for the GPU of its instance,
 * even unsampled. */
static void test_a_mark_is_in_the_peak_of_its_device(void **state)
{
	static const struct {
		enum sink_kind kind;
		const char *words;
	} outputs[] = {
		{ SINK_TEXT, "61.0 GiB of" },
		{ SINK_LINE, "gpu0_mem_peak=61.0GiB" },
		{ SINK_JSON, "\"peak_bytes\": 65498251264," },
	};
	const struct sink_options o = { .width = 200 };
	struct framebuf b = { 0 };
	struct made m;

	(void) state;
	made_gpus(&m);
	assert_int_equal(summary_gpu_device_peak(&m.s, 1).value, GIB(60));
	framebuf_value(&b, M_GPROC_MEM_PEAK, 1, GIB(61));
	apply(m.job, &b, (uint64_t) SECONDS(3));
	framebuf_done(&b);
	assert_int_equal(summary_gpu_device_peak(&m.s, 1).value, GIB(61));
	assert_int_equal(summary_gpu_device_peak(&m.s, 2).value, GIB(4));
	assert_true(gpu_device_most(&m.s, 1) == (double) GIB(61));
	for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
		struct buf text = BUF_INIT(1 << 20);

		assert_int_equal(sink_summary(outputs[i].kind, &m.s, &o, &text), 0);
		if (!strstr(text.data, outputs[i].words))
			fail_msg("%s in %s", outputs[i].words, text.data);
		buf_done(&text);
	}
	made_done(&m);
}

/* The job's peak, if lists report from begin_s, the first report of the GPU, that it uses nothing,
 * and from lists_s on there are none, or (unknown) a note says that they fail. */
static struct maybe peak_of_zeros(double begin_s, double lists_s, bool unknown, double end_s, bool *ret_noted)
{
	const struct gpu_birth gpu = { .uuid = "A",
		.name = "A",
		.vendor = "nvidia",
		.pci = "",
		.parent = "",
		.driver = "",
		.index = known(0) };
	struct framebuf b = { 0 };
	enum method method;
	struct made m;

	made_new(&m);
	m.f->gpu_queried = m.f->gpu_seen = known(1);
	m.f->ended_ns = known(SECONDS(end_s));
	framebuf_birth(&b, &(struct birth) { .entity = ENTITY_GPU, .id = 1, .gpu = gpu });
	for (double s = begin_s; s <= lists_s; s++) {
		framebuf_value(&b, M_GPU_JOB_MEM, 1, 0);
		framebuf_value(&b, M_JOB_GPU_MEM, 0, 0);
		apply(m.job, &b, (uint64_t) SECONDS(s));
	}
	if (unknown) {
		framebuf_unknown(&b, M_GPU_JOB_MEM, 1);
		apply(m.job, &b, (uint64_t) SECONDS(lists_s));
	}
	job_end(m.job, (uint64_t) SECONDS(end_s), &b);
	framebuf_done(&b);
	assert_int_equal(summary_gpu(&m.s), 0);
	const struct maybe peak = summary_gpu_job_peak(&m.s, 1, &method);

	assert_int_equal(peak.known, m.s.gpu_peak.known);
	assert_int_equal(peak.known, summary_gpu_job_mean(&m.s, 1).known);
	*ret_noted = m.s.n_notes > 0 && strstr(m.s.notes[m.s.n_notes - 1].why, "GPU 0: the driver returned no process list for ");
	made_done(&m);
	return peak;
}

static void test_a_zero_for_part_of_the_run_is_unknown(void **state)
{
	static const struct {
		double begin_s, lists_s, end_s;
		bool unknown, is_zero;
	} rows[] = {
		{ 0, 5, 5, false, true },
		{ 0, 2, 3.9, false, true },
		{ 0, 2, 5, false, false },
		{ 0, 2, 3.9, true, true },
		{ 0, 2, 5, true, false },
		{ 0, 1, 2.9, false, false },
		{ 0, 1, 1.9, false, true },
		{ 0, 600, 605, false, true },
		{ 0, 600, 660, true, false },
		{ 0.3, 5.3, 5.3, false, true },
		{ 3, 8, 8, false, false }, /* a slow start */
		{ 3, 600, 600, false, true },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool noted;
		const struct maybe peak = peak_of_zeros(
			rows[i].begin_s, rows[i].lists_s, rows[i].unknown, rows[i].end_s, &noted);

		if (peak.known != rows[i].is_zero || noted == rows[i].is_zero)
			fail_msg("row %zu: %d, %d", i, peak.known, noted);
	}
}

/* For ten minutes memory is read each second, except from 100 to 110 s, and process lists, except
 * from 300 to lists_s, when more memory is in use than ever. */
static bool is_zero_unsure(double lists_s, uint64_t *ret_ns)
{
	const struct gpu_birth gpu = { .uuid = "A",
		.name = "A",
		.vendor = "nvidia",
		.pci = "",
		.parent = "",
		.driver = "",
		.index = known(0) };
	struct framebuf b = { 0 };
	struct made m;

	made_new(&m);
	m.f->ended_ns = known(SECONDS(600));
	framebuf_birth(&b, &(struct birth) { .entity = ENTITY_GPU, .id = 1, .gpu = gpu });
	for (int s = 0; s < 600; s++) {
		const bool is_read = s < 100 || s >= 110, is_listed = s < 300 || s >= lists_s;

		if (is_read)
			framebuf_value(&b, M_GPU_MEM, 1, MIB(s == 301 ? 150 : 50));
		else
			framebuf_unknown(&b, M_GPU_MEM, 1);
		for (int k = 0; k < 2; k++) {
			if (is_listed)
				framebuf_value(&b, k ? M_GPU_JOB_MEM : M_GPU_OTHER_MEM, 1, 0);
			else
				framebuf_unknown(&b, k ? M_GPU_JOB_MEM : M_GPU_OTHER_MEM, 1);
		}
		framebuf_value(&b, M_GPU_UNATTRIBUTED_MEM, 1, MIB(50));
		apply(m.job, &b, (uint64_t) SECONDS(s));
	}
	job_end(m.job, (uint64_t) SECONDS(600), &b);
	framebuf_done(&b);
	const bool unsure = job_gpu_is_unsure(m.job, job_gpu(m.job, 0));

	assert_int_equal(job_gpu_unlisted(m.job, &job_gpu(m.job, 0)->birth, 0, ret_ns), MIB(100));
	made_done(&m);
	return unsure;
}

/* Unknown memory at another time does not compensate for it. */
static void test_time_without_a_list_needs_memory_samples(void **state)
{
	uint64_t ns;

	(void) state;
	assert_true(is_zero_unsure(308, &ns));
	assert_int_equal(ns, SECONDS(8));
	assert_false(is_zero_unsure(301, &ns));
	assert_int_equal(ns, SECONDS(1));
}

static void process_at(struct made *m, double s, uint32_t id, int32_t pid, int64_t mem, bool born)
{
	struct framebuf b = { 0 };
	const struct birth birth = { .entity = ENTITY_GPU_PROCESS,
		.id = id,
		.gpu_process = {
			.gpu = 1, .pid = known(pid), .uid = known(7), .name = "train", .compute = true } };

	if (born)
		framebuf_birth(&b, &birth);
	if (mem > 0)
		framebuf_value(&b, M_GPROC_MEM, id, mem);
	else
		framebuf_end(&b, &(struct end) { .entity = ENTITY_GPU_PROCESS, .id = id, .how = END_SEEN });
	apply(m->job, &b, (uint64_t) SECONDS(s));
	framebuf_done(&b);
}

/* Sources then report it under another number. */
static void test_a_process_that_returns_to_a_gpu_is_one(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	process_at(&m, 0, 1, 100, GIB(20), true);
	process_at(&m, 2, 1, 100, 0, false);
	process_at(&m, 3, 2, 100, GIB(5), true);
	process_at(&m, 3, 3, 101, GIB(1), true);
	process_at(&m, 4, 2, 100, GIB(8), false);
	process_at(&m, 5, 2, 100, 0, false);
	assert_int_equal(job_gpu_process_count(m.job), 2);
	assert_int_equal(job_gpu_process(m.job, 0)->birth.id, 1);
	assert_true(job_gpu_process(m.job, 0)->ended && !job_gpu_process(m.job, 1)->ended);
	assert_int_equal(summary_most(&m.s, M_GPROC_MEM, 1).value, GIB(20));
	assert_int_equal(summary_mean(&m.s, M_GPROC_MEM, 1).value, (2 * GIB(20) + GIB(5) + GIB(8)) / 4);
	assert_int_equal(summary_most(&m.s, M_GPROC_MEM, 3).value, GIB(1));
	made_done(&m);
}

/* Older versions stored the two stints of a process under two numbers. */
static void restored_who_came_back(const struct acc *first, const struct acc *second, bool second_before)
{
	const struct acc *given[] = { first, second };
	struct made m;

	made_new(&m);
	process_at(&m, 0, 1, 100, 0, true);
	process_at(&m, 3, 2, 100, 0, true);
	for (int i = 0; i < 2; i++) {
		const int k = second_before ? 1 - i : i;

		assert_int_equal(job_restore_acc(m.job, M_GPROC_MEM, (uint32_t) k + 1, given[k]), 0);
	}
	const struct acc *both = job_acc(m.job, M_GPROC_MEM, 1);

	assert_int_equal(job_gpu_process_count(m.job), 1);
	assert_int_equal(both->n, 5);
	assert_int_equal(both->min, GIB(5));
	assert_int_equal(both->max, GIB(20));
	assert_int_equal(both->max_at_ns, SECONDS(1));
	assert_int_equal(both->last, GIB(8));
	assert_int_equal(both->last_at_ns, SECONDS(4));
	assert_int_equal(both->hold_ns, 7);
	assert_int_equal(both->span_ns, SECONDS(4));
	assert_int_equal(summary_mean(&m.s, M_GPROC_MEM, 1).value, (2 * GIB(20) + GIB(5) + GIB(8)) / 4);
	made_done(&m);
}

static void test_two_stored_stints_on_a_gpu_are_added_up(void **state)
{
	const double gib_s = 1073741824e9;
	const struct acc first = { .n = 2,
		.min = GIB(20),
		.max = GIB(20),
		.max_at_ns = SECONDS(1),
		.last = GIB(20),
		.last_at_ns = SECONDS(2),
		.sum = 2 * 20 * gib_s,
		.span_ns = SECONDS(2) };
	const struct acc second = { .n = 3,
		.min = GIB(5),
		.max = GIB(8),
		.max_at_ns = SECONDS(4),
		.last = GIB(8),
		.last_at_ns = SECONDS(4),
		.hold_ns = 7,
		.sum = 13 * gib_s,
		.span_ns = SECONDS(2) };

	(void) state;
	restored_who_came_back(&first, &second, false);
	restored_who_came_back(&first, &second, true);
}

/* A GPU whose energy is read at from_s and at to_s of a run of end_s. Between hole_s and to_hole_s
 * its power is unknown, which matters where energy is the sum of power. */
static bool is_partial(double from_s, double to_s, double end_s, bool summed, double hole_s, double to_hole_s)
{
	const struct gpu_birth gpu = { .uuid = "A",
		.name = "A",
		.vendor = "nvidia",
		.pci = "",
		.parent = "",
		.driver = "",
		.index = known(0) };
	struct framebuf b = { 0 };
	bool noted = false;
	struct made m;

	made_new(&m);
	m.f->gpu_queried = m.f->gpu_seen = known(1);
	m.s.wall_ns = m.f->ended_ns = known(SECONDS(end_s));
	framebuf_birth(&b, &(struct birth) { .entity = ENTITY_GPU, .id = 1, .gpu = gpu });
	if (summed)
		framebuf_event(&b,
			&(struct event) { .kind = EVENT_NOTE,
				.entity = ENTITY_GPU,
				.id = 1,
				.text = "gpu.energy: GPU 0: no energy counter" });
	for (double s = from_s; s <= to_s + 0.01; s += 0.1) {
		if (s > hole_s && s < to_hole_s)
			framebuf_unknown(&b, M_GPU_POWER, 1);
		else
			framebuf_value(&b, M_GPU_POWER, 1, 500000000);
		framebuf_value(&b, M_GPU_ENERGY, 1, SECONDS(s));
		apply(m.job, &b, (uint64_t) SECONDS(s));
	}
	framebuf_done(&b);
	assert_int_equal(summary_gpu(&m.s), 0);
	for (size_t i = 0; i < m.s.n_notes; i++)
		noted |= strstr(m.s.notes[i].why, "GPU 0: its energy covers ") != NULL;
	made_done(&m);
	return noted;
}

static void test_energy_for_part_of_the_run_has_a_note(void **state)
{
	(void) state;
	assert_false(is_partial(0, 7, 7, false, 0, 0));
	assert_true(is_partial(0.1, 0.3, 0.3, false, 0, 0));
	assert_true(is_partial(1, 3, 3, false, 0, 0));
	/* the first sample is one or two intervals after the start */
	assert_false(is_partial(0.2, 1.4, 1.4, false, 0, 0));
	assert_true(is_partial(0.2, 0.8, 0.8, false, 0, 0));
	assert_true(is_partial(0.5, 3, 3, false, 0, 0));
	assert_false(is_partial(0, 7, 7, false, 2, 5)); /* the driver's counter continues */
	assert_true(is_partial(0, 7, 7, true, 2, 5));
	assert_false(is_partial(0, 7, 7, true, 0, 0));
}

static void tell_note(struct framebuf *b, double s, uint32_t gpu, const char *text)
{
	framebuf_event(b,
		&(struct event) { .time_ns = (uint64_t) SECONDS(s),
			.kind = EVENT_NOTE,
			.entity = ENTITY_GPU,
			.id = gpu,
			.text = text });
}

/* An error for many figures is one note a GPU and reason, which names all of them. */
static const struct {
	double s;
	uint32_t gpu;
	const char *text;
} told_notes[] = {
	{ 0.7, 1, "gpu: GPU 0: the driver answers with error 999 for gpu.mem" },
	{ 0.7, 2, "gpu: GPU 1: the driver answers with error 999 for gpu.mem" },
	{ 1.0, 1, "gpu: GPU 0: the driver answers with error 999 for gpu.temp" },
	{ 1.0, 1, "gpu: GPU 0: the driver answers with error 77 for gpu.fan" },
	{ 1.2, 1, "gpu: GPU 0: gpu.busy is missing from then on: no" },
	{ 1.3, 1, "gpu: GPU 0: gpu.power is missing from then on: no" },
	{ 1.3, 1, "gpu: GPU 0: the driver answers with error 999 for gpu.pcie_rx, gpu.temp, gpu.pcie_tx" },
	{ 1.4, 1, "gpu.energy: GPU 0: no energy counter" },
};

static void test_notes_of_several_figures_are_one(void **state)
{
	static const char *const expected[] = {
		"GPU 0: the driver answers with error 999 for gpu.mem, gpu.temp, gpu.pcie_rx, gpu.pcie_tx (first at 700 ms)",
		"GPU 1: the driver answers with error 999 for gpu.mem",
		"GPU 0: the driver answers with error 77 for gpu.fan (at 1 s)",
		"GPU 0: gpu.busy, gpu.power are missing from then on: no (first at 1.2 s)",
		"GPU 0: no energy counter (at 1.4 s)",
	};
	struct framebuf b = { 0 };
	struct made m;

	(void) state;
	made_new(&m);
	for (size_t i = 0; i < sizeof(told_notes) / sizeof(told_notes[0]); i++)
		tell_note(&b, told_notes[i].s, told_notes[i].gpu, told_notes[i].text);
	apply(m.job, &b, (uint64_t) SECONDS(2));
	framebuf_done(&b);
	assert_int_equal(summary_gpu_note_reported(&m.s), 0);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		assert_true(i < m.s.n_notes);
		assert_string_equal(m.s.notes[i].why, expected[i]);
	}
	assert_int_equal(m.s.n_notes, sizeof(expected) / sizeof(expected[0]));
	made_done(&m);
}

/* The same for the GPUs of one time; a note is printed again if it names more figures, not if it
 * repeats itself. */
static void test_notes_of_one_time_are_merged(void **state)
{
	struct gpus_now now = { 0 };
	struct framebuf b = { 0 };

	(void) state;
	for (int look = 0; look < 2; look++) {
		for (size_t i = 0; i < sizeof(told_notes) / sizeof(told_notes[0]); i++)
			tell_note(&b, 0, told_notes[i].gpu, told_notes[i].text);
		const struct frame frame = framebuf_frame(&b, FRAME_NVML, 0, 0);

		gpus_now_apply(&now, &frame);
		framebuf_clear(&b);
		assert_int_equal(now.error, 0);
		assert_int_equal(now.n_notes, 5);
		assert_string_equal(now.notes[0].why,
			"GPU 0: the driver answers with error 999 for gpu.mem, gpu.temp, gpu.pcie_rx, gpu.pcie_tx");
		assert_string_equal(
			now.notes[3].why, "GPU 0: gpu.busy, gpu.power are missing from then on: no");
		assert_int_equal(now.notes[0].is_warned, look);
		now.notes[0].is_warned = true;
	}
	tell_note(&b, 0, 1, "gpu: GPU 0: the driver answers with error 999 for gpu.fan");
	const struct frame frame = framebuf_frame(&b, FRAME_NVML, 0, 0);

	gpus_now_apply(&now, &frame);
	assert_false(now.notes[0].is_warned);
	framebuf_done(&b);
	gpus_now_done(&now);
}

/* Figures of a trace are in the text, and in JSON only if the run was traced; a name is the program's. */
static void test_a_traced_run(void **state)
{
	static struct work w = {
		.is_traced = true,
		.n_processes = 2,
		.n_events = 61204,
		.n_lost = 7,
		.n_devices = 1,
		.n_kernels = 1,
		.devices[0] = {
			.name = "NVIDIA H100 80GB HBM3",
			.window_ns = SECONDS(12.4),
			.busy_ns = SECONDS(8.84),
			.kernel_ns = SECONDS(8.54),
			.copy_ns = SECONDS(0.744),
			.n_gaps = 1902,
			.longest_gap_ns = SECONDS(0.0412),
			.longest_gap_at_ns = SECONDS(3.18),
			.memory_peak_bytes = GIB(3),
			.memory_peak_at_ns = SECONDS(2),
			.memory_is_exact = true,
		},
		.kernels[0] = { .name = "gemm\x1b[2J", .count = 12400, .total_ns = SECONDS(3.56) },
	};
	const struct sink_options o = { .width = 120 };
	struct buf text = BUF_INIT(1 << 20), json = BUF_INIT(1 << 20);
	struct made m;

	(void) state;
	made_new(&m);
	assert_int_equal(sink_summary(SINK_JSON, &m.s, &o, &json), 0);
	assert_null(strstr(json.data, "\"trace\""));
	buf_clear(&json);
	m.s.work = &w;
	m.s.gpu_peak = known(GIB(3) + (500 << 20));
	assert_int_equal(sink_summary(SINK_TEXT, &m.s, &o, &text), 0);
	assert_int_equal(sink_summary(SINK_JSON, &m.s, &o, &json), 0);
	assert_non_null(strstr(text.data, "GPU 0 busy 71 % of 12.4 s traced (kernels 69 %, copies 6.0 %)"));
	assert_non_null(strstr(text.data, "longest of 1902 gaps 41.2 ms, at 3.18 s"));
	assert_non_null(strstr(text.data, "allocated 3.00 GiB on GPU 0, at 2 s, by calls of its process"));
	assert_non_null(strstr(text.data, "the driver counts 500 MiB more: contexts"));
	assert_non_null(strstr(text.data, "gemm?[2J 3.56 s in 12400"));
	assert_non_null(strstr(text.data, "61204 events of 2 processes, 7 lost"));
	assert_non_null(strstr(json.data, "\"busy_s\": 8.84,"));
	assert_non_null(strstr(json.data, "\"total_s\": 3.56"));
	buf_done(&text);
	buf_done(&json);
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_colored),
		cmocka_unit_test(test_an_unknown_size_is_omitted),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_every_width),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_a_sampled_peak_of_a_cgroup),
		cmocka_unit_test(test_an_incident),
		cmocka_unit_test(test_out_of_memory_is_reported_once),
		cmocka_unit_test(test_a_failure_is_not_ok),
		cmocka_unit_test(test_limits_are_shown),
		cmocka_unit_test(test_progress),
		cmocka_unit_test(test_progress_has_the_gpus),
		cmocka_unit_test(test_an_ended_helper_leaves_gpus_unknown),
		cmocka_unit_test(test_a_missing_list_has_one_reason),
		cmocka_unit_test(test_notes_of_several_figures_are_one),
		cmocka_unit_test(test_notes_of_one_time_are_merged),
		cmocka_unit_test(test_a_mark_is_in_the_peak_of_its_device),
		cmocka_unit_test(test_a_zero_for_part_of_the_run_is_unknown),
		cmocka_unit_test(test_time_without_a_list_needs_memory_samples),
		cmocka_unit_test(test_a_process_that_returns_to_a_gpu_is_one),
		cmocka_unit_test(test_two_stored_stints_on_a_gpu_are_added_up),
		cmocka_unit_test(test_energy_for_part_of_the_run_has_a_note),
		cmocka_unit_test(test_a_traced_run),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
