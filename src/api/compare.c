/* SPDX-License-Identifier: MIT
 *
 * The public interface: comparing runs.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/handles.h"
#include "api/trace.h"
#include "api/where.h"
#include "base/cleanup.h"
#include "record/history/history.h"
#include "rules/check_result.h"
#include "rules/trace_rule.h"
#include "sink/compare/compare_runs.h"
#include "sink/trace/trace_compare.h"
#include "sink/where/where_compare.h"
#include "summary/comparison.h"

/* A recording to compare. */
struct candidate {
	char *path, *name;  /* name: of its group */
	bool is_named;      /* the run has that name; else name is the word on the command line */
};

enum subject {
	OF_RUNS,
	OF_KERNELS,
	OF_WHERE,           /* memory by function */
};

struct comparing {
	const struct hiw_compare *what;
	struct comparison comparison;
	struct candidate *candidates;
	size_t n, cap;
	struct rule *rules;
	struct trace_rule *trace_rules; /* in the place of a rule on traced work */
	struct trace_comparison *traced; /* NULL: not needed */
	struct where_comparison *touched; /* NULL: not needed */
	bool has_trace_rules, has_where_rules;
	enum subject subject;
	struct compare_heads heads;
	char *by;                     /* heads.names point into it */
	double *values[COMPARE_RUNS]; /* per run: RULE_TERMS values for each rule */
	struct err *err;
};

/* ---- which runs ------------------------------------------------------------------------------ */

static int add_candidate(struct comparing *c, const char *path, const char *name, bool is_named)
{
	struct candidate candidate = { .is_named = is_named };

	for (size_t i = 0; i < c->n; i++) {
		if (strcmp(c->candidates[i].path, path) == 0 && c->subject == OF_RUNS)
			return err_set(c->err, -EINVAL, "%s is given twice; leave one out", path);
	}
	if (vec_reserve(&c->candidates, &c->cap, c->n, sizeof(candidate), COMPARE_RUNS) < 0)
		return err_set(c->err, -EINVAL, "cannot compare more than %d runs; leave some out",
			COMPARE_RUNS);
	candidate.path = strdup(path);
	candidate.name = strdup(name);
	c->candidates[c->n++] = candidate;
	return candidate.path && candidate.name ? 0 : -ENOMEM;
}

/* May word be the name of a group? A number, last and the path of a file stand for one run. */
static bool may_be_name(const char *word)
{
	const bool is_file = strchr(word, '/') && access(word, F_OK) == 0;

	return !is_file && !isdigit((unsigned char) *word) && strncmp(word, "last", 4) != 0 &&
	       !strchr(word, ':');
}

/* Adds all finished runs of that name. Returns how many, or -errno. */
static int add_group(struct comparing *c, const char *name)
{
	struct history history = { 0 };
	int found = 0, r = history_read(&history, c->err);

	for (size_t i = 0; r == 0 && i < history.n; i++) {
		const struct history_entry *e = &history.entries[i];

		if (strcmp(e->name, name) != 0 || e->running || !e->complete)
			continue;
		r = add_candidate(c, e->path, name, true);
		found++;
	}
	history_done(&history);
	return r < 0 ? r : found;
}

static int add_one(struct comparing *c, const char *word)
{
	autofree char *path = NULL;
	struct hiw_run *run = NULL;
	struct hiw_err err = { "" };
	int r = history_find(word, &path, c->err);

	if (r == 0) {
		r = hiw_run_open(path, &run, &err);
		if (r < 0)
			(void) err_set(c->err, r, "%s", err.text);
	}
	if (r == 0) {
		const char *name = job_facts_const(run->job)->name;
		const bool is_named = name && *name;

		r = add_candidate(c, path, is_named ? name : word, is_named);
	}
	hiw_run_close(run);
	return r;
}

static size_t groups_of(const struct comparing *c)
{
	size_t groups = 0;

	for (size_t i = 0; i < c->n; i++) {
		size_t k = 0;

		while (k < i && strcmp(c->candidates[k].name, c->candidates[i].name) != 0)
			k++;
		groups += k == i;
	}
	return groups;
}

/* A run of which the words are equal is compared with itself. */
static int name_as_given(struct comparing *c, size_t i)
{
	const char *word = c->what->runs[i], *again = "";

	for (size_t k = 0; k < i; k++) {
		if (strcmp(c->what->runs[k], word) == 0)
			again = " (again)";
	}
	free(c->candidates[i].name);
	if (asprintf(&c->candidates[i].name, "%s%s", word, again) < 0)
		c->candidates[i].name = NULL;
	return c->candidates[i].name ? 0 : -ENOMEM;
}

