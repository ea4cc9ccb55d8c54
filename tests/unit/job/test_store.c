/* SPDX-License-Identifier: MIT
 *
 * A job that is stored and restored gives the same results; so do its frames aggregated into
 * windows.
 */
#include "job_rig.h"

/* ---- a job with something of everything ------------------------------------------------------ */

static uint64_t roll(uint64_t *seed, uint64_t sides)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (*seed >> 33) % sides;
}

static void pages_of(struct rig *r, uint64_t *seed, uint32_t id, uint64_t t)
{
	rss(r, id, (int64_t) (roll(seed, 90) + 1) * MB, (int64_t) roll(seed, 5) * MB);
	if (t % 10 == 0) {
		say(r, M_PROC_CPU_USER, id, (int64_t) (t * 7 * MS));
		say(r, M_PROC_CPU_SYSTEM, id, (int64_t) (t * MS));
		say(r, M_PROC_READ_BYTES, id, (int64_t) (t * 4096));
		say(r, M_PROC_THREADS, id, 3);
		say(r, M_PROC_SWAP, id, (int64_t) roll(seed, 4) * MB);
		say(r, M_PROC_HWM, id, (int64_t) roll(seed, 120) * MB);
	}
}

static void pass_of(struct rig *r, uint32_t n)
{
	for (uint32_t id = 1; id <= n; id++) {
		say(r, M_PROC_PSS, id, 20 * MB);
		say(r, M_PROC_PRIVATE, id, 15 * MB);
		say(r, M_PROC_SHARED, id, 30 * MB);
	}
	push(r);
	job_facts(r->job)->pss_passes = known(1);
	job_pss_done(r->job, (struct pss_drift) { 0 }, true);
}

static void phase(struct rig *r, uint32_t number, bool begin)
{
	framebuf_event(&r->buf, &(struct event) {
					.time_ns = r->now,
					.kind = begin ? EVENT_PHASE_BEGIN : EVENT_PHASE_END,
					.entity = ENTITY_JOB,
					.phase = number,
					.text = begin ? "phase" : "",
				});
	push(r);
}

static void live_through(struct rig *r, uint64_t seed)
{
	struct facts *f = job_facts(r->job);
	uint32_t n = 1;

	assert_int_equal(job_set_text(&f->command, "make -j"), 0);
	f->fork_rss_bytes = known(4 * MB);
	f->cpus = known(2);
	born(r, 1, 0, 77);
	for (uint64_t t = 0; t < 100; t++) {
		if (t % 9 == 3)
			n++;
		if (t % 9 == 3)
			born(r, n, 1, roll(&seed, 2) ? 77 : 1000 + n);
		for (uint32_t id = 1; id <= n; id++)
			pages_of(r, &seed, id, t);
		push(r);
		say(r, M_HOST_MEM_USED, 0, (int64_t) roll(&seed, 1000) * MB);
		say(r, M_HOST_ENERGY, 0, (int64_t) t * 5000);
		framebuf_series(
			&r->buf, &(struct series_value) { .name = "loss", .value = 1.0 / (double) (t + 1) });
		push_as(r, &r->buf, FRAME_HOST);
		if (t == 30 || t == 60)
			phase(r, (uint32_t) t, true);
		if (t == 80)
			phase(r, 60, false);
		if (t == 50)
			pass_of(r, n);
		if (n > 5 && t % 20 == 0)
			gone(r, n - 3);
		tick(r);
	}
	main_reaped(r, 130 * MB, 44, 900 * (int64_t) MS, 100 * (int64_t) MS);
	for (uint32_t id = 2; id <= n; id++)
		left(r, id);
	f->processes_left = known(2);
	finish(r);
}

/* ---- a job as text --------------------------------------------------------------------------- */

static void dump_maybe(struct buf *b, const char *name, struct maybe m)
{
	if (m.known)
		buf_printf(b, "%s %lld\n", name, (long long) m.value);
	else
		buf_printf(b, "%s ?\n", name);
}

