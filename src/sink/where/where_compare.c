/* SPDX-License-Identifier: MIT */
#include "sink/where/where_compare.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/trace/trace_names.h"
#include "sink/where/where_sink.h"

enum {
	MOST_LINES = 1 << 21,
	JUDGED_NAME = 100,   /* columns of a name behind a rule */
	SAME_SHOWN = 5,    /* lines whose difference does not count, of the largest */
	LEAST_NAME = 24,
	GROUP_NAME = 20,
	BETWEEN = 2,
};

static const double sigmas = 2; /* a difference counts beyond so many */

struct run {
	size_t group;
	bool counts;
};

/* A function, or what is not of functions, in all runs. */
struct line {
	char *name, *library;
	bool is_part;
	double *bytes, *variances; /* of each run; 0: the run does not have it */
};

struct where_comparison {
	const char *const *groups;
	size_t n_groups, n_runs;
	struct run *runs;
	struct line *lines;
	size_t n, cap;
	struct map places;
	double *peaks;             /* of each run */
};

/* ---- collecting ------------------------------------------------------------------------------ */

struct where_comparison *where_comparison_new(const char *const *groups, size_t n_groups, size_t n_runs)
{
	struct where_comparison *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->groups = groups;
	c->n_groups = n_groups;
	c->n_runs = n_runs;
	c->runs = calloc(n_runs + 1, sizeof(*c->runs));
	c->peaks = calloc(n_runs + 1, sizeof(*c->peaks));
	if (c->runs && c->peaks)
		return c;
	where_comparison_free(c);
	return NULL;
}

static void line_done(struct line *line)
{
	free(line->name);
	free(line->library);
	free(line->bytes);
	free(line->variances);
}

void where_comparison_free(struct where_comparison *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++)
		line_done(&c->lines[i]);
	free(c->lines);
	free(c->runs);
	free(c->peaks);
	map_done(&c->places);
	free(c);
}

static uint64_t hash_of(const char *library, const char *name, uint64_t salt)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ salt * UINT64_C(0x9e3779b97f4a7c15);

	for (; *library; library++)
		hash = (hash ^ (unsigned char) *library) * UINT64_C(0x100000001b3);
	hash = (hash ^ 0x100) * UINT64_C(0x100000001b3);
	for (; *name; name++)
		hash = (hash ^ (unsigned char) *name) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 29;
}

/* Found or made; NULL: out of memory. */
static struct line *line_of(struct where_comparison *c, const char *library, const char *name, bool is_part)
{
	struct line line = { .is_part = is_part };
	uint64_t salt = 0;
	uint32_t at;

	while (map_get(&c->places, hash_of(library, name, salt), &at)) {
		if (strcmp(c->lines[at].library, library) == 0 && strcmp(c->lines[at].name, name) == 0)
			return &c->lines[at];
		salt++;
	}
	line.name = strdup(name);
	line.library = strdup(library);
	line.bytes = calloc(c->n_runs + 1, sizeof(*line.bytes));
	line.variances = calloc(c->n_runs + 1, sizeof(*line.variances));
	if (!line.name || !line.library || !line.bytes || !line.variances ||
		vec_reserve(&c->lines, &c->cap, c->n, sizeof(line), MOST_LINES) < 0 ||
		map_put(&c->places, hash_of(library, name, salt), (uint32_t) c->n) < 0) {
		line_done(&line);
		return NULL;
	}
	c->lines[c->n] = line;
	return &c->lines[c->n++];
}

int where_comparison_add(
	struct where_comparison *c, size_t run, size_t group, bool counts, const struct where_view *view)
{
	struct where_part parts[WHERE_PARTS];
	const size_t n_parts = where_parts(view, parts);
	double variance = 0;

	c->runs[run] = (struct run) { .group = group, .counts = counts };
	c->peaks[run] = (double) view->peak_bytes;
	for (size_t i = 0; i < view->n_lines; i++) {
		const struct where_line *of = &view->lines[i];
		const struct where_function *f = &view->functions[of->key];
		const char *name = f->is_named || f->is_cut ? where_function_name(view, of->key) : "[no name]";
		struct line *line = line_of(c, where_text_of(view, f->library), name, false);

		if (!line)
			return -ENOMEM;
		line->bytes[run] += (double) of->bytes;
		line->variances[run] += of->variance;
		variance += of->variance;
	}
	for (size_t i = 0; i < n_parts; i++) {
		struct line *line = line_of(c, "", parts[i].name, true);

		if (!line)
			return -ENOMEM;
		line->bytes[run] = (double) parts[i].bytes;
		/* It is the rest of what was sampled. */
		if (strcmp(parts[i].name, WHERE_UNSAMPLED) == 0)
			line->variances[run] = variance;
	}
	return 0;
}