/* Runs of one name are a group. If there is only one group, and each word is one run, each run is a
 * group of its own. */
static int find_runs(struct comparing *c)
{
	int r = 0;

	for (size_t i = 0; i < c->what->n_runs && r >= 0; i++) {
		const char *word = c->what->runs[i];

		r = may_be_name(word) ? add_group(c, word) : 0;
		if (r == 0)
			r = add_one(c, word);
	}
	if (r >= 0 && groups_of(c) == 1 && c->n == c->what->n_runs) {
		for (size_t i = 0; i < c->n && r >= 0; i++)
			r = name_as_given(c, i);
	}
	if (r >= 0 && groups_of(c) < 2)
		return err_set(c->err, -EINVAL,
			"these runs are one group; give another run or name to compare them with");
	return r < 0 ? r : 0;
}

/* ---- reading them ---------------------------------------------------------------------------- */

static int group_number(struct comparing *c, const char *name)
{
	for (size_t g = 0; g < c->comparison.n_groups; g++) {
		if (strcmp(c->comparison.groups[g], name) == 0)
			return (int) g;
	}
	const int r = comparison_group(&c->comparison, name);

	return r == -E2BIG ? err_set(c->err, -EINVAL,
				     "cannot compare more than %d groups of runs; leave some out",
				     COMPARE_GROUPS)
			   : r;
}

static int keep_values(struct comparing *c, const struct summary *s)
{
	double *values = calloc(c->what->n_rules * RULE_TERMS + 1, sizeof(*values));

	if (!values)
		return -ENOMEM;
	c->values[c->comparison.n_runs - 1] = values;
	for (size_t i = 0; i < c->what->n_rules; i++) {
		for (size_t t = 0; t < c->rules[i].n_terms; t++) {
			double *value = &values[i * RULE_TERMS + t];

			if (!compare_value(&c->rules[i], t, s, value))
				*value = (double) NAN;
		}
	}
	return 0;
}

static int read_run(struct comparing *c, const struct candidate *candidate)
{
	struct hiw_run *run = NULL;
	struct hiw_err err = { "" };
	int group = group_number(c, candidate->name);
	int r = group < 0 ? group : hiw_run_open(candidate->path, &run, &err);

	if (r < 0 && err.text[0])
		(void) err_set(c->err, r, "%s", err.text);
	if (r == 0)
		r = run_summarise(run, false);
	if (r == 0)
		r = comparison_add(&c->comparison, (size_t) group, candidate->path, &run->summary);
	if (r == 0)
		r = keep_values(c, &run->summary);
	hiw_run_close(run);
	return r;
}

/* The traced work of all runs. It is known only now which of them count. */
static int read_traces(struct comparing *c)
{
	/* A rule may name a step; else a line for each would hide the rest. */
	const struct trace_view_options options = { .no_medians = true, .folds_steps = !c->has_trace_rules };
	int r = 0;

	if (c->subject != OF_KERNELS && !c->has_trace_rules)
		return 0;
	c->traced = trace_comparison_new(
		(const char *const *) c->comparison.groups, c->comparison.n_groups, c->comparison.n_runs);
	if (!c->traced)
		return -ENOMEM;
	for (size_t i = 0; i < c->comparison.n_runs && r == 0; i++) {
		struct trace_view *view = NULL;

		r = trace_collect(c->candidates[i].path, &options, &view, c->err);
		if (r == 0)
			r = trace_comparison_add(c->traced, i, c->comparison.runs[i].group,
				comparison_counts(&c->comparison, i), view);
		trace_view_free(view);
	}
	return r == 0 ? trace_comparison_end(c->traced) : r;
}

/* Likewise the memory by function. */
static int read_touched(struct comparing *c)
{
	const struct where_view_options options = { .by = WHERE_BY_FUNCTION };
	int r = 0;

	if (c->subject != OF_WHERE && !c->has_where_rules)
		return 0;
	c->touched = where_comparison_new(
		(const char *const *) c->comparison.groups, c->comparison.n_groups, c->comparison.n_runs);
	if (!c->touched)
		return -ENOMEM;
	for (size_t i = 0; i < c->comparison.n_runs && r == 0; i++) {
		struct where_view *view = NULL;

		r = where_collect(c->candidates[i].path, &options, NULL, &view, c->err);
		if (r == 0)
			r = where_comparison_add(c->touched, i, c->comparison.runs[i].group,
				comparison_counts(&c->comparison, i), view);
		where_view_free(view);
	}
	return r == 0 ? where_comparison_end(c->touched) : r;
}

/* ---- heads ----------------------------------------------------------------------------------- */

