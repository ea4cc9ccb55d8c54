/* SPDX-License-Identifier: MIT
 *
 * The recorder's side of the sampler, against programs that behave well, lie, hang and end. They are shell scripts, which
 * have the descriptor of the recorder as $1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "where/feed.h"

static uint64_t jump_ns; /* by which the clock jumps whenever it is read */

uint64_t __real_clock_awake_ns(void);
uint64_t __wrap_clock_awake_ns(void);

uint64_t __wrap_clock_awake_ns(void)
{
	static uint64_t jumped;

	jumped += jump_ns;
	return __real_clock_awake_ns() + jumped;
}

static void ignore(int number)
{
	(void) number;
}

/* ---- what is passed on ----------------------------------------------------------------------- */

struct seen {
	char text[8192]; /* a line a call */
	size_t n;
	unsigned calls;
	int result;      /* of the next calls */
};

static struct seen seen;

__attribute__((format(printf, 1, 2))) static int note(const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(seen.text + seen.n, sizeof(seen.text) - seen.n, format, args);
	va_end(args);
	seen.n += seen.n + (size_t) n < sizeof(seen.text) ? (size_t) n : 0;
	seen.calls++;
	return seen.result;
}

static int on_frame(void *ctx, uint32_t number, const struct where_frame *f)
{
	(void) ctx;
	assert_true(number > 0 && number <= WHERE_FRAMES);
	return note("frame %u %s %s %llx %s %s %u\n", number, f->module, f->build_id, (unsigned long long) f->offset,
		f->function, f->file, f->line);
}

static int on_stack(void *ctx, uint32_t number, const struct where_stack *s)
{
	(void) ctx;
	assert_true(number > 0 && number <= WHERE_STACKS && s->parent < number && s->frame > 0);
	return note("stack %u %u %u\n", number, s->parent, s->frame);
}

static int on_process(void *ctx, uint32_t number, const struct where_process *p)
{
	(void) ctx;
	assert_true(number > 0 && number <= WHERE_PROCESSES && p->rank == -1);
	return note("process %u %lld %s\n", number, (long long) p->pid, p->name);
}

static int on_high(void *ctx, uint32_t number, const struct where_high *h)
{
	int r;

	(void) ctx;
	assert_true(number > 0);
	r = note("high %u %llu %llu %llu %llu %llu %llu %llu %llu\n", number, (unsigned long long) h->time_ns,
		(unsigned long long) h->total_bytes, (unsigned long long) h->looked_ns,
		(unsigned long long) h->looked_bytes, (unsigned long long) h->before_bytes,
		(unsigned long long) h->sample_bytes, (unsigned long long) h->huge_bytes, (unsigned long long) h->lost);
	for (size_t i = 0; i < h->n_rows; i++)
		r = note(" row %u %u %llu %llu\n", h->rows[i].stack, h->rows[i].process,
			(unsigned long long) h->rows[i].bytes, (unsigned long long) h->rows[i].n);
	for (size_t i = 0; i < h->n_files; i++)
		r = note(" file %s %llu\n", h->files[i].name, (unsigned long long) h->files[i].bytes);
	for (size_t i = 0; i < h->n_pythons; i++) {
		const struct where_python *p = &h->pythons[i];

		r = note(" python %u %lld %llu", p->process, (long long) p->thread, (unsigned long long) p->time_ns);
		for (size_t k = 0; k < p->n_frames; k++)
			r = note(" %s %s:%u", p->frames[k].function, p->frames[k].file, p->frames[k].line);
		r = note("\n");
	}
	return r;
}

static int on_drop(void *ctx, uint32_t number)
{
	(void) ctx;
	assert_true(number > 0);
	return note("drop %u\n", number);
}

static const struct where_sink sink = { .frame = on_frame, .stack = on_stack, .process = on_process, .high = on_high, .drop = on_drop };

/* ---- programs -------------------------------------------------------------------------------- */

static struct rig {
	char folder[64], program[96];
	struct where_feed *feed;
	pid_t pid;
	struct err err;
} rig;

static int set_up(void **state)
{
	(void) state;
	memset(&rig, 0, sizeof(rig));
	memset(&seen, 0, sizeof(seen));
	jump_ns = 0;
	(void) strcpy(rig.folder, "/tmp/hiwater-feed-XXXXXX");
	assert_non_null(mkdtemp(rig.folder));
	(void) snprintf(rig.program, sizeof(rig.program), "%s/program", rig.folder);
	return 0;
}