static void dump_figure(struct buf *b, const char *name, const struct ram_figure *f)
{
	buf_printf(b, "%s %s %s\n", name, method_name(f->method), f->source ? f->source : "-");
	dump_maybe(b, " low", f->low);
	dump_maybe(b, " peak", f->peak);
	dump_maybe(b, " high", f->high);
	dump_maybe(b, " mean", f->mean);
	dump_maybe(b, " private", f->private_bytes);
	dump_maybe(b, " shared", f->shared_bytes);
	dump_maybe(b, " at", f->at_ns);
}

static void dump_acc(void *ctx, enum metric metric, uint32_t id, const struct acc *a)
{
	buf_printf(ctx, "%s %u: %llu %lld..%lld @%llu last %lld @%llu hold %llu sum %.17g span %llu\n",
		metrics[metric].name, id, (unsigned long long) a->n, (long long) a->min, (long long) a->max,
		(unsigned long long) a->max_at_ns, (long long) a->last, (unsigned long long) a->last_at_ns,
		(unsigned long long) a->hold_ns, a->sum, (unsigned long long) a->span_ns);
}

static void dump_lists(struct buf *b, const struct job *job)
{
	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		buf_printf(b, "%u %u %d %s '%s' %lld %d %lld %lld %lld %lld %llu %llu %d\n", p->id, p->parent,
			p->pid, p->name, p->command, (long long) p->peak_bytes, p->peak_exact,
			(long long) p->cpu_user_ns, (long long) p->cpu_system_ns,
			(long long) p->private_bytes, (long long) p->read_bytes,
			(unsigned long long) p->born_ns, (unsigned long long) p->ended_ns, p->how);
	}
	for (size_t i = 0; i < job_phase_count(job); i++) {
		const struct phase *p = job_phase(job, i);

		buf_printf(b, "phase %u in %u '%s' %llu %llu %d %lld %lld %lld\n", p->number, p->parent,
			p->name, (unsigned long long) p->begin_ns, (unsigned long long) p->end_ns,
			p->ram_known, (long long) p->ram_before, (long long) p->ram_peak,
			(long long) p->ram_after);
	}
	for (size_t i = 0; i < job_series_count(job); i++) {
		const struct series *s = job_series(job, i);

		buf_printf(b, "series %s %llu %.17g %.17g %.17g %.17g\n", s->name, (unsigned long long) s->n,
			s->first, s->last, s->min, s->max);
	}
	for (size_t i = 0; i < job_event_count(job); i++)
		buf_printf(b, "event %d %s\n", job_event(job, i)->kind, job_event(job, i)->text);
}

static char *dump(struct job *job)
{
	struct buf b = BUF_INIT(1 << 20);
	struct summary s;
	char *text;

	assert_int_equal(summary_make(job, &s), 0);
	buf_printf(&b, "complete %d oom %d exact %d\n", s.complete, s.oom_killed, s.cpu_exact);
	dump_maybe(&b, "wall", s.wall_ns);
	dump_maybe(&b, "user", s.user_ns);
	dump_maybe(&b, "system", s.system_ns);
	dump_maybe(&b, "cores", s.cores_mean_ppm);
	dump_maybe(&b, "swap", s.swap_peak);
	dump_maybe(&b, "energy", s.cpu_energy_uj);
	dump_maybe(&b, "alive", s.peak_alive);
	dump_maybe(&b, "machine", s.system_peak);
	dump_figure(&b, "main", &s.main);
	dump_figure(&b, "descendants", &s.descendants);
	dump_figure(&b, "combined", &s.combined);
	for (size_t i = 0; i < s.n_notes; i++)
		buf_printf(&b, "note %s: %s\n", s.notes[i].about, s.notes[i].why);
	job_each_acc(job, dump_acc, &b);
	dump_lists(&b, job);
	assert_int_equal(b.error, 0);
	text = strdup(b.data);
	assert_non_null(text);
	buf_done(&b);
	summary_done(&s);
	return text;
}

/* ---- stored and put back --------------------------------------------------------------------- */

