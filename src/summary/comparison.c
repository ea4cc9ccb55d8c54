/* SPDX-License-Identifier: MIT */
#include "summary/comparison.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/stats.h"
#include "base/units.h"
#include "summary/facts.h"

enum {
	MOST_ROWS = 1000
};

/* ---- figures of a run ------------------------------------------------------------------------------------------------- */

static struct maybe cpu_ns(const struct summary *s)
{
	return maybe_sum(s->user_ns, s->system_ns);
}

#define AT(field) offsetof(struct summary, field), NULL

/* Figures of every run, in the order of the table. */
static const struct {
	const char *key, *label;
	enum compare_unit unit;
	double by;              /* divisor of the integer in the summary */
	size_t offset;          /* of a struct maybe in the summary, */
	struct maybe (*get)(const struct summary *s); /* unless this is set */
} figures[] = {
	{ "time.wall_s", "wall", COMPARE_SECONDS, 1e9, AT(wall_ns) },
	{ "time.cpu_s", "CPU time", COMPARE_SECONDS, 1e9, 0, cpu_ns },
	{ "ram.combined.peak_bytes", "peak RAM", COMPARE_BYTES, 1, AT(combined.peak) },
	{ "ram.combined.mean_bytes", "mean RAM", COMPARE_BYTES, 1, AT(combined.mean) },
	{ "swap.peak_bytes", "peak swap", COMPARE_BYTES, 1, AT(swap_peak) },
	{ "io.read_bytes", "read", COMPARE_BYTES, 1, AT(read_bytes) },
	{ "io.write_bytes", "written", COMPARE_BYTES, 1, AT(write_bytes) },
	{ "gpu.combined.peak_bytes", "peak GPU memory", COMPARE_BYTES, 1, AT(gpu_peak) },
	{ "energy.gpu_j", "GPU energy", COMPARE_JOULES, 1e6, AT(gpu_energy_uj) },
	{ "energy.cpu_j", "CPU energy", COMPARE_JOULES, 1e6, AT(cpu_energy_uj) },
};

static struct compare_row *find_row(struct comparison *c, const char *key)
{
	for (size_t i = 0; i < c->n_rows; i++) {
		if (strcmp(c->rows[i].key, key) == 0)
			return &c->rows[i];
	}
	return NULL;
}

/* Runs that were added before the row existed have no value in it. */
static int set_value(
	struct comparison *c, const char *key, const char *label, enum compare_unit unit, double value)
{
	struct compare_row *row = find_row(c, key);
	double *grown;

	if (!row) {
		int error = vec_reserve(&c->rows, &c->cap_rows, c->n_rows, sizeof(*row), MOST_ROWS);

		if (error < 0)
			return error;
		row = &c->rows[c->n_rows++];
		*row = (struct compare_row) { .unit = unit };
		(void) snprintf(row->key, sizeof(row->key), "%s", key);
		(void) snprintf(row->label, sizeof(row->label), "%s", label);
	}
	grown = realloc(row->values, c->n_runs * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	row->values = grown;
	while (row->n < c->n_runs)
		row->values[row->n++] = (double) NAN;
	row->values[c->n_runs - 1] = value;
	return 0;
}

static int set_maybe(struct comparison *c, const char *key, const char *label, enum compare_unit unit,
	struct maybe value, double by)
{
	return value.known ? set_value(c, key, label, unit, (double) value.value / by) : 0;
}

static int add_figures(struct comparison *c, const struct summary *s)
{
	int error = 0;

	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]) && error == 0; i++) {
		struct maybe value;

		memcpy(&value, (const char *) s + figures[i].offset, sizeof(value));
		if (figures[i].get)
			value = figures[i].get(s);
		error = set_maybe(c, figures[i].key, figures[i].label, figures[i].unit, value, figures[i].by);
	}
	return error;
}

static int add_gpu(struct comparison *c, const struct summary *s, size_t number)
{
	static const struct {
		enum metric metric;
		const char *key, *label;
	} ratios[] = { { M_GPU_BUSY, "gpu_mean", "busy" },
		{ M_GPU_SM_ACTIVE, "sm_active_mean", "SM active" } };
	const struct birth *b = &job_gpu(s->job, number)->birth;
	char key[80], label[64], name[UNITS_LEN];
	int error = 0;

	for (size_t i = 0; i < sizeof(ratios) / sizeof(ratios[0]) && error == 0; i++) {
		(void) snprintf(key, sizeof(key), "gpu.devices[%zu].utilization.%s", number, ratios[i].key);
		(void) snprintf(
			label, sizeof(label), "%s %s", job_gpu_name(s->job, &b->gpu, name), ratios[i].label);
		error = set_maybe(
			c, key, label, COMPARE_RATIO, summary_mean(s, ratios[i].metric, b->id), 1e6);
	}
	return error;
}