static int tear_down(void **state)
{
	(void) state;
	where_feed_free(rig.feed);
	if (rig.pid > 0)
		assert_int_equal(waitpid(rig.pid, NULL, 0), rig.pid);
	(void) unlink(rig.program);
	assert_int_equal(rmdir(rig.folder), 0);
	return 0;
}

static int start(const char *script)
{
	const struct where_feed_options options = { .program = rig.program, .period = 64, .stack_bytes = 16384 };
	FILE *file = fopen(rig.program, "we");

	assert_non_null(file);
	assert_true(fprintf(file, "#!/bin/sh\n%s\n", script) > 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(rig.program, 0700), 0);
	rig.feed = where_feed_new(&options);
	assert_non_null(rig.feed);
	return where_feed_start(rig.feed, getpid(), &rig.pid, &rig.err);
}

/* A program that is ready, writes the lines (as printf has them) and is done. */
static void play(const char *lines)
{
	static char script[16384];

	(void) snprintf(script, sizeof(script), "printf 'ready\\t128\\t1\\n' >&$1\nprintf '%s' >&$1\nprintf 'done\\n' >&$1",
		lines);
	assert_int_equal(start(script), 0);
	where_feed_begin(rig.feed, 1000);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
}

static void assert_note(const char *text)
{
	char got[WHERE_NOTE];

	where_feed_note(rig.feed, got);
	assert_string_equal(got, text);
}

#define ENDED "hiwater-where ended before the run; hiwater where has what it had found until then"

/* ---- the beginning --------------------------------------------------------------------------- */

static void it_gets_its_arguments(void **state)
{
	char expected[128];

	(void) state;
	assert_int_equal(start("printf 'ready\\t128\\t1\\nprocess\\t1\\t2\\t%s\\ndone\\n' \"$2 $3 $4 $5\" >&$1"), 0);
	where_feed_begin(rig.feed, 0);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	(void) snprintf(expected, sizeof(expected), "process 1 2 %d 64 16384 run\n", (int) getpid());
	assert_string_equal(seen.text, expected);
	assert_note("");
}

static void it_says_why_it_cannot(void **state)
{
	(void) state;
	assert_int_equal(start("printf 'failed\\tnot \\\\x41llowed\\n' >&$1"), -EPERM);
	assert_string_equal(rig.err.text, "not Allowed");
	assert_true(rig.pid > 0);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0); /* and nothing comes later */
	assert_note("");
}

static void a_first_line_that_is_none_is_refused(void **state)
{
	static const struct {
		const char *script;
		int result;
	} cases[] = {
		{ "exit 3", -ECHILD },
		{ "printf 'ready\\t128\\t1' >&$1", -ECHILD },
		{ "printf 'ready\\n' >&$1", -EPROTO },
		{ "printf 'ready\\t128\\n' >&$1", -EPROTO },
		{ "printf 'ready\\tmany\\t1\\n' >&$1", -EPROTO },
		{ "printf 'ready\\t-1\\t1\\n' >&$1", -EPROTO },
		{ "printf '\\n' >&$1", -EPROTO },
		{ "printf '\\000\\n' >&$1", -EPROTO },
		{ "printf 'failed\\n' >&$1", -EPERM },
		{ "head -c 5000 /dev/zero | tr '\\000' x >&$1", -EPROTO },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(start(cases[i].script), cases[i].result);
		assert_true(rig.err.text[0] != '\0');
		where_feed_begin(rig.feed, 0);
		assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
		assert_int_equal(seen.calls, 0);
		(void) tear_down(state);
		(void) set_up(state);
	}
}

static void a_program_that_is_not_there(void **state)
{
	const struct where_feed_options options = { .program = rig.program, .period = 64, .stack_bytes = 16384 };

	(void) state;
	rig.feed = where_feed_new(&options);
	assert_int_equal(where_feed_start(rig.feed, getpid(), &rig.pid, &rig.err), -ECHILD);
	assert_true(rig.pid > 0);
}

/* Its clock jumps, so that no test waits. */
static void one_that_is_silent_is_not_waited_for(void **state)
{
	(void) state;
	jump_ns = UINT64_C(4000000000);
	assert_int_equal(start("read word <&$1"), -ETIMEDOUT);
	jump_ns = 0;
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
}

