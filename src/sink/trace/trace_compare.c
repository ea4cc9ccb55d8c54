/* SPDX-License-Identifier: MIT */
#include "sink/trace/trace_compare.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/textwidth.h"
#include "record/store.h"
#include "sink/trace/trace_names.h"

enum {
	MOST_LINES = 1 << 20,
	LEAST_SHOWN = 20,
	LEAST_NAME = 20,
	GROUP_NAME = 16,
	BETWEEN = 2,
	JUDGED_NAME = 100, /* columns of a name behind a rule */
};

static const double least_share = 0.001; /* of the base's total: lines that changed by less are not shown */

struct run {
	size_t group;
	bool counts;
};

struct trace_comparison {
	const char *const *groups;
	size_t n_groups, n_runs;
	struct run *runs;
	struct trace_compared *lines;
	size_t n, cap;
	struct map places;
	bool has_kernels;
};

/* ---- collecting ------------------------------------------------------------------------------ */

struct trace_comparison *trace_comparison_new(const char *const *groups, size_t n_groups, size_t n_runs)
{
	struct trace_comparison *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->groups = groups;
	c->n_groups = n_groups;
	c->n_runs = n_runs;
	c->runs = calloc(n_runs + 1, sizeof(*c->runs));
	if (c->runs)
		return c;
	free(c);
	return NULL;
}

void trace_comparison_free(struct trace_comparison *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++) {
		free(c->lines[i].name);
		free(c->lines[i].domain);
		free(c->lines[i].totals);
		free(c->lines[i].counts);
	}
	free(c->lines);
	free(c->runs);
	map_done(&c->places);
	free(c);
}

static bool is_line(const struct trace_compared *line, const struct trace_line *of, bool is_range)
{
	return line->is_range == is_range && strcmp(line->name, of->name) == 0 &&
	       strcmp(line->domain, of->domain) == 0;
}

static struct trace_compared *line_of(struct trace_comparison *c, const struct trace_line *of, bool is_range)
{
	struct trace_compared line = { .is_range = is_range };
	uint64_t hash = store_hash(of->name) * 31 + store_hash(of->domain) + is_range;
	uint32_t at;

	for (; map_get(&c->places, hash, &at); hash++) {
		if (is_line(&c->lines[at], of, is_range))
			return &c->lines[at];
	}
	if (vec_reserve(&c->lines, &c->cap, c->n, sizeof(line), MOST_LINES) < 0 ||
		map_put(&c->places, hash, (uint32_t) c->n) < 0)
		return NULL;
	line.name = strdup(of->name);
	line.domain = strdup(of->domain);
	line.totals = calloc(c->n_runs + 1, sizeof(double));
	line.counts = calloc(c->n_runs + 1, sizeof(double));
	c->lines[c->n++] = line;
	return line.name && line.domain && line.totals && line.counts ? &c->lines[c->n - 1] : NULL;
}

static int add_table(struct trace_comparison *c, size_t run, const struct trace_table *table, bool is_range)
{
	for (size_t i = 0; i < table->n; i++) {
		const struct trace_line *of = &table->lines[i];
		struct trace_compared *line =
			of->is_instant || of->count == 0 ? NULL : line_of(c, of, is_range);

		if (!line && !of->is_instant && of->count > 0)
			return -ENOMEM;
		if (!line)
			continue;
		/* Names that differ only in how they are mangled are one line. */
		line->totals[run] += (double) of->total_ns;
		line->counts[run] += (double) of->count;
		c->has_kernels = c->has_kernels || !is_range;
	}
	return 0;
}

int trace_comparison_add(
	struct trace_comparison *c, size_t run, size_t group, bool counts, const struct trace_view *view)
{
	const struct trace_table *kernels = view->is_of_ranges ? &view->ranges : &view->table;
	const struct trace_table *ranges = view->is_of_ranges ? &view->table : &view->ranges;
	int r = add_table(c, run, kernels, false);

	c->runs[run] = (struct run) { .group = group, .counts = counts };
	return r == 0 ? add_table(c, run, ranges, true) : r;
}

/* ---- figures --------------------------------------------------------------------------------- */

