/* SPDX-License-Identifier: MIT
 *
 * Writes the changed accumulators, facts, processes, series and phases of a job. Parameters are
 * bound in the order of schema.c.
 */
#include <string.h>

#include "record/schema.h"
#include "record/store.h"

static int put_process(struct store *s, const struct process *p)
{
	sqlite3_stmt *st = store_get(s, PUT_PROCESS);

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, p->id);
	(void) sqlite3_bind_int64(st, 2, p->parent);
	(void) sqlite3_bind_int64(st, 3, p->pid);
	(void) sqlite3_bind_int64(st, 4, p->ppid);
	(void) sqlite3_bind_int64(st, 5, p->uid);
	store_bind_time(st, 6, p->start_ns);
	(void) sqlite3_bind_int64(st, 7, (int64_t) p->startstack);
	store_bind_time(st, 8, p->born_ns);
	store_bind_if(st, 9, p->ended, (int64_t) p->ended_ns);
	store_bind_text(st, 10, p->ended ? how_name(p->how) : NULL);
	store_bind_if(st, 11, p->status_known, p->status);
	(void) sqlite3_bind_int64(st, 12, p->is_main);
	store_bind_text(st, 13, p->name);
	(void) sqlite3_bind_int64(st, 14, p->rss_bytes);
	(void) sqlite3_bind_int64(st, 15, p->rss_file_bytes);
	(void) sqlite3_bind_int64(st, 16, p->peak_bytes);
	(void) sqlite3_bind_int64(st, 17, p->peak_exact);
	store_bind_if(st, 18, p->cpu_known, p->cpu_user_ns);
	store_bind_if(st, 19, p->cpu_known, p->cpu_system_ns);
	store_bind_if(st, 20, p->cpu_known, p->faults_minor);
	store_bind_if(st, 21, p->cpu_known, p->faults_waited);
	store_bind_if(st, 22, p->io_known, p->read_bytes);
	store_bind_if(st, 23, p->io_known, p->write_bytes);
	store_bind_if(st, 24, p->split_known, p->private_bytes);
	store_bind_if(st, 25, p->split_known, p->shared_bytes);
	store_bind_text(st, 26, p->command);
	store_bind_if(st, 27, p->grown_since_ns > 0, p->grown_bytes);
	store_bind_if(st, 28, p->grown_since_ns > 0, (int64_t) p->grown_since_ns);
	store_bind_if(st, 29, p->rank.known, p->rank.value);
	return store_step(s, st);
}

static bool is_same_acc(const struct acc *a, const struct acc *b)
{
	return a->n == b->n && a->min == b->min && a->max == b->max && a->max_at_ns == b->max_at_ns &&
	       a->last == b->last && a->last_at_ns == b->last_at_ns && a->hold_ns == b->hold_ns &&
	       !(a->sum < b->sum) && !(a->sum > b->sum) && a->span_ns == b->span_ns &&
	       a->unlisted_ns == b->unlisted_ns && a->rise == b->rise;
}

static int put_acc(struct store *s, const struct wire_acc *a)
{
	sqlite3_stmt *st = store_get(s, PUT_ACC);

	if (!st)
		return store_step(s, NULL);
	if (a->id == 0 && is_same_acc(&s->accs[a->metric], &a->acc))
		return 0;
	if (a->id == 0)
		s->accs[a->metric] = a->acc;
	(void) sqlite3_bind_text(st, 1, entity_name(metrics[a->metric].entity), -1, SQLITE_STATIC);
	(void) sqlite3_bind_int64(st, 2, a->id);
	(void) sqlite3_bind_text(st, 3, metrics[a->metric].name, -1, SQLITE_STATIC);
	store_bind_time(st, 4, a->acc.n);
	(void) sqlite3_bind_int64(st, 5, a->acc.min);
	(void) sqlite3_bind_int64(st, 6, a->acc.max);
	store_bind_time(st, 7, a->acc.max_at_ns);
	(void) sqlite3_bind_int64(st, 8, a->acc.last);
	store_bind_time(st, 9, a->acc.last_at_ns);
	store_bind_time(st, 10, a->acc.hold_ns);
	(void) sqlite3_bind_double(st, 11, a->acc.sum);
	store_bind_time(st, 12, a->acc.span_ns);
	store_bind_if(st, 13, a->metric == M_GPU_MEM, (int64_t) a->acc.unlisted_ns);
	store_bind_if(st, 14, acc_has_rise(a->metric), a->acc.rise);
	return store_step(s, st);
}

/* Buckets of a new width replace all earlier ones. */
static int begin_timeline(struct store *s, uint64_t span_ns)
{
	sqlite3_stmt *st;

	if (span_ns == s->timeline_span_ns)
		return 0;
	st = store_get(s, DROP_BUCKETS);
	s->timeline_span_ns = span_ns;
	return store_step(s, st);
}

