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

/* A kill is reported by the incident alone, which has rows of its own; so has the request. */
static void test_markdown_of_a_killed_job(void **state)
{
	struct buf out = BUF_INIT(1 << 16);
	struct made m;

	(void) state;
	made_new(&m);
	made_process(&m, 1, "sh", MIB(2), true);
	made_process(&m, 2, "sol|ver", MIB(413), true);
	m.s.oom_killed = true;
	m.s.incident = (struct incident) {
		.what = strdup("out of memory: the kernel killed sol|ver[5002]"),
		.at_ns = SECONDS(40),
		.memory = true,
		.is_kill = true,
		.is_group_limit = true,
		.limit = known(MIB(413)),
		.processes = { { .process = job_process(m.job, 1), .bytes = MIB(413), .killed = true } },
		.n_processes = 1,
		.advice = strdup("Give it more."),
	};
	assert_int_equal(findings_make(&m.s, NULL), 0);
	assert_int_equal(sink_summary(SINK_MARKDOWN, &m.s, &usual, &out), 0);
	assert_non_null(strstr(out.data,
		"| Event after | 40 s: out of memory, the kernel killed a process |\n"
		"| Killed | sol\\|ver\\[5002\\], 413 MiB |\n"
		"| Filled, limit of the cgroup | 413 MiB |\n"));
	assert_non_null(strstr(out.data, "| Try | Give it more. |\n| Request | #SBATCH --mem="));
	assert_null(strstr(out.data, "`out-of-memory`"));
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
		cmocka_unit_test(test_markdown_of_a_killed_job),
		cmocka_unit_test(test_a_note_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
