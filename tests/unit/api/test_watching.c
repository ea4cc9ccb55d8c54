/* SPDX-License-Identifier: MIT
 *
 * hiwater.h for programs that follow a recorder: its frames, also of the whole machine, and filters.
 */
#include "api/internal.h"
#include "children.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

struct watched {
	unsigned frames, births, totals, host, sizes;
	bool me, child, before_birth;
	uint32_t child_id;
	pid_t expected_pid;
	uint64_t last_ns;
	bool went_back;
	char command[64];
	struct hiw_recorder *signals; /* hiw_recorder_signal is called on it from within see */
	bool inside, nested;
};

static void see(void *ctx, const struct hiw_frame *f)
{
	const int rss = hiw_metric_find(HIW_PROCESS, "rss");
	struct watched *w = ctx;

	w->frames++;
	w->nested |= w->inside;
	if (w->signals && !w->inside) {
		w->inside = true;
		(void) hiw_recorder_signal(w->signals, 0, 0);
		w->inside = false;
	}
	w->went_back |= f->time_ns < w->last_ns;
	w->last_ns = f->time_ns;
	for (size_t i = 0; i < f->n_births; i++) {
		const struct hiw_birth *b = &f->births[i];

		w->births++;
		w->me |= b->entity == HIW_PROCESS && b->pid.value == getpid();
		if (b->entity != HIW_PROCESS || b->pid.value != w->expected_pid)
			continue;
		w->child = true;
		w->child_id = b->id;
		(void) snprintf(w->command, sizeof(w->command), "%s", b->command);
	}
	for (size_t i = 0; i < f->n_readings; i++) {
		const struct hiw_metric *m = hiw_metric(f->readings[i].metric);

		w->totals += m->entity == HIW_JOB && strcmp(m->name, "ram") == 0;
		w->host += m->entity == HIW_HOST;
		w->sizes += m->entity == HIW_PROCESS && f->readings[i].metric == (unsigned) rss &&
			    f->readings[i].id == w->child_id;
	}
}

static struct hiw_recorder *recorder(bool everyone, struct watched *w)
{
	struct hiw_options options = HIW_OPTIONS_INIT;
	struct hiw_recorder *r = NULL;
	struct hiw_err err = { "" };