static int put_bucket(struct store *s, const struct wire_bucket *b)
{
	sqlite3_stmt *st = store_get(s, PUT_BUCKET);

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_text(st, 1, entity_name(metrics[b->metric].entity), -1, SQLITE_STATIC);
	(void) sqlite3_bind_int64(st, 2, b->id);
	(void) sqlite3_bind_text(st, 3, metrics[b->metric].name, -1, SQLITE_STATIC);
	store_bind_time(st, 4, b->place * s->timeline_span_ns);
	store_bind_time(st, 5, s->timeline_span_ns);
	store_bind_time(st, 6, b->bucket.cover_ns);
	(void) sqlite3_bind_int64(st, 7, b->bucket.min);
	(void) sqlite3_bind_int64(st, 8, b->bucket.max);
	(void) sqlite3_bind_double(st, 9, b->bucket.sum);
	return store_step(s, st);
}

static void bind_minima(sqlite3_stmt *st, int place, const struct minima *minima)
{
	struct buf text = BUF_INIT(8192);

	if (minima->n > 0 && minima_write(minima, &text) == 0)
		(void) sqlite3_bind_text(st, place, text.data, (int) text.len, SQLITE_TRANSIENT);
	buf_done(&text);
}

static int put_series_state(struct store *s, const struct series *series)
{
	sqlite3_stmt *st = store_get(s, PUT_SERIES_STATE);
	const double values[] = { series->first, series->last, series->min, series->max };
	int64_t id;
	int r = st ? store_series(s, series->name, &id) : store_step(s, NULL);

	if (r < 0 || id == 0)
		return r;
	(void) sqlite3_bind_int64(st, 1, id);
	store_bind_time(st, 2, series->n);
	for (int i = 0; i < 4; i++)
		(void) sqlite3_bind_double(st, 3 + i, values[i]);
	store_bind_if(st, 7, series->has_step, series->last_step);
	(void) sqlite3_bind_double(st, 8, series->sum);
	bind_minima(st, 9, &series->minima);
	return store_step(s, st);
}

static void bind_use(sqlite3_stmt *st, const struct phase_use *u)
{
	const struct maybe values[] = { u->gpu_before, u->gpu_peak, u->gpu_after, u->work[GPU_WORK_BUSY],
		u->work[GPU_WORK_SM], u->cpu_energy_uj, u->gpu_energy_uj, u->job_peak, u->cpu_ns };

	for (int i = 0; i < (int) (sizeof(values) / sizeof(values[0])); i++)
		store_bind_if(st, 11 + i, values[i].known, values[i].value);
}

static int put_phase(struct store *s, const struct phase *p)
{
	sqlite3_stmt *st = store_get(s, PUT_PHASE);

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, p->number);
	(void) sqlite3_bind_int64(st, 2, p->parent);
	store_bind_text(st, 3, p->name);
	store_bind_time(st, 4, p->begin_ns);
	store_bind_if(st, 5, p->end_ns > 0, (int64_t) p->end_ns);
	store_bind_if(st, 6, p->ram_known, p->ram_before);
	store_bind_if(st, 7, p->ram_known, p->ram_peak);
	store_bind_if(st, 8, p->ram_known, p->ram_after);
	(void) sqlite3_bind_int64(st, 9, p->peak_exact);
	store_bind_text(st, 10, p->facts);
	bind_use(st, &p->use);
	return store_step(s, st);
}

static int put_fact(struct store *s, size_t place, const struct facts *facts)
{
	const struct fact_info *info = &fact_infos[place];
	const char *at = (const char *) facts + info->offset;
	struct maybe number = UNKNOWN;
	const char *text = NULL;
	uint64_t print;

	if (info->is_text)
		memcpy(&text, at, sizeof(text));
	else
		memcpy(&number, at, sizeof(number));
	if (strcmp(info->name, "recording") == 0)
		return 0;
	if (info->is_text)
		print = text ? store_hash(text) : 0;
	else
		print = number.known ? (uint64_t) number.value * 2 + 1 : 0;
	if (s->fact_fingerprints[place] == print)
		return 0;
	s->fact_fingerprints[place] = print;
	/* A fact that was known may have become unknown. */
	if (print == 0)
		return store_meta_text(s, info->name, NULL);
	return info->is_text ? store_meta_text(s, info->name, text)
			     : store_meta_int(s, info->name, number.value);
}

int store_totals(struct store *s, const struct wire_totals *t)
{
	int r = 0;

	for (size_t i = 0; i < fact_count && r == 0; i++)
		r = put_fact(s, i, &t->facts);
	for (size_t i = 0; i < t->n_accs && r == 0; i++)
		r = put_acc(s, &t->accs[i]);
	if (r == 0)
		r = begin_timeline(s, t->timeline_span_ns);
	for (size_t i = 0; i < t->n_buckets && r == 0; i++)
		r = put_bucket(s, &t->buckets[i]);
	for (size_t i = 0; i < t->n_processes && r == 0; i++)
		r = put_process(s, &t->processes[i]);
	for (size_t i = 0; i < t->n_series && r == 0; i++)
		r = put_series_state(s, &t->series[i]);
	for (size_t i = 0; i < t->n_phases && r == 0; i++)
		r = put_phase(s, &t->phases[i]);
	return r;
}