static void restore_acc(void *ctx, enum metric metric, uint32_t id, const struct acc *acc)
{
	assert_int_equal(job_restore_acc(ctx, metric, id, acc), 0);
}

static void copy_facts(struct facts *to, const struct facts *from)
{
#define F_INT(name)             to->name = from->name;
#define F_TEXT(name)            assert_int_equal(job_set_text(&to->name, from->name), 0);
#define F(kind, name, sentence) F_##kind(name)
#include "model/facts.def"
#undef F
#undef F_INT
#undef F_TEXT
}

static struct job *stored_and_put_back(const struct job *from)
{
	const struct job_config config = { .page_bytes = PAGE };
	struct job *to = job_new(&config);
	struct framebuf buf = { 0 };
	struct frame frame;

	assert_non_null(to);
	copy_facts(job_facts(to), job_facts_const(from));
	for (size_t i = 0; i < job_process_count(from); i++)
		assert_int_equal(job_restore_process(to, job_process(from, i)), 0);
	for (size_t i = 0; i < job_event_count(from); i++)
		framebuf_event(&buf, job_event(from, i));
	frame = framebuf_frame(&buf, FRAME_USER, 0, 0);
	assert_int_equal(job_apply(to, &frame), 0);
	framebuf_done(&buf);
	for (size_t i = 0; i < job_phase_count(from); i++)
		assert_int_equal(job_restore_phase(to, job_phase(from, i)), 0);
	for (size_t i = 0; i < job_series_count(from); i++)
		assert_int_equal(job_restore_series(to, job_series(from, i)), 0);
	job_each_acc(from, restore_acc, to);
	return to;
}

static void assert_same_text(struct job *a, struct job *b)
{
	char *x = dump(a), *y = dump(b);

	assert_true(strlen(x) > 2000);
	assert_string_equal(x, y);
	free(x);
	free(y);
}

static void test_what_is_put_back_says_the_same(void **state)
{
	(void) state;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct rig r;
		struct job *copy, *again;

		rig_new(&r, true, 0);
		live_through(&r, seed);
		copy = stored_and_put_back(r.job);
		again = stored_and_put_back(copy);
		assert_same_text(r.job, copy);
		assert_same_text(r.job, again);
		job_free(copy);
		job_free(again);
		rig_done(&r);
	}
}

/* A run that is cut off. */
static void test_a_running_job_is_put_back_too(void **state)
{
	struct rig r;
	struct job *copy;

	(void) state;
	rig_new(&r, true, 0);
	born(&r, 1, 0, 77);
	for (uint32_t id = 2; id < 60; id++) {
		born(&r, id, 1, id);
		for (uint32_t k = 1; k <= id; k++)
			rss(&r, k, (int64_t) k * MB, MB);
		tick(&r);
	}
	copy = stored_and_put_back(r.job);
	assert_same_text(r.job, copy);
	assert_int_equal(job_alive(copy), job_alive(r.job));
	assert_int_equal(job_main(copy)->id, 1);
	assert_int_equal(job_now(copy), job_now(r.job));
	job_free(copy);
	rig_done(&r);
}

static void test_gpus_have_accumulators_of_their_own(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r, true, 0);
	/* GPUs have no metrics here yet; those of processes accumulate nothing. */
	assert_null(job_acc(r.job, M_PROC_RSS, 1));
	assert_int_equal(job_restore_acc(r.job, M_PROC_RSS, 1, &(struct acc) { .n = 1 }), 0);
	assert_null(job_acc(r.job, M_PROC_RSS, 1));
	rig_done(&r);
}

/* ---- aggregated windows ---------------------------------------------------------------------- */

/* A second of values of host and job, aggregated as by the recording: see frame.h. */
struct folder {
	struct job *job;
	struct reading readings[METRIC_COUNT];
	double sums[METRIC_COUNT];
	uint64_t last_ns[METRIC_COUNT], window;
};

