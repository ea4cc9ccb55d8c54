/* SPDX-License-Identifier: MIT
 *
 * --repeat: the same command several times, and how much the runs differ.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/run.h"
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

/* ---- the table ---- */

/* A row, its values as text. write: units_duration or units_bytes. */
static void add_row(struct buf *out, const char *name, const struct spread *s, enum units units,
	char *(*write)(int64_t value, enum units units, char buf[UNITS_LEN]))
{
	char min[UNITS_LEN], mean[UNITS_LEN], deviation[UNITS_LEN], max[UNITS_LEN];

	if (s->n == 0) {
		(void) buf_printf(out, "%-10s%12s\n", name, "not known");
		return;
	}
	(void) buf_printf(out, "%-10s%12s%12s%12s%12s", name, write(s->min, units, min),
		write((int64_t) s->mean, units, mean), write((int64_t) spread_deviation(s), units, deviation),
		write(s->max, units, max));
	(void) buf_str(out, "\n");
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

/* What is compared over the runs. */
struct comparison {
	uint64_t n;
	struct spread wall, cpu, peak;
};

static void print_table(const struct run_options *o, const struct comparison *c, const char *command)
{
	struct buf out = BUF_INIT(8192);
	const enum units units = (enum units) o->measure.units;
	char name[256];

	(void) text_harmless(command, terminal_is_utf8(), name, sizeof(name));
	(void) buf_printf(&out, "hiwater  %" PRIu64 " runs of %s\n", c->n, name);
	(void) buf_printf(&out, "%-10s%12s%12s%12s%12s\n", "", "min", "mean", "deviation", "max");
	add_row(&out, "wall", &c->wall, units, write_duration);
	add_row(&out, "CPU time", &c->cpu, units, write_duration);
	add_row(&out, "peak RAM", &c->peak, units, write_bytes);
	(void) terminal_write(STDERR_FILENO, out.data, out.len, PATIENCE_END_MS);
	buf_done(&out);
}

/* ---- the runs ---- */

/* Says why there are no more of them. True if so. */
static bool is_last(const struct run_options *o, uint64_t i, const struct outcome *outcome)
{
	const bool failed = outcome->own || outcome->limited || outcome->status != 0;

	if (i + 1 == o->repeat)
		return true;
	if (!failed && !outcome->end_asked)
		return false;
	if (!o->measure.quiet)
		complain("run %" PRIu64 " of %" PRIu64 " %s: no further one is made", i + 1, o->repeat,
			outcome->end_asked ? "was asked to end" : "failed");
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