	options.attached = options.no_record = true;
	options.everyone = everyone;
	options.gpu = HIW_GPU_NONE;
	options.interval_ns = 10000000;
	if (hiw_recorder_new(&options, &r, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(hiw_recorder_watch(r, see, w), 0);
	return r;
}

static void steps(struct hiw_recorder *r, unsigned n)
{
	struct pollfd fd = { .fd = hiw_recorder_fd(r), .events = POLLIN };

	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(poll(&fd, 1, 10000), 1);
		hiw_recorder_step(r);
	}
}

static void sleeps(const struct child *c, void *arg)
{
	(void) arg;
	child_done(c, 0);
	child_wait(c);
}

static void frames_of_a_job(void **state)
{
	struct child child = child_start(sleeps, NULL);
	struct watched w = { .expected_pid = child.pid };
	struct hiw_recorder *r = recorder(false, &w);

	(void) state;
	assert_int_equal(hiw_recorder_start(r, child.pid, NULL), 0);
	assert_true(w.child);
	assert_int_equal(w.births, 1);
	/* exit records of other processes wake the recorder, too */
	for (int i = 0; i < 1000 && w.totals < 5; i++)
		steps(r, 1);
	assert_int_equal(hiw_recorder_mark(r, "now"), 0);
	assert_int_equal(hiw_recorder_end(r, NULL), 0);
	assert_int_equal(hiw_recorder_mark(r, "too late"), -ESRCH);
	assert_true(w.sizes >= 1 && w.totals >= 5 && w.host > 0);
	assert_false(w.went_back);
	hiw_recorder_free(r);
	child_end(&child);
}

static void signals_within_a_callback_are_not_nested(void **state)
{
	struct child child = child_start(sleeps, NULL);
	struct watched w = { 0 };
	struct hiw_recorder *r = recorder(false, &w);

	(void) state;
	assert_int_equal(hiw_recorder_start(r, child.pid, NULL), 0);
	w.signals = r;
	steps(r, 3);
	assert_false(w.nested);
	w.signals = NULL;
	hiw_recorder_free(r);
	child_end(&child);
}

/* Processes of all users, whatever their parents are, except the recorder's own. */
static void frames_of_the_machine(void **state)
{
	struct watched w = { .expected_pid = -1 };
	struct hiw_recorder *r = recorder(true, &w);
	struct child child;

	(void) state;
	assert_int_equal(hiw_recorder_start(r, getppid(), NULL), 0);
	steps(r, 2);
	assert_true(w.births > 0);
	child = child_start(sleeps, NULL);
	w.expected_pid = child.pid;
	for (int i = 0; i < 500 && !w.child; i++)
		steps(r, 1);
	assert_true(w.child);
	steps(r, 3);
	assert_true(w.sizes >= 1);
	assert_false(w.me);
	assert_int_equal(w.totals, 0);
	hiw_recorder_free(r);
	child_end(&child);
}

static void a_machine_is_not_recorded(void **state)
{
	struct hiw_options options = HIW_OPTIONS_INIT;
	struct hiw_recorder *r = NULL;
	struct hiw_err err = { "" };

	(void) state;
	options.everyone = options.attached = true;
	assert_int_equal(hiw_recorder_new(&options, &r, &err), -EINVAL);
	assert_non_null(strstr(err.text, "cannot record all processes"));
}

static void metrics_have_names(void **state)
{
	unsigned n = 0;

	(void) state;
	for (const struct hiw_metric *m; (m = hiw_metric(n)); n++)
		assert_int_equal(hiw_metric_find(m->entity, m->name), (int) n);
	assert_true(n > 100);
	assert_int_equal(hiw_metric_find(HIW_HOST, "nonsense"), -1);
}

/* ---- filters -------------------------------------------------------------------------------------------------------- */

static void look(void *ctx, const struct hwi_query *asked, struct hwi_answer *ret)
{
	(void) ctx;
	if (asked->field && strcmp(asked->field, "name") == 0) {
		ret->text = "python3";
		ret->known = true;
	} else if (asked->field && strcmp(asked->field, "uid") == 0) {
		ret->value = 1000;
		ret->known = true;
	} else if (!asked->field && asked->metric == hiw_metric_find(HIW_PROCESS, "rss")) {
		ret->value = asked->peak ? 3e9 : 2e9;
		ret->whole = 8e9;
		ret->known = true;
	} else if (!asked->field && asked->metric == hiw_metric_find(HIW_PROCESS, "cpu_user")) {
		assert_int_equal(asked->also, hiw_metric_find(HIW_PROCESS, "cpu_system"));
		assert_true(asked->rate);
		ret->value = 1.5e9;
		ret->whole = 4e9;
		ret->known = true;
	}
}

static bool picks(const char *rule)
{
	struct hwi_filter *filter = NULL;
	struct hiw_err err = { "" };
	bool holds;

	if (hwi_filter_new(rule, &filter, &err) < 0)
		fail_msg("%s: %s", rule, err.text);
	holds = hwi_filter_picks(filter, look, NULL);
	hwi_filter_free(filter);
	return holds;
}

static void filters_pick(void **state)
{
	struct hwi_filter *filter = NULL;
	struct hiw_err err = { "" };

	(void) state;
	assert_true(picks("rss > 1GiB"));
	assert_false(picks("rss > 2.5GB"));
	assert_true(picks("rss.peak > 2.5GB"));
	assert_true(picks("cpu > 1"));
	assert_false(picks("cpu > 50%"));
	assert_true(picks("name ~ ^py and uid == 1000"));
	assert_false(picks("not name ~ ^py"));
	assert_false(picks("swap > 0")); /* not known */
	assert_true(picks("swap is absent or rss < 1B"));
	assert_int_equal(hwi_filter_new("rss >", &filter, &err), -EINVAL);
	assert_non_null(strchr(err.text, '^'));
	hwi_filter_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_of_a_job),
		cmocka_unit_test(signals_within_a_callback_are_not_nested),
		cmocka_unit_test(frames_of_the_machine),
		cmocka_unit_test(a_machine_is_not_recorded),
		cmocka_unit_test(metrics_have_names),
		cmocka_unit_test(filters_pick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