static int read_heads(struct comparing *c)
{
	char *rest, *name;

	if (!c->what->by)
		return 0;
	rest = c->by = strdup(c->what->by);
	if (!c->by)
		return -ENOMEM;
	while ((name = strsep(&rest, ","))) {
		if (!*name)
			continue;
		if (c->heads.n == COMPARE_HEADS)
			return err_set(c->err, -EINVAL, "--by '%.80s' has too many parts; give at most %d",
				c->what->by, COMPARE_HEADS);
		c->heads.names[c->heads.n++] = name;
	}
	return c->heads.n > 0
		       ? 0
		       : err_set(c->err, -EINVAL,
				 "--by is empty; give heads for the parts of the runs' names, such as model,data");
}

/* ---- rules ----------------------------------------------------------------------------------- */

static int read_rules(struct comparing *c)
{
	c->rules = calloc(c->what->n_rules + 1, sizeof(*c->rules));
	c->trace_rules = calloc(c->what->n_rules + 1, sizeof(*c->trace_rules));
	if (!c->rules || !c->trace_rules)
		return -ENOMEM;
	for (size_t i = 0; i < c->what->n_rules; i++) {
		const bool is_trace = trace_rule_is(c->what->rules[i]);
		int r = is_trace ? trace_rule_parse(c->what->rules[i], &c->trace_rules[i], c->err)
				 : rule_parse(c->what->rules[i], RULE_COMPARE, &c->rules[i], c->err);

		if (r < 0)
			return r;
		c->has_where_rules = c->has_where_rules || (is_trace && c->trace_rules[i].is_where);
		c->has_trace_rules = c->has_trace_rules || (is_trace && !c->trace_rules[i].is_where);
	}
	return 0;
}

/* The mean over the group's runs that count; NaN if one of them has no value. */
static void means_of(const struct comparing *c, size_t rule, size_t group, double means[RULE_TERMS])
{
	const double n = (double) comparison_runs_of(&c->comparison, group);

	for (size_t t = 0; t < RULE_TERMS; t++) {
		means[t] = 0;
		for (size_t i = 0; i < c->comparison.n_runs; i++) {
			if (c->comparison.runs[i].group == group && comparison_counts(&c->comparison, i))
				means[t] += c->values[i][rule * RULE_TERMS + t] / n;
		}
	}
}

static bool is_whole(const struct comparison *c, size_t group)
{
	for (size_t i = 0; i < c->n_runs; i++) {
		if ((c->runs[i].group == group || c->runs[i].group == 0) && !c->runs[i].complete)
			return false;
	}
	return true;
}

static void judge(const struct comparing *c, size_t rule, size_t group, struct check_result *ret)
{
	double here[RULE_TERMS], base[RULE_TERMS];

	if (trace_rule_is(c->what->rules[rule]) && c->trace_rules[rule].is_where) {
		where_comparison_judge(c->touched, &c->trace_rules[rule], group, ret);
	} else if (trace_rule_is(c->what->rules[rule])) {
		trace_comparison_judge(c->traced, &c->trace_rules[rule], group, ret);
	} else {
		means_of(c, rule, 0, base);
		means_of(c, rule, group, here);
		compare_judge(&c->rules[rule], here, base, ret);
	}
	if (!is_whole(&c->comparison, group) || comparison_all_failed(&c->comparison, 0) ||
		comparison_all_failed(&c->comparison, group))
		ret->kind = RESULT_INCOMPLETE;
}