static struct trace_spread spread(const struct trace_comparison *c, const double *values, size_t group)
{
	struct trace_spread s = { .n = 0 };
	double squares = 0;

	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].group == group && c->runs[i].counts) {
			s.n++;
			s.mean += values[i];
		}
	}
	if (s.n > 0)
		s.mean /= (double) s.n;
	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].group == group && c->runs[i].counts)
			squares += (values[i] - s.mean) * (values[i] - s.mean);
	}
	s.deviation = s.n > 1 ? sqrt(squares / (double) (s.n - 1)) : 0;
	return s;
}

static double figure(const struct trace_comparison *c, const struct trace_compared *line,
	enum trace_figure which, size_t group)
{
	const double total = spread(c, line->totals, group).mean, count = spread(c, line->counts, group).mean;

	if (which == TRACE_FIGURE_TOTAL)
		return total;
	if (which == TRACE_FIGURE_COUNT)
		return count;
	return count > 0 ? total / count : 0;
}

static double added(const struct trace_comparison *c, const struct trace_compared *line, size_t group)
{
	return figure(c, line, TRACE_FIGURE_TOTAL, group) - figure(c, line, TRACE_FIGURE_TOTAL, 0);
}

/* The most that a group added to the base. */
static double most_added(const struct trace_comparison *c, const struct trace_compared *line)
{
	double most = added(c, line, 1);

	for (size_t g = 2; g < c->n_groups; g++)
		most = fmax(most, added(c, line, g));
	return most;
}

struct sorted {
	struct trace_compared line;
	double added, total;
};

static int by_added(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	if (x->line.is_range != y->line.is_range)
		return x->line.is_range ? 1 : -1;
	if (x->added > y->added || x->added < y->added)
		return x->added > y->added ? -1 : 1;
	if (x->total > y->total || x->total < y->total)
		return x->total > y->total ? -1 : 1;
	return strcmp(x->line.name, y->line.name);
}