static void a_signal_does_not_end_the_wait(void **state)
{
	const struct sigaction action = { .sa_handler = ignore };
	struct sigaction old;

	(void) state;
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	assert_int_equal(start("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do kill -USR1 $PPID; done\n"
			       "printf 'ready\\t128\\t1\\ndone\\n' >&$1"),
		0);
	assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void good_lines_are_passed(void **state)
{
	(void) state;
	play("frame\\t1\\t/bin/app\\tab\\t4096\\tmain\\ta.c\\t7\\n"
	     "frame\\t2\\t\\t\\t18446744073709551615\\t\\t\\t0\\n"
	     "stack\\t1\\t0\\t1\\nstack\\t2\\t1\\t2\\n"
	     "process\\t1\\t77\\ta\\\\x0ab\\n"
	     "high\\t1\\t3000\\t900\\t2500\\t800\\t10\\t262144\\t5\\t6\\t2\\t1\\t0\\n"
	     "row\\t2\\t1\\t500\\t4\\t0\\nrow\\t1\\t1\\t300\\t3\\t0\\n"
	     "file\\t/lib/x\\t100\\n"
	     "drop\\t1\\n"
	     "high\\t2\\t999\\t900\\t0\\t800\\t10\\t262144\\t5\\t6\\t0\\t0\\t0\\n"
	     "note\\tone\\nnote\\ttwo\\n");
	assert_string_equal(seen.text, "frame 1 /bin/app ab 1000 main a.c 7\n"
				       "frame 2   ffffffffffffffff   0\n"
				       "stack 1 0 1\nstack 2 1 2\n"
				       "process 1 77 a\nb\n"
				       "high 1 2000 900 1500 800 10 262144 5 6\n"
				       " row 2 1 500 4\n row 1 1 300 3\n"
				       " file /lib/x 100\n"
				       "drop 1\n"
				       "high 2 0 900 0 800 10 262144 5 6\n"); /* not before the run's beginning */
	assert_note("one; two");
	assert_note("");
}

/* A high waits for all frames of its stacks of Python. */
static void pythons_are_passed(void **state)
{
	(void) state;
	play("high\\t1\\t3000\\t900\\t2500\\t800\\t10\\t262144\\t5\\t6\\t0\\t0\\t2\\n"
	     "at\\tearly\\tx.py\\t1\\n"
	     "python\\t1\\t77\\t2400\\t2\\n"
	     "python\\t1\\t77\\t2400\\t1\\n" /* within the other one */
	     "at\\t<module>\\tjob.py\\t9\\nat\\tmain\\t/x/job.py\\t4\\n"
	     "python\\t0\\t77\\t2400\\t1\\npython\\t200001\\t77\\t2400\\t1\\npython\\t1\\t77\\t2400\\t101\\n"
	     "python\\t2\\t78\\t999\\t0\\n"
	     "python\\t1\\t77\\t2400\\t1\\nat\\tlate\\tx.py\\t1\\n"
	     "high\\t2\\t3000\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t0\\t0\\t5\\n"
	     "high\\t3\\t3000\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t0\\t0\\t1\\n"
	     "python\\t1\\t77\\t2400\\t2\\nat\\tonly\\tx.py\\t1\\n" /* and ends within it */);
	assert_string_equal(seen.text, "high 1 2000 900 1500 800 10 262144 5 6\n"
				       " python 1 77 1400 <module> job.py:9 main /x/job.py:4\n"
				       " python 2 78 0\n");
	assert_note("");
}

/* Lines with numbers out of their range, and others that are none. */
static void forged_lines_are_left_out(void **state)
{
	(void) state;
	play("\\n\\t\\n\\t\\t\\nframe\\nframe\\t\\nhello\\tworld\\nFRAME\\t1\\n"
	     "frame\\t0\\tm\\tb\\t1\\tf\\ts\\t1\\n"
	     "frame\\t-1\\tm\\tb\\t1\\tf\\ts\\t1\\n"
	     "frame\\t200001\\tm\\tb\\t1\\tf\\ts\\t1\\n"
	     "frame\\t4294967297\\tm\\tb\\t1\\tf\\ts\\t1\\n"
	     "frame\\t99999999999999999999\\tm\\tb\\t1\\tf\\ts\\t1\\n"
	     "frame\\t1\\tm\\tb\\t-5\\tf\\ts\\t1\\n"
	     "frame\\t1\\tm\\tb\\t5\\tf\\ts\\n"
	     "stack\\t0\\t0\\t1\\nstack\\t1\\t1\\t1\\nstack\\t1\\t2\\t1\\nstack\\t1\\t0\\t0\\nstack\\t1\\t0\\t200001\\n"
	     "stack\\t500001\\t1\\t1\\nstack\\t4294967298\\t1\\t1\\nstack\\t5\\t-1\\t1\\nstack\\t5\\t1\\n"
	     "process\\t0\\t1\\tp\\nprocess\\t200001\\t1\\tp\\nprocess\\t1\\t-1\\tp\\nprocess\\t1\\t1\\n"
	     "high\\t0\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t0\\t0\\t0\\n"
	     "high\\t4294967296\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t0\\t0\\t0\\n"
	     "high\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1000001\\t0\\t0\\n"
	     "high\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t0\\t20001\\t0\\n"
	     "high\\t1\\t1\\t-1\\t1\\t1\\t1\\t1\\t1\\t1\\t0\\t0\\t0\\n"
	     "high\\t1\\t1\\t18446744073709551615\\t1\\t1\\t1\\t1\\t1\\t1\\t0\\t0\\t0\\n"
	     "high\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t0\\n"
	     "row\\t1\\t1\\t1\\t1\\t0\\nfile\\tf\\t1\\n"
	     "drop\\t0\\ndrop\\t-1\\ndrop\\t4294967296\\ndrop\\n");
	assert_string_equal(seen.text, "");
	assert_note("");
}

/* A high without all that it announced is none. */
static void a_high_needs_all_its_rows(void **state)
{
	(void) state;
	play("high\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t3\\t1\\t0\\n"
	     "row\\t1\\t1\\t1\\t1\\t0\\nrow\\t1\\t1\\t2\\t1\\t0\\nfile\\tone\\t1\\nfile\\ttoo many\\t1\\n"
	     "row\\t500001\\t1\\t3\\t1\\t0\\nrow\\t1\\t200001\\t3\\t1\\t0\\nrow\\t1\\t1\\t-3\\t1\\t0\\nrow\\t1\\t1\\t3\\n"
	     "high\\t2\\t1000\\t1\\t1000\\t1\\t1\\t1\\t1\\t1\\t1\\t0\\t0\\n"
	     "file\\tnone\\t1\\nrow\\t7\\t8\\t9\\t10\\t0\\nrow\\t1\\t1\\t1\\t1\\t0\\n");
	assert_string_equal(seen.text, "high 2 0 1 0 1 1 1 1 1\n row 7 8 9 10\n");
	assert_note("");
}

/* Announced numbers reserve nothing. */
static void many_rows_are_passed(void **state)
{
	(void) state;
	assert_int_equal(start("printf 'ready\\t128\\t1\\n' >&$1\n"
			       "printf 'high\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1000000\\t20000\\t0\\n' >&$1\n"
			       "printf 'high\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t1\\t2000\\t500\\t0\\n' >&$1\n"
			       "yes 'row\t1\t1\t1\t1\t0' | head -n 2000 >&$1\n"
			       "yes 'file\tf\t1' | head -n 500 >&$1\n"
			       "printf 'done\\n' >&$1"),
		0);
	where_feed_begin(rig.feed, 0);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	assert_int_equal(seen.calls, 1 + 2000 + 500);
	assert_note("");
}

static void a_long_note_is_cut(void **state)
{
	char got[WHERE_NOTE];

	(void) state;
	assert_int_equal(start("printf 'ready\\t128\\t1\\nnote\\t' >&$1; head -c 5000 /dev/zero | tr '\\000' x >&$1\n"
			       "printf '\\ndone\\n' >&$1"),
		0);
	where_feed_begin(rig.feed, 0);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	where_feed_note(rig.feed, got);
	assert_int_equal(strlen(got), WHERE_NOTE - 1);
}

/* A NUL ends no line: what follows is passed. */
static void a_nul_is_no_end(void **state)
{
	(void) state;
	play("drop\\t1\\n\\000\\000drop\\t2\\ndrop\\t3\\000\\ndrop\\t4\\n");
	assert_non_null(strstr(seen.text, "drop 1\n"));
	assert_non_null(strstr(seen.text, "drop 4\n"));
	assert_null(strstr(seen.text, "drop 2\n"));
	assert_note("");
}

static void the_sinks_error_is_returned(void **state)
{
	(void) state;
	assert_int_equal(start("printf 'ready\\t128\\t1\\ndrop\\t1\\ndrop\\t2\\ndone\\n' >&$1"), 0);
	where_feed_begin(rig.feed, 0);
	seen.result = -ENOSPC;
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), -ENOSPC);
	assert_int_equal(seen.calls, 1);
	seen.result = 0;
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	assert_string_equal(seen.text, "drop 1\ndrop 2\n");
}

