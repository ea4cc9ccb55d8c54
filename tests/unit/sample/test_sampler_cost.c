/* SPDX-License-Identifier: MIT
 *
 * Cost of sampling: steady sampling opens and allocates nothing, PSS passes keep to their budget.
 * Opened files and allocations are counted with the linker's --wrap (meson.build).
 */
#include "sampler_machine.h"

/* ---- what is opened and allocated ------------------------------------------------------------ */

static bool counting;
static unsigned n_opened, n_rollups, n_allocated;
static char first_opened[128];

int __real_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, ...);
int __wrap_openat64(int fd, const char *path, int flags, ...);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);

int __wrap_openat64(int fd, const char *path, int flags, ...)
{
	if (counting) {
		const char *name = strrchr(path, '/');

		if (n_opened++ == 0)
			(void) snprintf(first_opened, sizeof(first_opened), "%s", path);
		n_rollups += strcmp(name ? name + 1 : path, "smaps_rollup") == 0;
	}
	return __real_openat64(fd, path, flags); /* no file is created: the mode does not matter */
}

/* The size of an off_t decides which of the two is called. */
int __wrap_openat(int fd, const char *path, int flags, ...)
{
	return __wrap_openat64(fd, path, flags);
}

void *__wrap_malloc(size_t size)
{
	n_allocated += counting;
	return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	n_allocated += counting;
	return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	n_allocated += counting;
	return __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	n_allocated += counting;
	return __real_strdup(s);
}

static void count_from_here(void)
{
	n_opened = n_rollups = n_allocated = 0;
	first_opened[0] = '\0';
	counting = true;
}

/* ---- steady sampling ------------------------------------------------------------------------- */

static void machine_start(struct rig *r, const struct temp_tree *t, bool big_pss)
{
	rig_prepare(r, t->path, 10 * MS, false);
	r->options.window_ns = 20 * MS;
	r->options.big_pss = big_pss;
	rig_make(r);
	count_from_here(); /* including the passes of the start */
	rig_start(r, FIRST_PID);
}

/* With several windows and the values that are read once a second. New processes are searched
 * for when the last pid moves and once a second: here no process forks, and the full search is
 * postponed. */
static void a_steady_tick_opens_and_allocates_nothing(void **state)
{
	struct temp_tree t;
	struct rig r;

	(void) state;
	put_machine(&t, 6, 10000);
	machine_start(&r, &t, false);
	counting = false;
	assert_int_equal(job_alive(sampler_job(r.s)), 6);
	while (r.last_ns < 1050 * MS)
		steps(&r, 1);
	r.s->next_full_search_ns = UINT64_MAX;
	const uint64_t from = r.last_ns;
	const unsigned fds = open_fds();
	const size_t readings = r.n_rss;

	count_from_here();
	while (r.last_ns < from + 1200 * MS)
		steps(&r, 1);
	counting = false;
	if (n_opened || n_allocated)
		fail_msg("%u opened (%s), %u allocated", n_opened, first_opened, n_allocated);
	assert_true(r.n_rss > readings);
	assert_int_equal(open_fds(), fds);
	rig_done(&r);
	temp_tree_done(&t);
}

/* The machine's memory is expensive to read: out of turn only if the job's has changed, and not
 * twice at once. */
static void the_machines_memory_is_read_when_the_jobs_moves(void **state)
{
	struct temp_tree t;
	struct rig r;
	size_t read;

	(void) state;
	put_machine(&t, 6, 10000);
	machine_start(&r, &t, false);
	read = r.n_mem_used;
	sampler_plan_moved(r.s, sampler_time(r.s)); /* from nothing to its size */
	r.s->next_moved_ns = 0;
	assert_true(read > 0);
	read = r.n_mem_used;
	sampler_plan_moved(r.s, sampler_time(r.s));
	assert_int_equal(r.n_mem_used, read);
	for (int sign = -1; sign <= 1; sign += 2) {
		r.s->rss_sum_at_host += sign * (64 << 20);
		sampler_plan_moved(r.s, sampler_time(r.s));
		assert_int_equal(r.n_mem_used, ++read);
		sampler_plan_moved(r.s, sampler_time(r.s));
		assert_int_equal(r.n_mem_used, read);
		r.s->rss_sum_at_host += sign * (64 << 20); /* too soon */
		sampler_plan_moved(r.s, sampler_time(r.s));
		assert_int_equal(r.n_mem_used, read);
		r.s->next_moved_ns = 0;
		r.s->rss_sum_at_host -= sign * (64 << 20);
	}
	rig_done(&r);
	temp_tree_done(&t);
}

/* On this machine other processes fork, which costs opened files but no memory. */
static void a_live_tick_allocates_nothing(void **state)
{
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 10 * MS, true);
	r.options.window_ns = 50 * MS;
	rig_make(&r);
	struct child main = waiting_child();

	rig_start(&r, main.pid);
	/* There may be many exit records of the whole machine. */
	taskstats_close(r.s->taskstats);
	r.s->taskstats = NULL;
	while (r.last_ns < 1100 * MS)
		steps(&r, 1);
	const uint64_t from = r.last_ns;
	const unsigned fds = open_fds();

	count_from_here();
	while (r.last_ns < from + 1200 * MS)
		steps(&r, 1);
	counting = false;
	assert_int_equal(n_allocated, 0);
	assert_int_equal(open_fds(), fds);
	child_end(&main);
	rig_done(&r);
}