/* ---- figures --------------------------------------------------------------------------------- */

struct figure {
	double mean, variance; /* variance: of the mean */
	size_t n;
};

/* Over the runs of a group. With several runs their own spread counts, if it is larger than that of the sampling. */
static struct figure figure_of(
	const struct where_comparison *c, const double *bytes, const double *variances, size_t group)
{
	struct figure f = { .n = 0 };
	double squares = 0;

	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].group != group || !c->runs[i].counts)
			continue;
		f.n++;
		f.mean += bytes[i];
		f.variance += variances ? variances[i] : 0;
	}
	if (f.n == 0)
		return f;
	f.mean /= (double) f.n;
	f.variance /= (double) f.n * (double) f.n;
	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].group == group && c->runs[i].counts)
			squares += (bytes[i] - f.mean) * (bytes[i] - f.mean);
	}
	if (f.n > 1)
		f.variance = fmax(f.variance, squares / (double) (f.n - 1) / (double) f.n);
	return f;
}

struct difference {
	struct figure base, here;
	double added, sigma;
	bool counts;
};

static struct difference difference_of(
	const struct where_comparison *c, const struct line *line, size_t group)
{
	struct difference d = { .base = figure_of(c, line->bytes, line->variances, 0),
		.here = figure_of(c, line->bytes, line->variances, group) };

	d.added = d.here.mean - d.base.mean;
	d.sigma = sqrt(d.base.variance + d.here.variance);
	d.counts = fabs(d.added) > sigmas * d.sigma && fabs(d.added) >= 1;
	return d;
}

/* The largest difference over the groups that counts; else how large the line is, as a negative rank. */
struct sorted {
	struct line line;
	double added, size;
};

static int by_added(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;
	int r;

	if (x->added > y->added || x->added < y->added)
		return x->added > y->added ? -1 : 1;
	if (x->size > y->size || x->size < y->size)
		return x->size > y->size ? -1 : 1;
	r = strcmp(x->line.name, y->line.name);
	return r ? r : strcmp(x->line.library, y->line.library);
}