/* Calls see for each rule and each group but the base. */
static enum hiw_check_result judge_all(const struct comparing *c,
	void (*see)(void *ctx, const char *rule, const char *group, const struct check_result *v), void *ctx)
{
	bool failed = false, incomplete = false;

	for (size_t i = 0; i < c->what->n_rules; i++) {
		for (size_t g = 1; g < c->comparison.n_groups; g++) {
			struct check_result v;

			judge(c, i, g, &v);
			failed |= v.kind == RESULT_FAIL;
			incomplete |= v.kind == RESULT_INCOMPLETE;
			see(ctx, c->what->rules[i], c->comparison.groups[g], &v);
		}
	}
	return failed ? HIW_FAIL : incomplete ? HIW_INCOMPLETE
					      : HIW_PASS;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_line(void *ctx, const char *rule, const char *group, const struct check_result *v)
{
	static const char *const words[] = {
		[RESULT_PASS] = "pass", [RESULT_FAIL] = "FAIL", [RESULT_INCOMPLETE] = "?"
	};

	(void) buf_printf(ctx, "%-4s  %s: in %s %s\n", words[v->kind], rule, group, v->text);
}

static void put_object(void *ctx, const char *rule, const char *group, const struct check_result *v)
{
	static const char *const words[] = {
		[RESULT_PASS] = "pass", [RESULT_FAIL] = "fail", [RESULT_INCOMPLETE] = "incomplete"
	};
	struct json *j = ctx;

	json_object(j);
	json_key(j, "rule");
	json_str(j, rule);
	json_key(j, "group");
	json_str(j, group);
	json_key(j, "result");
	json_str(j, words[v->kind]);
	json_key(j, "text");
	json_str(j, v->text);
	json_end(j);
}

static int write_json(const struct comparing *c, struct buf *out, enum hiw_check_result *ret)
{
	struct json j;

	json_init(&j, out, false);
	json_object(&j);
	json_key(&j, "schema");
	json_int(&j, 2);
	if (c->subject == OF_KERNELS)
		(void) trace_comparison_json(c->traced, &j);
	else if (c->subject == OF_WHERE)
		(void) where_comparison_json(c->touched, &j);
	else
		(void) compare_json(&c->comparison, &c->heads, &j);
	json_key(&j, "rules");
	json_array(&j);
	*ret = judge_all(c, put_object, &j);
	json_end(&j);
	json_key(&j, "pass");
	json_bool(&j, *ret == HIW_PASS);
	json_end(&j);
	return buf_str(out, "\n");
}

static int write_all(const struct comparing *c, struct buf *out, enum hiw_check_result *ret)
{
	const struct hiw_style *style = c->what->style;
	const struct sink_options options = { .units = style ? (enum units) style->units : UNITS_IEC,
		.utf8 = style && style->utf8,
		.width = style ? style->width : 0 };
	const bool markdown = c->what->format == HIW_COMPARE_MARKDOWN;

	if (c->what->format == HIW_COMPARE_JSON)
		return write_json(c, out, ret);
	if (c->subject == OF_KERNELS)
		(void) trace_comparison_text(c->traced, &options, markdown, out);
	else if (c->subject == OF_WHERE)
		(void) where_comparison_text(c->touched, &options, markdown, out);
	else if (c->comparison.n_groups > 2 || c->heads.n > 0)
		(void) compare_table(&c->comparison, &c->heads, &options, markdown, out);
	else
		(void) compare_text(&c->comparison, &options, markdown, out);
	*ret = judge_all(c, put_line, out);
	return out->error;
}

static void comparing_done(struct comparing *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->candidates[i].path);
		free(c->candidates[i].name);
	}
	for (size_t i = 0; i < c->comparison.n_runs; i++)
		free(c->values[i]);
	for (size_t i = 0; c->rules && i < c->what->n_rules; i++)
		rule_done(&c->rules[i]);
	trace_comparison_free(c->traced); /* it borrows the names of the groups */
	where_comparison_free(c->touched);
	comparison_done(&c->comparison);
	free(c->candidates);
	free(c->rules);
	free(c->trace_rules);
	free(c->by);
	free(c);
}

static int compare(const struct hiw_compare *what, enum subject subject, char **ret, size_t *ret_len,
	enum hiw_check_result *ret_result, struct hiw_err *ret_err)
{
	struct comparing *c = calloc(1, sizeof(*c));
	struct buf out = BUF_INIT(64 << 20);
	struct err err = { "" };
	int r;

	if (!c)
		return -ENOMEM;
	c->what = what;
	c->subject = subject;
	c->err = &err;
	r = read_rules(c);
	if (r == 0)
		r = read_heads(c);
	if (r == 0)
		r = find_runs(c);
	for (size_t i = 0; r == 0 && i < c->n; i++)
		r = read_run(c, &c->candidates[i]);
	if (r == 0)
		r = read_traces(c);
	if (r == 0)
		r = read_touched(c);
	if (r == 0)
		r = write_all(c, &out, ret_result);
	if (r == 0) {
		*ret = strdup(out.data);
		*ret_len = out.len;
		r = *ret ? 0 : -ENOMEM;
	}
	buf_done(&out);
	comparing_done(c);
	return api_err(ret_err, &err, r);
}

int hiw_compare(const struct hiw_compare *what, char **ret, size_t *ret_len,
	enum hiw_check_result *ret_result, struct hiw_err *err)
{
	return compare(what, OF_RUNS, ret, ret_len, ret_result, err);
}

int hwi_compare_kernels(const struct hiw_compare *what, char **ret, size_t *ret_len,
	enum hiw_check_result *ret_result, struct hiw_err *err)
{
	return compare(what, OF_KERNELS, ret, ret_len, ret_result, err);
}

int hwi_compare_where(const struct hiw_compare *what, char **ret, size_t *ret_len,
	enum hiw_check_result *ret_result, struct hiw_err *err)
{
	return compare(what, OF_WHERE, ret, ret_len, ret_result, err);
}