static void fold_out(struct folder *f)
{
	struct frame frame = { .time_ns = (f->window + 1) * 1000 * MS, .source = FRAME_TOTALS };
	struct framebuf buf = { 0 };

	for (int m = 0; m < METRIC_COUNT; m++) {
		struct reading *reading = &f->readings[m];

		if (reading->n == 0)
			continue;
		if (reading->span_ns > 0)
			reading->value = (int64_t) (f->sums[m] / (double) reading->span_ns + 0.5);
		framebuf_reading(&buf, *reading);
		f->sums[m] = 0;
		*reading = (struct reading) { 0 };
	}
	frame.readings = buf.readings;
	frame.n_readings = buf.n_readings;
	assert_int_equal(job_apply(f->job, &frame), 0);
	framebuf_done(&buf);
}

static void fold_in(void *ctx, const struct frame *frame)
{
	struct folder *f = ctx;

	if (frame->time_ns / (1000 * MS) != f->window) {
		fold_out(f);
		f->window = frame->time_ns / (1000 * MS);
	}
	for (size_t i = 0; i < frame->n_readings; i++) {
		const struct reading *in = &frame->readings[i];
		struct reading *out = &f->readings[in->metric];
		const bool gauge = metrics[in->metric].kind == KIND_GAUGE;

		if (metrics[in->metric].entity == ENTITY_PROCESS)
			continue;
		if (out->n == 0)
			*out = *in;
		out->n += out->n > 0 && out->value != in->value;
		out->min = in->min < out->min && gauge ? in->min : out->min;
		out->max = in->max > out->max ? in->max : out->max;
		out->value = in->value;
		if (!gauge)
			out->min = out->max = in->value;
		if (gauge) {
			f->sums[in->metric] += (double) in->value * 100 * (double) MS;
			out->span_ns += 100 * MS;
		}
	}
}

static void assert_same_peak(const struct job *a, const struct job *b, enum metric metric)
{
	const struct acc *x = job_acc(a, metric, 0), *y = job_acc(b, metric, 0);

	assert_true(!x == !y);
	if (!x)
		return;
	assert_int_equal(x->max, y->max);
	if (metrics[metric].kind == KIND_GAUGE)
		assert_int_equal(x->min, y->min);
	else
		assert_int_equal(x->last, y->last);
}

static void test_folded_windows_give_the_same_peaks(void **state)
{
	const struct job_config config = { .page_bytes = PAGE };
	struct folder f = { .job = job_new(&config) };
	struct summary live, replayed;
	struct rig r;

	(void) state;
	assert_non_null(f.job);
	rig_new(&r, true, 0);
	r.see = fold_in;
	r.ctx = &f;
	live_through(&r, 9);
	fold_out(&f);
	for (int m = 0; m < METRIC_COUNT; m++) {
		if (metrics[m].entity == ENTITY_JOB)
			assert_same_peak(r.job, f.job, (enum metric) m);
	}
	copy_facts(job_facts(f.job), job_facts_const(r.job));
	live = summary_of(&r);
	assert_int_equal(summary_make(f.job, &replayed), 0);
	assert_int_equal(replayed.combined.peak.value, live.combined.peak.value);
	assert_int_equal(replayed.combined.low.value, live.combined.low.value);
	assert_int_equal(replayed.combined.high.value, live.combined.high.value);
	assert_int_equal(replayed.descendants.peak.value, live.descendants.peak.value);
	assert_int_equal(replayed.user_ns.value, live.user_ns.value);
	assert_int_equal(replayed.read_bytes.value, live.read_bytes.value);
	assert_within(replayed.combined.mean.value, live.combined.mean.value - live.combined.mean.value / 100,
		live.combined.mean.value + live.combined.mean.value / 100);
	summary_done(&live);
	summary_done(&replayed);
	job_free(f.job);
	rig_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_put_back_says_the_same),
		cmocka_unit_test(test_a_running_job_is_put_back_too),
		cmocka_unit_test(test_gpus_have_accumulators_of_their_own),
		cmocka_unit_test(test_folded_windows_give_the_same_peaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