int where_comparison_end(struct where_comparison *c)
{
	struct sorted *sorted = calloc(c->n + 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++) {
		sorted[i].line = c->lines[i];
		for (size_t g = 1; g < c->n_groups; g++) {
			const struct difference d = difference_of(c, &c->lines[i], g);

			sorted[i].added = fmax(sorted[i].added, d.counts ? fabs(d.added) : 0);
			sorted[i].size = fmax(sorted[i].size, fmax(d.base.mean, d.here.mean));
		}
	}
	qsort(sorted, c->n, sizeof(*sorted), by_added);
	for (size_t i = 0; i < c->n; i++)
		c->lines[i] = sorted[i].line;
	free(sorted);
	map_done(&c->places);
	return 0;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void bytes_text(double bytes, const struct sink_options *options, char ret[UNITS_LEN])
{
	(void) units_bytes((int64_t) (bytes + 0.5), options ? options->units : UNITS_IEC, ret);
}

void where_comparison_judge(const struct where_comparison *c, const struct trace_rule *rule, size_t group,
	struct check_result *ret)
{
	struct buf clean = BUF_INIT(1 << 20), name = BUF_INIT(1 << 10);
	const struct line *worst = NULL;
	struct difference d;
	bool is_held;
	char now[UNITS_LEN], then[UNITS_LEN];

	*ret = (struct check_result) { .kind = RESULT_INCOMPLETE, .number = (double) NAN };
	(void) snprintf(ret->text, sizeof(ret->text), "no function matches");
	for (size_t i = 0; i < c->n && ret->kind != RESULT_FAIL; i++) {
		const struct line *line = &c->lines[i];

		if (line->is_part || !trace_rule_matches(rule, line->name, ""))
			continue;
		d = difference_of(c, line, group);
		is_held = trace_rule_holds(rule, d.here.mean, d.base.mean) && (!rule->is_of_base || d.counts);
		ret->kind = is_held ? RESULT_FAIL : RESULT_PASS;
		if (ret->kind == RESULT_FAIL || !worst)
			worst = line;
	}
	if (!worst)
		return;
	d = difference_of(c, worst, group);
	ret->number = d.here.mean;
	bytes_text(d.here.mean, NULL, now);
	bytes_text(d.base.mean, NULL, then);
	(void) text_clean(worst->name, false, &clean);
	(void) text_shorten(clean.data, JUDGED_NAME, false, &name);
	if (d.base.mean > 0)
		(void) snprintf(ret->text, sizeof(ret->text), "%s: %s, base %s, %+.1f %%%s", name.data, now, then,
			(d.here.mean / d.base.mean - 1) * 100, d.counts ? "" : ", the same within +-");
	else
		(void) snprintf(ret->text, sizeof(ret->text), "%s: %s, not in the base", name.data, now);
	buf_done(&clean);
	buf_done(&name);
}

/* ---- the table ------------------------------------------------------------------------------- */

enum column {
	ADDED,
	SIGMA,
	BASE,
	HERE,
	COLUMNS,
};

typedef char cell_text[3 * UNITS_LEN];

struct writing {
	const struct where_comparison *c;
	const struct sink_options *options;
	size_t group;
	bool markdown;
	struct buf *out;
	cell_text heads[COLUMNS];
	unsigned width[COLUMNS];
};

static void fill(const struct writing *w, const struct line *line, enum column column, cell_text ret)
{
	const struct difference d = difference_of(w->c, line, w->group);
	char text[UNITS_LEN];

	if (column == ADDED && !d.counts) {
		(void) snprintf(ret, sizeof(cell_text), "same");
	} else if (column == ADDED) {
		bytes_text(fabs(d.added), w->options, text);
		(void) snprintf(ret, sizeof(cell_text), "%s%s", d.added < 0 ? "-" : "+", text);
	} else if (column == SIGMA && !(d.sigma > 0)) {
		(void) snprintf(ret, sizeof(cell_text), "-");
	} else {
		bytes_text(column == SIGMA ? d.sigma : column == BASE ? d.base.mean
								      : d.here.mean,
			w->options, text);
		(void) snprintf(ret, sizeof(cell_text), "%s", text);
	}
}

static void put_name(struct writing *w, const char *name, const char *library, unsigned room)
{
	struct buf whole = BUF_INIT(1 << 20), clean = BUF_INIT(1 << 20);

	(void) buf_str(&whole, name);
	if (*library)
		(void) buf_printf(&whole, "  %s", library);
	(void) text_clean(whole.data, w->options->utf8, &clean);
	if (w->markdown) {
		for (const char *p = clean.data; *p; p++)
			(void) buf_printf(w->out, "%s%c", *p == '|' ? "\\" : "", *p);
	} else {
		(void) text_shorten(clean.data, room, w->options->utf8, w->out);
	}
	buf_done(&whole);
	buf_done(&clean);
}

static void put_row(struct writing *w, const struct line *line)
{
	const unsigned width = w->options->width;
	unsigned taken = 0;
	cell_text text;

	for (int i = 0; i < COLUMNS; i++) {
		if (line)
			fill(w, line, (enum column) i, text);
		else
			memcpy(text, w->heads[i], sizeof(text));
		if (w->markdown)
			(void) buf_printf(w->out, "| %s ", text);
		else
			(void) buf_printf(
				w->out, "%*s%s%*s", (int) (w->width[i] - text_width(text)), "", text, BETWEEN, "");
		taken += w->width[i] + BETWEEN;
	}
	(void) buf_str(w->out, w->markdown ? "| " : "");
	put_name(w, line ? line->name : "Function", line ? line->library : "",
		width == 0 ? 4000 : width > taken + LEAST_NAME ? width - taken
							       : LEAST_NAME);
	(void) buf_str(w->out, w->markdown ? " |\n" : "\n");
}

static void make_heads(struct writing *w)
{
	struct buf name = BUF_INIT(1 << 16), base = BUF_INIT(1 << 16);

	(void) text_shorten(w->c->groups[w->group], GROUP_NAME, w->options->utf8, &name);
	(void) text_shorten(w->c->groups[0], GROUP_NAME, w->options->utf8, &base);
	(void) snprintf(w->heads[ADDED], sizeof(cell_text), "Added");
	(void) snprintf(w->heads[SIGMA], sizeof(cell_text), "+-");
	(void) snprintf(w->heads[BASE], sizeof(cell_text), "RAM: %.48s", base.data);
	(void) snprintf(w->heads[HERE], sizeof(cell_text), "%.48s", name.data);
	buf_done(&name);
	buf_done(&base);
}

/* The lines that count, and the largest of the others. Returns how many there are. */
static bool is_shown(const struct writing *w, const struct line *line, size_t *same)
{
	return difference_of(w->c, line, w->group).counts || (*same)++ < SAME_SHOWN;
}

static void choose_widths(struct writing *w)
{
	size_t same = 0;
	cell_text text;

	for (int i = 0; i < COLUMNS; i++)
		w->width[i] = text_width(w->heads[i]);
	for (size_t k = 0; k < w->c->n; k++) {
		if (!is_shown(w, &w->c->lines[k], &same))
			continue;
		for (int i = 0; i < COLUMNS; i++) {
			fill(w, &w->c->lines[k], (enum column) i, text);
			if (text_width(text) > w->width[i])
				w->width[i] = text_width(text);
		}
	}
}

/* One group compared with the base. */
static void put_group(struct writing *w)
{
	const struct where_comparison *c = w->c;
	const struct figure base = figure_of(c, c->peaks, NULL, 0);
	const struct figure here = figure_of(c, c->peaks, NULL, w->group);
	char then[UNITS_LEN], now[UNITS_LEN], added[UNITS_LEN], left[TRACE_COUNT_LEN];
	size_t same = 0, n_differ = 0, hidden = 0;

	make_heads(w);
	choose_widths(w);
	put_row(w, NULL);
	for (int i = 0; w->markdown && i <= COLUMNS; i++)
		(void) buf_str(w->out, i < COLUMNS ? "| ---: " : "| --- |\n");
	for (size_t i = 0; i < c->n; i++) {
		n_differ += difference_of(c, &c->lines[i], w->group).counts;
		if (is_shown(w, &c->lines[i], &same))
			put_row(w, &c->lines[i]);
		else
			hidden++;
	}
	if (hidden > 0)
		(void) buf_printf(w->out, "%sand %s more, the same within +-\n", w->markdown ? "\n" : "",
			trace_count_text(hidden, left));
	bytes_text(base.mean, w->options, then);
	bytes_text(here.mean, w->options, now);
	bytes_text(fabs(here.mean - base.mean), w->options, added);
	(void) buf_printf(w->out, "%speak: %s, base %s (%s%s); %s\n", w->markdown ? "\n" : "", now, then,
		here.mean < base.mean ? "-" : "+", added,
		n_differ > 0 ? "a difference counts beyond two sigma (+-) of both together"
			     : "no function differs by more than two sigma (+-)");
}

int where_comparison_text(const struct where_comparison *c, const struct sink_options *options, bool markdown,
	struct buf *out)
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

static void put_number(struct json *j, const char *key, double value)
{
	json_key_int(j, key, (int64_t) llround(value));
}

static void put_values(
	struct json *j, const struct where_comparison *c, const struct line *line, size_t group)
{
	const struct difference d = difference_of(c, line, group);

	json_object(j);
	json_key_int(j, "n", (int64_t) d.here.n);
	put_number(j, "bytes", d.here.mean);
	put_number(j, "sigma_bytes", sqrt(d.here.variance));
	if (group > 0) {
		put_number(j, "added_bytes", d.added);
		put_number(j, "added_sigma_bytes", d.sigma);
		json_key(j, "ratio");
		if (d.base.mean > 0)
			json_num(j, d.here.mean / d.base.mean);
		else
			json_null(j);
		json_key_bool(j, "differs", d.counts);
	}
	json_end(j);
}

int where_comparison_json(const struct where_comparison *c, struct json *j)
{
	json_key_str(j, "of", "where");
	json_key_array(j, "groups");
	for (size_t g = 0; g < c->n_groups; g++)
		json_str(j, c->groups[g]);
	json_end(j);
	json_key_array(j, "peaks_bytes");
	for (size_t g = 0; g < c->n_groups; g++)
		json_int(j, (int64_t) llround(figure_of(c, c->peaks, NULL, g).mean));
	json_end(j);
	json_key_array(j, "lines");
	for (size_t i = 0; i < c->n; i++) {
		json_object(j);
		json_key_str(j, "kind", c->lines[i].is_part ? "part" : "function");
		json_key_str(j, "function", c->lines[i].name);
		json_key_text(j, "library", c->lines[i].library);
		json_key_array(j, "groups");
		for (size_t g = 0; g < c->n_groups; g++)
			put_values(j, c, &c->lines[i], g);
		json_end(j);
		json_end(j);
	}
	json_end(j);
	return j->out->error;
}