/* ---- the end --------------------------------------------------------------------------------- */

static void nothing_is_passed_before_the_run(void **state)
{
	(void) state;
	assert_int_equal(start("printf 'ready\\t128\\t1\\ndrop\\t1\\ndone\\n' >&$1"), 0);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	assert_int_equal(seen.calls, 0);
	where_feed_begin(rig.feed, 0);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	assert_string_equal(seen.text, "drop 1\n");
}

static void it_hears_of_the_end(void **state)
{
	(void) state;
	assert_int_equal(start("printf 'ready\\t128\\t1\\n' >&$1; read word <&$1\n"
			       "printf 'process\\t1\\t1\\t%s\\ndone\\n' \"$word\" >&$1"),
		0);
	where_feed_begin(rig.feed, 0);
	assert_int_equal(where_feed_drain(rig.feed, false, &sink), 0); /* it does not wait */
	assert_int_equal(seen.calls, 0);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	assert_string_equal(seen.text, "process 1 1 end\n");
	assert_note("");
}

static void one_that_does_not_end_is_not_waited_for(void **state)
{
	(void) state;
	assert_int_equal(start("printf 'ready\\t128\\t1\\ndrop\\t1\\n' >&$1; read word <&$1; read word <&$1"), 0);
	where_feed_begin(rig.feed, 0);
	jump_ns = UINT64_C(3000000000);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	jump_ns = 0;
	assert_note("hiwater-where did not respond at the end of the run; hiwater where has what it had found until then");
}

