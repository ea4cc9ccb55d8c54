/* SPDX-License-Identifier: MIT
 *
 * --repeat: runs the same command several times and prints how much the runs differ.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/textwidth.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/run/run.h"
#include "cli/terminal.h"

/* One figure over the runs: Welford's running mean and sum of squared differences. */
struct spread {
	uint64_t n;
	int64_t min, max;
	double mean, squares;
};

static void spread_add(struct spread *s, struct hiw_maybe value)
{
	if (!value.known)
		return;
	const double x = (double) value.value, before = x - s->mean;

	s->min = s->n && s->min < value.value ? s->min : value.value;
	s->max = s->n && s->max > value.value ? s->max : value.value;
	s->n++;
	s->mean += before / (double) s->n;
	s->squares += before * (x - s->mean);
}

/* The sample's standard deviation. */
static double spread_deviation(const struct spread *s)
{
	return s->n > 1 ? sqrt(s->squares / (double) (s->n - 1)) : 0;
}

static struct hiw_maybe sum(struct hiw_maybe a, struct hiw_maybe b)
{
	return (struct hiw_maybe) { a.value + b.value, a.known && b.known };
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct table_column columns[] = {
	{ .head = "", .is_left = true },
	{ .head = "min", .leaves = 1 },
	{ .head = "mean" },
	{ .head = "deviation", .leaves = 3 },
	{ .head = "max", .leaves = 2 },
};

/* Adds a row of the table. write formats a value: write_duration or write_bytes. */
static void add_row(struct table *t, const char *name, const struct spread *s, enum units units,
	char *(*write)(int64_t value, enum units units, char buf[UNITS_LEN]))
{
	const int64_t values[] = { s->min, (int64_t) s->mean, (int64_t) spread_deviation(s), s->max };
	const bool is_known = s->n > 0;

	table_cell(t, name);
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		char text[UNITS_LEN];

		table_cell(t, is_known ? write(values[i], units, text) : i == 1 ? "unknown"
										: "");
	}
}

static char *write_duration(int64_t value, enum units units, char buf[UNITS_LEN])
{
	(void) units;
	return units_duration(value, buf);
}

static char *write_bytes(int64_t value, enum units units, char buf[UNITS_LEN])
{
	return units_bytes(value, units, buf);
}

/* The figures that are compared. */
struct comparison {
	uint64_t n;
	struct spread wall, cpu, peak;
};

static void print_table(const struct run_options *o, const struct comparison *c, const char *command)
{
	struct buf out = BUF_INIT(8192);
	const enum units units = (enum units) o->measure.units;
	struct table t;

	(void) buf_printf(&out, "hiwater  %" PRIu64 " runs of ", c->n);
	(void) text_clean(command, terminal_is_utf8(), &out);
	(void) buf_str(&out, "\n");
	table_init(&t, columns, sizeof(columns) / sizeof(*columns), terminal_is_utf8());
	add_row(&t, "wall", &c->wall, units, write_duration);
	add_row(&t, "CPU time", &c->cpu, units, write_duration);
	add_row(&t, "peak RAM", &c->peak, units, write_bytes);
	(void) table_put(&t, terminal_width(STDERR_FILENO, 0), &out);
	table_done(&t);
	(void) terminal_write(STDERR_FILENO, out.data, out.len, PATIENCE_END_MS);
	buf_done(&out);
}

/* ---- the runs -------------------------------------------------------------------------------- */

/* True if run i is the last one; if that is early, prints why. */
static bool is_last(const struct run_options *o, uint64_t i, const struct outcome *outcome)
{
	const bool failed = outcome->own || outcome->limited || outcome->status != 0;

	if (i + 1 == o->repeat || outcome->lack[0])
		return true;
	if (!failed && !outcome->end_requested)
		return false;
	if (!o->measure.quiet)
		complain("run %" PRIu64 " of %" PRIu64 " %s; the remaining runs are skipped", i + 1,
			o->repeat, outcome->end_requested ? "was interrupted" : "failed");
	return true;
}

void run_repeatedly(const struct run_options *options, char *const *argv, struct outcome *ret)
{
	struct run_options each = *options;
	struct comparison comparison = { 0 };

	each.measure.many = true;
	if (each.measure.summary == SUMMARY_DEFAULT)
		each.measure.summary = SUMMARY_LINE;
	for (uint64_t i = 0;; i++) {
		each.is_last = i + 1 == options->repeat;
		run_once(&each, argv, ret);
		each.measure.further = true;
		if (ret->measured) {
			comparison.n++;
			spread_add(&comparison.wall, ret->figures.wall_ns);
			spread_add(&comparison.cpu, sum(ret->figures.user_ns, ret->figures.system_ns));
			spread_add(&comparison.peak, ret->figures.combined.peak);
		}
		if (is_last(options, i, ret))
			break;
	}
	if (each.measure.summary != SUMMARY_NONE && comparison.n > 1)
		print_table(options, &comparison, argv[0]);
}