static int add_series(struct comparison *c, const struct series *series)
{
	char key[80], label[64];

	(void) snprintf(key, sizeof(key), "series.%.60s.last", series->name);
	(void) snprintf(label, sizeof(label), "final %.50s", series->name);
	if (series->n == 0)
		return 0;
	return set_value(
		c, key, label, series_is_bytes(series->name) ? COMPARE_BYTES : COMPARE_NUMBER, series->last);
}

/* ---- facts that should be equal ------------------------------------------------------------------------------------------------ */

static const char *const alike[] = { "hosts", "CPUs", "commands", "sampling intervals", "GPUs",
	"GPU drivers" };
_Static_assert(sizeof(alike) / sizeof(alike[0]) == sizeof(((struct compare_run *) 0)->facts) / sizeof(char *),
	"a fact each");

static void add_gpu_texts(const struct summary *s, struct buf *names, struct buf *drivers)
{
	for (size_t i = 0; i < job_gpu_count(s->job); i++) {
		const struct gpu_birth *gpu = &job_gpu(s->job, i)->birth.gpu;

		if (!job_gpu_counts(s->job, &job_gpu(s->job, i)->birth))
			continue;
		if (names->len == 0)
			(void) buf_str(drivers, gpu->driver);
		(void) buf_printf(names, "%s%s", names->len ? ", " : "", gpu->name);
	}
}

static int add_facts(struct compare_run *run, const struct summary *s)
{
	const struct facts *f = s->facts;
	struct buf names = BUF_INIT(4096), drivers = BUF_INIT(256);
	char interval[UNITS_LEN] = "";

	add_gpu_texts(s, &names, &drivers);
	if (f->interval_ns.known)
		(void) units_duration(f->interval_ns.value, interval);
	const char *const texts[] = { f->host, f->cpu_model, f->command, interval, names.data, drivers.data };
	int error = 0;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		run->facts[i] = strdup(texts[i] ? texts[i] : "");
		error = run->facts[i] ? error : -ENOMEM;
	}
	buf_done(&names);
	buf_done(&drivers);
	return error;
}

bool comparison_differs(const struct comparison *c, size_t i, const char **ret_what, const char **ret_one,
	const char **ret_other)
{
	for (size_t fact = 0; fact < sizeof(alike) / sizeof(alike[0]); fact++) {
		size_t other = 1;

		while (other < c->n_runs && strcmp(c->runs[0].facts[fact], c->runs[other].facts[fact]) == 0)
			other++;
		if (other >= c->n_runs || i-- > 0)
			continue;
		*ret_what = alike[fact];
		*ret_one = c->runs[0].facts[fact];
		*ret_other = c->runs[other].facts[fact];
		return true;
	}
	return false;
}

/* ---- adding ------------------------------------------------------------------------------------------------------------- */

int comparison_group(struct comparison *c, const char *name)
{
	if (c->n_groups == COMPARE_GROUPS)
		return -E2BIG;
	c->groups[c->n_groups] = strdup(name);
	return c->groups[c->n_groups] ? (int) c->n_groups++ : -ENOMEM;
}

static void set_ending(struct compare_run *run, const struct summary *s)
{
	const struct ending end = ending_of(s);
	char name[UNITS_LEN];

	run->failed = !s->complete || ended_badly(s);
	if (!run->failed)
		return;
	if (!s->complete)
		(void) snprintf(run->how, sizeof(run->how), "no recorded end");
	else if (end.outcome == OUTCOME_SIGNAL)
		(void) snprintf(run->how, sizeof(run->how), "%.20s", figure_signal(end.signal, name));
	else
		(void) snprintf(run->how, sizeof(run->how), "exit %d", end.code);
}

int comparison_add(struct comparison *c, size_t group, const char *path, const struct summary *s)
{
	struct compare_run *run;
	int error = vec_reserve(&c->runs, &c->cap_runs, c->n_runs, sizeof(*run), COMPARE_RUNS);

	if (error < 0)
		return error;
	run = &c->runs[c->n_runs++];
	*run = (struct compare_run) { .group = group, .complete = s->complete, .path = strdup(path) };
	set_ending(run, s);
	error = add_facts(run, s);
	if (error == 0 && !run->path)
		error = -ENOMEM;
	if (error == 0)
		error = add_figures(c, s);
	for (size_t i = 0; i < job_gpu_count(s->job) && error == 0; i++)
		error = job_gpu_counts(s->job, &job_gpu(s->job, i)->birth) ? add_gpu(c, s, i) : 0;
	for (size_t i = 0; i < job_series_count(s->job) && error == 0; i++)
		error = add_series(c, job_series(s->job, i));
	return error;
}

void comparison_done(struct comparison *c)
{
	for (size_t i = 0; i < c->n_groups; i++)
		free(c->groups[i]);
	for (size_t i = 0; i < c->n_runs; i++) {
		free(c->runs[i].path);
		for (size_t k = 0; k < sizeof(alike) / sizeof(alike[0]); k++)
			free(c->runs[i].facts[k]);
	}
	for (size_t i = 0; i < c->n_rows; i++)
		free(c->rows[i].values);
	free(c->runs);
	free(c->rows);
	*c = (struct comparison) { 0 };
}