static void it_is_told_to_send_again(void **state)
{
	(void) state;
	assert_int_equal(start("printf 'ready\\t128\\t1\\n' >&$1; read word <&$1\n"
			       "printf 'process\\t1\\t1\\t%s\\ndone\\n' \"$word\" >&$1"),
		0);
	where_feed_begin(rig.feed, 0);
	where_feed_again(rig.feed);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	assert_string_equal(seen.text, "process 1 1 again\n");
	where_feed_again(rig.feed); /* nobody is there */
	assert_note("");
}

static void one_that_ends_early_is_noted_once(void **state)
{
	(void) state;
	assert_int_equal(start("printf 'ready\\t128\\t1\\ndrop\\t1\\ndrop\\t2' >&$1"), 0);
	where_feed_begin(rig.feed, 0);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	assert_string_equal(seen.text, "drop 1\n"); /* half a line is none */
	assert_note(ENDED);
	assert_int_equal(where_feed_drain(rig.feed, false, &sink), 0);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	assert_note("");
	assert_int_equal(seen.calls, 1);
}

/* 100 MB without an end of a line: neither kept nor searched again and again. */
static void a_line_without_an_end_is_given_up(void **state)
{
	struct rusage before, after;

	(void) state;
	assert_int_equal(start("printf 'ready\\t128\\t1\\ndrop\\t1\\n' >&$1; head -c 100000000 /dev/zero | tr '\\000' x >&$1"),
		0);
	where_feed_begin(rig.feed, 0);
	assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
	assert_string_equal(seen.text, "drop 1\n");
	assert_note(ENDED);
	assert_true(after.ru_maxrss - before.ru_maxrss < 16 << 10); /* KiB */
}

/* Much of it at once is no line that is too long. */
static void many_lines_are_passed(void **state)
{
	(void) state;
	assert_int_equal(start("printf 'ready\\t128\\t1\\n' >&$1; yes 'drop\t1' | head -n 1000000 >&$1; printf 'done\\n' >&$1"),
		0);
	where_feed_begin(rig.feed, 0);
	assert_int_equal(where_feed_drain(rig.feed, true, &sink), 0);
	assert_int_equal(seen.calls, 1000000);
	assert_note("");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_gets_its_arguments),
		TEST(it_says_why_it_cannot),
		TEST(a_first_line_that_is_none_is_refused),
		TEST(a_program_that_is_not_there),
		TEST(one_that_is_silent_is_not_waited_for),
		TEST(a_signal_does_not_end_the_wait),
		TEST(good_lines_are_passed),
		TEST(pythons_are_passed),
		TEST(forged_lines_are_left_out),
		TEST(a_high_needs_all_its_rows),
		TEST(many_rows_are_passed),
		TEST(a_long_note_is_cut),
		TEST(a_nul_is_no_end),
		TEST(the_sinks_error_is_returned),
		TEST(nothing_is_passed_before_the_run),
		TEST(it_hears_of_the_end),
		TEST(one_that_does_not_end_is_not_waited_for),
		TEST(it_is_told_to_send_again),
		TEST(one_that_ends_early_is_noted_once),
		TEST(a_line_without_an_end_is_given_up),
		TEST(many_lines_are_passed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