/* ---- PSS passes ------------------------------------------------------------------------------ */

static int64_t passes(const struct rig *r)
{
	return facts_of(r)->pss_passes.value + facts_of(r)->pss_invalid.value;
}

static void a_pass_that_is_cheap_is_made(void **state)
{
	struct temp_tree t;
	struct rig r;

	(void) state;
	put_machine(&t, 4, 50000);
	machine_start(&r, &t, false);
	steps(&r, 3);
	counting = false;
	assert_true(passes(&r) >= 1);
	assert_true(n_rollups >= 4);
	assert_false(facts_of(&r)->pss_skipped.known);
	rig_done(&r);
	temp_tree_done(&t);
}

/* The largest credit is a hundred milliseconds: about eight GiB. */
static void what_costs_more_than_the_credit_is_left_out(void **state)
{
	struct temp_tree t;
	struct rig r;

	(void) state;
	put_machine(&t, 10, 1 << 20);
	machine_start(&r, &t, false);
	steps(&r, 3);
	counting = false;
	assert_int_equal(passes(&r), 0);
	assert_int_equal(n_rollups, 0);
	rig_done(&r);
	/* Unless requested. */
	machine_start(&r, &t, true);
	steps(&r, 3);
	counting = false;
	assert_true(passes(&r) >= 1);
	assert_true(n_rollups >= 10);
	rig_done(&r);
	temp_tree_done(&t);
}

static void without_credit_there_is_no_pass(void **state)
{
	struct temp_tree t;
	struct rig r;

	(void) state;
	put_machine(&t, 4, 50000);
	machine_start(&r, &t, true);
	steps(&r, 1); /* a pass waits until the sizes are stable */
	const int64_t before = passes(&r);
	const int64_t left = r.s->pss.budget_ns;

	assert_true(before >= 1);
	assert_true(left < 100 * (int64_t) MS); /* its cost was subtracted */
	r.s->pss.budget_ns = -1000 * (int64_t) MS; /* a pass that took a second */
	for (int i = 0; i < 5; i++) {
		for (int k = 0; k < 4; k++)
			/* it keeps growing */
			put_process(&t, FIRST_PID + k, k ? FIRST_PID : 1, 60000 + 10000 * i);
		steps(&r, 1);
	}
	assert_int_equal(passes(&r), before);
	/* One per cent of the time is earned. */
	assert_true(r.s->pss.budget_ns > -1000 * (int64_t) MS);
	assert_true(r.s->pss.budget_ns <= -1000 * (int64_t) MS + (int64_t) (sampler_time(r.s) / 100));
	r.s->pss.budget_ns = 100 * (int64_t) MS;
	for (int k = 0; k < 4; k++)
		put_process(&t, FIRST_PID + k, k ? FIRST_PID : 1, 200000);
	steps(&r, 8);
	counting = false;
	assert_int_equal(passes(&r), before + 1);
	rig_done(&r);
	temp_tree_done(&t);
}

/* No process is blocked for a pass that cannot include all of them. */
static void one_that_is_too_large_spares_all(void **state)
{
	struct temp_tree t;
	struct rig r;

	(void) state;
	put_machine(&t, 4, 50000);
	put_process(&t, FIRST_PID + 3, FIRST_PID, 1700000);
	machine_start(&r, &t, false);
	steps(&r, 5);
	counting = false;
	assert_int_equal(n_rollups, 0);
	assert_int_equal(passes(&r), 0);
	assert_true(facts_of(&r)->pss_skipped.value >= 1);
	assert_true(facts_of(&r)->pss_skipped.value <= 3); /* and it is not requested by each sample */
	rig_done(&r);
	machine_start(&r, &t, true);
	steps(&r, 1);
	counting = false;
	assert_true(n_rollups >= 4);
	rig_done(&r);
	temp_tree_done(&t);
}

/* ---- own cost -------------------------------------------------------------------------------- */

/* Each of several runs in one process has its own. */
static void what_was_used_before_is_not_this_runs(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	while (clock_process_cpu_ns() < 300 * MS)
		;
	rig_prepare(&r, NULL, 10 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	steps(&r, 2);
	sampler_cost(r.s);
	assert_true(facts_of(&r)->own_cpu_ns.known && facts_of(&r)->own_cpu_ns.value > 0);
	assert_true(facts_of(&r)->own_cpu_ns.value <= (int64_t) (clock_process_cpu_ns() - 300 * MS));
	assert_true(facts_of(&r)->own_rss_bytes.value > 100000);
	child_end(&main);
	rig_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHILDREN_TEST(a_steady_tick_opens_and_allocates_nothing),
		CHILDREN_TEST(the_machines_memory_is_read_when_the_jobs_moves),
		CHILDREN_TEST(a_live_tick_allocates_nothing),
		CHILDREN_TEST(a_pass_that_is_cheap_is_made),
		CHILDREN_TEST(what_costs_more_than_the_credit_is_left_out),
		CHILDREN_TEST(without_credit_there_is_no_pass),
		CHILDREN_TEST(one_that_is_too_large_spares_all),
		CHILDREN_TEST(what_was_used_before_is_not_this_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
