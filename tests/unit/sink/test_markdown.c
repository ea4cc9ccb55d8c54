/* SPDX-License-Identifier: MIT
 *
 * The summary as Markdown, and the note of a run.
 */
#include "sink/sink.h"
#include "summaries.h"

static const struct sink_options usual = { .units = UNITS_IEC, .width = 80, .utf8 = true };

/* The rows are the facts; no text of the job is markup. */
static void test_markdown(void **state)
{
	struct sink_options o = usual;
	struct buf out = BUF_INIT(1 << 16);
	struct made m;

	(void) state;
	made_new(&m);
	made_process(&m, 1, "python", MIB(413), true);
	set_text(&m.f->command, "python fit.py `a` <b>|*c*");
	set_text(&m.f->name, "base_1");
	set_text(&m.f->note, "smaller |batch| <script>\nsecond [line](x)");
	m.s.oom_killed = true;
	m.f->exit_status = known(9);
	assert_int_equal(findings_make(&m.s, NULL), 0);
	assert_int_equal(sink_summary(SINK_MARKDOWN, &m.s, &o, &out), 0);

	assert_non_null(strstr(out.data, "### base\\_1: `` python fit.py `a` <b>|*c* ``\n\n2026-11-21 "));
	assert_non_null(strstr(out.data, "| | |\n| --- | --- |\n| Result | KILLED by signal 9, SIGKILL (exit 137) |\n"));
	assert_non_null(strstr(out.data, "| Wall time | 41.2 s |\n"));
	assert_non_null(strstr(out.data, "| RAM peak | 413 MiB of 64.0 GiB on this machine (0.6 %) exact (VmHWM) |\n"));
	assert_non_null(strstr(out.data, "| Note | smaller \\|batch\\| &lt;script>"));
	assert_null(strstr(out.data, "\nsecond"));
	assert_non_null(strstr(out.data, "\n\n- **error** `out-of-memory`: "));
	assert_null(strstr(out.data, "\033"));
	buf_done(&out);
	made_done(&m);
}

static void test_a_note_is_shown(void **state)
{
	struct buf out = BUF_INIT(1 << 16);
	struct made m;

	(void) state;
	made_new(&m);
	assert_int_equal(sink_summary(SINK_TEXT, &m.s, &usual, &out), 0);
	assert_null(strstr(out.data, "note"));
	buf_clear(&out);
	set_text(&m.f->note, "tried\033[2J lr 0.1");
	assert_int_equal(sink_summary(SINK_TEXT, &m.s, &usual, &out), 0);
	assert_non_null(strstr(out.data, "\n          note tried"));
	assert_non_null(strstr(out.data, "lr 0.1"));
	assert_null(strchr(out.data, '\033'));
	buf_done(&out);
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_markdown),
		cmocka_unit_test(test_a_note_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