int trace_comparison_end(struct trace_comparison *c)
{
	struct sorted *sorted = calloc(c->n + 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		sorted[i] = (struct sorted) { c->lines[i], most_added(c, &c->lines[i]),
			figure(c, &c->lines[i], TRACE_FIGURE_TOTAL, 0) };
	qsort(sorted, c->n, sizeof(*sorted), by_added);
	for (size_t i = 0; i < c->n; i++)
		c->lines[i] = sorted[i].line;
	free(sorted);
	map_done(&c->places);
	return 0;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void value_text(enum trace_figure which, double value, char buf[UNITS_LEN])
{
	if (which == TRACE_FIGURE_COUNT)
		(void) units_any(value, buf);
	else
		(void) units_duration((int64_t) (value + 0.5), buf);
}

void trace_comparison_judge(const struct trace_comparison *c, const struct trace_rule *rule, size_t group,
	struct check_result *ret)
{
	struct buf clean = BUF_INIT(1 << 20), name = BUF_INIT(1 << 10);
	const struct trace_compared *worst = NULL;
	double here = 0, base = 0;
	char now[UNITS_LEN], then[UNITS_LEN];

	*ret = (struct check_result) { .kind = RESULT_INCOMPLETE, .number = (double) NAN };
	(void) snprintf(ret->text, sizeof(ret->text), "no %s matches", rule->is_range ? "range" : "kernel");
	for (size_t i = 0; i < c->n && ret->kind != RESULT_FAIL; i++) {
		const struct trace_compared *line = &c->lines[i];

		if (line->is_range != rule->is_range || !trace_rule_matches(rule, line->name, line->domain))
			continue;
		here = figure(c, line, rule->figure, group);
		base = figure(c, line, rule->figure, 0);
		ret->kind = trace_rule_holds(rule, here, base) ? RESULT_FAIL : RESULT_PASS;
		if (ret->kind == RESULT_FAIL || !worst)
			worst = line;
	}
	if (!worst)
		return;
	here = figure(c, worst, rule->figure, group);
	base = figure(c, worst, rule->figure, 0);
	ret->number = rule->figure == TRACE_FIGURE_COUNT ? here : here / 1e9;
	value_text(rule->figure, here, now);
	value_text(rule->figure, base, then);
	(void) text_clean(worst->name, false, &clean);
	(void) text_shorten(clean.data, JUDGED_NAME, false, &name);
	if (base > 0)
		(void) snprintf(ret->text, sizeof(ret->text), "%s: %s, base %s, %+.1f %%", name.data, now, then,
			(here / base - 1) * 100);
	else
		(void) snprintf(ret->text, sizeof(ret->text), "%s: %s, not in the base", name.data, now);
	buf_done(&clean);
	buf_done(&name);
}

/* ---- the table ------------------------------------------------------------------------------- */

enum column {
	ADDED,
	CHANGE,
	TOTAL_BASE,
	TOTAL,
	COUNT_BASE,
	COUNT,
	MEAN_BASE,
	MEAN,
	COLUMNS,
};

typedef char cell_text[3 * UNITS_LEN];

struct writing {
	const struct trace_comparison *c;
	const struct sink_options *options;
	size_t group;
	bool markdown;
	struct buf *out;
	cell_text heads[COLUMNS];
	unsigned width[COLUMNS];
	bool has[COLUMNS];
};

static void put_signed(double ns, char *ret, size_t size)
{
	char text[UNITS_LEN];

	(void) snprintf(
		ret, size, "%s%s", ns < 0 ? "-" : "+", units_duration((int64_t) (fabs(ns) + 0.5), text));
}

static void put_change(double here, double base, char *ret, size_t size)
{
	if (base > 0 && here > 0)
		(void) snprintf(ret, size, "%+.1f %%", (here / base - 1) * 100);
	else
		(void) snprintf(ret, size, "%s", base > 0 ? "gone" : "new");
}

static void put_spread(const struct writing *w, const double *values, size_t group, cell_text ret)
{
	const struct trace_spread s = spread(w->c, values, group);
	char mean[UNITS_LEN], deviation[UNITS_LEN];

	(void) units_duration((int64_t) (s.mean + 0.5), mean);
	(void) units_duration((int64_t) (s.deviation + 0.5), deviation);
	if (s.n > 1)
		(void) snprintf(ret, sizeof(cell_text), "%s %s %s", mean,
			w->options->utf8 ? "\xC2\xB1" : "+-", deviation);
	else
		(void) snprintf(ret, sizeof(cell_text), "%s", mean);
}

static void put_count(double count, cell_text ret)
{
	char text[TRACE_COUNT_LEN];

	if (count > 0 && count < 1e15 && fabs(count - round(count)) < 1e-9)
		(void) snprintf(
			ret, sizeof(cell_text), "%s", trace_count_text((uint64_t) round(count), text));
	else
		(void) units_any(count, ret);
}

static void fill(
	const struct writing *w, const struct trace_compared *line, enum column column, cell_text ret)
{
	const double here = figure(w->c, line, TRACE_FIGURE_TOTAL, w->group),
		     base = figure(w->c, line, TRACE_FIGURE_TOTAL, 0);
	char text[UNITS_LEN];

	switch (column) {
	case ADDED:
		put_signed(here - base, ret, sizeof(cell_text));
		return;
	case CHANGE:
		put_change(here, base, ret, sizeof(cell_text));
		return;
	case TOTAL_BASE:
		put_spread(w, line->totals, 0, ret);
		return;
	case TOTAL:
		put_spread(w, line->totals, w->group, ret);
		return;
	case COUNT_BASE:
		put_count(figure(w->c, line, TRACE_FIGURE_COUNT, 0), ret);
		return;
	case COUNT:
		put_count(figure(w->c, line, TRACE_FIGURE_COUNT, w->group), ret);
		return;
	case MEAN_BASE:
	case MEAN:
	case COLUMNS:
		(void) snprintf(ret, sizeof(cell_text), "%s",
			units_duration((int64_t) (figure(w->c, line, TRACE_FIGURE_MEAN,
							  column == MEAN ? w->group : 0) +
						  0.5),
				text));
		return;
	}
}

static bool is_shown(const struct trace_comparison *c, const struct trace_compared *line)
{
	return line->is_range != c->has_kernels;
}

/* Lines whose change is not next to nothing, and some more at the top. */
static bool has_changed(const struct writing *w, const struct trace_compared *line, double whole)
{
	return fabs(added(w->c, line, w->group)) > least_share * whole;
}

static void make_heads(struct writing *w)
{
	struct buf name = BUF_INIT(1 << 16), base = BUF_INIT(1 << 16);

	(void) text_shorten(w->c->groups[w->group], GROUP_NAME, w->options->utf8, &name);
	(void) text_shorten(w->c->groups[0], GROUP_NAME, w->options->utf8, &base);
	(void) snprintf(w->heads[ADDED], sizeof(cell_text), "Added");
	(void) snprintf(w->heads[CHANGE], sizeof(cell_text), "Change");
	(void) snprintf(w->heads[TOTAL_BASE], sizeof(cell_text), "Total: %.48s", base.data);
	(void) snprintf(w->heads[TOTAL], sizeof(cell_text), "%.48s", name.data);
	(void) snprintf(w->heads[COUNT_BASE], sizeof(cell_text), "Count: %.48s", base.data);
	(void) snprintf(w->heads[COUNT], sizeof(cell_text), "%.48s", name.data);
	(void) snprintf(w->heads[MEAN_BASE], sizeof(cell_text), "Avg: %.48s", base.data);
	(void) snprintf(w->heads[MEAN], sizeof(cell_text), "%.48s", name.data);
	buf_done(&name);
	buf_done(&base);
}

static unsigned width_of(const struct writing *w)
{
	unsigned width = 0;

	for (int i = 0; i < COLUMNS; i++)
		width += w->has[i] ? w->width[i] + BETWEEN : 0;
	return width;
}

static void choose_columns(struct writing *w, size_t shown)
{
	static const enum column dispensable[] = { COUNT_BASE, COUNT, MEAN_BASE, MEAN, TOTAL_BASE };
	cell_text text;

	for (int i = 0; i < COLUMNS; i++) {
		w->has[i] = true;
		w->width[i] = text_width(w->heads[i]);
		for (size_t k = 0, n = 0; k < w->c->n && n < shown; k++) {
			if (!is_shown(w->c, &w->c->lines[k]))
				continue;
			n++;
			fill(w, &w->c->lines[k], (enum column) i, text);
			if (text_width(text) > w->width[i])
				w->width[i] = text_width(text);
		}
	}
	for (size_t i = 0; i < sizeof(dispensable) / sizeof(dispensable[0]); i++) {
		if (w->options->width && !w->markdown && width_of(w) + LEAST_NAME > w->options->width)
			w->has[dispensable[i]] = false;
	}
}

static void put_row(struct writing *w, const struct trace_compared *line)
{
	const unsigned taken = width_of(w), width = w->options->width;
	struct buf name = BUF_INIT(1 << 20), clean = BUF_INIT(1 << 20);
	cell_text text;

	for (int i = 0; i < COLUMNS; i++) {
		if (!w->has[i])
			continue;
		if (line)
			fill(w, line, (enum column) i, text);
		else
			memcpy(text, w->heads[i], sizeof(text));
		if (w->markdown)
			(void) buf_printf(w->out, "| %s ", text);
		else
			(void) buf_printf(w->out, "%*s%s%*s", (int) (w->width[i] - text_width(text)), "",
				text, BETWEEN, "");
	}
	if (line && *line->domain)
		(void) buf_printf(&name, "%s: ", line->domain);
	(void) buf_str(&name, line ? line->name : w->c->has_kernels ? "Kernel"
								    : "Range");
	(void) text_clean(name.data, w->options->utf8, &clean);
	if (w->markdown) {
		(void) buf_str(w->out, "| ");
		for (const char *p = clean.data; *p; p++)
			(void) buf_printf(w->out, "%s%c", *p == '|' ? "\\" : "", *p);
		(void) buf_str(w->out, " |\n");
	} else {
		(void) text_shorten(clean.data, width == 0 ? 4000 : width > taken + LEAST_NAME ? width - taken
											       : LEAST_NAME,
			w->options->utf8, w->out);
		(void) buf_str(w->out, "\n");
	}
	buf_done(&name);
	buf_done(&clean);
}

/* One group compared with the base. */
static void put_group(struct writing *w)
{
	const struct trace_comparison *c = w->c;
	double whole = 0, sum = 0;
	size_t last = 0, n = 0, shown = 0;
	char total[UNITS_LEN + 1], percent[UNITS_LEN + 1], left[TRACE_COUNT_LEN];

	for (size_t i = 0; i < c->n; i++) {
		if (!is_shown(c, &c->lines[i]))
			continue;
		n++;
		whole += figure(c, &c->lines[i], TRACE_FIGURE_TOTAL, 0);
		sum += added(c, &c->lines[i], w->group);
	}
	for (size_t i = 0; i < c->n; i++) {
		if (is_shown(c, &c->lines[i]) && ++last &&
			(last <= LEAST_SHOWN || has_changed(w, &c->lines[i], whole)))
			shown = last;
	}
	make_heads(w);
	choose_columns(w, shown);
	put_row(w, NULL);
	for (int i = 0; w->markdown && i <= COLUMNS; i++)
		(void) buf_str(w->out, i < COLUMNS ? "| ---: " : "| --- |\n");
	for (size_t i = 0, k = 0; i < c->n && k < shown; i++) {
		if (!is_shown(c, &c->lines[i]))
			continue;
		k++;
		put_row(w, &c->lines[i]);
	}
	if (shown < n)
		(void) buf_printf(w->out,
			"and %s more, which changed by less than 0.1 %% of the base's total\n",
			trace_count_text(n - shown, left));
	if (!c->has_kernels) /* ranges are inside others: their sum means nothing */
		return;
	put_signed(sum, total, sizeof(total));
	put_change(whole + sum, whole, percent, sizeof(percent));
	(void) buf_printf(w->out, "%sall kernels: %s (%s)\n", w->markdown ? "\n" : "", total,
		whole > 0 || sum > 0 ? percent : "none");
}

int trace_comparison_text(
	const struct trace_comparison *c, const struct sink_options *options, bool markdown, struct buf *out)
{
	struct writing w = { .c = c, .options = options, .markdown = markdown, .out = out };

	for (w.group = 1; w.group < c->n_groups; w.group++) {
		if (w.group > 1)
			(void) buf_str(out, "\n");
		put_group(&w);
	}
	return out->error;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_values(
	struct json *j, const struct trace_comparison *c, const struct trace_compared *line, size_t group)
{
	const struct trace_spread total = spread(c, line->totals, group),
				  count = spread(c, line->counts, group);
	const double base = figure(c, line, TRACE_FIGURE_TOTAL, 0);

	json_object(j);
	json_key_int(j, "n", (int64_t) total.n);
	json_key(j, "total_s");
	json_num(j, total.mean / 1e9);
	json_key(j, "deviation_s");
	if (total.n > 1)
		json_num(j, total.deviation / 1e9);
	else
		json_null(j);
	json_key(j, "count");
	json_num(j, count.mean);
	json_key(j, "mean_s");
	if (count.mean > 0)
		json_num(j, total.mean / count.mean / 1e9);
	else
		json_null(j);
	if (group > 0) {
		json_key(j, "added_s");
		json_num(j, (total.mean - base) / 1e9);
		json_key(j, "ratio");
		if (base > 0)
			json_num(j, total.mean / base);
		else
			json_null(j);
		json_key_str(j, "state", base > 0 ? total.mean > 0 ? "both" : "gone" : "new");
	}
	json_end(j);
}

int trace_comparison_json(const struct trace_comparison *c, struct json *j)
{
	json_key_str(j, "of", c->has_kernels ? "kernel" : "range");
	json_key_array(j, "groups");
	for (size_t g = 0; g < c->n_groups; g++)
		json_str(j, c->groups[g]);
	json_end(j);
	json_key_array(j, "lines");
	for (size_t i = 0; i < c->n; i++) {
		json_object(j);
		json_key_str(j, "kind", c->lines[i].is_range ? "range" : "kernel");
		json_key_str(j, "name", c->lines[i].name);
		json_key_text(j, "domain", c->lines[i].domain);
		json_key_array(j, "groups");
		for (size_t g = 0; g < c->n_groups; g++)
			put_values(j, c, &c->lines[i], g);
		json_end(j);
		json_end(j);
	}
	json_end(j);
	return j->out->error;
}