/* ---- comparing groups ------------------------------------------------------------------------------------------------ */

bool comparison_all_failed(const struct comparison *c, size_t group)
{
	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].group == group && !c->runs[i].failed)
			return false;
	}
	return true;
}

bool comparison_counts(const struct comparison *c, size_t run)
{
	return !c->runs[run].failed || comparison_all_failed(c, c->runs[run].group);
}

size_t comparison_runs_of(const struct comparison *c, size_t group)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_runs; i++)
		n += c->runs[i].group == group && comparison_counts(c, i);
	return n;
}

const struct compare_row *comparison_row(const struct comparison *c, const char *key)
{
	for (size_t i = 0; i < c->n_rows; i++) {
		if (strcmp(c->rows[i].key, key) == 0)
			return &c->rows[i];
	}
	return NULL;
}

/* Copies the finite values of the group into values, which has COMPARE_RUNS. Returns how many. */
static size_t known_values(
	const struct comparison *c, const struct compare_row *row, size_t group, double *values)
{
	size_t n = 0;

	for (size_t i = 0; i < row->n; i++) {
		if (c->runs[i].group == group && isfinite(row->values[i]) && comparison_counts(c, i))
			values[n++] = row->values[i];
	}
	return n;
}

static struct compare_cell cell_of(const double *values, size_t n)
{
	return n == 0 ? (struct compare_cell) { 0 }
		      : (struct compare_cell) { n, stats_mean(values, n), stats_deviation(values, n) };
}

struct compare_cell comparison_cell(const struct comparison *c, const struct compare_row *row, size_t group)
{
	double values[COMPARE_RUNS];

	return cell_of(values, known_values(c, row, group, values));
}

static double part(double deviation, double mean)
{
	return deviation / mean * (deviation / mean);
}

/* The probability of such a difference from the base by chance. */
static double chance(const struct comparison *c, const struct compare_row *row, size_t group)
{
	double values[COMPARE_RUNS]; /* enough: each run is in one group */
	const size_t n = known_values(c, row, 0, values);
	double *others = group > 0 ? values + n : values;

	return stats_mann_whitney(values, n, others, group > 0 ? known_values(c, row, group, others) : n);
}

static enum compare_order order_of(const struct comparison *c, const struct compare_row *row, size_t group)
{
	double low[2] = { INFINITY, INFINITY }, high[2] = { -INFINITY, -INFINITY };

	for (size_t i = 0; i < row->n; i++) {
		const bool is_here = c->runs[i].group == group;

		if ((!is_here && c->runs[i].group != 0) || !isfinite(row->values[i]) ||
			!comparison_counts(c, i))
			continue;
		low[is_here] = fmin(low[is_here], row->values[i]);
		high[is_here] = fmax(high[is_here], row->values[i]);
	}
	return high[1] < low[0] ? COMPARE_BELOW : low[1] > high[0] ? COMPARE_ABOVE
								   : COMPARE_OVERLAP;
}

/* The usual formula for two means (power 80 %, level 5 %, two-sided), divided by the relative
 * efficiency of the rank test for normal values, 3 / pi. */
static double runs_needed(const struct compare_cell *a, const struct compare_cell *b)
{
	static const double normal = 1.959964 + 0.841621, efficiency = 0.954930;
	const double squares = a->deviation * a->deviation + b->deviation * b->deviation;
	const double difference = a->mean - b->mean;

	return ceil(normal * normal * squares / (difference * difference) / efficiency);
}

struct compare_change comparison_change(
	const struct comparison *c, const struct compare_row *row, size_t group)
{
	const struct compare_cell base = comparison_cell(c, row, 0), here = comparison_cell(c, row, group);
	struct compare_change change = {
		.ratio = (double) NAN,
		.ratio_error = (double) NAN,
		.p = (double) NAN,
		.runs_needed = (double) NAN,
	};

	if (base.n == 0 || here.n == 0 || comparison_all_failed(c, 0) || comparison_all_failed(c, group))
		return change;
	change.difference = here.mean - base.mean;
	change.order = order_of(c, row, group);
	if (base.mean > 0 && here.mean > 0) {
		change.ratio = here.mean / base.mean;
		change.ratio_error = change.ratio *
				     sqrt(part(base.deviation, base.mean) + part(here.deviation, here.mean));
	}
	if (base.n == 1 && here.n == 1) {
		change.result = COMPARE_SINGLE;
	} else if (base.n < COMPARE_LEAST || here.n < COMPARE_LEAST) {
		change.result = COMPARE_TOO_FEW;
	} else {
		change.p = chance(c, row, group);
		change.result = change.p <= COMPARE_SAME ? COMPARE_DIFFERS : COMPARE_NO_DIFFERENCE;
		if (change.difference != 0)
			change.runs_needed = runs_needed(&base, &here);
	}
	return change;
}
